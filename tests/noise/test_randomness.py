from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hushmeter.errors import InputError
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.samplers import LabelledStreams, Streams, release_key

KEY = bytes(range(32))


def keystream(counter: int, size: int) -> bytes:
    cipher = Cipher(algorithms.AES(KEY), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
    return cipher.update(bytes(size))


def test_fast_words_follow_the_documented_layout():
    streams = Streams(KEY, planes=2, block=64)
    first = streams.words(1, 64).copy()
    second = streams.words(1, 10).copy()
    expected = np.frombuffer(keystream(1 << 96, 4 * 74), dtype="<u4")
    assert np.array_equal(np.concatenate([first, second]), expected)


def test_slow_bits_follow_the_documented_layout():
    streams = Streams(KEY, planes=1, block=4)
    draw = (1 << 40) + 12345
    counter = (((1 << 31) + 3) << 96) + (draw << 32)
    expected = int.from_bytes(keystream(counter, 48), "big")
    for bits in (1, 100, 128, 129, 256, 384):
        assert streams.slow_bits(3, draw, bits) == expected >> (384 - bits)
    blocks = streams.slow_blocks(3, np.array([draw - 1, draw]), 2)
    assert blocks[1].tobytes() == keystream(counter + 2, 16)


def test_block_sizes_leave_no_trace():
    small, large = Streams(KEY, 1, block=7), Streams(KEY, 1, block=100)
    pieces = [small.words(0, n).copy() for n in (7, 1, 5, 7, 7, 3)]
    assert np.array_equal(np.concatenate(pieces), large.words(0, 30))


def test_keys_come_from_the_system_a_seed_a_generator_or_the_caller():
    assert release_key() != release_key()
    assert release_key()[1] is False
    assert release_key(rng=7) == release_key(rng=np.int64(7))
    assert release_key(rng=7)[0] != release_key(rng=8)[0]
    assert release_key(rng=7)[1] is True
    assert release_key(key=KEY) == (KEY, False)
    generator = np.random.default_rng(1)
    assert release_key(rng=generator) != release_key(rng=generator)
    assert release_key(rng=np.random.default_rng(1)) == release_key(rng=np.random.default_rng(1))


@pytest.mark.parametrize(
    "arguments",
    [{"key": b"short"}, {"key": "x" * 32}, {"rng": 1.5}, {"rng": True}, {"rng": 1, "key": KEY}],
)
def test_wrong_keys_and_seeds_are_refused(arguments):
    with pytest.raises(InputError):
        release_key(**arguments)


def encrypt(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def labelled_bits(label: bytes, value: int, plane: int, extension: int = 0) -> bytes:
    """The documented bits of one value, computed with whole numbers of Python."""
    own = hmac.digest(KEY, b"label", hashlib.sha256)
    mixed = int.from_bytes(encrypt(own, label), "big") ^ (value % (1 << 64))
    tag = encrypt(own, mixed.to_bytes(16, "big"))
    use = plane.to_bytes(4, "big") + extension.to_bytes(4, "big")
    return encrypt(hmac.digest(KEY, use, hashlib.sha256), tag)


LABELS = np.random.default_rng(1).integers(0, 256, (300, 16), dtype=np.uint8)
VALUES = np.random.default_rng(2).integers(-(1 << 40), 1 << 40, 300)


def test_the_bits_of_labelled_values_follow_the_documented_layout():
    streams = LabelledStreams(KEY, LABELS, VALUES)
    facts = list(zip((label.tobytes() for label in LABELS), VALUES.tolist(), strict=True))
    for plane in (0, 2):
        words = np.concatenate([streams.words(plane, 100), streams.words(plane, 200)])
        wanted = [int.from_bytes(labelled_bits(*one, plane)[:4], "little") for one in facts]
        assert words.tolist() == wanted
    for extension in (0, 3):
        found = streams.slow_blocks(1, np.array([7, 211]), extension)
        wanted = [labelled_bits(*facts[n], (1 << 31) + 1, extension) for n in (7, 211)]
        assert [block.tobytes() for block in found] == wanted


@pytest.mark.parametrize(
    "noise",
    [Laplace(1, 10), Laplace("1/5000", 10), Staircase(1, 30_000), Gaussian(1, 1e-6, 50)],
    ids=["one table", "digits", "stairs", "gaussian"],
)
def test_noise_of_a_label_depends_on_nothing_else(noise):
    order = np.random.default_rng(3).permutation(300)[:200]
    whole = noise.sample_for(LABELS, VALUES, key=KEY)
    assert np.array_equal(noise.sample_for(LABELS[order], VALUES[order], key=KEY), whole[order])
    alone = [noise.sample_for(LABELS[n : n + 1], VALUES[n : n + 1], key=KEY)[0] for n in range(20)]
    assert alone == whole[:20].tolist()
    for other in (
        noise.sample_for(LABELS, VALUES + 1, key=KEY),
        noise.sample_for(LABELS[::-1], VALUES, key=KEY),
        noise.sample_for(LABELS, VALUES, key=bytes(32)),
    ):
        assert (other == whole).mean() < 0.2


@pytest.mark.parametrize("noise", [Laplace(1, 10), Laplace("1/5000", 10), Staircase(1, 30_000)])
def test_labelled_noise_has_its_distribution(noise):
    """The share of outcomes up to a threshold is that of the distribution, for many thresholds."""
    count = 200_000
    times = np.arange(count).astype(">i8")
    labels = np.stack([np.zeros_like(times), times], axis=1).view(np.uint8)
    drawn = noise.sample_for(labels, np.full(count, 5), key=KEY)
    for cut in np.quantile(drawn, [0.01, 0.2, 0.5, 0.8, 0.99]).astype(int):
        share = float(noise.cdf(int(cut)))
        assert abs((drawn <= cut).mean() - share) < 5 * np.sqrt(share * (1 - share) / count)


def test_an_empty_table_needs_no_noise():
    assert Laplace(1, 10).sample_for(LABELS[:0], VALUES[:0], key=KEY).size == 0
