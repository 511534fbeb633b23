"""Released hours with their standard errors, as an analyst receives them.

An analyst has folders of calendar releases and files of restored values. Both hold an estimate of
every hour and its standard error; `read_estimates` reads one of them, or all of a folder, one for
each home. A calendar release also has its own days and months, whose errors are smaller than those
of a sum of hours. Restored hours have a bias in common, so their errors do not cancel in a sum: the
errors themselves are added, not their squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, IntArray, one_of
from hushmeter.clock import civil_days, utc_times
from hushmeter.errors import DataError
from hushmeter.privacy.tables import Table
from hushmeter.releases.files import is_release, read_release
from hushmeter.releases.restore import is_restored, read_restored
from hushmeter.releases.verification import verify_release
from hushmeter.trace import SECONDS_PER_HOUR, TimeArray, Trace

if TYPE_CHECKING:
    from hushmeter.releases.release import Release, View

PERIODS = ("hour", "day", "month", "all")
DAY_HOURS = 24


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated hours of one home."""

    name: str  # Name of the folder or of the file, without its ending
    kind: str  # Where the estimate comes from
    trace: Trace  # Estimated mean power of every cell [W]
    errors: FloatArray  # Standard errors of the cells [W]
    release: Release | None = None  # The release itself; None for a restored file

    @property
    def zone(self) -> str:
        """Time zone of the days and months."""
        return "UTC" if self.release is None else self.release.promise.cells.zone

    def sums(self, every: str) -> tuple[TimeArray, IntArray, FloatArray, FloatArray]:
        """Sums of the cells over hours, days, months or the whole time."""
        one_of("every", every, PERIODS)
        if self.release is None:
            return self._sums_of_cells(every)
        if every == "all":
            whole = Table("all", np.zeros(len(self.trace), dtype=np.int64), 1)
            error = np.sqrt(self.release.fit.sum_variances(whole))
            return self.trace.times[:1], whole.members, whole.sums(self.trace.readings), error
        view = self.release.view({"day": "days", "hour": "hours"}.get(every, "months"))
        factor = 1.0 if view.unit == "W" else 3.6e6 / self.trace.interval_s
        watts, errors = view.values * factor, view.errors * factor
        cells = np.asarray(view.labels.get("cells", np.ones(watts.size, dtype=np.int64)))
        return self._starts(view), cells, watts, errors

    def _sums_of_cells(self, every: str) -> tuple[TimeArray, IntArray, FloatArray, FloatArray]:
        """Sums of restored cells, whose errors are added because they have a bias in common."""
        unit = {"hour": "h", "day": "D", "month": "M"}.get(every)
        times = self.trace.times
        if unit is None:
            starts, place = times[:1], np.zeros(times.size, dtype=np.int64)
        else:
            starts, place = np.unique(times.astype(f"datetime64[{unit}]"), return_inverse=True)
        cells = np.bincount(place).astype(np.int64)
        watts = np.bincount(place, self.trace.readings).astype(np.float64)
        errors = np.bincount(place, self.errors).astype(np.float64)
        return starts.astype("datetime64[ns]"), cells, watts, errors

    def _starts(self, view: View) -> TimeArray:
        """Start of every value of a view in UTC."""
        if "timestamp" in view.labels:
            return np.asarray(view.labels["timestamp"])
        labels = view.labels["day"] if "day" in view.labels else view.labels["month"]
        local = np.asarray(labels).astype("datetime64[D]").astype("datetime64[ns]")
        return utc_times(local, self.zone)

    def days(self) -> tuple[FloatArray, FloatArray, TimeArray]:
        """Complete days of 24 clock hours."""
        per_hour = SECONDS_PER_HOUR / self.trace.interval_s
        if per_hour < 1 or per_hour != round(per_hour):
            raise DataError(f"{self.name}: days of 24 hours need cells that divide an hour.")
        known = civil_days(self.trace.times, self.trace.interval_s, self.zone)
        counts = np.bincount(known.place, minlength=known.days.size)
        size = DAY_HOURS * round(per_hour)
        whole = known.complete & (counts == size)
        if not whole.any():
            raise DataError(f"{self.name} has no complete day of 24 hours.")
        inside = whole[known.place]
        shape = (int(whole.sum()), DAY_HOURS, round(per_hour))
        values = self.trace.readings[inside].reshape(shape).mean(axis=2) / 1000
        squares = (self.errors[inside] ** 2).reshape(shape).sum(axis=2)
        errors = np.sqrt(squares) / round(per_hour) / 1000
        return np.asarray(values), np.asarray(errors), known.days[whole]


def holds_estimates(path: str | Path) -> bool:
    """True if a path is a calendar release, a restored file, or a folder with one of them."""
    place = Path(path)
    if place.is_dir():
        return is_release(place) or any(map(_is_estimate, place.iterdir()))
    return is_restored(place)


def read_estimates(path: str | Path) -> list[Estimate]:
    """Read a calendar release, a restored file, or a folder of them."""
    place = Path(path)
    found = [place] if is_restored(place) or (place.is_dir() and is_release(place)) else []
    if not found and place.is_dir():
        found = sorted(filter(_is_estimate, place.iterdir()))
    if not found:
        raise DataError(
            f"{place} is neither a calendar release nor a restored file, nor a folder of them."
        )
    return [_read(each) for each in found]


def _is_estimate(path: Path) -> bool:
    """True if a path is the folder of a calendar release or a restored file."""
    return is_release(path) if path.is_dir() else is_restored(path)


def _read(path: Path) -> Estimate:
    """Read one calendar release or one restored file."""
    if not path.is_dir():
        restored = read_restored(path)
        return Estimate(path.stem, "restored", restored.trace, restored.std)
    checked = verify_release(path)
    if checked.problems:
        raise DataError(f"the receipt of {path} does not verify: {checked.problems[0]}")
    release = read_release(path)
    errors = release.view("hours").errors
    return Estimate(path.name, "calendar", release.trace, errors, release)
