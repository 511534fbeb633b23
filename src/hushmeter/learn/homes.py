"""Learning a `Home` from sub-metered data: which circuits are appliances, their powers, δ.

The truth depends on the rule that calls a circuit on; the rule is part of every result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hushmeter.assumptions import estimate_tolerance, quiet_jumps
from hushmeter.checks import BoolArray, FloatArray, non_negative
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.home import Appliance, Home
from hushmeter.learn.levels import Levels, find_levels, on_states, readings_in
from hushmeter.trace import Trace, utc

ALWAYS_ON = 0.99
FLAT_W = 10.0


@dataclass(frozen=True)
class Rule:
    """When a circuit counts as on.

    Parameters
    ----------
    threshold : float, optional
        The same threshold [W] for every circuit; by default each has its own, the midpoint
        between its idle level and its lowest on-level.
    min_on_s, min_off_s : float
        Runs and pauses shorter than this [s] do not count: pauses are merged first, then runs
        dropped.
    quantile : float
        The tolerance is this quantile of the meter's jumps away from any switch.
    """

    threshold: float | None = None
    min_on_s: float = 10.0
    min_off_s: float = 10.0
    quantile: float = 0.99

    def __post_init__(self) -> None:
        if self.threshold is not None:
            non_negative("threshold", self.threshold)
        non_negative("min_on_s", self.min_on_s)
        non_negative("min_off_s", self.min_off_s)
        if not 0 < self.quantile <= 1:
            raise InputError(f"quantile must lie in (0, 1], got {self.quantile}.")

    def __str__(self) -> str:
        above = (
            "the midpoint between idle and the lowest on-level"
            if self.threshold is None
            else f"{self.threshold:g} W"
        )
        if self.min_off_s == self.min_on_s == 0:
            return f"on above {above}"
        return (
            f"on above {above}, pauses under {self.min_off_s:g} s merged, runs under "
            f"{self.min_on_s:g} s dropped"
        )


FLAT_RULE = Rule(FLAT_W, 0.0, 0.0)


@dataclass(frozen=True)
class Circuit:
    """What was learnt about one circuit.

    Attributes
    ----------
    name : str
    role : {"appliance", "always on", "never on"}
    idle, threshold, mean_on : float
        [W]; `threshold` is infinite and `mean_on` NaN for a circuit that is never on.
    levels : tuple of float
        On-levels [W].
    on_share : float
        Share of the readings.
    runs : int
    mean_run_s, longest_run_s : float
        [s]
    """

    name: str
    role: str
    idle: float
    threshold: float
    levels: tuple[float, ...]
    mean_on: float
    on_share: float
    runs: int
    mean_run_s: float
    longest_run_s: float


def find_circuits(trace: Trace, rule: Rule) -> tuple[BoolArray, list[Circuit]]:
    """States of every circuit, and what was learnt about each."""
    assert trace.power is not None
    assert trace.names is not None
    least_on = readings_in(rule.min_on_s, trace.interval_s)
    least_off = readings_in(rule.min_off_s, trace.interval_s)
    states = np.zeros(trace.power.shape, dtype=np.bool_)
    circuits = []
    for i, name in enumerate(trace.names):
        power = np.ascontiguousarray(trace.power[:, i])
        levels = find_levels(power)
        threshold = levels.threshold if rule.threshold is None else rule.threshold
        states[:, i] = on_states(
            power, threshold, trace.run_starts, min_on=least_on, min_off=least_off
        )
        circuits.append(_circuit(name, power, states[:, i], levels, threshold, trace))
    return states, circuits


def _circuit(
    name: str, power: FloatArray, on: BoolArray, levels: Levels, threshold: float, trace: Trace
) -> Circuit:
    share = float(on.mean())
    if share >= ALWAYS_ON or (share == 0 and levels.idle >= 1 and not levels.on):
        role = "always on"
    else:
        role = "never on" if share == 0 else "appliance"
    lengths = run_lengths(on, trace.run_starts) * trace.interval_s
    return Circuit(
        name,
        role,
        levels.idle,
        threshold,
        tuple(level for level in levels.on if level > threshold),
        float(power[on].mean()) if on.any() else float("nan"),
        share,
        int(lengths.size),
        float(lengths.mean()) if lengths.size else 0.0,
        float(lengths.max(initial=0.0)),
    )


def run_lengths(on: BoolArray, run_starts: BoolArray) -> FloatArray:
    """Length of every run [readings]; a gap ends a run."""
    cuts = np.flatnonzero(np.append(True, on[1:] != on[:-1]) | run_starts)
    lengths = np.diff(np.append(cuts, on.size)).astype(np.float64)
    runs: FloatArray = lengths[on[cuts]]
    return runs


def level_changes(trace: Trace, circuits: list[Circuit]) -> BoolArray:
    """True where an appliance goes from one of its levels to another, shape (T,)."""
    assert trace.power is not None
    changed = np.zeros(len(trace), dtype=np.bool_)
    for i, circuit in enumerate(circuits):
        levels = np.array([circuit.idle, *circuit.levels])
        level = np.searchsorted((levels[1:] + levels[:-1]) / 2, trace.power[:, i])
        changed[1:] |= level[1:] != level[:-1]
    return changed


def near(where: BoolArray) -> BoolArray:
    """True there and one reading before and after."""
    wide = where.copy()
    wide[1:] |= where[:-1]
    wide[:-1] |= where[1:]
    return wide


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
