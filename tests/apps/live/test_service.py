"""The service: neighbouring streams look the same, budgets end, faults get one sentence."""

import json
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.ledger import Charge, DayChange, open_ledger
from hushmeter.apps.live import delivery
from hushmeter.apps.live.addresses import HttpSink, LineSource, SinkError
from hushmeter.apps.live.delivery import LedgerAccount, Log
from hushmeter.apps.live.payloads import make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import Item, State, read_state
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError
from hushmeter.home import LearntFrom
from tests.apps.live.streams import (
    BEGIN,
    HOUR,
    KEY,
    LAST_DAY,
    Bench,
    NoSource,
    Witness,
    exact_tables,
    make_band_terms,
    make_calendar_terms,
    make_terms,
    make_trace,
    run_table,
    write_table,
)


def arrivals(rng, hours):
    """Times of messages [s]: jitter, losses, doubles, late and early ones."""
    times = np.arange(0, hours * 3600, 60) + rng.uniform(0, 59, hours * 60)
    times = times[rng.random(times.size) > 0.02]
    times = times[(times < 7200) | (times > 9000)]
    return np.sort(np.append(times, rng.choice(times, 20) + 1.0))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("make", [make_terms, make_calendar_terms, make_band_terms])
def test_neighbouring_streams_look_the_same(tmp_path, seed, extreme, make):
    rng = np.random.default_rng(seed)
    times = arrivals(rng, 8)
    base = rng.uniform(50, 3000, times.size)
    if extreme:  # Values beyond every bound, and words instead of numbers.
        base[rng.random(times.size) < 0.05] = 1e9
    words = rng.random(times.size) < 0.01
    first = rng.uniform(3 * 3600, 7 * 3600)
    # The kettle runs for at most three slots of a minute, as the unit of protection states.
    running = (times // 60 >= first // 60) & (times // 60 < first // 60 + 3)
    benches = []
    for number, added in enumerate((0.0, 2100.0)):
        terms = make(interval_s=60.0, grace_s=5.0)
        bench = Bench(terms, tmp_path / f"{number}.db", begin=LAST_DAY, new_key=lambda _: KEY)
        for at, value, on, word in zip(times, base, running, words, strict=True):
            payload = b"broken" if word else repr(float(value + added * on)).encode()
            bench.tick(LAST_DAY + int(at * SECOND))
            bench.send(LAST_DAY + int(at * SECOND), payload)
        bench.tick(LAST_DAY + 25 * HOUR + 6 * SECOND)
        benches.append(bench)
    one, two = benches
    assert one.public() == two.public()
    assert one.log == two.log
    assert len(one.witness.messages("window")) == 25
    rows = [bench.state.windows(0, 1 << 40) for bench in benches]
    assert [(r.number, r.share) for r in rows[0]] == [(r.number, r.share) for r in rows[1]]
    means = np.array([[r.mean or 0.0 for r in part] for part in rows])
    change = np.abs(means[1] - means[0])
    unit = one.service.terms.unit
    assert change.sum() <= unit.l1 * (1 + 1e-9)
    assert np.sqrt((change**2).sum()) <= unit.l2 * (1 + 1e-9)
    assert (change > 1e-9).sum() <= unit.touches
    assert extreme or change.sum() > 0
    sums = [bench.state.sums_of("2024-03") for bench in benches]
    assert [(s.table, s.label) for s in sums[0]] == [(s.table, s.label) for s in sums[1]]
    exact = [exact_tables(terms, *stream) for stream in zip(rows, sums, strict=True)]
    for before, after, most in zip(*exact, terms.promise.lengths, strict=True):
        assert np.linalg.norm(before - after) <= most
    for bench in benches:
        bench.state.close()


def test_values_are_published_at_fixed_times(tmp_path):
    bench = Bench(make_terms(grace_s=10.0), tmp_path / "s.db")
    for minute in range(60):
        bench.send(BEGIN + minute * 60 * SECOND, b"100")
    bench.tick(BEGIN + HOUR + 10 * SECOND - 1)
    assert bench.state.last_window() is None
    bench.tick(BEGIN + HOUR + 10 * SECOND)
    assert bench.state.last_window() is not None
    assert bench.witness.items == []
    bench.tick(BEGIN + HOUR + 11 * SECOND - 1)
    assert bench.witness.items == []
    bench.tick(BEGIN + HOUR + 11 * SECOND)
    assert len(bench.witness.items) == 1
    bench.state.close()


def test_the_service_wakes_when_something_is_due_and_once_a_second(tmp_path):
    bench = Bench(make_terms(grace_s=10.0), tmp_path / "s.db")
    pauses = []
    for after_s in (0.0, 3608.0, 3609.5, 3610.0, 3610.75, 3612.0):
        bench.tick(BEGIN + int(after_s * SECOND))
        pauses.append(bench.service._pause_s(bench.now))
    # The window closes ten seconds after its end, and is published a second later.
    assert pauses == [1.0, 1.0, 0.5, 1.0, 0.25, 1.0]
    bench.state.close()


def test_a_sentence_is_logged_once_a_minute(monkeypatch):
    clock, written = SimpleNamespace(), []
    monkeypatch.setattr(delivery, "time", clock)
    log = Log(lambda _: written.append(clock.monotonic()))
    for now in (0.0, 59.9, 60.0, 119.9, 120.0):
        clock.monotonic = partial(float, now)
        log("the broker is lost.")
    assert written == [0.0, 60.0, 120.0]


def test_a_silent_source_gets_a_sentence(tmp_path):
    bench = Bench(make_terms(), tmp_path / "s.db")
    bench.tick(BEGIN + 2 * HOUR)
    assert bench.log == [
        "no message has come from the source since the start; check its topic.",
    ]
    bench.state.close()


def test_steps_of_the_clock(tmp_path):
    bench = Bench(make_terms(), tmp_path / "s.db")
    bench.send(BEGIN, b"100")
    bench.tick(BEGIN + HOUR)
    bench.send(BEGIN + HOUR // 2, b"100")  # The clock was set back.
    assert bench.log == ["a reading came after its window had closed and is ignored."]
    bench.tick(BEGIN + 5 * HOUR)  # It was set forward.
    bench.tick(BEGIN + 5 * HOUR + 2 * SECOND)
    assert [m["watts"] for m in bench.witness.messages("window")] == [None] * 5
    bench.state.close()
    ahead = Bench(make_terms(), tmp_path / "t.db")
    del ahead.service.__dict__["_check_clock"]
    with pytest.raises(DataError, match=r"went forward by 3\.0 days"):
        ahead.tick(BEGIN + 72 * HOUR)
    ahead.state.close()
    with (
        State(tmp_path / "s.db", make_terms().describe()) as late,
        pytest.raises(DataError, match="later than the clock of this machine"),
    ):
        Service(
            make_terms(), late, Feed(NoSource(), make_parser("number"), clock=lambda: BEGIN), []
        )


def test_the_source_is_stopped_after_an_error(tmp_path):
    """Otherwise its thread could close and publish windows after the stream has ended."""
    stopped = []

    class Noted(NoSource):
        def stop(self):
            stopped.append(True)

    moments = iter([BEGIN, BEGIN, BEGIN, BEGIN])
    with State(tmp_path / "s.db", make_terms().describe()) as kept:
        clock = lambda: next(moments, BEGIN + 72 * HOUR)  # noqa: E731
        feed = Feed(Noted(), make_parser("number"), clock=clock)
        with pytest.raises(DataError, match="went forward by"):
            Service(make_terms(), kept, feed, []).run()
    assert stopped == [True]


def test_a_cap_ends_publication_with_a_message(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    terms, witness = make_terms(interval_s=900.0), Witness()
    open_ledger(url, create=DayChange(3000, 8000)).close()
    with State(tmp_path / "s.db", terms.describe()) as state:
        account = LedgerAccount(url, "m1", "load", terms, state)
        day = account.price.micro / 1e6
        with open_ledger(url) as ledger:
            ledger.set_cap(total=2.5 * day)
        table = write_table(tmp_path / "meter.csv", make_trace(4, interval_s=900.0))
        lines = []
        service = Service(
            terms, state, feed_of(table), [witness], account=account, log=lines.append,
        )  # fmt: skip
        service.run()
    assert service.ended
    assert len(witness.messages("window")) == 48
    (ended,) = witness.messages("status")
    assert ended["status"] == "ended"
    assert ended["day"] == "2024-03-03"
    assert ended["sentence"] == (
        "Nothing is published on 2024-03-03 (UTC), because it is not paid for in the ledger."
    )
    (line,) = lines
    assert "cap" in line
    with open_ledger(url) as ledger:
        assert ledger.balance("m1").spent == 2 * account.price.micro
        assert {row["period"] for row in ledger.rows()} == {"2024-03-01", "2024-03-02"}
        assert ledger.state_of(str(next(ledger.rows())["release"]), "2024-03-01") == "released"


@pytest.mark.parametrize(
    ("meter", "month", "sentence"),
    [("", False, "meter must be printable text"), ("m", True, "counts by month")],
)
def test_what_a_ledger_can_never_take_is_refused_at_the_start(tmp_path, meter, month, sentence):
    url, terms = f"sqlite:///{tmp_path}/ledger.db", make_terms()
    with open_ledger(url, create=DayChange(3000, 8000)) as ledger:
        if month:
            charge = Charge("other", "load", {})
            ledger.spend(charge, micro=1, meters=["m"], periods=["2024-03"], digest="d", source="s")
    with (
        State(tmp_path / "s.db", terms.describe()) as state,
        pytest.raises((InputError, DataError), match=sentence),
    ):
        LedgerAccount(url, meter, "load", terms, state)


def test_a_day_that_was_released_before_is_not_published_again(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url, create=DayChange(3000, 8000)).close()
    terms = make_terms(interval_s=900.0)
    table = write_table(tmp_path / "meter.csv", make_trace(1, interval_s=900.0))
    seen = []
    for name in ("a.db", "b.db"):
        witness = Witness()
        run_table_with(table, terms, tmp_path / name, witness, url)
        seen.append(len(witness.messages("window")))
    assert seen == [24, 0]


def feed_of(table):
    return Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True)


def run_table_with(table, terms, path, witness, url):
    with State(path, terms.describe()) as state:
        Service(
            terms, state, feed_of(table), [witness],
            account=LedgerAccount(url, "m1", "load", terms, state),
        ).run()  # fmt: skip


def test_faults_are_logged_once_and_without_readings(tmp_path):
    table = write_table(tmp_path / "meter.csv", make_trace(0.2))
    text = table.read_text().splitlines(keepends=True)
    broken = [
        "31415 W\n",
        "2024-03-01T00:00:00,31415\n",
        "x,31415\n",
        "2199-01-01T00:00:00Z,31415\n",
    ]
    table.write_text("".join(text[:30] + broken * 50 + text[10:30] + text[30:]))
    witness = Witness()
    log = run_table(table, make_terms(), tmp_path / "s.db", [witness])
    assert sorted(log) == [
        "a reading is more than 60 s ahead of the clock of this machine and is ignored.",
        "a time has no time zone; give --tz.",
        "a time is neither ISO 8601 nor seconds since 1970.",
    ]
    assert not any("31415" in line for line in log)
    assert all(m["complete"] for m in witness.messages("window"))


def test_a_file_that_is_read_again_is_no_fault(tmp_path):
    trace = make_trace(0.25)
    for count in (150, len(trace)):
        table = write_table(tmp_path / "meter.csv", trace[:count])
        assert run_table(table, make_terms(), tmp_path / "s.db", [Witness()]) == []
    assert len(read_state(tmp_path / "s.db").windows) == 6


def test_a_reading_that_comes_late_after_a_restart_is_a_fault(tmp_path):
    """Its window was open when the first process ended, and closed before it came."""
    trace, lines = make_trace(0.2), []
    for count, late in ((150, ""), (200, "2024-03-01T02:10:30Z,5\n")):
        table = write_table(tmp_path / "meter.csv", trace[:count])
        with table.open("a") as file:
            file.write(late)
        lines += run_table(table, make_terms(), tmp_path / "s.db", [Witness()])
    assert lines == ["a reading came after its window had closed and is ignored."]


def test_one_wrong_time_does_not_close_the_windows_of_years(tmp_path):
    table = write_table(tmp_path / "meter.csv", make_trace(0.2))
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:100], "2025-01-01T00:00:00Z,5\n", *lines[100:]]))
    witness = Witness()
    run_table(table, make_terms(), tmp_path / "s.db", [witness])
    assert len(witness.messages("window")) == 4
    assert all(m["complete"] for m in witness.messages("window"))


