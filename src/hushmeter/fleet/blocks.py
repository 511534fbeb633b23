"""The blocks of a file, a (meter, period) each, gathered batch by batch in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.fleet import kernels
from hushmeter.fleet.ledger.batch import is_name
from hushmeter.fleet.schema import TICKS, Columns
from hushmeter.trace import SECONDS_PER_DAY, UNITS, watts_per

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BLOCKS = 1 << 18
MAX_SLOT_BYTES = 1 << 26
"""Bits that remember the times seen: 64 MiB stand for 5·10⁸ readings."""

LAST_DAY = "2200-01-01"

Calendar = tuple[NDArray[np.int32], IntArray, IntArray]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why rows were left out; without the reading itself.

    Attributes
    ----------
    meter, period : str
        The block; empty where a whole file is meant, or the row does not say.
    row : int or None
        First row that is at fault.
    time : str
        Of that row, UTC.
    sentence : str
    """

    meter: str
    period: str
    row: int | None
    time: str
    sentence: str


@dataclass(frozen=True)
class Batch:
    """A record batch as the kernels take it."""

    codes: NDArray[np.int32]
    meter_map: IntArray
    times: IntArray
    values: FloatArray
    unit_codes: NDArray[np.int32]
    unit_map: IntArray
    intervals: IntArray


@dataclass(frozen=True)
class Readings:
    """The values of a record batch and their units: all that the noise needs.

    Attributes
    ----------
    values : array
        NaN where there is nothing.
    unit_codes : array
        −1 where there is nothing.
    factors : array
        Watts per unit for every code; 1 for units nobody knows.
    """

    values: FloatArray
    unit_codes: NDArray[np.int32]
    factors: FloatArray


@lru_cache(maxsize=2)
def calendar_of(period: str) -> Calendar:
    """Period of every day from 1970 to 2200, and first and end day of every period."""
    days = np.arange(np.datetime64("1970-01-01", "D"), np.datetime64(LAST_DAY, "D"))
    starts = np.unique(days.astype("datetime64[M]")) if period == "month" else days
    first = starts.astype("datetime64[D]").astype(np.int64)
    end = (starts + 1).astype("datetime64[D]").astype(np.int64)
    of_day = np.searchsorted(first, np.arange(days.size), side="right") - 1
    return of_day.astype(np.int32), first, end


@lru_cache(maxsize=2)
def labels_of(period: str) -> list[str]:
    """Names of all periods: 2024-03-01, or 2024-03."""
    first = calendar_of(period)[1].astype("datetime64[D]")
    texts: list[str] = np.datetime_as_string(first, "M" if period == "month" else "D").tolist()
    return texts


