"""Neighbouring files: a change of one reading, run or day must stay within the sensitivity.

Two files are neighbours if they describe the same home and differ by one protected change. A
release keeps its promise for files only if both files give the same public facts (times,
interval, gaps, notes), and readings that differ by no more than the unit of protection declares.
`compare_neighbours` checks this for two files that were read; `audit_file` writes neighbouring
versions of a file and checks them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import RngLike, whole
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.privacy.units import Unit, resolve_unit
from hushmeter.read import ReadOptions, Recording
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.least_squares import TABLES
from hushmeter.releases.rewriting import RawFile, Run
from hushmeter.releases.series import check_metering, mean_windows
from hushmeter.releases.view_plan import plan_views
from hushmeter.releases.views import add_up
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    from hushmeter.home import Appliance, Home

SLACK = 1e-9
"""Relative rounding error of sums in floating point."""


def compare_neighbours(one: Recording, other: Recording, unit: Unit) -> list[str]:
    """Compare two recordings that differ by one protected change.

    Parameters
    ----------
    one, other : Recording
        Both files, read in the same way.
    unit : Unit
        The unit of protection that the release declares for `one`.

    Returns
    -------
    list of str
        One sentence for each public fact that differs, and for each declared size of the change
        (Δ1, Δ2, largest, touched values) that is exceeded; empty if the promise holds.
    """
    problems = [
        f"{name} differs: {_short(first)} and {_short(second)}"
        for name, first, second in _public_facts(one, other)
        if not _same(first, second)
    ]
    if problems:
        return problems
    traces = (one.trace, other.trace)
    if unit.window > 1:
        traces = (mean_windows(one.trace, unit)[0], mean_windows(other.trace, unit)[0])
    change = np.abs(traces[0].readings - traces[1].readings)
    # Readings of equal energy may differ in their last digits.
    change[change <= SLACK * (1 + np.abs(traces[0].readings))] = 0.0
    sizes = (
        ("Δ1", float(change.sum()), unit.l1),
        ("Δ2", float(np.sqrt((change**2).sum())), unit.l2),
        ("the largest change", float(change.max()), unit.largest),
        ("the number of touched values", float((change > 0).sum()), float(unit.touches)),
    )
    return [
        f"{name} is {found:.6g}, but the unit declares at most {declared:.6g}"
        for name, found, declared in sizes
        if found > declared * (1 + SLACK) + 1e-6
    ]


def compare_tables(one: Recording, other: Recording, unit: Unit) -> list[str]:
    """Compare the four tables of calendar releases of two neighbouring recordings.

    Parameters
    ----------
    one, other : Recording
        Both files, with the same times.
    unit : Unit
        The unit of protection of the release; its released values are the cells.

    Returns
    -------
    list of str
        One sentence for each table that moves by more than its declared sensitivity.

    Raises
    ------
    InputError, DataError
        If the readings have no calendar, such as a month without a complete day.
    """
    zone = one.public.zone or "UTC"
    cells = [mean_windows(each.trace, unit)[0] for each in (one, other)]
    calendar = lay_out(cells[0], zone)
    plan = plan_views(unit, calendar, epsilon=1)
    tables = [add_up(each.readings, calendar, plan.grid) for each in cells]
    moved = [
        float(np.linalg.norm((first - second).astype(float)))
        for first, second in zip(*tables, strict=True)
    ]
    return [
        f"the table of {name} moves by {length:.6g} steps, but the receipt declares at most "
        f"{declared:.6g}"
        for name, length, declared in zip(TABLES, moved, plan.sensitivities, strict=True)
        if length > declared
    ]


@dataclass(frozen=True)
class FileAudit:
    """The result of `audit_file`.

    Attributes
    ----------
    format : str
        The format of the file.
    unit : str
        The unit of protection as a sentence.
    tried : tuple of str
        What was tried, one phrase for each appliance.
    pairs : int
        Number of pairs of neighbouring files that were read and compared.
    refused : int
        Number of pairs of which one file is refused, so that nothing of it is published.
    not_changed : tuple of str
        Columns that vary and that no version changed, because it is not known how a run would.
    largest_share : float
        Largest Δ1 that was found, as a share of the declared one.
    problems : tuple of str
        Every violation, one sentence each; empty if the promise held for every pair.
    """

    format: str
    unit: str
    tried: tuple[str, ...]
    pairs: int
    refused: int
    not_changed: tuple[str, ...]
    largest_share: float
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if no pair violated the promise."""
        return not self.problems


def audit_file(
    path: str | Path,
    home: Home,
    *,
    span: str = "run",
    appliance: str | None = None,
    every: float | str | None = None,
    pairs: int = 20,
    views: bool = False,
    options: ReadOptions | None = None,
    rng: RngLike = 0,
) -> FileAudit:
    """Write neighbouring versions of a file and check the promise for each of them.

    A version is the file that the meter, its registers, the plugs and the portal would have
    written: every column changes that a run of the appliance is known to change.

    Parameters
    ----------
    path : str or Path
        A file of readings: a text table, workbook (xlsx), JSON records, Parquet, NEM12, Green
        Button XML, DSMR telegrams or an export of Home Assistant, also gzipped or in a zip archive.
    home : Home
        The appliances whose runs are added.
    span : {"reading", "run", "day", "when"}
        How long the added change lasts; "when" compares two files with one run at different times
        of a day.
    appliance : str, optional
        Only this appliance; by default every appliance of the home.
    every : float or str, optional
        Length of the released means.
    pairs : int, default 20
        Number of neighbouring versions for each appliance.
    views : bool, default False
        Compare the four tables of a calendar release as well; its cells are `every` long, an hour
        by default.
    options : ReadOptions, optional
        How the file is read.
    rng : int, Generator or None
        Where the changes are placed.

    Returns
    -------
    FileAudit

    Raises
    ------
    DataError
        If the file is too large, cannot be read, or its values cannot be found in it.
    InputError
        If a release of the file would be refused.
    """
    if views and every is None:
        every = "1h"
    names = home.names if appliance is None else (home.appliances[home.index(appliance)].name,)
    count = whole("pairs", pairs)
    raw = RawFile(Path(path), options or ReadOptions())
    checks = _Checks(raw, home, span, every, views, np.random.default_rng(rng))
    for name in names:
        checks.add(name, count)
    if checks.share == 0:
        raise DataError(checks.nothing_compared())
    return FileAudit(
        raw.recording.public.format,
        checks.sentence if len(names) == 1 else f"one {span} of an appliance",
        tuple(checks.tried),
        checks.compared,
        checks.refused,
        tuple(raw.unknown_for(names)),
        checks.share,
        tuple(dict.fromkeys(checks.problems)),
    )


