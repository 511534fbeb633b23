"""Two streams that differ by one run look the same, as every meter would have sent them."""

import re
import zlib
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

import hushmeter as hm
from hushmeter.apps.live.state import read_state
from hushmeter.apps.live.stream import Terms
from hushmeter.cli import app
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError
from tests.apps.live.meters import BEGIN as LAST_HOURS
from tests.apps.live.meters import (
    BEYOND_THE_DECLARED,
    HOURS,
    METERS,
    RUN_S,
    RUN_W,
    ChangesMeter,
    neighbouring_loads,
    outages,
)
from tests.apps.live.streams import BEGIN, KEY, Bench, exact_tables

PAIRS = 8


TABLES = {
    "series": (),
    "views": ("views",),
    # Bands that overlap are two tables.
    "bands": ("views", "late = 22:00-23:00", "night = 20:00-06:00"),
}


@cache
def promise_for(interval_s, tables):
    """The promise of one run of the kettle in samples of this length."""
    home = hm.Home([hm.Appliance("k", RUN_W, run_s=RUN_S)])
    request = hm.Request(epsilon=1.0, span="run", every="15min", home=home, tables=tables)
    return request.resolve(hm.Metered(interval_s, hm.Metering(resolution_w=1.0), samples=True))


def terms_for(meter, tables=()):
    """Terms that protect one run of the kettle in the windows of this meter."""
    changes = isinstance(meter, ChangesMeter)
    return Terms(
        "home", promise_for(meter.interval_s, tables), grace_s=meter.grace_s, hold=changes,
        heartbeat_s=meter.heartbeat_s if changes and meter.after == "heartbeat" else 0.0,
    )  # fmt: skip


def run_service(terms, meter, events, path):
    """Give the events to a service, whose clock ticks once a minute and at every due time."""
    bench = Bench(terms, path, meter.kind, LAST_HOURS, new_key=lambda _: KEY)
    ticks = [(float(second), "tick", b"") for second in range(0, HOURS * 3600 + 60, 60)]
    ticks += [(900.0 * n + add, "tick", b"") for n in range(1, 9) for add in (10.0, 11.0)]
    for at, what, payload in sorted([*ticks, *events], key=lambda event: event[0]):
        moment = LAST_HOURS + int(at * SECOND)
        if what == "message":
            bench.send(moment, payload)
        elif what == "tick":
            bench.tick(moment)
        else:
            bench.now = moment
            bench.service.back() if what == "back" else bench.service.lost("lost.")
    rows, sums = bench.state.windows(0, 1 << 40), bench.state.sums_of("2024-03")
    bench.state.close()
    return bench, rows, sums


def moved_tables(terms, rows, sums):
    """How far two streams differ in every table before the noise, Euclidean [grid steps]."""
    pairs = [exact_tables(terms, *stream) for stream in zip(rows, sums, strict=True)]
    return np.array([np.linalg.norm(one - two) for one, two in zip(*pairs, strict=True)])


def check_pair(meter, tables, seed, folder, *, within):
    """Run both streams and compare everything that is public, and the means before the noise."""
    rng = np.random.default_rng(seed)
    lost = outages(rng)
    loads, send = neighbouring_loads(rng, lost), meter.prepare(rng, lost)
    terms = terms_for(meter, tables)
    benches, rows, sums = zip(
        *(run_service(terms, meter, send(load), folder / f"{n}.db")
          for n, load in enumerate(loads)),
        strict=True,
    )  # fmt: skip
    one, two = benches
    assert one.public() == two.public()
    assert one.log == two.log
    assert [(r.number, r.share) for r in rows[0]] == [(r.number, r.share) for r in rows[1]]
    assert [(s.table, s.label) for s in sums[0]] == [(s.table, s.label) for s in sums[1]]
    assert len(rows[0]) == HOURS * 4
    means = np.array([[r.mean or 0.0 for r in part] for part in rows])
    change, unit = np.abs(means[1] - means[0]), one.service.terms.unit
    if within:
        assert change.sum() <= unit.l1 * (1 + 1e-9)
        assert np.sqrt((change**2).sum()) <= unit.l2 * (1 + 1e-9)
        assert change.max() <= unit.largest * (1 + 1e-9)
        assert (change > 1e-9).sum() <= unit.touches
    if within and any(row.value is not None for row in rows[0]):
        moved = moved_tables(terms, rows, sums)
        assert (moved <= terms.promise.lengths).all()
        assert terms.by_month == (len(tables) > 0)
    shares = [r.share for r in rows[0]]
    return change.sum() / unit.l1, min(shares) < 1


