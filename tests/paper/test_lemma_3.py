"""Lemma 3: bounds under a disturbance besides the noise."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.appliance import Appliance
from hushmeter.home import Home
from hushmeter.theory.bounds import Conditions, bounds
from hushmeter.theory.exact import ContinuousLaplace, exact_accuracy
from hushmeter.theory.one_shot import (
    corrected_lower,
    corrected_upper,
    integral_lower,
    integral_upper,
    printed_lower,
    printed_upper,
)


def make_home(powers, tolerance):
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


POWERS = [106, 112.5, 119, 125, 131.5, 138, 143.5, 148.5]


def test_as_printed_it_is_a_larger_tolerance():
    """b(δ + Y/(2 + C), ε) and B(δ + Y/2, ε)."""
    home, constant, epsilon, y = make_home(POWERS, 2.0), 0.015, 0.3, 1.7
    lower = printed_lower(home, epsilon, constant=constant, disturbance=y)
    wider = make_home(POWERS, 2.0 + y / (2 + constant))
    assert lower.raw == pytest.approx(printed_lower(wider, epsilon, constant=constant).raw)
    upper = printed_upper(home, epsilon, disturbance=y)
    assert upper.raw == pytest.approx(printed_upper(make_home(POWERS, 2.0 + y / 2), epsilon).raw)


def test_as_printed_a_disturbance_changes_the_noise():
    """Put into δ, 100 W of disturbance make the scale δ/2ε of the noise 26 times as wide."""
    home = make_home(POWERS, 2.0)
    wider = make_home(POWERS, 2.0 + 100.0 / 2)
    kept = integral_upper(home, 2.0 / 2 / 0.01, disturbance=100.0).raw
    changed = integral_upper(wider, wider.tolerance / 2 / 0.01).raw
    assert kept > 0.98
    assert changed < 0.75


def test_the_integral_form_keeps_the_noise():
    home = make_home(POWERS, 0.5)
    moved = integral_lower(home, 0.7, constant=0.015, disturbance=2.0).raw
    room = 8 - 2.015 * 0.5 - 2.0
    expected = (room - 1.05 + (1.05 + room / 2) * np.exp(-room / 0.7)) / 8
    assert moved == pytest.approx(expected, rel=1e-12)


def test_0_violations_with_any_sure_disturbance(rng):
    for _ in range(3_000):
        n = int(rng.integers(1, 10))
        home = make_home(100 * np.exp(rng.uniform(-1, 1, n)), float(np.exp(rng.uniform(-3, 3))))
        on = rng.random(n) < 0.3
        y = float(np.exp(rng.uniform(0, 6)))
        noise = ContinuousLaplace(np.exp(rng.uniform(-1, 8)))
        jump = (
            float(on @ home.powers) + rng.uniform(-1, 1) * y + rng.uniform(-1, 1) * home.tolerance
        )
        exact = exact_accuracy(home, on, mechanism=noise, jump=jump)
        most = int(on.sum())
        assert corrected_lower(home, noise, most, disturbance=y).raw <= exact + 1e-9
        assert corrected_upper(home, noise, most, disturbance=y).raw >= exact - 1e-9


def test_0_violations_with_a_disturbance_known_in_the_mean(rng):
    """Rare and large, so that a bound in the mean says little about one jump."""
    for _ in range(2_000):
        n = int(rng.integers(2, 10))
        home = make_home(100 * np.exp(rng.uniform(-1, 1, n)), 1.0)
        on = rng.random(n) < 0.3
        large, share = float(np.exp(rng.uniform(0, 8))), float(rng.uniform(0, 1))
        noise = ContinuousLaplace(np.exp(rng.uniform(-1, 7)))
        power, most = float(on @ home.powers), int(on.sum())
        quiet = exact_accuracy(home, on, mechanism=noise)
        moved = exact_accuracy(home, on, mechanism=noise, jump=power + rng.choice([-1, 1]) * large)
        exact = (1 - share) * quiet + share * moved
        mean = share * large
        assert corrected_lower(home, noise, most, mean_disturbance=mean).raw <= exact + 1e-9
        assert corrected_upper(home, noise, most, mean_disturbance=mean).raw >= exact - 1e-9


def test_a_disturbance_only_weakens_the_bounds():
    home = make_home(POWERS, 2.0)
    answers = [
        bounds(home, 0.05, conditions=Conditions(disturbance=y))
        for y in (0.0, 10.0, 100.0, 5_000.0)
    ]
    assert np.all(np.diff([a.lower.raw for a in answers]) <= 0)
    assert np.all(np.diff([a.upper.raw for a in answers]) >= 0)
    assert answers[-1].lower.vacuous
