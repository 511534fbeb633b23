"""The ledger's rules, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import csv
import math
import os
import sqlite3
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmeter.apps.ledger import (
    Cap,
    Charge,
    DayChange,
    chain,
    micro_epsilon,
    open_ledger,
)
from hushmeter.apps.ledger.chain import (
    expand_periods,
    merge_periods,
    ordinal,
    period_at,
    period_kind,
)
from hushmeter.apps.ledger.charges import epsilon_text
from hushmeter.apps.ledger.ledger import export_spends
from hushmeter.errors import BudgetError, DataError, InputError, MissingExtraError

DAY = DayChange.within(0, 15_000)
TERMS = {"mechanism": "laplace", "epsilon": "0.5", "span": "reading"}


def spend(ledger, rows, *, release="r1", stream="load", micro=500_000, source="a", **more):
    meters, periods = zip(*rows, strict=True) if rows else ((), ())
    more = {"digest": "d0", **more}
    charge = Charge(release, stream, more.pop("terms", TERMS))
    return ledger.spend(charge, micro=micro, meters=meters, periods=periods, source=source, **more)


def days(meter, count, first=1):
    return [(meter, f"2024-03-{first + day:02d}") for day in range(count)]


def test_a_spend_is_charged_once_and_kept(ledger, ledger_url):
    done = spend(ledger, days("m1", 3) + days("m2", 1))
    assert done.granted.tolist() == [0, 1, 2, 3]
    assert done.refused == ()
    assert not done.resumed
    assert (ledger.balance("m1").spent, ledger.balance("m2").spent, ledger.balance("m3").spent) == (
        1_500_000,
        500_000,
        0,
    )
    with open_ledger(ledger_url) as again:
        assert again.balance("m1").spent == 1_500_000
        assert again.verify() == []
        assert again.counts() == (2, 4)


def test_the_same_release_and_input_resume_for_nothing(ledger):
    ledger.set_cap(total=1)
    first = spend(ledger, days("m1", 3))
    ledger.set_cap(total=100)
    again = spend(ledger, days("m1", 3))
    assert again.resumed
    assert again.granted.tolist() == first.granted.tolist() == [0, 1]
    assert again.refused == first.refused
    shuffled = spend(ledger, days("m1", 3)[::-1])
    assert shuffled.granted.tolist() == [1, 2]
    assert ledger.balance("m1").spent == 1_000_000


@pytest.mark.parametrize(
    "change",
    [{"digest": "d1"}, {"micro": 400_000}, {"rows": days("m1", 2)}, {"stream": "other"}],
)
def test_other_content_under_a_paid_name_is_refused(ledger, change):
    spend(ledger, days("m1", 3))
    head = ledger.head()
    with pytest.raises(BudgetError, match="paid for with other content"):
        spend(ledger, **({"rows": days("m1", 3)} | change))
    assert ledger.head() == head


def test_a_second_release_of_a_period_is_refused_row_by_row(ledger):
    spend(ledger, days("m1", 2))
    done = spend(ledger, days("m1", 3) + days("m2", 1), release="r2")
    assert done.granted.tolist() == [2, 3]
    assert [(r.row, r.period) for r in done.refused] == [(0, "2024-03-01"), (1, "2024-03-02")]
    assert {r.reason for r in done.refused} == {"already released by release r1"}
    assert spend(ledger, days("m1", 2), release="r2", stream="voltage", source="v").refused == ()
    assert ledger.balance("m1").spent == 5 * 500_000


def test_all_or_nothing_is_one_sentence_and_charges_nothing(ledger):
    spend(ledger, days("m1", 1))
    head = ledger.head()
    with pytest.raises(BudgetError) as caught:
        spend(ledger, days("m1", 2) + days("m2", 2), release="r2", all_or_nothing=True)
    assert str(caught.value) == (
        "a is refused as a whole: meter m1 in 2024-03-01 is already released by release r1; "
        "nothing was charged."
    )
    assert ledger.head() == head
    assert spend(ledger, days("m2", 2), release="r2", all_or_nothing=True).granted.size == 2


def test_the_terms_of_a_release_are_fixed_by_its_first_spend(ledger):
    spend(ledger, days("m1", 1))
    with pytest.raises(InputError, match="begun with other terms"):
        spend(ledger, days("m2", 1), source="b", terms={**TERMS, "epsilon": "0.4"})
    assert ledger.balance("m2").spent == 0


def test_a_paid_source_is_not_resumed_with_other_terms(ledger):
    """Noise depends on the terms: with others the same data would get a second noise for free."""
    spend(ledger, days("m1", 1))
    with pytest.raises(InputError, match="begun with other terms"):
        spend(ledger, days("m1", 1), terms={**TERMS, "version": "2"})
    assert spend(ledger, days("m1", 1)).resumed


def test_states_of_a_source(ledger):
    charge = Charge("r1", "load", TERMS)
    assert ledger.state_of("r1", "a") is None
    with pytest.raises(InputError, match="not paid for"):
        ledger.mark_released(charge, "a", "out")
    spend(ledger, days("m1", 1))
    assert ledger.state_of("r1", "a") == "spent"
    ledger.mark_released(charge, "a", "out")
    ledger.mark_released(charge, "a", "out")
    assert ledger.state_of("r1", "a") == "released"
    with pytest.raises(DataError, match="released before with other content"):
        ledger.mark_released(charge, "a", "tuo")
    assert ledger.head().count == 4
    assert ledger.verify() == []


def test_a_cap_on_the_total_serves_the_first_periods(ledger):
    assert ledger.set_cap(total="1.2") == Cap(1_200_000)
    done = spend(ledger, days("m1", 3)[::-1] + days("m2", 1))
    assert done.granted.tolist() == [1, 2, 3]
    assert done.refused[0].reason == (
        "over the cap: the days of the customer so far cost ε = 1 of 1.2, and this period costs 0.5"
    )
    assert ledger.balance("m1").remaining == 200_000
    own = ledger.set_cap(total=5, meter="m1")
    assert own == Cap(5_000_000)
    assert spend(ledger, days("m1", 8, 3), source="b").granted.size == 8
    assert spend(ledger, days("m2", 8, 3), source="c").granted.size == 1
    ledger.set_cap(total="none", meter="m1")
    assert ledger.balance("m1").remaining == 0
    assert spend(ledger, days("m1", 1, 20), source="e").granted.size == 0
    assert ledger.verify() == []


def test_a_lowered_cap_leaves_no_room_and_undoes_nothing(ledger):
    spend(ledger, days("m1", 4))
    ledger.set_cap(total=1)
    assert ledger.balance("m1").spent == 2_000_000
    assert spend(ledger, days("m1", 1, 9), source="b").granted.size == 0
    assert spend(ledger, days("m2", 3), source="c").granted.size == 2
    ledger.set_cap(total="none")
    assert spend(ledger, days("m1", 1, 9), source="d").granted.size == 1
    assert ledger.verify() == []


def test_windows_of_periods_across_months_and_streams(ledger):
    ledger.set_cap(window=(3, 1))
    rows = [("m", day) for day in ("2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02")]
    done = spend(ledger, rows)
    assert [r.period for r in done.refused] == ["2024-03-01"]
    assert done.refused[0].reason == (
        "over the cap on 3 periods in a row: they would cost ε = 1.5 of 1"
    )
    between = spend(ledger, [("m", "2024-02-27")], stream="other", source="b")
    assert between.granted.size == 0
    assert spend(ledger, [("m", "2024-02-26")], source="c").granted.size == 1
    assert ledger.window("m", 3) == 1_000_000
    assert ledger.window("m", 100) == 2_000_000
    assert ledger.balance("m").window_remaining == 0
    ledger.set_cap(window="none")
    assert spend(ledger, [("m", "2024-02-27")], stream="other", source="d").granted.size == 1


def test_days_and_months_do_not_mix(ledger):
    spend(ledger, [("m1", "2024-03")])
    with pytest.raises(DataError, match="counts by month and the release by day"):
        spend(ledger, days("m2", 1), source="b")
    with pytest.raises(InputError, match="all days or all months"):
        spend(ledger, [("m1", "2024-04"), ("m1", "2024-04-01")], source="b")
    ledger.set_cap(window=(2, 0.5))
    assert spend(ledger, [("m1", "2024-04"), ("m1", "2024-05")], source="b").granted.tolist() == [1]


def test_nothing_asked_is_nothing_spent(ledger):
    head = ledger.head()
    assert spend(ledger, []).granted.size == 0
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"micro": 0}, "micro must be a whole number of at least 1, got 0"),
        ({"micro": -5}, "micro must be a whole number"),
        ({"micro": math.nan}, "micro must be a whole number"),
        ({"micro": math.inf}, "micro must be a whole number"),
        ({"micro": 0.5}, "micro must be a whole number"),
        ({"micro": True}, "micro must be a whole number"),
        ({"micro": 10**16}, "micro must be at most"),
        ({"rows": [("", "2024-03-01")]}, "meter must be printable text"),
        ({"rows": [("a\0b", "2024-03-01")]}, "meter must be printable text"),
        ({"rows": [(7, "2024-03-01")]}, "meter must be printable text"),
        ({"rows": [("x" * 401, "2024-03-01")]}, "of at most 400 letters"),
        ({"rows": [("m", "2024-02-30")]}, "a period must be a day 2024-03-01 or a month"),
        ({"rows": [("m", "2024-W05")]}, "a period must be"),
        ({"rows": [("m", "٢٠٢٤-03-01")]}, "a period must be"),
        ({"rows": days("m", 1) * 2}, "asks for the same \\(meter, period\\) twice"),
        ({"source": ""}, "source must be printable text"),
        ({"release": "a\nb"}, "release must be printable text"),
        ({"digest": None}, "digest must be printable text"),
    ],
)
def test_bad_spends_are_refused_before_anything_is_charged(ledger, change, message):
    head = ledger.head()
    with pytest.raises(InputError, match=message):
        spend(ledger, **({"rows": days("m", 1)} | change))
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "give a cap"),
        ({"total": 0}, "total must be positive and finite"),
        ({"total": math.nan}, "total must be positive and finite"),
        ({"total": math.inf}, "total must be positive and finite"),
        ({"total": "1e-7"}, "at least 0.000001"),
        ({"total": 1e12}, "must be at most"),
        ({"window": (0, 1)}, "window must be a whole number"),
        ({"window": (1.5, 1)}, "window must be a whole number"),
        ({"window": (7, -1)}, "window must be positive and finite"),
        ({"window": (36_601, 1)}, "window must be at most 36600 periods"),
        ({"window": "7"}, "window must be \\(periods, ε\\)"),
        ({"meter": "", "total": 1}, "meter must be printable text"),
    ],
)
def test_bad_caps_are_refused(ledger, change, message):
    with pytest.raises(InputError, match=message):
        ledger.set_cap(**change)
    assert ledger.head().count == 1


def test_the_widest_window_is_a_century(ledger):
    ledger.set_cap(window=(36_600, 1))
    rows = [("m", "1999-12-31"), ("m", "2024-03-01"), ("m", "2099-12-30")]
    assert spend(ledger, rows).granted.tolist() == [0, 1]


def test_names_keep_their_spelling_and_order(ledger):
    """Sorted by code point in both databases: a hash over rows depends on it."""
    names = ["ä", "a", "Z", "z'); --", "é", "e\u0301", "\U0001f50c", "10", "9", "%s ?", "\\t"]
    spend(ledger, [(name, "2024-03-01") for name in names])
    assert ledger.verify() == []
    assert [row["meter"] for row in ledger.rows()] == sorted(names)
    assert {balance.meter for balance in ledger.balances()} == set(names)


def test_balances_and_history(ledger):
    ledger.set_cap(total=10, window=(2, 5))
    spend(ledger, days("m1", 3) + days("m2", 1))
    spend(ledger, days("m1", 1), release="r2", stream="pv", micro=1, source="b")
    top = ledger.balances(1)
    assert [(b.meter, b.spent, b.window) for b in top] == [("m1", 1_500_001, 1_000_001)]
    assert (top[0].remaining, top[0].window_remaining) == (8_499_999, 3_999_999)
    history = ledger.history("m1")
    assert [tuple(s.values())[1:6] for s in history][:2] == [
        ("2024-03-01", "load", 500_000, 0, "r1"),
        ("2024-03-01", "pv", 1, 0, "r2"),
    ]
    assert ledger.caps() == (Cap(10_000_000, (2, 5_000_000)), {})


def test_rows_may_be_left_unread(ledger_url):
    with open_ledger(ledger_url, create=DAY) as opened:
        spend(opened, days("m1", 2))
        rows = opened.rows()
        assert next(rows)["meter"] == "m1"
    rows.close()
    with open_ledger(ledger_url) as opened:
        next(opened.rows())
        assert opened.counts() == (1, 2)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_export(ledger, tmp_path, suffix):
    spend(ledger, days("m1", 2) + days("Haus, links", 1))
    out = tmp_path / f"spends.{suffix}"
    assert export_spends(ledger, out) == 3
    if suffix == "csv":
        with out.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = pq.read_table(out).to_pylist()
    assert [row["meter"] for row in rows] == ["Haus, links", "m1", "m1"]
    assert {int(row["micro_epsilon"]) for row in rows} == {500_000}
    assert {row["release"] for row in rows} == {"r1"}
    with pytest.raises(DataError, match="exists; add --force"):
        export_spends(ledger, out)
    assert export_spends(ledger, out, force=True) == 3


def test_opening_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no ledger at"):
        open_ledger(f"sqlite:///{tmp_path / 'none.db'}")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("not a database, but long enough to look like a file" * 9)
    with pytest.raises(DataError, match="cannot be used as a ledger: file is not a database"):
        open_ledger(f"sqlite:///{tmp_path / 'text.db'}", create=DAY)
    with pytest.raises(DataError, match=r"cannot hold a ledger: (Not a directory|File exists)"):
        open_ledger(f"sqlite:///{tmp_path / 'text.db' / 'ledger.db'}", create=DAY)
    with pytest.raises(DataError, match="cannot be used: unable to open database file"):
        open_ledger(f"sqlite:///{tmp_path}", create=DAY)
    for url in ("ledger.db", "mysql://x", "sqlite:///", "sqlite://x.db"):
        with pytest.raises(InputError, match=r"a ledger is sqlite:///file\.db or postgresql"):
            open_ledger(url)
    with pytest.raises(InputError) as caught:
        open_ledger("mysql://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_another_database_is_left_alone(tmp_path):
    import sqlite3

    path = tmp_path / "mine.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(DataError, match="there is no ledger at"):
        open_ledger(f"sqlite:///{path}")


def test_without_the_extra_the_answer_is_the_pip_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[postgres\]"'):
        open_ledger("postgresql://localhost/x")


def test_micro_epsilon_rounds_up_from_the_written_number():
    assert micro_epsilon(0.1) == 100_000
    assert micro_epsilon("0.1000001") == 100_001
    assert micro_epsilon(1e-9) == 1
    assert micro_epsilon(np.float64(0.3)) == 300_000
    for bad in (0, -1, math.nan, math.inf, "x", None, True):
        with pytest.raises(InputError, match="epsilon must be"):
            micro_epsilon(bad)
    assert [epsilon_text(m) for m in (1, 500_000, 2_000_000, 10_000_000)] == [
        "0.000001", "0.5", "2", "10",
    ]  # fmt: skip


def test_periods_follow_the_calendar():
    assert ordinal("2024-03-01") - ordinal("2024-02-28") == 2
    assert ordinal("2025-01") - ordinal("2024-12") == 1
    for period in ("0001-01-01", "2024-02-29", "9999-12-31", "0001-01", "2024-12", "9999-12"):
        assert period_at(ordinal(period), period_kind(period)) == period
    assert period_at(-5, "day") == "0001-01-01"
    assert period_at(10**9, "month") == "9999-12"


def test_delta_is_added_up_and_capped(ledger):
    """δ of 4e-7 a day and a cap of 1e-6: the third day is refused, a charge without δ is not."""
    ledger.set_cap(delta="1e-6")
    done = spend(ledger, days("m1", 3), femto=4 * 10**8)
    assert done.granted.tolist() == [0, 1]
    assert done.refused[0].reason == (
        "over the cap on δ: the days of the customer so far cost δ = 8e-07 of 1e-06, and this "
        "period costs 4e-07"
    )
    balance = ledger.balance("m1")
    assert (balance.spent, balance.delta_spent) == (1_000_000, 8 * 10**8)
    assert spend(ledger, days("m1", 3)[2:], release="r2", source="b").granted.tolist() == [0]
    assert ledger.verify() == []
    assert ledger.set_cap(delta="none", meter="m1").delta is None


@pytest.mark.parametrize("femto", [-1, 0.5, 10**15 + 1])
def test_a_bad_delta_is_refused(ledger, femto):
    with pytest.raises(InputError, match="femto must be"):
        spend(ledger, days("m1", 1), femto=femto)
    with pytest.raises(InputError, match="delta must be"):
        ledger.set_cap(delta=0)


def test_a_ledger_of_another_version_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "old.db"
    open_ledger(f"sqlite:///{path}", create=DAY).close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP TRIGGER ledger_entries_update")
        connection.execute(
            "UPDATE ledger_entries SET body = replace(body, 'hushmeter-ledger-4', ?)",
            ["hushmeter-ledger-3"],
        )
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"another version \(.*-3\); make a new one") as caught:
        open_ledger(f"sqlite:///{path}")
    assert str(caught.value).count(".") == 2, "one sentence, and the dot of old.db"
    assert path.read_bytes() == before


def test_the_delta_of_a_ledger_is_kept_in_its_first_entry(ledger_url):
    with open_ledger(ledger_url, create=DAY, composition_delta=1e-6) as opened:
        assert opened.composition_delta == 1e-6
    with open_ledger(ledger_url) as again:
        assert again.composition_delta == 1e-6
        assert again.verify() == []
    for bad in (-1e-6, 1, float("nan")):
        with pytest.raises(InputError, match="delta must lie between 0 and 1"):
            open_ledger(ledger_url, create=DAY, composition_delta=bad)


def test_an_earlier_head_is_looked_up(ledger):
    marks = [ledger.head()]
    spend(ledger, days("m1", 1))
    marks.append(ledger.head())
    for mark in marks:
        ledger.check_head(mark)
        ledger.check_head(str(mark))
        ledger.check_head(mark.hash)
    for foreign in (f"{marks[0].count + 7}:{marks[0].hash}", "f" * 64):
        with pytest.raises(DataError, match="does not contain its earlier entry"):
            ledger.check_head(foreign)


def test_a_rehearsal_answers_like_a_spend_and_charges_nothing(ledger):
    ledger.set_cap(total=1)
    before = ledger.head()
    rows = {"f": (["m"] * 2, ["2024-03-01", "2024-03-02"]), "g": (["m"], ["2024-03-03"])}
    charge = Charge("r", "load", {})
    tried = ledger.rehearse(charge, micro=500_000, sources={**rows, "none": ([], [])})
    assert ledger.head() == before
    assert ledger.counts() == (0, 0)
    for source, (meters, periods) in rows.items():
        done = ledger.spend(
            charge, micro=500_000, meters=meters, periods=periods, digest="d", source=source
        )
        assert tried[source].granted.tolist() == done.granted.tolist()
        assert tried[source].refused == done.refused
    assert tried["none"].granted.size == 0
    assert ledger.verify(before) == []


def test_a_sqlite_file_with_two_names_is_refused(tmp_path):
    """A process that opens the other name would look for the log under that name."""
    path = tmp_path / "ledger.db"
    open_ledger(f"sqlite:///{path}", create=DAY).close()
    (tmp_path / "other").mkdir()
    os.link(path, tmp_path / "other/ledger.db")
    for name in (path, tmp_path / "other/ledger.db"):
        with pytest.raises(DataError, match="has more than one name"):
            open_ledger(f"sqlite:///{name}")


@pytest.mark.parametrize("name", [b"a container", b"\xff\xfe", b"form\x0cfeed", b"\xe2\x80\xa8"])
def test_a_sqlite_file_that_is_mounted_alone_is_refused(tmp_path, name):
    """Also if its mount point, or another one, has a name that is no text or has odd spaces."""
    path, folder = tmp_path / "ledger.db", tmp_path / os.fsdecode(name)
    target, plain = folder / "ledger.db", tmp_path / "plain.db"
    open_ledger(f"sqlite:///{path}", create=DAY).close()
    folder.mkdir()
    mounted = []
    try:
        for place in (target, plain):
            place.touch()
            command = ["mount", "--bind", path, place]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("this machine does not allow bind mounts")
            mounted.append(place)
        for place in mounted:
            with pytest.raises(DataError, match=r"mounted without its folder.* mount the folder"):
                open_ledger(f"sqlite:///{place}")
        open_ledger(f"sqlite:///{path}").close()
    finally:
        for place in mounted:
            subprocess.run(["umount", place], check=True)


def rows_of(ledger):
    return ledger._store.run("SELECT COUNT(*) FROM ledger_spends").fetchone()[0]


def facts_of(ledger, meters):
    spends = [{k: v for k, v in row.items() if k != "at"} for row in ledger.rows()]
    return (
        sorted(map(str, spends)), ledger.counts(), ledger.balances(),
        [(ledger.window(meter, 5), len(ledger.history(meter))) for meter in meters],
    )  # fmt: skip


@pytest.fixture
def single_periods(tmp_path):
    """A second ledger, for rows of one period each."""
    with open_ledger(f"sqlite:///{tmp_path / 'two.db'}", create=DAY) as opened:
        yield opened


def test_ranges_answer_like_single_periods(ledger, single_periods, monkeypatch):
    """Random requests with and without joined periods: the same answers and histories."""
    rng = np.random.default_rng(8)
    first = ordinal("2024-02-01")
    for opened in (ledger, single_periods):
        opened.set_cap(total=30, window=(9, 3))
        opened.set_cap(total="none", meter="m2")
    for number in range(60):
        rows = []
        for meter in rng.permutation(["m1", "m2", "m3", "m4"])[: rng.integers(1, 4)]:
            begin, count = int(rng.integers(0, 120)), int(rng.integers(1, 45))
            rows += [(str(meter), period_at(first + begin + day, "day")) for day in range(count)]
        asked = {
            "stream": str(rng.choice(["load", "solar"])),
            "micro": int(rng.choice([10, 350_000])),
            "femto": int(rng.choice([0, 7])),
            "source": f"f{number}",
        }
        for _ in range(2):
            one = spend(ledger, rows, **asked)
            with monkeypatch.context() as patch:
                patch.setattr(chain, "SHORTEST_RANGE", 10**6)
                two = spend(single_periods, rows, **asked)
            assert one.granted.tolist() == two.granted.tolist()
            assert (one.refused, one.resumed) == (two.refused, two.resumed)
    meters = ["m1", "m2", "m3", "m4"]
    assert facts_of(ledger, meters) == facts_of(single_periods, meters)
    assert rows_of(single_periods) == single_periods.counts()[1] > 3 * rows_of(ledger)
    assert ledger.verify() == single_periods.verify() == []


def test_the_price_of_a_range_fits_a_ledger(ledger):
    spend(ledger, days("m", 20), micro=10**15)
    assert rows_of(ledger) == 20


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE ledger_spends SET period = '2024-03-01/2024-03-21'", "21 spends found, but 20"),
        ("UPDATE ledger_spends SET period = '2024-04-01/2024-04-20'", "a meter or a period"),
        ("UPDATE ledger_spends SET period = 'x/y'", "1 spend found, but 20 were recorded"),
        ("UPDATE ledger_spends SET micro = 1", "the entry records 10000000 micro-ε"),
        (
            "INSERT INTO ledger_spends VALUES ('m', '2024-03-20', 'load', 500000, 0, 1)",
            "meter m: 2024-03-20 was spent twice in stream load",
        ),
    ],
)
def test_a_changed_range_is_detected(tmp_path, statement, found):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with open_ledger(url, create=DAY) as opened:
        spend(opened, days("m", 20))
        assert rows_of(opened) == 1
    with sqlite3.connect(tmp_path / "l.db") as connection:
        connection.execute("DROP TRIGGER ledger_spends_update")
        connection.execute(statement)
    with open_ledger(url) as opened:
        assert any(found in sentence for sentence in opened.verify())


@given(st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 900)), min_size=1))
def test_merged_periods_expand_to_the_same(pairs):
    start = ordinal("2023-01-01")
    rows = sorted((meter, period_at(start + day, "day")) for meter, day in pairs)
    merged = merge_periods(rows)
    assert [(m, p) for m, label, _ in merged for p in expand_periods(label)] == rows
    assert all(len(expand_periods(label)) == count for _, label, count in merged)


def test_long_runs_are_cut():
    start = ordinal("2020-01-01")
    rows = [("m", period_at(start + day, "day")) for day in range(1000)]
    assert [count for *_, count in merge_periods(rows)] == [400, 400, 200]
    months = [("m", f"2024-{month:02d}") for month in range(1, 13)]
    assert merge_periods(months) == [("m", "2024-01/2024-12", 12)]
    assert len(expand_periods("2024-01/2024-12")) == 12
    for label in ("2024-01/2024-01", "2024-01-01/2024-02", "2024-02/2024-01", "a/b"):
        with pytest.raises(InputError):
            expand_periods(label)


def test_a_release_never_reaches_a_place_twice(ledger, ledger_url):
    """An older copy of a stream asks for a place that the ledger has passed."""
    assert ledger.place("r1") is None
    for place in (-3, 0, 7):
        ledger.advance("r1", place)
    ledger.advance("r2", 1)
    with open_ledger(ledger_url) as again:
        assert (again.place("r1"), again.place("r2")) == (7, 1)
        for late in (7, 6):
            with pytest.raises(DataError, match=f"reached place 7, so that {late} would be"):
                again.advance("r1", late)
        assert again.verify() == []


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_the_files_of_a_ledger_are_for_their_owner_alone(tmp_path):
    """Whatever the umask is, and also for the log that SQLite keeps beside the file."""
    before = os.umask(0)
    try:
        with open_ledger(f"sqlite:///{tmp_path / 'l.db'}", create=DAY) as opened:
            spend(opened, days("m1", 2))
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"l.db": 0o600, "l.db-wal": 0o600, "l.db-shm": 0o600}


def test_a_damaged_declaration_is_reported_and_nothing_is_priced(tmp_path):
    path = tmp_path / "l.db"
    open_ledger(f"sqlite:///{path}", create=DAY).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER ledger_entries_update")
        connection.execute("UPDATE ledger_entries SET body = replace(body, 'protects', 'x')")
    connection.close()
    with open_ledger(f"sqlite:///{path}") as opened:
        assert any("entry 1 (opened" in sentence for sentence in opened.verify())
        with pytest.raises(DataError, match=r"the first entry of the ledger .* cannot be read"):
            opened.protects  # noqa: B018