@pytest.mark.parametrize("wrong", [1, 3])
@pytest.mark.parametrize("changes", [False, True])
def test_first_readings_of_1970_close_and_charge_nothing_since(tmp_path, wrong, changes):
    """A meter whose clock is not set yet sends one or several readings of 1970."""
    terms = make_terms(interval_s=900.0, hold=changes)
    trace = make_trace(2, interval_s=900.0)
    table = write_table(tmp_path / "meter.csv", trace)
    head, *rows = table.read_text().splitlines(keepends=True)
    early = [f"1970-01-01T00:{15 * n:02d}:00Z,5\n" for n in range(wrong)]
    table.write_text("".join([head, *early, *rows]))
    url, witness = f"sqlite:///{tmp_path}/ledger.db", Witness()
    with open_ledger(url, create=DayChange(3000.0, 8000.0)):
        pass
    until = BEGIN + 48 * HOUR if changes else None
    with State(tmp_path / "s.db", terms.describe()) as state:
        feed = Feed(
            LineSource(table, follow=False), make_parser("csv"), by_readings=True, until_ns=until
        )
        account = LedgerAccount(url, "m1", "load", terms, state)
        service = Service(terms, state, feed, [witness], account=account)
        if changes and wrong > 1:
            # A long time without a change follows from values, so it cannot begin new windows.
            with pytest.raises(DataError, match="first readings are of 1970-01-01T00:00:00Z"):
                service.run()
            assert witness.items == []
            return
        service.run()
    values = [m for m in witness.messages("window") if m["watts"] is not None]
    assert [m["start"] for m in values if m["start"] > "2000"] == [
        f"2024-03-0{1 + hour // 24}T{hour % 24:02d}:00:00Z" for hour in range(48)
    ]
    with open_ledger(url) as ledger:
        days = {row["period"] for row in ledger.history("m1")}
    assert {day for day in days if day > "2000"} == {"2024-03-01", "2024-03-02"}
    assert len(days) <= 3
    assert len(witness.items) < 1100


