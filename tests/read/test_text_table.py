"""How tables are written: delimiters, decimal signs, letterheads, rows of nothing."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_recording, read_meter, read_recording
from hushmeter.read.text_table import (
    find_decimal,
    load_text,
    redact,
    table_of_rows,
    unique_names,
)

SECONDS = [1_704_067_200 + 60 * i for i in range(50)]


def lines(delimiter=",", value="400.5", header=("timestamp", "watts"), end="\n"):
    rows = [delimiter.join([str(second), value]) for second in SECONDS]
    return end.join([*([delimiter.join(header)] if header else []), *rows]) + end


@pytest.mark.parametrize(
    "data",
    [
        lines(";", "400,5").encode(),
        lines("\t", "400,5").encode("utf-16"),
        lines("|", "400,5").encode(),
        lines(";").encode(),
        lines(end="\r\n").encode("utf-8-sig"),
        lines(end="\r").encode(),
        ("sep=;\n" + lines(";", "400,5")).encode(),
        ('"Verbrauch, monatlich"\n\n' + lines(";", "400,5")).encode(),
        (lines() + ",\n,\n").encode(),
    ],
)
def test_one_table_in_many_hands(save, data):
    trace = read_meter(save(data))
    assert len(trace) == 50
    np.testing.assert_allclose(trace.readings, 400.5)


def test_a_trailing_delimiter_and_an_index_are_no_appliances(save):
    rows = "\n".join(f"{i},{second},50,,7" for i, second in enumerate(SECONDS))
    found = read_home_recording(save(f",timestamp,watts,,lamp\n{rows}\n".encode()))
    assert found.trace.names == ("lamp",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lines(";", "400,5") + "1704070800;1,234.5\n", r"is '1,234.5' in row 50, neither a number"),
        (lines(value="400,5"), "rows of 3 cells under a header of 2: numbers with decimal"),
        (lines(value="x"), "'watts' is 'x' in row 0, neither a number"),
        ("\n \n\n", "it is empty"),
        ("timestamp\n5\n6\n", "has no time column"),
    ],
)
def test_what_is_no_table_of_readings(save, data, message):
    with pytest.raises(DataError, match=message):
        read_meter(save(data.encode()))


@pytest.mark.parametrize("last", ["grid", "$0.1"])
@pytest.mark.parametrize("value", [",145", "-,145", "0,145"])
def test_a_decimal_comma_that_splits_a_number_is_refused(save, value, last):
    """Some rows have whole values: they alone would be read, and all others would be gaps."""
    rows = [f"{second},{value if i % 10 else '1'},A,{last}" for i, second in enumerate(SECONDS)]
    with pytest.raises(
        DataError, match="rows of 5 cells under a header of 4: numbers with decimal"
    ):
        read_meter(save("\n".join(["timestamp,watts,quality,place", *rows]).encode()))


@pytest.mark.parametrize("form", ["{}", "2024-01-01 00:{:02}"])
def test_a_row_of_readings_above_the_header_is_not_lost(save, form):
    first, *others = [f"{form.format(n)},400.5" for n in range(10, 50)]
    with pytest.raises(DataError, match="has a row of readings above its header"):
        read_meter(save("\n".join(["my meter", first, "timestamp,watts", *others]).encode()))


def test_an_empty_cell_and_a_trailing_delimiter_are_no_split_number(save):
    rows = "\n".join(f"{second},,50," for second in SECONDS)
    assert read_meter(save(f"timestamp,note,watts\n{rows}\n".encode())).readings.mean() == 50


def test_too_many_columns_are_refused(save):
    wide = ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("1" * 5000) + "\n"
    with pytest.raises(DataError, match="5000 columns, more than 4096"):
        read_meter(save(wide.encode()))
    with pytest.raises(DataError, match="first line is longer than 256 kB"):
        read_meter(save(b"c," * 1_000_000))


def test_a_column_that_is_not_there(save):
    with pytest.raises(ValueError, match=r"no column 'when' \(found: timestamp, watts\)"):
        read_recording(save(lines().encode()), ReadOptions(time_column="when"))


def test_a_field_too_long_for_the_csv_module_is_split_plainly(save):
    long = "x" * 140_000
    raw = load_text(save(f"timestamp,watts,{long}\n1,2,3\n".encode()))
    assert list(raw.data) == ["timestamp", "watts", long]


@pytest.mark.parametrize(
    ("numbers", "delimiter", "mark"),
    [
        (["0,25", "3"], ";", ","),
        (["1.505,000", "988,000"], ";", ","),
        (["0.25", "1,505.5"], ",", "."),
        (["4.216", "0.418", "5.360"], ";", "."),
        (["12.345", "10.210"], ";", "."),
        (["12,345", "10,210"], ";", ","),
        (["12.345", "838"], ",", "."),
        (["1.505", "1234567.25"], ";", "."),
        ([".145", "2"], ",", "."),
        (["7", "12"], ";", "."),
    ],
)
def test_the_decimal_mark_is_that_of_the_file(numbers, delimiter, mark):
    assert find_decimal([[number] for number in numbers], delimiter, Path("file")) == mark


@pytest.mark.parametrize(("numbers", "delimiter"), [(["1.505", "838"], ";"), (["1,505"], ",")])
def test_a_mark_that_may_be_of_thousands_is_asked_for(numbers, delimiter):
    with pytest.raises(DataError, match=r"`decimal=point` or `decimal=comma`"):
        find_decimal([[number] for number in numbers], delimiter, Path("file"))


def test_the_decimal_option_decides(save):
    text = "timestamp;value\n" + "".join(f"{s};{v}\n" for s, v in zip(
        SECONDS, ["1.505", "838"] * 25, strict=True))  # fmt: skip
    path = save(text.encode())
    with pytest.raises(DataError, match="`decimal="):
        read_meter(path)
    assert read_meter(path, decimal="comma", unit="W").readings[0] == 1505
    assert read_meter(path, decimal="point", unit="W").readings[0] == 1.505


@pytest.mark.parametrize(
    ("cell", "decimal"), [(".227", "comma"), ("0.5", "comma"), ("0,5", "point")]
)
def test_a_decimal_mark_that_no_number_shows_is_refused(save, cell, decimal):
    # Read with the other mark, the column would be text, and its neighbour the meter.
    text = "timestamp;kWh;rate (kWh)\n" + "".join(f"{s};{cell};10\n" for s in SECONDS)
    with pytest.raises(DataError, match=f"numbers such as {cell}, whose decimal mark is not the"):
        read_meter(save(text.encode()), decimal=decimal)


def test_header_rows_of_a_spreadsheet_are_joined():
    rows = [
        ["Report of 2024", None, None],
        [None, None, None],
        [None, "Stroom [kWh]", None],
        ["Datum", "laag", "hoog"],
        [datetime(2024, 1, 1), 1.5, 2],
        [datetime(2024, 1, 2), 2.5, 3],
        ["Totaal", 4, 5],
    ]
    raw = table_of_rows(rows, Path("book.xlsx"), kind="workbook")
    assert list(raw.data) == ["Datum", "laag", "hoog"]
    assert raw.context == ("", "Stroom [kWh]", "Stroom [kWh]")
    assert raw.preamble == ("Report of 2024",)
    assert list(raw.data.values())[1].tolist() == [1.5, 2.5]
    assert raw.notes == ("1 row without a time (a footer or total) was left out.",)


def test_a_repeated_header_starts_another_block(save):
    days = [f"time,watts\n2024-01-0{d} 00:00,5\n2024-01-0{d} 12:00,6\n\n" for d in range(1, 5)]
    raw = load_text(save("".join(days).encode()))
    assert raw.rows == 2
    assert len(raw.blocks) == 3
    assert len(read_meter(save("".join(days).encode()), tz="UTC")) == 8


def test_a_header_that_stands_again_with_other_blanks_is_the_same():
    rows = [["time", "use (W)"], [datetime(2024, 1, 1, 0), 5.0], [datetime(2024, 1, 1, 12), 6.0]]
    more = [[datetime(2024, 1, 2, 0), 7.0], [datetime(2024, 1, 2, 12), 8.0]]
    again = [*rows, [" time ", "use (W) "], *more]
    raw = table_of_rows(again, Path("book.xlsx"), kind="workbook")
    assert [block.rows for block in raw.blocks] == [2]
    assert raw.notes == ()


def test_names_are_made_unique():
    assert unique_names(["a", "a", "", "a_2"]) == ("a", "a_3", "column_2", "a_2")


def test_a_sample_holds_no_identity_and_other_values(portal, save):
    text = redact(portal)
    assert "Erika" not in text
    assert "Mustermann" not in text
    assert "9876543210" not in text
    found = read_meter(save(text.encode(), "sample.csv"), tz="Europe/Berlin")
    whole = read_meter(portal, tz="Europe/Berlin")
    assert found.interval_s == whole.interval_s
    ratio = found.readings / whole.readings[: len(found)]
    assert ratio.std() / ratio.mean() < 0.01
    assert abs(ratio.mean() - 1) > 1e-4
    lines = list(csv.reader(text.splitlines()))
    assert lines[1][-2:] == ["Usage (kWh)", "Price per kWh"]


def test_a_file_that_is_no_table_has_no_sample(save, samples):
    for data in (samples.green_button(), samples.parquet()):
        with pytest.raises(DataError, match="a sample is made of tables only"):
            redact(save(data, "other"))
