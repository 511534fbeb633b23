"""FHMM: its two ways of learning and awkward data; densities of readings in joint states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from hushmeter import Appliance, Gaussian, Home, Laplace, Staircase, Trace, score, synth
from hushmeter.apps.nilm.factorial_hmm import (
    FactorialHmm,
    GaussianEmission,
    NoisyEmission,
    fit_chain,
    noisy_log_density,
)
from hushmeter.errors import DataError, InputError, NotFittedError
from hushmeter.noise.laplace import continuous_log_density
from hushmeter.noise.losses import GridDistribution


@pytest.fixture(scope="module")
def evening() -> tuple[Home, Trace, Trace]:
    home = synth.ready_home("evening")
    return home, synth.trace(home, 4000, 0.98, seed=1), synth.trace(home, 2000, 0.98, seed=2)


@pytest.mark.parametrize("chains", ["em", "counted"])
def test_sees_a_home_without_noise(evening, chains):
    home, train, test = evening
    attacker = FactorialHmm(home, chains=chains).fit(train)
    result = score(attacker.predict(test), test, power=attacker.predict_power(test))
    assert result.alpha > 0.98
    assert result.kolter > 0.97
    assert attacker.base_load_ == pytest.approx(home.base_load, abs=3.0)


def test_uses_the_levels_of_the_home(evening):
    home, train, _ = evening
    sizes = [len(a.on_levels) + 1 for a in home.appliances]
    assert [w.size for w in FactorialHmm(home).fit(train).levels_] == sizes
    washer = FactorialHmm(home, chains="counted").fit(train).levels_[home.index("washing machine")]
    assert washer == pytest.approx([0.0, 250.0, 1950.0], rel=0.02, abs=1.0)


def test_the_known_noise_widens_the_variance(evening):
    home, train, test = evening
    mechanism = Laplace(epsilon=0.2, sensitivity=10.0)
    noisy = mechanism.release(test.readings, rng=5)
    blind = score(FactorialHmm(home, variance=5.0).fit(train).predict(noisy), test)
    aware = score(FactorialHmm(home, mechanism=mechanism).fit(train).predict(noisy), test)
    assert aware.f1 > blind.f1 + 0.05


def test_marginals_agree_with_the_path_where_they_are_sure(evening):
    home, train, test = evening
    attacker = FactorialHmm(home, chains="counted").fit(train)
    chance, path = attacker.predict_proba(test), attacker.predict(test)
    sure = np.abs(chance - 0.5) > 0.4
    assert (sure.mean(), ((chance > 0.5) == path)[sure].mean()) > (0.95, 0.999)


def test_em_finds_two_gaussians(rng):
    states = np.repeat(rng.integers(0, 2, 80), 25)
    power = np.where(states == 1, rng.normal(100, 5, 2000), rng.normal(3, 1, 2000))
    fit = fit_chain(power, 2, np.arange(2000) == 0)
    assert (fit.states == states).all()
    assert fit.means == pytest.approx([3, 100], abs=0.5)
    assert np.sqrt(fit.variances) == pytest.approx([1, 5], rel=0.1)
    leave = (np.diff(states) == 1).sum() / (states[:-1] == 0).sum()
    assert fit.transitions[0, 1] == pytest.approx(leave, rel=0.05)


def test_em_on_a_constant_power_keeps_a_spare_state():
    fit = fit_chain(np.zeros(50), 2, np.arange(50) == 0)
    assert fit.means.size == 2
    assert (fit.states == 0).all()


def test_unfitted(evening):
    home, _, test = evening
    for call in ("predict", "predict_power", "predict_proba"):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(FactorialHmm(home), call)(test)


def test_training_data_without_states(evening):
    home, train, _ = evening
    with pytest.raises(DataError, match="no true states"):
        FactorialHmm(home).fit(Trace(train.readings, 6.0))


def test_training_data_without_power(evening):
    home, train, test = evening
    bare = Trace(train.readings, 6.0, states=train.states)
    assert score(FactorialHmm(home).fit(bare).predict(test), test).alpha > 0.97


def test_appliances_that_never_switch():
    home = Home([Appliance("router", 20.0), Appliance("kettle", 2000.0)], tolerance=5.0)
    states = np.zeros((300, 2), bool)
    states[:, 0] = True
    trace = Trace(states @ home.powers, 6.0, states=states, power=states * home.powers)
    for chains in ("em", "counted"):
        attacker = FactorialHmm(home, chains=chains).fit(trace)
        np.testing.assert_array_equal(attacker.predict(trace), states)
        np.testing.assert_allclose(attacker.predict_power(trace), trace.power)


def test_an_appliance_that_never_stops_is_on_at_all_its_levels():
    home = Home([Appliance("fridge", levels=(60.0, 100.0)), Appliance("kettle", 500.0)], 5.0)
    states = np.ones((600, 2), bool)
    states[:, 1] = np.arange(600) % 97 > 60
    power = states * np.where(np.arange(600) // 50 % 2, 60.0, 100.0)[:, None]
    power[:, 1] = states[:, 1] * 500.0
    trace = Trace(power.sum(axis=1), 6.0, states=states, power=power)
    for chains in ("em", "counted"):
        attacker = FactorialHmm(home, chains=chains).fit(trace)
        np.testing.assert_array_equal(attacker.predict(trace), states)
        assert attacker.predict_proba(trace)[:, 0].min() > 0.99
        off = attacker.predict(trace, initial_state=[False, True])
        assert not off[0, 0], "a given initial state is row 0 as it is"


def test_a_gap_starts_the_chains_anew(evening):
    home, train, test = evening
    cut = Trace(test.readings[:400], 6.0, steps=np.r_[0:150, 500:750])
    attacker = FactorialHmm(home, chains="counted").fit(train)
    late = attacker.predict(test.readings[150:400])
    assert (attacker.predict(cut)[150:] == late).all()


def test_initial_state_and_readings_below_the_base_load(evening):
    home, train, _ = evening
    attacker = FactorialHmm(home, chains="counted").fit(train)
    state = np.arange(len(home)) % 2 == 1
    assert (attacker.predict(np.full(5, 90.0), initial_state=state)[0] == state).all()
    assert not attacker.predict(np.full(5, -500.0)).any()


def test_bad_parameters(evening):
    home = evening[0]
    with pytest.raises(InputError, match="variance"):
        FactorialHmm(home, variance=0.0)
    with pytest.raises(InputError, match="chains"):
        FactorialHmm(home, chains="guessed")
    with pytest.raises(InputError, match="mechanism"):
        FactorialHmm(home, mechanism=0.3)
    with pytest.raises(InputError, match="most_levels"):
        FactorialHmm(home, most_levels=0)
    crowd = synth.home(n=21)
    trace = synth.trace(crowd, 200)
    with pytest.raises(InputError, match="2097152 states"):
        FactorialHmm(crowd).fit(trace).predict(trace)


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


def test_gaussian_densities_are_relative_to_the_largest():
    readings, means = np.array([1.0, 50.0]), np.array([0.0, 40.0, 90.0])
    expected = norm.logpdf(readings[:, None], means, 3.0)
    expected -= expected.max(axis=1, keepdims=True)
    emission = GaussianEmission(means, 9.0)
    assert emission.log_densities(readings) == pytest.approx(expected)
    assert emission.densities(readings) == pytest.approx(np.exp(expected))
