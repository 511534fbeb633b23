"""The rows of the home's consumption, where columns of words tell several series apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.errors import DataError
from hushmeter.read import words
from hushmeter.read.columns import Column
from hushmeter.read.layouts import Layout
from hushmeter.read.options import ReadOptions
from hushmeter.read.plan import Plan
from hushmeter.read.row_times import RowTimes
from hushmeter.read.words import find_source, find_unit, has_word, read_meaning

REACTIVE = "reactiv reaktiv kvar varh"
OTHER_FLOWS = ("export", "production", "battery")


class RowChoice:
    """The rows of the home's consumption, where columns of words tell series apart."""

    def __init__(
        self,
        plan: Plan,
        layout: Layout | None,
        options: ReadOptions,
        clock: RowTimes,
        notes: list[str],
        path: Path,
    ) -> None:
        self.plan, self.layout, self.options = plan, layout, options
        self.clock, self.notes, self.path = clock, notes, path
        self.unit: str | None = None
        self.idle: IntArray = np.zeros(0, dtype=np.int64)
        self._texts: dict[str, Any] = {}
        self._left: list[IntArray] = []

    def parts(self, rows: IntArray) -> list[IntArray]:
        """The rows of every series that is added up: one, or one for each tariff.

        Rows of another direction at times without a row of the chosen one are in `idle`, and in
        the first part: the word Import or Export may follow from the sign of the value, so that
        leaving such a row out would show it. What was drawn is nothing at these times.
        """
        parts = self._parts(rows)
        if self._left and not self.plan.counter:
            kept = np.concatenate(parts)
            left = np.unique(np.concatenate(self._left))
            left = left[~np.isin(self._moments(left), self._moments(kept))]
            self.idle = left[np.unique(self._moments(left), return_index=True)[1]]
            parts[0] = np.sort(np.concatenate([parts[0], self.idle]))
        return parts

    def _moments(self, rows: IntArray) -> IntArray:
        """Local times of some rows [ns]."""
        times: IntArray = self.clock.ns[rows]
        after = self.clock.after_midnight
        return times if after is None else times + after[rows]

    def _parts(self, rows: IntArray) -> list[IntArray]:
        keys = [c for c in self.plan.keys if not _is_remark(c)]
        if self.options.meter is not None:
            rows = self._asked(rows, keys, self.options.meter, "meter")
        if self.layout is not None:
            rows = self._one_home(self._kept(rows, self.layout))
        units = [c for c in keys if has_word(c.name, words.UNITS)]
        for column in units:
            rows = self._one_unit(rows, column, keys)
        others = [c for c in keys if c not in units]
        if self.options.register is not None and keys:
            rows = self._asked(rows, keys, self.options.register, "register")
        else:
            for column in others:
                if not column.names_meter:
                    rows = self._without_other_flows(rows, column)
        for column in others:
            if column.names_meter or self._is_home(column):
                self._refuse_meters(rows, column)
        if rows.size == 0:
            raise DataError(f"{self.path} holds no readings of what was asked for.")
        for column in others:
            self._find_unit(rows, column)
        splitting = [c for c in others if not c.names_meter and self._splits(rows, c)]
        return self._split(rows, splitting)

    def _values(self, column: Column, rows: IntArray) -> Any:
        """The words of a column in some rows, as an array of text."""
        if column.name not in self._texts:
            texts = [_plain_word(v) for v in column.data.to_pylist()]
            self._texts[column.name] = np.array(texts, dtype=object)
        return self._texts[column.name][rows]

    def _distinct(self, column: Column, rows: IntArray) -> list[str]:
        return sorted(set(self._values(column, rows)) - {""})

    def _asked(self, rows: IntArray, keys: Sequence[Column], asked: str, option: str) -> IntArray:
        """The rows whose meter or register the user chose."""
        wanted = _plain_word(asked).lower()
        order = sorted(keys, key=lambda c: c.names_meter != (option == "meter"))
        for column in order:
            same = [v for v in self._distinct(column, rows) if v.lower() == wanted]
            if same:
                texts = self._values(column, rows)
                if option == "register":
                    others = [t for t in set(texts) - set(same) if read_meaning(t).flow
                              and not _is_other(t)]  # fmt: skip
                    self._left.append(rows[np.isin(texts, others)])
                return rows[np.isin(texts, same)]
        found = [v for c in order for v in self._distinct(c, rows)[:12]]
        raise DataError(
            f"{self.path} has no {option} {asked!r} (found: {', '.join(found[:24]) or 'none'})."
        )

    def _kept(self, rows: IntArray, layout: Layout) -> IntArray:
        """The rows that a layout reads."""
        named = {c.name.lower(): c for c in self.plan.keys}
        for name, beginnings in layout.keep.items():
            if name in named and self.options.register is None:
                texts = self._values(named[name], rows)
                kept = np.array([t.lower().startswith(beginnings) for t in texts], dtype=np.bool_)
                if not kept.all():
                    self.notes.append(f"Rows of other kinds ({named[name].name}) were left out.")
                rows = rows[kept]
        return rows

    def _one_unit(self, rows: IntArray, column: Column, keys: Sequence[Column]) -> IntArray:
        """Rows of an electric unit; a meter with cubic metres measures gas or water."""
        units = {text: find_unit(text) for text in self._distinct(column, rows)}
        electric = [text for text, unit in units.items() if unit is not None]
        texts = self._values(column, rows)
        others = [t for t in units if units[t] is None and find_source(t) is not None]
        if others:
            meters = [c for c in keys if c.names_meter]
            both = not meters or any(
                set(self._values(c, rows[np.isin(texts, others)]))
                & set(self._values(c, rows[np.isin(texts, electric)])) for c in meters
            )  # fmt: skip
            if both or not electric:
                raise DataError(
                    f"{self.path} holds gas or water (unit {others[0]}), not electricity."
                )
        if not electric:
            return rows
        energies = [t for t in electric if (units[t] or "").lower().endswith("wh")] or electric
        if len({units[t] for t in energies}) == 1:
            self.unit = units[energies[0]]
        else:
            raise DataError(
                f"{self.path} mixes the units {', '.join(energies)} ({column.name}): export all "
                "rows in one unit."
            )
        if len(energies) < len(units):
            left = ", ".join(t for t in units if t not in energies)
            self.notes.append(f"Rows in other units ({left}) were left out.")
        return rows[np.isin(texts, [*energies, ""])]

    def _without_other_flows(self, rows: IntArray, column: Column) -> IntArray:
        """Rows that are not export, production, gas, water or reactive energy."""
        distinct = self._distinct(column, rows)
        if not distinct or len(distinct) > 60:
            return rows
        splits = self._splits(rows, column)
        if not splits and not has_word(column.name, words.REGISTERS):
            # A word beside the only row of its time may follow from a value: the mode of a heat
            # pump, or a plug that writes "off" or its watts.
            return rows
        flows = {text: read_meaning(text).flow for text in distinct}
        unused = [t for t, flow in flows.items() if flow in OTHER_FLOWS or _is_other(t)]
        if not unused:
            return rows
        if len(unused) == len(distinct):
            source = next((s for t in unused if (s := find_source(t))), None)
            what = source or "export or production"
            raise DataError(
                f"{self.path} holds only {what} ({column.name}: {', '.join(unused[:5])}), not what "
                "the home used."
            )
        texts = self._values(column, rows)
        self._left.append(rows[np.isin(texts, [t for t in unused if not _is_other(t)])])
        named = [t for t in unused if splits or _is_other(t)]
        if named:
            self.notes.append(f"Rows of {', '.join(named[:8])} were left out ({column.name}).")
        return rows[~np.isin(texts, unused)]

    def _one_home(self, rows: IntArray) -> IntArray:
        """The rows of the home that the user chose, in a data set of many homes."""
        column = next((c for c in self.plan.keys if self._is_home(c)), None)
        if column is None or self.options.building is None:
            return rows
        distinct, asked = self._distinct(column, rows), str(self.options.building)
        if asked not in distinct:
            raise DataError(
                f"{self.path} has no home {asked!r} (found: {', '.join(distinct[:24])})."
            )
        kept: IntArray = rows[self._values(column, rows) == asked]
        return kept

    def _is_home(self, column: Column) -> bool:
        return self.layout is not None and column.name.lower() == self.layout.meter

    def _refuse_meters(self, rows: IntArray, column: Column) -> None:
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return
        option = "building" if self._is_home(column) else "meter"
        raise DataError(
            f"{self.path} holds {len(distinct)} homes or meters ({column.name}: "
            f"{', '.join(distinct[:12])}): choose one (--{option} NAME)."
        )

    def _find_unit(self, rows: IntArray, column: Column) -> None:
        """Take the unit from the words of the rows, such as Active Import Interval (kWh)."""
        units = {find_unit(text) for text in self._distinct(column, rows)[:60]}
        if self.unit is None and len(units) == 1 and not column.names_meter:
            self.unit = units.pop()

    def _splits(self, rows: IntArray, column: Column) -> bool:
        """True if rows of one time have different words in this column."""
        distinct = self._distinct(column, rows)
        if len(distinct) < 2 or len(distinct) > 0.5 * rows.size:
            return False
        texts, times = self._values(column, rows), self._moments(rows)
        codes = np.unique(texts, return_inverse=True)[1]
        order = np.lexsort((codes, times))
        same = (np.diff(times[order]) == 0) & (np.diff(codes[order]) != 0)
        return int(same.sum()) > 0.005 * rows.size

    def _split(self, rows: IntArray, columns: Sequence[Column]) -> list[IntArray]:
        """One part for each tariff; other words must be chosen between by the user."""
        if not columns:
            return [rows]
        column = columns[0]
        texts = self._values(column, rows)
        distinct = self._distinct(column, rows)
        meanings = {text: read_meaning(text) for text in distinct}
        totals = [t for t in distinct if meanings[t].part == "total"]
        parts = [t for t in distinct if meanings[t].part in ("tariff", "phase")]
        if len(totals) == 1 and len(parts) == len(distinct) - 1:
            self.notes.append(f"Only the rows of {totals[0]} were read ({column.name}).")
            return self._split(rows[texts == totals[0]], columns[1:])
        if len(parts) == len(distinct):
            self.notes.append(f"Added up ({column.name}): {', '.join(distinct[:8])}.")
            return [p for t in distinct for p in self._split(rows[texts == t], columns[1:])]
        raise DataError(
            f"{self.path} holds several series ({column.name}: {', '.join(distinct[:12])}): choose "
            "that of the home's use (--register NAME)."
        )


def _plain_word(value: object) -> str:
    """A word without the marks with which files keep spreadsheets from reading a number."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().removeprefix("=").strip("\"'").strip()


def _is_other(text: str) -> bool:
    """True for a word of gas, water, heat or reactive energy."""
    return find_source(text) is not None or has_word(text, REACTIVE)


def _is_remark(column: Column) -> bool:
    return has_word(column.name, words.REMARKS) and not has_word(column.name, words.UNITS)
