"""Reports: self-contained HTML pages that need no network.

`collect` finds what the other commands wrote, `household`, `analyst`, `paper` and `adopters` say
it to their reader in `blocks`, and `page` puts them together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushmeter.files import write_text

# What an answer saved as JSON calls itself; receipts have a schema of their own.
BATTERY, PRICE = "hushmeter-battery-1", "hushmeter-price-1"
ADVICE, DAY, GUESS = "hushmeter-advice-1", "hushmeter-day-1", "hushmeter-guess-1"


def write_page(template: str, path: Path, context: dict[str, Any], *, force: bool = False) -> None:
    """Fill one of the package's templates and write it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hushmeter.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(template).render(**context)
    write_text(path, page, force=force)
