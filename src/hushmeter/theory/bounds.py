"""Entry point to the bounds of the paper, and their curves against ε.

`bounds` computes Theorems 3 and 4, 5 or 6 in one of three forms for all values of ε at once.
`bound_curves` (Fig. 2) adds the exact accuracy and the limit of any attacker; `series_curves` and
`series_bounds` are the same for Theorems 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import (
    FloatArray,
    IntArray,
    non_negative,
    one_of,
    positive,
    positive_array,
    whole,
)
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise import Laplace
from hushmeter.theory import multi_shot, one_shot
from hushmeter.theory.exact import (
    ContinuousLaplace,
    NoiseDifference,
    exact_curve,
    refuse_levels,
    series_accuracy,
    switch_vector,
)
from hushmeter.theory.one_shot import Bound
from hushmeter.theory.universal import laplace_information, laplace_limit, series_information
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

FORMS = ("corrected", "printed", "integral")
"""Forms of every bound: see `hushmeter.theory.one_shot`."""


@dataclass(frozen=True)
class Bounds:
    """Bounds on the expected accuracy of the paper's attacker.

    Attributes
    ----------
    form : {"corrected", "printed", "integral"}
    lower, upper : Bound
        float(x) is clipped to [0, 1]; x.raw is the value of the formula, and x.vacuous is True if
        it is outside (0, 1).
    groups : tuple of GroupBounds
        With `hierarchical`: the bounds m_i and M_i of every hierarchy, largest powers first.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)])
    >>> hm.bounds(home, epsilon=1.0, sensitivity=10.0, max_switches=1).lower.vacuous
    True
    """

    form: str
    lower: Bound
    upper: Bound
    groups: tuple[multi_shot.GroupBounds, ...] = ()


@dataclass(frozen=True)
class _Question:
    """Checked arguments of `bounds`: the noise, its Laplace scale [W] and the switches."""

    home: Home
    noise: NoiseDifference
    scale: FloatArray | None
    max_switches: IntArray
    switched_power: float | None
    cancelled_power: float
    disturbance: float
    constant: float | None

    def noise_of(self, form: str) -> FloatArray:
        """The noise as a form of the paper takes it: its scale λ [W], or ε with Δf = δ/2."""
        if self.scale is None:
            raise InputError(
                "the printed and integral bounds are for Laplace noise; use form 'corrected'."
            )
        return np.asarray(
            self.home.tolerance / (2 * self.scale) if form == "printed" else self.scale
        )


@dataclass(frozen=True)
class Conditions:
    """What is known about the jumps and the noise beside ε.

    Attributes
    ----------
    switched : vector of length N, or names, optional
        The appliances that switched, for a sharper one-shot bound; as in `exact_accuracy`.
    mixed : bool
        Whether some appliances may switch on while others switch off at one reading.
    disturbance : float
        Disturbance Y of Lemma 3. [W]
    recovery_constant : float, optional
        C(P) of the printed and integral forms; 4/((√3 − 1)‖P‖₂) if it is not given: see
        `hushmeter.theory.one_shot.recovery_constant`. [1/W]
    mechanism : Mechanism, optional
        Mechanism instead of ε and Δf. The corrected form accepts any mechanism, the others accept
        Laplace.
    """

    switched: ArrayLike | Sequence[str] | None = None
    mixed: bool = False
    disturbance: float = 0.0
    recovery_constant: float | None = None
    mechanism: Mechanism | None = None


def bounds(
    home: Home,
    epsilon: ArrayLike | None = None,
    *,
    sensitivity: float | None = None,
    max_switches: ArrayLike = 1,
    form: str = "corrected",
    readings: int | None = None,
    hierarchical: bool = False,
    conditions: Conditions | None = None,
) -> Bounds:
    """Theorems 3 and 4, 5 or 6. Lower and upper bound on the expected accuracy.

    Parameters
    ----------
    home : Home
    epsilon : array_like
        ε of the Laplace noise, one value or an array.
    sensitivity : float, optional
        Sensitivity Δf; the paper's δ/2 if it is not given. [W]
    max_switches : int, or (T,) of int with `readings`
        Largest number U of switches at one reading.
    form : {"corrected", "printed", "integral"}
        The form that can be proved, the closed forms of the paper, or the values of its integrals.
    readings : int, optional
        If it is not given, the bounds are for one jump, E[α] (Theorems 3 and 4). Otherwise they
        are for E[α_m] over this number T of readings after a known state, before error correction
        (Theorem 5).
    hierarchical : bool
        With `readings`: bounds for E[α_H] of Algorithm 2, and `groups` for each hierarchy
        (Theorem 6).
    conditions : Conditions, optional
        What else is known: the mechanism, the appliances that switched, a disturbance.

    Returns
    -------
    Bounds

    Raises
    ------
    InputError
        If the arguments contradict each other or are out of range, or an appliance has levels.

    Notes
    -----
    The corrected forms are valid for the relaxed attacker with Bernoulli rounding. A mechanism
    that rounds readings to its grid moves a jump by up to one step, which is added to
    `disturbance`.

    Examples
    --------
    >>> from hushmeter.synth import ready_home
    >>> answer = bounds(ready_home("similar8"), epsilon=0.1)
    >>> round(float(answer.lower), 3), round(float(answer.upper), 3)
    (0.732, 0.995)
    """
    one_of("form", form, FORMS)
    refuse_levels(home)
    known = Conditions() if conditions is None else conditions
    noise, scale, step = _noise(home, epsilon, sensitivity, known.mechanism)
    counts, power, cancelled = _switches(home, max_switches, known, readings)
    moved = non_negative("disturbance", known.disturbance) + step
    constant = known.recovery_constant
    asked = _Question(home, noise, scale, counts, power, cancelled, moved, constant)
    if readings is None:
        if hierarchical:
            raise InputError("Theorem 6 needs a series of readings: give the number of readings.")
        return Bounds(form, *_one_jump(asked, form))
    count = whole("readings", readings)
    return _hierarchies(asked, form, count) if hierarchical else _series(asked, form, count)


def _one_jump(asked: _Question, form: str) -> tuple[Bound, Bound]:
    """Theorems 3 and 4 in the given form."""
    home, moved = asked.home, asked.disturbance
    if form != "corrected":
        lower, upper, _ = multi_shot.PAPER_FORMS[form]
        noise = asked.noise_of(form)
        low = lower(home, noise, constant=asked.constant, disturbance=moved)
        return low, upper(home, noise, disturbance=moved)
    known = (home, asked.noise, asked.max_switches)
    power, cancelled = asked.switched_power, asked.cancelled_power
    return (
        one_shot.corrected_lower(*known, switched_power=power, disturbance=moved),
        one_shot.corrected_upper(*known, cancelled_power=cancelled, disturbance=moved),
    )


def _series(asked: _Question, form: str, readings: int) -> Bounds:
    """Theorem 5, from Theorems 3 and 4."""
    rows = multi_shot.switches_per_reading(asked.home, asked.max_switches, readings, asked.noise)
    if form == "corrected" and np.ndim(asked.max_switches):
        each, tops = _one_jump(replace(asked, max_switches=rows), form)
        lower, top = multi_shot.corrected_lower(each), tops[0]
    else:
        one_jump, top = _one_jump(asked, form)
        if form == "corrected":
            lower = multi_shot.corrected_lower(one_jump, readings)
        else:
            lower = multi_shot.PAPER_FORMS[form][2](one_jump, len(asked.home), readings)
    return Bounds(form, lower, multi_shot.corrected_upper(top, readings))


def _hierarchies(asked: _Question, form: str, readings: int) -> Bounds:
    """Theorem 6."""
    home, moved = asked.home, asked.disturbance
    if form == "corrected":
        groups = multi_shot.corrected_groups(
            home, asked.noise, readings, asked.max_switches, disturbance=moved
        )
    else:
        noise, most = asked.noise_of(form), int(np.max(asked.max_switches))
        groups = multi_shot.paper_groups(
            home, noise, readings, most, form=form, constant=asked.constant, disturbance=moved
        )
    return Bounds(form, *multi_shot.overall(groups), groups)


def _noise(
    home: Home,
    epsilon: ArrayLike | None,
    sensitivity: float | None,
    mechanism: Mechanism | None,
) -> tuple[NoiseDifference, FloatArray | None, float]:
    """The noise, its Laplace scale λ [W] or None, and how far rounding moves a jump [W]."""
    if (epsilon is None) == (mechanism is None):
        raise InputError("give either epsilon or a mechanism.")
    if mechanism is not None:
        if sensitivity is not None:
            raise InputError("a mechanism has its own sensitivity: do not give sensitivity.")
        scale = np.asarray(mechanism.scale) if mechanism.paper_bounds else None
        return mechanism, scale, 0.0 if mechanism.on_grid else mechanism.grid
    width = _width(home, sensitivity)
    with np.errstate(over="ignore"):
        scale = np.asarray(width / positive_array("epsilon", epsilon if epsilon is not None else 0))
    return ContinuousLaplace(scale), scale, 0.0


def _width(home: Home, sensitivity: float | None) -> float:
    """Sensitivity Δf [W]: as given, else the paper's δ/2."""
    return home.tolerance / 2 if sensitivity is None else positive("sensitivity", sensitivity)


