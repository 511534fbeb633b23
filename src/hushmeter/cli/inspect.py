"""`hushmeter inspect`: what a file holds and what it gives away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FIGURE, FORCE, JSON, repeat_options, takes_reader_options
from hushmeter.cli.output import print_files, print_json, print_list, print_sentences

if TYPE_CHECKING:
    from hushmeter.learn.inspection import Inspection
    from hushmeter.learn.statements import Findings
    from hushmeter.read import ReadOptions


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
) -> None:
    """Print what a file of readings holds and what it shows about the home.

    The findings come from the readings alone: base load, absences, daily rhythm, kinds of loads.
    With -o, a figure shows every hour of every day, a typical day and the clearest events.

    Example: hushmeter inspect meter.xml.gz -o picture
    """
    from hushmeter.learn.inspection import inspect_recording, sentences
    from hushmeter.read import read_home_recording

    if output is not None:
        _refuse_overwrite(output, force)
    recording = read_home_recording(file, options, need_circuits=file.is_dir())
    found = inspect_recording(recording, tz=options.tz)
    pictures = [] if output is None else _draw(found, file, output, force)
    if json:
        print_json({**found.to_dict(), "files": pictures})
        return
    print_sentences(*sentences(found))
    _print_findings(found.findings)
    print_files(pictures)
    print_sentences(f"Next: {_next(file, options, bool(found.recording.trace.names))}")


def _print_findings(found: Findings) -> None:
    """Print what the readings show, and what is not stated."""
    if found.findings:
        print_list("What these readings show:", [f.sentence for f in found.findings])
    print_sentences(*found.notes, *found.withheld)


def _next(file: Path, options: ReadOptions, sub_metered: bool) -> str:
    """The next command for the file, with the same options of the reader."""
    from shlex import quote

    from hushmeter.cli.home import LEARN_OPTIONS

    if sub_metered:
        return f"hushmeter learn {quote(str(file))} -o home.toml" + repeat_options(
            options, LEARN_OPTIONS
        )
    return f"hushmeter advise {quote(str(file))} --hide kettle" + repeat_options(options)


def _refuse_overwrite(output: Path, force: bool) -> None:
    from hushmeter.files import refuse_overwrite
    from hushmeter.plot.figure import figure_place

    folder, name = figure_place(output, "trace")
    for suffix in ("png", "svg", "csv"):
        refuse_overwrite(folder / f"{name}.{suffix}", force)


def _draw(found: Inspection, file: Path, output: Path, force: bool) -> list[str]:
    """Draw days and hours with the findings marked, or a line for short or coarse readings."""
    from hushmeter.plot.figure import figure_place, save_figure
    from hushmeter.plot.findings import draw_findings, has_days
    from hushmeter.plot.readings import draw_trace

    folder, name = figure_place(output, "trace")
    trace = found.recording.trace
    if has_days(trace, found.findings):
        figure, data = draw_findings(trace, found.findings, file.name)
    else:
        figure, data = draw_trace(trace, file.name)
    paths = save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]
