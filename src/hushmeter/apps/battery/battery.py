"""The battery, its controllers, the energy that noise stores in it, and its operation on a load.

`guarantee` bounds the failure probability with the distribution of the stored energy, and computes
the smallest battery from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    finite_vector,
    non_negative,
    one_of,
    positive,
    whole,
)
from hushmeter.clock import local_times
from hushmeter.compiled import compiled
from hushmeter.errors import InputError
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism, Rng
    from hushmeter.privacy.units import Unit

CONTROLLERS = ("direct", "reserved", "lookahead")
BASELINES = ("flatten", "stepping")
PULL = 0.25
"""Default pull of the reserved controller, times the square root of the number of readings."""

FINE_W = 5.0
"""A pull that returns less than this [W] for the protected change uses a grid of 0.1 W."""

WH_PER_KWH = 1000.0


@dataclass(frozen=True)
class Battery:
    """A home battery, or other storage that is at times away.

    Parameters
    ----------
    capacity_kwh : float
        Usable capacity; infinite for an ideal battery. [kWh]
    power_kw : float
        Largest charging power on the meter's side. [kW]
    discharge_kw : float, optional
        Largest discharging power; equal to `power_kw` if it is not given. [kW]
    efficiency : float
        Efficiency of a round trip, 0 to 1. Charging and discharging each have its square root.
    charge : float
        Share of the capacity that is stored at the start, 0 to 1.
    interval_s : float
        Interval at which the battery acts, equal to the interval of the meter's readings. [s]
    away : (float, float), optional
        Hours of the day from which and until which the storage is away, as an electric vehicle is:
        (8, 17), or (22, 6) over midnight. The hours must be public and the same on every day.
    trip_kwh : float
        Energy that is taken while it is away. It is charged with a constant power while the
        storage is at home, so that it returns with the charge of the start. [kWh]

    Raises
    ------
    InputError
        If a size is not positive or a share is outside its range.
    """

    capacity_kwh: float
    power_kw: float
    discharge_kw: float | None = None
    efficiency: float = 0.9
    charge: float = 0.5
    interval_s: float = 6.0
    away: tuple[float, float] | None = None
    trip_kwh: float = 0.0

    def __post_init__(self) -> None:
        powers = (self.power_kw, self.power_kw if self.discharge_kw is None else self.discharge_kw)
        object.__setattr__(self, "capacity_kwh", _size("capacity", self.capacity_kwh, "kWh"))
        object.__setattr__(self, "power_kw", _size("power", powers[0], "kW"))
        object.__setattr__(self, "discharge_kw", _size("discharge power", powers[1], "kW"))
        object.__setattr__(self, "interval_s", positive("interval_s", self.interval_s))
        if not 0 < positive("efficiency", self.efficiency) <= 1:
            raise InputError(f"efficiency must lie in (0, 1], got {self.efficiency}.")
        if not 0 <= self.charge <= 1:
            raise InputError(f"charge must be a share between 0 and 1, got {self.charge}.")
        if math.isinf(self.capacity_kwh) and self.charge in (0, 1):
            raise InputError("an infinite battery cannot be full or empty; use charge = 0.5.")
        if self.away is not None and not (
            all(0 <= hour <= 24 for hour in self.away) and 0 < self.home_hours < 24
        ):
            raise InputError(f"away must be two hours of the day, such as 8-17, got {self.away}.")
        if non_negative("trip [kWh]", self.trip_kwh) and self.away is None:
            raise InputError("a trip needs the hours in which the storage is away.")
        if self.trip_kwh > self.capacity_kwh * (1 - self.charge):
            raise InputError(
                f"a trip of {self.trip_kwh:g} kWh cannot be charged into a storage of "
                f"{self.capacity_kwh:g} kWh that returns {100 * self.charge:g} % full; let it "
                "return with less."
            )

    @property
    def one_way(self) -> float:
        """Efficiency of charging and of discharging, η_c = η_d."""
        return math.sqrt(self.efficiency)

    @property
    def hours(self) -> float:
        """Length h of one reading [h]."""
        return self.interval_s / 3600

    @property
    def home_hours(self) -> float:
        """Hours of a day during which the storage is connected."""
        return 24.0 if self.away is None else 24.0 - (self.away[1] - self.away[0]) % 24

    @property
    def inflow_w(self) -> float:
        """Mean power that must reach the store while it is at home, for the trips [W]."""
        return self.trip_kwh * WH_PER_KWH / self.home_hours

    def at_home(self, load: Trace, zone: str = "UTC") -> Trace:
        """Return the readings of a load during which the storage is connected all the time."""
        if self.away is None:
            return load
        local = local_times(load.times, zone)
        hour = (local - local.astype("datetime64[D]")) / np.timedelta64(1, "h")
        since = (hour - self.away[1]) % 24
        kept = np.flatnonzero(since + load.interval_s / 3600 <= self.home_hours + 1e-9)
        if not kept.size:
            raise InputError("the storage is away during every reading.")
        return load.select(kept)

    @property
    def room_wh(self) -> tuple[float, float]:
        """Energy that can be stored, and that can be taken out, at the start [Wh]."""
        capacity = self.capacity_kwh * WH_PER_KWH
        return capacity * (1 - self.charge), capacity * self.charge

    @property
    def limits(self) -> FloatArray:
        """The limits that the compiled controllers take, in the order of `LIMITS`."""
        assert self.discharge_kw is not None
        powers = (self.power_kw * 1000, self.discharge_kw * 1000)
        return np.array([*self.room_wh, *powers, self.one_way, self.one_way, self.hours])


@dataclass(frozen=True)
class Control:
    """A controller and the horizon of its guarantee."""

    name: str  # The controller
    readings: int  # Number of readings T of the horizon
    # Share of the energy above or below the start that "reserved" returns at each reading
    pull: float
    ahead: int  # Number of future readings whose noise "lookahead" knows; 0 for the others


def choose_control(
    name: str, readings: int, *, pull: float | None = None, ahead: int | None = None
) -> Control:
    """Return a controller for a horizon of a given number of readings.

    Parameters
    ----------
    name : {"direct", "reserved", "lookahead"}
        The controller.
    readings : int
        Number of readings T of the horizon.
    pull : float, optional
        Pull of "reserved"; 0.25/√T by default, so that the later losses of Gaussian noise stay
        small in sum.
    ahead : int, optional
        Number of future readings that "lookahead" knows; by default a twelfth of the horizon,
        which is two hours of a day.

    Returns
    -------
    Control
        The controller.

    Raises
    ------
    InputError
        If the name is unknown or the pull exceeds 0.5.
    """
    one_of("controller", name, CONTROLLERS)
    horizon = whole("readings", readings)
    share = PULL / math.sqrt(horizon) if pull is None else positive("pull", pull)
    if share > 0.5:
        raise InputError(f"pull must be at most 0.5 per reading, got {pull}.")
    known = max(1, horizon // 12) if ahead is None else whole("ahead", ahead)
    return Control(
        name,
        horizon,
        share if name == "reserved" else 0.0,
        known if name == "lookahead" else 0,
    )


def control_grid(control: Control, unit: Unit) -> str:
    """Return the grid of the noise for a controller, as text of an exact number. [W]

    The pull of "reserved" moves by whole grid steps and pays for whole steps. If the pull is small,
    a grid of 0.1 W loses less to rounding. A meter that shows whole watts only post-processes such
    noise, because it rounds at half watts, which lie on that grid.
    """
    return "0.1" if 0 < control.pull * unit.l1 < FINE_W else "1"


@dataclass(frozen=True, eq=False)
class Operation:
    """The operation of a battery on a trace."""

    controller: str  # Name of the controller or baseline
    battery: Battery  # The battery
    load: Trace  # The load of the house
    metered: Trace  # What the meter shows, on its grid, with the true states of the load
    # Power b of the battery on the meter's side [W], positive while charging
    battery_w: FloatArray
    stored_wh: FloatArray  # Energy e stored since the start [Wh], at the end of each reading
    target_w: FloatArray  # The noise that the mechanism drew [W]; zero for the baselines
    noise_w: FloatArray  # The noise that reached the meter [W]: b without the upkeep
    saturated: BoolArray  # True where the battery could not follow its controller
    upkeep_w: float  # Constant charging power that compensates the losses [W]

    @cached_property
    def state_of_charge(self) -> FloatArray:
        """Share of the capacity that is stored at the end of each reading, shape (T,)."""
        below = self.battery.room_wh[1]
        if math.isinf(below):
            return np.full(self.stored_wh.size, self.battery.charge)
        return (below + self.stored_wh) / (self.battery.capacity_kwh * WH_PER_KWH)

    @property
    def loss_kwh(self) -> float:
        """Energy lost in the battery [kWh]."""
        inside = stored_power(self.battery_w, self.battery)
        return float((self.battery_w - inside).sum() * self.battery.hours / WH_PER_KWH)

    @property
    def cycles(self) -> float:
        """Full cycles: energy taken from the store divided by the capacity."""
        taken = -np.minimum(stored_power(self.battery_w, self.battery), 0.0).sum()
        return float(taken * self.battery.hours / WH_PER_KWH / self.battery.capacity_kwh)


def operate(
    trace: Trace,
    battery: Battery,
    mechanism: Mechanism,
    control: Control | str = "direct",
    *,
    rng: Rng = None,
    key: bytes | None = None,
) -> Operation:
    """Operate a battery that puts the noise of a mechanism on the meter.

    Parameters
    ----------
    trace : Trace
        The load of the house. The battery does nothing in a gap.
    battery : Battery
        The battery; its interval must equal the interval of the trace.
    mechanism : Mechanism
        The noise. Its grid must be the resolution of the meter or divide half of it, and it must
        not clamp, because a battery cannot.
    control : Control or {"direct", "reserved", "lookahead"}
        The controller.
    rng : int or Generator, optional
        Seed or generator of a simulation; without it the noise is fresh and secret.
    key : 32 bytes, optional
        Key for a reproducible operation. As long as the battery can follow, "direct" and
        "lookahead" show what `mechanism.release` returns with this key for load plus upkeep.

    Returns
    -------
    Operation
        What the battery did and what the meter shows.

    Raises
    ------
    InputError
        If the intervals differ or a battery cannot make this noise.
    """
    _same_interval(trace, battery)
    refuse_unfit(mechanism)
    chosen = choose_control(control, len(trace)) if isinstance(control, str) else control
    noise = mechanism.sample(len(trace), rng=rng, key=key) * mechanism.grid
    upkeep = upkeep_power(mechanism, battery)
    return operate_noise(trace, battery, noise, chosen, upkeep_w=upkeep, grid=mechanism.grid)


def operate_noise(
    trace: Trace,
    battery: Battery,
    noise: ArrayLike,
    control: Control,
    *,
    upkeep_w: float = 0.0,
    grid: float = 1.0,
) -> Operation:
    """Operate a battery that puts given noise [W] on a meter whose readings have a grid [W]."""
    _same_interval(trace, battery)
    refuse_pulled_trips(battery, control)
    target = finite_vector("noise", noise)
    if target.size != len(trace):
        raise InputError(f"noise must have {len(trace)} entries, got {target.size}.")
    # A storage that was away returns with the charge of the start; a gap in the readings of one
    # that was not says nothing about it.
    parts = [slice(None)] if battery.away is None else trace.runs
    setting = upkeep_w, control.pull, grid, control.ahead, battery.limits
    done = [run_control(target[part], *setting) for part in parts]
    power, stored, cut = (np.concatenate(column) for column in zip(*done, strict=True))
    # Where nothing was cut the noise is the target itself; computing it from the power would
    # round it twice.
    same = ~cut if control.name != "reserved" else np.zeros_like(cut)
    realised = np.where(same, target, power - upkeep_w)
    shown = np.floor((trace.readings + power) / grid + 0.5) * grid
    metered = trace.replace_readings(shown)
    return Operation(
        control.name, battery, trace, metered, power, stored, target, realised, cut, upkeep_w
    )


def hide_load(
    trace: Trace, battery: Battery, method: str = "flatten", *, step_w: float | None = None
) -> Operation:
    """Operate a battery with a classical load-hiding method, which guarantees no ε.

    References
    ----------
    .. [1] G. Kalogridis et al., Privacy for smart meters: towards undetectable appliance load
       signatures, IEEE SmartGridComm (2010).
    .. [2] W. Yang et al., Minimizing private data disclosures in the smart grid, ACM CCS (2012).
    """
    _same_interval(trace, battery)
    limits = battery.limits
    if one_of("method", method, BASELINES) == "flatten":
        power, stored, cut = run_flatten(trace.readings, limits)
    else:
        step = min(limits[2], limits[3]) if step_w is None else step_w
        power, stored, cut = run_stepping(trace.readings, positive("step_w", step), limits)
    metered = trace.replace_readings(trace.readings + power)
    nothing = np.zeros(len(trace))
    return Operation(method, battery, trace, metered, power, stored, nothing, power, cut, 0.0)


def _same_interval(trace: Trace, battery: Battery) -> None:
    """Refuse a battery that acts at another interval than the meter."""
    if abs(trace.interval_s - battery.interval_s) > 1e-9 * battery.interval_s:
        raise InputError(
            f"the battery acts every {battery.interval_s:g} s, but the trace has readings of "
            f"{trace.interval_s:g} s; coarsen the trace or change the battery's interval."
        )


def _size(name: str, value: float, unit: str) -> float:
    """A checked positive size; infinity describes an ideal battery."""
    if isinstance(value, float) and math.isinf(value) and value > 0:
        return value
    return positive(f"{name} [{unit}]", value)


CELLS = 1 << 12
"""Largest number of points of the distribution of the stored energy."""

MAX_REACH = 1 << 21
"""Noise that reaches further than this many grid steps is represented by cells."""

TAIL = 1e-18
"""Probability at either end of the noise distribution that is left out."""


def stored_power(power: FloatArray, battery: Battery) -> FloatArray:
    """Return the power s(b) [W] that reaches or leaves the store for each battery power b."""
    return np.where(power >= 0, power * battery.one_way, power / battery.one_way)


def upkeep_power(mechanism: Mechanism, battery: Battery) -> float:
    """Return the constant charging power u [W] with E[s(n + u)] equal to what the trips need.

    Without trips it is the mean loss.
    """
    if battery.efficiency == 1 or math.isinf(battery.capacity_kwh):
        return battery.inflow_w
    return _level_charge(mechanism, battery.one_way, battery.inflow_w)


@lru_cache(maxsize=16)
def _level_charge(mechanism: Mechanism, one_way: float, inflow_w: float) -> float:
    """The root u of η·E(n + u)⁺ − E(n + u)⁻/η = inflow [W], from sums over the distribution."""
    places, masses = noise_distribution(mechanism)
    above = np.cumsum(masses[::-1])[::-1]
    moment = np.cumsum((places * masses)[::-1])[::-1]
    # At u = −k·g the gain is Σ_{n ≥ k} (n − k)·p_n, and E(n + u)⁻ = E(n + u)⁺ + k.
    gain = moment - places * above
    drift = one_way * gain - (gain + places) / one_way
    # The drift falls with k and is linear between neighbouring k, so interpolation is exact. Below
    # the smallest noise everything is charged, with the slope η.
    wanted = inflow_w / mechanism.grid
    if wanted > drift[0]:
        return float((wanted - drift[0]) / one_way - places[0]) * mechanism.grid
    return float(-np.interp(wanted, drift[::-1], places[::-1])) * mechanism.grid


@lru_cache(maxsize=4)
def noise_distribution(mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return the values of the noise [grid steps] and their probabilities, without far tails."""
    reach = max(1, round(mechanism.std / mechanism.grid))
    while float(mechanism.cdf(-reach)) > TAIL:
        reach = math.ceil(1.3 * reach)
    if reach > MAX_REACH:
        return _wide_distribution(mechanism, reach)
    places = np.arange(-reach, reach + 1)
    masses = np.asarray(mechanism.pmf(places))
    kept = np.flatnonzero(masses > 0)
    inside = slice(int(kept[0]), int(kept[-1]) + 1)
    distribution = places[inside].astype(np.float64), masses[inside]
    for array in distribution:
        # The result is cached: a caller that changed it would change it for all.
        array.setflags(write=False)
    return distribution


