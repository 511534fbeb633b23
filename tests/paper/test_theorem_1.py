"""Theorem 1: the error of the relaxed solution, and the constant C(P)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmeter.appliance import Appliance
from hushmeter.attack.one_shot import solve_relaxed
from hushmeter.home import Home
from hushmeter.theory.one_shot import printed_switch_error, recovery_constant, switch_error


def make_home(powers, tolerance):
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


def test_a_single_row_has_no_restricted_isometry(rng):
    """δ_S is 1 for S ≥ 2: the Gram matrix of two columns of one row has a zero eigenvalue."""
    for _ in range(100):
        powers = rng.uniform(10, 4000, 6)
        row = powers / np.linalg.norm(powers)
        for size in (2, 3, 4):
            members = rng.choice(6, size, replace=False)
            eigenvalues = np.linalg.eigvalsh(np.outer(row[members], row[members]))
            isometry = max(1 - eigenvalues[0], eigenvalues[-1] - 1)
            assert isometry == pytest.approx(1.0)


def test_the_constant_as_printed():
    powers = np.array([30.0, 40.0])
    for three, four in ((0.0, 0.0), (0.2, 0.3), (1.0, 1.0)):
        printed = 4 / ((math.sqrt(3 * (1 - four)) - math.sqrt(1 + three)) * 50.0)
        found = recovery_constant(powers, isometry_3u=three, isometry_4u=four)
        assert found == pytest.approx(printed, rel=1e-14)
    assert recovery_constant(powers, isometry_3u=1, isometry_4u=1) == pytest.approx(
        -2 * math.sqrt(2) / 50
    )


def test_the_papers_value_needs_isometry_constants_of_zero():
    powers = np.full(8, 364.27 / math.sqrt(8))
    assert recovery_constant(powers) == pytest.approx(0.015, abs=1e-6)


def test_the_printed_bound_fails():
    """120 … 134 W, the smallest switches: the error is 1.89 (l1), 1.34 (l2), not C·δ = 0.008."""
    home = make_home(range(120, 136, 2), 0.5)
    truth = np.eye(8)[0]
    shares = solve_relaxed(home.powers, [120.0], home.tolerance)[0]
    assert np.linalg.norm(shares - truth) > 1.3
    assert printed_switch_error(home) == pytest.approx(recovery_constant(home.powers) * 0.5)
    assert printed_switch_error(home) < 0.01
    assert np.abs(shares - truth).sum() <= switch_error(home, 1)


def test_no_error_proportional_to_the_tolerance_can_hold():
    powers = range(120, 136, 2)
    truth = np.eye(8)[0]
    errors = [
        np.linalg.norm(solve_relaxed(list(powers), [120.0], tolerance)[0] - truth)
        for tolerance in (1.0, 1e-2, 1e-4)
    ]
    assert errors[-1] == pytest.approx(errors[0], abs=0.01)


def test_0_of_40000_violate_what_holds(rng):
    """Any powers, tolerance, directions and noise, and fluctuation within the tolerance."""
    violations, closest = 0, np.inf
    for _ in range(400):
        n = int(rng.integers(1, 13))
        powers = 100 * np.exp(rng.choice([0.05, 1.0, 3.0]) * rng.uniform(-1, 1, n))
        home = make_home(powers, float(np.exp(rng.uniform(-4, 4))))
        on = rng.random(n) < rng.choice([0.1, 0.4, 0.8])
        signs = on * (rng.choice([-1, 1], n) if rng.random() < 0.3 else 1)
        noise = rng.laplace(0, np.exp(rng.uniform(-2, 7)), 100)
        jumps = np.abs(signs @ powers + noise + rng.uniform(-1, 1, 100) * home.tolerance)
        errors = np.abs(solve_relaxed(powers, jumps, home.tolerance) - on)
        bound = switch_error(home, int(on.sum()), noise)
        violations += int((errors.sum(axis=1) > bound + 1e-9).sum())
        violations += int((np.linalg.norm(errors, axis=1) > np.sqrt(bound) + 1e-9).sum())
        closest = min(closest, float((bound - errors.sum(axis=1)).min()))
    assert violations == 0
    assert closest < 1e-3
