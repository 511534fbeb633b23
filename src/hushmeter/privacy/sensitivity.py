r"""How far a protected change can move the released values.

An appliance draws at most P watts, its run lasts at most R seconds and takes at most E watt-seconds
(P·R if nothing else is known). The released values are means over V seconds. A run with the power
0 ≤ p(t) ≤ P moves value k by d_k = (1/V)·∫ p(t) dt over its V seconds. Over all shapes of the run
and all offsets between the run and the values,

    largest = min(P, E/V),    Δ1 = E/V,    Δ2 = P·√(q + f²),    touches = ⌈R/V⌉ + 1,

where q + f = E/(P·V), q is a whole number and 0 ≤ f < 1.

*Proof.* 0 ≤ d_k ≤ P and Σ d_k = ∫p/V ≤ E/V give `largest` and Δ1. The sum Σ d_k² is convex, so
under these two constraints it is largest at a corner: q values change by P and one by f·P. A run
that begins together with a value and draws P attains all three bounds. A stretch of R seconds
overlaps at most ⌈R/V⌉ + 1 intervals of V seconds. The interval I of the meter does not occur: a
6-second file and an hourly file need the same noise for hourly values.

*Moved runs.* If the neighbours differ in when a run happens and not in whether it happens, the run
is removed in one place and added in another. The positive and the negative parts of d each satisfy
the constraints above, so Δ1 and the number of touched values double, Δ2 grows by √2 and `largest`
does not change. Two aligned places without a common value attain all of them. The sum of the
released values of the day, S, is published too. It is the same for both places, except that the
meter rounds other readings: S moves by at most d = 2·s·m/W for a meter that rounds to s watts (see
below for m and W), and not at all for a register, whose differences telescope. If d > 0, c·S is
published with the noise of one more value, which moves by c·d.

What the meter itself does to a reading is added (`hushmeter.trace.Metering`):

* *Rounding* to s watts moves each of the m = ⌈R/I⌉ + 1 metered readings that the run overlaps by at
  most s more. With W readings in a value this adds s·m/W to Δ1, and by the same argument on
  corners s·√(q' + f'²) with q' + f' = m/W to Δ2.
* *Copies.* If one metered value was copied into c readings, E and m are multiplied by c.
* *Registers.* The readings are differences of a counter that is rounded to r watts (per reading).
  The differences within a released value telescope, so only the counter at its two ends matters. A
  run that adds E₁ to one of them moves its rounded value by E₁, up to less than r in either
  direction. During the run this moves a released value by at most 2r/W more. After the run both
  ends have moved by E rounded up or down, so the value moves by at most r/W, and so may each of
  the N values of the period. With m values during the run, (N + m)·r/W is added to Δ1,
  √(N + 3m)·r/W to Δ2, and all N values are touched.
* *Own lengths.* If reading i is a mean over its own length L_i and all L_i ≥ I/s, a run moves it by
  d_i = ∫p/L_i ≤ P and Σ d_i ≤ s·E/I. If it is an energy of L_i ≤ s·I divided by I, then d_i ≤ s·P
  and Σ d_i ≤ E/I. A run of R seconds overlaps at most ⌈s·R/I⌉ + 1 readings in both cases. The
  largest Euclidean length of d under 0 ≤ d_i ≤ s·P and Σ d_i ≤ s·E/I is s times the one above, so
  all lengths in watts are multiplied by s. Differences of a register that are divided by different
  lengths do not telescope: each may then move by s·r.
* *Interpolation.* The value of a counter between two of its rows is taken to rise linearly. A run
  moves the rows by e(t), which rises from 0 to E, and the interpolated counter by a function that
  also rises from 0 to E, with a slope of at most P. All differences over I are therefore moved as
  above; only the run seems longer, by the distance of two rows at each of its ends, which moves
  `reach` readings more. The rounding of an interpolated value lies between those of its two rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmeter.checks import positive, whole
from hushmeter.errors import InputError
from hushmeter.noise import Mechanism
from hushmeter.noise.losses import ChangeSteps
from hushmeter.noise.parameters import exact, steps_apart
from hushmeter.trace import SECONDS_PER_DAY, Metering

IDEAL = Metering()
"""A meter without rounding, register or copies."""

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Change:
    """A change of the load that must stay hidden, and how far it moves the released values."""

    name: str  # Appliance, or other source of the change
    watts: float  # Largest change P of the power [W]
    seconds: float  # Longest time R from the beginning of the change to its end [s]
    interval_s: float  # Length I of a metered reading [s]
    # Largest energy E of the change [W·s]; P·R if it is not given
    energy: float = None  # type: ignore[assignment]
    window: int = 1  # Metered readings W per released value
    aligned: bool = False  # True if the change begins and ends together with metered readings
    metering: Metering = IDEAL  # How the meter rounds and copies
    # Released values N of the period; needed only if the meter differences a register
    values: int = 0
    # True if the run is moved to another time: the neighbours differ in when it happens
    moved: bool = False
    # Factor c with which the sum of the values of a day is published as one more value, for a moved
    # run; 0 if the sum of a day is exact or not published.
    day_scale: float = 0.0

    def __post_init__(self) -> None:
        for field in ("watts", "seconds", "interval_s"):
            object.__setattr__(self, field, positive(field, getattr(self, field)))
        whole("window", self.window)
        most = self.watts * self.seconds
        energy = most if self.energy is None else positive("energy", self.energy)
        if energy > most * (1 + _TOLERANCE):
            raise InputError(
                f"the energy of the {self.name} ({energy / 3600:g} Wh) is more than its power "
                f"times its length ({most / 3600:g} Wh)."
            )
        object.__setattr__(self, "energy", energy)

    @property
    def constant(self) -> bool:
        """True if the change draws its full power from its beginning to its end."""
        whole_energy = self.watts * self.seconds * (1 - _TOLERANCE)
        plain = self.metering.copies == 1 and self.metering.stretch == 1 and not self.metering.reach
        return not self.moved and plain and self.energy >= whole_energy

    @property
    def power(self) -> float:
        """Most that one metered reading can change by the run itself [W]."""
        return self.watts * self.metering.stretch

    @property
    def effect_s(self) -> float:
        """Time from the first to the last moment that the change can move in the trace [s]."""
        own = self.metering.copies * self.seconds * self.metering.stretch
        return own + self.metering.reach * self.interval_s

    @property
    def places(self) -> int:
        """Number of places in which the load changes: two if a run is moved."""
        return 2 if self.moved else 1

    @property
    def value_s(self) -> float:
        """Length V of a released value [s]."""
        return self.window * self.interval_s

    @property
    def overlapped(self) -> int:
        """Most readings of the trace that the change can overlap in one place, with copies."""
        stretch = 1.0 if self.aligned else self.metering.stretch
        readings = round_up(self.seconds * stretch / self.interval_s) + (not self.aligned)
        return self.metering.copies * readings + self.metering.reach

    @property
    def full_values(self) -> float:
        """Energy in units of one released value at full power, q + f = E/(P·V)."""
        return self.metering.copies * self.energy / (self.watts * self.value_s)

    @property
    def own_touches(self) -> int:
        """Most released values that the change itself can overlap."""
        return self.places * (round_up((self.overlapped - 1) / self.window) + 1)

    @property
    def moments(self) -> int:
        """Number of disjoint moments of a day of 24 hours at which a run can happen."""
        width = round_up(self.full_values)
        if self.metering.copies > 1 or self.metering.stretch > 1 or self.metering.reach:
            # The readings of one moment hold parts of what happens in the next one.
            width = self.own_touches // self.places
        return max(1, math.floor(SECONDS_PER_DAY / self.value_s) // max(1, width))

    @property
    def touches(self) -> int:
        """Most released values that can change, those by the phase of a register included."""
        return self._moved_touches + (self.day_w > 0)

    @property
    def _moved_touches(self) -> int:
        """Most released values that can change, without the sum of a day."""
        own = self.own_touches
        return max(own, self.values) if self.metering.register_step_w else own

    @property
    def day_sum_w(self) -> float:
        """Most that rounding by the meter moves the sum of the values of a day [W], if moved."""
        if not self.moved:
            return 0.0
        return self.places * self.metering.resolution_w * self.overlapped / self.window

    @property
    def day_w(self) -> float:
        """Most that the published sum of a day moves, in its own scale [W]."""
        return self.day_scale * self.day_sum_w

    @property
    def later(self) -> int:
        """Values that only the phase of a register moves."""
        return self._moved_touches - self.own_touches

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        own = self.power * min(1.0, self.full_values)
        rounding = self.resolution_w * min(1.0, self.overlapped / self.window)
        return max(own + rounding + 2 * self.register_w, self.day_w)

    @property
    def l1(self) -> float:
        """Sum of the changes of all values Δ1 [W]."""
        return self.own_l1 + self.register_w * self.later + self.day_w

    @property
    def own_l1(self) -> float:
        """Sum of the changes of the values that the change itself overlaps [W]."""
        own = self.power * self.full_values
        rounding = self.resolution_w * self.overlapped / self.window
        return self.places * (own + rounding) + 2 * self.register_w * self.own_touches

    @property
    def l2(self) -> float:
        """Euclidean length of the change of all values Δ2 [W]."""
        own = self.power * corner(self.full_values)
        rounding = self.resolution_w * corner(self.overlapped / self.window)
        return math.hypot(math.sqrt(self.places) * (own + rounding) + self.register_l2, self.day_w)

    @property
    def register_w(self) -> float:
        """Change of a value after the run by the phase of a register [W]; during it twice that."""
        step = self.metering.register_step_w * self.metering.stretch
        own = self.window if self.metering.stretch > 1 else min(self.metering.copies, self.window)
        return step * own / self.window

    @property
    def resolution_w(self) -> float:
        """Change of a metered reading by its rounding [W]."""
        return self.metering.resolution_w * self.metering.stretch

    @property
    def register_l1(self) -> float:
        """Part of Δ1 that comes from a register [W]."""
        return self.register_w * (self._moved_touches + self.own_touches)

    @property
    def register_l2(self) -> float:
        """Part of Δ2 that comes from a register [W]."""
        return self.register_w * math.sqrt(self._moved_touches + 3 * self.own_touches)


def in_steps(mechanism: Mechanism, change: Change) -> ChangeSteps:
    """Changes of the released values at the worst offset and shape of a run, in grid steps.

    The energy is concentrated in as few values as possible, and yet as many values as possible are
    touched: rounding moves a value by a whole step even if the run barely touches it. No other
    shape and no other offset has larger changes: every possible sequence of changes, sorted, has
    smaller partial sums. Laplace and Gaussian noise therefore lose most here. The staircase does
    not; see `hushmeter.noise.staircase`.
    """
    further = []
    if change.later:
        further.append((mechanism.steps_of(change.register_w), change.later))
    if change.day_w:
        further.append((mechanism.steps_of(change.day_w), 1))
    # A moved run makes the same changes in two places.
    touched, places = change.own_touches, change.places
    own, largest = touched // places, mechanism.steps_of(change.largest)
    total = steps_apart(exact("l1", change.own_l1 / places), mechanism.exact_grid, own)
    # Each value has one step from rounding; the energy gives the rest.
    full, rest = divmod(total - own, max(1, largest - 1))
    if full >= own or largest == 1:
        changes = [(largest, own)]
    else:
        changes = [(largest, full), (1 + rest, 1), (1, own - full - 1)]
    counts: dict[int, int] = {}
    for steps, times in [(steps, places * times) for steps, times in changes] + further:
        counts[steps] = counts.get(steps, 0) + times
    worst = [(steps, times) for steps, times in counts.items() if times]
    return ChangeSteps(change, worst, further, touched, change.constant)


def round_up(number: float) -> int:
    """Round up to a whole number, but ignore what float arithmetic adds to a whole number.

    This one function rounds the length of every run and of every day. Rounding down would charge a
    run of 100 s on a 60 s meter as if it touched one reading less.
    """
    return math.ceil(number - _TOLERANCE * max(1.0, number))


def corner(total: float) -> float:
    """√(q + f²) for q + f = total, q whole: the longest vector of entries in [0, 1] with a sum."""
    full = math.floor(_settle(total))
    return math.sqrt(full + (_settle(total) - full) ** 2)


def _settle(number: float) -> float:
    """Return a number without the residue of float subtraction next to a whole number."""
    nearest = float(round(number))
    return nearest if abs(number - nearest) < _TOLERANCE else number
