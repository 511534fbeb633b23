"""The laws a battery lives by: the noise, the charge against losses, the energy stored."""

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
MAX_REACH = 1 << 21


def stored_power(power: FloatArray, battery: Battery) -> FloatArray:
    """s(b) [W]."""
    return np.where(power >= 0, power * battery.one_way, power / battery.one_way)


def upkeep_power(mechanism: Mechanism, battery: Battery) -> float:
    """The constant charge u [W] with E[s(n + u)] = 0: what the losses take on average."""
    if battery.efficiency == 1 or math.isinf(battery.capacity_kwh):
        return 0.0
    return _level_charge(mechanism, battery.one_way)


@lru_cache(maxsize=16)
def _level_charge(mechanism: Mechanism, one_way: float) -> float:
    """The root u of η·E(n + u)⁺ − E(n + u)⁻/η, with the sums right of −u from tables."""
    places, masses = noise_law(mechanism)
    above = np.cumsum(masses[::-1])[::-1]
    moment = np.cumsum((places * masses)[::-1])[::-1]
    # At u = −k·g for place k: Σ_{n ≥ k} (n − k)·p_n, and E(n + u)⁻ = E(n + u)⁺ + k.
    gain = moment - places * above
    drift = one_way * gain - (gain + places) / one_way
    # The drift falls with k and is linear between places.
    return float(-np.interp(0.0, drift[::-1], places[::-1])) * mechanism.grid


@lru_cache(maxsize=4)
def noise_law(mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Places [grid steps] and masses of the noise but for 1e-18 at either end."""
    reach = max(1, round(mechanism.std / mechanism.grid))
    while float(mechanism.cdf(-reach)) > 1e-18:
        reach = math.ceil(1.3 * reach)
    if reach > MAX_REACH:
        return _wide_law(mechanism, reach)
    places = np.arange(-reach, reach + 1)
    masses = np.asarray(mechanism.pmf(places))
    kept = np.flatnonzero(masses > 0)
    inside = slice(int(kept[0]), int(kept[-1]) + 1)
    law = places[inside].astype(np.float64), masses[inside]
    for array in law:
        array.setflags(write=False)
    return law


def _wide_law(mechanism: Mechanism, reach: int) -> tuple[FloatArray, FloatArray]:
    """The law of very wide noise in cells, half of each at either end.

    Masses fall with |n|, so |n| is at most made larger, by (cell/scale)² of itself, about 1e-9.
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
    """A battery can neither clamp a load nor make a meter's resolution coarser."""
    if mechanism.clamp is not None:
        raise InputError("a battery cannot clamp readings; use a mechanism without clamp.")
    if mechanism.coarsened:
        raise InputError(
            f"noise of {mechanism.scale:.3g} W needs a grid of {mechanism.grid:g} W, coarser than "
            "the meter, whose last digits would then show the load; raise epsilon."
        )


@dataclass(frozen=True)
class StoredLaw:
    """The law of the energy that one reading puts into the store.

    Attributes
    ----------
    energy : array
        Values z [Wh], 0 in place of draws beyond the power limits.
    masses : array
    outside : float
        Probability of such a draw.
    """

    energy: FloatArray
    masses: FloatArray
    outside: float

    def log_moment(self, rates: FloatArray, sign: float) -> FloatArray:
        """ψ(θ) = ln E e^{±θz} for every rate θ [1/Wh]."""
        highest = float((sign * self.energy).max())
        table = np.empty(rates.size)
        for i, rate in enumerate(rates):
            weights = np.exp(rate * (sign * self.energy - highest)) @ self.masses
            table[i] = math.log(weights) + rate * highest
        return table

    @property
    def spread(self) -> float:
        """√E[z²] [Wh]."""
        return math.sqrt(float(self.energy**2 @ self.masses))


def stored_law(mechanism: Mechanism, battery: Battery, pull: float = 0.0) -> StoredLaw:
    """The law of z for a battery; the pull of the reserved controller takes its share of power."""
    above, below, charge, discharge, into, out, hours = battery.limits
    upkeep = upkeep_power(mechanism, battery)
    places, masses = noise_law(mechanism)
    power = places * mechanism.grid + upkeep
    most, least = charge, -discharge
    if pull:
        half = mechanism.grid / 2
        most = charge - pull * below / hours - half if math.isfinite(charge) else charge
        least = pull * above / hours + half - discharge if math.isfinite(discharge) else least
    inside = np.flatnonzero((power <= most) & (power >= least))
    if inside.size == 0:
        return StoredLaw(np.zeros(1), np.ones(1), 1.0)
    # From the tails and not by subtraction from one, which would lose them.
    first, last = int(places[inside[0]]), int(places[inside[-1]])
    outside = float(mechanism.cdf(first - 1)) + float(mechanism.cdf(-last - 1))
    energy = hours * np.where(power >= 0, power * into, power / out)[inside]
    cells, weights = _gather(energy, masses[inside])
    return StoredLaw(np.append(cells, 0.0), np.append(weights, outside), outside)


def _gather(energy: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A law of few points with the same mean and no smaller E e^{θz}: cells moved to their ends.

    Within a cell all mass goes to its two ends in the proportion that keeps the mean; e^{θz} is
    convex, so its mean can only rise and the bound stays one.
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
