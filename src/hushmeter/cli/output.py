"""What commands print: sentences and tables for people, JSON for machines, bars for long work.

Bars go to standard error, appear on a terminal only, and disappear when the work is done.

A job of a utility leaves lines of JSON, metrics and an exit code for its operators (`logged_job`).
Lines and metrics hold counts and times. They never hold a reading, the name of a meter or the name
of a file, which may be that of a customer: a file is named by its number in the sorted list of the
input files.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import typer

from hushmeter.errors import HushmeterError, InputError, MissingExtraError
from hushmeter.files import one_sentence

Item = TypeVar("Item")

OPTION = re.compile(r"`([a-z_]+)=([^`]*)`")
FILE_WIDTH = 10_000
"""Columns of a table that goes to a file or a pipe, so that no cell is cut."""


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


FORMATS = ("text", "json")
INTERRUPTED = 130
GAUGES = {
    "exit_code": "Exit code of the last run.",
    "start_time_seconds": "Start of the last run in seconds since 1970.",
    "end_time_seconds": "End of the last run in seconds since 1970.",
    "duration_seconds": "Duration of the last run.",
    "files": "Files of the last run by what became of them.",
    "readings": "Readings of the last run by what became of them.",
    "periods": "Days or months of single meters in the last run by what became of them.",
    "charged_epsilon": "Privacy loss that the ledger charged for each meter and period.",
}
"""Metrics and what they mean; each name begins with hushmeter_job_."""
# A quoted text, the word after "meter", and a word with a digit may name a meter or a reading.
_FIRST_MARK, _MOST_MARKS = 0xE000, 6000
_NAMING = re.compile(r"'[^']*'|“[^”]*”|\"[^\"]*\"|(?<=\bmeter )\S+|\S*\d\S*")


def exit_code_of(error: BaseException) -> int:
    """Return the exit code with which a command ends after an error."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return 2 if isinstance(error, InputError | MissingExtraError) else 1


def check_format(log_format: str) -> None:
    """Raise `InputError` unless a log format is "text" or "json"."""
    if log_format not in FORMATS:
        raise InputError(f"log-format must be text or json, got {log_format!r}.")


def without_names(sentence: str) -> str:
    """Return a sentence without the words that may name a meter, a file or a reading."""
    return _NAMING.sub("…", sentence)


def number_names(sentence: str, names: Sequence[str]) -> str:
    """Return a sentence in which names are replaced by their numbers, without other names."""
    # A mark has neither digits nor spaces, so that `without_names` does not remove it.
    marks = {name: chr(_FIRST_MARK + min(i, _MOST_MARKS)) for i, name in enumerate(names)}
    for name in sorted(marks, key=len, reverse=True):
        sentence = sentence.replace(name, marks[name])
    return re.sub(
        f"\\S*([{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MOST_MARKS)}])\\S*",
        lambda found: f"file {ord(found[1]) - _FIRST_MARK + 1}",
        without_names(sentence),
    )


class JobLog:
    """The log of one job."""

    def __init__(self, command: str, log_format: str) -> None:
        check_format(log_format)
        self.is_json = log_format == "json"
        self.metrics: list[tuple[str, dict[str, str], float]] = []
        self.folders: tuple[str, ...] = ()
        self._command = command
        self._start, self._began = time.time(), time.monotonic()

    def write(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """Write one line on standard error, if the format is JSON."""
        if not self.is_json:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": now, "level": level, "command": self._command, "event": event}
        seconds = round(time.monotonic() - self._began, 3)
        text = json.dumps(line | facts | {"seconds": seconds}, ensure_ascii=False, allow_nan=False)
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def note_counts(self, facts: Mapping[str, Any]) -> None:
        """Log the counts of the manifest of a finished job, and remember them as metrics."""
        left, released = facts["quarantine"], facts["released_rows"]
        files = sum(bool(file["sha256"]) for file in facts["files"])
        states = {
            "released": (files, released, facts["released_blocks"]),
            "left_out": (left["files"], facts["rows"] - released, left["blocks"]),
        }
        for state, counts in states.items():
            for name, number in zip(("files", "readings", "periods"), counts, strict=True):
                self.metrics.append((name, {"state": state}, number))
        dry_run, epsilon = facts.get("dry_run", False), facts["charge"]["micro_epsilon"] / 1e6
        counted: dict[str, Any] = {f"{by['state']}_{name}": n for name, by, n in self.metrics}
        self.metrics.append(("charged_epsilon", {}, 0.0 if dry_run else epsilon))
        self.write("result", dry_run=dry_run, **counted, epsilon=epsilon)

    def finish(self, code: int, error: BaseException | None) -> None:
        """Log the end of the job."""
        facts: dict[str, Any] = {"exit_code": code}
        if isinstance(error, HushmeterError):
            facts |= {"error": type(error).__name__, "message": self._nameless(str(error))}
        elif error is not None and not isinstance(error, typer.Exit):
            facts["error"] = type(error).__name__
        self.write("finished", level="error" if code else "info", **facts)

    def _nameless(self, sentence: str) -> str:
        """Return a sentence without names: input files become numbers, and folders become “…”."""
        from hushmeter.fleet.folders import list_files

        names: list[str] = []
        if self.folders:
            with suppress(HushmeterError, OSError):
                names = list_files(self.folders[0])
        for folder in sorted(self.folders, key=len, reverse=True):
            sentence = sentence.replace(folder, "…")
        return number_names(sentence, names)

    def write_metrics(self, path: Path, code: int) -> None:
        """Write all metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

        values: list[tuple[str, dict[str, str], float]] = [
            ("exit_code", {}, code),
            ("start_time_seconds", {}, self._start),
            ("end_time_seconds", {}, time.time()),
            ("duration_seconds", {}, time.monotonic() - self._began),
            *self.metrics,
        ]
        registry, gauges = CollectorRegistry(), dict[str, Gauge]()
        for name, labels, value in values:
            labels = {"command": self._command, **labels}
            if name not in gauges:
                gauges[name] = Gauge(
                    f"hushmeter_job_{name}", GAUGES[name], labels, registry=registry
                )
            gauges[name].labels(**labels).set(value)
        with one_sentence(path):
            write_to_textfile(str(path), registry)


@contextmanager
def logged_job(command: str, log_format: str, metrics: Path | None) -> Iterator[JobLog]:
    """Log a job from its start to its end, and write its metrics, even if the job fails.

    With JSON, an error is logged here without the names in its sentence, and the command ends
    with its exit code.
    """
    job = JobLog(command, log_format)
    if metrics is not None and not metrics.absolute().parent.is_dir():
        raise InputError(f"the folder of the metrics file {metrics} does not exist: make it first.")
    job.write("started")
    error: BaseException | None = None
    code = 0
    try:
        yield job
    except BaseException as caught:
        error, code = caught, exit_code_of(caught)
        if job.is_json and isinstance(caught, HushmeterError):
            raise typer.Exit(code) from None
        raise
    finally:
        job.finish(code, error)
        if metrics is not None:
            job.write_metrics(metrics, code)
