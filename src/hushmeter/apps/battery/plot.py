"""Figures of a battery: what it does, what it hides, and which sizes do (Fig. 7 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.battery import Operation
from hushmeter.apps.battery.guarantee import mean_visibility
from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    finish_figure,
    new_figure,
    plain_log_ticks,
)
from hushmeter.checks import FloatArray, IntArray
from hushmeter.scoring import Score
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.apps.battery.guarantee import BatteryCase, Exposure, Sizing


Picture = tuple["Figure", dict[str, Any]]
"""A figure and the columns of the data behind it."""


WIDTHS = {"direct": 2.6, "reserved": 1.3, "lookahead": 1.3, "flatten": 0.5, "stepping": 0.6}


STYLES: dict[str, tuple[str, str]] = {
    "direct": (BLUE, "-"),
    "reserved": (GREEN, "-"),
    "lookahead": (ORANGE, "--"),
    "flatten": (GREY, "-"),
    "stepping": (PURPLE, ":"),
}


def draw_battery(
    case: BatteryCase,
    done: Operation,
    scores: tuple[Score, Score] | None,
    table: Sequence[Sizing],
    attacker: str,
) -> dict[str, Picture]:
    """Draw every figure of one battery."""
    store = done.battery
    failure = table[0].max_failure if table else 0.0
    title = f"A battery of {store.capacity_kwh:g} kWh and {store.power_kw:g} kW, {done.controller}"
    pictures = {
        "battery": (draw_operation(done, title, scores), operation_columns(done)),
        "sizing": (
            draw_sizing(table, f"Sizes that fail in at most {failure:g} of the horizons"),
            sizing_columns(table),
        ),
    }
    if scores is not None:
        pictures["controllers"] = _compare_controllers(case, attacker)
        pictures["exposure"] = _sweep_capacity(case, scores[0], attacker)
    return pictures


def _compare_controllers(case: BatteryCase, attacker: str) -> Picture:
    """Every controller on the same load, and what the attacker sees behind each."""
    runs = case.compare_controllers()
    seen = {name: mean_visibility(case.attack_behind(run, attacker)) for name, run in runs.items()}
    title = f"The same battery and load under every controller; attacker: {attacker}"
    return draw_controllers(runs, seen, title), controllers_columns(runs, seen)


def _sweep_capacity(case: BatteryCase, without: Score, attacker: str) -> Picture:
    """Capacities from far too small to ample, and what the attacker sees behind each."""
    spread = case.mechanism.std * case.battery.hours / 1000
    widest = 12 * spread * np.sqrt(case.control.readings)
    # Less storage could not be charged for its trips.
    least = 1.001 * case.battery.trip_kwh / max(1 - case.battery.charge, 1e-9)
    capacities = np.geomspace(max(spread / 2, least), max(widest, 4 * least), 12).tolist()
    sweep = case.sweep_capacity(capacities, attacker)
    title = f"A battery that is too small does not hide the load; attacker: {attacker}"
    figure = draw_exposure(sweep, mean_visibility(without), title, case.battery.capacity_kwh)
    return figure, exposure_columns(sweep)


def operation_columns(done: Operation) -> dict[str, Any]:
    """The operation of a battery, one row for each reading."""
    return {
        "timestamp": done.load.times,
        "load_w": done.load.readings,
        "metered_w": done.metered.readings,
        "battery_w": done.battery_w,
        "noise_w": done.noise_w,
        "state_of_charge": done.state_of_charge,
        "saturated": done.saturated.astype("int8"),
    }


def sizing_columns(table: Sequence[Sizing]) -> dict[str, Any]:
    """The size table, one row for each battery."""
    names = ("controller", "epsilon", "scale_w", "capacity_kwh", "power_kw")
    columns: dict[str, Any] = {name: [getattr(row, name) for row in table] for name in names}
    for name in ("loss_kwh", "cycles", "life_years", "cost"):
        label = name if name == "life_years" else f"{name}_a_year"
        columns[label] = [getattr(row.year, name) for row in table]
    return columns


def controllers_columns(
    runs: Mapping[str, Operation], visibility: Mapping[str, float]
) -> dict[str, Any]:
    """The comparison of controllers, one row for each."""
    return {
        "controller": list(runs),
        "visibility": list(visibility.values()),
        "cut_share": [float(run.saturated.mean()) for run in runs.values()],
        "loss_kwh": [run.loss_kwh for run in runs.values()],
        "cycles": [run.cycles for run in runs.values()],
    }


def exposure_columns(sweep: Sequence[Exposure]) -> dict[str, Any]:
    """The sweep over capacities, one row for each."""
    names = ("capacity_kwh", "rate", "bound", "cut_share", "visibility")
    return {name: [getattr(point, name) for point in sweep] for name in names}


def draw_operation(
    done: Operation, title: str, scores: tuple[Score, Score] | None = None
) -> Figure:
    """Draw the load, the metered power, the charge of the battery, and what an attacker sees."""
    figure = new_figure(10, 7.2 if scores else 5.4)
    ratios = [2.4, 1.4, 2.0] if scores else [2.4, 1.4]
    panels = figure.subplots(len(ratios), 1, height_ratios=ratios)
    # A line is interrupted at every gap, one entry before the run after it.
    hours = np.insert(_hours(done), _gaps(done), np.nan)
    top, middle = panels[0], panels[1]
    for values, color, width, label in (
        (done.metered.readings, ORANGE, 0.6, "metered"),
        (done.load.readings, BLUE, 1.1, "load of the house"),
    ):
        top.plot(hours, _broken(values / 1000, done), color=color, linewidth=width, label=label)
    _shade_absence(top, hours, done)
    top.set_ylabel("power [kW]")
    top.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.14))
    _draw_charge(middle, hours, done)
    for axes in (top, middle):
        axes.set_xlim(0, hours[-1] if hours[-1] > 0 else 1)
    middle.set_xlabel("hours")
    if scores:
        _draw_visibility(panels[2], *scores)
    return finish_figure(figure, panels, title)


def _gaps(done: Operation) -> IntArray:
    return np.flatnonzero(done.load.run_starts)[1:]


def _broken(values: FloatArray, done: Operation) -> FloatArray:
    """Values with a gap in the line wherever the readings have one."""
    return np.insert(values, _gaps(done), np.nan)


def _shade_absence(axes: Axes, hours: FloatArray, done: Operation) -> None:
    """Shade the hours in which the storage is away and nothing is hidden."""
    if done.battery.away is None:
        return
    for k, gap in enumerate(np.flatnonzero(np.isnan(hours))):
        ends = hours[gap - 1] + done.load.interval_s / SECONDS_PER_HOUR, hours[gap + 1]
        label = None if k else "away: nothing is hidden"
        axes.axvspan(*ends, color=GREY, alpha=0.25, linewidth=0, label=label)


def _draw_charge(axes: Axes, hours: FloatArray, done: Operation) -> None:
    """Draw the charge and mark the readings whose noise the battery could not follow."""
    charge = _broken(100 * done.state_of_charge, done)
    axes.plot(hours, charge, color=GREEN, linewidth=1.2)
    _shade_absence(axes, hours, done)
    if done.saturated.any():
        where = np.insert(done.saturated, _gaps(done), False)
        axes.plot(hours[where], charge[where], "x", color=RED, markersize=4, label="noise cut off")
        axes.legend(frameon=False, loc="upper right")
    axes.set_ylim(-4, 104)
    axes.set_ylabel("charge [%]")


def _draw_visibility(axes: Axes, before: Score, after: Score) -> None:
    """Draw two bars for each appliance: its visibility without and with the battery."""
    names = [a.name for a in before.per_appliance]
    place = np.arange(len(names))
    # An appliance that never switches has no visibility; its bars are empty.
    old = [_bar_height(a.visibility) for a in before.per_appliance]
    new = [_bar_height(a.visibility) for a in after.per_appliance]
    axes.bar(place - 0.2, old, 0.38, color=BLUE, label="without the battery")
    label = "with the battery"
    axes.bar(place + 0.2, new, 0.38, color=ORANGE, hatch="///", edgecolor="white", label=label)
    axes.set_xticks(place, names, rotation=20, ha="right")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("visibility")
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1.0))


def draw_controllers(
    runs: Mapping[str, Operation], visibility: Mapping[str, float], title: str
) -> Figure:
    """Draw every controller on one load and noise: charge, readings cut, visibility, losses."""
    figure = new_figure(11, 5.8)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.5, 1])
    charge = figure.add_subplot(grid[0, :])
    for name, done in runs.items():
        color, line = STYLES[name]
        width = WIDTHS[name]
        share = 100 * done.state_of_charge
        # The baselines charge and discharge all the time; drawn first, they hide nothing.
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
        ("readings cut off [%]", cut, None),
        ("loss [kWh]", lost, None),
    )
    for i, (label, values, top) in enumerate(rows):
        panels.append(_bars(figure.add_subplot(grid[1, i]), values, label, top))
    return finish_figure(figure, panels, title)


def _bars(axes: Axes, values: Mapping[str, float], label: str, top: float | None) -> Axes:
    """Draw one horizontal bar for each controller, with its value beside it."""
    names = list(values)
    heights = [_bar_height(values[name]) for name in names]
    bars = axes.barh(names, heights, color=[STYLES.get(n, (BLUE, "-"))[0] for n in names])
    axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_xlim(0, (top or max([*heights, 1e-9])) * 1.18)
    return axes


def draw_exposure(
    sweep: Sequence[Exposure], without: float, title: str, chosen_kwh: float | None = None
) -> Figure:
    """Draw how often a battery saturates, and what is visible then, against its capacity."""
    figure = new_figure(9, 5.6)
    top, bottom = figure.subplots(2, 1, sharex=True)
    capacity = [point.capacity_kwh for point in sweep]
    top.plot(
        capacity, [p.rate for p in sweep], "o-", color=BLUE, label="periods in which it saturates"
    )
    top.plot(capacity, [p.bound for p in sweep], "--", color=GREY, label="proved bound")
    top.plot(capacity, [p.cut_share for p in sweep], "s-", color=ORANGE, label="readings cut off")
    top.set_ylabel("share")
    top.set_ylim(-0.03, 1.06)
    bottom.plot(capacity, [p.visibility for p in sweep], "o-", color=RED, label="with the battery")
    bottom.axhline(without, color=GREY, linestyle=":", label="without a battery")
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
    return finish_figure(figure, (top, bottom), title)


def draw_sizing(table: Sequence[Sizing], title: str) -> Figure:
    """Draw capacity, power and yearly cost against ε, with one line for each controller."""
    figure = new_figure(11, 3.8)
    panels = figure.subplots(1, 3)
    labels = ("capacity [kWh]", "power [kW]", "cost per year")
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
        axes.set_xlabel("ε over the whole period, controller included")
        axes.set_ylabel(label)
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis)
    panels[0].legend(frameon=False)
    return finish_figure(figure, panels, title)


def _bar_height(visibility: float) -> float:
    """Return the visibility as a height: 0 where it is unknown or negative."""
    return 0.0 if math.isnan(visibility) else max(visibility, 0.0)


def _hours(done: Operation) -> FloatArray:
    """Return the time of every reading since the first one [h]."""
    hours: FloatArray = (done.load.times - done.load.times[0]) / np.timedelta64(1, "h")
    return hours