def _switches(
    home: Home, max_switches: ArrayLike, known: Conditions, readings: int | None
) -> tuple[IntArray, float | None, float]:
    """U, s0 or None [W], and the largest power that opposite switches can cancel [W]."""
    counts = one_shot.check_switches(home, max_switches)
    if counts.ndim and readings is None:
        raise InputError("max_switches must be one number, unless readings are given.")
    if known.switched is not None:
        if readings is not None:
            raise InputError("switched describes one jump: do not give readings.")
        vector = switch_vector(home, known.switched)
        power = float(np.abs(vector) @ home.powers)
        count = np.asarray(np.count_nonzero(vector))
        return count, power, power - abs(float(vector @ home.powers))
    most = int(counts.max())
    together = known.mixed and most > 1
    cancelled = float(one_shot.largest_sum(home.powers, most)) if together else 0.0
    return counts, None, cancelled


@dataclass(frozen=True)
class BoundCurves:
    """One-shot accuracy as a function of ε under the paper's continuous Laplace noise."""

    epsilon: FloatArray
    scale: FloatArray  # Laplace scale λ = Δf/ε [W]
    # E[α] of the relaxed attacker, the mean over all vectors of at most `max_switches` switches
    exact: FloatArray
    # The bounds in every form
    corrected: Bounds
    printed: Bounds
    integral: Bounds
    limit: FloatArray  # Accuracy that no attacker exceeds: see `switch_limit`
    # Bits of one reading about on and off, equally likely: the mean over the appliances
    information: FloatArray
    floor: float  # Accuracy α of the answer “nothing switched”
    max_switches: int  # Largest number U of switches
    tolerance: float  # The home's tolerance δ [W]
    largest_tolerance: float  # Domain of Theorem 3: its bound can be positive for smaller δ [W]

    def columns(self) -> dict[str, FloatArray]:
        """All curves as columns of one table; the bounds are raw values."""
        table = {
            "epsilon": self.epsilon,
            "ln_1_over_epsilon": -np.log(self.epsilon),
            "scale_w": self.scale,
            "exact": self.exact,
            "universal_limit": self.limit,
            "information_bits": self.information,
            "nothing_switched": np.full_like(self.epsilon, self.floor),
        }
        for form in ("corrected", "printed", "integral"):
            answer: Bounds = getattr(self, form)
            table[f"{form}_lower"] = np.asarray(answer.lower.raw)
            table[f"{form}_upper"] = np.asarray(answer.upper.raw)
        return table


