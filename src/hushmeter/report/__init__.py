"""Reports: self-contained HTML pages that need no network.

`results` finds what the other commands wrote; `sections` prepares it for each kind of reader;
`page` fills the templates, one for each section; `demo` makes a first report from a synthetic day.
"""

# The names by which answers saved as JSON are recognised; receipts have a schema of their own.
BATTERY, PRICE = "hushmeter-battery-1", "hushmeter-price-1"
ADVICE, DAY, GUESS = "hushmeter-advice-1", "hushmeter-day-1", "hushmeter-guess-1"
