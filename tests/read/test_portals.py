"""Layouts of portals, grid companies and loggers all over the world, with made-up energies."""

from __future__ import annotations

import json
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_bytes

TABLES = tomllib.loads(Path(__file__).with_name("portal_layouts.toml").read_text(encoding="utf-8"))
FIRST, COUNT = datetime(2024, 5, 1), 96 * 3
ENERGIES = [round(0.1 + 0.05 * (i * i % 11), 3) for i in range(COUNT)]
QUARTERS = [ENERGIES[96 * day : 96 * (day + 1)] for day in range(3)]


def moment(number, minutes=60):
    return FIRST + timedelta(minutes=minutes * number)


def cells(number, minutes):
    """What a row is formatted with; see portal_layouts.toml."""
    energy, start = ENERGIES[number], moment(number, minutes)
    return {
        "d": start, "e": moment(number + 1, minutes), "i": number, "n": start.hour + 1,
        "v": energy, "c": f"{energy:.3f}".replace(".", ","), "w": f"{energy * 6e4 / minutes:.0f}",
        "k": f"{energy * 60 / minutes:.3f}".replace(".", ","),
    }  # fmt: skip


def read(content, name="file.csv", **options):
    text = content if isinstance(content, str) else json.dumps(content)
    return read_home_bytes(text.encode(), name, ReadOptions(**options))


def check(found, minutes):
    assert found.trace.interval_s == 60 * minutes
    assert len(found.trace) == COUNT
    np.testing.assert_allclose(found.trace.readings * minutes / 60_000, ENERGIES, atol=0.0006)


@pytest.mark.parametrize("table", TABLES["table"], ids=lambda table: table["name"])
def test_tables(table):
    minutes = table.get("minutes", 60)
    rows = [table["row"].format(**cells(i, minutes)) for i in range(COUNT)]
    options = {key: table[key] for key in ("tz", "unit") if key in table}
    check(read("\n".join([table["header"].strip("\n"), *rows]), **options), minutes)


DOCUMENTS = {
    "Hildebrand": ({"units": "kWh", "classifier": "electricity.consumption", "data": [
        [1714521600 + 1800 * i, e] for i, e in enumerate(ENERGIES)]}, 30),
    "Leneda": ({"obisCode": "1-1:1.29.0", "intervalLength": "PT15M", "unit": "kW", "items": [
        {"value": 4 * e, "startedAt": f"{moment(i, 15).isoformat()}Z", "type": "Actual"}
        for i, e in enumerate(ENERGIES)]}, 15),
    "Helen": ({"intervals": {"electricity": [
        {"start": "2024-05-01T00:00:00Z", "resolution_s": 3600, "unit": "kWh",
         "measurements": [{"value": e, "status": "valid"} for e in ENERGIES]}]}}, 60),
    "keys that another list describes": ({
        "columns": [{"id": "10", "name": "Datum"}, {"id": "11", "name": "+A", "unit": "kW"},
                    {"id": "12", "name": "-A", "unit": "kW"}],
        "values": [{"10": {"v": f"{moment(i, 15).isoformat()}Z"}, "11": {"v": 4 * e, "s": 32},
                    "12": {"v": 0, "s": 32}} for i, e in enumerate(ENERGIES)]}, 15),
    "a total beside parts that no list knows": ({"results": [
        {"dateHeure": f"{moment(i).isoformat()}Z", "consoReg": e / 2, "consoHaut": e / 2,
         "consoTotal": e} for i, e in enumerate(ENERGIES)], "unit": "kWh"}, 60),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name):
    document, minutes = DOCUMENTS[name]
    check(read(document, "file.json"), minutes)


@pytest.mark.parametrize(
    "header",
    [
        [f"Trading Period {k}" for k in range(1, 97)],
        [f"{k // 4:02d}:{15 * (k % 4):02d}" for k in range(96)],
        [f"Q{k:03d}" for k in range(1, 97)],
    ],
    ids=lambda header: header[0],
)
def test_a_row_for_each_day(header):
    days = [f"M1,{moment(d * 96, 15):%d/%m/%Y}," + ",".join(map(str, day))
            for d, day in enumerate(QUARTERS)]  # fmt: skip
    text = "\n".join(["ICP,Date," + ",".join(header), *days])
    check(read(text, unit="kWh", tz="Pacific/Auckland"), 15)


def long_table(names, *, head="Series;Time;Value", scale=1.0):
    """Rows of several series, each a factor of the energies."""
    return "\n".join([head, *(
        f"{name};{moment(i).isoformat()}Z;{factor * scale * e:.4f}"
        for name, factor in names.items() for i, e in enumerate(ENERGIES))])  # fmt: skip


def test_extremes_counts_and_energies_beside_the_power_of_a_long_table():
    names = {"max power": 1.5, "min power": 0.5, "count power": 9, "power": 1,
             "energy_consumed power": 0.2}  # fmt: skip
    check(read(long_table(names, scale=1000), unit="W"), 60)


def test_registers_by_the_day_beside_the_energies_of_hours():
    head = "POD;Variable name;Time;Value [kWh]"
    rows = [f"HU1;'{name}';{moment(i).isoformat()}Z;{e * part}"
            for name, part in (("+A", 1), ("-A", 0.1)) for i, e in enumerate(ENERGIES)]  # fmt: skip
    rows += [f"HU1;'DP_1-1:{code}.8.0*0';{moment(24 * d).isoformat()}Z;{9000 + d}"
             for code in (1, 2) for d in range(12)]  # fmt: skip
    check(read("\n".join([head, *rows])), 60)


def test_the_mains_among_the_devices_of_a_long_table():
    head = "DateTime,Device ID,Name,Avg Wattage,kWh"
    devices = (("mains", "Total Usage", 1), ("a1", "Fridge", 0.2))
    rows = [f"{moment(i).isoformat()}Z,{key},{name},{1000 * e * share:.1f},{e * share:.4f}"
            for i, e in enumerate(ENERGIES) for key, name, share in devices]  # fmt: skip
    check(read("\n".join([head, *rows])), 60)


@pytest.mark.parametrize("days", [1, -1])
@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("end", [0, 1])
def test_the_midnight_of_a_date_in_every_order_of_days_and_hours(days, hours, end):
    """A date and the end of an hour: 00:00 comes last; the start of an hour: it comes first."""
    rows = [f"{moment(24 * day):%d/%m/%Y},{moment(hour + end):%H:%M},{ENERGIES[24 * day + hour]}"
            for day in range(12)[::days] for hour in range(24)[::hours]]  # fmt: skip
    check(read("\n".join(["Date,Hour,kWh", *rows]), tz="UTC"), 60)


@pytest.mark.parametrize("encoding", ["cp850", "cp1250", "latin-1", "utf-16"])
def test_an_export_is_found_in_every_encoding(encoding):
    rows = [f"{moment(i):%Y/%m/%d %H:%M};{e}" for i, e in enumerate(ENERGIES)]
    text = "\n".join(["Data;Injeção na rede, Ativa (kW)" if encoding != "cp1250"
                      else "Datum;Dodávka do sítě (kW)", *rows])  # fmt: skip
    with pytest.raises(DataError, match="fed into the grid"):
        read_home_bytes(text.encode(encoding), "file.csv", ReadOptions(tz="Europe/Lisbon"))
