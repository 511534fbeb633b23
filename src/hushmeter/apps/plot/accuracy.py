"""Figures of an attacker's accuracy against ln(1/ε): sweeps, bounds, floors and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    RED,
    finish_figure,
    new_figure,
    panel_grid,
)
from hushmeter.checks import FloatArray

if TYPE_CHECKING:
    import pandas as pd
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
HATCHES = {"lower": "//", "upper": "\\\\"}
HATCHED = "#F3CBAA"
PLATE = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}
"""A light background that keeps small words readable on lines."""
CHARACTERS_PER_INCH = 13.5
"""Characters of the note of a figure that fit on an inch."""


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

    @property
    def x(self) -> FloatArray:
        """ln(1/ε), from little to much protection."""
        return np.sort(-np.log(self.table["epsilon"].unique()))


def draw_panels(panels: Sequence[SweepPanel], title: str, *, note: str = "") -> Figure:
    """Draw panels of sweeps with one legend, and a note about ε below them."""
    across, down = _rows_of_two(panels)
    figure = new_figure(5.4 * across, 5.2 if down == 1 else 4.2 * down)
    grid = panel_grid(figure, len(panels), across)
    # A name has the same colour in all panels, also if it is missing in some of them.
    names = dict.fromkeys(str(n) for panel in panels for n in panel.table[panel.by].unique())
    places = {name: i for i, name in enumerate(n for n in names if n not in FLOORS)}
    for axes, panel in zip(grid, panels, strict=True):
        _draw_measure(axes, panel, places)
        _draw_floors(axes, panel)
        for (name, found), look in zip(panel.bounds.items(), cycle(BOUND_LOOKS), strict=False):
            _draw_bounds(axes, panel.x, name, found, look)
        curves = zip(panel.curves.items(), cycle(CURVE_LOOKS), strict=False)
        for (name, curve), (color, dashes) in curves:
            known = np.isfinite(curve)
            axes.plot(panel.x[known], curve[known], color=color, linestyle=dashes, linewidth=1.8,
                      marker="" if known.all() else "_", markersize=9, label=name)  # fmt: skip
        axes.set_ylabel(WORDS.get(panel.measure, panel.measure))
        axes.set_ylim(*_limits(axes, panel))
        mark_cut(axes)
        _finish_panel(axes, panel.title)
    return _finish(figure, grid, title, note=note)


def _rows_of_two(panels: Sized) -> tuple[int, int]:
    """Numbers of panels across and down: the words of more than two cannot be read on a page."""
    across = min(2, len(panels))
    return across, -(-len(panels) // across)


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
        0.015, 0.02, f"the axis starts at {low:.2f}", transform=axes.transAxes, fontsize=7,
        color="#555555", bbox=PLATE,
    )  # fmt: skip


def _draw_measure(axes: Axes, panel: SweepPanel, places: Mapping[str, int]) -> None:
    """Draw the mean of every attacker and its 95 % band; points with few seeds and no band."""
    table, by, measure = panel.table, panel.by, panel.measure
    for name in (name for name in table[by].unique() if name not in FLOORS):
        i = places[str(name)]
        part = table[table[by] == name]
        x, mean, half = mean_and_band(part, measure)
        style, width = DASHES[i // len(PALETTE) % len(DASHES)], 1.5
        if by == "series":
            # Lines of several kinds of noise lie on each other: a wide one stays visible below.
            style, width = DASHES[i % len(DASHES)], (4.0, 1.5, 1.5)[i % len(DASHES)]
        color = PALETTE[i % len(PALETTE)]
        if name in panel.theory:
            # The line is the exact expectation; measured means are markers on it.
            axes.plot(x, panel.theory[name], color=color, linestyle=style)
            style = "none"
        axes.plot(
            x, mean, color=color, linestyle=style, linewidth=width, label=str(name),
            marker=MARKERS[i % len(MARKERS)], markersize=4,
        )  # fmt: skip
        if name in panel.certified:
            epsilon, alpha, low, high = panel.certified[name].T
            reach = [alpha - low, high - alpha]
            axes.errorbar(-np.log(epsilon), alpha, reach, color=color, linestyle="none", capsize=3,
                          label="certified interval of the expectation")  # fmt: skip
        seeds = part.groupby("epsilon")[measure].count().min()
        if name in panel.bands:
            axes.fill_between(x, *panel.bands[name], color=color, alpha=0.15, linewidth=0)
        elif seeds >= LEAST_SEEDS:
            # An accuracy lies between 0 and 1, so that a band beyond them says nothing.
            low, high = np.clip(mean - half, 0.0, 1.0), np.clip(mean + half, 0.0, 1.0)
            axes.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0)
        elif seeds > 1:
            axes.plot(-np.log(part["epsilon"]), part[measure], ".", color=color, markersize=3,
                      label="single releases")  # fmt: skip


def _draw_floors(axes: Axes, panel: SweepPanel) -> None:
    """Draw the score of a guess without data, from its column for α and from its rows otherwise."""
    table, measure = panel.table, panel.measure
    for name, (words, column, dashes) in FLOORS.items():
        values = table[table[panel.by] == name][measure]
        if measure == "alpha" and column in table:
            values = table[column]
        # Without the first state there is no baseline that it lasts.
        if len(values) and not np.isnan(level := float(values.mean())):
            axes.axhline(level, color=GREY, linestyle=dashes, linewidth=1.3, label=words)


def _draw_bounds(
    axes: Axes, x: FloatArray, name: str, found: Bounds, look: tuple[str, Any]
) -> None:
    """Draw both bounds of one form, and where the printed ones say something."""
    for side, bound in (("lower", found.lower), ("upper", found.upper)):
        label = name if side == "lower" else None
        _draw_bound(axes, x, bound, look, f"{side}, {found.form}", label, VACUOUS)
        if found.form == "printed":
            _shade_domain(axes, x, bound, side)


def _draw_bound(
    axes: Axes,
    x: FloatArray,
    bound: Bound,
    look: tuple[str, Any],
    words: str,
    label: str | None,
    vacuous_label: str | None,
) -> None:
    """Draw a line where a bound lies between 0 and 1, and crosses where it does not."""
    raw, vacuous = np.asarray(bound.raw), np.asarray(bound.vacuous)
    line = np.where(vacuous, np.nan, raw)
    axes.plot(x, line, color=look[0], linestyle=look[1], linewidth=1.4, label=label)
    _name_line(axes, x, line, words, look[0])
    if vacuous.any():
        every = max(1, x.size // 30)
        axes.plot(
            x[vacuous][::every], np.clip(raw, 0.0, 1.0)[vacuous][::every], color=look[0],
            marker="x", markersize=5, linestyle="none", alpha=0.8, label=vacuous_label,
        )  # fmt: skip


def _shade_domain(axes: Axes, x: FloatArray, bound: Bound, side: str) -> None:
    """Hatch the range of ε in which a printed bound lies between 0 and 1."""
    inside = ~np.asarray(bound.vacuous)
    if inside.any():
        axes.fill_between(
            x, 0, 1, where=inside.tolist(), transform=axes.get_xaxis_transform(),
            facecolor="none", edgecolor=HATCHED, hatch=HATCHES[side], linewidth=0, zorder=0,
            label=f"domain of the printed {side} bound",
        )  # fmt: skip


def _name_line(axes: Axes, x: FloatArray, line: FloatArray, words: str, color: str) -> None:
    """Write what a line is beside its last point that is drawn."""
    drawn = np.flatnonzero(np.isfinite(line))
    if drawn.size == 0:
        return
    last = int(drawn[-1])
    side = "right" if last > x.size / 2 else "left"
    # Two lines that meet keep both names: those of lower and of printed bounds are below the line.
    below = (words.startswith("lower") or words == "upper, printed") and line[last] > 0.05
    axes.annotate(
        words, (x[last], line[last]), (0, -3 if below else 3), textcoords="offset points", ha=side,
        va="top" if below else "bottom", fontsize=7, color=color,
        bbox=PLATE,
    )  # fmt: skip


def _limits(axes: Axes, panel: SweepPanel) -> tuple[float, float]:
    """Limits at whole tenths around everything drawn; the upper one is 1 for an accuracy."""
    low, high = axes.dataLim.intervaly
    top = 1.0 if panel.measure == "alpha" else min(1.0, np.ceil(10 * high) / 10)
    bottom = max(0.0, np.floor(10 * low) / 10)
    # The names of bounds stand above their lines.
    margin = 0.07 if panel.bounds else 0.02
    return float(bottom - 0.02 if bottom == 0 else bottom), float(top + margin)


def _finish_panel(axes: Axes, heading: str) -> None:
    """Write the heading of a panel, and label the x axis with ln(1/ε) below and with ε above."""
    axes.set_title(heading, loc="left", fontsize=9, pad=4)
    axes.set_xlabel("ln(1/ε)   (more private →)")
    left, right = axes.get_xlim()
    powers = np.arange(np.ceil(-right / np.log(10)), np.floor(-left / np.log(10)) + 1)
    top = axes.secondary_xaxis("top")
    top.set_xticks(-powers * np.log(10), [f"{10.0**power:g}" for power in powers])
    top.set_xlabel("ε", labelpad=2)
    top.spines["top"].set_color(GREY)
    top.tick_params(colors="#555555")


def _finish(
    figure: Figure, panels: Sequence[Axes], title: str, *, columns: int = 4, note: str = ""
) -> Figure:
    """Write the title, and one legend for all panels below them, under a note."""
    pairs = (
        pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    )
    entries: dict[str, Any] = {}
    for handle, label in pairs:
        entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handleheight=1.2,
        title=fill(note, int(CHARACTERS_PER_INCH * figure.get_figwidth())) or None,
        title_fontsize=8.5,
    )
    return finish_figure(figure, panels, title)


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


def draw_lines(
    panels: Mapping[str, tuple[Lines, Lines]], title: str, ylabel: str, note: str = ""
) -> Figure:
    """Draw curves against ln(1/ε), with simulated points on them, in panels side by side."""
    across, down = _rows_of_two(panels)
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
        _finish_panel(axes, heading)
    return _finish(figure, grid, title, note=note)


def draw_bounds(curves: BoundCurves, title: str) -> Figure:
    """Draw the accuracy against ln(1/ε), with every bound in the same panel (Fig. 2)."""
    return draw_bound_panels({"": (curves, None)}, title)


def draw_bound_panels(
    panels: Mapping[str, tuple[BoundCurves, FloatArray | None]], title: str, note: str = ""
) -> Figure:
    """Draw one panel for each distribution of switches, with its own bounds (Fig. 2).

    `panels` has the curves of every panel by its heading, and the measured accuracy at each ε, NaN
    where nothing was measured; `note` is about ε.
    """
    across, down = _rows_of_two(panels)
    wide = across > 1
    figure = new_figure(9.4 if wide else 8.5, 1.2 + 4.2 * down)
    grid = panel_grid(figure, len(panels), across, share_y=True)
    for axes, (heading, (curves, measured)) in zip(grid, panels.items(), strict=True):
        _draw_bound_panel(axes, curves)
        if measured is not None:
            axes.plot(-np.log(curves.epsilon), measured, color="#000000", marker="o", markersize=5,
                      linestyle="none", clip_on=False, label="measured")  # fmt: skip
        axes.set_ylabel("accuracy α")
        _finish_panel(axes, heading)
    return _finish(figure, grid, title, columns=3 if wide else 2, note=note)


def _draw_bound_panel(axes: Axes, curves: BoundCurves) -> None:
    """Draw exact accuracy, bounds, limit and floor of one distribution of switches."""
    x, corrected = -np.log(curves.epsilon), curves.corrected
    lower, upper = np.asarray(corrected.lower), np.asarray(corrected.upper)
    label = "between the corrected bounds"
    axes.fill_between(x, lower, upper, color=BLUE, alpha=0.13, linewidth=0, label=label)
    axes.plot(x, curves.exact, color=BLUE, linewidth=2.2, label="exact accuracy, relaxed attacker")
    axes.plot(x, curves.limit, color=GREEN, label="limit of any attacker (one reading)")
    axes.axhline(curves.floor, color=GREY, linestyle=":", label="“nothing switched”")
    for side, line in (("lower", lower), ("upper", upper)):
        axes.plot(x, line, color=BLUE, linestyle=(0, (6, 2)), linewidth=1.0)
        _name_line(axes, x[: x.size // 3], line[: x.size // 3], f"{side}, corrected", BLUE)
    look, vacuous = (RED, (0, (1, 1.5))), "printed, vacuous (outside 0 … 1)"
    printed = curves.printed
    _draw_bound(axes, x, printed.lower, look, "Theorem 3, printed", "printed bounds", vacuous)
    _draw_bound(axes, x, printed.upper, look, "Theorem 4, printed", None, None)
    _shade_domain(axes, x, printed.lower, "lower")
    _shade_domain(axes, x, printed.upper, "upper")
    if curves.tolerance >= curves.largest_tolerance:
        words = (
            f"outside the domain of Theorem 3: δ = {curves.tolerance:.3g} W,\n"
            f"its bound can be positive for δ < {curves.largest_tolerance:.3g} W"
        )
        axes.text(0.02, 0.05, words, transform=axes.transAxes, fontsize=7, color=RED)
    axes.set_ylim(-0.03, 1.06)
    if x.size > 1:
        axes.set_xlim(x.min(), x.max())
