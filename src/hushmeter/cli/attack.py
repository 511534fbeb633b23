"""`hushmeter attack` and `hushmeter attackers`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    FILE,
    FORCE,
    JSON,
    check_seed,
    takes_home,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table
from hushmeter.errors import InputError, NotFittedError, UnknownNameError

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker
    from hushmeter.checks import BoolArray, FloatArray
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace

EVENT_S = 60.0
"""Largest distance of a predicted start from the true start [s]; at least one reading."""


@takes_reader_options()
@takes_home()
def attack(
    *,
    file: Annotated[Path, FILE],
    home: Home,
    attacker: Annotated[str, ATTACKER],
    train: Annotated[
        Path | None, typer.Option("--train", help="Sub-metered data that the attacker learns from.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--parameter", help="Parameter of the attacker, name=value; can be repeated."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacker's random rounding.")] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File for the states, .csv or .parquet.")
    ],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Run an attacker on a file of readings and write the states that it predicts.

    If the file also has a column of watts for every appliance, the command compares the prediction
    with it: an appliance counts as on above half of its power in the home. A training file has the
    same columns. The value of a parameter is JSON or plain text. An attacker knows the noise
    distribution if you give it as a parameter:
    -p 'mechanism={"laplace": {"epsilon": 1, "sensitivity": 10}}'.

    Example: hushmeter attack meter.csv --home home.toml --attacker multi-shot -o states.csv

    Example: hushmeter attack meter.csv --home home.toml -a sparse-hmm --train sub.csv
    -p decoder=full -o states.csv
    """
    from hushmeter.attack.registry import attackers
    from hushmeter.attack.strongest import Strongest
    from hushmeter.files import refuse_overwrite, table_format, write_table
    from hushmeter.read import read_recording

    chosen = attackers[attacker]
    check_seed(seed)
    table_format(output)
    refuse_overwrite(output, force)
    trace = read_recording(file, options).trace
    made = _make(chosen, home, _read_parameters(parameter or (), chosen), quiet=json)
    if train is not None:
        made.fit(home.label(read_recording(train, options).trace))
    states, probabilities = _predict(made, trace, seed)
    columns = {name: states[:, i].astype("int8") for i, name in enumerate(home.names)}
    write_table(output, {"timestamp": trace.times, **columns}, force=force)
    summary = _summarise(attacker, home, trace, states)
    summary["never_on_in_training"] = list(getattr(made, "never_on_", ()))
    summary["choice"] = made.choose() if isinstance(made, Strongest) else None
    summary |= _score(home, trace, states, probabilities)
    if json:
        print_json({**summary, "files": [output]})
    else:
        _print_summary(summary, output)


