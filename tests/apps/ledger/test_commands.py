"""`hushmeter ledger`, run as a person runs it."""

from __future__ import annotations

import csv
import json
import sqlite3

import numpy as np
import pytest
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.apps.ledger import Charge, DayChange, open_ledger


@pytest.fixture
def url(tmp_path):
    """A ledger with two meters under caps."""
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    with open_ledger(address, create=DayChange.within(0, 15_000)) as ledger:
        ledger.set_cap(total=5, window=(30, 2))
        ledger.spend(
            Charge("spring", "load", {"epsilon": "0.5"}),
            micro=500_000,
            meters=["1001", "1001", "1001", "1002"],
            periods=["2024-03-01", "2024-03-02", "2024-05-01", "2024-03-01"],
            digest="d",
            source="part-0.parquet",
        )
    return address


def ask(*arguments, expect=0):
    return run("ledger", *arguments, expect=expect)


def test_from_nothing_to_a_capped_ledger(tmp_path):
    address = f"sqlite:///{tmp_path / 'new' / 'ledger.db'}"
    done = ask("init", "--ledger", address, "--clamp", "0,15000")
    assert "An empty ledger at" in done.stdout
    unit = "any readings of a customer's day (up to 25 hours) between 0 W and 15 kW"
    assert f"Every charge is the cost of {unit}." in done.stdout
    mark = done.stdout.splitlines()[0].split()[-1]
    assert mark.startswith("1:")
    told = json.loads(ask("cap", "--ledger", address, "--delta", "1e-3", "--json").stdout)
    assert told["delta_cap"] == 1e-3
    assert "Cap for all meters: none" in ask("cap", "--ledger", address, "--delta", "none").stdout
    told = json.loads(ask("cap", "--ledger", address, "--total", 20, "--json").stdout)
    assert (told["total_cap"], told["window_cap"]) == (20, None)
    words = ask("cap", "--ledger", address, "--window", "30,5").stdout
    assert "ε = 20 for all days of a customer, ε = 5 for any 30 periods in a row" in words
    own = ask("cap", "--ledger", address, "--meter", "1001", "--total", "0.3").stdout
    assert "Cap for meter 1001: ε = 0.3 for all days of a customer." in own
    assert "is sound, 6 entries" in ask("verify", "--ledger", address, "--head", mark).stdout
    again = ask("init", "--ledger", address, "--clamp", "0,15000", expect=1)
    assert "already holds a ledger of 6 entries" in again.stderr
    other = ask("init", "--ledger", address, "--change", "3kW,8kWh", expect=1)
    assert "a ledger declares this once, so make another one" in other.stderr


@pytest.mark.parametrize("options", [(), ("--clamp", "0,9000", "--change", "3kW,8kWh")])
def test_a_new_ledger_declares_one_change(tmp_path, options):
    done = ask("init", "--ledger", f"sqlite:///{tmp_path}/l.db", *options, expect=2)
    assert "give either --clamp, such as 0,15000, or --change, such as 3kW,8kWh" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_declared_change_is_in_the_chain(tmp_path):
    url = f"sqlite:///{tmp_path}/l.db"
    told = json.loads(ask("init", "--ledger", url, "--change", "3kW,8kWh", "--json").stdout)
    assert told["protects"] == {"watts": 3000, "watt_hours": 8000}
    shown = json.loads(ask("show", "--ledger", url, "--json").stdout)
    assert shown["protects"] == told["protects"]
    assert shown["unit"] in ask("show", "--ledger", url).stdout
    connection = sqlite3.connect(tmp_path / "l.db")
    with connection:
        connection.execute("DROP TRIGGER ledger_entries_update")
        connection.execute("UPDATE ledger_entries SET body = replace(body, '3000', '1')")
    connection.close()
    assert "entry 1 (opened" in ask("verify", "--ledger", url, expect=1).stdout


def test_show(url):
    told = json.loads(ask("show", "--ledger", url, "--json").stdout)
    assert (told["meters"], told["spends"], told["entries"]) == (2, 4, 4)
    first, second = told["meters_shown"]
    assert first == {
        "meter": "1001", "spent": 1.5, "total_cap": 5, "window_periods": 30, "window_cap": 2,
        "remaining": 3.5, "window_spent": 1, "window_remaining": 1, "delta_spent": 0,
        "delta_cap": None,
    }  # fmt: skip
    assert second["meter"] == "1002"
    text = ask("show", "--ledger", url).stdout
    assert f"High-water mark: {told['head']}" in text
    assert "Cap for all meters: ε = 5 for all days of a customer" in text
    assert len(json.loads(ask("show", "--ledger", url, "--limit", 1, "--json").stdout)[
        "meters_shown"
    ]) == 1  # fmt: skip


