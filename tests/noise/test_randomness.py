from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hushmeter.errors import InputError
from hushmeter.noise.samplers import Streams, release_key

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
