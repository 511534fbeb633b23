"""Exact accuracies of attackers against simulation and enumeration, and certified intervals."""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.study.performance import best_weight, expected_accuracy, mean_interval
from hushmeter.attack.base import Attacker
from hushmeter.errors import InputError

HOMES = ("similar8", "evening", "rae13")
NOISES = ("laplace", "staircase", "gaussian")
EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
CELLS = list(product(HOMES, NOISES, EPSILONS))
FAST = [CELLS[i] for i in (2, 18)]
ATTACKERS = {
    "co": {},
    "ip": {},
    "alip": {},
    "sparse-hmm": {},
    "sparse-hmm, nearest": {"unseen": "nearest"},
    "rnn": {"settings": {"epochs": 2, "hidden": (8, 8), "dense": 8}},
    "multi-shot": {"correction": "none"},
}


def noise(kind: str, epsilon: float) -> hm.noise.Mechanism:
    if kind == "gaussian":
        return hm.Gaussian(epsilon=min(epsilon, 3.0), delta=1e-5, sensitivity=100.0, grid=1.0)
    return {"laplace": hm.Laplace, "staircase": hm.Staircase}[kind](epsilon, 100.0, grid=1.0)


@cache
def fitted(name: str, place: str) -> Attacker:
    home = hm.synth.ready_home(place)
    known = name.partition(",")[0]
    return hm.attackers[known](home, **ATTACKERS[name]).fit(hm.synth.trace(home, 3000, seed=2))


def simulated(
    attacker: Attacker, trace: hm.Trace, mechanism: hm.noise.Mechanism, count: int
) -> np.ndarray:
    first = trace.truth()[0]
    found = []
    for seed in range(count):
        noisy = trace.replace_readings(mechanism.release(trace.readings, rng=seed))
        answer = attacker.predict(noisy, initial_state=first, rng=seed)
        # The first state is given, and not scored.
        found.append((answer == trace.truth())[1:].mean())
    return np.array(found)


def z_score(values: np.ndarray, mean: float, cells: int) -> float:
    """Distance of the mean of the values in standard errors; rounding of float32 is no distance.

    A sample without any rare event has no spread. An answer changes α by at least one of the cells
    of a release, so that events that move its mean by d have a variance of at least d/cells.
    """
    apart = float(values.mean()) - mean
    variance = max(float(values.var(ddof=1)), abs(apart) / cells)
    return apart / max(math.sqrt(variance / values.size), 1e-6)


