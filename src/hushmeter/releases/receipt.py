"""The receipt of a release: what was promised, for machines and for people."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter import __version__
from hushmeter.formatting import duration_in_words
from hushmeter.privacy.accounting import (
    DELTA,
    SECONDS_PER_DAY,
    ApplianceAccount,
    Composition,
    account,
)
from hushmeter.privacy.units import Unit, unit_epsilon
from hushmeter.trace import Trace, iso

if TYPE_CHECKING:
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism

SCHEMA = "hushmeter-receipt-1"


@dataclass(frozen=True)
class Receipt:
    """What a release promises.

    Attributes
    ----------
    kind : {"release", "simulation"}
        A simulation used a seed; its noise can be replayed and must not be published.
    mechanism : dict
        Law, ε, δ, sensitivity, grid, clamp and scale of the noise.
    unit : dict
        What is protected, over how long, and its Δ1 and Δ2 [W].
    epsilon : float
        ε at which the unit is protected; the mechanism's own if it was calibrated to the unit.
    delta : float
        δ of the unit; 0 for Laplace and staircase.
    composition_delta : float
        δ' of the composed ε of the appliances.
    appliances : tuple of ApplianceAccount
        What the release says about each appliance of the home; empty without a home.
    output : dict
        Number, interval, span of time and SHA-256 of the released readings.
    version : str
        Of hushmeter.
    """

    kind: str
    mechanism: dict[str, Any]
    unit: dict[str, Any]
    epsilon: float
    delta: float
    composition_delta: float
    appliances: tuple[ApplianceAccount, ...]
    output: dict[str, Any]
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in the JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """The receipt as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        noise = self.mechanism
        lines = [
            f"{self.kind}: {self.output['readings']} readings of "
            f"{duration_in_words(self.output['interval_s'])} from {self.output['start']}",
            f"noise: {noise['mechanism']}, scale {_four_digits(noise['scale'])} W on a grid of "
            f"{noise['grid']:g} W" + (" (coarsened)" if noise["coarsened"] else ""),
            f"protected: {self.unit['sentence']}",
            f"at ε = {self.epsilon:.4g}" + (f", δ = {self.delta:g}" if self.delta else ""),
        ]
        return "\n".join([*lines, *_appliance_lines(self.appliances)])


def write_receipt(
    released: Trace,
    mechanism: Mechanism,
    unit: Unit,
    *,
    home: Home | None,
    simulation: bool,
    delta: float = DELTA,
) -> Receipt:
    """Draw up the receipt of released readings."""
    per_day = math.ceil(SECONDS_PER_DAY / unit.interval_s)
    accounts: tuple[ApplianceAccount, ...] = ()
    if home is not None:
        accounts = account(
            mechanism, home, per_day, delta=delta, interval_s=unit.interval_s, window=unit.window
        )
    return Receipt(
        kind="simulation" if simulation else "release",
        mechanism=mechanism.describe(),
        unit={
            "protect": unit.protect,
            "span": unit.span,
            "sentence": unit.sentence,
            "interval_s": unit.interval_s,
            "window": unit.window,
            "l1": unit.l1,
            "l2": unit.l2,
            "touches": unit.touches,
        },
        epsilon=unit_epsilon(mechanism, unit),
        delta=mechanism.delta,
        composition_delta=delta,
        appliances=accounts,
        output={
            "readings": len(released),
            "interval_s": released.interval_s,
            "start": iso(released.times[0]),
            "end": iso(released.times[-1]),
            "sha256": digest(released),
        },
    )


def digest(trace: Trace) -> str:
    """SHA-256 of the times (int64 ns since 1970) and readings (float64), little-endian."""
    sums = hashlib.sha256()
    sums.update(trace.times.astype("<i8").tobytes())
    sums.update(np.ascontiguousarray(trace.readings, dtype="<f8").tobytes())
    return sums.hexdigest()


def _appliance_lines(entries: tuple[ApplianceAccount, ...]) -> list[str]:
    """How often the best attacker is right about each appliance, with the ε it faces."""
    if not entries:
        return []
    rows: list[tuple[str, ...]] = [("best guess right of 100", "one reading", "one run", "one day")]
    for entry in entries:
        spans = (entry.reading, entry.run, entry.day)
        rows.append((f"  {entry.name} ({entry.watts:g} W)", *map(_span, spans)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        row[0].ljust(widths[0])
        + "".join("  " + c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def _four_digits(value: float) -> str:
    """Four digits, and no exponent below a million."""
    return f"{float(f'{value:.4g}'):g}"


def _span(entry: Composition | None) -> str:
    if entry is None:
        return "length unknown"
    odds = f"{100 * entry.odds:.1f}" if entry.odds < 0.9995 else ">99.9"
    return f"{odds} (ε {float(f'{entry.epsilon:.3g}'):g})"
