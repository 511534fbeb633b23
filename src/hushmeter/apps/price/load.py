"""The load of a household: how much its hours vary, and the clusters of its days.

The hours are true or released. A buyer assigns days of 24 hourly energies to clusters by l1
distance (Appendix A). The noise of an hour is the mean of the noise of its readings; a day x moves
to another cluster if another centre is nearer to x + n. The share of days that stay is simulated
with the same random numbers at every ε, so that the entries of the menu differ by the scale of the
noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import FloatArray, IntArray
from hushmeter.errors import DataError, InputError
from hushmeter.learn.kmedians import KMedians, assign_to
from hushmeter.releases.labels import MODEL_DAYS
from hushmeter.releases.restore import Estimate
from hushmeter.trace import SECONDS_PER_HOUR, Trace

if TYPE_CHECKING:
    from hushmeter.releases.promise import Promise


@dataclass(frozen=True)
class Load:
    """Statistics of the true load, to which the buyer's errors are compared."""

    hourly_sd_w: float  # Standard deviation of the true hourly means [W]
    forecast_w: float  # Root mean square error e₀ of the forecast on true data [W]
    lag_h: int  # The naive forecast repeats the value of `lag_h` hours before
    # Standard errors of the first two [W], if they were computed from released hours; 0 for true
    # readings
    hourly_sd_se_w: float = 0.0
    forecast_se_w: float = 0.0
    naive_w: float = math.nan  # Root mean square error of the naive forecast [W]
    mean_w: float = math.nan  # That of forecasting the mean: what can be done without data [W]
    # How the error grows with the noise; without it the naive forecast is used
    forecast: Forecast | None = None

    # Standard deviations of days [kWh], months [kWh] and of the hours of the typical day [W], by
    # purpose; what the readings are too short for is missing
    spreads: Mapping[str, float] = field(default_factory=dict)

    @property
    def without_data_w(self) -> float:
        """Error of a buyer that only knows the mean [W]."""
        return self.hourly_sd_w if math.isnan(self.mean_w) else self.mean_w

    def forecast_error(self, noise_w: float | None) -> float:
        """Error of the forecast [W] if every hour has this noise; None if hours are not known.

        A buyer whose forecast would be worse than the mean forecasts the mean.
        """
        if noise_w is None:
            return self.without_data_w
        added = noise_w**2
        if self.forecast is not None:
            added = max(self.forecast.square(noise_w) - self.forecast.square(0.0), 0.0)
        return min(math.sqrt(self.forecast_w**2 + added), self.without_data_w)

    def spread(self, purpose: str) -> float:
        """Standard deviation of what a purpose needs, in its unit: the error without data."""
        if purpose == "hour":
            return self.hourly_sd_w
        if purpose not in self.spreads:
            what = "the typical day" if purpose == "profile" else f"{purpose}s"
            length = "months of 30 days" if purpose == "month" else "days"
            raise DataError(f"a buyer of {what} needs true readings of three complete {length}.")
        return self.spreads[purpose]


