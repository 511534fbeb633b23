"""Algorithm 3: staircase noise gives ε-differential privacy with less noise than Laplace."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paper.likelihood_ratios import (
    check_certified_ratios,
    epsilons,
    protected_inputs,
    worst_log_ratio,
)

from hushmeter.errors import InputError
from hushmeter.noise import Laplace, Staircase
from hushmeter.noise.table_sampler import FlatStaircase


def height(magnitude: int, steps: int, inner: int) -> int:
    """How many factors e^(−ε) the mass of a magnitude carries."""
    stair, place = divmod(magnitude, steps)
    return stair + (place >= inner)


@given(protected_inputs(Staircase))
@settings(max_examples=300, deadline=None)
def test_no_output_separates_protected_inputs_by_more_than_epsilon(drawn):
    mechanism, distances, _ = drawn
    here, there = (height(d, mechanism.steps, mechanism.inner) for d in distances)
    # The normalising constant is the same for both inputs: the ratio is e^(ε·(there − here)).
    assert abs(here - there) <= 1


@given(epsilons.filter(lambda e: e > 1), st.integers(1, 40), st.integers(-40, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_certified_masses_keep_the_ratio(epsilon, steps, at, data):
    inner = data.draw(st.integers(1, steps))
    check_certified_ratios(FlatStaircase(epsilon, steps, inner), epsilon, steps, at)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_exhaustive_ratio_for_small_sensitivities(epsilon, steps):
    mechanism = Staircase(epsilon, steps, on_grid=True)
    assert worst_log_ratio(mechanism, steps) == pytest.approx(float(epsilon))


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
