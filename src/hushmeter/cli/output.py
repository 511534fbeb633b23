"""What commands print: sentences and tables for people, JSON for machines, bars for long work.

Bars go to standard error, appear on a terminal only, and disappear when the work is done.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import typer

from hushmeter.errors import InputError, MissingExtraError

Item = TypeVar("Item")


OPTION = re.compile(r"`([a-z_]+)=([^`]*)`")


FILE_WIDTH = 10_000
"""Columns of a table that goes to a file or a pipe, so that no cell is cut."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code with which a command ends after an error."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return 2 if isinstance(error, InputError | MissingExtraError) else 1


def flag_of(field: str) -> str:
    """The option of a field of `ReadOptions`."""
    return {"start": "--from", "end": "--to"}.get(field, f"--{field.replace('_', '-')}")


def with_flags(sentence: str) -> str:
    """A sentence of the library in which `unit=kWh` is written as --unit kWh."""
    return OPTION.sub(lambda m: f"{flag_of(m[1])} {m[2]}".rstrip(), sentence)


def print_sentences(*sentences: str) -> None:
    """Print each sentence on a line of its own; a terminal gets line breaks between words."""
    for sentence in sentences:
        typer.echo(_folded(with_flags(sentence)))


def print_list(title: str, sentences: Iterable[str]) -> None:
    """Print a title and below it one point for each sentence; a terminal gets line breaks."""
    typer.echo(title)
    for sentence in sentences:
        typer.echo(_folded(f"- {with_flags(sentence)}", "  "))


def _folded(text: str, indent: str = "") -> str:
    """Return a text with line breaks between words if it is printed on a terminal."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def print_json(value: Any) -> None:
    """Print one JSON document; NaN becomes null, and sentences name flags as elsewhere."""
    from hushmeter.files import json_text

    typer.echo(with_flags(json_text(value)), nl=False)


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False
) -> None:
    """Print a table. The first column is text; the others are numbers, or text with `words`.

    On a narrow terminal the columns move together. If the table is still too wide, each row becomes
    a line of its own, so that no word is ever broken.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    print_sentences(title)
    body = [list(row) for row in rows]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else FILE_WIDTH
    columns = list(zip(header, *body, strict=True))
    longest = [_longest(column, whole=not words) for column in columns]
    roomy = sum(longest) + 3 * len(columns) + 1 <= width
    if not roomy and (words or sum(longest) + len(columns) + 1 > width):
        for row in body:
            pairs = zip(header[1:], row[1:], strict=True)
            cells = ", ".join(f"{name} {cell}".strip() for name, cell in pairs if cell)
            print_sentences(f"{row[0]}: {cells}")
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1) if roomy else 0, show_edge=roomy)
    for i, name in enumerate(header):
        side: Literal["left", "right"] = "left" if words or i == 0 else "right"
        table.add_column(name, justify=side, overflow="fold", min_width=longest[i])
    for row in body:
        table.add_row(*row)
    Console(markup=False, highlight=False, width=width).print(table)


def _longest(column: Sequence[str], *, whole: bool) -> int:
    """Length of the longest cell of a column, or of its longest word."""
    parts = column if whole else [word for cell in column for word in cell.split()]
    return max(map(len, parts), default=1)


def short_out_of_100(share: float) -> str:
    """A share as a number out of 100 for a narrow column: ">99.9" instead of "over 99.9"."""
    from hushmeter.formatting import out_of_100

    return out_of_100(share).replace("over ", ">")


def print_files(files: Iterable[object]) -> None:
    """Print one line for every file that a command has written."""
    for file in files:
        typer.echo(f"Written: {file}")


@contextmanager
def show_activity(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what is being done while no end is known.

    The context gives a function; call it with the text of the next step.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


def with_bar(items: Iterable[Item], text: str, *, quiet: bool = False) -> Iterator[Item]:
    """Yield the items one by one and show a bar."""
    everything = list(items)
    with progress_bar(text, quiet=quiet) as advance:
        for done, item in enumerate(everything):
            advance(done, len(everything))
            yield item


@contextmanager
def cell_progress(
    item: str, *, quiet: bool = False
) -> Iterator[Callable[[dict[str, Any], int], None]]:
    """Show a bar over the cells of a sweep.

    The context gives a function; call it with every finished cell and the number of cells left.
    """
    done = 0
    with progress_bar(item, quiet=quiet) as show:

        def advance(_: dict[str, Any], left: int) -> None:
            nonlocal done
            done += 1
            show(done, done + left)

        yield advance


@contextmanager
def progress_bar(
    text: str, *, rows: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; it shows nothing if there is no terminal.

    The context gives a function; call it with the number of things done and of all. With `rows`
    they are millions of rows, with their speed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    disable = quiet or not console.is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=disable
    ) as bar:
        task = bar.add_task(text, total=None, count="")

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, count=f"{done}/{total}")
            if rows:
                speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
                pace = f", {speed / 1e6:.3g} M/s" if speed else ""
                bar.update(task, count=f"{done / 1e6:.4g} of {total / 1e6:.4g} M rows{pace}")

        yield advance
