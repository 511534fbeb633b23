"""The sensitivity of any table: published values, brute force, registers and rounding."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.privacy.sensitivity import (
    NO_LABEL,
    Change,
    Table,
    _overlaps,
    _Register,
    every_cell,
    sensitivity,
)
from hushmeter.trace import Metering

WATT = Fraction(1)


def calendar_tables(hours, offsets):
    """Cells, days, hours of the day and the month of hourly cells with the clock's offsets [h]."""
    local = np.arange(hours) + offsets
    day, hour = local // 24, local % 24
    again = np.append(False, np.diff(local) <= 0)
    return [
        every_cell(hours),
        Table("days", day, int(day[-1]) + 1),
        Table("typical-day", np.where(again, NO_LABEL, hour), 24),
        Table("months", np.zeros(hours, dtype=np.int64), 1),
    ]


JANUARY = calendar_tables(31 * 24, np.zeros(31 * 24, dtype=np.int64))
# On 27 October the hour from 1:00 to 2:00 occurs twice in London.
OCTOBER = calendar_tables(
    31 * 24 + 1, np.where(np.arange(31 * 24 + 1) < 26 * 24 + 2, 0, -1).astype(np.int64)
)


@pytest.mark.parametrize(
    ("tables", "watts", "seconds", "watt_hours", "expected"),
    [
        (JANUARY, 2100, 180, None, [107, 108, 107, 108]),
        (OCTOBER, 2100, 180, None, [107, 108, 107, 108]),
        (JANUARY, 11_000, 3 * 3600, 22_000, [15_559, 22_005, 15_559, 22_005]),
        (JANUARY, 7200, 30 * 3600, None, [39_442, 178_144, 46_669, 216_032]),
        (OCTOBER, 7200, 30 * 3600, None, [39_442, 183_591, 46_669, 216_032]),
    ],
)
def test_published_values(tables, watts, seconds, watt_hours, expected):
    energy = None if watt_hours is None else 3600.0 * watt_hours
    change = Change("x", watts, seconds, 3600.0, energy=energy)
    assert [sensitivity(table, change, WATT) for table in tables] == expected


@pytest.mark.parametrize(
    ("watts", "watt_hours", "hourly"),
    [(15_000, None, 75_000), (9000, None, 45_000), (9000, 60_000, 22_847), (9000, 40_000, 18_439)],
)
def test_a_household_day_of_a_fleet(watts, watt_hours, hourly):
    """Hourly sums of one group: P·√25 without a cap on the energy of a day, less with one."""
    energy = None if watt_hours is None else 3600.0 * watt_hours
    change = Change("day", watts, 25 * 3600, 3600.0, energy=energy)
    found = sensitivity(every_cell(24 * 31), change, WATT)
    assert found == pytest.approx(hourly, abs=math.sqrt(26) + 2)


@pytest.mark.parametrize(
    ("watts", "watt_hours", "daily"),
    [(15_000, None, 360.3), (9000, None, 216.2), (9000, 60_000, 60.0), (9000, 40_000, 40.0)],
)
def test_a_household_day_in_daily_sums(watts, watt_hours, daily):
    """25 hours lie in two days of 24: √(24² + 1²)·P without a cap on the energy, else E [kWh]."""
    energy = None if watt_hours is None else 3600.0 * watt_hours
    change = Change("day", watts, 25 * 3600, 3600.0, energy=energy)
    # 26 touched hours add a watt each.
    assert sensitivity(JANUARY[1], change, WATT) / 1000 == pytest.approx(daily, abs=0.08)


