"""Assumptions 1–3 of the paper, checked on a home and a trace, and what makes a trace meet them.

`estimate_tolerance` finds the tolerance δ of a trace. The paper considers pure loads and refers
homes with generation to a disaggregation that comes first (footnote to Assumption 2):
`remove_generation` is such a step, which estimates the solar generation from the readings alone.
Attackers model loads only, so they need it wherever the meter also counts exports.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import BoolArray, FloatArray, IntArray, power_vector
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import format_watts
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.trace import Trace


def concentration_margin(powers: ArrayLike) -> float:
    """Assumption 3. Smallest value of F(U) over all numbers of switches U.

    Parameters
    ----------
    powers : array_like, shape (N,)
        Powers of the appliances [W].

    Returns
    -------
    float
        The margin [W]. The powers are concentrated, for every U at once, if and only if the
        margin exceeds twice the tolerance.

    Notes
    -----
    F(U) = Σ(U smallest powers) − Σ(U − 1 largest powers). With ascending powers,
    F(U + 1) − F(U) = P_{U+1} − P_{N+1−U}, which is negative below U* = ⌈N/2⌉ and not negative
    from there on. F(U*) is therefore the smallest value.
    """
    ascending = np.sort(power_vector(powers))
    half = (ascending.size + 1) // 2
    return float(ascending[:half].sum() - ascending[ascending.size - half + 1 :].sum())


def quiet_jumps(trace: Trace, ignore: BoolArray | None = None) -> FloatArray:
    """Jumps of the meter [W] at the steps at which no appliance switches."""
    left_out = trace.switches.any(axis=1) if ignore is None else ignore
    jumps: FloatArray = trace.jumps()[~trace.run_starts & ~left_out]
    return jumps


def estimate_tolerance(
    trace: Trace, quantile: float = 0.999, *, ignore: BoolArray | None = None
) -> float:
    """Estimate the tolerance δ [W] of a trace (Section V-E of the paper).

    Parameters
    ----------
    trace : Trace
        With true states, unless `ignore` is given.
    quantile : float, default 0.999
        In (0, 1]. The paper takes the largest jump, 1.0; one spike does not decide a lower
        quantile.
    ignore : array of bool, shape (T,), optional
        See `quiet_jumps`.

    Returns
    -------
    float
        The quantile of `quiet_jumps` [W].

    Raises
    ------
    InputError
        If the quantile is not in (0, 1].
    DataError
        If no step is quiet.

    Examples
    --------
    >>> trace = hm.Trace([0.0, 4.0, 2000.0, 2010.0], 60.0, states=[[0], [0], [1], [1]])
    >>> hm.estimate_tolerance(trace, quantile=1.0)
    10.0
    """
    if not 0 < quantile <= 1:
        raise InputError(f"quantile must lie in (0, 1], got {quantile}.")
    jumps = quiet_jumps(trace, ignore)
    if jumps.size == 0:
        raise DataError(
            "something switches at every step of the trace, so the tolerance cannot be estimated."
        )
    return float(np.quantile(jumps, quantile))


@dataclass(frozen=True)
class TraceCheck:
    """What a trace with true states shows about Assumptions 1 and 2."""

    switches_per_step: IntArray  # Number of steps with 0, 1, … N switches
    # Number of steps at which one appliance switches on while another one switches off. The paper's
    # K = |Σ ± P| is not Δ·P there, which the paper assumes without saying so.
    mixed_steps: int
    sparsity: float  # Appendix B of the paper
    largest_fluctuation: float  # Largest jump of the meter at a step without a switch [W]
    # The same with the largest meter error, |y_t − y_{t−1}| + m·(|y_{t−1}| + |y_t|) [W]
    largest_with_error: float
    # Share of the jumps without a switch that do not exceed the tolerance, meter error included
    covered: float

    @property
    def max_switches(self) -> int:
        """U: the largest number of switches at one step."""
        return int(np.flatnonzero(self.switches_per_step)[-1])


@dataclass(frozen=True)
class AssumptionCheck:
    """The result of `Home.check`; `print` shows it as sentences.

    Attributes
    ----------
    tolerance : float
        The paper's δ [W].
    unresolvable : tuple of str
        Appliances of at most 2δ, whose switches cannot be told from fluctuations.
    confusable : tuple of pairs of str
        Appliances next to each other in power that differ by at most 2δ.
    margin : float
        `concentration_margin` of the powers [W].
    trace : TraceCheck or None
        None if no trace with true states was given.
    meter_error : float
        Largest relative error m of the meter, such as 0.05, that the tolerance must cover.
    error_jump : float
        Largest jump that the meter error alone can make [W]: 2·m·(base load + all powers), or
        with a trace 2·m times its largest reading.

    Examples
    --------
    >>> check = hm.Home.from_words("kettle, television").check()
    >>> check.unresolvable, check.margin
    ((), 90.0)
    """

    tolerance: float
    unresolvable: tuple[str, ...]
    confusable: tuple[tuple[str, str], ...]
    margin: float
    trace: TraceCheck | None
    meter_error: float = 0.0
    error_jump: float = 0.0

    @property
    def needed_tolerance(self) -> float | None:
        """Smallest tolerance that covers all fluctuations and the meter error [W], if known."""
        return None if self.trace is None else self.trace.largest_with_error

    @property
    def concentrated(self) -> bool:
        """True if Assumption 3 holds for every U."""
        return self.margin > 2 * self.tolerance

    @property
    def sparse(self) -> bool | None:
        """True if Assumption 1 holds: no step switches more than half of the appliances."""
        if self.trace is None:
            return None
        return 2 * self.trace.max_switches <= self.trace.switches_per_step.size - 1

    @property
    def bounded(self) -> bool | None:
        """True if Assumption 2 holds: no fluctuation without a switch exceeds the tolerance.

        With a meter error, the fluctuation includes the largest error of both readings.
        """
        return None if self.trace is None else self.trace.largest_with_error <= self.tolerance

    @property
    def failing(self) -> str:
        """The assumptions that fail, as words such as “Assumptions 2 and 3”; empty if none."""
        verdicts = (self.sparse, self.bounded, self.concentrated)
        numbers = [str(i) for i, verdict in enumerate(verdicts, 1) if verdict is False]
        *first, last = numbers or [""]
        listed = f"{', '.join(first)} and {last}" if first else last
        return f"Assumption{'s' if first else ''} {listed}" if last else ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result, one sentence for each assumption and each finding."""
        return (*self._trace_sentences(), *self._error_sentences(), *self._power_sentences())

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _trace_sentences(self) -> tuple[str, ...]:
        """Sentences about Assumptions 1 and 2."""
        if self.trace is None:
            return ("Assumptions 1 and 2 need true states; none were given.",)
        found = self.trace
        steps = int(found.switches_per_step.sum())
        quiet, single = found.switches_per_step[:2] / max(steps, 1)
        return (
            f"Assumption 1 (sparse switches) {_holds(self.sparse)}: at most "
            f"{found.max_switches} switch{'' if found.max_switches == 1 else 'es'} per step, none "
            f"in {quiet:.2%} and one in "
            f"{single:.2%} of {steps} steps; sparsity {found.sparsity:.2%}.",
            f"Assumption 2 (bounded power) {_holds(self.bounded)}: the largest jump without a "
            f"switch is {format_watts(found.largest_with_error)}"
            f"{' with the meter error' if self.meter_error else ''}, the tolerance is "
            f"{format_watts(self.tolerance)}.",
            *self._maximum_sentences(found),
            "The paper also assumes that no appliance switches on while another one switches off; "
            f"this happens in {found.mixed_steps} {'step' if found.mixed_steps == 1 else 'steps'}.",
        )

    def _maximum_sentences(self, found: TraceCheck) -> tuple[str, ...]:
        """What holds at the paper's own δ, the largest jump, if the tolerance is smaller."""
        largest = found.largest_with_error
        if self.bounded:
            return ()
        then = "hold" if self.margin > 2 * largest else "fail"
        return (
            f"The tolerance covers {found.covered:.2%} of the jumps without a switch. The paper's "
            f"δ is the largest of them: with δ = {format_watts(largest)} Assumption 2 would hold, "
            f"and Assumption 3 would {then} (it {_holds(self.concentrated)} at "
            f"{format_watts(self.tolerance)}).",
        )

    def _error_sentences(self) -> tuple[str, ...]:
        """The sentence about the meter error, if one was stated."""
        if self.meter_error == 0:
            return ()
        error = f"A meter error of up to {100 * self.meter_error:.3g} %"
        jump = f"{error} can make jumps of up to {format_watts(self.error_jump)} without a switch"
        needed = self.needed_tolerance
        if needed is None:
            more = "the tolerance must be larger by that much to cover it."
            return (f"{jump}; {more}",)
        then = "hold" if self.margin > 2 * needed else "fail"
        return (
            f"{jump}; with it, Assumption 2 needs a tolerance of {format_watts(needed)}, at which "
            f"Assumption 3 would {then}.",
        )

    def _power_sentences(self) -> tuple[str, ...]:
        """Sentences about Assumption 3 and about appliances of similar power."""
        twice = format_watts(2 * self.tolerance)
        sentences = [
            f"Assumption 3 (concentrated powers) {_holds(self.concentrated)}: the margin is "
            f"{format_watts(self.margin)} and must exceed {twice}."
        ]
        if self.unresolvable:
            sentences.append(
                "Too small to be detected at this tolerance "
                f"(at most {twice}): {', '.join(self.unresolvable)}."
            )
        if self.confusable:
            pairs = ", ".join(f"{a} and {b}" for a, b in self.confusable)
            sentences.append(f"Powers that differ by at most {twice}: {pairs}.")
        return tuple(sentences)


