"""The figure of prices: what data are worth at several odds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    RED,
    finish_figure,
    new_figure,
    plain_log_ticks,
)
from hushmeter.checks import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.apps.price import Menu


def draw_menu(menu: Menu, variations: Mapping[str, Menu], title: str) -> Figure:
    """Draw money, what each side gets, and how the best entry depends on the terms."""
    figure = new_figure(12, 4.4)
    money, use, vary = figure.subplots(1, 3, width_ratios=[1.25, 1.1, 0.9])
    by_odds = menu.by == "odds"
    x = _places(menu, [entry.odds if by_odds else entry.epsilon for entry in menu.entries])
    _draw_money(money, x, menu)
    _draw_use(use, x, menu)
    for row, other in enumerate(variations.values()):
        if other.worthwhile is not None:
            vary.plot(_places(menu, other.worthwhile), (row, row), color=GREY, lw=4, alpha=0.4)
            vary.plot(_places(menu, [getattr(other.best, menu.by)]), [row], "o", color=GREEN)
    vary.set_yticks(range(len(variations)), list(variations))
    vary.invert_yaxis()
    label = "times out of 100 that the best attacker may be right" if by_odds else "ε"
    vary.set_xlabel(f"{'odds' if by_odds else 'ε'}: worthwhile (bar), best (dot)")
    for axes in (money, use):
        axes.set_xlabel(label)
    for axes in (money, use, vary):
        if by_odds:
            axes.set_xlim(x[0] - 1, min(x[-1] + 1, 100))
        else:
            axes.set_xscale("log")
            axes.set_xlim(x[0] / 1.15, x[-1] * 1.15)
            plain_log_ticks(axes.xaxis)
    return finish_figure(figure, (money, use, vary), title)


def _places(menu: Menu, values: Sequence[float]) -> FloatArray:
    """Places on the axis: odds out of 100, or ε."""
    return np.array(values) * (100 if menu.by == "odds" else 1)


def _draw_use(use: Axes, x: FloatArray, menu: Menu) -> None:
    """Draw the quality for the buyer, and how visible one run of each appliance is."""
    quality = [e.quality for e in menu.entries]
    use.plot(x, quality, color=BLUE, label=f"quality for the use “{menu.buyer.use}”")
    forecast = [menu.load.forecast_w / e.forecast_w if e.forecast_w else 1 for e in menu.entries]
    use.plot(
        x, forecast, "--", color=GREEN, label="error of the forecast, without noise / with noise"
    )
    if menu.best.clusters is not None:
        stay = [math.nan if e.clusters is None else e.clusters for e in menu.entries]
        use.plot(x, stay, ":", color=BLUE, label="days that stay in their cluster")
    for i, name in enumerate(menu.names):
        if menu.harm[i]:
            seen = [e.visibility[i] for e in menu.entries]
            label = "appliances: visibility of one run" if i == _first(menu) else None
            use.plot(x, seen, color=RED, linewidth=0.8, alpha=0.8, label=label)
            near = int(np.abs(np.array(seen) - 0.22 - 0.11 * (i % 5)).argmin())
            use.annotate(name, (x[near], seen[near]), fontsize=6.5, color=RED)
    use.set_ylim(0, 1.03)
    use.set_ylabel("share")
    use.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _draw_money(axes: Axes, x: FloatArray, menu: Menu) -> None:
    """Draw what the buyer would pay, what the household asks, and the surplus between them."""
    asked = np.array([e.compensation for e in menu.entries])
    paid = np.array([e.willingness - menu.buyer.handling for e in menu.entries])
    axes.plot(x, paid, color=BLUE, label="the buyer would pay")
    axes.plot(x, asked, "--", color=RED, label="the household asks")
    gain = (paid >= asked).tolist()
    axes.fill_between(
        x, asked, paid, where=gain, interpolate=True, color=GREEN, alpha=0.15, label="surplus"
    )
    best = x[menu.entries.index(menu.best)]
    axes.axvline(best, color=GREEN, linewidth=0.9)
    low = min(asked.min(), paid.min())
    side = "left" if best < (x[0] * x[-1]) ** 0.5 else "right"
    words = f" best: {best:.3g} (ε = {menu.best.epsilon:.3g}) "
    axes.annotate(words, (best, low), color=GREEN, ha=side)
    axes.set_ylabel("money per year")
    axes.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def _first(menu: Menu) -> int:
    """Return the position of the first appliance that has a weight."""
    return next(i for i, weight in enumerate(menu.harm) if weight)
