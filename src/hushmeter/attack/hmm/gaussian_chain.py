"""A hidden Markov chain with Gaussian states, fitted to one appliance's power by EM."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np

from hushmeter.attack.hmm.transitions import StateArray
from hushmeter.attack.sums.levels import cluster
from hushmeter.checks import BoolArray, FloatArray

ROUNDS = 10
"""Most rounds of expectation and maximisation: few, as usual, so that clusters stay clusters."""

TOLERANCE = 1e-2
"""Gain of log-likelihood at which the rounds end."""

LEAST_VARIANCE = 1e-2
"""Smallest variance of a state [W²], as the usual implementations have it."""

UNSEEN = 1e-3
"""Times that what training never showed is taken to have occurred."""


@dataclass(frozen=True)
class ChainFit:
    """A fitted chain, its states in ascending order of power.

    Attributes
    ----------
    means, variances : arrays, shape (K,)
        Power of the states [W], [W²].
    transitions : array, shape (K, K)
    initial : array, shape (K,)
        Long-run share of each state.
    states : array of int8, shape (T,)
        Likeliest state at each training reading.
    """

    means: FloatArray
    variances: FloatArray
    transitions: FloatArray
    initial: FloatArray
    states: StateArray


def fit_chain(power: FloatArray, size: int, starts: BoolArray) -> ChainFit:
    """Baum–Welch from the clusters of an optimal k-means, with at most `size` states.

    A power with fewer separate values gets fewer states, and at least two: the second of a
    constant power is a state that never occurs.
    """
    power = np.array(power, order="C")
    means = cluster(power, size)[0]
    if means.size == 1:
        means = np.array([means[0], means[0] + max(1.0, abs(means[0]))])
    variances = np.full(means.size, max(float(power.var()), LEAST_VARIANCE))
    matrix = np.full((means.size, means.size), 1 / means.size)
    initial, before = np.full(means.size, 1 / means.size), -math.inf
    for _ in range(ROUNDS):
        chances, pairs, evidence = _expect(power, starts, means, variances, matrix, initial)
        weight = chances.sum(axis=0) + 1e-12
        means = np.where(weight > 1e-6, chances.T @ power / weight, means)
        squares = np.sum(chances * (power[:, None] - means) ** 2, axis=0)
        variances = np.maximum(squares / weight, LEAST_VARIANCE)
        matrix = (pairs + UNSEEN) / (pairs + UNSEEN).sum(axis=1, keepdims=True)
        initial = weight / weight.sum()
        if evidence - before < TOLERANCE:
            break
        before = evidence
    order = np.argsort(means, kind="stable")
    states = chances[:, order].argmax(axis=1).astype(np.int8)
    return ChainFit(
        means[order], variances[order], matrix[np.ix_(order, order)], initial[order], states
    )


def add_idle(fit: ChainFit) -> ChainFit:
    """The chain with a state of 0 W before the others that training never showed."""
    size = fit.means.size + 1
    seen = np.full(size, UNSEEN / fit.states.size)
    seen[1:] = fit.initial
    transitions = np.tile(seen, (size, 1))
    transitions[1:, 1:] = fit.transitions
    return ChainFit(
        np.append(0.0, fit.means),
        np.append(LEAST_VARIANCE, fit.variances),
        transitions / transitions.sum(axis=1, keepdims=True),
        seen / seen.sum(),
        fit.states + np.int8(1),
    )


def _expect(
    power: FloatArray,
    starts: BoolArray,
    means: FloatArray,
    variances: FloatArray,
    matrix: FloatArray,
    initial: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Marginals (T, K), expected transitions (K, K) and log-evidence."""
    gaps = power[:, None] - means
    logs = -0.5 * (gaps**2 / variances + np.log(2 * np.pi * variances))
    peaks = logs.max(axis=1)
    likelihood = np.exp(logs - peaks[:, None])
    filtered, chances = np.empty_like(likelihood), np.empty_like(likelihood)
    pairs = np.zeros_like(matrix)
    evidence = _filter(likelihood, starts, matrix, initial, filtered)
    _smooth(likelihood, starts, matrix, filtered, chances, pairs)
    return chances, pairs, float(evidence + peaks.sum())


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _filter(
    likelihood: FloatArray,
    starts: BoolArray,
    matrix: FloatArray,
    initial: FloatArray,
    filtered: FloatArray,
) -> float:
    """Forward over one chain; fills `filtered` and gives the log-evidence."""
    evidence = 0.0
    for t in range(starts.size):
        total = 0.0
        for k in range(initial.size):
            chance = initial[k] if starts[t] else 0.0
            if not starts[t]:
                for j in range(initial.size):
                    chance += filtered[t - 1, j] * matrix[j, k]
            filtered[t, k] = chance * likelihood[t, k]
            total += filtered[t, k]
        for k in range(initial.size):
            filtered[t, k] /= total
        evidence += np.log(total)
    return evidence


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _smooth(
    likelihood: FloatArray,
    starts: BoolArray,
    matrix: FloatArray,
    filtered: FloatArray,
    chances: FloatArray,
    pairs: FloatArray,
) -> None:
    """Backward over one chain; fills `chances` and adds the expected transitions to `pairs`."""
    size = matrix.shape[0]
    beta, ahead = np.ones(size), np.empty(size)
    for t in range(starts.size - 1, -1, -1):
        total = 0.0
        for k in range(size):
            total += filtered[t, k] * beta[k]
        for k in range(size):
            chances[t, k] = filtered[t, k] * beta[k] / total
            ahead[k] = likelihood[t, k] * beta[k]
            beta[k] = 1.0
        if starts[t]:
            continue
        total = 0.0
        for j in range(size):
            beta[j] = 0.0
            for k in range(size):
                beta[j] += matrix[j, k] * ahead[k]
            total += filtered[t - 1, j] * beta[j]
        for j in range(size):
            beta[j] /= total
            for k in range(size):
                pairs[j, k] += filtered[t - 1, j] * matrix[j, k] * ahead[k] / total
