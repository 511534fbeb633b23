"""`python docs/extensions/offline_check.py FOLDER`: fail if a page loads from another host."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

FETCHED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
STYLE = re.compile(r"@import\s+[\"']?(?:https?:)?//\S+|url\(\s*[\"']?(?:https?:)?//[^)]+\)")


class _Loads(HTMLParser):
    """Collect what a browser would load from another host to show the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "link" and values.get("rel") in ("canonical", "license", "author"):
            return
        for name in FETCHED.get(tag, ()):
            value = (values.get(name) or "").strip()
            if re.match(r"(?:https?:)?//", value):
                self.found.append(f"<{tag} {name}={value}>")
        self.found += STYLE.findall(values.get("style") or "")

    def handle_data(self, data: str) -> None:
        self.found += STYLE.findall(data) if self.lasttag == "style" else []


def remote_loads(folder: Path) -> Iterator[str]:
    """Yield one line for each remote load: the page or style sheet, and what it loads."""
    for page in sorted(folder.rglob("*.html")):
        parser = _Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        yield from (f"{page.relative_to(folder)}: {load}" for load in parser.found)
    for sheet in sorted(folder.rglob("*.css")):
        found = STYLE.findall(sheet.read_text(encoding="utf-8"))
        yield from (f"{sheet.relative_to(folder)}: {load}" for load in found)


if __name__ == "__main__":
    loads = list(remote_loads(Path(sys.argv[1])))
    if loads:
        sys.exit("these pages load from other hosts:\n" + "\n".join(loads))
