"""What one ε protects: which change of the readings, over how long (Definition 1 of the paper).

A change is so many watts in so many metered readings in a row. Released as means over windows of
W readings it moves each window it overlaps by at most its watts; over all windows

    Δ1 = P·L/W,    Δ2 = P·√(q + f²),  q = ⌊L/W⌋, f = (L mod W)/W,

for P watts in L readings: Δ1 calibrates Laplace noise, Δ2 Gaussian noise. The staircase protects
one released value at a time, so its ε is shared among the values a change touches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import non_negative, one_of, positive
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words
from hushmeter.home import Appliance, Home
from hushmeter.trace import Trace, intervals_in

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

PROTECT = ("appliance", "fluctuation", "range", "change")
SPANS = ("reading", "run", "day")
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class Change:
    """A change of the metered readings that must stay hidden.

    Attributes
    ----------
    name : str
        Whose change it is.
    watts : float
        How much a metered reading may change [W].
    readings : int
        In how many readings in a row, L.
    window : int
        Metered readings per released mean, W.
    aligned : bool
        Whether it begins and ends with a metered reading. A run need not: it may take a part of
        one reading more, though no more energy.
    """

    name: str
    watts: float
    readings: int
    window: int = 1
    aligned: bool = True

    @property
    def touches(self) -> int:
        """Most released values that a stretch of L readings can overlap."""
        return -(-(self.readings - self.aligned) // self.window) + 1

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        return self.watts * min(self.readings, self.window) / self.window

    @property
    def l1(self) -> float:
        """Δ1 = P·L/W [W]."""
        return self.watts * self.readings / self.window

    @property
    def l2(self) -> float:
        """Δ2 = P·√(q + f²) [W]: longest when whole windows are covered."""
        full, rest = divmod(self.readings, self.window)
        return self.watts * math.sqrt(full + (rest / self.window) ** 2)


@dataclass(frozen=True)
class Unit:
    """The unit of protection: every change that one ε must cover.

    Attributes
    ----------
    protect : {"appliance", "fluctuation", "range", "change"}
    span : {"reading", "run", "day"}
    changes : tuple of Change
    interval_s : float
        Length of a metered reading [s].
    """

    protect: str
    span: str
    changes: tuple[Change, ...]
    interval_s: float

    @property
    def l1(self) -> float:
        """Largest Δ1 of its changes [W]."""
        return max(change.l1 for change in self.changes)

    @property
    def l2(self) -> float:
        """Largest Δ2 of its changes [W]."""
        return max(change.l2 for change in self.changes)

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        return max(change.largest for change in self.changes)

    @property
    def touches(self) -> int:
        """Most released values that one of its changes can overlap."""
        return max(change.touches for change in self.changes)

    @property
    def sentence(self) -> str:
        """The unit in plain words."""
        worst = max(self.changes, key=lambda change: change.l1)
        subject = {
            "appliance": f"whether the {worst.name} is on ({worst.watts:g} W)",
            "fluctuation": f"fluctuations of {worst.watts:g} W within a state, not switches",
            "range": f"any value of a reading ({worst.watts:g} W wide)",
            "change": f"any change of up to {worst.watts:g} W",
        }[self.protect]
        if self.protect == "appliance" and len(self.changes) > 1:
            subject = f"whether any one appliance is on (up to {self.largest_watts:g} W)"
        if self.span == "reading":
            return f"{subject}, in one metered reading of {duration_in_words(self.interval_s)}"
        if self.span == "day":
            return f"{subject}, over one day"
        longest = duration_in_words(
            max(change.readings for change in self.changes) * self.interval_s
        )
        if len(self.changes) > 1:
            return f"{subject}, over one of its own runs (up to {longest})"
        return f"{subject}, over one run of up to {longest}"

    @property
    def window(self) -> int:
        """Metered readings per released mean, W."""
        return self.changes[0].window

    @property
    def largest_watts(self) -> float:
        """Largest change of one metered reading [W]."""
        return max(change.watts for change in self.changes)


def resolve_unit(
    protect: str = "appliance",
    span: str = "reading",
    *,
    interval_s: float,
    home: Home | None = None,
    appliance: str | None = None,
    clamp: tuple[float, float] | None = None,
    watts: float | None = None,
    every: float | str | None = None,
    trace: Trace | None = None,
) -> Unit:
    """The changes that a choice of `protect` and `span` means in a home.

    Parameters
    ----------
    protect : {"appliance", "fluctuation", "range", "change"}
        An appliance switching on or off (the default); only fluctuations within a state, the
        paper's Δf = δ/2; any reading within the clamp; or a change of so many `watts`.
    span : {"reading", "run", "day"}
        One metered reading (the paper), one whole run, or one whole day.
    interval_s : float
        Length of a metered reading [s].
    home : Home, optional
        Needed for "appliance" and "fluctuation".
    appliance : str, optional
        Protect this appliance only; otherwise every appliance of the home.
    clamp : (low, high), optional
        [W]; needed for "range".
    watts : float, optional
        [W]; needed for "change".
    every : float or str, optional
        Interval of the released means, such as "30min"; as metered if not given.
    trace : Trace, optional
        Where run lengths are learnt for appliances without `run_s`: the longest run seen. Take
        it from earlier data, not from the readings to be released.
    """
    one_of("protect", protect, PROTECT)
    one_of("span", span, SPANS)
    interval_s = positive("interval_s", interval_s)
    window = 1 if every is None else intervals_in(every, interval_s)
    if appliance is not None and protect != "appliance":
        raise InputError(f"an appliance is named, but protect is {protect!r}.")
    members = _members(home, appliance) if home is not None else ()
    lengths = [_length(span, member, home, trace, interval_s) for member in members]
    if protect == "appliance":
        if home is None:
            raise InputError("protect 'appliance' needs a home.")
        rows = [(m.name, m.protected_power, n) for m, n in zip(members, lengths, strict=True)]
    else:
        size = _watts(protect, home, clamp, watts)
        rows = [(protect, size, _longest(span, lengths, interval_s))]
    changes = tuple(Change(name, w, n, window, span != "run") for name, w, n in rows)
    return Unit(protect, span, changes, interval_s)


def calibrate(
    mechanism: str,
    epsilon: float | str,
    unit: Unit,
    *,
    delta: float = 1e-6,
    grid: float | str = 1.0,
    clamp: tuple[float, float] | None = None,
    max_epsilon: float | None = None,
    engine: str = "table",
) -> Mechanism:
    """The mechanism with which the whole unit is ε- (or (ε, δ)-) differentially private."""
    from fractions import Fraction

    from hushmeter.noise import Gaussian, Laplace, Staircase
    from hushmeter.noise.mechanism import MECHANISMS
    from hushmeter.noise.parameters import exact

    one_of("mechanism", mechanism, MECHANISMS)
    options: dict[str, object] = {"grid": grid, "clamp": clamp, "engine": engine}
    if max_epsilon is not None:
        options["max_epsilon"] = max_epsilon
    if mechanism == "laplace":
        return Laplace(epsilon, unit.l1, touches=unit.touches, **options)  # type: ignore[arg-type]
    if mechanism == "gaussian":
        return Gaussian(epsilon, delta, unit.l2, touches=unit.touches, **options)  # type: ignore[arg-type]
    share = Fraction(exact("epsilon", epsilon), unit.touches)
    return Staircase(share, unit.largest, **options)  # type: ignore[arg-type]


def unit_epsilon(mechanism: Mechanism, unit: Unit) -> float:
    """The ε at which a mechanism, however it was calibrated, protects a unit.

    Laplace adds up Δ1, Gaussian noise Δ2 (at its own δ), the staircase counts values touched.
    """
    if mechanism.name == "staircase":
        return max(c.touches * mechanism.epsilon_for(c.largest) for c in unit.changes)
    norm = {"laplace": "l1", "gaussian": "l2"}[mechanism.name]
    return max(mechanism.epsilon_for(getattr(c, norm), c.touches) for c in unit.changes)


def longest_runs(trace: Trace) -> list[int]:
    """The longest contiguous run of every appliance [readings], 0 for one that never runs."""
    states, starts = trace.truth(), trace.run_starts
    lengths = []
    for column in states.T:
        # A run ends where the state does, and at every gap.
        cuts = np.flatnonzero(np.diff(column, prepend=False) | starts)
        spans = np.diff(cuts, append=column.size)
        lengths.append(int(spans[column[cuts]].max(initial=0)))
    return lengths


def _members(home: Home, appliance: str | None) -> tuple[Appliance, ...]:
    if appliance is None:
        return home.appliances
    return (home.appliances[home.index(appliance)],)


def _watts(
    protect: str, home: Home | None, clamp: tuple[float, float] | None, watts: float | None
) -> float:
    """How much a metered reading may change [W], where no appliance is named."""
    from hushmeter.noise.parameters import clamp_bounds

    if protect == "change":
        return positive("watts", watts)
    if protect == "range":
        bounds = clamp_bounds(clamp)
        if bounds is None:
            raise InputError("protect 'range' needs a clamp: the bounds of a reading [W].")
        return bounds[1] - bounds[0]
    if home is None:
        raise InputError("protect 'fluctuation' needs a home, for its tolerance.")
    return home.protected_tolerance / 2


def _length(
    span: str, appliance: Appliance, home: Home | None, trace: Trace | None, interval_s: float
) -> int:
    """Metered readings of the protected stretch."""
    if span == "reading":
        return 1
    if span == "day":
        return math.ceil(SECONDS_PER_DAY / interval_s)
    if appliance.protected_run_s is not None:
        return math.ceil(appliance.protected_run_s / interval_s)
    if trace is not None and trace.states is not None and home is not None:
        seen = longest_runs(trace)[home.index(appliance.name)]
        return math.ceil(non_negative("run", seen) * trace.interval_s / interval_s) or 1
    raise InputError(
        f"span 'run' needs to know how long the {appliance.name} runs: "
        "give it run_s in the home, or a trace with true states."
    )


def _longest(span: str, lengths: list[int], interval_s: float) -> int:
    if lengths:
        return max(lengths)
    if span == "run":
        raise InputError("span 'run' needs a home that says how long its appliances run.")
    return 1 if span == "reading" else math.ceil(SECONDS_PER_DAY / interval_s)
