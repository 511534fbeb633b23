"""Channels logged apart, put on one grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read.folders import Channel, align, clean, number_repeats, usual_interval

PATH = Path("house_1")
START = 1_700_000_000.0 - 1_700_000_000.0 % 6


def channel(name, offsets, watts):
    return Channel(name, START + np.asarray(offsets, float), np.asarray(watts, float))


def put(mains, circuits, **options):
    notes: list[str] = []
    found = align(
        mains, circuits, interval_s=6.0, path=PATH, format_name="test", notes=notes, **options
    )
    return found.trace, notes, found


def test_cells_are_means_and_silence_is_held():
    mains = [channel("a", [0, 3, 6, 12], [10, 20, 30, 40]), channel("b", [0, 6, 12], [1, 2, 3])]
    trace, notes, found = put(mains, [channel("fridge", [0, 12], [5, 7])])
    assert trace.readings.tolist() == [16.0, 32.0, 43.0]
    assert trace.power[:, 0].tolist() == [5.0, 5.0, 7.0]
    assert notes == []
    assert found.mains == "metered"


def test_a_long_pause_is_a_gap_and_is_reported():
    mains = [channel("mains", range(0, 120, 6), range(20))]
    trace, notes, _ = put(mains, [channel("lamp", [0, 90, 114], [1, 2, 3])], hold_s=30)
    assert len(trace) < 20
    assert trace.steps is not None
    assert "cells are gaps, because a channel was silent: mostly lamp" in notes[0]


def test_a_sample_just_before_the_common_start_still_holds():
    mains = [channel("mains", [0, 6, 12, 18], [9, 9, 9, 9])]
    trace, _, _ = put(
        mains, [channel("late", [7, 12, 18], [1, 2, 3]), channel("x", [5, 18], [4, 5])]
    )
    assert trace.power[:, 1].tolist() == [4.0, 4.0, 5.0]


def test_without_mains_the_circuits_are_added():
    circuits = [channel("a", [0, 6], [1, 2]), channel("b", [0, 6], [10, 20])]
    trace, _, found = put([], circuits)
    assert trace.readings.tolist() == [11.0, 22.0]
    assert found.mains == "sum of sub-meters"


def test_mains_alone_have_no_circuits():
    trace, _, _ = put([channel("m", [0, 6, 12], [1, 2, 3])], [])
    assert trace.readings.tolist() == [1.0, 2.0, 3.0]
    assert trace.power is None
    assert trace.metering.copies == 1


def test_a_part_of_another_circuit_is_not_added():
    circuits = [channel("a", [0, 6], [1, 2]), channel("b", [0, 6], [10, 20])]
    trace, _, _ = put([], circuits, inner=[0])
    assert trace.readings.tolist() == [10.0, 20.0]
    assert trace.names == ("a", "b")


def test_the_mains_fill_one_empty_cell_and_the_copies_are_counted():
    circuit = channel("lamp", range(0, 48, 6), range(8))
    trace, _, _ = put([channel("m", [0, 6, 18, 42], [1, 2, 3, 4])], [circuit])
    assert trace.readings.tolist() == [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    assert trace.steps.tolist() == [0, 1, 2, 3, 4, 7]
    assert trace.metering.copies == 2


def test_the_copies_do_not_depend_on_values():
    def copies(seed):
        watts = np.random.default_rng(seed).uniform(0, 3000, 4)
        found = put([], [channel("c", [0, 6, 30, 60], watts)])
        return found[0].metering.copies

    assert {copies(seed) for seed in range(20)} == {5}


@pytest.mark.parametrize(
    ("mains", "circuits", "sentence"),
    [
        ([channel("m", [0, 6], [1, 1])], [channel("c", [60, 66], [1, 1])],
         "no moment has every channel: c starts 2023-11-14T22:14:18Z, m ends"),
        ([channel("m", [0, 4e9], [1, 1])], [channel("c", [0, 4e9], [1, 1])], "cut it first"),
    ],
)  # fmt: skip
def test_what_cannot_be_aligned_is_refused(mains, circuits, sentence):
    with pytest.raises(DataError, match=sentence):
        put(mains, circuits)


def test_channels_that_are_never_heard_together_are_refused():
    gaps = [channel("m", [0, 600], [1, 1])], [channel("c", [300, 301, 900], [1, 1, 1])]
    with pytest.raises(DataError, match="no moment has every channel"):
        put(*gaps, hold_s=6)


def test_samples_are_cleaned():
    seconds = np.array([12.0, 6.0, 6.0, np.nan, -5.0, 18.0])
    found = clean("c", seconds, np.array([2.0, 1.0, 9.0, 3.0, 4.0, np.inf]), PATH)
    assert found.seconds.tolist() == [6.0, 12.0]
    assert found.watts.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match=r"house_1 \(c\) has a sample beyond 1e\+12 W"):
        clean("c", np.array([0.0, 6.0]), np.array([1.0, 2e12]), PATH)
    with pytest.raises(DataError, match=r"house_1 \(c\) holds no usable sample"):
        clean("c", np.array([np.nan]), np.array([1.0]), PATH)


def test_intervals_and_names():
    assert usual_interval([channel("a", [0, 3, 6], [0, 0, 0]), channel("b", [0, 8], [0, 0])]) == 8
    assert usual_interval([channel("a", [0], [0])]) == 1
    assert number_repeats(["lamp", "tv", "lamp"]) == ("lamp_1", "tv", "lamp_2")
