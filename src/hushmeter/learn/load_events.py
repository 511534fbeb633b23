"""Runs of loads in the readings of one meter: edges, pairs of edges, clusters and their classes.

A load that is switched on raises the readings by its power, and the readings fall by the same
power when it is switched off. Runs of similar power and length form a cluster; the hours and the
rhythm of a cluster tell what kind of load it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.formatting import format_watts
from hushmeter.learn.habits import (
    HALF_HOUR_S,
    MINUTE_S,
    Finding,
    Grid,
    LocalReadings,
    cell_length,
    clock,
    length,
    slot_length,
)
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

FINE_S = 30.0
"""Readings shorter than this [s] show the shape of an edge; longer ones only its sum."""
SMALL_JUMP_W = 20.0
"""Smallest jump of fine readings that belongs to an edge [W]."""
STRONG_W, WEAK_W = 300.0, 40.0
"""Smallest power of strong loads, and of weak ones [W]."""
LONGEST_RUN_S, LONGEST_BLOCK_S = 6 * 3600.0, 14 * 3600.0
LONG_BLOCK_W = 2000.0
"""Smallest power of a long block [W]."""
POWER_RADIUS, DURATION_RADIUS = 0.08, 0.7
"""Radii of a cluster in ln(power) and ln(duration)."""
ISOLATION_S = 600.0
"""Time before and after an isolated run without another comparable rise [s]."""
CAR_BANDS_W = ((6200.0, 7900.0), (9800.0, 11_900.0), (19_500.0, 23_500.0))
"""Powers of car chargers on one phase of 32 A, and on three phases of 16 A and 32 A [W]."""
LEVEL_BAND_W = (3000.0, 4100.0)
"""Powers of long level blocks that may be a car, a heater or a boiler [W]."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Changes of the load."""

    # First and last reading whose jump belongs to the edge
    first: IntArray
    last: IntArray
    watts: FloatArray  # Change of the load [W]
    before: FloatArray  # Load before the edge [W]

    def at_least(self, least_w: float) -> Edges:
        """Return the edges of at least `least_w` [W]."""
        chosen = np.abs(self.watts) >= least_w
        return Edges(self.first[chosen], self.last[chosen], self.watts[chosen], self.before[chosen])


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of loads, in the order of their starts."""

    # First edge and end of the last one [local s since 1970]
    start: FloatArray
    end: FloatArray
    power: FloatArray  # Power [W]
    duration: FloatArray  # Length of the run at this power [s]
    # Largest deviation of the inner readings from the power, as a share of the power
    level: FloatArray
    # Whether no other rise of at least half the power is within 10 min of the run
    isolated: BoolArray

    def __len__(self) -> int:
        return int(self.start.size)

    def take(self, chosen: IntArray | BoolArray) -> Runs:
        """Return some of the runs."""
        return Runs(*(getattr(self, one.name)[chosen] for one in fields(self)))

    @classmethod
    def join(cls, parts: Sequence[Runs]) -> Runs:
        """Return all runs in the order of their starts."""
        columns = ([getattr(part, one.name) for part in parts] for one in fields(cls))
        runs = cls(*map(np.concatenate, columns))
        return runs.take(np.argsort(runs.start, kind="stable"))


def find_edges(watts: FloatArray, interval_s: float, least_w: float) -> Edges:
    """Find changes of at least `least_w` [W] of a load [W].

    Notes
    -----
    Readings shorter than 30 s: jumps of at least 20 W that are less than 6 s apart, or that
    follow each other with one sign, are one edge, and its watts are the median of the three
    readings after it minus that of the three before. A load that is switched on within a reading
    of 6 s or 10 s makes two jumps, which would otherwise count as two rises of full power.
    Longer readings: consecutive jumps of one sign, each at least 0.6 of `least_w`, are one edge,
    and its watts are their sum.
    """
    jumps = np.zeros(watts.size)
    np.subtract(watts[1:], watts[:-1], out=jumps[1:])
    jumps[np.isnan(jumps)] = 0.0
    if interval_s < FINE_S:
        large = np.flatnonzero(np.abs(jumps) >= SMALL_JUMP_W)
    else:
        large = np.flatnonzero(np.abs(jumps) >= 0.6 * least_w)
    joined = (np.diff(large) == 1) & (np.diff(np.sign(jumps[large])) == 0)
    if interval_s < FINE_S:
        joined |= np.diff(large) * interval_s < 6
    if not large.size:
        none = np.zeros(0, np.int64)
        return Edges(none, none, np.zeros(0), np.zeros(0))
    heads = np.flatnonzero(np.append(True, ~joined))
    first, last = large[heads], large[np.append(heads[1:], large.size) - 1]
    if interval_s < FINE_S:
        before = _median_of_three(watts, first - 3)
        after = _median_of_three(watts, last)
        edges = Edges(first, last, after - before, before)
    else:
        edges = Edges(first, last, np.add.reduceat(jumps[large], heads), watts[first - 1])
    return edges.at_least(least_w)


def _median_of_three(watts: FloatArray, first: IntArray) -> FloatArray:
    """Return the median of the known readings among three from each index on."""
    places = np.clip(first[:, None] + np.arange(3), 0, watts.size - 1)
    # The reading at the edge itself is always known, because a jump needs both of its readings.
    medians: FloatArray = np.nanmedian(watts[places], axis=1)
    return medians


def _match(
    watts: FloatArray,
    first: IntArray,
    last: IntArray,
    jumps: FloatArray,
    before: FloatArray,
    longest: int,
    limits: tuple[float, float, float],
) -> IntArray:
    """Return for every edge the fall that ends it, or −1.

    The lowest reading between two edges is computed once, so that a rise walks over edges
    instead of readings. A missing reading ends the search. `limits` say how much a fall may differ
    from a rise: as shares of a power from 200 W on and below, and at least [W].
    """
    share, weak_share, slack = limits
    # A missing reading is below everything.
    known = np.append(np.where(np.isnan(watts), -np.inf, watts), np.inf)
    places = np.column_stack([last, np.append(first[1:], watts.size)]).ravel()
    lowest = np.minimum.reduceat(known, places)[::2]
    allowed = np.maximum(np.where(jumps < 200.0, weak_share, share) * jumps, slack)
    partner = np.full(first.size, -1)
    rises = np.flatnonzero(jumps > 0)
    low, falls = lowest[rises], rises + 1
    while rises.size:
        inside = falls < first.size
        rises, low, falls = rises[inside], low[inside], falls[inside]
        power, base = jumps[rises], before[rises]
        near = (first[falls] - first[rises] <= longest) & ~(low < base + 0.5 * power)
        ends = (low >= base + 0.75 * power) & (np.abs(jumps[falls] + power) <= allowed[rises])
        partner[rises[near & ends]] = falls[near & ends]
        left = near & ~ends
        rises, falls = rises[left], falls[left]
        low, falls = np.minimum(low[left], lowest[falls]), falls + 1
    return partner


def pair_edges(
    grid: Grid, edges: Edges, longest_s: float, limits: tuple[float, float, float]
) -> Runs:
    """Pair every rise with the next fall of the same power, within the `limits` of `_match`.

    Notes
    -----
    The readings must stay above the load before the rise plus 0.75 of the power. The search ends
    where they fall below that load plus half of the power. The shortest pairs are taken first,
    and an edge belongs to one run only.
    """
    partner = np.zeros(0, np.int64)
    if edges.first.size:
        longest = int(longest_s // grid.step_s)
        given = (edges.first, edges.last, edges.watts, edges.before)
        partner = _match(grid.watts, *given, longest, limits)
    rises = np.flatnonzero(partner >= 0)
    order = np.argsort(edges.first[partner[rises]] - edges.first[rises], kind="stable")
    _, kept = np.unique(partner[rises][order], return_index=True)
    rises = np.sort(rises[order[kept]])
    return _measure(grid, edges, rises, partner[rises])


def _measure(grid: Grid, edges: Edges, rises: IntArray, falls: IntArray) -> Runs:
    """Return the runs between these rises and falls."""
    power = (edges.watts[rises] - edges.watts[falls]) / 2
    first, stop = edges.first[rises], edges.last[falls]
    duration, level = np.zeros(rises.size), np.zeros(rises.size)
    for k in range(rises.size):
        above = grid.watts[first[k] : stop[k]] - edges.before[rises[k]]
        if grid.step_s < FINE_S:
            duration[k] = (edges.first[falls[k]] - first[k]) * grid.step_s
        else:
            energy = np.clip(above, 0, 1.05 * power[k]).sum() * grid.step_s
            duration[k] = energy / power[k]
        inner = above[edges.last[rises[k]] - first[k] : edges.first[falls[k]] - first[k]]
        level[k] = np.abs(inner - power[k]).max(initial=0.0) / power[k]
    start, end = grid.local[first], grid.local[stop]
    isolated = _isolated(edges, first, stop, power, ISOLATION_S / grid.step_s)
    return Runs(start, end, power, duration, level, isolated)


def _isolated(
    edges: Edges, first: IntArray, stop: IntArray, power: FloatArray, margin: float
) -> BoolArray:
    """Return whether no other rise of half the power is near each run."""
    isolated = np.ones(first.size, np.bool_)
    low = np.searchsorted(edges.first, first - margin)
    high = np.searchsorted(edges.first, stop + margin, side="right")
    for k in range(first.size):
        near = slice(low[k], high[k])
        rises = edges.watts[near] >= 0.5 * power[k]
        isolated[k] = not (rises & (edges.first[near] != first[k])).any()
    return isolated


LEAST_STEPS = 1.5
"""Steps of a meter that an edge exceeds: a constant load alternates between two of them."""


def find_runs(readings: LocalReadings) -> Runs:
    """Step 5. Find the runs of single loads from 40 W on."""
    parts = []
    minute = cell_length(readings.interval_s, MINUTE_S)
    for least, step in ((STRONG_W, readings.interval_s), (WEAK_W, float(minute))):
        grid = readings.grid(step)
        edges = find_edges(grid.watts, step, max(least, LEAST_STEPS * grid.meter_step))
        runs = pair_edges(grid, edges, LONGEST_RUN_S, (0.1, 0.2, 30.0))
        wanted = (runs.power >= STRONG_W) == (least == STRONG_W)
        parts.append(runs.take(wanted & (runs.duration > 0)))
    return Runs.join(parts)


def _densest(power: FloatArray, duration: FloatArray, least: int) -> IntArray:
    """Return the number of the cluster of every point, −1 outside; powers ascend (both in ln).

    Counts of neighbours are kept up to date while clusters are removed, so that every pair of
    neighbours is visited at most three times.
    """
    count, powers = power.size, power.tolist()
    around = []
    a = b = 0
    for own in powers:
        while own - powers[a] > POWER_RADIUS:
            a += 1
        while b < count and powers[b] - own <= POWER_RADIUS:
            b += 1
        around.append(slice(a, b))

    def close(i: int) -> BoolArray:
        return np.asarray(np.abs(duration[around[i]] - duration[i]) <= DURATION_RADIUS)

    label = np.full(count, -1)
    near = np.array([np.count_nonzero(close(i)) for i in range(count)])
    clusters = 0
    while True:
        free = np.where(label < 0, near, -1)
        best = int(np.argmax(free))
        if free[best] < least:
            return label
        members = around[best].start + np.flatnonzero(close(best) & (label[around[best]] < 0))
        label[members] = clusters
        for j in members.tolist():
            near[around[j]] -= close(j)
        clusters += 1


@dataclass(frozen=True, eq=False)
class Cluster:
    """Runs of one kind of load."""

    kind: str  # One of `DESCRIPTIONS`, or "" if no class fits
    # The runs that support the statement: of kettles and short heat isolated ones, of a thermostat
    # those that follow each other, otherwise all.
    runs: Runs
    # Medians [W] [s]
    power: float
    duration: float
    per_day: float  # Runs a day


def find_clusters(runs: Runs, days: float) -> list[Cluster]:
    """Group similar runs of some days of readings and name the class of every group."""
    if not len(runs):
        return []
    order = np.argsort(runs.power, kind="stable")
    least = int(np.ceil(max(5.0, 0.1 * days)))
    labels = np.empty(len(runs), np.int64)
    labels[order] = _densest(np.log(runs.power[order]), np.log(runs.duration[order]), least)
    clusters = []
    for k in range(int(labels.max()) + 1):
        clusters.append(_classify(runs.take(labels == k), days))
    return clusters


def _classify(runs: Runs, days: float) -> Cluster:
    """Return the cluster of these runs with its class."""
    power, duration = float(np.median(runs.power)), float(np.median(runs.duration))
    per_day = len(runs) / days
    night = float(np.mean(runs.start / SECONDS_PER_HOUR % 24 < 6))
    pauses = runs.start[1:] - runs.end[:-1]
    follows = np.append(False, pauses < max(900.0, duration))
    train = float(np.mean(follows))
    kind = _class_of(power, duration, per_day, night, train, len(runs))
    if kind in ("kettle", "short-heat"):
        alone = runs.take(runs.isolated)
        if 2 * len(alone) < len(runs):
            return Cluster("", runs, power, duration, per_day)
        runs = alone
    elif kind == "thermostat":
        # A kettle of the same power runs alone.
        runs = runs.take(follows | np.append(follows[1:], False))
    return Cluster(kind, runs, power, duration, len(runs) / days)


def _class_of(
    power: float, duration: float, per_day: float, night: float, train: float, count: int
) -> str:
    """Return the first class that fits the medians, the hours and the rhythm of a cluster."""
    if 45 <= power <= 260 and 300 <= duration <= 4200 and night >= 0.15 and per_day >= 1:
        return "fridge"
    if power >= 2800 and duration >= 45 * MINUTE_S:
        return "long-runs"
    if power >= 700 and duration >= 400 and night >= 0.15 and count >= 6:
        return "hvac"
    if power >= 1800 and 25 <= duration <= 400 and train >= 0.45:
        return "thermostat"
    if duration < 25:
        return ""
    if 5500 <= power <= 11_500 and 120 <= duration <= 1200 and train < 0.45:
        return "shower"
    rare = train < 0.45
    if 1850 <= power <= 3300 and 45 <= duration <= 330 and night < 0.3 and rare and per_day >= 0.4:
        return "kettle"
    if 600 <= power <= 1850 and 20 <= duration <= 400 and night < 0.2 and rare:
        return "short-heat"
    if 1600 <= power <= 2700 and 330 <= duration <= 2000 and night < 0.15:
        return "strong-run"
    return ""


def fridge_period(starts: FloatArray) -> float | None:
    """Return the usual time between starts of a fridge [s], or None if it is not clear."""
    distances = np.diff(starts)
    distances = distances[(distances >= 300) & (distances <= 3 * SECONDS_PER_HOUR)]
    if distances.size < 15:
        return None
    bins = np.floor(np.log(distances / 300) / 0.15).astype(np.int64)
    counts = np.pad(np.bincount(bins), 1)
    # A run that overlaps something else is lost and doubles a distance: the first mode is the
    # period, provided that it is no small bump of chance.
    peaks = (counts[1:-1] >= counts[:-2]) & (counts[1:-1] >= counts[2:])
    mode = int(np.flatnonzero(peaks & (counts[1:-1] >= 0.5 * counts.max()))[0])
    return float(np.median(distances[np.abs(bins - mode) <= 1]))


def find_blocks(readings: LocalReadings) -> Runs:
    """Step 6. Find long blocks of at least 2 kW in slots of 15 min, 30 min or 1 h."""
    grid = readings.grid(slot_length(readings.interval_s))
    edges = find_edges(grid.watts, grid.step_s, LONG_BLOCK_W)
    return pair_edges(grid, edges, LONGEST_BLOCK_S, (0.2, 0.2, 30.0))


def find_car(blocks: Runs, interval_s: float, days: float) -> Runs | None:
    """Return the blocks that a car charger makes in some days of readings, or None."""
    fewest = max(4.0, days / 60)
    shortest = 60 * MINUTE_S if interval_s <= HALF_HOUR_S else 90 * MINUTE_S
    level = blocks.take((blocks.duration >= shortest) & (blocks.level <= 0.12))
    for low, high in CAR_BANDS_W:
        band = level.take((level.power >= low) & (level.power <= high))
        if not len(band):
            continue
        near = np.abs(band.power[:, None] / band.power - 1) <= 0.08
        found = band.take(near[:, int(np.argmax(near.sum(axis=0)))])
        short, long = np.quantile(found.duration, [0.1, 0.9])
        if (
            len(found) >= fewest
            and np.median(found.duration) >= 80 * MINUTE_S
            and long >= 1.5 * short
        ):
            return found
    return None


CHARGE_SHARE, SHORTEST_CHARGE_S = 0.7, 3600.0
"""Share of the power of a car, above the median of the home, that lasts as long as it charges, and
its shortest time [s]."""


def find_charges(grid: Grid, power: float) -> Runs:
    """Return all stretches in which a car of a known power is charged.

    The blocks that show its power are level and alone. While it charges, others may run too.
    """
    above = np.nan_to_num(grid.watts - np.nanmedian(grid.watts))
    ends = np.flatnonzero(np.diff(above >= CHARGE_SHARE * power, prepend=False, append=False))
    first, stop = ends[::2], ends[1::2]
    # The car begins and ends within a slot.
    energy = np.cumsum(np.pad(np.clip(above, 0, power), (2, 1))) * grid.step_s
    duration = (energy[stop + 2] - energy[first]) / power
    start = grid.local[first]
    end = start + (stop - first) * grid.step_s
    even, alone = np.zeros(first.size), np.ones(first.size, np.bool_)
    runs = Runs(start, end, np.full(first.size, power), duration, even, alone)
    return runs.take(duration >= SHORTEST_CHARGE_S)


def find_level_blocks(blocks: Runs) -> Runs:
    """Return the long level blocks of 3.0–4.1 kW, which have several possible causes."""
    low, high = LEVEL_BAND_W
    return blocks.take(
        (blocks.power >= low)
        & (blocks.power <= high)
        & (blocks.duration >= 60 * MINUTE_S)
        & (blocks.level <= 0.12)
    )


FEWEST_EVENT_DAYS = 3
"""Days of data that the search for runs of appliances needs."""
PULSE_INTERVAL_S = 10.0
"""Longest reading in which the pulses of a thermostat show [s]."""
FEWEST_BLOCKS = 4
"""Long level blocks from which they are mentioned."""
Search = tuple[list[Finding], list[str]]


def find_loads(readings: LocalReadings) -> Search:
    """Return the kinds of loads whose runs show in readings of at most a minute."""
    if readings.interval_s > MINUTE_S:
        return [], []
    if readings.days < FEWEST_EVENT_DAYS:
        return [], ["Appliances need at least 3 days of readings."]
    clusters = find_clusters(find_runs(readings), readings.days)
    found = []
    for kind in DESCRIPTIONS:
        chosen = [c for c in clusters if c.kind == kind]
        if chosen and (kind != "thermostat" or readings.interval_s <= PULSE_INTERVAL_S):
            found.append(_describe(readings, kind, chosen))
    return found, []


def _describe(readings: LocalReadings, kind: str, clusters: list[Cluster]) -> Finding:
    """Describe the clusters of one class with one sentence."""
    main = max(clusters, key=lambda cluster: len(cluster.runs))
    runs = Runs.join([cluster.runs for cluster in clusters])
    evidence = _run_evidence(runs, main.power, main.duration, readings.days)
    words = _words(main.power, main.duration, evidence, readings.days)
    if kind == "fridge":
        period = fridge_period(main.runs.start)
        evidence["period_s"] = None if period is None else round(period)
        words["every"] = "" if period is None else f" and switches on every {length(period)}"
    certainty, sentence = DESCRIPTIONS[kind]
    return Finding(kind, sentence.format(**words), evidence, certainty, _marks(readings, runs))


def find_long_blocks(readings: LocalReadings) -> Search:
    """Return the charging of a car, or long level blocks."""
    if readings.interval_s > SECONDS_PER_HOUR:
        return [], []
    blocks = find_blocks(readings)
    car = find_car(blocks, readings.interval_s, readings.days)
    found = []
    if car is not None:
        charges = find_charges(
            readings.grid(slot_length(readings.interval_s)), float(np.median(car.power))
        )
        words = "A car is charged with {watts} for {length}"
        found.append(_block_finding(readings, charges, "car-charger", words))
    level = find_level_blocks(blocks)
    if len(level) >= FEWEST_BLOCKS:
        words = (
            "Long level blocks of about {watts} for {length}, from a car, a water heater or "
            "another heater"
        )
        found.append(_block_finding(readings, level, "long-blocks", words))
    return found, []


def _block_finding(readings: LocalReadings, runs: Runs, kind: str, words: str) -> Finding:
    power, duration = float(np.median(runs.power)), float(np.median(runs.duration))
    evidence = _run_evidence(runs, power, duration, readings.days)
    evidence["days"] = int(np.unique(runs.start // SECONDS_PER_DAY).size)
    filled = _words(power, duration, evidence, readings.days)
    text = f"{words}: {{count}}, {{rate}}, {{hour}}.".format(**filled)
    return Finding(kind, text, evidence, "sure", _marks(readings, runs))


def _words(power: float, duration: float, evidence: dict[str, Any], days: float) -> dict[str, str]:
    """The words of a sentence about runs: their power, length, number, rate and usual hour."""
    return {
        "watts": format_watts(float(f"{power:.2g}")),
        "length": length(duration),
        "count": _times(evidence["count"]),
        "rate": _rate(evidence["count"], days),
        "hour": _often(evidence["starts_by_hour"]),
    }


DESCRIPTIONS = {
    "kettle": (
        "at least",
        "A kettle ({watts} for {length}) was used at least {count}, {rate}, {hour}.",
    ),
    "shower": (
        "likely",
        "Runs like those of an electric shower ({watts} for {length}): {count}, {rate}, {hour}. "
        "An instantaneous water heater, a large oven or a machine may draw as much.",
    ),
    "hvac": (
        "sure",
        "An air conditioner, a heat pump or a heater ({watts} for {length} at a time) ran at "
        "least {count}, {rate}, {hour}.",
    ),
    "fridge": (
        "sure", "A fridge or freezer of about {watts} runs for {length} at a time{every}."
    ),
    "short-heat": (
        "likely",
        "Runs like those of a microwave, a toaster or a hair dryer ({watts} for {length}): "
        "{count}, {rate}, {hour}. A coffee machine, an iron or a part of another run may draw as "
        "much.",
    ),
    "thermostat": (
        "likely",
        "Heat on and off, like that of an oven, a dryer or a hob ({watts} for {length} at a "
        "time): {count}, {rate}, {hour}. Another heater, or a kettle that is used again and again, "
        "may look the same.",
    ),
    "long-runs": (
        "at least",
        "Long runs of {watts} for {length}, from a water heater, another heater or a car: at "
        "least {count}, {rate}, {hour}.",
    ),
    "strong-run": (
        "at least",
        "Runs of {watts} for {length}, from a machine that heats water or an oven: at least "
        "{count}, {rate}, {hour}.",
    ),
}  # fmt: skip
"""Certainty and sentence of the classes of loads, in the order of the findings."""


CONCERNED: dict[str, tuple[str, ...]] = {
    "kettle": ("kettle",),
    "shower": ("electric shower",),
    "fridge": ("fridge", "freezer", "fridge-freezer"),
    "hvac": ("air conditioner", "heat pump", "portable heater"),
    "short-heat": ("microwave", "toaster", "hair dryer"),
    "thermostat": ("oven", "tumble dryer", "hob"),
    "car-charger": ("car charger",),
}
"""Entries of the catalogue that a kind of finding may concern. They are highlighted, not ticked."""


def _run_evidence(runs: Runs, power: float, duration: float, days: float) -> dict[str, Any]:
    """Return the numbers behind a statement about runs."""
    hours = np.floor(runs.start / SECONDS_PER_HOUR).astype(np.int64) % 24
    return {
        "count": len(runs),
        "per_day": round(len(runs) / days, 3),
        "watts": round(power, 1),
        "seconds": round(duration, 1),
        "starts_by_hour": np.bincount(hours, minlength=24).tolist(),
    }


def _marks(readings: LocalReadings, runs: Runs) -> FloatArray:
    """Return starts and ends of runs in UTC."""
    return readings.to_utc(np.column_stack([runs.start, runs.end]))


def _rate(count: int, days: float) -> str:
    """Format how often something happens."""
    for rate, period in ((count / days, "day"), (7 * count / days, "week")):
        if rate >= 0.95:
            return f"{rate:.2g} times a {period}" if rate >= 1.05 else f"once a {period}"
    return f"in {days:.0f} days"


def _often(starts_by_hour: Sequence[int]) -> str:
    """Name the hour with the most starts."""
    hour = int(np.argmax(starts_by_hour))
    return f"most often between {clock(hour)} and {clock(hour + 1)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def without_repetition(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Leave out long runs that are already described as the blocks of a car or a heater."""
    blocks = [f.evidence["watts"] for f in found if f.kind in ("car-charger", "long-blocks")]
    return tuple(
        finding
        for finding in found
        if finding.kind != "long-runs"
        or all(abs(finding.evidence["watts"] / watts - 1) > 0.15 for watts in blocks)
    )
