"""`hushmeter attack` and `hushmeter attackers`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    FILE,
    FORCE,
    JSON,
    NO_HOME,
    PARAMETER,
    check_seed,
    read_parameters,
    takes_home,
    takes_reader_options,
)
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table
from hushmeter.errors import InputError, NotFittedError

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker
    from hushmeter.checks import BoolArray, FloatArray
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.scoring import Score, ShareScore
    from hushmeter.trace import Trace

EVENT_S = 60.0
"""Largest distance of a predicted start from the true start [s]; at least one reading."""


@takes_reader_options()
@takes_home(required=False)
def attack(
    *,
    file: Annotated[Path | None, FILE] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the attackers; nothing else is needed.")
    ] = False,
    home: Home | None,
    every: Annotated[
        str | None,
        typer.Option(
            help="Attack means over 15min or 30min. An appliance is on in an interval if it is on "
            "in any part of it. The attacker knows that a mean has less noise than a reading."
        ),
    ] = None,
    attacker: Annotated[str | None, ATTACKER] = None,
    train: Annotated[
        Path | None, typer.Option("--train", help="Sub-metered data that the attacker learns from.")
    ] = None,
    generation: Annotated[
        str,
        typer.Option(
            help="Whether to keep the solar power in the readings of a net meter, or to estimate "
            "it from at least three days and remove it first: keep or remove."
        ),
    ] = "keep",
    parameter: Annotated[list[str] | None, PARAMETER] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacker's random rounding.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the states, .csv or .parquet.")
    ] = None,
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

    Example: hushmeter attack --list

    Example: hushmeter attack meter.csv --home home.toml --attacker multi-shot -o states.csv

    Example: hushmeter attack meter.csv --home home.toml -a sparse-hmm --train sub.csv
    -p unseen=nearest -o states.csv
    """
    from hushmeter.assumptions import remove_generation
    from hushmeter.attack.base import GaussianNoise
    from hushmeter.attack.registry import attackers
    from hushmeter.checks import one_of
    from hushmeter.files import refuse_overwrite, table_format, write_table
    from hushmeter.read import read_home_recording

    check_seed(seed)
    if list_all:
        list_attackers(json)
        return
    if file is None or attacker is None or output is None:
        raise InputError(
            "an attack needs a FILE of readings, an attacker with -a and a file for the states "
            "with -o; hushmeter attack --list lists the attackers."
        )
    chosen = attackers[attacker]
    one_of("generation", generation, ("keep", "remove"))
    table_format(output)
    refuse_overwrite(output, force)
    values = read_parameters(parameter or (), chosen)
    if home is None:
        raise InputError(NO_HOME)
    made = _make(chosen, home, values, quiet=json)
    read = partial(read_home_recording, options=options, need_circuits=False)
    training = None if train is None else home.label(read(train).trace)
    if training is not None:
        training = remove_generation(training) if generation == "remove" else training
        made.fit(_coarsen(training, every))
    metered = read(file).trace
    if _has_truth(home, metered):
        metered = home.label(metered)
    summary_of_generation = _describe_generation(metered, generation)
    if generation == "remove":
        metered = remove_generation(metered)
    trace = _coarsen(metered, every)
    if every is not None and made.mechanism is not None:
        count = max(1, round(trace.interval_s / metered.interval_s))
        made = made.knows(GaussianNoise.of_mean(made.mechanism, count))
    states, probabilities = _predict(made, trace, seed)
    columns = {name: states[:, i].astype("int8") for i, name in enumerate(home.names)}
    write_table(output, {"timestamp": trace.times, **columns}, force=force)
    summary = _summarise(attacker, home, trace, states)
    summary["never_on_in_training"] = list(getattr(made, "never_on_", ()))
    summary["generation"] = summary_of_generation
    choose = getattr(made, "choose", None)
    summary["choice"] = None if choose is None else choose()
    summary |= _score(home, trace, states, probabilities)
    summary["shares"] = _score_shares(home, training, metered, states, probabilities, every)
    if json:
        print_json({**summary, "files": [output]})
    else:
        _print_summary(summary, output)


def _describe_generation(trace: Trace, generation: str) -> str | None:
    """One sentence about negative readings or about what was removed; None for neither."""
    from hushmeter.assumptions import estimate_generation, warn_of_generation

    if generation == "keep":
        return warn_of_generation(trace)
    if not (trace.readings < 0).any():
        return "No reading is negative, so no generation was removed."
    produced = trace.replace_readings(estimate_generation(trace)).energy_kwh
    if produced == 0:
        return "The negative readings are not those of solar panels, so no generation was removed."
    return f"Solar generation of {produced:.4g} kWh was estimated and removed before the attack."


def _coarsen(trace: Trace, every: str | None) -> Trace:
    """Means over longer intervals, in which an appliance is on if any part of it is on."""
    return trace if every is None else trace.coarsen(every, on="any")


def _has_truth(home: Home, trace: Trace) -> bool:
    """Whether the readings have a column of watts for every appliance of the home."""
    return trace.power is not None and set(home.names) <= set(trace.names or ())


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

    if not _has_truth(home, trace):
        return {"score": None, "events": None, "intervals": None}
    truth = trace
    two_days = truth.times[0].astype("datetime64[D]") < truth.times[-1].astype("datetime64[D]")
    power = states * home.powers
    return {
        "score": score(states, truth, power=power, probabilities=probabilities),
        "events": score_events(states, truth, within_s=max(EVENT_S, trace.interval_s)),
        "intervals": bootstrap_intervals(states, truth) if two_days else None,
    }


def _score_shares(
    home: Home,
    training: Trace | None,
    metered: Trace,
    states: BoolArray,
    probabilities: FloatArray | None,
    every: str | None,
) -> ShareScore | None:
    """Score of the share of time on in long intervals; None without long intervals or truth.

    The predicted share is the probability of on, or the state, times the mean share of time on of
    the intervals of the training data in which the appliance is on.
    """
    import numpy as np

    from hushmeter.scoring import on_shares, score_shares

    if every is None or training is None or not _has_truth(home, metered):
        return None
    shares = on_shares(training, every)
    while_on = shares.sum(axis=0) / np.maximum((shares > 0).sum(axis=0), 1)
    chance = states.astype(float) if probabilities is None else probabilities
    return score_shares(chance * while_on, metered, every)


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
    if summary["generation"] is not None:
        print_sentences(summary["generation"])
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
            *_describe_shares(summary["shares"]),
        )
    print_files([output])


def _describe_shares(shares: ShareScore | None) -> list[str]:
    """One sentence with the error of the share of time on, for long intervals."""
    if shares is None:
        return []
    return [
        f"Share of time on in an interval: mean error {shares.error:.2%} (everything off: "
        f"{shares.off_error:.2%})."
    ]


def _describe_intervals(intervals: dict[str, tuple[float, float]] | None) -> list[str]:
    """One sentence with the uncertainty over the days, if there are at least two."""
    if intervals is None:
        return []
    alpha, f1 = intervals["alpha"], intervals["f1"]
    return [
        f"95 % intervals over the days: α {alpha[0]:.3f} to {alpha[1]:.3f}, "
        f"F1 {f1[0]:.3f} to {f1[1]:.3f}."
    ]
