"""The clocks of zones: every function against loops with `zoneinfo`."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter import clock
from hushmeter.errors import InputError

ZONES = [
    "UTC", "Europe/London", "Europe/Dublin", "Europe/Amsterdam", "America/New_York",
    "America/St_Johns", "America/Sao_Paulo", "America/Havana", "America/Caracas", "Asia/Beirut",
    "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Gaza", "Asia/Pyongyang",
    "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Chatham", "Pacific/Apia",
    "Pacific/Kiritimati", "Antarctica/Troll", "Africa/Casablanca", "Africa/Monrovia",
    "Africa/Cairo", "Etc/GMT-10",
]  # fmt: skip
HOUR, DAY_S = 3600, 86_400
EPOCH = datetime(1970, 1, 1)

zones, years = st.sampled_from(ZONES), st.integers(1970, 2199)


def seconds_of(year: int) -> int:
    return int((datetime(year, 1, 1) - EPOCH).total_seconds())


def since(local: datetime) -> int:
    return round((local.replace(tzinfo=None) - EPOCH).total_seconds())


def shown_at(second: int, zone: str) -> datetime:
    return (EPOCH.replace(tzinfo=UTC) + timedelta(seconds=second)).astimezone(ZoneInfo(zone))


def offset_at(second: int, zone: str) -> int:
    return since(shown_at(second, zone)) - second


def loop_changes(first: int, stop: int, zone: str) -> list[int]:
    """Changes of the clock from `first` to before `stop`, by hours, then by seconds."""
    found, before = [], offset_at(first - HOUR, zone)
    for at in range(first, stop + HOUR, HOUR):
        after = offset_at(at, zone)
        if after != before:
            found += [s for s in range(at - HOUR + 1, at + 1)
                      if offset_at(s - 1, zone) != offset_at(s, zone)]  # fmt: skip
        before = after
    return [s for s in found if first <= s < stop]


def times(seconds) -> np.ndarray:
    return np.asarray(seconds, dtype=np.int64).astype("datetime64[s]")


def near_changes(zone: str, year: int, draws: list[int]) -> list[int]:
    """Seconds of a year, those of its changes, and some around them."""
    first = seconds_of(year)
    found = clock.transitions(times(first), times(first + 366 * DAY_S), zone).astype(int).tolist()
    centres = [*found, first]
    around = [c + d for c in centres for d in (*draws, -1, 0, 1)]
    return [*around, *(first + abs(d) * 300 for d in draws)]


draws = st.lists(st.integers(-30 * HOUR, 30 * HOUR), min_size=1, max_size=6)


@given(zones, years, draws)
@settings(max_examples=150)
def test_local_times_are_those_of_zoneinfo(zone, year, offsets):
    moments = near_changes(zone, year, offsets)
    local = clock.local_times(times(moments), zone)
    assert local.astype(int).tolist() == [since(shown_at(s, zone)) for s in moments]
    found = clock.utc_offsets(times(moments), zone)
    assert found.tolist() == [offset_at(s, zone) for s in moments]
    for s, at in zip(moments[:5], local, strict=False):
        assert clock.day_of(s * clock.SECOND + 7, zone) == str(at.astype("datetime64[D]"))
    fine = times(moments).astype("datetime64[ns]") + np.timedelta64(999_999_999, "ns")
    assert (clock.local_times(fine, zone) - fine == local - times(moments)).all()


@given(zones, years, draws)
@settings(max_examples=150)
def test_utc_times_are_those_of_zoneinfo(zone, year, offsets):
    """Both passes, and the times that the clock skips, by the `fold` of datetime."""
    local = [since(shown_at(s, zone)) + d for s in near_changes(zone, year, offsets)
             for d in (0, 1800, 5400)]  # fmt: skip
    plain = [EPOCH + timedelta(seconds=s) for s in local]
    folds = np.array([[since(at.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC))
                       for fold in (0, 1)] for at in plain])  # fmt: skip
    exists = np.array([[offset_at(s, zone) + s == at for s in pair]
                       for pair, at in zip(folds.tolist(), local, strict=True)])  # fmt: skip
    count = np.where(folds[:, 0] == folds[:, 1], exists[:, 0], exists.sum(axis=1))
    assert clock.times_shown(times(local), zone).tolist() == count.tolist()
    first = clock.utc_times(times(local), zone).astype(int)
    second = clock.utc_times(times(local), zone, second=True).astype(int)
    assert first.tolist() == folds[:, 0].tolist()
    assert second[count > 0].tolist() == folds[count > 0, 1].tolist()
    assert second[count == 0].tolist() == folds[count == 0, 0].tolist()
    for at, moment in zip(plain[:5], first.tolist(), strict=False):
        assert clock.in_zone(at, zone).timestamp() == moment


@given(zones, years, draws)
@settings(max_examples=100)
def test_a_moment_comes_back_from_the_clock(zone, year, offsets):
    moments = times(near_changes(zone, year, offsets)).astype("datetime64[ns]")
    local = clock.local_times(moments, zone)
    back = [clock.utc_times(local, zone, second=second) for second in (False, True)]
    shown = clock.times_shown(local, zone)
    assert shown.min() >= 1
    assert ((back[0] == moments) | (back[1] == moments)).all()
    assert ((back[0] == back[1]) == (shown == 1)).all()
    for found in back:
        assert (clock.local_times(found, zone) == local).all()


@given(zones, years, st.integers(0, 365))
@settings(max_examples=60)
def test_civil_days_begin_and_end_at_midnight(zone, year, day):
    days = np.datetime64(f"{year}-01-01") + day + np.arange(-1, 4)
    starts, ends = (bound.astype(int).tolist() for bound in clock.day_bounds(days, zone))
    assert starts[1:] == ends[:-1]
    for label, start, end in zip(days.tolist(), starts, ends, strict=True):
        assert 0 <= end - start <= 26 * HOUR
        if end > start:
            assert shown_at(start, zone).date() == label
            assert shown_at(start - 1, zone).date() < label
            inside = {shown_at(s, zone).date() for s in range(start, end, 900)}
            # In Newfoundland the clock went back at 00:01, to the day before.
            assert label in inside
            assert inside <= {label, label - timedelta(days=1)}


@pytest.mark.parametrize(
    ("zone", "day", "start", "hours"),
    [
        ("Europe/London", "2024-03-31", "2024-03-31T00:00", 23),
        ("Europe/London", "2024-10-27", "2024-10-26T23:00", 25),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00", 23),
        ("America/Sao_Paulo", "2019-02-16", "2019-02-16T02:00", 25),
        ("America/Havana", "2024-11-03", "2024-11-03T04:00", 25),
        ("Asia/Beirut", "2022-03-27", "2022-03-26T22:00", 23),
        ("Asia/Kolkata", "2024-01-01", "2023-12-31T18:30", 24),
        ("Australia/Lord_Howe", "2024-04-07", "2024-04-06T13:00", 24.5),
        ("Australia/Lord_Howe", "2024-10-06", "2024-10-05T13:30", 23.5),
        ("Antarctica/Troll", "2024-03-31", "2024-03-31T00:00", 22),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00", 0),
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30", 25),
    ],
)
def test_lengths_of_days(zone, day, start, hours):
    starts, ends = clock.day_bounds(np.array([day], "datetime64[D]"), zone)
    assert starts[0] == np.datetime64(start)
    assert (ends[0] - starts[0]) / np.timedelta64(1, "h") == hours


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("year", [1975, 2011, 2024, 2045])
def test_all_changes_of_a_year_are_found(zone, year):
    first, stop = seconds_of(year), seconds_of(year + 1)
    found = clock.transitions(times(first), times(stop), zone)
    assert found.astype(int).tolist() == loop_changes(first, stop, zone)


@given(zones, years, draws)
@settings(max_examples=60)
def test_hours_of_the_clock_begin_at_the_hour_or_with_a_change(zone, year, offsets):
    moments = near_changes(zone, year, offsets)[:25]
    starts, hours = clock.clock_hours(times(moments), zone)
    local = clock.local_times(times(moments), zone)
    assert clock.hour_of_day(local).tolist() == hours.tolist()
    assert clock.weekday(local).tolist() == [shown_at(s, zone).weekday() for s in moments]
    for s, start, hour in zip(moments, starts.astype(int).tolist(), hours.tolist(), strict=True):
        back = s
        same = (shown_at(s, zone).replace(minute=0, second=0), offset_at(s, zone))
        while (shown_at(back - 60, zone).replace(minute=0, second=0, microsecond=0),
               offset_at(back - 60, zone)) == same:  # fmt: skip
            back -= 60
        while (shown_at(back - 1, zone).replace(minute=0, second=0, microsecond=0),
               offset_at(back - 1, zone)) == same:  # fmt: skip
            back -= 1
        assert (start, hour) == (back, shown_at(s, zone).hour)


@given(zones, st.integers(2000, 2060), st.integers(0, 364), st.sampled_from([900, 1800, 3600]),
       st.sets(st.integers(0, 400), max_size=5))  # fmt: skip
@settings(max_examples=60)
def test_civil_days_of_values(zone, year, day, interval_s, missing):
    first = seconds_of(year) + day * DAY_S
    moments = [first + interval_s * i for i in range(5 * DAY_S // interval_s) if i not in missing]
    found = clock.civil_days(times(moments).astype("datetime64[ns]"), interval_s, zone)
    dates = [shown_at(s, zone).date() for s in moments]
    assert found.days.tolist() == sorted(set(dates))
    assert [found.days[p].item() for p in found.place] == dates
    for label, complete in zip(found.days, found.complete.tolist(), strict=True):
        start, end = (int(b[0].astype(int)) for b in clock.day_bounds(label[None], zone))
        mine = [s for s, d in zip(moments, dates, strict=True) if d == label.item()]
        if dates != sorted(dates):
            continue  # In Newfoundland the clock went back at 00:01, to the day before.
        assert complete == (mine == list(range(start, end, interval_s)) and start < end)


@given(st.sampled_from(ZONES), st.lists(years, min_size=2, max_size=2), draws)
@settings(max_examples=40)
def test_long_spans_and_any_order_and_shape(zone, both, offsets):
    moments = times([s for year in both for s in near_changes(zone, year, offsets)])
    one_by_one = [int(clock.local_times(moment, zone).astype(int)) for moment in moments[:8]]
    assert clock.local_times(moments, zone)[:8].astype(int).tolist() == one_by_one
    columns = np.column_stack([moments, moments[::-1]])
    assert (clock.local_times(columns, zone)[:, 1] == clock.local_times(moments, zone)[::-1]).all()
    changed = clock.changes_clock(moments[:-1], moments[1:], zone)
    assert changed.tolist() == (np.diff(clock.utc_offsets(moments, zone)) != 0).tolist()


def test_no_times_are_converted_to_no_times():
    none = np.zeros(0, "datetime64[ns]")
    for zone in ("UTC", "Europe/London"):
        assert clock.local_times(none, zone).size == clock.utc_times(none, zone).size == 0
        assert clock.times_shown(none, zone).size == 0


def test_one_local_time_gets_its_zone():
    plain, own = datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert clock.in_zone(plain, "Europe/London").timestamp() == own.timestamp() - HOUR
    assert clock.in_zone(own, "Europe/London") is own
    assert clock.day_of(-1, "UTC") == date(1969, 12, 31).isoformat()


@pytest.mark.parametrize("name", ["Europe/Atlantis", "", "../etc/passwd", "utc\0", "Europe"])
def test_unknown_zones_are_refused(name):
    moments = times([0])
    for use in (lambda: clock.check_zone(name), lambda: clock.local_times(moments, name),
                lambda: clock.utc_times(moments, name), lambda: clock.day_of(0, name)):  # fmt: skip
        with pytest.raises(InputError, match="time zone such as UTC"):
            use()


@pytest.mark.slow
def test_all_zones_by_the_hour():
    """Every hour of some years, in every zone."""
    rng = np.random.default_rng(0)
    for zone in sorted(available_timezones() - {"localtime", "posixrules", "Factory"}):
        first = seconds_of(int(rng.integers(1970, 2190)))
        moments = range(first, first + 400 * DAY_S, HOUR)
        local = clock.local_times(times(moments), zone).astype(int)
        assert local.tolist() == [since(shown_at(s, zone)) for s in moments]


def test_the_module_loads_no_table_library():
    code = (
        "import sys, numpy as np; from hushmeter import clock; "
        "clock.local_times(np.array(['2024-07-01'], 'datetime64[s]'), 'Europe/London'); "
        "assert not {'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_days_begin_where_the_clock_skips_or_repeats_midnight():
    """In Cairo midnight was skipped in April 2024; St. John's went back one minute after it."""
    hours = np.arange("2024-04-24T22:00", "2024-04-26T21:00", dtype="datetime64[h]")
    cairo = clock.civil_days(hours.astype("datetime64[ns]"), 3600.0, "Africa/Cairo")
    assert np.bincount(cairo.place).tolist() == [24, 23]
    assert cairo.complete.all()
    minutes = np.arange("2010-11-06T02:30", "2010-11-08T03:30", dtype="datetime64[m]")
    days = clock.civil_days(minutes.astype("datetime64[ns]"), 60.0, "America/St_Johns")
    # Both days are shown in two parts.
    assert days.days.astype(str).tolist() == ["2010-11-06", "2010-11-07"]
    assert not days.complete.any()
