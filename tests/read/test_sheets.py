"""Workbooks and JSON: which sheet or list is read, and how its cells are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.read.spreadsheets import xls_bytes, xlsx_bytes

from hushmeter.errors import DataError, InputError
from hushmeter.read import ReadOptions, read_bytes

MONDAY = 45292  # 2024-01-01 as a spreadsheet's day
RNG = np.random.default_rng(3)


def quarter_hours(days=1, start=0.0, name="Import (kWh)"):
    values = np.round(RNG.uniform(0.01, 0.5, 96 * days), 3)
    rows = [["Time", name]]
    rows += [[("date", MONDAY + start + i / 96), v] for i, v in enumerate(values)]
    return rows, values


def read(sheets, **options):
    hidden = options.pop("hidden", ())
    given = {"tz": "Europe/Amsterdam", **options}
    return read_bytes(xlsx_bytes(sheets, hidden), "meter.xlsx", ReadOptions(**given))


@pytest.mark.parametrize("days", [1, 30])
def test_dates_and_numbers_are_read_as_such(days):
    rows, values = quarter_hours(days)
    found = read({"Data": rows})
    assert found.format == "Excel workbook"
    assert found.trace.interval_s == 900.0
    assert found.public.start == np.datetime64("2023-12-31T23:00")
    np.testing.assert_allclose(found.watts, values * 4000)


def test_dates_and_clocks_in_two_columns():
    values = np.round(RNG.uniform(0.01, 0.5, 48), 3)
    for style in ("time", "duration"):
        rows = [["Date", "Time", "kWh"]]
        rows += [[("date", MONDAY + i // 24), (style, i % 24 / 24), v]
                 for i, v in enumerate(values)]  # fmt: skip
        found = read({"Data": rows})
        assert found.trace.interval_s == 3600.0
        np.testing.assert_allclose(found.watts, values * 1000)


def test_clocks_that_end_at_24_name_the_ends():
    values = np.round(RNG.uniform(0.01, 0.5, 48), 3)
    for style in ("time", "duration"):
        rows = [["Date", "Time", "kWh"]]
        rows += [[("date", MONDAY + i // 24), (style, (i % 24 + 1) / 24), v]
                 for i, v in enumerate(values)]  # fmt: skip
        found = read({"Data": rows})
        assert found.public.start == np.datetime64("2023-12-31T23:00")
        np.testing.assert_allclose(found.watts, values * 1000)


def test_preambles_and_totals_are_left_out():
    rows, values = quarter_hours(8)
    rows = [["My utility"], [], ["Customer", "Jane Doe"], *rows, [], ["Total", float(values.sum())]]
    found = read({"Data": rows})
    np.testing.assert_allclose(found.watts, values * 4000)
    assert "1 row without a time (a footer or total) was left out." in found.notes


def test_text_with_decimal_commas():
    rows, values = quarter_hours(6)
    rows = [rows[0], *([time, f"{value:.3f}".replace(".", ",")] for time, value in rows[1:])]
    np.testing.assert_allclose(read({"Data": rows}).watts, values * 4000)


def test_an_old_workbook():
    values = np.round(RNG.uniform(0.1, 2, 48), 3)
    rows = [["Start", "Import (kWh)"]]
    rows += [[f"2024-01-0{1 + i // 24} {i % 24:02d}:00", v] for i, v in enumerate(values)]
    found = read_bytes(xls_bytes(rows), "meter.xls", ReadOptions(tz="UTC"))
    assert found.format == "Excel workbook"
    np.testing.assert_allclose(found.watts, values * 1000)


def test_the_finest_sheet_of_the_same_energy_is_read():
    fine, values = quarter_hours(3)
    coarse = [["Time", "Import (kWh)"]]
    coarse += [[("date", MONDAY + d), float(values[96 * d : 96 * d + 96].sum())] for d in range(3)]
    months = [["Time", "Import (kWh)"], [("date", MONDAY), 300.0], [("date", MONDAY + 31), 280.0]]
    gas, _ = quarter_hours(3)
    found = read({"Days": coarse, "Quarters": fine, "Months": months, "Gas": gas})
    np.testing.assert_allclose(found.watts, values * 4000)
    assert found.notes[-1] == "Sheet read: 'Quarters'; not read: 'Days', 'Months', 'Gas'."
    assert read({"Days": coarse, "Quarters": fine}, sheet="days").trace.interval_s == 86_400.0


def test_sheets_of_different_times_are_joined():
    first, one = quarter_hours(2)
    second, two = quarter_hours(2, start=2.0)
    found = read({"January": first, "February": second})
    np.testing.assert_allclose(found.watts, np.concatenate([one, two]) * 4000)


def test_sheets_that_differ_in_what_they_hold_must_be_chosen_between():
    one, values = quarter_hours()
    other, _ = quarter_hours()
    with pytest.raises(DataError, match=r"2 sheets with readings \(A \(15 min\), B \(15 min\)\)"):
        read({"A": one, "B": other})
    heat, _ = quarter_hours(name="Heat pump (kWh)")
    with pytest.raises(DataError, match="choose one"):
        read({"A": one, "B": heat})
    np.testing.assert_allclose(read({"A": one, "B": other}, sheet="A").watts, values * 4000)
    with pytest.raises(InputError, match=r"has no sheet 'C' \(found: A, B\)"):
        read({"A": one, "B": other}, sheet="C")


def test_hidden_sheets_are_read_only_on_request():
    one, values = quarter_hours()
    other, hidden = quarter_hours()
    sheets = {"A": one, "B": other}
    np.testing.assert_allclose(read(sheets, hidden=("B",)).watts, values * 4000)
    np.testing.assert_allclose(read(sheets, hidden=("B",), sheet="B").watts, hidden * 4000)


def test_the_choice_of_a_sheet_does_not_depend_on_values():
    fine, _ = quarter_hours(2)
    coarse = [["Time", "Import (kWh)"], *([("date", MONDAY + d), 5.0] for d in range(4))]
    other = [[*row[:1], 0.0] if i else row for i, row in enumerate(fine)]
    one, two = (read({"Q": rows, "D": coarse}) for rows in (fine, other))
    assert one.notes == two.notes
    assert one.public.start == two.public.start


@pytest.mark.parametrize("rows", [[], [["only words"], ["here"]], [["Time", "Gas (m3)"], ["x", 1]]])
def test_workbooks_without_readings_are_refused(rows):
    with pytest.raises(DataError, match=r"^[^\n]+$"):
        read({"Data": rows})


def test_damaged_and_huge_workbooks_are_refused(tmp_path):
    rows, _ = quarter_hours()
    data = xlsx_bytes({"Data": rows})
    for part in (data[: len(data) // 2], data[:-30], b"\xd0\xcf\x11\xe0" + bytes(600)):
        with pytest.raises(DataError, match="cannot be read"):
            read_bytes(part, "meter.xlsx", ReadOptions(tz="UTC"))
    huge = _with_far_cell(data)
    with pytest.raises(DataError, match="more than 20000000 cells"):
        read_bytes(huge, "meter.xlsx", ReadOptions(tz="UTC"))


def _with_far_cell(data):
    """The workbook with a cell in its last possible row and column."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
            new.writestr(name, text.replace(b"</sheetData>", far))
    return out.getvalue()