def gapped(home: hm.Home, length: int) -> hm.Trace:
    trace = hm.synth.trace(home, length, seed=1)
    steps = np.arange(length) + 7 * (np.arange(length) >= length // 2)
    return hm.Trace(
        trace.readings, trace.interval_s, states=trace.states, power=trace.power, steps=steps
    )


@pytest.mark.parametrize("name", ATTACKERS)
@pytest.mark.parametrize(
    ("place", "kind", "epsilon"),
    [pytest.param(*c, marks=[] if c in FAST else [pytest.mark.slow]) for c in CELLS],
)
def test_exact_accuracy_against_simulation(name, place, kind, epsilon):
    if name == "rnn" and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    attacker, mechanism = fitted(name, place), noise(kind, epsilon)
    trace = gapped(attacker.home, 200)
    found = expected_accuracy(attacker, trace, mechanism, initial_state=trace.truth()[0])
    assert found.method == "exact"
    assert found.low == found.alpha == found.high == pytest.approx(found.per_appliance.mean())
    cells = (len(trace) - 1) * len(attacker.home)
    assert abs(z_score(simulated(attacker, trace, mechanism, 60), found.alpha, cells)) < 4.5


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_forbidden_changes_of_alip_against_simulation(epsilon):
    home = hm.Home(
        [hm.Appliance("heat pump", levels=(600.0, 1500.0)), hm.Appliance("lamp", 100.0)], 20.0
    )
    rules = {"transitions": [("heat pump", 0.0, 1500.0, 0.0), ("heat pump", 1500.0, 0.0, 600.0)]}
    attacker = hm.attackers["alip"](home, rules=rules)
    assert attacker.lookback is None
    trace, mechanism = gapped(home, 200), noise("laplace", epsilon)
    first = trace.truth()[0]
    exact = expected_accuracy(attacker, trace, mechanism, initial_state=first)
    free = expected_accuracy(hm.attackers["alip"](home), trace, mechanism, initial_state=first)
    assert exact.method == "exact"
    assert abs(exact.alpha - free.alpha) > 1e-3
    assert abs(z_score(simulated(attacker, trace, mechanism, 200), exact.alpha, 2 * 199)) < 4.5


def test_two_readings_against_enumeration_of_all_noise():
    """Sparse-HMM on every pair of noises of a coarse grid, weighted with their probabilities."""
    home = hm.Home([hm.Appliance("kettle", 200.0), hm.Appliance("lamp", 60.0)], 5.0)
    train = hm.synth.trace(home, 500, 0.8, seed=1)
    attacker = hm.attackers["sparse-hmm"](home).fit(train)
    trace = train[10:12]
    mechanism = hm.Laplace(1.0, 40.0, grid=20.0)
    on_grid = np.floor(trace.readings / 20.0 + 0.5) * 20.0
    noises = np.arange(-60, 61)
    total = np.zeros(2)
    for a, b in product(noises, repeat=2):
        weight = float(mechanism.pmf(a)) * float(mechanism.pmf(b))
        seen = attacker.predict(on_grid + 20.0 * np.array([a, b]))
        total += weight * (seen == trace.truth()).mean(axis=0)
    found = expected_accuracy(attacker, trace, mechanism)
    np.testing.assert_allclose(found.per_appliance, total, atol=1e-9)


def test_an_attacker_without_memory_against_the_sum_over_all_noise():
    home = hm.synth.ready_home("similar8")
    trace, mechanism = hm.synth.trace(home, 12, seed=4), hm.Laplace(1.0, 100.0, grid=5.0)
    attacker = hm.attackers["co"](home)
    steps = np.arange(-1000, 1001)
    right = []
    for reading, truth in zip(trace.readings, trace.truth(), strict=True):
        centre = math.floor(reading / 5.0 + 0.5)
        answers = attacker.predict((centre + steps) * 5.0)
        right.append(np.asarray(mechanism.pmf(steps)) @ (answers == truth))
    found = expected_accuracy(attacker, trace, mechanism)
    np.testing.assert_allclose(found.per_appliance, np.mean(right, axis=0), atol=1e-9)


@pytest.mark.parametrize("name", ["multi-shot", "hierarchical"])
def test_the_control_variate_keeps_the_mean(name):
    home = hm.synth.ready_home("similar8")
    trace = hm.synth.trace(home, 60, 0.97, seed=3)
    mechanism, first = hm.Laplace(2.0, 40.0, grid=1.0), trace.truth()[0]
    attacker = hm.attackers[name](home).knows(mechanism)
    found = expected_accuracy(attacker, trace, mechanism, initial_state=first, releases=600)
    many = simulated(attacker, trace, mechanism, 1500)
    error = 4.9 * many.std() / math.sqrt(many.size)
    assert found.method == "control variate"
    assert found.low - error < many.mean() < found.high + error
    assert found.low < found.alpha < found.high
    plain = mean_interval(many[:600])
    assert found.high - found.low < 1.1 * (plain[1] - plain[0])


def test_the_weight_of_the_control_variate_grows_with_the_number_of_releases():
    """It narrows the interval only if the spread and not the range of the values decides."""
    rng = np.random.default_rng(0)
    plain = rng.normal(0.7, 0.03, 50)
    alike = plain + rng.normal(0.01, 0.003, 50)
    weights = [best_weight(alike, plain, releases) for releases in (50, 5000, 10**7)]
    assert weights[0] == 0.0
    assert weights[0] < weights[1] <= weights[2]
    assert weights[2] == pytest.approx(1.0, abs=0.05)
    assert best_weight(rng.normal(0.7, 0.03, 50), plain, 10**7) < 0.3


def test_attackers_that_remember_are_simulated():
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 50, seed=3)
    mechanism = noise("laplace", 1.0)
    attacker = hm.attackers["bayes"](home).fit(hm.synth.trace(home, 400, seed=1)).knows(mechanism)
    found = expected_accuracy(attacker, trace, mechanism, releases=20)
    assert found.method == "simulated"
    assert 0 <= found.low < found.alpha < found.high <= 1


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng, n: rng.random(n) < 0.02, 0.02),
        (lambda rng, n: rng.random(n) < 0.9, 0.9),
        (lambda rng, n: rng.beta(400, 40, n), 400 / 440),
        (lambda rng, n: np.where(rng.random(n) < 0.001, 0.0, 1.0), 0.999),
    ],
)
def test_the_interval_covers_the_mean(draw, mean):
    rng = np.random.default_rng(0)
    trials = 400
    hits = 0
    for _ in range(trials):
        low, high = mean_interval(draw(rng, 120), confidence=0.9)
        hits += low <= mean <= high
    # A binomial number with probability 0.9 is below this once in a million times.
    assert hits >= 0.9 * trials - 4.75 * math.sqrt(0.09 * trials)


def test_the_interval_shrinks_with_the_spread_and_the_number():
    rng = np.random.default_rng(1)
    widths = []
    for spread, count in ((0.2, 100), (0.2, 1000), (0.01, 1000)):
        low, high = mean_interval(np.clip(rng.normal(0.7, spread, count), 0, 1))
        widths.append(high - low)
    assert widths[0] > 2.5 * widths[1] > 7 * widths[2]
    scaled = mean_interval(np.array([1.0, 3.0, 2.0]) * 10, low=0.0, high=40.0)
    np.testing.assert_allclose(scaled, 40 * np.array(mean_interval([0.25, 0.75, 0.5])))


def test_refusals():
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_interval([0.5, 1.5])
    with pytest.raises(InputError, match="confidence"):
        mean_interval([0.5], confidence=1.0)
    home = hm.synth.ready_home("evening")
    other = hm.synth.trace(hm.synth.ready_home("rae13"), 20, seed=1)
    with pytest.raises(InputError, match="appliances"):
        expected_accuracy(hm.attackers["co"](home), other, noise("laplace", 1.0))
    wide = hm.Laplace(1e-6, 1.0, grid=1.0)
    with pytest.raises(InputError, match="coarser grid"):
        expected_accuracy(hm.attackers["co"](home), hm.synth.trace(home, 9, seed=1), wide)
