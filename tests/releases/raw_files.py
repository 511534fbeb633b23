"""Raw meter files of a made-up load, for files that differ by one protected change.

A `Load` is a power over continuous time. Every writer meters it as such a meter would (means,
energies, a rounded register, changes of a rounded value) and returns the bytes of a file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from tests.read.spreadsheets import xlsx_bytes

from hushmeter.read import ReadOptions

AMSTERDAM = ZoneInfo("Europe/Amsterdam")


@dataclass(frozen=True)
class Load:
    """A step function: `powers[i]` watts from `edges[i]` seconds on, from 1970."""

    edges: np.ndarray
    powers: np.ndarray

    def plus(self, first: float, stop: float, watts: float) -> Load:
        """The load with a rectangle added."""
        edges = np.unique(np.concatenate([self.edges, [first, stop]]))
        powers = self.at(edges) + np.where((edges >= first) & (edges < stop), watts, 0.0)
        return Load(edges, powers)

    def at(self, times: np.ndarray) -> np.ndarray:
        index = np.searchsorted(self.edges, times, side="right") - 1
        return np.where(index < 0, 0.0, self.powers[np.maximum(index, 0)])

    def energy(self, times: np.ndarray) -> np.ndarray:
        """Energy [Ws] drawn since the first edge."""
        lengths = np.diff(self.edges)
        totals = np.concatenate([[0.0], np.cumsum(self.powers[:-1] * lengths)])
        index = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, None)
        return totals[index] + self.powers[index] * (times - self.edges[index])


@dataclass(frozen=True)
class Meter:
    """Times [s since 1970] and resolution of a meter."""

    start: int
    interval_s: int
    readings: int
    step: float  # of the written value, in its unit
    phase: float = 0.0  # of a register, in steps
    jitter: float = 0.0  # largest delay of a logger [s]
    seed: int = 0

    @property
    def starts(self) -> np.ndarray:
        return self.start + self.interval_s * np.arange(self.readings + 1)

    @property
    def delays(self) -> np.ndarray:
        """The same for both files: a logger does not know what it measures."""
        rng = np.random.default_rng(self.seed)
        return rng.uniform(0.0, self.jitter, self.readings + 1)

    def watts(self, load: Load) -> np.ndarray:
        return np.diff(load.energy(self.starts)) / self.interval_s


def exact_time(seconds):
    """A time that both a float and a text with microseconds hold exactly."""
    return np.floor(np.asarray(seconds) * 64) / 64


def rounded(values, step):
    return np.rint(values / step) * step


def decimals(step):
    return max(0, int(np.ceil(-np.log10(step))))


def utc_text(seconds):
    return datetime.fromtimestamp(float(seconds), UTC).isoformat().replace("+00:00", "Z")


def plain_csv(load, meter):
    values = rounded(meter.watts(load), meter.step)
    places = decimals(meter.step)
    rows = [f"{utc_text(t)},{w:.{places}f}" for t, w in zip(meter.starts[:-1], values, strict=True)]
    content = ("timestamp,watts\n" + "\n".join(rows) + "\n").encode()
    return "meter.csv", content, {"step": meter.step}


def jittered_csv(load, meter):
    """A logger that writes a little late: a timestamp is not a whole multiple."""
    values = rounded(meter.watts(load), meter.step)
    places = decimals(meter.step)
    times = np.round(meter.starts[:-1] + meter.delays[:-1], 1)
    rows = [f"{utc_text(t)},{w:.{places}f}" for t, w in zip(times, values, strict=True)]
    content = ("timestamp,watts\n" + "\n".join(rows) + "\n").encode()
    return "meter.csv", content, {"step": meter.step}


def energy_csv(load, meter):
    """Half-hourly energies, local time with its offset, as suppliers offer them."""
    kwh = np.diff(load.energy(meter.starts)) / 3.6e6
    places = decimals(meter.step)
    zone = ZoneInfo("Europe/London")
    stamps = [datetime.fromtimestamp(float(t), zone).isoformat() for t in meter.starts]
    rows = [
        f"{v:.{places}f}, {stamps[i]}, {stamps[i + 1]}"
        for i, v in enumerate(rounded(kwh, meter.step))
    ]
    content = ("Consumption (kwh), Start, End\n" + "\n".join(rows) + "\n").encode()
    return "meter.csv", content, {"step": meter.step}


def register_csv(load, meter):
    """A counter in kWh that the meter cuts off to its last digit."""
    kwh = load.energy(meter.starts) / 3.6e6
    counts = np.floor(kwh / meter.step + meter.phase + 1e-9) * meter.step + 1000
    places = decimals(meter.step)
    rows = [f"{utc_text(t)},{v:.{places}f}" for t, v in zip(meter.starts, counts, strict=True)]
    content = ("timestamp,register_kwh\n" + "\n".join(rows) + "\n").encode()
    return "meter.csv", content, {"unit": "kWh", "counter": "yes", "step": meter.step}


def ha_history(load, meter):
    """Rows where the rounded power changed, as Home Assistant keeps them."""
    span = load.edges[(load.edges >= meter.start) & (load.edges < meter.starts[-1])]
    moments = np.unique(np.concatenate([[meter.start], span]))
    values = rounded(load.at(moments), meter.step)
    changed = np.concatenate([[True], np.diff(values) != 0])
    places = decimals(meter.step)
    rows = [
        f"sensor.house_power,{v:.{places}f},{utc_text(t)}"
        for t, v in zip(moments[changed], values[changed], strict=True)
    ]
    content = ("entity_id,state,last_changed\n" + "\n".join(rows) + "\n").encode()
    until = utc_text(meter.starts[-1])
    return (
        "history.csv",
        content,
        {
            "reading_length": meter.interval_s,
            "until": until,
            "step": meter.step,
        },
    )


def ha_energy(load, meter):
    kwh = rounded(np.diff(load.energy(meter.starts)) / 3.6e6, meter.step)
    times = [
        datetime.fromtimestamp(float(t), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        for t in meter.starts[:-1]
    ]
    places = decimals(meter.step)
    head = ",".join(["entity_id", "type", "unit", *times])
    row = ",".join(["sensor.grid", "grid_consumption", "kWh", *(f"{v:.{places}f}" for v in kwh)])
    return "energy.csv", f"{head}\n{row}\n".encode(), {"step": meter.step}


def green_button(load, meter):
    """Whole watt-hours per interval."""
    wh = np.rint(np.diff(load.energy(meter.starts)) / 3600).astype(int)
    period = f"<duration>{meter.interval_s}</duration>"
    readings = "".join(
        f"<IntervalReading><timePeriod>{period}<start>{int(t)}</start></timePeriod>"
        f"<value>{v}</value></IntervalReading>"
        for t, v in zip(meter.starts[:-1], wh, strict=True)
    )
    whole = f"<duration>{meter.interval_s * meter.readings}</duration><start>{meter.start}</start>"
    kind = (
        "<accumulationBehaviour>4</accumulationBehaviour><commodity>1</commodity>"
        "<flowDirection>1</flowDirection>"
        f"<intervalLength>{meter.interval_s}</intervalLength><kind>12</kind>"
        "<powerOfTenMultiplier>0</powerOfTenMultiplier><uom>72</uom>"
    )
    espi = 'xmlns="http://naesb.org/espi"'
    meter_link = "/espi/1_1/resource/RetailCustomer/1/UsagePoint/1/MeterReading/1"
    kind_link = "/espi/1_1/resource/ReadingType/1"
    entries = (
        f'<entry><link rel="self" href="{meter_link}"/>'
        f'<link rel="related" href="{meter_link}/IntervalBlock"/>'
        f'<link rel="related" href="{kind_link}"/>'
        f"<content><MeterReading {espi}/></content></entry>"
        f'<entry><link rel="self" href="{kind_link}"/>'
        f"<content><ReadingType {espi}>{kind}</ReadingType></content></entry>"
        f'<entry><link rel="self" href="{meter_link}/IntervalBlock/1"/>'
        f'<link rel="up" href="{meter_link}/IntervalBlock"/>'
        f"<content><IntervalBlock {espi}><interval>{whole}</interval>{readings}"
        "</IntervalBlock></content></entry>"
    )
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'
    return "usage.xml", feed.encode(), {}


def dsmr(load, meter):
    """Telegrams with a checksum; the power is that of the telegram's interval."""
    values = rounded(meter.watts(load) / 1000, 0.001)
    telegrams = []
    for t, value in zip(meter.starts[:-1], values, strict=True):
        local = datetime.fromtimestamp(float(t), AMSTERDAM)
        season = "S" if local.dst() else "W"
        body = (
            "/XYZ5\\2METER\r\n\r\n1-3:0.2.8(50)\r\n"
            f"0-0:1.0.0({local:%y%m%d%H%M%S}{season})\r\n"
            f"1-0:1.7.0({value:06.3f}*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!"
        )
        telegrams.append(f"{body}{crc16(body):04X}\r\n")
    return "telegrams.txt", "".join(telegrams).encode(), {}