def test_the_name_export_of_a_sheet_does_not_state_a_direction():
    rows, values = quarter_hours()
    np.testing.assert_allclose(read({"Export": rows}).watts, values * 4000)
    with pytest.raises(DataError, match="holds no use of electricity"):
        read({"Feed-in": rows, "Gas": rows})


VALUES = np.round(np.random.default_rng(2).uniform(0.05, 1.5, 48), 3)
STARTS = np.datetime64("2024-01-01T00:00") + np.arange(48) * np.timedelta64(30, "m")
ENDS = STARTS + np.timedelta64(30, "m")


def read_json(document, **options):
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
    found = read_json(document)
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
    found = read_json({"timezone": "Europe/Amsterdam", "days": days})
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
    found = read_json(document)
    assert found.public.start == STARTS[0]
    np.testing.assert_allclose(found.watts, VALUES * 2000)


@pytest.mark.parametrize("stated", ["resolution", "end", "offset"])
def test_points_of_several_days_follow_their_position(stated):
    """The ends of a period are no times of its points, and its length gives their interval."""
    periods = []
    for first in range(0, VALUES.size, 24):
        start, end = STARTS[first], STARTS[first] + np.timedelta64(12, "h")
        bounds = {"start": f"{start}Z", "end": f"{end}Z"}
        if stated == "offset":
            bounds["start"] = f"{start + np.timedelta64(2, 'h')}+02:00"
        points = [{"position": i, "quantity": float(v)}
                  for i, v in enumerate(VALUES[first : first + 24], 1)]  # fmt: skip
        period = {"timeInterval": bounds, "Point": points}
        periods.append(period if stated == "end" else {"resolution": "PT30M", **period})
    found = read_json({"TimeSeries": [{"unit": "kWh", "Period": periods}]})
    assert found.public.start == STARTS[0]
    assert found.public.gaps == 0
    np.testing.assert_allclose(found.watts, VALUES * 2000)


def test_the_unit_must_be_stated():
    document = {"results": records(value="consumption")}
    with pytest.raises(DataError, match=r"does not state the unit of 'consumption'.*`unit="):
        read_json(document)
    np.testing.assert_allclose(read_json(document, unit="kWh").watts, VALUES * 2000)


def test_several_meters_are_chosen_between():
    homes = [{"meter": name, "readings": records()} for name in ("A1", "B2")]
    with pytest.raises(DataError, match=r"2 meters \(meter: A1, B2\).*`meter="):
        read_json({"homes": homes})
    np.testing.assert_allclose(read_json({"homes": homes}, meter="B2").watts, VALUES * 2000)


def test_several_lists_are_chosen_between():
    document = {"mine": records(), "theirs": records()}
    with pytest.raises(DataError, match=r"2 lists with readings \(mine \(30 min\), theirs"):
        read_json(document)
    np.testing.assert_allclose(read_json(document, sheet="mine").watts, VALUES * 2000)
    with pytest.raises(InputError, match="has no list 'x'"):
        read_json(document, sheet="x")
    found = read_json({"usage": records(), "gas": records(), "solar_production": records()})
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
        read_json(document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("beside", "sentence"),
    [
        ({"meterType": "Production"}, "is produced .*meterType: Production"),
        ({"currency": "EUR"}, "is a price.*currency: EUR"),
        ({"measure": "Puissance maximale"}, "is the largest power.*Puissance maximale"),
    ],
)
def test_what_stands_beside_the_values_outranks_a_stated_unit(beside, sentence):
    document = {**beside, "values": records(value="value")}
    for options in ({}, {"unit": "kWh"}, {"value_column": "value", "unit": "W"}):
        with pytest.raises(DataError, match=sentence):
            read_json(document, **options)
    used = {"currency": "EUR", "values": records(value="consumption_kwh")}
    np.testing.assert_allclose(read_json(used).watts, VALUES * 2000)
