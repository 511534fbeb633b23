"""Hours of the clock in all zones: no stretch of readings touches more than is counted."""

from __future__ import annotations

from zoneinfo import available_timezones

import numpy as np
import pandas as pd
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tests.apps.fleet.cases import REFERENCE, new_ledger, readings, release_sums, write

from hushmeter.apps.fleet.sum_terms import TABLES, Run, SumTerms, protected_change, size_of

YEARS = ("2023-01-01", "2026-12-31")
ODD_ZONES = [
    "UTC", "Europe/London", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
    "Australia/Adelaide", "Australia/Lord_Howe", "Pacific/Chatham", "America/St_Johns",
    "Pacific/Marquesas", "Antarctica/Troll", "Africa/Casablanca", "Asia/Tehran", "Africa/Cairo",
]  # fmt: skip


def clock(zone, moments):
    """The hour of the day of moments, and a name of each hour of the clock."""
    local = pd.DatetimeIndex(moments).tz_localize("UTC").tz_convert(zone)
    naive = local.tz_localize(None)
    offset = naive - pd.DatetimeIndex(moments)
    names = naive.floor("h").asi8 // 10**9 * 10**6 + offset.asi8 // 10**9
    return np.asarray(local.hour), names


def changes_of_the_clock(zone):
    """Quarter-hours at which the offset of a zone changes."""
    quarters = pd.date_range(*YEARS, freq="15min")
    naive = quarters.tz_localize("UTC").tz_convert(zone).tz_localize(None)
    places = np.flatnonzero(np.diff((naive - quarters).asi8)) + 1
    return [pd.Timestamp("2024-01-05"), *quarters[places]]


def brute(zone, count, interval_s):
    """Most hours of the clock, squares and readings of any `count` readings near the changes."""
    found = np.zeros(4, np.int64)
    seen = set()
    step, reach = pd.Timedelta(interval_s, "s"), pd.Timedelta(count * interval_s + 7200, "s")
    for change in changes_of_the_clock(zone):
        moments = pd.date_range((change - reach).floor("h"), (change + reach).ceil("h"), freq=step)
        hours, names = clock(zone, moments)
        key = hours.tobytes() + np.diff(names).tobytes()
        if key in seen:
            continue
        seen.add(key)
        for row_hours, row_names in zip(
            sliding_window_view(hours, count), sliding_window_view(names, count), strict=True
        ):
            begins = np.append(True, np.diff(row_names) != 0)
            windows = np.bincount(row_hours[begins], minlength=24)
            counts = np.bincount(row_hours, minlength=24)
            sizes = (windows.sum(), (windows**2).sum(), (counts**2).sum(), counts.max())
            found = np.maximum(found, sizes)
    return tuple(found.tolist())


def moved(terms, table):
    return size_of(terms, table, protected_change(terms))


def check_zone(zone, interval_s, seconds):
    """Counts of a day or a run, and the shape of a day, against all places near the changes."""
    run = None if seconds == 90_000 else Run(1000.0, float(seconds))
    terms = SumTerms(
        "1", (0.0, 1000.0), ("g",), unit_of="run" if run else "household-day", run=run,
        tables=TABLES, tz=zone, days=YEARS, interval_s=interval_s,
    )  # fmt: skip
    count = protected_change(terms).overlapped
    windows, window_squares, reading_squares, _ = brute(zone, count, interval_s)
    counts = moved(terms, "quantiles")
    assert counts.l1 == 2 * windows
    assert 2 * window_squares <= counts.l2**2 < 2 * window_squares + 2 * float(counts.l2)
    if run is None:
        least = 1000 * np.sqrt(reading_squares)
        assert least <= float(moved(terms, "shape").l2) <= 1.01 * least + interval_s


