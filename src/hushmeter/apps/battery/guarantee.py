"""The guarantee of a battery: ε, and the probability δ̂ that the battery cannot follow its noise.

Let A be the event that the battery cuts its noise at any reading of the horizon. A depends on the
noise alone. If A does not occur, the meter shows exactly a release M of an ε-private mechanism. For
the real meter R, any two neighbouring loads x, x' and any set O of outputs,

    P(R(x) ∈ O) ≤ P(M(x) ∈ O) + P(A) ≤ e^ε·P(M(x') ∈ O) + P(A)
                ≤ e^ε·P(R(x') ∈ O) + (1 + e^ε)·P(A),

so the meter is (ε, (1 + e^ε)·P(A))-differentially private over the horizon. P(A) is estimated from
simulated horizons with an exact upper confidence limit [1]_, and bounded by a formula:

*Proof of the bound for direct and lookahead.* Let z_1, z_2, … be the energies that reach the store,
with a draw beyond the power limits replaced by 0, and ψ(θ) = ln E e^{θz}. The products
exp(θ·Σ_{i≤t} z_i − tψ(θ)) are a martingale, so by Ville's inequality [2]_, for every θ > 0,

    P(max_{t≤T} Σ_{i≤t} z_i ≥ a) ≤ exp(−θa + T·max(ψ(θ), 0)),

and likewise for −z. The noise is cut only if a draw exceeds the power limits, or the sum exceeds
the free capacity, or the sum falls below the stored energy: the three probabilities are added.
Lookahead changes the path for the first time exactly if the direct path would be cut.

*Reserved.* Let ρ = 1 − η_c·pull. The part W of the energy above the start obeys
W_t ≤ max(0, ρ·W_{t−1} + z_t + r), with r = g·h/(2η_d) for the rounding of the pull, as long as
pull ≤ η_d. This is a random walk reflected at its start. W_t is at most the largest of the sums
Σ_{k<j} ρ^k·(z_k + r), j ≤ t, taken backwards in time, and Ville's inequality bounds it by
exp(−θa + Σ_{k<t} max(ψ(θρ^k) + θρ^k·r, 0)). T of these bounds are added. ψ is convex, so linear
interpolation of a table of ψ is never too small.

`BatteryCase` puts one battery, its load and its noise together, and adds what attackers still see.

*Sizes* follow from the same proved bound, so a battery of this size keeps its guarantee.
Simulations show that two thirds to four fifths of the capacity would be enough.

References
----------
.. [1] C. J. Clopper, E. S. Pearson, The use of confidence or fiducial limits illustrated in the
   case of the binomial, Biometrika 26 (1934), 404–413.
.. [2] J. Ville, Étude critique de la notion de collectif, Gauthier-Villars, Paris (1939).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.apps.battery.battery import (
    BASELINES,
    CONTROLLERS,
    WH_PER_KWH,
    Battery,
    Control,
    Operation,
    StoredEnergy,
    choose_control,
    control_grid,
    energy_per_reading,
    hide_load,
    operate,
    refuse_pulled_trips,
    refuse_unfit,
    run_days,
    upkeep_power,
)
from hushmeter.attack.registry import attackers
from hushmeter.checks import FloatArray, non_negative, positive, seconds, whole
from hushmeter.errors import DataError, InputError
from hushmeter.formatting import format_watts, out_of_100, short_duration
from hushmeter.home import Home
from hushmeter.noise.losses import DELTA
from hushmeter.privacy import compose
from hushmeter.privacy.sensitivity import Change
from hushmeter.privacy.units import Unit, calibrate
from hushmeter.scoring import Score, score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism, Rng

CONFIDENCE = 0.999
BATCH = 1 << 22
"""Number of noise values that are simulated at a time."""

RATES = np.geomspace(0.02, 200.0, 120)
"""Values of θ over which the bound is minimised, in units of 1/(spread of the stored energy)."""


@dataclass(frozen=True)
class Simulation:
    """Result of many simulated horizons of one battery."""

    horizons: int  # Number of simulated horizons
    saturated: int  # Number of horizons in which the noise was cut at least once
    cut_share: float  # Share of all readings whose noise was cut
    # Mean energy taken from the store and mean energy lost in one horizon [kWh]
    taken_kwh: float
    lost_kwh: float


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a battery over one horizon.

    Attributes
    ----------
    epsilon : float
        ε of the unit of protection while the battery can follow, including the controller's cost.
    noise_delta : float
        δ' at which this ε holds without saturation; 0 for pure differential privacy.
    failure : float
        δ̂: probability of a saturation in the horizon, the smaller of `upper` and `bound`.
    rate : float
        Share of the simulated horizons that saturated.
    upper : float
        Upper confidence limit of the probability of a saturation.
    bound : float
        Proved upper bound of the same probability.
    delta : float
        δ of (ε, δ)-differential privacy: δ' + (1 + e^ε)·δ̂, at most 1.
    confidence : float
        Confidence of `upper`.
    horizon_s : float
        Length of the horizon. [s]
    simulation : Simulation
        The simulated horizons.
    """

    epsilon: float
    noise_delta: float
    failure: float
    rate: float
    upper: float
    bound: float
    delta: float
    confidence: float
    horizon_s: float
    simulation: Simulation


