"""Random bits: one AES-256-CTR key stream per release, with a fixed place for every draw.

A key of 32 bytes determines every bit. The 128-bit counter block of the cipher consists of

    plane (32 bits) | draw (64 bits) | extension (32 bits)        big-endian

*Plane* p contains the fast words: word i, 32 bits little-endian, belongs to draw i and is at byte
4·i of the key stream that starts at counter p·2^96. *Plane* 2^31 + p contains the additional bits
that draw i needs in rare cases: 128 at a time, most significant first, at draw = i and
extension = 0, 1, 2, … The two kinds of planes never overlap, the bits of a draw do not depend on
other draws, and the output does not depend on the size of a block.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hushmeter.errors import InputError

KEY_BYTES = 32
BLOCK = 1 << 15
"""Draws per block: 128 KiB of key stream, so that words, table and noise stay in the cache."""

_SLOW_PLANES = 1 << 31
_SEED_CONTEXT = b"hushmeter simulation seed "

Words = NDArray[np.uint32]


class Streams:
    """The random bits of one release."""

    def __init__(self, key: bytes, planes: int, block: int = BLOCK) -> None:
        self._key = key
        self.block = block
        self._zeros = bytes(4 * block)
        self._buffers = [memoryview(bytearray(4 * block + 16)) for _ in range(planes)]
        self._ciphers = [
            Cipher(algorithms.AES(key), modes.CTR((plane << 96).to_bytes(16, "big"))).encryptor()
            for plane in range(planes)
        ]

    def words(self, plane: int, count: int) -> Words:
        """Return the next `count` fast words of a plane; the next call reuses their memory."""
        size = 4 * count
        source = self._zeros if count == self.block else memoryview(self._zeros)[:size]
        self._ciphers[plane].update_into(source, self._buffers[plane])
        return np.frombuffer(self._buffers[plane], dtype="<u4", count=count)

    def slow_blocks(
        self, plane: int, draws: NDArray[np.int64], extension: int
    ) -> NDArray[np.uint8]:
        """Return 128 additional bits for each of the given draws, as bytes of shape (draws, 16)."""
        counters = np.empty((len(draws), 2), dtype=">u8")
        counters[:, 0] = (_SLOW_PLANES + plane) << 32
        counters[:, 0] += (draws >> 32).astype(np.uint64)
        counters[:, 1] = ((draws & 0xFFFFFFFF) << 32).astype(np.uint64) + np.uint64(extension)
        # Counter mode encrypts consecutive counters. These counters are scattered, so the block
        # cipher (ECB) is applied to each of them; the bits are the same.
        cipher = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()
        raw = cipher.update(counters.tobytes()) + cipher.finalize()
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 16)

    def slow_bits(self, plane: int, draw: int, bits: int) -> int:
        """Return the first `bits` additional bits of one draw as a whole number."""
        one = np.array([draw], dtype=np.int64)
        blocks = -(-bits // 128)
        raw = b"".join(self.slow_blocks(plane, one, e).tobytes() for e in range(blocks))
        return int.from_bytes(raw, "big") >> (128 * blocks - bits)


def release_key(
    rng: int | np.random.Generator | None = None, key: bytes | None = None
) -> tuple[bytes, bool]:
    """Choose the key of a release."""
    if key is not None:
        if rng is not None:
            raise InputError("give either rng (a simulation) or key (a replay), not both.")
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InputError(f"key must be {KEY_BYTES} bytes.")
        return key, False
    if rng is None:
        return os.urandom(KEY_BYTES), False
    if isinstance(rng, np.random.Generator):
        return rng.bytes(KEY_BYTES), True
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise InputError(f"rng must be a whole number or a numpy Generator, got {rng!r}.")
    return hashlib.sha256(_SEED_CONTEXT + str(int(rng)).encode()).digest(), True
