"""Figures of studies: accuracy against ln(1/ε), with bands, floors and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.plot.canvas import BLUE, GREY, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.theory.bounds import Bounds

# Okabe and Ito, in an order whose neighbours differ most; markers and dashes tell more apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":")
BOUND_LOOKS = (("#444444", (0, (6, 2))), ("#444444", (0, (1, 1.5))))
VACUOUS = "bound is vacuous (outside 0 … 1)"
FLOORS = {"all-off": ("everything off", "alpha_floor", ":"),
          "hold": ("as at the first reading", "hold_floor", "-.")}  # fmt: skip
WORDS = {"alpha": "accuracy α", "f1": "macro F1"}


def draw_sweep(
    table: pd.DataFrame,
    title: str,
    *,
    by: str = "attacker",
    measures: Sequence[str] = ("alpha", "f1"),
    bounds: Mapping[str, Bounds] | None = None,
) -> Figure:
    """One panel per measure; a line per value of `by` with its 95 % band over seeds.

    Parameters
    ----------
    table : DataFrame
        Rows of a sweep; the attackers all-off and hold are drawn as floors.
    title : str
    by : str
        Column whose values are told apart.
    measures : sequence of str
    bounds : mapping, optional
        Bounds on α by their names, one value for each ε of the table, largest ε first.
    """
    figure = new_figure(5.4 * len(measures), 5.2)
    panels = np.atleast_1d(figure.subplots(1, len(measures)))
    for axes, measure in zip(panels, measures, strict=True):
        _draw_measure(axes, table, by, measure)
        _draw_floors(axes, table, by, measure)
        if measure == "alpha" and bounds is not None:
            for i, (name, found) in enumerate(bounds.items()):
                _draw_bounds(axes, table, name, found, i)
        axes.set_ylabel(WORDS.get(measure, measure))
        axes.set_ylim(*_limits(axes, to_one=measure == "alpha"))
        dress_epsilon(axes)
    _legend_below(figure, panels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw_measure(axes: Axes, table: pd.DataFrame, by: str, measure: str) -> None:
    names = [name for name in table[by].unique() if name not in FLOORS]
    for i, name in enumerate(names):
        x, mean, half = summarise(table[table[by] == name], measure)
        style = DASHES[i // len(PALETTE) % len(DASHES)]
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]
        axes.plot(
            x, mean, color=color, linestyle=style, marker=marker, markersize=4, label=str(name)
        )
        axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.22, linewidth=0)


def _draw_floors(axes: Axes, table: pd.DataFrame, by: str, measure: str) -> None:
    """What a guess without data scores: from its column for α, from its own rows otherwise."""
    for name, (words, column, dashes) in FLOORS.items():
        rows = table[table[by] == name]
        if measure == "alpha" and column in table:
            level = float(table[column].mean())
        elif measure in rows and len(rows):
            level = float(rows[measure].mean())
        else:
            continue
        axes.axhline(level, color=GREY, linestyle=dashes, linewidth=1.3, label=words)


def _draw_bounds(axes: Axes, table: pd.DataFrame, name: str, found: Bounds, place: int) -> None:
    """Dark lines where a bound says something, crosses on the frame where it is vacuous."""
    x = np.sort(-np.log(table["epsilon"].unique()))
    color, dashes = BOUND_LOOKS[place % len(BOUND_LOOKS)]
    for label, bound in ((name, found.lower), (None, found.upper)):
        raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
        line = np.where(vacuous, np.nan, raw)
        axes.plot(x, line, color=color, linestyle=dashes, linewidth=1.2, label=label)
        if vacuous.any():
            axes.plot(
                x[vacuous],
                np.clip(raw, 0.0, 1.0)[vacuous],
                color=color,
                marker="x",
                markersize=5,
                linestyle="none",
                label=VACUOUS,
            )


def _limits(axes: Axes, *, to_one: bool) -> tuple[float, float]:
    """Tenths around everything drawn, bands too; up to one for an accuracy."""
    low, high = axes.dataLim.intervaly
    top = 1.0 if to_one else min(1.0, np.ceil(10 * high) / 10)
    return float(max(0.0, np.floor(10 * low) / 10) - 0.02), float(top + 0.02)


def dress_epsilon(axes: Axes) -> None:
    """ln(1/ε) below, ε itself above."""
    axes.set_xlabel("ln(1/ε)   (more private →)")
    axes.spines[["top", "right"]].set_visible(False)
    left, right = axes.get_xlim()
    powers = np.arange(np.ceil(-right / np.log(10)), np.floor(-left / np.log(10)) + 1)
    top = axes.secondary_xaxis("top")
    top.set_xticks(-powers * np.log(10), [f"{10.0**power:g}" for power in powers])
    top.set_xlabel("ε", labelpad=2)
    top.spines["top"].set_color(GREY)
    top.tick_params(colors="#555555")


def _legend_below(figure: Figure, panels: Sequence[Axes] | np.ndarray) -> None:
    entries: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {label: entries.get(label, h) for h, label in zip(handles, labels, strict=True)}
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )


def summarise(part: pd.DataFrame, measure: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ln(1/ε), mean over seeds and half the width of its 95 % interval by Student's t."""
    from scipy.stats import t

    groups = part.groupby("epsilon")[measure]
    mean, spread, count = groups.mean(), groups.std().fillna(0.0), groups.count()
    x = -np.log(mean.index.to_numpy(dtype=float))
    order = np.argsort(x)
    seeds = count.to_numpy()
    # One seed has no spread, and so no band.
    half = t.ppf(0.975, np.maximum(seeds - 1, 1)) * spread.to_numpy() / np.sqrt(seeds)
    return x[order], mean.to_numpy()[order], half[order]


def draw_lines(
    lines: Mapping[str, tuple[FloatArray, FloatArray]],
    title: str,
    ylabel: str,
    dots: Mapping[str, tuple[FloatArray, FloatArray]] | None = None,
) -> Figure:
    """Curves against ln(1/ε), with simulated dots on them where there are any."""
    figure = new_figure(7.6, 5.0)
    axes = figure.subplots()
    for i, (name, (x, y)) in enumerate(lines.items()):
        color = PALETTE[i % len(PALETTE)]
        axes.plot(x, y, color=color, linestyle=DASHES[i % 2], label=name)
        if dots is not None and name in dots:
            axes.plot(*dots[name], MARKERS[i % len(MARKERS)], color=color, markersize=4)
    axes.set_ylabel(ylabel)
    dress_epsilon(axes)
    _legend_below(figure, [axes])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def add_measured(figure: Figure, epsilon: FloatArray, own: FloatArray, dots: FloatArray) -> None:
    """Add to `draw_bounds`: the exact curve of the readings' own switches, and what was measured.

    Parameters
    ----------
    figure : Figure
        Of `hushmeter.plot.bounds.draw_bounds`.
    epsilon, own : FloatArray, shape (E,)
    dots : FloatArray, shape (E,)
        NaN where nothing was measured.
    """
    axes, x = figure.axes[0], -np.log(epsilon)
    axes.plot(x, own, color=BLUE, linestyle="-.", linewidth=1.4,
              label="exact, switches as in these readings")  # fmt: skip
    axes.plot(x, dots, color="#000000", marker="o", markersize=5, linestyle="none",
              clip_on=False, label="measured on these readings")  # fmt: skip
    for legend in list(figure.legends):
        legend.remove()
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
