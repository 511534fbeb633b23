r"""Restore: better values for the recipient of a release, from the release and its receipt alone.

The receipt states the distribution of the noise. The loads of a home are not arbitrary: they
repeat, and they are not negative. The distribution G of the loads is estimated from all released
values y together, by nonparametric maximum likelihood [1]_: G has weights g_s on support points x_s
between zero and the largest released value, and the EM algorithm

    g_s ← g_s · (1/T) · Σ_t p(y_t − x_s) / Σ_r g_r·p(y_t − x_r)

increases the likelihood in every step, where p is the distribution of the noise. Each value is then
replaced by the mean of the load given y_t, and its standard deviation is stated.

This is a function of published numbers, so it costs no privacy. It is biased towards frequent
loads: sums and bills must be taken from the release itself, and a restored file is marked as such.

*A known home.* If the recipient knows the appliances of the home, the loads of neighbouring
readings are connected: an appliance that is on stays on for its run. The mean of the load given all
released values is then that of the Bayes attacker, who learns its chains from simulated readings of
the home. A constant load that no appliance explains is estimated as well. This is used only where
it was measured to be better; see `LONGEST_S`.

*Estimates.* An analyst has folders of calendar releases and files of restored values. Both hold an
estimate of every hour and its standard error; `read_estimates` reads one of them, or all of a
folder, one for each home. A calendar release also has its own days and months, whose errors are
smaller than those of a sum of hours. Restored hours have a bias in common, so their errors do not
cancel in a sum: the errors themselves are added, not their squares.

References
----------
.. [1] B. Efron, "Empirical Bayes deconvolution estimates", Biometrika 103, 2016.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray, IntArray, one_of, whole
from hushmeter.clock import civil_days, utc_times
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import (
    json_text,
    parse_json,
    receipt_path,
    refuse_overwrite,
    replace_together,
    sha256_of,
    table_bytes,
    table_format,
)
from hushmeter.home import Home
from hushmeter.noise.mechanism import Mechanism
from hushmeter.parts import load
from hushmeter.privacy.sensitivity import Table
from hushmeter.read.text_columns import own_table
from hushmeter.releases.files import is_release, read_release
from hushmeter.releases.labels import CELLS
from hushmeter.releases.release import Release
from hushmeter.releases.verify import verify_release
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, TimeArray, Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.release import Release, View

POINTS, STEPS = 160, 300
RESTORED_SCHEMA = "hushmeter-restored-1"
MOST_VALUES = 20_000
"""Different released values up to which each has its own row of likelihoods; more are rounded."""

NOTE = (
    "Restored values are estimates, not a release. They are biased: take sums and bills from the "
    "released file."
)

LONGEST_S = 60.0
"""Length of released values [s] up to which a known home is used.

