"""Energy is conserved: what a file holds is read, or it is refused with what would be lost."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_bytes

RNG = np.random.default_rng(36)
DAY = np.timedelta64(1, "D")
HOURS = [np.datetime64("2024-01-01T00:00") + np.timedelta64(h, "h") for h in range(240)]
DRAWN = RNG.gamma(1.2, 0.4, 240).round(3)
HEATER = RNG.gamma(1.0, 0.2, 240).round(3)


def read(text, **options):
    return read_bytes(text.encode(), "portal.csv", ReadOptions(**options))


def table(header, *columns):
    rows = (",".join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join([header, *rows, ""])


STAMPS = [f"{hour}Z" for hour in HOURS]


def test_general_usage_and_controlled_load_are_added():
    text = table("Time,General usage (kWh),Controlled load (kWh)", STAMPS, DRAWN, HEATER)
    found = read(text)
    assert found.trace.energy_kwh == pytest.approx(DRAWN.sum() + HEATER.sum())
    assert "General usage (kWh)" in found.remarks[0]
    assert not any("%" in note for note in found.notes), "a share follows from the values"
    with pytest.raises(DataError, match="only a part of what the meter shows") as caught:
        read(text, value_column="General usage (kWh)")
    advice = str(caught.value).split("`value_column=")[-1].split("`")[0]
    assert read(text, value_column=advice).trace.energy_kwh == found.trace.energy_kwh


def test_registers_of_one_meter_in_rows_are_added():
    words = ["Consumption"] * 240 + ["Controlled Load Consumption"] * 240
    text = table("Time,Type,Value (kWh)", STAMPS * 2, words, [*DRAWN, *HEATER])
    assert read(text).trace.energy_kwh == pytest.approx(DRAWN.sum() + HEATER.sum())
    both = read(text, register="Consumption+Controlled Load Consumption")
    assert both.trace.energy_kwh == pytest.approx(DRAWN.sum() + HEATER.sum())
    with pytest.raises(DataError, match="leave `register=` out, and they are added"):
        read(text, register="Consumption")


@pytest.mark.parametrize("stamp", ["start", "end"])
def test_quarter_hours_after_hours_are_added(stamp):
    late = np.timedelta64(60 if stamp == "end" else 0, "m")
    hours = [(hour + late, value) for hour, value in zip(HOURS[:120], DRAWN, strict=False)]
    late = np.timedelta64(15 if stamp == "end" else 0, "m")
    parts = [
        (hour + late + np.timedelta64(15 * i, "m"), value / 4)
        for hour, value in zip(HOURS[120:], DRAWN[120:], strict=True)
        for i in range(4)
    ]
    text = table(f"{stamp},kWh", *zip(*[(f"{t}Z", v) for t, v in hours + parts], strict=True))
    found = read(text)
    assert (found.trace.interval_s, len(found.trace)) == (3600, 240)
    assert found.trace.energy_kwh == pytest.approx(DRAWN.sum())
    assert str(found.trace.start).startswith("2024-01-01T00:00")
    with pytest.raises(DataError, match="leave `reading_length=` out"):
        read(text, reading_length="15min")


def test_hours_after_quarter_hours_are_not_divided():
    parts = [
        (hour + np.timedelta64(15 * i, "m"), value / 4)
        for hour, value in zip(HOURS[:180], DRAWN, strict=False)
        for i in range(4)
    ]
    rows = [*parts, *zip(HOURS[180:], DRAWN[180:], strict=True)]
    found = read(table("start,kWh", *zip(*[(f"{t}Z", v) for t, v in rows], strict=True)))
    assert found.trace.interval_s == 3600
    np.testing.assert_allclose(found.trace.readings, 1000 * DRAWN)


def test_sessions_of_a_charger_are_refused():
    start, rows = np.datetime64("2024-01-01T08:00"), []
    for _ in range(200):
        length = int(RNG.integers(10, 400))
        rows.append((f"{start}Z", f"{start + np.timedelta64(length, 'm')}Z", 1.5))
        start += np.timedelta64(length + int(RNG.integers(60, 900)), "m")
    text = table("Start,End,Energy (kWh)", *zip(*rows, strict=True))
    with pytest.raises(DataError, match="different lengths, such as the sessions"):
        read(text)
    for length in ("15min", "1h"):
        with pytest.raises(DataError):
            read(text, reading_length=length)


def test_uneven_power_is_averaged_and_not_dropped():
    seconds = np.cumsum(np.tile([10] * 6 + [4, 16], 100))
    watts = 100 + np.arange(800.0) % 50
    text = table("timestamp,power", [f"{1_704_067_200 + s}" for s in seconds], watts)
    found = read(text, unit="W", changes="no")
    assert found.trace.readings.mean() == pytest.approx(watts.mean(), rel=0.01)


@pytest.mark.parametrize(
    "header", ["NOK_per_kWh", "Spot price", "ct/kWh", "perKwh", "Preis pro kWh"]
)
def test_a_price_is_never_an_energy(header):
    for options in ({}, {"unit": "kWh"}, {"value_column": header, "unit": "kWh"}):
        with pytest.raises(DataError, match="is a price"):
            read(table(f"time,{header}", STAMPS, DRAWN), **options)


def test_amounts_of_money_are_no_energy():
    with pytest.raises(DataError, match="no unit of energy"):
        read(table("time,value,currency", STAMPS, DRAWN, ["EUR"] * 240), unit="kWh")


def test_a_copy_of_the_meter_is_no_circuit():
    from hushmeter.read import read_home_bytes

    text = table(
        "Time,kW,kW orig,Kettle kW", STAMPS, DRAWN, [*DRAWN[:200], *DRAWN[200:] / 2], HEATER / 9
    )
    found = read_home_bytes(text.encode(), "portal.csv", ReadOptions())
    assert found.public.names == ("Kettle kW",)
    assert "kW orig" in found.remarks[0]


def test_most_rows_that_repeat_a_time_are_no_readings():
    days = [f"2024-01-{1 + i // 24:02d}" for i in range(240)]
    daily = np.repeat(DRAWN[:10], 24)
    with pytest.raises(DataError, match="repeat a time"):
        read(table("Date,Usage (kWh)", days, daily), tz="UTC")


@pytest.mark.parametrize(("days", "is_bill"), [(91, True), (2, False)])
def test_bills_beside_hours_are_no_lost_readings(days, is_bill):
    """Portals append sums of quarters; a row of two days that no hour covers is lost."""
    later = np.datetime64("2024-05-01T00:00")
    ends = [*(f"{hour + np.timedelta64(1, 'h')}Z" for hour in HOURS), f"{later + days * DAY}Z"]
    text = table("From,To,kWh", [*STAMPS, f"{later}Z"], ends, [*DRAWN, 0.5 * DRAWN.sum()])
    if is_bill:
        assert read(text).trace.energy_kwh == pytest.approx(DRAWN.sum())
    else:
        with pytest.raises(DataError, match="would be left out"):
            read(text)
