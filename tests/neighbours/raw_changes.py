"""Files that have a row only where a value changed: the rows that a run adds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from tests.neighbours.raw_cells import Row
from tests.neighbours.raw_channels import Run, is_plug_of, read_cells

from hushmeter.errors import DataError


@dataclass
class ChangedRows:
    """Rows of changes of a meter and of plugs, with the rows that a run adds."""

    rows: list[Row]  # All cells of the file
    # Columns of the times and of the values
    time: int
    value: int
    series: dict[str, list[int]]  # Numbers of the rows of every sensor, by its name
    meter: str  # The sensor that is read
    until: str | None  # End of the recording
    # True if a change is written when it happens; else at the next multiple of an interval
    at_once: bool

    def with_run(self, run: Run) -> list[Row]:
        """All rows with one more run: values in between rise, and its start and end are rows."""
        moments = {
            i: moment_of(self.rows[i][self.time]) for own in self.series.values() for i in own
        }
        head = [row for i, row in enumerate(self.rows) if i not in moments]
        body: list[tuple[float, Row]] = []
        for name, numbers in self.series.items():
            mine = [(moments[i], self.rows[i]) for i in numbers]
            follows = name == self.meter or is_plug_of(name, run.appliance)
            body += self._with(mine, run) if follows else mine
        order = list(moments.values())
        body.sort(key=lambda row: row[0], reverse=len(order) > 1 and order[0] > order[-1])
        return [*head, *(row for _, row in body)]

    def _with(self, rows: list[tuple[float, Row]], run: Run) -> list[tuple[float, Row]]:
        """The rows of one sensor whose power rises while the appliance runs."""
        rows = sorted(rows, key=lambda row: row[0])
        values, form = read_cells([row[self.value] for _, row in rows])
        form.off = None
        first, stop = self._tick(run.first), self._tick(run.stop)
        last = moment_of(self.until) if self.until else rows[-1][0]
        result: list[tuple[float, Row]] = []
        ends = [*(moment for moment, _ in rows[1:]), last]
        for (begin, row), value, end in zip(rows, values.tolist(), ends, strict=True):
            known = value == value
            for moment in [begin, *(m for m in (first, stop) if begin < m < end and known)]:
                new = list(row)
                if known and first <= moment < stop:
                    new[self.value] = form.cell(value + run.watts)
                if moment != begin:
                    new[self.time] = _written(moment, row[self.time])
                if not result or new[self.value] != result[-1][1][self.value]:
                    result.append((moment, new))
        return result

    def _tick(self, moment: float) -> float:
        """The next moment at which the logger looks at its value [s]."""
        if self.at_once:
            return round(moment, 3)
        start, step = self._grid
        return float(start + np.ceil((moment - start) / step - 1e-9) * step)

    @cached_property
    def _grid(self) -> tuple[float, float]:
        """A moment at which the logger looks, and the time until the next one [s]."""
        times = np.sort([moment_of(self.rows[i][self.time]) for i in self.series[self.meter]])
        return float(times[0]), float(min(np.diff(times).tolist(), default=1.0))


def moment_of(cell: Any) -> float:
    """Seconds since 1970 of a cell."""
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
    text = str(cell).strip()
    if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise DataError(
            f"the time {text[:40]!r} is not written as 2024-01-31T12:00:00Z, so an audit cannot "
            "add rows to this file of changes."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _written(moment: float, like: Any) -> Any:
    """A time in the form of another one."""
    if isinstance(like, datetime):
        return datetime.fromtimestamp(moment, like.tzinfo or UTC).replace(tzinfo=like.tzinfo)
    text = str(like).strip()
    if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
        return f"{moment:.3f}" if "." in text else str(round(moment))
    own = datetime.fromisoformat(text)
    new = datetime.fromtimestamp(moment, own.tzinfo or UTC).replace(tzinfo=own.tzinfo)
    spec = "milliseconds" if round(moment, 3) != round(moment) or "." in text else "seconds"
    result = new.isoformat("T" if "T" in text else " ", spec)
    return result.replace("+00:00", "Z") if text.endswith("Z") else result


__all__ = ["ChangedRows", "moment_of"]