def test_a_file_with_one_reading_is_read(tmp_path):
    table, witness = tmp_path / "meter.csv", Witness()
    table.write_text("2024-03-01T00:00:00Z,5\n")
    terms = make_terms(interval_s=3600.0, hold=True)
    with State(tmp_path / "s.db", terms.describe()) as state:
        feed = Feed(
            LineSource(table, follow=False), make_parser("csv"), by_readings=True,
            until_ns=BEGIN + 2 * HOUR,
        )  # fmt: skip
        Service(terms, state, feed, [witness]).run()
    assert [row.mean for row in read_state(tmp_path / "s.db").windows] == [5.0, 5.0]


def test_days_without_readings_cost_nothing(tmp_path):
    trace = make_trace(6, interval_s=900.0)
    table = write_table(tmp_path / "meter.csv", trace)
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join(row for row in rows if row[5:10] not in ("03-03", "03-04")))
    url, terms = f"sqlite:///{tmp_path}/ledger.db", make_terms(interval_s=900.0)
    open_ledger(url, create=DayChange(3000.0, 8000.0)).close()
    witness, lines = Witness(), []
    with State(tmp_path / "s.db", terms.describe()) as state:
        feed = Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True)
        account = LedgerAccount(url, "m1", "load", terms, state)
        Service(terms, state, feed, [witness], account=account, log=lines.append).run()
    with open_ledger(url) as ledger:
        days = sorted(row["period"][-2:] for row in ledger.history("m1"))
    assert days == ["01", "02", "05", "06"]
    assert len(witness.messages("window")) == 6 * 24
    assert lines == []


