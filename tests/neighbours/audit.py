"""Neighbouring files: a change of one reading, run or day must stay within the sensitivity.

Two files are neighbours if they describe the same home and differ by one protected change. A
release keeps its promise for files only if both files give the same public facts (times,
interval, gaps, notes), and sums that differ by no more than the promise declares.
`compare_neighbours` checks this for two files that were read; `audit_file` writes neighbouring
versions of a file and checks them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.neighbours.rewriting import RawFile, Run

from hushmeter.checks import RngLike, whole
from hushmeter.clock import day_bounds, local_times
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.privacy.units import metered
from hushmeter.read import ReadOptions, Recording
from hushmeter.releases.promise import Promise, check_metering
from hushmeter.releases.request import Request
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.appliance import Appliance

SLACK = 1e-9
"""Relative rounding error of sums in floating point."""


def compare_neighbours(one: Recording, other: Recording, promise: Promise) -> list[str]:
    """Compare two recordings that differ by one protected change.

    `promise` is the one for `one`. The result has one sentence for each public fact that differs,
    and for each declared size of the change that is exceeded: Δ1, Δ2, the largest change and the
    number of touched cells, and how far the sums of every table move. It is empty if the promise
    holds.
    """
    problems = [
        f"{name} differs: {_short(first)} and {_short(second)}"
        for name, first, second in _public_facts(one, other)
        if not _same(first, second)
    ]
    if problems:
        return problems
    return [
        f"{name} is {found:.6g}, but the promise declares at most {declared:.6g}"
        for name, found, declared in _sizes(promise, one.trace, other.trace)
        if found > declared * (1 + SLACK) + 1e-6
    ]


def _sizes(promise: Promise, one: Trace, other: Trace) -> Iterator[tuple[str, float, float]]:
    """How far a change moves cells [W] and the sums of tables, and what is declared."""
    unit, change = promise.unit, _change_of_cells(promise, one, other)
    yield "Δ1", float(change.sum()), unit.l1
    yield "Δ2", float(np.linalg.norm(change)), unit.l2
    yield "the largest change", float(change.max()), unit.largest
    yield "the number of touched values", float((change > 0).sum()), float(unit.touches)
    if len(promise.tables) == 1 and not promise.joint:
        return
    moved = [
        float(np.linalg.norm(first - second))
        for first, second in zip(promise.exact_sums(one), promise.exact_sums(other), strict=True)
    ]
    if promise.joint:
        for entry, found, most in zip(promise.tables, moved, promise.lengths, strict=True):
            yield f"the change of the table {entry.name} in grid steps", found, float(most)
    else:
        days = promise.tables[1]
        step = float(promise.grid) / days.scale
        slack = 0.0 if days.noise is None else step
        yield "the change of the sum of a day", moved[1] * step, unit.changes[0].day_sum_w + slack


def _change_of_cells(promise: Promise, one: Trace, other: Trace) -> Any:
    """Changes of the cells before they are rounded to the grid [W]."""
    first, second = promise.means(one), promise.means(other)
    change = np.abs(first - second)
    # Readings of equal energy may differ in their last digits.
    change[change <= SLACK * (1 + np.abs(first))] = 0.0
    return change


@dataclass(frozen=True)
class FileAudit:
    """The result of `audit_file`."""

    format: str  # The format of the file
    unit: str  # The unit of protection as a sentence
    tried: tuple[str, ...]  # What was tried, one phrase for each appliance
    pairs: int  # Number of pairs of neighbouring files that were read and compared
    refused: int  # Number of pairs of which one file is refused, so that nothing of it is published
    # Columns that vary and that no version changed, because it is not known how a run would
    not_changed: tuple[str, ...]
    largest_share: float  # Largest Δ1 that was found, as a share of the declared one
    # Every violation, one sentence each; empty if the promise held for every pair
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if no pair violated the promise."""
        return not self.problems


def audit_file(
    path: str | Path,
    request: Request,
    *,
    pairs: int = 20,
    options: ReadOptions | None = None,
    rng: RngLike = 0,
) -> FileAudit:
    """Write neighbouring versions of a file and check the promise of a request for each of them.

    A version is the file that the meter, its registers, the plugs and the portal would have
    written: every column changes that a run of the appliance is known to change. `request` states
    a home, and `pairs` versions are written for its appliance, or for every appliance of the home;
    `rng` says where the changes are placed. Raise `DataError` if the file is too large, cannot be
    read, or its values cannot be found in it, and `InputError` if its release would be refused.
    """
    if request.home is None:
        raise InputError("an audit of a file needs a home, whose appliances it adds.")
    names = request.home.names if request.appliance is None else (request.appliance,)
    count = whole("pairs", pairs)
    raw = RawFile(Path(path), options or ReadOptions())
    checks = _Checks(raw, np.random.default_rng(rng))
    for name in names:
        checks.add(request.with_changes(appliance=name), count)
    if checks.share == 0:
        raise DataError(checks.nothing_compared())
    return FileAudit(
        raw.recording.public.format,
        checks.sentence if len(names) == 1 else f"one {request.chosen_span()} of an appliance",
        tuple(checks.tried),
        checks.compared,
        checks.refused,
        tuple(raw.unknown_for(names)),
        checks.share,
        tuple(dict.fromkeys(checks.problems)),
    )


