"""Synthetic fleets: Parquet files of many meters, for trials, tests and benchmarks.

A household has a base load and a daily shape with a morning and an evening peak, which are later
and flatter at weekends. Some households have solar panels, and some charge a car in the evening.
Every feeder of 50 meters has its own random stream, so the readings of a meter do not depend on
the number of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import FloatArray, IntArray, whole
from hushmeter.clock import weekday
from hushmeter.errors import DataError, InputError
from hushmeter.files import atomic
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, check_interval, watts_per

if TYPE_CHECKING:
    import pyarrow as pa

METERS_PER_FEEDER = 50
ROWS_PER_FILE = 2_000_000
ROWS_PER_GROUP = 1 << 20
START = "2024-01-01"

SOLAR_SHARE, CAR_SHARE = 0.1, 0.08
"""Shares of households with solar panels and with a car."""

CAR_W, CAR_HOURS = 7_000.0, (1.0, 4.0)
"""Power of a charging car [W], and the shortest and longest charge [h]."""

CHARGING_DAYS = 0.4
"""Share of days on which a car is charged."""


@dataclass(frozen=True)
class FleetPlan:
    """The parameters of a synthetic fleet."""

    # Number of meters and of days
    meters: int
    days: int
    interval_s: int = 900  # Length of a reading [s]; a day must contain a whole number of them
    seed: int = 0  # The same seed gives the same fleet
    unit: str = "W"  # Unit of the values; energies are those of one interval
    start: str = START  # First day, UTC

    def __post_init__(self) -> None:
        whole("meters", self.meters)
        whole("days", self.days)
        whole("seed", self.seed, least=0)
        check_interval(self.interval_s)
        watts_per(self.unit, self.interval_s)
        if not _is_day(self.start):
            raise InputError(f"start must be a day such as 2024-01-01, got {self.start!r}.")

    @property
    def slots(self) -> int:
        """Number of readings per day."""
        return SECONDS_PER_DAY // self.interval_s

    @property
    def rows(self) -> int:
        """Number of readings of the whole fleet."""
        return self.meters * self.days * self.slots


def write_fleet(
    plan: FleetPlan,
    folder: Path,
    *,
    files: int | None = None,
    report: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write a fleet as `part-0000.parquet`, …, sorted by meter and time."""
    count = files if files is not None else -(-plan.rows // ROWS_PER_FILE)
    count = min(whole("files", count), plan.meters)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not an empty folder; name another one.")
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, plan.meters, count + 1).astype(int)
    paths = []
    for i in range(count):
        path = folder / f"part-{i:04d}.parquet"
        _write_file(plan, path, int(edges[i]), int(edges[i + 1]))
        paths.append(path)
        if report is not None:
            report(int(edges[i + 1] - edges[i]) * plan.days * plan.slots)
    return paths


def draw_feeder(plan: FleetPlan, feeder: int) -> FloatArray:
    """Draw the power of the meters of one feeder."""
    rng = np.random.default_rng(np.random.SeedSequence((plan.seed, feeder)))
    shape = (METERS_PER_FEEDER, plan.days, plan.slots)
    size = rng.lognormal(0.0, 0.5, METERS_PER_FEEDER)
    habit = rng.normal(0.0, 0.8, METERS_PER_FEEDER)
    mood = rng.lognormal(0.0, 0.25, shape[:2])
    watts: FloatArray = _daily_shapes(plan, habit) * (420.0 * size[:, None] * mood)[:, :, None]
    # Half of the load above the base varies at random, as appliances switch on and off.
    bursts: Any = rng.standard_exponential(shape, dtype=np.float32)
    watts *= 0.5 + 0.5 * bursts
    watts += (90.0 * size * rng.lognormal(0.0, 0.3, METERS_PER_FEEDER))[:, None, None]
    _add_cars(plan, rng, watts)
    _subtract_solar(plan, rng, watts)
    return np.rint(watts, out=watts)