class _Checks:
    """The pairs that were compared, and what was found."""

    def __init__(
        self,
        raw: RawFile,
        home: Home,
        span: str,
        every: float | str | None,
        views: bool,
        rng: np.random.Generator,
    ) -> None:
        self.raw, self.home, self.span = raw, home, span
        self.every, self.views, self.rng = every, views, rng
        self.tried: list[str] = []
        self.problems: list[str] = []
        self.compared = self.refused = 0
        self.share = 0.0
        self.sentence = self.refusal = ""

    def add(self, name: str, count: int) -> None:
        """Compare `count` pairs that differ by a run, reading or day of one appliance."""
        member = self.home.appliances[self.home.index(name)]
        unit = _unit_for(self.raw.recording.trace, self.home, name, self.span, self.every)
        check_metering(self.raw.recording.trace, unit)
        self.sentence = unit.sentence
        for _ in range(count):
            self._compare(member, unit)
        power = f"{member.protected_power:g} W"
        self.tried.append(f"{count} versions with one more {self.span} of the {name} ({power})")

    def _compare(self, member: Appliance, unit: Unit) -> None:
        trace = self.raw.recording.trace
        first, stop = _place(trace, member, self.span, self.rng)
        seed = int(self.rng.integers(2**32))
        # The same seed gives the counter of the meter the same phase in both files.
        runs = [Run(member.name, member.protected_power, first, stop, seed)]
        if self.span == "when":
            moved = _move(first, stop, self.rng)
            runs.append(Run(member.name, member.protected_power, *moved, seed))
        try:
            versions = [self.raw.read_with(run) for run in runs]
            for version in versions:
                check_metering(version.trace, _unit_like(unit, version.trace))
        except HushmeterError as error:
            self.refused, self.refusal = self.refused + 1, str(error)
            return
        one, other = (self.raw.recording, *versions)[-2:]
        found = compare_neighbours(one, other, unit)
        if self.views and not found:
            found = compare_tables(one, other, unit)
        when = np.datetime64(round(first), "s")
        self.problems += [f"{member.name} added at {when}Z: {problem}." for problem in found]
        self.share = max(self.share, _l1_share(one, other, unit))
        self.compared += 1

    def nothing_compared(self) -> str:
        """Why the audit says nothing."""
        name = self.raw.name
        if self.refusal:
            return f"{name}: every version with one more {self.span} is refused: {self.refusal}"
        return f"{name}: no version changed a reading, so the audit says nothing: use more --pairs."


def _unit_like(unit: Unit, trace: Trace) -> Unit:
    """The unit with the readings of another version, whose metering must be the same."""
    return replace(unit, readings=len(trace)) if unit.readings else unit


def _unit_for(trace: Trace, home: Home, name: str, span: str, every: float | str | None) -> Unit:
    """The unit that a release of this trace declares for one appliance."""
    return resolve_unit(
        "appliance",
        span,
        interval_s=trace.interval_s,
        home=home,
        appliance=name,
        every=every,
        metering=trace.metering,
        readings=len(trace),
    )


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
        if appliance.protected_run_s is None:
            raise InputError(f"the {appliance.name} needs run_s in the home.")
        longest = appliance.protected_run_s
        if appliance.protected_energy_wh is not None:
            # At full power a run ends when it has taken the energy that is protected.
            energy = 3600 * appliance.protected_energy_wh
            longest = min(longest, energy / appliance.protected_power)
        length = longest * (rng.uniform(0.3, 1.0) if rng.random() < 0.5 else 1.0)
    first = float(rng.uniform(starts[0] - length / 2, starts[-1] + trace.interval_s))
    # Whole milliseconds, which every text of a time can hold.
    first = round(first, 3)
    return first, first + math.floor(1000 * length) / 1000


def _move(first: float, stop: float, rng: np.random.Generator) -> tuple[float, float]:
    """Another start and end of a run within its day of 24 hours (UTC) [s since 1970]."""
    day = SECONDS_PER_DAY * (first // SECONDS_PER_DAY)
    start = round(float(rng.uniform(day, max(day, day + SECONDS_PER_DAY - (stop - first)))), 3)
    return start, start + (stop - first)


def _l1_share(one: Recording, other: Recording, unit: Unit) -> float:
    """Sum of the changes of the readings as a share of what the unit declares."""
    if len(one.trace) != len(other.trace):
        return float("inf")
    change = np.abs(one.trace.readings - other.trace.readings).sum() / unit.window
    return float(change / unit.l1)


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
