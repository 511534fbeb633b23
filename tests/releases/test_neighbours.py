"""The promise from file to file: neighbouring raw files, read through the public entry.

Two files of the same home differ by one reading, one run or one day of an appliance (or by
another protected change). Everything public must be equal, and what would get noise may differ by
no more than the unit of protection declares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.releases.raw_files import (
    FORMATS,
    Meter,
    clock_change,
    exact_time,
    options_of,
    ordinary_day,
    random_load,
)

import hushmeter as hm
from hushmeter.errors import DataError, HushmeterError, InputError
from hushmeter.read import read_bytes
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.neighbours import audit_file, compare_neighbours
from hushmeter.releases.receipt import write_receipts
from hushmeter.releases.view_plan import plan_views
from hushmeter.releases.views import add_up

HOME = hm.Home(
    [
        hm.Appliance("kettle", 2100.0, run_s=180.0),
        hm.Appliance("heat pump", 1400.0, run_s=2160.0),
        hm.Appliance("washing machine", levels=(250.0, 1950.0), run_s=4320.0, energy_wh=900.0),
        hm.Appliance("fridge", 160.0, run_s=1080.0),
    ],
    tolerance=40.0,
)
CLAMP = (0.0, 12_000.0)
USE_S = 5400.0
UNITS = (
    ("appliance", "reading"),
    ("appliance", "run"),
    ("appliance", "day"),
    ("appliance", "capped day"),
    ("appliance", "when"),
    ("fluctuation", "reading"),
    ("range", "reading"),
    ("change", "reading"),
)
QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate],  # the message names the case, so nothing needs to be made smaller
)
SLOW = settings(QUICK, max_examples=2400)
READINGS = {6: 600, 10: 300, 60: 480, 900: 100, 1800: 60, 3600: 40}


@st.composite
def cases(draw, kind):
    """A meter, a load, a unit of protection and one protected change of that unit."""
    write, intervals, steps = FORMATS[kind]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    interval = draw(st.sampled_from(intervals))
    start = draw(
        st.sampled_from([ordinary_day(3), clock_change(autumn=True), clock_change(autumn=False)])
    )
    meter = Meter(
        start,
        interval,
        READINGS[interval],
        draw(st.sampled_from(steps)),
        phase=float(rng.random()),
        jitter=draw(st.sampled_from([0.0, 0.4])) * min(interval, 10),
        seed=int(rng.integers(2**31)),
    )
    protect, span = draw(st.sampled_from(UNITS))
    member = HOME.appliances[int(rng.integers(len(HOME)))]
    load = random_load(meter.start, float(meter.starts[-1]), rng)
    if span == "when":
        # The same run at two times that are less than a day apart.
        seed, apart = rng.integers(2**32), rng.uniform(-1, 1) * (80_000 - member.protected_run_s)
        load, other = (
            add_change(
                load,
                meter,
                protect,
                "run",
                member,
                np.random.default_rng(seed),
                aligned=False,
                shift=s,
            )
            for s in (0.0, apart)
        )
        every = draw(st.sampled_from([None, 3600 if interval >= 60 else 600]))
        return write, meter, load, other, (protect, span, member.name, every)
    other = add_change(load, meter, protect, span, member, rng, aligned=draw(st.booleans()))
    every = draw(st.sampled_from([None, 3600 if interval >= 60 else 600]))
    return write, meter, load, other, (protect, span, member.name, every)


def add_change(load, meter, protect, span, member, rng, *, aligned, shift=0.0):
    """The load with one change that the unit protects."""
    ends = float(meter.starts[-1])
    if span == "reading":
        row = int(rng.integers(meter.readings))
        watts = {
            "appliance": member.protected_power,
            "fluctuation": HOME.tolerance / 2,
            "range": CLAMP[1] - 2400.0,
            "change": 300.0,
        }[protect]
        first = float(meter.starts[row])
        return load.plus(first, first + meter.interval_s, watts * rng.choice([1.0, rng.random()]))
    if span == "run":
        length = member.protected_run_s * rng.choice([1.0, rng.uniform(0.2, 1.0)])
        watts = member.protected_power
        if member.energy_wh is not None:
            length = min(length, member.energy_wh * 3600 / watts)
        row = float(rng.choice(meter.starts))
        offset = 0.0 if aligned else rng.uniform(-meter.interval_s, meter.interval_s)
        first = float(exact_time(row + offset + shift))
        return load.plus(first, first + float(exact_time(length)), watts)
    # A day of an appliance: on for all of it, or switching as it likes.
    length = 25 * 3600.0
    first = float(exact_time(rng.uniform(meter.start - length / 2, ends)))
    if span == "capped day":
        # Ten runs anywhere in the day, which together last as long as the cap allows.
        starts = np.sort(rng.choice(int(length) // 600, 10, replace=False)) * 600.0
        for start in starts:
            begin = float(exact_time(first + start))
            load = load.plus(begin, begin + USE_S / 10, member.protected_power)
        return load
    if rng.random() < 0.5:
        return load.plus(first, first + length, member.protected_power)
    moments = np.sort(exact_time(rng.uniform(first, first + length, 20)))
    for moment in moments.reshape(-1, 2):
        load = load.plus(float(moment[0]), float(moment[1]), member.protected_power)
    return load


def check_pair(case):
    """Read both files and compare all that is public and all that would get noise."""
    write, meter, load, other, (protect, span, appliance, every) = case
    name, content, fields = write(load, meter)
    neighbour = write(other, meter)[1]
    one, two = (read_bytes(data, name, options_of(fields)) for data in (content, neighbour))
    units = [resolve(recording, protect, span, appliance, every) for recording in (one, two)]
    if isinstance(units[0], str) or isinstance(units[1], str):
        assert units[0] == units[1]
        return "refused"
    problems = compare_neighbours(one, two, units[0])
    assert not problems, (name, meter, protect, span, appliance, every, problems)
    assert receipt(one, units[0]) == receipt(two, units[1])
    return "compared"


def resolve(recording, protect, span, appliance, every):
    """The unit of a release of this file, or the sentence with which it is refused."""
    trace = recording.trace
    use = USE_S if span == "capped day" else None
    try:
        return hm.resolve_unit(
            protect,
            "day" if use else span,
            use=use,
            interval_s=trace.interval_s,
            home=HOME,
            appliance=appliance if protect == "appliance" else None,
            clamp=CLAMP,
            watts=300.0,
            every=every,
            metering=trace.metering,
            readings=len(trace),
        )
    except InputError as error:
        return str(error)


def receipt(recording, unit):
    """The public receipt without the digests of the readings, or the refusal."""
    try:
        mechanism = hm.calibrate("laplace", 1.0, unit)
    except HushmeterError as error:
        return str(error)
    trace = recording.trace
    released = trace if unit.window == 1 else trace.coarsen(unit.window * unit.interval_s)
    public, _ = write_receipts(trace, released, mechanism, unit, home=None, simulation=False)
    fields = public.to_dict()
    del fields["output"]["sha256"]
    return fields


@pytest.mark.parametrize("kind", FORMATS)
def test_neighbouring_files(kind):
    """60 pairs for each of eleven formats: 660 pairs in all."""
    outcomes = Counter()

    @QUICK
    @given(cases(kind))
    def check(case):
        outcomes[check_pair(case)] += 1

    check()
    assert outcomes["compared"] >= 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_many_neighbouring_files(kind):
    """2400 pairs for each of eleven formats: 26 400 pairs in all."""
    outcomes = Counter()

    @SLOW
    @given(cases(kind))
    def check(case):
        outcomes[check_pair(case)] += 1

    check()
    assert outcomes["compared"] >= 1200


def plain_recordings(change):
    load = random_load(0.0, 6000.0, np.random.default_rng(1))
    meter = Meter(0, 60, 100, 0.001)
    write = FORMATS["plain csv"][0]
    return [
        read_bytes(write(each, meter)[1], "meter.csv", options_of({}))
        for each in (load, change(load))
    ]


def test_a_violation_of_every_kind_is_found():
    unit = hm.resolve_unit("change", interval_s=60.0, watts=100.0)
    one, two = plain_recordings(lambda load: load.plus(600.0, 720.0, 250.0))
    problems = compare_neighbours(one, two, unit)
    assert [problem.split(" is ")[0] for problem in problems] == [
        "Δ1", "Δ2", "the largest change", "the number of touched values",
    ]  # fmt: skip
    assert compare_neighbours(one, one, unit) == []
    longer = read_bytes(b"timestamp,watts\n0,1\n60,2\n120,3\n", "meter.csv", options_of({}))
    assert any("times differs" in problem for problem in compare_neighbours(one, longer, unit))


NOT_AUDITED = ("xlsx", "nem12")


@pytest.mark.parametrize("kind", NOT_AUDITED)
def test_the_audit_refuses_a_file_whose_values_it_cannot_change(kind, tmp_path):
    write, intervals, steps = FORMATS[kind]
    meter = Meter(ordinary_day(3), intervals[-1], 60, steps[0])
    load = random_load(meter.start, float(meter.starts[-1]), np.random.default_rng(5))
    name, content, fields = write(load, meter)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"^[^\n]+$"):
        audit_file(tmp_path / name, HOME, pairs=1, options=options_of(fields), rng=1)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in NOT_AUDITED])
def test_the_audit_of_a_file_finds_its_values(kind, tmp_path):
    write, intervals, steps = FORMATS[kind]
    meter = Meter(ordinary_day(3), intervals[-1], 60, steps[0])
    load = random_load(meter.start, float(meter.starts[-1]), np.random.default_rng(5))
    name, content, fields = write(load, meter)
    (tmp_path / name).write_bytes(content)
    home = HOME.subset(["kettle", "fridge"])
    for span in ("run", "when"):
        found = audit_file(
            tmp_path / name, home, span=span, pairs=4, options=options_of(fields), rng=1
        )
        assert found.problems == ()
        assert found.pairs == 8
        assert 0.0 < found.largest_share <= 1.0 + 1e-9


def test_a_repeated_row_is_not_taken_for_a_counter(tmp_path):
    """One value more than readings, but the values are powers: the audit must not add them up."""
    rows = [f"2024-03-05T{i // 4:02d}:{15 * (i % 4):02d}:00Z,{100 + i}" for i in range(96)]
    text = "\n".join(["timestamp,watts", *rows[:50], rows[49], *rows[50:]]) + "\n"
    (tmp_path / "meter.csv").write_text(text)
    with pytest.raises(DataError, match="rows are repeated, left out or combined"):
        audit_file(tmp_path / "meter.csv", HOME.subset(["kettle"]), pairs=2, rng=1)


def test_the_audit_covers_the_tables_of_a_calendar_release(tmp_path, monkeypatch):
    write, _, steps = FORMATS["plain csv"]
    meter = Meter(ordinary_day(3), 900, 96 * 3, steps[0])
    load = random_load(meter.start, float(meter.starts[-1]), np.random.default_rng(5))
    name, content, fields = write(load, meter)
    (tmp_path / name).write_bytes(content)
    # The washing machine takes less energy than a run at full power.
    home, options = HOME.subset(["kettle", "washing machine"]), options_of(fields)
    audit = {"span": "run", "pairs": 12, "views": True, "options": options, "rng": 1}
    assert audit_file(tmp_path / name, home, **audit).problems == ()

    # A plan that declares half of the sensitivities is caught.
    def too_small(*arguments, **more):
        plan = plan_views(*arguments, **more)
        return replace(plan, sensitivities=plan.sensitivities / 2)

    monkeypatch.setattr("hushmeter.releases.neighbours.plan_views", too_small)
    problems = audit_file(tmp_path / name, home, **audit).problems
    assert any("the table of total moves by" in problem for problem in problems)


VIEW_FORMATS = [kind for kind in FORMATS if set(FORMATS[kind][1]) & {900, 1800, 3600}]
VIEW_SPANS = ("reading", "run", "day", "capped day")


@st.composite
def view_cases(draw, kind):
    """A meter over two to four days, a load and one protected change."""
    write, intervals, steps = FORMATS[kind]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    interval = draw(st.sampled_from([i for i in intervals if i in (900, 1800, 3600)]))
    start = draw(
        st.sampled_from([ordinary_day(3), clock_change(autumn=True), clock_change(autumn=False)])
    )
    count = int(rng.integers(50, 100)) * 3600 // interval
    step = draw(st.sampled_from(steps))
    meter = Meter(
        start, interval, count, step, phase=float(rng.random()), seed=int(rng.integers(99))
    )
    span = draw(st.sampled_from(VIEW_SPANS))
    member = HOME.appliances[int(rng.integers(len(HOME)))]
    load = random_load(meter.start, float(meter.starts[-1]), rng)
    other = add_change(load, meter, "appliance", span, member, rng, aligned=draw(st.booleans()))
    zone = draw(st.sampled_from(["UTC", "Europe/London"]))
    return write, meter, load, other, (span, member.name, zone)


def check_views(case):
    """The four tables without noise differ by no more than the receipt of the views declares."""
    write, meter, load, other, (span, appliance, zone) = case
    name, content, fields = write(load, meter)
    neighbour = write(other, meter)[1]
    one, two = (read_bytes(data, name, options_of(fields)) for data in (content, neighbour))
    unit = resolve(one, "appliance", span, appliance, 3600)
    try:
        calendars = [lay_out(r.trace.coarsen(3600), zone) for r in (one, two)]
        plan = plan_views(unit, calendars[0], epsilon=1)
    except HushmeterError:
        return "refused"
    np.testing.assert_array_equal(calendars[0].cells.times, calendars[1].cells.times)
    tables = [
        add_up(r.trace.coarsen(3600).readings, calendar, plan.grid)
        for r, calendar in zip((one, two), calendars, strict=True)
    ]
    for a, b, most in zip(*tables, plan.sensitivities, strict=True):
        moved = np.linalg.norm((a - b).astype(float))
        assert moved <= most, (name, meter, span, appliance, zone, moved, most)
    return "compared"


@pytest.mark.parametrize("kind", VIEW_FORMATS)
def test_views_of_neighbouring_files(kind):
    """40 pairs for each format, more than 200 in all."""
    outcomes = Counter()

    @settings(QUICK, max_examples=40)
    @given(view_cases(kind))
    def check(case):
        outcomes[check_views(case)] += 1

    check()
    assert outcomes["compared"] >= 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", VIEW_FORMATS)
def test_views_of_many_neighbouring_files(kind):
    """800 pairs for each of seven formats, more than 5000 in all."""
    outcomes = Counter()

    @settings(QUICK, max_examples=800)
    @given(view_cases(kind))
    def check(case):
        outcomes[check_views(case)] += 1

    check()
    assert outcomes["compared"] >= 720
