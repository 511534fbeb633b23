"""JSON of portals: lists of records, pairs, columns and market documents."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.read import ReadOptions, read_bytes

VALUES = np.round(np.random.default_rng(2).uniform(0.05, 1.5, 48), 3)
STARTS = np.datetime64("2024-01-01T00:00") + np.arange(48) * np.timedelta64(30, "m")
ENDS = STARTS + np.timedelta64(30, "m")


def read(document, **options):
    text = document if isinstance(document, str) else json.dumps(document)
    return read_bytes(text.encode(), "meter.json", ReadOptions(**options))


def records(time="start", value="consumption_kwh", **more):
    return [{time: f"{t}Z", value: float(v), **more} for t, v in zip(STARTS, VALUES, strict=True)]


@pytest.mark.parametrize(
    "document",
    [
        records(),
        {"count": 48, "next": None, "results": records()},
        {"data": {"viewer": {"homes": [{"consumption": {"nodes": records(
            "from", "consumption", consumptionUnit="kWh", cost=1.2, unitPrice=0.3)}}]}}},
        [{"interval": {"start": f"{t}Z", "end": f"{e}Z"}, "usage": {"kwh": str(v)}}
         for t, e, v in zip(STARTS, ENDS, VALUES, strict=True)],
        {"unit": "kWh", "timestamps": [f"{t}Z" for t in STARTS], "usage": VALUES.tolist()},
        {"series": [{"name": "Import (kWh)", "data": [
            [int(t.astype("datetime64[ms]").astype(int)), float(v)]
            for t, v in zip(STARTS, VALUES, strict=True)]},
            {"name": "Export (kWh)", "data": [[0, 1.0], [1800000, 2.0]]}]},
        {"meter_reading": {"reading_type": {"unit": "Wh"}, "quality": "A", "interval_reading": [
            {"value": f"{1000 * v:.0f}", "date": f"{t}Z"}
            for t, v in zip(STARTS, VALUES, strict=True)]}},
        "\n".join(json.dumps(record) for record in records()),
    ],
)  # fmt: skip
def test_a_list_of_records_is_read(document):
    found = read(document)
    assert found.format == "JSON"
    assert found.trace.interval_s == 1800.0
    assert found.public.start == STARTS[0]
    np.testing.assert_allclose(found.watts, VALUES * 2000)


def test_days_with_their_hours():
    days = [
        {"date": f"2024-01-0{d + 1}", "hours": [
            {"hour": h, "kwh": float(VALUES[24 * d + h])} for h in range(24)]}
        for d in range(2)
    ]  # fmt: skip
    found = read({"timezone": "Europe/Amsterdam", "days": days})
    assert found.public.start == np.datetime64("2023-12-31T23:00")
    np.testing.assert_allclose(found.watts, VALUES * 1000)


def test_a_market_document_has_positions():
    points = [
        {"position": str(i + 1), "out_Quantity.quantity": str(v)} for i, v in enumerate(VALUES)
    ]
    periods = [
        {"resolution": "PT30M", "timeInterval": {"start": f"{start}Z", "end": "later"},
         "Point": points[first : first + 24]}
        for first, start in ((0, STARTS[0]), (24, STARTS[24]))
    ]  # fmt: skip
    for period in periods:
        for i, point in enumerate(period["Point"]):
            point["position"] = str(i + 1)
    document = {"result": [{"TimeSeries": [{"measurement_Unit.name": "KWH", "Period": periods}]}]}
    found = read(document)
    assert found.public.start == STARTS[0]
    np.testing.assert_allclose(found.watts, VALUES * 2000)


def test_the_unit_must_be_stated():
    document = {"results": records(value="consumption")}
    with pytest.raises(DataError, match=r"does not state the unit of 'consumption'.*`unit="):
        read(document)
    np.testing.assert_allclose(read(document, unit="kWh").watts, VALUES * 2000)


def test_several_meters_are_chosen_between():
    homes = [{"meter": name, "readings": records()} for name in ("A1", "B2")]
    with pytest.raises(DataError, match=r"2 meters \(meter: A1, B2\).*`meter="):
        read({"homes": homes})
    np.testing.assert_allclose(read({"homes": homes}, meter="B2").watts, VALUES * 2000)


def test_several_lists_are_chosen_between():
    document = {"mine": records(), "theirs": records()}
    with pytest.raises(DataError, match=r"2 lists with readings \(mine \(30 min\), theirs"):
        read(document)
    np.testing.assert_allclose(read(document, sheet="mine").watts, VALUES * 2000)
    with pytest.raises(InputError, match="has no list 'x'"):
        read(document, sheet="x")
    found = read({"usage": records(), "gas": records(), "solar_production": records()})
    np.testing.assert_allclose(found.watts, VALUES * 2000)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([1, 2], "without a list of records"),
        ({}, "without a list of records"),
        ('{"a": ', "not well-formed"),
        ("[" * 100_000, "nests too deeply|not well-formed"),
        ([{"a": 1, "b": 2}, {"a": 2, "b": 3}], "no time column"),
        (records(value="gas_m3"), "holds gas"),
        (records(value="export_kwh"), "fed into the grid"),
        ([{"entity_id": "sensor.a", "state": "5", "last_changed": "2024-01-01T00:00Z"}] * 3,
         "history of Home Assistant"),
        ('[{"time": 1e999, "kwh": 1}, {"time": 2e999, "kwh": 1}]', "time"),
        ('[{"time": 1700000000, "kwh": 1e400}, {"time": 1700003600, "kwh": 2}]', "is inf"),
    ],
)  # fmt: skip
def test_other_documents_are_refused(document, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        read(document)
    assert "\n" not in str(caught.value)
