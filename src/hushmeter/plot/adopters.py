"""Figures of the battery and of the menu of prices; colours as in `hushmeter.plot`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.battery import Operation
from hushmeter.plot.canvas import BLUE, GREEN, GREY, ORANGE, RED, new_figure, plain_log_ticks
from hushmeter.scoring import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.battery.exposure import Exposure
    from hushmeter.battery.sizing import Sizing
    from hushmeter.price import Menu

PURPLE = "#7B4F94"
WIDTHS = {"direct": 2.6, "reserved": 1.3, "lookahead": 1.3, "flatten": 0.5, "stepping": 0.6}
STYLES: dict[str, tuple[str, str]] = {
    "direct": (BLUE, "-"),
    "reserved": (GREEN, "-"),
    "lookahead": (ORANGE, "--"),
    "flatten": (GREY, "-"),
    "stepping": (PURPLE, ":"),
}


def draw_operation(
    done: Operation, title: str, scores: tuple[Score, Score] | None = None
) -> Figure:
    """The load and what the meter showed, the battery's charge, and what an attacker saw."""
    figure = new_figure(10, 7.2 if scores else 5.4)
    ratios = [2.4, 1.4, 2.0] if scores else [2.4, 1.4]
    panels = figure.subplots(len(ratios), 1, height_ratios=ratios)
    hours = _hours(done)
    top, middle = panels[0], panels[1]
    top.plot(hours, done.metered.readings / 1000, color=ORANGE, linewidth=0.6, label="metered")
    top.plot(hours, done.load.readings / 1000, color=BLUE, linewidth=1.1, label="load of the house")
    top.set_ylabel("power [kW]")
    top.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, 1.14))
    _draw_charge(middle, hours, done)
    for axes in (top, middle):
        axes.set_xlim(0, hours[-1] if hours[-1] > 0 else 1)
    middle.set_xlabel("hours")
    if scores:
        _draw_visibility(panels[2], *scores)
    _finish(figure, panels, title)
    return figure


def _draw_charge(axes: Axes, hours: Any, done: Operation) -> None:
    charge = 100 * done.state_of_charge
    axes.plot(hours, charge, color=GREEN, linewidth=1.2)
    if done.saturated.any():
        where = done.saturated
        axes.plot(hours[where], charge[where], "x", color=RED, markersize=4, label="noise cut")
        axes.legend(frameon=False, loc="upper right")
    axes.set_ylim(-4, 104)
    axes.set_ylabel("charge [%]")


def _draw_visibility(axes: Axes, before: Score, after: Score) -> None:
    names = [a.name for a in before.per_appliance]
    place = np.arange(len(names))
    # Appliances that never switch have nothing to see.
    old = [_seen(a.visibility) for a in before.per_appliance]
    new = [_seen(a.visibility) for a in after.per_appliance]
    axes.bar(place - 0.2, old, 0.38, color=BLUE, label="without the battery")
    axes.bar(place + 0.2, new, 0.38, color=ORANGE, hatch="///", edgecolor="white", label="with it")
    axes.set_xticks(place, names, rotation=20, ha="right")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("visibility")
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1.0))


def draw_controllers(
    runs: Mapping[str, Operation], visibility: Mapping[str, float], title: str
) -> Figure:
    """Every controller on the same load and noise: charge, readings cut, visibility."""
    figure = new_figure(11, 5.8)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.5, 1])
    charge = figure.add_subplot(grid[0, :])
    for name, done in runs.items():
        color, line = STYLES[name]
        width = WIDTHS[name]
        share = 100 * done.state_of_charge
        # The baselines swing all the time: they stay behind the others.
        above = 1 if width < 1 else 2
        charge.plot(
            _hours(done), share, line, color=color, linewidth=width, label=name, zorder=above
        )
    charge.set_ylabel("charge [%]")
    charge.set_ylim(-4, 104)
    charge.set_xlim(0, min(24.0, max(float(_hours(done)[-1]) for done in runs.values()) or 1.0))
    charge.set_xlabel("hours")
    charge.legend(frameon=False, ncols=5, loc="upper left", bbox_to_anchor=(0, 1.16))
    cut = {name: 100 * float(done.saturated.mean()) for name, done in runs.items()}
    lost = {name: done.loss_kwh for name, done in runs.items()}
    panels = [charge]
    rows = (
        ("visibility", visibility, 1.0),
        ("readings cut or bent [%]", cut, None),
        ("loss [kWh]", lost, None),
    )
    for i, (label, values, top) in enumerate(rows):
        panels.append(_bars(figure.add_subplot(grid[1, i]), values, label, top))
    _finish(figure, panels, title)
    return figure


def _bars(axes: Axes, values: Mapping[str, float], label: str, top: float | None) -> Axes:
    names = list(values)
    heights = [_seen(values[name]) for name in names]
    bars = axes.barh(names, heights, color=[STYLES.get(n, (BLUE, "-"))[0] for n in names])
    axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_xlim(0, (top or max([*heights, 1e-9])) * 1.18)
    return axes


