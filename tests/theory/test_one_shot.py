"""The corrected one-shot bounds: valid on random homes, for any noise; bad input answered."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.appliance import Appliance
from hushmeter.errors import HushmeterError, InputError
from hushmeter.home import Home
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.theory import one_shot
from hushmeter.theory.exact import (
    ContinuousLaplace,
    capped_excess,
    exact_accuracy,
    expected_switches,
    mean_shortfall,
)
from hushmeter.theory.one_shot import Bound


def random_home(rng):
    """From all alike to all different, from one appliance to twelve."""
    n = int(rng.integers(1, 13))
    spread = rng.choice([0.0, 0.1, 1.0, 3.0])
    powers = 100 * np.exp(spread * rng.uniform(-1, 1, n))
    tolerance = float(np.exp(rng.uniform(np.log(0.01), np.log(100))))
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


@pytest.mark.parametrize("homes", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_random_home_violates_the_corrected_bounds(rng, homes):
    """Any switch vector, in mixed directions, with any fluctuation within the tolerance."""
    violations, informative = 0, 0
    for _ in range(homes):
        home = random_home(rng)
        powers, n = home.powers, len(home)
        on = rng.random(n) < rng.choice([0.0, 0.15, 0.5, 1.0])
        signs = on * (rng.choice([-1, 1], n) if rng.random() < 0.3 else 1)
        power, net = float(on @ powers), float(signs @ powers)
        jump = net + rng.uniform(-1, 1) * home.tolerance
        noise = ContinuousLaplace(home.tolerance * np.exp(rng.uniform(-4, 10)))
        named = expected_switches(powers, home.tolerance, np.array([jump]), noise)[0]
        exact = np.where(on, named, 1 - named).mean()
        most = int(on.sum())
        lower = one_shot.corrected_lower(home, noise, most, switched_power=power)
        upper = one_shot.corrected_upper(home, noise, most, cancelled_power=power - abs(net))
        violations += not lower.raw - 1e-9 <= exact <= upper.raw + 1e-9
        informative += not (lower.vacuous or upper.vacuous)
    assert violations == 0
    assert informative > homes / 5


def test_a_larger_number_of_switches_gives_weaker_bounds(rng):
    for _ in range(300):
        home = random_home(rng)
        noise = ContinuousLaplace(np.exp(rng.uniform(-2, 9)))
        counts = np.arange(len(home) + 1)
        lower = np.asarray(one_shot.corrected_lower(home, noise, counts).raw)
        upper = np.asarray(one_shot.corrected_upper(home, noise, counts).raw)
        assert (np.diff(lower) <= 1e-12).all()
        assert (np.diff(upper) >= -1e-12).all()


@pytest.mark.parametrize("law", [Laplace, Staircase, Gaussian])
def test_they_hold_under_every_mechanism(law, rng):
    for epsilon in (0.02, 0.2, 2.0):
        mechanism = law(epsilon, 1e-3, 10) if law is Gaussian else law(epsilon, 10)
        for _ in range(100):
            home = random_home(rng)
            on = rng.random(len(home)) < 0.2
            exact = exact_accuracy(home, on, mechanism=mechanism)
            most = int(on.sum())
            assert one_shot.corrected_lower(home, mechanism, most).raw <= exact + 1e-9
            assert one_shot.corrected_upper(home, mechanism, most).raw >= exact - 1e-9


def test_they_meet_the_truth_where_they_should():
    """Equal powers, nothing switched, no tolerance to speak of: both bounds are almost exact."""
    home = Home([Appliance(str(i), 100.0) for i in range(10)], 1e-9)
    noise = ContinuousLaplace(80.0)
    exact = exact_accuracy(home, np.zeros(10), mechanism=noise)
    assert one_shot.corrected_lower(home, noise, 0).raw == pytest.approx(exact, abs=1e-9)
    gap = 1 - one_shot.corrected_upper(home, noise, 0).raw
    assert 2 * gap == pytest.approx(1 - exact, abs=1e-9)


def test_mean_shortfall_and_capped_excess_by_their_definition(rng):
    noise = ContinuousLaplace(5.0)
    difference = rng.laplace(0, 5.0, 400_000) - rng.laplace(0, 5.0, 400_000)
    for room in (-3.0, 0.0, 2.0, 30.0):
        sample = np.maximum(room - np.abs(difference), 0)
        error = sample.std() / np.sqrt(difference.size)
        assert abs(mean_shortfall(noise, room) - sample.mean()) <= 5 * error
    sample = np.minimum(np.maximum(difference - 4.0, 0), 7.0)
    error = sample.std() / np.sqrt(difference.size)
    assert abs(capped_excess(noise, 4.0, 7.0) - sample.mean()) < 5 * error


HOME = Home([Appliance("a", 100.0), Appliance("b", 130.0)], 2.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: one_shot.corrected_lower(HOME, ContinuousLaplace(1.0), 3),
        lambda: one_shot.corrected_lower(HOME, ContinuousLaplace(1.0), -1),
        lambda: one_shot.corrected_lower(HOME, ContinuousLaplace(1.0), 0.5),
        lambda: one_shot.corrected_lower(HOME, ContinuousLaplace(1.0), 1, disturbance=-1.0),
        lambda: one_shot.corrected_upper(HOME, ContinuousLaplace(1.0), 1, cancelled_power=np.nan),
        lambda: one_shot.printed_lower(HOME, 0.0),
        lambda: one_shot.printed_lower(HOME, 1.0, constant=-3.0),
        lambda: one_shot.printed_upper(HOME, [-1.0, 1.0]),
        lambda: one_shot.integral_lower(HOME, np.inf),
        lambda: one_shot.recovery_constant([1.0], isometry_3u=0.5, isometry_4u=0.5),
    ],
)
def test_bad_input_is_answered(call):
    with pytest.raises(HushmeterError):
        call()


@pytest.mark.parametrize(
    ("raw", "clipped", "vacuous"),
    [(0.25, 0.25, False), (-0.7, 0.0, True), (779.7, 1.0, True), (0.0, 0.0, True), (1, 1.0, True)],
)
def test_a_number_keeps_raw_and_clipped_apart(raw, clipped, vacuous):
    bound = Bound(raw)
    assert bound.raw == raw
    assert float(bound) == bound.clipped == clipped
    assert bound.vacuous is vacuous
    assert isinstance(bound.raw, float)


def test_arrays_are_flagged_value_by_value():
    bound = Bound([-1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(bound.raw, [-1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(bound.vacuous, [True, False, True, True])
    np.testing.assert_array_equal(np.asarray(bound)[:3], [0.0, 0.5, 1.0])
    assert len(bound) == 4
    assert bound[1].raw == 0.5
    np.testing.assert_array_equal(bound[1:3].raw, [0.5, 2.0])


def test_an_array_is_not_one_number():
    with pytest.raises(InputError, match="has 2 values"):
        float(Bound([0.1, 0.2]))
    with pytest.raises(TypeError, match="no length"):
        len(Bound(0.1))


def test_it_says_what_it_is():
    assert repr(Bound(0.5)) == "Bound(0.5)"
    assert repr(Bound(-0.5)) == "Bound(-0.5, vacuous)"
    assert repr(Bound([0.5, 3.0])) == "Bound(2 values, 1 vacuous)"
