"""Bounds of the accuracy against ln(1/ε), printed and corrected (Fig. 2 and 3 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.plot.canvas import BLUE, GREEN, GREY, RED, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.theory.bound import Bound
    from hushmeter.theory.curves import BoundCurves


def draw_bounds(curves: BoundCurves, title: str) -> Figure:
    """Fig. 2 of the paper: accuracy against ln(1/ε), with every bound in the same panel."""
    figure = new_figure(8.5, 5.2)
    axes = figure.subplots()
    x = -np.log(curves.epsilon)
    axes.fill_between(
        x,
        np.asarray(curves.corrected.lower),
        np.asarray(curves.corrected.upper),
        color=BLUE,
        alpha=0.13,
        linewidth=0,
        label="between the corrected bounds",
    )
    axes.plot(x, curves.exact, color=BLUE, linewidth=2.2, label="exact accuracy, relaxed attacker")
    axes.plot(x, curves.limit, color=GREEN, label="limit of any attacker (one reading)")
    axes.axhline(curves.floor, color=GREY, linestyle=":", label="“nothing switched”")
    _draw_printed(axes, x, curves.printed.lower, "printed bounds (Theorems 3 and 4)")
    _draw_printed(axes, x, curves.printed.upper, None)
    axes.set_xlabel("ln(1/ε)   (more private →)")
    axes.set_ylabel("accuracy α")
    axes.set_ylim(-0.03, 1.06)
    if x.size > 1:
        axes.set_xlim(x.min(), x.max())
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_printed(axes: Axes, x: FloatArray, bound: Bound, label: str | None) -> None:
    """Dashed where the bound says something, crosses on the frame where it is vacuous."""
    raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
    told = np.where(vacuous, np.nan, raw)
    axes.plot(x, told, color=RED, linestyle="--", linewidth=1.4, label=label)
    if vacuous.any():
        marks = np.clip(raw, 0.0, 1.0)[vacuous][::6]
        axes.plot(
            x[vacuous][::6],
            marks,
            color=RED,
            marker="x",
            markersize=4,
            linestyle="none",
            alpha=0.6,
            label=None if label is None else "printed, vacuous (outside 0 … 1)",
        )
