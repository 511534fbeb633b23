"""Theorems 5 and 6 as curves against ε, for the readings of a trace or for a number of readings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, positive, positive_array
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise import Laplace
from hushmeter.theory.bounds import FORMS, Bounds, bounds
from hushmeter.theory.series import series_accuracy
from hushmeter.trace import Trace


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
    """Bounds and exact accuracy of Algorithm 1 over the readings of one trace.

    Attributes
    ----------
    exact : array, shape (E,)
        E[α_m] before error correction, over the readings after the first one.
    floor : float
        Accuracy of the answer that the first state lasts for ever.
    """

    exact: FloatArray
    floor: float

    def columns(self) -> dict[str, FloatArray]:
        """All curves as columns of one table; the bounds are raw values."""
        return {**super().columns(), "exact": self.exact}


def series_curves(
    home: Home,
    trace: Trace,
    epsilon: ArrayLike,
    *,
    sensitivity: float | None = None,
    hierarchical: bool = False,
) -> SeriesCurves:
    """Theorems 5 and 6 on a trace, beside the exact accuracy of Algorithm 1.

    Parameters
    ----------
    home : Home
    trace : Trace with states
        The readings [W] before noise; the attacker knows the first state.
    epsilon : array_like, shape (E,)
    sensitivity : float, optional
        Sensitivity Δf; the paper's δ/2 if it is not given. [W]
    hierarchical : bool
        Whether to add Theorem 6.

    Returns
    -------
    SeriesCurves

    Raises
    ------
    InputError
        If the trace has fewer than two readings or no states of these appliances.

    Notes
    -----
    The noise is discrete Laplace noise on a grid between λ/16 and λ/8, so that the curve is that
    of the paper's continuous noise to about 1 %. The corrected bounds use the number of switches
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
        floor=float((states[1:] == states[0]).mean()),
    )


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
    """Theorems 5 and 6 for a number of readings that are not known.

    Parameters
    ----------
    home : Home
    readings : int
        Number T of readings after a known state.
    epsilon : array_like, shape (E,)
    sensitivity : float, optional
        Sensitivity Δf; the paper's δ/2 if it is not given. [W]
    max_switches : int, or (T,) of int
        Largest number U of switches at one reading.
    disturbance : float
        Disturbance Y of Lemma 3. [W]
    hierarchical : bool
        Whether to add Theorem 6.

    Returns
    -------
    SeriesBounds
    """
    width = home.tolerance / 2 if sensitivity is None else positive("sensitivity", sensitivity)
    values = np.atleast_1d(positive_array("epsilon", epsilon))
    known: dict[str, Any] = {
        "sensitivity": width,
        "readings": readings,
        "max_switches": max_switches,
        "disturbance": disturbance,
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
    grid = 2.0 ** math.floor(math.log2(scale / 8))
    # One step of the grid costs grid/λ, so that the scale of the noise is λ.
    return Laplace(grid / scale, grid, grid, on_grid=True)
