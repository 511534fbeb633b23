"""Figures of an attacker's accuracy against ln(1/ε): sweeps, bounds, floors and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.plot.figure import BLUE, GREEN, GREY, PURPLE, RED, new_figure, panel_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.theory.bounds import BoundCurves, Bounds
    from hushmeter.theory.one_shot import Bound

# The colours of Okabe and Ito, ordered so that neighbours differ most, and three more. Markers and
# dashes tell more lines apart than there are colours.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
           "#8B5A2B", "#7FA82E", "#A0004E")  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":")
CURVE_LOOKS = ((PURPLE, "-"), (PURPLE, (0, (4, 1, 1, 1))), (BLUE, "-."))
LEAST_SEEDS = 3
"""Smallest number of seeds for which a 95 % band is drawn; fewer seeds are drawn as points."""
BOUND_LOOKS = (("#1B5E20", (0, (6, 2))), ("#B71C1C", (0, (1, 1.5))))
VACUOUS = "bound is vacuous (outside 0 … 1)"
FLOORS = {"all-off": ("everything off", "alpha_floor", ":"),
          "hold": ("as at the first reading", "hold_floor", "-.")}  # fmt: skip
WORDS = {"alpha": "accuracy α", "f1": "macro F1"}


@dataclass(frozen=True)
class SweepPanel:
    """One panel of a figure of a sweep."""

    table: pd.DataFrame  # Rows of a sweep. The attackers all-off and hold are drawn as floors
    measure: str = "alpha"  # Column to draw
    title: str = ""  # Heading of the panel; may be empty
    by: str = "attacker"  # Column whose values get a line each
    # Bounds on α by their names, one value for each ε of the table, largest ε first
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    # Further curves by their names, such as an exact accuracy or the limit of any attacker, in the
    # same order.
    curves: Mapping[str, FloatArray] = field(default_factory=dict)
    # Lower and upper ends of the band of each line at each ε, in the same order; without them the
    # band is that of the mean over the seeds
    bands: Mapping[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    # Exact expectations by the names of lines, in the same order, NaN where they are not known
    theory: Mapping[str, FloatArray] = field(default_factory=dict)
    # Rows (ε, E[α], low, high) of certified intervals by the names of lines
    certified: Mapping[str, FloatArray] = field(default_factory=dict)


def draw_sweep(
    table: pd.DataFrame,
    title: str,
    *,
    by: str = "attacker",
    measures: Sequence[str] = ("alpha", "f1"),
    bounds: Mapping[str, Bounds] | None = None,
) -> Figure:
    """Draw a sweep: one panel for each measure, one line with a 95 % band for each attacker."""
    panels = [
        SweepPanel(table, one, by=by, bounds=(bounds or {}) if one == "alpha" else {})
        for one in measures
    ]
    return draw_panels(panels, title)


def draw_panels(
    panels: Sequence[SweepPanel], title: str, *, columns: int = 3, note: str = ""
) -> Figure:
    """Draw panels of sweeps with one legend, and a note about ε below them."""
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(5.4 * across, 5.2 if down == 1 else 4.2 * down)
    grid = panel_grid(figure, len(panels), columns)
    # A name has the same colour in all panels, also if it is missing in some of them.
    names = list(dict.fromkeys(str(n) for panel in panels for n in panel.table[panel.by].unique()))
    places = {name: i for i, name in enumerate(n for n in names if n not in FLOORS)}
    for axes, panel in zip(grid, panels, strict=True):
        _draw_measure(axes, panel, places)
        _draw_floors(axes, panel.table, panel.by, panel.measure)
        for i, (name, found) in enumerate(panel.bounds.items()):
            _draw_bounds(axes, panel.table, name, found, i)
        for i, (name, curve) in enumerate(panel.curves.items()):
            _draw_curve(axes, panel.table, name, curve, i)
        axes.set_ylabel(WORDS.get(panel.measure, panel.measure))
        if panel.title:
            axes.set_title(panel.title, loc="left", fontsize=9, pad=4)
        low, high = _limits(axes, to_one=panel.measure == "alpha")
        axes.set_ylim(low, high)
        mark_cut(axes)
        label_epsilon_axis(axes)
    _legend_below(figure, grid, note=note)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def mark_cut(axes: Axes) -> None:
    """Mark a y axis that does not start at zero, with two strokes and its first value."""
    low = axes.get_ylim()[0]
    if low <= 0:
        return
    axes.text(
        0.0, 0.04, "//", transform=axes.transAxes, ha="center", va="center", rotation=65,
        fontsize=11, color="#000000", clip_on=False,
    )  # fmt: skip
    axes.text(
        0.015, 0.012, f"the axis starts at {low:.2f}", transform=axes.transAxes, fontsize=7,
        color="#555555",
    )  # fmt: skip


def _draw_measure(axes: Axes, panel: SweepPanel, places: Mapping[str, int]) -> None:
    """Draw the mean of every attacker and its 95 % band; points with few seeds and no band."""
    table, by, measure = panel.table, panel.by, panel.measure
    for name in (name for name in table[by].unique() if name not in FLOORS):
        i = places[str(name)]
        part = table[table[by] == name]
        x, mean, half = mean_and_band(part, measure)
        style = DASHES[i // len(PALETTE) % len(DASHES)]
        # Lines of several kinds of noise lie on each other: a wide one stays visible below.
        width = 1.5
        if by == "series":
            style, width = DASHES[i % len(DASHES)], (4.0, 1.5, 1.5)[i % len(DASHES)]
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]
        if name in panel.theory:
            # The line is the exact expectation; measured means are markers on it.
            axes.plot(x, panel.theory[name], color=color, linestyle=style)
            style = "none"
        axes.plot(
            x, mean, color=color, linestyle=style, linewidth=width, marker=marker, markersize=4,
            label=str(name),
        )  # fmt: skip
        if name in panel.certified:
            epsilon, alpha, low, high = panel.certified[name].T
            reach = [alpha - low, high - alpha]
            axes.errorbar(-np.log(epsilon), alpha, reach, color=color, linestyle="none", capsize=3)
        seeds = part.groupby("epsilon")[measure].count().min()
        if name in panel.bands:
            axes.fill_between(x, *panel.bands[name], color=color, alpha=0.15, linewidth=0)
        elif seeds >= LEAST_SEEDS:
            # An accuracy lies between 0 and 1, so that a band beyond them says nothing.
            low, high = np.clip(mean - half, 0.0, 1.0), np.clip(mean + half, 0.0, 1.0)
            axes.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0)
        elif seeds > 1:
            axes.plot(-np.log(part["epsilon"]), part[measure], ".", color=color, markersize=3)


def _draw_curve(axes: Axes, table: pd.DataFrame, name: str, curve: FloatArray, place: int) -> None:
    """Draw a computed curve without a band."""
    x = np.sort(-np.log(table["epsilon"].unique()))
    color, dashes = CURVE_LOOKS[place % len(CURVE_LOOKS)]
    known = np.isfinite(curve)
    marker = "" if known.all() else "_"
    axes.plot(x[known], curve[known], color=color, linestyle=dashes, linewidth=1.8, marker=marker,
              markersize=9, label=name)  # fmt: skip


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
    for side, bound in (("lower", found.lower), ("upper", found.upper)):
        raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
        line = np.where(vacuous, np.nan, raw)
        label = name if side == "lower" else None
        axes.plot(x, line, color=color, linestyle=dashes, linewidth=1.2, label=label)
        _name_line(axes, x, line, f"{side}, {found.form}", color)
        if found.form == "printed":
            _shade_domain(axes, x, ~vacuous, side)
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


HATCHES = {"lower": "//", "upper": "\\\\"}


def _shade_domain(axes: Axes, x: FloatArray, inside: BoolArray, side: str) -> None:
    """Hatch the range of ε in which a printed bound lies between 0 and 1."""
    if inside.any():
        axes.fill_between(
            x, 0, 1, where=inside.tolist(), transform=axes.get_xaxis_transform(),
            facecolor="none", edgecolor=RED, hatch=HATCHES[side], alpha=0.1, linewidth=0,
            zorder=0, label=f"domain of the printed {side} bound",
        )  # fmt: skip


def _name_line(axes: Axes, x: FloatArray, line: FloatArray, words: str, color: str) -> None:
    """Write what a line is beside its last point that is drawn."""
    drawn = np.flatnonzero(np.isfinite(line))
    if drawn.size == 0:
        return
    last = int(drawn[-1])
    side = "right" if last > x.size / 2 else "left"
    # A lower bound is named below its line, so that two lines that meet keep both names.
    below = words.startswith("lower") and line[last] > 0.05
    axes.annotate(
        words, (x[last], line[last]), (0, -3 if below else 3), textcoords="offset points", ha=side,
        va="top" if below else "bottom", fontsize=7, color=color,
    )  # fmt: skip


def _limits(axes: Axes, *, to_one: bool) -> tuple[float, float]:
    """Return limits at whole tenths around everything drawn; the upper one is 1 for an accuracy."""
    low, high = axes.dataLim.intervaly
    top = 1.0 if to_one else min(1.0, np.ceil(10 * high) / 10)
    bottom = max(0.0, np.floor(10 * low) / 10)
    return float(bottom - 0.02 if bottom == 0 else bottom), float(top + 0.02)


def label_epsilon_axis(axes: Axes) -> None:
    """Label the x axis with ln(1/ε) below and with ε itself above."""
    axes.set_xlabel("ln(1/ε)   (more private →)")
    axes.spines[["top", "right"]].set_visible(False)
    left, right = axes.get_xlim()
    powers = np.arange(np.ceil(-right / np.log(10)), np.floor(-left / np.log(10)) + 1)
    top = axes.secondary_xaxis("top")
    top.set_xticks(-powers * np.log(10), [f"{10.0**power:g}" for power in powers])
    top.set_xlabel("ε", labelpad=2)
    top.spines["top"].set_color(GREY)
    top.tick_params(colors="#555555")


def _legend_below(figure: Figure, panels: Sequence[Axes], columns: int = 4, note: str = "") -> None:
    """Write one legend for all panels below them, under a note."""
    entries: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {label: entries.get(label, h) for h, label in zip(handles, labels, strict=True)}
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        title=note or None,
        title_fontsize=8.5,
    )


def mean_and_band(part: pd.DataFrame, measure: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the mean over seeds and its 95 % interval at every ε."""
    from scipy.stats import t

    groups = part.groupby("epsilon")[measure]
    mean, spread, count = groups.mean(), groups.std().fillna(0.0), groups.count()
    x = -np.log(mean.index.to_numpy(dtype=float))
    order = np.argsort(x)
    seeds = count.to_numpy()
    # A single seed has no spread, so its band has no width.
    half = t.ppf(0.975, np.maximum(seeds - 1, 1)) * spread.to_numpy() / np.sqrt(seeds)
    return x[order], mean.to_numpy()[order], half[order]


