"""Learn a `Home` from sub-metered data: appliances, powers, habits, base load and tolerance.

A rule decides when a circuit is on. The true states depend on this rule, so every result names it.
By default a circuit is on above the midpoint of its idle level and its lowest on-level. Both are
found in its power alone. With one threshold for all circuits, such as 10 W, a fridge that idles at
10 W would always be on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hushmeter.appliance import Appliance, round_up_to_public_step
from hushmeter.assumptions import estimate_tolerance, quiet_jumps
from hushmeter.checks import BoolArray, FloatArray, IntArray, non_negative
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.formatting import format_watts, short_duration
from hushmeter.home import Home, LearntFrom
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Runs, Trace, digest, iso, utc

ALWAYS_ON = 0.99
"""A circuit that is on in at least this share of the readings is always on, not an appliance."""

FLAT_W = 10.0
"""Threshold of the flat rule for all circuits [W]."""

BASE_QUANTILE = 0.05
"""The base load of real mains is this quantile of the power that no running appliance explains."""

HIGH_QUANTILE = 0.999
"""The protected power and run length are this quantile of what was measured while on."""

FEWEST_READINGS, COARSE_S = 3, 300.0
"""The learnt power is too low if a usual run has fewer readings and they are this long [s]."""

LEAST_TOLERANCE_W = 1.0
"""Tolerance of data without any fluctuation [W]."""

LEAST_STEP_W = 10.0
"""Smallest difference between the idle level and an on-level [W]."""

LEAST_SHARE = 0.03
"""Smallest share of the readings above idle that makes a level."""

LEAST_ON = 2
"""Smallest number of readings above idle."""

BIN = 0.04
"""Width of a histogram bin, on the scale of arcsinh(power/`KNEE_W`)."""

KNEE_W = 40.0
"""Power at which the scale changes from linear to logarithmic [W]."""


@dataclass(frozen=True)
class Rule:
    """The rule that decides when a circuit is on."""

    # One threshold [W] for every circuit. By default each circuit has its own, the midpoint between
    # its idle level and its lowest on-level
    threshold: float | None = None
    # Shorter runs and pauses [s] do not count: short pauses are merged with the runs beside them
    # first, and then short runs are dropped
    min_on_s: float = 10.0
    min_off_s: float = 10.0
    # The tolerance is this quantile of the jumps of the meter at which nothing switches
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
    """What was learnt about one circuit."""

    name: str  # Name of the circuit
    role: str  # Only a circuit that switches is an appliance
    # Idle level, threshold and mean power while on [W]. If a circuit is never on, its threshold is
    # infinite and its mean power is NaN
    idle: float
    threshold: float
    levels: tuple[float, ...]  # On-levels in ascending order [W]
    mean_on: float
    on_share: float  # Share of the readings at which the circuit is on
    runs: int  # Number of runs
    # Mean and largest length of a run [s]
    mean_run_s: float
    longest_run_s: float
    # The 99.9 % quantile and the largest of the readings while on [W]; NaN if it is never on
    high: float
    max_power: float
    # `high` rounded up to a public step [W]: what a release protects by default
    protected_power: float
    above_protected: float  # Share of the readings while on that exceed `protected_power`
    high_run_s: float  # The 99.9 % quantile of the lengths of the runs [s]
    high_energy_wh: float  # The 99.9 % quantile of the energies of the runs [Wh]


@dataclass(frozen=True)
class LearntHome:
    """A learnt home, with the data and the rule behind it.

    Attributes
    ----------
    home : Home
        The learnt home.
    trace : Trace
        The trace with the true states and powers of the home's appliances; `mains` describes its
        readings.
    circuits : tuple of Circuit
        Every circuit of the data.
    rule : Rule
        The rule that decides when a circuit is on.
    mains : str
        "real mains" or "denoised (sum of sub-meters)".
    sparsity : float
        Sparsity of Appendix B, over every circuit of the data under the rule.
    notes : tuple of str
        Sentences about how the values were learnt.

    Examples
    --------
    >>> trace = hm.synth.trace(hm.synth.ready_home("evening"), 14_400, seed=1)
    >>> hm.learn_home(trace, appliances=["kettle", "oven"]).home.names
    ('kettle', 'oven')
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
        Readings with `power` and `names`, as `read_home_data` returns them.
    denoised : bool
        Use the sum of the sub-meters as the meter, like the paper's model, instead of the real
        mains.
    rule : Rule, optional
        The rule that decides when a circuit is on.
    appliances : iterable of str, optional
        Names of the circuits to learn; all circuits by default.
    name : str
        Name of the home.

    Returns
    -------
    LearntHome
        The home and what was learnt about every circuit.

    Raises
    ------
    DataError
        If there is no sub-meter, or no circuit switches.

    Examples
    --------
    >>> trace = hm.synth.trace(hm.synth.ready_home("evening"), 14_400, seed=1)
    >>> round(float(hm.learn_home(trace, appliances=["kettle"]).home.powers[0]))
    2100
    """
    if trace.power is None or trace.names is None:
        raise DataError("learning a home needs the power of each appliance; this trace has none.")
    rule = rule or Rule()
    chosen = trace if appliances is None else _select_circuits(trace, tuple(appliances))
    assert chosen.power is not None
    assert chosen.names is not None
    states, circuits = find_circuits(chosen, rule)
    sparsity = chosen.derive(states=states).sparsity
    members = [i for i, circuit in enumerate(circuits) if circuit.role == "appliance"]
    if not members:
        raise DataError(f"none of the {len(circuits)} circuits switches ({rule}).")
    learnt = chosen.derive(
        states=states[:, members],
        power=chosen.power[:, members],
        names=[chosen.names[i] for i in members],
    )
    if denoised:
        learnt = learnt.replace_readings(chosen.power.sum(axis=1))
    tolerance, notes = _tolerance(learnt, [circuits[i] for i in members], rule)
    base = _base_load(learnt, circuits, chosen.power, denoised)
    days = len(chosen) * chosen.interval_s / SECONDS_PER_DAY
    origin = LearntFrom(digest(trace), iso(trace.times[0]), iso(trace.times[-1]))
    home = Home([_appliance(circuits[i], days) for i in members], tolerance, base, name, origin)
    mains = "denoised (sum of sub-meters)" if denoised else "real mains"
    notes += _tell_short_runs(circuits, chosen.interval_s)
    notes += _tell_protection(circuits)
    notes += _tell_exports(learnt)
    return LearntHome(home, learnt, tuple(circuits), rule, mains, sparsity, tuple(notes))


def _tell_exports(trace: Trace) -> list[str]:
    """A note if readings are negative, as those of a meter that counts exported solar power."""
    count = int((trace.readings < 0).sum())
    if count == 0:
        return []
    return [
        f"{count} of {len(trace)} readings of the meter are negative, as with solar panels: the "
        "base load and the tolerance were learnt from net readings; `denoised=` learns them from "
        "the sub-meters instead."
    ]


def find_circuits(trace: Trace, rule: Rule) -> tuple[BoolArray, list[Circuit]]:
    """Find the states of every circuit of a trace, and describe each circuit."""
    assert trace.power is not None
    assert trace.names is not None
    least_on = readings_at_least(rule.min_on_s, trace.interval_s)
    least_off = readings_at_least(rule.min_off_s, trace.interval_s)
    states = np.zeros(trace.power.shape, dtype=np.bool_)
    circuits = []
    for i, name in enumerate(trace.names):
        power = np.ascontiguousarray(trace.power[:, i])
        levels = find_levels(power)
        threshold = levels.threshold if rule.threshold is None else rule.threshold
        states[:, i] = on_states(
            power, threshold, trace.run_starts, min_on=least_on, min_off=least_off
        )
        circuits.append(_describe(name, power, states[:, i], levels, threshold, trace))
    return states, circuits


def select_period(trace: Trace, start: str | None, end: str | None) -> Trace:
    """Return the readings from `start` up to, but not including, `end`."""
    first = 0 if start is None else int(np.searchsorted(trace.times, _moment(start)))
    stop = len(trace) if end is None else int(np.searchsorted(trace.times, _moment(end)))
    if stop <= first:
        raise DataError(
            f"no reading lies between {start or 'the start'} and {end or 'the end'}; the data go "
            f"from {trace.times[0]} to {trace.times[-1]} (UTC)."
        )
    return trace[first:stop]


def compare_rules(learnt: LearntHome, flat: LearntHome) -> tuple[str, ...]:
    """Return sentences about how a rule differs from a flat one, circuit by circuit."""
    sentences = [
        f"The sparsity over all {len(learnt.circuits)} circuits is {learnt.sparsity:.2%} "
        f"({learnt.rule}); it is {flat.sparsity:.2%} with the flat rule ({flat.rule}).",
    ]
    for mine, other in zip(learnt.circuits, flat.circuits, strict=True):
        sentence = _difference(mine, other)
        if sentence:
            sentences.append(sentence)
    return tuple(sentences)


def run_edges(on: BoolArray, run_starts: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first reading and the reading after the last of every run; a gap ends a run."""
    runs = Runs.of_true(on, run_starts)
    return runs.first, runs.stop


