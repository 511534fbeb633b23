"""The compiled controllers of a battery, which process one reading after the other.

Symbols: b is the battery power on the meter's side [W], positive while charging; e is the energy
stored since the start [Wh]; h is the length of a reading [h]; η_c and η_d are the efficiencies of
charging and discharging. One step is

    e' = e + h·s(b),    s(b) = η_c·b for b ≥ 0, b/η_d for b < 0,

with −discharge ≤ b ≤ charge and −below ≤ e ≤ above. Every controller returns three arrays: b, e
and whether the battery could not do what the controller wanted.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray

LIMITS = ("above", "below", "charge", "discharge", "in_efficiency", "out_efficiency", "hours")
"""Order of the numbers in the array `limits` that every controller takes."""

DIRECT, RESERVED, LOOKAHEAD = 0, 1, 2
SLACK = 1e-9
"""Relative difference that is treated as rounding of floats, not as a cut."""

Run = tuple[FloatArray, FloatArray, BoolArray]


@numba.njit(cache=True, inline="always")
def stored_power(b: float, limits: FloatArray) -> float:
    """Return s(b) [W], the power that reaches or leaves the store."""
    inside: float = b * limits[4] if b >= 0 else b / limits[5]
    return inside


@numba.njit(cache=True, inline="always")
def act(e: float, want: float, limits: FloatArray) -> tuple[float, float, bool]:
    """Return the wanted power within the limits (b), the energy e' after it, and if b was cut."""
    hours = limits[6]
    b = min(max(want, -limits[3]), limits[2])
    if b >= 0:
        b = min(b, (limits[0] - e) / (hours * limits[4]))
    else:
        b = max(b, -(e + limits[1]) * limits[5] / hours)
    after = min(max(e + hours * stored_power(b, limits), -limits[1]), limits[0])
    return b, after, b != want


@numba.njit(cache=True)
def run_direct(noise: FloatArray, upkeep: float, limits: FloatArray) -> Run:
    """Set b = n + upkeep, cut where the battery is full, empty or too weak."""
    size = noise.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    e = 0.0
    for t in range(size):
        power[t], e, cut[t] = act(e, noise[t] + upkeep, limits)
        stored[t] = e
    return power, stored, cut


@numba.njit(cache=True)
def run_reserved(
    noise: FloatArray, upkeep: float, pull: float, grid: float, limits: FloatArray
) -> Run:
    """Set b = n − grid·round(pull·e/(grid·h)) + upkeep, which returns e towards its start."""
    size = noise.size
    power, stored, cut = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    e = 0.0
    for t in range(size):
        back = grid * np.rint(pull * e / (grid * limits[6]))
        power[t], e, cut[t] = act(e, noise[t] - back + upkeep, limits)
        stored[t] = e
    return power, stored, cut


@numba.njit(cache=True, inline="always")
def slide(
    path: FloatArray, queue: IntArray, first: int, last: int, entering: int, sign: float
) -> int:
    """Append a place to a monotone queue of the highest (sign = 1) or lowest (−1) path values."""
    while last > first and sign * path[queue[last - 1]] <= sign * path[entering]:
        last -= 1
    queue[last] = entering
    return last + 1


@numba.njit(cache=True, inline="always")
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


@numba.njit(cache=True)
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
        path[t + 1] = path[t] + limits[6] * stored_power(want, limits)
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
            inside = stored_power(min(max(want, -limits[3]), limits[2]), limits) - give
            changed = inside / limits[4] if inside >= 0 else inside * limits[5]
        power[t], e, _ = act(e, changed, limits)
        stored[t] = e
        # A difference in the last bit of a float is not a cut.
        cut[t] = abs(power[t] - want) > SLACK * (1.0 + abs(want))
    return power, stored, cut


@numba.njit(cache=True)
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


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def run_days(
    noise: FloatArray, upkeep: float, setting: FloatArray, kind: int, limits: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Operate many horizons, noise of shape (days, T), each from the initial charge.

    `setting` holds the pull, the grid and the readings ahead. Returns for each horizon the number
    of readings cut, the energy taken from the store [Wh] and the energy lost [Wh].
    """
    days = noise.shape[0]
    cuts = np.zeros(days, np.int64)
    taken, lost = np.zeros(days), np.zeros(days)
    for day in range(days):
        if kind == RESERVED:
            power, _, cut = run_reserved(noise[day], upkeep, setting[0], setting[1], limits)
        elif kind == LOOKAHEAD:
            power, _, cut = run_lookahead(noise[day], upkeep, int(setting[2]), limits)
        else:
            power, _, cut = run_direct(noise[day], upkeep, limits)
        for t in range(power.size):
            inside = stored_power(power[t], limits)
            cuts[day] += cut[t]
            taken[day] -= min(inside, 0.0) * limits[6]
            lost[day] += (power[t] - inside) * limits[6]
    return cuts, taken, lost


KERNELS: dict[str, Any] = {"direct": DIRECT, "reserved": RESERVED, "lookahead": LOOKAHEAD}
