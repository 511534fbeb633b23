"""A store of energy, the controllers that fill and drain it, and a stretch of operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hushmeter.battery.stored_energy import refuse_unfit, stored_power, upkeep_power
from hushmeter.checks import BoolArray, FloatArray, finite_vector, one_of, positive, whole
from hushmeter.errors import InputError
from hushmeter.trace import Trace

if TYPE_CHECKING:
    from hushmeter.noise.mechanism import Mechanism, Rng
    from hushmeter.privacy.units import Unit

CONTROLLERS = ("direct", "reserved", "lookahead")
BASELINES = ("flatten", "stepping")
PULL = 0.25
FINE_W = 5.0
WH_PER_KWH = 1000.0


@dataclass(frozen=True)
class Battery:
    """A home battery.

    Parameters
    ----------
    capacity_kwh : float
        Usable energy [kWh]; infinite for an ideal one.
    power_kw : float
        Largest charging power on the meter's side [kW].
    discharge_kw : float, optional
        Largest discharging power [kW]; as for charging if not given.
    efficiency : float
        Of a round trip, 0 … 1; its square root is lost on the way in and on the way out.
    charge : float
        Share of the capacity that is stored at the start, 0 … 1.
    interval_s : float
        How often the battery is told what to do [s]: the interval of the meter's readings.
    """

    capacity_kwh: float
    power_kw: float
    discharge_kw: float | None = None
    efficiency: float = 0.9
    charge: float = 0.5
    interval_s: float = 6.0

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
            raise InputError("an infinite battery is neither full nor empty; leave charge at 0.5.")

    @property
    def one_way(self) -> float:
        """η_c = η_d: the square root of the round trip."""
        return math.sqrt(self.efficiency)

    @property
    def hours(self) -> float:
        """h: length of one reading [h]."""
        return self.interval_s / 3600

    @property
    def room_wh(self) -> tuple[float, float]:
        """Energy that fits in, and that can be taken out, at the start [Wh]."""
        capacity = self.capacity_kwh * WH_PER_KWH
        return capacity * (1 - self.charge), capacity * self.charge

    @property
    def limits(self) -> FloatArray:
        """What the kernels need, in the order of `control.LIMITS`."""
        assert self.discharge_kw is not None
        powers = (self.power_kw * 1000, self.discharge_kw * 1000)
        return np.array([*self.room_wh, *powers, self.one_way, self.one_way, self.hours])


@dataclass(frozen=True)
class Control:
    """How the battery is told what to do.

    Attributes
    ----------
    name : {"direct", "reserved", "lookahead"}
    readings : int
        T: the horizon over which the promise is made.
    pull : float
        Share of what the store is off its start that "reserved" takes back per reading.
    ahead : int
        Readings for which "lookahead" knows its noise beforehand.
    """

    name: str
    readings: int
    pull: float
    ahead: int


def choose_control(
    name: str, readings: int, *, pull: float | None = None, ahead: int | None = None
) -> Control:
    """A controller for a horizon of so many readings.

    Parameters
    ----------
    name : {"direct", "reserved", "lookahead"}
    readings : int
    pull : float, optional
        0.25/√T if not given: with Gaussian noise the sum of what is paid later then stays small.
    ahead : int, optional
        A twelfth of the horizon if not given: two hours of a day.
    """
    one_of("controller", name, CONTROLLERS)
    horizon = whole("readings", readings)
    share = PULL / math.sqrt(horizon) if pull is None else positive("pull", pull)
    if share > 0.5:
        raise InputError(f"pull must be at most 0.5 per reading, got {pull}.")
    known = max(1, horizon // 12) if ahead is None else whole("ahead", ahead)
    return Control(name, horizon, share if name == "reserved" else 0.0, known)


def control_grid(control: Control, unit: Unit) -> str:
    """Grid of the noise [W] that suits a controller, as text for an exact number.

    The pull of "reserved" moves by whole steps and pays for whole steps: where it is small, less
    is lost to rounding on a tenth of a watt. A meter that reports whole watts only post-processes
    such noise, since its rounding edges, at half watts, lie on that grid.
    """
    return "0.1" if 0 < control.pull * unit.l1 < FINE_W else "1"


@dataclass(frozen=True, eq=False)
class Operation:
    """What a battery did to a trace.

    Attributes
    ----------
    controller : str
    battery : Battery
    load : Trace
        What the house drew.
    metered : Trace
        What the meter showed, on its grid; it carries the truth of the load.
    battery_w : array, shape (T,)
        b: power of the battery on the meter's side [W], positive while charging.
    stored_wh : array, shape (T,)
        e: energy stored since the start, at the end of each reading [Wh].
    target_w : array, shape (T,)
        The noise that the mechanism drew [W]; zero for the baselines.
    noise_w : array, shape (T,)
        The noise that reached the meter [W]: b without the upkeep.
    saturated : array of bool, shape (T,)
        Where the battery could not do what its controller wanted.
    upkeep_w : float
        Constant charge that makes up for the losses [W].
    """

    controller: str
    battery: Battery
    load: Trace
    metered: Trace
    battery_w: FloatArray
    stored_wh: FloatArray
    target_w: FloatArray
    noise_w: FloatArray
    saturated: BoolArray
    upkeep_w: float

    @property
    def flow_w(self) -> FloatArray:
        """Power through the meter before it rounds, x + b [W]."""
        return self.load.readings + self.battery_w

    @cached_property
    def state_of_charge(self) -> FloatArray:
        """Share of the capacity stored at the end of each reading, shape (T,)."""
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
        """Energy taken from the store over its capacity."""
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
    """Let a battery put a mechanism's noise on the meter.

    Parameters
    ----------
    trace : Trace
        The load of the house. In a gap the battery rests.
    battery : Battery
        Its interval must be that of the trace.
    mechanism : Mechanism
        Its grid is the resolution of the meter, or divides half of it. It must not clamp: a
        battery cannot.
    control : Control or {"direct", "reserved", "lookahead"}
    rng : int or Generator, optional
        A simulation; without it the noise is fresh and secret.
    key : 32 bytes, optional
        Keyed replay: while the battery follows, "direct" and "lookahead" meter what
        `mechanism.release` gives with that key for the load and the upkeep together.
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
    """Let a battery put a given noise sequence [W] on the meter; see `operate`."""
    from hushmeter.battery import controllers as kernels

    _same_interval(trace, battery)
    target = finite_vector("noise", noise)
    if target.size != len(trace):
        raise InputError(f"noise must have {len(trace)} entries, got {target.size}.")
    limits = battery.limits
    if control.name == "reserved":
        done = kernels.run_reserved(target, upkeep_w, control.pull, grid, limits)
    elif control.name == "lookahead":
        done = kernels.run_lookahead(target, upkeep_w, control.ahead, limits)
    else:
        done = kernels.run_direct(target, upkeep_w, limits)
    power, stored, cut = done
    # What was not cut is the target itself, not the target after two roundings of a float.
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
    """The classical load-hiding baselines, for comparison; they promise no ε.

    Parameters
    ----------
    trace : Trace
    battery : Battery
    method : {"flatten", "stepping"}
        Best effort: hold the last metered value. Stepping: hold a multiple of `step_w`.
    step_w : float, optional
        [W]; the smaller power of the battery if not given.
    """
    from hushmeter.battery import controllers as kernels

    _same_interval(trace, battery)
    limits = battery.limits
    if one_of("method", method, BASELINES) == "flatten":
        power, stored, cut = kernels.run_flatten(trace.readings, limits)
    else:
        step = min(limits[2], limits[3]) if step_w is None else step_w
        power, stored, cut = kernels.run_stepping(trace.readings, positive("step_w", step), limits)
    metered = trace.replace_readings(trace.readings + power)
    nothing = np.zeros(len(trace))
    return Operation(method, battery, trace, metered, power, stored, nothing, power, cut, 0.0)


def _same_interval(trace: Trace, battery: Battery) -> None:
    if abs(trace.interval_s - battery.interval_s) > 1e-9 * battery.interval_s:
        raise InputError(
            f"the battery acts every {battery.interval_s:g} s, but the trace has readings of "
            f"{trace.interval_s:g} s; coarsen the trace or change the battery's interval."
        )


def _size(name: str, value: float, unit: str) -> float:
    """A positive size; infinity stands for an ideal battery."""
    if isinstance(value, float) and math.isinf(value) and value > 0:
        return value
    return positive(f"{name} [{unit}]", value)
