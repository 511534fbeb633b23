"""How large a battery must be: capacity and power against ε, horizon and the chance of failure.

Sizes follow from the proved bound of `guarantee`, so a battery of that size keeps its
promise; simulations show that two thirds to four fifths of the capacity would do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.battery.guarantee import (
    bound_saturation,
    climb_exponents,
    control_epsilon,
)
from hushmeter.battery.storage import (
    WH_PER_KWH,
    Battery,
    Control,
    choose_control,
    control_grid,
)
from hushmeter.battery.stored_energy import refuse_unfit, stored_law, upkeep_power
from hushmeter.checks import non_negative, positive, seconds
from hushmeter.errors import InputError
from hushmeter.privacy.units import Unit, calibrate

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

HOURS_PER_YEAR = 8760.0
# Larger than any home's: only its power limits matter.
PROBE_KWH = 1e9
# Of a failure, per reading: what 1 − p still tells in a float, to a thousandth.
SMALLEST_SHARE = 1e-12


@dataclass(frozen=True)
class Prices:
    """What a battery costs; every number is an assumption to be replaced by an offer.

    Attributes
    ----------
    energy : float
        Price of a kWh of electricity.
    capacity : float
        Price of a kWh of battery, installed.
    cycle_life : float
        Full cycles until the battery is worn out.
    calendar_life : float
        Years until it is, whether used or not.
    """

    energy: float = 0.30
    capacity: float = 400.0
    cycle_life: float = 6000.0
    calendar_life: float = 15.0

    def __post_init__(self) -> None:
        non_negative("energy price", self.energy)
        non_negative("battery price", self.capacity)
        positive("cycle_life", self.cycle_life)
        positive("calendar_life", self.calendar_life)


@dataclass(frozen=True)
class Upkeep:
    """A year of one battery.

    Attributes
    ----------
    loss_kwh : float
        Energy lost [kWh].
    cycles : float
        Full cycles: energy taken from the store over its capacity.
    life_years : float
        Until the cycles or the years are used up.
    cost : float
        Energy lost and the battery's price spread over its life.
    """

    loss_kwh: float
    cycles: float
    life_years: float
    cost: float


@dataclass(frozen=True)
class Sizing:
    """A battery that keeps a promise.

    Attributes
    ----------
    epsilon : float
        ε of the unit, the controller's price included.
    scale_w : float
        Width of the noise [W].
    controller : str
    max_failure : float
        Largest probability of a saturation in the horizon.
    horizon_s : float
        [s]
    power_kw, capacity_kwh : float
    year : Upkeep
    """

    epsilon: float
    scale_w: float
    controller: str
    max_failure: float
    horizon_s: float
    power_kw: float
    capacity_kwh: float
    year: Upkeep


def readings_in(horizon: float | str, interval_s: float) -> int:
    """Readings of a horizon such as "1d", at least one."""
    return max(1, round(seconds("horizon", horizon) / interval_s))


def size_battery(
    mechanism: Mechanism,
    unit: Unit,
    *,
    interval_s: float,
    horizon: float | str = "1d",
    max_failure: float = 0.01,
    efficiency: float = 0.9,
    controller: str = "direct",
    prices: Prices | None = None,
) -> Sizing:
    """The smallest battery whose proved failure bound is at most `max_failure`.

    Half of the failure is left to the power and a quarter each to the full and the empty battery:
    power is the 1 − δ/2T quantile of the noise, and a side of the store min over θ of
    (K(θ) + ln(4/δ))/θ with the K of `climb_exponents`. The battery starts half full.

    Parameters
    ----------
    mechanism : Mechanism
    unit : Unit
        What ε protects.
    interval_s : float
        [s]
    horizon : float or str
        Over which the promise is made, such as "1d".
    max_failure : float
    efficiency : float
        Of a round trip.
    controller : {"direct", "reserved", "lookahead"}
    prices : Prices, optional
    """
    failure = _share(max_failure)
    control = choose_control(controller, readings_in(horizon, interval_s))
    refuse_unfit(mechanism)
    if failure / control.readings < SMALLEST_SHARE:
        raise InputError(
            f"max_failure = {failure:g} over {control.readings} readings is too small to size for."
        )
    wide = Battery(PROBE_KWH, PROBE_KWH, efficiency=efficiency, interval_s=interval_s)
    draws = mechanism.quantile(1 - failure / (2 * control.readings))
    power = (draws + mechanism.grid + upkeep_power(mechanism, wide)) / 1000
    probe = Battery(PROBE_KWH, power, efficiency=efficiency, interval_s=interval_s)
    side = _side(mechanism, probe, control, failure / 4)
    power += (control.pull * side / probe.hours + control.pull * mechanism.grid) / 1000
    capacity = 2 * side / WH_PER_KWH
    final = Battery(capacity, power, efficiency=efficiency, interval_s=interval_s)
    return Sizing(
        epsilon=control_epsilon(mechanism, unit, final, control)[0],
        scale_w=mechanism.scale,
        controller=controller,
        max_failure=failure,
        horizon_s=control.readings * interval_s,
        power_kw=power,
        capacity_kwh=capacity,
        year=expect_year(mechanism, final, prices or Prices()),
    )


def size_table(
    unit: Unit,
    epsilons: Sequence[float],
    *,
    mechanism: str = "laplace",
    controllers: Sequence[str] = ("direct", "reserved"),
    interval_s: float,
    horizon: float | str = "1d",
    delta: float = 1e-6,
    **options: float | Prices | None,
) -> list[Sizing]:
    """`size_battery` for several ε and controllers; an ε whose noise fits no grid is left out.

    Parameters
    ----------
    unit : Unit
    epsilons : sequence of float
    mechanism : {"laplace", "staircase", "gaussian"}
    controllers : sequence of str
    delta : float
        δ of Gaussian noise.
    interval_s, horizon, options
        As for `size_battery`.
    """
    table = []
    options |= {"interval_s": interval_s}
    for name in controllers:
        grid = control_grid(choose_control(name, readings_in(horizon, interval_s)), unit)
        for epsilon in epsilons:
            try:
                noise = calibrate(mechanism, epsilon, unit, delta=delta, grid=grid)
                refuse_unfit(noise)
            except InputError:
                continue
            table.append(size_battery(noise, unit, horizon=horizon, controller=name, **options))  # type: ignore[arg-type]
    return table


def least_epsilon(
    unit: Unit,
    battery: Battery,
    control: Control,
    *,
    max_failure: float = 0.01,
    mechanism: str = "laplace",
    delta: float = 1e-6,
    most: float = 20.0,
) -> float | None:
    """The smallest ε of the noise that a battery serves with a proved failure ≤ `max_failure`.

    By bisection in ln ε; None if it serves none up to `most`.
    """
    failure, grid = _share(max_failure), control_grid(control, unit)

    def serves(epsilon: float) -> bool:
        try:
            noise = calibrate(mechanism, epsilon, unit, delta=delta, grid=grid)
            refuse_unfit(noise)
        except InputError:
            return False
        return bound_saturation(noise, battery, control) <= failure

    low, high = 1e-3, most
    if not serves(high):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if serves(middle) else (middle, high)
    return high


def expect_year(mechanism: Mechanism, battery: Battery, prices: Prices) -> Upkeep:
    """Losses, cycles and cost of a year from the law of the noise.

    The charge u that keeps the store level is what is lost: u·8760 h. Cycles count E[s(b)⁻]·8760 h
    over the capacity. The pull of the reserved controller adds little and is left out.
    """
    law = stored_law(mechanism, battery)
    lost = upkeep_power(mechanism, battery) * HOURS_PER_YEAR / WH_PER_KWH
    per_reading = -float(np.minimum(law.energy, 0.0) @ law.masses)
    taken = per_reading / battery.hours * HOURS_PER_YEAR / WH_PER_KWH
    cycles = taken / battery.capacity_kwh
    life = min(prices.calendar_life, prices.cycle_life / cycles if cycles else math.inf)
    cost = lost * prices.energy + battery.capacity_kwh * prices.capacity / life
    return Upkeep(lost, cycles, life, cost)


def _side(mechanism: Mechanism, probe: Battery, control: Control, failure: float) -> float:
    """Room [Wh] on either side of the start that is left with at most this probability."""
    law = stored_law(mechanism, probe)
    sides = []
    for sign in (1.0, -1.0):
        rates, exponents = climb_exponents(law, sign, mechanism, probe, control)
        sides.append(float(((exponents - math.log(failure)) / rates).min()))
    return max(sides)


def _share(max_failure: float) -> float:
    if not 0 < positive("max_failure", max_failure) < 1:
        raise InputError(f"max_failure must lie between 0 and 1, got {max_failure}.")
    return float(max_failure)
