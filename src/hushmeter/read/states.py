"""Change-only histories: a value holds until the next one; energy is kept exactly.

The step function is integrated, and every cell of the grid takes the mean over its length. A
cell that is not covered whole, because the sensor was away or silent too long, is a gap.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.errors import DataError
from hushmeter.read.grid import LATEST, SECOND
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series

GRIDS = (1, 2, 5, 6, 10, 15, 20, 30, 60, 300, 600, 900, 1800, 3600)
HOLD_S = 900.0
REGISTER_HOLD_S = 6 * 3600.0
MAX_CELLS = 100_000_000


def change_series(entity: str, rows: FloatArray, options: ReadOptions, path: Path) -> Series:
    """A grid of means from (unix seconds, value) changes; NaN values are absences."""
    unit = options.unit or _guess_unit(entity)
    factor, energy = unit_factor(unit)
    seconds, values = _ordered(rows, path)
    interval = _grid(seconds)
    hold = REGISTER_HOLD_S if energy else HOLD_S
    if energy:
        seconds, values = _slopes(seconds, values)
    length = np.minimum(np.diff(seconds, append=seconds[-1]), hold)
    valid = np.isfinite(values) & (length > 0)
    cells, means = _cell_means(seconds, values, length, valid, interval, path)
    notes = [
        f"Entity {entity}: {rows.shape[0]} changes, held for at most {hold / 60:g} min, averaged "
        f"over {interval:g} s; energy of whole cells is kept."
    ]
    if energy:
        notes.append(f"Its values count up ({unit}): differences were taken.")
    absent = int(np.isnan(rows[:, 1]).sum())
    if absent:
        notes.append(f"{absent} times the sensor was unavailable; gaps follow.")
    return Series(
        (cells * round(interval * SECOND)).astype(np.int64),
        means,
        "Home Assistant history CSV",
        unit,
        factor * (3600 if energy else 1),
        interval_s=interval,
        found=int(rows.shape[0]),
        notes=notes,
    )


def _guess_unit(entity: str) -> str:
    """By the last word of its name that tells: sensor.energy_meter_power is of power."""
    words = re.findall(r"kwh|energy|power|watt|kw", entity.lower())
    last = words[-1] if words else "watt"
    return {"kwh": "kWh", "energy": "kWh", "kw": "kW"}.get(last, "W")


def _ordered(rows: FloatArray, path: Path) -> tuple[FloatArray, FloatArray]:
    """Ascending times; of equal ones the last row counts."""
    order = np.argsort(rows[:, 0], kind="stable")
    seconds, values = rows[order, 0], rows[order, 1]
    last = np.append(np.diff(seconds) > 0, True)
    seconds, values = seconds[last], values[last]
    if seconds.size < 2:
        raise DataError(f"{path} has a single change of state; two are needed.")
    if seconds[0] < 0 or seconds[-1] >= LATEST:
        raise DataError(f"{path} has times outside 1970 … 2200.")
    if np.nanmax(np.abs(values), initial=0.0) > 1e12:
        raise DataError(f"{path} has values beyond 1e12; check the entity.")
    return seconds, values


def _grid(seconds: FloatArray) -> float:
    """A round interval near the usual time between changes."""
    usual = float(np.median(np.diff(seconds)))
    return float(min(GRIDS, key=lambda size: abs(np.log(size / max(usual, 0.5)))))


def _slopes(seconds: FloatArray, register: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Units per second between readings of a register; a reset is an absence."""
    rise = np.diff(register, append=np.nan)
    rise[rise < 0] = np.nan
    slopes: FloatArray = rise / np.maximum(np.diff(seconds, append=seconds[-1] + 1), 1e-9)
    return seconds, slopes


def _cell_means(
    seconds: FloatArray,
    values: FloatArray,
    length: FloatArray,
    valid: BoolArray,
    interval: float,
    path: Path,
) -> tuple[IntArray, FloatArray]:
    """Cells that are covered whole, and the mean of the step function in each."""
    last = np.floor((seconds + length) / interval)
    touched = np.where(valid, last - np.floor(seconds / interval) + 1, 0)
    if touched.sum() > MAX_CELLS:
        raise DataError(f"{path} would give more than {MAX_CELLS} cells of {interval:g} s.")
    start = np.floor(seconds[valid] / interval).astype(np.int64)
    count = touched[valid].astype(np.int64)
    cells = (
        np.repeat(start, count)
        + np.arange(count.sum())
        - np.repeat(np.cumsum(count) - count, count)
    )
    left = np.maximum(np.repeat(seconds[valid], count), cells * interval)
    right = np.minimum(np.repeat((seconds + length)[valid], count), (cells + 1) * interval)
    overlap = np.maximum(right - left, 0.0)
    unique, inverse = np.unique(cells, return_inverse=True)
    covered = np.bincount(inverse, weights=overlap)
    total = np.bincount(inverse, weights=overlap * np.repeat(values[valid], count))
    whole = covered >= interval * (1 - 1e-6)
    if not whole.any():
        raise DataError(
            f"{path}: no stretch of {interval:g} s is covered whole; the sensor changed too rarely "
            "(it is held for 15 min at most) or was away."
        )
    return unique[whole], total[whole] / covered[whole]
