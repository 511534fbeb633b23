"""The hidden-Markov attackers: readings per second, memory, and hmmlearn on the joint matrix."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import reduce
from importlib.util import find_spec

import numpy as np

from benchmarks.harness import Row, best_of, together
from hushmeter import Home, Laplace, synth
from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.apps.nilm.factorial_hmm import FactorialHmm, GaussianEmission
from hushmeter.attack.chains import ChainSet, best_path, outer_sum

MECHANISM = Laplace(epsilon=0.3, sensitivity=10.0)
MONTH = 30 * 86_400
NILMTK = 4.0


def rows() -> Iterator[Row]:
    """All ratios of the hidden-Markov attackers."""
    yield bayes_speed(8, 40_000, 100_000)
    yield bayes_speed(12, 8_000, 3_000)
    yield fhmm_speed()
    if find_spec("hmmlearn") is not None:
        yield path_against_hmmlearn()
    yield beam_against_exact()
    yield month_of_seconds()


def diverse_home(n: int) -> Home:
    """A home of n binary appliances."""
    return synth.home(n=n, spread="diverse", seed=2)


def noisy_readings(home: Home, length: int) -> np.ndarray:
    """Released readings [W]."""
    return MECHANISM.release(synth.trace(home, length, 0.99, seed=2).readings, rng=1)


def bayes_speed(n: int, length: int, wanted: float) -> Row:
    """Marginals of all appliances, with the noise distribution."""
    home = diverse_home(n)
    attacker = Bayes(home, mechanism=MECHANISM).fit(synth.trace(home, 8000, 0.99, seed=1))
    readings = noisy_readings(home, length)
    attacker.predict(readings[:100])
    speed = length / best_of(lambda: attacker.predict(readings), 3)
    name = f"bayes, {2**n} joint states: readings/s"
    return Row(name, speed / wanted, f"{wanted:,.0f} readings/s", 1, f"{speed:,.0f} readings/s")


def fhmm_speed() -> Row:
    """Best path over 4096 joint states, against the speed recorded for NILMTK."""
    home = diverse_home(12)
    attacker = FactorialHmm(home).fit(synth.trace(home, 8000, 0.99, seed=1))
    readings = noisy_readings(home, 8000)
    attacker.predict(readings[:100])
    speed = readings.size / best_of(lambda: attacker.predict(readings), 3)
    name, note = "fhmm, 4096 joint states: readings/s", f"{speed:,.0f} readings/s"
    return Row(name, speed / NILMTK, "NILMTK (4 readings/s, recorded)", 1000, note)


def path_against_hmmlearn() -> Row:
    """The same best path from hmmlearn on the Kronecker product, every state compared."""
    from hmmlearn.hmm import GaussianHMM

    home, length = diverse_home(12), 60
    fitted = FactorialHmm(home).fit(synth.trace(home, 8000, 0.99, seed=1))
    readings = noisy_readings(home, length)
    chains = ChainSet(fitted.transitions_, fitted.initial_)
    means, variance = outer_sum(fitted.levels_) + fitted.base_load_, MECHANISM.std**2
    joint = GaussianHMM(chains.states, "spherical", init_params="", params="")
    joint.startprob_ = chains.joint_initial()
    joint.transmat_ = reduce(np.kron, chains.transitions)
    joint.means_, joint.covars_ = means[:, None], np.full(chains.states, variance)
    starts, emission = np.arange(length) == 0, GaussianEmission(means, variance)

    def ours() -> np.ndarray:
        return best_path(chains, lambda rows: emission.log_densities(readings[rows]), starts)

    if not (ours() == joint.predict(readings[:, None])).all():
        raise AssertionError("the factored path differs from hmmlearn's")
    factored, kronecker = together(ours, lambda: joint.predict(readings[:, None]), repeat=2)
    note = f"hmmlearn {length / kronecker:,.0f} readings/s, same path"
    return Row(
        "fhmm path, 4096 joint states", kronecker / factored, "hmmlearn, joint matrix", 1000, note
    )


def beam_against_exact() -> Row:
    """How much accuracy the beam gives up where the exact answer can still be had."""
    home = synth.ready_home("rae13")
    train, test = (synth.trace(home, t, 0.99, seed=t) for t in (6000, 2000))
    readings = MECHANISM.release(test.readings, rng=3)
    alphas = [
        float(
            (
                Bayes(home, mechanism=MECHANISM, exact_states=s).fit(train).predict(readings)
                == test.states
            ).mean()
        )
        for s in (1 << 16, 1)
    ]
    note = f"accuracy {alphas[1]:.4f} against {alphas[0]:.4f}"
    return Row(
        "beam of 512 in 8192 joint states", alphas[1] / alphas[0], "exact marginals", 0.99, note
    )


def month_of_seconds() -> Row:
    """Memory of a month at 1 Hz over 256 joint states, answer included."""
    home = diverse_home(8)
    attacker = Bayes(home, mechanism=MECHANISM).fit(synth.trace(home, 8000, 0.99, seed=1))
    readings = np.tile(noisy_readings(home, 86_400), 30)
    tracemalloc.start()
    attacker.predict(readings)
    peak = tracemalloc.get_traced_memory()[1] / 2**30
    tracemalloc.stop()
    return Row("bayes, a month at 1 Hz: memory", peak, "1 GiB", 2, f"{MONTH:,} readings", True)
