"""Make the table of known layouts from the layouts of the reader."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushmeter.read.layouts import LAYOUTS, Layout


def describe_layouts(page: str = "") -> str:  # noqa: ARG001
    """Return Markdown with one row per source."""
    header = ("| source | country | columns | to be stated | checked on |", "|---|---|---|---|---|")
    return "\n".join([*header, *_rows(), ""])


def _rows() -> Iterator[str]:
    seen: set[str] = set()
    for layout in LAYOUTS:
        verified = any(other.verified for other in LAYOUTS if other.format == layout.format)
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
