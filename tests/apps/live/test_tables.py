"""Several tables as a stream: the numbers of the file release, one promise, one value each."""

import json
import math

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.apps.ledger.payment import price_of
from hushmeter.apps.live.addresses import FolderSink, LineSource
from hushmeter.apps.live.delivery import LedgerAccount
from hushmeter.apps.live.payloads import make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import State, read_state
from hushmeter.apps.live.stream import read_terms, watch_windows
from hushmeter.errors import InputError
from hushmeter.noise.gaussian import joint_epsilon, joint_odds
from hushmeter.privacy import compose_change
from hushmeter.releases.estimate import lengths_of
from hushmeter.releases.files import read_release
from hushmeter.releases.labels import cells_of
from tests.apps.live.streams import (
    BANDS,
    KEY,
    Witness,
    exact_tables,
    make_band_terms,
    make_calendar_terms,
    make_terms,
    make_trace,
    run_table,
    write_table,
)


def month_of(start, days, interval_s=900.0):
    return make_trace(days, interval_s=interval_s, start=start)


def run_tables(folder, trace, terms, keys=(KEY,), sinks=()):
    table = write_table(folder / "meter.csv", trace)
    witness, left = Witness(), list(keys)
    run_table(
        table,
        terms,
        folder / "s.db",
        [witness, *sinks],
        new_key=lambda _: left.pop(0) if len(left) > 1 else left[0],
    )
    return witness


@pytest.fixture(scope="module")
def april(tmp_path_factory):
    """A stream of one month: its readings, its terms, what it published and its state."""
    folder = tmp_path_factory.mktemp("april")
    trace, terms = month_of("2024-04-01T00:00Z", 30), make_calendar_terms()
    return trace, terms, run_tables(folder, trace, terms), read_state(folder / "s.db")


def steps_by_table(witness):
    """Every published number in grid steps, by its table."""
    found = {
        "cells": [m["noisy_steps"] for m in witness.messages("window") if m["watts"] is not None]
    }
    for table, kind in (("days", "day"), ("months", "month")):
        known = [m["noisy_steps"] for m in witness.messages(kind) if "noisy_steps" in m]
        found |= {table: known} if known else {}
    for item in witness.items:
        if "values" in item.message:
            found[item.kind] = [row["noisy_steps"] for row in item.message["values"]]
    return found


