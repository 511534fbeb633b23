"""`hushmeter learn`: learn a home from sub-metered data."""

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
    read_parameters,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table

if TYPE_CHECKING:
    from hushmeter.learn.homes import LearntHome
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.trace import Trace


LEARN_OPTIONS = ("time_column", "unit", "tz", "building")
"""Options of the reader that a data set may need."""


@takes_reader_options(*LEARN_OPTIONS)
def learn(
    *,
    dataset: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Folder or file with a column for each appliance."),
    ],
    appliance: Annotated[
        list[str] | None, typer.Option(help="Only this circuit; may be repeated.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="First time to use, ISO 8601.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the period, ISO 8601.")] = None,
    denoised: Annotated[
        bool,
        typer.Option(
            "--denoised", help="Use the sum of the sub-meters as the meter, as in the paper."
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="One threshold in watts for all circuits, instead of one for each."),
    ] = None,
    min_on: Annotated[str, typer.Option(help="Shortest run that counts.")] = "10s",
    min_off: Annotated[str, typer.Option(help="Shortest pause that counts.")] = "10s",
    quantile: Annotated[float, typer.Option(help="Quantile of the tolerance.")] = 0.99,
    output: Annotated[Path, typer.Option("-o", "--output", help="The home, as .toml.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Learn a home from sub-metered data: powers, levels, habits, base load, tolerance.

    Writes the home and a picture of every circuit's power with its threshold (OUTPUT's name with
    .png, .svg and .csv).

    Example: hushmeter learn redd/low_freq --building 1 --denoised -o home.toml
    """
    from hushmeter.errors import InputError
    from hushmeter.files import refuse_overwrite
    from hushmeter.learn.homes import Rule, learn_home, select_period
    from hushmeter.read import read_home_recording

    if output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    for suffix in (".toml", ".png", ".svg", ".csv"):
        refuse_overwrite(output.with_suffix(suffix), force)
    rule = Rule(threshold, _seconds("min-on", min_on), _seconds("min-off", min_off), quantile)
    recording = read_home_recording(dataset, options)
    trace = select_period(recording.trace, start, end)
    learnt = learn_home(
        trace,
        denoised=denoised or recording.mains != "metered",
        rule=rule,
        appliances=appliance or None,
        name=output.stem,
    )
    learnt.home.save(output, force=force)
    files = [str(output), *draw(learnt, trace, output, force)]
    if json:
        print_json({**describe(learnt, recording), "files": files})
    else:
        report(learnt, trace, recording, files)


@takes_reader_options(*LEARN_OPTIONS)
def learn_population(
    *,
    datasets: Annotated[
        list[Path],
        typer.Argument(metavar="DATA…", help="Folders or files of sub-metered homes."),
    ],
    parameter: Annotated[list[str] | None, PARAMETER] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The population, as .npz.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Learn types of appliances from sub-metered homes, to attack homes without sub-meters.

    A circuit has a type if its name contains the name of the type, such as kettle (on above 500 W),
    microwave (200 W), fridge (50 W), dishwasher or washing machine (30 W, and pauses of up to
    15 min belong to a run); the guide to the attackers lists all types. The readings must have an
    interval of at most one minute. Days on which the meter reports a single value are left out. The
    training takes one to two minutes for each home, up to five.

    Example: hushmeter learn-population redd/house1 ukdale/house2 -o population.npz
    """
    from hushmeter.attack.semi_blind import SemiBlind, learn_population
    from hushmeter.files import refuse_overwrite
    from hushmeter.read import read_home_recording

    values = read_parameters(parameter or (), SemiBlind)
    refuse_overwrite(output, force)
    traces = [read_home_recording(dataset, options).trace for dataset in datasets]
    shown = sys.stderr.isatty() and not json
    learnt = learn_population(traces, **{"progress": shown, **values})
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


def describe(learnt: LearntHome, recording: Recording) -> dict[str, Any]:
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


def report(learnt: LearntHome, trace: Trace, recording: Recording, files: list[str]) -> None:
    """Print the result, and how it differs from a flat rule."""
    from hushmeter.errors import DataError
    from hushmeter.learn.homes import FLAT_RULE, compare_rules, learn_home

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


def draw(learnt: LearntHome, trace: Trace, output: Path, force: bool) -> list[str]:
    """Draw the power of every circuit with its threshold, beside the file of the home."""
    from hushmeter.plot import readings as plot_readings
    from hushmeter.plot.figure import save_figure

    assert trace.power is not None
    assert trace.names is not None
    columns = [trace.names.index(circuit.name) for circuit in learnt.circuits]
    figure, data = plot_readings.draw_thresholds(learnt, trace.power[:, columns])
    paths = save_figure(figure, output.parent, output.stem, data, force=force)
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


def _seconds(name: str, text: str) -> float:
    from hushmeter.checks import seconds

    return 0.0 if text.strip() in ("0", "0s") else seconds(name, text)