def check_assumptions(
    home: Home, trace: Trace | None = None, *, meter_error: float = 0.0
) -> AssumptionCheck:
    """Check Assumptions 1–3; `Home.check` calls this function and explains its parameters.

    A meter that multiplies each reading by its own 1 + e, |e| ≤ m, changes a jump by
    |e_t·y_t − e_{t−1}·y_{t−1}| ≤ m·(|y_{t−1}| + |y_t|), at most 2·m times the largest reading.
    The remark to Assumption 2 of the paper names m = 5 %. An error that is the same for all
    readings adds only m times the jump itself.
    """
    if not 0 <= meter_error <= 1:
        raise InputError(f"meter_error must lie between 0 and 1, got {meter_error}.")
    order = np.argsort(home.powers, kind="stable")
    close = [
        (home.names[a], home.names[b])
        for a, b in pairwise(order)
        if home.powers[b] - home.powers[a] <= 2 * home.tolerance
    ]
    small = [home.names[i] for i in order if home.powers[i] <= 2 * home.tolerance]
    everything_on = home.base_load + float(home.powers.sum())
    largest = everything_on if trace is None else float(np.abs(trace.readings).max())
    with_truth = trace is not None and trace.states is not None
    return AssumptionCheck(
        tolerance=home.tolerance,
        unresolvable=tuple(small),
        confusable=tuple(close),
        margin=concentration_margin(home.powers),
        trace=_check_trace(home, trace, meter_error) if trace is not None and with_truth else None,
        meter_error=float(meter_error),
        error_jump=2 * meter_error * largest,
    )


