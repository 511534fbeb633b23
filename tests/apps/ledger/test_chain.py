"""Whoever tampers with a ledger is found out, whatever rights they have on the database."""

from __future__ import annotations

import json
import math
import sqlite3
from hashlib import sha256

import pytest

from hushmeter.apps.ledger import Charge, DayChange, Head, open_ledger
from hushmeter.apps.ledger.chain import Entry, batch_number, canonical, link, rows_hash
from hushmeter.apps.ledger.store import TABLES, TRIGGERS
from hushmeter.errors import DataError, InputError

FIRST, SECOND = batch_number("r1", "f1"), batch_number("r1", "f2")


@pytest.fixture
def sound(tmp_path):
    """Two batches, a cap and a mark: entries 1 opened, 2 cap, 3 release, 4–5 spends, 6 released."""
    path = tmp_path / "ledger.db"
    charge = Charge("r1", "load", {"epsilon": "0.5"})
    with open_ledger(f"sqlite:///{path}", create=DayChange.within(0, 15_000)) as ledger:
        ledger.set_cap(total=3, window=(7, 2))
        for source, meters in (("f1", "ab"), ("f2", "cd")):
            rows = [(meter, f"2024-03-{day:02d}") for meter in meters for day in (1, 2, 3)]
            ledger.spend(
                charge,
                micro=500_000,
                meters=[meter for meter, _ in rows],
                periods=[period for _, period in rows],
                digest="d",
                source=source,
            )
        ledger.mark_released(charge, "f1", "out")
        assert ledger.verify() == []
        assert ledger.head().count == 6
    return path


def tamper(path, *statements):
    """As an owner of the file: without triggers, foreign to every rule but the tables'."""
    connection = sqlite3.connect(path)
    kept = dict(
        connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    )
    assert set(kept) == set(TRIGGERS)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    with connection:
        for name in kept:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount != 0
        for sql in kept.values():
            connection.execute(sql)
    connection.close()


def problems(path, head=None):
    with open_ledger(f"sqlite:///{path}") as ledger:
        return ledger.verify(head)


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (
            ["UPDATE ledger_spends SET micro = 1 WHERE meter = 'a'"],
            "is 1 micro-ε and 0 femto-δ",
        ),
        (
            ["UPDATE ledger_spends SET stream = 'x' WHERE meter = 'a'"],
            "in stream x, but the entry records",
        ),
        (["UPDATE ledger_spends SET femto = 9 WHERE meter = 'a'"], "9 femto-δ in stream load"),
        (["UPDATE ledger_balances SET delta_spent = 9"], "micro-ε and 9 femto-δ, but its spends"),
        (["UPDATE ledger_balances SET delta_ceiling = 9"], "meter a: the ceiling"),
        (["UPDATE ledger_caps SET delta = 9"], "the caps are not those"),
        (["UPDATE ledger_spends SET meter = 'e' WHERE meter = 'a'"], "a meter or a period"),
        (
            ["UPDATE ledger_spends SET period = '2024-03-09' WHERE period = '2024-03-01'"],
            "a meter or a period of its spends was changed",
        ),
        (["DELETE FROM ledger_spends WHERE meter = 'a'"], "3 spends found, but 6 were recorded"),
        ([f"DELETE FROM ledger_spends WHERE batch = {FIRST}"], "all its spends are missing"),
        (
            [f"INSERT INTO ledger_spends VALUES ('a', '2024-03-04', 'load', 500000, 0, {FIRST})"],
            "7 spends found, but 6 were recorded",
        ),
        (
            ["INSERT INTO ledger_spends VALUES ('a', '2024-03-04', 'load', 500000, 0, 7)"],
            "1 spend without an entry, the first of meter a in 2024-03-04",
        ),
        (
            [
                f"UPDATE ledger_spends SET batch = {SECOND} WHERE meter = 'a'",
                f"UPDATE ledger_spends SET batch = {FIRST} WHERE meter = 'c'",
            ],
            "a meter or a period of its spends was changed",
        ),
        (
            [
                "UPDATE ledger_entries SET batch = 1 WHERE seq = 4",
                f"UPDATE ledger_entries SET batch = {FIRST} WHERE seq = 5",
            ],
            "points to the rows of another source",
        ),
        (
            ["UPDATE ledger_entries SET body = replace(body, '500000', '1') WHERE seq = 4"],
            "entry 4 (spend of",
        ),
        (["UPDATE ledger_entries SET body = 'x' WHERE seq = 4"], "entry 4 (spend) cannot be read"),
        (["UPDATE ledger_entries SET body = '7' WHERE seq = 2"], "entry 2 (cap) cannot be read"),
        (["UPDATE ledger_entries SET at = '2020' WHERE seq = 6"], "entry 6 (released of 2020) was"),
        (["DELETE FROM ledger_entries WHERE seq = 4"], "entries 4 to 4 are missing"),
        (["DELETE FROM ledger_entries WHERE seq = 3"], "that release never began"),
        (["DELETE FROM ledger_entries WHERE seq <= 3"], "entries 1 to 3 are missing"),
        (["DELETE FROM ledger_entries"], "has no entries, not even its first"),
        (
            [
                "UPDATE ledger_entries SET seq = 99 WHERE seq = 4",
                "UPDATE ledger_entries SET seq = 4 WHERE seq = 5",
                "UPDATE ledger_entries SET seq = 5 WHERE seq = 99",
            ],
            "does not follow the entry before it",
        ),
        (
            [
                "INSERT INTO ledger_entries VALUES (7, 'cap', '2024', '', '', NULL, "
                """'{"delta":null,"meter":"","total":null,"window":null}', 'ff')"""
            ],
            "entry 7 (cap of 2024) was changed, or does not follow",
        ),
        (["UPDATE ledger_balances SET spent = 0 WHERE meter = 'a'"], "the balance is 0 micro-ε"),
        (["DELETE FROM ledger_balances WHERE meter = 'a'"], "the balance is 0 micro-ε"),
        (
            ["INSERT INTO ledger_balances VALUES ('z', 7, 0, 3000000, NULL)"],
            "meter z: the balance is 7 micro-ε and 0 femto-δ, but its spends add up to 0",
        ),
        (["UPDATE ledger_balances SET ceiling = NULL WHERE meter = 'a'"], "meter a: the ceiling"),
        (["UPDATE ledger_balances SET ceiling = 9000000"], "meter d: the ceiling"),
        (["UPDATE ledger_caps SET total = 9000000"], "the caps are not those"),
        (["UPDATE ledger_caps SET most = NULL"], "the caps are not those"),
        (["DELETE FROM ledger_caps"], "the caps are not those"),
    ],
)
def test_tampering_is_found(sound, statements, found):
    tamper(sound, *statements)
    told = problems(sound)
    assert any(found in sentence for sentence in told), told
    assert all(sentence.endswith(".") for sentence in told)


