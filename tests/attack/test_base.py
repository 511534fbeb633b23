"""Noise that an attacker knows by its standard deviation alone."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.attack.base import GaussianNoise
from hushmeter.errors import InputError
from hushmeter.scoring import score


def test_a_mean_of_many_readings_has_gaussian_noise_of_the_right_size():
    mechanism = hm.Laplace(1.0, 200.0, grid=1.0)
    known = GaussianNoise.of_mean(mechanism, 15)
    drawn = mechanism.sample(15 * 100_000, rng=1).reshape(-1, 15).mean(axis=1)
    assert known.std == pytest.approx(drawn.std(), rel=0.02)
    for p in (0.5, 0.9, 0.99):
        assert np.mean(np.abs(drawn) < known.quantile(p)) == pytest.approx(p, abs=0.02)


def test_the_density_is_that_of_gaussian_noise():
    residuals = np.linspace(0.0, 120.0, 61)
    mechanism = hm.Gaussian(1.0, 1e-3, 10.0, grid=1.0)
    same = GaussianNoise(mechanism.std).log_density(residuals, 4.0)
    np.testing.assert_allclose(same, mechanism.log_density(residuals, 4.0), atol=1e-4)


def test_an_attacker_uses_it():
    home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("lamp", 100.0)], 20.0, 50.0)
    train, test = (hm.synth.trace(home, 20_000, 0.999, seed=seed) for seed in (1, 2))
    mechanism = hm.Laplace(1.0, 1000.0, grid=1.0)
    noisy = test.replace_readings(test.readings + mechanism.sample(len(test), rng=3))
    attacker = Bayes(home).fit(train.coarsen(60.0))
    found = [
        score(attacker.knows(noise).predict(noisy.coarsen(60.0)), test.coarsen(60.0)).f1
        for noise in (GaussianNoise.of_mean(mechanism, 10), mechanism, None)
    ]
    assert found[0] > found[1] + 0.02
    assert found[0] > found[2] + 0.05


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan")])
def test_a_bad_standard_deviation_is_refused(std):
    with pytest.raises(InputError, match="std"):
        GaussianNoise(std)
