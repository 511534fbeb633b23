"""Every charge covers the declared change: 300 random releases against accounting written anew.

For each release the test builds pairs of raw inputs that differ by the declared change, at every
place where a customer's day can begin, and computes what the published numbers lose about each
pair: closed forms for Laplace and staircase noise, the exact curve δ(ε) for Gaussian noise, and the
convolved loss distribution for a ledger that composes. It uses none of the code that makes the
charge: only the noise that the public receipt states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import log_ndtr, ndtr, ndtri

import hushmeter as hm
from hushmeter.apps.fleet import FleetTerms, JobOptions, SumTerms, release_fleet
from hushmeter.apps.fleet.sum_terms import Run
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.apps.ledger.payment import bill_of
from hushmeter.errors import InputError
from hushmeter.noise import parse_mechanism
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.trace import Metering

HOUR = 3600
DAY_S, LONGEST = 24 * HOUR, 25 * HOUR
START = np.datetime64("2024-03-04T00:00:00", "s")
CASES = {"series": 120, "views": 50, "fleet": 70, "sums": 60}
QUICK = 0.4
"""Share of these cases that always run."""
TIGHT = {
    "laplace": 0.9, "staircase": 0.9, "gaussian": 0.85, "views": 0.8,
    "sums laplace": 0.9, "sums gaussian": 0.5,
}  # fmt: skip
"""Least median of the part of a charge that one of the tried pairs loses, by mechanism."""


@dataclass
class Noise:
    """Noise on the entries of one table, as the receipt states it [grid steps]."""

    name: str
    epsilon: float
    steps: float
    sigma: float = 0.0


@dataclass
class Published:
    """One release: how raw readings become tables of whole steps, and what was charged for it."""

    kind: str
    change: DayChange
    interval_s: int
    start: np.datetime64
    count: int
    tables: object
    noises: list[Noise]
    paid: tuple[float, float]
    clamp: tuple[float, float] | None
    grid: float = 1.0
    period_days: int = 1
    delta_of_ledger: float = 0.0
    register_w: float = 0.0
    resolution_w: float = 0.0
    ratios: list[float] = field(default_factory=list)


def noise_of(described) -> Noise:
    """The noise of a receipt; σ and scale are given in watts, and here in steps."""
    noise = parse_mechanism({described["mechanism"]: dict(described["parameters"])})
    sigma = noise.scale / noise.grid if noise.name == "gaussian" else 0.0
    return Noise(noise.name, noise.epsilon, noise.steps, sigma)


# What a pair of tables costs


def pure_loss(noise: Noise, moved) -> float:
    if noise.name == "laplace":
        return noise.epsilon * float(np.abs(moved).sum()) / noise.steps
    return noise.epsilon * float(np.ceil(np.abs(moved) / noise.steps).sum())


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of Gaussian noise for a change of μ standard deviations."""
    if mu == 0:
        return 0.0
    first = ndtr(mu / 2 - epsilon / mu)
    return float(first - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def laplace_curve(noise: Noise, moved):
    """Losses of discrete Laplace noise [multiples of ε/Δ_g] and their composed probabilities."""
    rate = noise.epsilon / noise.steps
    total = np.ones(1)
    for size in np.abs(moved[moved != 0]).astype(int).tolist():
        one = laplace_losses(rate, size)
        total = np.convolve(total, one) if total.size < 3000 else _fft(total, one)
    reach = int(np.abs(moved).sum())
    return rate * np.arange(-reach, reach + 1), total


@lru_cache(maxsize=64)
def laplace_losses(rate: float, size: int):
    """Probabilities of the losses −size … size of one value that moves by `size` steps."""
    # |i − d| − |i| is d below 0, −d above d, and falls by 2 in between.
    i = np.arange(-int(60 / rate) - 1, size + int(60 / rate) + 2)
    mass = np.exp(-rate * np.abs(i)) * math.tanh(rate / 2)
    return np.bincount(np.abs(i - size) - np.abs(i) + size, mass, 2 * size + 1)


def _fft(a, b):
    size = a.size + b.size - 1
    return np.maximum(np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size), 0.0)


