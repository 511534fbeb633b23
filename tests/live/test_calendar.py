"""A calendar as a stream: the same numbers as the file release, one promise, one value."""

import json
import math

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.ledger import DayChange, open_ledger
from hushmeter.live.calendar import common_month
from hushmeter.live.payloads import PayloadOptions, make_parser
from hushmeter.live.service import LedgerAccount, Service
from hushmeter.live.sinks import FolderSink
from hushmeter.live.sources import LineSource
from hushmeter.live.state import State, read_state
from hushmeter.live.watch import watch_windows
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.payment import price_of_views
from hushmeter.releases.series import mean_windows
from hushmeter.releases.view_files import read_views, verify_views
from hushmeter.releases.view_plan import epsilon_of, odds_of, rho_of, view_sensitivities
from hushmeter.releases.views import add_up
from tests.live.streams import (
    KETTLE,
    KEY,
    Witness,
    make_calendar_terms,
    make_trace,
    run_table,
    write_table,
)


def month_of(start, days, interval_s=900.0):
    return make_trace(days, interval_s=interval_s, start=start)


def run_calendar(folder, trace, terms, keys=(KEY,), sinks=()):
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
    return trace, terms, run_calendar(folder, trace, terms), read_state(folder / "s.db")


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("start", "days", "zone", "every"),
    [
        # A month with a day of 23 hours.
        ("2024-03-01T00:00Z", 31, "Europe/Berlin", "3h"),
        ("2024-04-01T00:00Z", 30, "UTC", "6h"),
        ("2023-02-01T00:00Z", 28, "UTC", "6h"),
        pytest.param("2024-01-01T00:00Z", 31, "UTC", "1h", marks=SLOW),
        pytest.param("2024-02-29T23:00Z", 31 - 1 / 24, "Europe/Berlin", "1h", marks=SLOW),
        # Days that begin within a window, and a clock that is set back by half an hour.
        pytest.param("2024-02-29T19:00Z", 31, "Asia/Kolkata", "1h", marks=SLOW),
        pytest.param("2024-03-31T13:00Z", 30 + 1 / 24, "Australia/Lord_Howe", "1h", marks=SLOW),
    ],
)
def test_a_month_has_the_numbers_of_the_file(tmp_path, start, days, zone, every):
    trace, terms = month_of(start, days), make_calendar_terms(every=every, zone=zone)
    folder = tmp_path / "out"
    witness = run_calendar(
        tmp_path, trace, terms, sinks=[lambda kept: FolderSink(folder, terms, kept)]
    )
    file = hm.release_views(trace, epsilon=1.0, unit=terms.unit, home=KETTLE, zone=zone, key=KEY)
    cells, day_sums, hours, total = file.tables
    assert [m["noisy_steps"] for m in witness.messages("window")] == cells.tolist()
    assert [m["noisy_steps"] for m in witness.messages("day")] == day_sums.tolist()
    (month,) = witness.messages("month")
    (typical,) = witness.messages("typical-day")
    assert month["noisy_steps"] == total[0]
    assert [hour["noisy_steps"] for hour in typical["hours"]] == hours[0].tolist()
    assert month["kwh"] == pytest.approx(float(file.months.values[0]), abs=1e-5)
    assert month["standard_error_kwh"] == pytest.approx(float(file.months.errors[0]), abs=1e-5)
    assert [hour["watts"] for hour in typical["hours"]] == pytest.approx(
        file.profile.values.tolist(), abs=1e-3
    )
    # The files of the month are those of the file release, byte for byte.
    label = month["month"]
    file.save(tmp_path / "file")
    for path in sorted((tmp_path / "file").iterdir()):
        assert (folder / label / path.name).read_bytes() == path.read_bytes(), path.name
    assert verify_views(folder / label).problems == ()