def _check_trace(home: Home, trace: Trace, meter_error: float) -> TraceCheck:
    """Count the switches and measure the fluctuations of a trace with true states."""
    states, switches = home.truth_of(trace), trace.switches
    within_run = ~trace.run_starts
    per_step = switches.sum(axis=1)
    on = (switches & states).any(axis=1)
    off = (switches & ~states).any(axis=1)
    size = np.abs(trace.readings)
    error = meter_error * (size + np.append(0.0, size[:-1]))
    quiet = within_run & ~switches.any(axis=1)
    jumps = (trace.jumps() + error)[quiet]
    return TraceCheck(
        switches_per_step=np.bincount(per_step[within_run], minlength=len(home) + 1),
        mixed_steps=int((on & off).sum()),
        sparsity=trace.sparsity,
        largest_fluctuation=float(quiet_jumps(trace).max(initial=0.0)),
        largest_with_error=float(jumps.max(initial=0.0)),
        covered=float((jumps <= home.tolerance).mean()) if jumps.size else 1.0,
    )


def _holds(verdict: bool | None) -> str:
    """The verb of a verdict."""
    return "holds" if verdict else "fails"


SLOT_S = 900.0
"""Shortest part of a day over which readings are averaged, so that noise counts less [s]."""
FEWEST_DAYS = 3
LONGEST_DAYLIGHT_H, NIGHT_H = 16.0, 6.0
"""The generation is zero outside the former, around its peak; the latter is certainly dark."""
ENVELOPE = 0.1
"""Quantile of the days that is the lower envelope at a time of day."""
DAY_QUANTILE = 0.85
"""Quantile, over the slots of a day, of the generation that the base load leaves room for."""
CURVE_QUANTILE = 0.9
"""Quantile, over the clear days, of the same at one time of day."""
REFINEMENTS = 3
"""Number of times that the curve and the weather are estimated in turn."""
LEAST_W = 20.0
"""Smallest peak of the generation that counts as found [W]."""


