"""What one ε protects: which change of the load, over how long (Definition 1 of the paper).

A unit of protection names a change (an appliance that switches, a fluctuation, any value of a
reading) and a span (one reading, one run, one day, or when a run happens within its day).
`hushmeter.privacy.sensitivity` computes how far the released values can move, and each kind of
noise takes from these numbers the one to which it is calibrated: Laplace Δ1, Gaussian Δ2. The
staircase protects one released value at a time, so its ε is divided among the values that a change
touches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hushmeter.checks import one_of, positive, seconds, whole
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words
from hushmeter.home import Appliance, Home
from hushmeter.noise import Mechanism, find_kind
from hushmeter.noise.mechanism import MechanismOptions
from hushmeter.noise.parameters import Exact, clamp_bounds
from hushmeter.privacy.sensitivity import IDEAL, Change, round_up
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Metering, Trace, intervals_in

PROTECT = ("appliance", "fluctuation", "range", "change")
"""What a unit can protect."""

SPANS = ("reading", "run", "day", "when")
"""Over how long a unit can protect it."""

LONGEST_DAY_S = 25 * SECONDS_PER_HOUR
"""Length of the longest civil day [s]: the day on which summer time ends has 25 hours."""

DAY_SHARE = 0.2
"""Change of the published sum of a day, as a share of the largest change of another value. With
Laplace noise it makes the noise of all values of a moved short run 10 % larger."""

REGISTER_LIMIT = 1.0
"""Largest accepted ratio of the effect of a register to the effect of the change itself."""


@dataclass(frozen=True)
class Unit:
    """The unit of protection: every change that one ε must cover.

    Attributes
    ----------
    protect : {"appliance", "fluctuation", "range", "change"}
        What is protected.
    span : {"reading", "run", "day", "when"}
        Over how long it is protected.
    changes : tuple of Change
        The protected changes, one for each protected appliance.
    interval_s : float
        Length of a metered reading [s].
    metering : Metering
        How the meter rounds and copies.
    readings : int or None
        Metered readings of the period to be released; None if it does not matter.
    use_s : float or None
        Largest use a day that was given for all protected appliances [s].
    zone : str
        Time zone of the civil days within which a run is moved; only "when" needs it.
    """

    protect: str
    span: str
    changes: tuple[Change, ...]
    interval_s: float
    metering: Metering = IDEAL
    readings: int | None = None
    use_s: float | None = None
    zone: str = "UTC"

    @property
    def l1(self) -> float:
        """Largest sum Δ1 of the changes of all released values [W]."""
        return max(change.l1 for change in self.changes)

    @property
    def l2(self) -> float:
        """Largest Euclidean length Δ2 of the change of all released values [W]."""
        return max(change.l2 for change in self.changes)

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        return max(change.largest for change in self.changes)

    @property
    def touches(self) -> int:
        """Most released values that one of the changes can touch."""
        return max(change.touches for change in self.changes)

    @property
    def window(self) -> int:
        """Metered readings W per released value."""
        return self.changes[0].window

    @property
    def day_scale(self) -> float:
        """Factor of the noisy sums of days; 0 if they are exact, or not published."""
        return self.changes[0].day_scale

    @property
    def largest_watts(self) -> float:
        """Largest change of the power [W]."""
        return max(change.watts for change in self.changes)

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
            return f"{subject}, over one day, {use_in_words(self.largest_use_s, self.protect)}"
        longest = duration_in_words(max(change.seconds for change in self.changes))
        if self.span == "when":
            moved = "its use" if self.use_s else f"one run of up to {longest}"
            subject = subject.replace("whether", "when", 1)
            return f"{subject}: the time of {moved} within its day, not whether it happened"
        if len(self.changes) > 1:
            return f"{subject}, over one of its own runs (up to {longest})"
        return f"{subject}, over one run of up to {longest}"

    @property
    def largest_use_s(self) -> float:
        """Longest time at full power [s]."""
        return max(change.energy / change.watts for change in self.changes)

    def for_appliance(self, appliance: Appliance) -> Unit:
        """Return the unit with this appliance instead of the protected ones.

        Parameters
        ----------
        appliance : Appliance
            Its protected numbers bound the change.

        Returns
        -------
        Unit
            With the same span, windows and metering.
        """
        change = appliance_change(
            appliance,
            self.span,
            interval_s=self.interval_s,
            window=self.window,
            metering=self.metering,
            readings=self.readings,
            use_s=self.use_s,
        )
        return replace(self, changes=(replace(change, day_scale=self.day_scale),))


def use_in_words(use_s: float, protect: str) -> str:
    """Say how long an appliance is on, or a change lasts, in one day; `use_s` in seconds."""
    appliance = protect == "appliance"
    if use_s >= LONGEST_DAY_S * (1 - 1e-9):
        return f"in which it may {'be on' if appliance else 'last'} all the time"
    verb = "is on" if appliance else "lasts"
    return f"in which it {verb} for at most {duration_in_words(use_s)}"


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
    metering: Metering | None = None,
    readings: int | None = None,
    use: float | str | None = None,
    zone: str = "UTC",
) -> Unit:
    """Find the changes that a choice of `protect` and `span` means in a home.

    Parameters
    ----------
    protect : {"appliance", "fluctuation", "range", "change"}
        An appliance that switches on or off (the default); only fluctuations within a state, the
        paper's Δf = δ/2; any value of a reading within the clamp; or a change of `watts`.
    span : {"reading", "run", "day", "when"}
        One metered reading (as in the paper); one whole run; one whole day of up to 25 hours; or
        the time of a run within its day, but not whether it happened.
    interval_s : float
        Length of a metered reading [s].
    home : Home, optional
        Needed for "appliance" and "fluctuation".
    appliance : str, optional
        The one appliance to protect; without it, every appliance of the home is protected.
    clamp : (low, high), optional
        Bounds of a reading [W]; needed for "range".
    watts : float, optional
        Size of the change [W]; needed for "change".
    every : float or str, optional
        Length of the released means, such as "30min"; without it the readings are released as
        metered.
    trace : Trace, optional
        Source of the run lengths of appliances without `run_s`: the longest run in it. Take
        earlier data, not the readings to be released.
    metering : Metering, optional
        How the meter rounds and copies; `Trace.metering` of the trace to be released. The span
        "when" needs the step to which the meter rounds.
    readings : int, optional
        Metered readings of the period to be released; needed if the meter differences a register.
    use : float or str, optional
        Longest time a day during which a protected appliance is on, in seconds or as text such as
        "30min"; for the spans "day" and "when". By default "day" takes `use_s_per_day` of the
        appliance or, if the home does not state it, assumes that the appliance may be on for the
        whole day; "when" moves one run.
    zone : str, default "UTC"
        Time zone of the civil days, such as "Europe/Berlin"; only "when" needs it.

    Returns
    -------
    Unit

    Raises
    ------
    InputError
        If the choice is incomplete or contradictory; the message names what is missing.
    """
    one_of("protect", protect, PROTECT)
    one_of("span", span, SPANS)
    interval_s = positive("interval_s", interval_s)
    if metering is not None:
        refuse_unknown_rounding(span, metering)
    window = 1 if every is None else intervals_in(every, interval_s)
    if appliance is not None and protect != "appliance":
        raise InputError(f"an appliance is named, but protect is {protect!r}.")
    cap_s = _checked_use(use, span)
    members = _members(home, appliance)
    if span == "run" or (span == "when" and cap_s is None):
        members = tuple(_with_run_length(member, home, trace, interval_s) for member in members)
    if protect == "appliance":
        if home is None:
            raise InputError("protect 'appliance' needs a home.")
    else:
        # Any change of this size, for as long as the longest run in the home.
        size = _watts(protect, home, clamp, watts)
        longest = None if cap_s is not None else _longest_run_s(members, span)
        members = (Appliance(protect, size, run_s=longest),)
    changes = tuple(
        appliance_change(
            member,
            span,
            interval_s=interval_s,
            window=window,
            metering=metering,
            readings=readings,
            use_s=cap_s,
        )
        for member in members
    )
    changes = _with_day_scale(changes)
    return Unit(protect, span, changes, interval_s, metering or IDEAL, readings, cap_s, zone)


def _with_day_scale(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return moved changes with one scale for the sums of days, if rounding moves these."""
    scales = [DAY_SHARE * one.largest / one.day_sum_w for one in changes if one.day_sum_w]
    if not scales:
        return changes
    return tuple(replace(change, day_scale=min(scales)) for change in changes)


