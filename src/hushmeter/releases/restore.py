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
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hushmeter.checks import FloatArray, whole
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.files import (
    json_text,
    parse_json,
    refuse_overwrite,
    replace_together,
    sha256_of,
    table_bytes,
    table_format,
)
from hushmeter.noise import parse_mechanism
from hushmeter.read import read_meter
from hushmeter.releases.calendar_release import CalendarRelease
from hushmeter.releases.series import Release
from hushmeter.releases.storage import receipt_path
from hushmeter.releases.verification import read_receipt, verify_file
from hushmeter.releases.view_files import read_views, verify_views
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

POINTS, STEPS = 160, 300
RESTORED_SCHEMA = "hushmeter-restored-1"
MOST_VALUES = 20_000
"""Different released values up to which each has its own row of likelihoods; more are rounded."""

NOTE = (
    "Restored values are estimates, not a release. They are biased: take sums and bills from the "
    "released file."
)


@dataclass(frozen=True, eq=False)
class Restored:
    """Restored readings with their standard deviations.

    Attributes
    ----------
    trace : Trace
        Mean of the load given the released values [W].
    std : array, shape (T,)
        Standard deviation of the load given the released values [W].
    source : dict
        `sha256` of the released file (None for a release in memory), `epsilon`, `mechanism`, and
        `method`: "loads" if the distribution of the loads was estimated, "home" if the appliances
        were known.
    """

    trace: Trace
    std: FloatArray
    source: dict[str, Any]

    def save(self, path: str | Path, *, force: bool = False) -> list[Path]:
        """Write the restored readings and a mark that says what they are.

        Parameters
        ----------
        path : str or Path
            OUT, which ends in .csv or .parquet; the mark is OUT.restored.json.
        force : bool
            Whether to replace existing files.

        Returns
        -------
        list of Path
            Both files.

        Raises
        ------
        DataError
            If a file exists and `force` is not set.
        """
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
    """Read a restored file with its mark.

    Parameters
    ----------
    path : str or Path
        The file that `Restored.save` wrote.

    Returns
    -------
    Restored

    Raises
    ------
    DataError
        If the mark is missing or impossible, or the file was changed after it was written.
    """
    data = Path(path)
    mark = mark_path(data)
    try:
        fields = parse_json(mark.read_bytes())
        if fields["file"]["sha256"] != sha256_of(data):
            raise DataError(f"{data} is not the file of its mark: its SHA-256 differs.")
        table = _read_plain(data)
        times = table["timestamp"].to_numpy().astype("datetime64[ns]")
        interval_s = float(fields["interval_s"])
        steps = np.rint((times - times[0]).astype(np.int64) / (interval_s * 1e9)).astype(np.int64)
        means = table["restored_watts"].to_numpy().astype(float)
        deviations = table["restored_standard_deviation"].to_numpy().astype(float)
        trace = Trace(means, interval_s, times[0], steps=steps)
        return Restored(trace, np.asarray(deviations), dict(fields["source"]))
    except OSError as error:
        raise DataError(f"{mark} cannot be read: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, HushmeterError):
            raise
        raise DataError(f"{mark} or {data} has a missing or impossible entry ({error}).") from None


def _read_plain(path: Path) -> Any:
    """The columns of a file that this program wrote, as a pyarrow table."""
    from pyarrow import ArrowException, csv, parquet

    try:
        return csv.read_csv(path) if table_format(path) == "csv" else parquet.read_table(path)
    except ArrowException as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


@overload
def restore(
    release: CalendarRelease, *, points: int = ..., steps: int = ...
) -> CalendarRelease: ...
@overload
def restore(release: Release, *, points: int = ..., steps: int = ...) -> Restored: ...
def restore(
    release: Release | CalendarRelease, *, points: int = POINTS, steps: int = STEPS
) -> Restored | CalendarRelease:
    """Restore released values: the mean of the load given all of them.

    Parameters
    ----------
    release : Release or CalendarRelease
        From `release`, `release_views` or `read_views`.
    points : int, default 160
        Number of support points of the distribution of the loads.
    steps : int, default 300
        Steps of the EM algorithm.

    Returns
    -------
    Restored
        For a release. Sums are biased; take them from the release.
    CalendarRelease
        For a calendar release: its estimate with restored cells, whose weight is the inverse of
        their mean variance given the release. The days, months and the typical day keep their own
        tables, and their standard errors do not count the bias of restored cells: take sums from
        the calendar release itself.

    Raises
    ------
    InputError
        If the argument is not a release, or was restored before.
    """
    if isinstance(release, CalendarRelease):
        return _restore_views(release, points, steps)
    if not isinstance(release, Release):
        raise InputError(f"restore needs a release, got a {type(release).__name__}.")
    described = release.receipt.mechanism
    mechanism = parse_mechanism({described["mechanism"]: dict(described["parameters"])})
    source = {"sha256": None, "epsilon": release.receipt.epsilon, "mechanism": mechanism.name}
    return restore_trace(release.trace, mechanism, source, points, steps)


def restore_file(
    path: str | Path, *, receipt: str | Path | None = None, key: str | Path | None = None
) -> Restored:
    """Restore a released file, or the hours of a calendar release, after checking its receipt.

    Parameters
    ----------
    path : str or Path
        The released file, or the folder of a calendar release.
    receipt : str or Path, optional
        Its public receipt, if it is not beside the file.
    key : str or Path, optional
        Public key that must have signed the receipt.

    Returns
    -------
    Restored

    Raises
    ------
    DataError
        If the file was restored before, or its receipt does not verify.
    """
    place = Path(path)
    if mark_path(place).exists():
        raise DataError(f"{place} is already restored; give the released file instead.")
    if place.is_dir():
        checked = verify_views(place, key)
        _refuse_unverified(place, checked.problems)
        calendar = restore(read_views(place))
        source = {
            "sha256": sha256_of(place / "receipt.json"),
            "epsilon": calendar.receipt["epsilon"],
            "mechanism": "calendar",
            "method": "loads",
        }
        return Restored(calendar.trace(), calendar.hours.errors, source)
    stated = receipt_path(place) if receipt is None else Path(receipt)
    return restore_trace(*read_verified(place, stated, key))


def read_verified(
    place: Path, receipt: Path, key: str | Path | None
) -> tuple[Trace, Mechanism, dict[str, Any]]:
    """Read a released file whose receipt verifies, its mechanism and the source of the result.

    Raises `DataError` if the file was restored before, or its receipt does not verify.
    """
    if mark_path(place).exists():
        raise DataError(f"{place} is already restored; give the released file instead.")
    checked = verify_file(place, key, receipt=receipt)
    _refuse_unverified(place, checked.problems)
    fields = read_receipt(receipt)
    described = fields["mechanism"]
    mechanism = parse_mechanism({described["mechanism"]: dict(described["parameters"])})
    source = {
        "sha256": fields["file"]["sha256"],
        "epsilon": fields["epsilon"],
        "mechanism": mechanism.name,
    }
    return read_meter(place), mechanism, source


def _refuse_unverified(path: Path, problems: tuple[str, ...]) -> None:
    """Raise `DataError` with the first problem of a release."""
    if problems:
        raise DataError(
            f"{path} was not restored, because its receipt does not verify: {problems[0]}"
        )


def restore_trace(
    trace: Trace,
    mechanism: Mechanism,
    source: dict[str, Any],
    points: int = POINTS,
    steps: int = STEPS,
) -> Restored:
    """Restore the readings of a trace under the noise of a mechanism."""
    grid = mechanism.grid

    def log_likelihood(watts: FloatArray) -> FloatArray:
        return np.asarray(mechanism.log_pmf(np.rint(watts / grid)))

    means, deviations = deconvolve(
        trace.readings, log_likelihood, mechanism.std, points=points, steps=steps
    )
    restored = Trace(means, trace.interval_s, trace.start, steps=trace.steps)
    return Restored(restored, deviations, {**source, "method": "loads"})


def _restore_views(release: CalendarRelease, points: int, steps: int) -> CalendarRelease:
    """Replace the noisy cells of a calendar release by restored ones."""
    if release.restored is not None:
        raise InputError("this calendar release is already restored; give the release itself.")
    sigma = float(release.plan.sigmas[0]) * float(release.plan.grid)
    cells = release.tables[0].astype(float) * float(release.plan.grid)
    means, deviations = deconvolve(
        cells, lambda watts: -0.5 * (watts / sigma) ** 2, sigma, points=points, steps=steps
    )
    return replace(release, restored=(means, deviations))


def deconvolve(
    values: FloatArray,
    log_likelihood: Callable[[FloatArray], FloatArray],
    std: float,
    *,
    points: int = POINTS,
    steps: int = STEPS,
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of non-negative loads given values with noise.

    Parameters
    ----------
    values : array, shape (T,)
        Loads with noise [W].
    log_likelihood : callable
        Logarithm of the probability of a noise [W], up to a constant.
    std : float
        Standard deviation of the noise [W].
    points : int
        Number of support points between 0 and max(values, 4·std).
    steps : int
        Steps of the EM algorithm.

    Returns
    -------
    means, deviations : arrays, shape (T,)
        Of the load given its value, under the estimated distribution of the loads [W].

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
