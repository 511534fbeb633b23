"""Learning a `Home` from sub-metered data: which circuits are appliances, their powers, δ.

The truth depends on the rule that calls a circuit on; the rule is part of every result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hushmeter.assumptions import estimate_tolerance, quiet_jumps
from hushmeter.checks import FloatArray
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.home import Appliance, Home
from hushmeter.learn.circuits import FLAT_RULE, Circuit, Rule, find_circuits, level_changes, near
from hushmeter.trace import Trace, utc

BASE_QUANTILE = 0.05
__all__ = [
    "FLAT_RULE",
    "Circuit",
    "LearntHome",
    "Rule",
    "between",
    "compare_rules",
    "learn_home",
]


@dataclass(frozen=True)
class LearntHome:
    """A home, the trace it was learnt from (now with states), and the rule.

    Attributes
    ----------
    home : Home
    trace : Trace
        Only the home's appliances; `readings` as `mains` says.
    circuits : tuple of Circuit
        Every circuit of the data.
    rule : Rule
    mains : str
        "real mains" or "denoised (sum of sub-meters)".
    sparsity : float
        Appendix B, over every circuit of the data under the rule.
    notes : tuple of str
    """

    home: Home
    trace: Trace
    circuits: tuple[Circuit, ...]
    rule: Rule
    mains: str
    sparsity: float
    notes: tuple[str, ...]


def learn_home(
    trace: Trace,
    *,
    denoised: bool = False,
    rule: Rule | None = None,
    appliances: Iterable[str] | None = None,
    name: str = "learnt home",
) -> LearntHome:
    """Learn thresholds, powers, levels, habits, base load and tolerance from sub-meters.

    Parameters
    ----------
    trace : Trace
        With `power` and `names`, as `read_home_data` gives it.
    denoised : bool
        Take the sum of the sub-meters as the meter, as the paper's model does, instead of the
        real mains.
    rule : Rule, optional
        When a circuit is on.
    appliances : iterable of str, optional
        Only these circuits.
    name : str

    Raises
    ------
    DataError
        If there is no sub-meter, or none ever switches.
    """
    if trace.power is None or trace.names is None:
        raise DataError("learning a home needs the power of each appliance; this trace has none.")
    rule = rule or Rule()
    chosen = trace if appliances is None else _only(trace, tuple(appliances))
    assert chosen.power is not None
    assert chosen.names is not None
    states, circuits = find_circuits(chosen, rule)
    sparsity = chosen.with_truth(states, chosen.power, chosen.names).sparsity
    members = [i for i, circuit in enumerate(circuits) if circuit.role == "appliance"]
    if not members:
        raise DataError(f"none of the {len(circuits)} circuits switches ({rule}).")
    learnt = chosen.with_truth(
        states[:, members], chosen.power[:, members], [chosen.names[i] for i in members]
    )
    if denoised:
        learnt = learnt.replace_readings(chosen.power.sum(axis=1))
    tolerance, notes = _tolerance(learnt, [circuits[i] for i in members], rule)
    base = _base_load(learnt, circuits, chosen.power, denoised)
    days = len(chosen) * chosen.interval_s / 86_400
    home = Home([_appliance(circuits[i], days) for i in members], tolerance, base, name)
    mains = "denoised (sum of sub-meters)" if denoised else "real mains"
    return LearntHome(home, learnt, tuple(circuits), rule, mains, sparsity, tuple(notes))


def between(trace: Trace, start: str | None, end: str | None) -> Trace:
    """The readings from `start` up to, but not including, `end` (ISO 8601; a bare date is UTC)."""
    first = 0 if start is None else int(np.searchsorted(trace.times, _moment(start)))
    stop = len(trace) if end is None else int(np.searchsorted(trace.times, _moment(end)))
    if stop <= first:
        raise DataError(
            f"no reading lies between {start or 'the start'} and {end or 'the end'}; the data go "
            f"from {trace.times[0]} to {trace.times[-1]} (UTC)."
        )
    return trace[first:stop]


def compare_rules(learnt: LearntHome, flat: LearntHome) -> tuple[str, ...]:
    """How a rule differs from a flat one, circuit by circuit, in sentences."""
    sentences = [
        f"Sparsity over all {len(learnt.circuits)} circuits: {learnt.sparsity:.2%} "
        f"({learnt.rule}); {flat.sparsity:.2%} with the flat rule ({flat.rule}).",
    ]
    for mine, other in zip(learnt.circuits, flat.circuits, strict=True):
        sentence = _difference(mine, other)
        if sentence:
            sentences.append(sentence)
    return tuple(sentences)


def _difference(mine: Circuit, flat: Circuit) -> str | None:
    if mine.role != flat.role:
        if flat.role == "always on":
            why = f"it idles at {mine.idle:.3g} W, above the flat threshold"
        else:
            why = "it leaves its idle level too rarely or by too little"
        return f"{mine.name}: {mine.role} instead of {flat.role}, because {why}."
    if mine.role != "appliance" or abs(mine.mean_on / flat.mean_on - 1) < 0.005:
        return None
    side = "above" if mine.threshold > flat.threshold else "below"
    return (
        f"{mine.name}: {mine.mean_on:.4g} W mean on-power instead of {flat.mean_on:.4g} W, on "
        f"{mine.on_share:.2%} instead of {flat.on_share:.2%} of the time, because its threshold is "
        f"{mine.threshold:.4g} W, {side} the flat {flat.threshold:g} W, and short runs and pauses "
        "do not count."
    )


def _only(trace: Trace, names: tuple[str, ...]) -> Trace:
    assert trace.power is not None
    assert trace.names is not None
    for name in names:
        if name not in trace.names:
            raise UnknownNameError("circuit", name, trace.names)
    if not names:
        raise InputError("appliances must name at least one circuit.")
    columns = [trace.names.index(name) for name in names]
    return Trace(
        trace.readings,
        trace.interval_s,
        trace.start,
        power=trace.power[:, columns],
        names=names,
        steps=trace.steps,
    )


def _appliance(circuit: Circuit, days: float) -> Appliance:
    """Usual habits: the mean run, so that run × runs a day is the share of time it is on."""
    return Appliance(
        circuit.name,
        round(circuit.mean_on, 3),
        tuple(round(level, 1) for level in circuit.levels) if len(circuit.levels) > 1 else (),
        round(circuit.mean_run_s, 1),
        round(max(circuit.runs / days, 1e-4), 4),
    )


def _tolerance(trace: Trace, circuits: list[Circuit], rule: Rule) -> tuple[float, list[str]]:
    """δ [W]: a high quantile of the jumps more than a reading away from any change of level.

    An edge between two readings smears over both, and an appliance of several levels jumps
    without switching: neither is a fluctuation.
    """
    unquiet = near(level_changes(trace, circuits) | trace.switches.any(axis=1))
    found = estimate_tolerance(trace, rule.quantile, ignore=unquiet)
    jumps = quiet_jumps(trace, unquiet)
    note = (
        f"Tolerance: the {rule.quantile:.3%} quantile of the jumps of {jumps.size} steps "
        f"away from any switch or change of level; the largest is {jumps.max():.4g} W."
    )
    if found > 0:
        return round(found, 3), [note]
    return 1.0, [note, "That quantile is zero: a tolerance of 1 W is used."]


def _base_load(
    trace: Trace, circuits: list[Circuit], everything: FloatArray, denoised: bool
) -> float:
    """What is drawn all the time [W].

    Denoised: idle levels of the appliances and means of all other circuits. Real mains: a low
    quantile of what the running appliances leave of the meter.
    """
    assert trace.power is not None
    if not denoised:
        rest = trace.readings - np.where(trace.truth(), trace.power, 0.0).sum(axis=1)
        return round(max(0.0, float(np.quantile(rest, BASE_QUANTILE))), 3)
    total = 0.0
    for i, circuit in enumerate(circuits):
        is_load = circuit.role == "appliance"
        total += circuit.idle if is_load else float(everything[:, i].mean())
    return round(max(0.0, total), 3)


def _moment(text: str) -> np.datetime64:
    """An ISO time with its zone; a bare date is midnight UTC."""
    return utc(f"{text}T00:00:00Z" if len(text) == 10 else text)