CUT = (
    f"DELETE FROM ledger_spends WHERE batch = {SECOND}",
    "DELETE FROM ledger_balances WHERE meter IN ('c', 'd')",
    "DELETE FROM ledger_entries WHERE seq >= 5",
)


def test_a_cut_end_is_found_by_the_high_water_mark(sound):
    with open_ledger(f"sqlite:///{sound}") as ledger:
        mark = ledger.head()
    tamper(sound, *CUT)
    assert problems(sound) == []
    told = problems(sound, mark)
    assert len(told) == 1
    assert f"the high-water mark {mark} is not in the chain, which now ends at 4:" in told[0]
    assert problems(sound, mark.hash) != []


def test_an_older_mark_stays_good(sound):
    with open_ledger(f"sqlite:///{sound}") as ledger:
        mark = ledger.head()
        ledger.set_cap(total=5)
        assert ledger.verify(mark) == []
        assert ledger.verify(str(mark)) == []
        assert ledger.verify(mark.hash) == []
        assert ledger.verify(Head(mark.count - 1, mark.hash)) != []


def test_a_forged_chain_is_found_by_the_high_water_mark(sound):
    """Who rewrites every hash after a change still cannot meet a mark kept elsewhere."""
    with open_ledger(f"sqlite:///{sound}") as ledger:
        mark = ledger.head()
    connection = sqlite3.connect(sound)
    entries = [Entry(*row) for row in connection.execute("SELECT * FROM ledger_entries")]
    connection.close()
    changes = ["UPDATE ledger_spends SET micro = 1", "UPDATE ledger_balances SET spent = 3"]
    head = Head(0, "0" * 64)
    for entry in entries:
        body = entry.body
        if entry.kind == "spend":
            body = canonical(entry.facts | {"micro": 1})
        forged = link(head, entry.kind, entry.at, entry.release, entry.source, entry.batch, body)
        changes.append(
            f"UPDATE ledger_entries SET body = '{body}', hash = '{forged.hash}' "
            f"WHERE seq = {entry.seq}"
        )
        head = Head(forged.seq, forged.hash)
    tamper(sound, *changes)
    assert problems(sound) == []
    assert len(problems(sound, mark)) == 1


def append(path, kind, source, body, *more):
    """A well-formed entry at the end of the chain, past the unique keys."""
    connection = sqlite3.connect(path)
    (sql,) = connection.execute(
        "SELECT sql FROM sqlite_master WHERE name = 'ledger_entries'"
    ).fetchone()
    count, last = connection.execute(
        "SELECT seq, hash FROM ledger_entries ORDER BY seq DESC"
    ).fetchone()
    connection.close()
    batch = batch_number("r1", source) if kind == "spend" else None
    entry = link(Head(count, last), kind, "2024", "r1", source, batch, body)
    values = ", ".join("NULL" if v is None else repr(v) for v in vars(entry).values())
    tamper(
        path,
        "ALTER TABLE ledger_entries RENAME TO before",
        sql.replace("batch BIGINT UNIQUE", "batch BIGINT"),
        "INSERT INTO ledger_entries SELECT * FROM before",
        "DROP TABLE before",
        f"INSERT INTO ledger_entries VALUES ({values})",
        *more,
    )