def _describe(
    name: str, power: FloatArray, on: BoolArray, levels: Levels, threshold: float, trace: Trace
) -> Circuit:
    """The description of one circuit with given states."""
    share = float(on.mean())
    if share >= ALWAYS_ON or (share == 0 and levels.idle >= 1 and not levels.on):
        role = "always on"
    else:
        role = "never on" if share == 0 else "appliance"
    first, stop = run_edges(on, trace.run_starts)
    lengths = (stop - first).astype(np.float64) * trace.interval_s
    sums = np.concatenate([[0.0], np.cumsum(power)])
    energies = (sums[stop] - sums[first]) * trace.interval_s / SECONDS_PER_HOUR
    high = _high(power[on])
    protected = round_up_to_public_step(high) if high > 0 else high
    return Circuit(
        name=name,
        role=role,
        idle=levels.idle,
        threshold=threshold,
        levels=tuple(level for level in levels.on if level > threshold),
        mean_on=float(power[on].mean()) if on.any() else float("nan"),
        on_share=share,
        runs=int(lengths.size),
        mean_run_s=float(lengths.mean()) if lengths.size else 0.0,
        longest_run_s=float(lengths.max(initial=0.0)),
        high=high,
        max_power=float(power[on].max()) if on.any() else float("nan"),
        protected_power=protected,
        above_protected=float((power[on] > protected).mean()) if on.any() else 0.0,
        high_run_s=_high(lengths) if lengths.size else 0.0,
        high_energy_wh=_high(energies) if energies.size else 0.0,
    )


