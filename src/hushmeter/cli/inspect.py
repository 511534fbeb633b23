"""`hushmeter inspect`: what the readings of one meter show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    FIGURE,
    FORCE,
    JSON,
    rare_option,
    repeat_options,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_list, print_sentences
from hushmeter.errors import InputError
from hushmeter.parts import load

if TYPE_CHECKING:
    from hushmeter.learn.inspection import Inspection
    from hushmeter.read import ReadOptions
    from hushmeter.trace import Trace
from hushmeter.cli.learn import LEARN_OPTIONS

EXPLAIN = rare_option(help="Print which rule decided about columns, unit, zone and rows.")


REDACT = rare_option(help="Write a sample without identities and with scaled values to -o.")


@takes_reader_options()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Any file of readings, a data set's folder, or -."),
    ],
    options: ReadOptions,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    explain: Annotated[bool, EXPLAIN] = False,
    redact: Annotated[bool, REDACT] = False,
) -> None:
    """Print what a file of readings holds and what it shows about the home.

    The findings come from the readings alone: base load, absences, daily rhythm, kinds of loads.
    With -o, a figure shows every hour of every day, a typical day and the clearest events.
    A release is read with its receipt: the findings are those of somebody who knows its noise.
    If a file is misread, report it with what --explain prints and with the sample of --redact.

    Example: hushmeter inspect meter.xml.gz -o picture
    """
    from hushmeter.files import receipt_path
    from hushmeter.learn.inspection import inspect_recording, sentences
    from hushmeter.read import read_home_recording

    if explain or redact:
        _explain_file(file, options, None if not redact else output or Path("sample.csv"), force)
        return
    if receipt_path(file).exists():
        _inspect_release(file, options.tz, output, json)
        return
    if output is not None:
        _refuse_overwrite(output, force)
    recording = read_home_recording(file, options, need_circuits=file.is_dir())
    found = inspect_recording(recording, tz=options.tz)
    pictures = [] if output is None else _draw_readings(found, file, output, force)
    if json:
        print_json({**found.to_dict(), "files": pictures})
        return
    print_sentences(*sentences(found))
    shown = found.findings
    if shown.findings:
        print_list("What these readings show:", [one.sentence for one in shown.findings])
    print_sentences(*shown.notes, *shown.withheld, *recording.remarks)
    print_files(pictures)
    print_sentences(f"Next: {_next(file, options, found.recording.trace)}")


def _inspect_release(place: Path, tz: str | None, output: Path | None, json: bool) -> None:
    """Print what a release shows to somebody who has it and its public receipt."""
    from hushmeter.threat import likely_findings, read_for_attack, released_findings

    if output is not None:
        raise InputError("-o draws metered readings; leave it out for a release.")
    release = read_for_attack(place)
    shown = released_findings(release, tz=tz)
    clear = [one.sentence for one in shown.findings]
    # A home may have several loads that return, of which some are clear.
    known = {one.kind for one in shown.findings} - {"returns", "change"}
    likely = [
        one
        for one in likely_findings(release, tz=tz)
        if one.kind not in known and one.sentence not in clear
    ]
    if json:
        found = shown.to_dict()
        print_json({**found, "likely": [one.to_dict() for one in likely], "release": str(place)})
        return
    typer.echo(str(release.receipt))
    if clear:
        print_list("What this release shows to somebody who knows its noise:", clear)
    if likely:
        print_list("Most likely, but less certain:", [one.sentence for one in likely])
    print_sentences(*shown.notes, *shown.withheld)


def _explain_file(file: Path, options: ReadOptions, sample: Path | None, force: bool) -> None:
    """Print which rule decided what, or write a sample that can be sent with a report."""
    from hushmeter.files import refuse_overwrite
    from hushmeter.read.source import explain
    from hushmeter.read.text_table import redact

    if sample is None:
        print_list(f"How {file} was read:", explain(file, options))
        return
    refuse_overwrite(sample, force)
    sample.write_text(redact(file), encoding="utf-8")
    print_files([str(sample)])
    print_sentences("Look through the sample before you send it.")


SHORT_S = 60.0
"""Longest readings in which single appliances show, and not only habits [s]."""


def _next(file: Path, options: ReadOptions, trace: Trace) -> str:
    """The next command for the file, with the same options of the reader."""
    from shlex import quote

    from hushmeter.trace import SECONDS_PER_DAY

    if trace.names:
        return f"hushmeter learn {quote(str(file))} -o home.toml" + repeat_options(
            options, LEARN_OPTIONS
        )
    name, given = quote(str(file)), repeat_options(options)
    if trace.interval_s <= SHORT_S or len(trace) * trace.interval_s < SECONDS_PER_DAY:
        return f"hushmeter advise {name} --hide kettle{given}"
    return f'hushmeter release {name} --hide "when we get up"{given} -o shared'


def _refuse_overwrite(output: Path, force: bool) -> None:
    from hushmeter.files import refuse_overwrite

    folder, name = load("plot", "a picture").figure_place(output, "trace")
    for suffix in ("png", "svg", "csv"):
        refuse_overwrite(folder / f"{name}.{suffix}", force)


def _draw_readings(found: Inspection, file: Path, output: Path, force: bool) -> list[str]:
    """Draw days and hours with the findings marked, or a line for short or coarse readings."""
    plot, pictures = (load(name, "a picture") for name in ("plot", "plot.readings"))
    folder, name = plot.figure_place(output, "trace")
    trace = found.recording.trace
    if pictures.has_days(trace, found.findings):
        figure, data = pictures.draw_findings(trace, found.findings, file.name)
    else:
        figure, data = pictures.draw_trace(trace, file.name)
    paths = plot.save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]
