"""Figures of the paper's adopters: a battery, prices, and the clusters of days (Figs. 7 and 8).

Every figure has a function that returns the data behind it as columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.battery import Operation
from hushmeter.battery.guarantee import mean_visibility
from hushmeter.behaviour.stability import STABLE, LevelStability, ReleasedClusters, Stability, band
from hushmeter.checks import FloatArray, IntArray
from hushmeter.formatting import out_of_100, short_duration
from hushmeter.plot import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    finish_figure,
    new_figure,
    panel_grid,
    plain_log_ticks,
)
from hushmeter.releases.purposes import PURPOSES
from hushmeter.scoring import Score
from hushmeter.trace import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hushmeter.advice import FrontLine, Goal
    from hushmeter.battery.guarantee import BatteryCase, Exposure, Sizing
    from hushmeter.price import Menu

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


COLOURS = "cividis"
ARROWS = 25


def draw_clusters(result: Stability, name: str) -> dict[str, tuple[Figure, dict[str, Any]]]:
    """Draw every figure of the clusters of some days, with the data behind it."""
    k, size = result.counts.size, int(result.counts.sum())
    moves = interchanges_columns(result)
    return {
        "centres": (
            draw_centres(result, f"{k} clusters of {size} days ({name})"),
            centres_columns(result),
        ),
        "interchanges": (draw_interchanges(result, f"Where days go under noise ({name})"), moves),
        "stability": (
            draw_stability(result, f"What noise leaves of {k} clusters ({name})"),
            stability_columns(result),
        ),
    }


def draw_centres(result: Stability | ReleasedClusters, title: str) -> Figure:
    """Draw the centre of every cluster, from the least energy to the most (Fig. 7).

    The centres of released days get a band of two standard errors.
    """
    centres, counts = result.centres, result.counts
    columns = min(6, len(centres))
    rows = -(-len(centres) // columns)
    figure = new_figure(1.75 * columns + 0.6, 1.15 * rows + 0.9)
    panels = panel_grid(figure, len(centres), columns, share_x=True, share_y=True)
    hours = np.arange(centres.shape[1] + 1)
    for i, axes in enumerate(panels):
        axes.stairs(centres[i], hours, color=BLUE, fill=True, alpha=0.25)
        axes.stairs(centres[i], hours, color=BLUE, linewidth=1.3)
        number = f"{counts[i]}"
        if isinstance(result, ReleasedClusters):
            spread = 2 * result.centre_errors[i]
            low, high = centres[i] - spread, centres[i] + spread
            axes.stairs(high, hours, baseline=low, color=ORANGE, fill=True, alpha=0.5)
            number = f"{counts[i]} ± {result.count_errors[i]:.0f}"
        axes.set_title(f"{i + 1}: {number} days", fontsize=7.5, loc="left", pad=2)
        axes.set_xticks(np.linspace(0, centres.shape[1], 5).round())
        axes.tick_params(labelsize=7)
    figure.supxlabel("hour of the day", fontsize=9)
    figure.supylabel("kWh in the hour", fontsize=9)
    return finish_figure(figure, panels, title)


def centres_columns(result: Stability | ReleasedClusters) -> dict[str, Any]:
    """Return the data of `draw_centres`: one row for each cluster and hour."""
    k, hours = result.centres.shape
    columns: dict[str, Any] = {
        "cluster": np.repeat(np.arange(1, k + 1), hours),
        "hour": np.tile(np.arange(hours), k),
        "kwh": result.centres.ravel(),
        "profiles": np.repeat(result.counts, hours),
    }
    if result.costs is not None:
        columns["cost_per_kwh"] = np.repeat(result.costs, hours)
    if isinstance(result, ReleasedClusters):
        columns["kwh_standard_error"] = result.centre_errors.ravel()
        columns["profiles_standard_error"] = np.repeat(result.count_errors, hours)
        if result.cost_errors is not None:
            columns["cost_standard_error"] = np.repeat(result.cost_errors, hours)
    return columns


def draw_interchanges(result: Stability, title: str, note: str = "") -> Figure:
    """Draw the clusters by stability and the moves between them (Fig. 8).

    There is one panel for each noise scale λ. The colour of a cluster is the share of its days
    that stay; arrows show the largest moves. `note` is about ε.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    levels = result.levels
    columns = min(2, len(levels))
    rows = -(-len(levels) // columns)
    figure = new_figure(5.2 * columns + 0.8, 4.3 * rows + 0.4)
    panels = panel_grid(figure, len(levels), columns)
    places = place_centres(result.centres)
    paint = ScalarMappable(Normalize(0.0, 1.0), COLOURS)
    for axes, level in zip(panels, levels, strict=True):
        _draw_moves(axes, result, level, places, paint)
    bar = figure.colorbar(paint, ax=panels, shrink=0.75, pad=0.01)
    bar.set_label("share of the cluster's days that stay")
    _explain_moves(figure, result, note)
    return finish_figure(figure, panels, title)


def _explain_moves(figure: Figure, result: Stability, note: str) -> None:
    from matplotlib.lines import Line2D

    most = int(result.counts.max())
    entries = [
        Line2D([], [], marker="o", linestyle="none", color="black", fillstyle="none",
               markersize=_area(days, most) ** 0.5, label=f"a cluster of {days} days")
        for days in (most, max(1, most // 10))
    ] + [
        Line2D([], [], color=RED, linewidth=_width(share), marker=">", markersize=5,
               label=f"{share:.0%} of a cluster’s days move along the arrow")
        for share in (0.02, 0.2)
    ]  # fmt: skip
    figure.legend(
        handles=entries, loc="outside lower center", ncols=4, frameon=False, fontsize=8,
        handleheight=3.4, title=note or None, title_fontsize=8,
    )  # fmt: skip


def _area(days: Any, most: int) -> Any:
    """Area of the circle of a cluster [points²]."""
    return 30 + 420 * days / most


def _width(share: float) -> float:
    """Width of the arrow of a share of the days of a cluster [points]."""
    return 0.5 + 6 * min(share, 0.4)


def upper_bound_words(level: LevelStability) -> str:
    """Return the upper bound of the share that stays, with the 95 % interval of its estimate.

    The bound is computed for a sample of the days and compared with few draws of the noise, so that
    its estimate can lie below the measured share; the interval shows by how much.
    """
    above = level.staying.upper - level.frequency[level.rows]
    half = 1.96 * float(above.std()) / max(above.size, 1) ** 0.5
    upper = level.mean_bounds[1]
    low, high = max(upper - half, 0.0), min(upper + half, 1.0)
    return f"{100 * upper:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def place_centres(centres: FloatArray) -> FloatArray:
    """Return the place of every centre in the plane: energy of the day [kWh], mean hour [h]."""
    energy = centres.sum(axis=1)
    hours = np.arange(centres.shape[1]) + 0.5
    weight = np.maximum(centres, 0.0)
    total = weight.sum(axis=1)
    middle = np.full(len(centres), centres.shape[1] / 2)
    np.divide(weight @ hours, total, out=middle, where=total > 0)
    return np.column_stack([energy, middle])


def _draw_moves(
    axes: Axes, result: Stability, level: LevelStability, places: FloatArray, paint: Any
) -> None:
    """Draw the clusters and the largest moves between them at one noise scale."""
    stay = level.cluster_stay.mean(axis=0)
    size = _area(result.counts, result.counts.max())
    colours = paint.to_rgba(stay)
    axes.scatter(
        places[:, 0], places[:, 1], s=size, c=colours, edgecolors="black", linewidths=0.6, zorder=3
    )
    for i, (x, y) in enumerate(places):
        tone = "white" if stay[i] < 0.55 else "black"
        axes.text(x, y, str(i + 1), ha="center", va="center", fontsize=6, color=tone, zorder=4)
    for source, target, flow in largest_moves(level, ARROWS):
        share = flow / max(result.counts[source], 1)
        axes.annotate(
            "",
            places[target],
            places[source],
            arrowprops={
                "arrowstyle": "-|>",
                "color": RED,
                "alpha": 0.25 + 0.6 * min(4 * share, 1.0),
                "linewidth": _width(share),
                "shrinkA": 5,
                "shrinkB": 6,
                "connectionstyle": "arc3,rad=0.15",
            },
            zorder=2,
        )
    mean, low, high = band(level.stay)
    epsilon = f"ε = {level.level.epsilon:.3g} per {level.level.sensitivity:g} kWh a day"
    axes.set_title(
        f"λ = {level.level.scale:.3g} kWh ({epsilon}): {100 * mean:.1f} % stay "
        f"[{100 * low:.1f}, {100 * high:.1f}]\n"
        f"estimated upper bound of this share: {upper_bound_words(level)}",
        fontsize=8.5,
        loc="left",
    )
    axes.set_xlabel("energy of the day [kWh]", fontsize=8)
    axes.set_ylabel("mean hour of use", fontsize=8)
    axes.margins(0.08)
    axes.tick_params(labelsize=7)


def largest_moves(level: LevelStability, most: int) -> list[tuple[int, int, float]]:
    """Return the largest moves between clusters at one noise scale."""
    moves = level.migration.copy()
    np.fill_diagonal(moves, 0.0)
    order = np.argsort(moves, axis=None)[::-1][:most]
    pairs = [divmod(int(cell), moves.shape[1]) for cell in order]
    return [(a, b, float(moves[a, b])) for a, b in pairs if moves[a, b] > 0]


def interchanges_columns(result: Stability) -> dict[str, Any]:
    """Return the data of `draw_interchanges`: one row per pair of clusters."""
    k = result.counts.size
    cells = np.arange(k * k)
    levels = result.levels
    stay = [level.cluster_stay.mean(axis=0) for level in levels]
    return {
        "scale_kwh": np.repeat([level.level.scale for level in levels], k * k),
        "epsilon": np.repeat([level.level.epsilon for level in levels], k * k),
        "source": np.tile(cells // k + 1, len(levels)),
        "target": np.tile(cells % k + 1, len(levels)),
        "profiles": np.concatenate([level.migration.ravel() for level in levels]),
        "source_stability": np.concatenate([np.repeat(share, k) for share in stay]),
    }


def draw_stability(result: Stability, title: str) -> Figure:
    """Draw against λ how many days stay in their cluster and how good the clusters are."""
    figure = new_figure(10.5, 4.9)
    left, right = figure.subplots(1, 2)
    data = stability_columns(result)
    scale = data["scale_kwh"]
    _draw_band(left, data, "stay", BLUE, "o", "days that stay (mean, 95 % band)")
    left.fill_between(scale, data["bound_lower"], data["bound_upper"], color=GREY, alpha=0.25,
                      linewidth=0, label="between the proved bounds")  # fmt: skip
    left.plot(scale, data["bound_upper"], color=GREY, linestyle="--", linewidth=1)
    left.plot(scale, data["stable_clusters"] / result.counts.size, color=ORANGE, marker="s",
              linestyle=":", label=f"stable clusters (≥ {STABLE:.0%} stay)")  # fmt: skip
    _draw_band(right, data, "rand_index", GREEN, "D", "adjusted Rand index")
    if result.costs is not None:
        _draw_band(right, data, "rank_correlation", ORANGE, "^", "cost ranking, Kendall's τ")
    error = right.twinx()
    _draw_band(error, data, "centre_error_kwh", RED, "v", "error of the centres [kWh a day]")
    error.set_ylabel("error of the centres [kWh a day]", color=RED)
    error.set_ylim(bottom=0)
    for axes in (left, right):
        _scale_axis(axes, data)
    left.set_ylabel("share")
    right.set_ylabel("agreement of noisy with clean clusters")
    handles = [h for axes in (left, right, error) for h in axes.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    finish_figure(figure, (left, right), title)
    error.spines["top"].set_visible(False)
    return figure


def _draw_band(
    axes: Axes, data: dict[str, Any], name: str, colour: str, marker: str, label: str
) -> None:
    """Draw a mean with its 95 % band."""
    x = data["scale_kwh"]
    axes.plot(x, data[name], color=colour, marker=marker, markersize=5, label=label)
    axes.fill_between(
        x, data[f"{name}_low"], data[f"{name}_high"], color=colour, alpha=0.25, linewidth=0
    )


def _scale_axis(axes: Axes, data: dict[str, Any]) -> None:
    """Label the x axis with λ and, below it, with ε."""
    axes.set_xscale("log")
    ticks = [f"{s:.3g}\n{e:.3g}" for s, e in zip(data["scale_kwh"], data["epsilon"], strict=True)]
    axes.set_xticks(data["scale_kwh"], ticks)
    axes.minorticks_off()
    axes.set_xlabel("λ [kWh] and, below it, ε   (more private →)")
    axes.set_ylim(-0.02, 1.04)


def stability_columns(result: Stability) -> dict[str, Any]:
    """Return the data of `draw_stability`: one row for each noise scale."""
    levels = result.levels
    columns: dict[str, Any] = {
        "scale_kwh": np.array([level.level.scale for level in levels]),
        "epsilon": np.array([level.level.epsilon for level in levels]),
        "sensitivity_kwh": np.array([level.level.sensitivity for level in levels]),
    }
    measures = {
        "stay": [level.stay for level in levels],
        "rand_index": [level.rand_index for level in levels],
        "centre_error_kwh": [level.centre_error for level in levels],
    }
    if result.costs is not None:
        measures["rank_correlation"] = [level.rank_correlation for level in levels]
    for name, values in measures.items():
        mean, low, high = band(np.column_stack(values))
        columns |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    bounds = np.array([level.mean_bounds for level in levels])
    columns |= {"bound_lower": bounds[:, 0], "bound_upper": bounds[:, 1]}
    columns["stable_clusters"] = np.array([level.stable.size for level in levels])
    return columns
