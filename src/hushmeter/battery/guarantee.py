r"""What a battery's noise promises: ε but for the probability that the battery cannot follow.

Let A be the event that the battery cuts its noise anywhere in the horizon. A depends on the noise
alone, and without it the meter shows exactly a release M of an ε-private mechanism. For the real
meter R, any two neighbouring loads x, x' and any set O of outputs,

    P(R(x) ∈ O) ≤ P(M(x) ∈ O) + P(A) ≤ e^ε·P(M(x') ∈ O) + P(A)
                ≤ e^ε·P(R(x') ∈ O) + (1 + e^ε)·P(A),

so the meter is (ε, (1 + e^ε)·P(A))-private over the horizon. P(A) is estimated from simulated
horizons with an exact (Clopper–Pearson) upper limit, and bounded by a formula:

*Proof of the bound, direct and lookahead.* Let z_1, z_2, … be the energies that reach the store,
with a draw beyond the power limits replaced by 0, and ψ(θ) = ln E e^{θz}. The products
exp(θ·Σ_{i≤t} z_i − tψ(θ)) are a martingale, so by Ville's inequality, for every θ > 0,

    P(max_{t≤T} Σ_{i≤t} z_i ≥ a) ≤ exp(−θa + T·max(ψ(θ), 0)),

and likewise for −z. The battery is cut only if a draw exceeds the power, the sum rises above the
room or falls below the store: three probabilities to add. Lookahead bends the path for the first
time exactly if the direct path would be cut.

*Reserved.* With ρ = 1 − η_c·pull the part W of the energy above the start obeys
W_t ≤ max(0, ρ·W_{t−1} + z_t + r), r = g·h/(2η_d) for the rounding of the pull, as long as
pull ≤ η_d: a walk reflected at its start. Unrolled, W_t is at most the largest of the sums
Σ_{k<j} ρ^k·(z_k + r), j ≤ t, taken backwards in time, and Ville's inequality bounds it by
exp(−θa + Σ_{k<t} max(ψ(θρ^k) + θρ^k·r, 0)). T of these are added. ψ is convex, so a chord of a
table of it is never too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.battery.storage import WH_PER_KWH, Battery, Control
from hushmeter.battery.stored_energy import StoredLaw, refuse_unfit, stored_law, upkeep_power
from hushmeter.checks import FloatArray, positive, whole
from hushmeter.errors import InputError
from hushmeter.privacy.accounting import DELTA, compose
from hushmeter.privacy.units import Change, Unit, unit_epsilon

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism, Rng

CONFIDENCE = 0.999
BATCH = 1 << 22
RATES = np.geomspace(0.02, 200.0, 120)


@dataclass(frozen=True)
class Simulation:
    """Many simulated horizons of one battery.

    Attributes
    ----------
    horizons : int
    saturated : int
        How many of them cut the noise at least once.
    cut_share : float
        Share of all readings whose noise was cut.
    taken_kwh, lost_kwh : float
        Mean energy taken from the store, and lost, in one horizon [kWh].
    """

    horizons: int
    saturated: int
    cut_share: float
    taken_kwh: float
    lost_kwh: float


@dataclass(frozen=True)
class Guarantee:
    """The promise of a battery over one horizon.

    Attributes
    ----------
    epsilon : float
        ε of the unit of protection while the battery follows, the controller's price included.
    noise_delta : float
        δ' at which that ε holds before any saturation; 0 for pure differential privacy.
    failure : float
        δ̂: probability of a saturation in the horizon, the smaller of `upper` and `bound`.
    rate : float
        Share of the simulated horizons that saturated.
    upper : float
        Its upper confidence limit.
    bound : float
        The proved bound of the same probability.
    delta : float
        δ of (ε, δ)-differential privacy: δ' + (1 + e^ε)·δ̂, at most 1.
    confidence : float
        Of `upper`.
    horizon_s : float
        [s]
    simulation : Simulation
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
    """(ε, δ̂) of a battery.

    Parameters
    ----------
    mechanism : Mechanism
    unit : Unit
        What ε protects.
    battery : Battery
    control : Control
        Its `readings` are the horizon.
    horizons : int
        How many to simulate.
    confidence : float
        Of the upper limit of δ̂.
    delta : float
        δ' of the composed ε of the reserved controller.
    rng : int or Generator
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
    """δ = δ' + (1 + e^ε)·P(A), at most 1."""
    return min(1.0, noise_delta + (1 + math.exp(min(epsilon, 700.0))) * failure)


