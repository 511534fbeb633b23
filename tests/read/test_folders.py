"""Data sets that are folders, and channels that were logged apart on one grid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_data, read_home_recording
from hushmeter.read.folders import Channel, align, clean, number_repeats, usual_interval
from hushmeter.read.recording import Task

SECONDS = range(1_700_000_000, 1_700_000_060, 6)


@pytest.fixture
def house(tmp_path):
    folder = tmp_path / "set" / "house_2"
    folder.mkdir(parents=True)
    (folder / "labels.dat").write_text("1 aggregate\n\n2 kettle\n3 lamp\n")
    for number, watts in ((1, 2060), (2, 2000)):
        rows = "".join(f"{second} {watts}\n" for second in SECONDS)
        (folder / f"channel_{number}.dat").write_text(rows)
    (folder / "channel_3.dat").write_text("")
    return folder


def test_channels_without_samples_are_left_out_and_named(house):
    found = read_home_recording(house.parent)
    assert found.trace.names == ("kettle",)
    assert set(found.trace.readings) == {2060.0}
    assert "No samples, so left out: lamp." in found.notes


def test_without_mains_the_circuits_are_added(house):
    (house / "channel_1.dat").unlink()
    found = read_home_recording(house)
    assert set(found.trace.readings) == {2000.0}
    assert "No mains: the readings are the sum of the circuits." in found.notes


def test_active_power_of_mains_dat_is_preferred(house):
    (house / "mains.dat").write_text("".join(f"{s} 2059.5 2100 230\n" for s in SECONDS))
    found = read_home_recording(house)
    assert set(found.trace.readings) == {2059.5}
    assert "Mains from mains.dat, active power at one second." in found.notes


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (b"\n", "names no channel"),
        (b"1 mains\nkettle\n", "line 2 is not a number and a name: 'kettle'"),
        (b"1 \xff\xfe\n", "cannot be read"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(house, labels, sentence):
    (house / "labels.dat").write_bytes(labels)
    with pytest.raises(DataError, match=sentence):
        read_home_recording(house)


def test_a_broken_channel_is_refused(house):
    (house / "channel_2.dat").write_text("soon much\n")
    with pytest.raises(DataError, match=r"channel_2\.dat is no channel of unix seconds and watts"):
        read_home_recording(house)


def test_the_house_must_be_chosen_and_exist(house):
    other = house.parent / "house_5"
    other.mkdir()
    (other / "labels.dat").write_text("1 aggregate\n")
    with pytest.raises(DataError, match=r"holds 2 buildings \(2, 5\): .*`building="):
        read_home_recording(house.parent)
    with pytest.raises(DataError, match="has no building '7' \\(found: house_2, house_5\\)"):
        read_home_recording(house.parent, ReadOptions(building=7))
    assert read_home_recording(house.parent.parent, ReadOptions(building=2)).trace.names


def test_blocks_with_other_columns_are_refused(samples, tmp_path):
    (tmp_path / "house1_power_blk1.csv").write_bytes(samples.rae())
    (tmp_path / "house1_power_blk2.csv").write_text("unix_ts,mains,sub1\n1700000000,5,5\n" * 1)
    with pytest.raises(DataError, match="has other columns than house1_power_blk1"):
        read_home_recording(tmp_path)


def test_a_folder_of_something_else_says_what_it_holds(tmp_path):
    with pytest.raises(DataError, match="it holds nothing"):
        read_home_recording(tmp_path)
    (tmp_path / "letter.txt").write_text("dear reader")
    with pytest.raises(DataError, match=r"it holds letter\.txt"):
        read_home_recording(tmp_path)


def test_one_of_two_mains_is_not_the_meter(samples, tmp_path):
    house = samples.channel_folder(tmp_path)
    (house / "channel_2.dat").unlink()
    with pytest.raises(DataError, match="only 1 of its 2 mains channels: copy them all"):
        read_home_recording(house)


def test_repeated_samples_are_counted(house):
    rows = (house / "channel_2.dat").read_text()
    (house / "channel_2.dat").write_text(rows + rows.splitlines()[-1] + "\n")
    found = read_home_recording(house)
    assert "Samples that repeat a time or lack a value were left out: kettle (1)." in found.notes
    assert found.public.readings == len(SECONDS)  # those of the mains


def test_a_link_out_of_a_data_set_is_refused(samples, tmp_path):
    house = samples.channel_folder(tmp_path / "set", redd=False)
    secret = tmp_path / "secret.dat"
    secret.write_bytes((house / "channel_2.dat").read_bytes())
    (house / "channel_2.dat").unlink()
    (house / "channel_2.dat").symlink_to(secret)
    with pytest.raises(DataError, match=r"channel_2\.dat leads to a file outside of"):
        read_home_data(tmp_path / "set")
    (house / "channel_2.dat").unlink()
    (house / "channel_2.dat").symlink_to("channel_2.dat")
    assert read_home_data(tmp_path / "set").names == ("kettle",)


PATH = Path("house_1")
START = 1_700_000_000.0 - 1_700_000_000.0 % 6


def channel(name, offsets, watts):
    return Channel(name, START + np.asarray(offsets, float), np.asarray(watts, float))


def put(mains, circuits, **options):
    task = Task(PATH)
    found = align(task, mains, circuits, interval_s=6.0, format_name="test", **options)
    return found.trace, task.notes, found


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


def test_channels_without_mains_are_added_up():
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
    part = replace(channel("a", [0, 6], [1, 2]), inner=True)
    trace, _, _ = put([], [part, channel("b", [0, 6], [10, 20])])
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