def switch_limit(optimum: ArrayLike, share: float) -> FloatArray:
    """Accuracy that no attacker of one jump exceeds: 1 − 2·share·(1 − optimum).

    Notes
    -----
    All vectors of at most U switches are equally likely. Consider an attacker that knows the state
    before the jump and all other switches. If U other appliances switched, it knows that appliance
    i did not. Otherwise both answers are equally likely; this happens in twice the share of
    vectors with a switch of i, and the attacker is correct with probability `optimum`. An attacker
    that knows less is not correct more often.
    """
    return np.asarray(1 - 2 * share * (1 - np.asarray(optimum, dtype=np.float64)))


def observed_limit(home: Home, trace: Trace, scale: ArrayLike) -> FloatArray:
    """Accuracy that no attacker of one jump exceeds, for the switches of a trace.

    `scale` is the scale of Laplace noise [W], or an array of them.

    Notes
    -----
    Consider an attacker that knows the state before the jump, all other switches, and how often
    appliance i switches in this situation. It is the best attacker of one bit with this
    frequency as its prior: see `laplace_limit`. The limit is the mean over the steps of the trace.
    An attacker that knows less is not correct more often. A frequency of zero or one makes the
    attacker certain.
    """
    states = trace.truth().astype(np.int8)
    inside = ~trace.run_starts[1:]
    before, moves = states[:-1][inside], np.diff(states, axis=0)[inside]
    scales = np.atleast_1d(positive_array("scale", scale))
    total = np.zeros(scales.size)
    for i, power in enumerate(home.powers):
        known = np.column_stack([before[:, i], np.delete(moves, i, axis=1)])
        situations, which = np.unique(known, axis=0, return_inverse=True)
        steps = np.bincount(which.ravel(), minlength=len(situations))
        switched = np.bincount(which.ravel(), moves[:, i] != 0, minlength=len(situations))
        for prior, share in zip(switched / steps, steps / steps.sum(), strict=True):
            best = 1.0 if prior in (0.0, 1.0) else laplace_limit(power, scales, prior)
            total += share * np.asarray(best)
    return total / len(home)


