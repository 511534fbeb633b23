"""`hushmeter inspect`, `catalogue` and `learn`: what a file shows, and homes."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FIGURE,
    FORCE,
    HAVE,
    JSON,
    PARAMETER,
    as_rare,
    parse_length,
    rare_option,
    read_parameters,
    repeat_given,
    repeat_options,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_list, print_sentences, print_table
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.appliance import ApplianceKind
    from hushmeter.learn.homes import LearntHome, Rule
    from hushmeter.learn.inspection import Inspection
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.trace import Trace

HEADER = """\
# The appliances of a home. Edit the numbers that you know better, and delete what you do not have.
# power, high: usual and highest power while on [W]     run_s, run_high_s: usual and longest run [s]
# energy_wh: largest energy of one run [Wh]             use_s_per_day: longest use a day [s]
# tolerance: variation of a reading without a switch [W]
# Noise is calibrated on high, run_high_s, energy_wh and use_s_per_day.

"""

EXPLAIN = rare_option(help="Print which rule decided about columns, unit, zone and rows.")
REDACT = rare_option(help="Write a sample without identities and with scaled values to -o.")

LEARN_OPTIONS = ("time_column", "unit", "tz", "building", "start", "end")
"""Options of the reader that a data set may need."""


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
    from hushmeter.plot import figure_place

    folder, name = figure_place(output, "trace")
    for suffix in ("png", "svg", "csv"):
        refuse_overwrite(folder / f"{name}.{suffix}", force)


def _draw_readings(found: Inspection, file: Path, output: Path, force: bool) -> list[str]:
    """Draw days and hours with the findings marked, or a line for short or coarse readings."""
    from hushmeter.plot import figure_place, save_figure
    from hushmeter.plot.readings import draw_findings, draw_trace, has_days

    folder, name = figure_place(output, "trace")
    trace = found.recording.trace
    if has_days(trace, found.findings):
        figure, data = draw_findings(trace, found.findings, file.name)
    else:
        figure, data = draw_trace(trace, file.name)
    paths = save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]


def catalogue(
    kind: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One appliance, with its sources.")
    ] = None,
    have: Annotated[list[str] | None, HAVE] = None,
    name: Annotated[str, typer.Option(help="Name of the home.")] = "home",
    tolerance: Annotated[
        float | None, typer.Option(help="Variation of a reading without a switch, in watts.")
    ] = None,
    base_load: Annotated[
        float, typer.Option(help="Power that is drawn all the time, in watts.")
    ] = 0.0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .toml file; without it, print.")
    ] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the typical appliances, print one of them, or write a home from their names.

    Each name can be used with --have and --hide. The high values calibrate the noise. With --have,
    the command writes a home as a TOML file to edit: the catalogue fills in what you do not state
    after a name, such as a power, the length of a run or its energy.

    Example: hushmeter catalogue kettle

    Example: hushmeter catalogue --have kettle,oven,"pump 300 W 2 h" -o home.toml
    """
    from hushmeter.appliance import catalogue as kinds

    if have:
        if kind is not None:
            raise InputError("give either the name of one appliance or --have, not both.")
        _write_home(have, (tolerance, base_load, name), output, force, json)
    elif output is not None:
        raise InputError("name the appliances of the home to write: --have kettle,oven.")
    elif kind is not None:
        if json:
            print_json(kinds[kind])
        else:
            _print_kind(kinds[kind])
    elif json:
        print_json(list(kinds.values()))
    else:
        _print_kinds(list(kinds.values()))


def _write_home(
    have: list[str],
    facts: tuple[float | None, float, str],
    output: Path | None,
    force: bool,
    json: bool,
) -> None:
    """Write or print a home of listed appliances; `facts` are its tolerance, base load and name."""
    from hushmeter.files import write_text
    from hushmeter.home import DEFAULT_TOLERANCE, Home

    if output is not None and output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    tolerance, base_load, name = facts
    listed = Home.from_words(have).appliances
    known = Home(listed, tolerance or DEFAULT_TOLERANCE, base_load, name)
    text = HEADER + known.to_toml()
    if output is not None:
        write_text(output, text, force=force)
    if json:
        print_json({**known.to_dict(), "files": [] if output is None else [str(output)]})
    elif output is None:
        typer.echo(text, nl=False)
    else:
        print_sentences(
            f"{len(known)} appliances; edit the numbers that you know better, then use it with "
            f"--home {output}."
        )
        print_files([output])


def _print_kinds(kinds: list[ApplianceKind]) -> None:
    """Print the high values of all entries of the catalogue."""
    from hushmeter.formatting import format_watt_hours, format_watts

    rows = [
        (
            kind.name,
            format_watts(kind.power_w.high),
            _time(kind.run_s.high),
            format_watt_hours(kind.run_wh.high),
            format_watt_hours(kind.day_wh),
        )
        for kind in kinds
    ]
    print_table(
        "Typical appliances: high values, on which noise is calibrated",
        ("appliance", "power", "run", "energy of a run", "energy a day"),
        rows,
    )
    print_sentences("One appliance with all its numbers and sources: hushmeter catalogue NAME.")


def _print_kind(kind: ApplianceKind) -> None:
    """Print one entry of the catalogue."""
    from hushmeter.formatting import format_watt_hours, format_watts

    rows = [
        ("power", *map(format_watts, kind.power_w)),
        ("one run", *map(_time, kind.run_s)),
        ("energy of a run", *map(format_watt_hours, kind.run_wh)),
        ("runs a day", *(f"{runs:g}" for runs in kind.runs_per_day)),
        ("energy a day", "", "", format_watt_hours(kind.day_wh)),
    ]
    title = kind.name
    if kind.aliases:
        title += f", also called {', '.join(kind.aliases)}"
    print_table(title, ("", "low", "typical", "high"), rows)
    print_sentences(
        kind.basis,
        "All numbers are typical values, rounded by hand. The sources describe the kind of "
        "appliance; they do not state every number.",
        *(f"Source: {source}" for source in kind.sources),
    )


def _time(value: float) -> str:
    """A typical length of time: whole and half units as they are, others as “about 9 min”."""
    from hushmeter.formatting import short_duration

    for size in (3600, 60):
        if value >= size and (2 * value / size) % 1:
            return f"about {short_duration(round(value / size) * size)}"
    return short_duration(value)


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
    from hushmeter.attack.semi_blind import SemiBlind, learn_population
    from hushmeter.files import refuse_overwrite
    from hushmeter.read import read_home_recording

    values = read_parameters(parameter, SemiBlind)
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
    from hushmeter.plot import readings as plot_readings
    from hushmeter.plot import save_figure

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