def _high(values: FloatArray) -> float:
    """The 99.9 % quantile: the smallest value that at most 0.1 % of the values exceed."""
    return float(np.quantile(values, HIGH_QUANTILE, method="higher")) if values.size else np.nan


def _tell_protection(circuits: Iterable[Circuit]) -> list[str]:
    """A sentence about each appliance that sometimes exceeds its protected power.

    Laplace noise protects a change of P watts at ε·P/(protected power), so a reading above the
    protected power has a larger ε.
    """
    return [
        f"A release protects up to {format_watts(one.protected_power)} of the {one.name}. "
        f"{one.above_protected:.2%} of its readings while on exceed this; the largest, "
        f"{format_watts(one.max_power)}, has {one.max_power / one.protected_power:.3g} times the "
        "ε of the release (Laplace noise)."
        for one in circuits
        if one.role == "appliance" and one.max_power > one.protected_power
    ]


def _difference(mine: Circuit, flat: Circuit) -> str | None:
    """A sentence about one circuit under two rules; None if both agree."""
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
        f"{mine.name}: the mean power while on is {mine.mean_on:.4g} W instead of "
        f"{flat.mean_on:.4g} W, and it is on in {mine.on_share:.2%} instead of "
        f"{flat.on_share:.2%} of the readings, because its threshold is {mine.threshold:.4g} W, "
        f"{side} the flat {flat.threshold:g} W, and short runs and pauses do not count."
    )


def _select_circuits(trace: Trace, names: tuple[str, ...]) -> Trace:
    """The trace with the named circuits only."""
    assert trace.power is not None
    assert trace.names is not None
    for name in names:
        if name not in trace.names:
            raise UnknownNameError("circuit", name, trace.names)
    if not names:
        raise InputError("appliances must name at least one circuit.")
    columns = [trace.names.index(name) for name in names]
    return trace.derive(states=None, power=trace.power[:, columns], names=names)


def _appliance(circuit: Circuit, days: float) -> Appliance:
    """The appliance of a circuit; mean run × runs a day is the share of time it is on."""
    return Appliance(
        circuit.name,
        round(circuit.mean_on, 3),
        tuple(round(level, 1) for level in circuit.levels) if len(circuit.levels) > 1 else (),
        round(circuit.mean_run_s, 1),
        round(max(circuit.runs / days, 1e-4), 4),
        high=round(circuit.high, 3),
        max_power=round(circuit.max_power, 3),
        run_high_s=round(circuit.high_run_s, 1),
        energy_wh=max(round(circuit.high_energy_wh, 3), 1e-3),
        source="learnt",
    )


