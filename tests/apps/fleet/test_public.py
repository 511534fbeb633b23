"""Nothing that a fleet publishes follows from a value, whatever its cells hold."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.apps.fleet.cases import TERMS, new_ledger, readings, release, release_sums, write

from hushmeter.apps.fleet.job import InputFormat
from hushmeter.apps.fleet.release import private_list
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.errors import DataError

RUN = slice(30, 34)
"""Rows of a kettle in the file of two meters: meter a on its second day."""
NAME = "customer-Meyer-17"


def csv_of(columns, cells):
    """A CSV file with these cells as its values."""
    rows = zip(columns["meter"], columns["time"], cells, columns["unit"], strict=True)
    lines = [f"{m},{t:%Y-%m-%dT%H:%M:%SZ},{v},{u}" for m, t, v, u in rows]
    return "\n".join(["meter,time,value,unit", *lines]) + "\n"


def store_csv(folder, columns, cells):
    (folder / f"{NAME}.csv").write_text(csv_of(columns, cells))


def store_text_parquet(folder, columns, cells):
    """A table whose values became text when it was written."""
    columns = columns | {"value": [str(cell) for cell in cells]}
    table = pa.table(columns)
    times = table["time"].cast(pa.timestamp("s", tz="UTC"))
    table = table.set_column(1, "time", times)
    pq.write_table(table, folder / f"{NAME}.parquet")


def store_parquet(folder, columns, cells):
    write(folder / f"{NAME}.parquet", columns | {"value": cells})


def small(value):
    return f"{value:.0f}"


def cells_of(kind, run):
    """The cells of a file of 96 readings with a run or without it, as a portal writes them."""
    watts = np.array(readings()["value"]) % 500
    watts[RUN] += 2000 * run
    big = watts > 1500
    words = {
        "above the range": [">1500" if b else small(w) for w, b in zip(watts, big, strict=True)],
        "unit in the cell": [
            f"{w / 1000:.2f} kW" if b else small(w) for w, b in zip(watts, big, strict=True)
        ],
        "empty while on": ["" if b else small(w) for w, b in zip(watts, big, strict=True)],
        "word while on": ["n/a" if b else small(w) for w, b in zip(watts, big, strict=True)],
        "huge": ["1e999" if b else small(w) for w, b in zip(watts, big, strict=True)],
        "decimal comma": [
            f'"{w:.1f}"'.replace(".", ",") if b else small(w)
            for w, b in zip(watts, big, strict=True)
        ],
        "NaN": [float("nan") if b else w for w, b in zip(watts, big, strict=True)],
        "null": [None if b else w for w, b in zip(watts, big, strict=True)],
        "infinite": [np.inf if b else w for w, b in zip(watts, big, strict=True)],
        "number": list(watts),
    }
    return words[kind]


def units_of(kind, run):
    """The column of units; a portal that scales its numbers writes kW where they are large."""
    columns = readings()
    if kind == "unit follows the size" and run:
        columns["unit"][RUN] = ["kW"] * 4
    if kind == "unknown unit" and run:
        columns["unit"][RUN] = ["MW"] * 4
    return columns


CASES = [
    *((store_csv, kind) for kind in ("above the range", "unit in the cell", "empty while on",
                                     "word while on", "huge", "decimal comma")),
    *((store_text_parquet, kind) for kind in ("above the range", "empty while on")),
    *((store_parquet, kind) for kind in ("NaN", "null", "infinite", "number",
                                         "unit follows the size", "unknown unit")),
]  # fmt: skip


def public_facts(folder, values):
    """Everything public, without the noisy values, their digests, sizes and the moment."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("finished", "release", "ledger_head"):
        del manifest[name]
    files = manifest["files"]
    for file in files.values() if isinstance(files, dict) else files:
        del file["sha256"], file["bytes"]
    tables = {}
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        tables[path.name] = table.drop_columns([n for n in values if n in table.column_names])
    return manifest, {name: (t.schema, t.to_pylist()) for name, t in tables.items()}


