"""What a goal costs: the options that meet it, and the least cost of every goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushmeter.formatting import short_duration
from hushmeter.plot.canvas import BLUE, GREEN, GREY, ORANGE, new_figure, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hushmeter.advice.planner import Advice

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
    left.set_yticks(range(len(intervals)), [short_duration(every) for every in intervals])
    left.set_xscale("log")
    plain_log_ticks(left.xaxis)
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
    plain_log_ticks(right.yaxis)
    right.set_xlabel(f"right about the {advice.goal.appliance} at most … times of 100")
    right.set_ylabel("least error of the hourly mean [W]")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