@dataclass(frozen=True)
class _Days:
    """Means over slots of the day, shape (days, slots), and where the readings belong."""

    means: FloatArray
    day: IntArray
    position: FloatArray

    @property
    def slots(self) -> int:
        return int(self.means.shape[1])


def estimate_generation(trace: Trace) -> FloatArray:
    """Estimate the power of solar panels behind a net meter.

    Notes
    -----
    The generation is w_d · g(h): a curve g over the time of day h, the same on all days, times the
    weather w_d of day d. Readings are averaged over 15 min. The lower envelope of a time of day is
    the 10 % quantile over the days, and the first g is its distance below the base load b, which
    is the same quantile by night; noise lowers both alike. Without load below b, a mean y of day d
    shows that w_d · g ≥ b − y. High quantiles of (b − y) / g over the slots of a day, and of
    (b − y) / w_d over the clear days, therefore estimate w_d and g in turn. Clouds that pass
    within a day are not modelled.
    """
    nothing = np.zeros(len(trace))
    if not (trace.readings < 0).any():
        return nothing
    days = _average(trace, 0.0)
    envelope = _smooth(_quantile_of_columns(days.means, ENVELOPE))
    # Days are cut at the darkest time, so that no time zone splits the daylight.
    darkest = (int(envelope.argmin()) + days.slots // 2) % days.slots
    days = _average(trace, darkest * SECONDS_PER_DAY / days.slots)
    envelope = _smooth(_quantile_of_columns(days.means, ENVELOPE))
    curve, base = _daily_curve(envelope)
    if curve is None:
        return nothing
    below = base - days.means
    weather = _weather(below, curve)
    for _ in range(REFINEMENTS if weather.any() else 0):
        # The envelope of a time of day can come from a cloudy day, if a load ran on the clear ones.
        clear = weather > 0.5 * weather.max()
        room = _quantile_of_columns(below[clear] / weather[clear, None], CURVE_QUANTILE)
        curve = np.where(curve > 0, np.maximum(_smooth(room), 0.0), 0.0)
        weather = _weather(below, curve)
    centres = np.arange(days.slots) + 0.5
    shape = np.interp(days.position, centres, curve, period=days.slots)
    generation: FloatArray = weather[days.day] * shape
    return generation


def remove_generation(trace: Trace) -> Trace:
    """Add the estimated generation to net readings, so that they are loads again."""
    return trace.replace_readings(trace.readings + estimate_generation(trace))


def warn_of_generation(trace: Trace) -> str | None:
    """Return one sentence about negative readings, which no attacker models; None without them."""
    count = int((trace.readings < 0).sum())
    if count == 0:
        return None
    return (
        f"{count} of {len(trace)} readings are negative, because the meter counts exported power "
        "or because noise was added; the attackers model loads only, and "
        "hushmeter attack --generation remove takes solar power out first."
    )


def _weather(below: FloatArray, curve: FloatArray) -> FloatArray:
    """Factor of each day, from how far its means are below the base load; 0 without readings."""
    high = curve > 0.3 * curve.max()
    room = _quantile_of_columns((below[:, high] / curve[high]).T, DAY_QUANTILE)
    weather: FloatArray = np.nan_to_num(np.maximum(room, 0.0))
    return weather


def _quantile_of_columns(values: FloatArray, level: float) -> FloatArray:
    """Quantile of the known values of each column; NaN for a column without any."""
    known = ~np.isnan(values).all(axis=0)
    found = np.full(known.size, np.nan)
    if known.any():
        found[known] = np.nanquantile(values[:, known], level, axis=0)
    return found


def _average(trace: Trace, cut_s: float) -> _Days:
    """Means over slots of days that begin `cut_s` seconds after midnight UTC; NaN where empty."""
    if trace.interval_s > SECONDS_PER_HOUR:
        raise DataError(
            "generation can be estimated from readings of at most 1 h, and these have "
            f"{trace.interval_s / SECONDS_PER_HOUR:g} h."
        )
    slots = int(SECONDS_PER_DAY // max(SLOT_S, trace.interval_s))
    # The middle of a reading decides its slot.
    utc = (trace.times - np.datetime64(0, "ns")) / np.timedelta64(1, "s") + trace.interval_s / 2
    day, second = np.divmod(utc - cut_s, SECONDS_PER_DAY)
    day = (day - day[0]).astype(np.int64)
    if np.unique(day).size < FEWEST_DAYS:
        raise DataError(
            f"generation can be estimated from at least {FEWEST_DAYS} days of readings; give more "
            "readings, or keep the generation."
        )
    position = second / SECONDS_PER_DAY * slots
    cell = day * slots + np.minimum(position.astype(np.int64), slots - 1)
    size = (int(day[-1]) + 1) * slots
    counts = np.bincount(cell, minlength=size)
    sums = np.bincount(cell, trace.readings, minlength=size)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return _Days(means.reshape(-1, slots), day, position)


def _smooth(envelope: FloatArray) -> FloatArray:
    """Circular means over about 75 min; a slot without any reading is taken from its neighbours."""
    slots = np.arange(envelope.size)
    known = ~np.isnan(envelope)
    full = np.interp(slots, slots[known], envelope[known], period=envelope.size)
    reach = max(1, envelope.size // 48)
    shifted = [np.roll(full, shift) for shift in range(-reach, reach + 1)]
    smooth: FloatArray = np.mean(shifted, axis=0)
    return smooth


def _daily_curve(envelope: FloatArray) -> tuple[FloatArray | None, float]:
    """Generation of a clear day [W] by slot, None if there is none, and the base load [W]."""
    slots = envelope.size
    peak = int(envelope.argmin())
    distance = np.abs((np.arange(slots) - peak + slots // 2) % slots - slots // 2) * 24 / slots
    night = envelope[distance >= 12 - NIGHT_H / 2]
    base = float(np.median(night))
    curve = np.where(distance <= LONGEST_DAYLIGHT_H / 2, np.maximum(base - envelope, 0.0), 0.0)
    spread = float(np.abs(night - base).max())
    if envelope[peak] >= 0 or curve[peak] < max(LEAST_W, 4 * spread):
        return None, base
    return _only_around(peak, curve), base


def _only_around(peak: int, curve: FloatArray) -> FloatArray:
    """The stretch around the peak in which the curve stays above 2 % of it; zero elsewhere."""
    centred = np.roll(curve, curve.size // 2 - peak)
    low = np.flatnonzero(centred < 0.02 * curve[peak])
    middle = curve.size // 2
    first = int(low[low < middle].max(initial=-1)) + 1
    stop = int(low[low > middle].min(initial=curve.size))
    kept = np.zeros(curve.size)
    kept[first:stop] = centred[first:stop]
    around: FloatArray = np.roll(kept, peak - middle)
    return around