Lines = Mapping[str, tuple[FloatArray, FloatArray]]
"""Curves (x, y) by their names; x is ln(1/ε)."""


def draw_lines(panels: Mapping[str, tuple[Lines, Lines]], title: str, ylabel: str) -> Figure:
    """Draw curves against ln(1/ε), with simulated points on them, in panels side by side."""
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(5.6 * across, 4.6 * down)
    grid = panel_grid(figure, len(panels), across, share_y=True)
    for axes, (heading, (lines, dots)) in zip(grid, panels.items(), strict=True):
        for i, (name, (x, y)) in enumerate(lines.items()):
            color = PALETTE[i % len(PALETTE)]
            axes.plot(x, y, color=color, linestyle=DASHES[i % 2], label=name)
            if name in dots:
                axes.plot(*dots[name], MARKERS[i % len(MARKERS)], color=color, markersize=4)
        axes.set_ylabel(ylabel)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(heading, loc="left", fontsize=9, pad=4)
        label_epsilon_axis(axes)
    _legend_below(figure, grid)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


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
    return draw_bound_panels({"": (curves, None)}, title)


def draw_bound_panels(
    panels: Mapping[str, tuple[BoundCurves, FloatArray | None]], title: str, note: str = ""
) -> Figure:
    """Fig. 2 of the paper. One panel for each distribution of switches, with its own bounds.

    Parameters
    ----------
    panels : mapping of str to (BoundCurves, array or None)
        The curves of every panel by its heading, and the measured accuracy at each ε, NaN where
        nothing was measured.
    title : str
    note : str
        A note about ε below the panels.

    Returns
    -------
    matplotlib.figure.Figure
    """
    wide = len(panels) > 1
    figure = new_figure(4.7 * len(panels) if wide else 8.5, 5.4 if wide else 5.2)
    grid = panel_grid(figure, len(panels), len(panels), share_y=True)
    for axes, (heading, (curves, measured)) in zip(grid, panels.items(), strict=True):
        _draw_bound_panel(axes, curves, heading)
        if measured is not None:
            axes.plot(-np.log(curves.epsilon), measured, color="#000000", marker="o", markersize=5,
                      linestyle="none", clip_on=False, label="measured")  # fmt: skip
    grid[0].set_ylabel("accuracy α")
    _legend_below(figure, grid, columns=3 if wide else 2, note=note)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _draw_bound_panel(axes: Axes, curves: BoundCurves, heading: str) -> None:
    """Draw exact accuracy, bounds, limit and floor of one distribution of switches."""
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
    for words, bound in (("lower", curves.corrected.lower), ("upper", curves.corrected.upper)):
        line = np.asarray(bound)
        axes.plot(x, line, color=BLUE, linestyle=(0, (6, 2)), linewidth=1.0)
        _name_line(axes, x[: x.size // 3], line[: x.size // 3], f"{words}, corrected", BLUE)
    _draw_printed(axes, x, curves.printed.lower, "printed bounds", "Theorem 3, printed")
    _draw_printed(axes, x, curves.printed.upper, None, "Theorem 4, printed")
    for side in ("lower", "upper"):
        vacuous = np.asarray(getattr(curves.printed, side).vacuous)
        _shade_domain(axes, x, ~vacuous, side)
    if curves.tolerance >= curves.largest_tolerance:
        words = (
            f"outside the domain of Theorem 3: δ = {curves.tolerance:.3g} W,\n"
            f"its bound can be positive for δ < {curves.largest_tolerance:.3g} W"
        )
        axes.text(0.02, 0.05, words, transform=axes.transAxes, fontsize=7, color=RED)
    axes.set_ylim(-0.03, 1.06)
    if x.size > 1:
        axes.set_xlim(x.min(), x.max())
    axes.set_title(heading, loc="left", fontsize=9, pad=4)
    label_epsilon_axis(axes)


def _draw_printed(axes: Axes, x: FloatArray, bound: Bound, label: str | None, name: str) -> None:
    """Draw dots where a printed bound lies between 0 and 1, and crosses where it does not."""
    raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
    line = np.where(vacuous, np.nan, raw)
    axes.plot(x, line, color=RED, linestyle=(0, (1, 1.5)), linewidth=1.6, label=label)
    _name_line(axes, x, line, name, RED)
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
