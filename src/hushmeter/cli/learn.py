"""`hushmeter learn`: a home from sub-metered readings, or types of appliances from many."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FORCE,
    JSON,
    PARAMETER,
    as_rare,
    parse_length,
    rare_option,
    read_parameters,
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
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET…",
            help="Folder or file with a column for each appliance; several with --population.",
        ),
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
    population: Annotated[
        bool, typer.Option("--population", help="Learn types of appliances from several homes.")
    ] = False,
    parameter: Annotated[list[str] | None, as_rare(PARAMETER)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The home, as .toml; a folder with --segment; .npz with --population.",
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

    With --population it learns types of appliances from sub-metered homes, for the semi-blind
    attacker of homes without sub-meters. A circuit has a type if its name contains the name of the
    type, such as kettle (on above 500 W), microwave (200 W), fridge (50 W), dishwasher or washing
    machine (30 W, and pauses of up to 15 min belong to a run); the guide to the attackers lists all
    types. The readings must have an interval of at most one minute. Days on which the meter reports
    a single value are left out. The training takes one to two minutes for each home, up to five.

    Example: hushmeter learn redd/low_freq --building 1 --denoised -o home.toml

    Example: hushmeter learn redd/low_freq --segment redd1 -o redd1

    Example: hushmeter learn redd/house1 ukdale/house2 --population -o population.npz
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.learn.homes import Rule, learn_home
    from hushmeter.read import read_home_recording

    _refuse_unused(context, population, segment)
    rule = Rule(
        threshold, parse_length("min-on", min_on), parse_length("min-off", min_off), quantile
    )
    if len(datasets) > 1 and not population:
        raise InputError("a home is learnt from one data set; several need --population.")
    if segment is not None:
        _learn_segment(segment, datasets[0], rule, denoised is not False, output, force, json)
        return
    if output is None:
        raise InputError("name the file to write: -o home.toml, or -o population.npz.")
    if population:
        _learn_population(datasets, parameter or [], output, force, json, options)
        return
    if output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    for suffix in (".toml", ".png", ".svg", ".csv"):
        refuse_overwrite(output.with_suffix(suffix), force)
    recording = read_home_recording(datasets[0], options)
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


def _refuse_unused(context: typer.Context, population: bool, segment: str | None) -> None:
    """Refuse options that have no use for what is learnt."""
    rule = ("denoised", "threshold", "min_on", "min_off", "quantile")
    if population:
        unused = repeat_given(context, "appliance", "start", "end", *rule, "segment")
        wanted = "--population"
    elif segment is not None:
        unused = repeat_given(context, "appliance", "parameter", *LEARN_OPTIONS)
        wanted = "--segment"
    else:
        unused, wanted = repeat_given(context, "parameter"), "a home"
    if unused:
        raise InputError(f"{wanted} has no use for{unused}: leave it out.")


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


def _learn_population(
    datasets: list[Path],
    parameter: list[str],
    output: Path,
    force: bool,
    json: bool,
    options: ReadOptions,
) -> None:
    """Learn types of appliances from sub-metered homes, to attack homes without sub-meters."""
    from hushmeter.files import refuse_overwrite
    from hushmeter.read import read_home_recording

    semi_blind = load("nilm.semi_blind", "--population")
    values = read_parameters(parameter, semi_blind.SemiBlind)
    refuse_overwrite(output, force)
    traces = [read_home_recording(dataset, options).trace for dataset in datasets]
    shown = sys.stderr.isatty() and not json
    learnt = semi_blind.learn_population(traces, **{"progress": shown, **values})
    learnt.save(output, force=force)
    columns = (learnt.types_, learnt.homes_, learnt.powers_, learnt.thresholds_)
    found = list(zip(*columns, strict=True))
    if json:
        keys = ("type", "homes", "mean_on_w", "threshold")
        rows = [dict(zip(keys, row, strict=True)) for row in found]
        print_json({"types": rows, "files": [output]})
        return
    cells = [(name, f"{homes}", f"{power:.0f} W", f"{p:.1f}") for name, homes, power, p in found]
    header = ("type", "homes", "mean power", "on above probability")
    print_table(f"Population of {len(traces)} homes", header, cells)
    print_files([str(output)])


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