def check_month(folder, trace, terms, witness, out):
    """A month of a stream against the release of its readings with the same key."""
    file = terms.promise.release(trace, key=KEY)
    tables = [entry.name for entry in terms.promise.tables]
    published = steps_by_table(witness)
    assert published == {name: file.noisy_steps(name).tolist() for name in tables}
    (month,) = witness.messages("month")
    energy = file.view("months")
    assert month["kwh"] == pytest.approx(float(energy.values[0]), abs=1e-5)
    assert month["standard_error_kwh"] == pytest.approx(float(energy.errors[0]), abs=1e-5)
    for name in tables[1:]:
        for message in witness.messages(name):
            view, (unit, error) = file.view(name), ("watts", "standard_error_w")
            if view.unit == "kWh":
                unit, error = "kwh", "standard_error_kwh"
            rows = message["values"]
            assert [row[unit] for row in rows] == pytest.approx(view.values.tolist(), abs=1e-3)
            assert [row[error] for row in rows] == pytest.approx(view.errors.tolist(), abs=1e-3)
    # The files of the month are those of the file release, byte for byte.
    file.save(folder / "file")
    for path in sorted((folder / "file").iterdir()):
        assert (out / month["month"] / path.name).read_bytes() == path.read_bytes(), path.name
    assert hm.verify(out / month["month"]).problems == ()
    return file


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("start", "days", "zone", "every", "make"),
    [
        # A month with a day of 23 hours.
        ("2024-03-01T00:00Z", 31, "Europe/Berlin", "3h", make_calendar_terms),
        ("2024-04-01T00:00Z", 30, "UTC", "6h", make_calendar_terms),
        ("2023-02-01T00:00Z", 28, "UTC", "6h", make_calendar_terms),
        ("2024-04-01T00:00Z", 30, "UTC", "1h", make_band_terms),
        # A month that begins on its last weekend has no cell in the band of weekdays.
        ("2024-03-30T00:00Z", 2, "UTC", "1h", make_band_terms),
        pytest.param("2024-01-01T00:00Z", 31, "UTC", "1h", make_calendar_terms, marks=SLOW),
        pytest.param(
            "2024-02-29T23:00Z", 31 - 1 / 24, "Europe/Berlin", "1h", make_band_terms, marks=SLOW
        ),
        # Days that begin within a window, and a clock that is set back by half an hour.
        pytest.param(
            "2024-02-29T19:00Z", 31, "Asia/Kolkata", "1h", make_calendar_terms, marks=SLOW
        ),
        pytest.param(
            "2024-03-31T13:00Z", 30 + 1 / 24, "Australia/Lord_Howe", "1h", make_calendar_terms,
            marks=SLOW,
        ),
        # A band begins with a window only if the windows are half hours.
        pytest.param(
            "2024-02-29T18:30Z", 31, "Asia/Kolkata", "30min", make_band_terms, marks=SLOW
        ),
    ],
)  # fmt: skip
def test_a_month_has_the_numbers_of_the_file(tmp_path, start, days, zone, every, make):
    trace, terms = month_of(start, days), make(every=every, zone=zone)
    out = tmp_path / "out"
    witness = run_tables(tmp_path, trace, terms, sinks=[lambda kept: FolderSink(out, terms, kept)])
    check_month(tmp_path, trace, terms, witness, out)