def test_a_batch_cannot_be_rewritten_by_a_later_entry(sound):
    """All that was there stays, so the mark is met; a second entry takes meter c out of f2."""
    rows = [("d", f"2024-03-0{day}") for day in (1, 2, 3)]
    granted = {"rows": 3, "sha256": rows_hash(rows)}
    with open_ledger(f"sqlite:///{sound}") as ledger:
        mark = ledger.head()
    body = canonical({"digest": "d", "stream": "load", "micro": 500_000, "granted": granted})
    append(
        sound, "spend", "f2", body,
        "DELETE FROM ledger_spends WHERE meter = 'c'",
        "DELETE FROM ledger_balances WHERE meter = 'c'",
    )  # fmt: skip
    told = problems(sound, mark)
    assert "entry 7 (spend) repeats an earlier one of the same release and source." in told
    assert any("3 spends found, but 6 were recorded" in sentence for sentence in told)


@pytest.mark.parametrize(
    ("kind", "source", "body", "found"),
    [
        ("release", "", '{"terms":{"epsilon":"0.1"}}', "entry 7 (release) repeats an earlier one"),
        ("released", "f1", '{"output":"tuo"}', "entry 7 (released) repeats an earlier one"),
        ("released", "f3", '{"output":"out"}', "was released before it was paid for"),
    ],
)
def test_entries_that_contradict_earlier_ones(sound, kind, source, body, found):
    append(sound, kind, source, body)
    (told,) = problems(sound)
    assert found in told


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_spends SET micro = 1",
        "DELETE FROM ledger_spends",
        "UPDATE ledger_entries SET body = ''",
        "DELETE FROM ledger_entries",
        "UPDATE ledger_balances SET spent = spent - 1",
        "DELETE FROM ledger_balances",
    ],
)
def test_the_ledger_is_append_only(sound, statement):
    connection = sqlite3.connect(sound)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert problems(sound) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_balances SET spent = 3000001 WHERE meter = 'a'",
        "UPDATE ledger_balances SET delta_ceiling = -1 WHERE meter = 'a'",
        "INSERT INTO ledger_spends VALUES ('a', '2024-04-01', 'load', 1, -1, 1)",
        "INSERT INTO ledger_spends VALUES ('a', '2024-04-01', 'load', 0, 0, 1)",
        "INSERT INTO ledger_spends VALUES ('a', '2024-04-01', 'load', -5, 0, 1)",
        "INSERT INTO ledger_spends VALUES ('a', '2024-03-01', 'load', 5, 0, 1)",
    ],
)
def test_the_tables_themselves_keep_the_rules(sound, statement):
    connection = sqlite3.connect(sound)
    with pytest.raises(sqlite3.IntegrityError, match=r"CHECK|UNIQUE|cap_is_kept"):
        connection.execute(statement)
    connection.close()


def test_a_dropped_trigger_is_a_problem(sound):
    connection = sqlite3.connect(sound)
    with connection:
        connection.execute("DROP TRIGGER ledger_spends_delete")
    connection.close()
    assert problems(sound) == [
        "triggers that keep the ledger append-only are missing: ledger_spends_delete."
    ]


def test_a_spend_without_an_entry_is_not_exported(sound):
    tamper(sound, "DELETE FROM ledger_entries WHERE seq = 5")
    with open_ledger(f"sqlite:///{sound}") as ledger:
        with pytest.raises(DataError, match="belongs to no entry; run `hushmeter ledger verify`"):
            list(ledger.rows())
        with pytest.raises(DataError, match="belongs to no entry"):
            ledger.history("c")


@pytest.mark.parametrize("text", ["", "12", "1:abc", "x:" + "0" * 64, "0" * 63, "0" * 65])
def test_marks_that_are_none(text):
    with pytest.raises(InputError, match="a head must be COUNT:HASH"):
        Head.parse(text)


def test_marks_read_as_they_are_printed():
    mark = Head(12, "0f" * 32)
    assert Head.parse(str(mark)) == mark
    assert Head.parse(f" {mark} \n") == mark
    assert Head.parse(mark.hash.upper()) == Head(0, mark.hash)


def test_hashes_are_of_the_utf_8_text_of_sorted_json():
    """Another program can compute them, and a ledger of today stays valid."""
    rows = '[["Zähler 1","2024-03-01"],["Zähler 2","2024-03"]]'
    assert rows_hash(json.loads(rows)) == sha256(rows.encode()).hexdigest()
    assert canonical({"ß": 1, "a": [None, 0.5]}) == '{"a":[null,0.5],"ß":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"micro": math.nan})


def test_both_databases_have_the_same_tables():
    assert TABLES.count("CREATE TABLE") == 5
    assert all(name.rpartition("_")[0] in TABLES for name in TRIGGERS)
