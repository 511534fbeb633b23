"""The promise from file to file: neighbouring raw files, read through the public entry.

Two files of the same home differ by one reading, one run or one day of an appliance (or by
another protected change). Everything public must be equal, and what would get noise may differ by
no more than the unit of protection declares.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.neighbours.audit import audit_file, compare_neighbours
from tests.neighbours.cases import (
    HOME,
    PEAK,
    check_pair,
    check_tables,
    count_outcomes,
    draw_pair,
)
from tests.neighbours.raw_files import (
    WRITERS,
    Meter,
    csv,
    options_of,
    ordinary_day,
    random_house,
    samples,
)

import hushmeter as hm
from hushmeter.errors import DataError, HushmeterError
from hushmeter.read import read_bytes
from hushmeter.releases.promise import Promise

FEW, MANY = 4, 420
TABLES, MANY_TABLES = 2, 300


@pytest.mark.parametrize("kind", WRITERS)
def test_neighbouring_files(kind):
    """4 pairs of each of 58 kinds of files: 232 pairs in all."""
    count_outcomes(kind, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
def test_many_neighbouring_files(kind):
    """420 pairs of each of 58 kinds of files: 24 360 pairs in all."""
    count_outcomes(kind, MANY)


def plain_recordings(change):
    meter = Meter(0, 60, 100, 0.001)
    house = random_house(0.0, 6000.0, np.random.default_rng(1), solar=False)
    return [
        read_bytes(WRITERS["plain csv"].write(each, meter)[1], "meter.csv", options_of({}))
        for each in (house, change(house))
    ]


def test_a_violation_of_every_kind_is_found():
    one, two = plain_recordings(lambda house: house.plus("kettle", 600.0, 720.0, 250.0))
    promise = hm.Request(epsilon=1, watts=100.0).resolve(hm.metered(one.trace))
    problems = compare_neighbours(one, two, promise)
    assert [problem.split(" is ")[0] for problem in problems] == [
        "Δ1", "Δ2", "the largest change", "the number of touched values",
    ]  # fmt: skip
    assert compare_neighbours(one, one, promise) == []
    longer = read_bytes(b"timestamp,watts\n0,1\n60,2\n120,3\n", "meter.csv", options_of({}))
    assert any("times differs" in problem for problem in compare_neighbours(one, longer, promise))


# Files with gaps in every day have no hours.
TABLE_KINDS = [
    kind for kind, writer in WRITERS.items()
    if writer.compared and set(writer.intervals) & {900, 1800, 3600}
    and kind not in ("uneven register", "fluvius", "missing marks")
]  # fmt: skip
TABLE_SPANS = tuple(("appliance", span) for span in ("reading", "run", "day", "capped day"))


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_tables_of_neighbouring_files(kind):
    """2 pairs of each kind of file with readings of a quarter of an hour or more."""
    count_outcomes(kind, TABLES, check_tables, spans=TABLE_SPANS, days=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_tables_of_many_neighbouring_files(kind):
    """300 pairs of each of these kinds, more than 8000 in all."""
    count_outcomes(kind, MANY_TABLES, check_tables, spans=TABLE_SPANS, days=3)


def test_samples_need_the_time_between_them_in_the_length_of_a_run():
    """A run of 100 s can lie in two samples a minute apart, as docs/limitations.md says."""
    meter = Meter(ordinary_day(3), 60, 100, 1.0)
    rng = np.random.default_rng(1)
    house = random_house(meter.start, float(meter.starts[-1]), rng, solar=False)
    first = float(meter.starts[50])
    sheets = [samples(h, meter) for h in (house, house.plus("kettle", first, first + 100, 2100.0))]
    one, two = (read_bytes(csv(s)[1], "meter.csv", options_of(s.options)) for s in sheets)
    for run_s, holds in ((100.0, False), (160.0, True)):
        home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=run_s)])
        promise = hm.Request(epsilon=1, home=home, span="run").resolve(hm.metered(one.trace))
        assert (compare_neighbours(one, two, promise) == []) is holds


# The audit of a user's own file -----------------------------------------------------------------

NOT_WRITTEN = ("ha recorder states", "ha recorder sums", "nilmtk")
AUDITED = [k for k, writer in WRITERS.items() if writer.compared and k not in NOT_WRITTEN]


def audit(path, home, *, options, pairs, **request):
    given = {"span": "run", "mechanism": "gaussian", **request}
    wish = hm.Request(epsilon=1, home=home, **given)
    return audit_file(path, wish, pairs=pairs, options=options, rng=1)


def written(kind, folder, seed=5, *, solar=True):
    """A file of a kind on disk, and the options to read it."""
    writer = WRITERS[kind]
    interval = writer.intervals[-1]
    readings = writer.days * 86_400 // interval or 100
    meter = Meter(ordinary_day(3), interval, readings, writer.steps[0], phase=0.3, seed=8)
    rng = np.random.default_rng(seed)
    sun = writer.solar and solar
    house = random_house(meter.start, float(meter.starts[-1]), rng, solar=sun)
    name, content, fields = writer.write(house, meter)
    (folder / name).write_bytes(content)
    return folder / name, options_of(fields)


@pytest.mark.parametrize("kind", NOT_WRITTEN)
def test_the_audit_refuses_a_file_that_it_cannot_write(kind, tmp_path):
    path, options = written(kind, tmp_path)
    with pytest.raises(DataError, match=r"^[^\n]+ which an audit cannot write[^\n]+$"):
        audit(path, HOME, pairs=1, options=options)


@pytest.mark.parametrize("kind", [k for k in AUDITED if not WRITERS[k].refused_one])
def test_the_audit_of_a_file_finds_its_values(kind, tmp_path):
    home = HOME.subset(["kettle", "fridge"])
    # Sums of days need readings of one length, one register, and a meter that records all use.
    for span in ("run",) if kind in ("uneven register", "tariff registers") else ("run", "when"):
        path, options = written(kind, tmp_path, solar=span == "run")
        found = audit(path, home, span=span, pairs=3, options=options)
        assert found.problems == ()
        assert found.pairs == 6
        assert found.refused == 0
        assert 0.0 < found.largest_share <= 1.0 + 1e-9


def test_the_audit_finds_that_sums_of_days_show_a_run_beside_solar_panels(tmp_path):
    """What a run takes from the panels is missing from the sum of what the meter counts."""
    path, options = written("import and export", tmp_path)
    found = audit(path, HOME.subset(["kettle"]), span="when", pairs=12, options=options)
    assert any("the change of the sum of a day is" in problem for problem in found.problems)


def test_the_audit_names_the_columns_that_it_does_not_change(tmp_path):
    path, options = written("uci", tmp_path)
    found = audit(path, HOME.subset(["kettle"]), pairs=2, options=options)
    assert "Global_intensity" in found.not_changed
    path, options = written("plugs zero while off", tmp_path)
    found = audit(path, HOME.subset(["kettle"]), pairs=2, options=options)
    assert "kettle" not in found.not_changed
    assert "fridge" in found.not_changed


def table(header, rows):
    moments = [f"2024-03-05T{i // 60:02d}:{i % 60:02d}:00Z" for i in range(1440)]
    return "\n".join([header, *(f"{moments[i]},{row}" for i, row in rows)]) + "\n"


def telling_files():
    """Files in which a run of the kettle once decided what was public."""
    rng = np.random.default_rng(3)
    watts = rng.integers(80, 400, 1440)
    minutes = range(1440)
    cells = {500: "2.31 kW", 501: "2.30 kW", 502: "2.29 kW"}
    few = rng.integers(80, 84, 1440)
    new = [i for i in minutes if i == 0 or few[i] != few[i - 1]]
    net = 200 + 800 * np.sin(np.arange(1440) / 100)
    words = ["Import" if w >= 0 else "Export" for w in net]
    return {
        "empty while off": table(
            "timestamp,watts,kettle,fridge", [(i, f"{watts[i]},,70") for i in minutes]
        ),
        "one run": table(
            "timestamp,watts,kettle,fridge",
            [(i, f"{watts[i]},,70" if i // 3 != 167 else "2300,2100,70") for i in minutes],
        ),
        "unit in cells": table(
            "timestamp,power", [(i, cells.get(i, f"{watts[i]} W")) for i in minutes]
        ),
        "no kilowatt yet": table("timestamp,power", [(i, f"{watts[i]} W") for i in minutes]),
        "out of range": table(
            "timestamp,watts", [(i, ">2000" if i == 9 else str(watts[i])) for i in minutes]
        ),
        "direction": table(
            "timestamp,direction,power (W)", [(i, f"{words[i]},{abs(net[i]):.0f}") for i in minutes]
        ),
        "changes": table("timestamp,watts", [(i, str(few[i])) for i in new]),
    }


@pytest.mark.parametrize("name", telling_files())
def test_no_file_reveals_a_run(name, tmp_path):
    """Each of these files failed its audit: times, gaps and notes followed from the values."""
    (tmp_path / "meter.csv").write_text(telling_files()[name])
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    options = options_of({"step": 10.0})
    try:
        found = audit(tmp_path / "meter.csv", home, pairs=8, options=options)
    except HushmeterError:
        found = None
    # A refusal publishes nothing, but a plug is no reason for one.
    assert found is not None or name not in ("empty while off", "one run")
    assert found is None or (found.problems, "direction" in found.not_changed) == ((), False)


def test_the_audit_catches_a_reader_that_makes_gaps(tmp_path, monkeypatch):
    """A reader that leaves out rows without a value of the kettle fails the audit."""

    def gaps_of_circuits(content, name, options):
        header, *lines = content.decode().splitlines()
        kept = [line for line in lines if line.split(",")[2]] or lines
        return read_bytes("\n".join([header, *kept, ""]).encode(), name, options)

    monkeypatch.setattr("tests.neighbours.rewriting.read_bytes", gaps_of_circuits)
    (tmp_path / "meter.csv").write_text(telling_files()["one run"])
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    options = options_of({"step": 1.0})
    found = audit(tmp_path / "meter.csv", home, pairs=4, options=options)
    assert any("times differs" in problem for problem in found.problems)


@pytest.mark.parametrize("tables", [("views",), ("days", "months"), ("hours", "days", PEAK)])
def test_the_audit_covers_tables(tmp_path, monkeypatch, tables):
    meter = Meter(ordinary_day(3), 900, 96 * 3, 0.01)
    rng = np.random.default_rng(5)
    house = random_house(meter.start, float(meter.starts[-1]), rng, solar=False)
    name, content, fields = WRITERS["plain csv"].write(house, meter)
    (tmp_path / name).write_bytes(content)
    # The washing machine takes less energy than a run at full power.
    home, options = HOME.subset(["kettle", "washing machine"]), options_of(fields)
    given = {"pairs": 12, "tables": tables, "options": options}
    assert audit(tmp_path / name, home, **given).problems == ()

    # A promise that declares half of the lengths is caught.
    whole = Promise.lengths.fget
    monkeypatch.setattr(Promise, "lengths", property(lambda self: whole(self) / 2))
    problems = audit(tmp_path / name, home, **given).problems
    assert any("the change of the table days in grid steps is" in problem for problem in problems)


def test_pairs_are_the_same_in_every_run():
    first, again = (draw_pair("json", 3).files[1] for _ in range(2))
    assert first == again
    assert check_pair(draw_pair("plain csv", 0)) == "compared"
