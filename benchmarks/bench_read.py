"""Reading against the library that parses the bytes, and a data set all the way to a home."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pyarrow import csv
from python_calamine import CalamineWorkbook
from tests.read.spreadsheets import xlsx_bytes

from benchmarks.harness import Row, best_of, together
from hushmeter.files import write_table
from hushmeter.learn.homes import learn_home
from hushmeter.read import read_home_data, read_meter

YEAR = 5_256_000
QUARTERS = 35_040


def rows() -> Iterator[Row]:
    """All ratios of the readers."""
    with tempfile.TemporaryDirectory() as folder:
        yield a_year_of_csv(Path(folder))
        yield a_year_of_quarter_hours(Path(folder))
    yield from redd_to_home()


def a_year_of_csv(folder: Path) -> Row:
    """One year of 6-s readings, times as text."""
    path = folder / "year.csv"
    times = np.datetime64("2023-01-01T00:00:00") + 6 * np.arange(YEAR)
    watts = np.round(np.random.default_rng(0).gamma(2.0, 200.0, YEAR), 1)
    write_table(path, {"timestamp": times, "watts": watts})
    ours, bare = together(lambda: read_meter(path), lambda: csv.read_csv(path), repeat=5)
    note = f"{YEAR / ours / 1e6:.1f} M rows/s, {path.stat().st_size >> 20} MB"
    return Row(
        "read_meter, a year of 6-s CSV: time", ours / bare, "pyarrow.csv alone", 2, note, True
    )


def a_year_of_quarter_hours(folder: Path) -> Row:
    """A workbook of one year of quarter-hours: dates, imported and exported energy."""
    path = folder / "year.xlsx"
    energies = np.round(np.random.default_rng(0).gamma(2.0, 0.1, (QUARTERS, 2)), 3)
    cells = [[("date", 45_292 + i / 96), *pair] for i, pair in enumerate(energies.tolist())]
    path.write_bytes(xlsx_bytes({"Data": [["Time", "Import (kWh)", "Export (kWh)"], *cells]}))
    ours, bare = together(
        lambda: read_meter(path, tz="UTC"),
        lambda: CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python(),
        repeat=5,
    )
    note = f"{QUARTERS} rows, {path.stat().st_size >> 10} kB"
    return Row(
        "read_meter, a year of 15-min xlsx: time",
        ours / bare,
        "python-calamine alone",
        3,
        note,
        True,
    )


def redd_to_home() -> Iterator[Row]:
    """REDD house 1 from its Parquet file to a Home, where the file is at hand."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("HUSHMETER_DATA", default)) / "redd" / "redd_house1_3s.parquet"
    if not path.is_file():
        return
    seconds = best_of(lambda: learn_home(read_home_data(path)), 3)
    yield Row("REDD house 1, Parquet to Home", seconds, "one second", 5, "525 704 × 16", True)
