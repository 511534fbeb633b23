"""Small fleets, ledgers and releases for the tests of the fleet job."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushmeter.apps.fleet import FleetTerms, JobOptions, SumTerms, release_fleet
from hushmeter.apps.fleet.clipping import Reference
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.synth.traces import FleetPlan, write_fleet

KEY = bytes(range(32))
RELEASE = "20240201T000000Z-00000000"
TERMS = FleetTerms(epsilon="0.5", clamp=(0.0, 12_000.0), interval_s=3600)


def new_ledger(folder: Path, name: str = "ledger", low: float = 0.0) -> str:
    url = f"sqlite:///{folder / name}.db"
    open_ledger(url, create=DayChange.within(low, 15_000)).close()
    return url


def small_fleet(folder: Path, *, meters: int = 12, days: int = 2, files: int = 3, **plan) -> Path:
    write_fleet(FleetPlan(meters, days, **{"interval_s": 3600, **plan}), folder / "in", files=files)
    return folder / "in"


def release(source: Path, output: Path, ledger: str, terms: FleetTerms = TERMS, **more):
    return release_fleet(source, output, terms, JobOptions(ledger, **more))


REFERENCE = Reference(day_kwh=10.0, share=0.05, excess_kwh=5.0)


def release_sums(source: Path | str, output: Path, terms: SumTerms, *, ledger: str, **more):
    return release_fleet(
        source, output, terms, JobOptions(ledger, **{"accept_noise": True, **more})
    )


def readings(
    meters=("a", "b"), days: int = 2, interval_s: int = 3600, unit: str = "W", seed: int = 0
) -> dict[str, list]:
    """Columns of a plain file, sorted by meter and time, to be spoilt by a test."""
    per_day = 86_400 // interval_s
    times = np.datetime64("2024-03-01", "s") + np.arange(days * per_day) * interval_s
    rows = len(meters) * times.size
    rng = np.random.default_rng(seed)
    return {
        "meter": [meter for meter in meters for _ in range(times.size)],
        "time": [t.item() for _ in meters for t in times],
        "value": rng.integers(0, 5000, rows).astype(float).tolist(),
        "unit": [unit] * rows,
        "interval_s": [interval_s] * rows,
    }


def write(path: Path, columns: dict[str, list], *, zone: str | None = "UTC", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {
        "meter": pa.string(),
        "time": pa.timestamp("s", tz=zone),
        "value": pa.float64(),
        "unit": pa.string(),
        "interval_s": pa.int32(),
    }
    arrays = {name: pa.array(v, kinds.get(name)) for name, v in columns.items()}
    pq.write_table(pa.table(arrays), path, **options)
    return path


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every released file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.parquet"))
        if ".hushmeter" not in path.parts
    }


def spends(url: str) -> list[tuple[str, str, str]]:
    with open_ledger(url) as ledger:
        return [(row["meter"], row["period"], row["stream"]) for row in ledger.rows()]


def published(folder: Path) -> set[tuple[str, str]]:
    """(meter, day) pairs that appear in the released files."""
    found = set()
    for name in digests(folder):
        table = pq.read_table(folder / name, columns=["meter", "time"])
        days = table["time"].to_numpy().astype("datetime64[D]").astype(str)
        found |= set(zip(map(str, table["meter"].to_pylist()), days, strict=True))
    return found