def test_the_days_of_a_ledger_are_those_of_its_zone(tmp_path):
    """Hours at UTC midnight in Adelaide (9:30 ahead) lie in two days, and both are paid for."""
    trace = make_trace(1.5, interval_s=900.0)
    table, url = write_table(tmp_path / "meter.csv", trace), f"sqlite:///{tmp_path}/ledger.db"
    change = DayChange(3000.0, 8000.0, zone="Australia/Adelaide")
    open_ledger(url, create=change).close()
    terms, witness, lines = make_terms(interval_s=900.0), Witness(), []
    with State(tmp_path / "s.db", terms.describe()) as state:
        feed = Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True)
        account = LedgerAccount(url, "m1", "load", terms, state)
        assert account.days_of(BEGIN // HOUR + 12) == ["2024-03-01"]
        # From 13:00 to 14:00 UTC the day begins in Adelaide, in summer 10:30 ahead.
        assert account.days_of(BEGIN // HOUR + 13) == ["2024-03-01", "2024-03-02"]
        Service(terms, state, feed, [witness], account=account, log=lines.append).run()
    with open_ledger(url) as ledger:
        days = sorted(row["period"] for row in ledger.history("m1"))
        released = [ledger.state_of(row["release"], row["source"]) for row in ledger.history("m1")]
    assert days == ["2024-03-01", "2024-03-02"]
    assert released.count("released") >= 1
    assert len(witness.messages("window")) == 36
    assert lines == []


def test_a_torn_message_of_a_meter_that_sends_changes_is_not_logged(tmp_path):
    """When such a meter sends follows from its values, so the log must not tell it."""
    logs = []
    for hold in (True, False):
        bench = Bench(make_terms(hold=hold), tmp_path / f"{hold}.db", kind="csv")
        bench.send(BEGIN + SECOND, b"torn")
        logs.append(bench.log)
        bench.state.close()
    assert logs[0] == []
    assert len(logs[1]) == 1


def test_a_full_disk_publishes_nothing(tmp_path):
    bench = Bench(make_terms(), tmp_path / "s.db")
    for minute in range(60):
        bench.send(BEGIN + minute * 60 * SECOND, b"100")
    pages = bench.state._db.execute("PRAGMA page_count").fetchone()[0]
    bench.state._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(DataError, match="disk is full; nothing was published"):
        bench.tick(BEGIN + 480 * HOUR)
    committed = len(bench.state.windows(0, 1 << 40))
    assert len(bench.witness.items) <= committed < 480
    bench.state.close()


@pytest.mark.slow
def test_a_long_stream_stays_flat(tmp_path):
    """Memory and state do not grow: 250 days of minutes, 360 000 readings."""
    import resource

    days, sizes = 250, {}
    bench = Bench(make_terms(grace_s=0.0), tmp_path / "s.db")
    for day in range(days):
        for minute in range(1440):
            bench.send(BEGIN + (day * 1440 + minute) * 60 * SECOND, b"250")
            if minute % 60 == 0:
                bench.tick(bench.now)
        bench.witness.items.clear()
        if day in (60, days - 1):
            bench.state._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            summaries = len(list((tmp_path / "s.db.days").iterdir()))
            sizes[day] = (memory, (tmp_path / "s.db").stat().st_size, summaries)
    bench.state.close()
    first, last = sizes.values()
    assert last[0] - first[0] < 10_000  # [kB]
    assert last[1] < 1.2 * first[1]
    assert last[2] == first[2] == 41


@pytest.mark.parametrize("hold", [False, True])
def test_words_and_units_of_a_value_make_no_gap_and_no_line(tmp_path, hold):
    """A word above the range, a field that is missing at zero: the reading counts as 0 W."""
    odd = [b"overflow", b"nan", b"31415", b"", b"unavailable"]
    benches = []
    for number, word in enumerate(odd):
        bench = Bench(make_terms(hold=hold), tmp_path / f"{number}.db", begin=BEGIN - HOUR)
        bench.service.back()
        for minute in range(60):
            bench.send(BEGIN + minute * 60 * SECOND, word if minute == 30 else b"100")
        bench.tick(BEGIN + HOUR)
        bench.tick(BEGIN + HOUR + 2 * SECOND)
        *_, row = bench.state.windows(0, 1 << 40)
        benches.append((bench.public(), bench.log, row.mean))
        bench.state.close()
    overflow, nan, large, missing, away = benches
    assert overflow[:2] == nan[:2] == large[:2]
    assert overflow[2] == nan[2] == pytest.approx(100 * 59 / 60)
    # A declared word for a missing value is a gap, but not where the time of a message follows from
    # the values.
    shares = [dict(public[-1][4:])["share"] for public, *_ in (missing, away)]
    assert shares == [1.0 if hold else round(59 / 60, 4), round(59 / 60, 4)]


def test_a_source_that_cannot_be_read_gets_a_sentence(tmp_path):
    bench = Bench(make_terms(), tmp_path / "s.db")
    for minute in range(61):
        bench.send(BEGIN + minute * 60 * SECOND, b"a secret 31415")
    assert bench.log == []
    bench.tick(BEGIN + HOUR)
    assert bench.log == [
        "no message since the start could be read (a value is not a number), so all readings count "
        "as 0 W; check --payload and --unit."
    ]
    bench.state.close()


def test_numbers_learnt_at_the_time_of_the_stream_need_consent(tmp_path):
    """The second day of the table is one of those from which the home was learnt."""
    learnt = LearntFrom("0" * 64, "2024-03-02T10:00:00Z", "2024-03-09T00:00:00Z")
    kettle = hm.Appliance("kettle", 2100.0, run_s=180.0, source="learnt")
    home = hm.Home([kettle], learnt_from=learnt)
    table = write_table(tmp_path / "meter.csv", make_trace(2, interval_s=900.0))
    witness = Witness()
    with pytest.raises(InputError, match="was learnt from these readings"):
        run_table(table, make_terms(900.0, home=home), tmp_path / "a.db", [witness])
    assert len(witness.messages("window")) == 34
    accepted = make_terms(900.0, home=home, accept_learnt=True)
    run_table(table, accepted, tmp_path / "b.db", [Witness()])
    assert len(read_state(tmp_path / "b.db").windows) == 48


class Redirect(BaseHTTPRequestHandler):
    """A receiver that sends every request to another host, and that host."""

    seen: list = []  # noqa: RUF012
    to = ""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        self.seen.append((self.path, self.headers.get("Authorization")))
        self.send_response(302 if self.path == "/first" else 204)
        self.send_header("Location", self.to)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_no_token_goes_to_another_host(tmp_path, monkeypatch):
    monkeypatch.setenv("HUSHMETER_HTTP_TOKEN", "secret-word")
    Redirect.seen = []
    server = HTTPServer(("127.0.0.1", 0), Redirect)
    Redirect.to = f"http://localhost:{server.server_port}/second"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    terms = make_terms()
    sink = HttpSink(f"http://127.0.0.1:{server.server_port}/first", terms)
    table = write_table(tmp_path / "meter.csv", make_trace(0.1))
    log = run_table(table, terms, tmp_path / "s.db", [sink])
    server.shutdown()
    thread.join()
    server.server_close()
    assert {path for path, _ in Redirect.seen} == {"/first"}
    assert "sends to another place, and the token must not go there" in log[0]


class BadReceiver:
    """A TCP server that answers no request properly: it hangs, or sends a byte now and then."""

    def __init__(self, byte=b""):
        self._listener, self._byte = socket.create_server(("127.0.0.1", 0)), byte
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.asked, self.free = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line):
        self.asked.set()
        with suppress(OSError), line:
            line.sendall(self._byte and b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.free.wait(0.05):
                line.sendall(self._byte)

    def close(self):
        self.free.set()
        self._listener.close()


def test_a_receiver_that_hangs_drips_or_redirects_stops_no_other(tmp_path, monkeypatch):
    """The first windows wait in a receiver for as long as the test likes; all others go on."""
    monkeypatch.setattr("hushmeter.apps.live.delivery.LAST_WAIT_S", 0.2)
    monkeypatch.setattr("hushmeter.apps.live.addresses.HTTP_WAIT_S", 600.0)
    hanging, dripping = BadReceiver(), BadReceiver(b"x")
    server = HTTPServer(("127.0.0.1", 0), Redirect)
    Redirect.seen, Redirect.to = [], f"http://127.0.0.1:{server.server_port}/second"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    terms, healthy, log = make_terms(), Witness(), []
    urls = [hanging.url, dripping.url, f"http://127.0.0.1:{server.server_port}/first"]
    trace = make_trace(2)
    table = write_table(tmp_path / "meter.csv", trace[:60])
    with State(tmp_path / "s.db", terms.describe()) as state:
        feed = Feed(LineSource(table, follow=True), make_parser("csv"), by_readings=True)
        sinks = [*(HttpSink(url, terms) for url in urls), healthy]
        service = Service(terms, state, feed, sinks, log=log.append)
        thread = threading.Thread(target=service.run)
        thread.start()
        for bad in (hanging, dripping):
            assert bad.asked.wait(60)
        # Both hold a request now. The rest of the two days comes after that.
        with table.open("a") as file:
            file.writelines(
                f"{time}Z,{watts}\n"
                for time, watts in zip(trace.times[61:], trace.readings[61:], strict=True)
            )
            file.write("2024-03-03T00:00:00Z,5\n")
        healthy.wait_for(48 + 2)
        service.stop()
        thread.join()
        assert not hanging.free.is_set()
        waiting = [len(state.undelivered(sink.name, 1 << 62)) for sink in sinks]
    for bad in (hanging, dripping):
        bad.close()
    server.shutdown()
    server.server_close()
    assert waiting == [50, 50, 50, 0]
    assert len(healthy.messages("window")) == 48
    assert {path for path, _ in Redirect.seen} == {"/first"}
    assert sum("does not have every value" in line for line in log) == 3


@pytest.mark.parametrize("byte", [b"", b"x"])
def test_a_request_has_a_total_time(monkeypatch, byte):
    monkeypatch.setattr("hushmeter.apps.live.addresses.HTTP_WAIT_S", 0.5)
    bad, item = BadReceiver(byte), Item("window", "w", 0, {})
    sink = HttpSink(bad.url, make_terms())
    with pytest.raises(SinkError, match="does not answer within"):
        sink.publish(item)
    bad.close()


def test_the_total_time_begins_with_the_name_of_the_host(monkeypatch):
    """A slow look-up uses the time up, and then nothing would cut a receiver that drips."""
    monkeypatch.setattr("hushmeter.apps.live.addresses.HTTP_WAIT_S", 0.3)
    find = socket.getaddrinfo

    def slow(*given, **more):
        time.sleep(0.6)
        return find(*given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    bad = BadReceiver(b"x")
    sink = HttpSink(bad.url, make_terms())
    with pytest.raises(SinkError, match="does not answer within"):
        sink.publish(Item("window", "w", 0, {}))
    bad.close()


def test_receivers_that_differ_only_in_a_parameter_get_every_value_each(tmp_path, monkeypatch):
    monkeypatch.setattr("hushmeter.apps.live.delivery.RETRY_S", 0.0)
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    Receiver.seen, Receiver.paths = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url, terms = f"http://127.0.0.1:{server.server_port}/readings?to=", make_terms()
    table = write_table(tmp_path / "meter.csv", make_trace(0.25))
    sinks = [HttpSink(f"{url}{name}", terms) for name in ("one", "two")]
    run_table(table, terms, tmp_path / "s.db", sinks)
    server.shutdown()
    thread.join()
    server.server_close()
    given = Counter(Receiver.paths)
    assert given.keys() == {"/readings?to=one", "/readings?to=two"}
    assert min(given.values()) >= 6
    with State(tmp_path / "s.db", terms.describe()) as state:
        assert [state.undelivered(sink.name, 1 << 62) for sink in sinks] == [[], []]
        with pytest.raises(InputError, match="twice: name every receiver once"):
            Service(terms, state, feed_of(table), [sinks[0], sinks[0]])


class Receiver(BaseHTTPRequestHandler):
    """A receiver that refuses every third request."""

    seen: list = []  # noqa: RUF012
    paths: list = []  # noqa: RUF012

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.headers["Idempotency-Key"], body))
        self.paths.append(self.path)
        self.send_response(503 if len(self.seen) % 3 == 2 else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_values_are_posted_in_order_and_again_after_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("hushmeter.apps.live.delivery.RETRY_S", 0.0)
    Receiver.seen = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/readings?token=secret-word"
    terms = make_terms()
    sink = HttpSink(url, terms)
    assert "secret-word" not in sink.name
    table = write_table(tmp_path / "meter.csv", make_trace(0.5))
    log = run_table(table, terms, tmp_path / "s.db", [sink])
    server.shutdown()
    thread.join()
    server.server_close()
    assert log == [
        f"http://127.0.0.1:{server.server_port}/readings answers 503; values wait for it."
    ]
    keys = [key for key, _ in Receiver.seen]
    assert list(dict.fromkeys(keys)) == [
        f"home/window/2024-03-01T{hour:02}:00:00Z" for hour in range(12)
    ]
    bodies = {}
    for key, body in Receiver.seen:
        bodies.setdefault(key, []).append(body)
    assert all(body == group[0] for group in bodies.values() for body in group)
    assert len(keys) > 12
