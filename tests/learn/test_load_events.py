"""Steps 5 and 6 on made-up loads, and the searches against plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter import synth
from hushmeter.learn import load_events
from hushmeter.learn.habits import Grid, clean
from hushmeter.read import ReadOptions, read_recording
from hushmeter.trace import Trace

DAY = 86_400


def plain_match(watts, edges, longest):
    """For every rise, the next fall of its power, reading by reading."""
    partner = np.full(edges.first.size, -1)
    for e, power in enumerate(edges.watts):
        if power <= 0:
            continue
        allowed = max((0.2 if power < 200 else 0.1) * power, 30.0)
        for f in range(e + 1, edges.first.size):
            between = watts[edges.last[e] : edges.first[f]]
            # The readings within an edge belong to neither side of it.
            for g in range(e + 1, f):
                between = np.append(between, np.inf)
                between[edges.first[g] - edges.last[e] : edges.last[g] - edges.last[e]] = np.inf
            low = between.min() if between.size else np.inf
            stop = edges.first[f] - edges.first[e] > longest
            if stop or np.isnan(between).any() or low < edges.before[e] + 0.5 * power:
                break
            match = abs(edges.watts[f] + power) <= allowed
            if low >= edges.before[e] + 0.75 * power and match:
                partner[e] = f
                break
    return partner


@given(st.integers(0, 10_000), st.booleans())
def test_the_search_is_the_plain_one(seed, gap):
    rng = np.random.default_rng(seed)
    levels = rng.choice([0, 100, 300, 1000, 1010, 2000], size=40).astype(float)
    watts = np.repeat(levels, rng.integers(1, 6, 40)) + rng.uniform(0, 5)
    if gap:
        watts[rng.integers(0, watts.size)] = np.nan
    edges = load_events.find_edges(watts, 60.0, 40.0)
    found = load_events._match(
        watts, edges.first, edges.last, edges.watts, edges.before, 60, (0.1, 0.2, 30.0)
    )
    np.testing.assert_array_equal(found, plain_match(watts, edges, 60))


def test_an_edge_of_fine_readings_is_the_difference_of_medians():
    watts = np.array([100, 101, 99, 100, 1500, 2100, 2099, 2101, 2100, 100, 100, 100, 100.0])
    edges = load_events.find_edges(watts, 3.0, 300.0)
    assert edges.watts.tolist() == [2000.0, -2000.0]
    assert edges.first.tolist() == [4, 9]
    assert edges.last.tolist() == [5, 9]


def test_an_edge_of_minutes_is_a_sum():
    watts = np.array([100, 100, 1200, 2900, 2900, 1500, 100, 100.0])
    edges = load_events.find_edges(watts, 60.0, 300.0)
    assert edges.watts.tolist() == [2800.0, -2800.0]
    runs = load_events.pair_edges(Grid(60.0, 0, watts), edges, 6 * 3600, (0.1, 0.2, 30.0))
    assert runs.power.tolist() == [2800.0]
    energy = (1100 + 2800 + 2800 + 1400) * 60
    assert runs.duration[0] == pytest.approx(energy / 2800)


def test_a_missing_reading_ends_a_run():
    watts = np.array([100, 2100, 2100, np.nan, 2100, 100, 100.0])
    edges = load_events.find_edges(watts, 60.0, 300.0)
    runs = load_events.pair_edges(Grid(60.0, 0, watts), edges, 6 * 3600, (0.1, 0.2, 30.0))
    assert len(runs) == 0


def plain_clusters(power, duration, least):
    """The densest ball again and again, with all counts computed anew."""
    label, cluster = np.full(power.size, -1), 0
    while True:
        free = np.flatnonzero(label < 0)
        if not free.size:
            return label
        near = (np.abs(power[free, None] - power[free]) <= load_events.POWER_RADIUS) & (
            np.abs(duration[free, None] - duration[free]) <= load_events.DURATION_RADIUS
        )
        counts = near.sum(axis=1)
        best = int(np.argmax(counts))
        if counts[best] < least:
            return label
        label[free[near[best]]] = cluster
        cluster += 1


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_clusters_are_the_densest_balls(seed, count):
    rng = np.random.default_rng(seed)
    power = np.sort(rng.uniform(6, 7, count))
    duration = rng.uniform(3, 6, count)
    found = load_events._densest(power, duration, 5)
    np.testing.assert_array_equal(found, plain_clusters(power, duration, 5))


@pytest.mark.parametrize(
    ("power", "duration", "per_day", "night", "train", "count", "kind"),
    [(90, 900, 20, 0.25, 0.1, 400, "fridge"), (3500, 3600, 0.5, 0.0, 0, 10, "long-runs"),
     (1500, 900, 10, 0.25, 0.3, 100, "hvac"), (2500, 70, 5, 0.0, 0.6, 100, "thermostat"),
     (2500, 20, 5, 0.0, 0.1, 100, ""), (8000, 400, 1, 0.0, 0.1, 30, "shower"),
     (2500, 150, 4, 0.05, 0.1, 100, "kettle"), (2500, 150, 0.2, 0.05, 0.1, 100, ""),
     (1200, 120, 2, 0.0, 0.0, 50, "short-heat"), (2100, 800, 1, 0.0, 0.0, 50, "strong-run"),
     (500, 5000, 1, 0.0, 0.0, 50, "")],
)  # fmt: skip
def test_classes(power, duration, per_day, night, train, count, kind):
    assert load_events._class_of(power, duration, per_day, night, train, count) == kind


def hit_share(found, truth, slack=120.0):
    """Share of found runs that begin within `slack` of a true one."""
    starts = np.sort(truth)
    place = np.searchsorted(starts, found)
    before = np.abs(found - starts[np.maximum(place - 1, 0)])
    after = np.abs(found - starts[np.minimum(place, starts.size - 1)])
    return float(np.mean(np.minimum(before, after) <= slack))


def test_a_kettle_as_strong_as_an_oven_is_not_its_thermostat():
    """The pulses of an oven follow each other; a kettle runs alone."""
    noons, mornings = (DAY * np.arange(20.0)[:, None] + 3600 * hour for hour in (12, 8))
    start = np.sort(np.append(noons + 180 * np.arange(6), mornings))
    alone = np.isin(start, mornings)
    length, power = np.full(start.size, 90.0), np.full(start.size, 2500.0)
    runs = load_events.Runs(start, start + length, power, length, 0 * length, alone)
    (found,) = load_events.find_clusters(runs, 20.0)
    assert found.kind == "thermostat"
    np.testing.assert_array_equal(found.runs.start, start[~alone])
    assert found.per_day == 6.0


@pytest.mark.parametrize("interval_s", [6, 60])
def test_kettles_of_the_diary_are_found(interval_s):
    # An oven of the same power would hide the kettle among its pulses.
    owned = ["fridge", "kettle", "microwave", "television"]
    home = synth.household(
        days=21,
        interval_s=interval_s,
        habits=synth.Habits(trips_per_month=0),
        appliances=owned,
        seed=11,
    )
    readings = clean(home.trace, home.zone)
    clusters = load_events.find_clusters(load_events.find_runs(readings), readings.days)
    (kettle,) = [cluster for cluster in clusters if cluster.kind == "kettle"]
    starts = readings.to_utc(kettle.runs.start)
    truth = home.diary.runs["kettle"]
    assert hit_share(starts, truth[:, 0]) >= 0.95
    assert len(starts) >= 0.4 * len(truth)
    assert kettle.power == pytest.approx(np.median(truth[:, 2]), rel=0.03)


def test_the_period_of_a_fridge():
    home = synth.household(days=14, appliances=["fridge"], seed=2)
    readings = clean(home.trace, home.zone)
    clusters = load_events.find_clusters(load_events.find_runs(readings), readings.days)
    fridge = max((c for c in clusters if c.kind == "fridge"), key=lambda cluster: len(cluster.runs))
    truth = np.median(np.diff(home.diary.runs["fridge"][:, 0]))
    assert load_events.fridge_period(fridge.runs.start) == pytest.approx(truth, rel=0.04)
    assert load_events.fridge_period(fridge.runs.start[:10]) is None


@pytest.mark.parametrize("seed", range(6))
def test_the_steps_of_a_meter_are_no_fridge(seed):
    """A meter that counts whole Wh alternates between two powers that are 60 W apart."""
    rng = np.random.default_rng(seed)
    watts = rng.uniform(80, 500) + np.repeat(rng.exponential(150, 14 * 96), 15)
    watts[np.arange(watts.size) % 1440 < 420] = watts.min()
    counted = np.floor(np.cumsum(watts + rng.normal(0, 5, watts.size)) / 60)
    trace = Trace(60 * np.diff(counted, prepend=0), 60, "2024-01-01T00:00Z")
    readings = clean(trace, "UTC")
    clusters = load_events.find_clusters(load_events.find_runs(readings), readings.days)
    assert "fridge" not in {cluster.kind for cluster in clusters}


def charging(power, hours, interval_s=900, days=40):
    """A home of 200 W with one block of `power` in every other evening."""
    watts = np.full(days * DAY // interval_s, 200.0)
    for k, length in enumerate(hours):
        first = (2 * k * DAY + 18 * 3600) // interval_s
        watts[first : first + round(length * 3600 / interval_s)] += power
    watts += np.random.default_rng(0).normal(0, 2, watts.size)
    return clean(Trace(watts, interval_s, "2024-01-01T00:00Z"), "UTC")


@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_a_car_is_a_level_block_of_varying_length(interval_s):
    readings = charging(7200, [2, 3, 4, 2, 5, 3], interval_s)
    car = load_events.find_car(load_events.find_blocks(readings), interval_s, readings.days)
    assert len(car) == 6
    assert np.median(car.power) == pytest.approx(7200, rel=0.02)


@pytest.mark.parametrize(
    ("power", "hours"),
    [(7200, [2, 2, 2, 2, 2, 2]), (5000, [2, 3, 4, 2, 5, 3]), (7200, [2, 3, 4]), (7200, [0.5] * 6)],
)
def test_other_blocks_are_no_car(power, hours):
    readings = charging(power, hours)
    blocks = load_events.find_blocks(readings)
    assert load_events.find_car(blocks, 900, readings.days) is None


def test_blocks_of_three_kilowatts_are_only_described():
    readings = charging(3500, [2, 3, 4, 2, 5, 3])
    blocks = load_events.find_blocks(readings)
    assert load_events.find_car(blocks, 900, readings.days) is None
    assert len(load_events.find_level_blocks(blocks)) == 6


def pandas_runs(trace, zone, least_w, hours=1):
    """Stretches of at least an hour above a power, as a person counts them in a table of pandas."""
    watts = trace.to_pandas().tz_convert(zone)["watts"]
    high = watts >= least_w
    stretch = (high != high.shift()).cumsum()[high]
    long = stretch.groupby(stretch).transform("size") >= hours * 3600 / trace.interval_s
    starts = long[long].groupby(stretch[long]).apply(lambda one: one.index[0])
    return len(starts), starts.dt.normalize().nunique()


def charged_on_mondays(power, seed, days=224):
    """A simulated household with a car that is charged on Mondays, while other loads run too."""
    home = synth.household(
        days=days, interval_s=900, appliances=("fridge", "kettle", "oven"), seed=seed
    )
    draw = np.random.default_rng(seed)
    watts = home.trace.readings.copy()
    for week in range(days // 7):
        first = week * 7 * 96 + int(draw.integers(32, 38))
        stop = first + int(draw.integers(8, 24))
        watts[first:stop] += power
        if draw.random() < 0.6:
            watts[first + 2 : stop - 2] += draw.uniform(0, 6000, max(stop - first - 4, 0))
        if draw.random() < 0.3:  # A second charge of the day
            watts[stop + 6 : stop + 14] += power
    return home, home.trace.replace_readings(np.round(watts))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("power", [7200.0, 11_000.0])
def test_all_charges_of_a_car_are_counted(power, seed):
    """Only those that were level and alone were: 13 of 37 in a real file."""
    home, trace = charged_on_mondays(power, seed)
    found = hm.findings(trace, tz=home.zone)
    (car,) = found.of_kind("car-charger")
    runs, days = pandas_runs(trace, home.zone, 0.8 * power)
    assert runs > days
    assert abs(car.evidence["count"] - runs) <= 3
    assert abs(car.evidence["days"] - days) <= 3
    assert car.evidence["watts"] == pytest.approx(power, rel=0.05)


@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_charges_are_those_of_the_diary(interval_s):
    """In households with an oven and a heat pump."""
    found = 0
    for seed in range(100, 104):
        home = synth.household(
            days=84, interval_s=60, appliances=("fridge", "oven", "heat pump", "car charger"),
            seed=seed,
        )  # fmt: skip
        stated = hm.findings(home.at(interval_s), tz=home.zone).of_kind("car-charger")
        for car in stated:
            true = len(home.diary.runs["car charger"])
            assert abs(car.evidence["count"] - true) <= 0.1 * true
        found += len(stated)
    assert found


def monday_file(folder):
    path = folder / "meterfiles" / "slimmemeterportal_15min.xlsx"
    return read_recording(path, ReadOptions(unit="kWh", tz="Europe/Amsterdam")).trace


@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_a_real_car_is_counted_as_pandas_does(shared_data, interval_s):
    trace = monday_file(shared_data)
    trace = trace if interval_s == 900 else trace.coarsen(interval_s)
    found = hm.findings(trace, tz="Europe/Amsterdam")
    (car,) = found.of_kind("car-charger")
    assert abs(car.evidence["count"] - 37) <= 3
    assert abs(car.evidence["days"] - 32) <= 3
    assert found.of_kind("weekend") == ()
    assert found.of_kind("weekly")[0].evidence["weekday"] == 0
