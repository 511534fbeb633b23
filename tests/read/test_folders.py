"""Data sets that are folders: what is missing or wrong is named."""

from __future__ import annotations

import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_data, read_home_recording

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
