"""Checks of rows: the compiled pass against a plain Python reading of the rules."""

from __future__ import annotations

import itertools
from collections import defaultdict
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import compute

from hushmeter.apps.fleet import meter_periods
from hushmeter.apps.fleet.input_files import check_schema
from hushmeter.apps.fleet.job import Columns, parse_columns
from hushmeter.apps.fleet.meter_periods import Blocks, calendar_of, labels_of, take_slots
from hushmeter.errors import DataError, InputError
from hushmeter.trace import check_interval, watts_per

HOUR = 3600
START = 1_709_164_800  # 2024-02-29T00:00Z
UNITS = ("W", "kW", "Wh", "kWh")


def record(rows, time_unit="s"):
    scale = {"s": 1, "ms": 1000}[time_unit]
    meters, times, values, units, intervals = zip(*rows, strict=True)
    stamps = [None if t is None else t * scale for t in times]
    return pa.record_batch(
        {
            "meter": pa.array(meters, pa.string()),
            "time": pa.array(stamps, pa.timestamp(time_unit, tz="UTC")),
            "value": pa.array(values, pa.float64()),
            "unit": pa.array(units, pa.string()),
            "interval_s": pa.array(intervals, pa.int32()),
        }
    )


def gather(rows, cuts=(), period="day", time_unit="s", zone="UTC"):
    blocks = Blocks(Columns(), period, zone, HOUR, time_unit)
    batches = []
    for start, end in itertools.pairwise((0, *sorted(cuts), len(rows))):
        if end > start:
            part = record(rows[start:end], time_unit)
            batches.append(blocks.arrays(part))
            blocks.add(batches[-1], blocks.readings(part).odd)
    return blocks, batches


def midnight(time, zone):
    """Start of the civil day of a time [UTC s], by the standard library."""
    day = datetime.fromtimestamp(time, ZoneInfo(zone)).replace(hour=0, minute=0, second=0)
    return day.date(), round(day.timestamp())


def plain_check(rows, period, zone="UTC"):
    """First problem of every block by the rules of the specification, row by row."""
    first, seen = {}, defaultdict(set)
    for row, (meter, time, _, _, interval) in enumerate(rows):
        bad_time = time is None or not 0 <= time < 7_258_118_400
        day, start = ("", 0) if bad_time else midnight(time, zone)
        if period == "month" and not bad_time:
            # Noon of the first day is never skipped.
            start = midnight(round(datetime(day.year, day.month, 1, 12, tzinfo=ZoneInfo(zone))
                                   .timestamp()), zone)[1]  # fmt: skip
        day = str(day)
        key = (meter or "", day if period == "day" else day[:7])
        sentence = None
        if not meter:
            sentence = "id is missing"
        elif bad_time:
            sentence = "time is missing"
        elif (time - start) % HOUR:
            sentence = "whole number of intervals"
        elif time in seen[key]:
            sentence = "this time twice"
        elif interval != HOUR:
            sentence = "interval is not"
        if meter and not bad_time and (time - start) % HOUR == 0:
            seen[key].add(time)
        if sentence and key not in first:
            first[key] = (row, sentence)
    return first


good = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 80).map(lambda slot: START + slot * HOUR),
    st.floats(-1e3, 1e4),
    st.just("W"),
    st.just(HOUR),
)
odd = st.tuples(
    st.sampled_from(["a", "b", "c", "", None]),
    st.one_of(
        st.integers(0, 80).map(lambda slot: START + slot * HOUR),
        st.sampled_from([None, START + 1, -HOUR, 7_258_118_400]),
    ),
    st.sampled_from([0.0, 5.0, None, float("nan"), float("inf"), -float("inf")]),
    st.sampled_from([*UNITS, "VA", None]),
    st.sampled_from([HOUR, HOUR, 900, None]),
)


