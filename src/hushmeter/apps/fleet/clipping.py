"""How far a cap on the energy of a household's day moves sums, from public knowledge and a count.

The cap scales the days above it down, so sums are too small by the excess of these days. The excess
itself would move by a whole day of a household, which is far too much for exact noise. A release
therefore publishes how many customer-days of every group are clipped: one household's day moves
this number by one. Its mean excess comes from a public reference and is an assumption.

*Stated error.* Let n be the noisy number of clipped customer-days of a group, with variance σ², N
the number of its customer-days, p and m the share of clipped days and their mean excess in the
reference. The reference is trusted to within half of pN. The number is then estimated by

    n̂ = (n/σ² + pN/τ²)/(1/σ² + 1/τ²),        τ = pN/2,        v = 1/(1/σ² + 1/τ²),

and the squared error of a sum over the share s of all days is that of its noise plus
m²((n̂² + v)s² + 2n̂s): the clipped days of a sum vary about their mean, and so do their excesses
(2m² is the second moment of an exponential excess).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from hushmeter.checks import FloatArray, positive
from hushmeter.errors import DataError, InputError

CLIPPED = "clipped"
"""Name of the table with the number of clipped customer-days."""

SHARE = 0.05
"""Share of the privacy budget that the number of clipped customer-days gets."""

TRUST = 0.5
"""Standard deviation of the number of clipped days around the reference, as a share of it."""

LOG_SPREAD = 0.75
"""Standard deviation of the logarithm of a household's daily energy, if only its mean is known.

Daily energies of all households of a region are close to lognormal, with a standard deviation of
0.8 to 0.9 times their mean; 0.75 means 0.87 times."""

BUSIEST_HOUR = 2.0
"""Largest energy of an hour of the day that is assumed of clipped days, in mean hours."""

FEWEST_DAYS = 100
"""Fewest days in the file of a reference."""

_MEAN = re.compile(r"([\d.]+)\s*kWh", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """What is publicly known about the energy of a household's day, beside a cap."""

    day_kwh: float  # Mean energy of a day [kWh]
    share: float = 0.0  # Share p of the days above the cap
    excess_kwh: float = 0.0  # Mean excess m of these days [kWh]

    @property
    def lost_share(self) -> float:
        """Share of the energy that the cap cuts off."""
        return self.share * self.excess_kwh / self.day_kwh

    def lost_kwh(
        self, noisy: FloatArray, days: FloatArray, variance: float, share: FloatArray | float
    ) -> FloatArray:
        """Root mean square of what the cap cuts off sums over a share of all days [kWh].

        `noisy` and `days` are n and N of every group, and `variance` is that of the noise of n.
        """
        expected = np.maximum(self.share * days, 1e-12)
        spread = 1 / (1 / variance + 1 / (TRUST * expected) ** 2)
        count = np.maximum(0.0, spread * (noisy / variance + expected / (TRUST * expected) ** 2))
        squares = (count**2 + spread) * share**2 + 2 * count * share
        return np.asarray(self.excess_kwh * np.sqrt(squares))


def read_reference(text: str, cap_kwh: float | None) -> Reference:
    """Read a reference: a mean such as "10 kWh", or a file with the energy of one day in a line.

    Raise `InputError` if the mean cannot be read, and `DataError` if the file has other lines.
    """
    stated = _MEAN.fullmatch(text)
    if stated is not None:
        return _of_mean(positive("reference", float(stated[1])), cap_kwh)
    if not Path(text).is_file():
        raise InputError(
            "--reference is the public mean energy of a household's day, such as 10kWh, or a file "
            f"with the energy of one day in each line; {text!r} is neither."
        )
    return _of_days(_daily_energies(Path(text)), cap_kwh)


def _daily_energies(path: Path) -> FloatArray:
    """Read the energies of days from a file with one number in each line, after a header [kWh]."""
    try:
        _, *lines = path.read_text(encoding="utf-8").split()
        days = np.array([float(line) for line in lines])
    except (OSError, ValueError):
        days = np.zeros(0)
    if days.size < FEWEST_DAYS or not np.isfinite(days).all() or days.min() < 0 or not days.any():
        raise DataError(
            f"{path} is no reference: it needs a header of one word and then the energies of at "
            f"least {FEWEST_DAYS} days in kWh, one in each line, none of them negative."
        )
    return days


def _of_days(days: FloatArray, cap_kwh: float | None) -> Reference:
    mean = float(days.mean())
    if cap_kwh is None:
        return Reference(mean)
    above = days[days > cap_kwh] - cap_kwh
    if not above.size:
        # As many days above the cap as the file cannot exclude.
        return Reference(mean, 3 / days.size, mean)
    return Reference(mean, above.size / days.size, float(above.mean()))


def _of_mean(mean: float, cap_kwh: float | None) -> Reference:
    """The reference of a lognormal distribution."""
    if cap_kwh is None:
        return Reference(mean)
    below = NormalDist().cdf
    place = (math.log(cap_kwh / mean) + LOG_SPREAD**2 / 2) / LOG_SPREAD
    share = max(below(-place), 1e-9)
    excess = mean * below(LOG_SPREAD - place) - cap_kwh * share
    return Reference(mean, share, max(excess / share, 1e-9))
