"""The terms of a trade in data: the buyer, the load, and one line of the menu for a mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray, non_negative, one_of, positive
from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.price.clusters import DayClusters, cluster_fidelity
from hushmeter.privacy.accounting import compose_run
from hushmeter.privacy.units import Unit
from hushmeter.theory.universal import universal_limit
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

USES = ("hourly", "forecast", "clusters", "appliances")
HOUR_S = 3600.0


@dataclass(frozen=True)
class Buyer:
    """What a buyer pays for.

    Attributes
    ----------
    value : float
        V: what a year of perfect data of one household is worth to him.
    use : {"hourly", "forecast", "clusters", "appliances"}
        q: fidelity of the hourly curve, e₀/(error of an hourly forecast), share of days that stay
        in their cluster, or the mean visibility of the appliances.
    shape : float
        k: below 1 the first bit of quality is worth most, above 1 the last.
    handling : float
        What a year of one household costs to collect, whatever ε is.
    """

    value: float = 60.0
    use: str = "hourly"
    shape: float = 0.5
    handling: float = 0.0

    def __post_init__(self) -> None:
        non_negative("the buyer's value", self.value)
        positive("the buyer's shape", self.shape)
        non_negative("the buyer's handling", self.handling)
        one_of("the buyer's use", self.use, USES)


@dataclass(frozen=True)
class Load:
    """What the buyer's errors are measured against.

    Attributes
    ----------
    hourly_sd_w : float
        Standard deviation of the true hourly means [W].
    forecast_w : float
        e₀: root mean square error of the forecast on true data [W].
    lag_h : int
        Hours back that the forecast looks.
    """

    hourly_sd_w: float
    forecast_w: float
    lag_h: int


@dataclass(frozen=True)
class Entry:
    """One line of the menu; money is per year.

    Attributes
    ----------
    epsilon : float
    scale_w, hourly_noise_w : float
        Width of the noise of a released reading, and σ_h [W].
    forecast_w : float
        Root mean square error of the hourly forecast [W].
    fidelity : float
        Share of the variance of the noisy hourly curve that is the household's.
    clusters : float or None
        Share of days that stay in their cluster; None where no clusters are known.
    accuracy : tuple of float
        How often the best attacker names one released reading's state rightly, on and off
        equally likely: `universal_limit`.
    visibility : tuple of float
        v_i over one run.
    quality : float
        q of the buyer.
    compensation, willingness, surplus : float
        C, W and S.
    """

    epsilon: float
    scale_w: float
    hourly_noise_w: float
    forecast_w: float
    fidelity: float
    clusters: float | None
    accuracy: tuple[float, ...]
    visibility: tuple[float, ...]
    quality: float
    compensation: float
    willingness: float
    surplus: float


def describe_load(trace: Trace) -> Load:
    """Spread of the hourly curve and error of the forecast "as in the same hour before".

    The hour before is that of yesterday where the trace is longer than a day, else the last one.
    """
    if trace.interval_s > HOUR_S:
        raise DataError("prices need readings of an hour or less.")
    hourly = trace.hourly()
    steps = np.arange(len(hourly)) if hourly.steps is None else hourly.steps
    if len(hourly) < 3:
        raise DataError("prices need readings of at least three hours.")
    lag = 24 if int(steps[-1]) >= 26 else 1
    at = {int(step): i for i, step in enumerate(steps)}
    pairs = [(at[int(s)], at[int(s) - lag]) for s in steps if int(s) - lag in at]
    if not pairs:
        raise DataError(f"no two hours of this trace are {lag} h apart.")
    now, before = np.array(pairs).T
    errors = hourly.readings[now] - hourly.readings[before]
    spread = float(hourly.readings.std())
    if spread == 0:
        raise DataError("the hourly load never changes, so there is nothing to sell.")
    return Load(spread, float(np.sqrt((errors**2).mean())), lag)


def worthwhile_range(entries: Sequence[Entry]) -> tuple[float, float] | None:
    """The ε around the best with S ≥ 0, edges interpolated in ln ε; None if there is none."""
    surplus = np.array([entry.surplus for entry in entries])
    logs = np.log([entry.epsilon for entry in entries])
    top = int(surplus.argmax())
    if surplus[top] < 0 or not surplus.any():
        return None
    left = right = top
    while left > 0 and surplus[left - 1] >= 0:
        left -= 1
    while right < surplus.size - 1 and surplus[right + 1] >= 0:
        right += 1
    return _edge(logs, surplus, left, -1), _edge(logs, surplus, right, 1)


def make_entry(
    mechanism: Mechanism,
    epsilon: float,
    home: Home,
    unit: Unit,
    load: Load,
    weights: tuple[float, ...],
    buyer: Buyer,
    *,
    days: DayClusters | None = None,
    before: Entry | None = None,
) -> Entry:
    """The line of the menu for one mechanism.

    `weights` are the household's w_i. What is seen cannot fall as ε rises, except by the last
    digits of a numerical convolution or of a simulation: it is at least that of the line `before`.
    """
    released_s = unit.interval_s * unit.window
    noise = mechanism.std / math.sqrt(max(1.0, HOUR_S / released_s))
    forecast = math.hypot(load.forecast_w, noise)
    fidelity = load.hourly_sd_w**2 / (load.hourly_sd_w**2 + noise**2)
    seen = appliance_visibility(mechanism, home, unit)
    stay = None if days is None else cluster_fidelity(mechanism, unit, days)
    if before is not None:
        seen = tuple(map(max, seen, before.visibility))
        stay = None if stay is None or before.clusters is None else max(stay, before.clusters)
    useful: dict[str, float | None] = {
        "hourly": fidelity,
        "forecast": load.forecast_w / forecast,
        "clusters": stay,
        "appliances": sum(seen) / len(seen),
    }
    quality = useful[buyer.use]
    if quality is None:
        raise InputError(
            "a buyer of clusters needs eight whole days of readings, or the days of many homes "
            "(--profiles) and one whole day."
        )
    entry = Entry(
        epsilon=epsilon,
        scale_w=mechanism.scale,
        hourly_noise_w=noise,
        forecast_w=forecast,
        fidelity=fidelity,
        clusters=stay,
        accuracy=tuple(float(x) for x in universal_limit(home, mechanism)),
        visibility=seen,
        quality=quality,
        compensation=0.0,
        willingness=0.0,
        surplus=0.0,
    )
    return reprice(entry, sum(w * v for w, v in zip(weights, seen, strict=True)), buyer)


def reprice(entry: Entry, compensation: float, buyer: Buyer) -> Entry:
    """The same line with another compensation and another buyer."""
    willing = buyer.value * entry.quality**buyer.shape
    return replace(
        entry,
        compensation=compensation,
        willingness=willing,
        surplus=willing - compensation - buyer.handling,
    )


def appliance_visibility(mechanism: Mechanism, home: Home, unit: Unit) -> tuple[float, ...]:
    """v_i = 2·odds_i − 1 of every appliance, over one run of its usual length.

    An appliance of unknown run length is judged over the span of the unit.
    """
    seen = []
    for i, appliance in enumerate(home.appliances):
        change = unit.changes[i if len(unit.changes) == len(home) else 0]
        length = change.readings
        if appliance.run_s is not None:
            length = math.ceil(appliance.run_s / unit.interval_s)
        odds = compose_run(mechanism, max(appliance.on_levels), length, change.window).odds
        seen.append(min(1.0, max(0.0, 2 * odds - 1)))
    return tuple(seen)


def _edge(logs: FloatArray, surplus: FloatArray, at: int, step: int) -> float:
    """Where the surplus crosses zero between `at` and its neighbour, or the end of the menu."""
    beyond = at + step
    if not 0 <= beyond < logs.size:
        return float(np.exp(logs[at]))
    share = surplus[at] / (surplus[at] - surplus[beyond])
    return float(np.exp(logs[at] + share * (logs[beyond] - logs[at])))
