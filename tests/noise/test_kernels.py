from __future__ import annotations

import numpy as np
import pytest

from hushmeter.noise import arrays
from hushmeter.noise import kernels as loops
from hushmeter.noise.table_sampler import class_layout


@pytest.fixture(params=[loops, arrays], ids=["compiled", "NumPy"])
def kernels(request):
    return request.param


def test_alias_table_holds_arbitrary_weights(kernels):
    rng = np.random.default_rng(0)
    for cells in (2, 16, 1024):
        cell_bits = 32 - int(np.log2(cells))
        weights = rng.multinomial(1 << 32, rng.dirichlet(np.full(cells - 1, 0.3)))
        packed = kernels.alias_table(weights, cells, cell_bits)
        mask = (1 << cell_bits) - 1
        threshold = (packed & np.uint32(mask)).astype(np.int64)
        held = threshold.copy()
        np.add.at(held, (packed >> np.uint32(cell_bits)).astype(int), (1 << cell_bits) - threshold)
        assert np.array_equal(held[: cells - 1], weights)
        assert held[cells - 1 :].sum() == 0


def test_digits_append_like_whole_numbers(kernels):
    leading = np.array([0, 3, -1, -2, -5], dtype=np.int32)
    digit = np.array([4, 0, 0, 6, 2], dtype=np.int32)
    out = np.empty(5)
    kernels.append_digit(leading, digit, 7.0, out)
    plain = [
        v * 7 + d if v >= 0 else -1 - ((-1 - v) * 7 + d)
        for v, d in zip(leading.tolist(), digit.tolist(), strict=True)
    ]
    assert out.tolist() == plain


@pytest.mark.parametrize(
    ("steps", "inner", "word_bits"),
    [(9, 4, 32), (9, 4, 8), (5, 5, 8), (6, 1, 8), (1, 1, 8), (255, 100, 8), (1 << 21, 70_000, 32)],
)
def test_places_on_stairs_agree_with_whole_number_arithmetic(kernels, steps, inner, word_bits):
    rng = np.random.default_rng(1)
    starts, widths = class_layout(steps, inner)
    size = 20_000
    classes = rng.integers(0, 40, size).astype(np.int32)
    classes = classes[np.array(widths)[classes & 3] > 0]
    words = rng.integers(0, 1 << word_bits, classes.size, dtype=np.uint32)
    numbers, out = (classes >> 2).astype(float), np.empty(classes.size)
    refused = kernels.place_on_stairs(classes, words, word_bits, steps, inner, numbers, out)
    assert refused == np.isnan(out).sum()
    for c, word, value in zip(classes.tolist(), words.tolist(), out.tolist(), strict=True):
        width = widths[c & 3]
        place, low = divmod(word * width, 1 << word_bits)
        if low < (1 << word_bits) % width:
            assert np.isnan(value)
        else:
            magnitude = starts[c & 3] + (c >> 2) * steps + place
            assert value == (magnitude if c & 2 == 0 else -magnitude)


def test_large_values_and_no_numbers_are_counted(kernels):
    values = np.array([0.0, -1.0, 10.0, -10.5, np.nan, -np.inf, np.inf, -np.nan])
    limit = int(np.float64(10.0).view(np.int64))
    assert kernels.count_large(values.view(np.int64), limit) == 6


def test_noise_is_added_to_the_rounded_clamped_reading(kernels):
    readings = np.array([-5.0, 0.2, 0.25, 99.0])
    out = np.empty(4)
    kernels.round_and_add(readings, 2.0, 0.0, 10.0, np.array([1, 2, 3, -4], dtype=np.int32), out)
    assert out.tolist() == [1.0, 2.0, 4.0, 16.0]


def test_both_forms_build_the_same_table_and_look_up_the_same_outcomes():
    rng = np.random.default_rng(3)
    weights = rng.multinomial(1 << 32, rng.dirichlet(np.full(900, 0.3)))
    packed = loops.alias_table(weights, 1024, 22)
    assert np.array_equal(packed, arrays.alias_table(weights, 1024, 22))
    words = rng.integers(0, 1 << 32, 50_000, dtype=np.uint32)
    found = [np.empty(words.size, dtype=np.int32) for _ in range(2)]
    sentinel = int(np.argmax(weights))
    missed = [
        form.lookup(words, packed, 22, sentinel, 450, out)
        for form, out in zip((loops, arrays), found, strict=True)
    ]
    assert missed[0] == missed[1] == (found[0] == sentinel - 450).sum() > 0
    assert np.array_equal(*found)