def _observed_bounds(home: Home, scale: FloatArray, counts: IntArray) -> Bounds:
    """Theorems 3 and 4 corrected, the mean over steps with these numbers of switches."""
    noise, lower, upper = ContinuousLaplace(scale), np.zeros(scale.shape), np.zeros(scale.shape)
    for switches, steps in zip(*np.unique(counts, return_counts=True), strict=True):
        most, share = np.asarray(switches), steps / counts.size
        # Several switches at once may have opposite directions and cancel each other.
        cancelled = float(one_shot.largest_sum(home.powers, int(switches))) if switches > 1 else 0.0
        low = one_shot.corrected_lower(home, noise, most)
        top = one_shot.corrected_upper(home, noise, most, cancelled_power=cancelled)
        lower += share * np.asarray(low.clipped)
        upper += share * np.asarray(top.clipped)
    return Bounds("corrected", Bound(lower), Bound(upper))


def bound_curves(
    home: Home,
    epsilon: ArrayLike,
    *,
    sensitivity: float | None = None,
    max_switches: int = 1,
    trace: Trace | None = None,
) -> BoundCurves:
    """Exact accuracy, bounds in every form, limit and floor for one home (Fig. 2).

    `sensitivity` is Δf [W], the paper's δ/2 if it is not given. All vectors of at most
    `max_switches` switches are equally likely; with a trace, its switches have their frequencies
    instead, and the corrected bounds are the means over its steps.
    """
    most, n = whole("max_switches", max_switches), len(home)
    if most > n:
        raise InputError(f"max_switches is {most}, but the home has {n} appliances.")
    width = _width(home, sensitivity)
    values = np.atleast_1d(positive_array("epsilon", epsilon))
    scale = width / values
    vectors = [math.comb(n, k) for k in range(most + 1)]
    share = sum(k * count for k, count in enumerate(vectors)) / (n * sum(vectors))
    forms: dict[str, Any] = {
        form: bounds(home, values, sensitivity=width, max_switches=most, form=form)
        for form in ("corrected", "printed", "integral")
    }
    common: dict[str, Any] = {
        "epsilon": values,
        "scale": scale,
        "information": laplace_information(home.powers[:, None], scale).mean(axis=0),
        "tolerance": home.tolerance,
        "largest_tolerance": n / (2 + one_shot.recovery_constant(home.powers)),
    }
    if trace is not None:
        counts = trace.switches[~trace.run_starts].sum(axis=1)
        forms["corrected"] = _observed_bounds(home, scale, counts)
        return BoundCurves(
            exact=exact_curve(home, scale, trace=trace),
            limit=observed_limit(home, trace, scale),
            floor=1 - float(counts.mean()) / n,
            max_switches=int(counts.max()),
            **common,
            **forms,
        )
    return BoundCurves(
        exact=exact_curve(home, scale, max_switches=most),
        limit=switch_limit(laplace_limit(home.powers[:, None], scale), share).mean(axis=0),
        floor=1 - share,
        max_switches=most,
        **common,
        **forms,
    )


@dataclass(frozen=True)
class SeriesBounds:
    """Bounds on the accuracy of Algorithms 1 and 2 over a series of readings, as functions of ε."""

    # ε and the Laplace scale λ [W] of the noise on its grid
    epsilon: FloatArray
    scale: FloatArray
    series: tuple[Bounds, ...]  # Theorem 5 in every form of `FORMS`; each bound has the shape (E,)
    hierarchies: tuple[Bounds, ...]  # Theorem 6 in every form of `FORMS`, or empty
    readings: int  # Number of readings after the first one
    # Verdicts on the assumptions of the paper for this home and, if there is one, its trace
    assumptions: tuple[str, ...]

    def columns(self) -> dict[str, FloatArray]:
        """All curves as columns of one table; the bounds are raw values."""
        table = {"epsilon": self.epsilon, "scale_w": self.scale}
        for prefix, answers in (("", self.series), ("hierarchical_", self.hierarchies)):
            for answer in answers:
                table[f"{prefix}{answer.form}_lower"] = np.asarray(answer.lower.raw)
                table[f"{prefix}{answer.form}_upper"] = np.asarray(answer.upper.raw)
        return table


