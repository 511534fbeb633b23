"""Raw meter files of a made-up home, for files that differ by one protected change.

A `House` is the power of every load over continuous time. A writer lets a meter, its registers,
plugs and portal record the house as such devices do, and returns the bytes of a file: every column
that a run of an appliance changes is changed, not the meter's alone.
"""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from tests.read.spreadsheets import xlsx_bytes
from tests.read.test_home_automation import RECORDER

from hushmeter.read import ReadOptions

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
LONDON = ZoneInfo("Europe/London")
PLUGS = ("kettle", "fridge", "washing machine", "heat pump")


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

    def part(self, sign: int) -> Load:
        """What is drawn (1) or fed in (-1)."""
        return Load(self.edges, np.maximum(sign * self.powers, 0.0))


@dataclass(frozen=True)
class House:
    """The loads of a home by name, and what its panels produce."""

    loads: dict[str, Load]
    solar: Load

    def plus(self, name: str, first: float, stop: float, watts: float) -> House:
        return replace(self, loads={**self.loads, name: self.loads[name].plus(first, stop, watts)})

    @cached_property
    def net(self) -> Load:
        """What the meter sees: drawn is positive, fed in is negative."""
        edges = np.unique(
            np.concatenate([load.edges for load in (*self.loads.values(), self.solar)])
        )
        powers = sum(load.at(edges) for load in self.loads.values()) - self.solar.at(edges)
        return Load(edges, powers)

    @cached_property
    def use(self) -> Load:
        edges = np.unique(np.concatenate([load.edges for load in self.loads.values()]))
        return Load(edges, sum(load.at(edges) for load in self.loads.values()))


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

    @property
    def places(self) -> int:
        return decimals(self.step)

    @property
    def spoilt(self) -> np.ndarray:
        """Rows in which a device or the portal failed, whatever it measured."""
        rng = np.random.default_rng([self.seed, 7])
        return np.sort(rng.choice(self.readings, max(1, self.readings // 40), replace=False))

    @property
    def cheap(self) -> np.ndarray:
        """True for intervals of the cheap tariff, from 23 to 7 o'clock."""
        hours = np.array([at(t, AMSTERDAM).hour for t in self.starts[:-1]])
        return (hours >= 23) | (hours < 7)

    def watts(self, load: Load) -> np.ndarray:
        return np.diff(load.energy(self.starts)) / self.interval_s

    def kwh(self, load: Load, times: np.ndarray | None = None) -> np.ndarray:
        return np.diff(load.energy(self.starts if times is None else times)) / 3.6e6

    def counts(self, energies, number: int = 0, offset: float = 1000.0) -> np.ndarray:
        """A register, in kWh, that is cut off to its last digit; each has a phase of its own."""
        kwh = np.concatenate([[0.0], np.cumsum(energies)])
        phase = (self.phase + 0.37 * number) % 1.0
        return np.floor(kwh / self.step + phase + 1e-9) * self.step + offset

    def texts(self, values) -> list[str]:
        return [f"{v:.{self.places}f}" for v in rounded(values, self.step)]


def exact_time(seconds):
    """A time that both a float and a text with microseconds hold exactly."""
    return np.floor(np.asarray(seconds) * 64) / 64


def rounded(values, step):
    return np.rint(np.asarray(values) / step) * step + 0.0


def decimals(step):
    return max(0, int(np.ceil(-np.log10(step))))


def at(seconds, zone=UTC):
    return datetime.fromtimestamp(float(seconds), zone)


def utc_text(seconds):
    return at(seconds).isoformat().replace("+00:00", "Z")


def stamps(times, pattern, zone=UTC):
    return [at(t, zone).strftime(pattern) for t in times]


# Columns of a table -----------------------------------------------------------------------------


@dataclass
class Sheet:
    """A table as rows of cells, with what its user has to state about it."""

    header: list[str]
    columns: list[list]
    options: dict = field(default_factory=dict)
    preamble: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()

    @property
    def rows(self):
        return list(zip(*self.columns, strict=True))


def utc_stamps(meter):
    return [utc_text(t) for t in meter.starts[:-1]]


def power_of_plugs(house, meter, off):
    """The plugs in whole watts, and what they write while nothing runs."""
    columns = []
    for name in PLUGS:
        watts = np.rint(meter.watts(house.loads[name])).astype(int)
        columns.append([str(w) if w > 0 else off for w in watts])
    return columns


def plain(house, meter):
    return Sheet(
        ["timestamp", "watts"],
        [utc_stamps(meter), meter.texts(meter.watts(house.net))],
        {"step": meter.step},
    )


def with_plugs(off):
    def sheet(house, meter):
        own = plain(house, meter)
        return Sheet(
            [*own.header, *PLUGS], [*own.columns, *power_of_plugs(house, meter, off)], own.options
        )

    return sheet


def with_plug_registers(house, meter):
    own = plain(house, meter)
    counters = [
        [f"{v:.2f}" for v in np.floor(np.cumsum(meter.kwh(house.loads[n])) / 0.01) * 0.01]
        for n in PLUGS
    ]
    names = [f"{name} total kWh" for name in PLUGS]
    return Sheet(
        ["timestamp", "power (W)", *names],
        [*own.columns, *counters],
        {**own.options, "value_column": "power (W)"},
    )


def semicolons(house, meter):
    """Decimal commas and local times, as European portals write them."""
    texts = [t.replace(".", ",") for t in meter.texts(meter.watts(house.net))]
    times = stamps(meter.starts[:-1], "%d.%m.%Y %H:%M:%S")
    return Sheet(["Datum", "Leistung (W)"], [times, texts], {"tz": "UTC", "step": meter.step})


def jittered(house, meter):
    """A logger that writes a little late: a timestamp is not a whole multiple."""
    own = plain(house, meter)
    own.columns[0] = [utc_text(t) for t in np.round(meter.starts[:-1] + meter.delays[:-1], 1)]
    return replace(own, options={**own.options, "changes": "no"})


def missing_marks(house, meter):
    own = plain(house, meter)
    for row in meter.spoilt:
        own.columns[1][row] = ("-", "n/a", "")[row % 3]
    return replace(own, options={**own.options, "changes": "no"})


def unit_in_cells(house, meter):
    """Watts below one kilowatt and kilowatts above it, as people read them."""
    watts = rounded(meter.watts(house.net), 1.0)
    cells = [f"{w:.0f} W" if w < 1000 else f"{w / 1000:.2f} kW" for w in watts]
    return Sheet(["timestamp", "power"], [utc_stamps(meter), cells], {"step": 10.0, "unit": "W"})


def same_unit_in_cells(house, meter):
    cells = [f"{t} W" for t in meter.texts(meter.watts(house.net))]
    return Sheet(["timestamp", "power"], [utc_stamps(meter), cells], {"step": meter.step})


def out_of_range(word, most):
    def sheet(house, meter):
        own = plain(house, meter)
        watts = meter.watts(house.net)
        own.columns[1] = [
            word if w > most else t for w, t in zip(watts, own.columns[1], strict=True)
        ]
        return own

    return sheet


def derived(house, meter):
    """What portals show beside the energy: cost, peak, a word, the quality, a running total."""
    kwh = meter.kwh(house.net)
    peaks = [
        f"{house.net.at(np.arange(t, t + meter.interval_s, 60.0)).max():.0f}"
        for t in meter.starts[:-1]
    ]
    words = ["high" if v * 3600 / meter.interval_s > 1 else "normal" for v in kwh]
    quality = ["actual"] * meter.readings
    for row in meter.spoilt:
        quality[row] = "estimated"
    return Sheet(
        ["Start", "Consumption (kWh)", "Cost (EUR)", "Max power (W)", "Status", "Quality"],
        [
            utc_stamps(meter),
            meter.texts(kwh),
            [f"{0.31 * v:.2f}" for v in kwh],
            peaks,
            words,
            quality,
        ],
        {"step": meter.step},
    )


def daily_totals(house, meter):
    """A row with the energy of the day after the rows of each day."""
    kwh = meter.kwh(house.net)
    days = np.array(stamps(meter.starts[:-1], "%Y-%m-%d"))
    cells, rows = list(zip(utc_stamps(meter), meter.texts(kwh), strict=True)), []
    for day in np.unique(days):
        mine = np.flatnonzero(days == day)
        rows += [cells[i] for i in mine]
        rows.append((f"Total {day}", f"{kwh[mine].sum():.3f}"))
    return Sheet(
        ["Start", "Usage (kWh)"], [list(c) for c in zip(*rows, strict=True)], {"step": meter.step}
    )


def import_and_export(house, meter):
    kwh = [meter.kwh(house.net.part(sign)) for sign in (1, -1)]
    return Sheet(
        ["Start", "Import (kWh)", "Export (kWh)"],
        [utc_stamps(meter), meter.texts(kwh[0]), meter.texts(kwh[1])],
        {"step": meter.step},
    )


def signed(house, meter):
    """One column that is negative while the panels feed in."""
    return plain(house, meter)


def direction_word(house, meter):
    """The amount, and a word for its direction."""
    kwh = meter.kwh(house.net)
    words = ["Import" if v >= 0 else "Export" for v in kwh]
    return Sheet(
        ["timestamp", "direction", "kWh"],
        [utc_stamps(meter), words, meter.texts(np.abs(kwh))],
        {"step": meter.step},
    )


def direction_rows(house, meter):
    """A row for each direction in every interval."""
    kwh = [meter.texts(meter.kwh(house.net.part(sign))) for sign in (1, -1)]
    rows = [
        (t, word, kwh[side][i])
        for i, t in enumerate(utc_stamps(meter))
        for side, word in enumerate(("Import", "Export"))
    ]
    return Sheet(
        ["timestamp", "direction", "kWh"], [list(c) for c in zip(*rows, strict=True)],
        {"step": meter.step},
    )  # fmt: skip


def register(house, meter):
    """A counter in kWh that the meter cuts off to its last digit."""
    counts = meter.counts(meter.kwh(house.net))
    return Sheet(
        ["timestamp", "register_kwh"],
        [[utc_text(t) for t in meter.starts], [f"{v:.{meter.places}f}" for v in counts]],
        {"unit": "kWh", "counter": "yes", "step": meter.step},
    )


def uneven_register(house, meter):
    """A counter whose logger is restarted now and then: some rows come late, the next one soon."""
    rng = np.random.default_rng(meter.seed)
    late = rng.random(meter.readings + 1) < 0.04
    minutes = np.floor(rng.uniform(0.0, 0.95, late.size) * meter.interval_s / 10) * 10
    times = meter.starts + np.where(late, minutes, 0.0)
    counts = meter.counts(meter.kwh(house.net, times))
    return Sheet(
        ["timestamp", "register_kwh"],
        [[utc_text(t) for t in times], [f"{v:.{meter.places}f}" for v in counts]],
        {"unit": "kWh", "counter": "yes", "step": meter.step, "changes": "no"},
    )


def tariff_registers(house, meter):
    kwh = meter.kwh(house.net.part(1))
    back = meter.kwh(house.net.part(-1))
    columns = [
        meter.counts(np.where(meter.cheap == low, energies, 0.0), 2 * k + low)
        for k, energies in enumerate((kwh, back))
        for low in (True, False)
    ]
    return Sheet(
        ["time", "Import T1 kWh", "Import T2 kWh", "Export T1 kWh", "Export T2 kWh"],
        [
            stamps(meter.starts, "%Y-%m-%d %H:%M:%S", AMSTERDAM),
            *([f"{v:.{meter.places}f}" for v in c] for c in columns),
        ],
        {"step": meter.step},
    )


def tariff_energies(house, meter):
    """The energy in the column of its tariff; the other one is empty."""
    texts = meter.texts(meter.kwh(house.net))
    low = [t if c else "" for t, c in zip(texts, meter.cheap, strict=True)]
    high = ["" if c else t for t, c in zip(texts, meter.cheap, strict=True)]
    return Sheet(
        ["Start", "Verbruik laag (kWh)", "Verbruik hoog (kWh)"], [utc_stamps(meter), low, high],
        {"step": meter.step},
    )  # fmt: skip


def changes_only(stated):
    """A logger that looks every interval and writes a row if its value is another one."""

    def sheet(house, meter):
        own = plain(house, meter)
        values = rounded(house.net.at(meter.starts[:-1].astype(float)), meter.step)
        new = np.concatenate([[True], np.diff(values) != 0])
        times, texts = np.array(own.columns[0])[new], np.array(meter.texts(values))[new]
        return Sheet(own.header, [times.tolist(), texts.tolist()], {**own.options, **stated(meter)})

    return sheet


def stated_changes(meter):
    return {
        "changes": "yes",
        "reading_length": meter.interval_s,
        "start": utc_text(meter.start),
        "end": utc_text(meter.starts[-1]),
    }


def changes_at_once(house, meter):
    """A device that writes a row whenever its rounded value changes."""
    moments, values = changes_of(house.net, meter, meter.step)
    options = {"step": meter.step, **stated_changes(meter)}
    times = [utc_text(t) for t in moments]
    return Sheet(["timestamp", "watts"], [times, meter.texts(values)], options)


def samples(house, meter):
    """The power at the moment of every row, not its mean."""
    own = plain(house, meter)
    own.columns[1] = meter.texts(house.net.at(meter.starts[:-1].astype(float)))
    return own


def newest_first(house, meter):
    own = import_and_export(house, meter)
    return replace(own, columns=[column[::-1] for column in own.columns])


def merged_rows(house, meter):
    """Starts and ends; a portal merged three rows into one."""
    first = min(int(meter.spoilt[0]), meter.readings - 3)
    times = np.delete(meter.starts, [first + 1, first + 2])
    texts = meter.texts(meter.kwh(house.net, times))
    return Sheet(
        ["Consumption (kwh)", "Start", "End"],
        [texts, [utc_text(t) for t in times[:-1]], [utc_text(t) for t in times[1:]]],
        {"step": meter.step},
    )


def octopus(house, meter):
    zoned = [at(t, LONDON).isoformat() for t in meter.starts]
    return Sheet(
        ["Consumption (kwh)", " Start", " End"],
        [meter.texts(meter.kwh(house.net)), zoned[:-1], zoned[1:]], {"step": meter.step},
    )  # fmt: skip


def n3rgy(house, meter):
    return Sheet(
        ["timestamp (UTC)", "energyConsumption (kWh)"],
        [stamps(meter.starts[1:], "%Y-%m-%d %H:%M"), meter.texts(meter.kwh(house.net))],
        {"step": meter.step},
    )


def esb(house, meter):
    """Both directions, newest first, ends in local time."""
    rows = []
    ends = stamps(meter.starts[1:], "%d-%m-%Y %H:%M", ZoneInfo("Europe/Dublin"))
    for sign, word in ((-1, "Active Export Interval (kWh)"), (1, "Active Import Interval (kWh)")):
        texts = meter.texts(meter.kwh(house.net.part(sign)))
        rows += [("10001", "S1", t, word, e) for t, e in zip(texts, ends, strict=True)]
    header = ["MPRN", "Meter Serial Number", "Read Value", "Read Type", "Read Date and End Time"]
    return Sheet(header, [list(c)[::-1] for c in zip(*rows, strict=True)], {"step": meter.step})


def fluvius(house, meter):
    """A row for each direction of the tariff that counts, with decimal commas."""
    kwh = [meter.texts(meter.kwh(house.net.part(sign))) for sign in (1, -1)]
    zone = ZoneInfo("Europe/Brussels")
    rows = []
    for i, (first, last) in enumerate(zip(meter.starts[:-1], meter.starts[1:], strict=True)):
        for side, word in enumerate(("Offtake", "Injection")):
            ends = [
                at(t, zone).strftime(p) for t in (first, last) for p in ("%d/%m/%Y", "%H:%M:%S")
            ]
            name = f"{word} {'Night' if meter.cheap[i] else 'Day'}"
            value = "" if i in meter.spoilt else kwh[side][i].replace(".", ",")
            state = "No consumption" if i in meter.spoilt else "Read"
            rows.append((*ends, '="541"', "1SAG1", "Digital meter", name, value, "kWh", state))
    header = [
        "From (date)", "From (time)", "Until (date)", "Until (time)", "EAN code", "Meter",
        "Meter type", "Register", "Volume", "Unit", "Validation status",
    ]  # fmt: skip
    options = {"tz": "Europe/Brussels", "step": meter.step, "changes": "no"}
    return Sheet(header, [list(c) for c in zip(*rows, strict=True)], options)


def enedis(house, meter):
    ends = [at(t, ZoneInfo("Europe/Paris")).isoformat() for t in meter.starts[1:]]
    return Sheet(
        ["Horodate", "Valeur"],
        [ends, [f"{v:.0f}" for v in np.rint(meter.watts(house.net))]],
        {"step": 1.0},
        ("Identifiant PRM;Type de donnees;Unite", "142;Courbe de charge;W"),
    )


def enedis_index(house, meter):
    """Registers of two tariffs in watt-hours, and their sum."""
    kwh = meter.kwh(house.net)
    wh = [meter.counts(np.where(meter.cheap == low, kwh, 0.0), low) * 1000 for low in (True, False)]
    columns = [*wh, meter.counts(kwh, 3) * 1000]
    zoned = [at(t, ZoneInfo("Europe/Paris")).isoformat() for t in meter.starts]
    return Sheet(
        ["Horodate", "Type de releve", "EAS F1", "EAS F2", "EAS T"],
        [zoned, ["Arrete"] * len(zoned), *([f"{v:.0f}" for v in c] for c in columns)],
        {"unit": "Wh", "step": 1000 * meter.step},
    )


def eloverblik(house, meter):
    times = stamps(meter.starts, "%Y-%m-%d %H.%M")
    texts = [t.replace(".", ",") for t in meter.texts(meter.kwh(house.net))]
    count = meter.readings
    return Sheet(
        ["Malepunkt id", "Fra dato", "Til dato", "Maengde", "Maleenhed", "Kvalitet", "Type"],
        [["57131"] * count, times[:-1], times[1:], texts, ["KWH"] * count, ["Malt"] * count,
         ["Tidsserier"] * count],
        {"tz": "UTC", "step": meter.step},
    )  # fmt: skip


def enphase(house, meter):
    wh = [np.rint(1000 * meter.kwh(load)).astype(int).astype(str).tolist() for load in (
        house.solar, house.use, house.net.part(-1), house.net.part(1))]  # fmt: skip
    header = ["Date/Time", "Energy Produced (Wh)", "Energy Consumed (Wh)", "Exported to Grid (Wh)",
              "Imported from Grid (Wh)"]  # fmt: skip
    return Sheet(
        header, [stamps(meter.starts[:-1], "%m/%d/%Y %H:%M"), *wh],
        {"tz": "UTC", "step": 1.0, "value_column": "Imported from Grid (Wh)"},
    )  # fmt: skip


def emporia(house, meter):
    """Two phases (the heat pump is on both), a clamp that is not there, and circuits."""
    kwh = [meter.kwh(house.loads[name]) for name in PLUGS]
    first = kwh[0] + kwh[2] + kwh[3] / 2
    texts = [first, meter.kwh(house.net) - first, *kwh]
    names = ["Home-Mains_A (kWhs)", "Home-Mains_B (kWhs)", "Home-Mains_C (kWhs)"]
    columns = [[f"{v:.4f}" for v in c] for c in texts]
    return Sheet(
        ["Time Bucket (UTC)", *names, *(f"Home-{n} (kWhs)" for n in PLUGS)],
        [stamps(meter.starts[:-1], "%m/%d/%Y %H:%M:%S"), *columns[:2], ["No CT"] * meter.readings,
         *columns[2:]],
        {"step": 1e-4, "tz": "UTC"},
    )  # fmt: skip


def uci(house, meter):
    """Kilowatts of the meter, watt-hours of the sub-meters, a current; marks where it failed."""
    kilowatts = [f"{w / 1000:.3f}" for w in meter.watts(house.net)]
    for row in meter.spoilt:
        kilowatts[row] = "?"
    subs = [[f"{1000 * v:.3f}" for v in meter.kwh(house.loads[n])] for n in PLUGS[:3]]
    amperes = [f"{w / 230:.1f}" for w in meter.watts(house.net)]
    header = ["Date", "Time", "Global_active_power", "Global_intensity",
              *(f"Sub_metering_{i}" for i in (1, 2, 3))]  # fmt: skip
    times = [stamps(meter.starts[:-1], p) for p in ("%d/%m/%Y", "%H:%M:%S")]
    return Sheet(
        header, [*times, kilowatts, amperes, *subs],
        {"tz": "UTC", "step": 0.001, "changes": "no"},
    )  # fmt: skip


def refit(house, meter):
    """Samples of the meter and nine plugs; Issues marks rows where the plugs exceed the meter."""
    total = np.rint(meter.watts(house.net))
    plugs = [np.rint(meter.watts(house.loads[n])) for n in PLUGS]
    issues = (np.sum(plugs, axis=0) > total).astype(int)
    columns = [np.array(c, dtype=int).astype(str).tolist() for c in (total, *plugs, issues)]
    header = ["Time", "Unix", "Aggregate", *(f"Appliance{i}" for i in (1, 2, 3, 4)), "Issues"]
    unix = [str(int(t)) for t in meter.starts[:-1]]
    return Sheet(
        header, [stamps(meter.starts[:-1], "%Y-%m-%d %H:%M:%S"), unix, *columns], {"step": 1.0}
    )


def slimme_meter(house, meter):
    """Quarter hours in two tariffs, both directions, ends in local time."""
    columns = [
        meter.texts(np.where(meter.cheap == low, meter.kwh(house.net.part(sign)), 0.0))
        for sign in (1, -1)
        for low in (False, True)
    ]
    names = ["levering_normaal", "levering_laag", "teruglevering_normaal", "teruglevering_laag"]
    ends = stamps(meter.starts[1:], "%Y-%m-%d %H:%M:%S")
    return Sheet(
        ["datum_tijd", *names],
        [ends, *columns],
        {"tz": "UTC", "unit": "kWh", "step": meter.step},
    )


def energie_manager(house, meter):
    """Registers of several codes in rows, with their factor."""
    rows = []
    for k, (code, load) in enumerate((("ellm", house.net.part(1)), ("elrm", house.net.part(-1)))):
        for t, v in zip(meter.starts, meter.counts(meter.kwh(load), k), strict=True):
            rows.append(
                ("home", "8717", code, str(int(t)), utc_text(t), f"{v * 1000:.0f}", "0.001", "0")
            )
    header = ["name", "ean", "code", "moment", "moment-date", "value", "factor", "type"]
    options = {"unit": "Wh", "step": 1000 * meter.step}
    return Sheet(header, [list(c) for c in zip(*rows, strict=True)], options)


def day_rows(house, meter):
    """One row for each day, and the total of the day."""
    kwh = meter.texts(meter.kwh(house.net))
    a_day = 86_400 // meter.interval_s
    days = len(kwh) // a_day
    times = [f"{h // 60:02d}:{h % 60:02d}" for h in range(0, 1440, meter.interval_s // 60)]
    dates = [at(meter.start + 86_400 * d).strftime("%d/%m/%Y") for d in range(days)]
    rows = np.array(kwh[: days * a_day]).reshape(days, a_day)
    totals = [f"{sum(map(float, row)):.3f}" for row in rows]
    return Sheet(
        ["Date", *times, "Total"], [dates, *rows.T.tolist(), totals],
        {"tz": "UTC", "unit": "kWh", "step": meter.step},
    )  # fmt: skip


# Containers -------------------------------------------------------------------------------------


def csv(sheet, mark=","):
    lines = [
        *sheet.preamble,
        mark.join(sheet.header),
        *(mark.join(map(str, r)) for r in sheet.rows),
    ]
    return "meter.csv", "\n".join([*lines, *sheet.footer, ""]).encode(), sheet.options


def semicolon_csv(sheet):
    return csv(sheet, ";")


def typed(cell):
    try:
        return float(cell)
    except ValueError:
        return cell or None


def xlsx(sheet):
    rows = [[cell if j == 0 else typed(cell) for j, cell in enumerate(row)] for row in sheet.rows]
    return "meter.xlsx", xlsx_bytes({"Data": [sheet.header, *rows]}), sheet.options


def parquet(sheet):
    import pyarrow as pa
    from pyarrow import parquet as files

    columns = {}
    for name, cells in zip(sheet.header, sheet.columns, strict=True):
        values = [typed(cell) for cell in cells]
        columns[name] = values if not any(isinstance(v, str) for v in values) else cells
    stream = io.BytesIO()
    files.write_table(pa.table(columns), stream)
    return "meter.parquet", stream.getvalue(), sheet.options


def json_records(sheet):
    records = [
        {n: c if n == sheet.header[0] else typed(c) for n, c in zip(sheet.header, r, strict=True)}
        for r in sheet.rows
    ]
    return "meter.json", json.dumps({"meter": "m1", "readings": records}).encode(), sheet.options


def zipped(sheet):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "readings")
        archive.writestr("meter.csv", csv(sheet)[1])
    return "meter.zip", stream.getvalue(), sheet.options


def gzipped(sheet):
    return "meter.csv.gz", gzip.compress(csv(sheet)[1], mtime=0), sheet.options


def blocks(sheet):
    """Tables of what was drawn, fed in, and of their sum, one below the other."""
    header, texts = f"{sheet.header[0]};Value (kWh)", []
    drawn, fed = (list(map(float, column)) for column in sheet.columns[1:])
    balance = [d - f for d, f in zip(drawn, fed, strict=True)]
    for values in (drawn, [-f for f in fed], balance):
        rows = zip(sheet.columns[0], values, strict=True)
        texts += [header, *(f"{t};{v + 0.0:.3f}" for t, v in rows)]
    return "meter.csv", ("\n".join(texts) + "\n").encode(), sheet.options


def written(container, sheet):
    def write(house, meter):
        return container(sheet(house, meter))

    return write


# Formats of their own ---------------------------------------------------------------------------


def changes_of(load, meter, step):
    """Moments and rounded values at which the power of a load changes."""
    span = load.edges[(load.edges >= meter.start) & (load.edges < meter.starts[-1])]
    moments = np.unique(np.concatenate([[meter.start], span]))
    values = rounded(load.at(moments), step)
    new = np.concatenate([[True], np.diff(values) != 0])
    return moments[new], values[new]


def stated_part(meter):
    return {
        "reading_length": meter.interval_s,
        "start": utc_text(meter.start),
        "end": utc_text(meter.starts[-1]),
        "step": meter.step,
    }


def ha_history(house, meter):
    """Rows where a rounded power changed, of the meter and of the plugs."""
    rows = []
    for name, load in (("house", house.net), *((n, house.loads[n]) for n in PLUGS[:2])):
        for t, v in zip(*changes_of(load, meter, meter.step), strict=True):
            rows.append((t, f"sensor.{name}_power,{v:.{meter.places}f},{utc_text(t)}"))
    lines = ["entity_id,state,last_changed", *(text for _, text in sorted(rows))]
    options = {**stated_part(meter), "value_column": "sensor.house_power"}
    return "history.csv", ("\n".join(lines) + "\n").encode(), options


def ha_history_alone(house, meter):
    """The download of one sensor, without its end."""
    moments, values = changes_of(house.net, meter, meter.step)
    rows = [f"sensor.house_power,{v:.{meter.places}f},{utc_text(t)}" for t, v in
            zip(moments, values, strict=True)]  # fmt: skip
    text = "\n".join(["entity_id,state,last_changed", *rows]) + "\n"
    return "history.csv", text.encode(), {"reading_length": meter.interval_s, "step": meter.step}


def ha_energy(house, meter):
    """The meter, what was fed in, and devices whose cells are empty while nothing runs."""
    times = [f"{at(t):%Y-%m-%dT%H:%M:%S.000Z}" for t in meter.starts[:-1]]
    rows = [",".join(["entity_id", "type", "unit", *times])]
    for name, kind, load in (
        ("grid", "grid_consumption", house.net.part(1)),
        ("back", "grid_return", house.net.part(-1)),
        *((name, "device_consumption", house.loads[name]) for name in PLUGS),
    ):
        texts = meter.texts(meter.kwh(load))
        if kind == "device_consumption":
            texts = [t if float(t) else "" for t in texts]
        rows.append(",".join([f"sensor.{name}", kind, "kWh", *texts]))
    return "energy.csv", ("\n".join(rows) + "\n").encode(), {"step": meter.step}


def recorder(house, meter, kind):
    """A data base of Home Assistant: states of power, and hourly sums of the energy."""
    database = sqlite3.connect(":memory:")
    database.executescript(RECORDER)
    attributes = json.dumps({"unit_of_measurement": "W"})
    database.execute("INSERT INTO state_attributes (attributes_id, shared_attrs) VALUES (1, ?)",
                     [attributes])  # fmt: skip
    loads = [("house", house.net), *((n, house.loads[n]) for n in PLUGS[:2])]
    for number, (name, load) in enumerate(loads, 1):
        database.execute("INSERT INTO states_meta VALUES (?, ?)", (number, f"sensor.{name}_power"))
        rows = [
            (str(v), t, 1, number)
            for t, v in zip(*changes_of(load, meter, meter.step), strict=True)
        ]
        database.executemany(
            "INSERT INTO states (state, last_updated_ts, attributes_id, metadata_id)"
            " VALUES (?, ?, ?, ?)", rows,
        )  # fmt: skip
        sums = meter.counts(meter.kwh(load), number, 0.0)[1:]
        database.execute(
            "INSERT INTO statistics_meta (id, statistic_id, source, unit_of_measurement, has_mean,"
            " has_sum) VALUES (?, ?, 'recorder', 'kWh', 0, 1)", (number, f"sensor.{name}_energy"),
        )  # fmt: skip
        database.executemany(
            "INSERT INTO statistics (metadata_id, start_ts, sum) VALUES (?, ?, ?)",
            [(number, float(t), v) for t, v in zip(meter.starts[:-1], sums, strict=True)],
        )
    database.commit()
    data = database.serialize()
    database.close()
    options = {"meter": f"sensor.house_{kind}", "step": meter.step}
    return "home.db", data, (stated_part(meter) if kind == "power" else {}) | options


def recorder_states(house, meter):
    return recorder(house, meter, "power")


def recorder_sums(house, meter):
    return recorder(house, meter, "energy")


def green_button(house, meter):
    """Whole watt-hours of both directions, and their cost."""
    espi = 'xmlns="http://naesb.org/espi"'
    base = "/espi/1_1/resource/RetailCustomer/1/UsagePoint/1/MeterReading"
    whole = f"<duration>{meter.interval_s * meter.readings}</duration><start>{meter.start}</start>"
    period = f"<duration>{meter.interval_s}</duration>"
    entries = ""
    for number, flow, sign in ((1, 1, 1), (2, 19, -1)):
        wh = np.rint(1000 * meter.kwh(house.net.part(sign))).astype(int)
        readings = "".join(
            f"<IntervalReading><cost>{31 * v}</cost><timePeriod>{period}<start>{int(t)}</start>"
            f"</timePeriod><value>{v}</value></IntervalReading>"
            for t, v in zip(meter.starts[:-1], wh, strict=True)
        )
        kind = (
            "<accumulationBehaviour>4</accumulationBehaviour><commodity>1</commodity>"
            f"<flowDirection>{flow}</flowDirection>"
            f"<intervalLength>{meter.interval_s}</intervalLength><kind>12</kind>"
            "<powerOfTenMultiplier>0</powerOfTenMultiplier><uom>72</uom>"
        )
        link, kind_link = f"{base}/{number}", f"/espi/1_1/resource/ReadingType/{number}"
        entries += (
            f'<entry><link rel="self" href="{link}"/>'
            f'<link rel="related" href="{link}/IntervalBlock"/>'
            f'<link rel="related" href="{kind_link}"/>'
            f"<content><MeterReading {espi}/></content></entry>"
            f'<entry><link rel="self" href="{kind_link}"/>'
            f"<content><ReadingType {espi}>{kind}</ReadingType></content></entry>"
            f'<entry><link rel="self" href="{link}/IntervalBlock/1"/>'
            f'<link rel="up" href="{link}/IntervalBlock"/>'
            f"<content><IntervalBlock {espi}><interval>{whole}</interval>{readings}"
            "</IntervalBlock></content></entry>"
        )
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'
    return "usage.xml", feed.encode(), {}


def dsmr(house, meter):
    """Telegrams with a checksum: power and registers of both directions, and the tariff."""
    drawn, fed = (rounded(meter.watts(house.net.part(s)) / 1000, 0.001) for s in (1, -1))
    registers = [
        replace(meter, step=0.001).counts(
            np.where(meter.cheap == low, meter.kwh(house.net.part(s)), 0)
        )
        for s in (1, -1)
        for low in (True, False)
    ]
    telegrams = []
    for i, t in enumerate(meter.starts[:-1]):
        local = at(t, AMSTERDAM)
        season = "S" if local.dst() else "W"
        lines = [
            "/XYZ5\\2METER", "", "1-3:0.2.8(50)", f"0-0:1.0.0({local:%y%m%d%H%M%S}{season})",
            *(f"1-0:{c}({registers[k][i + 1]:010.3f}*kWh)" for k, c in
              enumerate(("1.8.1", "1.8.2", "2.8.1", "2.8.2"))),
            f"0-0:96.14.0({1 if meter.cheap[i] else 2:04d})",
            f"1-0:1.7.0({drawn[i]:06.3f}*kW)", f"1-0:2.7.0({fed[i]:06.3f}*kW)", "!",
        ]  # fmt: skip
        body = "\r\n".join(lines)
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


def nem12(house, meter):
    """Days of the Australian market: both directions, substituted values and their events."""
    known = {}
    for suffix, sign in (("E1", 1), ("B1", -1)):
        texts = meter.texts(meter.kwh(house.net.part(sign)))
        known[suffix] = dict(zip(meter.starts[:-1].tolist(), texts, strict=True))
    day, offset = 86_400, 36_000
    a_day = day // meter.interval_s
    first = (meter.start + offset) // day * day - offset
    lines = ["100,NEM12,202403011200,MDA1,Ret1"]
    for suffix, values in known.items():
        lines.append(f"200,NCDE001111,E1B1,1,{suffix},N1,METER1,kWh,{meter.interval_s // 60},")
        for number, midnight in enumerate(range(first, int(meter.starts[-1]), day)):
            date = at(midnight + offset).strftime("%Y%m%d")
            cells = [values.get(midnight + t, "") for t in range(0, day, meter.interval_s)]
            flagged = number == 1 and meter.seed % 2
            lines.append(
                f"300,{date},{','.join(cells)},{'V' if flagged else 'A'},,,20240301120000,"
            )
            if flagged:
                lines.append(f"400,1,{a_day // 2},A,,")
                lines.append(f"400,{a_day // 2 + 1},{a_day},S14,32,")
    return "meter.csv", "\n".join([*lines, "900"]).encode(), {"step": meter.step}


def nilmtk(house, meter):
    """A site meter, and plugs that log only while something runs."""
    import pandas as pd

    options = {"driver": "H5FD_CORE", "driver_core_backing_store": 0}
    with pd.HDFStore(f"home-{meter.seed}.h5", "w", **options) as store:
        times = pd.to_datetime(meter.starts[:-1], unit="s", utc=True)
        for number, load in enumerate((house.net, *(house.loads[n] for n in PLUGS[:2])), 1):
            watts = rounded(meter.watts(load), meter.step)
            there = watts > 0 if number > 1 else np.ones(watts.size, bool)
            there[[0, -1]] = True
            columns = pd.MultiIndex.from_tuples(
                [("power", "active")], names=["physical_quantity", "type"]
            )
            frame = pd.DataFrame(watts[there, None], index=times[there], columns=columns)
            store.put(f"/building1/elec/meter{number}", frame, format="table", track_times=False)
        group = store.root._v_file.get_node("/building1")
        group._v_attrs.metadata = {
            "instance": 1,
            "elec_meters": {1: {"site_meter": True}, 2: {"submeter_of": 1}, 3: {"submeter_of": 1}},
            "appliances": [
                {"type": name, "instance": 1, "meters": [i]} for i, name in enumerate(PLUGS[:2], 2)
            ],
        }
        store.flush()
        data = store._handle.get_file_image()
    return "home.h5", data, {"step": meter.step}


@dataclass(frozen=True)
class Writer:
    """A kind of file: how it is written, and what may happen to it.

    `compared` is False where every release must be refused. `refused_one` says that a value may
    refuse the file on purpose, before anything is published, and names the value. `word` is this
    value where it is a word: a file is refused if it has the word, and only then.
    """

    write: Callable
    intervals: tuple[int, ...]
    steps: tuple[float, ...]
    solar: bool = False
    compared: bool = True
    refused_one: str = ""
    word: bytes = b""
    days: int = 0


POWER, ENERGY = (1.0, 0.01, 10.0), (0.001, 0.01)
MINUTES, QUARTERS = (10, 60), (900, 1800)

WRITERS = {
    "plain csv": Writer(written(csv, plain), (6, 10, 60, 900), POWER),
    "semicolon csv": Writer(written(semicolon_csv, semicolons), (60, 900), (0.1,)),
    "jittered csv": Writer(written(csv, jittered), (60,), (1.0,)),
    "plugs empty while off": Writer(written(csv, with_plugs("")), (60, 900), POWER),
    "plugs zero while off": Writer(written(csv, with_plugs("0")), (60,), POWER),
    "plugs with a word while off": Writer(written(csv, with_plugs("off")), (60,), POWER),
    "plug registers": Writer(written(csv, with_plug_registers), (60,), (1.0,)),
    "missing marks": Writer(written(csv, missing_marks), (60, 900), (1.0,)),
    "unit in cells": Writer(written(csv, unit_in_cells), (60,), (1.0,)),
    "one unit in cells": Writer(written(csv, same_unit_in_cells), (60,), (1.0, 0.1)),
    "out of range": Writer(
        written(csv, out_of_range(">4000", 4000)),
        (60,),
        (1.0,),
        refused_one="a word for much",
        word=b">4000",
    ),
    "overload": Writer(
        written(csv, out_of_range("OL", 4000)),
        (60,),
        (1.0,),
        refused_one="a word for much",
        word=b"OL",
    ),
    "derived columns": Writer(written(csv, derived), QUARTERS, ENERGY),
    "daily totals": Writer(written(csv, daily_totals), QUARTERS, ENERGY),
    "import and export": Writer(written(csv, import_and_export), QUARTERS, ENERGY, solar=True),
    "signed csv": Writer(written(csv, signed), (60, 900), (1.0,), solar=True),
    "direction by word": Writer(
        written(csv, direction_word),
        QUARTERS,
        (0.001,),
        solar=True,
    ),
    "direction in rows": Writer(written(csv, direction_rows), QUARTERS, (0.001,), solar=True),
    "register csv": Writer(written(csv, register), QUARTERS, ENERGY),
    "register of minutes": Writer(written(csv, register), (60,), (1e-4,)),
    "uneven register": Writer(written(csv, uneven_register), (900, 60), (1e-5,)),
    "tariff registers": Writer(written(csv, tariff_registers), QUARTERS, (0.001, 1e-4), solar=True),
    "tariff energies": Writer(written(csv, tariff_energies), QUARTERS, ENERGY),
    "changes in a csv": Writer(
        written(csv, changes_only(lambda _: {})),
        MINUTES,
        (1.0,),
        compared=False,
        refused_one="a row for every change",
    ),
    "changes, stated": Writer(written(csv, changes_at_once), MINUTES, (1.0,)),
    "newest first": Writer(written(csv, newest_first), QUARTERS, (0.001,), solar=True),
    "merged rows": Writer(written(csv, merged_rows), (1800,), (0.001,), compared=False),
    "blocks": Writer(
        written(blocks, import_and_export),
        QUARTERS,
        (0.001,),
        solar=True,
        refused_one="a table of what was fed in that is empty",
    ),
    "day rows": Writer(written(semicolon_csv, day_rows), QUARTERS, (0.001,), days=3),
    "octopus": Writer(written(csv, octopus), (1800,), ENERGY),
    "n3rgy": Writer(written(csv, n3rgy), (1800,), (0.001,)),
    "esb": Writer(written(csv, esb), (1800,), (0.001,), solar=True),
    "fluvius": Writer(written(semicolon_csv, fluvius), (900,), (0.001,), solar=True),
    "enedis": Writer(written(semicolon_csv, enedis), (1800,), (1.0,)),
    "enedis index": Writer(written(semicolon_csv, enedis_index), QUARTERS, (0.001,)),
    "eloverblik": Writer(written(semicolon_csv, eloverblik), (3600,), (0.001,)),
    "enphase": Writer(written(csv, enphase), (900, 3600), (1.0,), solar=True),
    "emporia": Writer(written(csv, emporia), (60, 3600), (1e-4,)),
    "uci": Writer(written(semicolon_csv, uci), (60,), (0.001,)),
    "refit": Writer(written(csv, refit), (10,), (1.0,)),
    "slimme meter": Writer(written(semicolon_csv, slimme_meter), (900,), (0.001,), solar=True),
    "energie manager": Writer(
        written(semicolon_csv, energie_manager), (900,), (0.001,), solar=True
    ),
    "xlsx": Writer(written(xlsx, derived), (900, 3600), ENERGY),
    "xlsx with plugs": Writer(written(xlsx, with_plugs("")), (900,), (1.0,)),
    "parquet": Writer(written(parquet, with_plugs("")), (6, 60), (0.001, 1.0)),
    "json": Writer(written(json_records, derived), QUARTERS, ENERGY),
    "json with plugs": Writer(written(json_records, with_plugs("")), (60,), (1.0,)),
    "zip": Writer(written(zipped, with_plugs("")), (60,), (1.0,)),
    "gzip": Writer(written(gzipped, import_and_export), QUARTERS, (0.001,), solar=True),
    "ha history": Writer(ha_history, MINUTES, (0.1, 1.0)),
    "ha history without end": Writer(ha_history_alone, MINUTES, (1.0,), compared=False),
    "ha energy": Writer(ha_energy, (3600,), ENERGY, solar=True),
    "ha recorder states": Writer(recorder_states, MINUTES, (1.0,)),
    "ha recorder sums": Writer(recorder_sums, (3600,), ENERGY),
    "green button": Writer(green_button, (900, 3600), (1.0,), solar=True),
    "dsmr": Writer(dsmr, (10,), (0.001,), solar=True),
    "nem12": Writer(nem12, QUARTERS, ENERGY, solar=True),
    "nilmtk": Writer(nilmtk, (60,), (1.0,)),
}


def options_of(fields):
    return ReadOptions(**fields)


def random_load(start, stop, rng, events=40):
    """A load that switches at random moments."""
    moments = exact_time(rng.uniform(start, stop, events))
    edges = np.unique(np.concatenate([[start - 7200.0], moments]))
    powers = rng.choice([80.0, 95.5, 180.0, 320.0, 1450.0, 2180.0], edges.size)
    # No value lies exactly between two steps of a meter, where the last bit would decide.
    powers += rng.uniform(0.0, 1.0, edges.size)
    return Load(edges, powers)


def random_house(start, stop, rng, *, solar, runs=2):
    """A base load, plugs that ran some times, and panels that produce by day."""
    idle = Load(np.array([start - 200_000.0]), np.array([0.0]))
    loads = {"base": random_load(start, stop, rng)}
    for name in PLUGS:
        load = idle
        for first in exact_time(rng.uniform(start, stop, rng.integers(runs + 1))):
            load = load.plus(
                float(first), float(first) + 300.0, 1000.0 + 900.0 * float(rng.random())
            )
        loads[name] = load
    panels = idle
    if solar:
        for hour in exact_time(rng.uniform(start, stop, 12)):
            panels = panels.plus(float(hour), float(hour) + 5400.0, 1500.0 * float(rng.random()))
    return House(loads, panels)


def clock_change(year=2024, autumn=True):
    """The start of a civil day of 25 (or 23) hours in Amsterdam."""
    day = datetime(year, 10, 27) if autumn else datetime(year, 3, 31)
    return int(day.replace(tzinfo=AMSTERDAM).timestamp())


def ordinary_day(day):
    return int((datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day)).timestamp())