class Blocks:
    """Every block of one file and what is wrong with it.

    Parameters
    ----------
    columns : Columns
    period : {"day", "month"}
    interval_s : int
        That of the release; a block with another one is bad.
    unit : {"s", "ms", "us", "ns"}
        Ticks of the file's times.
    """

    def __init__(self, columns: Columns, period: str, interval_s: int, unit: str) -> None:
        import pyarrow as pa

        self.columns, self.period, self.interval_s = columns, period, interval_s
        self.ticks = TICKS[unit]
        days = 31 if period == "month" else 1
        self._words = -(-days * (SECONDS_PER_DAY // interval_s) // 64)
        self._most = max(1, min(MAX_BLOCKS, MAX_SLOT_BYTES // (8 * self._words)))
        self._names = pa.array([], pa.string())
        self.count = 0
        self.rows = 0
        self._facts: tuple[Any, ...] = ()
        self._bits: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._allocate(min(1024, self._most))

    def _allocate(self, room: int) -> None:
        """Room for more blocks; what is known stays."""
        kinds = (np.int64, np.int64, np.int8, np.int8, np.int64, np.int64, np.int64)
        facts = tuple(np.zeros(room, kind) for kind in kinds)
        for new, known in zip(facts, self._facts, strict=False):
            new[: self.count] = known[: self.count]
        bits = np.zeros(room * self._words, np.uint64)
        used = self.count * self._words
        bits[:used] = self._bits[:used]
        self._facts, self._bits = facts, bits
        self._table = np.full(1 << (2 * room - 1).bit_length(), -1, np.int64)
        kernels.rebuild(self._table, self._facts[0], self._facts[1], self.count)

    def batch(self, record: pa.RecordBatch) -> Batch:
        """The columns of a record batch as arrays; meters are numbered throughout the file."""
        names = self.columns
        codes, meters = _codes(record.column(names.meter))
        unit_codes, units = _codes(record.column(names.unit))
        known = {unit: number for number, unit in enumerate(UNITS)}
        return Batch(
            codes=codes,
            meter_map=self._number(meters),
            times=_whole(record.column(names.time)),
            values=_numbers(record.column(names.value)),
            unit_codes=unit_codes,
            unit_map=np.array([known.get(unit, -1) for unit in units.to_pylist()], np.int64),
            intervals=_whole(record.column(names.interval)),
        )

    def add(self, batch: Batch) -> None:
        """Check the rows of the next batch of the file."""
        columns = (batch.codes, batch.times, batch.values, batch.unit_codes, batch.intervals)
        step = self.interval_s * self.ticks
        scales = (SECONDS_PER_DAY * self.ticks, step, self.interval_s)
        row = 0
        while True:
            cursor = np.array([self.count, self._facts[0].size])
            row = kernels.check_rows(
                row,
                self.rows,
                columns,
                (batch.meter_map, batch.unit_map),
                calendar_of(self.period),
                scales,
                (self._table, *self._facts, self._bits),
                cursor,
            )
            self.count = int(cursor[0])
            if row == batch.codes.size:
                break
            if self.count >= self._most:
                raise DataError(
                    f"holds more than {self._most} blocks of a meter and a {self.period}; "
                    "split it into smaller files."
                )
            self._allocate(min(2 * self.count, self._most))
        self.rows += batch.codes.size

    @property
    def bad(self) -> BoolArray:
        """Blocks with a problem."""
        found: BoolArray = self._facts[3][: self.count] != kernels.FINE
        return found

    @property
    def row_counts(self) -> IntArray:
        """Rows of every block."""
        counts: IntArray = self._facts[6][: self.count]
        return counts

    def names(self, blocks: IntArray) -> tuple[list[str], list[str]]:
        """Meters and periods of some blocks, as text; empty where there is none."""
        numbers, places = np.unique(self._facts[0][blocks], return_inverse=True)
        texts = ["" if n < 0 else self._names[n].as_py() for n in numbers.tolist()]
        labels = labels_of(self.period)
        periods = self._facts[1][blocks].tolist()
        return [texts[m] for m in places.tolist()], [labels[p] if p >= 0 else "" for p in periods]

    def problems(self) -> list[Problem]:
        """One for every bad block, in order of their rows."""
        found = np.flatnonzero(self.bad)
        _, _, _, codes, rows, ticks, _ = self._facts
        found = found[np.argsort(rows[found], kind="stable")]
        meters, periods = self.names(found)
        out = []
        for block, meter, period in zip(found.tolist(), meters, periods, strict=True):
            sentence = _SENTENCES[int(codes[block])].format(interval=self.interval_s)
            time = self._time(int(ticks[block])) if period else ""
            out.append(Problem(meter, period, int(rows[block]), time, sentence))
        return out

    def keep(self, batch: Batch, dropped: BoolArray) -> tuple[BoolArray, int]:
        """Rows of a batch that lie outside the dropped blocks, and how many."""
        mask: BoolArray = np.empty(batch.codes.size, np.bool_)
        kept = kernels.mark_kept(
            (batch.codes, batch.times),
            batch.meter_map,
            calendar_of(self.period),
            SECONDS_PER_DAY * self.ticks,
            (self._table, *self._facts[:2]),
            dropped,
            mask,
        )
        return mask, int(kept)

    def readings(self, record: pa.RecordBatch) -> Readings:
        """The values of a record batch with what turns them into watts."""
        codes, units = _codes(record.column(self.columns.unit))
        factors = [
            watts_per(unit, self.interval_s) if unit in UNITS else 1.0 for unit in units.to_pylist()
        ]
        return Readings(_numbers(record.column(self.columns.value)), codes, np.array(factors))

    def _number(self, meters: pa.Array) -> IntArray:
        """Numbers in the file of the meters of a batch; new ones are appended."""
        import pyarrow as pa
        from pyarrow import compute

        names = meters.cast(pa.string())
        fresh = names.filter(compute.invert(compute.is_in(names, value_set=self._names)))
        usable = list(filter(is_name, fresh.unique().to_pylist()))
        if usable:
            self._names = pa.concat_arrays([self._names, pa.array(usable, pa.string())])
        # What the ledger cannot keep as a name is not found, and counts as missing.
        places = compute.index_in(names, value_set=self._names).fill_null(-1)
        numbers: IntArray = places.to_numpy().astype(np.int64)
        return numbers

    def _time(self, ticks: int) -> str:
        stamp = np.datetime64(ticks * (10**9 // self.ticks), "ns")
        text = str(np.datetime_as_string(stamp, unit="ns"))
        return text.rstrip("0").removesuffix(".") + "Z"


_SENTENCES = {
    kernels.NO_VALUE: "the value is missing or not a number.",
    kernels.NOT_FINITE: "the value is infinite.",
    kernels.DUPLICATE: "the meter has this time twice.",
    kernels.OFF_GRID: "the time is not a whole number of intervals of {interval} s after midnight.",
    kernels.WRONG_INTERVAL: "the interval is not the {interval} s of this release.",
    kernels.NO_UNIT: "the unit is missing or none of " + ", ".join(UNITS) + ".",
    kernels.MIXED_UNITS: "the unit changes within the period.",
    kernels.NO_TIME: "the time is missing or outside 1970 to 2199.",
    kernels.NO_METER: "the meter's id is missing, too long or cannot be printed.",
}


def _codes(column: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Codes of a column, −1 where there is nothing, and what they stand for."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    codes = column.indices.cast(pa.int32())
    if codes.null_count:
        codes = codes.fill_null(-1)
    return codes.to_numpy(), column.dictionary


def _whole(column: pa.Array) -> IntArray:
    """Whole numbers; −1 where there is nothing."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    numbers = column.cast(pa.int64())
    found: IntArray = (numbers.fill_null(-1) if numbers.null_count else numbers).to_numpy()
    return found


def _numbers(column: pa.Array) -> FloatArray:
    """Numbers as float64; NaN where there is nothing."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    numbers = column.cast(pa.float64(), safe=False)
    filled = numbers.fill_null(float("nan")) if numbers.null_count else numbers
    found: FloatArray = filled.to_numpy()
    return found