def _wide_distribution(mechanism: Mechanism, reach: int) -> tuple[FloatArray, FloatArray]:
    """The distribution of very wide noise in cells, half of the mass of each at either end.

    Probabilities fall with |n|, so the cells can only enlarge |n|, by about 1e-9 of itself.
    """
    width = reach // (1 << 18)
    low = 1 + width * np.arange(reach // width + 1)
    tail = np.asarray(mechanism.cdf(-low))
    mass = tail - np.append(tail[1:], 0.0)
    places = np.append(low, low[-1] + width).astype(np.float64)
    shared = (np.append(mass, 0.0) + np.concatenate([[0.0], mass])) / 2
    both = np.concatenate([-places[::-1], [0.0], places])
    return both, np.concatenate([shared[::-1], [float(mechanism.pmf(0))], shared])


def refuse_unfit(mechanism: Mechanism) -> None:
    """Refuse a mechanism that a battery cannot make."""
    if mechanism.clamp is not None:
        raise InputError("a battery cannot clamp readings; use a mechanism without clamp.")
    if mechanism.coarsened:
        raise InputError(
            f"noise of {mechanism.scale:.3g} W needs a grid of {mechanism.grid:g} W, which is "
            "coarser than the meter's resolution, so the last digits would show the load; use a "
            "larger epsilon."
        )


def refuse_pulled_trips(battery: Battery, control: Control) -> None:
    """Refuse to pull the charge back to its start where trips must change it."""
    if control.pull and battery.trip_kwh:
        raise InputError(
            "the controller reserved returns the charge to its start, but a trip needs a rising "
            "charge; use direct or lookahead."
        )


@dataclass(frozen=True)
class StoredEnergy:
    """Distribution of the energy that one reading puts into the store."""

    energy: FloatArray  # Values z [Wh]. A draw beyond the power limits counts as 0
    masses: FloatArray  # Their probabilities
    outside: float  # Probability of a draw beyond the power limits

    def log_moment(self, rates: FloatArray, sign: float) -> FloatArray:
        """Return ψ(θ) = ln E e^{θ·sign·z} for every rate θ [1/Wh]."""
        highest = float((sign * self.energy).max())
        table = np.empty(rates.size)
        for i, rate in enumerate(rates):
            weights = np.exp(rate * (sign * self.energy - highest)) @ self.masses
            table[i] = math.log(weights) + rate * highest
        return table

    @property
    def spread(self) -> float:
        """Root mean square √E[z²] of the stored energy [Wh]."""
        return math.sqrt(float(self.energy**2 @ self.masses))


def energy_per_reading(mechanism: Mechanism, battery: Battery, pull: float = 0.0) -> StoredEnergy:
    """Return the distribution of the energy z that one reading stores."""
    above, below, charge, discharge, into, out, hours = battery.limits
    upkeep = upkeep_power(mechanism, battery)
    places, masses = noise_distribution(mechanism)
    power = places * mechanism.grid + upkeep
    most, least = charge, -discharge
    if pull:
        half = mechanism.grid / 2
        most = charge - pull * below / hours - half if math.isfinite(charge) else charge
        least = pull * above / hours + half - discharge if math.isfinite(discharge) else least
    inside = np.flatnonzero((power <= most) & (power >= least))
    if inside.size == 0:
        return StoredEnergy(np.zeros(1), np.ones(1), 1.0)
    # Summed from the tails: subtraction from one would lose probabilities below 1e-16.
    first, last = int(places[inside[0]]), int(places[inside[-1]])
    outside = float(mechanism.cdf(first - 1)) + float(mechanism.cdf(-last - 1))
    energy = hours * np.where(power >= 0, power * into, power / out)[inside]
    cells, weights = _gather(energy, masses[inside])
    return StoredEnergy(np.append(cells, 0.0), np.append(weights, outside), outside)


def _gather(energy: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A distribution of few points with the same mean and an E e^{θz} that is not smaller.

    All mass of a cell moves to the two ends of the cell in the proportion that keeps the mean.
    e^{θz} is convex, so its mean can only rise and the bound of `guarantee` remains valid.
    """
    if energy.size <= CELLS:
        return energy, masses
    first = np.linspace(0, energy.size, CELLS // 2 + 1).astype(np.int64)[:-1]
    last = np.append(first[1:], energy.size) - 1
    low, high = energy[first], energy[last]
    weight = np.add.reduceat(masses, first)
    lean = np.add.reduceat(masses * energy, first) - weight * low
    width = high - low
    upper = np.divide(lean, width, out=np.zeros_like(lean), where=width > 0)
    upper = np.clip(upper, 0.0, weight)
    return np.concatenate([low, high]), np.concatenate([weight - upper, upper])


# The compiled controllers process one reading after the other. b is the battery power on the side
# of the meter [W], positive while charging; e is the energy stored since the start [Wh]; h is the
# length of a reading [h]; η_c and η_d are the efficiencies of charging and discharging. A step is
#
#     e' = e + h·s(b),    s(b) = η_c·b for b ≥ 0, b/η_d for b < 0,
#
# with −discharge ≤ b ≤ charge and −below ≤ e ≤ above. Every controller returns three arrays: b, e
# and whether the battery could not do what the controller wanted.

LIMITS = ("above", "below", "charge", "discharge", "in_efficiency", "out_efficiency", "hours")
"""Order of the numbers in the array `limits` that every controller takes."""

SLACK = 1e-9
"""Relative difference that is treated as rounding of floats, not as a cut."""

Run = tuple[FloatArray, FloatArray, BoolArray]


@compiled(cache=True, inline="always")
def into_store(b: float, limits: FloatArray) -> float:
    """Return s(b) [W], the power that reaches or leaves the store."""
    inside: float = b * limits[4] if b >= 0 else b / limits[5]
    return inside


@compiled(cache=True, inline="always")
def act(e: float, want: float, limits: FloatArray) -> tuple[float, float, bool]:
    """Return the wanted power within the limits (b), the energy e' after it, and if b was cut."""
    hours = limits[6]
    b = min(max(want, -limits[3]), limits[2])
    if b >= 0:
        b = min(b, (limits[0] - e) / (hours * limits[4]))
    else:
        b = max(b, -(e + limits[1]) * limits[5] / hours)
    after = min(max(e + hours * into_store(b, limits), -limits[1]), limits[0])
    return b, after, b != want


@compiled(cache=True)
def run_reserved(
    noise: FloatArray, upkeep: float, pull: float, grid: float, limits: FloatArray
) -> Run:
    """Set b = n − grid·round(pull·e/(grid·h)) + upkeep, cut where it is full, empty or too weak.

    The pull returns e towards its start; without a pull this is the controller direct.
    """
    size = noise.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    e = 0.0
    for t in range(size):
        back = grid * np.rint(pull * e / (grid * limits[6]))
        power[t], e, cut[t] = act(e, noise[t] - back + upkeep, limits)
        stored[t] = e
    return power, stored, cut


@compiled(cache=True, inline="always")
def slide(
    path: FloatArray, queue: IntArray, first: int, last: int, entering: int, sign: float
) -> int:
    """Append a place to a monotone queue of the highest (sign = 1) or lowest (−1) path values."""
    while last > first and sign * path[queue[last - 1]] <= sign * path[entering]:
        last -= 1
    queue[last] = entering
    return last + 1


@compiled(cache=True, inline="always")
def bend(e: float, now: int, peak: int, trough: int, path: FloatArray, limits: FloatArray) -> float:
    """Power to give up at each reading [W, stored side] so that the coming path fits the limits.

    The path must fit at its highest and at its lowest coming place; the earlier violation decides.
    """
    over = e + path[peak] - path[now] - limits[0]
    under = -limits[1] - (e + path[trough] - path[now])
    slack = SLACK * (1.0 + abs(path[now]))
    give = 0.0
    if over > slack and (under <= slack or peak < trough):
        give = over / ((peak - now) * limits[6])
    elif under > slack:
        give = -under / ((trough - now) * limits[6])
    return give


@compiled(cache=True)
def run_lookahead(noise: FloatArray, upkeep: float, ahead: int, limits: FloatArray) -> Run:
    """Act like direct, but change a path that would leave the limits `ahead` readings before.

    Two monotone queues hold the highest and the lowest place of the sliding window, so that the
    whole horizon costs a constant number of steps for each reading.
    """
    size = noise.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    path = np.zeros(size + 1)
    for t in range(size):
        want = min(max(noise[t] + upkeep, -limits[3]), limits[2])
        path[t + 1] = path[t] + limits[6] * into_store(want, limits)
    high, low = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    high_first, high_last, low_first, low_last, entered = 0, 0, 0, 0, 0
    e = 0.0
    for t in range(size):
        while entered < min(t + ahead, size):
            entered += 1
            high_last = slide(path, high, high_first, high_last, entered, 1.0)
            low_last = slide(path, low, low_first, low_last, entered, -1.0)
        while high[high_first] <= t:
            high_first += 1
        while low[low_first] <= t:
            low_first += 1
        want = noise[t] + upkeep
        give = bend(e, t, high[high_first], low[low_first], path, limits)
        changed = want
        if give != 0.0:
            inside = into_store(min(max(want, -limits[3]), limits[2]), limits) - give
            changed = inside / limits[4] if inside >= 0 else inside * limits[5]
        power[t], e, _ = act(e, changed, limits)
        stored[t] = e
        # A difference in the last bit of a float is not a cut.
        cut[t] = abs(power[t] - want) > SLACK * (1.0 + abs(want))
    return power, stored, cut


@compiled(cache=True)
def run_flatten(load: FloatArray, limits: FloatArray) -> Run:
    """Hold the meter at its last value as long as the limits allow it."""
    size = load.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    e, shown = 0.0, load[0]
    for t in range(size):
        power[t], e, cut[t] = act(e, shown - load[t], limits)
        shown = load[t] + power[t]
        stored[t] = e
    return power, stored, cut


@compiled(cache=True)
def run_stepping(load: FloatArray, step: float, limits: FloatArray) -> Run:
    """Hold the meter on a multiple of `step`; choose another multiple only if the limits force it.

    The new multiple lies below the load if the battery is more than half full and above it
    otherwise, so that the battery returns to its middle.
    """
    size = load.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    middle = (limits[0] - limits[1]) / 2
    e, level = 0.0, np.rint(load[0] / step)
    for t in range(size):
        b, after, short = act(e, level * step - load[t], limits)
        if short:
            level = np.floor(load[t] / step) if e > middle else np.ceil(load[t] / step)
            b, after, short = act(e, level * step - load[t], limits)
        power[t], e, cut[t] = b, after, short
        stored[t] = e
    return power, stored, cut


@compiled(cache=True)
def run_control(
    noise: FloatArray, upkeep: float, pull: float, grid: float, ahead: int, limits: FloatArray
) -> Run:
    """Operate one horizon from the initial charge; `ahead` is 0 except for lookahead."""
    if ahead > 0:
        return run_lookahead(noise, upkeep, ahead, limits)
    return run_reserved(noise, upkeep, pull, grid, limits)


@compiled(cache=True)
def run_days(
    noise: FloatArray, upkeep: float, pull: float, grid: float, ahead: int, limits: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Operate many horizons, noise of shape (days, T), each from the initial charge.

    Returns for each horizon the number of readings cut, the energy taken from the store [Wh] and
    the energy lost [Wh].
    """
    days = noise.shape[0]
    cuts = np.zeros(days, np.int64)
    taken, lost = np.zeros(days), np.zeros(days)
    for day in range(days):
        power, _, cut = run_control(noise[day], upkeep, pull, grid, ahead, limits)
        for t in range(power.size):
            inside = into_store(power[t], limits)
            cuts[day] += cut[t]
            taken[day] -= min(inside, 0.0) * limits[6]
            lost[day] += (power[t] - inside) * limits[6]
    return cuts, taken, lost
