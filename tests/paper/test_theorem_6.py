"""Theorem 6: bounds for every hierarchy, printed and corrected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.attack.hierarchical import Hierarchical, split
from hushmeter.home import Home
from hushmeter.theory.bounds import bounds
from hushmeter.theory.exact import ContinuousLaplace
from hushmeter.theory.multi_shot import corrected_groups, paper_groups
from hushmeter.theory.one_shot import recovery_constant


def make_home(powers, tolerance):
    return Home([Appliance(f"a{i}", float(p)) for i, p in enumerate(powers)], tolerance)


def lower_as_printed(n, delta, epsilon, c):
    b = 2 * (n - (2 + c) * delta)
    start = 1 - (4 * c * delta * epsilon + 8 * delta * epsilon + 3 * delta) / (4 * epsilon * n)
    weight = ((2 * n - 4 * delta - 2 * c * delta) * epsilon + 3 * delta) / (4 * epsilon * n)
    return start + weight * math.exp(-2 * epsilon * b / delta)


def upper_as_printed(n, norm, delta, epsilon):
    m = n * norm + 2 * delta
    b_2 = 6 * delta * m - 8 * delta**2 - 4 * delta * n * norm
    a_2 = 4 * m**2 - 8 * delta * m - 4 * m * n * norm
    first = (a_2 * epsilon**2 + b_2 * epsilon + 3 * delta**2) / (8 * delta * epsilon * n * norm)
    last = (16 * delta * epsilon**2 + 4 * delta * epsilon + 3 * delta) / (16 * epsilon * n * norm)
    return 1 + first * math.exp(-2 * epsilon * m / delta) - last * math.exp(-epsilon)


def test_the_printed_recursion_is_the_papers_text():
    """m_i = b_m(δ + 2δ'_i/(2 + C), ε), M_i = B_M(δ + δ'_i, ε), written out for two hierarchies."""
    home = make_home([100, 104, 108, 2000, 2050], 2.0)
    epsilon, length = 0.7, 4
    leaked, expected, tolerances = 0.0, [], []
    for powers, below in (([2000.0, 2050.0], 108.0), ([100.0, 104.0, 108.0], 0.0)):
        n, norm, c = len(powers), float(np.linalg.norm(powers)), recovery_constant(powers)
        extra = below / 2 + leaked
        tolerances.append(2.0 + 2 / (2 + c) * extra)
        m = 1 - (length - 1) * (1 - lower_as_printed(n, tolerances[-1], epsilon, c) * n) / 2
        top = upper_as_printed(n, norm, 2.0 + extra, epsilon)
        expected.append((m, 1 - (1 - top) / length))
        leaked += n * length * (1 - m) * norm
    found = paper_groups(home, epsilon, length, 1)
    for group, (m, top) in zip(found, expected, strict=True):
        assert group.lower.raw == pytest.approx(m, rel=1e-9)
        assert group.upper.raw == pytest.approx(top, rel=1e-9)
    assert found[0].names == ("a3", "a4")
    # A "lower bound" above one leaves behind less than nothing: the next tolerance is negative.
    assert found[0].lower.raw > 1
    assert tolerances[1] < 0


def test_the_printed_lower_bounds_say_nothing():
    home = synth.ready_home("rae13")
    answer = bounds(
        home, np.geomspace(1e-3, 10, 50), readings=600, hierarchical=True, form="printed"
    )
    for group in answer.groups:
        assert group.lower.vacuous.all()


def one_way_series(home, length, share, rng):
    states = [rng.random(len(home)) < 0.4]
    for _ in range(length):
        flips = np.zeros(len(home), bool)
        movable = np.flatnonzero(states[-1] == (rng.random() < 0.5))
        if movable.size and rng.random() < share:
            count = min(movable.size, int(rng.integers(1, 3)))
            flips[rng.choice(movable, count, replace=False)] = True
        states.append(states[-1] ^ flips)
    return np.array(states)


HOMES = {
    "two": make_home([*np.linspace(1000, 1060, 4), *np.linspace(20, 21, 24)], 1.0),
    "three": make_home(
        [*np.linspace(2000, 2060, 5), *np.linspace(200, 212, 9), *np.linspace(14, 15, 20)], 1.0
    ),
    "rae13": synth.ready_home("rae13"),
    "hidden": make_home([8, 9, 3000, 3010, 300, 310, 305], 5.0),
}


@pytest.mark.parametrize("name", HOMES)
@pytest.mark.parametrize("scale", [0.5, 20.0, 300.0])
def test_the_attacker_keeps_the_corrected_bounds(name, scale):
    """Before error correction: 250 releases of each of two series, every hierarchy."""
    home = HOMES[name]
    rng = np.random.default_rng(len(name) + int(scale))
    groups = split(home.powers, home.tolerance)
    attacker = Hierarchical(home, correction="none")
    for length, share in ((5, 0.3), (30, 0.05)):
        states = one_way_series(home, length, share, rng)
        alphas = np.empty((250, len(groups)))
        for i in range(alphas.shape[0]):
            fluctuation = rng.uniform(-0.5, 0.5, length + 1) * home.tolerance
            readings = states @ home.powers + fluctuation + rng.laplace(0, scale, length + 1)
            guess = attacker.predict(readings, initial_state=states[0], rng=rng)
            alphas[i] = [(guess == states)[1:, g].mean() for g in groups]
        counts = (states[1:] != states[:-1]).sum(axis=1)
        found = corrected_groups(home, ContinuousLaplace(scale), length, counts)
        error = 5 * alphas.std(axis=0) / np.sqrt(alphas.shape[0]) + 1e-6
        for group, mean, slack in zip(found, alphas.mean(axis=0), error, strict=True):
            assert group.lower.raw <= mean + slack
            assert group.upper.raw >= mean - slack


def test_the_corrected_bounds_are_not_all_empty():
    home = HOMES["rae13"]
    counts = np.zeros(30, int)
    counts[20] = 1
    found = corrected_groups(home, ContinuousLaplace(0.5), 30, counts)
    assert [round(group.lower.raw, 2) for group in found] == [0.67, 0.66, 0.25, 0.10]
    assert found[0].upper.raw <= 1


def test_the_hidden_hold_their_state():
    home = HOMES["hidden"]
    found = corrected_groups(home, ContinuousLaplace(1.0), 4, np.array([1, 0, 0, 0]))
    assert found[-1].names == ("a0", "a1")
    assert found[-1].lower.raw == pytest.approx(0.5)
    assert found[-1].upper.raw == 1.0


def test_alpha_h_is_the_weighted_mean():
    home = synth.ready_home("rae13")
    epsilon = np.geomspace(0.01, 10, 5)
    for form in ("corrected", "printed", "integral"):
        answer = bounds(home, epsilon, readings=20, hierarchical=True, form=form, max_switches=1)
        sizes = [group.indices.size for group in answer.groups]
        mean = np.average([g.lower.raw for g in answer.groups], axis=0, weights=sizes)
        np.testing.assert_allclose(answer.lower.raw, mean)
        assert sum(sizes) == 13


def test_one_hierarchy_is_theorem_5():
    home = synth.ready_home("similar8")
    for form in ("corrected", "printed", "integral"):
        series = bounds(home, 0.3, readings=20, form=form)
        groups = bounds(home, 0.3, readings=20, hierarchical=True, form=form)
        assert groups.lower.raw == pytest.approx(series.lower.raw, rel=1e-12)
        assert groups.upper.raw == pytest.approx(series.upper.raw, rel=1e-12)
