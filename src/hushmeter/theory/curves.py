"""The curves of Fig. 2: exact accuracy, bounds in every form, universal limit and floor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.theory.bounds import Bounds, bounds
from hushmeter.theory.exact import exact_curve, positive_array
from hushmeter.theory.universal import laplace_limit


@dataclass(frozen=True)
class BoundCurves:
    """One-shot accuracy against ε, under the paper's continuous Laplace noise.

    Attributes
    ----------
    epsilon : array, shape (E,)
    scale : array, shape (E,)
        λ = Δf/ε [W].
    exact : array, shape (E,)
        E[α] of the relaxed attacker, over all switch vectors of at most `max_switches`.
    corrected, printed, integral : Bounds
    limit : array, shape (E,)
        What no attacker can beat, see `switch_limit`.
    floor : float
        α of “nothing switched”.
    max_switches : int
    """

    epsilon: FloatArray
    scale: FloatArray
    exact: FloatArray
    corrected: Bounds
    printed: Bounds
    integral: Bounds
    limit: FloatArray
    floor: float
    max_switches: int

    def columns(self) -> dict[str, FloatArray]:
        """Everything as columns of one table; bounds as raw values."""
        table = {
            "epsilon": self.epsilon,
            "ln_1_over_epsilon": -np.log(self.epsilon),
            "scale_w": self.scale,
            "exact": self.exact,
            "universal_limit": self.limit,
            "nothing_switched": np.full_like(self.epsilon, self.floor),
        }
        for form in ("corrected", "printed", "integral"):
            answer: Bounds = getattr(self, form)
            table[f"{form}_lower"] = np.asarray(answer.lower.raw)
            table[f"{form}_upper"] = np.asarray(answer.upper.raw)
        return table


def switch_limit(optimum: ArrayLike, share: float) -> FloatArray:
    """What no attacker of one jump beats: 1 − 2·share·(1 − optimum).

    All switch vectors of at most U switches are equally likely. An attacker who is told the state
    before and all other switches knows appliance i where U others switched; everywhere else both
    answers are equally likely, which is twice the share of vectors with i in them. There he is
    right as often as the `optimum` for a prior of ½; who is told less is not right more often.

    Parameters
    ----------
    optimum : array_like
        How often the best attacker tells on from off by one reading, both equally likely.
    share : float
        Of the switch vectors in which an appliance switches.
    """
    return np.asarray(1 - 2 * share * (1 - np.asarray(optimum, dtype=np.float64)))


def bound_curves(
    home: Home, epsilon: ArrayLike, *, sensitivity: float | None = None, max_switches: int = 1
) -> BoundCurves:
    """All curves for one home.

    Parameters
    ----------
    home : Home
    epsilon : array_like, shape (E,)
    sensitivity : float, optional
        Δf [W]; the paper's δ/2 if not given.
    max_switches : int
        U.
    """
    most, n = whole("max_switches", max_switches), len(home)
    if most > n:
        raise InputError(f"max_switches is {most}, but the home has {n} appliances.")
    width = home.tolerance / 2 if sensitivity is None else positive("sensitivity", sensitivity)
    values = np.atleast_1d(positive_array("epsilon", epsilon))
    scale = width / values
    vectors = [math.comb(n, k) for k in range(most + 1)]
    share = sum(k * count for k, count in enumerate(vectors)) / (n * sum(vectors))
    forms = {
        form: bounds(home, values, sensitivity=width, max_switches=most, form=form)
        for form in ("corrected", "printed", "integral")
    }
    return BoundCurves(
        epsilon=values,
        scale=scale,
        exact=exact_curve(home, scale, max_switches=most),
        limit=switch_limit(laplace_limit(home.powers[:, None], scale), share).mean(axis=0),
        floor=1 - share,
        max_switches=most,
        **forms,
    )
