"""What one simulated release costs: energy, bill, hourly curve and peak beside the true ones."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.advice.sentences import explain
from hushmeter.checks import FloatArray, IntArray
from hushmeter.releases.cost import expect_cost
from hushmeter.web import answers
from hushmeter.web.thin import POINTS, milliseconds

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Trace

MS_PER_HOUR = 3_600_000
JOULES_PER_KWH = 3.6e6


def find_cost(
    trace: Trace, released: Trace, mechanism: Mechanism, price_per_kwh: float, currency: str
) -> answers.CostModel:
    """Energy [kWh], bill and hourly means [W] as metered and as released."""
    expected = expect_cost(mechanism, released.interval_s, price_per_kwh=price_per_kwh)
    seen = trace if len(released) == len(trace) else trace.coarsen(released.interval_s)
    true, noisy = energy_kwh(seen), energy_kwh(released)
    spread = mechanism.std * math.sqrt(len(released)) * released.interval_s / JOULES_PER_KWH
    hours, true_w = hourly_means(seen)
    noisy_w = hourly_means(released)[1]
    return answers.CostModel(
        hourly=list(zip(hours.tolist(), _rounded(true_w), _rounded(noisy_w), strict=True))[:POINTS],
        kwh=answers.Amount(true=true, released=noisy, error_sd=spread),
        bill=answers.Bill(
            true=true * price_per_kwh,
            released=noisy * price_per_kwh,
            error_sd=spread * price_per_kwh,
            price_per_kwh=price_per_kwh,
            currency=currency,
        ),
        peak=answers.Peak(true=float(true_w.max()), released=float(noisy_w.max())),
        expected=asdict(expected),
        sentences=list(explain(expected)),
    )


def energy_kwh(trace: Trace) -> float:
    """Energy of all readings [kWh]."""
    return float(trace.readings.sum()) * trace.interval_s / JOULES_PER_KWH


def hourly_means(trace: Trace) -> tuple[IntArray, FloatArray]:
    """Start [ms since 1970, UTC] and mean power [W] of every hour that holds a reading."""
    hours, place = np.unique(milliseconds(trace) // MS_PER_HOUR, return_inverse=True)
    means: FloatArray = np.bincount(place, weights=trace.readings) / np.bincount(place)
    starts: IntArray = hours * MS_PER_HOUR
    return starts, means


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