def assess_guarantee(
    mechanism: Mechanism,
    unit: Unit,
    battery: Battery,
    control: Control,
    *,
    horizons: int = 1000,
    confidence: float = CONFIDENCE,
    delta: float = DELTA,
    rng: Rng = 0,
) -> Guarantee:
    """Compute the guarantee (ε, δ̂) of a battery.

    Parameters
    ----------
    mechanism : Mechanism
        The noise that the battery makes.
    unit : Unit
        The unit of protection.
    battery : Battery
        The battery.
    control : Control
        The controller; its `readings` are the horizon.
    horizons : int
        Number of horizons to simulate.
    confidence : float
        Confidence of the upper limit of δ̂.
    delta : float
        δ' at which the losses of the reserved controller are composed.
    rng : int or Generator
        Seed or generator of the simulation.

    Returns
    -------
    Guarantee
        ε and the simulated and proved limits of the failure probability.
    """
    epsilon, paid = control_epsilon(mechanism, unit, battery, control, delta=delta)
    seen = simulate_saturation(mechanism, battery, control, horizons=horizons, rng=rng)
    upper = upper_limit(seen.saturated, seen.horizons, confidence)
    bound = bound_saturation(mechanism, battery, control)
    failure = min(upper, bound)
    return Guarantee(
        epsilon=epsilon,
        noise_delta=paid,
        failure=failure,
        rate=seen.saturated / seen.horizons,
        upper=upper,
        bound=bound,
        delta=formal_delta(epsilon, paid, failure),
        confidence=confidence,
        horizon_s=control.readings * battery.interval_s,
        simulation=seen,
    )


def formal_delta(epsilon: float, noise_delta: float, failure: float) -> float:
    """Return δ = δ' + (1 + e^ε)·P(A), at most 1."""
    return min(1.0, noise_delta + (1 + math.exp(min(epsilon, 700.0))) * failure)