def _is_day(text: str) -> bool:
    """Return whether a text is a day in the form 2024-01-01."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except (TypeError, ValueError):
        return False


def _hours(plan: FleetPlan) -> FloatArray:
    """Return the middle of every reading of a day [h]."""
    return (np.arange(plan.slots, dtype=np.float64) + 0.5) * (plan.interval_s / SECONDS_PER_HOUR)


def _daily_shapes(plan: FleetPlan, habit: FloatArray) -> FloatArray:
    """Return the load as a share of the peak, shape (meters, days, slots).

    All peaks of a household are `habit` hours later than usual.
    """
    day = np.datetime64(plan.start, "D") + np.arange(plan.days)
    weekend = (weekday(day) >= 5).astype(int)
    at = _hours(plan)[None, None, :] - habit[:, None, None]
    morning, evening = np.array([7.2, 9.6])[:, None], np.array([19.0, 18.4])[:, None]
    width, height = np.array([1.1, 2.2])[:, None], np.array([0.9, 0.7])[:, None]
    shape = 0.15 + height * np.exp(-0.5 * ((at - morning) / width) ** 2)
    shape += 1.3 * np.exp(-0.5 * ((at - evening) / 2.0) ** 2)
    shape += np.array([0.1, 0.45])[:, None] * np.exp(-0.5 * ((at - 13.0) / 2.5) ** 2)
    both: FloatArray = shape[:, weekend, :]
    return both


def _add_cars(plan: FleetPlan, rng: np.random.Generator, watts: FloatArray) -> None:
    """Add the charging of cars, in place."""
    homes = np.flatnonzero(rng.random(METERS_PER_FEEDER) < CAR_SHARE)
    plugged = rng.normal(19.5, 1.5, (homes.size, plan.days))
    lasting = rng.uniform(*CAR_HOURS, (homes.size, plan.days))
    lasting *= rng.random((homes.size, plan.days)) < CHARGING_DAYS
    since = _hours(plan) - plugged[:, :, None]
    watts[homes] += CAR_W * ((since >= 0) & (since < lasting[:, :, None]))


def _subtract_solar(plan: FleetPlan, rng: np.random.Generator, watts: FloatArray) -> None:
    """Subtract the production of solar panels, in place."""
    homes = np.flatnonzero(rng.random(METERS_PER_FEEDER) < SOLAR_SHARE)
    peak = rng.uniform(2500.0, 8000.0, homes.size)[:, None, None]
    clear = rng.beta(2.0, 1.5, (homes.size, plan.days))[:, :, None]
    sun = np.maximum(0.0, np.cos((_hours(plan) - 12.5) * np.pi / 11)) ** 1.5
    watts[homes] -= peak * clear * sun


def _write_file(plan: FleetPlan, path: Path, first: int, end: int) -> None:
    """Write the meters `first` … `end` − 1 to one file."""
    from pyarrow import parquet

    per_meter = plan.days * plan.slots
    at_once = max(1, ROWS_PER_GROUP // per_meter)
    with (
        atomic(path, public=True) as temporary,
        parquet.ParquetWriter(
            temporary, _schema(), compression="zstd", write_batch_size=1 << 15
        ) as writer,
    ):
        kept: dict[int, FloatArray] = {}
        for start in range(first, end, at_once):
            numbers = np.arange(start, min(start + at_once, end))
            feeders = range(start // METERS_PER_FEEDER, int(numbers[-1]) // METERS_PER_FEEDER + 1)
            kept = {f: kept[f] if f in kept else draw_feeder(plan, f) for f in feeders}
            watts = np.concatenate([kept[f] for f in feeders])
            values = watts[numbers - feeders[0] * METERS_PER_FEEDER].reshape(-1)
            table = _table(plan, numbers, values)
            writer.write_table(table, row_group_size=max(ROWS_PER_GROUP, per_meter))


def _schema() -> pa.Schema:
    """Return the schema of a file of the fleet."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    kinds: dict[str, Any] = {
        "meter": text,
        "time": pa.timestamp("ms", tz="UTC"),
        "value": pa.float64(),
        "unit": text,
        "interval_s": pa.int32(),
        "group": text,
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def _table(plan: FleetPlan, numbers: IntArray, watts: FloatArray) -> pa.Table:
    """Return the rows of some meters."""
    import pyarrow as pa

    per_meter = plan.days * plan.slots
    start = np.datetime64(plan.start, "ms").astype(np.int64)
    times = start + np.arange(per_meter, dtype=np.int64) * (1000 * plan.interval_s)
    feeder = numbers // METERS_PER_FEEDER

    def repeat(codes: IntArray) -> NDArray[np.int32]:
        return np.repeat(codes.astype(np.int32), per_meter)

    feeders = np.unique(feeder)
    return pa.table(
        [
            pa.DictionaryArray.from_arrays(
                repeat(np.arange(numbers.size)), [f"M{n:08d}" for n in numbers]
            ),
            pa.array(np.tile(times, numbers.size), pa.timestamp("ms", tz="UTC")),
            pa.array(watts / watts_per(plan.unit, plan.interval_s)),
            pa.DictionaryArray.from_arrays(np.zeros(watts.size, np.int32), [plan.unit]),
            pa.array(np.full(watts.size, plan.interval_s, np.int32)),
            pa.DictionaryArray.from_arrays(
                repeat(feeder - feeders[0]), [f"feeder-{f:05d}" for f in feeders]
            ),
        ],
        schema=_schema(),
    )
