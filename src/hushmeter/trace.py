"""A series of meter readings with its times, its gaps and, if known, the true states.

The paper's y is `Trace.readings` [W], its X is `Trace.states`, its Δ is `Trace.switches` and its K
is `Trace.jumps`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
from hushmeter.files import arrow_table
from hushmeter.formatting import format_watts, html_facts, html_line, short_duration
from hushmeter.parts import need

if TYPE_CHECKING:
    import pandas as pd

TimeArray = NDArray[np.datetime64]

SECONDS_PER_DAY, SECONDS_PER_HOUR = 86_400, 3600
JOULES_PER_KWH = 3.6e6
UNITS = ("W", "kW", "Wh", "kWh")
LEAST_PRESENT = 0.9
"""Least share of the readings of a longer interval that must be present. It is fixed and public, so
that one lost reading does not cost an hour and no value decides which intervals are used."""
TIME, METER, STATE = "timestamp", "watts", " on"
"""Names of the columns of times and readings, and the ending of those of states, in tables."""
DRAWN_POINTS, NAMES_SHOWN = 200, 6


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
    stretch : float, default 1
        Largest ratio between the nominal interval and the length of a reading, in either
        direction: 24/23 for days of which one has 23 hours. Every change of a reading grows by at
        most this factor.
    reach : int, default 0
        Further readings that a change can move, because the values of a counter at uneven times
        were interpolated.
    registers : int, default 1
        Number of counters, such as one for each tariff, whose differences were added up. The
        steps of all of them are in `register_step_w`.
    unsettled : str, optional
        One sentence about what must be stated before these readings may be released; None if
        nothing is open.
    part : (start, end), optional
        The part of a file that was read, as times in text or None; None if all of it was read.

    Raises
    ------
    InputError
        If a step is negative or not finite, `copies` or `registers` is not a whole number of at
        least 1, or `stretch` is below 1.

    Examples
    --------
    >>> hm.Trace([120.0], 60.0, metering=hm.Metering(resolution_w=10.0)).metering.resolution_w
    10.0
    """

    resolution_w: float = 0.0
    register_step_w: float = 0.0
    copies: int = 1
    stretch: float = 1.0
    reach: int = 0
    registers: int = 1
    unsettled: str | None = None
    part: tuple[str | None, str | None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("resolution_w", "register_step_w"):
            object.__setattr__(self, name, non_negative(name, getattr(self, name)))
        for name in ("copies", "registers"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "reach", whole("reach", self.reach, least=0))
        if not self.stretch >= 1:
            raise InputError(f"stretch must be at least 1, got {self.stretch!r}.")


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
    A trace never changes: it copies arrays that somebody else can write to.

    Examples
    --------
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
        checked = {
            "readings": _frozen(values),
            "interval_s": positive("interval_s", interval_s),
            "start": utc(start),
            "states": _truth("states", states, values.size, columns, np.bool_),
            "power": _truth("power", power, values.size, columns, np.float64),
            "names": columns,
            "steps": None if steps is None else _ascending(steps, values.size),
            "metering": metering,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        truth = "no truth" if self.states is None else f"{self.states.shape[1]} appliances"
        return (
            f"Trace({len(self)} readings, {self.interval_s:g} s, from {iso(self.start)}, {truth})"
        )

    def _repr_html_(self) -> str:
        """A short description with a small picture, for notebooks."""
        facts = {
            "readings": f"{len(self)} of {short_duration(self.interval_s)}",
            "from": iso(self.start),
            "to": iso(self.times[-1] + np.timedelta64(round(self.interval_s * 1e9), "ns")),
            "gaps": str(int(self.run_starts.sum()) - 1),
            "mean": format_watts(float(self.readings.mean())),
            "energy": f"{self.energy_kwh:.4g} kWh",
        }
        columns = self.states if self.power is None else self.power
        if columns is not None:
            facts["appliances"] = _shortened(self.names or ()) or str(columns.shape[1])
        return html_facts("Trace", facts, self.picture("readings over time"))

    def picture(self, label: str) -> str:
        """A small picture in SVG with a label: means of equal stretches; a gap ends a line."""
        width = max(1, -(-(int(self.places[-1]) + 1) // DRAWN_POINTS))
        cells, place = np.unique(self.places // width, return_inverse=True)
        means = np.bincount(place, weights=self.readings) / np.bincount(place)
        low, high = min(0.0, float(means.min())), max(float(means.max()), 1e-9)
        points = np.column_stack([cells / max(int(cells[-1]), 1), (means - low) / (high - low)])
        lines = np.split(points, np.flatnonzero(np.diff(cells) > 1) + 1)
        return html_line([line.tolist() for line in lines], label)

    def __len__(self) -> int:
        return int(self.readings.size)

    def __getitem__(self, part: slice) -> Trace:
        """Return the part `trace[first:stop]`; it starts at the time of its first reading."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InputError("cut a trace with trace[first:stop], without a step.")
        first, stop, _ = part.indices(len(self))
        if stop <= first:
            raise DataError(f"trace[{first}:{stop}] has no reading.")
        return self._rows(part, None if self.steps is None else self.steps[part])

    def select(self, rows: ArrayLike) -> Trace:
        """Return the readings at the given positions `rows`; those that are left out become gaps.

        Raise `DataError` if there is no position, or the positions are not ascending.
        """
        chosen = np.asarray(rows, np.int64)
        if chosen.size == 0:
            raise DataError("a trace needs at least one reading, got none.")
        return self._rows(chosen, self.places[chosen])

    def _rows(self, rows: slice | IntArray, steps: IntArray | None) -> Trace:
        """Some of the readings, with their times counted in intervals from any moment."""
        return self.derive(
            readings=self.readings[rows],
            start=self.times[rows][0],
            states=None if self.states is None else self.states[rows],
            power=None if self.power is None else self.power[rows],
            steps=None if steps is None else steps - steps[0],
        )

    def derive(self, **changes: Any) -> Trace:
        """Return a trace with other values of some parameters of `Trace`, the `changes` by name.

        Examples
        --------
        >>> trace = hm.Trace([120.0, 2120.0], interval_s=6.0, start="2024-01-01T00:00Z")
        >>> trace.derive(states=[[False], [True]], names=["kettle"])
        Trace(2 readings, 6 s, from 2024-01-01T00:00:00Z, 1 appliances)
        """
        return Trace(**{one.name: getattr(self, one.name) for one in fields(self)} | changes)

    def replace_readings(self, readings: ArrayLike) -> Trace:
        """Return a trace with the same times and truth and other readings [W], shape (T,)."""
        values = finite_vector("readings", readings)
        if values.size != len(self):
            raise InputError(f"readings must have {len(self)} entries, got {values.size}.")
        return self.derive(readings=values)

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
            An interval with fewer than `LEAST_PRESENT` of its readings is left out and becomes a
            gap; otherwise the mean is that of the readings that are present. Readings that are
            differences of a register must all be present.

        Raises
        ------
        InputError
            If `every` is not a whole multiple of the interval, or `on` is neither of the two.
        DataError
            If no interval is complete enough.
        """
        least = 0.5 if one_of("on", on, ("half", "any")) == "half" else 1e-9
        window, cells, first, counts = self._windows(every)
        length = window * self.interval_s
        if first.size == 0:
            raise DataError(f"no interval of {length:g} s is complete in this trace.")

        def mean(values: NDArray[Any]) -> FloatArray:
            if (counts == window).all():  # Means of rows are fast and keep the last bit.
                return np.asarray(values[first[:, None] + np.arange(window)].mean(axis=1))
            blocks = [values[a : a + n].mean(axis=0) for a, n in zip(first, counts, strict=True)]
            return np.array(blocks)

        step = np.timedelta64(round(length * 1e9), "ns")
        return self.derive(
            readings=mean(self.readings),
            interval_s=length,
            start=np.datetime64(0, "ns") + cells[first[0]] * step,
            states=None if self.states is None else mean(self.states) >= least,
            power=None if self.power is None else mean(self.power),
            steps=cells[first] - cells[first[0]],
        )

    def shares_present(self, every: float | str) -> FloatArray:
        """Share of the readings that are present in every interval of `coarsen(every)`, (K,)."""
        window, _, _, counts = self._windows(every)
        return counts / window

    def _windows(self, every: float | str) -> tuple[int, IntArray, IntArray, IntArray]:
        """The longer intervals that are complete enough.

        Returns the readings of a complete interval, the number of the interval of each reading, and
        the first reading and the number of readings of every interval that is complete enough.
        """
        window = intervals_in(every, self.interval_s)
        step = np.timedelta64(round(window * self.interval_s * 1e9), "ns")
        cells = (self.times - np.datetime64(0, "ns")) // step
        first = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
        counts = np.diff(first, append=cells.size)
        # The differences of a register add up to those of its ends only if none is missing.
        least = 1.0 if self.metering.register_step_w else LEAST_PRESENT
        enough = (counts >= least * window - 1e-9) & (counts <= window)
        return window, cells, first[enough], counts[enough]

    def hourly(self) -> Trace:
        """The mean power of every clock hour (UTC) in which a reading starts; others are gaps.

        This is the one definition of an hourly mean in the project. An hour that has only some of
        its readings counts with those that it has, so that a short gap does not remove an hour.
        Readings of an hour or more stay as they are. True states and powers are left out.
        """
        bare: dict[str, Any] = {"states": None, "power": None, "names": None}
        if self.interval_s >= SECONDS_PER_HOUR:
            return self.derive(**bare)
        hour = np.timedelta64(SECONDS_PER_HOUR, "s")
        hours, place = np.unique((self.times - np.datetime64(0, "ns")) // hour, return_inverse=True)
        return self.derive(
            **bare,
            readings=np.bincount(place, weights=self.readings) / np.bincount(place),
            interval_s=SECONDS_PER_HOUR,
            start=np.datetime64(0, "ns") + hours[0] * hour,
            steps=hours - hours[0],
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the readings as a DataFrame, whose index is the start of every interval in UTC.

        The column "watts" holds the readings [W]. For every appliance there is a column with its
        name, if its power [W] is known, and a column with its name and " on", if its true state is
        known. The length of the interval and the metering are not part of the table. Raise
        `InputError` if two columns would have the same name.
        """
        import pandas as pd

        columns = self._columns()
        index = pd.DatetimeIndex(columns.pop(TIME), name=TIME).tz_localize("UTC")
        return pd.DataFrame(columns, index=index)

    @classmethod
    def from_pandas(
        cls,
        data: pd.Series | pd.DataFrame,
        interval_s: float | None = None,
        *,
        watts: str = METER,
        metering: Metering = Metering(),  # noqa: B008
    ) -> Trace:
        """Make a trace of a series or of a table of pandas.

        Parameters
        ----------
        data : Series or DataFrame
            The index holds the starts of the intervals, with a time zone and ascending. A series
            holds the readings [W]; missing values are gaps. In a table, further columns of numbers
            are the power of appliances [W], and columns of bool are their states; the ending " on"
            is not part of the name of an appliance.
        interval_s : float, optional
            Length of one interval [s]; by default the shortest time between two rows.
        watts : str, default "watts"
            Name of the column of readings.
        metering : Metering, optional
            How the meter made the readings; an ideal meter by default.

        Returns
        -------
        Trace

        Raises
        ------
        InputError
            If the index has no time zone, or a column is missing or of another type.
        DataError
            If the times repeat, go back or are not regular, or a value is missing in the column of
            an appliance.

        Examples
        --------
        >>> trace = hm.Trace([120.0, 2120.0], interval_s=6.0, start="2024-01-01T00:00Z")
        >>> hm.Trace.from_pandas(trace.to_pandas())
        Trace(2 readings, 6 s, from 2024-01-01T00:00:00Z, no truth)
        """
        import pandas as pd

        frame = data.to_frame(watts) if isinstance(data, pd.Series) else data
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"from_pandas needs a Series or a DataFrame, got {type(data)}.")
        index = frame.index
        if not isinstance(index, pd.DatetimeIndex) or index.tz is None:
            raise InputError(
                "from_pandas needs an index of times with a time zone; set one with "
                "data.tz_localize('UTC') or data.tz_localize('Europe/Dublin')."
            )
        times = index.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]")
        if not frame.columns.is_unique:
            raise InputError("from_pandas needs columns with different names.")
        columns = {str(name): _pandas_column(str(name), frame[name]) for name in frame.columns}
        return _from_columns(times, columns, interval_s, watts, metering)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the columns of `to_pandas`, with a column "timestamp", to any reader of Arrow."""
        return arrow_table(self._columns()).__arrow_c_stream__(requested_schema)

    @classmethod
    def from_arrow(
        cls,
        data: Any,
        interval_s: float | None = None,
        *,
        time: str = TIME,
        watts: str = METER,
        metering: Metering = Metering(),  # noqa: B008
    ) -> Trace:
        """Make a trace of any table that has the Arrow PyCapsule interface.

        `data` has the method `__arrow_c_stream__`, such as a table of pyarrow, polars or duckdb,
        and `time` names its column of times, with a time zone. `interval_s`, `watts`, `metering`
        and the errors are those of `from_pandas`.
        """
        pa = need("pyarrow", "a table of Arrow", "parquet")
        if not hasattr(data, "__arrow_c_stream__"):
            raise InputError(f"{type(data).__name__} has no Arrow stream (__arrow_c_stream__).")
        table = pa.table(data)
        if time not in table.column_names:
            raise InputError(f"the table has no column {time!r}: {', '.join(table.column_names)}.")
        kind = table.schema.field(time).type
        if not pa.types.is_timestamp(kind) or kind.tz is None or table[time].null_count:
            raise InputError(f"the column {time!r} must hold times with a time zone.")
        moments = table[time].cast(pa.timestamp("ns", kind.tz)).cast(pa.int64()).to_numpy()
        columns = {name: table[name].to_numpy() for name in table.column_names if name != time}
        return _from_columns(moments.astype("datetime64[ns]"), columns, interval_s, watts, metering)

    def _columns(self) -> dict[str, Any]:
        """The columns of a table: times, readings, power and states."""
        columns: dict[str, Any] = {TIME: self.times, METER: self.readings}
        for values, ending in ((self.power, ""), (self.states, STATE)):
            if values is None:
                continue
            names = self.names or [f"appliance_{i + 1}" for i in range(values.shape[1])]
            for name, column in zip(names, values.T, strict=True):
                if f"{name}{ending}" in columns:
                    raise InputError(f"two columns of the table would be named {name + ending!r}.")
                columns[f"{name}{ending}"] = column
        return columns

    @property
    def energy_kwh(self) -> float:
        """Energy of all readings [kWh]."""
        return float(self.readings.sum()) * self.interval_s / JOULES_PER_KWH

    @cached_property
    def places(self) -> IntArray:
        """Time of every reading, counted in intervals from the start, shape (T,)."""
        return np.arange(len(self)) if self.steps is None else self.steps

    @cached_property
    def times(self) -> TimeArray:
        """Start of every interval, UTC, datetime64[ns], shape (T,)."""
        since = np.rint(self.places * (self.interval_s * 1e9)).astype("timedelta64[ns]")
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
        """The parts of the trace between its gaps, as slices of the readings."""
        return Runs.between_gaps(self.run_starts).slices

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


@dataclass(frozen=True)
class Runs:
    """Runs of consecutive readings."""

    first: IntArray  # First reading of each run
    length: IntArray  # Number of its readings

    @classmethod
    def between_gaps(cls, run_starts: BoolArray) -> Runs:
        """The stretches without a gap, which together are all readings."""
        first = np.flatnonzero(run_starts)
        return cls(first, np.diff(first, append=run_starts.size))

    @classmethod
    def of_equal(cls, flags: BoolArray, run_starts: BoolArray | None = None) -> Runs:
        """The longest stretches of equal flags; a gap, where `run_starts` is True, ends one."""
        changes = np.append(True, flags[1:] != flags[:-1])[: flags.size]
        return cls.between_gaps(changes if run_starts is None else changes | run_starts)

    @classmethod
    def of_true(cls, flags: BoolArray, run_starts: BoolArray | None = None) -> Runs:
        """The stretches in which the flags are True; a gap ends one."""
        equal = cls.of_equal(flags, run_starts)
        kept = flags[equal.first]
        return cls(equal.first[kept], equal.length[kept])

    @property
    def stop(self) -> IntArray:
        """Reading after the last of each run."""
        return self.first + self.length

    @property
    def last(self) -> IntArray:
        """Last reading of each run."""
        return self.stop - 1

    @property
    def slices(self) -> list[slice]:
        """The runs as slices of the readings."""
        return [slice(int(a), int(b)) for a, b in zip(self.first, self.stop, strict=True)]


def _from_columns(
    times: TimeArray,
    columns: dict[str, NDArray[Any]],
    interval_s: float | None,
    watts: str,
    metering: Metering,
) -> Trace:
    """A trace of the columns of a table; a reading that is missing is a gap."""
    if watts not in columns:
        raise InputError(f"the table has no column {watts!r}: {', '.join(columns)}.")
    readings = _numbers(watts, columns.pop(watts))
    there = np.isfinite(readings)
    times, readings = times[there], readings[there]
    if times.size == 0:
        raise DataError("a trace needs at least one reading, got none.")
    power = {n: _numbers(n, c)[there] for n, c in columns.items() if c.dtype != np.bool_}
    states = {n.removesuffix(STATE): c[there] for n, c in columns.items() if c.dtype == np.bool_}
    if power and states and list(power) != list(states):
        raise InputError("the columns of power and of states must be of the same appliances.")
    interval, steps = _regular_steps(times, interval_s)
    return Trace(
        readings,
        interval,
        times[0],
        np.column_stack(list(states.values())) if states else None,
        np.column_stack(list(power.values())) if power else None,
        list(power or states) or None,
        steps,
        metering=metering,
    )


def _numbers(name: str, column: NDArray[Any]) -> FloatArray:
    """A column as numbers; missing values of pandas are NaN."""
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the column {name!r} must hold numbers or True and False.") from None


def _pandas_column(name: str, column: pd.Series) -> NDArray[Any]:
    """A column as an array of bool or of numbers; missing numbers are NaN."""
    from pandas.api.types import is_bool_dtype

    try:
        if is_bool_dtype(column.dtype):
            return column.to_numpy(np.bool_)
        return column.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(f"the column {name!r} must hold numbers or True and False.") from None


def _regular_steps(times: TimeArray, interval_s: float | None) -> tuple[float, IntArray]:
    """The interval [s], and the position of every time in intervals from the first."""
    since = (times - times[0]).astype(np.int64)
    apart = np.diff(since)
    if apart.size and int(apart.min()) <= 0:
        row = int(np.flatnonzero(apart <= 0)[0]) + 1
        raise DataError(f"times must ascend, but row {row} repeats or reverses time.")
    if interval_s is None:
        if apart.size == 0:
            raise InputError("a single reading has no interval: give interval_s.")
        interval_s = float(apart.min()) / 1e9
    interval = positive("interval_s", interval_s)
    position = since / (interval * 1e9)
    steps = np.rint(position).astype(np.int64)
    if (np.abs(position - steps) * interval > 1e-6).any():
        raise DataError(
            f"the times are not regular: they are no multiples of {interval:g} s from the first; "
            "resample the readings, or give interval_s."
        )
    return interval, steps


def _shortened(names: tuple[str, ...]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


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
    return round(nearest_multiple(every, interval_s, tolerance=1e-6) / interval_s)


def nearest_multiple(
    every: float | str, interval_s: float, *, tolerance: float = math.inf
) -> float:
    """Return the whole multiple of an interval [s] that is nearest to `every`, such as "30min".

    A meter of 7 s has no windows of 30 min; the nearest ones are 1799 s long. Raise `InputError` if
    it differs by more than `tolerance`, a share of `every`.
    """
    length = seconds("every", every)
    nearest = max(1, round(length / interval_s)) * interval_s
    if abs(nearest - length) > tolerance * length:
        raise InputError(
            f"every must be a whole multiple of the {interval_s:g} s interval, got {length:g} s."
        )
    return nearest


def digest(trace: Trace) -> str:
    """SHA-256 of the times (int64 ns since 1970) and readings (float64), little-endian."""
    return digest_columns(trace.times, trace.readings)


def digest_columns(times: TimeArray, values: FloatArray) -> str:
    """SHA-256 of times and values; see `digest`."""
    sums = hashlib.sha256(times.astype("datetime64[ns]").astype("<i8").tobytes())
    sums.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return sums.hexdigest()


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
    """The array if nobody can write to its memory, and a copy that cannot be written to if not."""
    owner = array
    while not owner.flags.writeable and isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.flags.writeable or owner.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


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
    owned: IntArray = _frozen(array)
    return owned


def check_interval(interval_s: Any) -> int:
    """Return the interval of a fleet [s]; raise unless it is whole and divides a day."""
    seconds = whole("interval_s", interval_s)
    if SECONDS_PER_DAY % seconds:
        raise InputError(f"interval_s must divide a day of 86400 s, got {seconds}.")
    return seconds


def watts_per(unit: str, interval_s: int) -> float:
    """Return the watts of one `unit`; Wh and kWh are the energy of one interval."""
    hours = interval_s / SECONDS_PER_HOUR
    table = {"W": 1.0, "kW": 1000.0, "Wh": 1 / hours, "kWh": 1000.0 / hours}
    if unit not in table:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}.")
    return table[unit]
