"""The size of a battery: capacity and power for a given ε, horizon and failure probability.

Sizes follow from the proved bound of `guarantee`, so a battery of this size keeps its guarantee.
Simulations show that two thirds to four fifths of the capacity would be enough.
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
from hushmeter.battery.stored_energy import energy_per_reading, refuse_unfit, upkeep_power
from hushmeter.checks import non_negative, positive, seconds
from hushmeter.errors import InputError
from hushmeter.privacy.units import Unit, calibrate

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

HOURS_PER_YEAR = 8760.0
PROBE_KWH = 1e9
"""A capacity that is never reached, so that only the power limits matter. [kWh]"""

SMALLEST_SHARE = 1e-12
"""Smallest failure probability of one reading: 1 − p still has three digits of p as a float."""


@dataclass(frozen=True)
class Prices:
    """Prices of energy and batteries; replace these assumptions by a real offer."""

    energy: float = 0.30  # Price of electricity. [money/kWh]
    capacity: float = 400.0  # Price of an installed battery. [money/kWh]
    cycle_life: float = 6000.0  # Number of full cycles until the battery is worn out
    calendar_life: float = 15.0  # Lifetime of a battery that is not used. [years]

    def __post_init__(self) -> None:
        non_negative("energy price", self.energy)
        non_negative("battery price", self.capacity)
        positive("cycle_life", self.cycle_life)
        positive("calendar_life", self.calendar_life)


@dataclass(frozen=True)
class Upkeep:
    """Losses, cycles and cost of one battery in a year."""

    loss_kwh: float  # Energy lost in a year. [kWh]
    cycles: float  # Full cycles in a year: energy taken from the store divided by the capacity
    life_years: float  # Years until the cycle life or the calendar life is over
    # Price of the lost energy and the battery's price spread over its life. [money/year]
    cost: float


@dataclass(frozen=True)
class Sizing:
    """The smallest battery that keeps a guarantee."""

    epsilon: float  # ε of the unit, including the controller's cost
    scale_w: float  # Scale of the noise. [W]
    controller: str  # Name of the controller
    max_failure: float  # Largest probability of a saturation in the horizon
    horizon_s: float  # Length of the horizon. [s]
    power_kw: float  # Charging and discharging power. [kW]
    capacity_kwh: float  # Usable capacity. [kWh]
    year: Upkeep  # Losses, cycles and cost in a year


def horizon_readings(horizon: float | str, interval_s: float) -> int:
    """Return the number of readings of a horizon such as "1d", at least one."""
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
    """Return the smallest battery whose proved failure bound is at most `max_failure`.

    The power limits get half of the failure probability δ, the full and the empty battery a quarter
    each. The power is the 1 − δ/2T quantile of the noise. Either half of the capacity is the
    minimum over θ of (K(θ) + ln(4/δ))/θ with the K of `climb_exponents`. The battery starts half
    full.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    unit : Unit
        The unit of protection.
    interval_s : float
        Interval at which the battery acts. [s]
    horizon : float or str
        Period of the guarantee: seconds, or text such as "1d".
    max_failure : float
        Largest probability of a saturation in the horizon.
    efficiency : float
        Efficiency of a round trip, 0 to 1.
    controller : {"direct", "reserved", "lookahead"}
        The controller.
    prices : Prices, optional
        Prices of energy and batteries.

    Returns
    -------
    Sizing
        Power, capacity and yearly cost.

    Raises
    ------
    InputError
        If `max_failure` is too small for the number of readings.
    """
    failure = _share(max_failure)
    control = choose_control(controller, horizon_readings(horizon, interval_s))
    refuse_unfit(mechanism)
    if failure / control.readings < SMALLEST_SHARE:
        raise InputError(
            f"max_failure = {failure:g} is too small for {control.readings} readings; use a larger "
            "value or a shorter horizon."
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
    """Size batteries for several ε and controllers.

    An ε whose noise is too wide for any grid is left out.

    Parameters
    ----------
    unit : Unit
        The unit of protection.
    epsilons : sequence of float
        Values of ε of the unit.
    mechanism : {"laplace", "staircase", "gaussian"}
        The noise.
    controllers : sequence of str
        Names of the controllers.
    delta : float
        δ of Gaussian noise.
    interval_s, horizon, options
        As for `size_battery`.

    Returns
    -------
    list of Sizing
        One entry for each controller and ε.
    """
    table = []
    options |= {"interval_s": interval_s}
    for name in controllers:
        grid = control_grid(choose_control(name, horizon_readings(horizon, interval_s)), unit)
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
    """Return the smallest ε for which the proved failure bound is at most `max_failure`."""
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
    """Return the expected losses, cycles and cost of a year.

    The upkeep power u equals the mean loss, so a year loses u·8760 h. The number of cycles is
    E[s(b)⁻]·8760 h divided by the capacity. The reserved controller's pull adds little and is left
    out.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    battery : Battery
        The battery.
    prices : Prices
        Prices of energy and batteries.

    Returns
    -------
    Upkeep
        Expected values of one year.
    """
    stored = energy_per_reading(mechanism, battery)
    lost = upkeep_power(mechanism, battery) * HOURS_PER_YEAR / WH_PER_KWH
    per_reading = -float(np.minimum(stored.energy, 0.0) @ stored.masses)
    taken = per_reading / battery.hours * HOURS_PER_YEAR / WH_PER_KWH
    cycles = taken / battery.capacity_kwh
    life = min(prices.calendar_life, prices.cycle_life / cycles if cycles else math.inf)
    cost = lost * prices.energy + battery.capacity_kwh * prices.capacity / life
    return Upkeep(lost, cycles, life, cost)


def _side(mechanism: Mechanism, probe: Battery, control: Control, failure: float) -> float:
    """Half of the capacity [Wh] that the energy exceeds with at most this probability."""
    stored = energy_per_reading(mechanism, probe)
    sides = []
    for sign in (1.0, -1.0):
        rates, exponents = climb_exponents(stored, sign, mechanism, probe, control)
        sides.append(float(((exponents - math.log(failure)) / rates).min()))
    return max(sides)


def _share(max_failure: float) -> float:
    if not 0 < positive("max_failure", max_failure) < 1:
        raise InputError(f"max_failure must lie between 0 and 1, got {max_failure}.")
    return float(max_failure)