@given(
    rows=st.lists(st.one_of(good, good, good, odd), min_size=1, max_size=60),
    cuts=st.sets(st.integers(1, 59), max_size=4),
    period=st.sampled_from(["day", "month"]),
    time_unit=st.sampled_from(["s", "ms"]),
    zone=st.sampled_from(["UTC", "Europe/London", "America/New_York", "Australia/Adelaide"]),
    shift=st.sampled_from([0, 1800]),
)
def test_every_fault_is_found_as_the_rules_say(rows, cuts, period, time_unit, zone, shift):
    rows = [(m, None if t is None else t + shift, *rest) for m, t, *rest in rows]
    blocks, batches = gather(rows, {c for c in cuts if c < len(rows)}, period, time_unit, zone)
    found = {(p.meter, p.period): (p.row, p.sentence) for p in blocks.problems()}
    wanted = plain_check(rows, period, zone)
    assert {key: row for key, (row, _) in found.items()} == {
        key: row for key, (row, _) in wanted.items()
    }
    assert all(wanted[key][1] in sentence for key, (_, sentence) in found.items())
    kept = np.concatenate([blocks.kept_rows(batch, blocks.bad)[0] for batch in batches])
    assert blocks.row_counts.sum() == len(rows)
    assert kept.sum() == blocks.row_counts[~blocks.bad].sum()
    for keeps, (meter, time, *_) in zip(kept, rows, strict=True):
        if keeps:
            day = str(midnight(time, zone)[0])
            assert (meter, day if period == "day" else day[:7]) not in wanted
    odd_rows = [
        row
        for row, (_, _, value, unit, _) in enumerate(rows)
        if value is None or not np.isfinite(value) or unit not in UNITS
    ]
    cells = blocks.odd_cells()
    assert blocks.odd_count == sum(one.cells for one in cells) == len(odd_rows)
    assert {one.row for one in cells} <= set(odd_rows)
    assert (cells[0].row if cells else None) == (odd_rows[0] if odd_rows else None)


@given(
    order=st.permutations(range(24)),
    days=st.integers(1, 3),
    gap=st.integers(0, 23),
)
def test_good_rows_pass_in_any_order(order, days, gap):
    rows = [
        (meter, START + day * 86_400 + slot * HOUR, 1.0, "kWh", HOUR)
        for slot in order
        for meter in "abc"
        for day in range(days)
        if slot != gap
    ]
    blocks, _ = gather(rows)
    assert blocks.count == 3 * days
    assert not blocks.bad.any()
    meters, periods = blocks.names(np.arange(blocks.count))
    assert set(zip(meters, periods, strict=True)) == {
        (meter, f"2024-{'02-29' if day == 0 else f'03-0{day}'}")
        for meter in "abc"
        for day in range(days)
    }


def test_a_fault_is_named_without_the_reading():
    rows = [("m", START + i * HOUR, 1234.5, "W", HOUR) for i in range(24)]
    rows[7] = ("m", START + 7 * HOUR, 1234.5, "W", 900)
    (problem,) = gather(rows)[0].problems()
    assert problem.row == 7
    assert problem.time == "2024-02-29T07:00:00Z"
    assert problem.sentence == "the interval is not the 3600 s of this release."


def test_a_name_that_cannot_be_printed_counts_as_missing():
    """Python decides, as it does in the ledger: Arrow takes signs for printable that nobody has."""
    signs = pa.array([chr(code) for code in range(0x300, 0xD800)])
    strange = signs.filter(compute.utf8_is_printable(signs)).to_pylist()
    strange = next(sign for sign in strange if not sign.isprintable())
    names = ("a\nb", strange, "x" * 401, "ä ß")
    blocks, _ = gather([(name, START, 1.0, "W", HOUR) for name in names])
    assert [problem.row for problem in blocks.problems()] == [0]
    assert blocks.bad.tolist() == [True, False]


def test_many_blocks_grow_the_tables(monkeypatch):
    rows = [(f"m{i}", START, 1.0, "W", HOUR) for i in range(5000)]
    blocks, _ = gather(rows, cuts=(1, 1500, 1501))
    assert blocks.count == 5000
    assert not blocks.bad.any()
    repeated, _ = gather([*rows, rows[17]], cuts=(4000,))
    assert [(p.meter, p.row) for p in repeated.problems()] == [("m17", 5000)]
    monkeypatch.setattr(meter_periods, "MAX_BLOCKS", 4999)
    with pytest.raises(DataError, match="more than 4999 blocks of a meter and a day; split it"):
        gather(rows)


