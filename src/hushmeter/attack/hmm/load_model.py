"""A home as loads that run side by side and are seen as one noisy sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushmeter.attack.base import NoiseDistribution
from hushmeter.attack.hmm.emission import NoisyEmission
from hushmeter.attack.hmm.transitions import ChainSet, outer_sum
from hushmeter.attack.hmm.viterbi import best_path, chain_marginals
from hushmeter.checks import BoolArray, FloatArray, IntArray

Known = Sequence[BoolArray | None]
"""Per load, which of its states are possible at the first reading, or None."""


@dataclass(frozen=True)
class LoadModel:
    """Loads with their states, and how their sum is seen.

    Attributes
    ----------
    means, variances : tuple of arrays
        Per load the mean [W] and variance [W²] of its power in each state.
    transitions, initial : tuple of arrays
        Per load its chain, as in `ChainSet`.
    variance : float
        Variance of the sum that belongs to no load [W²].
    noise : mechanism or None
    outlier : float
        Weight of readings that no state explains.
    """

    means: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    transitions: tuple[FloatArray, ...]
    initial: tuple[FloatArray, ...]
    variance: float
    noise: NoiseDistribution | None
    outlier: float

    @property
    def chains(self) -> ChainSet:
        """The chains of the loads."""
        return ChainSet(self.transitions, self.initial)

    def subset(self, loads: Sequence[int] | IntArray) -> LoadModel:
        """The model of some of the loads, in the given order."""
        return replace(
            self,
            means=tuple(self.means[i] for i in loads),
            variances=tuple(self.variances[i] for i in loads),
            transitions=tuple(self.transitions[i] for i in loads),
            initial=tuple(self.initial[i] for i in loads),
        )

    def emission(self, reach: float, variance: float = 0.0) -> NoisyEmission:
        """Densities of readings up to `reach` [W], with a further `variance` [W²] of the sum."""
        return NoisyEmission(
            outer_sum(self.means),
            outer_sum(self.variances) + (self.variance + variance),
            self.noise,
            self.outlier,
            reach,
        )

    def reach(self, readings: FloatArray) -> float:
        """Largest distance [W] between a reading and the power of a state."""
        highest = sum(float(watts.max()) for watts in self.means)
        lowest = sum(float(watts.min()) for watts in self.means)
        return max(float(readings.max()) - lowest, highest - float(readings.min()))

    def marginals(
        self, readings: FloatArray, starts: BoolArray, known: Known | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Exact marginals of all loads, block by block: see `chain_marginals`."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        return chain_marginals(
            chains, lambda rows: emission.densities(readings[rows]), starts, first
        )

    def path(self, readings: FloatArray, starts: BoolArray, known: Known | None = None) -> IntArray:
        """States of all loads on the most probable joint path, shape (T, M)."""
        chains, emission = self.chains, self.emission(self.reach(readings))
        first = chains.joint_initial(known)
        joint = best_path(
            chains, lambda rows: np.log(emission.densities(readings[rows])), starts, first
        )
        return chains.split(joint).astype(np.int64)