Measured with Laplace noise of ε = 1 for one reading of one appliance, as the mean absolute error
divided by that of the release, with the home and without it: two days of the synthetic home
`evening` 0.17 and 0.53 for minutes, 0.30 and 0.51 for 5 minutes, 0.32 and 0.49 for 15 minutes;
three days of REDD house 1 with the seven largest appliances, learnt from other days, 0.070 and
0.095 for minutes, but 0.17 and 0.15 for 5 minutes and 0.19 and 0.17 for 15 minutes. On REDD the
stated deviations are too small by a factor of 1.5 for minutes.
"""

TRAINING_DAYS = 4
FINE_S = 6.0
BASE_STEPS = 6
"""Steps in which the constant load is estimated."""

PERIODS = ("hour", "day", "month", "all")
DAY_HOURS = 24


@dataclass(frozen=True, eq=False)
class Restored:
    """Restored readings with their standard deviations."""

    trace: Trace  # Mean of the load given the released values [W]
    std: FloatArray  # Standard deviation of the load given the released values [W]
    # `sha256` of the released file (None for a release in memory), `epsilon`, `mechanism`, and
    # `method`: "loads" if the distribution of the loads was estimated, "home" if the appliances
    # were known.
    source: dict[str, Any]

    def save(self, path: str | Path, *, force: bool = False) -> list[Path]:
        """Write the restored readings and a mark that says what they are."""
        data = Path(path)
        mark = mark_path(data)
        for file in (data, mark):
            refuse_overwrite(file, force)
        columns = {
            "timestamp": self.trace.times,
            "restored_watts": np.round(self.trace.readings, 3),
            "restored_standard_deviation": np.round(self.std, 3),
        }
        content = table_bytes(columns, table_format(data))
        fields = {
            "schema": RESTORED_SCHEMA,
            "note": NOTE,
            "interval_s": self.trace.interval_s,
            "file": {"sha256": hashlib.sha256(content).hexdigest()},
            "source": self.source,
        }
        replace_together({data: content, mark: json_text(fields).encode()})
        return [data, mark]


def mark_path(data: Path) -> Path:
    """Path of the mark of a restored file."""
    return data.with_name(f"{data.name}.restored.json")


def is_restored(path: Path) -> bool:
    """True if a file has the mark of a restored file beside it."""
    return path.is_file() and mark_path(path).exists()


def read_restored(path: str | Path) -> Restored:
    """Read a restored file with its mark."""
    data = Path(path)
    mark = mark_path(data)
    try:
        fields = parse_json(mark.read_bytes())
        if fields["file"]["sha256"] != sha256_of(data):
            raise DataError(f"{data} is not the file of its mark: its SHA-256 differs.")
        table_format(data)
        table = own_table(data, data.read_bytes())
        times = table["timestamp"].values.astype("datetime64[ns]")
        interval_s = float(fields["interval_s"])
        steps = np.rint((times - times[0]).astype(np.int64) / (interval_s * 1e9)).astype(np.int64)
        means = table["restored_watts"].floats()
        deviations = table["restored_standard_deviation"].floats()
        trace = Trace(means, interval_s, times[0], steps=steps)
        return Restored(trace, deviations, dict(fields["source"]))
    except OSError as error:
        raise DataError(f"{mark} cannot be read: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, HushmeterError):
            raise
        raise DataError(f"{mark} or {data} has a missing or impossible entry ({error}).") from None


def restore(
    release: Release, *, home: Home | None = None, points: int = POINTS, steps: int = STEPS
) -> Restored | Release:
    """Restore released values: the mean of the load given all of them.

    Parameters
    ----------
    release : Release
        From `Promise.release`, `release` or `read_release`.
    home : Home, optional
        The appliances, if the recipient knows them. They are used for cells of up to one minute;
        longer cells and releases of several tables are restored without them.
    points : int, default 160
        Number of support points of the distribution of the loads, without a home.
    steps : int, default 300
        Steps of the EM algorithm, without a home.

    Returns
    -------
    Restored
        For a release of cells alone. Sums are biased; take them from the release.
        `source["method"]` is "home" or "loads".
    Release
        For a release of several tables: its estimate with restored cells, whose weight is the
        inverse of their mean variance given the release. Other tables keep their own sums, and
        their standard errors do not count the bias of restored cells: take sums from the release.

    Raises
    ------
    InputError
        If the argument is not a release, was restored before, or has no cells, or the home has too
        many states.

    Examples
    --------
    >>> trace = hm.Trace([120.0, 2120.0], interval_s=60.0, start="2024-01-01T00:00Z")
    >>> done = hm.Request(hide="kettle").resolve(hm.metered(trace)).release(trace, rng=1)
    >>> hm.restore(done).source["method"]
    'loads'
    """
    if not isinstance(release, Release):
        raise InputError(f"restore needs a release, got a {type(release).__name__}.")
    if release.restored is not None:
        raise InputError("this release is already restored; give the release itself.")
    if release.promise.tables[0].name != CELLS:
        raise InputError("this release has no hours, so there is nothing to restore.")
    noise, grid = release.promise.noise, release.promise.noise.grid

    def log_likelihood(watts: FloatArray) -> FloatArray:
        return np.asarray(noise.log_pmf(np.rint(watts / grid)))

    def log_density(watts: FloatArray) -> FloatArray:
        return -0.5 * (watts / noise.scale) ** 2

    if release.promise.joint:
        means, deviations = deconvolve(
            release.sums[0], log_density, noise.scale, points=points, steps=steps
        )
        return replace(release, restored=(means, deviations))
    trace, method = release.trace, "loads"
    if home is not None and trace.interval_s <= LONGEST_S:
        method = "home"
        means, deviations = _loads_of_home(home, trace, noise)
    else:
        means, deviations = deconvolve(
            trace.readings, log_likelihood, noise.std, points=points, steps=steps
        )
    restored = Trace(means, trace.interval_s, trace.start, steps=trace.steps)
    return Restored(restored, deviations, {**source_of(release), "method": method})


def source_of(release: Release, sha256: str | None = None) -> dict[str, Any]:
    """Where restored values come from: digest of the file, ε and mechanism."""
    name = "calendar" if release.promise.joint else release.promise.noise.name
    return {"sha256": sha256, "epsilon": release.promise.epsilon, "mechanism": name}


def restore_file(
    path: str | Path,
    *,
    home: Home | None = None,
    receipt: str | Path | None = None,
    key: str | Path | None = None,
) -> Restored:
    """Restore a released file, or the cells of a folder, after its receipt was checked.

    `home` are the appliances of a file, if they are known, `receipt` is its public receipt, if it
    is not beside the file, and `key` the public key that must have signed it. Raise `DataError` if
    it was restored before or does not verify.
    """
    place = Path(path)
    release, source = read_verified(place, receipt, key)
    found = restore(release, home=None if place.is_dir() else home)
    if isinstance(found, Restored):
        return replace(found, source={**found.source, **source})
    return Restored(found.trace, found.view("hours").errors, {**source, "method": "loads"})


def read_verified(
    place: Path, receipt: str | Path | None, key: str | Path | None
) -> tuple[Release, dict[str, Any]]:
    """Read a release whose receipt verifies, and the source of what is computed from it."""
    if mark_path(place).exists():
        raise DataError(f"{place} is already restored; give the released file instead.")
    stated = receipt_path(place) if receipt is None else Path(receipt)
    checked = verify_release(place, key, receipt=stated)
    if checked.problems:
        raise DataError(
            f"{place} was not restored, because its receipt does not verify: {checked.problems[0]}"
        )
    release = read_release(place, stated)
    digest = sha256_of(stated if place.is_dir() else place)
    return release, source_of(release, digest)


def deconvolve(
    values: FloatArray,
    log_likelihood: Callable[[FloatArray], FloatArray],
    std: float,
    *,
    points: int = POINTS,
    steps: int = STEPS,
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation [W] of non-negative loads, given values with noise [W].

    `log_likelihood` is the log-density of the noise at every difference between a value and a
    load, and `std` its standard deviation [W].

    Notes
    -----
    Equal values share one row of the matrix of likelihoods. If there are more than 20 000
    different values, they are rounded to 1/64 of the standard deviation first, so that the memory
    stays below 200 MB for any length.
    """
    whole("points", points, least=2)
    whole("steps", steps)
    seen, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if seen.size > MOST_VALUES:
        width = max(std / 64, float(np.ptp(values)) / MOST_VALUES)
        seen, place, counts = np.unique(
            np.rint(values / width) * width, return_inverse=True, return_counts=True
        )
    support = np.linspace(0.0, max(float(values.max()), 4 * std), points)
    likelihood = log_likelihood(seen[:, None] - support)
    likelihood -= likelihood.max(axis=1, keepdims=True)
    np.exp(likelihood, out=likelihood)
    shares = counts / counts.sum()
    weights = np.full(points, 1 / points)
    for _ in range(steps):
        weights *= (shares / (likelihood @ weights)) @ likelihood
    joint = likelihood * weights
    joint /= joint.sum(axis=1, keepdims=True)
    means = joint @ support
    variances = np.maximum(joint @ support**2 - means**2, 0.0)
    # The support points themselves are this far apart.
    spacing = (support[1] - support[0]) / math.sqrt(12)
    return means[place], np.sqrt(variances + spacing**2)[place]


