"""What one ε protects: which change of the load, over how long (Definition 1 of the paper).

A unit of protection names a change (an appliance that switches, a fluctuation, any value of a
reading) and a span (one reading, one run, one day, or when a run happens within its day).
`hushmeter.privacy.sensitivity` computes how far the released values can move, and each kind of
noise takes from these numbers the one to which it is calibrated: Laplace Δ1, Gaussian Δ2. The
staircase protects one released value at a time, so its ε is divided among the values that a change
touches.

`Metered` is what is public about a meter: its interval, its times, its zone and how it rounds.
Units and promises are made from these facts alone. The readings are left behind in `metered`, so
nothing that is computed from a `Metered` can depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hushmeter.appliance import Appliance
from hushmeter.checks import one_of, positive, seconds, whole
from hushmeter.clock import check_zone
from hushmeter.errors import InputError
from hushmeter.formatting import duration_in_words
from hushmeter.home import Home
from hushmeter.noise import Mechanism, find_kind
from hushmeter.noise.mechanism import Exact, MechanismOptions, clamp_bounds
from hushmeter.privacy.sensitivity import IDEAL, Change, round_up
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Metering, Runs, Trace, intervals_in

PROTECT = ("appliance", "fluctuation", "range", "change")
"""What a unit can protect."""

SPANS = ("reading", "run", "day", "when")
"""Over how long a unit can protect it."""

LONGEST_DAY_S = 25 * SECONDS_PER_HOUR
"""Length of the longest civil day [s]: the day on which summer time ends has 25 hours."""

DAY_SHARE = 0.2
"""Change of the published sum of a day, as a share of the largest change of another value. With
Laplace noise it makes the noise of all values of a moved short run 10 % larger."""

WITHIN_DAYS, BETWEEN_DAYS = "within days", "between days"
"""How the use of two neighbours may be rearranged: within every civil day, or by exchanging whole
days of one month."""

KEPT = {
    (): None,
    (WITHIN_DAYS,): "days",
    (BETWEEN_DAYS,): "typical-day",
    (WITHIN_DAYS, BETWEEN_DAYS): "months",
}
"""The finest table whose sums stay the same if use is rearranged in these ways."""

REGISTER_LIMIT = 1.0
"""Largest accepted ratio of the effect of a register to the effect of the change itself."""


@dataclass(frozen=True)
class Metered:
    """The public facts about readings that are to be released.

    Parameters
    ----------
    interval_s : float
        Length of a metered reading [s].
    metering : Metering, optional
        How the meter rounds and copies; an ideal meter by default.
    zone : str, default "UTC"
        Time zone of days, months and hours of the day.
    readings : int, optional
        Number of metered readings; None if the period is not known yet.
    samples : bool, default False
        True if a reading is one sample of the power and not the mean of its interval.
    times : Trace, optional
        The times of the readings, with zeros in the place of the readings; None if they are not
        known yet, as for a stream.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=6.0, start="2024-01-01T00:00Z")
    >>> facts = hm.metered(trace, zone="Europe/Berlin")
    >>> facts.interval_s, facts.readings, facts.times.readings.tolist()
    (6.0, 2, [0.0, 0.0])
    """

    interval_s: float
    metering: Metering = IDEAL
    zone: str = "UTC"
    readings: int | None = None
    samples: bool = False
    times: Trace | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval_s", positive("interval_s", self.interval_s))
        check_zone(self.zone)
        if self.readings is not None:
            object.__setattr__(self, "readings", whole("readings", self.readings))


def metered(trace: Trace, zone: str = "UTC") -> Metered:
    """Return what is public about a trace; its readings, states and names are left out.

    Parameters
    ----------
    trace : Trace
        The metered readings.
    zone : str, default "UTC"
        Time zone of days, months and hours of the day, such as "Europe/Berlin".

    Returns
    -------
    Metered

    Examples
    --------
    >>> hm.metered(hm.Trace([120.0] * 3, interval_s=60.0), zone="Europe/Berlin").readings
    3
    """
    return Metered(trace.interval_s, trace.metering, zone, len(trace), times=without_values(trace))


def without_values(trace: Trace) -> Trace:
    """Return the times of a trace with zeros in the place of its readings."""
    return Trace(
        np.zeros(len(trace)),
        trace.interval_s,
        trace.start,
        steps=trace.steps,
        metering=trace.metering,
    )


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
        Time zone of the civil days within which use is moved; only "when" and rearranged use
        need it.
    window : int
        Metered readings W per released value.
    rearranged : tuple of str
        How the use of neighbours may be rearranged without a limit: "within days", "between days".
        There need be no other change then.
    """

    protect: str
    span: str
    changes: tuple[Change, ...]
    interval_s: float
    metering: Metering = IDEAL
    readings: int | None = None
    use_s: float | None = None
    zone: str = "UTC"
    window: int = 1
    rearranged: tuple[str, ...] = ()

    @property
    def l1(self) -> float:
        """Largest sum Δ1 of the changes of all released values [W]."""
        return max((change.l1 for change in self.changes), default=0.0)

    @property
    def l2(self) -> float:
        """Largest Euclidean length Δ2 of the change of all released values [W]."""
        return max((change.l2 for change in self.changes), default=0.0)

    @property
    def largest(self) -> float:
        """Most that one released value can change [W]."""
        return max((change.largest for change in self.changes), default=0.0)

    @property
    def touches(self) -> int:
        """Most released values that one of the changes can touch."""
        return max((change.touches for change in self.changes), default=0)

    @property
    def day_scale(self) -> float:
        """Factor of the noisy sums of days; 0 if they are exact, or not published."""
        return self.changes[0].day_scale if self.changes else 0.0

    @property
    def keeps(self) -> str | None:
        """The finest table that is the same for all neighbours that differ in order alone."""
        return KEPT[self.rearranged]

    @property
    def largest_watts(self) -> float:
        """Largest change of the power [W]."""
        return max((change.watts for change in self.changes), default=0.0)

    @property
    def sentence(self) -> str:
        """The unit in plain words."""
        if not self.changes:
            return order_in_words(self.rearranged)
        if self.rearranged:
            return f"{order_in_words(self.rearranged)}; and {self._change_in_words}"
        return self._change_in_words

    @property
    def _change_in_words(self) -> str:
        """The protected changes in plain words."""
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

    @property
    def metered(self) -> Metered:
        """What is public about the meter, without its times."""
        return Metered(self.interval_s, self.metering, self.zone, self.readings)

    def change_of(self, appliance: Appliance, span: str, use_s: float | None = None) -> Change:
        """Return the change of any appliance over a span in the values of this unit."""
        change = appliance_change(appliance, span, self.metered, self.window, use_s)
        return replace(change, day_scale=self.day_scale if span == "when" else 0.0)

    @property
    def day_energy(self) -> float:
        """Largest energy of a day of usual use of a protected appliance [W·s]."""
        most = ((c.watts * LONGEST_DAY_S, c.day_energy) for c in self.changes)
        return max((all_day if usual is None else usual for all_day, usual in most), default=0.0)

    def usual_day(self, change: Change) -> Change:
        """Return the change that a day of usual use makes, with the power of a protected change."""
        energy = min(change.watts * LONGEST_DAY_S, self.day_energy)
        values = released_values("day", self.metered, self.window)
        return replace(
            change,
            seconds=max(change.seconds, LONGEST_DAY_S),
            energy=max(change.energy, energy),
            aligned=False,
            moved=False,
            values=values,
            day_scale=0.0,
        )

    def for_appliance(self, appliance: Appliance) -> Unit:
        """Return the unit with this appliance instead of the protected ones."""
        return replace(self, changes=(self.change_of(appliance, self.span, self.use_s),))


