"""Figures of studies: accuracy against ln(1/ε), with bands, floors and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.plot import GREY, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, in an order whose neighbours differ most; dashes tell the second round apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
Z_95 = 1.96


def draw_sweep(
    table: pd.DataFrame,
    title: str,
    *,
    by: str = "attacker",
    measures: Sequence[str] = ("alpha", "f1"),
    band: Mapping[str, tuple[FloatArray, FloatArray, FloatArray]] | None = None,
) -> Figure:
    """One panel per measure; a line per value of `by` with its 95 % band over seeds.

    Parameters
    ----------
    table : DataFrame
        Rows of a sweep.
    title : str
    by : str
        Column whose values are told apart.
    measures : sequence of str
    band : mapping, optional
        Bounds for a measure: (ε, lower, upper).
    """
    figure = new_figure(5.2 * len(measures), 4.6)
    panels = np.atleast_1d(figure.subplots(1, len(measures)))
    for axes, measure in zip(panels, measures, strict=True):
        if band is not None and measure in band:
            epsilon, lower, upper = band[measure]
            axes.fill_between(-np.log(epsilon), lower, upper, color=GREY, alpha=0.15, linewidth=0)
        _draw_measure(axes, table, by, measure)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw_measure(axes: Axes, table: pd.DataFrame, by: str, measure: str) -> None:
    for i, name in enumerate(table[by].unique()):
        x, mean, half = summarise(table[table[by] == name], measure)
        style = DASHES[i // len(PALETTE) % len(DASHES)]
        color = PALETTE[i % len(PALETTE)]
        axes.plot(x, mean, color=color, linestyle=style, marker="o", markersize=3, label=str(name))
        axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.15, linewidth=0)
    if measure == "alpha":
        floor = float(table["alpha_floor"].mean())
        axes.axhline(floor, color=GREY, linestyle=":", label="everything off")
    words = {"alpha": "accuracy α", "f1": "macro F1"}
    axes.set_ylabel(words.get(measure, measure))
    axes.set_xlabel("ln(1/ε)   (more private →)")
    axes.set_ylim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)


def summarise(part: pd.DataFrame, measure: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ln(1/ε), mean over seeds and half the width of its 95 % interval."""
    groups = part.groupby("epsilon")[measure]
    mean, spread, count = groups.mean(), groups.std().fillna(0.0), groups.count()
    x = -np.log(mean.index.to_numpy(dtype=float))
    order = np.argsort(x)
    half = Z_95 * spread.to_numpy() / np.sqrt(count.to_numpy())
    return x[order], mean.to_numpy()[order], half[order]


def draw_lines(
    lines: Mapping[str, tuple[FloatArray, FloatArray]],
    title: str,
    ylabel: str,
    dots: Mapping[str, tuple[FloatArray, FloatArray]] | None = None,
) -> Figure:
    """Curves against ln(1/ε), with simulated dots on them where there are any."""
    figure = new_figure(7.2, 4.6)
    axes = figure.subplots()
    for i, (name, (x, y)) in enumerate(lines.items()):
        color = PALETTE[i % len(PALETTE)]
        axes.plot(x, y, color=color, label=name)
        if dots is not None and name in dots:
            axes.plot(*dots[name], "o", color=color, markersize=4)
    axes.set_xlabel("ln(1/ε)   (more private →)")
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