def test_show_one_meter(url):
    told = json.loads(ask("show", "--ledger", url, "--meter", "1001", "--json").stdout)
    assert [spend["period"] for spend in told["spends"]] == [
        "2024-03-01", "2024-03-02", "2024-05-01",
    ]  # fmt: skip
    assert {spend["release"] for spend in told["spends"]} == {"spring"}
    text = ask("show", "--ledger", url, "--meter", "1001").stdout
    assert "part-0.parquet" in text
    stranger = json.loads(ask("show", "--ledger", url, "--meter", "9", "--json").stdout)
    assert stranger["meters_shown"][0]["remaining"] == 5
    assert stranger["spends"] == []


def test_verify_finds_tampering_and_a_cut(url, tmp_path):
    mark = json.loads(ask("verify", "--ledger", url, "--json").stdout)["head"]
    assert "is sound" in ask("verify", "--ledger", url, "--head", mark).stdout
    other = "7:" + "0" * 64
    cut = ask("verify", "--ledger", url, "--head", other, expect=1).stdout
    assert f"the high-water mark {other} is not in the chain" in cut
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("DROP TRIGGER ledger_spends_update")
        connection.execute("UPDATE ledger_spends SET micro = 1 WHERE meter = '1002'")
    connection.close()
    told = json.loads(ask("verify", "--ledger", url, "--json", expect=1).stdout)
    assert not told["sound"]
    assert len(told["problems"]) == 3
    words = ask("verify", "--ledger", url, expect=1).stdout
    assert "the spend of meter 1002 in 2024-03-01 is 1 micro-ε" in words
    assert "3 problems: do not release with this ledger." in words


def test_export(url, tmp_path):
    out = tmp_path / "spends.csv"
    done = json.loads(ask("export", "--ledger", url, "-o", out, "--json").stdout)
    assert done["spends"] == 4
    assert done["head"].startswith("4:")
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["micro_epsilon"]) for row in rows) == 2_000_000
    assert "exists; add --force" in ask("export", "--ledger", url, "-o", out, expect=1).stderr
    assert (
        "4 spends; high-water mark" in ask("export", "--ledger", url, "-o", out, "--force").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "--ledger", "sqlite:///{}/none.db"], 1, "there is no ledger at"),
        (["show", "--ledger", "none.db"], 2, "a ledger is sqlite:///file.db or postgresql://"),
        (["cap", "--ledger", "{url}"], 2, "give a cap"),
        (["cap", "--ledger", "{url}", "--total", "nan"], 2, "total must be positive and finite"),
        (["cap", "--ledger", "{url}", "--total", "-1"], 2, "total must be positive and finite"),
        (["cap", "--ledger", "{url}", "--window", "30"], 2, "window must be W,ε such as 30,5"),
        (["cap", "--ledger", "{url}", "--window", "0,5"], 2, "window must be a whole number"),
        (["verify", "--ledger", "{url}", "--head", "12"], 2, "a head must be COUNT:HASH"),
        (["export", "--ledger", "{url}", "-o", "x.xlsx"], 2, "must end in .csv or .parquet"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(url, tmp_path, arguments, code, message):
    filled = [text.format(tmp_path, url=url) for text in arguments]
    done = ask(*filled, expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    with open_ledger(url) as ledger:
        assert ledger.head().count == 4


def test_help_has_examples():
    for command in ("init", "show", "verify", "cap", "export"):
        text = " ".join(ask(command, "--help").stdout.split())
        assert f"Example: hushmeter ledger {command} --ledger" in text


def test_a_stream_takes_the_clamp_of_its_ledger(tmp_path):
    hm.write_meter(tmp_path / "m.csv", hm.Trace(np.full(24, 300.0), 3600.0, "2024-03-01T00:00Z"))
    url = f"sqlite:///{tmp_path}/l.db"
    ask("init", "--ledger", url, "--clamp", "0,15000")
    stream = ("live", tmp_path / "m.csv", "--once", "--interval", "1h", "--to", tmp_path / "out")
    stream += ("--state", tmp_path / "s.db", "--ledger", url, "--ledger-meter", "m")
    wide = ("-e", 1, "--protect", "range", "--span", "day", "--clamp", "0,20000")
    assert "choose a clamp within 0,15000." in run(*stream, *wide, expect=2).stderr
    run(*stream, "--hide", "kettle")
    with sqlite3.connect(tmp_path / "s.db") as connection:
        terms = connection.execute("SELECT value FROM facts WHERE name = 'terms'").fetchone()[0]
    connection.close()
    noise = json.loads(terms)["tables"][0]["noise"]
    assert noise["parameters"]["clamp"] == [0, 15000]
    # Each of 25 hours may move by 15 kW, and the noise was made for a kettle.
    spent = json.loads(ask("show", "--ledger", url, "--meter", "m", "--json").stdout)["spends"]
    mu = 15_000 * 5 / noise["scale"]
    assert spent[0]["micro_epsilon"] / 1e6 > mu**2 / 2
