"""One line per module, from the first line of its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hushmeter"


def describe_modules(page: str = "") -> str:  # noqa: ARG001
    """Markdown: a table per room (folder), the package's own modules first."""
    return "\n".join(line for room in _rooms() for line in _table(room))


def first_line(module: Path) -> str:
    """What a module says it is; empty if it says nothing."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").strip()


def _rooms() -> Iterator[Path]:
    yield SOURCE
    yield from sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def _table(room: Path) -> Iterator[str]:
    name = "hushmeter" if room == SOURCE else f"{room.relative_to(SOURCE).as_posix()}/"
    modules = sorted(path for path in room.glob("*.py") if path.name != "__init__.py")
    yield from (f"### {name}", "", _escape(first_line(room / "__init__.py")), "")
    if modules:
        yield from ("| module | what it is |", "|---|---|")
        yield from (f"| `{module.name}` | {_escape(first_line(module))} |" for module in modules)
    yield ""


def _escape(text: str) -> str:
    return re.sub(r"([|<])", r"\\\1", text)
