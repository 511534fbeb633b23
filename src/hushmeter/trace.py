"""A series of meter readings with its times, its gaps and, if known, the true states.

The paper's y is `Trace.readings` [W], its X is `Trace.states`, its Δ is `Trace.switches` and its K
is `Trace.jumps`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmeter.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    finite_vector,
    non_negative,
    one_of,
    positive,
    seconds,
    whole,
)
from hushmeter.errors import DataError, InputError

TimeArray = NDArray[np.datetime64]

SECONDS_PER_DAY, SECONDS_PER_HOUR = 86_400, 3600
JOULES_PER_KWH = 3.6e6
UNITS = ("W", "kW", "Wh", "kWh")


@dataclass(frozen=True)
class Metering:
    """Public facts about how a meter made its readings.

    The sensitivity of a release is computed for the readings that the meter reports, not for the
    true power. It therefore needs to know how the meter rounds. Every field is public: it comes
    from the format of a file, from its header or from an option, and never from the values of the
    readings.

    Parameters
    ----------
    resolution_w : float, default 0
        Step to which the meter rounds every reading [W]. Zero means that the step is unknown or
        negligible.
    register_step_w : float, default 0
        Step of one reading [W] if the readings are differences of a counter that the meter rounds
        (a register). A run then moves every later reading by at most one step. Zero means that
        the readings are not differences of a counter.
    copies : int, default 1
        Largest number of readings of the trace into which one metered value was copied.

    Raises
    ------
    InputError
        If a step is negative or not finite, or `copies` is not a whole number of at least 1.
    """

    resolution_w: float = 0.0
    register_step_w: float = 0.0
    copies: int = 1

    def __post_init__(self) -> None:
        for field in ("resolution_w", "register_step_w"):
            object.__setattr__(self, field, non_negative(field, getattr(self, field)))
        object.__setattr__(self, "copies", whole("copies", self.copies))


@dataclass(frozen=True, eq=False)
class Trace:
    """Meter readings at a fixed interval, possibly with gaps.

    Parameters
    ----------
    readings : array_like, shape (T,)
        Mean power of each interval [W].
    interval_s : float
        Length of one interval [s].
    start : str, datetime or datetime64
        Start of the first interval. Text and datetimes need a time zone; a datetime64 is UTC.
    states : array_like of bool, shape (T, N), optional
        True on/off states, the paper's X.
    power : array_like, shape (T, N), optional
        True power of each appliance [W].
    names : sequence of str, optional
        Appliance names of the columns of `states` and `power`.
    steps : array_like of int, shape (T,), optional
        Time of each reading, counted in intervals from `start`, strictly ascending. Without
        steps the readings are contiguous. A difference of more than one is a gap.
    metering : Metering, optional
        How the meter made the readings; an ideal meter by default. Parts, coarser traces and
        traces with other readings keep it.

    Raises
    ------
    InputError
        If an argument has the wrong shape or type, or the start has no time zone.
    DataError
        If there is no reading, a value is not finite, or time repeats or goes backwards.

    Notes
    -----
    A trace never changes. It shares the memory of the arrays that it was made of.

    Examples
    --------
    >>> import hushmeter as hm
    >>> trace = hm.Trace([120.0, 2120.0, 2118.0], interval_s=6.0, start="2024-01-01T00:00Z")
    >>> trace.jumps().tolist()
    [0.0, 2000.0, 2.0]
    """

    readings: FloatArray
    interval_s: float
    start: np.datetime64
    states: BoolArray | None
    power: FloatArray | None
    names: tuple[str, ...] | None
    steps: IntArray | None
    metering: Metering

    def __init__(
        self,
        readings: ArrayLike,
        interval_s: float,
        start: str | datetime | np.datetime64 = "1970-01-01T00:00Z",
        states: ArrayLike | None = None,
        power: ArrayLike | None = None,
        names: Iterable[str] | None = None,
        steps: ArrayLike | None = None,
        *,
        metering: Metering = Metering(),  # noqa: B008
    ) -> None:
        values = finite_vector("readings", readings)
        if values.size == 0:
            raise DataError("a trace needs at least one reading, got none.")
        columns = None if names is None else tuple(names)
        fields = {
            "readings": _frozen(values),
            "interval_s": positive("interval_s", interval_s),
            "start": utc(start),
            "states": _truth("states", states, values.size, columns, np.bool_),
            "power": _truth("power", power, values.size, columns, np.float64),
            "names": columns,
            "steps": None if steps is None else _ascending(steps, values.size),
            "metering": metering,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        truth = "no truth" if self.states is None else f"{self.states.shape[1]} appliances"
        return (
            f"Trace({len(self)} readings, {self.interval_s:g} s, from {iso(self.start)}, {truth})"
        )

    def __len__(self) -> int:
        return int(self.readings.size)

    def __getitem__(self, part: slice) -> Trace:
        """Return the part `trace[first:stop]`; it starts at the time of its first reading."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InputError("cut a trace with trace[first:stop], without a step.")
        first, stop, _ = part.indices(len(self))
        if stop <= first:
            raise DataError(f"trace[{first}:{stop}] has no reading.")
        return Trace(
            self.readings[part],
            self.interval_s,
            self.times[first],
            None if self.states is None else self.states[part],
            None if self.power is None else self.power[part],
            self.names,
            None if self.steps is None else self.steps[part] - self.steps[first],
            metering=self.metering,
        )

    def replace_readings(self, readings: ArrayLike) -> Trace:
        """Return a trace with the same times and truth and other readings [W], shape (T,)."""
        values = finite_vector("readings", readings)
        if values.size != len(self):
            raise InputError(f"readings must have {len(self)} entries, got {values.size}.")
        return Trace(
            values,
            self.interval_s,
            self.start,
            self.states,
            self.power,
            self.names,
            self.steps,
            metering=self.metering,
        )

    def with_truth(
        self, states: ArrayLike, power: ArrayLike | None = None, names: Iterable[str] | None = None
    ) -> Trace:
        """Return a trace with the same readings and other true states.

        Parameters
        ----------
        states : array_like of bool, shape (T, N)
            True states.
        power : array_like, shape (T, N), optional
            True power of every appliance [W].
        names : iterable of str, optional
            Names of the appliances.

        Returns
        -------
        Trace
        """
        return Trace(
            self.readings,
            self.interval_s,
            self.start,
            states,
            power,
            names,
            self.steps,
            metering=self.metering,
        )

    def coarsen(self, every: float | str, *, on: str = "half") -> Trace:
        """Return means over longer intervals, which start at whole multiples of `every` in UTC.

        Parameters
        ----------
        every : float or str
            Length of the new interval [s], or text such as "30min". It must be a whole multiple
            of the interval of the trace.
        on : {"half", "any"}
            Whether an appliance is on in an interval if it was on in at least half of its
            readings, or in any of them.

        Returns
        -------
        Trace
            An interval with a missing reading is left out and becomes a gap.

        Raises
        ------
        InputError
            If `every` is not a whole multiple of the interval, or `on` is neither of the two.
        DataError
            If no interval is complete.
        """
        least = 0.5 if one_of("on", on, ("half", "any")) == "half" else 1e-9
        window = intervals_in(every, self.interval_s)
        length = window * self.interval_s
        step = np.timedelta64(round(length * 1e9), "ns")
        cells = (self.times - np.datetime64(0, "ns")) // step
        first = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
        first = first[np.diff(first, append=cells.size) == window]
        if first.size == 0:
            raise DataError(f"no interval of {length:g} s is complete in this trace.")
        rows = first[:, None] + np.arange(window)
        return Trace(
            self.readings[rows].mean(axis=1),
            length,
            np.datetime64(0, "ns") + cells[first[0]] * step,
            None if self.states is None else self.states[rows].mean(axis=1) >= least,
            None if self.power is None else self.power[rows].mean(axis=1),
            self.names,
            cells[first] - cells[first[0]],
            metering=self.metering,
        )

    def hourly(self) -> Trace:
        """The mean power of every clock hour (UTC) in which a reading starts.

        This is the one definition of an hourly mean in the project. An hour that has only some of
        its readings counts with those that it has, so that a short gap does not remove an hour.
        Readings of an hour or more stay as they are. True states and powers are left out.

        Returns
        -------
        Trace
            One reading [W] per hour; hours without a reading are gaps.
        """
        if self.interval_s >= SECONDS_PER_HOUR:
            return Trace(
                self.readings, self.interval_s, self.start, steps=self.steps, metering=self.metering
            )
        hour = np.timedelta64(SECONDS_PER_HOUR, "s")
        hours, place = np.unique((self.times - np.datetime64(0, "ns")) // hour, return_inverse=True)
        return Trace(
            np.bincount(place, weights=self.readings) / np.bincount(place),
            SECONDS_PER_HOUR,
            np.datetime64(0, "ns") + hours[0] * hour,
            steps=hours - hours[0],
            metering=self.metering,
        )

    @property
    def energy_kwh(self) -> float:
        """Energy of all readings [kWh]."""
        return float(self.readings.sum()) * self.interval_s / JOULES_PER_KWH

    @cached_property
    def times(self) -> TimeArray:
        """Start of every interval, UTC, datetime64[ns], shape (T,)."""
        steps = np.arange(len(self)) if self.steps is None else self.steps
        since = np.rint(steps * (self.interval_s * 1e9)).astype("timedelta64[ns]")
        times: TimeArray = self.start + since
        return times

    @cached_property
    def run_starts(self) -> BoolArray:
        """True at the first reading after every gap and at the first of all, shape (T,)."""
        starts = np.zeros(len(self), dtype=np.bool_)
        if self.steps is not None:
            starts[1:] = np.diff(self.steps) > 1
        starts[0] = True
        return starts

    @property
    def runs(self) -> list[slice]:
        """The stretches without a gap, as slices of the readings."""
        first = np.flatnonzero(self.run_starts)
        stop = np.append(first[1:], len(self))
        return [slice(int(a), int(b)) for a, b in zip(first, stop, strict=True)]

    def jumps(self, *, signed: bool = False) -> FloatArray:
        """K_t = |y_t − y_{t−1}| [W], shape (T,); zero after a gap.

        Parameters
        ----------
        signed : bool, default False
            Return y_t − y_{t−1} instead of its size.
        """
        return jumps(self.readings, self.run_starts, signed=signed)

    @cached_property
    def switches(self) -> BoolArray:
        """Δ_t = |X_t − X_{t−1}|, shape (T, N); False after a gap."""
        states = self.truth()
        switches = np.zeros_like(states)
        np.not_equal(states[1:], states[:-1], out=switches[1:])
        switches[self.run_starts] = False
        return switches

    @property
    def sparsity(self) -> float:
        """s = 1 − Σ_t ‖X_{t+1} − X_t‖₀ / (N (T − 1)) (Appendix B), over steps without a gap."""
        pairs = len(self) - int(self.run_starts.sum())
        if pairs == 0:
            raise DataError("sparsity needs two readings in a row.")
        return 1.0 - float(self.switches.sum()) / float(pairs * self.switches.shape[1])

    def truth(self) -> BoolArray:
        """Return the true states, shape (T, N); raise `DataError` if the trace has none."""
        if self.states is None:
            raise DataError("this trace has no true states; give sub-metered data to compare with.")
        return self.states


def jumps(
    readings: FloatArray, run_starts: BoolArray | None = None, *, signed: bool = False
) -> FloatArray:
    """K_t = |y_t − y_{t−1}| [W] (or signed), zero at index 0 and wherever `run_starts` is True."""
    steps = np.zeros_like(readings)
    np.subtract(readings[1:], readings[:-1], out=steps[1:])
    if run_starts is not None:
        steps[run_starts] = 0.0
    return steps if signed else np.abs(steps, out=steps)


def intervals_in(every: float | str, interval_s: float) -> int:
    """Return the number of intervals in `every`, such as "30min"; raise unless it is whole."""
    length = seconds("every", every)
    count = round(length / interval_s)
    if count < 1 or abs(count * interval_s - length) > 1e-6 * length:
        raise InputError(
            f"every must be a whole multiple of the {interval_s:g} s interval, got {length:g} s."
        )
    return count


def nearest_multiple(
    every: float | str, interval_s: float, *, tolerance: float = math.inf
) -> float:
    """Return the whole multiple of an interval that is nearest to `every`, such as "30min". [s]

    A meter of 7 s has no windows of 30 min; the nearest ones are 1799 s long.

    Parameters
    ----------
    every : float or str
        Length of a window: seconds, or text such as "30min".
    interval_s : float
        Length of a reading [s].
    tolerance : float
        Largest difference between `every` and the result, as a share of `every`.

    Raises
    ------
    InputError
        If the nearest multiple differs by more than `tolerance`.
    """
    length = seconds("every", every)
    nearest = max(1, round(length / interval_s)) * interval_s
    if abs(nearest - length) > tolerance * length:
        raise InputError(
            f"every must be a whole multiple of the {interval_s:g} s interval, got {length:g} s."
        )
    return nearest


def iso(moment: np.datetime64) -> str:
    """Format a UTC time as ISO 8601 text; whole seconds get no fraction."""
    text = np.datetime_as_string(moment.astype("datetime64[ns]"))
    whole, _, fraction = str(text).partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


def utc(moment: str | datetime | np.datetime64) -> np.datetime64:
    """Return a time as datetime64[ns] in UTC; raise `InputError` if text has no time zone."""
    if isinstance(moment, np.datetime64):
        if np.isnat(moment):
            raise InputError("start must be a time, got NaT.")
        nanoseconds: np.datetime64 = moment.astype("datetime64[ns]")
        return nanoseconds
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise InputError(f"start must be an ISO 8601 time, got {moment!r}.") from None
    if not isinstance(parsed, datetime):
        raise InputError(f"start must be an ISO 8601 time, got {moment!r}.")
    if parsed.tzinfo is None:
        raise InputError(f"start {moment} has no time zone; write it in UTC with a Z at its end.")
    return np.datetime64(parsed.astimezone(UTC).replace(tzinfo=None), "ns")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to; the array of the caller stays writable."""
    view = array.view()
    view.flags.writeable = False
    return view


def _truth(
    name: str, values: ArrayLike | None, length: int, names: tuple[str, ...] | None, dtype: type
) -> NDArray[Any] | None:
    """Check true states or powers, shape (T, N), and return them read-only."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[0] != length or array.shape[1] == 0:
        raise InputError(f"{name} must have shape ({length}, N), got {array.shape}.")
    if names is not None and array.shape[1] != len(names):
        raise InputError(f"{name} has {array.shape[1]} columns for {len(names)} names.")
    if dtype is np.bool_ and array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise InputError(f"{name} must be 0 or 1.")
    array = array.astype(dtype, copy=False)
    if dtype is np.float64 and not np.isfinite(array).all():
        raise DataError(f"{name} must be finite.")
    return _frozen(array)


def _ascending(steps: ArrayLike, length: int) -> IntArray:
    """Check that steps are whole and strictly ascending, and return them read-only."""
    array = np.asarray(steps)
    if array.shape != (length,) or array.dtype.kind not in "iu":
        raise InputError(f"steps must be {length} whole numbers.")
    array = array.astype(np.int64, copy=False)
    if length > 1 and int(np.diff(array).min()) < 1:
        row = int(np.flatnonzero(np.diff(array) < 1)[0]) + 1
        raise DataError(f"steps must ascend, but row {row} repeats or reverses time.")
    view: IntArray = _frozen(array)
    return view


def check_interval(interval_s: Any) -> int:
    """Return the interval of a fleet [s]; raise unless it is whole and divides a day."""
    seconds = whole("interval_s", interval_s)
    if SECONDS_PER_DAY % seconds:
        raise InputError(f"interval_s must divide a day of 86400 s, got {seconds}.")
    return seconds


def watts_per(unit: str, interval_s: int) -> float:
    """Return the watts of one `unit`; Wh and kWh are the energy of one interval."""
    hours = interval_s / 3600
    table = {"W": 1.0, "kW": 1000.0, "Wh": 1 / hours, "kWh": 1000.0 / hours}
    if unit not in table:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}.")
    return table[unit]
