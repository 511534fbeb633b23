"""The exact expected accuracy of the relaxed attacker: no simulation, no bound.

For a jump d of the meter and noise l = n_t − n_(t−1) the attacker sees K = |d + l|, and (P3) says
that appliance i switched with probability clip((K − δ − c_i)/P_i, 0, 1), c_i being the power
ranked before it. This is piecewise linear in l, so its mean needs nothing of the noise but
E(l − b)_+: for a law symmetric about zero

    E(K − k)_+ = E(l − (k − d))_+ + E(l − (k + d))_+,    k ≥ 0.

The paper has no such result; its Theorems 3 and 4 bound the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import FloatArray, finite_vector, whole
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.trace import Trace

MAX_VECTORS = 200_000
MAX_CELLS = 4_000_000


class DifferenceLaw(Protocol):
    """What the theory needs of a noise: every mechanism has it, and so has `ContinuousLaplace`."""

    def difference_excess(self, b: ArrayLike) -> NDArray[np.float64] | np.float64:
        """E(l − b)_+ [W] of l = n_t − n_(t−1), for any b [W]."""


class ContinuousLaplace:
    """The paper's own noise: Laplace with scale λ on the whole line, no grid.

    Parameters
    ----------
    scale : array_like
        λ = Δf/ε [W]; an array is broadcast against what is asked.

    Notes
    -----
    l = n_t − n_(t−1) has the density (1 + |x|/λ) e^(−|x|/λ)/(4λ), so E|l| = 3λ/2 and
    E(l − b)_+ = (3λ + b)/4 · e^(−b/λ) for b ≥ 0.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = positive_array("scale", scale)

    def difference_density(self, x: ArrayLike) -> FloatArray:
        """Density of l [1/W] at x [W]."""
        size = np.abs(np.asarray(x, dtype=np.float64)) / self.scale
        return np.asarray((1 + size) * np.exp(-size) / (4 * self.scale))

    def difference_excess(self, b: ArrayLike) -> FloatArray:
        """E(l − b)_+ [W] for any b [W]."""
        watts = np.asarray(b, dtype=np.float64)
        size = np.abs(watts)
        tail = (3 * self.scale + size) / 4 * np.exp(-size / self.scale)
        return np.asarray(tail + np.maximum(0.0, -watts))


def exact_accuracy(
    home: Home,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    mechanism: DifferenceLaw,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
) -> float:
    """E[α] of the relaxed one-shot attacker, exactly, under any mechanism.

    Parameters
    ----------
    home : Home
    switched : vector of length N, or names
        What switched: 0 or 1 for every appliance, or names, all in one direction; −1 marks what
        went off while others went on.
    mechanism : Mechanism or ContinuousLaplace
    trace : Trace with truth, optional
        Instead of `switched`: the mean over every step of the trace.
    max_switches : int, optional
        Instead of `switched`: the mean over all switch vectors of at most so many switches in
        one direction, each as likely as the others.
    jump : float, optional
        With `switched`: the true jump d of the meter [W]; Σ ± P of what switched if not given.

    Notes
    -----
    Bernoulli rounding, as in the paper, does not change the mean; `rounding="threshold"` does.
    A mechanism that rounds readings to its grid can move a jump by up to one step of it: give
    the jump on the grid where that matters.
    """
    shares = appliance_accuracy(
        home,
        switched,
        mechanism=mechanism,
        trace=trace,
        max_switches=max_switches,
        jump=jump,
    )
    return float(shares.mean())


def appliance_accuracy(
    home: Home,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    mechanism: DifferenceLaw,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
) -> FloatArray:
    """How often the relaxed attacker is right about each appliance, shape (N,).

    Parameters as in `exact_accuracy`, which is the mean of this over the appliances.
    """
    vectors, weights = _switch_law(home, switched, trace, max_switches)
    shares = _accuracies(home, vectors, _jumps(home, vectors, switched, jump), mechanism)
    return np.asarray(np.einsum("v,...vn->...n", weights, shares))