def draw_exposure(
    sweep: Sequence[Exposure], without: float, title: str, chosen_kwh: float | None = None
) -> Figure:
    """δ̂, readings cut and visibility against the capacity, in one figure."""
    figure = new_figure(9, 5.6)
    top, bottom = figure.subplots(2, 1, sharex=True)
    capacity = [point.capacity_kwh for point in sweep]
    top.plot(capacity, [p.rate for p in sweep], "o-", color=BLUE, label="horizons that saturate")
    top.plot(capacity, [p.bound for p in sweep], "--", color=GREY, label="proved bound")
    top.plot(capacity, [p.cut_share for p in sweep], "s-", color=ORANGE, label="readings cut")
    top.set_ylabel("share")
    top.set_ylim(-0.03, 1.06)
    bottom.plot(capacity, [p.visibility for p in sweep], "o-", color=RED, label="with the battery")
    bottom.axhline(without, color=GREY, linestyle=":", label="without")
    bottom.set_ylabel("visibility")
    bottom.set_ylim(0, 1.05)
    bottom.set_xscale("log")
    bottom.set_xlabel("capacity [kWh]")
    plain_log_ticks(bottom.xaxis)
    for axes in (top, bottom):
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        if chosen_kwh is not None:
            axes.axvline(chosen_kwh, color=GREEN, linewidth=0.9)
    if chosen_kwh is not None:
        top.annotate("this battery ", (chosen_kwh, 0.5), color=GREEN, fontsize=8, ha="right")
    _finish(figure, (top, bottom), title)
    return figure


def draw_sizing(table: Sequence[Sizing], title: str) -> Figure:
    """Capacity, power and cost a year against ε, one line per controller."""
    figure = new_figure(11, 3.8)
    panels = figure.subplots(1, 3)
    labels = ("capacity [kWh]", "power [kW]", "cost a year")
    for name in dict.fromkeys(row.controller for row in table):
        rows = [row for row in table if row.controller == name]
        color, line = STYLES[name]
        epsilon = [row.epsilon for row in rows]
        values = (
            [row.capacity_kwh for row in rows],
            [row.power_kw for row in rows],
            [row.year.cost for row in rows],
        )
        for axes, value in zip(panels, values, strict=True):
            axes.loglog(epsilon, value, line, marker="o", color=color, label=name)
    for axes, label in zip(panels, labels, strict=True):
        axes.set_xlabel("ε over the horizon (controller included)")
        axes.set_ylabel(label)
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis)
    panels[0].legend(frameon=False)
    _finish(figure, panels, title)
    return figure


def draw_menu(menu: Menu, variations: Mapping[str, Menu], title: str) -> Figure:
    """Money against ε, what either side gets for it, and how the best ε moves."""
    figure = new_figure(12, 4.4)
    money, use, vary = figure.subplots(1, 3, width_ratios=[1.25, 1.1, 0.9])
    x = np.array([entry.epsilon for entry in menu.entries])
    _draw_money(money, x, menu)
    use.semilogx(x, [e.fidelity for e in menu.entries], color=BLUE, label="hourly curve: fidelity")
    forecast = [menu.load.forecast_w / e.forecast_w for e in menu.entries]
    use.semilogx(x, forecast, "--", color=GREEN, label="hourly forecast: e₀/error")
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
    for row, other in enumerate(variations.values()):
        if other.worthwhile is not None:
            vary.plot(other.worthwhile, (row, row), color=GREY, linewidth=4, alpha=0.4)
            vary.plot(other.best.epsilon, row, "o", color=GREEN)
    vary.set_yticks(range(len(variations)), list(variations))
    vary.invert_yaxis()
    vary.set_xscale("log")
    vary.set_xlabel("ε: worthwhile (bar), best (dot)")
    vary.set_xlim(x[0] / 1.15, x[-1] * 1.15)
    for axes in (money, use, vary):
        plain_log_ticks(axes.xaxis)
    _finish(figure, (money, use, vary), title)
    return figure


def _draw_money(axes: Axes, x: Any, menu: Menu) -> None:
    asked = np.array([e.compensation for e in menu.entries])
    paid = np.array([e.willingness - menu.buyer.handling for e in menu.entries])
    axes.semilogx(x, paid, color=BLUE, label="buyer would pay")
    axes.semilogx(x, asked, "--", color=RED, label="household asks")
    axes.fill_between(
        x, asked, paid, where=(paid >= asked).tolist(), color=GREEN, alpha=0.15, label="surplus"
    )
    axes.axvline(menu.best.epsilon, color=GREEN, linewidth=0.9)
    axes.annotate(f" best ε = {menu.best.epsilon:.3g}", (menu.best.epsilon, 0), color=GREEN)
    axes.set_xlabel("ε")
    axes.set_ylabel("money a year")
    axes.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def _first(menu: Menu) -> int:
    return next(i for i, weight in enumerate(menu.harm) if weight)


def _seen(visibility: float) -> float:
    return 0.0 if math.isnan(visibility) else max(visibility, 0.0)


def _hours(done: Operation) -> Any:
    return (done.load.times - done.load.times[0]) / np.timedelta64(1, "h")


def _finish(figure: Figure, panels: Any, title: str) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
