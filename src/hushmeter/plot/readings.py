"""Figures of readings: a trace as it was read, the thresholds of its circuits, and an attack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray
from hushmeter.learn.homes import LearntHome
from hushmeter.plot.figure import BLUE, GREEN, GREY, RED, new_figure
from hushmeter.scoring import Score
from hushmeter.trace import Runs, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 2400
"""Most stretches of time that a trace is drawn with: more cannot be seen on paper."""
COLUMNS = 4
"""Panels of circuits side by side."""


def plot_trace(trace: Trace, title: str = "Readings") -> Figure:
    """Draw the readings of a trace; a notebook shows the figure.

    Parameters
    ----------
    trace : Trace
    title : str, default "Readings"

    Returns
    -------
    matplotlib.figure.Figure
        See `draw_trace`. Save it with `figure.savefig("trace.png")`.
    """
    return draw_trace(trace, title)[0]


def draw_trace(trace: Trace, title: str) -> tuple[Figure, dict[str, Any]]:
    """Draw the readings over time, with gaps left blank, and their distribution.

    A long trace is drawn as the range and the mean of equal stretches of time.
    """
    figure = new_figure(10, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[4, 1], sharey=True)
    data = summarise_stretches(trace)
    days = (data["start"] - data["start"][0]) / np.timedelta64(1, "D")
    scale, unit = (1.0, "days") if days[-1] > 3 else (24.0, "hours")
    x = days * scale
    left.fill_between(
        x,
        data["min_w"] / 1000,
        data["max_w"] / 1000,
        color=BLUE,
        alpha=0.3,
        linewidth=0,
        step="mid",
    )
    left.plot(x, data["mean_w"] / 1000, color=BLUE, linewidth=0.8, label="mean of a stretch")
    left.set_xlim(0, max(float(x[-1]), 1e-9))
    left.set_xlabel(f"{unit} since {str(trace.times[0])[:16].replace('T', ' ')} UTC")
    left.set_ylabel("meter [kW]")
    left.set_title(title, loc="left", fontsize=11)
    right.hist(trace.readings / 1000, bins=60, orientation="horizontal", color=GREY)
    right.set_xscale("log")
    right.set_xlabel("readings")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure, data


def summarise_stretches(trace: Trace, points: int = POINTS) -> dict[str, Any]:
    """Compute the least, mean and greatest reading of equal stretches of time."""
    steps = np.arange(len(trace)) if trace.steps is None else trace.steps
    width = max(1, -(-(int(steps[-1]) + 1) // points))
    cells = steps // width
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    present = cells[first]
    count = int(cells[-1]) + 1
    columns: dict[str, Any] = {}
    step = np.timedelta64(round(width * trace.interval_s * 1e9), "ns")
    columns["start"] = trace.times[0] + np.arange(count) * step
    sizes = np.diff(np.append(first, cells.size))
    for name, values in (
        ("min_w", np.minimum.reduceat(trace.readings, first)),
        ("mean_w", np.add.reduceat(trace.readings, first) / sizes),
        ("max_w", np.maximum.reduceat(trace.readings, first)),
    ):
        column = np.full(count, np.nan)
        column[present] = values
        columns[name] = column
    return columns


def draw_thresholds(learnt: LearntHome, power: FloatArray) -> tuple[Figure, dict[str, Any]]:
    """Draw one histogram of power for each circuit, with its threshold and its levels.

    Units: `power` [W].
    """
    circuits = learnt.circuits
    rows = -(-len(circuits) // COLUMNS)
    figure = new_figure(3.0 * COLUMNS, 2.1 * rows + 0.7)
    grid = np.atleast_1d(figure.subplots(rows, COLUMNS, squeeze=False)).ravel()
    data: dict[str, list[Any]] = {"circuit": [], "power_w": [], "readings": []}
    for axes, circuit, column in zip(grid, circuits, power.T, strict=False):
        counts, edges = _histogram(column)
        _draw_histogram(axes, counts, edges)
        axes.set_title(f"{circuit.name}: {circuit.role}", fontsize=8, loc="left")
        if np.isfinite(circuit.threshold):
            axes.axvline(circuit.threshold, color=RED, linewidth=1.3)
        for level in circuit.levels or (() if np.isnan(circuit.mean_on) else (circuit.mean_on,)):
            axes.axvline(level, color=GREEN, linestyle="--", linewidth=0.9)
        data["circuit"] += [circuit.name] * counts.size
        data["power_w"] += edges[:-1].tolist()
        data["readings"] += counts.tolist()
    for axes in grid[len(circuits) :]:
        axes.set_visible(False)
    _label(figure, learnt)
    return figure, data


def _histogram(power: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Count readings in bins that are equally wide below 40 W and grow with the power above."""
    top = np.arcsinh(max(float(power.max()), 20.0) / 40.0)
    low = np.arcsinh(min(float(power.min()), 0.0) / 40.0)
    edges = 40.0 * np.sinh(np.linspace(low, top, 70))
    counts, _ = np.histogram(power, edges)
    return counts.astype(np.float64), edges