def upper_limit(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the Clopper–Pearson upper confidence limit of a probability."""
    from scipy.special import betaincinv

    total, seen = whole("trials", trials), whole("events", events, least=0)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got {confidence}.")
    if seen > total:
        raise InputError(f"{seen} events cannot come from {total} trials.")
    return 1.0 if seen == total else float(betaincinv(seen + 1, total - seen, confidence))


def simulate_saturation(
    mechanism: Mechanism,
    battery: Battery,
    control: Control,
    *,
    horizons: int = 1000,
    rng: Rng = 0,
) -> Simulation:
    """Simulate horizons with fresh noise, each from the initial charge of the battery."""
    refuse_unfit(mechanism)
    count, size = whole("horizons", horizons), control.readings
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    upkeep, limits = upkeep_power(mechanism, battery), battery.limits
    setting = upkeep, control.pull, mechanism.grid, control.ahead, limits
    batch = max(1, BATCH // size)
    sums = np.zeros(4)
    for first in range(0, count, batch):
        rows = min(batch, count - first)
        steps = mechanism.sample(rows * size, rng=generator)
        noise = np.float64(mechanism.grid) * steps.reshape(rows, size).astype(np.float64)
        cuts, taken, lost = run_days(noise, *setting)
        sums += (np.count_nonzero(cuts), cuts.sum(), taken.sum(), lost.sum())
    energy = sums[2:] / (count * WH_PER_KWH)
    return Simulation(
        count, int(sums[0]), float(sums[1] / (count * size)), float(energy[0]), float(energy[1])
    )


def control_epsilon(
    mechanism: Mechanism,
    unit: Unit,
    battery: Battery,
    control: Control,
    *,
    delta: float = DELTA,
) -> tuple[float, float]:
    """Return ε of the unit under a controller, and the δ' at which it holds.

    Direct and lookahead do not change the mechanism's ε. Reserved pays for its pull: each reading
    of the change and every later reading of the horizon moves by ⌊pull/η_d·Σ|d|⌋ + 1 more steps.
    """
    refuse_pulled_trips(battery, control)
    metered_s = unit.window * unit.interval_s
    if abs(metered_s - battery.interval_s) > 1e-9 * metered_s:
        raise InputError(
            f"the unit is for metered readings of {metered_s:g} s, but the battery acts every "
            f"{battery.interval_s:g} s."
        )
    if control.name != "reserved":
        return mechanism.epsilon_of(unit), mechanism.delta
    at = mechanism.delta or delta
    worst = (0.0, 0.0)
    for change in unit.changes:
        loss = compose(mechanism, _pulled(mechanism, change, battery, control), at)
        if mechanism.delta:
            found = (loss.pld, at)
        else:
            found = (loss.basic, 0.0) if loss.basic <= loss.pld else (loss.pld, at)
        worst = max(worst, found)
    return worst


def _pulled(
    mechanism: Mechanism, change: Change, battery: Battery, control: Control
) -> list[tuple[float, int]]:
    """The changes (watts, times) of the noise that would hide one change of the load."""
    pull = control.pull / battery.one_way
    # Two numbers that differ by x differ by at most ⌊x⌋ + 1 after rounding; 1e-9 covers the
    # rounding of floats.
    later = math.floor(pull * (change.l1 / mechanism.grid + change.touches) + 1e-9) + 1
    touched = min(change.touches, control.readings)
    own = mechanism.steps_of(change.largest) + later
    # `steps_of` adds one step to a change that is not a whole number of steps, so half a step less
    # than the whole number gives exactly this number.
    less = 0.0 if mechanism.on_grid else 0.5
    parts = [((own - less) * mechanism.grid, touched)]
    if control.readings > touched:
        parts.append(((later - less) * mechanism.grid, control.readings - touched))
    return parts


def bound_saturation(mechanism: Mechanism, battery: Battery, control: Control) -> float:
    """Return a proved upper bound of the probability that the battery cuts its noise.

    The docstring of this module has the proof. The bound is 1, which states nothing, for a battery
    that is far too small.
    """
    refuse_unfit(mechanism)
    if control.pull > battery.one_way:
        # The pull could then move the energy past its start, which the proof does not cover.
        return 1.0
    stored = energy_per_reading(mechanism, battery, control.pull)
    total = control.readings * stored.outside
    for room, sign in zip(battery.room_wh, (1.0, -1.0), strict=True):
        if math.isfinite(room) and total < 1:
            rates, exponents = climb_exponents(stored, sign, mechanism, battery, control)
            total += math.exp(min(0.0, float((exponents - rates * room).min())))
    return min(1.0, total)


def climb_exponents(
    stored: StoredEnergy, sign: float, mechanism: Mechanism, battery: Battery, control: Control
) -> tuple[FloatArray, FloatArray]:
    """Return rates θ [1/Wh] and the K(θ) with P(energy rises by a within T) ≤ e^{K(θ) − θa}."""
    steps = control.readings
    if stored.spread == 0:
        return np.array([1e6]), np.zeros(1)
    if control.name != "reserved":
        rates = RATES / (stored.spread * math.sqrt(steps))
        return rates, steps * np.maximum(stored.log_moment(rates, sign), 0.0)
    keep = 1.0 - battery.one_way * control.pull
    rates = RATES / (stored.spread * math.sqrt(min(steps, 1 / (1 - keep**2))))
    rounding = mechanism.grid * battery.hours / (2 * battery.one_way)
    table = np.maximum(stored.log_moment(rates, sign) + rates * rounding, 0.0)
    table = np.concatenate([[0.0], table])
    nodes = np.concatenate([[0.0], rates])
    powers = keep ** np.arange(steps)
    sums = np.array([np.interp(rate * powers, nodes, table).sum() for rate in rates])
    return rates, sums + math.log(positive("readings", steps))


LARGEST_EPSILON = 20.0
"""Largest ε for which batteries are sized."""

HOURS_PER_YEAR = 8760.0
PROBE_KWH = 1e9
"""A capacity that is never reached [kWh], so that only the power limits matter."""

SMALLEST_SHARE = 1e-12
"""Smallest failure probability of one reading: 1 − p still has three digits of p as a float."""


@dataclass(frozen=True)
class Prices:
    """Prices of energy and batteries; replace these assumptions by a real offer."""

    energy: float = 0.30  # Price of electricity [money/kWh]
    capacity: float = 400.0  # Price of an installed battery [money/kWh]
    cycle_life: float = 6000.0  # Number of full cycles until the battery is worn out
    calendar_life: float = 15.0  # Lifetime of a battery that is not used [years]

    def __post_init__(self) -> None:
        non_negative("energy price", self.energy)
        non_negative("battery price", self.capacity)
        positive("cycle_life", self.cycle_life)
        positive("calendar_life", self.calendar_life)


@dataclass(frozen=True)
class Upkeep:
    """Losses, cycles and cost of one battery in a year."""

    loss_kwh: float  # Energy lost in a year [kWh]
    cycles: float  # Full cycles in a year: energy taken from the store divided by the capacity
    life_years: float  # Years until the cycle life or the calendar life is over
    # Price of the lost energy and the battery's price spread over its life [money/year]
    cost: float


@dataclass(frozen=True)
class Sizing:
    """The smallest battery that keeps a guarantee."""

    epsilon: float  # ε of the unit, including the controller's cost
    scale_w: float  # Scale of the noise [W]
    controller: str  # Name of the controller
    max_failure: float  # Largest probability of a saturation in the horizon
    horizon_s: float  # Length of the horizon [s]
    power_kw: float  # Charging and discharging power [kW]
    capacity_kwh: float  # Usable capacity [kWh]
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

    low, high = 1e-3, LARGEST_EPSILON
    if not serves(high):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if serves(middle) else (middle, high)
    return high


def expect_year(mechanism: Mechanism, battery: Battery, prices: Prices) -> Upkeep:
    """Return the expected losses, cycles and cost of a year.

    The upkeep power u equals the mean loss and what the trips need, so a year of H hours at home
    loses (u − inflow)·H. The number of cycles is E[s(b)⁻]·H divided by the capacity. The reserved
    controller's pull adds little and is left out, and so is the wear by driving.

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
    hours = HOURS_PER_YEAR * battery.home_hours / 24
    lost = (upkeep_power(mechanism, battery) - battery.inflow_w) * hours / WH_PER_KWH
    per_reading = -float(np.minimum(stored.energy, 0.0) @ stored.masses)
    taken = per_reading / battery.hours * hours / WH_PER_KWH
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


ATTACKER = "co"
EPSILON_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The size table covers the requested ε times these factors."""

HOPELESS = 0.95
"""A battery that saturates in at least this share of the simulated horizons is refused."""


@dataclass(frozen=True)
class Exposure:
    """What an attacker sees behind a battery of one capacity."""

    capacity_kwh: float  # Usable capacity [kWh]
    rate: float  # Share of the simulated horizons in which the battery saturated
    bound: float  # Proved upper bound of the same probability
    cut_share: float  # Share of the readings whose noise was cut
    visibility: float  # Mean visibility of the appliances to the attacker, see `mean_visibility`


@dataclass(frozen=True)
class BatteryCase:
    """One battery with its load, its noise and its controller."""

    home: Home  # The appliances behind the meter
    load: Trace  # What the house draws, at the interval at which the battery acts
    unit: Unit  # The unit of protection
    mechanism: Mechanism  # The noise that the battery puts on the meter
    battery: Battery  # The battery
    control: Control  # The controller; its `readings` are the horizon of the guarantee
    prices: Prices  # Prices of energy and of batteries
    max_failure: float  # Largest failure probability for which batteries are sized
    seed: int  # Seed of all simulations

    def assess(self, horizons: int, delta: float) -> Guarantee:
        """Return the guarantee (ε, δ̂) over the horizon; see `assess_guarantee`."""
        return assess_guarantee(
            self.mechanism,
            self.unit,
            self.battery,
            self.control,
            horizons=horizons,
            delta=delta,
            rng=self.seed,
        )

    def refuse_hopeless(self, found: Guarantee, mechanism: str, delta: float) -> None:
        """Refuse a battery that almost always fails, and name what would work."""
        if found.rate < HOPELESS:
            return
        need = size_battery(
            self.mechanism,
            self.unit,
            interval_s=self.battery.interval_s,
            horizon=found.horizon_s,
            max_failure=self.max_failure,
            efficiency=self.battery.efficiency,
            controller=self.control.name,
        )
        least = least_epsilon(
            self.unit,
            self.battery,
            self.control,
            max_failure=self.max_failure,
            mechanism=mechanism,
            delta=delta,
        )
        other = "" if least is None else f", and this battery serves ε from {least:.3g} on"
        raise DataError(
            f"this battery cannot follow its noise of ε = {self.mechanism.epsilon:.3g} in "
            f"{found.simulation.saturated} of {found.simulation.horizons} horizons; a battery of "
            f"{_three_digits(need.capacity_kwh)} kWh and {_three_digits(need.power_kw)} kW would "
            f"fail in at most {self.max_failure:g} of them{other} (--anyway shows this one)."
        )

    def size(self, mechanism: str, delta: float) -> list[Sizing]:
        """Return the batteries that keep the guarantee at ε/4, ε/2, ε, 2ε and 4ε."""
        # A mechanism's own ε may be that of one reading; the table is for the whole unit.
        middle = self.mechanism.epsilon_of(self.unit)
        wanted = [float(f"{middle * factor:.3g}") for factor in EPSILON_FACTORS]
        return size_table(
            self.unit,
            [epsilon for epsilon in wanted if epsilon <= LARGEST_EPSILON],
            mechanism=mechanism,
            delta=delta,
            interval_s=self.battery.interval_s,
            horizon=self.control.readings * self.battery.interval_s,
            max_failure=self.max_failure,
            efficiency=self.battery.efficiency,
            prices=self.prices,
        )

    def attack(self, done: Operation, attacker: str) -> tuple[Score, Score] | None:
        """Score an attacker without and with the battery."""
        if self.load.states is None:
            return None
        before = attack_metered(self.load, self.load, self.home, attacker=attacker, seed=self.seed)
        return before, self.attack_behind(done, attacker)

    def attack_behind(self, done: Operation, attacker: str) -> Score:
        """Score an attacker behind the battery, whose noise and upkeep it knows."""
        metered = done.metered.replace_readings(done.metered.readings - done.upkeep_w)
        return attack_metered(
            self.load,
            metered,
            self.home,
            attacker=attacker,
            mechanism=self.mechanism,
            seed=self.seed,
        )

    def sweep_capacity(
        self, capacities: Sequence[float], attacker: str = ATTACKER, *, horizons: int = 200
    ) -> tuple[Exposure, ...]:
        """Measure failures and visibility behind batteries of several capacities [kWh]."""
        found = []
        for capacity in capacities:
            sized = replace(self.battery, capacity_kwh=capacity)
            seen = simulate_saturation(
                self.mechanism, sized, self.control, horizons=horizons, rng=self.seed
            )
            done = operate(self.load, sized, self.mechanism, self.control, rng=self.seed)
            found.append(
                Exposure(
                    capacity,
                    seen.saturated / seen.horizons,
                    bound_saturation(self.mechanism, sized, self.control),
                    seen.cut_share,
                    mean_visibility(self.attack_behind(done, attacker)),
                )
            )
        return tuple(found)

    def compare_controllers(self) -> dict[str, Operation]:
        """Operate the same battery and noise under every controller.

        The two load-hiding baselines, which promise no ε, are operated as well.
        """
        done = {}
        # The pull of "reserved" contradicts trips.
        for name in (n for n in CONTROLLERS if n != "reserved" or not self.battery.trip_kwh):
            same = self.control
            if same.name != name:
                same = choose_control(name, same.readings)
            done[name] = operate(self.load, self.battery, self.mechanism, same, rng=self.seed)
        return done | {name: hide_load(self.load, self.battery, name) for name in BASELINES}


def attack_metered(
    load: Trace,
    metered: Trace,
    home: Home,
    *,
    attacker: str = ATTACKER,
    mechanism: Mechanism | None = None,
    seed: int = 0,
) -> Score:
    """Score an attacker on metered readings.

    The attacker has learnt from the true load of the same house. It knows the noise distribution,
    but not which appliances are on at the first reading.
    """
    made = attackers[attacker](home).fit(load).knows(mechanism)
    states = made.predict(metered, rng=seed)
    return score(states, load.truth(), names=home.names)


def mean_visibility(found: Score) -> float:
    """Return the mean visibility (α − floor)/(1 − floor) of the appliances that switch.

    A negative visibility counts as 0. The result is NaN if no appliance switches.
    """
    seen = [a.visibility for a in found.per_appliance if not math.isnan(a.visibility)]
    return sum(max(v, 0.0) for v in seen) / len(seen) if seen else math.nan


def tell_guarantee(
    found: Guarantee, unit: Unit, battery: Battery, control: Control, year: Upkeep
) -> tuple[str, ...]:
    """Return sentences that state what a battery guarantees and what it costs."""
    seen = found.simulation
    promise = f"ε = {found.epsilon:.3g}" + (
        f" (δ′ = {found.noise_delta:g})" if found.noise_delta else ""
    )
    span = short_duration(found.horizon_s)
    sentences = [
        f"As long as the battery can follow its noise, ε protects {unit.sentence}, at {promise}.",
        f"The battery could not follow in {seen.saturated} of {seen.horizons} simulated horizons "
        f"of {span}. The probability δ̂ of such a failure is at most {found.upper:.2g} (with "
        f"{out_of_100(found.confidence)} % confidence); the proved bound is {found.bound:.2g}.",
        f"As differential privacy this is (ε, δ) = ({found.epsilon:.3g}, {found.delta:.2g}) over "
        f"{span}, with δ = δ′ + (1 + e^ε)·δ̂.",
    ]
    if battery.away is not None:
        sentences += _tell_absence(battery)
    if found.delta >= 0.5:
        sentences.append(
            "A δ of this size guarantees almost nothing: use a larger battery or a larger ε."
        )
    if control.name == "reserved":
        sentences.append(
            f"The controller returns a share of {control.pull:.2g} of the stored energy at every "
            "reading, which reveals sums of readings; the ε above includes this."
        )
    sentences.append(
        f"In a year the battery loses {year.loss_kwh:.3g} kWh, makes {year.cycles:.3g} full cycles "
        f"of {battery.capacity_kwh:.3g} kWh (it lasts {year.life_years:.2g} years) and costs "
        f"{year.cost:.0f}."
    )
    return tuple(sentences)


def _tell_absence(battery: Battery) -> list[str]:
    """Say what storage that is away does not hide."""
    assert battery.away is not None
    start, end = (f"{int(hour):02d}:{round(hour % 1 * 60):02d}" for hour in battery.away)
    return [
        f"The storage is away from {start} to {end}. In these {24 - battery.home_hours:g} hours of "
        "every day nothing is hidden: the meter shows the load itself, and the promise is only "
        "about use that begins and ends between the return and the departure.",
        "Everybody can see when the storage is away, so the hours must be the same on every day "
        "and no secret; a day on which it stays away longer has no protection in that time.",
        f"It must return with {100 * battery.charge:g} % of its capacity, and is charged with "
        f"{format_watts(battery.inflow_w)} on average for a trip of {battery.trip_kwh:g} kWh.",
    ]


def tell_visibility(before: Score, after: Score) -> tuple[str, ...]:
    """Return one sentence for each appliance: the attacker's odds with and without the battery."""
    return tuple(
        f"The attacker is right about the {new.name} in {out_of_100(new.alpha)} out of 100 "
        f"moments; without the battery in {out_of_100(old.alpha)}; a guess without your data is "
        f"right in {out_of_100(new.floor)}."
        for old, new in zip(before.per_appliance, after.per_appliance, strict=True)
    )


def _three_digits(value: float) -> str:
    """A size with three digits, never with an exponent."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
