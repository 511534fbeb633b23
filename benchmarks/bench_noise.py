"""Exact noise against unsafe float noise, against peers, and against the random bits it takes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from benchmarks.harness import Row, best_of, together
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.noise.mechanism import Mechanism

READINGS = 10_000_000
PEER_READINGS = 100_000
PEER_PYTHON = "HUSHMETER_DIFFPRIVLIB_PYTHON"
PEER_SCRIPT = """
import time, warnings
warnings.simplefilter("ignore")
from diffprivlib.mechanisms import {name}
mechanism = {name}(epsilon=1.0, sensitivity=10.0)
best = float("inf")
for _ in range(3):
    start = time.perf_counter()
    for _ in range({count}):
        mechanism.randomise(100.0)
    best = min(best, time.perf_counter() - start)
print(best)
"""


def rows() -> Iterator[Row]:
    """All ratios of the noise."""
    readings = np.random.default_rng(0).uniform(0, 5000, READINGS)
    yield from against_numpy(readings)
    yield against_opendp(readings)
    yield from against_diffprivlib(readings)


def against_numpy(readings: np.ndarray) -> Iterator[Row]:
    """numpy's Laplace noise alone, without the sum, against whole releases, in turns."""
    generator = np.random.default_rng(0)
    key = bytes(32)
    for name, mechanism, planes, target in (
        ("Laplace", Laplace(0.5, 10), 1, 3.0),
        ("Laplace, Δ_g/ε = 1400", Laplace(1, 1399), 1, 3.0),
        ("Laplace, Δ_g/ε = 8e5", Laplace(1, 799_999), 2, 2.0),
        ("staircase", Staircase(0.5, 10), 1, 2.0),
        ("staircase, Δ_g = 2001, ε = 0.1", Staircase(0.1, 2000), 2, 2.0),
        ("Gaussian", Gaussian(1, 1e-6, 10), 1, None),
    ):
        ours, theirs, bits = together(
            releasing(mechanism, readings),
            lambda: generator.laplace(0.0, 22.0, READINGS),
            lambda planes=planes: keystream(key, planes * 4 * READINGS),
            repeat=7,
        )
        note = f"{READINGS / ours / 1e6:.0f} M readings/s, {bits / ours:.0%} of the AES-CTR rate"
        yield Row(f"{name}: release", theirs / ours, "numpy.laplace", target, note)
    yield into_a_given_array(readings)


def into_a_given_array(readings: np.ndarray) -> Row:
    """Without the page faults of a new output on our side; numpy has no such argument."""
    mechanism, out = Laplace(0.5, 10), np.empty(READINGS)
    generator = np.random.default_rng(0)
    ours, theirs = together(
        lambda: mechanism.release(readings, out=out),
        lambda: generator.laplace(0.0, 22.0, READINGS),
        repeat=7,
    )
    note = f"{READINGS / ours / 1e6:.0f} M readings/s"
    return Row("Laplace: release into a given array", theirs / ours, "numpy.laplace", None, note)


def against_opendp(readings: np.ndarray) -> Row:
    """The discrete Laplace noise of OpenDP, with the same distribution."""
    import opendp.prelude as dp

    mechanism = Laplace(0.5, 10)
    ours = best_of(releasing(mechanism, readings)) / READINGS
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
    peer = dp.m.make_laplace(*space, scale=mechanism.scale)
    few = np.rint(readings[:PEER_READINGS]).astype(np.int64)
    theirs = best_of(lambda: peer(few), repeat=3) / PEER_READINGS
    note = f"{1e-6 / theirs:.2f} M readings/s there"
    return Row("Laplace: release", theirs / ours, "OpenDP", 500.0, note)


def against_diffprivlib(readings: np.ndarray) -> Iterator[Row]:
    """diffprivlib in an interpreter of its own: it does not import beside a new scikit-learn."""
    python = os.environ.get(PEER_PYTHON)
    if not python:
        print(
            f"diffprivlib: absent, as it needs an older scikit-learn; set {PEER_PYTHON} to the "
            "python of an environment with both (diffprivlib 0.6.6 ran with scikit-learn 1.4.2)"
        )
        return
    for mechanism in (Laplace(1, 10), Staircase(1, 10)):
        script = PEER_SCRIPT.format(name=type(mechanism).__name__, count=PEER_READINGS)
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
        theirs = float(done.stdout) / PEER_READINGS
        ours = best_of(releasing(mechanism, readings)) / READINGS
        note = f"{1e-6 / theirs:.2f} M readings/s there, one call per reading"
        yield Row(f"{mechanism.name}: release", theirs / ours, "diffprivlib", 500.0, note)


def releasing(mechanism: Mechanism, readings: np.ndarray) -> Callable[[], object]:
    """A release whose tables are built."""
    mechanism.release(readings[:100_000])
    return lambda: mechanism.release(readings)


def keystream(key: bytes, size: int, block: int = 1 << 17) -> None:
    """Raw AES-256-CTR bytes, thrown away."""
    zeros, out = bytes(block), bytearray(block + 16)
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    for _ in range(size // block):
        cipher.update_into(zeros, out)
