"""Windows: the rules for readings depend on their times alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.apps.live.windows import (
    DOUBLE,
    EARLY,
    KEPT,
    LATE,
    ChangeBuffer,
    WindowBuffer,
)
from hushmeter.clock import SECOND

MINUTE = 60 * SECOND


def make_buffer(kind=WindowBuffer, **more):
    return kind(MINUTE, 5, bounds=(-100.0, 1000.0), **more)


def test_a_reading_goes_to_the_slot_of_its_time_in_any_order():
    buffer = make_buffer()
    buffer.begin(0)
    for minute in (3, 0, 4, 1, 2):
        assert buffer.add(minute * MINUTE + 17, float(minute), 5 * MINUTE) == KEPT
    (window,) = buffer.close(5 * MINUTE)
    assert window.readings.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert window.share == 1.0


def test_first_reading_of_a_slot_counts():
    buffer = make_buffer()
    assert buffer.add(0, 5.0, 0) == KEPT
    assert buffer.add(30 * SECOND, 9.0, 0) == DOUBLE
    (window,) = buffer.close(5 * MINUTE)
    assert window.readings[0] == 5.0


def test_late_and_early_readings_are_ignored():
    buffer = make_buffer(grace_ns=MINUTE)
    buffer.add(0, 1.0, 0)
    assert not list(buffer.close(6 * MINUTE - 1))
    assert buffer.add(4 * MINUTE, 2.0, 6 * MINUTE - 1) == KEPT
    (window,) = buffer.close(6 * MINUTE)
    assert np.isfinite(window.readings).sum() == 2
    assert buffer.add(4 * MINUTE, 3.0, 6 * MINUTE) == LATE
    assert buffer.add(8 * MINUTE + 1, 3.0, 7 * MINUTE) == EARLY


def test_a_value_out_of_bounds_is_kept_at_the_bound():
    buffer = make_buffer()
    assert buffer.add(0, 1e9, 0) == KEPT
    assert buffer.add(MINUTE, -1e9, MINUTE) == KEPT
    (window,) = buffer.close(5 * MINUTE)
    assert window.readings[:2].tolist() == [1000.0, -100.0]


def test_windows_without_readings_are_closed_too():
    buffer = make_buffer()
    buffer.begin(7)
    windows = list(buffer.close(50 * MINUTE))
    assert [window.number for window in windows] == [7, 8, 9]
    assert all(window.share == 0.0 for window in windows)


def test_a_slot_has_the_mean_of_the_changes_within_it():
    buffer = make_buffer(ChangeBuffer)
    buffer.begin(0)
    buffer.mark(0, connected=True)
    buffer.add(MINUTE, 10.0, MINUTE)
    buffer.add(MINUTE + 15 * SECOND, 30.0, 2 * MINUTE)
    buffer.add(MINUTE + 45 * SECOND, 50.0, 2 * MINUTE)
    buffer.add(MINUTE + 30 * SECOND, 40.0, 2 * MINUTE)  # Out of order.
    first, second = buffer.close(10 * MINUTE)
    # A value that nobody knows counts as zero.
    np.testing.assert_allclose(first.readings, [0, 32.5, 50, 50, 50])
    assert second.readings.tolist() == [50.0] * 5
    assert first.share == second.share == 1.0


def test_a_slot_is_present_if_the_meter_was_connected_all_the_time():
    buffer = make_buffer(ChangeBuffer)
    buffer.begin(0)
    buffer.add(0, 10.0, 0)
    buffer.mark(MINUTE, connected=True)
    buffer.mark(3 * MINUTE + 1, connected=False)
    buffer.mark(7 * MINUTE, connected=True)
    buffer.mark(9 * MINUTE, connected=True)
    first, second = buffer.close(10 * MINUTE)
    np.testing.assert_array_equal(first.readings, [math.nan, 10, 10, math.nan, math.nan])
    np.testing.assert_array_equal(second.readings, [math.nan, math.nan, 10, 10, 10])
    # A loss that is noticed late takes back a connection that was announced.
    buffer.mark(12 * MINUTE, connected=True)
    buffer.mark(11 * MINUTE, connected=False)
    (third,) = buffer.close(15 * MINUTE)
    np.testing.assert_array_equal(third.readings, [10, *[math.nan] * 4])


def test_a_late_change_holds_in_the_open_window():
    buffer = make_buffer(ChangeBuffer)
    buffer.begin(0)
    buffer.mark(0, connected=True)
    buffer.add(MINUTE, 10.0, MINUTE)
    list(buffer.close(5 * MINUTE))
    assert buffer.add(4 * MINUTE, 70.0, 6 * MINUTE) == LATE
    assert buffer.add(3 * MINUTE, 20.0, 6 * MINUTE) == LATE
    (second,) = buffer.close(10 * MINUTE)
    assert second.readings.tolist() == [70.0] * 5


@pytest.mark.parametrize("kind", [WindowBuffer, ChangeBuffer])
def test_open_windows_survive_as_bytes(kind):
    buffer, other = make_buffer(kind), make_buffer(kind)
    for minute in (0, 2, 6):
        buffer.add(minute * MINUTE, 10.0 + minute, minute * MINUTE)
    if kind is ChangeBuffer:
        buffer.mark(MINUTE, connected=True)
        buffer.mark(8 * MINUTE, connected=False)
    other.restore(buffer.to_bytes())
    one, two = list(buffer.close(10 * MINUTE)), list(other.close(10 * MINUTE))
    assert len(one) == len(two) == 2
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.readings, b.readings)
        assert 0 < a.share < 1


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 600), st.floats(-200, 2000)), max_size=30),
    st.integers(0, 600),
    st.integers(1, 300),
)
def test_the_mean_of_changes_is_their_integral(changes, begin, length):
    """Against a sum over single seconds, with and without a run."""
    sums = []
    for run in (0.0, 500.0):
        load = np.zeros(1200)
        for second, value in sorted(changes):
            load[second:] = np.clip(value, 0, 400)
        load[begin : begin + length] += run
        buffer = make_buffer(ChangeBuffer)
        buffer.begin(0)
        buffer.mark(0, connected=True)
        for second in range(1200):
            if second == 0 or load[second] != load[second - 1]:
                buffer.add(second * SECOND, float(load[second]), second * SECOND)
        closed = list(buffer.close(20 * MINUTE))
        means = np.concatenate([window.readings for window in closed])
        np.testing.assert_allclose(means, load.reshape(20, 60).mean(axis=1), atol=1e-9)
        sums.append(means.sum())
    assert sums[1] - sums[0] <= 500.0 * length / 60 + 1e-6


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 30 * 60), st.floats(-2000, 2000)), max_size=60),
    st.lists(st.floats(-2000, 2000), min_size=60, max_size=60),
    st.sampled_from([WindowBuffer, ChangeBuffer]),
)
@pytest.mark.parametrize("clock", ["steady", "late"])
def test_fates_and_shares_do_not_depend_on_values(clock, messages, others, kind):
    seen = []
    for values in ([value for _, value in messages], others):
        buffer = make_buffer(kind)
        buffer.begin(0)
        log = []
        now = 0
        for (second, _), value in zip(messages, values, strict=False):
            now = max(now, second * SECOND) if clock == "steady" else now + 40 * SECOND
            log.append(buffer.add(second * SECOND, value, now))
            log += [(w.number, w.share) for w in buffer.close(now)]
        log += [(w.number, w.share) for w in buffer.close(60 * MINUTE)]
        seen.append(log)
    assert seen[0] == seen[1]