def appliance_change(
    appliance: Appliance,
    span: str,
    *,
    interval_s: float,
    window: int = 1,
    metering: Metering | None = None,
    readings: int | None = None,
    use_s: float | None = None,
) -> Change:
    """Change that one appliance makes over a span; see `resolve_unit` for the parameters.

    The numbers that the appliance states as protected bound the change; `use_s` [s] replaces its
    own longest use a day, and `window` is the number of metered readings per released value.
    """
    metering = metering or IDEAL
    watts = appliance.protected_power
    length_s, energy = _length_and_energy(appliance, span, interval_s, use_s)
    values = _released_values(metering, readings, window)
    if span == "when":
        # After the later of the two places the counter is the same as without the move.
        values = min(values, round_up(LONGEST_DAY_S / (window * interval_s)) + 1)
    return Change(
        appliance.name,
        watts,
        length_s,
        interval_s,
        energy,
        window,
        aligned=span == "reading",
        metering=metering,
        values=values,
        moved=span == "when",
    )


def _length_and_energy(
    appliance: Appliance, span: str, interval_s: float, use_s: float | None
) -> tuple[float, float]:
    """Return the longest time [s] and the largest energy [W·s] of a change."""
    watts = appliance.protected_power
    if span == "reading":
        return interval_s, watts * interval_s
    if span == "run" or (span == "when" and use_s is None):
        length_s, stated = _run_s(appliance), appliance.protected_energy_wh
        most = watts * length_s
        return length_s, most if stated is None else min(most, stated * SECONDS_PER_HOUR)
    if use_s is None:
        use_s = appliance.protected_use_s_per_day
    return LONGEST_DAY_S, watts * (LONGEST_DAY_S if use_s is None else use_s)