@pytest.mark.parametrize("zone", ODD_ZONES)
@pytest.mark.parametrize(("interval_s", "seconds"), [(900, 90_000), (1800, 5000), (3600, 90_000)])
def test_the_counts_are_those_of_all_places(zone, interval_s, seconds):
    check_zone(zone, interval_s, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("interval_s", [900, 1800, 3600])
def test_the_counts_of_all_zones(interval_s):
    for zone in sorted(available_timezones() - {"localtime", "posixrules", "Factory"}):
        for seconds in (3600, 90_000):
            check_zone(zone, interval_s, seconds)


@pytest.mark.parametrize("zone", ODD_ZONES[1:])
def test_the_hours_of_a_period(zone):
    hours, names = clock(zone, pd.date_range("2024-03-01", "2024-11-30 23:45", freq="15min"))
    begins = np.append(True, np.diff(names) != 0)
    terms = SumTerms(
        "1", (0.0, 1000.0), ("g",), unit_of="household", days=("2024-03-01", "2024-11-30"),
        tables=TABLES, tz=zone,
    )  # fmt: skip
    wanted = np.bincount(hours[begins], minlength=24)
    assert moved(terms, "quantiles").l1 == 2 * wanted.sum()
    assert float(moved(terms, "quantiles").l2) == np.ceil(np.sqrt(2 * (wanted**2).sum()))
    shown = np.linalg.norm(np.bincount(hours, minlength=24))
    assert float(moved(terms, "shape").l2) == np.ceil(1000 * shown)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Australia/Adelaide", "Asia/Kathmandu", None])
def test_an_hour_in_two_files_is_counted_once(tmp_path, zone):
    """Files of single UTC days: the hour that the clock shows at UTC midnight is in two of them."""
    columns = readings(days=3, interval_s=900) | {"group": ["f"] * 576}
    for day in range(3):
        rows = [i for i, time in enumerate(columns["time"]) if time.day == day + 1]
        part = {name: [values[i] for i in rows] for name, values in columns.items()}
        write(tmp_path / f"in/{day}.parquet", part)
    write(tmp_path / "whole/a.parquet", columns)
    terms = SumTerms("1e3", (0.0, 12_000.0), ("group",), tables=("quantiles",), tz=zone,
                     max_epsilon=1e7)  # fmt: skip
    found = [
        release_sums(tmp_path / name, tmp_path / f"{name}-out", terms,
                     ledger=new_ledger(tmp_path, name)).tables["quantiles"]
        for name in ("in", "whole")
    ]  # fmt: skip
    counts = found[0].drop_duplicates("hour")["values"].tolist()
    local = pd.DatetimeIndex(columns["time"][:288]).tz_localize("UTC").tz_convert(zone or "UTC")
    wanted = pd.Series(local.floor("h")).drop_duplicates().dt.hour.value_counts().sort_index() * 2
    assert counts == wanted.tolist()
    assert found[0]["value_w"].to_numpy() == pytest.approx(found[1]["value_w"].to_numpy(), abs=0.5)


def test_a_run_over_midnight_moves_the_counts_by_what_is_charged():
    """One hour of full power in Kolkata touches two hours of the clock, wherever files are cut."""
    terms = SumTerms("1", (0.0, 12_000.0), ("group",), unit_of="run", run=Run(2000.0, 3600.0),
                     tables=TABLES, tz="Asia/Kolkata")  # fmt: skip
    assert moved(terms, "quantiles").l1 == 4
    assert moved(terms, "quantiles").l2 == 2


@pytest.mark.parametrize("zone", ODD_ZONES)
def test_days_of_a_zone_against_all_places(zone):
    """The most that the readings of a day of 25 hours, anywhere, move the sums of civil days."""
    terms = SumTerms("1", (0.0, 1000.0), ("g",), "day", zone=zone, days=YEARS)
    count, most = protected_change(terms).overlapped, 0
    for change in changes_of_the_clock(zone):
        moments = pd.date_range(
            change - pd.Timedelta("3D"), change + pd.Timedelta("3D"), freq="15min"
        )
        days = moments.tz_localize("UTC").tz_convert(zone).tz_localize(None).normalize().asi8
        for row in sliding_window_view(days, count):
            most = max(most, int((np.unique(row, return_counts=True)[1] ** 2).sum()))
    least = 1000 * np.sqrt(most)
    assert least <= float(moved(terms, "sums").l2) <= 1.01 * least + 900


@pytest.mark.parametrize("zone", ODD_ZONES)
def test_days_under_a_cap_are_those_of_the_zone(zone):
    """A capped day of up to 25 hours lies in one sum, which moves by at most the cap."""
    terms = SumTerms(
        "1",
        (0.0, 15_000.0),
        ("g",),
        "day",
        cap_kwh=20.0,
        reference=REFERENCE,
        zone=zone,
        days=YEARS,
    )
    change = protected_change(terms)
    assert change.overlapped == (96 if zone == "UTC" else 100)
    assert 80_000 <= float(moved(terms, "sums").l1) <= 80_000 + 100 * float(terms.step)