def _tolerance(trace: Trace, circuits: list[Circuit], rule: Rule) -> tuple[float, list[str]]:
    """The tolerance δ [W], and a sentence that states from which steps it was estimated.

    Steps within one reading of a switch or of a change of level are left out, because an edge
    between two readings changes both of them, and an appliance of several levels jumps without
    switching. Coarse data have few other steps or none. A quantile q needs at least 1/(1 − q)
    steps; with fewer, the meter minus all appliances shows the fluctuations instead.
    """
    changes = _level_changes(trace, circuits) | trace.switches.any(axis=1)
    ignored, where = changes, "at which nothing switches or changes its level"
    if quiet_jumps(trace, _with_neighbours(changes)).size >= _fewest_steps(rule):
        ignored = _with_neighbours(changes)
        where = "more than one reading away from any switch or change of level"
    elif quiet_jumps(trace, changes).size < _fewest_steps(rule):
        assert trace.power is not None
        trace = trace.replace_readings(trace.readings - trace.power.sum(axis=1))
        ignored = np.zeros(len(trace), dtype=np.bool_)
        where = "of the meter minus all appliances, because something switches at most other steps"
    found = estimate_tolerance(trace, rule.quantile, ignore=ignored)
    jumps = quiet_jumps(trace, ignored)
    notes = [
        f"The tolerance is the {rule.quantile:.3%} quantile of the jumps at {jumps.size} steps "
        f"{where}; the largest of them is {jumps.max():.4g} W."
    ]
    rounded = round(found, 3)
    if rounded > 0:
        return rounded, notes
    notes.append(f"This quantile is zero, so a tolerance of {LEAST_TOLERANCE_W:g} W is used.")
    return LEAST_TOLERANCE_W, notes


def _fewest_steps(rule: Rule) -> int:
    """Fewest steps from which a quantile is estimated; the maximum needs one."""
    return 1 if rule.quantile == 1 else math.ceil(1 / (1 - rule.quantile))


def _tell_short_runs(circuits: Iterable[Circuit], interval_s: float) -> list[str]:
    """A sentence about the appliances whose runs are too short for the interval."""
    short = [
        one.name
        for one in circuits
        if one.role == "appliance" and one.mean_run_s < FEWEST_READINGS * interval_s
    ]
    if not short or interval_s < COARSE_S:
        return []
    length = short_duration(interval_s)
    return [
        f"The usual run takes fewer than {FEWEST_READINGS} readings of {length}, so that its power "
        "is a mean with the time before and after it, below the true power, and its length is "
        f"rounded up to whole readings: {', '.join(short)}."
    ]


def _level_changes(trace: Trace, circuits: list[Circuit]) -> BoolArray:
    """True where an appliance goes from one of its levels to another, shape (T,)."""
    assert trace.power is not None
    changed = np.zeros(len(trace), dtype=np.bool_)
    for i, circuit in enumerate(circuits):
        levels = np.array([circuit.idle, *circuit.levels])
        level = np.searchsorted((levels[1:] + levels[:-1]) / 2, trace.power[:, i])
        changed[1:] |= level[1:] != level[:-1]
    return changed


def _with_neighbours(where: BoolArray) -> BoolArray:
    """True at the given readings and one reading before and after each."""
    wide = where.copy()
    wide[1:] |= where[:-1]
    wide[:-1] |= where[1:]
    return wide


