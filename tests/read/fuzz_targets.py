"""Coverage-guided fuzz targets for the readers, one for each family of formats.

A target reads bytes as a file and options that follow from the bytes. It fails if a reader raises
anything but hushmeter's own errors, or returns a recording that is not one. Run a family with

    python tests/read/fuzz_targets.py xml CORPUS -max_total_time=60

which needs atheris. `make test-slow` runs every family for a while (test_fuzz_targets.py).
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import re
import sqlite3
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent
LARGEST = 1 << 16
"""Longest input [bytes]: larger files take longer and reach no other code."""


def load(name):
    """Import a module of the tests by its file, because the folder is no package."""
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def choices():
    """Options that a file is read with; its length chooses one of them."""
    from hushmeter.read import ReadOptions

    return (
        ReadOptions(),
        ReadOptions(unit="kWh", tz="Europe/Dublin"),
        ReadOptions(tz="UTC", stamp="end", counter="yes"),
        ReadOptions(meter="1", register="E1"),
        ReadOptions(unit="W", tz="America/New_York", reading_length="15min"),
        ReadOptions(unit="Wh"),
        ReadOptions(unit="kW", decimal="comma"),
    )


def check(data, chosen=None):
    """Read bytes as a file; raise only if a reader has a fault.

    The length of the bytes chooses the options, unless they are given.

    Returns
    -------
    bool
        True if the bytes hold readings.
    """
    import numpy as np

    from hushmeter.errors import HushmeterError
    from hushmeter.read import read_bytes

    options = chosen or choices()[len(data) % len(choices())]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read_bytes(data, "fuzz", options, most_values=1 << 20)
    except HushmeterError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message, f"several lines: {message}"
        return False
    assert len(found.trace) > 0
    assert np.isfinite(found.trace.readings).all()
    assert found.public.readings >= 1
    return True


def _tables(samples):
    day = "".join(f",{k / 100}" for k in range(48))
    nem = (
        "100,NEM12,202401010000,A,B\n200,NMI1234567,E1,1,E1,,M1,KWH,30,\n"
        f"300,20240101{day},A,,,\n900\n"
    )
    return [
        samples.plain_csv(12),
        samples.octopus(),
        samples.n3rgy(),
        samples.esb(count=4),
        samples.ha_energy(),
        samples.ha_history(),
        samples.rae(4),
        samples.ampds(6),
        samples.refit(6),
        nem.encode(),
    ]


def _feeds(samples):
    return [samples.green_button(), samples.green_button(prefix=True, exponent=-3)]


def _documents(_):
    times = [f"2024-01-01T{h:02d}:00:00Z" for h in range(8)]
    records = [{"start": t, "consumption_kwh": 0.1 + i / 8} for i, t in enumerate(times)]
    columns = {"unit": "kWh", "timestamps": times, "usage": [r["consumption_kwh"] for r in records]}
    pairs = {"series": [{"name": "Import (kWh)", "data": [[900_000 * i, 0.5] for i in range(8)]}]}
    return [json.dumps(d).encode() for d in (records, {"results": records}, columns, pairs)]


def _telegrams(samples):
    plain = re.sub(rb"![0-9A-F]{4}", b"!", samples.dsmr(4))
    return [samples.dsmr(3), plain.replace(b"*kW)", b"*W)")]


def _containers(samples):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meter.csv", samples.plain_csv(12))
    rows = [["timestamp", "watts"], *([1_700_000_000 + 6 * i, 50.0 + i] for i in range(8))]
    seeds = [
        gzip.compress(samples.plain_csv(12), mtime=0),
        packed.getvalue(),
        load("spreadsheets").xlsx_bytes({"Sheet": rows}),
        samples.parquet(12),
        _database(),
    ]
    try:
        from hushmeter.trace import Trace
        from hushmeter.write import meter_bytes

        seeds.append(meter_bytes(Trace([5.0, 6.0, 7.0], 6.0), "h5"))
    except ImportError:
        pass
    return seeds


def _database():
    """A small recorder of Home Assistant."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recorder.db"
        database = sqlite3.connect(path)
        database.execute("PRAGMA page_size = 512")
        database.executescript(
            "CREATE TABLE statistics_meta (id INTEGER PRIMARY KEY, statistic_id TEXT, "
            "unit_of_measurement TEXT, has_sum BOOLEAN);"
            "CREATE TABLE statistics (metadata_id INTEGER, start_ts FLOAT, mean FLOAT, sum FLOAT);"
            "INSERT INTO statistics_meta VALUES (1, 'sensor.grid_import', 'kWh', 1);"
        )
        hours = [(1, 1_704_067_200 + 3600 * h, None, 0.5 * h) for h in range(6)]
        database.executemany("INSERT INTO statistics VALUES (?, ?, ?, ?)", hours)
        database.commit()
        database.close()
        return path.read_bytes()


FAMILIES = {
    "tables": _tables,
    "xml": _feeds,
    "json": _documents,
    "telegrams": _telegrams,
    "containers": _containers,
}


def seeds(family):
    """Small files of a family, from which the fuzzer starts."""
    return FAMILIES[family](load("conftest"))


def main(arguments):
    """Fuzz one family; further arguments are those of libFuzzer."""
    import atheris

    family, corpus, *options = arguments
    with atheris.instrument_imports(include=["hushmeter.read"]):
        pass

    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(family)):
        (folder / f"seed-{number}").write_bytes(data)

    def target(data):
        check(data)

    atheris.Setup([sys.argv[0], *options, f"-max_len={LARGEST}", str(folder)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
