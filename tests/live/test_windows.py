"""Windows: the rules for readings depend on their times alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.live.windows import DOUBLE, EARLY, KEPT, LATE, SECOND, WindowBuffer

MINUTE = 60 * SECOND


def make_buffer(**more):
    return WindowBuffer(MINUTE, 5, bounds=(-100.0, 1000.0), **more)


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


def test_changes_hold_until_the_next_one_or_until_the_meter_is_lost():
    buffer = make_buffer(hold=True)
    buffer.add(MINUTE, 10.0, MINUTE)
    buffer.add(MINUTE + 1, 20.0, MINUTE)
    buffer.add(7 * MINUTE, None, 7 * MINUTE)
    first, second = buffer.close(10 * MINUTE)
    np.testing.assert_array_equal(first.readings, [math.nan, 20, 20, 20, 20])
    np.testing.assert_array_equal(second.readings, [20, 20, math.nan, math.nan, math.nan])


def test_open_windows_survive_as_bytes():
    buffer, other = make_buffer(hold=True), make_buffer(hold=True)
    for minute in (0, 2, 6):
        buffer.add(minute * MINUTE, 10.0 + minute, minute * MINUTE)
    other.restore(buffer.to_bytes())
    one, two = list(buffer.close(10 * MINUTE)), list(other.close(10 * MINUTE))
    assert len(one) == len(two) == 2
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.readings, b.readings)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 30 * 60), st.floats(-2000, 2000)), max_size=60),
    st.lists(st.floats(-2000, 2000), min_size=60, max_size=60),
    st.booleans(),
)
@pytest.mark.parametrize("clock", ["steady", "late"])
def test_fates_and_shares_do_not_depend_on_values(clock, messages, others, hold):
    seen = []
    for values in ([value for _, value in messages], others):
        buffer = make_buffer(hold=hold)
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
