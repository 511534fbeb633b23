"""Find the blocks of code in a Markdown page.

A comment directly above a block says how it is run:

| comment | meaning |
|---|---|
| `<!-- file: study.toml -->` | the block is the content of this file |
| `<!-- skip: reason -->` | the block is not run, for this reason |
| `<!-- needs: data, java -->` | the block needs the real data, a program or a module |
| `<!-- background: URL -->` | the command runs until the page ends; the test waits for URL |
| `<!-- prepare … -->` | hidden Python code that makes the files a reader would have |
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
RUN = {"python", "pycon", "console", "sh", "bash"}
SHOWN = {"csv", "html", "ini", "json", "output", "sql", "text", "toml", "xml", "yaml"}
COMMENT = re.compile(r"<!--\s*(file|skip|needs|background|prepare)\b:?\s*(.*?)\s*-->", re.DOTALL)
DIRECTIVE = re.compile(r"\{([\w-]+)\}")
NESTED = {"admonition", "dropdown", "important", "note", "tip", "warning"}


@dataclass(frozen=True)
class Block:
    """One block of code with the comments above it."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page}:{self.line}"


def read_blocks(path: Path) -> list[Block]:
    """Return every block of a page, in order."""
    return list(parse_blocks(path.read_text(encoding="utf-8"), path.name))


def parse_blocks(text: str, page: str, first_line: int = 1) -> Iterator[Block]:
    """Yield fenced, indented and hidden blocks, also those inside notes and warnings."""
    notes: dict[str, str] = {}
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = first_line + (token.map[0] if token.map else 0)
        if token.type == "html_block":
            for name, value in COMMENT.findall(token.content):
                if name == "prepare":
                    yield Block(page, line, "python", value + "\n")
                else:
                    notes[name] = value
        elif token.type == "code_block":
            yield Block(page, line, "", token.content, notes)
            notes = {}
        elif token.type == "fence":
            info = token.info.strip()
            directive = DIRECTIVE.match(info)
            if directive is None:
                yield Block(page, line, info, token.content, notes)
            elif directive.group(1) in NESTED:
                yield from parse_blocks(token.content, page, line + 1)
            notes = {}
        elif token.type not in ("paragraph_close", "list_item_close"):
            notes = {}


def load_extension(name: str) -> Any:
    """Import a module of `docs/extensions`, as Sphinx does."""
    path = ROOT / "docs" / "extensions" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> list[Path]:
    """Return the README, CONTRIBUTING.md and all pages of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
