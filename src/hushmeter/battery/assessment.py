"""Assess one battery: its guarantee, the sizes that would suffice, and what attackers still see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hushmeter.attack.registry import attackers
from hushmeter.battery.battery import (
    BASELINES,
    CONTROLLERS,
    Battery,
    Control,
    Operation,
    choose_control,
    hide_load,
    operate,
)
from hushmeter.battery.guarantee import (
    Guarantee,
    Prices,
    Sizing,
    Upkeep,
    assess_guarantee,
    bound_saturation,
    least_epsilon,
    simulate_saturation,
    size_battery,
    size_table,
)
from hushmeter.errors import DataError
from hushmeter.formatting import format_watts, out_of_100, short_duration
from hushmeter.home import Home
from hushmeter.privacy.units import Unit
from hushmeter.scoring import Score, score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

ATTACKER = "co"
EPSILON_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The size table covers the requested ε times these factors."""

LARGEST_EPSILON = 20.0
"""The size table leaves out a larger ε."""

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
