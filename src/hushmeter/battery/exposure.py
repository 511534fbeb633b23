"""What attackers see behind a battery, and the promise in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hushmeter.attack.registry import attackers
from hushmeter.battery.guarantee import (
    Guarantee,
    bound_saturation,
    simulate_saturation,
)
from hushmeter.battery.sizing import Upkeep
from hushmeter.battery.storage import (
    BASELINES,
    CONTROLLERS,
    Battery,
    Control,
    Operation,
    choose_control,
    hide_load,
    operate,
)
from hushmeter.formatting import out_of_100, short_duration
from hushmeter.home import Home
from hushmeter.privacy.units import Unit
from hushmeter.scoring import Score, score
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism

ATTACKER = "co"


@dataclass(frozen=True)
class Exposure:
    """One battery of a sweep over capacities.

    Attributes
    ----------
    capacity_kwh : float
    rate : float
        Share of simulated horizons that saturated.
    bound : float
        The proved bound of it.
    cut_share : float
        Share of readings whose noise was cut.
    visibility : float
        What the attacker saw of the trace, `mean_visibility`.
    """

    capacity_kwh: float
    rate: float
    bound: float
    cut_share: float
    visibility: float


def attack_metered(
    load: Trace,
    metered: Trace,
    home: Home,
    *,
    attacker: str = ATTACKER,
    mechanism: Mechanism | None = None,
    seed: int = 0,
) -> Score:
    """Score of an attacker on metered readings.

    The attacker has learnt from the true load of the same house and knows the first state and the
    noise distribution.
    """
    made = attackers[attacker](home).fit(load).knows(mechanism)
    states = made.predict(metered, initial_state=load.truth()[0], rng=seed)
    return score(states, load.truth(), names=home.names)


def mean_visibility(found: Score) -> float:
    """Mean over the appliances that switch of (α − floor)/(1 − floor), at least 0 each."""
    seen = [a.visibility for a in found.per_appliance if not math.isnan(a.visibility)]
    return sum(max(v, 0.0) for v in seen) / len(seen) if seen else math.nan


def sweep_capacity(
    load: Trace,
    home: Home,
    battery: Battery,
    mechanism: Mechanism,
    control: Control,
    capacities: Sequence[float],
    *,
    attacker: str = ATTACKER,
    horizons: int = 200,
    seed: int = 0,
) -> tuple[Exposure, ...]:
    """δ̂ and visibility of the same noise behind batteries of several capacities [kWh]."""
    found = []
    for capacity in capacities:
        sized = replace(battery, capacity_kwh=capacity)
        seen = simulate_saturation(mechanism, sized, control, horizons=horizons, rng=seed)
        done = operate(load, sized, mechanism, control, rng=seed)
        result = attack_metered(
            load, done.metered, home, attacker=attacker, mechanism=mechanism, seed=seed
        )
        found.append(
            Exposure(
                capacity,
                seen.saturated / seen.horizons,
                bound_saturation(mechanism, sized, control),
                seen.cut_share,
                mean_visibility(result),
            )
        )
    return tuple(found)


def compare_controllers(
    load: Trace, battery: Battery, mechanism: Mechanism, control: Control, *, seed: int = 0
) -> dict[str, Operation]:
    """The same battery and noise under every controller, and the two baselines without ε."""
    done = {}
    for name in CONTROLLERS:
        same = control if control.name == name else choose_control(name, control.readings)
        done[name] = operate(load, battery, mechanism, same, rng=seed)
    return done | {name: hide_load(load, battery, name) for name in BASELINES}


def tell_guarantee(
    found: Guarantee, unit: Unit, battery: Battery, control: Control, year: Upkeep
) -> tuple[str, ...]:
    """What a battery promises and costs, one sentence each."""
    seen = found.simulation
    promise = f"ε = {found.epsilon:.3g}" + (
        f" (δ′ = {found.noise_delta:g})" if found.noise_delta else ""
    )
    span = short_duration(found.horizon_s)
    sentences = [
        f"While the battery follows, {unit.sentence} is protected at {promise}.",
        f"It could not follow in {seen.saturated} of {seen.horizons} simulated horizons of {span}: "
        f"δ̂ ≤ {found.upper:.2g} ({out_of_100(found.confidence)} % sure), proved ≤ "
        f"{found.bound:.2g}.",
        f"As differential privacy this is (ε, δ) = ({found.epsilon:.3g}, {found.delta:.2g}) over "
        f"{span}, with δ = δ′ + (1 + e^ε)·δ̂.",
    ]
    if found.delta >= 0.5:
        sentences.append("That δ promises next to nothing: take a larger battery or a larger ε.")
    if control.name == "reserved":
        sentences.append(
            f"Drawing the store back by {control.pull:.2g} a reading reveals sums of readings; "
            "the ε above includes what that costs."
        )
    sentences.append(
        f"A year loses {year.loss_kwh:.3g} kWh, wears {year.cycles:.3g} full cycles of "
        f"{battery.capacity_kwh:.3g} kWh (the battery lasts {year.life_years:.2g} years) and costs "
        f"{year.cost:.0f}."
    )
    return tuple(sentences)


def tell_visibility(before: Score, after: Score) -> tuple[str, ...]:
    """Odds about every appliance with and without the battery."""
    return tuple(
        f"Right about the {new.name} in {out_of_100(new.alpha)} of 100 moments; without the "
        "battery: "
        f"{out_of_100(old.alpha)}; without your data: {out_of_100(new.floor)}."
        for old, new in zip(before.per_appliance, after.per_appliance, strict=True)
    )
