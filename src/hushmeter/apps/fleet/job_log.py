"""The log, the metrics and the exit code of a job of a utility.

A job leaves lines of JSON, metrics and an exit code for its operators (`logged_job`). Lines and
metrics hold counts and times. They never hold a reading, the name of a meter or the name of a file,
which may be that of a customer: a file is named by its number in the sorted list of the input
files.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from hushmeter.cli.options import check_format
from hushmeter.cli.output import exit_code_of
from hushmeter.errors import HushmeterError, InputError

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
        from hushmeter.apps.fleet.folders import list_files

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

        from hushmeter.files import one_sentence

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
