"""Figures of what protection costs and what it is worth: the options of an advice, and a price
menu.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.formatting import short_duration
from hushmeter.plot.figure import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    finish_figure,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.advice.planner import Advice
    from hushmeter.price import Menu

MARKERS = {"laplace": ("o", BLUE), "staircase": ("s", ORANGE), "gaussian": ("D", GREEN)}


def draw_advice(advice: Advice, front: Sequence[Advice], title: str) -> Figure:
    """Draw every option that meets a goal (left) and the least cost of every goal (right).

    Parameters
    ----------
    advice : Advice
        The answer to the goal.
    front : sequence of Advice
        Answers to other odds with the same appliance and span.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
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
    left.set_ylabel("one reading is released every")
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
    right.set_xlabel(
        f"times out of 100 that anybody is right about the {advice.goal.appliance}, at most"
    )
    right.set_ylabel("least error of the hourly mean [W]")
    return finish_figure(figure, (left, right), title)


def draw_menu(menu: Menu, variations: Mapping[str, Menu], title: str) -> Figure:
    """Draw money against ε, what each side gets for it, and how the best ε depends on the terms.

    Parameters
    ----------
    menu : Menu
        The prices of every ε.
    variations : mapping of str to Menu
        The same menu with one term changed, by the name of the change.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(12, 4.4)
    money, use, vary = figure.subplots(1, 3, width_ratios=[1.25, 1.1, 0.9])
    x = np.array([entry.epsilon for entry in menu.entries])
    _draw_money(money, x, menu)
    _draw_use(use, x, menu)
    for row, other in enumerate(variations.values()):
        if other.worthwhile is not None:
            vary.plot(other.worthwhile, (row, row), color=GREY, linewidth=4, alpha=0.4)
            vary.plot(other.best.epsilon, row, "o", color=GREEN)
    vary.set_yticks(range(len(variations)), list(variations))
    vary.invert_yaxis()
    vary.set_xscale("log")
    vary.set_xlabel("ε: worthwhile range (bar) and best value (dot)")
    vary.set_xlim(x[0] / 1.15, x[-1] * 1.15)
    for axes in (money, use, vary):
        plain_log_ticks(axes.xaxis)
    return finish_figure(figure, (money, use, vary), title)


def _draw_use(use: Axes, x: FloatArray, menu: Menu) -> None:
    """Draw how much of the data's use is left, and how visible one run of each appliance is."""
    use.semilogx(
        x,
        [e.fidelity for e in menu.entries],
        color=BLUE,
        label="share of the hourly curve that is true",
    )
    forecast = [menu.load.forecast_w / e.forecast_w for e in menu.entries]
    use.semilogx(
        x, forecast, "--", color=GREEN, label="error of the forecast, without noise / with noise"
    )
    if menu.best.clusters is not None:
        stay = [e.clusters for e in menu.entries]
        use.semilogx(x, stay, ":", color=BLUE, label="days that stay in their cluster")
    for i, name in enumerate(menu.names):
        if menu.harm[i]:
            seen = [e.visibility[i] for e in menu.entries]
            label = "appliances: visibility of one run" if i == _first(menu) else None
            use.semilogx(x, seen, color=RED, linewidth=0.8, alpha=0.8, label=label)
            near = int(np.abs(np.array(seen) - 0.22 - 0.11 * (i % 5)).argmin())
            use.annotate(name, (x[near], seen[near]), fontsize=6.5, color=RED)
    use.set_xlabel("ε")
    use.set_ylim(0, 1.03)
    use.set_ylabel("share")
    use.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _draw_money(axes: Axes, x: FloatArray, menu: Menu) -> None:
    """Draw what the buyer would pay, what the household asks, and the surplus between them."""
    asked = np.array([e.compensation for e in menu.entries])
    paid = np.array([e.willingness - menu.buyer.handling for e in menu.entries])
    axes.semilogx(x, paid, color=BLUE, label="the buyer would pay")
    axes.semilogx(x, asked, "--", color=RED, label="the household asks")
    axes.fill_between(
        x, asked, paid, where=(paid >= asked).tolist(), color=GREEN, alpha=0.15, label="surplus"
    )
    axes.axvline(menu.best.epsilon, color=GREEN, linewidth=0.9)
    axes.annotate(f" best ε = {menu.best.epsilon:.3g}", (menu.best.epsilon, 0), color=GREEN)
    axes.set_xlabel("ε")
    axes.set_ylabel("money per year")
    axes.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def _first(menu: Menu) -> int:
    """Return the position of the first appliance that has a weight."""
    return next(i for i, weight in enumerate(menu.harm) if weight)
