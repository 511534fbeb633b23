"""Figures, drawn with matplotlib's object interface: no window, no global state.

Colours are those of Okabe and Ito, safe for colour-blind readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.files import atomic, write_table
from hushmeter.scoring import Score
from hushmeter.trace import Trace
from hushmeter.wording import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from hushmeter.advice import Advice
    from hushmeter.theory.bound import Bound
    from hushmeter.theory.curves import BoundCurves

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A"


def new_figure(width: float, height: float) -> Figure:
    """A figure of the given size [inch] that belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(
    figure: Figure, folder: Path, name: str, data: dict[str, Any], *, force: bool = False
) -> dict[str, Path]:
    """Write name.png, name.svg and the data behind the picture as name.csv into a folder."""
    import matplotlib as mpl

    paths = {kind: folder / f"{name}.{kind}" for kind in ("png", "svg", "csv")}
    for kind in ("png", "svg"):
        # A fixed salt and no date: the same picture gives the same bytes.
        with (
            atomic(paths[kind], force=force) as temporary,
            mpl.rc_context({"svg.hashsalt": "hushmeter"}),
        ):
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(temporary, format=kind, dpi=160, metadata=metadata)
    write_table(paths["csv"], data, force=force)
    return paths


def figure_place(output: Path, name: str) -> tuple[Path, str]:
    """Folder and name of a figure: `output` is a folder, or the PNG file itself."""
    if output.suffix.lower() == ".png":
        return output.parent, output.stem
    return output, name


def draw_attack(trace: Trace, states: BoolArray, score: Score, title: str) -> Figure:
    """The readings, and below them one strip per appliance: truth above guess."""
    from matplotlib.ticker import MaxNLocator

    truth = trace.truth()
    n = truth.shape[1]
    figure = new_figure(10, 2.6 + 0.42 * n)
    top, strips = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 0.42 * n])
    hours = (trace.times - trace.times[0]) / np.timedelta64(1, "h")
    top.plot(hours, trace.readings / 1000, color=GREY, linewidth=0.8)
    top.set_ylabel("meter [kW]")
    top.set_ylim(bottom=min(0.0, float(trace.readings.min()) / 1000))
    top.set_title(title, loc="left", fontsize=11)
    for row, appliance in enumerate(score.per_appliance):
        _draw_strip(strips, hours, truth[:, row], states[:, row], n - 1 - row)
        seen = "never runs" if np.isnan(appliance.f1) else f"F1 {appliance.f1:.2f}"
        strips.text(1.01, n - 1 - row + 0.5, seen, va="center", transform=_beside(strips))
    strips.set_yticks(np.arange(n) + 0.5, [a.name for a in reversed(score.per_appliance)])
    strips.set_ylim(0, n)
    strips.tick_params(axis="y", length=0)
    strips.set_xlabel("hours")
    strips.set_xlim(hours[0], hours[-1])
    strips.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 4, 6, 10]))
    for axes in (top, strips):
        axes.spines[["top", "right"]].set_visible(False)
    _strip_legend(figure)
    return figure


def _draw_strip(axes: Axes, hours: Any, truth: BoolArray, guess: BoolArray, base: float) -> None:
    """Truth in the upper half of a row, the guess in the lower, its mistakes hatched in red."""
    upper, lower = (base + 0.52, 0.4), (base + 0.08, 0.4)
    wrong: dict[str, Any] = {"facecolor": "white", "edgecolor": RED, "linewidth": 0.6}
    axes.broken_barh(_stretches(hours, truth), upper, color=BLUE)
    axes.broken_barh(_stretches(hours, guess & truth), lower, color=GREEN)
    axes.broken_barh(_stretches(hours, guess & ~truth), lower, hatch="//////", **wrong)
    axes.broken_barh(_stretches(hours, ~guess & truth), lower, hatch="......", **wrong)
    axes.axhline(base, color="#DDDDDD", linewidth=0.6)


def _stretches(hours: Any, where: BoolArray) -> list[tuple[float, float]]:
    """(start, width) of every stretch of readings for which `where` holds."""
    edges = np.flatnonzero(np.diff(where, prepend=False, append=False)).reshape(-1, 2)
    ends = np.append(hours, 2 * hours[-1] - hours[-2] if hours.size > 1 else hours[-1] + 1)
    return [(ends[first], ends[stop] - ends[first]) for first, stop in edges]


def _beside(axes: Axes) -> Any:
    """x in shares of the axes, y in data."""
    return axes.get_yaxis_transform()


def _strip_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(color=BLUE, label="really on"),
            Patch(color=GREEN, label="seen by the attacker"),
            Patch(facecolor="white", edgecolor=RED, hatch="//////", label="seen, but off"),
            Patch(facecolor="white", edgecolor=RED, hatch="......", label="on, but missed"),
        ],
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )


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


def _plain_log_ticks(axis: Axis) -> None:
    """1, 2, 5, 10, 20 … written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


MARKERS = {"laplace": ("o", BLUE), "staircase": ("s", ORANGE), "gaussian": ("D", GREEN)}


def draw_advice(advice: Advice, front: Sequence[Advice], title: str) -> Figure:
    """Left: every option that meets the goal. Right: the least cost for every goal."""
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    intervals = sorted({option.every_s for option in advice.options})
    for name, (marker, color) in MARKERS.items():
        chosen = [o for o in advice.options if o.mechanism == name]
        rows = [intervals.index(o.every_s) for o in chosen]
        left.plot([o.cost.hourly_w for o in chosen], rows, marker, color=color, label=name)
    left.set_yticks(range(len(intervals)), [duration(every) for every in intervals])
    left.set_xscale("log")
    _plain_log_ticks(left.xaxis)
    left.set_xlabel("error of the hourly mean [W]")
    left.set_ylabel("released reading")
    left.legend(frameon=False)
    right.plot(
        [100 * step.goal.max_odds for step in front],
        [step.best.cost.hourly_w for step in front],
        color=BLUE,
        marker="o",
    )
    right.axvline(100 * advice.goal.max_odds, color=GREY, linestyle=":")
    right.axvline(50, color=GREY, linewidth=0.8)
    right.set_yscale("log")
    _plain_log_ticks(right.yaxis)
    right.set_xlabel(f"right about the {advice.goal.appliance} at most … times of 100")
    right.set_ylabel("least error of the hourly mean [W]")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
