"""Figures of what protection costs and what it is worth: privacy against error, and a menu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.formatting import out_of_100, short_duration
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
from hushmeter.releases.purposes import PURPOSES
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.advice.planner import FrontLine, Goal
    from hushmeter.price import Menu


def draw_front(
    front: Sequence[FrontLine], goal: Goal, own_mean_w: float | None, title: str
) -> Figure:
    """Draw privacy against error for every purpose, one panel each."""
    figure = new_figure(12, 6.6)
    *panels, legend = figure.subplots(2, 3).ravel()
    for axes, purpose in zip(panels, PURPOSES.values(), strict=True):
        for line in front:
            drawn = [
                (100 * odds, error)
                for odds, errors in zip(line.odds, line.errors, strict=True)
                if (error := errors.of(purpose.name))
            ]
            if drawn:
                marker, color = _line_style(line)
                axes.plot(*zip(*drawn, strict=True), marker=marker, markersize=4, color=color)
        if own_mean_w:
            own = purpose.of_mean_power(own_mean_w)
            axes.axhline(own, color=RED, linestyle="--", linewidth=1)
        axes.axvline(100 * goal.max_odds, color=GREY, linestyle=":")
        if axes.lines[:-1]:
            axes.set_yscale("log")
            plain_log_ticks(axes.yaxis)
        chosen = purpose.name == goal.purpose
        axes.set_title(
            f"{TITLES[purpose.name]} [{purpose.unit}]", weight="bold" if chosen else "normal"
        )
        axes.set_xlim(50, 91.5)
    for axes in panels[2:]:
        axes.set_xlabel("best attacker right, times out of 100")
    for axes in (panels[0], panels[3]):
        axes.set_ylabel("standard error")
    _front_legend(legend, front, goal, own_mean_w)
    return finish_figure(figure, panels, title)


TITLES = {
    "hour": "single hours",
    "day": "days",
    "month": "months",
    "profile": "typical day",
    "register": "register values",
}


def _line_style(line: FrontLine) -> tuple[str, str]:
    """Marker and colour of a kind of release."""
    if line.form == "calendar":
        return "D", GREEN
    if line.every_s > SECONDS_PER_HOUR * (1 + 1e-9):
        return "s", ORANGE
    return ("o", BLUE) if line.every_s > SECONDS_PER_HOUR * 0.9 else ("v", GREY)


def _front_legend(
    axes: Axes, front: Sequence[FrontLine], goal: Goal, own_mean_w: float | None
) -> None:
    """Fill the sixth place with the legend."""
    from matplotlib.lines import Line2D

    axes.set_axis_off()
    entries = []
    for line in front:
        marker, color = _line_style(line)
        name = f"readings of {short_duration(line.every_s)}"
        if line.form == "calendar":
            name = "calendar release (--views)"
        entries.append(Line2D([], [], color=color, marker=marker, markersize=4, label=name))
    odds = out_of_100(goal.max_odds)
    entries.append(Line2D([], [], color=GREY, linestyle=":", label=f"goal: {odds} out of 100"))
    if own_mean_w:
        label = "your own mean use (private figure)"
        entries.append(Line2D([], [], color=RED, linestyle="--", label=label))
    axes.legend(handles=entries, loc="center", frameon=False)


def draw_menu(menu: Menu, variations: Mapping[str, Menu], title: str) -> Figure:
    """Draw money against ε, what each side gets for it, and how the best ε depends on the terms."""
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
