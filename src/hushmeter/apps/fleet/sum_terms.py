r"""The promise of a release of sums: its unit of protection, its noise and its price.

Up to three tables are published: sums of every bin of time, load shapes (sums of every hour of the
day), and counts from which the quantiles of every hour of the day are computed. Every reading is
clamped to a range of C watts and rounded to whole steps of g watts, so that all sums are exact
whole numbers. Sums and shapes are tables (`hushmeter.privacy.sensitivity`) with bins of time as
labels, and the same holds for each of the L levels of groups, because a meter is in one group of a
level. A change therefore moves the L tables together by L·Δ1 in total and by √L·Δ2 in length.

*Units of protection.* Replacing what a household does moves each touched reading within the clamp:

    household-day   any readings of a civil day of up to 25 hours, anywhere: the m readings that it
                    overlaps (`DayChange.on_meter`) change by at most C each
    household       all readings of the period change by at most C each: Δ1 = C·n, and
                    Δ2 = C·√(Σ N_g²) if label g has N_g of the n readings
    run             a use of at most P watts, R seconds and E watt-seconds is present or absent

*Cap.* The days of a release are the civil days of one time zone, that of the ledger. If the energy
of a household's day exceeds the public cap E, all readings of that day are scaled down to it,
before anything is added up. One reading then decides on the scale of all readings of its day, and
of no others, so the unit is everything that a household does in one day *of this zone*. Let x and y
be the readings of that day in two neighbouring fleets, after clamp and scaling: 0 ≤ x_i, y_i ≤ C,
and both have at most the energy E. The positive and the negative part of x − y are at most x and at
most y, so each of them is a change of at most C watts, E watt-seconds and 25 hours (24 in UTC).
This is the change of a use that is moved from one place to another: Δ1 = 2E/I, and Δ2 is √2 times
that of a use that is present or absent. The sum of a whole day is Σx_i or Σy_i, both between 0 and
E/I, so it moves by at most E/I, and no other sum of a day moves. Without looking at the energy, all
of this is at most what C watts in all readings of the day give. With a cap a household of D days
has D such changes: disjoint bins of time give √D·Δ2, and hours of the day, in which the changes of
all days meet, at most D·Δ2. A civil day of another zone overlaps two of these days and costs at
most the ε of both.

*Counts.* A meter counts once in every hour of the clock, in the class of its mean. A change that
touches n_h hours of the clock that show hour h of the day moves each of them from one class to
another: Δ1 = 2·Σ n_h and Δ2² ≤ 2·Σ n_h².

*Clipped days.* With a cap the number of clipped customer-days of every group is published too
(`hushmeter.apps.fleet.clipping`). A household's day moves it by one, and a household of D days
by D.

*Noise.* With Laplace noise a table with the share w of the budget has wε. Gaussian tables share
(ε, δ) in parts w of the squared lengths Σ_j s_j²/σ_j² (`hushmeter.noise.gaussian`). The clipped
days have a small share, and all other tables have equal parts of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hushmeter import __version__
from hushmeter.apps.fleet.clipping import CLIPPED, SHARE, Reference
from hushmeter.apps.ledger import DayChange, Price, micro_epsilon
from hushmeter.apps.ledger.charges import LONGEST_S, femto_delta
from hushmeter.checks import BoolArray, IntArray, one_of, positive, whole
from hushmeter.clock import (
    DAY,
    clock_hours,
    day_bounds,
    is_utc,
    local_times,
    transitions,
    utc_offsets,
)
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words, format_watt_hours
from hushmeter.noise import DEFAULT_KIND, SHARING_KIND, Mechanism, Size, find_kind
from hushmeter.noise.gaussian import analytic_epsilon, joint_epsilon, joint_odds, unit_sigma
from hushmeter.noise.mechanism import exact, steps_apart, to_steps
from hushmeter.privacy.sensitivity import Change, Table, sensitivity
from hushmeter.privacy.units import Unit
from hushmeter.releases.receipt import describe_noise
from hushmeter.releases.search import best_grid
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, check_interval

BINS = ("hour", "day")
"""Bins of a sum."""

UNITS_OF = ("household-day", "household", "run")
TABLES = ("sums", "shape", "quantiles")
COUNTS = ("quantiles", CLIPPED)
"""Tables of whole numbers and not of energy."""

MOST_OF_CLIPPED = Fraction(20)
"""Largest ε of the number of clipped days, which is then nearly exact."""

QUANTILES = (0.1, 0.5, 0.9)
LONGEST_RUN_S = 31 * SECONDS_PER_DAY
"""Longest run that tables by hour of the day can hide [s]."""

MOST_READINGS = 1 << 25
"""Most readings of a meter in the period of the unit "household": a year of seconds."""

ALL_DAYS = ("1970-01-02", "2199-12-30")
"""First and last day whose changes of the clock are searched, unless a period is stated."""

_BINS = 40
"""Number of classes of the default grid of quantiles."""


@dataclass(frozen=True)
class Run:
    """The largest run that a release hides: power [W], length [s] and, if known, energy [Wh]."""

    watts: float
    seconds: float
    watt_hours: float | None = None

    def __post_init__(self) -> None:
        positive("watts", self.watts)
        positive("seconds", self.seconds)
        if self.watt_hours is not None:
            positive("watt_hours", self.watt_hours)

    @property
    def watt_seconds(self) -> float:
        """Most energy E [Ws]."""
        full = self.watts * self.seconds
        return full if self.watt_hours is None else min(full, self.watt_hours * SECONDS_PER_HOUR)


@dataclass(frozen=True)
class SumTerms:
    """What an operator asks of a release of sums."""

    epsilon: str  # ε of the unit of protection, an exact decimal number
    clamp: tuple[float, float]  # Bounds of a reading [W], known beforehand
    by: tuple[str, ...]  # Columns with nested groups, from the coarsest to the finest
    every: str = "hour"  # Bin of a sum: a UTC hour, or a day of `zone`
    mechanism: str = "best"  # Distribution of the noise; "best" is the one with the smaller error
    # Step to which readings are rounded [W]; by default the one with the least error
    grid: str | None = None
    # δ of Gaussian noise, and the largest ε that is accepted
    delta: float = 1e-6
    max_epsilon: float = 20.0
    min_meters: int = 1  # Groups with fewer meters are not published; membership is public
    # The unit of protection: everything that one household does in one day, or in all `days`, or
    # one `run` of an appliance.
    unit_of: str = "household-day"
    # First and last day of the release; other days are left out. The unit "household" needs
    # them.
    days: tuple[str, str] | None = None
    run: Run | None = None  # The run to hide, for the unit "run"
    cap_kwh: float | None = None  # Public cap on the energy of a household's day [kWh]
    tables: tuple[str, ...] = ("sums",)  # What is published
    # Which quantiles of the hourly means of single meters are published
    quantiles: tuple[float, ...] = QUANTILES
    # Public grid on which quantiles are estimated [W], rising; by default 41 levels whose distances
    # grow from the lower to the upper bound of the clamp.
    levels: tuple[float, ...] | None = None
    tz: str | None = None  # Time zone of the hours of the day; that of the days by default
    interval_s: int = 900  # Length of a reading [s]
    zone: str = "UTC"  # Time zone of the days; a release takes that of its ledger
    # What is publicly known about the energy of a day; needed for the stated error beside a cap
    reference: Reference | None = None

    schema: ClassVar[str] = "hushmeter-sums-3"
    stream: ClassVar[str] = "sums"
    period: ClassVar[str] = "day"

    def __post_init__(self) -> None:
        one_of("every", self.every, BINS)
        one_of("mechanism", self.mechanism, ("best", DEFAULT_KIND, SHARING_KIND))
        one_of("unit_of", self.unit_of, UNITS_OF)
        whole("min_meters", self.min_meters)
        check_interval(self.interval_s)
        if not self.by or len(set(self.by)) < len(self.by):
            raise InputError("name one or more different columns to group by.")
        for table in self.tables:
            one_of("tables", table, TABLES)
        if not self.tables or len(set(self.tables)) < len(self.tables):
            raise InputError(f"name one or more different tables of {', '.join(TABLES)}.")
        if not all(0 < q < 1 for q in self.quantiles) or not self.quantiles:
            raise InputError("quantiles must lie between 0 and 1, such as 0.1,0.5,0.9.")
        self._check_unit()
        self.class_edges  # noqa: B018 (invalid levels raise here)

    def _check_unit(self) -> None:
        """Refuse a unit of protection that is incomplete or contradicts the cap."""
        if (self.unit_of == "run") != (self.run is not None):
            raise InputError("the unit 'run', and no other, needs the power and time of a run.")
        if self.unit_of == "household" and not self.day_count:
            raise InputError(
                "the unit 'household' needs the period of the release, such as "
                "2024-01-01..2024-01-31."
            )
        if (
            self.unit_of == "household"
            and self.day_count * SECONDS_PER_DAY > MOST_READINGS * self.interval_s
        ):
            raise InputError(
                f"a period of {self.day_count} days has too many readings of {self.interval_s} s; "
                "protect a household in a shorter period, or its days."
            )
        if self.cap_kwh is None:
            return
        positive("cap", self.cap_kwh)
        if self.reference is None:
            raise InputError(
                "a cap cuts off what households use above it, which the stated error must count: "
                "give --reference 10kWh, the public mean energy of a household's day, or a file."
            )
        if self.run is not None:
            raise InputError("a cap bounds the day of a household; the unit 'run' has none.")
        if self.clamp[0] != 0:
            raise InputError(
                "a cap bounds the energy that a household draws, so the clamp must begin at 0 W; "
                f"got {self.clamp[0]:g} W."
            )

    @property
    def step(self) -> Fraction:
        """Step to which readings are rounded [W]."""
        if self.grid is not None:
            return exact("grid", self.grid)
        change = protected_change(self)
        return best_grid(Unit("range", "day", (change,), float(self.interval_s)))

    @property
    def width_steps(self) -> int:
        """Width of the clamp in whole steps."""
        low, high = (to_steps(bound, self.step) for bound in self.clamp)
        return high - low

    @property
    def drawn(self) -> tuple[str, ...]:
        """The tables that get noise: those that are published, and the number of clipped days."""
        return self.tables if self.cap_kwh is None else (*self.tables, CLIPPED)

    @property
    def shares(self) -> dict[str, Fraction]:
        """Share of every table in the budget."""
        rest = Fraction(0) if self.cap_kwh is None else Fraction(SHARE)
        own = {table: (1 - rest) / len(self.tables) for table in self.tables}
        return own | ({CLIPPED: rest} if rest else {})

    @property
    def known_load_w(self) -> float | None:
        """Mean load of the smallest group by the reference [W]."""
        if self.reference is None:
            return None
        return self.reference.day_kwh * 1000 / 24 * self.min_meters

    @property
    def day_count(self) -> int:
        """Number of days of the period; 0 if none is stated."""
        if self.days is None:
            return 0
        try:
            first, last = map(date.fromisoformat, self.days)
        except ValueError:
            first, last = date.max, date.min
        if last < first:
            raise InputError(
                f"period must be two days such as 2024-01-01..2024-01-31, got "
                f"{'..'.join(self.days)}."
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
        if self.run is not None:
            energy = self.run.watt_seconds / SECONDS_PER_HOUR
            return (
                f"one run of an appliance of up to {self.run.watts:g} W, "
                f"{duration_in_words(self.run.seconds)} and {energy:g} Wh, present or absent"
            )
        when = "in one civil day of up to 25 hours"
        if self.unit_of == "household":
            when = f"from {' to '.join(self.days or ())}"
        elif self.cap_kwh is not None:
            when = self._one_day
        counted = ""
        if self.cap_kwh is not None:
            counted = f", of which at most {format_watt_hours(1000 * self.cap_kwh)} a day count"
        return f"everything that one household does {when}{counted}, replaced by anything else"

    @property
    def charged_within(self) -> str:
        """What limits the change that the ledger charges."""
        return "" if self.cap_kwh is None else f", as far as it lies {self._one_day}"

    @property
    def _one_day(self) -> str:
        return "in one UTC day" if is_utc(self.zone) else f"in one day of {self.zone}"

    @property
    def clock_zone(self) -> str:
        """Time zone of the hours of the day."""
        return self.tz or self.zone

    @property
    def longest_day_s(self) -> int:
        """Length of the longest day [s]."""
        return SECONDS_PER_DAY if is_utc(self.zone) else LONGEST_S["day"]

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> SumTerms:
        """Return the terms that `dataclasses.asdict` described."""
        parts = {"run": Run, "reference": Reference}
        made = {name: kind(**facts[name]) for name, kind in parts.items() if facts.get(name)}
        return cls(**{**facts, **made})

    @property
    def promise(self) -> SumPromise:
        """The noise of all tables."""
        return _resolve(self)

    def describe(self) -> dict[str, Any]:
        """Return the promise as plain values; the entries are named as those of a receipt."""
        promise, change = self.promise, protected_change(self)
        tables = zip(self.drawn, promise.noises, strict=True)
        return {
            "version": __version__,
            "unit": {
                "sentence": self.sentence,
                "unit_of": self.unit_of,
                "watts": change.watts,
                "seconds": change.seconds,
                "watt_hours": change.energy / SECONDS_PER_HOUR,
                "days": self.days,
            },
            "cells": {
                "interval_s": self.interval_s,
                "zone": self.clock_zone,
                "zone_of_days": self.zone,
                "grid": str(self.step),
                "clamp": self.clamp,
                "cap_kwh": self.cap_kwh,
                "reference": None if self.reference is None else asdict(self.reference),
            },
            "tables": [
                {
                    "table": table,
                    "share": float(self.shares[table]),
                    "length": float(size_of(self, table, change).l2),
                    "noise": describe_noise(noise),
                    "error": promise.error(table),
                }
                for table, noise in tables
            ],
            "words": self.drawn,
            "epsilon": float(promise.epsilon),
            "delta": promise.delta,
            "odds": promise.odds,
            "groups": {"by": self.by, "every": self.every, "min_meters": self.min_meters},
            "quantiles": {"of": self.quantiles, "edges": self.class_edges},
        }

    def price(self, protects: DayChange, composition_delta: float) -> Price:  # noqa: ARG002
        """Return what all tables cost a member for one day.

        It is the (ε, δ) of the change that the ledger declares, whatever the unit of the release
        is, because a ledger adds up the charges of all releases by day.
        """
        protects.bounds_for(self.clamp)
        epsilon = self.promise.epsilon_of(protected_change(self, protects))
        return Price(micro_epsilon(epsilon), femto_delta(self.promise.delta))


@dataclass(frozen=True)
class SumPromise:
    """What a release of sums promises: the noise of every table."""

    terms: SumTerms
    noises: tuple[Mechanism, ...]

    def noise(self, table: str) -> Mechanism:
        """Return the noise on every number of a table [W, or counts]."""
        return self.noises[self.terms.drawn.index(table)]

    @property
    def delta(self) -> float:
        """δ of all tables together."""
        return self.noises[0].delta

    def epsilon_of(self, change: Change) -> Fraction:
        """Return the ε of a change in all tables together."""
        sizes = [size_of(self.terms, table, change) for table in self.terms.drawn]
        pairs = list(zip(self.noises, sizes, strict=True))
        if self.delta and len(pairs) > 1:
            steps = np.array([noise.steps_of(size.l2, size.touches) for noise, size in pairs])
            return Fraction(joint_epsilon(self.noises, steps.astype(float), self.delta))
        return sum(
            (noise.exact_epsilon_for(noise.measure(size), size.touches) for noise, size in pairs),
            Fraction(0),
        )

    @property
    def epsilon(self) -> Fraction:
        """ε at which the unit is protected."""
        return self.epsilon_of(protected_change(self.terms))

    @property
    def odds(self) -> float:
        """Largest probability that an attacker who knows everything else is right."""
        if self.delta:
            return joint_odds(self.noises, np.array([float(one.steps) for one in self.noises]))
        return 1 / (1 + math.exp(-float(self.epsilon)))

    def error(self, table: str) -> float:
        """Return the standard error of a noisy number, with that of a grid made coarser."""
        noise = self.noise(table)
        return math.hypot(noise.std, noise.coarsened * noise.grid / math.sqrt(12))


def parse_days(text: str | None) -> tuple[str, str] | None:
    """Read a period such as 2024-01-01..2024-01-31; a single day is its own last day."""
    if text is None:
        return None
    first, _, last = text.partition("..")
    return first.strip(), last.strip() or first.strip()


@lru_cache(maxsize=16)
def _resolve(terms: SumTerms) -> SumPromise:
    """Return the promise with the noise that the terms ask for."""
    if terms.mechanism == "best":
        both = [_resolve(replace(terms, mechanism=name)) for name in (DEFAULT_KIND, SHARING_KIND)]
        best = min(both, key=lambda one: math.prod(noise.std for noise in one.noises))
        return replace(best, terms=terms)
    asked, shares = exact("epsilon", terms.epsilon), terms.shares
    if terms.mechanism == DEFAULT_KIND or len(shares) == 1:
        return SumPromise(terms, _calibrate(terms, [asked * share for share in shares.values()]))
    delta = float(terms.delta)
    sigma, less = unit_sigma(float(asked), delta, False), 1 - 1e-9
    while True:
        parts = [analytic_epsilon(sigma / math.sqrt(w), 1.0, delta) for w in shares.values()]
        made = SumPromise(terms, _calibrate(terms, [Fraction(less * part) for part in parts]))
        if made.epsilon <= asked:
            return made
        # Very narrow noise on the grid loses more than the formula of continuous noise says.
        less *= 0.999 * float(asked / made.epsilon)


def _calibrate(terms: SumTerms, epsilons: Sequence[Fraction]) -> tuple[Mechanism, ...]:
    """Return the noise with which each table alone protects the unit at its ε."""
    change = protected_change(terms)
    return tuple(
        find_kind(terms.mechanism).calibrated(
            min(epsilon, MOST_OF_CLIPPED) if table == CLIPPED else epsilon,
            size_of(terms, table, change),
            _step(terms, table),
            delta=terms.delta,
            on_grid=True,
            max_epsilon=terms.max_epsilon,
        )
        for table, epsilon in zip(terms.drawn, epsilons, strict=True)
    )


def _step(terms: SumTerms, table: str) -> Fraction:
    """Return the step of the exact numbers of a table [W, or counts]."""
    return Fraction(1) if table in COUNTS else terms.step


def protected_change(terms: SumTerms, protects: DayChange | None = None) -> Change:
    """Return the change of single readings that the unit, or a ledger, protects."""
    interval_s = float(terms.interval_s)
    low, high = terms.clamp
    if terms.cap_kwh is not None and (protects is not None or terms.unit_of == "household-day"):
        length = terms.longest_day_s
        energy = min(terms.cap_kwh * 1000 * SECONDS_PER_HOUR, high * length)
        return Change("day", high, length, interval_s, energy, aligned=True, moved=True)
    if protects is None and terms.run is not None:
        watts = min(terms.run.watts, high - low)
        energy = min(terms.run.watt_seconds, watts * terms.run.seconds)
        return Change("run", watts, terms.run.seconds, interval_s, energy)
    if protects is None and terms.unit_of == "household":
        length = _period_seconds(terms).size * terms.interval_s
        return Change("household", high - low, length, interval_s, aligned=True)
    day = protects or DayChange.within(low, high)
    return day.on_meter(interval_s, clamp=terms.clamp, on_whole_intervals=True)


@lru_cache(maxsize=64)
def size_of(terms: SumTerms, table: str, change: Change) -> Size:
    """Return how far a change moves the numbers of a table in all levels [W, or counts]."""
    of_hours = table not in ("sums", CLIPPED)
    if of_hours and SECONDS_PER_HOUR % terms.interval_s:
        raise InputError(
            f"readings of {terms.interval_s} s do not divide an hour; publish only sums of them."
        )
    if of_hours and change.name == "run" and change.seconds > LONGEST_RUN_S:
        raise InputError("tables by hour of the day hide runs of up to 31 days; publish only sums.")
    if table == CLIPPED:
        days = terms.day_count if change.name == "household" else 1
        moved = days, days**2, 1
    elif table == "quantiles":
        moved = _moved_counts(terms, change)
    elif change.name == "household":
        moved = _household_steps(terms, table)
    else:
        moved = _moved_steps(terms, table, change)
    step, levels = _step(terms, table), len(terms.by)
    total, squares, touches = (number * levels for number in moved)
    length = math.isqrt(squares - 1) + 1
    return Size(total * step, min(total, length) * step, total * step, touches)


def _moved_steps(terms: SumTerms, table: str, change: Change) -> tuple[int, int, int]:
    """Return Δ1, Δ2² [grid steps] and the most labels that a change moves in one level."""
    step, readings = terms.step, change.overlapped
    low, high = terms.clamp
    labels, per_cell = _label_cells(table, terms, readings * terms.interval_s)
    touched = readings if per_cell == 1 else math.ceil(readings / per_cell) + 1
    count = int(labels.patterns(touched).max()) + 1
    filled = Change("clamp", high - low, readings * terms.interval_s, change.interval_s)
    total, length = terms.width_steps * readings, _cell_length(terms, labels, per_cell, filled)
    if not (change.aligned and change.constant and change.watts >= high - low):
        energy = exact("energy", change.energy) / terms.interval_s
        total = min(total, steps_apart(change.places * energy, step, readings))
        length = min(length, _cell_length(terms, labels, per_cell, change))
        if change.moved and table == "sums" and terms.every == "day":
            # All of it lies in the one sum of its day.
            whole_day = steps_apart(energy, step, readings)
            total, length = min(total, whole_day), min(length, whole_day)
    return total, length**2, count


def _cell_length(terms: SumTerms, labels: Table, per_cell: int, change: Change) -> int:
    """Return Δ2 of a change of readings [grid steps], from the table of cells.

    The sum of the readings of a cell is `per_cell` times its mean, and so is the rounding of all of
    them together. The change "clamp" fills the clamp in every touched reading: rounding moves a
    reading by one step more, but not beyond the clamp.
    """
    watts = change.watts
    if change.name == "clamp":
        watts = max(float((terms.width_steps - 1) * terms.step), 1e-9)
    cells = replace(
        change,
        watts=watts,
        energy=min(change.energy, watts * change.seconds),
        interval_s=change.interval_s * per_cell,
        aligned=per_cell == 1 and (change.aligned or change.name == "clamp"),
    )
    return per_cell * int(sensitivity(labels, cells, terms.step))


def _household_steps(terms: SumTerms, table: str) -> tuple[int, int, int]:
    """Return Δ1, Δ2² [grid steps] and labels if all readings of the period change."""
    seconds = _period_seconds(terms)
    if table == "sums":
        members = np.unique(bins_of(seconds, terms.every, terms.zone), return_counts=True)[1]
    else:
        members = np.bincount(_clock(seconds, terms.clock_zone)[1])
    total, squares = terms.width_steps * seconds.size, terms.width_steps**2 * _squares(members)
    if terms.cap_kwh is not None:
        one, days = protected_change(replace(terms, unit_of="household-day")), terms.day_count
        of_day, squares_of_day, _ = _moved_steps(terms, table, one)
        total = min(total, days * of_day)
        squares = min(squares, (days**2 if table == "shape" else days) * squares_of_day)
    return total, squares, int(np.count_nonzero(members))


def _squares(numbers: IntArray) -> int:
    return int((numbers.astype(np.int64) ** 2).sum())


def _moved_counts(terms: SumTerms, change: Change) -> tuple[int, int, int]:
    """Return Δ1, Δ2² and the most counts that move if each touched hour changes its class."""
    zone, readings = terms.clock_zone, change.overlapped
    if change.name == "household":
        begins, hours = _clock(_period_seconds(terms), zone)
        shown = np.bincount(hours[begins])
        return 2 * int(shown.sum()), 2 * _squares(shown), 2 * int(shown.sum())
    labels: list[IntArray] = []
    touched = 1
    for seconds in _stretches(zone, terms.days, readings * terms.interval_s, terms.interval_s):
        begins, hours = _clock(seconds, zone)
        number = np.cumsum(begins)
        later: IntArray = number[readings - 1 :] - number[: number.size - readings + 1]
        touched = max(touched, int(later.max()) + 1)
        labels.append(hours[begins])
    patterns = _joined(labels, touched).patterns(touched)
    shown = np.stack([(patterns == label).sum(axis=1) for label in range(24)])
    return 2 * touched, 2 * int((shown**2).sum(axis=0).max()), 2 * touched


@lru_cache(maxsize=64)
def _label_cells(table: str, terms: SumTerms, reach_s: int) -> tuple[Table, int]:
    """Return a table with all windows that a change of `reach_s` can meet, and readings per cell.

    A cell is the longest time of which all hours of the clock are whole multiples, mostly an hour:
    its readings have one label.
    """
    zone, per_cell = terms.clock_zone, 1
    if table == "sums":
        zone = "UTC" if terms.every == "hour" else terms.zone
    stretches = _stretches(zone, terms.days, reach_s, terms.interval_s)
    clocks = [_clock(seconds, zone) for seconds in stretches]
    if SECONDS_PER_HOUR % terms.interval_s == 0:
        # The first hour of a stretch may be cut.
        begins = [np.flatnonzero(begins)[1:] for begins, _ in clocks]
        per_cell = int(np.gcd.reduce(np.concatenate([np.diff(one) for one in begins])))
    cells = []
    for seconds, (begun, hours) in zip(stretches, clocks, strict=True):
        labels = bins_of(seconds, terms.every, terms.zone) if table == "sums" else hours
        cells.append(labels[np.flatnonzero(begun)[1] % per_cell :: per_cell])
    return _joined(cells, reach_s // (per_cell * terms.interval_s) + 2), per_cell


def _joined(stretches: Sequence[IntArray], apart: int) -> Table:
    """Return the table of several stretches of labels that no window of `apart` cells joins."""
    starts = np.cumsum([0, *(one.size + apart for one in stretches[:-1])])
    places = [start + np.arange(one.size) for start, one in zip(starts, stretches, strict=True)]
    names, labels = np.unique(np.concatenate(stretches), return_inverse=True)
    return Table("cells", labels, names.size, np.concatenate(places))


def _stretches(
    zone: str, days: tuple[str, str] | None, reach_s: int, interval_s: int
) -> list[IntArray]:
    """Return the starts of readings around every different change of the clock of a zone [s].

    All moments far from a change are alike, so one further stretch is enough for them.
    """
    first, last = np.array(days or ALL_DAYS, "datetime64[s]")
    reach = (reach_s + SECONDS_PER_DAY + 2 * SECONDS_PER_HOUR) // interval_s * interval_s
    changes = transitions(first, last + DAY, zone)
    moments, found = changes.astype(np.int64), {}
    for moment in (int(first.astype(np.int64)), *moments.tolist()):
        begin = moment // interval_s * interval_s - reach
        near = np.abs(moments - moment) <= reach
        offsets = utc_offsets(
            np.append(changes[near], np.int64(begin).astype("datetime64[s]")), zone
        )
        # The same change of the clock comes every year.
        key = (moment % SECONDS_PER_DAY, *(moments[near] - moment).tolist(), *offsets.tolist())
        found[key] = np.arange(begin, begin + 2 * reach, interval_s)
    return list(found.values())


def _clock(seconds: IntArray, zone: str) -> tuple[BoolArray, IntArray]:
    """Return where an hour of the clock begins among readings, and their hours of the day."""
    starts, hours = clock_hours(seconds.astype("datetime64[s]"), zone)
    return np.append(True, starts[1:] != starts[:-1]), hours


def _period_seconds(terms: SumTerms) -> IntArray:
    """Return the starts of all readings of the period [s]."""
    begins, ends = day_bounds(np.array(terms.days, "datetime64[D]"), terms.zone)
    first, last = int(begins[0].astype(np.int64)), int(ends[-1].astype(np.int64))
    return np.arange(first, last, terms.interval_s)


def bins_of(seconds: IntArray, every: str, zone: str) -> IntArray:
    """Return the numbers of the UTC hours, or of the civil days of a zone, at UTC times [s]."""
    if every == "hour":
        return seconds // SECONDS_PER_HOUR
    local = local_times(seconds.astype("datetime64[s]"), zone)
    bins: IntArray = local.astype("datetime64[D]").astype(np.int64)
    return bins


def bin_starts(bins: IntArray, every: str, zone: str) -> IntArray:
    """Return when bins begin, UTC [s]."""
    if every == "hour":
        return bins * SECONDS_PER_HOUR
    starts: IntArray = day_bounds(bins.astype("datetime64[D]"), zone)[0].astype(np.int64)
    return starts
