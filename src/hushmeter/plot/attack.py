"""What an attacker saw: the readings, and a strip of hits and misses per appliance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray
from hushmeter.plot.canvas import BLUE, GREEN, GREY, RED, new_figure
from hushmeter.scoring import Score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