def exact_curve(
    home: Home,
    scale: ArrayLike,
    switched: ArrayLike | Sequence[str] | None = None,
    *,
    trace: Trace | None = None,
    max_switches: int | None = None,
    jump: float | None = None,
) -> FloatArray:
    """E[α] under the paper's continuous Laplace noise, for an array of scales λ [W].

    Parameters as in `exact_accuracy`; this is the curve to draw beside Theorems 3 and 4.
    """
    scales = positive_array("scale", scale)
    vectors, weights = _switch_law(home, switched, trace, max_switches)
    jumps = _jumps(home, vectors, switched, jump)
    pieces = max(1, min(scales.size, scales.size * vectors.size // MAX_CELLS))
    curve = [
        np.einsum("v,evn->e", weights, _accuracies(home, vectors, jumps, ContinuousLaplace(part)))
        for part in np.array_split(scales.reshape(-1, 1, 1), pieces)
    ]
    return np.concatenate(curve).reshape(scales.shape) / len(home)


def expected_switches(
    powers: FloatArray, tolerance: float, jumps: FloatArray, noise: DifferenceLaw
) -> FloatArray:
    """E[Δ*_i] of (P4) for every true jump d [W], shape (V, N).

    Parameters
    ----------
    powers : (N,) [W]
    tolerance : float
        δ [W].
    jumps : (V,) [W]
    noise : DifferenceLaw
    """
    order = np.argsort(-powers, kind="stable")
    starts = np.empty_like(powers)
    starts[order] = tolerance + np.concatenate([[0.0], np.cumsum(powers[order])[:-1]])
    d = jumps[:, None]

    def excess_beyond(k: FloatArray) -> FloatArray:
        return np.asarray(noise.difference_excess(k - d) + noise.difference_excess(k + d))

    return np.asarray((excess_beyond(starts) - excess_beyond(starts + powers)) / powers)


def mean_shortfall(noise: DifferenceLaw, room: ArrayLike) -> FloatArray:
    """E(a − |l|)_+ [W] = a − E|l| + E(|l| − a)_+, and 0 if a ≤ 0."""
    some = np.maximum(0.0, np.asarray(room, dtype=np.float64))
    mean = 2 * np.asarray(noise.difference_excess(0.0))
    beyond = 2 * np.asarray(noise.difference_excess(some))
    return np.where(some > 0, np.maximum(some - mean + beyond, 0.0), 0.0)


def capped_excess(noise: DifferenceLaw, dead: ArrayLike, cap: ArrayLike) -> FloatArray:
    """E[min((l − x)_+, M)] [W] = E(l − x)_+ − E(l − x − M)_+."""
    far = np.asarray(dead) + np.asarray(cap)
    return np.asarray(noise.difference_excess(dead) - noise.difference_excess(far))


def switch_vector(home: Home, switched: ArrayLike | Sequence[str]) -> FloatArray:
    """`switched` as −1, 0 or 1 for every appliance, shape (N,)."""
    if isinstance(switched, str):
        switched = [switched]
    if isinstance(switched, Sequence) and all(isinstance(name, str) for name in switched):
        vector = np.zeros(len(home))
        vector[[home.index(str(name)) for name in switched]] = 1.0
        return vector
    vector = finite_vector("switched", switched)
    if vector.shape != (len(home),) or not np.isin(vector, (-1, 0, 1)).all():
        raise InputError(
            f"switched must be names, or 0, 1 or −1 for each of the {len(home)} appliances."
        )
    return vector


def positive_array(name: str, values: ArrayLike, *, zero: bool = False) -> FloatArray:
    """Numbers of any shape, refused unless all are finite and positive, or zero if allowed."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {values!r}.") from None
    if not (np.isfinite(array) & ((array > 0) | (zero & (array == 0)))).all():
        kind = "finite and not negative" if zero else "positive and finite"
        raise InputError(f"{name} must be {kind}, got {values!r}.")
    return array


def _accuracies(
    home: Home, vectors: FloatArray, jumps: FloatArray, noise: DifferenceLaw
) -> FloatArray:
    """P(right) for each switch vector and appliance, shape (V, N)."""
    named = expected_switches(home.powers, home.tolerance, jumps, noise)
    return np.where(vectors != 0, named, 1 - named)


def _jumps(
    home: Home,
    vectors: FloatArray,
    switched: ArrayLike | Sequence[str] | None,
    jump: float | None,
) -> FloatArray:
    if jump is None:
        return np.asarray(vectors @ home.powers)
    if switched is None:
        raise InputError("a jump belongs to one switch vector; give switched with it.")
    return finite_vector("jump", [jump])


def _switch_law(
    home: Home,
    switched: ArrayLike | Sequence[str] | None,
    trace: Trace | None,
    max_switches: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Switch vectors (V, N) and their probabilities (V,)."""
    if sum(given is not None for given in (switched, trace, max_switches)) != 1:
        raise InputError("give exactly one of switched, trace and max_switches.")
    if switched is not None:
        return switch_vector(home, switched)[None, :], np.ones(1)
    if trace is not None:
        return _observed_switches(home, trace)
    return _uniform_switches(len(home), whole("max_switches", max_switches, least=0))


def _observed_switches(home: Home, trace: Trace) -> tuple[FloatArray, FloatArray]:
    states = trace.truth()
    if states.shape[1] != len(home):
        raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(home)}.")
    moves = np.diff(states.astype(np.int8), axis=0)[~trace.run_starts[1:]]
    if moves.shape[0] == 0:
        raise InputError("the trace has no two readings in a row.")
    vectors, counts = np.unique(moves, axis=0, return_counts=True)
    return vectors.astype(np.float64), counts / counts.sum()


def _uniform_switches(n: int, most: int) -> tuple[FloatArray, FloatArray]:
    most = min(most, n)
    count = sum(comb(n, u) for u in range(most + 1))
    if count > MAX_VECTORS:
        raise InputError(
            f"{count} switch vectors have at most {most} of {n} switches, too many to go through; "
            "lower max_switches or give a trace."
        )
    vectors = np.zeros((count, n))
    chosen = (members for u in range(most + 1) for members in combinations(range(n), u))
    for row, members in enumerate(chosen):
        vectors[row, list(members)] = 1.0
    return vectors, np.full(count, 1 / count)