def crc16(text):
    register = 0
    for byte in text.encode():
        register = (register >> 8) ^ CRC_TABLE[(register ^ byte) & 0xFF]
    return register


def crc_entry(value):
    for _ in range(8):
        value = (value >> 1) ^ (0xA001 if value & 1 else 0)
    return value


CRC_TABLE = [crc_entry(value) for value in range(256)]


def parquet(load, meter):
    import pyarrow as pa
    from pyarrow import parquet as files

    times = (meter.starts[:-1] * 1_000_000).astype("datetime64[us]")
    values = rounded(meter.watts(load), meter.step)
    table = pa.table(
        {"timestamp": pa.array(times).cast(pa.timestamp("us", "UTC")), "watts": values}
    )
    stream = io.BytesIO()
    files.write_table(table, stream)
    return "meter.parquet", stream.getvalue(), {"step": meter.step}


def xlsx(load, meter):
    """A workbook with dates as a spreadsheet counts them and energies as numbers."""
    kwh = rounded(np.diff(load.energy(meter.starts)) / 3.6e6, meter.step)
    rows = [
        [("date", 25_569 + t / 86_400), v]
        for t, v in zip(meter.starts[:-1].tolist(), kwh.tolist(), strict=True)
    ]
    content = xlsx_bytes({"Data": [["Start", "Import (kWh)"], *rows]})
    return "meter.xlsx", content, {"tz": "UTC", "step": meter.step}