def covers(case: Published, moved) -> float:
    """Assert that the charge covers a pair, and return the part of the charge that it needs."""
    epsilon, delta = case.paid
    pure = [(n, m) for n, m in zip(case.noises, moved, strict=True) if n.name != "gaussian"]
    loss = sum(pure_loss(noise, change) for noise, change in pure)
    mu2 = sum(
        float((np.asarray(m, float) ** 2).sum()) / n.sigma**2
        for n, m in zip(case.noises, moved, strict=True)
        if n.name == "gaussian"
    )
    if case.delta_of_ledger and delta and not mu2:
        (noise, change) = pure[0]
        losses, masses = laplace_curve(noise, change)
        above = -np.expm1(np.minimum(0.0, epsilon - losses))
        assert float((above * masses).sum()) <= delta * (1 + 1e-6)
        return min(1.0, loss / epsilon)
    assert loss <= epsilon * (1 + 1e-9), (case.kind, loss, epsilon)
    if not mu2:
        return loss / epsilon
    left = epsilon - loss
    assert gaussian_delta(left, math.sqrt(mu2)) <= delta * (1 + 1e-6), (case.kind, mu2, epsilon)
    need = ndtri(1 - delta) * math.sqrt(mu2) + mu2 / 2
    low, high = 0.0, need + 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if gaussian_delta(middle, math.sqrt(mu2)) <= delta else (middle, high)
        )
    return (loss + high) / epsilon


# Pairs of raw readings


def raw_pairs(case: Published, rng, places: int):
    """Yield raw readings before and after the declared change, at some beginnings of the day."""
    midnight = case.start.astype("datetime64[D]").astype("datetime64[s]")
    times = (case.start - midnight).astype(int) + np.arange(case.count) * case.interval_s
    # The change of the clock and the beginning of a month lie in the second day of some cases.
    for begin in rng.permutation(np.arange(0, 192))[:places] * 900:
        length = LONGEST + (case.period_days - 1) * DAY_S
        inside = np.flatnonzero((times < begin + length) & (times + case.interval_s > begin))
        if inside.size:
            for shape in ("full", "spread", "random"):
                yield pair(case, inside, shape, rng)


def pair(case: Published, inside, shape: str, rng):
    """Two versions of the readings that differ by the declared change in some of the readings."""
    change, size = case.change, inside.size
    if change.clamp is not None:
        low, high = case.clamp
        before = rng.uniform(low, high, case.count)
        after = before.copy()
        before[inside], after[inside] = low, high
        if shape == "random":
            before[inside], after[inside] = rng.uniform(low, high, (2, size))
        return before, after
    most = change.watt_hours * HOUR / case.interval_s * case.period_days
    share = np.zeros(size)
    if shape == "full":
        offset = int(rng.integers(0, size))
        share = np.roll(np.minimum(1.0, np.maximum(0.0, most / change.watts - np.arange(size))),
                        offset)  # fmt: skip
    elif shape == "spread":
        share[:] = min(1.0, most / change.watts / size)
    else:
        share = rng.uniform(0, 1, size)
        share *= min(1.0, most / change.watts / share.sum())
    added = np.zeros(case.count)
    added[inside] = change.watts * share * (1 - 1e-12)
    # Values just below the border of a step make rounding add a whole step.
    before = np.full(case.count, case.grid * (rng.integers(3) + 0.5) - 1e-6)
    if rng.random() < 0.3:
        before = rng.uniform(0, 2000, case.count)
    return before, before + added


def metered(case: Published, load):
    """What the meter reports about a load."""
    if case.register_w:
        counter = np.floor(np.concatenate([[0.0], np.cumsum(load)]) / case.register_w)
        return np.diff(counter) * case.register_w
    if case.resolution_w:
        return np.floor(load / case.resolution_w + 0.5) * case.resolution_w
    return load


def check(case: Published, rng, places: int = 10) -> None:
    """Compare the charge with every pair, and keep the largest part of it that a pair needs."""
    for before, after in raw_pairs(case, rng, places):
        tables = [case.tables(metered(case, load)) for load in (before, after)]
        moved = [b - a for a, b in zip(*tables, strict=True)]
        case.ratios.append(covers(case, moved))


# Releases


def random_change(rng) -> DayChange:
    if rng.random() < 0.5:
        return DayChange.within(*[(0, 15_000), (0, 9000), (-5000, 12_000)][rng.integers(3)])
    watts = float(rng.choice([200, 2000, 3000, 11_000]))
    return DayChange(watts, float(rng.uniform(0.05, 1)) * watts * rng.choice([1, 5, 25]))


