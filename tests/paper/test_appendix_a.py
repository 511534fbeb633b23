"""Appendix A: more noise, fewer profiles that stay, on seventeen real homes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hushmeter.apps.behaviour import measure_stability, noise_levels, read_profiles, stay_bounds
from hushmeter.apps.behaviour.stability import PAPER_SCALES, band

FILE = "homes/citylearn2022_fontana_17homes_1h_1year.parquet"


@pytest.fixture(scope="module")
def homes(shared_data):
    path = shared_data / FILE
    if not path.is_file():
        pytest.skip(f"no hourly homes at {path}")
    return read_profiles(path)


@pytest.fixture(scope="module")
def result(homes):
    """Every fourth day of every home: about half as many as the paper's 40 users × 3 months."""
    return measure_stability(homes.values[::4], noise_levels(), k=30, repeats=5, bound_rows=100)


def test_the_papers_scales():
    assert PAPER_SCALES == (0.01, 0.05, 0.1, 0.5)


def test_the_homes_are_read_as_days(homes):
    assert homes.values.shape == (17 * 364, 24)
    assert np.unique(homes.ids).size == 17


def test_higher_lambda_gives_lower_stability(result):
    """Fig. 8: the bands of one λ lie wholly above those of the next."""
    shares = [band(level.stay) for level in result.levels]
    for (_, low, _), (_, _, high) in pairwise(shares):
        assert low > high
    stable = [level.stable.size for level in result.levels]
    assert stable == sorted(stable, reverse=True)
    assert stable[0] == 30


def test_the_partition_blurs_with_it(result):
    rand = [level.rand_index.mean() for level in result.levels]
    assert (np.diff(rand) < 0).all()


def test_the_bound_the_paper_promises_holds(result, homes):
    """Each profile's share of stays is no more than its upper bound, within sampling error."""
    days = homes.values[::4]
    for level in result.levels:
        staying, rows = level.staying, level.rows
        noisy = level.level.perturb(np.repeat(days[rows], 400, axis=0), rng=1)
        after = result.model.predict(noisy).reshape(rows.size, 400)
        share = (after == staying.labels[:, None]).mean(axis=1)
        error = 4.5 * np.sqrt(np.maximum(staying.upper * (1 - staying.upper), 1 / 400) / 400)
        assert (share <= staying.upper + error).all()
        error = 4.5 * np.sqrt(np.maximum(staying.lower * (1 - staying.lower), 1 / 400) / 400)
        assert (share >= staying.lower - error).all()


def test_the_bound_is_near_the_truth_for_little_noise(result, homes):
    staying = stay_bounds(homes.values[::40], result.centres, 0.05)
    assert (staying.upper - staying.lower).mean() < 0.05
