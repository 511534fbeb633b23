"""Algorithm 3: staircase noise gives ε-differential privacy with less noise than Laplace."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmeter.errors import InputError
from hushmeter.noise import Laplace, Staircase
from hushmeter.noise.parameters import to_steps
from hushmeter.noise.table_sampler import FlatStaircase, exp_minus

epsilons = st.fractions(Fraction(1, 1000), 20, max_denominator=1000)
powers = st.decimals("0.1", "5000", places=2)
grids = st.sampled_from(["0.01", "0.1", "0.25", "1", "5", "1/3", "7"])
readings = st.floats(-20_000, 20_000)


def height(magnitude: int, steps: int, inner: int) -> int:
    """How many factors e^(−ε) the mass of a magnitude carries."""
    stair, place = divmod(magnitude, steps)
    return stair + (place >= inner)


@given(epsilons, powers, grids, readings, st.floats(-1, 1), st.integers(-(10**6), 10**6))
@settings(max_examples=300, deadline=None)
def test_no_output_tells_protected_inputs_apart_by_more_than_epsilon(
    epsilon, sensitivity, grid, reading, part, output
):
    mechanism = Staircase(epsilon, sensitivity, grid)
    other = reading + part * float(sensitivity)
    assume(abs(Fraction(reading) - Fraction(other)) <= Fraction(sensitivity))
    places = (to_steps(x, mechanism.exact_grid) for x in (reading, other))
    here, there = (height(abs(output - p), mechanism.steps, mechanism.inner) for p in places)
    # The normalising constant is the same for both inputs: the ratio is e^(ε·(there − here)).
    assert abs(here - there) <= 1


@given(epsilons.filter(lambda e: e > 1), st.integers(1, 40), st.integers(-40, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_certified_masses_keep_the_ratio(epsilon, steps, at, data):
    inner = data.draw(st.integers(1, steps))
    low, high = FlatStaircase(epsilon, steps, inner).masses(256, 64)
    growth = exp_minus(epsilon, 256)

    def index(value):
        return 2 * value if value >= 0 else -2 * value - 1

    for shift in {1, steps // 2, steps, -steps}:
        first, second = index(at), index(at + shift)
        if max(first, second) < len(low):
            assert (low[first] * growth.low) >> 256 <= high[second]


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_exhaustive_ratio_for_small_sensitivities(epsilon, steps):
    mechanism = Staircase(epsilon, steps, on_grid=True)
    k = np.arange(-12 * steps, 12 * steps + 1)
    worst = 0.0
    for shift in range(-steps, steps + 1):
        ratio = mechanism.log_pmf(k) - mechanism.log_pmf(k + shift)
        worst = max(worst, float(np.abs(ratio).max()))
    assert worst == pytest.approx(float(epsilon))


def test_one_step_more_than_protected_breaks_the_claim():
    mechanism = Staircase(1, 10, on_grid=True)
    heights = [height(m, mechanism.steps, mechanism.inner) for m in range(40)]
    assert max(b - a for a, b in zip(heights, heights[10:], strict=False)) == 1
    assert max(b - a for a, b in zip(heights, heights[11:], strict=False)) == 2


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.1, 0.9996), (1.0, 0.960), (5.0, 0.413)])
def test_mean_size_against_laplace(epsilon, ratio):
    staircase = Staircase(epsilon, 10, grid="0.001", on_grid=True)
    laplace = Laplace(epsilon, 10, grid="0.001", on_grid=True)
    assert staircase.mean_abs / laplace.mean_abs == pytest.approx(ratio, abs=6e-4)
    closed = 10 * math.exp(epsilon / 2) / math.expm1(epsilon)
    assert staircase.mean_abs == pytest.approx(closed, rel=1e-3)
    assert staircase.scale == staircase.mean_abs


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("steps", [1, 2, 11, 100])
def test_the_inner_width_is_the_best_whole_number(epsilon, steps):
    mechanism = Staircase(epsilon, steps, on_grid=True)
    sizes = []
    for inner in range(1, steps + 1):
        mechanism.inner = inner
        sizes.append(mechanism.mean_abs)
    best = Staircase(epsilon, steps, on_grid=True)
    assert best.mean_abs == pytest.approx(min(sizes), rel=2e-3)
    assert 1 <= best.inner <= steps


def test_it_protects_one_reading_only():
    with pytest.raises(InputError, match="one reading"):
        Staircase(1, 10, touches=2)
