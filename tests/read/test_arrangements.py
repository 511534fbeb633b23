"""Where a file writes its dates, its hours and its tables, and which words decide about it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_recording

FIRST, HOUR = datetime(2024, 1, 8), timedelta(hours=1)
HOURS = np.round(np.random.default_rng(20_240_108).gamma(2.0, 0.3, 120), 2)
STARTS = [FIRST + i * HOUR for i in range(HOURS.size)]
BERLIN = ReadOptions(tz="Europe/Berlin")
KWH = ReadOptions(tz="Europe/Berlin", unit="kWh")


def lines(line, header=""):
    """A table with a line for the start and the energy of every hour."""
    found = (line(start, value) for start, value in zip(STARTS, HOURS.tolist(), strict=True))
    return "\n".join([*([header] if header else []), *found])


def check(path, options=BERLIN):
    """The file holds all hours, and the first begins at midnight."""
    trace = read_recording(path, options).trace
    assert (trace.interval_s, trace.readings.size) == (3600.0, HOURS.size)
    assert trace.energy_kwh == pytest.approx(HOURS.sum())
    assert str(trace.start)[:16] == "2024-01-07T23:00"


def newest_first():
    """Clocks of the ends of the hours under their dates; 00:00 ends a day and stands above it."""
    found = []
    for start, value in reversed(list(zip(STARTS, HOURS.tolist(), strict=True))):
        if start.hour == 23:
            found.append(f"{start:%d/%m/%Y};;")
        found.append(f"{start + HOUR:%H:%M:%S};{1000 * value:.0f};Réelle")
    return "Relève;Puissance atteinte (W);Nature\n" + "\n".join(found)


def beside_days():
    """A table of days, and beside it one of hours."""
    found = ["DATE_FROM;DATE_TO;VALUE;DATE_FROM;DATE_TO;VALUE"]
    for i, (start, value) in enumerate(zip(STARTS, HOURS, strict=True)):
        day = FIRST + timedelta(days=i)
        total = HOURS[24 * i : 24 * i + 24].sum()
        left = f"{day};{day + timedelta(days=1)};{total:.2f}" if i < 5 else ";;"
        found.append(f"{left};{start};{start + HOUR};{value}")
    return "kWh;;;kWh;;\n" + "\n".join(found)


def then_feed_in():
    """Lines about the meter, what was drawn, and both once more with what was fed in."""
    about = "Zählpunkt;Kennzahl;ab;bis\nAT001;1-1:{}.9.0;08.01.2024;12.01.2024\n"
    header = "Start;Ende;{} (in kWh);Status"

    def row(start, value):
        return f"{start:%d.%m.%Y %H:%M};{start + HOUR:%d.%m.%Y %H:%M};{value};"

    drawn = lines(row, header.format("Verbrauch"))
    fed = lines(lambda start, value: row(start, value / 2), header.format("Einspeisung"))
    return about.format(1) + drawn + "\n" + about.format(2) + fed


def with_marks():
    """A row for each day, with a mark behind every hour."""
    header = "Data;" + ";".join(f"{hour};F{hour}" for hour in range(1, 25))
    rows = (f"{FIRST + timedelta(days=i):%Y-%m-%d};" + ";".join(f"{v};0" for v in day)
            for i, day in enumerate(HOURS.reshape(5, 24)))  # fmt: skip
    return "\n".join([header, *rows])


FILES = {
    "dates above clocks": (newest_first, BERLIN, "cp1252"),
    "tables beside each other": (beside_days, KWH, "utf-8"),
    "a table of feed-in below": (then_feed_in, BERLIN, "utf-8"),
    "marks of every hour": (with_marks, KWH, "utf-8"),
    "a year, a month and a day": (
        lambda: lines(lambda s, v: f"{s.year},{s.month},{s.day},{s.hour},{v}",
                      "Year,Month,Day,Hour,Usage (kWh)"), BERLIN, "utf-8"),
    "ends of ISO 8601": (
        lambda: lines(lambda s, v: f"{s:%Y-%m-%dT%H:%M}/{s + HOUR:%Y-%m-%dT%H:%M},{v}",
                      "timeInterval,value (kWh)"), BERLIN, "utf-8"),
    "a name of the month first": (
        lambda: lines(lambda s, v: f"{s:%b-%d-%Y %H:%M},{v}", "Time,Usage (kWh)"),
        BERLIN, "utf-8"),
    "registers that look like dates": (
        lambda: lines(lambda s, v: f"{s:%d.%m.%Y %H:%M};1.8.0;{v}\n{s:%d.%m.%Y %H:%M};2.8.0;0.5",
                      "Zeitstempel;Obiscode;Wert (kWh)"), BERLIN, "utf-8"),
    "a largest power of the hour": (
        lambda: lines(lambda s, v: f"{s:%d/%m/%Y %H:%M};{v};{2 * v}",
                      "DataHora;ConsumoAtivo_kWh;Demanda_Max_Hora"), BERLIN, "utf-8"),
    "whole days of tariffs": (
        lambda: lines(lambda s, v: f"{s:%Y-%m-%d %H:%M},{v / 2},{v / 2}",
                      "READING,GENERAL_SUPPLY_KWH,CONTROLLED_LOAD_KWH"), BERLIN, "utf-8"),
    "Japanese, in one run": (
        lambda: lines(lambda s, v: f"{s:%Y/%m/%d %H:%M},{v},{v / 2},{v / 2}",
                      "取得日時,使用量合計(kWh),昼時間使用量(kWh),夜時間使用量(kWh)"),
        BERLIN, "cp932"),
    "Korean, beside a largest power": (
        lambda: lines(lambda s, v: f"{s:%Y-%m-%d %H:%M},{v},{4 * v}",
                      "측정일시,전력사용량(kWh),최대수요(kW)"), BERLIN, "cp949"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_an_arrangement_is_understood(save, name):
    text, options, encoding = FILES[name]
    check(save(text().encode(encoding)), options)


def test_the_last_of_25_numbered_hours_is_that_of_a_long_day(save):
    zone = ZoneInfo("Europe/Bucharest")
    days = [datetime(2024, 10, 26, tzinfo=zone) + timedelta(days=i) for i in range(3)]
    lengths = [24, 25, 24]
    records = [
        {"date": f"{day:%Y-%m-%d}", **{f"h{i + 1}": 1.0 + i % 5 if i < length else None
                                       for i in range(25)}}
        for day, length in zip(days, lengths, strict=True)
    ]  # fmt: skip
    path = save(json.dumps(records).encode(), "days.json")
    trace = read_recording(path, ReadOptions(tz="Europe/Bucharest", unit="kWh")).trace
    assert trace.readings.size == sum(lengths)
    assert trace.energy_kwh == pytest.approx(70 + 75 + 70)


@pytest.mark.parametrize("direction", ["Netzbezug", "Einspeisung"])
def test_a_line_above_the_table_states_the_direction(save, direction):
    about = f"Kundennummer;1\nEnergierichtung;{direction}\n\nDatum;Zeit;kWh;Status"
    path = save(lines(lambda s, v: f"{s:%d.%m.%Y;%H:%M};{v};gemessen", about).encode())
    if direction == "Netzbezug":
        check(path)
        return
    with pytest.raises(DataError, match=r"fed into the grid.*Energierichtung Einspeisung"):
        read_recording(path, BERLIN)


@pytest.mark.parametrize(
    ("title", "read"),
    [("Einspeisung 2024", False), ("PV Production", False), ("Data export", True),
     ("Stromverbrauch", True)],
)  # fmt: skip
def test_a_title_of_feed_in_refuses_the_table(save, title, read):
    path = save(lines(lambda s, v: f"{s:%d.%m.%Y %H:%M};{v}", f"{title}\nZeit;kWh").encode())
    if read:
        check(path)
        return
    with pytest.raises(DataError, match=f"beside the values.*{title}"):
        read_recording(path, BERLIN)


def test_dates_do_not_show_the_mark_of_decimals(save):
    path = save(lines(lambda s, v: f"{s:%d.%m.%Y};{s.hour};{round(v) if v < 2 else v}",
                      "Datum;Stunde;Verbrauch (kWh)").encode())  # fmt: skip
    energy = read_recording(path, BERLIN).trace.energy_kwh
    assert energy == pytest.approx(np.where(HOURS < 2, np.round(HOURS), HOURS).sum())


def test_a_counter_is_asked_for_before_its_unit(save):
    rises = np.cumsum(HOURS)
    path = save("\n".join(["time,value", *(f"{s},{v:.2f}" for s, v in zip(
        STARTS, rises, strict=True))]).encode())  # fmt: skip
    with pytest.raises(DataError, match=r"only rises.*`counter=yes`"):
        read_recording(path, BERLIN)
    with pytest.raises(DataError, match=r"state it \(`unit=Wh` or kWh\)"):
        read_recording(path, ReadOptions(tz="Europe/Berlin", counter="yes"))


def test_numbered_clients_are_no_tariffs(save):
    path = save(lines(lambda s, v: f"{s},{v},{3 * v}", "time,MT_001,MT_002").encode())
    with pytest.raises(DataError, match=r"MT_001.*`value_column=NAME`"):
        read_recording(path, KWH)


def test_a_line_that_stands_again_without_a_header_loses_no_rows(save):
    rows = lines(lambda s, v: f"{s:%d.%m.%Y %H:%M};{v}", "Report;page\nZeit;Verbrauch (kWh)")
    half = rows.splitlines()
    check(save("\n".join([*half[:60], "Report;page", *half[60:]]).encode()))
