"""Figures of an attacker's accuracy against ln(1/ε): sweeps, bounds, floors and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.plot.figure import BLUE, GREEN, GREY, RED, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.theory.bound import Bound
    from hushmeter.theory.bounds import BoundCurves, Bounds

# The colours of Okabe and Ito, ordered so that neighbours differ most. Markers and dashes tell
# more lines apart than there are colours.
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
    """Draw a sweep: one panel for each measure, one line with a 95 % band for each attacker.

    Parameters
    ----------
    table : DataFrame
        Rows of a sweep. The attackers all-off and hold are drawn as floors.
    title : str
    by : str
        Column whose values get a line each.
    measures : sequence of str
        Columns to draw.
    bounds : mapping of str to Bounds, optional
        Bounds on α by their names, one value for each ε of the table, largest ε first.

    Returns
    -------
    matplotlib.figure.Figure
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
        label_epsilon_axis(axes)
    _legend_below(figure, panels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw_measure(axes: Axes, table: pd.DataFrame, by: str, measure: str) -> None:
    """Draw the mean of every attacker and its 95 % band over seeds."""
    names = [name for name in table[by].unique() if name not in FLOORS]
    for i, name in enumerate(names):
        x, mean, half = mean_and_band(table[table[by] == name], measure)
        style = DASHES[i // len(PALETTE) % len(DASHES)]
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]
        axes.plot(
            x, mean, color=color, linestyle=style, marker=marker, markersize=4, label=str(name)
        )
        axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.22, linewidth=0)


def _draw_floors(axes: Axes, table: pd.DataFrame, by: str, measure: str) -> None:
    """Draw the score of a guess without data, from its column for α and from its rows otherwise."""
    for name, (words, column, dashes) in FLOORS.items():
        rows = table[table[by] == name]
        if measure == "alpha" and column in table:
            level = float(table[column].mean())
        elif measure in rows and len(rows):
            level = float(rows[measure].mean())
        else:
            continue
        if np.isnan(level):
            # Without the first state there is no baseline that it lasts.
            continue
        axes.axhline(level, color=GREY, linestyle=dashes, linewidth=1.3, label=words)


def _draw_bounds(axes: Axes, table: pd.DataFrame, name: str, found: Bounds, place: int) -> None:
    """Draw a line where a bound lies between 0 and 1, and crosses where it does not."""
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
    """Return limits at whole tenths around everything drawn; the upper one is 1 for an accuracy."""
    low, high = axes.dataLim.intervaly
    top = 1.0 if to_one else min(1.0, np.ceil(10 * high) / 10)
    return float(max(0.0, np.floor(10 * low) / 10) - 0.02), float(top + 0.02)


def label_epsilon_axis(axes: Axes) -> None:
    """Label the x axis with ln(1/ε) below and with ε itself above.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        A panel whose x values are ln(1/ε).
    """
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
    """Write one legend for all panels below them."""
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


def mean_and_band(part: pd.DataFrame, measure: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the mean over seeds and its 95 % interval at every ε.

    Parameters
    ----------
    part : DataFrame
        Rows of one attacker.
    measure : str
        Column to average.

    Returns
    -------
    log_inverse : array
        ln(1/ε), ascending.
    mean : array
    half : array
        Half the width of the 95 % interval by Student's t; 0 for a single seed.
    """
    from scipy.stats import t

    groups = part.groupby("epsilon")[measure]
    mean, spread, count = groups.mean(), groups.std().fillna(0.0), groups.count()
    x = -np.log(mean.index.to_numpy(dtype=float))
    order = np.argsort(x)
    seeds = count.to_numpy()
    # A single seed has no spread, so its band has no width.
    half = t.ppf(0.975, np.maximum(seeds - 1, 1)) * spread.to_numpy() / np.sqrt(seeds)
    return x[order], mean.to_numpy()[order], half[order]


def draw_lines(
    lines: Mapping[str, tuple[FloatArray, FloatArray]],
    title: str,
    ylabel: str,
    dots: Mapping[str, tuple[FloatArray, FloatArray]] | None = None,
) -> Figure:
    """Draw curves against ln(1/ε), with simulated points on them where there are any.

    Parameters
    ----------
    lines : mapping of str to (x, y)
        Curves by their names; x is ln(1/ε).
    title, ylabel : str
    dots : mapping of str to (x, y), optional
        Simulated points by the names of their curves.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(7.6, 5.0)
    axes = figure.subplots()
    for i, (name, (x, y)) in enumerate(lines.items()):
        color = PALETTE[i % len(PALETTE)]
        axes.plot(x, y, color=color, linestyle=DASHES[i % 2], label=name)
        if dots is not None and name in dots:
            axes.plot(*dots[name], MARKERS[i % len(MARKERS)], color=color, markersize=4)
    axes.set_ylabel(ylabel)
    label_epsilon_axis(axes)
    _legend_below(figure, [axes])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def add_measured(figure: Figure, epsilon: FloatArray, own: FloatArray, dots: FloatArray) -> None:
    """Add the exact curve for the readings' own switches, and measured points, to `draw_bounds`.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        A figure of `draw_bounds`.
    epsilon : array, shape (E,)
    own : array, shape (E,)
        Exact accuracy with the switches of the readings.
    dots : array, shape (E,)
        Measured accuracy, NaN where nothing was measured.
    """
    axes, x = figure.axes[0], -np.log(epsilon)
    axes.plot(x, own, color=BLUE, linestyle="-.", linewidth=1.4,
              label="exact, switches as in these readings")  # fmt: skip
    axes.plot(x, dots, color="#000000", marker="o", markersize=5, linestyle="none",
              clip_on=False, label="measured on these readings")  # fmt: skip
    for legend in list(figure.legends):
        legend.remove()
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def draw_bounds(curves: BoundCurves, title: str) -> Figure:
    """Fig. 2 of the paper. Draw the accuracy against ln(1/ε), with every bound in the same panel.

    Parameters
    ----------
    curves : BoundCurves
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
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
    """Draw dashes where a printed bound lies between 0 and 1, and crosses where it does not."""
    raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
    line = np.where(vacuous, np.nan, raw)
    axes.plot(x, line, color=RED, linestyle="--", linewidth=1.4, label=label)
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
