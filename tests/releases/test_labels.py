"""Which cell belongs to which label: clocks, zones, bands, and words that do not fit."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.sensitivity import NO_LABEL
from hushmeter.releases import labels
from hushmeter.releases.labels import (
    VIEWS,
    LabelledTable,
    cells_of,
    check_tables,
    make_tables,
    model_month,
    of_sums,
    parse_band,
    split_words,
)

PEAK, NIGHT = "peak = weekdays 16:00-21:00", "night = 22:00-06:00"


def hourly(days, start="2024-03-01T00:00Z", zone="UTC", interval_s=3600.0, steps=None):
    count = round(days * 86_400 / interval_s) if steps is None else len(steps)
    trace = hm.Trace(np.zeros(count), interval_s, start, steps=steps)
    return cells_of(hm.metered(trace, zone), None, of_days=True)


def table(word, cells):
    return make_tables([word], cells)[0]


def test_a_complete_month():
    cells = model_month(3600.0)
    hours, days, months, typical = make_tables(VIEWS, cells)
    assert [t.size for t in (hours, days, months, typical)] == [720, 30, 1, 24]
    assert (days.members == 24).all()
    assert (typical.members == 30).all()
    week = table("typical-week", cells)
    assert week.size == 48
    # April 2024 begins on a Monday and has 22 weekdays.
    assert week.members[:24].tolist() == [22] * 24
    assert week.columns["days"][[0, 24]].tolist() == ["weekdays", "weekends"]
    assert table("year", cells).columns["year"].tolist() == ["2024"]


@pytest.mark.parametrize(
    ("start", "longest", "repeated"),
    [("2024-03-30T23:00Z", 23, 0), ("2024-10-26T22:00Z", 25, 1)],
)
def test_a_change_of_the_clock(start, longest, repeated):
    """The day has 23 or 25 hours, and an hour that occurs twice counts once in the typical day."""
    cells = hourly(3, start, "Europe/Berlin")
    days, typical = make_tables(["days", "typical-day"], cells)
    assert days.members[0] == longest
    assert (typical.labels == NO_LABEL).sum() == repeated
    assert str(days.columns["day"][0]) == ("2024-03-31" if longest == 23 else "2024-10-27")


def test_zones_of_half_an_hour():
    """Cells of an hour begin at half past in Kolkata, and the names of the labels say so."""
    cells = hourly(3, zone="Asia/Kolkata")
    typical = table("typical-day", cells)
    assert typical.columns["hour"][:2].tolist() == ["00:30", "01:30"]
    with pytest.raises(InputError, match="a border at 16:00, within a cell of 1 hour"):
        table(PEAK, cells)
    fine = table(PEAK, hourly(3, zone="Asia/Kolkata", interval_s=1800.0))
    assert set(fine.columns["band"].tolist()) == {"peak", "rest"}


def test_a_clock_that_is_moved_by_half_an_hour():
    """Lord Howe Island: the windows before and after the change begin at different minutes."""
    cells = hourly(3, "2024-04-05T13:00Z", "Australia/Lord_Howe")
    days, typical = make_tables(["days", "typical-day"], cells)
    assert typical.labels.max() == 23
    assert days.members.sum() == len(cells)
    with pytest.raises(InputError, match="within a cell of 1 hour"):
        table(PEAK, cells)


def test_cells_that_start_some_seconds_after_the_minute_have_bands():
    trace = hm.Trace(np.zeros(2880), 60.0, "2024-03-01T00:00:03Z")
    band = table(NIGHT, cells_of(hm.metered(trace), None))
    assert band.members[0] == 2 * 8 * 60


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        ("x = 16:00-21:00", 30 * 5),
        ("x = weekdays 16:00-21:00", 22 * 5),
        ("x = weekends 00:00-24:00", 8 * 24),
        ("x = sat-mon 22:00-02:00", (4 + 4 + 5) * 4),
        ("x = mon-fri 07:00-09:00, sat 10:00-12:00", 22 * 2 + 4 * 2),
        ("x = 22:00-00:00", 30 * 2),
    ],
)
def test_the_cells_of_a_band(words, hours):
    bands = table(words, model_month(3600.0))
    assert bands.members[bands.columns["band"] == "x"].sum() == hours
    assert bands.members.sum() == 720


@pytest.mark.parametrize("night", [NIGHT, "night = 00:00-06:00"])
def test_bands_that_share_hours_are_tables_of_their_own(night):
    """The evening shares hours with the peak, and with the longer night."""
    tables = make_tables([PEAK, night, "evening = 18:00-23:00"], model_month(3600.0))
    assert [t.name for t in tables] == ["bands", "bands-2"]
    assert sorted(set(tables[0].columns["band"])) == ["night", "peak", "rest"]
    assert sorted(set(tables[1].columns["band"])) == ["evening", "rest"]


def test_the_tables_of_bands_do_not_depend_on_the_days_of_a_file():
    """Both bands share Friday, of which this file has no reading."""
    hours = np.arange(24 * 14)
    steps = hours[hours // 24 % 7 != 4]
    cells = hourly(14, "2024-03-04T00:00Z", steps=steps)
    words = ["a = mon-fri 16:00-21:00", "b = fri-sun 18:00-22:00"]
    assert [t.name for t in make_tables(words, cells)] == ["bands", "bands-2"]


def test_words():
    names, bands = split_words(["hours", "days", "cells", "days", PEAK, "peak = sat 10:00-12:00"])
    assert names == ["cells", "days"]
    assert list(bands) == ["peak"]
    assert len(bands["peak"]) == 2
    assert not of_sums(["hours", "register"])
    assert of_sums([PEAK])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["weeks"], "no table named 'weeks'"),
        (["peak ="], "a band is written as"),
        (["days = 16:00-21:00"], "'days' is the name of a table; give the band another name"),
        (["peak = 16:00"], "write days and times as in"),
        (["peak = 16:75-21:00"], "write days and times as in"),
        (["peak = 16:00-25:00"], "impossible times"),
        (["peak = 16:00-16:00"], "impossible times"),
        (["peak = holidays 16:00-21:00"], "has the days 'holidays'; choose of daily"),
        (["peak = 16:00-21:00, weekdays 20:00-22:00"], "the parts of the band peak overlap"),
        (["peak = 16:00-21:00", "peak = 20:00-22:00"], "the parts of the band peak overlap"),
        (["peak = 16:30-21:00"], "a border at 16:30, within a cell of 1 hour"),
    ],
)
def test_words_that_do_not_fit_are_one_sentence(words, message):
    with pytest.raises(InputError, match=message) as caught:
        check_tables(words, model_month(3600.0))
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_the_cells_is_one_sentence():
    with pytest.raises(InputError, match="the table hours is finer than the cells of 1 day"):
        check_tables(["hours"], model_month(86_400.0))
    with pytest.raises(InputError, match="no cell lies in the band off; leave it out"):
        check_tables(["off = sat-sun 00:00-24:00"], hourly(3, "2024-03-04T00:00Z"))
    with pytest.raises(DataError, match="at least one day of readings"):
        check_tables(["days"], hourly(0.5))
    # The cells themselves need no day.
    assert check_tables(["hours"], hourly(0.5))[0].size == 12
    with pytest.raises(InputError, match="cells that divide a day, but 7 hours do not"):
        cells_of(hm.Metered(3600.0), "7h", of_days=True)
    with pytest.raises(InputError, match="cells that divide a day"):
        cells_of(hm.Metered(3600.0), "2d", of_days=True)


def test_parse_band_reads_days_and_times():
    name, (first, second) = parse_band("Peak = Fri-Mon 16:00-21:00, 1:30-2:00")
    assert name == "peak"
    assert first.days == (4, 5, 6, 0)
    assert (second.start_s, second.stop_s) == (5400, 7200)


@pytest.mark.parametrize(
    ("zone", "days"), [("UTC", 30), ("Asia/Kolkata", 30), ("Europe/London", 366)]
)
def test_model_cells_have_a_year_where_the_clock_changes(zone, days):
    cells = cells_of(hm.Metered(3600.0, zone=zone), None, of_days=True)
    assert cells.model
    assert len(cells) == 24 * days
    assert len(cells_of(hm.Metered(3600.0, zone=zone), None)) == 24 * 30


# Against the clock of Python, and a table of one's own ------------------------------------------

EARLY = "night = 00:00-07:00"


def expected_labels(cells):
    """What every cell is about in each table, by the clock of Python."""
    found = {word: [] for word in ("days", "months", "year", "typical-day", "typical-week", "band")}
    seen = set()
    zone = ZoneInfo(cells.zone)
    for time in cells.times.times.astype("datetime64[s]").tolist():
        local = time.replace(tzinfo=UTC).astimezone(zone)
        day, month, hour = f"{local:%Y-%m-%d}", f"{local:%Y-%m}", f"{local:%H:%M}"
        free = local.weekday() >= 5
        # An hour that the clock repeats belongs to no hour of the day.
        repeated = (day, hour) in seen
        seen.add((day, hour))
        found["days"].append(day)
        found["months"].append(month)
        found["year"].append(f"{local:%Y}")
        found["typical-day"].append(None if repeated else (month, hour))
        kind = "weekends" if free else "weekdays"
        found["typical-week"].append(None if repeated else (month, kind, hour))
        peak, night = not free and 16 <= local.hour < 21, local.hour < 7
        found["band"].append((month, "peak" if peak else "night" if night else "rest"))
    return found


COLUMNS = {
    "days": ["day"],
    "months": ["month"],
    "year": ["year"],
    "typical-day": ["month", "hour"],
    "typical-week": ["month", "days", "hour"],
    "band": ["month", "band"],
}


@given(
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.sampled_from([900.0, 1800.0, 3600.0]),
    st.integers(0, 366 * 24),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_labels_are_those_of_the_clock(zone, interval_s, half_hours, seed):
    """Any start of a leap year, with gaps and changes of the clock."""
    rng = np.random.default_rng(seed)
    minutes = max(30, round(interval_s / 60))
    start = np.datetime64("2024-01-01T00:00") + np.timedelta64(minutes * half_hours, "m")
    steps = np.flatnonzero(rng.random(int(rng.integers(60, 900))) > 0.03)
    start += np.timedelta64(int(steps[0] * interval_s), "s")
    cells = hourly(0, f"{start}Z", zone, interval_s, steps - steps[0])
    expected = expected_labels(cells)
    if zone == "Australia/Lord_Howe" and interval_s == 3600.0:
        return  # Its clock moves by half an hour, which a band border does not fit.
    tables = make_tables([*[*COLUMNS][:-1], PEAK, EARLY], cells)
    for table, (word, names) in zip(tables, COLUMNS.items(), strict=True):
        columns = [np.asarray(table.columns[name]).astype(str) for name in names]
        shown = list(zip(*columns, strict=True))
        assert len(set(shown)) == table.size == len(shown)
        for label, wanted in zip(table.labels.tolist(), expected[word], strict=True):
            if wanted is None:
                assert label == NO_LABEL
            else:
                assert shown[label] == (wanted if isinstance(wanted, tuple) else (wanted,))
        np.testing.assert_array_equal(table.columns["cells"], table.members)


def every_third_hour(cells):
    place = (np.arange(len(cells)) // 3) % 8
    order = np.arange(8)
    columns = {"third": order, "cells": np.bincount(place, minlength=8)}
    return LabelledTable("thirds", place, 8, cells.times.steps, columns=columns, energy=False)


def test_a_new_table_is_one_function(monkeypatch, tmp_path):
    """A toy table is released, verified, read back and restored with nothing else edited."""
    monkeypatch.setitem(labels._MAKERS, "thirds", every_third_hour)
    rng = np.random.default_rng(4)
    trace = hm.Trace(rng.gamma(1.0, 300.0, 24 * 30), 3600.0, "2024-04-01T00:00Z")
    for tables in (("hours", "days", "thirds", PEAK), ("thirds", "months")):
        request = hm.Request(hide="kettle 2100 W 180 s", odds=60, tables=tables)
        promise = request.resolve(hm.metered(trace))
        assert "thirds" in [entry.name for entry in promise.tables]
        assert promise.odds <= 0.6
        done = promise.release(trace)
        view = done.view("thirds")
        exact = np.bincount(np.arange(720) // 3 % 8, trace.readings) / 90
        assert (np.abs(view.values - exact) < 6 * view.errors).all()
        folder = tmp_path / tables[0]
        done.save(folder)
        assert hm.verify(folder).problems == ()
        back = hm.read_release(folder)
        np.testing.assert_allclose(back.view("thirds").values, view.values)
        np.testing.assert_allclose(back.view("thirds").errors, view.errors)
        assert (folder / "thirds.csv").read_text().startswith('"third","cells","noisy_steps"')
