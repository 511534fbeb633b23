from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from hushmeter.errors import InputError
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.samplers import (
    BASE,
    DigitSampler,
    OneTable,
    StairSampler,
    Streams,
    _fits_one_table,
    gaussian_fits,
    laplace_digits,
    laplace_sampler,
    staircase_digits,
    staircase_sampler,
)
from hushmeter.noise.table_sampler import (
    MAX_CELL_BITS,
    WORD_BITS,
    StairClass,
    TwoSidedGeometric,
    floor_masses,
)

KEY = bytes(range(32))


def draw(sampler, size, key=KEY):
    out = np.empty(size, dtype=sampler.dtype)
    sampler.fill(Streams(key, sampler.planes, size), 0, out)
    return out.astype(np.int64)


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(0.5, 10.0),
        Laplace(3, 1),
        Laplace(1, 1200),
        Staircase(0.5, 10.0),
        Staircase(3, 2),
        Staircase(1, 900),
        Staircase(20, 40_000),
        Gaussian(1, 1e-6, 3.0),
        Gaussian(8, 1e-3, 1, on_grid=True),
    ],
    ids=repr,
)
def test_two_million_draws_have_the_exact_distribution(mechanism, chi_square):
    assert chi_square(mechanism.sample(2_000_000, key=KEY), mechanism.pmf) > 1e-6


def test_the_check_detects_a_distribution_one_per_cent_off(chi_square):
    samples = Laplace(0.5, 10.0).sample(2_000_000, key=KEY)
    assert chi_square(samples, Laplace("0.505", 10.0).pmf) < 1e-6


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("words", [(32, 64), (8, 64), (8, 16)])
def test_combined_digits_have_the_distribution(digits, words, chi_square):
    sampler = DigitSampler(Fraction(1, 30), digits, 7, *words)
    size = 300_000 if words[1] == 64 else 30_000
    mechanism = Laplace(1, 30, on_grid=True)
    assert chi_square(draw(sampler, size), mechanism.pmf) > 1e-6


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("word_bits", [32, 8])
@pytest.mark.parametrize("inner", [1, 4, 9])
def test_combined_stairs_have_the_distribution(digits, word_bits, inner, chi_square):
    law = StairClass(Fraction(1, 5), 9, inner, 3 ** (digits - 1))
    samples = draw(StairSampler(law, digits, 3, word_bits, 64), 300_000)
    mechanism = Staircase(Fraction(1, 5), 9, on_grid=True)
    mechanism.inner = inner
    assert chi_square(samples, mechanism.pmf) > 1e-6


def test_a_wide_stair_refuses_words_and_stays_uniform():
    steps = (1 << 21) - 3
    law = StairClass(Fraction(1), steps, steps)
    samples = draw(StairSampler(law, 1, BASE, 32, 64), 1_000_000)
    places = np.mod(np.abs(samples), steps) / steps
    counts = np.bincount((places * 64).astype(int), minlength=64)
    assert ((counts - 15625) ** 2 / 15625).sum() < 150


def test_large_scales_have_the_right_quantiles_and_low_digits():
    mechanism = Laplace(1, 800_000, on_grid=True)
    samples = mechanism.sample(1_000_000, key=KEY)
    for p in (0.1, 0.5, 0.9, 0.999):
        share = np.mean(np.abs(samples) <= mechanism.quantile(p))
        assert share == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / samples.size))
    counts = np.bincount(samples % 64, minlength=64)
    assert ((counts - 15625) ** 2 / 15625).sum() < 150


def test_the_number_of_digits_grows_with_the_scale():
    assert [laplace_digits(Fraction(1, s)) for s in (20, 1400, 8 * 10**5, 10**8)] == [1, 1, 2, 3]
    assert laplace_digits(Fraction(1, 10**12)) > 3
    assert [staircase_digits(Fraction(1, s)) for s in (20, 10**5, 10**8)] == [1, 2, 3]
    assert gaussian_fits(6000)
    assert not gaussian_fits(9000)
    assert gaussian_fits(0.01)


