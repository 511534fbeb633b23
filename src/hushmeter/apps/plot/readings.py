"""Figures of readings: as they were read, what they show, thresholds, and an attack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.apps.plot import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    finish_figure,
    new_figure,
    panel_grid,
)
from hushmeter.checks import FloatArray
from hushmeter.learn.habits import LocalReadings, clean, slot_length
from hushmeter.learn.homes import LearntHome
from hushmeter.learn.statements import Finding, Findings
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

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

    Examples
    --------
    >>> hm.plot_trace(hm.Trace([120.0, 2120.0], 60.0, "2024-01-01T00:00Z")).axes[0].get_ylabel()
    'meter [kW]'
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
    low, high = data["min_w"] / 1000, data["max_w"] / 1000
    left.fill_between(x, low, high, color=BLUE, alpha=0.3, linewidth=0, step="mid")
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


def summarise_stretches(trace: Trace) -> dict[str, Any]:
    """Compute the least, mean and greatest reading of equal stretches of time."""
    steps = trace.places
    width = max(1, -(-(int(steps[-1]) + 1) // POINTS))
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
    """Draw a histogram of the power [W] of each circuit, with its threshold and its levels."""
    circuits = learnt.circuits
    rows = -(-len(circuits) // COLUMNS)
    figure = new_figure(3.0 * COLUMNS, 2.1 * rows + 0.7)
    grid = panel_grid(figure, len(circuits), COLUMNS)
    data: dict[str, list[Any]] = {"circuit": [], "power_w": [], "readings": []}
    for axes, circuit, column in zip(grid, circuits, power.T, strict=True):
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


def draw_hours(hourly: FloatArray, released: Mapping[float, FloatArray]) -> Figure:
    """Draw the true and the released hourly means of one day [W], with one panel for each ε."""
    from matplotlib.ticker import MaxNLocator

    columns = min(2, len(released))
    rows = -(-len(released) // columns)
    figure = new_figure(10, 0.6 + 2.1 * rows)
    panels = panel_grid(figure, len(released), columns, share_x=True)
    hours = np.arange(hourly.size)
    for axes, (epsilon, curve) in zip(panels, released.items(), strict=True):
        axes.bar(hours + 0.5, hourly / 1000, 0.96, color=GREY, alpha=0.45, label="true")
        edges = np.append(curve, curve[-1]) / 1000
        axes.step(np.append(hours, hours.size), edges, where="post", color=BLUE, label="released")
        axes.axhline(0, color="#444444", linewidth=0.6)
        axes.set_title(f"ε = {epsilon:.3g}", loc="left", fontsize=10)
        axes.set_xlim(0, hours.size)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 4, 6, 10]))
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("hour", fontsize=10)
    figure.supylabel("mean of an hour [kW]", fontsize=10)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False
    )
    return figure


FEWEST_DAYS = 3
"""Days from which a picture of days and hours is worth more than a line."""
NAMES = {
    "away": "away",
    "kettle": "kettle",
    "shower": "shower",
    "car-charger": "car charging",
    "hvac": "heating, cooling",
    "short-heat": "microwave, toaster …",
    "thermostat": "oven, dryer, hob",
    "strong-run": "heats water, oven",
    "long-blocks": "long blocks",
    "long-runs": "long runs",
    "returns": "returns daily",
    "weekly": "every week",
    "fridge": "fridge",
}
"""Short names of the findings that are marked, in the order of their rows."""
CUT_OUT = (
    "car-charger", "shower", "kettle", "hvac", "short-heat", "long-blocks", "strong-run",
    "thermostat", "fridge", "away",
)  # fmt: skip
"""Kinds of findings that are cut out, the most telling first."""
MOST_CUT_OUT = 3
BRIGHTEST = 0.98
"""Quantile of the hourly means that gets the brightest colour; the darkest one mirrors it."""
SILENT = "#D9D9D9"


def has_days(trace: Trace, found: Findings) -> bool:
    """Return whether a trace has enough days, and fine enough readings, for `draw_findings`."""
    return found.days >= FEWEST_DAYS and trace.interval_s <= SECONDS_PER_HOUR


def draw_findings(trace: Trace, found: Findings, title: str) -> tuple[Figure, dict[str, Any]]:
    """Draw what a meter shows.

    The figure has the mean power of every hour of every day with the findings marked, the days
    on which each kind of event happened, a typical day, and the clearest events.
    """
    readings = clean(trace, found.zone)
    rows = [finding for kind in NAMES for finding in found.of_kind(kind) if finding.marks.size]
    cuts = _choose_cuts(readings, found)
    date, hours = readings.grid(SECONDS_PER_HOUR).by_date()
    span = (float(date), float(date + len(hours)))
    strips = 0.22 * len(rows) + 0.05
    heights = [3.6 + strips, 2.3, *([1.8] if cuts else [])]
    figure = new_figure(10, sum(heights) + 0.3)
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    calendar, day, *events = parts
    shares = [3.2, strips] if rows else [1.0]
    grid = calendar.subplots(len(shares), 1, sharex=True, squeeze=False, height_ratios=shares)
    panels = list(grid.ravel())
    _draw_hours(panels, hours, span, found, readings)
    if rows:
        _draw_rows(panels[1], rows, span, readings)
    panels.append(day.subplots())
    _draw_typical_day(panels[-1], readings, found)
    if cuts:
        axes = events[0].subplots(1, MOST_CUT_OUT)
        for panel, (finding, mark) in zip(axes, cuts, strict=False):
            _draw_cut(panel, readings, finding, mark)
        for panel in axes[len(cuts) :]:
            panel.set_visible(False)
        panels += list(axes)
    return finish_figure(figure, panels, title), _table(readings, rows, date, hours)


def _draw_hours(
    panels: list[Axes],
    hours: FloatArray,
    span: tuple[float, float],
    found: Findings,
    readings: LocalReadings,
) -> None:
    """Draw one column for every day and one cell for every hour, in the first panel."""
    axes = panels[0]
    known = hours[np.isfinite(hours)]
    low = float(np.quantile(known, 1 - BRIGHTEST)) if known.size else 0.0
    high = float(np.quantile(known, BRIGHTEST)) if known.size else 1.0
    axes.set_facecolor(SILENT)
    image = axes.imshow(
        hours.T / 1000,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(*span, 0, 24),
        cmap="cividis",
        vmin=low / 1000,
        vmax=max(high, low + 1.0) / 1000,
    )
    # The panels below give up the same width, so that a day is at one place in all of them.
    axes.figure.colorbar(image, ax=panels, pad=0.01, aspect=20, label="hourly mean [kW]")
    for kind, colour, marker, name in (
        ("first-use", "white", "^", "first use"),
        ("last-use", "white", "v", "last use"),
    ):
        for finding in found.of_kind(kind):
            days, clock = _day_and_hour(readings, finding.marks[:, 0])
            size = 9 if span[1] - span[0] < 100 else 3
            axes.scatter(
                days + 0.5, clock, s=size, c=colour, marker=marker, linewidths=0, label=name
            )
    for finding in found.of_kind("away"):
        for start, end in readings.to_local(finding.marks) / SECONDS_PER_DAY:
            # A day away begins at 04:00, and its column is that of the date.
            axes.axvspan(np.floor(start), np.ceil(end - 0.5), fc="none", ec=RED, lw=1.2)
    axes.set_yticks([0, 6, 12, 18, 24], ["0:00", "6:00", "12:00", "18:00", "24:00"])
    axes.set_ylim(0, 24)
    axes.set_ylabel("local time")
    _date_ticks(axes, span)
    handles, labels = axes.get_legend_handles_labels()
    _mark_legend(axes, handles, labels, away=bool(found.of_kind("away")))


def _mark_legend(axes: Axes, handles: list[Any], labels: list[str], *, away: bool) -> None:
    """Explain the marks above the panel."""
    from matplotlib.patches import Patch

    if away:
        handles, labels = [*handles, Patch(fc="none", ec=RED)], [*labels, "nobody active"]
    handles = [*handles, Patch(fc=SILENT)]
    axes.legend(
        handles,
        [*labels, "no readings"],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=4,
        frameon=True,
        facecolor="#5A5A5A",
        labelcolor="white",
        fontsize=8,
        borderpad=0.3,
    )


def _draw_rows(
    axes: Axes, rows: list[Finding], span: tuple[float, float], readings: LocalReadings
) -> None:
    """Draw one row for every kind of event: the darker a day, the more events it has."""
    from matplotlib.colors import to_rgb

    image = np.zeros((len(rows), int(span[1] - span[0]), 4))
    for place, finding in enumerate(rows):
        local = readings.to_local(finding.marks)
        if finding.kind == "away":
            local = local - 4 * SECONDS_PER_HOUR
        counts = np.zeros(image.shape[1])
        for start, end in local / SECONDS_PER_DAY - span[0]:
            first, last = int(np.floor(start)), int(np.ceil(end))
            counts[max(first, 0) : max(last, first + 1)] += 1
        most = max(float(np.quantile(counts[counts > 0], 0.9)), 1.0) if counts.any() else 1.0
        image[place, :, :3] = to_rgb(RED if finding.kind == "away" else BLUE)
        image[place, :, 3] = np.where(counts > 0, 0.25 + 0.75 * np.minimum(counts / most, 1), 0)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(*span, len(rows), 0))
    for line in range(1, len(rows)):
        axes.axhline(line, color="white", linewidth=2)
    names = [NAMES[finding.kind] for finding in rows]
    axes.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=8)
    axes.tick_params(axis="y", length=0)
    _date_ticks(axes, span)


def _draw_typical_day(axes: Axes, readings: LocalReadings, found: Findings) -> None:
    """Draw the median day and its quartiles, for working days and weekends."""
    slot = slot_length(readings.interval_s)
    date, days = readings.grid(slot).by_date()
    weekday = (date + np.arange(len(days)) + 3) % 7
    hours = np.arange(days.shape[1] + 1) * slot / SECONDS_PER_HOUR
    for chosen, colour, name in (
        (weekday < 5, BLUE, "working days"),
        (weekday >= 5, ORANGE, "weekends"),
    ):
        part = days[chosen]
        part = part[np.isfinite(part).any(axis=1)]
        if not len(part):
            continue
        quartiles = np.nanquantile(_filled(part), [0.25, 0.5, 0.75], axis=0) / 1000
        low, middle, high = np.column_stack([quartiles, quartiles[:, -1]])
        axes.fill_between(hours, low, high, step="post", color=colour, alpha=0.18, linewidth=0)
        axes.step(hours, middle, where="post", color=colour, linewidth=1.3, label=name)
    for finding in found.of_kind("base-load"):
        watts = finding.evidence["watts"]
        axes.axhline(watts / 1000, color=GREY, linestyle=":", linewidth=1.2, label="always on")
    for finding in found.of_kind("workday-empty"):
        axes.axvspan(
            finding.evidence["first_hour"],
            finding.evidence["end_hour"],
            color=GREEN,
            alpha=0.12,
            linewidth=0,
            label="empty on working days",
        )
    for kind, name in (("first-use", "first use"), ("last-use", "last use")):
        for finding in found.of_kind(kind):
            _mark_hour(axes, finding.evidence["hour"], name)
    axes.set_xlim(0, 24)
    axes.set_xticks(range(0, 25, 3), [f"{h}:00" for h in range(0, 25, 3)])
    if not readings.exports:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("power [kW]")
    axes.set_title("Typical day: median and middle half of the days", loc="left", fontsize=9)
    axes.legend(
        fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderpad=0
    )


def _mark_hour(axes: Axes, hour: float, name: str) -> None:
    """Draw a line at an hour of the day; midnight is the end of the day."""
    hour = 24.0 if hour < 0.25 else hour
    axes.axvline(hour, color=RED, linestyle="--", linewidth=1.0)
    left = hour > 20
    axes.annotate(
        name,
        (hour, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-3 if left else 3, -3),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        color=RED,
        fontsize=8,
    )


def _filled(part: FloatArray) -> FloatArray:
    """Return the days with empty columns as zero, so that quantiles are defined."""
    empty = ~np.isfinite(part).any(axis=0)
    part = part.copy()
    part[:, empty] = 0.0
    return part


def _choose_cuts(readings: LocalReadings, found: Findings) -> list[tuple[Finding, FloatArray]]:
    """Return the clearest event of the most telling kinds."""
    cuts: list[tuple[Finding, FloatArray]] = []
    for kind in CUT_OUT:
        for finding in found.of_kind(kind)[:1]:
            if finding.marks.size and len(cuts) < MOST_CUT_OUT:
                cuts.append((finding, _clearest(readings, finding)))
    return cuts


def _clearest(readings: LocalReadings, finding: Finding) -> FloatArray:
    """Return the mark of usual length around which the readings are most even."""
    lengths = finding.marks[:, 1] - finding.marks[:, 0]
    if finding.kind == "away":
        longest: FloatArray = finding.marks[int(np.argmax(lengths))]
        return longest
    usual = np.flatnonzero(np.abs(lengths - np.median(lengths)) <= 0.3 * np.median(lengths))
    best, least = int(usual[0]), np.inf
    for k in usual[:400]:
        around = _around(readings, finding.marks[k])
        spread = float(np.ptp(around)) if around.size >= 4 else np.inf
        if spread < least:
            best, least = int(k), spread
    chosen: FloatArray = finding.marks[best]
    return chosen


def _margin(readings: LocalReadings, mark: FloatArray) -> float:
    """Return the time that is shown before and after a mark [s]."""
    return float(max(600.0, 1.2 * (mark[1] - mark[0]), 5 * readings.interval_s))


def _around(readings: LocalReadings, mark: FloatArray) -> FloatArray:
    """Return the readings shortly before and after a mark [W]."""
    margin = _margin(readings, mark)
    a, b, c, d = np.searchsorted(
        readings.utc, [mark[0] - margin, mark[0], mark[1], mark[1] + margin]
    )
    return np.append(readings.watts[a:b], readings.watts[c:d])


def _draw_cut(axes: Axes, readings: LocalReadings, finding: Finding, mark: FloatArray) -> None:
    margin = _margin(readings, mark)
    if finding.kind == "away":
        margin = 3.0 * SECONDS_PER_DAY
    first, stop = np.searchsorted(readings.utc, [mark[0] - margin, mark[1] + margin])
    utc, watts = readings.utc[first:stop], readings.watts[first:stop]
    long = mark[1] - mark[0] > SECONDS_PER_DAY
    scale, unit = (SECONDS_PER_DAY, "days") if long else (60.0, "minutes")
    if not long and mark[1] - mark[0] > 3 * SECONDS_PER_HOUR:
        scale, unit = SECONDS_PER_HOUR, "hours"
    x = (utc - mark[0]) / scale
    axes.axvspan(0, (mark[1] - mark[0]) / scale, color=ORANGE, alpha=0.25, linewidth=0)
    axes.step(x, watts / 1000, where="post", color=BLUE, linewidth=1.0)
    axes.set_xlabel(unit, fontsize=8)
    axes.set_ylabel("kW", fontsize=8)
    axes.tick_params(labelsize=8)
    if not readings.exports:
        axes.set_ylim(bottom=0)
    local = readings.to_local(mark[:1])[0]
    moment = datetime.fromtimestamp(float(local), UTC)
    when = f"{moment.day} {moment:%b %Y}" + ("" if long else f", {moment.hour}:{moment:%M}")
    axes.set_title(f"{NAMES[finding.kind]}: {when}", loc="left", fontsize=9)


def _day_and_hour(readings: LocalReadings, utc: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return date (days since 1970) and hour of UTC seconds."""
    local = readings.to_local(utc)
    return np.floor(local / SECONDS_PER_DAY), local % SECONDS_PER_DAY / SECONDS_PER_HOUR


def _date_ticks(axes: Axes, span: tuple[float, float]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlim(*span)


def _table(
    readings: LocalReadings, rows: list[Finding], date: int, hours: FloatArray
) -> dict[str, Any]:
    """Return one row for every hour: its mean and the kinds of findings in it."""
    cells = date * 24 + np.arange(hours.size)
    kinds: list[list[str]] = [[] for _ in range(hours.size)]
    for finding in rows:
        local = readings.to_local(finding.marks) / SECONDS_PER_HOUR - date * 24
        touched = np.zeros(hours.size, np.bool_)
        for start, end in local:
            touched[max(int(start), 0) : max(int(np.ceil(end)), int(start) + 1)] = True
        for cell in np.flatnonzero(touched):
            kinds[cell].append(finding.kind)
    return {
        # Text without a zone, because these are times of the local clock.
        "local_start": np.datetime_as_string((60 * cells).astype("datetime64[m]")).tolist(),
        "mean_w": hours.ravel(),
        "findings": [" ".join(found) for found in kinds],
    }
