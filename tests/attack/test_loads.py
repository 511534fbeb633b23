"""States of the loads, and densities of readings."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, laplace, norm

from hushmeter import Appliance, Gaussian, Home, Laplace, Staircase, Trace, synth
from hushmeter.attack import loads as learning
from hushmeter.attack.loads import (
    NoisyEmission,
    cut_ranges,
    gaussian_log_densities,
    learn_slack,
    learn_states,
    noisy_log_density,
)
from hushmeter.noise.laplace import continuous_log_density
from hushmeter.noise.losses import GridDistribution


def brute_cut(values: np.ndarray, count: int) -> float:
    ordered, total = np.sort(values), values.size
    costs = []
    for cuts in combinations(range(1, total), count - 1):
        parts = np.split(ordered, cuts)
        borders_differ = all(a[-1] < b[0] for a, b in pairwise(parts))
        if borders_differ and min(part.size for part in parts) >= learning.LEAST:
            cost = count * learning.PENALTY * np.log(total)
            for part in parts:
                spread = 0.5 * np.log(part.var() + learning.FLOOR**2)
                cost += part.size * (spread - np.log(part.size / total))
            costs.append(cost)
    return min(costs, default=np.inf)


def test_cuts_are_the_best_ones(rng):
    for _ in range(10):
        values = rng.choice([5.0, 60.0, 300.0], 14) + rng.normal(0, 3, 14)
        costs, borders = cut_ranges(values, 3)
        for count in range(1, costs.size + 1):
            assert costs[count - 1] == pytest.approx(brute_cut(values, count))
            assert borders[count - 1].size == count - 1


def test_states_stay_within_the_budget():
    home = synth.ready_home("evening")
    train = synth.trace(home, 4000, 0.98, seed=1)
    for budget, sizes in ((256, 2 * np.ones(8)), (384, None)):
        found = learn_states(train, home, 6, 2, 8, budget)
        counts = [means.size for means in found.means[:-1]]
        assert np.prod(counts) <= budget
        assert sizes is None or (counts == sizes).all()
    assert counts[home.index("washing machine")] == 3


def test_slack_is_for_errors_that_last(rng):
    """Bounds that fail once in a million.

    Independent errors of σ = 3 W need no slack, lasting ones s² = 4σ² − σ² − ¼, as the mean over
    four readings spreads like one. Both are told from the median of n squares, whose relative
    standard error is ½/(f(m)·m·√n) at the median m of χ²₁ with density f: 5 % for the 2000
    windows of 8000 readings, 12 % for 400 independent errors.
    """
    home = Home([Appliance("lamp", 60.0)], tolerance=5.0)
    states = synth.trace(home, 8000, 0.98, seed=1).states

    def slack(error: np.ndarray) -> float:
        power = states * 60.0 + error[:, None]
        trace = Trace(power.sum(axis=1), 6.0, states=states, power=power)
        return learn_slack(trace, learn_states(trace, home, 1, 1, 1, 2))

    median, model = chi2.median(1), 3.0**2 + learning.SHARPEST**2
    one, other = (norm.isf(1e-6) / (2 * chi2.pdf(median, 1) * median * n**0.5) for n in (2000, 400))
    most = np.sqrt(9 * (1 + one) - model)
    least = np.sqrt(learning.SLACK_WINDOW * 9 * (1 - other) - model)
    assert (most, least) == pytest.approx((1.41, 2.60), abs=0.01)
    assert slack(rng.normal(0, 3, 8000)) < most
    assert slack(np.repeat(rng.normal(0, 3, 400), 20)) > least


MECHANISMS = [
    Laplace(epsilon=0.5, sensitivity=10.0),
    Staircase(epsilon=1.0, sensitivity=10.0),
    Gaussian(epsilon=1.0, delta=1e-6, sensitivity=10.0),
    Laplace(epsilon=20.0, sensitivity=10.0, grid=10.0),
]


def test_closed_form_is_the_convolution():
    residuals = np.array([0.0, 1.0, 5.0, 30.0, 120.0, 400.0])
    for spread, scale in ((3.0, 20.0), (10.0, 5.0), (0.2, 50.0)):
        direct = [
            quad(
                lambda x, r=r, spread=spread, scale=scale: (
                    norm.pdf(x, 0, spread) * laplace.pdf(r - x, 0, scale)
                ),
                -12 * spread,
                12 * spread,
                points=sorted({0.0, min(r, 11 * spread)}),
                epsabs=0,
            )[0]
            for r in residuals
        ]
        closed = np.exp(continuous_log_density(residuals, spread, scale))
        assert closed == pytest.approx(direct, rel=1e-6)


WIDE = [
    Staircase(epsilon=0.1, sensitivity=400.0),
    Staircase(epsilon=4.0, sensitivity=900.0),
    Gaussian(epsilon=0.5, delta=1e-6, sensitivity=50.0),
]


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *WIDE], ids=str)
@pytest.mark.parametrize("spread", [3.0, 7.0, 30.0, 250.0])
def test_numeric_convolution_is_the_sum_over_the_grid(mechanism, spread):
    """Against the whole sum, one term per grid step, to where the noise ends."""
    reach = int((mechanism.quantile(1 - 1e-10) + 8 * spread) / mechanism.grid)
    steps, spread = np.arange(-reach, reach + 1), max(spread, mechanism.grid / 2)
    masses = mechanism.pmf(steps)
    residuals = np.linspace(0.0, mechanism.quantile(1 - 1e-6) + 3 * spread, 60)
    direct = [(masses * norm.pdf(r - steps * mechanism.grid, 0, spread)).sum() for r in residuals]
    found = np.exp(GridDistribution.log_density(mechanism, residuals, spread))
    assert found == pytest.approx(direct, rel=0.003)


def test_both_ways_agree_for_laplace_noise():
    mechanism = MECHANISMS[0]
    residuals, spread = np.linspace(0, 200, 50), np.hypot(4.0, 1 / np.sqrt(12))
    numeric = GridDistribution.log_density(mechanism, residuals, spread)
    closed = noisy_log_density(residuals, 4.0, mechanism)
    assert closed == pytest.approx(numeric, abs=0.01)


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS], ids=lambda m: m.name if m else "none")
def test_densities_integrate_to_one_and_never_vanish(mechanism):
    emission = NoisyEmission(
        np.array([0.0, 100.0]), np.array([4.0, 400.0]), mechanism, 1e-3, reach=5000.0
    )
    grid = np.linspace(-5000, 5000, 200_001)
    assert np.trapezoid(emission.densities(grid), grid, axis=0) == pytest.approx(1, abs=0.01)
    assert (emission.densities(np.array([-9e4, 9e4])) > 0).all()


def test_gaussian_log_densities():
    readings, means = np.array([1.0, 50.0]), np.array([0.0, 40.0, 90.0])
    expected = norm.logpdf(readings[:, None], means, 3.0)
    assert gaussian_log_densities(readings, means, 9.0) == pytest.approx(expected)
    relative = gaussian_log_densities(readings, means, 9.0, relative=True)
    assert relative == pytest.approx(expected - expected.max(axis=1, keepdims=True))
