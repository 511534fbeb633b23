"""Daily profiles from tables: layouts, gaps, clock changes."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from hushmeter.apps.behaviour import read_profiles, synthetic_profiles
from hushmeter.errors import DataError, InputError


def write(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def long_rows(start, end, zone=None, every="1h", home="a"):
    times = pd.date_range(start, end, freq=every, inclusive="left", tz=zone)
    return pd.DataFrame({"id": home, "time": times, "kWh": np.arange(times.size) % 7 + 1.0})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_wide_rows(tmp_path, rng, suffix):
    values = rng.random((5, 24))
    frame = pd.DataFrame(values, columns=[f"h{i}" for i in range(24)])
    frame.insert(0, "id", list("abcde"))
    profiles = read_profiles(write(frame, tmp_path / f"days.{suffix}"))
    np.testing.assert_allclose(profiles.values, values)
    assert profiles.ids.tolist() == list("abcde")
    assert profiles.notes == ()


def test_rows_of_another_length_are_refused(tmp_path, rng):
    path = write(pd.DataFrame(rng.random((3, 23))), tmp_path / "days.csv")
    with pytest.raises(DataError, match="23 columns of numbers; a row must have 24 hourly values"):
        read_profiles(path)


def test_missing_values_are_refused_or_their_days_left_out(tmp_path, rng):
    values = rng.random((4, 24))
    values[2, 5] = np.nan
    path = write(pd.DataFrame(values), tmp_path / "days.csv")
    with pytest.raises(DataError, match="1 missing values, the first in row 2; fill them, or"):
        read_profiles(path)
    profiles = read_profiles(path, missing="drop")
    assert profiles.values.shape == (3, 24)
    assert profiles.notes == ("1 of 4 rows were left out because a value is missing.",)


def test_long_rows_are_summed_to_hours(tmp_path):
    frame = long_rows("2024-01-01", "2024-01-03", every="30min")
    profiles = read_profiles(write(frame, tmp_path / "long.csv"))
    assert profiles.values.shape == (2, 24)
    assert profiles.values.sum() == pytest.approx(frame["kWh"].sum())
    assert profiles.days.tolist() == ["2024-01-01", "2024-01-02"]


def test_incomplete_days_are_left_out_and_reported(tmp_path):
    frame = long_rows("2024-01-01T05:00", "2024-01-04")
    profiles = read_profiles(write(frame, tmp_path / "long.parquet"))
    assert profiles.days.tolist() == ["2024-01-02", "2024-01-03"]
    assert profiles.notes == ("1 of 3 days were left out because an hour is missing.",)
    with pytest.raises(DataError, match="no day with all 24 hours"):
        read_profiles(write(frame[:10], tmp_path / "short.csv"))


@pytest.mark.parametrize(("day", "hours", "hour"), [("2024-03-31", 23, 2), ("2024-10-27", 25, 2)])
def test_days_of_a_clock_change(tmp_path, day, hours, hour):
    start = pd.Timestamp(day) - pd.Timedelta(days=1)
    local = long_rows(start, start + pd.Timedelta(days=3), zone="Europe/Berlin")
    assert (local["time"].dt.strftime("%Y-%m-%d") == day).sum() == hours
    local["time"] = local["time"].dt.tz_convert("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    path = write(local, tmp_path / "long.csv")
    kept = read_profiles(path, zone="Europe/Berlin")
    assert kept.days.size == 3
    assert kept.notes == ("1 days of 23 or 25 hours (clock change) were brought to 24 hours.",)
    changed = kept.values[1]
    if hours == 23:
        assert changed[hour] == pytest.approx((changed[hour - 1] + changed[hour + 1]) / 2)
    else:
        moments = local["kWh"].to_numpy()[24:49]
        assert changed[hour] == pytest.approx(moments[2:4].mean())


def test_days_of_a_clock_change_without_a_zone_are_left_out(tmp_path):
    local = long_rows("2024-03-30", "2024-04-02", zone="Europe/Berlin")
    local["time"] = local["time"].map(lambda moment: moment.isoformat())
    profiles = read_profiles(write(local, tmp_path / "long.csv"))
    assert profiles.days.tolist() == ["2024-03-30", "2024-04-01"]
    assert len(profiles.notes) == 1


def test_zones_are_checked(tmp_path):
    path = write(long_rows("2024-01-01", "2024-01-02"), tmp_path / "long.csv")
    with pytest.raises(InputError, match="the times have none"):
        read_profiles(path, zone="Europe/Berlin")
    bare = write(long_rows("2024-01-01", "2024-01-02"), tmp_path / "bare.parquet")
    with pytest.raises(InputError, match="the times have none"):
        read_profiles(bare, zone="Europe/Berlin")
    aware = long_rows("2024-01-01", "2024-01-02", zone="UTC")
    with pytest.raises(InputError, match=r"time zone such as .* got 'Mars'"):
        read_profiles(write(aware, tmp_path / "aware.parquet"), zone="Mars")


def test_hourly_tables(tmp_path, rng):
    hours = np.r_[24, np.tile(np.arange(1, 25), 3), 1, 2]
    frame = pd.DataFrame({"month": 1, "hour": hours, "x": rng.random(75), "y": rng.random(75)})
    profiles = read_profiles(write(frame, tmp_path / "hourly.csv"))
    assert profiles.values.shape == (6, 24)
    np.testing.assert_allclose(profiles.values[0], frame["x"][1:25])
    np.testing.assert_allclose(profiles.values[5], frame["y"][49:73])
    assert profiles.notes == ("4 of 10 days were left out because an hour is missing.",)


def test_unreadable_files_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_profiles(tmp_path / "none.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"neither a CSV nor a Parquet|holds no readings"):
        read_profiles(broken)
    words = pd.DataFrame({"time": ["then", "now"], "kwh": [1.0, 2.0]})
    with pytest.raises(DataError, match="ISO 8601"):
        read_profiles(write(words, tmp_path / "words.csv"))
    text = pd.DataFrame({"time": ["2024-01-01"], "kwh": ["much"]})
    with pytest.raises(DataError, match="must be numbers"):
        read_profiles(write(text, tmp_path / "text.csv"))


def test_tables_as_spreadsheets_and_utilities_write_them(tmp_path):
    frame = long_rows("2024-01-30", "2024-02-02")
    plain = read_profiles(write(frame, tmp_path / "long.csv"))
    lines = ["id;Time;kWh"]
    lines += [
        f"{row.id};{row.time:%d/%m/%Y %H:%M};{row.kWh + 0.25:.2f}".replace(".", ",")
        for row in frame.itertuples()
    ]
    path = tmp_path / "long.csv.gz"
    path.write_bytes(gzip.compress("\r\n".join(lines).encode("utf-16")))
    found = read_profiles(path)
    np.testing.assert_allclose(found.values, plain.values + 0.25)
    assert found.days.tolist() == plain.days.tolist() == ["2024-01-30", "2024-01-31", "2024-02-01"]


def test_wide_rows_with_decimal_commas(tmp_path, rng):
    values = np.round(rng.random((3, 24)), 3)
    lines = ["home;" + ";".join(f"h{i}" for i in range(24))]
    lines += [f"a{i};" + ";".join(f"{v:.3f}".replace(".", ",") for v in row)
              for i, row in enumerate(values)]  # fmt: skip
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    found = read_profiles(tmp_path / "wide.csv")
    np.testing.assert_allclose(found.values, values)
    assert found.ids.tolist() == ["a0", "a1", "a2"]


def test_synthetic_profiles_are_reproducible():
    first, second = (synthetic_profiles(50, seed=2).values for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (50, 24)
    assert (first > 0).all()


@pytest.mark.parametrize("offset", ["-05", "-05:00", "-0500", "Z", ""])
def test_days_run_by_the_clock_as_written(tmp_path, offset):
    rows = [f"a,2015-05-0{1 + h // 24} {h % 24:02d}:00:00{offset},{h}" for h in range(48)]
    path = tmp_path / "long.csv"
    path.write_text("id,time,kwh\n" + "\n".join(rows))
    found = read_profiles(path)
    assert found.days.tolist() == ["2015-05-01", "2015-05-02"]
    np.testing.assert_array_equal(found.values[0], np.arange(24.0))


def test_short_offsets_are_moments_where_a_zone_is_asked_for(tmp_path):
    rows = [f"a,2015-05-0{1 + h // 24} {h % 24:02d}:00:00-05,{h}" for h in range(48)]
    path = tmp_path / "long.csv"
    path.write_text("id,time,kwh\n" + "\n".join(rows))
    assert read_profiles(path, zone="America/Chicago").values.shape == (2, 24)
    assert read_profiles(path, zone="UTC").values[0].tolist() == list(range(19, 43))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hour,month\n0,1\n1,1\n", "needs a column for each home"),
        ("hour,a\n0,1\n30,1\n", "must count from 0 to 23 or from 1 to 24"),
        ("id,time,kwh\na,soon,1\n", "must contain ISO 8601 times"),
        ("id,time,kwh\na,2024-01-01T00:00Z,\n", "no day with all 24 hours"),
        (",".join(f"h{i}" for i in range(24)) + "\n" + "1," * 23 + "\n", "no row with all 24"),
    ],
)
def test_tables_without_days(tmp_path, text, message):
    path = tmp_path / "days.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_profiles(path, missing="drop")


def test_a_ragged_day_of_a_clock_change_is_not_repaired(tmp_path):
    """Two hours are missing besides the one that the clock skips."""
    local = long_rows("2024-03-30", "2024-04-02", zone="Europe/Berlin")
    hours = local["time"].dt.hour
    torn = local[~((local["time"].dt.day == 31) & hours.isin([10, 11]))]
    found = read_profiles(write(torn, tmp_path / "torn.parquet"), zone="Europe/Berlin")
    assert found.days.tolist() == ["2024-03-30", "2024-04-01"]
    assert found.notes == ("1 of 3 days were left out because an hour is missing.",)


def test_a_long_day_with_another_hour_missing_is_not_repaired(tmp_path):
    """The hour that occurs twice is there once, and noon is not there at all."""
    local = long_rows("2024-10-26", "2024-10-29", zone="Europe/Berlin")
    day, hour = local["time"].dt.day == 27, local["time"].dt.hour
    torn = local.drop([local[day & (hour == 2)].index[1], *local[day & (hour == 12)].index])
    found = read_profiles(write(torn, tmp_path / "torn.parquet"), zone="Europe/Berlin")
    assert found.days.tolist() == ["2024-10-26", "2024-10-28"]


def test_a_period_and_some_homes_are_selected(tmp_path):
    parts = [long_rows("2015-04-30", "2015-05-05", home=name) for name in "abc"]
    days = read_profiles(write(pd.concat(parts), tmp_path / "days.csv"))
    may = days.select("2015-05-01", "2015-05-03", users=["a", "c"])
    assert sorted(set(may.ids.tolist())) == ["a", "c"]
    assert sorted(set(may.days.tolist())) == ["2015-05-01", "2015-05-02", "2015-05-03"]
    assert may.values.shape == (6, 24)
    drawn = [set(days.select(users=2, seed=k).ids.tolist()) for k in range(12)]
    assert all(len(homes) == 2 for homes in drawn)
    assert set.union(*drawn) == {"a", "b", "c"}
    for options, message in (
        ({"first": "2016-01-01"}, "no day is left"),
        ({"first": "May"}, "is not a date"),
        ({"users": 4}, "there are 3 homes"),
        ({"users": ["d"]}, "there is no home d"),
    ):
        with pytest.raises(InputError, match=message):
            days.select(**options)


def test_numbered_days_are_selected_by_number(tmp_path):
    hours = pd.DataFrame({"hour": np.tile(np.arange(24), 12), "home_1": 1.0})
    days = read_profiles(write(hours, tmp_path / "days.csv"))
    assert days.select("2", "10").days.astype(int).tolist() == list(range(2, 11))
    with pytest.raises(InputError, match="numbers its days from 0"):
        days.select("2015-05-01")