def calibrate(
    mechanism: str,
    epsilon: Exact,
    unit: Unit,
    *,
    delta: Exact = 1e-6,
    grid: Exact = 1.0,
    clamp: tuple[float, float] | None = None,
    max_epsilon: float | None = None,
    engine: str = "table",
) -> Mechanism:
    """Make the mechanism with which the whole unit is ε- or (ε, δ)-differentially private.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism, one of `hushmeter.noise.MECHANISMS`: laplace, staircase or gaussian.
    epsilon : exact number
        ε of the unit.
    unit : Unit
        What ε protects.
    delta : exact number
        δ of the unit; only Gaussian noise uses it.
    grid : exact number
        Step of the released readings [W].
    clamp : (low, high), optional
        Bounds of a reading [W].
    max_epsilon : float, optional
        Largest accepted ε.
    engine : {"table", "opendp"}
        Sampler of the noise.

    Returns
    -------
    Mechanism

    Raises
    ------
    InputError
        If a parameter is invalid, or if the meter differences a register whose effect is larger
        than that of the protected change.
    """
    refuse_large_register(mechanism, unit)
    options: MechanismOptions = {"clamp": clamp, "engine": engine}
    if max_epsilon is not None:
        options["max_epsilon"] = max_epsilon
    return find_kind(mechanism).calibrated(epsilon, unit, grid, delta=delta, **options)


def refuse_large_register(mechanism: str, unit: Unit) -> None:
    """Refuse a unit in which a register adds more to the sensitivity than the change itself."""
    norm = find_kind(mechanism).norm
    worst = max(unit.changes, key=lambda change: change.register_l1)
    if not worst.register_w:
        return
    effect, total = worst.register_l1, worst.l1
    if norm == 2:
        effect, total = worst.register_l2, worst.l2
    if effect > REGISTER_LIMIT * (total - effect):
        other = "" if norm == 2 else "use Gaussian noise, "
        raise InputError(
            f"the register of the meter is too coarse: its rounding can move all {worst.touches} "
            f"released values by {worst.register_w:g} W, {effect:.4g} W against "
            f"{total - effect:.4g} W of the change itself; {other}release longer means or a "
            "shorter period, or read the meter with more digits."
        )


