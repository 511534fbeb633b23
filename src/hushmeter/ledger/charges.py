"""What one period of a customer costs: the amounts that a ledger charges.

A release promises an ε for its unit of protection, for example one reading. A customer is not one
reading. The ledger therefore charges the (ε, δ) of the change that it declares (`DayChange`), so
that its sums, caps and messages are about customers and do not depend on the unit that a release
chose. With changes of d_1, d_2, … grid steps of the released values, at the worst place:

    Laplace     ε = Σ d_k·(ε₁/Δ_g): the sum of the losses; δ = 0
    staircase   ε = Σ ⌈d_k/Δ_g⌉·ε₁; δ = 0
    Gaussian    ε of a change of Euclidean length √(Σ d_k²) at the δ of the noise

where ε₁ is the loss of one value that changes by Δ_g steps. For Laplace and staircase noise a
ledger may charge the smaller ε of the composed privacy-loss distribution at its own δ'.

Amounts are whole numbers: ε in millionths (micro-ε) and δ in units of 10⁻¹⁵ (femto-δ). Charges are
rounded up and caps are rounded down.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmeter.errors import InputError
from hushmeter.noise.parameters import exact
from hushmeter.privacy.accounting import compose_change
from hushmeter.privacy.sensitivity import in_steps

if TYPE_CHECKING:
    from hushmeter.ledger.day_change import DayChange
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.sensitivity import Change

MICRO = 10**6
"""micro-ε per ε."""

FEMTO = 10**15
"""femto-δ per δ."""

LARGEST = 10**15
"""Largest charge or cap [micro-ε or femto-δ]; sums of such amounts fit into 64 bits."""


class Price(NamedTuple):
    """What one (meter, period) costs."""

    micro: int  # ε of the change that the ledger declares [micro-ε]
    femto: int = 0  # δ of that change [femto-δ]


def period_price(mechanism: Mechanism, change: Change, *, composition_delta: float = 0.0) -> Price:
    """Compute what the change of a period costs under the noise of a release."""
    total = mechanism.cost(in_steps(mechanism, change))
    if composition_delta > 0 and not mechanism.delta:
        composed = compose_change(mechanism, change, composition_delta).epsilon
        if composed < total:
            return Price(micro_epsilon(composed), femto_delta(composition_delta))
    return Price(micro_epsilon(total), femto_delta(mechanism.delta))


def micro_epsilon(epsilon: Any) -> int:
    """Convert ε to the amount that a ledger charges, ⌈ε·10⁶⌉ [micro-ε]."""
    return _check_size("epsilon", math.ceil(exact("epsilon", epsilon) * MICRO), MICRO)


def femto_delta(delta: Any) -> int:
    """Convert δ to the amount that a ledger charges, ⌈δ·10¹⁵⌉ [femto-δ]; 0 stays 0."""
    if delta == 0:
        return 0
    return _check_size("delta", math.ceil(exact("delta", delta) * FEMTO), FEMTO)


def micro_cap(name: str, epsilon: Any) -> int:
    """Convert ε to a cap, ⌊ε·10⁶⌋ [micro-ε]; a cap is never rounded up."""
    micro = math.floor(exact(name, epsilon) * MICRO)
    if micro < 1:
        raise InputError(f"{name} must be at least 0.000001, got {epsilon}.")
    return _check_size(name, micro, MICRO)


def femto_cap(delta: Any) -> int:
    """Convert δ to a cap, ⌊δ·10¹⁵⌋ [femto-δ]; a cap is never rounded up."""
    femto = math.floor(exact("delta", delta) * FEMTO)
    if femto < 1:
        raise InputError(f"delta must be at least 1e-15, got {delta}.")
    return _check_size("delta", femto, FEMTO)


def epsilon_text(micro: int) -> str:
    """Write micro-ε as an exact decimal number of ε."""
    whole, rest = divmod(micro, MICRO)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


def delta_text(femto: int) -> str:
    """Write femto-δ as a number of δ."""
    return f"{femto / FEMTO:.6g}"


def price_text(price: Price, change: DayChange, period: str = "day") -> str:
    """Write a price with its unit, for example "ε = 100 for any readings of a customer's day …"."""
    return f"{amount_text(price)} for {change.sentence(period)}"


def amount_text(price: Price) -> str:
    """Write a price without its unit, for example "ε = 100, δ = 1e-06"."""
    delta = f", δ = {delta_text(price.femto)}" if price.femto else ""
    return f"ε = {epsilon_text(price.micro)}{delta}"


def _check_size(name: str, amount: int, scale: int) -> int:
    """Return the amount unless it is too large for sums of 64 bits."""
    if amount > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST // scale}, got {amount // scale}.")
    return amount