def _draw_histogram(axes: Axes, counts: FloatArray, edges: FloatArray) -> None:
    """Draw one histogram with readable axes."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.stairs(np.maximum(counts, 0.5), edges, fill=True, color=BLUE, alpha=0.6, baseline=0.5)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)
    axes.set_xscale("symlog", linthresh=40, linscale=1.0)
    axes.set_xlim(edges[0], edges[-1] * 1.05)
    ticks = [t for t in (0, 20, 100, 1000, 10_000) if t <= edges[-1] * 1.05]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    # Minor ticks of all panels together would take longer to lay out than everything else.
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _label(figure: Figure, learnt: LearntHome) -> None:
    """Add the title and the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.suptitle(f"Power of each circuit [W]; {learnt.rule}", x=0.01, ha="left", fontsize=10)
    figure.legend(
        handles=[
            Patch(color=BLUE, alpha=0.6, label="readings"),
            Line2D([], [], color=RED, label="threshold"),
            Line2D([], [], color=GREEN, linestyle="--", label="on-levels (or mean)"),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )


def draw_attack(trace: Trace, states: BoolArray, score: Score, title: str) -> Figure:
    """Draw the readings, and below them one strip for each appliance: the truth above the guess."""
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
    """Draw the truth in the upper half of a row and the guess, mistakes hatched, in the lower."""
    upper, lower = (base + 0.52, 0.4), (base + 0.08, 0.4)
    wrong: dict[str, Any] = {"facecolor": "white", "edgecolor": RED, "linewidth": 0.6}
    axes.broken_barh(_stretches(hours, truth), upper, color=BLUE)
    axes.broken_barh(_stretches(hours, guess & truth), lower, color=GREEN)
    axes.broken_barh(_stretches(hours, guess & ~truth), lower, hatch="//////", **wrong)
    axes.broken_barh(_stretches(hours, ~guess & truth), lower, hatch="......", **wrong)
    axes.axhline(base, color="#DDDDDD", linewidth=0.6)


def _stretches(hours: Any, where: BoolArray) -> list[tuple[float, float]]:
    """Return (start, width) of every stretch of readings in which `where` is true."""
    runs = Runs.of_true(where)
    ends = np.append(hours, 2 * hours[-1] - hours[-2] if hours.size > 1 else hours[-1] + 1)
    return list(zip(ends[runs.first], ends[runs.stop] - ends[runs.first], strict=True))


def _beside(axes: Axes) -> Any:
    """Return the transform with x as a share of the width and y in data units."""
    return axes.get_yaxis_transform()


def _strip_legend(figure: Figure) -> None:
    """Explain the colours and hatches below the figure."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(color=BLUE, label="really on"),
            Patch(color=GREEN, label="detected by the attacker"),
            Patch(
                facecolor="white", edgecolor=RED, hatch="//////", label="detected, but really off"
            ),
            Patch(facecolor="white", edgecolor=RED, hatch="......", label="really on, but missed"),
        ],
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )


def draw_hours(hourly: FloatArray, released: Mapping[float, FloatArray]) -> Figure:
    """Draw the hourly means of one day, true and released, with one panel for each ε.

    Units: `hourly`, `released` [W].
    """
    from matplotlib.ticker import MaxNLocator

    columns = min(2, len(released))
    rows = -(-len(released) // columns)
    figure = new_figure(10, 0.6 + 2.1 * rows)
    panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True)).ravel()
    hours = np.arange(hourly.size)
    for axes, (epsilon, curve) in zip(panels, released.items(), strict=False):
        axes.bar(hours + 0.5, hourly / 1000, 0.96, color=GREY, alpha=0.45, label="true")
        edges = np.append(curve, curve[-1]) / 1000
        axes.step(np.append(hours, hours.size), edges, where="post", color=BLUE, label="released")
        axes.axhline(0, color="#444444", linewidth=0.6)
        axes.set_title(f"ε = {epsilon:.3g}", loc="left", fontsize=10)
        axes.set_xlim(0, hours.size)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 4, 6, 10]))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(released) :]:
        axes.set_visible(False)
    figure.supxlabel("hour", fontsize=10)
    figure.supylabel("mean of an hour [kW]", fontsize=10)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False
    )
    return figure