def refuse_unknown_rounding(span: str, metering: Metering) -> None:
    """Refuse the span "when" if the time of a run may move the sums of days by an unknown step."""
    if span != "when":
        return
    if metering.stretch > 1 or metering.reach or metering.copies > 1:
        raise InputError(
            "the span 'when' publishes the sums of the days, which show the time of a run if "
            "readings have different lengths, as those of this file have; protect a run or a day."
        )
    if not (metering.resolution_w or metering.register_step_w):
        raise InputError(
            "the span 'when' publishes the sums of the days, which show the time of a run if the "
            "meter rounds its readings; state the step of the readings in their unit, such as "
            "--step 0.001 for kWh with three decimals (metering=Metering(resolution_w=…))."
        )


def longest_runs(trace: Trace) -> list[int]:
    """Longest contiguous run of every appliance [readings], 0 for one that never runs."""
    states, starts = trace.truth(), trace.run_starts
    lengths = []
    for column in states.T:
        # A run ends where the state ends, and at every gap.
        cuts = np.flatnonzero(np.diff(column, prepend=False) | starts)
        spans = np.diff(cuts, append=column.size)
        lengths.append(int(spans[column[cuts]].max(initial=0)))
    return lengths


def _released_values(metering: Metering, readings: int | None, window: int) -> int:
    """Return the number of released values of the period, 0 if it does not matter."""
    if not metering.register_step_w:
        return 0
    if readings is None:
        raise InputError(
            "the readings are differences of a register, so the sensitivity depends on how many "
            "are released; give readings=, their number."
        )
    return round_up(whole("readings", readings) / window)


def _members(home: Home | None, appliance: str | None) -> tuple[Appliance, ...]:
    """Return the named appliance, or all appliances of the home."""
    if home is None:
        return ()
    if appliance is None:
        return home.appliances
    return (home.appliances[home.index(appliance)],)


def _with_run_length(
    appliance: Appliance, home: Home | None, trace: Trace | None, interval_s: float
) -> Appliance:
    """Return the appliance with the longest run of a trace if it has no run length of its own."""
    known = appliance.protected_run_s is not None
    if known or home is None or trace is None or trace.states is None:
        return appliance
    seen = longest_runs(trace)[home.index(appliance.name)]
    # An appliance that never ran is protected over one reading at least.
    return replace(appliance, run_s=max(seen * trace.interval_s, interval_s))


def _run_s(appliance: Appliance) -> float:
    """Return the longest run of an appliance [s], or refuse if it is unknown."""
    if appliance.protected_run_s is None:
        raise InputError(
            f"the spans 'run' and 'when' need to know how long the {appliance.name} runs: "
            "give it run_s in the home, or a trace with true states."
        )
    return appliance.protected_run_s


def _longest_run_s(members: tuple[Appliance, ...], span: str) -> float | None:
    """Return the longest run of all members [s]; None if the span is not a run."""
    if span not in ("run", "when"):
        return None
    if not members:
        raise InputError(f"span {span!r} needs a home that states how long its appliances run.")
    return max(map(_run_s, members))


def _checked_use(use: float | str | None, span: str) -> float | None:
    """Return the longest use a day [s], or None if it is not given."""
    if use is None:
        return None
    if span not in ("day", "when"):
        raise InputError(f"use is a time a day: it needs span 'day' or 'when', got {span!r}.")
    use_s = seconds("use", use)
    if use_s > SECONDS_PER_DAY:
        raise InputError(f"use must be at most one day, got {duration_in_words(use_s)}.")
    return use_s


def _watts(
    protect: str, home: Home | None, clamp: tuple[float, float] | None, watts: float | None
) -> float:
    """Return the largest change of the power [W] where no appliance is protected."""
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
