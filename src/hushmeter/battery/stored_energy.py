"""Distributions of the noise, of the energy that it stores, and the charge that covers the losses.

`guarantee` bounds the failure probability with these distributions and `sizing` computes the
smallest battery from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.battery.storage import Battery
    from hushmeter.noise.mechanism import Mechanism

CELLS = 1 << 12
"""Largest number of points of the distribution of the stored energy."""

MAX_REACH = 1 << 21
"""Noise that reaches further than this many grid steps is represented by cells."""

TAIL = 1e-18
"""Probability at either end of the noise distribution that is left out."""


def stored_power(power: FloatArray, battery: Battery) -> FloatArray:
    """Return the power s(b) that reaches or leaves the store for each battery power b. [W]"""
    return np.where(power >= 0, power * battery.one_way, power / battery.one_way)


def upkeep_power(mechanism: Mechanism, battery: Battery) -> float:
    """Return the constant charging power u with E[s(n + u)] = 0, the mean loss. [W]"""
    if battery.efficiency == 1 or math.isinf(battery.capacity_kwh):
        return 0.0
    return _level_charge(mechanism, battery.one_way)


@lru_cache(maxsize=16)
def _level_charge(mechanism: Mechanism, one_way: float) -> float:
    """The root u of η·E(n + u)⁺ − E(n + u)⁻/η [W], from cumulative sums over the distribution."""
    places, masses = noise_distribution(mechanism)
    above = np.cumsum(masses[::-1])[::-1]
    moment = np.cumsum((places * masses)[::-1])[::-1]
    # At u = −k·g the gain is Σ_{n ≥ k} (n − k)·p_n, and E(n + u)⁻ = E(n + u)⁺ + k.
    gain = moment - places * above
    drift = one_way * gain - (gain + places) / one_way
    # The drift falls with k and is linear between neighbouring k, so interpolation is exact.
    return float(-np.interp(0.0, drift[::-1], places[::-1])) * mechanism.grid


@lru_cache(maxsize=4)
def noise_distribution(mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return the values of the noise [grid steps] and their probabilities, without far tails."""
    reach = max(1, round(mechanism.std / mechanism.grid))
    while float(mechanism.cdf(-reach)) > TAIL:
        reach = math.ceil(1.3 * reach)
    if reach > MAX_REACH:
        return _wide_distribution(mechanism, reach)
    places = np.arange(-reach, reach + 1)
    masses = np.asarray(mechanism.pmf(places))
    kept = np.flatnonzero(masses > 0)
    inside = slice(int(kept[0]), int(kept[-1]) + 1)
    distribution = places[inside].astype(np.float64), masses[inside]
    for array in distribution:
        # The result is cached: a caller that changed it would change it for all.
        array.setflags(write=False)
    return distribution


def _wide_distribution(mechanism: Mechanism, reach: int) -> tuple[FloatArray, FloatArray]:
    """The distribution of very wide noise in cells, half of the mass of each at either end.

    Probabilities fall with |n|, so the cells can only enlarge |n|, by about 1e-9 of itself.
    """
    width = reach // (1 << 18)
    low = 1 + width * np.arange(reach // width + 1)
    tail = np.asarray(mechanism.cdf(-low))
    mass = tail - np.append(tail[1:], 0.0)
    places = np.append(low, low[-1] + width).astype(np.float64)
    shared = (np.append(mass, 0.0) + np.concatenate([[0.0], mass])) / 2
    both = np.concatenate([-places[::-1], [0.0], places])
    return both, np.concatenate([shared[::-1], [float(mechanism.pmf(0))], shared])


def refuse_unfit(mechanism: Mechanism) -> None:
    """Refuse a mechanism that a battery cannot make."""
    if mechanism.clamp is not None:
        raise InputError("a battery cannot clamp readings; use a mechanism without clamp.")
    if mechanism.coarsened:
        raise InputError(
            f"noise of {mechanism.scale:.3g} W needs a grid of {mechanism.grid:g} W, which is "
            "coarser than the meter's resolution, so the last digits would show the load; use a "
            "larger epsilon."
        )


@dataclass(frozen=True)
class StoredEnergy:
    """Distribution of the energy that one reading puts into the store."""

    energy: FloatArray  # Values z. A draw beyond the power limits counts as 0. [Wh]
    masses: FloatArray  # Their probabilities
    outside: float  # Probability of a draw beyond the power limits

    def log_moment(self, rates: FloatArray, sign: float) -> FloatArray:
        """Return ψ(θ) = ln E e^{θ·sign·z} for every rate θ. [1/Wh]"""
        highest = float((sign * self.energy).max())
        table = np.empty(rates.size)
        for i, rate in enumerate(rates):
            weights = np.exp(rate * (sign * self.energy - highest)) @ self.masses
            table[i] = math.log(weights) + rate * highest
        return table

    @property
    def spread(self) -> float:
        """Root mean square √E[z²] of the stored energy. [Wh]"""
        return math.sqrt(float(self.energy**2 @ self.masses))


def energy_per_reading(mechanism: Mechanism, battery: Battery, pull: float = 0.0) -> StoredEnergy:
    """Return the distribution of the energy z that one reading stores."""
    above, below, charge, discharge, into, out, hours = battery.limits
    upkeep = upkeep_power(mechanism, battery)
    places, masses = noise_distribution(mechanism)
    power = places * mechanism.grid + upkeep
    most, least = charge, -discharge
    if pull:
        half = mechanism.grid / 2
        most = charge - pull * below / hours - half if math.isfinite(charge) else charge
        least = pull * above / hours + half - discharge if math.isfinite(discharge) else least
    inside = np.flatnonzero((power <= most) & (power >= least))
    if inside.size == 0:
        return StoredEnergy(np.zeros(1), np.ones(1), 1.0)
    # Summed from the tails: subtraction from one would lose probabilities below 1e-16.
    first, last = int(places[inside[0]]), int(places[inside[-1]])
    outside = float(mechanism.cdf(first - 1)) + float(mechanism.cdf(-last - 1))
    energy = hours * np.where(power >= 0, power * into, power / out)[inside]
    cells, weights = _gather(energy, masses[inside])
    return StoredEnergy(np.append(cells, 0.0), np.append(weights, outside), outside)


def _gather(energy: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A distribution of few points with the same mean and an E e^{θz} that is not smaller.

    All mass of a cell moves to the two ends of the cell in the proportion that keeps the mean.
    e^{θz} is convex, so its mean can only rise and the bound of `guarantee` remains valid.
    """
    if energy.size <= CELLS:
        return energy, masses
    first = np.linspace(0, energy.size, CELLS // 2 + 1).astype(np.int64)[:-1]
    last = np.append(first[1:], energy.size) - 1
    low, high = energy[first], energy[last]
    weight = np.add.reduceat(masses, first)
    lean = np.add.reduceat(masses * energy, first) - weight * low
    width = high - low
    upper = np.divide(lean, width, out=np.zeros_like(lean), where=width > 0)
    upper = np.clip(upper, 0.0, weight)
    return np.concatenate([low, high]), np.concatenate([weight - upper, upper])