def order_in_words(rearranged: tuple[str, ...]) -> str:
    """Say what is protected if use is rearranged."""
    return {
        "days": "at which times of the day electricity is used, on all days",
        "typical-day": "on which days of a month electricity is used",
        "months": "at which times and on which days of a month electricity is used",
    }[KEPT[rearranged] or ""]


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
    interval_s: float | Metered,
    home: Home | None = None,
    appliance: str | None = None,
    every: float | str | None = None,
    use: float | str | None = None,
    size: float | tuple[float, float] | None = None,
) -> Unit:
    """Find the changes that a choice of `protect` and `span` means in a home.

    Parameters
    ----------
    protect : {"appliance", "fluctuation", "range", "change"}
        An appliance that switches on or off (the default); only fluctuations within a state, the
        paper's Δf = δ/2; any value of a reading within bounds; or a change of a number of watts.
    span : {"reading", "run", "day", "when"}
        One metered reading (as in the paper); one whole run; one whole day of up to 25 hours; or
        the time of a run within its day, but not whether it happened.
    interval_s : float or Metered
        Length of a metered reading [s], or all that is public about the meter, from `hm.metered`.
        The span "when" needs the step to which the meter rounds.
    home : Home, optional
        Needed for "appliance" and "fluctuation".
    appliance : str, optional
        The one appliance to protect; without it, every appliance of the home is protected.
    every : float or str, optional
        Length of the released means, such as "30min"; without it the readings are released as
        metered.
    use : float or str, optional
        Longest time a day during which a protected appliance is on, in seconds or as text such as
        "30min"; for the spans "day" and "when". By default "day" takes `use_s_per_day` of the
        appliance or, if the home does not state it, assumes that the appliance may be on for the
        whole day; "when" moves one run.
    size : float or (low, high), optional
        Size of the change for "change", or bounds of a reading for "range" [W].

    Returns
    -------
    Unit

    Raises
    ------
    InputError
        If the choice is incomplete or contradictory; the message names what is missing.

    Examples
    --------
    >>> home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    >>> hm.resolve_unit("appliance", "run", interval_s=60, home=home, every="1h").l1
    105.0
    """
    one_of("protect", protect, PROTECT)
    one_of("span", span, SPANS)
    facts = interval_s if isinstance(interval_s, Metered) else Metered(interval_s)
    if facts.readings is not None:
        # These are readings of a file, whose meter rounds in some way.
        refuse_unknown_rounding(span, facts.metering)
    window = 1 if every is None else intervals_in(every, facts.interval_s)
    if appliance is not None and protect != "appliance":
        raise InputError(f"an appliance is named, but protect is {protect!r}.")
    cap_s = _checked_use(use, span)
    members = _members(home, appliance)
    if protect == "appliance":
        if home is None:
            raise InputError("protect 'appliance' needs a home.")
    else:
        # Any change of this size, for as long as the longest run in the home.
        longest = None if cap_s is not None else _longest_run_s(members, span)
        members = (Appliance(protect, _watts(protect, home, size), run_s=longest),)
    changes = tuple(appliance_change(one, span, facts, window, cap_s) for one in members)
    changes = _with_day_scale(changes)
    meter = (facts.interval_s, facts.metering, facts.readings)
    return Unit(protect, span, changes, *meter, cap_s, facts.zone, window)


