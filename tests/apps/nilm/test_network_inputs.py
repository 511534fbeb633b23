"""Inputs of the convolutional network: cells, noise, and means that respect the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmeter.apps.nilm.network import (
    DISTRIBUTIONS,
    LAPLACE_SHAPE,
    Cells,
    Encoder,
    Noise,
    centred_mean,
    rolling_minimum,
)
from hushmeter.noise import Gaussian, Laplace, Staircase


@pytest.mark.parametrize(
    ("interval_s", "size", "farthest"),
    [(3.0, 20, 128), (7.0, 8, 256), (60.0, 1, 128), (900.0, 1, 16), (1800.0, 1, 8)],
)
def test_lengths_are_times_and_not_numbers_of_readings(interval_s, size, farthest):
    cells = Cells(interval_s)
    assert cells.size == size
    assert cells.dilations[-1] == farthest
    assert 2 * 3600 <= farthest * size * interval_s <= 4 * 3600
    assert all(width % 2 == 1 for width in cells.means)


@pytest.mark.parametrize("number", range(3))
def test_training_noise_has_unit_variance_and_the_stated_median(number):
    median, sample = DISTRIBUTIONS[number]
    values = sample(np.random.default_rng(3), 400_000)
    assert values.std() == pytest.approx(1.0, abs=0.02)
    assert np.median(np.abs(values)) == pytest.approx(median, abs=0.01)


def test_training_noise_has_the_distribution_of_the_mechanisms():
    known = {
        0: Laplace(1.0, 1000.0, grid=1.0),
        1: Gaussian(1.0, 1e-5, 1000.0, grid=1.0),
        2: Staircase(3.0, 1000.0, grid=1.0),
    }
    for number, mechanism in known.items():
        median, sample = DISTRIBUTIONS[number]
        assert Noise.of(mechanism).shape == pytest.approx(median - LAPLACE_SHAPE, abs=0.01)
        values = np.abs(sample(np.random.default_rng(4), 400_000)) * mechanism.std
        for share in (0.3, 0.9, 0.99):
            assert np.quantile(values, share) == pytest.approx(mechanism.quantile(share), rel=0.05)


def test_noise_is_drawn_within_its_range():
    rng = np.random.default_rng(1)
    drawn = [Noise.draw(2000.0, rng)[0] for _ in range(2000)]
    none = np.mean([noise.std == 0 for noise in drawn])
    assert 0.2 < none < 0.3
    sizes = [noise.std / math.sqrt(2) for noise in drawn if noise.std > 0]
    assert min(sizes) >= 20
    assert max(sizes) <= 2600
    assert Noise.of(None) == Noise(0.0, 0.0)


def test_centred_means_and_minima_repeat_the_ends(rng):
    y = rng.normal(size=(2, 50))
    padded = np.pad(y, ((0, 0), (3, 3)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 7, axis=1)
    np.testing.assert_allclose(centred_mean(y, 7), windows.mean(axis=2))
    np.testing.assert_array_equal(rolling_minimum(y, 7), windows.min(axis=2))
    np.testing.assert_array_equal(centred_mean(y, 1), y)


@pytest.mark.parametrize("interval_s", [6.0, 60.0])
def test_inputs_of_a_run_do_not_depend_on_what_follows_its_end(interval_s, rng):
    pytest.importorskip("torch", reason="needs the extra deep")
    encoder = Encoder(Cells(interval_s), 100.0, 50.0)
    length = 40 * encoder.cells.size
    y = 100 + 50 * rng.normal(size=(1, length))
    longer = np.pad(y, ((0, 0), (0, length)), mode="edge")
    noise = [Noise(30.0, 0.1)]
    short = encoder.encode(y, np.ones(y.shape, bool), noise)
    padded = encoder.encode(longer, np.arange(2 * length)[None] < length, noise)
    np.testing.assert_allclose(padded.coarse[:, :40], short.coarse, atol=1e-5)
    assert padded.mask[0, :, 0].tolist() == [1.0] * 40 + [0.0] * 40
    assert short.coarse.shape[2] == encoder.channels[0]
    assert (short.fine is None) == (interval_s == 60.0)
    if short.fine is not None:
        assert short.fine.shape == (1, length, encoder.channels[1])
