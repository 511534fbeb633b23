"""KMedians against plain NumPy, its growth, and the probability that a day stays."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Row, best_of, together
from hushmeter.apps.behaviour import KMedians, pair_probability, stay_bounds

PROFILES, HOURS, CLUSTERS, STEPS = 100_000, 24, 30, 10


def profiles_of(size: int) -> np.ndarray:
    """Days around sixty shapes [kWh]."""
    rng = np.random.default_rng(0)
    shapes = rng.gamma(2.0, 0.4, (60, HOURS))
    return shapes[rng.integers(0, 60, size)] * rng.gamma(8, 1 / 8, (size, 1)) + rng.exponential(
        0.2, (size, HOURS)
    )


def plain(profiles: np.ndarray, centres: np.ndarray, steps: int) -> np.ndarray:
    """What one would write first: a broadcast of (n, k, hours), and numpy's median."""
    centres = centres.copy()
    for _ in range(steps):
        labels = np.abs(profiles[:, None] - centres[None]).sum(axis=2).argmin(axis=1)
        for j in np.unique(labels):
            centres[j] = np.median(profiles[labels == j], axis=0)
    return centres


def rows() -> Iterator[Row]:
    """All ratios of the behaviour analysis."""
    yield against_numpy()
    yield from growth()
    yield staying()


def against_numpy() -> Row:
    """The same start, the same steps, the same centres, in one run."""
    profiles = profiles_of(PROFILES)
    start = profiles[:CLUSTERS].copy()
    model = KMedians(CLUSTERS, init=start, max_iter=STEPS).fit(profiles)
    assert np.allclose(model.cluster_centers_, plain(profiles, start, STEPS))
    ours, theirs = together(
        lambda: KMedians(CLUSTERS, init=start, max_iter=STEPS).fit(profiles),
        lambda: plain(profiles, start, STEPS),
        repeat=2,
    )
    note = f"{ours:.2f} s for {STEPS} steps"
    return Row("KMedians, 1e5 × 24, k = 30", theirs / ours, "NumPy broadcast", 20.0, note)


def growth() -> Iterator[Row]:
    """Memory beyond the profiles, and time, for a million profiles against a quarter."""
    sizes, times, bytes_each = (250_000, 1_000_000), [], []
    for size in sizes:
        profiles = profiles_of(size)
        model = KMedians(CLUSTERS, init=profiles[:CLUSTERS], max_iter=STEPS)
        times.append(best_of(lambda model=model, profiles=profiles: model.fit(profiles), 1))
        tracemalloc.start()
        model.fit(profiles)
        bytes_each.append(tracemalloc.get_traced_memory()[1] / size)
        tracemalloc.stop()
    steps = np.log(sizes[1] / sizes[0])
    yield Row("KMedians: growth exponent in n", np.log(times[1] / times[0]) / steps, "linear",
              1.25, f"{times[1]:.1f} s for 1e6 × 24, {STEPS} steps", True)  # fmt: skip
    yield Row("KMedians: memory of 1e6 profiles, per profile", bytes_each[1] / bytes_each[0],
              "that of 2.5e5", 1.1, f"{bytes_each[1]:.0f} bytes beside the data", True)  # fmt: skip
    whole = best_of(lambda: KMedians(CLUSTERS, batch_size=10_000, random_state=0).fit(profiles), 1)
    yield Row("KMedians, mini-batches: 1e6 × 24, k = 30", whole / times[1], f"{STEPS} full steps",
              None, f"{whole:.1f} s with the search of its start", True)  # fmt: skip


def staying() -> Row:
    """Compare the certified probability of one pair with a simulation of the same width."""
    profiles = profiles_of(40)
    x, own, rival = profiles[:3]
    x = 0.6 * own + 0.4 * rival
    stay_bounds(profiles, profiles[:5], 0.1)
    certified = best_of(lambda: pair_probability(x, own, rival, 0.3), 5)
    width = 1e-4
    few, rng = 20_000, np.random.default_rng(0)

    def simulate() -> None:
        noisy = x + rng.laplace(0.0, 0.3, (few, HOURS))
        np.mean(np.abs(noisy - own).sum(axis=1) <= np.abs(noisy - rival).sum(axis=1))

    draws = 0.25 * (1.96 / width) ** 2
    simulation = best_of(simulate, 3) * draws / few
    note = f"{1000 * certified:.1f} ms, certified to {width:g}"
    ratio = simulation / certified
    return Row("probability of staying, one pair", ratio, "simulation to that width", None, note)