@given(st.lists(st.tuples(st.integers(0, 190), st.integers(1, 190)), max_size=12))
def test_slots_are_taken_once(ranges):
    bits, seen = np.zeros(9, np.uint64), set()
    for slot, count in ranges:
        count = min(count, 192 - slot)
        wanted = set(range(slot, slot + count))
        free = not wanted & seen
        assert take_slots(bits, 3, slot, count) == free
        seen |= wanted if free else set()
    inside = [int(w) >> i & 1 for w in bits[3:6] for i in range(64)]
    assert {i for i, bit in enumerate(inside) if bit} == seen
    assert not bits[:3].any()
    assert not bits[6:].any()


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "Australia/Adelaide", "America/New_York", "Pacific/Apia"]
)
@pytest.mark.parametrize("period", ["day", "month"])
def test_the_calendar_against_datetime(zone, period):
    of_day, starts = calendar_of(period, zone)
    names, place = labels_of(period), ZoneInfo(zone)
    rng = np.random.default_rng(3)
    moments = rng.integers(0, 7_258_000_000, 2000).tolist()
    for moment in [0, 1_709_164_799, 1_325_239_200, *moments]:
        day = datetime.fromtimestamp(moment, place).date().isoformat()
        number, low, high = meter_periods.find_period(moment, (of_day, starts), 86_400)
        assert names[number] == day[: 7 if period == "month" else 10]
        assert low <= moment < high
    assert (np.diff(starts) >= 0).all()
    assert meter_periods.find_period(-1, (of_day, starts), 86_400)[0] == -1
    assert meter_periods.find_period(7_258_204_800, (of_day, starts), 86_400)[0] == -1


def test_units_and_intervals():
    assert watts_per("W", 900) == 1
    assert watts_per("kW", 900) == 1000
    assert watts_per("Wh", 900) == 4
    assert watts_per("kWh", 1800) == 2000
    with pytest.raises(InputError, match="unit must be one of"):
        watts_per("VA", 900)
    assert check_interval(1) == 1
    for bad in (0, -1, 7, 86_401, 1.5, True):
        with pytest.raises(InputError):
            check_interval(bad)


def test_columns_by_other_names():
    assert parse_columns(None) == Columns()
    named = parse_columns("meter=mpan, interval=len")
    assert named.names == ("mpan", "time", "value", "unit", "len")
    for bad in ("meter", "metre=x", "meter=", "meter=time"):
        with pytest.raises(InputError):
            parse_columns(bad)


STAMP = pa.timestamp("ms", tz="UTC")
SCHEMA = {
    "meter": pa.int64(),
    "time": STAMP,
    "value": pa.decimal128(10, 3),
    "unit": pa.dictionary(pa.int8(), pa.string()),
    "interval_s": pa.uint16(),
    "extra": pa.list_(pa.int8()),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"meter": pa.large_string(), "value": pa.float16()}, None),
        ({"time": pa.timestamp("ms", tz="Europe/Berlin")}, None),
        ({"unit": None}, "has no column 'unit'"),
        ({"time": pa.timestamp("ms")}, "times without a zone"),
        ({"time": pa.string()}, "must hold timestamps"),
        ({"meter": pa.float64()}, "'meter' must hold text or whole numbers"),
        ({"value": pa.string()}, "'value' must hold numbers"),
        ({"unit": pa.int8()}, "'unit' must hold text"),
        ({"interval_s": pa.float32()}, "'interval_s' must hold whole seconds"),
    ],
)
def test_the_schema(change, message):
    fields = {name: kind for name, kind in (SCHEMA | change).items() if kind is not None}
    schema = pa.schema(list(fields.items()))
    if message is None:
        check_schema(schema, Columns())
    else:
        with pytest.raises(DataError, match=message):
            check_schema(schema, Columns())


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))]),
        pa.list_(pa.struct([("a", pa.string_view())])),
    ],
)
def test_parts_of_a_column_that_lie_aside_are_refused(kind):
    with pytest.raises(DataError, match="column 'extra' with dictionaries or views within its"):
        check_schema(pa.schema([*(SCHEMA | {"extra": kind}).items()]), Columns(), ("extra",))


def test_a_doubled_column_is_refused():
    schema = pa.schema([*SCHEMA.items(), ("meter", pa.string())])
    with pytest.raises(DataError, match="has 2 columns 'meter'"):
        check_schema(schema, Columns())