@dataclass
class _Checks:
    """The pairs that were compared, and what was found."""

    raw: RawFile
    rng: np.random.Generator
    tried: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    compared: int = 0
    refused: int = 0
    share: float = 0.0
    sentence: str = ""
    refusal: str = ""

    def add(self, request: Request, count: int) -> None:
        """Compare `count` pairs that differ by a run, reading or day of one appliance."""
        assert request.home is not None
        assert request.appliance is not None
        recording = self.raw.recording
        promise = request.resolve(metered(recording.trace, recording.public.zone or "UTC"))
        check_metering(recording.trace, promise.unit)
        self.sentence, span = promise.unit.sentence, promise.unit.span
        member = request.home.appliances[request.home.index(request.appliance)]
        for _ in range(count):
            self._compare(member, promise)
        self.tried.append(
            f"{count} versions with one more {span} of the {member.name} "
            f"({member.protected_power:g} W)"
        )

    def _compare(self, member: Appliance, promise: Promise) -> None:
        trace, unit = self.raw.recording.trace, promise.unit
        first, stop = _place(trace, member, unit.span, self.rng)
        seed = int(self.rng.integers(2**32))
        # The same seed gives the counter of the meter the same phase in both files.
        runs = [Run(member.name, member.protected_power, first, stop, seed)]
        if unit.span == "when":
            day = _recorded_day(trace, first, unit.zone)
            starts = self.rng.uniform(day[0], max(day[0], day[1] - (stop - first)), 2)
            moved = starts.round(3).tolist()
            runs = [replace(runs[0], first=t, stop=t + stop - first) for t in moved]
        try:
            versions = [self.raw.read_with(run) for run in runs]
            for version in versions:
                # Each version is released with a promise of its own number of readings.
                own = replace(unit, readings=len(version.trace)) if unit.readings else unit
                check_metering(version.trace, own)
        except HushmeterError as error:
            self.refused, self.refusal = self.refused + 1, str(error)
            return
        one, other = (self.raw.recording, *versions)[-2:]
        when = np.datetime64(round(first), "s")
        found = compare_neighbours(one, other, promise)
        self.problems += [f"{member.name} added at {when}Z: {problem}." for problem in found]
        same = len(one.trace) == len(other.trace)
        change = np.abs(one.trace.readings - other.trace.readings).sum() if same else math.inf
        self.share = max(self.share, float(change / unit.window / unit.l1))
        self.compared += 1

    def nothing_compared(self) -> str:
        """Why the audit says nothing."""
        name = self.raw.name
        if self.refusal:
            return f"{name}: every version with one more change is refused: {self.refusal}"
        return f"{name}: no version changed a reading, so the audit says nothing: use more --pairs."


def _place(
    trace: Trace, appliance: Appliance, span: str, rng: np.random.Generator
) -> tuple[float, float]:
    """Start and end of a random change [s since 1970]: a reading, a run, or a day."""
    starts = trace.times.astype(np.int64) / 1e9
    if span == "reading":
        first = float(rng.choice(starts))
        return first, first + trace.interval_s
    length = float(appliance.protected_use_s_per_day or SECONDS_PER_DAY)
    if span in ("run", "when"):
        assert appliance.protected_run_s is not None
        longest = appliance.protected_run_s
        if appliance.protected_energy_wh is not None:
            # At full power a run ends when it has taken the energy that is protected.
            energy = SECONDS_PER_HOUR * appliance.protected_energy_wh
            longest = min(longest, energy / appliance.protected_power)
        length = longest * (rng.uniform(0.3, 1.0) if rng.random() < 0.5 else 1.0)
    first = float(rng.uniform(starts[0] - length / 2, starts[-1] + trace.interval_s))
    # Whole milliseconds, which every text of a time can hold.
    first = round(first, 3)
    return first, first + math.floor(1000 * length) / 1000


def _recorded_day(trace: Trace, moment: float, zone: str) -> tuple[float, float]:
    """Start and end of the part of a civil day that a trace covers [s since 1970]."""
    times = trace.times.astype(np.int64) / 1e9
    inside = np.clip(moment, times[0], times[-1])
    day = local_times(np.array([inside * 1e9], dtype=np.int64).view("datetime64[ns]"), zone)
    begin, end = (float(bound[0].astype(np.int64)) for bound in day_bounds(day, zone))
    return max(begin, float(times[0])), min(end, float(times[-1]) + trace.interval_s)


def _public_facts(one: Recording, other: Recording) -> Iterator[tuple[str, Any, Any]]:
    """What a release publishes besides the noisy readings, of both recordings."""
    for known in fields(one.public):
        yield known.name, getattr(one.public, known.name), getattr(other.public, known.name)
    yield "times", one.trace.times, other.trace.times


def _same(one: Any, other: Any) -> bool:
    """True if two facts are equal."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one is not None and other is not None and bool(np.array_equal(one, other))
    return bool(one == other)


def _short(value: Any) -> str:
    """A fact as short text."""
    if isinstance(value, np.ndarray):
        return f"{value.size} times from {value[0]} to {value[-1]}"
    text = str(value)
    return text if len(text) < 120 else f"{text[:117]}…"
