"""The sensitivity of a run, against its values themselves over all offsets and many shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.errors import InputError
from hushmeter.noise import Laplace
from hushmeter.privacy.sensitivity import Change, in_steps, round_up
from hushmeter.trace import Metering

TABLE = [
    (2100, 180, 6, 2100, 63000, 11502.2, 31),
    (2100, 180, 60, 2100, 6300, 3637.31, 4),
    (2100, 180, 900, 420, 420, 420, 2),
    (2100, 180, 3600, 105, 105, 105, 2),
    (160, 1080, 900, 160, 192, 163.169, 3),
    (7200, 11200, 3600, 7200, 22400, 12496.4, 5),
]


def metered(interval_s, value_s, *arguments, **more):
    """A change whose released values of `value_s` consist of readings of `interval_s`."""
    window = round(value_s / interval_s)
    return Change("kettle", *arguments, interval_s, window=window, **more)


@pytest.mark.parametrize(("watts", "seconds", "value_s", "largest", "l1", "l2", "touches"), TABLE)
def test_the_values_that_were_computed_independently(
    watts, seconds, value_s, largest, l1, l2, touches
):
    change = metered(value_s, value_s, watts, seconds)
    assert change.largest == pytest.approx(largest)
    assert change.l1 == pytest.approx(l1)
    assert change.l2 == pytest.approx(l2, rel=1e-5)
    assert change.touches == touches


@pytest.mark.parametrize("interval_s", [6, 60, 900, 1800, 3600])
def test_the_interval_of_the_meter_drops_out_of_hourly_values(interval_s):
    change = metered(interval_s, 3600, 2100, 180)
    assert change.largest == change.l1 == change.l2 == pytest.approx(105)
    assert change.touches == 2


def moved_values(change, power, offset):
    """Means over released values when the power [W per second] begins at an offset [s]."""
    value_s = round(change.value_s)
    cells = math.ceil((offset + power.size) / value_s) + 1
    padded = np.zeros(cells * value_s)
    padded[offset : offset + power.size] = power
    return padded.reshape(cells, value_s).mean(axis=1)


@given(
    st.integers(1, 200),
    st.sampled_from([2, 5, 12, 60]),
    st.floats(0.05, 1.0),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=74)
def test_no_offset_and_no_shape_exceeds_the_bounds(seconds, value_s, share, seed):
    """Rectangles and random shapes within the power and the energy, at every offset."""
    watts, energy = 100.0, share * 100.0 * seconds
    change = Change("x", watts, seconds, value_s, energy)
    rng = np.random.default_rng(seed)
    rectangle = np.zeros(seconds)
    rectangle[: math.floor(energy / watts)] = watts
    random = rng.uniform(0, watts, seconds) * (rng.random(seconds) < 0.5)
    random *= min(1.0, energy / max(random.sum(), 1e-9))
    for power in (rectangle, random):
        for offset in range(value_s):
            moved = moved_values(change, power, offset)
            assert moved.sum() <= change.l1 + 1e-9
            assert np.linalg.norm(moved) <= change.l2 + 1e-9
            assert moved.max() <= change.largest + 1e-9
            assert np.count_nonzero(moved) <= change.touches


@given(st.integers(1, 300), st.sampled_from([1, 7, 60]))
def test_every_bound_is_attained(seconds, value_s):
    change = Change("x", 100.0, seconds, value_s)
    power = np.full(seconds, 100.0)
    aligned = moved_values(change, power, 0)
    assert aligned.sum() == pytest.approx(change.l1)
    assert np.linalg.norm(aligned) == pytest.approx(change.l2)
    assert aligned.max() == pytest.approx(change.largest)
    # The number of values is attained by a run that begins within a second of a value's end.
    fine = Change("x", 100.0, seconds * 10, value_s * 10)
    late = moved_values(fine, np.full(seconds * 10, 100.0), value_s * 10 - 1)
    assert np.count_nonzero(late) == change.touches


def test_readings_that_the_meter_rounds():
    """Kettle, hourly file: 107 W at 1 Wh and 305 W at 0.1 kWh."""
    for step, expected in ((1.0, 107.0), (100.0, 305.0)):
        change = Change("kettle", 2100, 180, 3600, metering=Metering(resolution_w=step))
        assert change.l1 == pytest.approx(expected)
        assert change.touches == 2
    fine = Change("kettle", 2100, 180, 6, window=600, metering=Metering(resolution_w=10.0))
    assert fine.l1 == pytest.approx(105 + 31 * 10 / 600)


@given(
    st.integers(1, 90),
    st.sampled_from([1, 3, 10]),
    st.sampled_from([0.5, 4.0, 25.0]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_rounded_readings_stay_within_the_bounds(seconds, window, step, seed):
    """The same load with and without a run, each reading rounded by the meter."""
    interval, watts = 6, 100.0
    metering = Metering(resolution_w=step)
    change = Change("x", watts, seconds, interval, window=window, metering=metering)
    rng = np.random.default_rng(seed)
    length = (math.ceil(seconds / (interval * window)) + 3) * interval * window
    load = np.repeat(rng.uniform(0, 500, length // interval), interval)
    for offset in rng.integers(0, interval * window, 10):
        with_run = load.copy()
        with_run[offset : offset + seconds] += watts
        one, other = (
            np.rint(x.reshape(-1, interval).mean(axis=1) / step) * step for x in (load, with_run)
        )
        moved = np.abs((other - one).reshape(-1, window).mean(axis=1))
        assert moved.sum() <= change.l1 + 1e-9
        assert np.linalg.norm(moved) <= change.l2 + 1e-9
        assert moved.max() <= change.largest + 1e-9
        assert np.count_nonzero(moved > 1e-12) <= change.touches


@given(st.integers(1, 60), st.sampled_from([1, 4]), st.floats(0.5, 40.0), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_differences_of_a_register_stay_within_the_bounds(seconds, window, step, seed):
    """A counter rounded down to whole steps: its phase moves every later reading."""
    interval, watts, values = 6, 100.0, 30
    metering = Metering(register_step_w=step)
    change = Change("x", watts, seconds, interval, window=window, metering=metering, values=values)
    rng = np.random.default_rng(seed)
    load = rng.uniform(0, 500, values * window * interval)
    for offset in rng.integers(0, 2 * interval * window, 10):
        with_run = load.copy()
        with_run[offset : offset + seconds] += watts
        phase = rng.uniform(0, step * interval)
        one, other = (_register_differences(x, phase, step, interval) for x in (load, with_run))
        moved = np.abs((other - one).reshape(-1, window).mean(axis=1))
        assert moved.sum() <= change.l1 + 1e-6
        assert np.linalg.norm(moved) <= change.l2 + 1e-6
        assert moved.max() <= change.largest + 1e-6
        assert np.count_nonzero(moved > 1e-9) <= change.touches


def _register_differences(load, phase, step, interval):
    counter = phase + np.concatenate([[0.0], np.cumsum(load)])[::interval]
    unit = step * interval
    return np.diff(np.floor(counter / unit)) * unit / interval


@given(st.integers(1, 8), st.integers(1, 5), st.integers(1, 4), st.integers(0, 30))
def test_copied_readings_stay_within_the_bounds(readings, copies, window, start):
    """Each metered value is written into several readings of the trace."""
    metering = Metering(copies=copies)
    change = Change("x", 100.0, 6.0 * readings, 6.0, window=window, aligned=True, metering=metering)
    moved = np.zeros(60 * window)
    moved[start : start + copies * readings] = 100.0
    means = moved.reshape(-1, window).mean(axis=1)
    assert means.sum() <= change.l1 + 1e-9
    assert np.linalg.norm(means) <= change.l2 + 1e-9
    assert means.max() <= change.largest + 1e-9
    assert np.count_nonzero(means) <= change.touches


@given(st.integers(1, 90), st.sampled_from([1, 4]), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_interpolated_counters_stay_within_the_bounds(seconds, window, seed):
    """Rows up to 25 s apart, between which the counter is taken to rise linearly."""
    interval, watts = 6, 100.0
    metering = Metering(reach=2 * math.ceil(25 / interval))
    change = Change("x", watts, seconds, interval, window=window, metering=metering)
    rng = np.random.default_rng(seed)
    rows = np.cumsum(rng.integers(1, 26, 60))
    borders = np.arange(rows[0], rows[-1], interval * window)
    for start in rng.integers(0, rows[-1], 10):
        counter = watts * np.clip(rows - start, 0, seconds)
        moved = np.diff(np.interp(borders, rows, counter)) / (interval * window)
        assert moved.sum() <= change.l1 + 1e-9
        assert np.linalg.norm(moved) <= change.l2 + 1e-9
        assert moved.max() <= change.largest + 1e-9
        assert np.count_nonzero(moved > 1e-9) <= change.touches


def test_a_row_of_a_day_copied_into_quarter_hours_is_counted_96_times():
    change = Change("x", 2000, 900, 900, aligned=True, metering=Metering(copies=96))
    assert change.l1 == 96 * 2000
    assert change.touches == 96


@pytest.mark.parametrize(("value_s", "l1", "l2"), [(900, 3360.0, 2449.0), (3600, 840.0, 840.0)])
def test_a_day_with_a_limit_on_use(value_s, l1, l2):
    """2100 W for at most 1440 s, at any time of a day of 25 hours."""
    change = Change("kettle", 2100, 90_000, value_s, energy=2100 * 1440.0)
    assert change.l1 == pytest.approx(l1)
    assert change.l2 == pytest.approx(l2, abs=0.5)
    assert change.touches == math.ceil(90_000 / value_s) + 1


def test_lengths_are_rounded_up_but_not_by_float_arithmetic():
    assert round_up(100 / 60) == 2
    assert round_up(0.3 / 0.1) == 3
    assert round_up(30.0) == 30
    assert round_up(30.001) == 31


@given(
    st.floats(0.4, 40.0),
    st.integers(1, 300),
    st.sampled_from([7, 60, 90]),
    st.floats(0.3, 1.0),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=80)
def test_no_rounded_run_has_larger_partial_sums_than_the_worst_steps(
    watts, seconds, value_s, share, seed
):
    """Changes in grid steps, sorted: every shape and offset is majorised by the worst one."""
    mechanism = Laplace(1.0, 10.0)
    change = Change("x", watts, seconds, value_s, energy=share * watts * seconds)
    worst = in_steps(mechanism, change).worst
    sums = np.cumsum(np.repeat([s for s, _ in worst], [n for _, n in worst]))
    assert [s for s, _ in worst] == sorted({s for s, _ in worst}, reverse=True)
    assert sums.size == change.touches
    rng = np.random.default_rng(seed)
    rectangle = np.zeros(seconds)
    rectangle[: math.floor(share * seconds)] = watts
    random = rng.uniform(0, watts, seconds) * (rng.random(seconds) < 0.5)
    random *= min(1.0, change.energy / max(random.sum(), 1e-9))
    for power in (rectangle, random):
        moved = moved_values(change, power, int(rng.integers(value_s)))
        moved = moved[moved > 0]
        base = rng.uniform(0, 100, moved.size)
        steps = np.floor(base + moved + 0.5) - np.floor(base + 0.5)
        found = np.cumsum(np.sort(steps)[::-1])
        assert found.size <= sums.size
        assert (found <= sums[: found.size]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 180, 6), "watts must be positive"),
        ((2100, 0, 6), "seconds must be positive"),
        ((2100, 180, math.nan), "interval_s must be positive"),
        ((2100, 180, 6, 2100 * 181.0), r"energy of the kettle \(105.583 Wh\) is more than"),
    ],
)
def test_impossible_changes_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Change("kettle", *arguments)


@given(
    st.integers(1, 100),
    st.sampled_from([2, 5, 12, 60]),
    st.sampled_from([0.0, 4.0]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_moved_runs_stay_within_the_bounds(seconds, value_s, step, seed):
    """A random shape at two places of a random load, whose readings the meter rounds."""
    rng = np.random.default_rng(seed)
    shape = 100.0 * np.where(rng.random() < 0.5, 1.0, rng.random(seconds) < 0.6)
    metering = Metering(resolution_w=step)
    change = Change("x", 100.0, seconds, value_s, metering=metering, moved=True)
    load = rng.uniform(0, 500, 6 * (seconds // value_s + 2)).repeat(value_s)
    for _ in range(40):
        values = []
        for start in rng.integers(0, load.size - seconds, 2):
            with_run = load.copy()
            with_run[start : start + seconds] += shape
            means = with_run.reshape(-1, value_s).mean(axis=1)
            values.append(np.rint(means / step) * step if step else means)
        assert abs((values[0] - values[1]).sum()) <= change.day_sum_w + 1e-6
        moved = np.abs(values[0] - values[1])
        assert moved.sum() <= change.l1 + 1e-9
        assert np.linalg.norm(moved) <= change.l2 + 1e-9
        assert moved.max() <= change.largest + 1e-9
        assert np.count_nonzero(moved > 1e-9) <= change.touches


def test_a_moved_run_attains_its_bounds():
    change = Change("x", 100.0, 25.0, 10.0, moved=True)
    one, other = np.zeros((2, 100))
    one[:25] = other[50:75] = 100.0
    moved = np.abs(one - other).reshape(-1, 10).mean(axis=1)
    assert moved.sum() == pytest.approx(change.l1)
    assert np.linalg.norm(moved) == pytest.approx(change.l2)
    laplace = Laplace(1.0, 100.0)
    assert sum(times for _, times in in_steps(laplace, change).worst) == change.touches == 8
    assert in_steps(laplace, change).worst[0] == (101, 4)


@given(st.integers(1, 1440), st.sampled_from([15, 60]), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_the_use_of_a_day_may_be_spread_in_any_way(minutes, value_s, seed):
    """An appliance that is on for some minutes of a day, all at once or scattered."""
    change = Change("x", 100.0, 1440.0, value_s, 100.0 * minutes)
    rng = np.random.default_rng(seed)
    scattered = np.zeros(1440)
    scattered[rng.permutation(1440)[:minutes]] = 100.0
    for power in (scattered, np.sort(scattered)[::-1]):
        for offset in range(0, value_s, 5):
            moved = moved_values(change, power, offset)
            assert moved.sum() <= change.l1 + 1e-9
            assert np.linalg.norm(moved) <= change.l2 + 1e-9
            assert np.count_nonzero(moved) <= change.touches
