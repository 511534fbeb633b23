"""Reports: self-contained HTML pages that need no network.

`page` finds what the other commands wrote and fills the templates, one for each section;
`sections` prepares it for each kind of reader; `demo` is a page of its own about one household.
"""
