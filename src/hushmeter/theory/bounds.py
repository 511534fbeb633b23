"""The front door to the bounds of the paper: one call, three forms, every ε at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, IntArray, non_negative, one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.theory import hierarchical as six
from hushmeter.theory import multi_shot as five
from hushmeter.theory import one_shot
from hushmeter.theory.bound import Bound
from hushmeter.theory.exact import (
    ContinuousLaplace,
    DifferenceLaw,
    positive_array,
    switch_vector,
)

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

FORMS = ("corrected", "printed", "integral")


@dataclass(frozen=True)
class Bounds:
    """Bounds on the expected accuracy of the paper's attacker.

    Attributes
    ----------
    form : {"corrected", "printed", "integral"}
    lower, upper : Bound
        float(x) is clipped to [0, 1]; x.raw and x.vacuous say what was clipped.
    groups : tuple of GroupBounds
        With `hierarchical`: m_i and M_i of every hierarchy, largest powers first.
    """

    form: str
    lower: Bound
    upper: Bound
    groups: tuple[six.GroupBounds, ...] = ()


@dataclass(frozen=True)
class _Question:
    """What is asked, checked: the noise, its continuous scale, and the switches."""

    home: Home
    noise: DifferenceLaw
    scale: FloatArray | None
    max_switches: IntArray
    switched_power: float | None
    cancelled_power: float
    disturbance: float
    constant: float | None

    @property
    def laplace_scale(self) -> FloatArray:
        if self.scale is None:
            raise InputError("the paper's own bounds are for Laplace noise; use form 'corrected'.")
        return self.scale

    @property
    def paper_epsilon(self) -> FloatArray:
        """ε for which the paper, with Δf = δ/2, has the same noise."""
        return np.asarray(self.home.tolerance / (2 * self.laplace_scale))


def bounds(
    home: Home,
    epsilon: ArrayLike | None = None,
    *,
    sensitivity: float | None = None,
    max_switches: ArrayLike = 1,
    form: str = "corrected",
    readings: int | None = None,
    hierarchical: bool = False,
    switched: ArrayLike | Sequence[str] | None = None,
    mixed: bool = False,
    disturbance: float = 0.0,
    recovery_constant: float | None = None,
    mechanism: Mechanism | None = None,
) -> Bounds:
    """Theorems 3 and 4, 5 or 6: lower and upper bound on the expected accuracy.

    Parameters
    ----------
    home : Home
    epsilon : array_like
        ε of the Laplace noise, one or many.
    sensitivity : float, optional
        Δf [W]; the paper's δ/2 if not given.
    max_switches : int, or (T,) of int with `readings`
        U, the most switches at a reading.
    form : {"corrected", "printed", "integral"}
        What holds; the paper's closed forms; what its own integrals give.
    readings : int, optional
        Without it one jump, E[α] (Theorems 3 and 4). With it E[α_m] over so many readings after
        a known state, before error correction (Theorem 5).
    hierarchical : bool
        With `readings`: E[α_H] of Algorithm 2, and `groups` with each hierarchy (Theorem 6).
    switched : vector of length N, or names, optional
        What did switch, for a sharper one-shot bound; as in `exact_accuracy`.
    mixed : bool
        Whether appliances may go on while others go off at one reading.
    disturbance : float
        Y of Lemma 3 [W].
    recovery_constant : float, optional
        C(P) of the paper's forms; 4/((√3 − 1)‖P‖₂) if not given, see
        `hushmeter.theory.one_shot.recovery_constant`.
    mechanism : Mechanism, optional
        Instead of ε and Δf. The corrected form takes any; the paper's forms take Laplace.

    Returns
    -------
    Bounds

    Notes
    -----
    The corrected forms hold for the relaxed attacker with Bernoulli rounding. A mechanism that
    rounds readings to its grid moves a jump by up to one step, which is added to `disturbance`.

    Examples
    --------
    >>> from hushmeter.synth import ready_home
    >>> answer = bounds(ready_home("similar8"), epsilon=0.1)
    >>> round(float(answer.lower), 3), round(float(answer.upper), 3)
    (0.732, 0.995)
    """
    one_of("form", form, FORMS)
    noise, scale, step = _noise(home, epsilon, sensitivity, mechanism)
    counts, power, cancelled = _switches(home, max_switches, switched, mixed, readings)
    moved = non_negative("disturbance", disturbance) + step
    asked = _Question(home, noise, scale, counts, power, cancelled, moved, recovery_constant)
    if readings is None:
        if hierarchical:
            raise InputError("Theorem 6 is about a series of readings; give readings with it.")
        return Bounds(form, *_one_jump(asked, form))
    count = whole("readings", readings)
    return _hierarchies(asked, form, count) if hierarchical else _series(asked, form, count)


def _one_jump(asked: _Question, form: str) -> tuple[Bound, Bound]:
    home, moved = asked.home, asked.disturbance
    if form == "corrected":
        return (
            one_shot.corrected_lower(
                home,
                asked.noise,
                asked.max_switches,
                switched_power=asked.switched_power,
                disturbance=moved,
            ),
            one_shot.corrected_upper(
                home,
                asked.noise,
                asked.max_switches,
                cancelled_power=asked.cancelled_power,
                disturbance=moved,
            ),
        )
    if form == "printed":
        eps, c = asked.paper_epsilon, asked.constant
        return (
            one_shot.printed_lower(home, eps, constant=c, disturbance=moved),
            one_shot.printed_upper(home, eps, disturbance=moved),
        )
    scale = asked.laplace_scale
    return (
        one_shot.integral_lower(home, scale, constant=asked.constant, disturbance=moved),
        one_shot.integral_upper(home, scale, disturbance=moved),
    )


def _series(asked: _Question, form: str, readings: int) -> Bounds:
    """Theorem 5 on top of Theorems 3 and 4."""
    rows = six.switches_per_reading(asked.home, asked.max_switches, readings, asked.noise)
    if form != "corrected":
        b, top = _one_jump(asked, form)
        lower = five.printed_lower if form == "printed" else five.integral_lower
        return Bounds(form, lower(b, len(asked.home), readings), five.printed_upper(top, readings))
    if np.ndim(asked.max_switches) == 0:
        b, top = _one_jump(asked, form)
        return Bounds(form, five.corrected_lower(b, readings), five.corrected_upper(top, readings))
    each, tops = _one_jump(replace(asked, max_switches=rows), form)
    return Bounds(form, five.corrected_lower(each), five.corrected_upper(tops[0], readings))


def _hierarchies(asked: _Question, form: str, readings: int) -> Bounds:
    """Theorem 6."""
    home, moved = asked.home, asked.disturbance
    if form == "corrected":
        groups = six.corrected_groups(
            home, asked.noise, readings, asked.max_switches, disturbance=moved
        )
    else:
        most = int(np.max(asked.max_switches))
        paper = six.printed_groups if form == "printed" else six.integral_groups
        noise = asked.paper_epsilon if form == "printed" else asked.laplace_scale
        groups = paper(home, noise, readings, most, constant=asked.constant, disturbance=moved)
    return Bounds(form, *six.overall(groups), groups)


def _noise(
    home: Home,
    epsilon: ArrayLike | None,
    sensitivity: float | None,
    mechanism: Mechanism | None,
) -> tuple[DifferenceLaw, FloatArray | None, float]:
    """The noise, its Laplace scale λ [W] if it has one, and how far rounding moves a jump [W]."""
    if (epsilon is None) == (mechanism is None):
        raise InputError("give either epsilon or a mechanism.")
    if mechanism is not None:
        if sensitivity is not None:
            raise InputError("a mechanism has its own sensitivity; leave it out.")
        scale = np.asarray(mechanism.scale) if mechanism.name == "laplace" else None
        return mechanism, scale, 0.0 if mechanism.on_grid else mechanism.grid
    width = home.tolerance / 2 if sensitivity is None else positive("sensitivity", sensitivity)
    with np.errstate(over="ignore"):
        scale = np.asarray(width / positive_array("epsilon", epsilon if epsilon is not None else 0))
    return ContinuousLaplace(scale), scale, 0.0


def _switches(
    home: Home,
    max_switches: ArrayLike,
    switched: ArrayLike | Sequence[str] | None,
    mixed: bool,
    readings: int | None,
) -> tuple[IntArray, float | None, float]:
    """U, s0 if it is known [W], and the power that opposite switches cancel at most [W]."""
    counts = one_shot.check_switches(home, max_switches)
    if counts.ndim and readings is None:
        raise InputError("max_switches must be one number, unless readings are given.")
    if switched is not None:
        if readings is not None:
            raise InputError("switched is about one jump; leave out readings.")
        vector = switch_vector(home, switched)
        power = float(np.abs(vector) @ home.powers)
        count = np.asarray(np.count_nonzero(vector))
        return count, power, power - abs(float(vector @ home.powers))
    most = int(counts.max())
    cancelled = float(one_shot.largest_sum(home.powers, most)) if mixed and most > 1 else 0.0
    return counts, None, cancelled