def _loads_of_home(home: Home, trace: Trace, mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the loads by the Bayes attacker of a home [W]."""
    attacker = (
        load("nilm.bayes", "`home`")
        .Bayes(home)
        .fit(_training(home, trace.interval_s))
        .knows(mechanism)
    )
    base, means, deviations = 0.0, np.zeros(len(trace)), np.zeros(len(trace))
    for _ in range(BASE_STEPS):
        shifted = trace.replace_readings(trace.readings - base)
        means, deviations = attacker.predict_load(shifted)
        # One step of the EM algorithm for a constant that is added to every reading.
        change = float((shifted.readings - means).mean())
        base = max(0.0, base + change)
        if abs(change) < 0.05 * mechanism.std / np.sqrt(len(trace)):
            break
    return means + base, deviations


def _training(home: Home, interval_s: float) -> Trace:
    """Simulated readings of the home, from which the chains of its appliances are learnt."""
    from hushmeter.synth import trace as simulate

    if interval_s % FINE_S == 0:
        length = round(TRAINING_DAYS * SECONDS_PER_DAY / FINE_S)
        return simulate(home, length, interval_s=FINE_S, seed=0).coarsen(interval_s)
    length = round(TRAINING_DAYS * SECONDS_PER_DAY / interval_s)
    return simulate(home, length, interval_s=interval_s, seed=0)


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
