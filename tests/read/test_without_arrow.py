"""Text tables are read, released and written alike with pyarrow and pandas, and without them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from hushmeter.errors import MissingExtraError
from hushmeter.read import read_home_recording
from hushmeter.read.text_columns import TextForm, load_cells

CSV_FILES = ("plain_csv", "octopus", "n3rgy", "esb", "ha_energy", "ha_history", "rae", "ampds",
             "refit", "pecan_street")  # fmt: skip
ABSENT = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pyarrow", "pandas", "python_calamine"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
READ = """
import hashlib, sys
from pathlib import Path
import hushmeter as hm
from hushmeter.read import ReadOptions, read_recording
from hushmeter.read.source import explain
from hushmeter.write import meter_bytes

home = hm.synth.ready_home("evening").subset(["kettle", "heat pump"])
for name in sys.argv[2:]:
    path = Path(name)
    options = ReadOptions(tz="Europe/Dublin", building="26" if "pecan" in name else None)
    print(path.name, *explain(path, options), sep="\\n  ")
    try:
        found = read_recording(path, options)
    except hm.DataError as error:
        print(error)
        continue
    arrays = [found.watts, found.trace.times, found.trace.readings]
    arrays += [] if found.power is None else [found.power]
    print(found.public, [hashlib.sha256(a.tobytes()).hexdigest() for a in arrays])
    request = hm.Request(protect="appliance", span="reading", epsilon=1.0, home=home)
    promise = request.resolve(hm.metered(found.trace))
    released = promise.release(found.trace, rng=7)
    content = meter_bytes(released.trace, "csv")
    print(promise.unit.l1, promise.noise, hashlib.sha256(content).hexdigest())
"""
COMMANDS = """
from hushmeter.cli import main
sys.argv = ["hushmeter", *sys.argv[2:]]
main()
"""
TABLES = {
    "times with and without fractions": ["2024-01-01 10:00:00.5", "2024-01-01", ""],
    "times with offsets": ["2024-01-01T10:00:00.25+01:00", "2024-01-01T10:00Z", "NA"],
    "times without a zone": ["2024-01-01T10:00", "2024-01-01 10:00:30", "2024-01-01 11"],
    "dates": ["2024-01-01", " 2024-02-29 ", "1969-12-31"],
    "dates that do not exist": ["2024-01-01", "2024-02-30", "2024-01-03"],
    "clocks": ["12:00", "13:00:01", ""],
    "clocks that end at 24:00": ["12:00", "24:00", ""],
    "times in the far future": ["3024-01-01 00:00:00.5", "2024-01-01", ""],
    "integers": ["007", " -5 ", "NaN"],
    "integers in base 16": ["0x1F", "5", "6"],
    "integers that are too large": ["9223372036854775808", "5", ""],
    "numbers": ["1.", ".5e-3", "+1"],
    "infinite numbers": ["inf", "-Infinity", "1e999"],
    "numbers with commas": ['"1,5"', '"2,5"', '"1.000,5"'],
    "flags": ["true", "False", "1"],
    "words": ['\'a "b"', '"c, d"', "nicht verfügbar"],
    "nothing": ["", "-", "n/a"],
}


def run(script, *args, **variables):
    done = subprocess.run(
        [sys.executable, "-c", script, "-", *map(str, args)],
        capture_output=True, text=True, env={**os.environ, **variables}, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_recordings_notes_and_refusals_are_the_same(samples, tmp_path):
    paths = []
    for name in CSV_FILES:
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_bytes(getattr(samples, name)())
    paths.append(tmp_path / "packed.csv.gz")
    paths[-1].write_bytes(samples.zipped(samples.plain_csv()))
    with_arrow = run(READ, *paths)
    assert with_arrow[0] == 0, with_arrow[2]
    assert with_arrow[1].count("Laplace(") >= len(CSV_FILES) - 1
    assert run(ABSENT + READ, *paths) == with_arrow
    assert run(READ, *paths, HUSHMETER_ARROW="0") == with_arrow


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("cells", TABLES.values(), ids=TABLES)
def test_columns_are_the_same(cells, decimal, save, monkeypatch):
    path = save("".join(f"{cell},{i}\n" for i, cell in enumerate(cells)).encode())
    form = TextForm("utf-8-sig", ",", ["a", "b"], 0, decimal)
    pytest.importorskip("pyarrow")
    with_arrow = load_cells(path, form)
    monkeypatch.setenv("HUSHMETER_ARROW", "0")
    without = load_cells(path, form)
    for name, cells in with_arrow.items():
        other = without[name]
        assert (cells.values.dtype, cells.aware) == (other.values.dtype, other.aware)
        np.testing.assert_array_equal(cells.array(), other.array())
        np.testing.assert_array_equal(cells.good, other.good)


def test_rows_of_other_lengths_fit_in_neither_way(save, monkeypatch):
    path = save(b"1,2\n3,4,5\n")
    form = TextForm("utf-8-sig", ",", ["a", "b"])
    assert load_cells(path, form) is None
    monkeypatch.setenv("HUSHMETER_ARROW", "0")
    assert load_cells(path, form) is None


def test_folders_are_the_same(samples, tmp_path, monkeypatch):
    house = samples.channel_folder(tmp_path)
    with_arrow = read_home_recording(house)
    monkeypatch.setenv("HUSHMETER_ARROW", "0")
    without = read_home_recording(house)
    assert repr(with_arrow.public) == repr(without.public)
    assert with_arrow.remarks == without.remarks
    np.testing.assert_array_equal(with_arrow.watts, without.watts)
    np.testing.assert_array_equal(with_arrow.power, without.power)


def test_commands_give_the_same_bytes_without_arrow_and_pandas(samples, tmp_path):
    meter, real = tmp_path / "meter.csv", tmp_path / "real.csv"
    meter.write_bytes(samples.plain_csv(4000))
    hidden = ("release", meter, "--hide", "kettle", "-o")
    code, _, error = run(ABSENT + COMMANDS, *hidden, real)
    assert code == 0, error
    files = []
    for name, absent in (("with", "import sys\n"), ("without", ABSENT)):
        folder = tmp_path / name
        folder.mkdir()
        for command in (
            ("inspect", meter),
            (*hidden, folder / "shared.csv", "--seed", "7"),
            ("verify", real),
            ("restore", real, "-o", folder / "restored.csv"),
        ):
            code, _, error = run(absent + COMMANDS, *command)
            assert code == 0, (command, error)
        files.append({path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))})
    assert files[0] == files[1]
    assert set(files[0]) == {"shared.csv", "restored.csv"}


def test_parquet_and_workbooks_name_their_extra(samples, tmp_path):
    table = tmp_path / "meter.parquet"
    table.write_bytes(samples.parquet())
    code, _, error = run(ABSENT + COMMANDS, "inspect", table)
    assert code == 2
    assert "reading Parquet needs the extra 'parquet'" in error
    assert issubclass(MissingExtraError, ImportError)