def test_the_shares_of_a_stretch_at_its_three_borders():
    np.testing.assert_allclose(_overlaps(1.25), [[1, 0.25, 0], [0.25, 1, 0], [0, 1, 0.25]])
    np.testing.assert_allclose(_overlaps(2.0), [[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    np.testing.assert_allclose(_overlaps(0.05), [[0.05, 0], [0.05, 0], [0, 0.05]], atol=1e-12)


@st.composite
def cases(draw):
    """Random labels on times with gaps, and a change of any length and energy."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, size = int(rng.integers(10, 40)), int(rng.integers(1, 9))
    labels = rng.integers(0, size, count)
    if rng.random() < 0.5:  # neighbouring cells share a label, as the hours of a day do
        labels = np.sort(labels)
    labels = np.where(rng.random(count) < 0.1, NO_LABEL, labels)
    steps = 1 + (rng.random(count) < 0.15) * rng.integers(1, 4, count)
    positions = np.cumsum(steps) - steps[0]
    length = float(rng.choice([0.05, 0.4, 1.0, 1.3, 2.5, 4.0, 7.7]))
    share = float(rng.choice([1.0, 0.7, 0.3, 0.05]))
    resolution = float(rng.choice([0.0, 0.0, 3.0]))
    change = Change(
        "x", 100.0, 60 * length, 60.0, energy=100 * 60 * length * share,
        metering=Metering(resolution_w=resolution),
    )  # fmt: skip
    grid = Fraction(int(rng.choice([1, 7, 40])))
    return Table("random", labels, size, positions), change, grid, rng


def worst_change(table, shares, change, rng):
    """Moves of the cells [W] at one offset: the largest limits first, or any order."""
    limits = table.sums(shares)
    order = np.argsort(-limits) if rng.random() < 0.7 else rng.permutation(table.size)
    moved, left = np.zeros(shares.size), change.full_values
    for label in order:
        for cell in np.flatnonzero(table.labels == label):
            moved[cell] = min(shares[cell], left)
            left -= moved[cell]
    return change.watts * moved


@given(cases())
@settings(max_examples=250)
def test_no_change_exceeds_the_sensitivity(case):
    """80 offsets each, 20 000 changes in all, with rounding by the meter and by the grid."""
    table, change, grid, rng = case
    bound, step, positions = sensitivity(table, change, grid), float(grid), table.places
    meter = change.metering.resolution_w
    for _ in range(80):
        start = rng.uniform(positions[0] - 2, positions[-1] + 1)
        stop = start + change.seconds / 60
        shares = np.clip(np.minimum(positions + 1, stop) - np.maximum(positions, start), 0, 1)
        base = rng.uniform(0, 500, positions.size)
        tables = []
        for extra in (0.0, worst_change(table, shares, change, rng)):
            cells = base + extra
            cells = np.rint(cells / meter) * meter if meter else cells
            tables.append(table.sums(np.floor(cells / step + 0.5)))
        assert np.linalg.norm(tables[1] - tables[0]) <= bound


def uneven_readings(lengths, run, watts, interval, copies, as_energy):
    """Readings [W] that a run adds if every reading has a length of its own, with copies.

    `run` is the start, the end of the first part, the start of the second part, and the end [s].
    """
    first = watts * (run[1] - run[0])
    energy = [0.0, first, first, first + watts * (run[3] - run[2])]
    counter = np.interp(np.concatenate([[0.0], np.cumsum(lengths)]), run, energy)
    return np.repeat(np.diff(counter) / (interval if as_energy else lengths), copies)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]), st.sampled_from([1.0, 1.25, 2.0]))
@settings(max_examples=120)
def test_no_run_on_readings_of_uneven_lengths_exceeds_the_sensitivity(seed, copies, stretch):
    """A run in two parts; readings are means over their own lengths, or energies of them."""
    rng = np.random.default_rng(seed)
    window, count = int(rng.choice([1, 2, 5])), 60
    size = int(rng.integers(1, 6))
    labels = np.sort(rng.integers(0, size, count // window * copies))
    seconds, share = float(rng.uniform(0.2, 9.0)) * 60, float(rng.choice([1.0, 0.6]))
    change = Change(
        "x", 500.0, seconds, 60.0, energy=500 * seconds * share, window=window,
        metering=Metering(copies=copies, stretch=stretch),
    )  # fmt: skip
    table = Table("random", labels, size)
    bound = sensitivity(table, change, WATT)
    for as_energy in (False, True):
        for _ in range(40):
            # Means are moved most if the readings are short, energies if they are long.
            factor = stretch if as_energy else 1 / stretch
            lengths = 60 * factor ** (rng.random(count) < rng.choice([0.5, 1.0]))
            start = rng.uniform(0, lengths.sum() - seconds)
            left = seconds * share * rng.random()
            run = start + np.array([0, left, seconds * (1 - share) + left, seconds])
            moved = uneven_readings(lengths, run, 500.0, 60.0, copies, as_energy)
            base = rng.uniform(0, 500, labels.size)
            cells = base + moved.reshape(-1, window).mean(axis=1)
            rounded = [table.sums(np.floor(one + 0.5)) for one in (base, cells)]
            assert np.linalg.norm(rounded[1] - rounded[0]) <= bound


@given(cases(), st.integers(1, 9))
@settings(max_examples=150)
def test_all_patterns_of_windows_are_found(case, width):
    """Against every window in turn."""
    table = case[0]
    line = np.full(int(table.places[-1]) + 2 * width - 1, NO_LABEL)
    line[table.places + width - 1] = table.labels
    windows = [line[start : start + width] for start in range(line.size - width + 1)]
    expected = {tuple(in_order(window)) for window in windows}
    found = {tuple(in_order(pattern)) for pattern in table.patterns(width)}
    assert found == expected
    # The beginnings of wider windows, of which some end before the first cell.
    again = Table("again", table.labels, table.size, table.positions)
    again.patterns(width + 3)
    shorter = {tuple(in_order(pattern)) for pattern in again.patterns(width)}
    assert shorter == expected | {(NO_LABEL,) * width}
    assert every_cell(9).patterns(width).tolist() == [list(range(width))]


def in_order(window):
    """The labels of a window, numbered in the order in which they occur."""
    seen = {}
    for label in window.tolist():
        if label != NO_LABEL:
            seen.setdefault(label, len(seen))
    return [seen.get(label, -1) for label in window.tolist()]


def test_a_moved_change_has_two_places():
    change = Change("x", 2100.0, 180.0, 3600.0)
    moved = Change("x", 2100.0, 180.0, 3600.0, moved=True)
    one, two = (sensitivity(JANUARY[0], c, WATT) for c in (change, moved))
    assert two == pytest.approx(math.sqrt(2) * one, abs=2)


@given(cases(), st.booleans())
@settings(max_examples=60)
def test_the_phase_of_a_register_is_counted_in_every_place(case, moved):
    """r·√(Σ (u_g + n_g)²) for u_g stretches and n_g touched cells of label g."""
    table, change, grid, rng = case
    metering = Metering(register_step_w=2.0)
    change = replace(change, metering=metering, values=table.labels.size, moved=moved)
    touched = change.own_touches // change.places
    windows = [
        table.sums(((table.places >= k) & (table.places < k + touched)).astype(float))
        for k in range(int(table.places[-1]) + 1)
    ]
    register = _Register.of(table, change, grid)
    bound = register.watts(max(map(np.linalg.norm, windows)))
    for first, second in rng.integers(len(windows), size=(30, 2)):
        counts = windows[first] + moved * windows[second]
        assert 2 * np.linalg.norm(table.stretches + counts) <= bound + 1e-9
    alone = every_cell(40)
    first = np.arange(40) < touched
    bound = _Register.of(alone, replace(change, moved=False), grid).watts(np.sqrt(touched))
    assert bound == pytest.approx(2 * np.linalg.norm(1 + first))


def register_neighbours(load, step, interval, rng):
    """Readings [W] of a counter that is cut off to whole steps, without and with one kettle run.

    The load [W] has a value for every second; the run has a random start, the counter any phase.
    """
    start = int(rng.integers(load.size - 180))
    phase = rng.uniform(0, step * interval)
    for watts in (0.0, 2100.0):
        power = load.copy()
        power[start : start + 180] += watts
        counter = phase + np.concatenate([[0.0], np.cumsum(power)])[:: int(interval)]
        yield np.diff(np.floor(counter / (step * interval))) * step


def test_a_register_moves_all_later_cells(rng):
    """A counter cut off to whole steps: differences of neighbouring files, with a gap."""
    interval, step, count = 900.0, 4.0, 96 * 4
    positions = np.delete(np.arange(count), slice(100, 117))
    metering = Metering(register_step_w=step)
    change = Change("x", 2100.0, 180.0, interval, metering=metering, values=positions.size)
    tables = [every_cell(positions.size), Table("days", positions // 96, 4, positions)]
    bounds = [sensitivity(table, change, WATT) for table in tables]
    load = rng.uniform(0, 500, count * 900)
    for _ in range(100):
        cells = [one[positions] for one in register_neighbours(load, step, interval, rng)]
        for table, bound in zip(tables, bounds, strict=True):
            assert np.linalg.norm(table.sums(cells[1]) - table.sums(cells[0])) <= bound
