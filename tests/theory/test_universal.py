"""What no attacker can beat: against sums over the law, simulation and every attacker there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.registry import attackers
from hushmeter.errors import InputError, MissingExtraError
from hushmeter.home import Home
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.privacy import compose
from hushmeter.theory.universal import (
    laplace_limit,
    mean_limit,
    privacy_cap,
    universal_cap,
    universal_limit,
)

HOME = Home([Appliance("a", 10.0), Appliance("b", 7.0), Appliance("c", 33.0)], 1.0)
PRIORS = [0.5, 0.3, 0.05, 0.97]
MECHANISMS = [
    Laplace(0.5, 10, on_grid=True),
    Laplace(2.0, 10),
    Staircase(0.5, 10, on_grid=True),
    Staircase(3.0, 10),
    Gaussian(0.5, 1e-3, 10, on_grid=True),
    Gaussian(5.0, 0.05, 2),
]


def by_definition(mechanism, watts, prior, readings=1):
    """Σ max(π·Π P(k − s), (1 − π)·Π P(k)) over all outcomes of one or two readings."""
    reach = int(60 * mechanism.std / mechanism.grid) + 50
    k = np.arange(-reach, reach + 1)
    on = np.asarray(mechanism.pmf(k - round(watts / mechanism.grid)))
    off = np.asarray(mechanism.pmf(k))
    if readings == 2:
        keep = on + off > 1e-13
        on, off = np.outer(on[keep], on[keep]), np.outer(off[keep], off[keep])
    return np.maximum(prior * on, (1 - prior) * off).sum()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("prior", PRIORS)
def test_one_reading_is_the_sum_over_the_distribution(mechanism, prior):
    found = universal_limit(HOME, mechanism, prior)
    expected = [by_definition(mechanism, p, prior) for p in HOME.powers]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_two_readings_are_the_double_sum(mechanism, prior):
    home = HOME.subset(["a", "b"])
    found = universal_limit(home, mechanism, prior, readings=2)
    expected = [by_definition(mechanism, p, prior, readings=2) for p in home.powers]
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("mechanism", MECHANISMS[:4])
def test_the_hockey_stick_gives_a_second_opinion(mechanism):
    for prior in PRIORS:
        tau = np.array([math.log((1 - prior) / prior)])
        for watts, found in zip(HOME.powers, universal_limit(HOME, mechanism, prior), strict=True):
            gain = mechanism.hockey_stick(int(watts), tau)[0]
            assert found == pytest.approx((1 - prior) + prior * gain, abs=1e-12)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("readings", [5, 30, 400])
def test_a_run_is_what_a_likelihood_ratio_attacker_reaches(mechanism, readings):
    steps, count, prior = 7, 20_000, 0.4
    rng = np.random.default_rng(readings)
    on = rng.random(count) < prior
    right = np.zeros(0, bool)
    for seed, truth in enumerate(np.array_split(on, 20)):
        noise = mechanism.sample(truth.size * readings, rng=seed).reshape(truth.size, readings)
        seen = noise + steps * truth[:, None]
        ratio = np.asarray(mechanism.log_pmf(seen - steps)) - np.asarray(mechanism.log_pmf(seen))
        right = np.append(right, (ratio.sum(axis=1) > math.log(0.6 / 0.4)) == truth)
    limit = universal_limit(HOME, mechanism, prior, readings=readings)[1]
    assert abs(right.mean() - limit) < 4.9 * math.sqrt(limit * (1 - limit) / count) + 1e-6


@pytest.mark.parametrize("mechanism", MECHANISMS[:5])
@pytest.mark.parametrize("readings", [1, 30, 300])
def test_the_accountant_gives_a_second_opinion(mechanism, readings):
    """Its odds are rounded up, and by steps_of, which may count one step more."""
    found = universal_limit(HOME, mechanism, readings=readings)
    odds = np.array([compose(mechanism, [(p, readings)]).odds for p in HOME.powers])
    assert (found <= odds + 1e-5).all()
    if mechanism.on_grid:
        np.testing.assert_allclose(found, odds, atol=1e-4)


def test_the_laplace_formula():
    power, scale = 60.0, 100.0
    for prior in (0.5, 0.4, 0.36, 0.3, 0.9):
        tau = math.log((1 - prior) / prior)
        formula = 1 - math.sqrt(prior * (1 - prior)) * math.exp(-0.3)
        expected = formula if abs(tau) < 0.6 else max(prior, 1 - prior)
        assert laplace_limit(power, scale, prior) == pytest.approx(expected, rel=1e-12)


def gaussian_limit(powers, sigma, prior, readings):
    """The optimum under continuous noise, with s = √L·P/σ and τ = ln((1 − π)/π)."""
    s, tau = math.sqrt(readings) * powers / sigma, math.log((1 - prior) / prior)
    return prior * ndtr(s / 2 - tau / s) + (1 - prior) * ndtr(s / 2 + tau / s)


@pytest.mark.parametrize("prior", [0.5, 0.3])
@pytest.mark.parametrize("readings", [1, 12])
def test_a_fine_grid_approaches_the_formulas(prior, readings):
    home = Home([Appliance("a", 60.0), Appliance("b", 200.0)], 20.0)
    laplace = Laplace(0.5, 60, "0.01", on_grid=True)
    expected = laplace_limit(home.powers, 120.0, prior, readings=readings)
    found = universal_limit(home, laplace, prior, readings=readings)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    gaussian = Gaussian(0.5, 1e-3, 60, "0.01", on_grid=True)
    expected = gaussian_limit(home.powers, gaussian.scale, prior, readings)
    found = universal_limit(home, gaussian, prior, readings=readings)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_kettle_and_a_lamp():
    """δ = 20, ε = 0.1: ε_i = 20 for the kettle, which one reading gives away."""
    home = Home([Appliance("kettle", 2000.0), Appliance("lamp", 60.0)], 20.0)
    kettle, lamp = laplace_limit(home.powers, 10 / 0.1)
    assert kettle == pytest.approx(0.99998, abs=5e-6)
    assert lamp == pytest.approx(0.63, abs=5e-3)
    mechanism = Laplace("0.1", 10, "0.01", on_grid=True)
    assert mechanism.epsilon_for(2000) == pytest.approx(20.0)
    np.testing.assert_allclose(universal_limit(home, mechanism), [kettle, lamp], atol=1e-6)


def test_a_run_passes_the_cap_of_one_reading():
    """ε = 0.5 a reading: 62.2 % at most for one, 89.8 % for thirty."""
    assert privacy_cap(0.5) == pytest.approx(0.622, abs=5e-4)
    assert laplace_limit(1.0, 2.0, readings=30) == pytest.approx(0.8984, abs=5e-5)
    assert laplace_limit(1.0, 2.0, readings=30) < privacy_cap(15.0)


@pytest.mark.parametrize("mechanism", MECHANISMS[:4])
@pytest.mark.parametrize("readings", [1, 3])
def test_the_optimum_keeps_the_cap(mechanism, readings):
    for prior in PRIORS:
        limit = universal_limit(HOME, mechanism, prior, readings=readings)
        cap = universal_cap(HOME, mechanism, prior, readings=readings)
        assert (limit <= cap + 1e-12).all()
        assert (limit >= max(prior, 1 - prior) - 1e-12).all()


def test_the_cap_is_reached_by_randomised_response():
    """A mechanism that tells the bit with probability 1/(1 + e^−ε) is ε-DP."""
    for epsilon in (0.1, 1.0, 4.0):
        truthful = 1 / (1 + math.exp(-epsilon))
        for prior in PRIORS:
            best = max(prior * truthful, (1 - prior) * (1 - truthful)) + max(
                prior * (1 - truthful), (1 - prior) * truthful
            )
            assert privacy_cap(epsilon, prior) == pytest.approx(best)


def test_more_readings_never_hurt():
    for mechanism in MECHANISMS:
        limits = [universal_limit(HOME, mechanism, 0.3, readings=n) for n in (1, 2, 5, 50, 5000)]
        assert (np.diff(limits, axis=0) >= -1e-9).all()


def test_a_long_run_of_a_strong_appliance_is_certain():
    home = synth.ready_home("evening")
    for mechanism in (Laplace(0.1, 10), Staircase(0.1, 10), Gaussian(0.1, 1e-3, 10)):
        limit = universal_limit(home, mechanism, readings=14_400)
        assert limit[home.index("kettle")] == pytest.approx(1.0, abs=1e-9)


def test_a_level_counts_with_its_largest():
    levels = Home([Appliance("washer", levels=(250.0, 1950.0))], 20.0)
    plain = Home([Appliance("washer", 1950.0)], 20.0)
    mechanism = Laplace(0.01, 10)
    assert universal_limit(levels, mechanism) == universal_limit(plain, mechanism)


def test_certain_priors_and_means():
    for mechanism in MECHANISMS:
        np.testing.assert_allclose(universal_limit(HOME, mechanism, [0.0, 1.0, 1.0]), 1.0)
    mechanism = MECHANISMS[0]
    assert mean_limit(HOME, mechanism, 0.2) == pytest.approx(
        universal_limit(HOME, mechanism, 0.2).mean()
    )


FOUR = Home([Appliance(str(i), p) for i, p in enumerate((60.0, 110.0, 160.0, 400.0))], 5.0)
NOISE = Laplace(1, 150, on_grid=True)


@pytest.mark.parametrize("name", list(attackers))
def test_no_attacker_beats_the_limit_of_one_reading(name):
    """The reading before is given without noise, with all appliances off.

    So every attacker that follows jumps has its jump, and one noisy reading to decide.
    """
    kind = attackers[name]
    given = {"mechanism": NOISE} if name == "bayes" else {}
    try:
        attacker = kind(FOUR, **dict(getattr(kind, "checked_with", {}), **given))
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    attacker.fit(synth.trace(FOUR, 600, 0.97, seed=1))
    for prior in (0.5, 0.1):
        rng = np.random.default_rng(8)
        states = rng.random((250, 4)) < prior
        released = NOISE.release(states @ FOUR.powers, rng=3)
        start = np.zeros(len(FOUR), bool)
        guesses = np.array(
            [attacker.predict([0.0, y], initial_state=start, rng=rng)[-1] for y in released]
        )
        limit = universal_limit(FOUR, NOISE, prior)
        slack = 4.9 * np.sqrt(limit * (1 - limit) / 250)
        assert ((guesses == states).mean(axis=0) <= limit + slack).all()
        spread = math.sqrt(np.sum(limit * (1 - limit)) / 250) / 4
        assert (guesses == states).mean() <= limit.mean() + 4.9 * spread


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: universal_limit(HOME, MECHANISMS[0], 1.5), "between 0 and 1"),
        (lambda: universal_limit(HOME, MECHANISMS[0], [0.1, 0.2]), "one probability or 3"),
        (lambda: universal_limit(HOME, MECHANISMS[0], readings=0), "readings must be"),
        (lambda: universal_cap(HOME, MECHANISMS[4]), "pure differential privacy"),
        (lambda: laplace_limit(0.0, 1.0), "power must be"),
        (lambda: privacy_cap(1.0, np.nan), "between 0 and 1"),
    ],
)
def test_bad_input_is_answered(call, message):
    with pytest.raises(InputError, match=message):
        call()
