"""How tables are written: delimiters, decimal signs, letterheads, rows of nothing."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_meter, read_recording
from hushmeter.read.dialect import find_dialect

SECONDS = [1_704_067_200 + 60 * i for i in range(50)]


def lines(delimiter=",", value="400.5", header=("timestamp", "watts"), end="\n"):
    rows = [delimiter.join([str(second), value]) for second in SECONDS]
    return end.join([*([delimiter.join(header)] if header else []), *rows]) + end


@pytest.mark.parametrize(
    "data",
    [
        lines(";", "400,5").encode(),
        lines(";", "400,5", header=()).encode(),
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
    rows = "\n".join(f"{i},{second},5,,7" for i, second in enumerate(SECONDS))
    found = read_recording(save(f",timestamp,watts,,lamp\n{rows}\n".encode()))
    assert found.trace.names == ("lamp",)
    assert "Without a name or any value, so left out: column_0, column_3." in found.notes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lines() + "End of report\n", "a line of 1 instead of 2 columns, 'End of report'; delete"),
        (lines(";", "400,5") + "1704070800;1.234,5\n", r"example '1.234,5' in row 50; write 1234"),
        (lines(value='"400,5"'), r"example '400,5' in row 0; write 1234.5"),
        (lines(value="x"), "'watts' is not numbers, but for example 'x' in row 0"),
        ("\n \n\n", "it is empty"),
        ("timestamp\n5\n6\n", "has no power column"),
    ],
)
def test_what_is_no_table_of_readings(save, data, message):
    with pytest.raises(DataError, match=message):
        read_meter(save(data.encode()))


def test_too_many_columns_are_refused(save):
    wide = ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("1" * 5000) + "\n"
    with pytest.raises(DataError, match="5000 columns, more than 4096"):
        read_meter(save(wide.encode()))
    with pytest.raises(DataError, match="first line is longer than 256 kB"):
        read_meter(save(b"c," * 1_000_000))


def test_a_column_that_is_not_there(save):
    with pytest.raises(ValueError, match=r"no column 'when' \(found: timestamp, watts\)"):
        read_recording(save(lines().encode()), ReadOptions(time_column="when"))


def test_a_field_too_long_for_the_csv_module_is_split_plainly(tmp_path):
    long = "x" * 140_000
    dialect = find_dialect(f"timestamp,watts,{long}\n1,2,3\n".encode(), tmp_path)
    assert dialect.columns == ("timestamp", "watts", long)