DAY, WEEK = 24, 168
FORECAST_DAYS = 4
"""Smallest number of days for which the forecast is fitted."""
RIDGE = 0.02
"""Share of the variance of each predictor that is added to it, against chance patterns."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """A linear forecast of an hour one day ahead, and its error on weeks that it did not learn.

    The predictors are the mean of this hour of the day, the same hour of the day before and of the
    week before, and the mean of the day before, all less the mean of the load. Each part of the
    hours is forecast with weights from the other parts. The noise is known: it adds s²·D to the
    second moments of the predictors, so that the weights of noisy predictors shrink.
    """

    train: tuple[tuple[FloatArray, FloatArray], ...]  # (X'X, X'y)/n of the other parts, each fold
    test: tuple[tuple[FloatArray, FloatArray, float], ...]  # (X'X, X'y, y'y)/n of the left-out part
    sizes: FloatArray  # Number of forecast hours of each fold
    noise: FloatArray  # D: second moments of the predictors' noise for noise of variance 1
    mean_noise: float  # Variance of the noise of the mean, for the same noise

    def square(self, noise_w: float) -> float:
        """Mean square of the error on left-out hours, if each hour has this noise [W²]."""
        return float(self._squares(noise_w) @ self.sizes / self.sizes.sum())

    def _squares(self, noise_w: float) -> FloatArray:
        found = []
        for (xx, xy), (test_xx, test_xy, yy) in zip(self.train, self.test, strict=True):
            noisy = noise_w**2 * self.noise
            weights = np.linalg.solve(xx + noisy + RIDGE * np.diag(np.diag(xx) + 1e-9), xy)
            found.append(yy - 2 * weights @ test_xy + weights @ (test_xx + noisy) @ weights)
        return np.array(found) + noise_w**2 * self.mean_noise

    @property
    def mean_square(self) -> float:
        """The same if the mean is forecast, without any data of the hours."""
        return float(np.array([yy for *_, yy in self.test]) @ self.sizes / self.sizes.sum())


def fit_forecast(hours: FloatArray, noise: float = 0.0) -> Forecast | None:
    """Fit the forecast to hourly means [W] with NaN in gaps, whose own noise has this variance.

    The result is about the load without this noise. None if there are too few complete hours.
    """
    days = hours.size // DAY
    if days < FORECAST_DAYS:
        return None
    length = WEEK if days >= 28 else DAY
    far = WEEK if days >= 15 else 2 * DAY
    part = np.arange(hours.size) // length
    at = np.arange(far, hours.size)
    before = np.stack([hours[at - DAY - k] for k in range(DAY)])
    known = np.isfinite(hours[at]) & np.isfinite(hours[at - far]) & np.isfinite(before).all(axis=0)
    at, before = at[known], before[:, known]
    parts = np.unique(part[at])
    if parts.size < 2 or at.size < 2 * DAY:
        return None
    shape = np.diag([1 / days, 1.0, 1.0, 1 / DAY])
    shape[1, 3] = shape[3, 1] = 1 / DAY
    train, test, sizes = [], [], []
    for one in parts:
        out = part[at] == one
        rest = np.where(part == one, np.nan, hours)
        mean = float(np.nanmean(rest))
        profile = np.array([np.nanmean(rest[h::DAY]) for h in range(DAY)]) - mean
        x = np.column_stack([
            profile[at % DAY], hours[at - DAY] - mean, hours[at - far] - mean,
            before.mean(axis=0) - mean,
        ])  # fmt: skip
        y = hours[at] - mean
        moments = [
            (x[rows].T @ x[rows] / rows.sum() - noise * shape, x[rows].T @ y[rows] / rows.sum())
            for rows in (~out, out)
        ]
        train.append(moments[0])
        test.append((*moments[1], float((y[out] ** 2).mean()) - noise))
        sizes.append(out.sum())
    counts = np.array(sizes, dtype=np.float64)
    return Forecast(tuple(train), tuple(test), counts, shape, 1 / float(np.isfinite(hours).sum()))


def describe_load(trace: Trace | Estimate) -> Load:
    """Return the spread of the hourly means, and the errors of forecasts of an hour.

    The naive forecast repeats the same hour of the day before if the trace is longer than a day,
    and the last hour otherwise. From four days on `Forecast` is used.

    Notes
    -----
    Noise with a mean variance s² raises the variance of the hours by s² and the mean square of a
    difference by 2·s²; both are subtracted. Restored hours vary less than the load, by the same
    amounts, which are added. With variance V of the load and n hours, the standard error of V is
    √((4·V·s² + 2·s⁴)/n), and that of the mean square F of m differences, each hour of which is
    part of two, is √((16·F·s² + 12·s⁴)/m).
    """
    released = trace if isinstance(trace, Estimate) else None
    trace = trace.trace if isinstance(trace, Estimate) else trace
    if trace.interval_s > SECONDS_PER_HOUR:
        raise DataError("prices need readings of an hour or less.")
    hourly = trace.hourly()
    if len(hourly) < 3:
        raise DataError("prices need readings of at least three hours.")
    whole = _with_gaps(hourly)
    lag = DAY if whole.size > DAY + 2 else 1
    errors = whole[lag:] - whole[:-lag]
    errors = errors[np.isfinite(errors)]
    if errors.size == 0:
        raise DataError(f"this trace has no two hours that are {lag} h apart.")
    variance, square = float(hourly.readings.var()), float((errors**2).mean())
    if variance == 0:
        raise DataError("the hourly load never changes, so the data have no value to a buyer.")
    if released is None:
        root = math.sqrt(square)
        load = Load(math.sqrt(variance), root, lag, naive_w=root, spreads=_spreads(trace))
        return _with_forecast(load, fit_forecast(whole))
    load = _released_load(released, variance, square, len(hourly), errors.size, lag)
    # Restored hours are smoother than the load, so that only the naive forecast can be corrected.
    noise = float((released.errors**2).mean()) / (len(released.trace) / len(hourly))
    plain = released.kind != "restored"
    return _with_forecast(load, fit_forecast(whole, noise) if plain else None)


FEWEST = 3
"""Smallest number of complete days or months from which their spread is computed."""


def _spreads(trace: Trace) -> dict[str, float]:
    """Standard deviations of the days, months and hours of the typical day of true readings."""
    days = whole_days(trace)
    if len(days) < FEWEST:
        return {}
    energies = days.sum(axis=1)
    found = {"day": float(energies.std()), "profile": float(1000 * days.mean(axis=0).std())}
    months = energies[: len(energies) // MODEL_DAYS * MODEL_DAYS].reshape(-1, MODEL_DAYS)
    if len(months) >= FEWEST:
        found["month"] = float(months.sum(axis=1).std())
    return found


def _with_forecast(load: Load, forecast: Forecast | None) -> Load:
    """The load with the forecast; a buyer forecasts the mean if that is better without noise."""
    if forecast is None:
        return load
    mean, error = math.sqrt(max(forecast.mean_square, 0.0)), forecast.square(0.0)
    if error <= 0:
        return load
    return replace(load, forecast_w=min(math.sqrt(error), mean), mean_w=mean, forecast=forecast)


def _released_load(
    released: Estimate, variance: float, square: float, hours: int, pairs: int, lag: int
) -> Load:
    """Statistics of the load behind released hours; see the notes of `describe_load`."""
    per_hour = len(released.trace) / hours
    noise = float((released.errors**2).mean()) / per_hour
    sign = 1.0 if released.kind == "restored" else -1.0
    load, forecast = variance + sign * noise, square + 2 * sign * noise
    load_se = math.sqrt((4 * max(load, 0.0) * noise + 2 * noise**2) / hours)
    forecast_se = math.sqrt((16 * max(forecast, 0.0) * noise + 12 * noise**2) / pairs)
    if load <= 2 * load_se or forecast <= 2 * forecast_se:
        raise DataError(
            f"{released.name}: the noise of the released hours hides how much the load varies; "
            "price it with the true readings."
        )
    return Load(
        math.sqrt(load),
        math.sqrt(forecast),
        lag,
        load_se / (2 * math.sqrt(load)),
        forecast_se / (2 * math.sqrt(forecast)),
        naive_w=math.sqrt(forecast),
    )


FEWEST_DAYS = 8
"""Smallest number of days from which a household's own clusters are made."""

