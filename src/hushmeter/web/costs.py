"""What one simulated release costs: energy, bill, hourly curve and peak beside the true ones."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from hushmeter.advice.sentences import explain
from hushmeter.checks import FloatArray
from hushmeter.releases.cost import expect_cost
from hushmeter.trace import JOULES_PER_KWH
from hushmeter.web import answers
from hushmeter.web.thin import POINTS, milliseconds

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.trace import Trace


def find_cost(
    trace: Trace, released: Trace, mechanism: Mechanism, price_per_kwh: float, currency: str
) -> answers.CostModel:
    """Energy [kWh], bill and hourly means [W] as metered and as released."""
    expected = expect_cost(mechanism, released.interval_s, price_per_kwh=price_per_kwh)
    seen = trace if len(released) == len(trace) else trace.coarsen(released.interval_s)
    true, noisy = seen.energy_kwh, released.energy_kwh
    spread = mechanism.std * math.sqrt(len(released)) * released.interval_s / JOULES_PER_KWH
    hourly = seen.hourly()
    true_w, noisy_w = hourly.readings, released.hourly().readings
    return answers.CostModel(
        hourly=list(
            zip(milliseconds(hourly).tolist(), _rounded(true_w), _rounded(noisy_w), strict=True)
        )[:POINTS],
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


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
