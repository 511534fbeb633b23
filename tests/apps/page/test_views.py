"""Thinned series: no spike is lost, nothing is invented; strips: runs as brute force finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.apps.page.views import curve_rows, milliseconds, on_stretches
from hushmeter.trace import Trace


@st.composite
def traces(draw, most=400):
    count = draw(st.integers(1, most))
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    steps = None
    if draw(st.booleans()):
        steps = np.cumsum(rng.integers(1, draw(st.integers(2, 9)), count)) - 1
        steps = steps - steps[0]
    readings = rng.normal(500, 400, count)
    readings[rng.integers(count)] = 9000.0
    return Trace(readings, draw(st.sampled_from([1.0, 6.0, 900.0])), steps=steps)


@given(traces(), st.integers(1, 120))
def test_every_reading_lies_in_the_row_of_its_stretch(trace, points):
    rows = [row for row in curve_rows(trace, points) if row[1] is not None]
    starts = np.array([row[0] for row in rows])
    assert len(rows) <= points or len(rows) == len(trace)
    assert (np.diff(starts) > 0).all()
    place = np.searchsorted(starts, milliseconds(trace), side="right") - 1
    for i, (_, low, high) in enumerate(rows):
        inside = trace.readings[place == i]
        assert round(inside.min(), 1) == low
        assert round(inside.max(), 1) == high


def test_a_spike_of_one_reading_among_a_million_stays():
    readings = np.zeros(1_000_000)
    readings[123_456] = 2000.0
    rows = curve_rows(Trace(readings, 1.0))
    assert len(rows) <= 1000
    assert max(row[2] for row in rows) == 2000.0
    assert sum(row[2] > 0 for row in rows) == 1


def test_a_short_trace_keeps_every_reading_and_marks_its_gap():
    trace = Trace([1.0, 2.0, 3.0], 6.0, steps=[0, 1, 10])
    assert curve_rows(trace) == [
        (0, 1.0, 1.0),
        (6_000, 2.0, 2.0),
        (12_000, None, None),
        (60_000, 3.0, 3.0),
    ]


def test_a_long_trace_marks_only_gaps_that_can_be_seen():
    steps = np.arange(50_000)
    steps[20_000:] += 1
    steps[40_000:] += 9_000
    gaps = [row for row in curve_rows(Trace(np.ones(50_000), 1.0, steps=steps)) if row[1] is None]
    assert gaps == [(40_001_000, None, None)]


def brute_runs(on, trace):
    """Runs found one reading at a time."""
    found, length = [], round(1000 * trace.interval_s)
    for i, moment in enumerate(milliseconds(trace).tolist()):
        if not on[i]:
            continue
        if i and on[i - 1] and not trace.run_starts[i]:
            found[-1] = (found[-1][0], moment + length)
        else:
            found.append((moment, moment + length))
    return found


@given(traces(), st.integers(0, 2**32))
def test_runs_are_those_of_brute_force(trace, seed):
    on = np.random.default_rng(seed).random(len(trace)) < 0.5
    assert on_stretches(on, trace) == brute_runs(on, trace)


def test_runs_of_a_long_trace_go_by_majority():
    on = np.zeros(4000, np.bool_)
    on[0:2] = True  # a whole column
    on[3] = True  # half of one
    on[2000:3000] = True
    trace = Trace(np.ones(4000), 1.0)
    assert on_stretches(on, trace, columns=2000) == [(0, 4_000), (2_000_000, 3_000_000)]
    on[4:8] = [True, False, False, False]
    assert on_stretches(on, trace, columns=1000) == [(0, 4_000), (2_000_000, 3_000_000)]