def nem12(load, meter):
    """Days of the Australian market, with empty values before and after the recording."""
    kwh = rounded(np.diff(load.energy(meter.starts)) / 3.6e6, meter.step)
    texts = [f"{v:.{decimals(meter.step)}f}" for v in kwh]
    known = dict(zip(meter.starts[:-1].tolist(), texts, strict=True))
    day, offset = 86_400, 36_000
    first = (meter.start + offset) // day * day - offset
    lines = ["100,NEM12,202403011200,MDA1,Ret1"]
    lines.append(f"200,NCDE001111,E1,1,E1,N1,METER1,kWh,{meter.interval_s // 60},")
    for midnight in range(first, int(meter.starts[-1]), day):
        date = datetime.fromtimestamp(midnight + offset, UTC).strftime("%Y%m%d")
        values = [known.get(midnight + t, "") for t in range(0, day, meter.interval_s)]
        lines.append(f"300,{date},{','.join(values)},A,,,20240301120000,")
    return "meter.csv", "\n".join([*lines, "900"]).encode(), {"step": meter.step}


# Every format with the intervals [s] and the steps of its values (in its own unit).
FORMATS = {
    "plain csv": (plain_csv, (6, 10, 60, 900), (0.01, 1.0, 10.0)),
    "jittered csv": (jittered_csv, (60,), (1.0,)),
    "energy csv": (energy_csv, (1800,), (0.001, 0.01)),
    "register csv": (register_csv, (900, 1800), (0.001, 0.01)),
    "ha history": (ha_history, (10, 60), (0.1, 1.0)),
    "ha energy": (ha_energy, (3600,), (0.001, 0.01)),
    "green button": (green_button, (900, 3600), (1.0,)),
    "dsmr": (dsmr, (10,), (0.001,)),
    "parquet": (parquet, (6, 60), (0.001, 1.0)),
    "xlsx": (xlsx, (900, 3600), (0.001, 0.01)),
    "nem12": (nem12, (900, 1800), (0.001, 0.01)),
}


def options_of(fields):
    return ReadOptions(**fields)


def random_load(start, stop, rng, events=40):
    """Base load and appliances that switch at random moments."""
    moments = exact_time(rng.uniform(start, stop, events))
    edges = np.unique(np.concatenate([[start - 7200.0], moments]))
    powers = rng.choice([80.0, 95.5, 180.0, 320.0, 1450.0, 2180.0], edges.size)
    # No value lies exactly between two steps of a meter, where the last bit would decide.
    powers += rng.uniform(0.0, 1.0, edges.size)
    return Load(edges, powers)


def clock_change(year=2024, autumn=True):
    """The start of a civil day of 25 (or 23) hours in Amsterdam."""
    day = datetime(year, 10, 27) if autumn else datetime(year, 3, 31)
    return int(day.replace(tzinfo=AMSTERDAM).timestamp())


def ordinary_day(day):
    return int((datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day)).timestamp())
