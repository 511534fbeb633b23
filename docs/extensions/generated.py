"""Parts of the book that are made from the code while it is built, so that they are never stale.

A page says where with a comment: `<!-- commands -->`, `<!-- modules -->`, `<!-- public names -->`,
`<!-- other public names -->`.
"""

from __future__ import annotations

from command_reference import describe_commands
from module_list import describe_modules
from public_names import describe_rest, list_names
from sphinx.application import Sphinx

PARTS = {
    "<!-- commands -->": describe_commands,
    "<!-- modules -->": describe_modules,
    "<!-- public names -->": list_names,
    "<!-- other public names -->": describe_rest,
}


def fill_page(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001
    """Put the generated text in the place of its comment."""
    for comment, describe in PARTS.items():
        if comment in source[0]:
            source[0] = source[0].replace(comment, describe(source[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