@pytest.mark.parametrize(("store", "kind"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_files_with_and_without_a_run_have_the_same_public_facts(tmp_path, store, kind):
    found = []
    for run in (False, True):
        place = tmp_path / f"run-{run}"
        (place / "in").mkdir(parents=True)
        columns = units_of(kind, run)
        store(place / "in", columns, cells_of(kind if "unit f" not in kind and "unknown" not in kind
                                              else "number", run))  # fmt: skip
        options = {"interval_s": 3600, "form": InputFormat(tz="UTC")}
        done = release(place / "in", place / "out", new_ledger(place), **options)
        assert done.complete
        terms = SumTerms("1", (0.0, 12_000.0), ("meter",), tables=("sums", "shape", "quantiles"))
        sums = release_sums(
            place / "in", place / "sums", terms, ledger=new_ledger(place, "sums"), **options
        )
        assert sums.complete
        noisy = ("energy_kwh", "mean_w", "value_w", "low_w", "high_w", "start")
        peaks = ("peak_kw", "peak_low_kw", "peak_high_kw")
        found.append((
            public_facts(place / "out", ("value",)), public_facts(place / "sums", noisy + peaks)
        ))  # fmt: skip
    assert found[0] == found[1]
    assert found[0][0][0]["released_rows"] == 96


def test_only_the_private_list_names_cells_that_count_as_zero(tmp_path):
    (tmp_path / "in").mkdir()
    store_csv(tmp_path / "in", readings(), cells_of("above the range", True))
    terms = replace(TERMS, epsilon="1e6", max_epsilon=1e7, clamp=(-50.0, 12_000.0))
    release(
        tmp_path / "in", tmp_path / "out", new_ledger(tmp_path, low=-50), terms, interval_s=3600
    )
    rows = list(csv.reader(private_list(tmp_path / "out", "odd-cells").read_text().splitlines()))
    assert rows[1:] == [[f"{NAME}.csv", "a", "2024-03-02", "30", "4"]]
    assert private_list(tmp_path / "out", "odd-cells").stat().st_mode & 0o77 == 0
    assert not private_list(tmp_path / "out").exists()
    out = pq.read_table(tmp_path / f"out/{NAME}.csv.parquet")
    assert out["value"].to_pylist()[RUN] == [0.0] * 4
    assert out.num_rows == 96


@pytest.mark.parametrize("first", [0, 95])
def test_an_odd_cell_in_the_first_or_last_row_keeps_its_row(tmp_path, first):
    (tmp_path / "in").mkdir()
    cells = cells_of("number", False)
    cells[first] = "error"
    store_csv(tmp_path / "in", readings(), cells)
    done = release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), interval_s=3600)
    assert done.manifest["released_rows"] == 96


def test_a_column_of_words_ends_the_job_instead_of_naming_the_file(tmp_path):
    write(tmp_path / "in/b.parquet", readings())
    store_csv(tmp_path / "in", readings(meters=("c", "d")), ["E7"] * 96)
    with pytest.raises(DataError, match=r"no numbers in W, kW, Wh or kWh.*--columns"):
        release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), interval_s=3600)
    assert not (tmp_path / "out/manifest.json").exists()


def test_the_public_reason_does_not_quote_a_file(tmp_path):
    write(tmp_path / "in/b.parquet", readings())
    (tmp_path / "in/a.csv").write_text("meter,time,value,unit\na,2024-03-01T00:00:00Z,4321,W,9,9\n")
    done = release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), interval_s=3600)
    assert done.manifest["quarantine"]["reasons"] == {"the file cannot be used": 1}
    assert "4321" not in (tmp_path / "out/manifest.json").read_text()


def test_equal_inputs_are_not_recognised_in_the_manifest(tmp_path):
    """A keyed digest of the inputs would tell that two files are equal."""
    write(tmp_path / "in/a.parquet", readings())
    write(tmp_path / "in/b.parquet", readings() | {"meter": readings()["meter"]})
    release(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path))
    files = json.loads((tmp_path / "out/manifest.json").read_text())["files"]
    assert {name for file in files for name in file} == {
        "file", "state", "rows", "released_rows", "released_blocks", "sha256", "bytes",
    }  # fmt: skip
