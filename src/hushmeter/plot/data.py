"""Pictures of data: a trace as it was read, and how the circuits' thresholds were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.learn.homes import LearntHome
from hushmeter.plot.canvas import BLUE, GREEN, GREY, RED, new_figure
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 2400
COLUMNS = 4


def draw_trace(trace: Trace, title: str) -> tuple[Figure, dict[str, Any]]:
    """The readings over time, gaps left blank, and their distribution; with the data behind it.

    A long trace is drawn as the range and mean of equal stretches of time.
    """
    figure = new_figure(10, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[4, 1], sharey=True)
    data = summarise(trace)
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


def summarise(trace: Trace, points: int = POINTS) -> dict[str, Any]:
    """Least, mean and greatest reading of equal stretches of time; NaN where there are none."""
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
    """One histogram of power per circuit, with its threshold and its levels.

    Parameters
    ----------
    learnt : LearntHome
    power : FloatArray, shape (T, N)
        Of every circuit in `learnt.circuits` [W].
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
    """Counts over bins that are even below 40 W and grow with the power above."""
    top = np.arcsinh(max(float(power.max()), 20.0) / 40.0)
    low = np.arcsinh(min(float(power.min()), 0.0) / 40.0)
    edges = 40.0 * np.sinh(np.linspace(low, top, 70))
    counts, _ = np.histogram(power, edges)
    return counts.astype(np.float64), edges


def _draw_histogram(axes: Axes, counts: FloatArray, edges: FloatArray) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.stairs(np.maximum(counts, 0.5), edges, fill=True, color=BLUE, alpha=0.6, baseline=0.5)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)
    axes.set_xscale("symlog", linthresh=40, linscale=1.0)
    axes.set_xlim(edges[0], edges[-1] * 1.05)
    ticks = [t for t in (0, 20, 100, 1000, 10_000) if t <= edges[-1] * 1.05]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    # Hundreds of ticks in all would take longer to lay out than everything else.
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=4))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _label(figure: Figure, learnt: LearntHome) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.suptitle(f"Power [W] of each circuit; {learnt.rule}", x=0.01, ha="left", fontsize=10)
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
