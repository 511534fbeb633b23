"""What commands print: sentences and tables for people, JSON for machines."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import typer

UNBOUND = 10_000
"""Columns of what is no terminal: a table in a file or a pipe is not cut."""


def say(*sentences: str) -> None:
    """Each sentence on a line of its own; on a terminal, broken between words."""
    for sentence in sentences:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns
            lines = textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False)
            typer.echo("\n".join(lines))
        else:
            typer.echo(sentence)


def print_json(value: Any) -> None:
    """One JSON document; NaN becomes null."""
    typer.echo(json_text(value), nl=False)


def json_text(value: Any) -> str:
    """What `print_json` prints, as text for a file."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False
) -> None:
    """A table; the first column is text, the others are numbers, or words too."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    say(title)
    table = Table(box=SIMPLE_HEAD)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if words or i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else UNBOUND
    Console(markup=False, highlight=False, width=width).print(table)


def short_times(share: float) -> str:
    """A share as times of 100, as `wording.times` says it, for a narrow column."""
    from hushmeter.formatting import out_of_100

    return out_of_100(share).replace("over ", ">")


def print_files(files: Iterable[object]) -> None:
    """One line for every file a command has written."""
    for file in files:
        typer.echo(f"Written: {file}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