def test_the_promise_is_that_of_all_tables(tmp_path):
    terms = make_calendar_terms()
    plan, public = terms.plan, terms.describe()
    assert public["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert public["epsilon"] == epsilon_of(rho_of(plan.sensitivities, plan.sigmas), plan.delta)
    assert public["odds"] == odds_of(plan.rho, plan.sigmas)
    assert [entry["table"] for entry in public["tables"]] == ["cells", "days", "hours", "total"]
    assert sum(entry["share"] for entry in public["tables"]) == pytest.approx(1.0)
    # The noise does not depend on the month in which the stream runs.
    for month, days in (("2024-01", 31), ("2024-02", 29), ("2024-04", 30), ("2023-02", 28)):
        file = hm.release_views(
            month_of(f"{month}-01T00:00Z", days), epsilon=1.0, unit=terms.unit, rng=1
        )
        np.testing.assert_array_equal(file.plan.sigmas, plan.sigmas)


def test_no_run_moves_the_tables_by_more_than_declared():
    """Brute force: a run at any moment, also across midnight, months and a change of the clock."""
    terms = make_calendar_terms(interval_s=60.0, zone="Europe/Berlin")
    unit, plan = terms.unit, terms.plan
    base = hm.Trace(np.full(4 * 1440, 300.0), 60.0, "2024-03-30T00:00Z")
    declared = plan.sensitivities
    budget = float(((declared / plan.sigmas) ** 2).sum())
    cells = mean_windows(base, unit)[0]
    calendar = lay_out(cells, terms.zone, whole_day=False)
    before = add_up(cells.readings, calendar, plan.grid)
    for first in [*range(0, 4 * 1440 - 3, 41), 1438, 2 * 1440 - 122, 2 * 1440 - 121]:
        readings = base.readings.copy()
        readings[first : first + 3] += 2100.0
        moved = mean_windows(base.replace_readings(readings), unit)[0].readings
        after = add_up(moved, calendar, plan.grid)
        lengths = [np.linalg.norm(a - b) for a, b in zip(after, before, strict=True)]
        assert all(length <= most for length, most in zip(lengths, declared, strict=True))
        assert sum((n / s) ** 2 for n, s in zip(lengths, plan.sigmas, strict=True)) <= budget


def test_missing_readings_count_as_zero_before_the_noise(tmp_path):
    trace = month_of("2024-04-01T00:00Z", 30, 300.0)
    terms = make_calendar_terms(interval_s=300.0, every="6h")
    rng = np.random.default_rng(1)
    keep = rng.random(len(trace)) > 0.02
    keep[5000:5400] = False
    steps = np.flatnonzero(keep)
    gaps = hm.Trace(trace.readings[steps], 300.0, trace.start, steps=steps)
    folder = tmp_path / "out"
    witness = run_calendar(
        tmp_path, gaps, terms, sinks=[lambda kept: FolderSink(folder, terms, kept)]
    )
    file = hm.release_views(gaps, epsilon=1.0, unit=terms.unit, home=KETTLE, key=KEY)
    assert file.shares is not None
    known = [m for m in witness.messages("window") if m["watts"] is not None]
    assert [m["noisy_steps"] for m in known] == file.tables[0].tolist()
    assert [m["share"] for m in known] == pytest.approx(file.shares.tolist(), abs=1e-4)
    (month,) = witness.messages("month")
    assert month["kwh"] == pytest.approx(float(file.months.values[0]), abs=1e-5)
    assert not month["complete"]
    file.save(tmp_path / "file")
    for path in sorted((tmp_path / "file").iterdir()):
        assert (folder / "2024-04" / path.name).read_bytes() == path.read_bytes(), path.name
    assert verify_views(folder / "2024-04").problems == ()
    np.testing.assert_allclose(read_views(folder / "2024-04").estimate, file.estimate, atol=1e-6)
    # Scaled values are those of the readings that are present, so the month is not too small.
    exact = hm.CalendarRelease(
        file.calendar,
        add_up(file.calendar.cells.readings, file.calendar, file.plan.grid),
        file.plan,
        {},
        shares=file.shares,
    )
    assert exact.months.errors[0] == pytest.approx(file.months.errors[0])


def test_a_stream_may_begin_and_stop_in_mid_month(tmp_path):
    trace, terms = month_of("2024-03-31T14:00Z", 4), make_calendar_terms()
    folder = tmp_path / "out"
    witness = run_calendar(
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
    assert verify_views(folder / "2024-03").problems == ()
    assert not (folder / "2024-04").exists()


def test_days_are_more_accurate_than_sums_of_hours(april):
    trace, terms, witness, _ = april
    days = witness.messages("day")
    hours = terms.std * math.sqrt(24) / 1000
    assert all(day["standard_error_kwh"] < 0.7 * hours for day in days)
    truth = trace.coarsen(86_400.0).readings * 24 / 1000
    errors = np.array([day["kwh"] for day in days]) - truth
    stated = days[0]["standard_error_kwh"]
    # Chi-squared with 30 degrees of freedom is between 5.6 and 81 but for 1e-6.
    assert 5.6 < float((errors**2).sum()) / stated**2 < 81


def test_restarts_take_new_keys_and_never_draw_twice(tmp_path):
    trace, terms = month_of("2024-04-01T00:00Z", 30), make_calendar_terms(every="6h")
    keys = [bytes([n]) * 32 for n in range(1, 4)]
    rows = [len(trace) // 3 + 7, 2 * len(trace) // 3 + 1, len(trace)]
    seen = {}
    for key, count in zip(keys, rows, strict=True):
        witness = run_calendar(tmp_path, trace[:count], terms, keys=[key])
        for item in witness.items:
            text = json.dumps(item.message, sort_keys=True)
            assert seen.setdefault((item.kind, item.label), text) == text
    kept = read_state(tmp_path / "s.db")
    draws = [(row.name, row.key, row.draw) for row in kept.sums]
    assert len(set(draws)) == len(draws) == 30 + 4 + 1
    assert {row.key for row in kept.windows} == {1, 2, 3}
    assert sum(kind == "window" for kind, _ in seen) == 120
    # The keys of the month are destroyed, and its sums follow from the exact ones and the noise.
    content = (tmp_path / "s.db").read_bytes()
    assert not any(key in content for key in keys)


def test_the_ledger_pays_for_all_tables_from_the_first_day(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url, create=DayChange(3000, 8000)).close()
    trace, terms, witness = month_of("2024-04-01T00:00Z", 2), make_calendar_terms(), Witness()
    table = write_table(tmp_path / "meter.csv", trace)
    with State(tmp_path / "s.db", terms.describe()) as state:
        account = LedgerAccount(url, "m1", "load", terms, state)
        Service(
            terms, state, LineSource(table, follow=False), make_parser("csv", PayloadOptions()),
            [witness], account=account, by_readings=True,
        ).run()  # fmt: skip
    file = hm.release_views(month_of("2024-04-01T00:00Z", 30), epsilon=1.0, unit=terms.unit, rng=1)
    change = DayChange(3000, 8000).on_meter(
        terms.unit.interval_s, terms.unit.window, clamp=None, metering=terms.unit.metering
    )
    price = price_of_views(file.plan, change, file.calendar)
    assert account.price == price
    with open_ledger(url) as ledger:
        assert ledger.total("m1") == 2 * price.micro
    # All tables together cost more than the cells alone would.
    cells = view_sensitivities(terms.unit.changes, file.calendar, file.plan.grid)[0]
    assert rho_of(file.plan.sensitivities, file.plan.sigmas) > 0.5 * (
        (cells / file.plan.sigmas[0]) ** 2
    )


def test_the_attacker_uses_all_tables(april):
    trace, terms, _, kept = april
    windows = watch_windows(kept)
    raw = trace.coarsen(3600.0).readings
    assert [window.raw_w for window in windows] == pytest.approx(raw.tolist())
    odds = np.array([(w.if_it_ran, w.if_it_did_not) for w in windows])
    # With all tables the odds of the unit hold: right 1/2 + TV/2 of the time.
    right = ((odds[:, 0] >= 0.5).mean() + (odds[:, 1] < 0.5).mean()) / 2
    assert right < terms.plan.odds + 5 * 0.5 / math.sqrt(len(windows))
    # Neighbouring windows share the noise of sums, so the first one of each day is compared with
    # an own computation from the committed tables.
    plan = terms.plan
    row = kept.windows[25]
    exact = [round(w.mean) for w in kept.windows]
    day = next(s.steps for s in kept.sums if (s.name, s.label) == ("days", row.day))
    hour = next(s.steps for s in kept.sums if s.name == "hours" and s.place == 1)
    total = next(s.steps for s in kept.sums if s.name == "total")
    noise = np.array(
        [
            row.steps - exact[25],
            day - sum(exact[24:48]),
            hour - sum(exact[1::24]),
            total - sum(exact),
        ]
    )
    shift = round(terms.unit.largest)
    log = (((noise + shift) ** 2 - noise**2) / (2 * plan.sigmas**2)).sum()
    assert windows[25].if_it_ran == pytest.approx(1 / (1 + math.exp(-log)), rel=1e-2)


def test_windows_that_do_not_divide_half_a_day_are_refused():
    for interval_s, cell_s in ((60.0, 86_400.0), (600.0, 900.0), (60.0, 420.0)):
        with pytest.raises(InputError, match="divide half a day"):
            common_month(interval_s, cell_s, "UTC")
