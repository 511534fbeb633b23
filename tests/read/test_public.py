"""Nothing public about a recording depends on its values: files that differ in values alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.read.test_columns import TABLES, UNITS

from hushmeter.errors import DataError, HushmeterError
from hushmeter.read import ReadOptions, read_recording

NUMBER = re.compile(r"(?<![\d:./T-])(\d+)([.,])(\d+)(?![\d:./-])")


def changed(text, rng):
    """The same text with other digits after the marks of its decimal numbers."""

    def replace(match):
        digits = "".join(str(d) for d in rng.integers(0, 10, len(match[3])))
        return f"{match[1]}{match[2]}{digits}"

    return NUMBER.sub(replace, text)


def assert_same_facts(one, other):
    for name in ("format", "unit", "interval_s", "start", "end", "names", "readings", "duplicates",
                 "reversed", "clock_changes", "mains", "notes", "metering"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.steps, other.steps)


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_differ_in_values(save, rng, name):
    text, _, tz = TABLES[name]
    options = ReadOptions(tz=tz, unit=UNITS.get(name))
    first = read_recording(save(text.encode(), "a.csv"), options)
    for _ in range(3):
        second = read_recording(save(changed(text, rng).encode(), "a.csv"), options)
        assert_same_facts(first.public, second.public)
        assert (first.watts != second.watts).any()


@pytest.mark.parametrize("name", ["octopus", "n3rgy", "esb", "ha_energy", "refit", "plain_csv"])
def test_formats_that_differ_in_values(save, rng, samples, name):
    text = getattr(samples, name)().decode()
    first = read_recording(save(text.encode(), "a.csv"))
    second = read_recording(save(changed(text, rng).encode(), "a.csv"))
    assert_same_facts(first.public, second.public)


def test_a_counter_by_header_whatever_its_values(save, rng):
    """A counter that is rounded coarsely stands still, or jumps: the facts stay the same."""
    found = []
    for step in (0.001, 1.0):
        values = np.floor(np.cumsum(rng.gamma(2.0, 0.2, 200)) / step) * step
        rows = "".join(f"{1_704_067_200 + 900 * i},{v:.3f}\n" for i, v in enumerate(values))
        text = f"timestamp,meterstand (kWh)\n{rows}"
        found.append(read_recording(save(text.encode(), "a.csv"), ReadOptions(step=1.0)))
    assert_same_facts(found[0].public, found[1].public)
    assert found[0].public.metering.register_step_w == 4000.0


def test_a_logger_with_jitter_keeps_its_gaps(save, rng):
    """Where a 7-s logger leaves an interval empty depends on its times alone."""
    seconds = np.cumsum(rng.integers(6, 9, 4000))
    found = []
    for _ in range(2):
        rows = "".join(f"{1_704_067_200 + s},{w}\n" for s, w in
                       zip(seconds, rng.integers(50, 3000, 4000), strict=True))  # fmt: skip
        found.append(read_recording(save(f"timestamp,watts\n{rows}".encode(), "a.csv")))
    assert_same_facts(found[0].public, found[1].public)
    assert found[0].public.metering.copies == 1
    assert len(found[0].watts) <= 4000


def test_of_equal_rows_one_is_kept_and_different_ones_are_refused(save):
    rows = "".join(f"{1_704_067_200 + s},{100 + s % 7}\n" for s in range(0, 12_000, 60))
    again = f"{1_704_067_200 + 600},{100 + 600 % 7}\n"
    once, twice = (read_recording(save(f"timestamp,watts\n{rows}{end}".encode(), "a.csv"))
                   for end in ("", again))  # fmt: skip
    assert (twice.public.gaps, twice.public.duplicates) == (0, 1)
    np.testing.assert_array_equal(once.watts, twice.watts)
    with pytest.raises(DataError, match="several different values for one time"):
        read_recording(save(f"timestamp,watts\n{rows}{1_704_067_200 + 600},9\n".encode(), "a.csv"))


def test_one_changed_value_never_changes_the_kind_of_a_series(save, rng):
    """Either both files are read with equal facts, or one is refused; never another shape."""
    values = np.cumsum(rng.gamma(2.0, 0.05, 40))
    for name in ("kWh", "total kWh", "value"):
        found = []
        for change in (0.0, -3.0):
            series = values.copy()
            series[20] += change
            rows = "".join(f"{1_704_067_200 + 900 * i},{v:.4f}\n" for i, v in enumerate(series))
            try:
                read = read_recording(
                    save(f"timestamp,{name}\n{rows}".encode(), "a.csv"), ReadOptions(unit="kWh")
                )
                found.append(read.public)
            except HushmeterError:
                pass
        if len(found) == 2:
            assert_same_facts(*found)
