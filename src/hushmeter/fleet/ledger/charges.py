"""What one period of a customer costs: the amounts that a ledger charges.

A release promises an ε for its unit of protection, for example one reading. A customer is not one
reading. The ledger therefore charges the (ε, δ) that protects *all* readings of a meter in a period
together, so that its sums, caps and messages are about customers and do not depend on the unit
that a release chose. With n released values in the period, each with its own noise:

    Laplace, staircase   ε = n·ε₁, δ = 0, where ε₁ protects one value; or the smaller ε of the
                         composed privacy-loss distribution at the δ' of the ledger
    Gaussian             ε of a change of Euclidean length √n·Δ at the δ of the noise

A civil day has up to 25 hours, and a civil month up to 31 days and one hour. A period is charged
for the longest one, because the clock changes at another time than the UTC calendar.

Amounts are whole numbers: ε in millionths (micro-ε) and δ in units of 10⁻¹⁵ (femto-δ). Charges are
rounded up and caps are rounded down.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmeter.checks import one_of
from hushmeter.errors import InputError
from hushmeter.noise.parameters import exact
from hushmeter.privacy.accounting import compose

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

PERIODS = ("day", "month")
MICRO = 10**6
"""micro-ε per ε."""

FEMTO = 10**15
"""femto-δ per δ."""

LARGEST = 10**15
"""Largest charge or cap [micro-ε or femto-δ]; sums of such amounts fit into 64 bits."""

LONGEST_S = {"day": 25 * 3600, "month": (31 * 24 + 1) * 3600}
"""Length of the longest civil day and month [s]."""

UNITS = {
    "day": "all readings of a customer's day (up to 25 hours)",
    "month": "all readings of a customer's month (up to 31 days and one hour)",
}
"""What the ε of a charge protects."""

_ZONE_STEP_S = 900
"""Time zones differ by whole multiples of this time [s]."""


class Price(NamedTuple):
    """What one (meter, period) costs.

    Attributes
    ----------
    micro : int
        ε for all readings of the period [micro-ε].
    femto : int
        δ for all readings of the period [femto-δ].
    """

    micro: int
    femto: int = 0


def period_price(
    mechanism: Mechanism,
    watts: float,
    interval_s: float,
    period: str,
    *,
    composition_delta: float = 0.0,
) -> Price:
    """Compute what all released values of a customer's period cost together.

    Parameters
    ----------
    mechanism : Mechanism
        The noise on every released value.
    watts : float
        Largest change of one released value that the unit of protection covers [W].
    interval_s : float
        Length of a released value [s].
    period : {"day", "month"}
        Period that the ledger charges.
    composition_delta : float
        δ' of the ledger. If it is positive, Laplace and staircase noise are charged the composed
        ε at δ' wherever that is less than the sum.

    Returns
    -------
    Price

    Raises
    ------
    InputError
        If the amount is too large for a ledger.
    """
    seconds = LONGEST_S[one_of("period", period, PERIODS)]
    values = math.ceil(Fraction(seconds) / Fraction(interval_s))
    # A day may begin within a reading if the reading is longer than the step of time zones.
    touched = values + (_ZONE_STEP_S % interval_s != 0)
    if mechanism.delta > 0:
        epsilon = mechanism.epsilon_for(watts * math.sqrt(values), touched)
        return Price(micro_epsilon(epsilon), femto_delta(mechanism.delta))
    total = _sum_of_losses(mechanism, watts, values, touched)
    if composition_delta > 0:
        composed = compose(mechanism, [(watts, touched)], composition_delta).epsilon
        if composed < total:
            return Price(micro_epsilon(composed), femto_delta(composition_delta))
    return Price(micro_epsilon(total))


def _sum_of_losses(mechanism: Mechanism, watts: float, values: int, touched: int) -> Fraction:
    """Add up the exact losses of a period for noise without δ.

    A change of Laplace noise that covers a part of a value costs that part. The staircase is
    charged fully for every value that the change touches.
    """
    steps = mechanism.steps_of(watts)
    if mechanism.name == "staircase":
        return mechanism.exact_epsilon * touched * -(-steps // mechanism.steps)
    return mechanism.exact_epsilon / mechanism.steps * steps * values


def micro_epsilon(epsilon: Any) -> int:
    """Convert ε to the amount that a ledger charges, ⌈ε·10⁶⌉ [micro-ε].

    Parameters
    ----------
    epsilon : int, float, str, Fraction or Decimal
        A positive number; a float means its shortest decimal form.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If ε is not positive and finite, or beyond the largest amount.
    """
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


def price_text(price: Price, period: str) -> str:
    """Write a price with its unit, for example "ε = 100 for all readings of a customer's day"."""
    delta = f", δ = {delta_text(price.femto)}" if price.femto else ""
    return f"ε = {epsilon_text(price.micro)}{delta} for {UNITS[period]}"


def _check_size(name: str, amount: int, scale: int) -> int:
    """Return the amount unless it is too large for sums of 64 bits."""
    if amount > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST // scale}, got {amount // scale}.")
    return amount