@pytest.mark.parametrize("tables", [("views",), BANDS, ("hours", "months")])
def test_the_promise_is_that_of_all_tables(tables):
    terms = make_terms(900.0, tables=tables)
    promise, public = terms.promise, terms.describe()
    noises = [entry.noise for entry in promise.tables]
    lengths = lengths_of([e.table for e in promise.tables], terms.unit.changes, promise.grid)
    assert public["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert public["epsilon"] == joint_epsilon(noises, lengths, promise.delta)
    assert public["odds"] == joint_odds(noises, lengths)
    names = [entry["table"] for entry in public["tables"]]
    assert names[0] == "cells"
    assert ("bands" in names) == (tables is BANDS)
    assert sum(entry["share"] for entry in public["tables"]) == pytest.approx(1.0)
    assert read_terms(json.loads(json.dumps(public))).describe() == public


@pytest.mark.parametrize("make", [make_calendar_terms, make_band_terms])
def test_no_run_moves_the_tables_by_more_than_declared(make):
    """Brute force: a run at any moment, also across midnight, months and a change of the clock."""
    terms = make(interval_s=60.0, zone="Europe/Berlin")
    base = hm.Trace(np.full(4 * 1440, 300.0), 60.0, "2024-03-30T00:00Z")
    promise = terms.promise.on(cells_of(hm.metered(base, terms.zone), 3600.0))
    declared = terms.promise.lengths
    sigmas = np.array([e.noise.scale / e.noise.grid for e in promise.tables])
    budget = float(((declared / sigmas) ** 2).sum())

    def steps(trace):
        cells = promise.to_steps(promise.means(trace)).astype(float)
        return [entry.table.sums(cells) for entry in promise.tables]

    before = steps(base)
    for first in [*range(0, 4 * 1440 - 3, 41), 1438, 2 * 1440 - 122, 2 * 1440 - 121]:
        readings = base.readings.copy()
        readings[first : first + 3] += 2100.0
        after = steps(base.replace_readings(readings))
        lengths = [np.linalg.norm(a - b) for a, b in zip(after, before, strict=True)]
        assert all(length <= most for length, most in zip(lengths, declared, strict=True))
        assert sum((n / s) ** 2 for n, s in zip(lengths, sigmas, strict=True)) <= budget


@pytest.mark.parametrize("make", [make_calendar_terms, make_band_terms])
def test_missing_readings_count_as_zero_before_the_noise(tmp_path, make):
    trace = month_of("2024-04-01T00:00Z", 30, 300.0)
    terms = make(interval_s=300.0, every="1h")
    rng = np.random.default_rng(1)
    keep = rng.random(len(trace)) > 0.02
    keep[5000:5400] = False
    steps = np.flatnonzero(keep)
    gaps = hm.Trace(trace.readings[steps], 300.0, trace.start, steps=steps)
    out = tmp_path / "out"
    witness = run_tables(tmp_path, gaps, terms, sinks=[lambda kept: FolderSink(out, terms, kept)])
    file = check_month(tmp_path, gaps, terms, witness, out)
    shares = file.promise.cells.shares
    assert shares is not None
    known = [m for m in witness.messages("window") if m["watts"] is not None]
    assert [m["share"] for m in known] == pytest.approx(shares.tolist(), abs=1e-4)
    assert not witness.messages("month")[0]["complete"]
    np.testing.assert_allclose(read_release(out / "2024-04").estimate, file.estimate, atol=1e-6)
    # The estimate is that of the readings that are present, so the month is not too small.
    truth = math.fsum(gaps.coarsen(3600.0).readings) / 1000
    energy = file.view("months")
    assert abs(energy.values[0] - truth) < 6 * energy.errors[0]


@pytest.mark.parametrize("make", [make_calendar_terms, make_band_terms])
def test_a_stream_may_begin_and_stop_in_mid_month(tmp_path, make):
    trace, terms = month_of("2024-03-31T14:00Z", 4), make()
    folder = tmp_path / "out"
    witness = run_tables(
        tmp_path, trace, terms, sinks=[lambda kept: FolderSink(folder, terms, kept)]
    )
    assert [m["day"] for m in witness.messages("day")] == [
        "2024-03-31",
        "2024-04-01",
        "2024-04-02",
        "2024-04-03",
    ]
    (month,) = witness.messages("month")
    assert (month["month"], month["windows"], month["due"]) == ("2024-03", 10, 744)
    assert hm.verify(folder / "2024-03").problems == ()
    assert not (folder / "2024-04").exists()


def test_days_are_more_accurate_than_sums_of_hours(april):
    trace, terms, witness, _ = april
    days = witness.messages("day")
    hours = terms.promise.noise.std * math.sqrt(24) / 1000
    assert all(day["standard_error_kwh"] < 0.7 * hours for day in days)
    truth = trace.coarsen(86_400.0).readings * 24 / 1000
    errors = np.array([day["kwh"] for day in days]) - truth
    stated = days[0]["standard_error_kwh"]
    # Chi-squared with 30 degrees of freedom is between 5.6 and 81 but for 1e-6.
    assert 5.6 < float((errors**2).sum()) / stated**2 < 81


def test_restarts_keep_the_key_of_the_month_and_repeat_nothing(tmp_path):
    trace, terms = month_of("2024-04-01T00:00Z", 30), make_band_terms(every="1h")
    keys = [bytes([n]) * 32 for n in range(1, 4)]
    rows = [len(trace) // 3 + 7, 2 * len(trace) // 3 + 1, len(trace)]
    seen = {}
    for key, count in zip(keys, rows, strict=True):
        witness = run_tables(tmp_path, trace[:count], terms, keys=[key])
        for item in witness.items:
            text = json.dumps(item.message, sort_keys=True)
            assert seen.setdefault((item.kind, item.label), text) == text
    kept = read_state(tmp_path / "s.db")
    # Days, month, typical day, typical week, two bands and the rest.
    assert len(kept.sums) == 30 + 1 + 24 + 48 + 3
    exact_tables(terms, kept.windows, kept.sums, keys[0])
    assert sum(kind == "window" for kind, _ in seen) == 720
    # The keys of the month are destroyed, and its sums follow from the exact ones and the noise.
    content = (tmp_path / "s.db").read_bytes()
    assert not any(key in content for key in keys)


@pytest.mark.parametrize("make", [make_terms, make_calendar_terms, make_band_terms])
def test_the_ledger_pays_for_all_tables_from_the_first_day(tmp_path, make):
    url, change = f"sqlite:///{tmp_path}/ledger.db", DayChange(3000, 8000)
    open_ledger(url, create=change).close()
    terms, witness = make(interval_s=900.0), Witness()
    table = write_table(tmp_path / "meter.csv", month_of("2024-04-01T00:00Z", 2))
    with State(tmp_path / "s.db", terms.describe()) as state:
        account = LedgerAccount(url, "m1", "load", terms, state)
        feed = Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True)
        Service(terms, state, feed, [witness], account=account).run()
    # The price is that of a day in the file of a month, and nothing is added later.
    facts = hm.metered(month_of("2024-04-01T00:00Z", 30))
    file = terms.promise.on(cells_of(facts, 3600.0))
    assert account.price == price_of(file, change) == price_of(terms.promise, change)
    with open_ledger(url) as ledger:
        assert ledger.balance("m1").spent == 2 * account.price.micro
    if make is not make_terms:
        # All tables together cost more than the cells alone would.
        day = change.on_unit(terms.unit, None)
        cells = compose_change(terms.promise.noise, day, terms.promise.delta).epsilon
        assert terms.promise.compose(day).epsilon > cells


def test_the_attacker_uses_all_tables(april):
    trace, terms, _, kept = april
    assert json.loads(json.dumps(read_terms(kept.terms).describe())) == kept.terms
    windows = watch_windows(terms, kept.windows, kept.sums)
    raw = trace.coarsen(3600.0).readings
    assert [window.raw_w for window in windows] == pytest.approx(raw.tolist())
    odds = np.array([(w.if_it_ran, w.if_it_did_not) for w in windows])
    # With all tables the odds of the unit hold: right 1/2 + TV/2 of the time.
    right = ((odds[:, 0] >= 0.5).mean() + (odds[:, 1] < 0.5).mean()) / 2
    assert right < terms.promise.odds + 5 * 0.5 / math.sqrt(len(windows))
    # Neighbouring windows share the noise of sums, so the first one of each day is compared with
    # an own computation from the committed tables.
    row, grid = kept.windows[25], float(terms.promise.grid)
    exact = [math.floor(w.mean / grid + 0.5) for w in kept.windows]
    sums = {(s.table, s.label): s.steps for s in kept.sums}
    noise = {
        "cells": row.steps - exact[25],
        "days": sums["days", row.day] - sum(exact[24:48]),
        "typical-day": sums["typical-day", "2024-04 01:00"] - sum(exact[1::24]),
        "months": sums["months", "2024-04"] - sum(exact),
    }
    shift, log = round(terms.unit.largest / grid), 0.0
    for entry in terms.promise.tables:
        n, sigma = noise.pop(entry.name), entry.noise.scale / grid
        log += ((n + shift) ** 2 - n**2) / (2 * sigma**2)
    assert not noise
    assert windows[25].if_it_ran == pytest.approx(1 / (1 + math.exp(-log)), rel=1e-2)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"every": "420s"}, "divide a day"),
        ({"interval_s": 600.0, "every": "15min"}, "600"),
        ({"tables": ("views", "year")}, "leave out year and register"),
        ({"tables": ("views", "register")}, "leave out year and register"),
        ({"tables": ("days", "months")}, "add hours"),
        ({"tables": ("hours", "peak = weekdays 16:30-21:00")}, "within a cell"),
    ],
)
def test_tables_that_a_stream_cannot_fill_are_refused(more, sentence):
    with pytest.raises(InputError, match=sentence):
        make_calendar_terms(**{"interval_s": 60.0, **more})
