"""Central sums against sums of released homes, on a synthetic fleet of 10 000 meters.

For groups of 10, 100 and 1000 homes: the error of a group's hour from `fleet-stats`, which adds up
released homes, and from `fleet-sums`, which draws the noise once. Both protect everything that a
household does in a day at the same ε; a cap on the energy of a day makes the second smaller. The
errors are measured against the exact sums and stand beside the standard errors that the tables
state. The table in docs/utility.md is printed by

    python -m benchmarks.fleet_sums
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from hushmeter.apps.fleet import FleetTerms, JobOptions, SumTerms, release_fleet
from hushmeter.apps.fleet.clipping import read_reference
from hushmeter.apps.fleet.released_folder import summarise_fleet
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.synth.traces import FleetPlan, write_fleet

METERS, CLAMP, EPSILON, CAP_KWH = 10_000, (0.0, 15_000.0), "1", 40.0
SIZES = (10, 100, 1000)


def write_groups(folder: Path) -> None:
    """Write one day of the fleet, with a column of groups for every size."""
    write_fleet(FleetPlan(METERS, 1, 3600), folder / "raw", files=1)
    table = parquet.read_table(folder / "raw")
    number = np.array([int(str(meter)[1:]) for meter in table["meter"].to_pylist()])
    for size in SIZES:
        groups = pa.array([f"g{n // size:04d}" for n in number])
        table = table.append_column(f"of_{size}", groups)
    (folder / "in").mkdir()
    parquet.write_table(table, folder / "in" / "day.parquet")


def exact_sums(folder: Path, column: str) -> pd.Series[float]:
    """Return the exact sums by group and hour [kWh]."""
    table = parquet.read_table(folder / "in").to_pandas()
    table["value"] = np.floor(table["value"].clip(*CLAMP) + 0.5) / 1000
    return table.groupby([column, "time"], observed=True)["value"].sum()


def main() -> None:
    """Print one row for every size of a group."""
    with tempfile.TemporaryDirectory(prefix="hushmeter-bench-") as name:
        folder = Path(name)
        write_groups(folder)
        url = f"sqlite:///{folder}/ledger.db"
        open_ledger(url, create=DayChange.within(0, 15_000)).close()
        homes = FleetTerms(epsilon=EPSILON, clamp=CLAMP, span="day", mechanism="laplace")
        keep = [f"of_{size}" for size in SIZES]
        release_fleet(folder / "in", folder / "homes", homes, JobOptions(url, keep=keep))
        print(
            "| homes | mean load | fleet-stats | stated | fleet-sums | stated | ratio | √n/1.2 "
            "| with a cap | stated |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for size in SIZES:
            print(measure(folder, url, size))


def measure(folder: Path, url: str, size: int) -> str:
    """Return one row of the table: errors of a group's hour [kWh]."""
    column = f"of_{size}"
    truth = exact_sums(folder, column).to_numpy()
    many = summarise_fleet(folder / "homes", column, "hour").table
    found, tables = [], [(many, column)]
    for cap in (None, CAP_KWH):
        terms = SumTerms(EPSILON, CLAMP, (column,), mechanism="laplace", cap_kwh=cap,
                         reference=read_reference("9.2kWh", cap))  # fmt: skip
        options = JobOptions(url, stream=f"{column} {cap}", accept_noise=True)
        done = release_fleet(folder / "in", folder / f"{column}-{cap}", terms, options)
        tables.append((done.tables["sums"], "group"))
    for table, group in tables:
        errors = table.sort_values([group, "start"])["energy_kwh"].to_numpy() - truth
        found.append((math.sqrt(np.mean(errors**2)), float(table["energy_se_kwh"].iloc[0])))
    (one, one_stated), (two, two_stated), (three, three_stated) = found
    return (
        f"| {size} | {truth.mean():.3g} kWh | {one:.3g} kWh | {one_stated:.3g} kWh | {two:.3g} kWh "
        f"| {two_stated:.3g} kWh | {one / two:.3g} | {math.sqrt(size) / 1.2:.3g} "
        f"| {three:.3g} kWh | {three_stated:.3g} kWh |"
    )


if __name__ == "__main__":
    main()
