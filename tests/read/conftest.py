"""Small files in the exact layout of every format, made here: no data set is copied."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

START = 1_700_000_000  # 2023-11-14T22:13:20Z
HOUR0 = 1_700_002_800  # 2023-11-14T23:00:00Z


def square(length: int, period: int, on: int, watts: float, idle: float = 0.0) -> np.ndarray:
    """A circuit that is on for `on` of every `period` readings."""
    return np.where(np.arange(length) % period < on, watts, idle)


def plain_csv(length: int = 40) -> bytes:
    rows = [f"{START + 6 * i},{100 + 50 * (i % 4)},{50 * (i % 2)}" for i in range(length)]
    return ("timestamp,watts,lamp\n" + "\n".join(rows) + "\n").encode()


def octopus(count: int = 8) -> bytes:
    """Octopus: blanks after commas, offsets that change with summer time."""
    first = datetime(2023, 10, 29, 0, 0, tzinfo=UTC)
    lines = ["Consumption (kwh), Start, End"]
    for i in range(count):
        ends = []
        for k in (i, i + 1):
            moment = first + timedelta(minutes=30 * k)
            summer = moment < datetime(2023, 10, 29, 1, tzinfo=UTC)
            zone = timezone(timedelta(hours=1 if summer else 0))
            ends.append(moment.astimezone(zone).isoformat())
        lines.append(f"0.{i + 1:03d}, {ends[0]}, {ends[1]}")
    return ("\n".join(lines) + "\n").encode()


def n3rgy(count: int = 6) -> bytes:
    lines = ["timestamp (UTC),energyConsumption (kWh)"]
    for i in range(count):
        end = datetime(2023, 1, 1, 0, 30) + timedelta(minutes=30 * i)
        lines.append(f"{end:%Y-%m-%d %H:%M},{0.1 * (i + 1):.3f}")
    return ("\n".join(lines) + "\n").encode()


def esb(kind: str = "Active Import Interval (kW)", count: int = 96) -> bytes:
    """ESB: newest first, local end times, over the night the clock goes back."""
    first = datetime(2023, 10, 28, 12, 0, tzinfo=UTC)
    lines = []
    for i in range(count):
        end = first + timedelta(minutes=30 * (i + 1))
        summer = end < datetime(2023, 10, 29, 1, tzinfo=UTC)
        local = end + timedelta(hours=1 if summer else 0)
        lines.append(f"10000000001,34000001,{0.5 + 0.01 * i:.3f},{kind},{local:%d-%m-%Y %H:%M}")
        export = kind.replace("Import", "Export")
        lines.append(f"10000000001,34000001,0.000,{export},{local:%d-%m-%Y %H:%M}")
    header = "MPRN,Meter Serial Number,Read Value,Read Type,Read Date and End Time"
    return ("\r\n".join([header, *reversed(lines)]) + "\r\n").encode()


def ha_energy() -> bytes:
    times = [f"2024-01-01T{h:02d}:00:00.000Z" for h in range(6)]
    rows = [
        ["entity_id", "type", "unit", *times],
        ["sensor.tariff_1", "grid_consumption", "kWh", "0.5", "0.4", "", "0.6", "0.7", "1.0"],
        ["sensor.tariff_2", "grid_consumption", "kWh", "0.1", "0.1", "", "0.1", "0", "0"],
        ["sensor.solar", "solar_production", "kWh", "0", "0", "0", "0", "0", "0"],
        ["sensor.fridge_energy", "device_consumption", "kWh", "0.1", "0", "0.1", "", "0.1", "0"],
        ["sensor.kettle_energy", "device_consumption", "kWh", "0", "0.2", "0", "0", "0.2", "0"],
    ]
    return ("\n".join(",".join(row) for row in rows) + "\n").encode()


def ha_history() -> bytes:
    rows = ["entity_id,state,last_changed"]
    for seconds, state in ((0, "100"), (20, "300.5"), (35, "300.5"), (60, "unavailable"),
                           (90, "80"), (100, "90"), (110, "80"), (120, "85")):  # fmt: skip
        moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        rows.append(f"sensor.meter_power,{state},{moment:%Y-%m-%dT%H:%M:%S.000Z}")
    return ("\n".join(rows) + "\n").encode()


def crc16(data: bytes) -> int:
    """Bit by bit, as the standard writes it."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def telegram(stamp: str, kilowatts: float, *, good: bool = True) -> bytes:
    lines = [
        "/ISK5\\2M550T-1012", "", "1-3:0.2.8(50)", f"0-0:1.0.0({stamp})",
        "0-0:96.1.1(4530303438)", "1-0:1.8.1(001234.567*kWh)", "1-0:1.8.2(000987.654*kWh)",
        f"1-0:1.7.0({kilowatts:06.3f}*kW)", "1-0:2.7.0(00.000*kW)", "1-0:32.7.0(230.1*V)",
        "0-1:24.2.1(240101115500W)(00123.456*m3)", "!",
    ]  # fmt: skip
    body = "\r\n".join(lines).encode()
    crc = crc16(body) if good else crc16(body) ^ 1
    return body + f"{crc:04X}\r\n".encode()


