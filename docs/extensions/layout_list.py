"""Make the tables of known layouts and of sources for the page about formats.

The layouts come from the reader, the sources from sources.toml beside this file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hushmeter.read.headers import Layout, load_layouts

SOURCES = Path(__file__).with_name("sources.toml")
CHECKED = {"real": "a real file", "fixture": "a made-up file only"}


def read_sources() -> list[dict[str, Any]]:
    """Return the sources of sources.toml in their order."""
    sources: list[dict[str, Any]] = tomllib.loads(SOURCES.read_text(encoding="utf-8"))["source"]
    return sources


def describe_sources(page: str = "") -> str:  # noqa: ARG001
    """Return Markdown with one row per source."""
    rows = ["| source | country | must be stated | checked on |", "|---|---|---|---|"]
    for source in read_sources():
        needs = ", ".join(f"`{option}`" for option in source.get("needs", [])) or "nothing"
        cells = (source["name"], source["country"], needs, CHECKED[source["checked"]])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def describe_layouts(page: str = "") -> str:  # noqa: ARG001
    """Return Markdown with one row per source."""
    header = ("| source | country | columns | to be stated | checked on |", "|---|---|---|---|---|")
    return "\n".join([*header, *_rows(), ""])


def _rows() -> Iterator[str]:
    seen: set[str] = set()
    for layout in load_layouts():
        verified = any(other.verified for other in load_layouts() if other.format == layout.format)
        if layout.format not in seen:
            seen.add(layout.format)
            checked = "a real file" if verified else "a made-up file"
            columns = ", ".join(f"`{_escape(name)}`" for name in sorted(layout.needs))
            cells = (layout.format, layout.country, columns, _stated(layout), checked)
            yield f"| {' | '.join(cells)} |"


def _stated(layout: Layout) -> str:
    """What the file does not contain."""
    # Enedis states the unit above its header, ESB in the type of every reading.
    stated = layout.unit or "horodate" in layout.needs or "read type" in layout.needs
    missing = [] if stated else ["--unit"]
    local = layout.tz is None and not any(
        word in layout.time for word in ("unix", "moment", "horodate", "timestamp", "ts", "tijd")
    )
    if local:
        missing.append("--tz")
    return ", ".join(f"`{option}`" for option in missing) or "nothing"


def _escape(text: str) -> str:
    return re.sub(r"([|<])", r"\\\1", text)