def list_attackers(
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the attackers, what each one needs and what it assumes.

    Example: hushmeter attackers
    """
    from hushmeter.attack.registry import attackers

    rows = [
        {"name": name, "needs": cls.needs, "assumes": cls.assumes}
        for name, cls in attackers.items()
    ]
    if json:
        print_json(rows)
    else:
        cells = [tuple(row.values()) for row in rows]
        print_table("Attackers", ("name", "needs", "assumes"), cells, words=True)


def _read_parameters(given: Sequence[str], chosen: type[Attacker]) -> dict[str, Any]:
    """Parameters given as name=value; a value is JSON, or text if it is not valid JSON."""
    import json
    from inspect import signature

    from hushmeter.noise import parse_mechanism

    known = list(signature(chosen).parameters)[1:]
    values: dict[str, Any] = {}
    for entry in given:
        name, separator, text = entry.partition("=")
        if not separator:
            raise InputError(f"--parameter must have the form name=value, got {entry!r}.")
        if name not in known:
            raise UnknownNameError(f"parameter of {chosen.name}", name, known)
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
        if name == "mechanism":
            values[name] = parse_mechanism(values[name])
    return values


def _make(chosen: type[Attacker], home: Home, values: dict[str, Any], *, quiet: bool) -> Attacker:
    """The attacker with its parameters; it shows its progress on a terminal."""
    from inspect import signature

    if "progress" in signature(chosen).parameters and sys.stderr.isatty() and not quiet:
        values = {"progress": True, **values}
    try:
        return chosen(home, **values)
    except TypeError as error:
        raise InputError(f"the parameters of {chosen.name} are not valid: {error}.") from None


def _predict(attacker: Attacker, trace: Trace, seed: int) -> tuple[BoolArray, FloatArray | None]:
    """Predicted states, and the probabilities of an attacker that has them."""
    from hushmeter.attack.base import ProbabilisticAttacker

    try:
        states = attacker.predict(trace, rng=seed)
        if isinstance(attacker, ProbabilisticAttacker):
            return states, attacker.predict_proba(trace, rng=seed)
        return states, None
    except NotFittedError:
        raise InputError(
            f"the {attacker.name} attacker learns from sub-metered data: add --train FILE, "
            "with a column of watts per appliance."
        ) from None


def _summarise(attacker: str, home: Home, trace: Trace, states: BoolArray) -> dict[str, Any]:
    from hushmeter.trace import iso

    appliances = {
        name: {"on_share": float(states[:, i].mean()), "readings_on": int(states[:, i].sum())}
        for i, name in enumerate(home.names)
    }
    return {
        "attacker": attacker,
        "readings": len(trace),
        "interval_s": trace.interval_s,
        "start": iso(trace.times[0]),
        "end": iso(trace.times[-1]),
        "appliances": appliances,
        # Algorithm 1 of the paper starts from the true state; a file of readings does not have it.
        "knows_first_state": False,
    }


def _score(
    home: Home, trace: Trace, states: BoolArray, probabilities: FloatArray | None
) -> dict[str, Any]:
    """Scores of the prediction; None if the file lacks an appliance of the home."""
    from hushmeter.scoring import bootstrap_intervals, score, score_events

    if trace.power is None or trace.names is None or not set(home.names) <= set(trace.names):
        return {"score": None, "events": None, "intervals": None}
    truth = home.label(trace)
    two_days = truth.times[0].astype("datetime64[D]") < truth.times[-1].astype("datetime64[D]")
    power = states * home.powers
    return {
        "score": score(states, truth, power=power, probabilities=probabilities),
        "events": score_events(states, truth, within_s=max(EVENT_S, trace.interval_s)),
        "intervals": bootstrap_intervals(states, truth) if two_days else None,
    }


def _print_summary(summary: dict[str, Any], output: Path) -> None:
    from hushmeter.formatting import short_duration

    found: Score | None = summary["score"]
    header = ["appliance", "on"]
    rows = [[n, f"{a['on_share']:.1%}"] for n, a in summary["appliances"].items()]
    if found is not None:
        header += ["right", "without data", "F1"]
        for row, appliance in zip(rows, found.per_appliance, strict=True):
            row += [f"{appliance.alpha:.1%}", f"{appliance.floor:.1%}", f"{appliance.f1:.2f}"]
    length = short_duration(summary["interval_s"])
    title = f"{summary['attacker']} on {summary['readings']} readings of {length}"
    print_table(title, header, rows)
    if summary["choice"] is not None:
        print_sentences(summary["choice"].sentence)
    if summary["never_on_in_training"]:
        print_sentences(
            f"Never on in the training data: {', '.join(summary['never_on_in_training'])}. The "
            "attacker always reports these appliances as off."
        )
    if found is None:
        print_sentences(
            "Not scored: the file lacks a column of watts for some appliance of the home."
        )
    else:
        print_sentences(
            f"Accuracy α {found.alpha:.3f} (everything off: {found.alpha_floor:.3f}), "
            f"macro F1 {found.f1:.3f} over the appliances that run.",
            f"Starts of runs within {short_duration(summary['events'].within_s)}: "
            f"F1 {summary['events'].f1:.3f}.",
            *_describe_intervals(summary["intervals"]),
        )
    print_files([output])


def _describe_intervals(intervals: dict[str, tuple[float, float]] | None) -> list[str]:
    """One sentence with the uncertainty over the days, if there are at least two."""
    if intervals is None:
        return []
    alpha, f1 = intervals["alpha"], intervals["f1"]
    return [
        f"95 % intervals over the days: α {alpha[0]:.3f} to {alpha[1]:.3f}, "
        f"F1 {f1[0]:.3f} to {f1[1]:.3f}."
    ]