@pytest.mark.parametrize("digits", [1, 3])
@pytest.mark.parametrize("number_of", [laplace_digits, staircase_digits])
def test_the_widest_noise_of_each_number_of_digits_nearly_fills_its_table(number_of, digits):
    scale = bisect_right(range(1, 10**12), digits, key=lambda one: number_of(Fraction(1, one)))
    rate, base = Fraction(1, scale), BASE ** (digits - 1)
    laplace = number_of is laplace_digits
    law = TwoSidedGeometric(rate, base) if laplace else StairClass(rate, 1000, 499, base)
    assert 0.88 < len(floor_masses(law, WORD_BITS)) / (1 << MAX_CELL_BITS) < 1


def test_a_staircase_has_one_table_if_its_likely_stairs_fit():
    """Stairs as likely as a word of 32 bits fill the table, and those of 48 bits the list of R."""
    rng = np.random.default_rng(0)
    chosen = []
    for epsilon in np.geomspace(0.002, 4, 150).tolist():
        steps = int(np.exp(rng.uniform(0, math.log(30_000))))
        mechanism = Staircase(epsilon, steps, on_grid=True)
        bits = -mechanism.log_pmf(steps * np.arange(60 / epsilon)) / math.log(2)
        held, listed = (2 * steps * int((bits <= most).sum()) for most in (32, 48))
        chosen.append(_fits_one_table(epsilon, steps, mechanism.inner))
        assert chosen[-1] == (0 < held < 1 << 16 and listed < 4 << 16)
    assert 0.2 < np.mean(chosen) < 0.8


def test_a_stair_wider_than_the_words_is_refused():
    with pytest.raises(InputError, match="too wide for 8-bit words"):
        StairSampler(StairClass(Fraction(1), 257, 100), 1, BASE, 8, 64)


def test_samplers_are_cached_and_choose_their_form():
    assert laplace_sampler(Fraction(1, 22)) is laplace_sampler(Fraction(1, 22))
    assert isinstance(staircase_sampler(Fraction(1), 100, 38), OneTable)
    assert isinstance(staircase_sampler(Fraction(1), 100_000, 38_000), StairSampler)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100 * 14_400), Fraction(1, 400_000)])
def test_a_wide_staircase_is_drawn_by_stairs(epsilon):
    """A kettle hidden over a day at ε = 0.01: no outcome weighs as much as one word of a table."""
    mechanism = Staircase(epsilon, 2000)
    assert isinstance(mechanism._sampler(), StairSampler)
    samples = mechanism.sample(100_000, key=KEY)
    for p in (0.1, 0.5, 0.9):
        share = np.mean(np.abs(samples) <= mechanism.quantile(p))
        assert share == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / samples.size))


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(1, 5), Laplace(1, 800_000), Staircase(1, 5), Staircase(1, 100_000)],
    ids=repr,
)
def test_blocks_leave_no_trace_in_any_sampler(mechanism):
    sampler = mechanism._sampler()
    whole = draw(sampler, 1000)
    streams, pieces, start = Streams(KEY, sampler.planes, 600), [], 0
    for size in (600, 3, 397):
        out = np.empty(size, dtype=sampler.dtype)
        sampler.fill(streams, start, out)
        pieces.append(out)
        start += size
    assert np.array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("mechanism", [Laplace(1, 3), Staircase(1, 3)], ids=repr)
def test_every_output_is_reachable_from_every_input_nearby(mechanism):
    reach = 5 * mechanism.steps
    seen = set(np.unique(mechanism.sample(3_000_000, key=KEY)).tolist())
    assert set(range(-reach, reach + 1)) <= seen


def test_different_keys_are_uncorrelated():
    mechanism = Laplace(0.5, 10)
    first = mechanism.sample(1_000_000, key=KEY)
    second = mechanism.sample(1_000_000, key=bytes(32))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5e-3
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 5e-3