def _with_day_scale(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return moved changes with one scale for the sums of days, if rounding moves these."""
    scales = [DAY_SHARE * one.largest / one.day_sum_w for one in changes if one.day_sum_w]
    if not scales:
        return changes
    return tuple(replace(change, day_scale=min(scales)) for change in changes)


def appliance_change(
    appliance: Appliance,
    span: str,
    metered: Metered,
    window: int = 1,
    use_s: float | None = None,
) -> Change:
    """Change that one appliance makes over a span in values of `window` readings each.

    `use_s` is its longest use a day [s], instead of the one that the appliance states.
    """
    length_s, energy = _length_and_energy(appliance, span, metered.interval_s, use_s)
    return Change(
        appliance.name,
        appliance.protected_power,
        length_s,
        metered.interval_s,
        energy,
        window,
        aligned=span == "reading",
        metering=metered.metering,
        values=released_values(span, metered, window),
        moved=span == "when",
        day_energy=_length_and_energy(appliance, "day", metered.interval_s, use_s)[1],
    )


def allow_for_samples(appliance: Appliance, interval_s: float) -> Appliance:
    """Return an appliance whose run is long enough for a meter that samples the power.

    A run of R seconds overlaps at most ⌈R/I⌉ + 1 slots of I seconds. The one sample of a slot
    counts for the whole slot and may lie anywhere in it, so each of these slots can change by the
    full power P, and no other slot changes. Samples at equal distances would reach one slot less,
    but no meter keeps them exactly. If a meter sends only changes and reports each of them within I
    seconds, a run lasts at most R + I seconds in its messages, which is not more. An appliance
    that switches within its run may be on at every sample, so its energy is bounded by P alone.
    """
    run_s = appliance.protected_run_s
    if run_s is None:
        return appliance
    seen_s = (round_up(run_s / interval_s) + 1) * interval_s
    return replace(appliance, run_high_s=seen_s, energy_wh=None)


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

    Returns
    -------
    Mechanism

    Raises
    ------
    InputError
        If a parameter is invalid, or if the meter differences a register whose effect is larger
        than that of the protected change.

    Examples
    --------
    >>> unit = hm.resolve_unit("change", "reading", size=500.0, interval_s=60.0)
    >>> hm.calibrate("laplace", 1.0, unit)
    Laplace(epsilon=1, sensitivity=500, grid=1)
    """
    refuse_large_register(mechanism, unit)
    options: MechanismOptions = {"clamp": clamp}
    if max_epsilon is not None:
        options["max_epsilon"] = max_epsilon
    return find_kind(mechanism).calibrated(epsilon, unit, grid, delta=delta, **options)


def refuse_large_register(mechanism: str, unit: Unit) -> None:
    """Refuse a unit in which a register adds more to the sensitivity than the change itself."""
    norm = find_kind(mechanism).norm
    if not any(change.register_w for change in unit.changes):
        return
    worst = max(unit.changes, key=lambda change: change.register_l1)
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
    if metering.registers > 1:
        raise InputError(
            "the span 'when' publishes the sums of the days, which show the time of a run if it "
            f"moves from one of the {metering.registers} registers of the meter to another; "
            "protect a run or a day."
        )
    if not (metering.resolution_w or metering.register_step_w):
        raise InputError(
            "the span 'when' publishes the sums of the days, which show the time of a run if the "
            "meter rounds its readings; state the step of the readings in their unit, such as "
            "--step 0.001 for kWh with three decimals (metering=Metering(resolution_w=…))."
        )


def refuse_rearranging(metering: Metering) -> None:
    """Refuse rearranged use for a meter whose sums depend on the order in an unknown way."""
    if metering.stretch > 1 or metering.reach or metering.copies > 1 or metering.registers > 1:
        why = (
            f"its {metering.registers} registers round separately"
            if metering.registers > 1
            else "its readings have different lengths"
        )
        raise InputError(
            f"the sums of these readings depend on when electricity is used, because {why}; hide "
            "an appliance, or that you are away."
        )


def with_longest_runs(home: Home, trace: Trace) -> Home:
    """Return a home in which unknown lengths of runs are the longest ones in a trace with states.

    Take earlier data, not the readings to be released. Without states of all
    appliances the home stays as it is.
    """
    states, starts = trace.states, trace.run_starts
    if states is None or states.shape[1] != len(home):
        return home
    members = []
    for appliance, column in zip(home.appliances, states.T, strict=True):
        # A run ends where the state ends, and at every gap.
        longest = int(Runs.of_true(column, starts).length.max(initial=0))
        known = appliance.protected_run_s is not None
        # An appliance that never ran is protected over one reading at least.
        run_s = max(longest, 1) * trace.interval_s
        members.append(appliance if known else replace(appliance, run_s=run_s))
    return home.with_appliances(members)


def released_values(span: str, metered: Metered, window: int) -> int:
    """Return the number of released values that a register can move; 0 without a register."""
    if not metered.metering.register_step_w:
        return 0
    if metered.readings is None:
        raise InputError(
            "the readings are differences of a register, so the sensitivity depends on how many "
            "are released; give their number, as hm.metered(trace) does."
        )
    values = round_up(metered.readings / window)
    if span == "when":
        # After the later of the two places the counter is the same as without the move.
        values = min(values, round_up(LONGEST_DAY_S / (window * metered.interval_s)) + 1)
    return values


def _members(home: Home | None, appliance: str | None) -> tuple[Appliance, ...]:
    """Return the named appliance, or all appliances of the home."""
    if home is None:
        return ()
    if appliance is None:
        return home.appliances
    return (home.appliances[home.index(appliance)],)


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


def _watts(protect: str, home: Home | None, size: float | tuple[float, float] | None) -> float:
    """Return the largest change of the power [W] where no appliance is protected."""
    if protect == "change":
        return positive("watts", size)
    if protect == "range":
        bounds = clamp_bounds(size)
        if bounds is None:
            raise InputError("protect 'range' needs a clamp: the bounds of a reading [W].")
        return bounds[1] - bounds[0]
    if home is None:
        raise InputError("protect 'fluctuation' needs a home, for its tolerance.")
    return home.protected_tolerance / 2
