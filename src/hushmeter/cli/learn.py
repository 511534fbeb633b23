"""`hushmeter learn`: a home from sub-metered readings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FORCE,
    JSON,
    parse_length,
    rare_option,
    repeat_given,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table
from hushmeter.errors import InputError
from hushmeter.parts import load

if TYPE_CHECKING:
    from hushmeter.learn.homes import LearntHome, Rule
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.trace import Trace


LEARN_OPTIONS = ("time_column", "unit", "tz", "building", "start", "end")
"""Options of the reader that a data set may need."""


@takes_reader_options(*LEARN_OPTIONS)
def learn(
    context: typer.Context,
    *,
    dataset: Annotated[
        Path, typer.Argument(help="Folder or file with a column for each appliance.")
    ],
    appliance: Annotated[
        list[str] | None, typer.Option(help="Only this circuit; may be repeated.")
    ] = None,
    denoised: Annotated[
        bool | None,
        typer.Option(
            "--denoised/--real-mains",
            help="Use the sum of the sub-meters as the meter, as in the paper (default with "
            "--segment), or the metered mains.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        rare_option(help="One threshold in watts for all circuits, instead of one for each."),
    ] = None,
    min_on: Annotated[str, rare_option(help="Shortest run that counts.")] = "10s",
    min_off: Annotated[str, rare_option(help="Shortest pause that counts.")] = "10s",
    quantile: Annotated[float, rare_option(help="Quantile of the tolerance.")] = 0.99,
    segment: Annotated[
        str | None,
        typer.Option(help="Cut a home of the paper out of its data set: ukdale4, teald or redd1."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The home, as .toml; a folder with --segment.",
        ),
    ] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Learn a home from sub-metered data: powers, levels, habits, base load, tolerance.

    Writes the home and a picture of every circuit's power with its threshold (OUTPUT's name with
    .png, .svg and .csv). With --segment it learns a home of the paper, writes it with its readings
    and compares it with the paper.

    Example: hushmeter learn redd/low_freq --building 1 --denoised -o home.toml

    Example: hushmeter learn redd/low_freq --segment redd1 -o redd1
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.learn.homes import Rule, learn_home
    from hushmeter.read import read_home_recording

    unused = "" if segment is None else repeat_given(context, "appliance", *LEARN_OPTIONS)
    if unused:
        raise InputError(f"--segment has no use for{unused}: leave it out.")
    rule = Rule(
        threshold, parse_length("min-on", min_on), parse_length("min-off", min_off), quantile
    )
    if segment is not None:
        _learn_segment(segment, dataset, rule, denoised is not False, output, force, json)
        return
    if output is None:
        raise InputError("name the file to write: -o home.toml.")
    if output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    for suffix in (".toml", ".png", ".svg", ".csv"):
        refuse_overwrite(output.with_suffix(suffix), force)
    recording = read_home_recording(dataset, options)
    learnt = learn_home(
        recording.trace,
        denoised=bool(denoised) or recording.mains != "metered",
        rule=rule,
        appliances=appliance or None,
        name=output.stem,
    )
    learnt.home.save(output, force=force)
    files = [str(output), *_draw_circuits(learnt, recording.trace, output, force)]
    if json:
        print_json({**_describe(learnt, recording), "files": files})
    else:
        _report(learnt, recording, files)


def _learn_segment(
    name: str,
    root: Path,
    rule: Rule,
    denoised: bool,
    output: Path | None,
    force: bool,
    json: bool,
) -> None:
    """Cut a segment of the paper out of a data set, learn its home, compare with the paper."""
    from hushmeter.files import refuse_overwrite
    from hushmeter.learn.segments import cut_segment, find_segment
    from hushmeter.write import write_meter

    find_segment(name)
    files: list[str] = []
    if output is not None:
        for file in ("home.toml", "readings.parquet", "home.png", "home.svg", "home.csv"):
            refuse_overwrite(output / file, force)
    result = cut_segment(name, root, rule=rule, denoised=denoised)
    if output is not None:
        result.learnt.home.save(output / "home.toml", force=force)
        write_meter(output / "readings.parquet", result.learnt.trace, force=force)
        pictures = _draw_circuits(result.learnt, result.trace, output / "home.toml", force)
        files = [str(output / "home.toml"), str(output / "readings.parquet"), *pictures]
    if json:
        facts = _describe(result.learnt, result.recording)
        print_json({"segment": name, "findings": result.findings, **facts, "files": files})
        return
    typer.echo(f"{name}: {result.recording.format}; meter: {result.learnt.mains}.")
    for sentence in (*result.findings, *result.recording.notes, *result.learnt.notes):
        typer.echo(sentence)
    print_files(files)


def _describe(learnt: LearntHome, recording: Recording) -> dict[str, Any]:
    """The result, for machines."""
    return {
        "format": recording.format,
        "mains": learnt.mains,
        "rule": str(learnt.rule),
        "readings": len(learnt.trace),
        "interval_s": learnt.trace.interval_s,
        "sparsity": learnt.sparsity,
        "tolerance_w": learnt.home.tolerance,
        "base_load_w": learnt.home.base_load,
        "circuits": list(learnt.circuits),
        "assumptions": list(learnt.home.check(learnt.trace).sentences),
        "notes": [*recording.notes, *learnt.notes],
    }


def _report(learnt: LearntHome, recording: Recording, files: list[str]) -> None:
    """Print the result, and how it differs from a flat rule."""
    from hushmeter.errors import DataError
    from hushmeter.learn.homes import FLAT_RULE, compare_rules, learn_home

    trace = recording.trace
    typer.echo(f"{recording.format}; meter: {learnt.mains}; {learnt.rule}.")
    print_table(
        f"{len(learnt.home)} appliances from {len(trace)} readings of {trace.interval_s:g} s",
        ("circuit", "on above", "mean on", "protected", "largest", "on", "runs", "longest"),
        [_row(circuit) for circuit in learnt.circuits],
    )
    typer.echo(
        f"Sparsity {learnt.sparsity:.2%}; base load {learnt.home.base_load:g} W; tolerance "
        f"{learnt.home.tolerance:g} W."
    )
    print_sentences(*learnt.home.check(learnt.trace).sentences)
    print_sentences(*recording.notes, *learnt.notes)
    if learnt.rule != FLAT_RULE:
        denoised = learnt.mains.startswith("denoised")
        names = [circuit.name for circuit in learnt.circuits]
        # No circuit may switch under the flat rule, which is no reason to fail.
        with suppress(DataError):
            flat = learn_home(trace, denoised=denoised, rule=FLAT_RULE, appliances=names)
            print_sentences(*compare_rules(learnt, flat))
    print_files(files)


def _draw_circuits(learnt: LearntHome, trace: Trace, output: Path, force: bool) -> list[str]:
    """Draw the power of every circuit with its threshold, beside the file of the home."""
    plot, pictures = (load(name, "a picture") for name in ("plot", "plot.readings"))
    assert trace.power is not None
    assert trace.names is not None
    columns = [trace.names.index(circuit.name) for circuit in learnt.circuits]
    figure, data = pictures.draw_thresholds(learnt, trace.power[:, columns])
    paths = plot.save_figure(figure, output.parent, output.stem, data, force=force)
    return [str(path) for path in paths.values()]


def _row(circuit: Any) -> list[str]:
    on = circuit.role == "appliance"
    return [
        circuit.name,
        f"{circuit.threshold:.4g} W" if on else circuit.role,
        f"{circuit.mean_on:.5g} W" if on else "",
        f"{circuit.protected_power:g} W" if on else "",
        f"{circuit.max_power:.5g} W" if on else "",
        f"{circuit.on_share:.2%}",
        str(circuit.runs),
        f"{circuit.longest_run_s / 60:.4g} min" if on else "",
    ]
