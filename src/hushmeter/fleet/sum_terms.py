"""The promise of a release of sums: its unit of protection, its noise and its price.

Up to three tables are published, and each has noise of its own: sums of every bin of time, load
shapes (sums of every hour of the day), and counts from which the quantiles of every hour of the day
are computed. With k tables each of them gets ε/k and δ/k.

Every reading is clamped to a range of C watts and rounded to whole steps of g watts, so that all
sums are exact integers. One unit of protection changes the numbers of a table, in each of L levels
of groups, by at most Δ1 in total and by at most √(Δ2²) in Euclidean length (Laplace noise uses
L·Δ1, Gaussian noise √(L·Δ2²)). With I seconds for a reading and W readings in a bin or an hour:

    everything that a household does in a civil day (25 h, N = 25 h/I readings)
        sums    Δ1 = C·N             Δ2² = C²·N·W
        shape   Δ1 = C·N             Δ2² = C²·Σ r_h²     (r_h readings in hour h of the day)
        counts  Δ1 = 2·Σ n_h         Δ2² = 2·Σ n_h²      (n_h hours of the clock show hour h)
    everything that a household does in a period of D days (N = D·24 h/I)
        sums    Δ1 = C·N             Δ2² = C²·N·W
        shape   Δ1 = C·N             Δ2² = C²·W²·Σ n_h²
        counts  Δ1 = 2·Σ n_h         Δ2² = 2·Σ n_h²
    one run of at most P watts, R seconds and E watt-seconds, which touches n = ⌈R/I⌉ + 1 readings
        sums    Δ1 = E/I + n·g       Δ2² = Δ1·min(Δ1, (P + g)·W)
        shape   the same with (P + g)·r, if up to r of the n readings are in one hour of the day
        counts  Δ1 = 2·Σ n_h         Δ2² = 2·Σ n_h²

`hour_counts` finds the largest r_h and n_h of a stretch of readings by trying all of its places in
the zone, with all changes of the clock. In UTC 25 h of quarter-hours have Σ r_h² = 27·W²,
Σ n_h = 26 and Σ n_h² = 30; a change of the clock by one hour forward makes it 29·W², 26 and 32.

The ledger charges the (ε, δ) of the change that it declares (`DayChange`), whatever the unit of
the release is, because it adds up the charges of all releases by day. Any readings within a clamp
are a household's day; a day's use is a run of 25 hours.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmeter import __version__
from hushmeter.checks import one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.fleet.hour_counts import HourCounts, count_hours, hours_of_period
from hushmeter.formatting import duration_in_words
from hushmeter.ledger import DayChange, Price, micro_epsilon
from hushmeter.ledger.charges import femto_delta
from hushmeter.ledger.day_change import LONGEST_S, ZONE_STEP_S
from hushmeter.noise import Size, find_kind
from hushmeter.noise.parameters import exact, to_steps
from hushmeter.releases.view_plan import epsilon_of
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

EVERY_S = {"hour": SECONDS_PER_HOUR, "day": SECONDS_PER_DAY}
"""Length of a bin [s]."""

UNITS_OF = ("household-day", "household", "run")
TABLES = ("sums", "shape", "quantiles")
QUANTILES = (0.1, 0.5, 0.9)
LONGEST_RUN_S = 31 * SECONDS_PER_DAY
"""Longest run that tables by hour of the day can hide [s]."""

_BINS = 40
"""Number of classes of the default grid of quantiles."""


@dataclass(frozen=True)
class Run:
    """The largest run of an appliance that a release hides.

    Attributes
    ----------
    watts : float
        Largest power [W].
    seconds : float
        Longest duration [s].
    watt_hours : float, optional
        Most energy [Wh]; by default the full power over the whole duration.
    """

    watts: float
    seconds: float
    watt_hours: float | None = None

    def __post_init__(self) -> None:
        positive("watts", self.watts)
        positive("seconds", self.seconds)
        if self.watt_hours is not None:
            positive("watt_hours", self.watt_hours)

    @property
    def watt_seconds(self) -> Fraction:
        """Most energy E [Ws]."""
        full = exact("watts", self.watts) * exact("seconds", self.seconds)
        if self.watt_hours is None:
            return full
        return min(full, exact("watt_hours", self.watt_hours) * SECONDS_PER_HOUR)


@dataclass(frozen=True)
class SumTerms:
    """The promise of a release of sums.

    Attributes
    ----------
    epsilon : str
        ε of the unit of protection, an exact decimal number.
    clamp : (low, high)
        Bounds of a reading [W], known beforehand.
    by : tuple of str
        Columns with nested groups, from the coarsest to the finest.
    every : {"hour", "day"}
        UTC bin of a sum.
    mechanism : {"best", "laplace", "gaussian"}
        Distribution of the noise; "best" is the one with the smaller error.
    grid : str
        Step to which readings are rounded [W].
    delta : float
        δ of Gaussian noise.
    max_epsilon : float
        Largest ε that is accepted.
    min_meters : int
        Groups with fewer meters are not published; membership is public.
    unit_of : {"household-day", "household", "run"}
        The unit of protection: everything that one household does in one civil day, everything
        that it does in the whole `period`, or one `run` of an appliance.
    period : (str, str), optional
        First and last UTC day of the release; other days are left out. The unit "household"
        needs it.
    run : Run, optional
        The run to hide, for the unit "run".
    tables : tuple of {"sums", "shape", "quantiles"}
        What is published.
    quantiles : tuple of float
        Which quantiles of the hourly means of single meters are published.
    levels : tuple of float, optional
        Public grid on which quantiles are estimated [W], rising; by default 41 levels whose
        distances grow from the lower to the upper bound of the clamp.
    tz : str, optional
        Time zone of the hours of the day; UTC by default.
    """

    epsilon: str
    clamp: tuple[float, float]
    by: tuple[str, ...]
    every: str = "hour"
    mechanism: str = "best"
    grid: str = "1"
    delta: float = 1e-6
    max_epsilon: float = 20.0
    min_meters: int = 1
    unit_of: str = "household-day"
    period: tuple[str, str] | None = None
    run: Run | None = None
    tables: tuple[str, ...] = ("sums",)
    quantiles: tuple[float, ...] = QUANTILES
    levels: tuple[float, ...] | None = None
    tz: str | None = None

    def __post_init__(self) -> None:
        one_of("every", self.every, tuple(EVERY_S))
        one_of("mechanism", self.mechanism, ("best", "laplace", "gaussian"))
        one_of("unit_of", self.unit_of, UNITS_OF)
        whole("min_meters", self.min_meters)
        if not self.by or len(set(self.by)) < len(self.by):
            raise InputError("name one or more different columns to group by.")
        for table in self.tables:
            one_of("tables", table, TABLES)
        if not self.tables or len(set(self.tables)) < len(self.tables):
            raise InputError(f"name one or more different tables of {', '.join(TABLES)}.")
        if not all(0 < q < 1 for q in self.quantiles) or not self.quantiles:
            raise InputError("quantiles must lie between 0 and 1, such as 0.1,0.5,0.9.")
        if (self.unit_of == "run") != (self.run is not None):
            raise InputError("the unit 'run', and no other, needs the power and time of a run.")
        if self.unit_of == "household" and self.period is None:
            raise InputError(
                "the unit 'household' needs the period of the release, such as "
                "2024-01-01..2024-01-31."
            )
        self.days  # noqa: B018 (an invalid period raises here)
        self.class_edges  # noqa: B018

    @property
    def step(self) -> Fraction:
        """Step to which readings are rounded [W]."""
        return exact("grid", self.grid)

    @property
    def width(self) -> Fraction:
        """Width C of the clamp in whole steps [W]."""
        low, high = (to_steps(bound, self.step) for bound in self.clamp)
        return (high - low) * self.step

    @property
    def days(self) -> int:
        """Number of UTC days of the period; 0 if none is stated."""
        if self.period is None:
            return 0
        try:
            first, last = map(date.fromisoformat, self.period)
        except ValueError:
            first, last = date.max, date.min
        if last < first:
            raise InputError(
                f"period must be two days such as 2024-01-01..2024-01-31, got "
                f"{'..'.join(self.period)}."
            )
        return (last - first).days + 1

    @property
    def class_edges(self) -> tuple[int, ...]:
        """Edges of the classes of values for quantiles [steps], rising."""
        low, high = self.clamp
        levels = self.levels or tuple(
            low + (high - low) * (i / _BINS) ** 2 for i in range(_BINS + 1)
        )
        steps = tuple(to_steps(level, self.step) for level in levels)
        if self.levels is None:
            return tuple(sorted(set(steps)))
        if len(steps) < 2 or any(b <= a for a, b in pairwise(steps)):
            raise InputError("levels must be two or more rising numbers of watts.")
        return steps

    @property
    def sentence(self) -> str:
        """The unit of protection in words."""
        if self.unit_of == "household":
            assert self.period is not None
            return f"everything that one household does from {' to '.join(self.period)}"
        if self.run is not None:
            energy = float(self.run.watt_seconds) / SECONDS_PER_HOUR
            return (
                f"one run of an appliance of up to {self.run.watts:g} W, "
                f"{duration_in_words(self.run.seconds)} and {energy:g} Wh"
            )
        return "everything that one household does in one civil day of up to 25 hours"

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> SumTerms:
        """Return the terms that `dataclasses.asdict` described, also after a way through JSON."""
        facts: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in plain.items()
        }
        if facts["run"] is not None:
            facts["run"] = Run(**facts["run"])
        return cls(**facts)

    def describe(self, interval_s: int) -> dict[str, Any]:
        """Return the promise as plain values, which the ledger and the manifest record.

        Parameters
        ----------
        interval_s : int
            Length of a reading [s].

        Returns
        -------
        dict
        """
        noise = {name: build_mechanism(self, name, interval_s) for name in self.tables}
        return {
            "version": __version__,
            "epsilon": self.epsilon,
            "delta": sum(mechanism.delta for mechanism in noise.values()),
            "noise": {name: mechanism.describe() for name, mechanism in noise.items()},
            "unit": self.sentence,
            "unit_of": self.unit_of,
            "period": self.period and list(self.period),
            "run": self.run and asdict(self.run),
            "clamp": list(self.clamp),
            "by": list(self.by),
            "every": self.every,
            "tables": list(self.tables),
            "tz": self.tz,
            "interval_s": interval_s,
            "min_meters": self.min_meters,
        }


def parse_period(text: str | None) -> tuple[str, str] | None:
    """Read a period such as 2024-01-01..2024-01-31; a single day is its own last day."""
    if text is None:
        return None
    first, _, last = text.partition("..")
    return first.strip(), last.strip() or first.strip()


class Change(NamedTuple):
    """How much one unit of protection changes the numbers of a table in one level of groups.

    Attributes
    ----------
    total : Fraction
        Largest sum of the changes Δ1 [W, or counts].
    squares : Fraction
        Largest sum of the squares of the changes Δ2² [W², or counts²].
    touches : int
        Most numbers that change.
    """

    total: Fraction
    squares: Fraction
    touches: int


def largest_change(terms: SumTerms, table: str, interval_s: int) -> Change:
    """Compute the largest change of a table by one unit of protection; see the module.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    table : {"sums", "shape", "quantiles"}
        The table.
    interval_s : int
        Length of a reading [s].

    Returns
    -------
    Change

    Raises
    ------
    InputError
        If a table by hour of the day is asked for readings that do not divide an hour.
    """
    if table != "sums" and SECONDS_PER_HOUR % interval_s:
        raise InputError(
            f"readings of {interval_s} s do not divide an hour; publish only sums of them."
        )
    bin_s = max(EVERY_S[terms.every], interval_s) if table == "sums" else SECONDS_PER_HOUR
    per_bin = -(-bin_s // interval_s)
    if terms.unit_of == "run":
        return _change_by_run(terms, table, interval_s, per_bin)
    if terms.unit_of == "household":
        seconds = terms.days * SECONDS_PER_DAY
        readings, cells = seconds // interval_s, -(-seconds // bin_s)
    else:
        readings = -(-LONGEST_S["day"] // interval_s)
        cells = math.ceil(LONGEST_S["day"] / bin_s) + 1
    total = terms.width * readings
    if table == "sums":
        return Change(total, terms.width**2 * readings * per_bin, cells)
    if terms.unit_of == "household":
        hours = hours_of_period(*terms.period, terms.tz, interval_s)  # type: ignore[misc]
        squares = sum(n * n for n in hours)
        touched = HourCounts(sum(hours), squares, per_bin**2 * squares, 0, 24)
    else:
        touched = count_hours(readings, interval_s, terms.tz, terms.period)
    if table == "quantiles":
        return _change_of_counts(touched)
    return Change(total, terms.width**2 * touched.reading_squares, touched.hours)


def _change_of_counts(touched: HourCounts) -> Change:
    """Return the change of counts if each touched hour moves from one class to another."""
    windows = touched.windows
    return Change(Fraction(2 * windows), Fraction(2 * touched.window_squares), 2 * windows)


def _change_by_run(terms: SumTerms, table: str, interval_s: int, per_bin: int) -> Change:
    """Compute the largest change of a table by one run."""
    assert terms.run is not None
    seconds = exact("seconds", terms.run.seconds)
    readings = math.ceil(seconds / interval_s) + 1
    if table != "sums":
        if seconds > LONGEST_RUN_S:
            raise InputError(
                "tables by hour of the day hide runs of up to 31 days; publish only sums."
            )
        touched = count_hours(readings, interval_s, terms.tz, terms.period)
    if table == "quantiles":
        return _change_of_counts(touched)
    # Rounding can move two readings one step further apart, but never beyond the clamp.
    of_one = min(exact("watts", terms.run.watts) + terms.step, terms.width)
    total = min(terms.run.watt_seconds / interval_s + readings * terms.step, of_one * readings)
    if table == "shape":
        return Change(total, total * min(total, of_one * touched.most_readings), touched.hours)
    windows = math.ceil(seconds / max(EVERY_S[terms.every], interval_s)) + 1
    return Change(total, total * min(total, of_one * per_bin), windows)


@lru_cache(maxsize=64)
def build_mechanism(terms: SumTerms, table: str, interval_s: int) -> Mechanism:
    """Build the noise on every number of a table.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    table : {"sums", "shape", "quantiles"}
        The table.
    interval_s : int
        Length of a reading [s].

    Returns
    -------
    Mechanism
        Noise on sums of readings [W], or on counts.
    """
    if terms.mechanism == "best":
        both = (replace(terms, mechanism=name) for name in ("laplace", "gaussian"))
        return min((build_mechanism(one, table, interval_s) for one in both), key=lambda m: m.std)
    change = largest_change(terms, table, interval_s)
    levels, parts = len(terms.by), len(terms.tables)
    step = Fraction(1) if table == "quantiles" else terms.step
    epsilon = exact("epsilon", terms.epsilon) / parts
    return find_kind(terms.mechanism).calibrated(
        epsilon,
        _size(change, levels, step),
        step,
        delta=exact("delta", terms.delta) / parts,
        on_grid=True,
        max_epsilon=terms.max_epsilon,
    )


def _size(change: Change, levels: int, step: Fraction) -> Size:
    """Return how far a change moves the numbers of a table in all levels of groups."""
    total = change.total * levels
    return Size(total, _root(change.squares * levels, step), total, change.touches * levels)


def _root(squares: Fraction, step: Fraction) -> Fraction:
    """Return the square root, rounded up to whole steps."""
    whole_squares = math.ceil(squares / step**2)
    return (math.isqrt(whole_squares - 1) + 1) * step


def day_price(terms: SumTerms, interval_s: int, protects: DayChange) -> Price:
    """Compute what all tables cost a member for one day.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    interval_s : int
        Length of a reading [s].
    protects : DayChange
        The change of which the ledger charges the cost.

    Returns
    -------
    Price
        The (ε, δ) of that change within a household's day.

    Raises
    ------
    InputError
        If the readings are not clamped as the ledger needs it.
    """
    protects.bounds_for(terms.clamp)
    femto, pure, levels = 0, Fraction(0), len(terms.by)
    gaussian: list[float] = []
    rho, delta = 0.0, 0.0
    for table in terms.tables:
        noise = build_mechanism(terms, table, interval_s)
        change = change_of_day(terms, table, interval_s, protects)
        femto += femto_delta(noise.delta)
        size = _size(change, levels, noise.exact_grid)
        if noise.delta:
            gaussian.append(noise.epsilon_of(size))
            rho += noise.rho_of(size)
            delta += noise.delta
        else:
            pure += noise.exact_epsilon_for(noise.measure(size), size.touches)
    loss = sum(gaussian)
    if len(gaussian) > 1:
        # The ρ of concentrated privacy of several tables add up to less than their ε.
        loss = min(loss, epsilon_of(rho, delta * (1 - 1e-12)))
    return Price(micro_epsilon(pure + Fraction(loss)), femto)


def change_of_day(terms: SumTerms, table: str, interval_s: int, protects: DayChange) -> Change:
    """Compute the largest change of a table by the change that a ledger protects.

    Parameters
    ----------
    terms : SumTerms
        The promise.
    table : {"sums", "shape", "quantiles"}
        The table.
    interval_s : int
        Length of a reading [s].
    protects : DayChange
        What may differ within one civil day.

    Returns
    -------
    Change
    """
    day = replace(terms, unit_of="household-day", run=None)
    whole_day = largest_change(day, table, interval_s)
    # A day may begin within a reading that is longer than the step of time zones.
    within = ZONE_STEP_S % interval_s != 0
    if not within and (table == "quantiles" or protects.clamp is not None):
        return whole_day
    watts = min(protects.watts, float(terms.width))
    energy = None if protects.clamp is not None else protects.watt_hours
    use = Run(watts, LONGEST_S["day"] + within * interval_s, energy)
    found = largest_change(replace(terms, unit_of="run", run=use), table, interval_s)
    if within:
        return found
    return Change(
        min(found.total, whole_day.total),
        min(found.squares, whole_day.squares),
        max(found.touches, whole_day.touches),
    )