@pytest.mark.parametrize("pairs", [PAIRS, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METERS)
def test_neighbouring_streams_look_the_same(tmp_path, name, pairs):
    meter = METERS[name]
    found = []
    for number in range(pairs):
        folder = tmp_path / str(number)
        folder.mkdir()
        seed = zlib.crc32(f"{name} {number}".encode())
        tables = list(TABLES.values())[number % len(TABLES)]
        within = name not in BEYOND_THE_DECLARED
        found.append(check_pair(meter, tables, seed, folder, within=within))
    # The test looks at something: runs move the means, and connections are lost.
    assert max(moved for moved, _ in found) > 0.3
    assert any(gap for _, gap in found)


def table_of_changes(rng, load, path):
    """A table with one row for every change of a load."""
    rows = np.flatnonzero(np.append(True, np.diff(load) != 0))
    times = np.datetime64(BEGIN, "ns") + rows * np.timedelta64(1, "s")
    lines = [f"{t.astype('datetime64[s]')}Z,{load[n]}" for t, n in zip(times, rows, strict=True)]
    path.write_text("\n".join(["time,watts", *lines]) + "\n")


SHORT_S = 72
"""A run that touches two minutes."""

PROTECT = ["--hide", f"kettle {RUN_W} W {SHORT_S} s", "--step", "0"]
TABLE = ["--interval", "60s", "--every", "15min", "--to", "out", "--once", *PROTECT]


def published(folder, words, monkeypatch):
    """What a command writes, with every value replaced."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["live", "meter.csv", *TABLE, *words])
    assert done.exit_code == 0, done.exception
    files = {
        path.name: re.sub(r",[-0-9.]+", ",?", path.read_text())
        for path in (folder / "out").glob("*.csv")
    }
    return re.sub(r"  [-0-9.]+ W", "  ? W", done.stdout), done.stderr, files


@pytest.mark.parametrize("seed", range(6))
def test_neighbouring_tables_of_changes(tmp_path, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    seen, means = [], []
    for name, load in zip("ab", neighbouring_loads(rng, longest=SHORT_S), strict=True):
        (tmp_path / name).mkdir()
        # The last change is in the middle; the run may be later than it.
        table_of_changes(rng, load, tmp_path / name / "meter.csv")
        words = ["--changes", "yes", "--until", "2024-03-01T02:00Z"]
        seen.append(published(tmp_path / name, words, monkeypatch))
        kept = read_state(tmp_path / name / "live.db")
        means.append([row.mean for row in kept.windows])
    assert seen[0] == seen[1]
    assert seen[0][0].count(" ? W") == HOURS * 4
    change, unit = np.abs(np.subtract(*means)), kept.terms["unit"]
    assert change.sum() <= RUN_W * SHORT_S / 900 + 1e-9 < unit["l1"]
    assert (change > 1e-9).sum() <= unit["touches"]


def test_a_run_after_the_last_change_shows_no_more_windows(tmp_path, monkeypatch):
    base = np.full(HOURS * 3600, 200)
    run = base.copy()
    run[5000:5060] += RUN_W
    seen = []
    for name, load in (("a", base), ("b", run)):
        (tmp_path / name).mkdir()
        table_of_changes(None, load, tmp_path / name / "meter.csv")
        words = ["--changes", "yes", "--until", "2024-03-01T02:00Z"]
        seen.append(published(tmp_path / name, words, monkeypatch))
    assert seen[0] == seen[1]
    assert seen[0][0].count(" ? W") == HOURS * 4


def test_the_next_change_of_a_growing_file_is_no_clock(tmp_path):
    """Windows of a meter that sends changes close by the clock of this machine."""
    bench = Bench(terms_for(METERS["changes, silent"]), tmp_path / "s.db")
    bench.service.back()
    bench.send(BEGIN, b"200")
    bench.send(BEGIN + 3600 * SECOND, b"900")
    assert bench.published == []
    bench.tick(BEGIN + 3600 * SECOND)
    bench.tick(BEGIN + 3611 * SECOND)
    assert len(bench.published) == 4
    bench.state.close()


def test_a_table_of_changes_needs_a_stated_end(tmp_path, monkeypatch):
    load, _ = neighbouring_loads(np.random.default_rng(1))
    table_of_changes(None, load, tmp_path / "meter.csv")
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return CliRunner().invoke(app, ["live", "meter.csv", *TABLE, *words]).exception

    assert isinstance(run(), InputError)
    assert "--changes yes" in str(run())
    assert "--until" in str(run("--changes", "yes"))
    assert "later than now" in str(run("--changes", "yes", "--until", "2999-01-01T00:00Z"))
    assert not (tmp_path / "out").exists()


def test_a_table_with_a_word_is_refused_before_anything_is_published(tmp_path, monkeypatch):
    lines = [f"{1_709_251_200 + 60 * n},{100 + n}" for n in range(120)]
    lines[100] = lines[100].split(",")[0] + ",>2000"
    (tmp_path / "meter.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["live", "meter.csv", *TABLE])
    assert isinstance(done.exception, DataError)
    assert "a value is not a number" in str(done.exception)
    assert not (tmp_path / "out").exists()