def dsmr(count: int = 12) -> bytes:
    stamps = [f"2401011200{10 * i:02d}W" if i < 6 else f"2401011201{10 * (i - 6):02d}W"
              for i in range(count)]  # fmt: skip
    return b"".join(telegram(s, 0.1 * (i + 1)) for i, s in enumerate(stamps))


def rae(count: int = 60) -> bytes:
    subs = [f"sub{i}" for i in range(1, 25)]
    lines = ["unix_ts,mains," + ",".join(subs)]
    for t in range(count):
        values = [10 * (k == 7) + 2200 * (k in (4, 5)) * (t > 20) for k in range(24)]
        lines.append(f"{START + t},{sum(values) + 40}," + ",".join(map(str, values)))
    return ("\n".join(lines) + "\n").encode()


def ampds(count: int = 60) -> bytes:
    lines = ["UNIX_TS,WHE,RSE,B1E,CDE,FGE,FRE,HPE,MHE,UNE"]
    for t in range(count):
        values = [90, -1, 4500 * (10 < t < 30), 120 * (t % 20 < 8), 110, 1800 * (t % 30 < 9)]
        lines.append(f"{START + 60 * t},{sum(values) + 60}," + ",".join(map(str, [*values, 5, 6])))
    return ("\n".join(lines) + "\n").encode()


def refit(count: int = 60) -> bytes:
    names = ",".join(f"Appliance{i}" for i in range(1, 10))
    lines = [f"Time,Unix,Aggregate,{names},Issues"]
    for i in range(count):
        unix = START + 7 * i + (i % 5 == 2)
        clock = datetime.fromtimestamp(unix, UTC)
        powers = [80 * (i % 10 < 4), 2000 * (30 < i < 40), *([0] * 7)]
        listed = ",".join(map(str, powers))
        lines.append(f"{clock:%Y-%m-%d %H:%M:%S},{unix},{150 + sum(powers)},{listed},{i == 3:d}")
    return ("\n".join(lines) + "\n").encode()


def pecan_street(count: int = 8) -> bytes:
    lines = ["dataid,local_15min,air1,car1,grid,solar,leg1v"]
    for home in (26, 59):
        for i in range(count):
            clock = datetime(2018, 1, 1) + timedelta(minutes=15 * i)
            car = "" if home == 59 else f"{3.3 * (i > 3):.3f}"
            lines.append(f"{home},{clock:%Y-%m-%d %H:%M:%S}-06,{0.5 * (i % 2)},{car},"
                         f"{0.4 + 0.1 * i:.3f},,120.5")  # fmt: skip
    return ("\n".join(lines) + "\n").encode()


