"""What a ledger protects and charges: the change of a customer's day, and its (ε, δ).

A ledger adds up the ε of many releases. The sum has a meaning only if every ε is that of the same
change. A ledger therefore declares this change once, in its first entry, and every charge is the
cost of *that* change under the noise of the release, whatever the unit of the release is. It is

    a clamp       any values of all readings of a day within [low, high] W; a release must clamp
                  its metered readings to this range before it takes means
    a day's use   a change of every reading by at most P watts, and of all readings of the day
                  together by at most E watt-hours (what is added and what is removed both count)

The days are the civil days of one time zone, which the ledger declares too, so that the readings of
a local day, which a nightly job extracts, are one period. A civil day has up to 25 hours, and it
begins at a multiple of a quarter of an hour (UTC), because time zones differ by such multiples. It
overlaps at most m = ⌈(I − g + 25 h)/I⌉ metered readings of I seconds that lie on whole multiples of
I, where g is the greatest common divisor of I and 900 s, and ⌈25 h/I⌉ + 1 readings that do not.
Each of these readings can change, and no other one, except by copies and by the phase of a register
(see `hushmeter.privacy.sensitivity`). The change of a month is that of each of its days.

A release promises an ε for its unit of protection, for example one reading. A customer is not one
reading. The sums, caps and messages of a ledger are about customers and do not depend on the unit
that a release chose. If the change moves the released values by d_1, d_2, … grid steps, where it
moves them most, its cost is:

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
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmeter.checks import one_of, positive
from hushmeter.clock import check_zone, is_utc
from hushmeter.errors import InputError
from hushmeter.noise.mechanism import clamp_bounds, exact
from hushmeter.privacy import compose_change
from hushmeter.privacy.sensitivity import IDEAL, Change, in_steps, round_up
from hushmeter.trace import SECONDS_PER_HOUR, Metering

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit

PERIODS = ("day", "month")
"""Periods by which a ledger counts."""

DAYS = {"day": 1, "month": 31}
"""Most civil days of a period."""

LONGEST_S = {"day": 25 * SECONDS_PER_HOUR, "month": (31 * 24 + 1) * SECONDS_PER_HOUR}
"""Length of the longest civil day and month [s]."""

ZONE_STEP_S = 900
"""Time zones differ by whole multiples of this time [s]."""

_LENGTHS = {"day": "up to 25 hours", "month": "up to 31 days and one hour"}
_UNITS = {"W": 1.0, "kW": 1000.0, "Wh": 1.0, "kWh": 1000.0}

MICRO = 10**6
"""micro-ε per ε."""

FEMTO = 10**15
"""femto-δ per δ."""

LARGEST = 10**15
"""Largest charge or cap [micro-ε or femto-δ]; sums of such amounts fit into 64 bits."""


@dataclass(frozen=True)
class DayChange:
    """What may differ within one day of a customer; see the module."""

    watts: float  # Largest change P of a reading [W]
    watt_hours: float  # Largest change E of all readings of a civil day together [Wh]
    # Range of the readings [W], if any values within it are protected
    clamp: tuple[float, float] | None = None
    zone: str = "UTC"  # Time zone of the civil days and months that are charged

    def __post_init__(self) -> None:
        check_zone(self.zone)
        for name in ("watts", "watt_hours"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        hours = LONGEST_S["day"] / SECONDS_PER_HOUR
        if self.watt_hours > self.watts * hours * (1 + 1e-9):
            raise InputError(
                f"a change of {_amount(self.watts, 'W')} has at most "
                f"{_amount(self.watts * hours, 'Wh')} in a day of {hours:g} hours, got "
                f"{_amount(self.watt_hours, 'Wh')}; state less energy or more power."
            )

    @classmethod
    def within(cls, low: float, high: float, zone: str = "UTC") -> DayChange:
        """Return the change that protects any readings of a day between two bounds [W]."""
        bounds = clamp_bounds((low, high))
        assert bounds is not None
        width = bounds[1] - bounds[0]
        return cls(width, width * LONGEST_S["day"] / SECONDS_PER_HOUR, bounds, zone)

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> DayChange:
        """Read a day's use such as 3kW,8kWh; numbers without a unit are watts and watt-hours."""
        match = re.fullmatch(r"\s*([\d.]+)\s*(W|kW)?\s*,\s*([\d.]+)\s*(Wh|kWh)?\s*", text)
        try:
            assert match is not None
            power, energy = float(match[1]), float(match[3])
        except (AssertionError, ValueError):
            raise InputError(
                f"change must be a power and an energy such as 3kW,8kWh, got {text!r}."
            ) from None
        watts, watt_hours = power * _UNITS[match[2] or "W"], energy * _UNITS[match[4] or "Wh"]
        return cls(watts, watt_hours, zone=zone)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> DayChange:
        """Return the change that `describe`, or `dataclasses.asdict`, wrote."""
        zone = plain.get("zone", "UTC")
        if plain.get("clamp") is not None:
            low, high = plain["clamp"]
            return cls.within(low, high, zone)
        return cls(plain["watts"], plain["watt_hours"], zone=zone)

    def describe(self) -> dict[str, Any]:
        """Return the declaration as plain values."""
        zone = {} if is_utc(self.zone) else {"zone": self.zone}
        if self.clamp is not None:
            return {"clamp": list(self.clamp), **zone}
        return {"watts": self.watts, "watt_hours": self.watt_hours, **zone}

    def sentence(self, period: str = "day") -> str:
        """Return what the ε of a charge is for, in words."""
        where = f"a customer's {period} ({_LENGTHS[period]})"
        where += "" if is_utc(self.zone) else f" in {self.zone}"
        if self.clamp is not None:
            low, high = (_amount(bound, "W") for bound in self.clamp)
            return f"any readings of {where} between {low} and {high}"
        power, energy = _amount(self.watts, "W"), _amount(self.watt_hours, "Wh")
        if period == "day":
            return f"a change of at most {power} and {energy} within {where}"
        return f"a change of at most {power}, and {energy} on each day, within {where}"

    def bounds_for(self, clamp: tuple[float, float] | None) -> tuple[float, float] | None:
        """Return the clamp that a release with this `clamp` must apply to its readings [W]."""
        if self.clamp is None or clamp is None:
            return clamp or self.clamp
        if not (self.clamp[0] <= clamp[0] and clamp[1] <= self.clamp[1]):
            raise InputError(
                f"the ledger protects {self.sentence()}, and the clamp {clamp[0]:g},{clamp[1]:g} "
                "of this release lets readings change further; choose a clamp within "
                f"{self.clamp[0]:g},{self.clamp[1]:g}."
            )
        return clamp

    def on_meter(
        self,
        interval_s: float,
        window: int = 1,
        *,
        clamp: tuple[float, float] | None,
        period: str = "day",
        on_whole_intervals: bool = False,
        metering: Metering = IDEAL,
        values: int = 0,
    ) -> Change:
        """Return how far the change moves the values that are released from a meter.

        Its readings are clamped to a range [W], and a value is the mean of a window of them.
        """
        one_of("period", period, PERIODS)
        if self.clamp is not None and clamp is None:
            raise InputError(
                f"the ledger protects {self.sentence()}, but this release does not clamp its "
                f"readings; clamp them to {self.clamp[0]:g},{self.clamp[1]:g} or a narrower range."
            )
        bounds = self.bounds_for(clamp)
        watts = self.watts if bounds is None else min(self.watts, bounds[1] - bounds[0])
        copies = metering.copies
        readings = touched_readings(interval_s, LONGEST_S[period], on_whole_intervals)
        if self.clamp is not None:
            # Interpolation carries a change beyond the clamp into the readings beside the day.
            readings += metering.reach
        # A copied value may be metered before or after the readings that repeat it.
        seconds = -(-(readings + 2 * (copies - 1)) // copies) * interval_s
        most = watts * seconds
        if self.clamp is None:
            most = min(most, DAYS[period] * self.watt_hours * SECONDS_PER_HOUR)
        else:
            # The clamp bounds a reading after the meter has rounded it.
            metering = replace(metering, resolution_w=0.0)
        return Change(
            period, watts, seconds, interval_s, most, window,
            aligned=True, metering=metering, values=values,
        )  # fmt: skip

    def on_unit(
        self, unit: Unit, clamp: tuple[float, float] | None, *, on_whole_intervals: bool = False
    ) -> Change:
        """Return how far the change moves values that are released with a unit; see `on_meter`."""
        return self.on_meter(
            unit.interval_s,
            unit.window,
            clamp=clamp,
            on_whole_intervals=on_whole_intervals,
            metering=unit.metering,
            values=round_up((unit.readings or 0) / unit.window),
        )


def touched_readings(interval_s: float, length_s: float, on_whole_intervals: bool) -> int:
    """Return the most readings that a civil day or month overlaps."""
    length = round(interval_s * 1e9)
    step = math.gcd(length, ZONE_STEP_S * 10**9) if on_whole_intervals else 1
    return math.ceil(Fraction(length - step + round(length_s * 1e9), length))


def _amount(value: float, unit: str) -> str:
    """Write a power or an energy with all its digits, from 1000 on with a kilo."""
    return f"{value / 1000:.12g} k{unit}" if abs(value) >= 1000 else f"{value:.12g} {unit}"


class Price(NamedTuple):
    """What one (meter, period) costs."""

    micro: int  # ε of the change that the ledger declares [micro-ε]
    femto: int = 0  # δ of that change [femto-δ]


NOTHING = Price(0)


@dataclass(frozen=True)
class Cap:
    """What the days of a customer may cost; None means no bound."""

    total: int | None = None  # Most ε over all periods [micro-ε]
    # Number w of periods, and the most ε within any w periods in a row [micro-ε]
    window: tuple[int, int] | None = None
    delta: int | None = None  # Most δ over all periods [femto-δ]


def merge_caps(own: Cap | None, everybody: Cap) -> Cap:
    """Return the caps in force for a meter: its own where it has one, otherwise that of all."""
    if own is None:
        return everybody
    return Cap(
        everybody.total if own.total is None else own.total,
        everybody.window if own.window is None else own.window,
        everybody.delta if own.delta is None else own.delta,
    )


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


def cap_amount(name: str, value: Any, scale: int = MICRO) -> int:
    """Convert ε, or δ with the scale `FEMTO`, to a cap; it is never rounded up."""
    amount = math.floor(exact(name, value) * scale)
    if amount < 1:
        least = "0.000001" if scale == MICRO else "1e-15"
        raise InputError(f"{name} must be at least {least}, got {value}.")
    return _check_size(name, amount, scale)


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
