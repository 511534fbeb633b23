"""Make the list of modules from the first lines of their docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hushmeter"


def describe_modules(page: str = "") -> str:  # noqa: ARG001
    """Return Markdown with a table per package, the modules beside the packages first."""
    return "\n".join(line for package in _packages() for line in _table(package))


def first_line(module: Path) -> str:
    """Return the first paragraph of a module's docstring as one line; empty without a docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").strip()


def _packages() -> Iterator[Path]:
    yield SOURCE
    yield from sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def _table(package: Path) -> Iterator[str]:
    name = "hushmeter" if package == SOURCE else f"{package.relative_to(SOURCE).as_posix()}/"
    modules = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
    yield from (f"### {name}", "", _escape(first_line(package / "__init__.py")), "")
    if modules:
        yield from ("| module | what it is |", "|---|---|")
        yield from (f"| `{module.name}` | {_escape(first_line(module))} |" for module in modules)
    yield ""


def _escape(text: str) -> str:
    return re.sub(r"([|<])", r"\\\1", text)
