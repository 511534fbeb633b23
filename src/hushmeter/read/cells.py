"""A column of a table as numpy arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column."""

    # Texts as objects, numbers, flags, times (datetime64) or times of the day (timedelta64)
    values: NDArray[Any]
    good: BoolArray  # False where a cell is empty
    aware: bool = False  # For times: True if they are UTC, False for the clock of an unknown zone

    @classmethod
    def of(cls, values: Sequence[Any] | NDArray[Any], good: BoolArray | None = None) -> Cells:
        """Texts with None for empty cells, or an array whose NaN and NaT are empty cells."""
        if not isinstance(values, np.ndarray):
            good = np.array([text is not None for text in values], dtype=np.bool_)
            texts = np.empty(len(values), dtype=object)
            texts[:] = [text or "" for text in values]
            return cls(texts, good)
        if good is None:
            good = values == values  # NaN and NaT differ from themselves.
        return cls(values, np.asarray(good, dtype=np.bool_))

    def __len__(self) -> int:
        return self.good.size

    def __getitem__(self, row: int) -> Any:
        """The cell of a row; None if it is empty."""
        return self.values[row : row + 1].tolist()[0] if self.good[row] else None

    @property
    def is_text(self) -> bool:
        """True for texts."""
        return self.values.dtype == object

    @property
    def kind(self) -> str:
        """The kind of numpy's type: "O" text, "i" or "u" whole, "f" number, "M" time, "m" clock."""
        return self.values.dtype.kind

    def take(self, rows: IntArray | BoolArray | slice) -> Cells:
        """The cells of some rows."""
        return Cells(self.values[rows], self.good[rows], self.aware)

    def known(self) -> Cells:
        """Without its empty cells."""
        return self if self.good.all() else self.take(self.good)

    def empty(self, size: int) -> Cells:
        """Empty cells of the same kind."""
        filling = {"O": "", "f": np.nan}.get(self.kind, 0)
        values = np.full(size, np.array(filling).astype(self.values.dtype))
        return Cells(values, np.zeros(size, dtype=np.bool_), self.aware)

    def array(self) -> NDArray[Any]:
        """The values as one array, with NaN, NaT or None where a cell is empty."""
        if self.good.all():
            return self.values
        array = self.values.astype(np.float64 if self.kind in "iub" else self.values.dtype)
        array[~self.good] = None
        return array

    def tolist(self) -> list[Any]:
        """The cells, with None where one is empty."""
        values: list[Any] = self.values.tolist()
        if self.good.all():
            return values
        return [v if there else None for v, there in zip(values, self.good.tolist(), strict=True)]

    def distinct(self) -> list[Any]:
        """The different cells in their order, with None if one is empty."""
        return list(dict.fromkeys(self.tolist()))

    def floats(self) -> FloatArray:
        """The numbers as float64, NaN where a cell is empty; `DataError` for words."""
        numbers = np.full(len(self), np.nan)
        try:
            numbers[self.good] = self.values[self.good].astype(np.float64)
        except ValueError as error:
            raise DataError(f"a file with words in a column of numbers ({error})") from None
        return numbers


Table = dict[str, Cells]


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names in one line each; a repeated name gets a number."""
    names = [" ".join(name.split()) for name in names]
    seen: Counter[str] = Counter()
    taken = set(names)
    unique = []
    for i, name in enumerate(names):
        plain = name or f"column_{i}"
        seen[plain] += 1
        if seen[plain] > 1:
            plain = next(
                f"{plain}_{n}" for n in range(seen[plain], len(names) + 3)
                if f"{plain}_{n}" not in taken
            )  # fmt: skip
            taken.add(plain)
        unique.append(plain)
    return tuple(unique)


def joined(tables: Sequence[Table]) -> Table:
    """Tables of the same columns below each other; `DataError` for texts below numbers."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _below([(table.get(name), len(next(iter(table.values())))) for table in tables])
            for name in names}  # fmt: skip


def _below(parts: Sequence[tuple[Cells | None, int]]) -> Cells:
    """Columns below each other; one that a table lacks is empty."""
    there = [cells for cells, _ in parts if cells is not None and cells.good.any()]
    first = there[0] if there else next(cells for cells, _ in parts if cells is not None)
    kinds = {"f" if cells.kind in "iuf" else cells.kind + str(cells.aware) for cells in there}
    if len(kinds) > 1:
        raise DataError("a file whose tables have words and numbers in one column")
    values, good = [], []
    for cells, size in parts:
        if cells is None or not cells.good.any():
            cells = first.empty(size)
        values.append(cells.values)
        good.append(cells.good)
    return Cells(np.concatenate(values), np.concatenate(good), first.aware)


def of_arrow(table: Any) -> Table:
    """The columns of an Arrow table whose names differ."""
    return {name: cells_of(table.column(i)) for i, name in enumerate(table.column_names)}


def cells_of(column: Any) -> Cells:
    """A column of Arrow."""
    import pyarrow as pa
    from pyarrow import types

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    kind, good = whole.type, np.ones(len(whole), dtype=np.bool_)
    if whole.null_count:
        good = _plain_values(whole.is_valid().cast(pa.uint8())).astype(np.bool_)
    if types.is_null(kind):
        return Cells(np.full(len(whole), np.nan), good)
    if types.is_timestamp(kind):
        ticks = _plain_values(whole.cast(pa.timestamp(kind.unit)).cast(pa.int64()))
        return Cells(ticks.view(f"M8[{kind.unit}]"), good, kind.tz is not None)
    if types.is_date(kind):
        days = _plain_values(whole.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
        return Cells(days.view("M8[D]"), good)
    if types.is_time(kind):
        ticks = _plain_values(whole.cast(pa.int32() if kind.bit_width == 32 else pa.int64()))
        return Cells(ticks.astype(np.int64).view(f"m8[{kind.unit}]"), good)
    if types.is_boolean(kind):
        return Cells(_plain_values(whole.cast(pa.uint8())).astype(np.bool_), good)
    if types.is_decimal(kind):
        whole = whole.cast(pa.float64())
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        texts = whole.to_pylist()
        return Cells.of(texts if types.is_string(kind) else [_as_text(cell) for cell in texts])
    return Cells(_plain_values(whole), good)


def _as_text(cell: Any) -> str | None:
    if isinstance(cell, bytes):
        return cell.decode(errors="backslashreplace")
    return None if cell is None else str(cell)


def _plain_values(whole: Any) -> NDArray[Any]:
    """The values of an Arrow array of numbers, also where they are null.

    `to_numpy` imports pandas, which takes longer than a small file.
    """
    cells = np.frombuffer(whole.buffers()[1] or b"", whole.type.to_pandas_dtype())
    return cells[whole.offset : whole.offset + len(whole)]
