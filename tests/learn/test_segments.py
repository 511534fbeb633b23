from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from hushmeter.errors import DataError, UnknownNameError
from hushmeter.learn.segments import SEGMENTS, cut_segment, find_segment

HONG_KONG = timezone(timedelta(hours=8))


@pytest.mark.parametrize("name", SEGMENTS)
def test_the_windows_are_the_printed_times_in_utc_plus_eight(name):
    segment = SEGMENTS[name]
    for printed, utc, slack in zip(
        segment.printed, (segment.start, segment.end), (0, 1), strict=True
    ):
        local = datetime.strptime(printed, "%Y/%m/%d %H:%M:%S").replace(tzinfo=HONG_KONG)
        assert local.astimezone(UTC) + timedelta(seconds=slack) == datetime.fromisoformat(utc)


def rae_day(folder):
    """A coarse copy of the day: one reading in ten minutes would do, RAE has one a second."""
    start = 1_455_004_800 - 600
    time_ = np.arange(4000)
    columns = {f"sub{i}": np.zeros(time_.size) for i in range(1, 25)}
    for i, (period, on, watts) in enumerate(
        [(400, 90, 90), (700, 200, 160), (900, 100, 480), (1300, 60, 1500), (2000, 500, 4500)]
    ):
        columns[f"sub{17 + i}"] = np.where(time_ % period < on, watts, 0.0)
    columns["sub5"] = columns["sub6"] = np.where(time_ % 1500 < 300, 1100.0, 0.0)
    mains = sum(columns.values())
    lines = ["unix_ts,mains," + ",".join(columns)]
    for t in time_:
        values = ",".join(f"{column[t]:g}" for column in columns.values())
        lines.append(f"{start + t},{mains[t]:g},{values}")
    folder.mkdir()
    (folder / "house1_power_blk1.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_teald_is_cut_learnt_and_compared(tmp_path):
    result = cut_segment("teald", rae_day(tmp_path / "rae").parent)
    assert len(result.trace) == 3400
    assert "clothes dryer" in result.learnt.home.names
    found = " ".join(result.findings)
    assert "6 appliances switch, but the paper counts 13" in found
    assert "hierarchies at a tolerance" in found
    assert "Table I prints 99.29%" in found


def test_a_segment_needs_its_name_its_data_and_its_window(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'ukdale4'"):
        find_segment("ukdale")
    with pytest.raises(DataError, match="holds no REDD"):
        cut_segment("redd1", tmp_path)
    house = tmp_path / "house_1"
    house.mkdir()
    (house / "labels.dat").write_text("1 mains\n2 mains\n3 oven\n")
    for i in (1, 2, 3):
        (house / f"channel_{i}.dat").write_text("".join(f"{t} {t % 2}\n" for t in range(9)))
    with pytest.raises(DataError, match="no reading lies between 2011-04-18"):
        cut_segment("redd1", tmp_path)
