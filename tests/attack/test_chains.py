"""Factored recursions against enumeration, the Kronecker product and hmmlearn."""

from __future__ import annotations

import tracemalloc
from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.attack import chains as decoding
from hushmeter.attack.chains import (
    ChainSet,
    best_path,
    chain_marginals,
    count_transitions,
    outer_sum,
)
from hushmeter.errors import InputError


def random_chains(sizes: list[int], rng: np.random.Generator) -> ChainSet:
    def laws(*shape: int) -> np.ndarray:
        values = rng.random(shape) + 0.05
        return values / values.sum(axis=-1, keepdims=True)

    return ChainSet(tuple(laws(k, k) for k in sizes), tuple(laws(k) for k in sizes))


def random_problem(
    sizes: list[int], length: int, seed: int, gaps: bool = True
) -> tuple[ChainSet, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    chains = random_chains(sizes, rng)
    likelihood = rng.random((length, chains.states)) ** 4 + 1e-6
    starts = rng.random(length) < (0.2 if gaps else 0.0)
    starts[0] = True
    first = rng.random(chains.states) + 0.01
    return chains, likelihood, starts, first / first.sum()


def kronecker(chains: ChainSet) -> np.ndarray:
    return reduce(np.kron, chains.transitions, np.ones((1, 1)))


def path_chances(
    chains: ChainSet, likelihood: np.ndarray, starts: np.ndarray, first: np.ndarray
) -> dict[tuple[int, ...], float]:
    """Joint probability of every path and the readings, path by path."""
    matrix, initial = kronecker(chains), chains.joint_initial()
    chances = {}
    for path in product(range(chains.states), repeat=starts.size):
        chance = first[path[0]] * likelihood[0, path[0]]
        for t in range(1, starts.size):
            step = initial[path[t]] if starts[t] else matrix[path[t - 1], path[t]]
            chance *= step * likelihood[t, path[t]]
        chances[path] = chance
    return chances


def all_marginals(
    chains: ChainSet, likelihood: np.ndarray, starts: np.ndarray, first: np.ndarray
) -> np.ndarray:
    out = np.full((starts.size, int(chains.sizes.sum())), np.nan)
    for rows, block in chain_marginals(chains, lambda r: likelihood[r], starts, first):
        out[rows] = block
    return out


@given(st.sampled_from([[2], [2, 2], [3, 2], [2, 1, 2], [4]]), st.integers(0, 1000))
def test_against_enumeration_of_all_paths(sizes, seed):
    chains, likelihood, starts, first = random_problem(sizes, 4, seed)
    chances = path_chances(chains, likelihood, starts, first)
    total = sum(chances.values())
    expected = np.zeros((4, sum(sizes)))
    for path, chance in chances.items():
        digits = chains.split(np.array(path))
        for t in range(4):
            for m, begin in enumerate(np.cumsum([0, *sizes[:-1]])):
                expected[t, begin + digits[t, m]] += chance / total
    assert all_marginals(chains, likelihood, starts, first) == pytest.approx(expected, abs=1e-12)
    path = best_path(chains, lambda r: np.log(likelihood[r]), starts, first)
    assert chances[tuple(path)] == pytest.approx(max(chances.values()))


def plain_forward_backward(chains, likelihood, starts, first):
    matrix, initial = kronecker(chains), chains.joint_initial()
    forward, backward = np.empty_like(likelihood), np.ones_like(likelihood)
    for t in range(starts.size):
        law = forward[t - 1] @ matrix if not starts[t] else (initial if t else first)
        forward[t] = law * likelihood[t] / (law @ likelihood[t])
    for t in range(starts.size - 2, -1, -1):
        if not starts[t + 1]:
            backward[t] = matrix @ (likelihood[t + 1] * backward[t + 1])
            backward[t] /= backward[t].sum()
    joint = forward * backward
    return joint / joint.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("sizes", [[2, 2, 2, 2, 2], [3, 3, 2], [4, 2, 3], [5, 2, 2], [2, 6, 1, 4]])
@pytest.mark.parametrize(("block", "checkpoints"), [(1 << 21, 1 << 24), (300, 400)])
def test_against_the_kronecker_product(sizes, block, checkpoints, monkeypatch):
    monkeypatch.setattr(decoding, "BLOCK_CELLS", block)
    monkeypatch.setattr(decoding, "CHECKPOINT_CELLS", checkpoints)
    chains, likelihood, starts, first = random_problem(sizes, 400, seed=len(sizes))
    joint = plain_forward_backward(chains, likelihood, starts, first).reshape(-1, *sizes)
    axes = range(1, len(sizes) + 1)
    expected = [joint.sum(axis=tuple(a for a in axes if a != m)) for m in axes]
    actual = all_marginals(chains, likelihood, starts, first)
    assert actual == pytest.approx(np.hstack(expected), abs=1e-10)


@pytest.mark.parametrize("sizes", [[2, 2, 2, 2], [3, 2, 2], [4, 3], [5, 3], [2, 1, 6]])
@pytest.mark.parametrize(("block", "checkpoints"), [(1 << 21, 1 << 24), (64, 80)])
def test_best_path_against_hmmlearn(sizes, block, checkpoints, monkeypatch):
    hmm = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")
    monkeypatch.setattr(decoding, "BLOCK_CELLS", block)
    monkeypatch.setattr(decoding, "CHECKPOINT_CELLS", checkpoints)
    rng = np.random.default_rng(7)
    chains = random_chains(sizes, rng)
    means = outer_sum(rng.uniform(0, 100, k) for k in sizes)
    readings = rng.choice(means, 500) + rng.normal(0, 15, 500)
    model = hmm.GaussianHMM(chains.states, "spherical", init_params="", params="")
    model.startprob_, model.transmat_ = chains.joint_initial(), kronecker(chains)
    model.means_, model.covars_ = means[:, None], np.full(chains.states, 225.0)
    starts = np.arange(500) == 0
    logs = -0.5 * (readings[:, None] - means) ** 2 / 225.0 - 0.5 * np.log(2 * np.pi * 225.0)
    path = best_path(chains, lambda r: logs[r], starts)
    assert (path == model.predict(readings[:, None])).all()


def test_a_gap_starts_anew():
    chains, likelihood, starts, _ = random_problem([2, 3], 60, seed=1, gaps=False)
    starts[25] = True
    first = chains.joint_initial()
    whole = all_marginals(chains, likelihood, starts, first)
    for part in (slice(0, 25), slice(25, 60)):
        alone = all_marginals(chains, likelihood[part], starts[part], first)
        assert whole[part] == pytest.approx(alone)
    joined = best_path(chains, lambda r: np.log(likelihood[r]), starts)
    late = best_path(chains, lambda r: np.log(likelihood[25:][r]), starts[25:])
    assert (joined[25:] == late).all()


def test_memory_stays_below_that_of_all_vectors(monkeypatch):
    monkeypatch.setattr(decoding, "BLOCK_CELLS", 1 << 12)
    monkeypatch.setattr(decoding, "CHECKPOINT_CELLS", 1 << 13)
    chains = random_chains([2] * 6, np.random.default_rng(0))
    starts = np.arange(40_000) == 0

    def emission(rows: slice) -> np.ndarray:
        return np.ones((rows.stop - rows.start, chains.states))

    tracemalloc.start()
    for _ in chain_marginals(chains, emission, starts):
        pass
    best_path(chains, emission, starts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000 * chains.states * 8 / 10


def test_counted_chains_are_shares_of_steps():
    states = np.array([0, 0, 1, 1, 1, 0, 0, 2], np.int8)
    starts = np.zeros(8, bool)
    starts[[0, 6]] = True
    matrix, share = count_transitions(states, 3, starts, prior=1e-9)
    assert matrix[0] == pytest.approx([1 / 3, 1 / 3, 1 / 3], abs=1e-6), "0→0, 0→1, 0→2"
    assert matrix[1] == pytest.approx([1 / 3, 2 / 3, 0], abs=1e-6)
    assert matrix[2] == pytest.approx(share), "a state that is never left says nothing"


def test_nonsense_is_refused():
    half = np.full((2, 2), 0.5)
    with pytest.raises(InputError, match="sum to one"):
        ChainSet((half * 2,), (np.array([0.5, 0.5]),))
    with pytest.raises(InputError, match="3 states"):
        ChainSet((half,), (np.full(3, 1 / 3),))
    with pytest.raises(InputError, match="one matrix"):
        ChainSet((), ())
    chains = ChainSet((half,), (np.array([0.5, 0.5]),))
    with pytest.raises(InputError, match="first must have 2"):
        best_path(chains, lambda r: np.zeros((1, 2)), np.array([True]), np.ones(3))


@pytest.mark.parametrize("sizes", [[2], [2] * 7, [3, 2, 2], [2, 4, 2, 1, 3], [2, 1]])
def test_the_kernel_of_two_states_equals_the_general_one(sizes):
    rng = np.random.default_rng(len(sizes))
    chains = random_chains(sizes, rng)
    gains = np.log(np.concatenate([matrix.ravel() for matrix in chains.transitions]))
    # Rounded scores and gains have ties, which both kernels must resolve in the same way.
    for scores, steps in (
        (rng.normal(0, 3, chains.states), gains),
        (np.round(rng.normal(0, 1, chains.states)), np.round(gains)),
    ):
        found = []
        for special in (True, False):
            memory = [np.empty(chains.states, np.uint16) for _ in range(2)]
            arrays = (scores.copy(), np.empty_like(scores), *memory)
            best, _, origin, _ = decoding.best_step(*arrays, steps, chains.sizes, special)
            found.append((best.copy(), origin.copy()))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