def green_button(*, prefix: bool = False, exponent: int = 0, uom: int = 72, kind: int = 0) -> bytes:
    """A feed with two blocks, five readings each."""
    p, x = ("e:", ' xmlns:e="http://naesb.org/espi"') if prefix else ("", "")
    inner = "" if prefix else ' xmlns="http://naesb.org/espi"'
    root = "/espi/1_1/resource/RetailCustomer/1/UsagePoint/1"

    def entry(link: str, related: list[str], content: str) -> str:
        links = "".join(f'<link rel="related" href="{href}"/>' for href in related)
        return (f'<entry><link rel="self" href="{link}"/><link rel="up" href="{link[:-2]}"/>{links}'
                f"<content>{content}</content></entry>")  # fmt: skip

    def block(number: int) -> str:
        first = HOUR0 + 5 * 900 * number
        rows = "".join(
            f"<{p}IntervalReading><{p}timePeriod><{p}duration>900</{p}duration>"
            f"<{p}start>{first + 900 * i}</{p}start></{p}timePeriod>"
            f"<{p}value>{100 + 10 * i}</{p}value></{p}IntervalReading>"
            for i in range(5)
        )
        return f"<{p}IntervalBlock{inner}>{rows}</{p}IntervalBlock>"

    meter = f"{root}/MeterReading/1"
    reading_type = (
        f"<{p}ReadingType{inner}><{p}commodity>1</{p}commodity>"
        f"<{p}accumulationBehaviour>4</{p}accumulationBehaviour>"
        f"<{p}powerOfTenMultiplier>{exponent}</{p}powerOfTenMultiplier><{p}uom>{uom}</{p}uom>"
        f"<{p}intervalLength>900</{p}intervalLength></{p}ReadingType>"
    )
    service = (f"<{p}UsagePoint{inner}><{p}ServiceCategory><{p}kind>{kind}</{p}kind>"
               f"</{p}ServiceCategory></{p}UsagePoint>")  # fmt: skip
    entries = [
        entry(root, [f"{root}/MeterReading"], service),
        entry(meter, [f"{meter}/IntervalBlock", "/espi/1_1/resource/ReadingType/7"],
              f"<{p}MeterReading{inner}/>"),
        entry("/espi/1_1/resource/ReadingType/7", [], reading_type),
        *(entry(f"{meter}/IntervalBlock/{n}", [], block(n)) for n in range(2)),
    ]  # fmt: skip
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom"{x}>{"".join(entries)}</feed>'
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + feed).encode()


def parquet(length: int = 40) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = io.BytesIO()
    times = [START + 6 * i for i in range(length)]
    pq.write_table(pa.table({"timestamp": times, "watts": [100.0 + i % 7 for i in times]}), target)
    return target.getvalue()


def channel_folder(root: Path, *, redd: bool = True, seconds: int = 600) -> Path:
    """A house of REDD (two mains at 1 s) or UK-DALE (one aggregate at 6 s), channels misaligned."""
    house = root / ("house_1" if redd else "house_4")
    house.mkdir(parents=True)
    fine = START + np.arange(seconds)
    fridge, kettle = square(seconds, 120, 50, 190, 7), square(seconds, 300, 40, 1500)
    labels = ["mains", "mains", "refrigerator", "kettle"] if redd else ["aggregate", "fridge",
                                                                      "kettle"]  # fmt: skip
    house.joinpath("labels.dat").write_text(
        "".join(f"{i} {name}\n" for i, name in enumerate(labels, 1))
    )
    period = 3 if redd else 6
    offsets = {"refrigerator": 1, "fridge": 2, "kettle": 2}
    for i, name in enumerate(labels, 1):
        step, first = (1, 0) if redd and name == "mains" else (period, offsets.get(name, 0))
        rows = fine[first::step]
        source = {"refrigerator": fridge, "fridge": fridge, "kettle": kettle}.get(name)
        if source is None:
            source = (fridge if i == 1 else kettle) if redd else fridge + kettle
        watts = source[first::step]
        text = "".join(f"{t} {w:.2f}\n" for t, w in zip(rows, watts, strict=True))
        house.joinpath(f"channel_{i}.dat").write_text(text)
    return house


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.fixture(scope="session")
def samples() -> SimpleNamespace:
    """Every maker by its name."""
    makers = {name: value for name, value in globals().items() if callable(value)}
    return SimpleNamespace(**makers, START=START, HOUR0=HOUR0)


@pytest.fixture
def save(tmp_path):
    """Write bytes and give their path."""

    def write(data: bytes, name: str = "file.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def portal(save):
    """A table with a name and the number of a meter, beside the meter and a price."""
    rows = [
        f"Erika Mustermann,9876543210,2024-01-0{1 + i // 24} {i % 24:02d}:00,"
        f"2024-01-0{1 + (i + 1) // 24} {(i + 1) % 24:02d}:00,{0.25 + i % 7:.3f},0.31"
        for i in range(96)
    ]
    header = "Customer,Meter Number,Start,End,Usage (kWh),Price per kWh"
    text = "\n".join(["Account of Erika Mustermann", header, *rows, ""])
    return save(text.encode(), "portal.csv")
