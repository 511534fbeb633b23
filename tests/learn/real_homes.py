"""Real homes whose sub-meters tell what the statements about the mains should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hushmeter.checks import FloatArray
from hushmeter.learn.habits import clean
from hushmeter.learn.rhythm import cut_days
from hushmeter.trace import Trace

FILES = {
    "REDD 1": "redd/redd_house1_3s.parquet",
    "REDD 3": "mains/redd_house3_3s.parquet",
    "REDD 6": "mains/redd_house6_3s.parquet",
    "REFIT 2": "mains/refit_house2_1min.parquet",
    "UK-DALE 2": "mains/ukdale_house2_1min.parquet",
}
# The times of REDD 3 and 6 are approximate: their clock is unknown.
ZONES = {
    "REDD 1": "America/New_York",
    "REDD 3": "UTC",
    "REDD 6": "UTC",
    "REFIT 2": "Europe/London",
    "UK-DALE 2": "Europe/London",
}
ON_W = {"Kettle": 500, "Microwave": 200, "Dishwasher": 50, "WashingMachine": 50}


@dataclass(frozen=True, eq=False)
class RealHome:
    """Mains and circuits of one home; `utc` are the starts of the readings [s]."""

    trace: Trace
    circuits: dict[str, FloatArray]
    utc: FloatArray
    zone: str


def read_real_home(folder: Path, name: str) -> RealHome:
    table = pd.read_parquet(folder / FILES[name]).dropna(subset="aggregate")
    utc = (table.timestamp - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy()
    interval = 3.0 if name.startswith("REDD") else 60.0
    steps = np.rint((utc - utc[0]) / interval).astype(np.int64)
    new = np.append(True, np.diff(steps) > 0)
    start = np.datetime64(int(utc[0]), "s")
    watts = table["aggregate"].to_numpy(np.float64)[new]
    trace = Trace(watts, interval, start, steps=steps[new])
    names = [str(column) for column in table if column not in ("timestamp", "aggregate")]
    circuits = {c: table[c].fillna(0).to_numpy(np.float64)[new] for c in names}
    return RealHome(trace, circuits, utc[new], ZONES[name])


def away_days(home: RealHome, trace: Trace) -> set[np.datetime64]:
    """Days (04:00 to 04:00) that are complete in `trace` and without use of any sub-meter."""
    readings = clean(trace, home.zone)
    complete = cut_days(readings).dates
    days = np.floor((readings.to_local(home.utc) - 4 * 3600) / 86_400).astype(np.int64)
    used: set[int] = set()
    for name, least in ON_W.items():
        used |= set(days[home.circuits[name] > least].tolist())
    return {np.datetime64(int(d), "D") for d in complete if int(d) not in used}


def first_uses(home: RealHome) -> FloatArray:
    """Local hour of the first use of kettle or microwave on every working day that has one."""
    local = clean(home.trace, home.zone).to_local(home.utc)
    used = (home.circuits["Kettle"] > ON_W["Kettle"]) | (
        home.circuits["Microwave"] > ON_W["Microwave"]
    )
    days = np.floor((local[used] - 4 * 3600) / 86_400).astype(np.int64)
    dates, first = np.unique(days, return_index=True)
    hours: FloatArray = local[used][first] / 3600 % 24
    return hours[(dates + 3) % 7 < 5]