def upper_limit(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Clopper–Pearson: the largest probability not refuted by so few events.

    The p with P(Binomial(trials, p) ≤ events) = 1 − confidence; it covers the true probability
    with at least that confidence, whatever it is.
    """
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
    """Play so many horizons with fresh noise, each from the start of the battery."""
    from hushmeter.battery import controllers as kernels

    refuse_unfit(mechanism)
    count, size = whole("horizons", horizons), control.readings
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    upkeep, limits = upkeep_power(mechanism, battery), battery.limits
    setting = np.array([control.pull, mechanism.grid, float(control.ahead)])
    kind, batch = kernels.KERNELS[control.name], max(1, BATCH // size)
    sums = np.zeros(4)
    for first in range(0, count, batch):
        rows = min(batch, count - first)
        steps = mechanism.sample(rows * size, rng=generator)
        noise = np.float64(mechanism.grid) * steps.reshape(rows, size).astype(np.float64)
        cuts, taken, lost = kernels.run_days(noise, upkeep, setting, kind, limits)
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
    """ε of the unit under a controller, and the δ' at which it holds.

    Direct and lookahead leave the mechanism's ε as it is. Reserved pays for its pull: each of the
    change's own readings and every later one of the horizon move by ⌊pull/η_d·Σ|d|⌋ + 1 steps more.
    """
    metered_s = unit.window * unit.interval_s
    if abs(metered_s - battery.interval_s) > 1e-9 * metered_s:
        raise InputError(
            f"the unit is for metered readings of {metered_s:g} s, but the battery acts every "
            f"{battery.interval_s:g} s."
        )
    if control.name != "reserved":
        return unit_epsilon(mechanism, unit), mechanism.delta
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
    """The changes (watts, times) of the noise that hide one change of the load."""
    pull = control.pull / battery.one_way
    # Two roundings of numbers that differ by x differ by at most ⌊x⌋ + 1, floats by the last bit.
    later = math.floor(pull * (change.l1 / mechanism.grid + change.touches) + 1e-9) + 1
    touched = min(change.touches, control.readings)
    own = mechanism.steps_of(change.largest) + later
    # Rounding adds a step to what is not a whole number of them: half a step less gives back it.
    less = 0.0 if mechanism.on_grid else 0.5
    parts = [((own - less) * mechanism.grid, touched)]
    if control.readings > touched:
        parts.append(((later - less) * mechanism.grid, control.readings - touched))
    return parts


def bound_saturation(mechanism: Mechanism, battery: Battery, control: Control) -> float:
    """Upper bound of the probability that the battery cuts its noise within the horizon.

    Proved in the docstring of this module; never below the truth, and vacuous (1) where the
    battery is far too small.
    """
    refuse_unfit(mechanism)
    if control.pull > battery.one_way:
        # What is drawn back would then overshoot the start, which the proof leaves out.
        return 1.0
    law = stored_law(mechanism, battery, control.pull)
    total = control.readings * law.outside
    for room, sign in zip(battery.room_wh, (1.0, -1.0), strict=True):
        if math.isfinite(room) and total < 1:
            rates, exponents = climb_exponents(law, sign, mechanism, battery, control)
            total += math.exp(min(0.0, float((exponents - rates * room).min())))
    return min(1.0, total)


def climb_exponents(
    law: StoredLaw, sign: float, mechanism: Mechanism, battery: Battery, control: Control
) -> tuple[FloatArray, FloatArray]:
    """Rates θ [1/Wh] and the K(θ) with P(the store rises by a within T) ≤ e^{K(θ) − θa}."""
    steps = control.readings
    if law.spread == 0:
        return np.array([1e6]), np.zeros(1)
    if control.name != "reserved":
        rates = RATES / (law.spread * math.sqrt(steps))
        return rates, steps * np.maximum(law.log_moment(rates, sign), 0.0)
    keep = 1.0 - battery.one_way * control.pull
    rates = RATES / (law.spread * math.sqrt(min(steps, 1 / (1 - keep**2))))
    rounding = mechanism.grid * battery.hours / (2 * battery.one_way)
    table = np.maximum(law.log_moment(rates, sign) + rates * rounding, 0.0)
    table = np.concatenate([[0.0], table])
    nodes = np.concatenate([[0.0], rates])
    powers = keep ** np.arange(steps)
    sums = np.array([np.interp(rate * powers, nodes, table).sum() for rate in rates])
    return rates, sums + math.log(positive("readings", steps))
