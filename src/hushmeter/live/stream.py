"""The public terms of a stream, and the step from a closed window to a protected value.

A stream is a sequence of releases, each of one period. A stream of windows (`SeriesTerms`) releases
civil days: the windows of a day get the draws 0, 1, 2, … of the key of the day, so a day that one
process protects from midnight to midnight has the same bytes as `hushmeter.release` of the readings
of that day with the same key. `hushmeter.live.calendar` has the stream that releases months.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import non_negative, whole
from hushmeter.clock import SECOND, check_zone, day_bounds, day_of
from hushmeter.errors import DataError, InputError
from hushmeter.live.windows import Buffer, ChangeBuffer, ClosedWindow, WindowBuffer
from hushmeter.noise.mechanism import Mechanism
from hushmeter.noise.parameters import MAX_STEPS
from hushmeter.privacy.sensitivity import round_up
from hushmeter.privacy.units import Unit
from hushmeter.releases.receipt import (
    Receipt,
    describe_unit,
    refuse_learnt_from_these,
    write_public_receipt,
)
from hushmeter.releases.series import mean_windows, scale_up
from hushmeter.trace import SECONDS_PER_DAY, Trace

if TYPE_CHECKING:
    from hushmeter.home import Appliance, Home
    from hushmeter.ledger import DayChange, Price

BOUNDS_W = (-1e6, 1e6)
"""Declared bounds of a reading if no clamp is given [W]."""

GRACE_S = 10.0
"""Default time from the end of a window until it closes [s]."""


@dataclass(frozen=True)
class Terms(ABC):
    """What a stream publishes and what it protects. All of it is public and fixed.

    Parameters
    ----------
    name : str
        Name of the stream: letters, digits, "-" and "_". It is a part of topics and file names.
    unit : Unit
        The unit of protection; it gives the length of a reading and of a window.
    zone : str, default "UTC"
        Time zone of the days and months.
    grace_s : float
        Time from the end of a window until it closes [s]. If the meter sends only changes, the
        loss of its connection is noticed within this time.
    hold : bool
        True if the meter sends only changes of its value.
    heartbeat_s : float
        Time after which a meter that sends only changes has sent its value at least once [s]; 0 if
        it sends its value as soon as it is connected.
    seed : int, optional
        Seed of a simulation. A real stream has none.
    simulation : bool
        True if the readings are those of `hushmeter replay`; every message says so.
    home : Home, optional
        The home for which the unit was made, for the origin of its numbers. It is not published.
    accept_learnt : bool
        True if numbers of the home may be learnt from readings of the time of the stream.

    Raises
    ------
    InputError
        If the terms cannot be kept by a stream.
    """

    name: str
    unit: Unit
    _: KW_ONLY
    zone: str = "UTC"
    grace_s: float = GRACE_S
    hold: bool = False
    heartbeat_s: float = 0.0
    seed: int | None = None
    simulation: bool = False
    home: Home | None = None
    accept_learnt: bool = False

    def __post_init__(self) -> None:
        if not self.name or not all(c.isascii() and (c.isalnum() or c in "-_") for c in self.name):
            raise InputError(
                f"the name of a stream has letters, digits, - and _ only, got {self.name!r}."
            )
        check_zone(self.zone)
        object.__setattr__(self, "grace_s", non_negative("grace", self.grace_s))
        object.__setattr__(self, "heartbeat_s", non_negative("heartbeat", self.heartbeat_s))
        if self.heartbeat_s and not self.hold:
            raise InputError("--heartbeat belongs to a meter that sends only changes.")
        length = self.window_ns
        if SECONDS_PER_DAY * SECOND % length:
            raise InputError(
                f"the windows of a stream must divide a day, but {length / SECOND:g} s do not; "
                "choose --every 1h."
            )
        if self.unit.span == "when":
            raise InputError(
                "the span 'when' publishes sums of days, which a stream cannot keep if a "
                "reading is lost; protect a run or a day."
            )
        if self.unit.metering.register_step_w:
            raise InputError("a stream needs readings of power, not those of an energy counter.")
        if self.seed is not None:
            whole("seed", self.seed, least=0)
            object.__setattr__(self, "simulation", True)

    @property
    @abstractmethod
    def grid(self) -> Fraction:
        """Grid of the published values [W]."""

    @property
    @abstractmethod
    def clamp(self) -> tuple[float, float] | None:
        """Declared bounds of a reading [W], if there are any."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of the noise of one window [W]."""

    @abstractmethod
    def price(self, protects: DayChange) -> Price:
        """Return what a UTC day costs in a ledger that protects a change."""

    @abstractmethod
    def period_of(self, day: str) -> str:
        """Period of a civil day: all its noise comes from keys of the period alone."""

    @abstractmethod
    def describe_noise(self) -> dict[str, Any]:
        """Return the noise and its ε and δ as plain values."""

    @abstractmethod
    def receipt_of(self, released: Trace) -> dict[str, Any]:
        """Return the public receipt of the protected values of a day as plain values."""

    @property
    def interval_ns(self) -> int:
        """Length of a metered reading [ns]."""
        return round(self.unit.interval_s * SECOND)

    @property
    def window_ns(self) -> int:
        """Length of a window [ns]."""
        return self.interval_ns * self.unit.window

    @property
    def window_s(self) -> float:
        """Length of a window [s]."""
        return self.window_ns / SECOND

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds to which every reading is set [W]: the clamp, or one megawatt."""
        if self.clamp is not None:
            return self.clamp
        most = 0.9 * float(MAX_STEPS * self.grid)
        return max(BOUNDS_W[0], -most), min(BOUNDS_W[1], most)

    @property
    def grace_ns(self) -> int:
        """Time from the end of a window until it closes [ns]."""
        return round(self.grace_s * SECOND)

    def buffer(self) -> Buffer:
        """Return an empty buffer for the windows of the stream."""
        kind = ChangeBuffer if self.hold else WindowBuffer
        return kind(self.interval_ns, self.unit.window, grace_ns=self.grace_ns, bounds=self.bounds)

    def start_of(self, number: int) -> np.datetime64:
        """Start of a window (UTC)."""
        return np.datetime64(number * self.window_ns, "ns")

    def day_of(self, number: int) -> str:
        """Civil day in which a window starts, such as "2024-03-01"."""
        return day_of(number * self.window_ns, self.zone)

    def utc_day_of(self, number: int) -> str:
        """UTC day in which a window starts; the ledger counts these days."""
        return str(self.start_of(number).astype("datetime64[D]"))

    def numbers_of_day(self, day: str) -> range:
        """Numbers of all windows that start in a civil day, which has 23 to 25 hours."""
        bounds = day_bounds(np.array([day], "datetime64[D]"), self.zone)
        first, stop = (-(-int(at[0].astype(np.int64)) * SECOND // self.window_ns) for at in bounds)
        return range(first, stop)

    def mean_of(self, window: ClosedWindow) -> float | None:
        """Return the mean to which noise is added, with missing readings counted as zero.

        Parameters
        ----------
        window : ClosedWindow

        Returns
        -------
        float or None
            [W]; None if fewer than `LEAST_PRESENT` of the readings are present. Which of the two
            it is depends on the times of the readings alone.
        """
        places = np.flatnonzero(np.isfinite(window.readings))
        if places.size == 0:
            return None
        trace = Trace(
            window.readings[places],
            self.unit.interval_s,
            self.start_of(window.number) + places[0] * np.timedelta64(self.interval_ns, "ns"),
            steps=places - places[0],
        )
        try:
            coarse, _ = mean_windows(trace, self.unit, self.clamp)
        except DataError:
            return None
        return float(coarse.readings[0])

    def trace_of(self, numbers: Sequence[int], values: Sequence[float]) -> Trace:
        """Return values of windows [W] as a trace."""
        places = np.asarray(numbers)
        return Trace(
            np.asarray(values, dtype=float),
            self.window_s,
            self.start_of(int(places[0])),
            steps=places - places[0],
        )

    def refuse_learnt(self, first_ns: int, last_ns: int) -> None:
        """Raise `InputError` if a number of the home was learnt at the time of the stream.

        Parameters
        ----------
        first_ns, last_ns : int
            The time of readings that are to be published [ns since 1970].
        """
        if not (self.simulation or self.accept_learnt):
            ends = np.array([0, max(1, (last_ns - first_ns) // self.interval_ns)])
            start = np.datetime64(first_ns, "ns")
            span = Trace(np.zeros(2), self.unit.interval_s, start, steps=ends)
            refuse_learnt_from_these(self.unit, self.home, span)

    def describe(self) -> dict[str, Any]:
        """Return the terms as plain values; a state that was begun with other terms is refused."""
        return {
            "stream": self.name,
            "kind": "simulation" if self.simulation else "release",
            "unit": describe_unit(self.unit),
            **self.describe_noise(),
            "window_s": self.window_s,
            "windows_per_day": SECONDS_PER_DAY * SECOND // self.window_ns,
            "grace_s": self.grace_s,
            "zone": self.zone,
            "sends": "changes" if self.hold else "at fixed times",
            **({"heartbeat_s": self.heartbeat_s} if self.hold else {}),
        }


@dataclass(frozen=True)
class SeriesTerms(Terms):
    """A stream of windows with independent noise; days and months are sums of its windows.

    Parameters
    ----------
    name, unit, zone, grace_s, hold, heartbeat_s, seed, simulation, home, accept_learnt
        See `Terms`.
    mechanism : Mechanism
        The noise of every window.

    Raises
    ------
    InputError
        If the terms cannot be kept by a stream.
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism.engine != "table":
            raise InputError("a stream needs keyed noise: use the engine 'table'.")

    @property
    def grid(self) -> Fraction:
        """Grid of the published values [W]."""
        return self.mechanism.exact_grid

    @property
    def clamp(self) -> tuple[float, float] | None:
        """Declared bounds of a reading [W], if there are any."""
        return self.mechanism.clamp

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one window [W]."""
        return self.mechanism.std

    def price(self, protects: DayChange) -> Price:
        """Return what a UTC day costs in a ledger that protects a change."""
        # A stream without a ledger does not load its package.
        from hushmeter.ledger import period_price

        return period_price(self.mechanism, protects.on_unit(self.unit, self.clamp))

    def period_of(self, day: str) -> str:
        """Return the day itself: a day is one release."""
        return day

    def protect(self, mean: float, share: float, key: bytes, draw: int) -> float:
        """Add the noise of one draw to the mean of a window.

        Parameters
        ----------
        mean : float
            From `mean_of` [W].
        share : float
            Share of the readings that are present.
        key : bytes
            Key of the release to which the window belongs.
        draw : int
            Number of the draw. Two windows never share the draw of a key.

        Returns
        -------
        float
            The protected value [W].
        """
        # The earlier draws of the key belong to earlier windows, so they are drawn and left out.
        steps = self.mechanism.release(np.append(np.zeros(draw), mean), key=key)[-1:]
        if share < 1:
            steps = scale_up(steps, np.array([share]), self.mechanism.grid)
        return float(steps[0])

    def receipt(self, released: Trace) -> Receipt:
        """Draw up the public receipt of one day.

        Parameters
        ----------
        released : Trace
            Protected values of the day [W].

        Returns
        -------
        Receipt
        """
        return write_public_receipt(
            released,
            released,
            self.mechanism,
            self.unit,
            home=self.home,
            simulation=self.simulation,
        )

    def receipt_of(self, released: Trace) -> dict[str, Any]:
        """Return the public receipt of the protected values of a day as plain values."""
        return self.receipt(released).to_dict()

    def describe_noise(self) -> dict[str, Any]:
        """Return the noise and its ε and δ as plain values."""
        now = Trace(np.zeros(1), self.unit.interval_s, np.datetime64(0, "ns"))
        receipt = self.receipt(now)
        return {
            "mechanism": receipt.mechanism,
            "epsilon": receipt.epsilon,
            "delta": receipt.delta,
        }


def allow_for_samples(appliance: Appliance, interval_s: float) -> Appliance:
    """Return an appliance whose run is long enough for a meter that samples the power.

    Parameters
    ----------
    appliance : Appliance
        Bounds of one run.
    interval_s : float
        Time between two samples [s].

    Returns
    -------
    Appliance
        With a run of ⌈R/I⌉ + 1 intervals and without a smaller energy; a meter that reports means
        does not need this.

    Notes
    -----
    A run of R seconds overlaps at most ⌈R/I⌉ + 1 slots of I seconds. The one sample of a slot
    counts for the whole slot and may lie anywhere in it, so each of these slots can change by the
    full power P, and no other slot changes. Samples at equal distances would reach one slot less,
    but no meter keeps them exactly. If a meter sends only changes and reports each of them within I
    seconds, a run lasts at most R + I seconds in its messages, which is not more. An appliance
    that switches within its run may be on at every sample, so its energy is bounded by P alone.
    """
    run_s = appliance.protected_run_s
    if run_s is None:
        return appliance
    seen_s = (round_up(run_s / interval_s) + 1) * interval_s
    return replace(appliance, run_high_s=seen_s, energy_wh=None)


def iso_of(moment_ns: int) -> str:
    """Return a time in ns since 1970 as ISO 8601 text with Z; whole seconds get no fraction."""
    whole_s, rest = divmod(moment_ns, SECOND)
    text = datetime.fromtimestamp(whole_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"
