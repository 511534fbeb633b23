"""The library's composition against an independent one: exact convolution on the lattice of losses.

For each mechanism the loss of an output is a whole number times a fixed unit, so the losses of
several values can be convolved without any approximation. The library must never state less.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest

from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.staircase import worst_curve
from hushmeter.privacy import compose, compose_change
from hushmeter.privacy.sensitivity import Change, in_steps

DELTAS = (1e-2, 1e-5)
CASES = 100


def exact_losses(mechanism, steps):
    """Lowest loss and probabilities of one value's losses, in units of `loss_unit`."""
    reach = _reach(mechanism) + steps
    i = np.arange(-reach, reach + 1)
    if isinstance(mechanism, Laplace):
        units = np.abs(i - steps) - np.abs(i)
    elif isinstance(mechanism, Staircase):
        units = _height(mechanism, i - steps) - _height(mechanism, i)
    else:
        units = steps * (steps - 2 * i)
    lowest = int(units.min())
    return lowest, np.bincount(units - lowest, weights=mechanism.pmf(i))


def loss_unit(mechanism):
    if isinstance(mechanism, Laplace):
        return float(mechanism.rate)
    if isinstance(mechanism, Staircase):
        return mechanism.epsilon
    return 1 / (2 * mechanism.sigma_steps**2)


def _reach(mechanism):
    return math.ceil(mechanism.quantile(1 - 1e-13) / mechanism.grid) + 2 * mechanism.steps


def _height(mechanism, i):
    stair, place = np.divmod(np.abs(i), mechanism.steps)
    return stair + (place >= mechanism.inner)


def exact_delta(mechanism, steps, epsilon):
    """δ(ε) of values that change by the given numbers of steps, for one ε or several."""
    parts = [exact_losses(mechanism, step) for step in steps]
    lowest = sum(low for low, _ in parts)
    masses = reduce(np.convolve, [part for _, part in parts])
    losses = loss_unit(mechanism) * (lowest + np.arange(masses.size))
    return -np.expm1(np.minimum(np.subtract.outer(epsilon, losses), 0.0)) @ masses


def random_mechanism(name, rng):
    sensitivity = int(rng.integers(1, 12))
    epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(4.0))))
    if name == "laplace":
        return Laplace(epsilon, sensitivity, on_grid=True)
    if name == "staircase":
        return Staircase(epsilon, sensitivity, on_grid=True)
    mechanism = Gaussian(1, 1e-5, sensitivity, on_grid=True)
    # From noise below one grid step to noise that is accounted for as continuous.
    mechanism.sigma_steps = float(np.exp(rng.uniform(np.log(0.3), np.log(90.0))))
    return mechanism


def check(mechanism, found, steps, delta):
    """The stated ε and odds are never below the exact ones."""
    odds = (1 + exact_delta(mechanism, steps, 0.0)) / 2
    assert found.odds >= odds - 1e-12
    assert exact_delta(mechanism, steps, found.epsilon) <= delta * (1 + 1e-9) + 1e-12
    return found.odds - odds


@pytest.mark.parametrize("name", ["laplace", "staircase", "gaussian"])
def test_composition_is_never_below_the_exact_one(name):
    rng = np.random.default_rng(7)
    gaps = []
    for case in range(CASES):
        mechanism = random_mechanism(name, rng)
        most = 5 if name == "gaussian" else 25
        steps = rng.integers(1, most, rng.integers(1, 4)).tolist()
        delta = DELTAS[case % 2]
        found = compose(mechanism, [(step, 1) for step in steps], delta)
        gaps.append(check(mechanism, found, steps, delta))
    # It is not far above either.
    assert max(gaps) < 0.01


@pytest.mark.parametrize("name", ["laplace", "staircase", "gaussian"])
def test_no_offset_of_a_run_loses_more_than_is_stated(name):
    """Runs of random power and length, at random offsets, on a grid of 1 W."""
    rng = np.random.default_rng(11)
    for _ in range(CASES):
        mechanism = random_mechanism(name, rng)
        mechanism.on_grid = False
        watts = float(rng.uniform(0.3, 4 if name == "gaussian" else 20))
        seconds = float(rng.uniform(0.1, 2.6))
        found = compose_change(mechanism, Change("x", watts, seconds, 1.0), DELTAS[0])
        for offset in rng.uniform(0, 1, 4):
            check(mechanism, found, _moved(watts, seconds, offset), DELTAS[0])


@pytest.mark.parametrize("sensitivity", [3, 5, 8])
@pytest.mark.parametrize("seconds", [0.5, 1.85])
def test_the_curve_of_the_staircase_covers_every_division_at_every_epsilon(sensitivity, seconds):
    """All divisions of runs of 4 to 16 W between the first and the last value, one by one."""
    mechanism = Staircase(0.19, sensitivity, on_grid=True)
    mechanism.on_grid = False
    loosest = 0.0
    for watts in np.arange(4.1, 16.5, 0.5).tolist():
        moved = in_steps(mechanism, Change("x", watts, seconds, 1.0))
        curve = worst_curve(mechanism, moved)
        offsets = np.linspace(0, 1, 8 * math.ceil(watts), endpoint=False)
        divisions = {tuple(_moved(watts, seconds, offset)) for offset in offsets}
        epsilons = mechanism.epsilon * np.arange(curve.size)
        gaps = curve - np.max([exact_delta(mechanism, one, epsilons) for one in divisions], axis=0)
        assert gaps.min() >= -1e-12
        loosest = max(loosest, gaps.max())
    # It is not far above either.
    assert loosest < 0.02


def test_a_run_of_many_stairs_is_bounded_at_every_division():
    """Changes of many times the sensitivity have too many knots to search one by one."""
    mechanism = Staircase(0.1, 3, on_grid=True)
    mechanism.on_grid = False
    change = Change("x", 40.0, 1.3, 1.0)
    found = compose_change(mechanism, change, DELTAS[0])
    gaps = [
        check(mechanism, found, _moved(40.0, 1.3, offset), DELTAS[0])
        for offset in np.linspace(0, 0.99, 25)
    ]
    assert min(gaps) < 0.02


def _moved(watts, seconds, offset):
    """Largest change of each value in grid steps: rounding can move it to the next step."""
    edges = np.arange(math.ceil(offset + seconds) + 1)
    covered = np.diff(np.clip(edges, offset, offset + seconds))
    return [math.ceil(watts * part) for part in covered if part > 0]


def test_no_shape_of_a_run_with_a_stated_energy_loses_more_under_the_staircase():
    """Random shapes within the power and the energy, over more values than the energy fills."""
    rng = np.random.default_rng(13)
    for _ in range(CASES):
        mechanism = random_mechanism("staircase", rng)
        mechanism.on_grid = False
        watts, share = float(rng.uniform(1, 15)), float(rng.uniform(0.2, 0.9))
        change = Change("x", watts, 3.0, 1.0, energy=3.0 * share * watts)
        found = compose_change(mechanism, change, DELTAS[0])
        for spread in (0.3, 1.0, 10.0):
            parts = rng.dirichlet(np.full(4, spread)) * change.l1
            while parts.max() > watts:
                parts = np.minimum(parts, watts)
                parts += (change.l1 - parts.sum()) * (watts - parts) / (watts - parts).sum()
            moved = [math.ceil(part) for part in parts if part > 0]
            check(mechanism, found, moved, DELTAS[0])
