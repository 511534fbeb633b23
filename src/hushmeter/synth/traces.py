"""Synthetic homes and traces with a chosen sparsity (Appendix B of the paper).

A trace is made from its switches. Every appliance gets a number of switches, and the stretches
between them, on and off in turn, get random lengths that fill the whole time. The number of
switches, and therefore the sparsity, is exact and not only correct on average.

The paper considers a pure load. A footnote refers homes with generation to other methods, and a
remark on Assumption 2 bounds the error of a meter by 5 % of the total power. `add_solar` and
`add_meter_error` add both to a trace, so that their effect can be measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hushmeter.appliance import Appliance
from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    RngLike,
    non_negative,
    one_of,
    positive,
    whole,
)
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.home import Home
from hushmeter.trace import SECONDS_PER_DAY, SECONDS_PER_HOUR, Runs, Trace

START = "2024-01-15T00:00Z"
"""Time of the first reading of a synthetic trace."""
REGULARITY = 2.0
"""Shape of the gamma distribution of the lengths of stretches; 1 would be exponential."""
NOON_H, HALF_DAY_H = 12.5, 5.5
"""Local time of the largest solar power, and the time from there to sunset [h]."""


def home(
    n: int = 8, *, spread: str = "similar", tolerance: float | None = None, seed: RngLike = 0
) -> Home:
    """Draw a random home.

    Parameters
    ----------
    n : int
        Number of appliances.
    spread : {"similar", "diverse"}
        Similar powers satisfy Assumption 3 for every U; diverse powers are log-uniform from 20 W
        to 4 kW.
    tolerance : float, optional
        δ of the paper [W]; 2 W if not given.
    seed : int, Generator or None
        The same seed gives the same home.

    Returns
    -------
    Home

    Raises
    ------
    InputError
        If `n`, `spread` or `tolerance` is out of range.
    """
    n = whole("n", n)
    rng = np.random.default_rng(seed)
    tolerance = 2.0 if tolerance is None else positive("tolerance", tolerance)
    if one_of("spread", spread, ("similar", "diverse")) == "similar":
        # For powers in [P, P + width], F(U*) ≥ P − (2⌈n/2⌉ − 1)·width. The width is a third of
        # the largest one for which Assumption 3 holds.
        smallest = 100.0 + 4 * tolerance
        powers = smallest + rng.random(n) * (smallest - 2 * tolerance) / (3 * n)
    else:
        powers = np.exp(rng.uniform(np.log(20 + 2 * tolerance), np.log(4000 + 2 * tolerance), n))
    appliances = [Appliance(f"appliance {i + 1}", float(p)) for i, p in enumerate(powers)]
    return Home(appliances, tolerance, name=f"{spread}{n}")


def trace(
    home: Home,
    length: int = 3600,
    sparsity: float | None = None,
    *,
    interval_s: float = 6.0,
    fluctuation: float = 1.0,
    drift: float = 0.9,
    start: str = START,
    seed: RngLike = 0,
) -> Trace:
    """Draw a trace of a home, with its true states and powers.

    Parameters
    ----------
    home : Home
        The appliances.
    length : int
        Number of readings, T.
    sparsity : float, optional
        s of Appendix B, exact to within one switch. If not given, the habits of the appliances
        (`run_s`, `runs_per_day`) decide, and s = 0.99 if they are unknown.
    interval_s : float
        Length of a reading [s].
    fluctuation : float
        Fluctuation within a state as a share, 0 … 1, of what Assumption 2 allows. The aggregate
        stays within a band of δ/2, so that no jump differs by more than δ/2 from the power that
        switched.
    drift : float
        Correlation of the fluctuation from reading to reading, 0 … 1.
    start : str
        Time of the first reading, with a zone.
    seed : int, Generator or None
        The same seed gives the same trace.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        If a parameter is out of range.
    """
    length = whole("length", length, least=2)
    rng = np.random.default_rng(seed)
    counts = _switch_counts(home, length, sparsity, interval_s, rng)
    states = np.empty((length, len(home)), np.bool_)
    power = np.empty((length, len(home)))
    for i, appliance in enumerate(home.appliances):
        duty = 0.5 if appliance.duty is None else appliance.duty
        states[:, i] = _alternate(length, int(counts[i]), duty, rng)
        power[:, i] = _draw_levels(states[:, i], appliance, rng)
    amplitude = _share("fluctuation", fluctuation) * home.tolerance / 4
    wander = _wander((length, len(home)), _share("drift", drift), rng)
    power += states * wander * (amplitude * home.powers / home.powers.sum())
    readings = home.base_load + power.sum(axis=1)
    return Trace(readings, interval_s, start, states, power, home.names)


def add_meter_error(
    trace: Trace, bound: float = 0.05, *, per: str = "reading", seed: RngLike = 0
) -> Trace:
    """Multiply readings by 1 + e, where the meter error e lies between −bound and bound.

    Notes
    -----
    Reading of the paper: the remark bounds the error of a reading "by 5 % of the total power" and
    names environmental and operational causes, which change over time. It does not limit how the
    error changes from reading to reading, so the default is an independent error for each
    reading. It is the harder case for an attacker, because it adds jumps of up to
    bound · (y_{t−1} + y_t), while a fixed error only scales the jumps that are there.
    """
    if not 0 <= bound <= 1:
        raise InputError(f"bound must lie between 0 and 1, got {bound}.")
    each = one_of("per", per, ("reading", "trace")) == "reading"
    if bound == 0:
        return trace
    errors = np.random.default_rng(seed).uniform(-bound, bound, len(trace) if each else 1)
    return trace.replace_readings(trace.readings * (1 + errors))


def add_solar(trace: Trace, peak_w: float, *, seed: RngLike = 0) -> Trace:
    """Subtract the power of solar panels from the readings, as a net meter does."""
    since = (trace.times - trace.times[0].astype("datetime64[D]")) / np.timedelta64(1, "s")
    hours = since / SECONDS_PER_HOUR % 24
    days = (since // SECONDS_PER_DAY).astype(np.int64)
    rng = np.random.default_rng(seed)
    return trace.replace_readings(
        trace.readings - solar_power(hours, days, positive("peak_w", peak_w), rng)
    )


def solar_power(
    hours: FloatArray, days: IntArray, peak_w: float, rng: np.random.Generator
) -> FloatArray:
    """Power of solar panels at hours of days [W]: half a cosine, with the weather of the day."""
    weather = rng.uniform(0.2, 1.0, int(days.max()) + 1)
    bell = np.maximum(0.0, np.cos((hours - NOON_H) / HALF_DAY_H * np.pi / 2))
    by_day = np.abs(hours - NOON_H) < HALF_DAY_H
    power: FloatArray = peak_w * weather[days] * np.where(by_day, bell, 0.0)
    return power


def ready_home(name: str) -> Home:
    """Return a ready home.

    Parameters
    ----------
    name : {"similar8", "rae13", "redd-like", "evening"}
        Name of the home.

    Returns
    -------
    Home

    Raises
    ------
    UnknownNameError
        If there is no such home.
    """
    if name not in READY_HOMES:
        raise UnknownNameError("ready home", name, READY_HOMES)
    return READY_HOMES[name]()


def _switch_counts(
    home: Home, length: int, sparsity: float | None, interval_s: float, rng: np.random.Generator
) -> IntArray:
    """Return the number of switches of each appliance, from its habits or the sparsity."""
    days = length * positive("interval_s", interval_s) / SECONDS_PER_DAY
    habits = [a.runs_per_day for a in home.appliances]
    if sparsity is None and all(h is not None for h in habits):
        wanted = np.array([2 * days * h for h in habits if h is not None])
        return np.minimum(np.floor(wanted + rng.random(len(home))), length - 1).astype(np.int64)
    share_of_steps = 1 - _share("sparsity", 0.99 if sparsity is None else sparsity)
    total = round(share_of_steps * len(home) * (length - 1))
    weights = np.array([1.0 if h is None else h for h in habits])
    return _apportion(total, weights, np.full(len(home), length - 1), rng)


def _apportion(
    total: int, weights: FloatArray, limits: IntArray, rng: np.random.Generator
) -> IntArray:
    """Split `total` into whole numbers in proportion to `weights`, none above its limit."""
    counts = np.zeros(weights.size, np.int64)
    while (rest := total - int(counts.sum())) > 0:
        open_ = np.flatnonzero(counts < limits)
        share = rest * weights[open_] / weights[open_].sum()
        extra = np.minimum(np.floor(share).astype(np.int64), limits[open_] - counts[open_])
        if extra.sum() == 0:
            chosen = rng.choice(open_, size=min(rest, open_.size), replace=False)
            counts[chosen] += 1
        else:
            counts[open_] += extra
    return counts


def _alternate(length: int, switches: int, duty: float, rng: np.random.Generator) -> BoolArray:
    """Return states with exactly `switches` switches that are on for about `duty` of the time."""
    stretches = switches + 1
    on_first = bool(rng.random() < duty)
    is_on = (np.arange(stretches) % 2 == 0) == on_first
    weights = rng.gamma(REGULARITY, size=stretches) + 1e-12
    weights *= np.where(is_on, max(duty, 1e-9), max(1 - duty, 1e-9))
    free = length - stretches
    ends = np.floor(np.cumsum(weights) / weights.sum() * free + 0.5).astype(np.int64)
    lengths = 1 + np.diff(ends, prepend=0)
    lengths[-1] += length - lengths.sum()
    return np.repeat(is_on, lengths)


def _draw_levels(on: BoolArray, appliance: Appliance, rng: np.random.Generator) -> FloatArray:
    """Return the power [W]; each run takes the levels in random order and for random times."""
    if len(appliance.on_levels) == 1:
        return np.where(on, appliance.on_levels[0], 0.0)
    power = np.zeros(on.size)
    runs = Runs.of_true(on)
    for first, stop in zip(runs.first, runs.stop, strict=True):
        levels = rng.permutation(appliance.on_levels)
        cuts = np.sort(rng.integers(first, stop, size=levels.size - 1))
        power[first:stop] = levels[np.searchsorted(cuts, np.arange(first, stop), side="right")]
    return power


def _wander(shape: tuple[int, int], drift: float, rng: np.random.Generator) -> FloatArray:
    """Return stationary noise, uniform on [−1, 1], with the correlation `drift` in time."""
    from scipy.signal import lfilter
    from scipy.stats import norm

    shocks = rng.standard_normal(shape)
    shocks[1:] *= np.sqrt(1 - drift**2)
    normal = lfilter([1.0], [1.0, -drift], shocks, axis=0)
    uniform: FloatArray = 2 * norm.cdf(normal) - 1
    return uniform


def _share(name: str, value: float) -> float:
    """Return a number between 0 and 1; raise `InputError` for any other."""
    if non_negative(name, value) > 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}.")
    return float(value)


def _similar8() -> Home:
    """Return eight appliances of similar power.

    Assumption 3 holds, and ‖P‖₂ ≈ 364 W as the paper's C(P) requires.
    """
    watts = {
        "lamp": 106.0,
        "television": 112.5,
        "freezer": 119.0,
        "fridge": 125.0,
        "computer": 131.5,
        "pump": 138.0,
        "fan": 143.5,
        "hi-fi": 148.5,
    }
    return Home([Appliance(name, w) for name, w in watts.items()], 2.0, name="similar8")


def _rae13() -> Home:
    """Return thirteen appliances of diverse power, with four hierarchies at δ = 5 W."""
    watts = {
        "television": 84.0,
        "fridge": 102.0,
        "freezer": 116.0,
        "lights": 130.0,
        "computer": 155.0,
        "furnace": 210.0,
        "washing machine": 400.0,
        "dishwasher": 580.0,
        "microwave": 1180.0,
        "kettle": 1460.0,
        "heat pump": 1830.0,
        "oven": 2450.0,
        "dryer": 4500.0,
    }
    return Home([Appliance(name, w) for name, w in watts.items()], 5.0, name="rae13")


def _redd_like() -> Home:
    """Return a home like building 1 of REDD, whose appliances may have several levels."""
    hour = 3600.0
    appliances = [
        Appliance("fridge", levels=(190.0, 215.0), run_s=0.35 * hour, runs_per_day=24),
        Appliance("dishwasher", levels=(215.0, 430.0, 1100.0), run_s=1.2 * hour, runs_per_day=0.7),
        Appliance("microwave", 1520.0, run_s=120, runs_per_day=5),
        Appliance("lighting 1", 85.0, run_s=2.5 * hour, runs_per_day=3),
        Appliance("lighting 2", 62.0, run_s=2 * hour, runs_per_day=3),
        Appliance("washer dryer", levels=(450.0, 2700.0), run_s=0.9 * hour, runs_per_day=0.8),
        Appliance("bathroom heater", 1605.0, run_s=0.3 * hour, runs_per_day=1.5),
        Appliance("oven", 4120.0, run_s=0.5 * hour, runs_per_day=0.5),
    ]
    return Home(appliances, 20.0, base_load=120.0, name="redd-like")


def _evening() -> Home:
    """Return a home with common appliances, for examples."""
    hour = 3600.0
    appliances = [
        Appliance("lamps", 60.0, run_s=2.5 * hour, runs_per_day=3),
        Appliance("television", 110.0, run_s=2 * hour, runs_per_day=2),
        Appliance("fridge", 160.0, run_s=0.3 * hour, runs_per_day=30),
        Appliance("washing machine", levels=(250.0, 1950.0), run_s=1.2 * hour, runs_per_day=1),
        Appliance("heat pump", 1400.0, run_s=0.6 * hour, runs_per_day=14),
        Appliance("kettle", 2100.0, run_s=180, runs_per_day=8),
        Appliance("oven", 2600.0, run_s=0.7 * hour, runs_per_day=1),
        Appliance("car charger", 7200.0, run_s=3 * hour, runs_per_day=0.9),
    ]
    return Home(appliances, 20.0, base_load=90.0, name="evening")


READY_HOMES: dict[str, Callable[[], Home]] = {
    "similar8": _similar8,
    "rae13": _rae13,
    "redd-like": _redd_like,
    "evening": _evening,
}
"""Functions that make the ready homes, by name."""