@dataclass(frozen=True)
class SeriesCurves(SeriesBounds):
    """Bounds and exact accuracy of Algorithm 1 over the readings of one trace."""

    exact: FloatArray  # E[α_m] before error correction, over the readings after the first one
    # Lower and upper bound of the bits that the whole series contains about the states of an
    # appliance, shape (E, 2): the mean over the appliances; see `series_information`
    information: FloatArray
    floor: float  # Accuracy of the answer that the first state lasts for ever

    def columns(self) -> dict[str, FloatArray]:
        """All curves as columns of one table; the bounds are raw values."""
        lower, upper = self.information.T
        bits = {"information_lower_bits": lower, "information_upper_bits": upper}
        return {**super().columns(), "exact": self.exact, **bits}


def series_curves(
    home: Home,
    trace: Trace,
    epsilon: ArrayLike,
    *,
    sensitivity: float | None = None,
    hierarchical: bool = False,
) -> SeriesCurves:
    """Theorem 5, and 6 if `hierarchical`, on a trace, beside the exact accuracy of Algorithm 1.

    The trace has the readings [W] before noise and the true states; the attacker knows the first
    state. `sensitivity` is as in `bound_curves`.

    The noise is discrete Laplace noise on a grid between λ/32 and λ/16, so that the curve is that
    of the paper's continuous noise to about 0.1 %. The corrected bounds use the number of switches
    of every reading, the other forms the largest number. A difference between the readings and the
    power of the appliances that are on (the base load, measurement error) is a disturbance in the
    sense of Lemma 3.
    """
    if len(trace) < 2:
        raise InputError("the accuracy of a series needs at least two readings.")
    states = trace.truth()
    switches = np.abs(np.diff(states.astype(np.int8), axis=0)).sum(axis=1)
    rest = trace.readings - states @ home.powers
    found = series_bounds(
        home,
        len(trace) - 1,
        epsilon,
        sensitivity=sensitivity,
        max_switches=switches,
        disturbance=float(np.abs(np.diff(rest)).max()),
        hierarchical=hierarchical,
    )
    mechanisms = [_fine_laplace(scale) for scale in found.scale]
    return SeriesCurves(
        found.epsilon,
        found.scale,
        found.series,
        found.hierarchies,
        found.readings,
        home.check(trace).sentences,
        exact=np.array([series_accuracy(home, trace, mechanism=m)[1:].mean() for m in mechanisms]),
        information=np.array([_information(home, trace, m) for m in mechanisms]),
        floor=float((states[1:] == states[0]).mean()),
    )


def _information(home: Home, trace: Trace, mechanism: Laplace) -> tuple[float, float]:
    """Bounds of the bits of a whole trace, with its switches as Markov chains."""
    states, inside = trace.truth(), ~trace.run_starts[1:]
    before, after = states[:-1][inside], states[1:][inside]
    total = np.zeros(2)
    for watts, was, now in zip(home.powers.tolist(), before.T, after.T, strict=True):
        # The state of an appliance that never switches is no secret.
        if (was != now).any() and was.any() and not was.all():
            chain = float(now[~was].mean()), float(1 - now[was].mean())
            total += series_information(watts, mechanism, chain, len(trace))
    lower, upper = (total / len(home)).tolist()
    return lower, upper


def series_bounds(
    home: Home,
    readings: int,
    epsilon: ArrayLike,
    *,
    sensitivity: float | None = None,
    max_switches: ArrayLike = 1,
    disturbance: float = 0.0,
    hierarchical: bool = False,
) -> SeriesBounds:
    """Theorem 5, and 6 if `hierarchical`, for a number of readings that are not known.

    `disturbance` is Y of Lemma 3 [W]; `sensitivity` is as in `bound_curves`.
    """
    width = _width(home, sensitivity)
    values = np.atleast_1d(positive_array("epsilon", epsilon))
    known: dict[str, Any] = {
        "sensitivity": width,
        "readings": readings,
        "max_switches": max_switches,
        "conditions": Conditions(disturbance=disturbance),
    }

    def answers(*, hierarchical: bool) -> tuple[Bounds, ...]:
        return tuple(
            bounds(home, values, form=form, hierarchical=hierarchical, **known) for form in FORMS
        )

    return SeriesBounds(
        epsilon=values,
        scale=width / values,
        series=answers(hierarchical=False),
        hierarchies=answers(hierarchical=True) if hierarchical else (),
        readings=readings,
        assumptions=home.check().sentences,
    )


def _fine_laplace(scale: float) -> Laplace:
    """Discrete Laplace noise of scale λ [W] on a grid that is fine against it."""
    grid = 2.0 ** math.floor(math.log2(scale / 16))
    # One step of the grid costs grid/λ, so that the scale of the noise is λ.
    return Laplace(grid / scale, grid, grid, on_grid=True)
