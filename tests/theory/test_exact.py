"""The exact expected accuracy: against a sum over kinks, the law itself, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import hushmeter as hm
from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.one_shot import solve_relaxed
from hushmeter.errors import HushmeterError, InputError
from hushmeter.home import Home
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.theory.bounds import bounds
from hushmeter.theory.exact import (
    ContinuousLaplace,
    appliance_accuracy,
    exact_accuracy,
    exact_curve,
)
from hushmeter.trace import Trace


def make_home(powers, tolerance):
    return Home([Appliance(f"a{i}", float(p)) for i, p in enumerate(powers)], tolerance)


def error(home, vector, jump, noise):
    """g(l) = ‖Δ*(|d + l|) − Δ⁰‖₁ by the solver itself."""
    shares = solve_relaxed(home.powers, np.abs(jump + np.atleast_1d(noise)), home.tolerance)
    return np.abs(shares - np.abs(vector)).sum(axis=1)


def by_kinks(home, vector, noise):
    """E g = g(−∞) + Σ over the kinks of (change of slope)·E(l − b)_+."""
    d = vector @ home.powers
    reach = home.tolerance + np.concatenate([[0], np.cumsum(np.sort(home.powers)[::-1])])
    kinks = np.unique(np.concatenate([[-d], -d - reach, -d + reach]))
    middles = np.concatenate([[kinks[0] - 1], (kinks[1:] + kinks[:-1]) / 2, [kinks[-1] + 1]])
    h = 1e-3
    slopes = (error(home, vector, d, middles + h) - error(home, vector, d, middles - h)) / (2 * h)
    total = error(home, vector, d, kinks[0] - 1)[0]
    return total + np.diff(slopes) @ np.asarray(noise.difference_excess(kinks))


def test_the_distribution_of_the_difference():
    noise = ContinuousLaplace(3.0)
    mass = 2 * quad(noise.difference_density, 0, np.inf)[0]
    mean = 2 * quad(lambda x: x * noise.difference_density(x), 0, np.inf)[0]
    assert mass == pytest.approx(1.0, abs=1e-10)
    assert mean == pytest.approx(1.5 * 3.0, abs=1e-10)
    assert 2 * noise.difference_excess(0.0) == pytest.approx(mean)
    for b in (-7.0, -0.5, 0.0, 2.0, 11.0):
        pieces = [(b, 0.0), (0.0, np.inf)] if b < 0 else [(b, np.inf)]
        value = sum(
            quad(lambda x, b=b: (x - b) * noise.difference_density(x), *ends)[0] for ends in pieces
        )
        assert noise.difference_excess(b) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("scale", [0.3, 20.0, 900.0])
def test_the_sum_over_appliances_is_the_sum_over_kinks(scale, rng):
    for _ in range(50):
        n = int(rng.integers(1, 9))
        home = make_home(rng.uniform(20, 900, n), float(rng.uniform(0.5, 30)))
        vector = rng.integers(-1, 2, n).astype(float)
        noise = ContinuousLaplace(scale)
        exact = exact_accuracy(home, vector, mechanism=noise)
        # Kinks nearer than the step of the numerical slopes cost a little.
        assert exact == pytest.approx(1 - by_kinks(home, vector, noise) / n, abs=1e-6)


def test_it_is_the_mean_over_the_distribution_of_a_mechanism():
    home = make_home([50, 80, 120], 4.0)
    vector = np.array([1.0, 0, 0])
    for mechanism in (Laplace(0.5, 6), Staircase(0.5, 6), Gaussian(1.0, 0.01, 6)):
        half = np.arange(-2000, 2001)
        k = np.arange(-4000, 4001)
        law = np.convolve(mechanism.pmf(half), mechanism.pmf(half))
        expected = 1 - law @ error(home, vector, 50.0, k * mechanism.grid) / 3
        assert exact_accuracy(home, vector, mechanism=mechanism) == pytest.approx(
            expected, abs=1e-9
        )


def mechanisms():
    for epsilon in (0.01, 0.02, 0.05, 0.1, 0.3, 1.0):
        yield Laplace(epsilon, 10)
        yield Staircase(epsilon, 10)
        yield Gaussian(epsilon, 1e-3, 10)


def test_simulation_agrees_in_more_than_200_cells(rng):
    homes = [
        synth.ready_home("similar8"),
        synth.ready_home("rae13"),
        make_home([60, 110, 160, 1400, 2100], 20.0),
    ]
    cells = 0
    for seed, mechanism in enumerate(mechanisms()):
        noise = np.diff(mechanism.sample(40_000, rng=seed).reshape(-1, 2), axis=1)[:, 0]
        for home in homes:
            for switches in (0, 1, 1, 2, 2, 3):
                vector = np.zeros(len(home))
                vector[rng.choice(len(home), switches, replace=False)] = 1.0
                if switches == 3:
                    vector[np.flatnonzero(vector)[0]] = -1.0
                jumps = np.abs(vector @ home.powers + noise * mechanism.grid)
                shares = solve_relaxed(home.powers, jumps, home.tolerance)
                right = 1 - np.abs(shares - np.abs(vector))
                exact = appliance_accuracy(home, vector, mechanism=mechanism)
                cells += is_close(right.mean(axis=1), exact.mean())
                is_close(right[:, 0], exact[0])
    assert cells > 200


def is_close(measured, value):
    """|z| < 4.5; True where the measurements vary enough for z to mean something."""
    spread = measured.std()
    if spread < 0.005:
        # Too few rare events were seen to tell their spread: a variance within [0, 1] is at most
        # that of a coin with the same mean.
        spread = np.sqrt(value * (1 - value)) + 1e-9
        assert abs(measured.mean() - value) < 4.5 * spread / np.sqrt(measured.size)
        return False
    assert abs(measured.mean() - value) < 4.5 * spread / np.sqrt(measured.size)
    return True


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_the_grid_approaches_the_continuous_curve(epsilon):
    home = synth.ready_home("similar8")
    limit = float(exact_curve(home, 10 / epsilon, ["lamp"]))
    gaps = []
    for grid in ("1", "0.1", "0.01"):
        mechanism = Laplace(epsilon, 10, grid, on_grid=True)
        gaps.append(abs(exact_accuracy(home, ["lamp"], mechanism=mechanism) - limit))
    assert gaps[2] < 1e-6
    assert gaps[2] < gaps[1] / 40 < gaps[0] / 1600


def test_names_and_vectors_say_the_same():
    home = synth.ready_home("evening")
    mechanism = Laplace(1.0, 20)
    by_name = exact_accuracy(home, ["kettle", "lamps"], mechanism=mechanism)
    vector = [name in ("kettle", "lamps") for name in home.names]
    assert by_name == exact_accuracy(home, vector, mechanism=mechanism)
    assert exact_accuracy(home, "kettle", mechanism=mechanism) == exact_accuracy(
        home, switched=["kettle"], mechanism=mechanism
    )
    nothing = exact_accuracy(home, [], mechanism=mechanism)
    assert nothing == exact_accuracy(home, np.zeros(8), mechanism=mechanism)


def test_opposite_switches_cancel():
    home = make_home([100, 160], 2.0)
    quiet = Laplace(5.0, 0.1, 0.01)
    assert exact_accuracy(home, [1, -1], mechanism=quiet) < 0.3
    same = exact_accuracy(home, [1, -1], mechanism=quiet, jump=-60.0)
    assert same == pytest.approx(exact_accuracy(home, [1, -1], mechanism=quiet))


def test_the_mean_over_a_trace(rng):
    home = make_home([100, 130, 160], 2.0)
    states = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]], bool)
    trace = Trace(states @ home.powers, 6.0, states=states, steps=[0, 1, 2, 3, 50])
    noise = ContinuousLaplace(40.0)
    moves = [[1, 0, 0], [0, 0, 0], [-1, 1, 0]]
    expected = np.mean([exact_accuracy(home, m, mechanism=noise) for m in moves])
    assert exact_accuracy(home, trace=trace, mechanism=noise) == pytest.approx(expected)
    assert exact_curve(home, [40.0], trace=trace)[0] == pytest.approx(expected)


def test_the_mean_over_all_vectors():
    home = make_home([100, 130, 160], 2.0)
    noise = ContinuousLaplace(40.0)
    vectors = [np.zeros(3), *np.eye(3)]
    expected = np.mean([exact_accuracy(home, v, mechanism=noise) for v in vectors])
    assert exact_accuracy(home, max_switches=1, mechanism=noise) == pytest.approx(expected)


def test_a_curve_is_its_points():
    home = synth.ready_home("rae13")
    scales = np.geomspace(1, 1e5, 7)
    points = [exact_accuracy(home, max_switches=2, mechanism=ContinuousLaplace(s)) for s in scales]
    np.testing.assert_allclose(exact_curve(home, scales, max_switches=2), points, rtol=1e-10)
    shaped = exact_curve(home, scales[:6].reshape(2, 3), max_switches=2)
    np.testing.assert_allclose(shaped.ravel(), points[:6], rtol=1e-10)


def test_without_noise_it_is_the_solver():
    home = make_home([120, 122, 124, 126], 0.5)
    right = 1 - np.abs(solve_relaxed(home.powers, [120.0], 0.5)[0] - [1, 0, 0, 0])
    faint = ContinuousLaplace(1e-9)
    np.testing.assert_allclose(appliance_accuracy(home, [1, 0, 0, 0], mechanism=faint), right)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of"),
        ({"switched": [1, 0], "max_switches": 1}, "exactly one of"),
        ({"switched": [1, 0, 1]}, "each of the 2"),
        ({"switched": [2, 0]}, "each of the 2"),
        ({"switched": ["oven"]}, "no appliance named 'oven'"),
        ({"max_switches": 1, "jump": 3.0}, "one switch vector"),
        ({"max_switches": -1}, "whole number"),
        ({"switched": [0, 0], "jump": np.nan}, "finite"),
    ],
)
def test_bad_input_is_answered(arguments, message):
    with pytest.raises(HushmeterError, match=message):
        exact_accuracy(make_home([10, 20], 1.0), mechanism=ContinuousLaplace(1.0), **arguments)


def test_too_many_vectors_and_bad_scales():
    home = make_home(range(100, 140), 1.0)
    with pytest.raises(InputError, match="too many"):
        exact_curve(home, [1.0], max_switches=20)
    for scale in (0.0, -1.0, np.inf, "much"):
        with pytest.raises(InputError, match="scale must be"):
            ContinuousLaplace(scale)


@pytest.mark.parametrize("rule", ["all", "none", "error"])
def test_every_rule_for_infeasible_jumps_equals_quadrature(rule):
    """E[α] by integrating over the noise difference l, with the answer of `solve_relaxed`."""
    home, scale = make_home([100.0, 160.0, 60.0], 5.0), 150.0
    step = np.linspace(-40 * scale, 40 * scale, 400_001)
    density = ContinuousLaplace(scale).difference_density(step)
    for switched in ([0, 0, 0], [1, 0, 0], [1, 1, 1], [1, -1, 0]):
        vector = np.array(switched)
        jumps = np.abs(vector @ home.powers + step)
        shares = solve_relaxed(home.powers, jumps, home.tolerance, unexplained=rule)
        correct = np.nan_to_num(np.where(vector != 0, shares, 1 - shares), nan=0.0)
        expected = np.trapezoid(correct.mean(axis=1) * density, step)
        found = exact_curve(home, [scale], switched, unexplained=rule)
        assert found[0] == pytest.approx(expected, abs=2e-5)


LEVELLED = hm.Home(
    [hm.Appliance("heat pump", levels=(600.0, 1500.0)), hm.Appliance("kettle", 1000.0)], 20.0
)


@pytest.mark.parametrize("scale", [30.0, 300.0, 3000.0])
def test_levels_are_increments_as_for_the_attacker(scale):
    """The exact accuracy is that of the attacker on the readings of a home with levels."""
    trace = hm.synth.trace(LEVELLED, 1500, 0.9, seed=2)
    mechanism = hm.Laplace(1.0, scale, grid=1.0)
    attacker, inside = hm.attackers["one-shot"](LEVELLED), ~trace.run_starts
    found = []
    for seed in range(30):
        noisy = trace.replace_readings(mechanism.release(trace.readings, rng=seed))
        named = attacker.predict_switches(noisy, known_states=trace.truth(), rng=seed)
        found.append((named[inside] == trace.switches[inside]).mean())
    exact = hm.exact_accuracy(LEVELLED, mechanism=mechanism, trace=trace)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 4.9 * error + 1e-3  # Rounding moves a jump by up to 1 W.


def test_results_about_one_power_refuse_levels():
    trace = hm.synth.trace(LEVELLED, 50, 0.9, seed=2)
    noise = hm.Laplace(1.0, 100.0, grid=1.0)
    for ask in (
        lambda: hm.exact_accuracy(LEVELLED, ["heat pump"], mechanism=noise),
        lambda: hm.exact_accuracy(LEVELLED, max_switches=1, mechanism=noise),
        lambda: bounds(LEVELLED, 1.0),
        lambda: bounds(LEVELLED, 1.0, readings=50),
    ):
        with pytest.raises(hm.errors.InputError, match="heat pump has levels"):
            ask()
    assert 0 < hm.exact_accuracy(LEVELLED, ["heat pump"], mechanism=noise, jump=900.0) < 1
    plain = LEVELLED.one_power_each()
    assert 0 < hm.exact_accuracy(plain, mechanism=noise, readings=trace) < 1
    assert float(bounds(plain, 1.0).upper) <= 1
