"""Reports: self-contained HTML pages that need no network."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hushmeter.files import write_text


def write_page(template: str, path: Path, context: dict[str, Any], *, force: bool = False) -> None:
    """Fill one of the package's templates and write it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hushmeter.report"), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template(template).render(**context)
    write_text(path, page, force=force)


def embed_png(path: Path) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
