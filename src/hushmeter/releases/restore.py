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
from typing import TYPE_CHECKING, Any

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
from hushmeter.releases.files import read_release, receipt_path
from hushmeter.releases.labels import CELLS
from hushmeter.releases.release import Release
from hushmeter.releases.verification import verify_release
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


def restore(release: Release, *, points: int = POINTS, steps: int = STEPS) -> Restored | Release:
    """Restore released values: the mean of the load given all of them.

    Parameters
    ----------
    release : Release
        From `Promise.release`, `release` or `read_release`.
    points : int, default 160
        Number of support points of the distribution of the loads.
    steps : int, default 300
        Steps of the EM algorithm.

    Returns
    -------
    Restored
        For a release of cells alone. Sums are biased; take them from the release.
    Release
        For a release of several tables: its estimate with restored cells, whose weight is the
        inverse of their mean variance given the release. Other tables keep their own sums, and
        their standard errors do not count the bias of restored cells: take sums from the release.

    Raises
    ------
    InputError
        If the argument is not a release, was restored before, or has no cells.
    """
    if not isinstance(release, Release):
        raise InputError(f"restore needs a release, got a {type(release).__name__}.")
    if release.restored is not None:
        raise InputError("this release is already restored; give the release itself.")
    if release.promise.tables[0].name != CELLS:
        raise InputError("this release has no hours, so there is nothing to restore.")
    if not release.promise.joint:
        return restore_trace(
            release.trace, release.promise.noise, source_of(release), points, steps
        )
    noise = release.promise.noise
    means, deviations = deconvolve(
        release.sums[0],
        lambda watts: -0.5 * (watts / noise.scale) ** 2,
        noise.scale,
        points=points,
        steps=steps,
    )
    return replace(release, restored=(means, deviations))


def source_of(release: Release, sha256: str | None = None) -> dict[str, Any]:
    """Where restored values come from: digest of the file, ε and mechanism."""
    name = "calendar" if release.promise.joint else release.promise.noise.name
    return {"sha256": sha256, "epsilon": release.promise.epsilon, "mechanism": name}


def restore_file(
    path: str | Path, *, receipt: str | Path | None = None, key: str | Path | None = None
) -> Restored:
    """Restore a released file, or the cells of a folder, after its receipt was checked.

    `receipt` is its public receipt, if it is not beside the file, and `key` the public key that
    must have signed it. Raise `DataError` if it was restored before or does not verify.
    """
    release, source = read_verified(Path(path), receipt, key)
    found = restore(release)
    if isinstance(found, Restored):
        return replace(found, source={**source, "method": "loads"})
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


def deconvolve(
    values: FloatArray,
    log_likelihood: Callable[[FloatArray], FloatArray],
    std: float,
    *,
    points: int = POINTS,
    steps: int = STEPS,
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of non-negative loads given values with noise.

    Units: `values`, `log_likelihood`, `std` [W].

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
