"""Synthetic homes and traces with a chosen sparsity (Appendix B of the paper), and fleets.

A trace is made from its switches. Every appliance gets a number of switches, and the stretches
between them, on and off in turn, get random lengths that fill the whole time. The number of
switches, and therefore the sparsity, is exact and not only correct on average.

The paper considers a pure load. A footnote refers homes with generation to other methods, and a
remark on Assumption 2 bounds the error of a meter by 5 % of the total power. `add_solar` and
`add_meter_error` add both to a trace, so that their effect can be measured.

A fleet is a folder of Parquet files of many meters, for trials, tests and benchmarks. A household
of a fleet has a base load and a daily shape with a morning and an evening peak, which are later and
flatter at weekends. Some households have solar panels, and some charge a car in the evening. Every
feeder of 50 meters has its own random stream, so the readings of a meter do not depend on the
number of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.appliance import Appliance
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    RngLike,
    non_negative,
    one_of,
    positive,
    whole,
)
from hushmeter.clock import weekday
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.files import atomic
from hushmeter.home import Home
from hushmeter.parts import need
from hushmeter.special import ndtr
from hushmeter.trace import (
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    Runs,
    Trace,
    check_interval,
    watts_per,
)

if TYPE_CHECKING:
    import pyarrow as pa

READY_HOMES = ("similar8", "rae13", "redd-like", "evening")
"""Names of the ready homes, each of which is a file in the folder `homes`."""
START = "2024-01-15T00:00Z"
"""Time of the first reading of a synthetic trace."""
REGULARITY = 2.0
"""Shape of the gamma distribution of the lengths of stretches; 1 would be exponential."""
NOON_H, HALF_DAY_H = 12.5, 5.5
"""Local time of the largest solar power, and the time from there to sunset [h]."""


def home(
    n: int = 8, *, spread: str = "similar", tolerance: float | None = None, seed: RngLike = 0
) -> Home:
    """Draw a random home.

    Parameters
    ----------
    n : int
        Number of appliances.
    spread : {"similar", "diverse"}
        Similar powers satisfy Assumption 3 for every U; diverse powers are log-uniform from 20 W
        to 4 kW.
    tolerance : float, optional
        δ of the paper [W]; 2 W if not given.
    seed : int, Generator or None
        The same seed gives the same home.

    Returns
    -------
    Home

    Raises
    ------
    InputError
        If `n`, `spread` or `tolerance` is out of range.
    """
    n = whole("n", n)
    rng = np.random.default_rng(seed)
    tolerance = 2.0 if tolerance is None else positive("tolerance", tolerance)
    if one_of("spread", spread, ("similar", "diverse")) == "similar":
        # For powers in [P, P + width], F(U*) ≥ P − (2⌈n/2⌉ − 1)·width. The width is a third of
        # the largest one for which Assumption 3 holds.
        smallest = 100.0 + 4 * tolerance
        powers = smallest + rng.random(n) * (smallest - 2 * tolerance) / (3 * n)
    else:
        powers = np.exp(rng.uniform(np.log(20 + 2 * tolerance), np.log(4000 + 2 * tolerance), n))
    appliances = [Appliance(f"appliance {i + 1}", float(p)) for i, p in enumerate(powers)]
    return Home(appliances, tolerance, name=f"{spread}{n}")


def trace(
    home: Home,
    length: int = 3600,
    sparsity: float | None = None,
    *,
    interval_s: float = 6.0,
    fluctuation: float = 1.0,
    drift: float = 0.9,
    start: str = START,
    seed: RngLike = 0,
) -> Trace:
    """Draw a trace of a home, with its true states and powers.

    Parameters
    ----------
    home : Home
        The appliances.
    length : int
        Number of readings, T.
    sparsity : float, optional
        s of Appendix B, exact to within one switch. If not given, the habits of the appliances
        (`run_s`, `runs_per_day`) decide, and s = 0.99 if they are unknown.
    interval_s : float
        Length of a reading [s].
    fluctuation : float
        Fluctuation within a state as a share, 0 … 1, of what Assumption 2 allows. The aggregate
        stays within a band of δ/2, so that no jump differs by more than δ/2 from the power that
        switched.
    drift : float
        Correlation of the fluctuation from reading to reading, 0 … 1.
    start : str
        Time of the first reading, with a zone.
    seed : int, Generator or None
        The same seed gives the same trace.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        If a parameter is out of range.
    """
    length = whole("length", length, least=2)
    rng = np.random.default_rng(seed)
    counts = _switch_counts(home, length, sparsity, interval_s, rng)
    states = np.empty((length, len(home)), np.bool_)
    power = np.empty((length, len(home)))
    for i, appliance in enumerate(home.appliances):
        duty = 0.5 if appliance.duty is None else appliance.duty
        states[:, i] = _alternate(length, int(counts[i]), duty, rng)
        power[:, i] = _draw_levels(states[:, i], appliance, rng)
    amplitude = _share("fluctuation", fluctuation) * home.tolerance / 4
    wander = _wander((length, len(home)), _share("drift", drift), rng)
    power += states * wander * (amplitude * home.powers / home.powers.sum())
    readings = home.base_load + power.sum(axis=1)
    return Trace(readings, interval_s, start, states, power, home.names)


def add_meter_error(
    trace: Trace, bound: float = 0.05, *, per: str = "reading", seed: RngLike = 0
) -> Trace:
    """Multiply readings by 1 + e, where the meter error e lies between −bound and bound.

    Notes
    -----
    Reading of the paper: the remark bounds the error of a reading "by 5 % of the total power" and
    names environmental and operational causes, which change over time. It does not limit how the
    error changes from reading to reading, so the default is an independent error for each
    reading. It is the harder case for an attacker, because it adds jumps of up to
    bound · (y_{t−1} + y_t), while a fixed error only scales the jumps that are there.
    """
    if not 0 <= bound <= 1:
        raise InputError(f"bound must lie between 0 and 1, got {bound}.")
    each = one_of("per", per, ("reading", "trace")) == "reading"
    if bound == 0:
        return trace
    errors = np.random.default_rng(seed).uniform(-bound, bound, len(trace) if each else 1)
    return trace.replace_readings(trace.readings * (1 + errors))


def add_solar(trace: Trace, peak_w: float, *, seed: RngLike = 0) -> Trace:
    """Subtract the power of solar panels from the readings, as a net meter does."""
    since = (trace.times - trace.times[0].astype("datetime64[D]")) / np.timedelta64(1, "s")
    hours = since / SECONDS_PER_HOUR % 24
    days = (since // SECONDS_PER_DAY).astype(np.int64)
    rng = np.random.default_rng(seed)
    return trace.replace_readings(
        trace.readings - solar_power(hours, days, positive("peak_w", peak_w), rng)
    )


def solar_power(
    hours: FloatArray, days: IntArray, peak_w: float, rng: np.random.Generator
) -> FloatArray:
    """Power of solar panels at hours of days [W]: half a cosine, with the weather of the day."""
    weather = rng.uniform(0.2, 1.0, int(days.max()) + 1)
    bell = np.maximum(0.0, np.cos((hours - NOON_H) / HALF_DAY_H * np.pi / 2))
    by_day = np.abs(hours - NOON_H) < HALF_DAY_H
    power: FloatArray = peak_w * weather[days] * np.where(by_day, bell, 0.0)
    return power


def ready_home(name: str) -> Home:
    """Return a ready home.

    Parameters
    ----------
    name : {"similar8", "rae13", "redd-like", "evening"}
        Name of the home.

    Returns
    -------
    Home

    Raises
    ------
    UnknownNameError
        If there is no such home.
    """
    if name not in READY_HOMES:
        raise UnknownNameError("ready home", name, READY_HOMES)
    file = resources.files("hushmeter.synth") / "homes" / f"{name}.toml"
    return Home.from_toml(file.read_text(encoding="utf-8"))


def _switch_counts(
    home: Home, length: int, sparsity: float | None, interval_s: float, rng: np.random.Generator
) -> IntArray:
    """Return the number of switches of each appliance, from its habits or the sparsity."""
    days = length * positive("interval_s", interval_s) / SECONDS_PER_DAY
    habits = [a.runs_per_day for a in home.appliances]
    if sparsity is None and all(h is not None for h in habits):
        wanted = np.array([2 * days * h for h in habits if h is not None])
        return np.minimum(np.floor(wanted + rng.random(len(home))), length - 1).astype(np.int64)
    share_of_steps = 1 - _share("sparsity", 0.99 if sparsity is None else sparsity)
    total = round(share_of_steps * len(home) * (length - 1))
    weights = np.array([1.0 if h is None else h for h in habits])
    return _apportion(total, weights, np.full(len(home), length - 1), rng)


def _apportion(
    total: int, weights: FloatArray, limits: IntArray, rng: np.random.Generator
) -> IntArray:
    """Split `total` into whole numbers in proportion to `weights`, none above its limit."""
    counts = np.zeros(weights.size, np.int64)
    while (rest := total - int(counts.sum())) > 0:
        open_ = np.flatnonzero(counts < limits)
        share = rest * weights[open_] / weights[open_].sum()
        extra = np.minimum(np.floor(share).astype(np.int64), limits[open_] - counts[open_])
        if extra.sum() == 0:
            chosen = rng.choice(open_, size=min(rest, open_.size), replace=False)
            counts[chosen] += 1
        else:
            counts[open_] += extra
    return counts


def _alternate(length: int, switches: int, duty: float, rng: np.random.Generator) -> BoolArray:
    """Return states with exactly `switches` switches that are on for about `duty` of the time."""
    stretches = switches + 1
    on_first = bool(rng.random() < duty)
    is_on = (np.arange(stretches) % 2 == 0) == on_first
    weights = rng.gamma(REGULARITY, size=stretches) + 1e-12
    weights *= np.where(is_on, max(duty, 1e-9), max(1 - duty, 1e-9))
    free = length - stretches
    ends = np.floor(np.cumsum(weights) / weights.sum() * free + 0.5).astype(np.int64)
    lengths = 1 + np.diff(ends, prepend=0)
    lengths[-1] += length - lengths.sum()
    return np.repeat(is_on, lengths)


def _draw_levels(on: BoolArray, appliance: Appliance, rng: np.random.Generator) -> FloatArray:
    """Return the power [W]; each run takes the levels in random order and for random times."""
    if len(appliance.on_levels) == 1:
        return np.where(on, appliance.on_levels[0], 0.0)
    power = np.zeros(on.size)
    runs = Runs.of_true(on)
    for first, stop in zip(runs.first, runs.stop, strict=True):
        levels = rng.permutation(appliance.on_levels)
        cuts = np.sort(rng.integers(first, stop, size=levels.size - 1))
        power[first:stop] = levels[np.searchsorted(cuts, np.arange(first, stop), side="right")]
    return power


def _wander(shape: tuple[int, int], drift: float, rng: np.random.Generator) -> FloatArray:
    """Return stationary noise, uniform on [−1, 1], with the correlation `drift` in time."""
    shocks = rng.standard_normal(shape)
    shocks[1:] *= np.sqrt(1 - drift**2)
    normal = [list(accumulate(column, lambda y, x: x + drift * y)) for column in shocks.T.tolist()]
    uniform: FloatArray = 2 * ndtr(np.stack(normal, axis=1)) - 1
    return uniform


def _share(name: str, value: float) -> float:
    """Return a number between 0 and 1; raise `InputError` for any other."""
    if non_negative(name, value) > 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}.")
    return float(value)


METERS_PER_FEEDER = 50
ROWS_PER_FILE = 2_000_000
ROWS_PER_GROUP = 1 << 20
FIRST_DAY = "2024-01-01"

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
    start: str = FIRST_DAY  # UTC

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


def _middle_hours(plan: FleetPlan) -> FloatArray:
    """Return the middle of every reading of a day [h]."""
    return (np.arange(plan.slots, dtype=np.float64) + 0.5) * (plan.interval_s / SECONDS_PER_HOUR)


def _daily_shapes(plan: FleetPlan, habit: FloatArray) -> FloatArray:
    """Return the load as a share of the peak, shape (meters, days, slots).

    All peaks of a household are `habit` hours later than usual.
    """
    day = np.datetime64(plan.start, "D") + np.arange(plan.days)
    weekend = (weekday(day) >= 5).astype(int)
    at = _middle_hours(plan)[None, None, :] - habit[:, None, None]
    morning, evening = np.array([7.2, 9.6])[:, None], np.array([19.0, 18.4])[:, None]
    width, height = np.array([1.1, 2.2])[:, None], np.array([0.9, 0.7])[:, None]
    shape = 0.15 + height * np.exp(-0.5 * ((at - morning) / width) ** 2)
    shape += 1.3 * np.exp(-0.5 * ((at - evening) / 2.0) ** 2)
    shape += np.array([0.1, 0.45])[:, None] * np.exp(-0.5 * ((at - 13.0) / 2.5) ** 2)
    both: FloatArray = shape[:, weekend, :]
    return both


def _add_cars(plan: FleetPlan, rng: np.random.Generator, watts: FloatArray) -> None:
    homes = np.flatnonzero(rng.random(METERS_PER_FEEDER) < CAR_SHARE)
    plugged = rng.normal(19.5, 1.5, (homes.size, plan.days))
    lasting = rng.uniform(*CAR_HOURS, (homes.size, plan.days))
    lasting *= rng.random((homes.size, plan.days)) < CHARGING_DAYS
    since = _middle_hours(plan) - plugged[:, :, None]
    watts[homes] += CAR_W * ((since >= 0) & (since < lasting[:, :, None]))


def _subtract_solar(plan: FleetPlan, rng: np.random.Generator, watts: FloatArray) -> None:
    homes = np.flatnonzero(rng.random(METERS_PER_FEEDER) < SOLAR_SHARE)
    peak = rng.uniform(2500.0, 8000.0, homes.size)[:, None, None]
    clear = rng.beta(2.0, 1.5, (homes.size, plan.days))[:, :, None]
    sun = np.maximum(0.0, np.cos((_middle_hours(plan) - 12.5) * np.pi / 11)) ** 1.5
    watts[homes] -= peak * clear * sun


def _write_file(plan: FleetPlan, path: Path, first: int, end: int) -> None:
    """Write the meters `first` … `end` − 1 to one file."""
    parquet = need("pyarrow.parquet", "a synthetic fleet", "parquet")
    per_meter = plan.days * plan.slots
    at_once = max(1, ROWS_PER_GROUP // per_meter)
    with (
        atomic(path, public=True) as temporary,
        parquet.ParquetWriter(
            temporary, _fleet_schema(), compression="zstd", write_batch_size=1 << 15
        ) as writer,
    ):
        kept: dict[int, FloatArray] = {}
        for start in range(first, end, at_once):
            numbers = np.arange(start, min(start + at_once, end))
            feeders = range(start // METERS_PER_FEEDER, int(numbers[-1]) // METERS_PER_FEEDER + 1)
            kept = {f: kept[f] if f in kept else draw_feeder(plan, f) for f in feeders}
            watts = np.concatenate([kept[f] for f in feeders])
            values = watts[numbers - feeders[0] * METERS_PER_FEEDER].reshape(-1)
            table = _fleet_table(plan, numbers, values)
            writer.write_table(table, row_group_size=max(ROWS_PER_GROUP, per_meter))


def _fleet_schema() -> pa.Schema:
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


def _fleet_table(plan: FleetPlan, numbers: IntArray, watts: FloatArray) -> pa.Table:
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
        schema=_fleet_schema(),
    )