OWN_CLUSTERS = 4
CLUSTERS = 30
DRAWN_DAYS = 4000
"""Smallest number of simulated noisy days."""

MANY_READINGS = 30
"""From this number of readings in an hour on, the noise of an hourly mean is taken as normal."""

SEED = 0


@dataclass(frozen=True, eq=False)
class DayClusters:
    """Days of the household and the centres of the buyer's clusters."""

    days: FloatArray  # Hourly energies of the household [kWh]
    centres: FloatArray  # Centres of the clusters [kWh]

    @property
    def labels(self) -> IntArray:
        """The cluster of every true day."""
        return assign_to(self.days, self.centres).labels.astype(np.int64)

    @property
    def rest(self) -> float:
        """Share of the days that are not in the most common cluster; at least one day."""
        most = int(np.bincount(self.labels).max())
        return max(len(self.days) - most, 1) / len(self.days)


def cluster_days(trace: Trace, profiles: ArrayLike | None = None) -> DayClusters | None:
    """Return the household's complete days and the clusters to which a buyer assigns them.

    `profiles` are days that the buyer knows already [kWh]; without them, the clusters are those of
    the household's own days.
    """
    days = whole_days(trace)
    if not len(days) or (profiles is None and len(days) < FEWEST_DAYS):
        return None
    known = days if profiles is None else np.asarray(profiles, dtype=np.float64)
    if known.ndim != 2 or known.shape[1] != DAY:
        raise InputError(f"profiles must be days of 24 hours, got the shape {known.shape}.")
    if not np.isfinite(known).all():
        raise InputError("profiles must be finite; leave out the days that have a gap.")
    most = min(OWN_CLUSTERS, len(known) // 2) if profiles is None else CLUSTERS
    model = KMedians(min(most, len(known)), random_state=SEED).fit(known)
    return DayClusters(days, model.cluster_centers_)


def whole_days(trace: Trace) -> FloatArray:
    """Return the hourly energies of every day without a gap, counted from the first hour [kWh]."""
    energies = _with_gaps(trace.hourly()) / 1000
    days = energies[: energies.size // DAY * DAY].reshape(-1, DAY)
    return np.ascontiguousarray(days[np.isfinite(days).all(axis=1)])


def _with_gaps(hourly: Trace) -> FloatArray:
    """The readings of every hour from the first to the last one, NaN in gaps."""
    readings = np.full(int(hourly.places[-1]) + 1, np.nan)
    readings[hourly.places] = hourly.readings
    return readings


def cluster_fidelity(promise: Promise, known: DayClusters) -> float:
    """Return the share of noisy days that stay in the cluster of the true day."""
    repeats = math.ceil(DRAWN_DAYS / len(known.days))
    noise = hourly_noise(promise, repeats * known.days.size) / 1000
    noisy = np.tile(known.days, (repeats, 1)) + noise.reshape(-1, DAY)
    found = assign_to(noisy, known.centres).labels
    return float((found == np.tile(known.labels, repeats)).mean())


def hourly_noise(promise: Promise, size: int) -> FloatArray:
    """Return simulated noise of a given number of hourly means. [W]

    The noise is normal if an hour has at least 30 released readings or several tables share the
    budget, and drawn from the mechanism otherwise.
    """
    per_hour = max(1, round(SECONDS_PER_HOUR / promise.cells.interval_s))
    if per_hour >= MANY_READINGS or promise.joint:
        normal = np.random.default_rng(SEED).standard_normal(size)
        assert promise.errors.hour_w is not None
        return promise.errors.hour_w * normal
    noise = promise.noise
    drawn = np.float64(noise.grid) * noise.sample(size * per_hour, rng=SEED)
    return np.asarray(drawn.reshape(size, per_hour).mean(axis=1))