def _base_load(
    trace: Trace, circuits: list[Circuit], everything: FloatArray, denoised: bool
) -> float:
    """The power that is drawn all the time [W].

    With denoised readings it is the sum of the idle levels of the appliances and of the mean powers
    of all other circuits. With real mains it is a low quantile of the meter minus the running
    appliances.
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
    """The time of an ISO 8601 text; a date alone is midnight UTC."""
    return utc(f"{text}T00:00:00Z" if len(text) == 10 else text)


@dataclass(frozen=True)
class Levels:
    """The levels of a circuit."""

    idle: float  # Idle level [W]
    # On-levels in ascending order [W]; empty for a circuit with a single level
    on: tuple[float, ...]

    @property
    def threshold(self) -> float:
        """Midpoint of the idle level and the lowest on-level [W]; infinite without on-level."""
        return (self.idle + self.on[0]) / 2 if self.on else float("inf")


def find_levels(power: FloatArray, *, least_step: float = LEAST_STEP_W) -> Levels:
    """Find the idle level and the on-levels [W] of a circuit from its power [W].

    The scale of the histogram is linear below 40 W and logarithmic above, because the readings of
    a level of 2 kW vary more than those of a level of 50 W. A level is a peak of the histogram that
    has at least 3 % of the readings above idle and is clearly higher than its surroundings. It must
    be at least `least_step` [W] above idle, at least twice the idle level, and at least 2 % of the
    highest level.
    """
    scaled = np.arcsinh(power / KNEE_W)
    low = float(scaled.min())
    # Smoothing widens a peak by one bin, so an empty bin at both ends keeps every peak whole.
    bins = np.floor((scaled - low) / BIN).astype(np.int64) + 2
    counts = np.bincount(bins, minlength=int(bins.max()) + 3).astype(np.float64)
    idle_cut = _idle_end(counts)
    idle_members = power[bins <= idle_cut]
    idle = float(np.median(idle_members)) if idle_members.size else float(power.min())
    above = counts.copy()
    above[: idle_cut + 1] = 0.0
    on = _on_levels(power, bins, above)
    # A level below 2 % of the highest one is standby; below twice idle it is idle itself.
    floor = max(idle + least_step, 2 * idle, 0.02 * max(on, default=0.0))
    return Levels(idle, tuple(level for level in on if level >= floor))


def on_states(
    power: FloatArray,
    threshold: float,
    run_starts: BoolArray,
    *,
    min_on: int = 0,
    min_off: int = 0,
) -> BoolArray:
    """Return the states of a circuit: on above the threshold [W], without short pauses and runs."""
    states: BoolArray = power > threshold
    for value, least in ((False, min_off), (True, min_on)):
        if least > 1:
            states = _without_short(states, run_starts, value, least)
    return states


def readings_at_least(seconds: float, interval_s: float) -> int:
    """Return the smallest number of readings that last at least `seconds`."""
    return int(np.ceil(non_negative("duration", seconds) / interval_s - 1e-9))


def _idle_end(counts: FloatArray) -> int:
    """The last bin of the idle level: where its peak has fallen to a tenth of its height."""
    smooth = _smooth(counts)
    total = counts.sum()
    peak, run = 0, 0.0
    for i in range(smooth.size):
        run += counts[i]
        if smooth[i] >= smooth[peak]:
            peak = i
        # A peak of fewer than 0.5 % of the readings is an outlier, not the idle level.
        elif run >= 0.005 * total and smooth[i] <= 0.1 * smooth[peak]:
            return i
    return smooth.size - 1


def _on_levels(power: FloatArray, bins: IntArray, above: FloatArray) -> list[float]:
    """The medians of the readings around each peak above idle."""
    total = above.sum()
    if total < LEAST_ON:
        return []
    smooth = _smooth(above)
    peaks = _peaks(smooth, 0.15 * LEAST_SHARE * total)
    edges = _valleys(smooth, peaks)
    levels = []
    for first, last in pairwise(edges):
        share = above[first:last].sum() / total
        if share >= LEAST_SHARE:
            inside = (bins >= first) & (bins < last) & (above[bins] > 0)
            levels.append(float(np.median(power[inside])))
    return levels


def _peaks(smooth: FloatArray, prominence: float) -> IntArray:
    """The middles of all maxima that rise by `prominence` above the way to a higher bin or the end.

    A maximum has lower bins on both sides.
    """
    changes = np.flatnonzero(np.diff(smooth))
    rises = smooth[changes + 1] > smooth[changes]
    tops = np.flatnonzero(rises[:-1] & ~rises[1:])
    found = []
    for first, last in zip(changes[tops] + 1, changes[tops + 1], strict=True):
        higher = np.flatnonzero(smooth > smooth[first])
        left = higher[higher < first].max(initial=-1)
        right = higher[higher > first].min(initial=smooth.size)
        lowest = max(smooth[left + 1 : first].min(), smooth[last + 1 : right].min())
        if smooth[first] - lowest >= prominence:
            found.append((first + last) // 2)
    return np.array(found, dtype=np.int64)


def _valleys(smooth: FloatArray, peaks: IntArray) -> list[int]:
    """The lowest bins between neighbouring peaks, and both ends of the histogram."""
    inner = [int(a + np.argmin(smooth[a:b])) for a, b in pairwise(peaks)]
    return [0, *inner, smooth.size]


def _smooth(counts: FloatArray) -> FloatArray:
    """The histogram, smoothed over three bins."""
    return np.convolve(counts, [0.25, 0.5, 0.25], mode="same")


def _without_short(states: BoolArray, run_starts: BoolArray, value: bool, least: int) -> BoolArray:
    """Flip every stretch of `value` that is shorter than `least` readings.

    A stretch next to a gap is kept, because its true length is unknown.
    """
    runs = Runs.of_equal(states, run_starts)
    ends_run = np.append(run_starts[runs.stop[:-1]], True)
    short = (states[runs.first] == value) & (runs.length < least)
    flips = np.repeat(short & ~run_starts[runs.first] & ~ends_run, runs.length)
    result: BoolArray = states ^ flips
    return result
