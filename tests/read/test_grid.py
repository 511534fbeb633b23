"""From raw times to a grid: what is a gap, what is jitter, how long an interval is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read.grid import SECOND, assemble
from hushmeter.read.recording import Series

PATH = Path("file")


def series(seconds, **fields):
    times = np.rint(np.asarray(seconds) * SECOND).astype(np.int64) + 1_700_000_000 * SECOND
    values = fields.pop("values", np.full(times.size, 5.0))
    return Series(times, values, "test", **fields)


def test_of_two_middle_steps_far_apart_the_shorter_is_the_interval():
    found = assemble(series([0, 3600, 90_000]), PATH)
    assert found.trace.interval_s == 3600
    assert found.gaps == 1


def test_middle_steps_that_are_alike_are_averaged():
    assert assemble(series([0, 6, 13]), PATH).trace.interval_s == 6.5


def test_a_clock_that_drifts_leaves_no_gap():
    """Steps of 8, 8 and 5 s on a grid of 8 s: cells are passed over without a reading missing."""
    seconds = 7 * np.arange(300) + np.arange(300) % 3
    found = assemble(series(seconds), PATH)
    assert found.trace.interval_s == 8
    assert found.gaps == 0
    assert abs(len(found.trace) * 8 - 2100) <= 16


def test_a_missing_reading_is_a_gap():
    seconds = np.delete(6 * np.arange(50), 20)
    assert assemble(series(seconds), PATH).gaps == 1


def test_an_interval_of_several_lengths_fills_its_cells():
    lengths = np.array([900.0] * 4 + [3600.0] * 2 + [900.0] * 4)
    starts = np.cumsum(lengths) - lengths
    found = assemble(
        series(starts, values=lengths, unit="Wh", energy=True, durations=lengths), PATH
    )
    assert found.trace.interval_s == 900
    assert found.gaps == 0
    np.testing.assert_allclose(found.trace.readings, np.full(16, 3600.0))


def test_nothing_is_not_a_trace():
    with pytest.raises(DataError, match=r"\(test\) holds no readings: check that the export"):
        assemble(series([]), PATH)
    with pytest.raises(DataError, match="give at least two"):
        assemble(series([0]), PATH)