def random_clamp(rng, change: DayChange):
    """A clamp that the ledger accepts, or none where it needs none."""
    if change.clamp is None:
        return None if rng.random() < 0.6 else (0.0, float(rng.choice([4000, 20_000])))
    low, high = change.clamp
    return (low, high) if rng.random() < 0.6 else (low / 2, float(round(high * 0.7)))


def charged(url: str, meter: str) -> tuple[set[str], tuple[float, float]]:
    with open_ledger(url) as ledger:
        spends = ledger.history(meter)
    amounts = {(s["micro_epsilon"] / 1e6, s["femto_delta"] / 1e15) for s in spends}
    assert len(amounts) == 1
    return {s["period"] for s in spends}, amounts.pop()


def steps_of(watts, grid: float):
    return np.floor(watts / grid + 0.5)


def series(rng, folder) -> Published:
    change = random_change(rng)
    clamp = random_clamp(rng, change)
    interval = int(rng.choice([60, 300, 900, 1800, 3600]))
    window = int(rng.choice([1, 2, 4, 24 * HOUR // interval, 7 * DAY_S // interval]))
    days = 22 if window * interval > HOUR * 24 else 3
    start = START + int(rng.choice([0, interval // 2, 420]))
    if window * interval > DAY_S:
        start = np.datetime64("2024-02-29T00:00:00", "s")
    count = days * DAY_S // interval
    metering = [Metering(), Metering(resolution_w=10), Metering(register_step_w=4)][
        int(rng.choice([0, 0, 0, 1, 2]))
    ]
    name = str(rng.choice(["laplace", "staircase", "gaussian"]))
    grid = float(rng.choice([1, 7, 50]))
    composing = rng.random() < 0.25 and name == "laplace" and interval * window >= 900
    if composing:
        grid = 500.0
    unit = resolve_unit(
        "change", str(rng.choice(["reading", "day"])), size=float(rng.choice([1, 50, 2000])),
        interval_s=hm.Metered(interval, metering, readings=count), every=interval * window,
    )  # fmt: skip
    try:
        noise = calibrate(
            name, str(rng.choice(["0.01", "0.1", "1", "3"])), unit, grid=grid, clamp=clamp
        )
    except InputError:
        # The register is too coarse for this unit.
        return series(rng, folder)
    trace = hm.Trace(
        rng.uniform(0, 3000, count), interval, start.astype("datetime64[ns]"), metering=metering
    )
    done = hm.release(trace, noise, unit)
    url, delta = f"sqlite:///{folder}/l.db", 1e-6 if composing else 0.0
    with open_ledger(url, create=change, composition_delta=delta) as ledger:
        bill_of(done, ledger, meter="m").pay(ledger)
    days_paid, paid = charged(url, "m")
    length = np.timedelta64(int(interval * window), "s")
    seconds = done.trace.times.astype("datetime64[s]")
    covered = {str(d) for t in seconds for d in np.arange(t.astype("datetime64[D]"),
               (t + length - 1).astype("datetime64[D]") + 1)}  # fmt: skip
    assert days_paid == covered
    described = done.receipt.tables[0]["noise"]
    step, sent = described["grid"], seconds

    places = (start.astype(int) + np.arange(count) * interval) // (interval * window)
    kept = np.isin(places * interval * window, sent.astype(int))
    _, order = np.unique(places[kept], return_inverse=True)

    def tables(readings):
        if clamp is not None:
            readings = np.clip(readings, *clamp)
        if window == 1:
            return [steps_of(readings, step)]
        return [steps_of(np.bincount(order, readings[kept]) / window, step)]

    return Published(
        name, change, interval, start, count, tables, [noise_of(described)], paid,
        clamp, step, delta_of_ledger=delta, register_w=metering.register_step_w,
        resolution_w=metering.resolution_w,
    )  # fmt: skip


def views(rng, folder) -> Published:
    change = random_change(rng)
    clamp = random_clamp(rng, change)
    interval, cell = [(60, 3600), (900, 900), (300, 1800), (3600, 3600)][rng.integers(4)]
    zone = str(rng.choice(["UTC", "Europe/London", "Asia/Kolkata", "Australia/Lord_Howe"]))
    if zone == "Australia/Lord_Howe" or (zone == "Asia/Kolkata" and cell > 1800):
        cell = min(cell, 1800)
    interval = min(interval, cell)
    start = np.datetime64(str(rng.choice(["2024-03-29", "2024-10-25", "2024-05-30"])), "s")
    count = 5 * DAY_S // interval
    metering = Metering(resolution_w=float(rng.choice([0, 10])))
    unit = {
        "protect": "change", "span": str(rng.choice(["reading", "day"])), "every": cell,
        "watts": float(rng.choice([50, 2000])),
    }  # fmt: skip
    trace = hm.Trace(
        rng.uniform(0, 3000, count), interval, start.astype("datetime64[ns]"), metering=metering
    )
    done = hm.release_views(
        trace, epsilon=str(rng.choice(["0.1", "1"])), **unit, zone=zone, clamp=clamp,
        grid=float(rng.choice([1, 10])),
    )  # fmt: skip
    url = f"sqlite:///{folder}/l.db"
    with open_ledger(url, create=change) as ledger:
        bill_of(done, ledger, meter="m").pay(ledger)
    _, paid = charged(url, "m")
    places = np.arange(count) // (cell // interval)
    local = [
        datetime.fromtimestamp(start.astype(int) + n * cell, UTC).astimezone(ZoneInfo(zone))
        for n in range(int(places[-1]) + 1)
    ]
    labels = [list(range(len(local))), [t.date() for t in local], [], [t.month for t in local]]
    seen = set()
    for n, t in enumerate(local):
        slot = (t.month, (t.hour * 60 + t.minute) * 60 // cell)
        repeated = (t.date(), slot) in seen
        seen.add((t.date(), slot))
        labels[2].append(("alone", n) if repeated else slot)
    codes = [{key: n for n, key in enumerate(dict.fromkeys(keys))} for keys in labels]
    groups = [[code[key] for key in keys] for code, keys in zip(codes, labels, strict=True)]
    known = {entry.name: entry.noise.sigma_steps for entry in done.promise.tables}
    sigmas = [known.get(name, 0.0) for name in ("cells", "days", "typical-day", "months")]
    grid = float(done.promise.grid)
    alone = {n for key, n in codes[2].items() if key[0] == "alone"}

    def tables(readings):
        if clamp is not None:
            readings = np.clip(readings, *clamp)
        cells = steps_of(np.bincount(places, readings) / (cell // interval), grid)
        found = [np.bincount(group, cells) for group in groups]
        # A window that the clock repeats belongs to no hour of the day.
        found[2][list(alone)] = 0
        return [table for table, sigma in zip(found, sigmas, strict=True) if sigma]

    noises = [Noise("gaussian", 0, 1, sigma) for sigma in sigmas if sigma]
    return Published(
        "views", change, interval, start, count, tables, noises, paid, clamp, grid,
        resolution_w=metering.resolution_w,
    )  # fmt: skip


def write_file(folder, interval: int, count: int, rng, start=START) -> None:
    times = (start + np.arange(count) * interval).astype("datetime64[s]")
    table = pa.table(
        {
            "meter": ["m"] * count,
            "time": pa.array(times.tolist(), pa.timestamp("s", tz="UTC")),
            "value": rng.uniform(0, 3000, count),
            "unit": ["W"] * count,
            "interval_s": pa.array([interval] * count, pa.int32()),
            "region": ["north"] * count,
            "feeder": ["f1"] * count,
        }
    )
    (folder / "in").mkdir()
    pq.write_table(table, folder / "in/x.parquet")


def fleet(rng, folder) -> Published:
    change = random_change(rng)
    clamp = random_clamp(rng, change) or (0.0, 30_000.0)
    interval = int(rng.choice([300, 900, 1800, 3600, 86_400]))
    period = "month" if rng.random() < 0.15 and interval >= 3600 else "day"
    start = np.datetime64("2024-03-01T00:00:00", "s") if period == "month" else START
    count = (33 if period == "month" else 3) * DAY_S // interval
    write_file(folder, interval, count, rng, start)
    terms = FleetTerms(
        epsilon=str(rng.choice(["0.01", "0.5", "2"])), clamp=clamp,
        mechanism=str(rng.choice(["laplace", "staircase", "gaussian"])),
        span=str(rng.choice(["reading", "day"])),
        watts=float(rng.choice(["1", "500"])) if rng.random() < 0.5 else None,
        grid=str(rng.choice(["1", "20"])), period=period,
    )  # fmt: skip
    url = f"sqlite:///{folder}/l.db"
    open_ledger(url, create=change).close()
    done = release_fleet(folder / "in", folder / "out", terms, JobOptions(url, accept_noise=True))
    described = done.manifest["promise"]["tables"][0]["noise"]
    _, paid = charged(url, "m")
    assert done.manifest["charge"]["unit"] == change.sentence(period)
    return Published(
        f"fleet {terms.mechanism}", change, interval, start, count,
        lambda readings: [steps_of(np.clip(readings, *clamp), described["grid"])],
        [noise_of(described)], paid, clamp, described["grid"],
        period_days=31 if period == "month" else 1,
    )  # fmt: skip


def sums(rng, folder) -> Published:
    change = random_change(rng)
    clamp = random_clamp(rng, change) or (0.0, 30_000.0)
    interval = int(rng.choice([300, 900, 1800, 3600]))
    count = 3 * DAY_S // interval
    write_file(folder, interval, count, rng)
    unit_of = str(rng.choice(["household-day", "household", "run"]))
    wanted = [("sums",), ("shape",), ("sums", "shape"), ("sums", "quantiles")][rng.integers(4)]
    terms = SumTerms(
        str(rng.choice(["0.1", "1"])), clamp, ("region", "feeder")[: int(rng.integers(1, 3))],
        every=str(rng.choice(["hour", "day"])), unit_of=unit_of, tables=wanted,
        mechanism=str(rng.choice(["laplace", "gaussian"])), grid=str(rng.choice(["1", "20"])),
        days=("2024-03-04", "2024-03-06") if unit_of == "household" else None,
        run=Run(2100, 180) if unit_of == "run" else None,
    )  # fmt: skip
    url = f"sqlite:///{folder}/l.db"
    open_ledger(url, create=change).close()
    done = release_fleet(folder / "in", folder / "out", terms, JobOptions(url, accept_noise=True))
    _, paid = charged(url, "m")
    grid, levels = float(terms.grid), len(terms.by)
    seconds = np.arange(count) * interval
    bins = seconds // (HOUR if terms.every == "hour" else DAY_S)
    hours, edges = seconds // HOUR, np.array(terms.class_edges)

    def tables(readings):
        steps = steps_of(np.clip(readings, *clamp), grid)
        found = {
            "sums": np.bincount(bins, steps),
            "shape": np.bincount(hours % 24, steps),
            "quantiles": counts_of(np.bincount(hours, steps) * interval / HOUR, edges),
        }
        # Wide noise has a coarser grid, to which the sums are rounded.
        return [np.tile(steps_of(found[n] * unit_w[n], grids[n]), levels) for n in wanted]

    described = {one["table"]: one["noise"] for one in done.manifest["promise"]["tables"]}
    grids = {name: described[name]["grid"] for name in wanted}
    unit_w = {name: 1.0 if name == "quantiles" else grid for name in wanted}
    noises = [noise_of(described[name]) for name in wanted]
    return Published(
        f"sums {noises[0].name}", change, interval, START, count, tables, noises, paid, clamp,
        grid,
    )  # fmt: skip


def counts_of(means, edges):
    """How many hourly means of each hour of the day are in each class."""
    place = np.searchsorted(edges, means, side="right")
    hour = np.arange(means.size) % 24
    return np.bincount(hour * (edges.size + 2) + place, minlength=24 * (edges.size + 2))


@pytest.mark.parametrize("share", [QUICK, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CASES)
def test_no_charge_is_below_the_cost_of_the_declared_change(kind, share, tmp_path):
    rng = np.random.default_rng([7, len(kind)])
    make = {"series": series, "views": views, "fleet": fleet, "sums": sums}[kind]
    found: dict[str, list[float]] = {}
    for number in range(int(share * CASES[kind])):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = make(rng, folder)
        check(case, rng)
        found.setdefault(case.kind, []).append(max(case.ratios))
    for name, parts in found.items():
        # Most charges are close to what the worst of the tried pairs loses.
        assert np.median(parts) > TIGHT[name.removeprefix("fleet ")], (name, np.median(parts))
