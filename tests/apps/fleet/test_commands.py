"""The utility's commands, run as an operator runs them."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from tests.apps.fleet.cases import digests, new_ledger, published, readings, spends, write
from tests.cli import changed
from tests.cli.test_commands import run

from hushmeter.apps.ledger import open_ledger
from hushmeter.synth.traces import FleetPlan, write_fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    done = run("synth-fleet", "--meters", 60, "--days", 3, "--interval", 1800, "--files", 2,
               "-o", folder / "in")  # fmt: skip
    assert "8640 readings of 60 meters written to 2 files in" in done.stdout
    return folder / "in"


def command(source, output, ledger, *more):
    basic = ("-e", 1, "--clamp", "0,15000", "--ledger", ledger, "-o", output)
    return ("fleet", source, *changed(basic, more))


def table_of(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def released(fleet, tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    ledger = new_ledger(folder)
    done = run(*command(fleet, folder / "out", ledger, "-j", 2, "--keep", "group"))
    return done, folder / "out", ledger


def test_fleet_says_what_it_promised(released):
    done, out, ledger = released
    assert "8640 of 8640 readings in 2 of 2 files" in done.stdout
    assert "laplace, scale 15 kW" in done.stdout
    assert "published without noise, exactly as in the input: column 'group'" in done.stdout
    assert (
        "any value of a reading of up to 7.5 kWh and 15 kW, in one metered reading of 30 minutes"
        in done.stdout
    )
    assert (
        "at ε = 1\ncharged for each of 180 meter-days: ε = 51\nfor any readings of a customer's "
        "day (up to 25 hours) between 0 W and 15 kW\n" in done.stdout
    )
    assert len(digests(out)) == 2
    assert len(spends(ledger)) == 180


def test_a_second_time_the_ledger_says_no(released, fleet, tmp_path):
    _, out, ledger = released
    name = json.loads((out / "manifest.json").read_text())["release"]
    done = run(*command(fleet, tmp_path / "again", ledger, "--json"), expect=1)
    assert done.stderr.strip() == (
        "hushmeter: 180 meter-days and 2 whole files left out at no cost; most often: refused by "
        f"the ledger (already released by release {name}); see {tmp_path}/again.quarantine.csv."
    )
    facts = json.loads(done.stdout)
    assert facts["released_rows"] == 0
    assert facts["quarantine"]["blocks"] == 180
    table = table_of(tmp_path / "again.quarantine.csv")
    assert len(table) == 180
    assert table[0]["meter"] == "M00000000"
    done = run(*command(fleet, tmp_path / "fixed", ledger, "--correct"))
    assert "8640 of 8640" in done.stdout
    with open_ledger(ledger) as opened:
        assert opened.balance("M00000000").spent == 6 * 51_000_000


def test_what_is_left_out_is_reported_in_one_sentence(tmp_path):
    columns = readings()
    columns["interval_s"][5] = 900
    write(tmp_path / "in/x.parquet", columns)
    (tmp_path / "in/y.parquet").write_text("no parquet")
    ledger = new_ledger(tmp_path)
    done = run(*command(tmp_path / "in", tmp_path / "out", ledger), expect=1)
    assert done.stderr.count("\n") == 1
    assert "1 meter-day and 1 whole file left out at no cost" in done.stderr
    assert "72 of 96 readings in 1 of 2 files" in done.stdout
    rows = table_of(tmp_path / "out.quarantine.csv")
    assert [(r["file"], r["meter"], r["row"]) for r in rows] == [
        ("x.parquet", "a", "5"),
        ("y.parquet", "", ""),
    ]
    assert run("ledger", "verify", "--ledger", ledger).returncode == 0


def test_other_columns_span_and_mechanism(tmp_path):
    columns = readings()
    columns["mpan"] = columns.pop("meter")
    write(tmp_path / "in/x.parquet", columns)
    done = run(
        *command(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), "--json"),
        *("--columns", "meter=mpan", "--span", "day", "--mechanism", "gaussian"),
        *("--sensitivity", 500, "--grid", 10, "--delta", "1e-5", "--period", "month"),
        *("--stream", "pilot"),
    )
    facts = json.loads(done.stdout)
    assert facts["stream"] == "pilot"
    sentence = facts["promise"]["unit"]["sentence"]
    assert sentence.startswith("any change of up to 12.5 kWh and 500 W, over one day")
    assert facts["promise"]["delta"] == 1e-5
    assert facts["released_blocks"] == 2
    assert (pq.read_table(tmp_path / "out/x.parquet")["value"].to_numpy() % 10 == 0).all()


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["-e", "0"], 2, "epsilon must be positive"),
        (["--clamp", "5"], 2, "clamp must be LO,HI"),
        (["--sensitivity", "much"], 2, "sensitivity must be a number of watts"),
        (["--period", "year"], 2, "period must be one of day, month"),
        (["--ledger", "sqlite:///missing.db"], 1, "there is no ledger"),
        (["-o", "/proc/nowhere"], 1, "cannot be written"),
    ],
)
def test_bad_options(fleet, tmp_path, more, code, message):
    ledger = new_ledger(tmp_path)
    done = run(*command(fleet, tmp_path / "out", ledger, *more), expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert spends(ledger) == []
    assert not (tmp_path / "out").exists()


def test_two_at_once_and_one_wins(tmp_path):
    """The same period from two processes: one publishes it, the other says why it does not."""
    meters = [f"m{i:04d}" for i in range(500)]
    write(tmp_path / "in/x.parquet", readings(meters=meters))
    ledger = new_ledger(tmp_path)
    outs = [tmp_path / name for name in ("left", "right")]
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "hushmeter", *map(str, command(tmp_path / "in", out, ledger))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for out in outs
    ]
    told = [job.communicate()[1] for job in jobs]
    codes = [job.returncode for job in jobs]
    assert sorted(codes) == [0, 1], told
    loser = codes.index(1)
    assert told[1 - loser] == ""
    assert told[loser].startswith("hushmeter: 1000 meter-days and 1 whole file left out")
    assert "already released by release" in told[loser]
    assert told[loser].count("\n") == 1
    assert digests(outs[loser]) == {}
    assert len(published(outs[1 - loser])) == len(spends(ledger)) == 1000
    with open_ledger(ledger) as opened:
        assert opened.verify() == []


def test_fleet_stats(released, tmp_path):
    _, out, _ = released
    done = run("fleet-stats", out, "--by", "group", "--every", "day", "-o", tmp_path / "s.csv")
    assert "the standard error of a single reading is 2.121e+04 W" in done.stdout
    assert "feeder-00001" in done.stdout
    assert "clamped to 0 … 15000 W" in done.stdout
    rows = table_of(tmp_path / "s.csv")
    assert len(rows) == 6
    assert rows[0]["start"].startswith("2024-01-01")
    assert float(rows[0]["energy_se_kwh"]) == pytest.approx(21213.2 * 2400**0.5 / 2000, rel=1e-3)
    again = run("fleet-stats", out, "-o", tmp_path / "s.csv", expect=1)
    assert "exists; add --force" in again.stderr


def test_bills_as_json(released):
    _, out, _ = released
    done = run(
        "fleet-stats", out, "--by", "meter", "--every", "all", "--energy-price", 0.3, "--json"
    )
    result = json.loads(done.stdout)
    assert len(result["rows"]) == 60
    row = result["rows"][0]
    assert row["start"] is None
    assert row["bill"] == pytest.approx(0.3 * row["energy_kwh"])
    assert row["bill_se"] == pytest.approx(0.3 * 21213.2 * 144**0.5 / 2000, rel=1e-3)
    table = run("fleet-stats", out, "--by", "meter", "--every", "day", "--energy-price", 0.3).stdout
    assert "… and 156 more rows; write them all with -o." in table
    assert "bill" in table


def test_wrong_use_of_the_helpers(released, tmp_path):
    _, out, _ = released
    assert "has no manifest.json" in run("fleet-stats", tmp_path, expect=1).stderr
    (tmp_path / "plain.csv").write_text("a,b\n1,2\n")
    refused = run("fleet-stats", tmp_path / "plain.csv", expect=1).stderr
    assert "is neither a calendar release nor a restored file" in refused
    assert "has no column" in run("fleet-stats", out, "--by", "feeder", expect=2).stderr
    assert "must divide a day" in run(
        "synth-fleet", "--interval", 7, "-o", tmp_path / "x", expect=2
    ).stderr  # fmt: skip
    done = run("synth-fleet", "--meters", 2, "--days", 1, "-o", tmp_path / "x", "--json")
    assert json.loads(done.stdout)["rows"] == 192


def test_an_extract_of_another_shape_with_one_command(tmp_path):
    """Ids, local times and kWh without unit and interval: tried first, then released."""
    (tmp_path / "in").mkdir()
    rows = [f"7,2024-06-03 {slot // 2:02d}:{slot % 2 * 30:02d},0.5" for slot in range(48)]
    (tmp_path / "in/june.csv").write_text("\n".join(["mpan,read_at,kwh", *rows]))
    options = ("--columns", "meter=mpan,time=read_at,value=kwh", "--unit", "kWh", "--tz",
               "Europe/London", "--every", "30min")  # fmt: skip
    asked = command(tmp_path / "in", tmp_path / "out", new_ledger(tmp_path), *options)
    tried = run(*asked, "--dry-run")
    assert "dry run: 48 of 48 readings in 1 of 1 files" in tried.stdout
    assert "to be charged for each of 2 meter-days: ε = 51\nfor any readings" in tried.stdout
    assert "Nothing was spent or written" in tried.stdout
    assert not (tmp_path / "out").exists()
    done = run(*asked)
    assert "48 of 48 readings" in done.stdout
    assert [p.name for p in (tmp_path / "out").glob("*.parquet")] == ["june.csv.parquet"]
    again = run(*command(tmp_path / "in", tmp_path / "two", new_ledger(tmp_path, "b")), expect=1)
    assert "give --interval" in again.stderr
    lost = run(*command(tmp_path / "in", tmp_path / "out2", asked[7], *options), expect=1)
    assert "Nothing was released, and" in lost.stdout
    assert not (tmp_path / "out2").exists()


def test_ctrl_c_prints_what_is_safe_and_how_to_continue(tmp_path):
    ledger = new_ledger(tmp_path)
    # Large enough that the job is still at work when the signal arrives.
    write_fleet(FleetPlan(1600, 30, 900), tmp_path / "in", files=160)
    words = [str(part) for part in command(tmp_path / "in", tmp_path / "out", ledger)]
    # Tests that a shell runs in the background ignore the signal, and so would the job.
    job = subprocess.Popen(
        [sys.executable, "-m", "hushmeter", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not any((tmp_path / "out").glob("*.parquet")) and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    told = job.communicate()[1]
    assert job.returncode == 130, told
    assert told.startswith("hushmeter: interrupted; finished files are in")
    assert "continue with the same command and --resume" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out/manifest.json").exists()
    again = run(*command(tmp_path / "in", tmp_path / "out", ledger, "--resume"))
    assert "4608000 of 4608000 readings" in again.stdout


def test_fleet_sums(fleet, tmp_path):
    ledger = new_ledger(tmp_path)
    asked = ("fleet-sums", fleet, "-e", 1, "--clamp", "0,15000", "--ledger", ledger)
    asked = (*asked, "--accept-noise")
    done = run(*asked, "-o", tmp_path / "sums", "--every", "day")
    assert "everything that one household does in one civil day" in done.stdout
    assert "at ε = 1\ncharged for each of 180 meter-days: ε = 1\n" in done.stdout
    assert "feeder-00001" in done.stdout
    assert sorted(p.name for p in (tmp_path / "sums").iterdir()) == [
        "manifest.json",
        "peaks.parquet",
        "sums.parquet",
    ]
    assert len(pq.read_table(tmp_path / "sums/sums.parquet")) == 6
    more = (*asked, "--stream", "more", "--tables", "shape,quantiles", "--tz", "Europe/Berlin")
    run_unit = (*more, "--unit-of", "run", "--run", "2100,3min,90", "-o", tmp_path / "run")
    dry = run(*run_unit, "--dry-run")
    assert "one run of an appliance of up to 2100 W, 3 minutes and 90 Wh, present" in dry.stdout
    assert "Nothing was spent or written." in dry.stdout
    done = run(*run_unit, "-j", 2)
    assert "Mean load by group and hour of the day (Europe/Berlin)" in done.stdout
    assert "quantile" in done.stdout
    assert "Nothing" not in done.stdout
    for option, told in (
        (("--run", "2100"), "run must be WATTS,TIME"),
        (("--quantiles", "a"), "quantiles must be numbers"),
        (("--unit-of", "household"), "needs the period of the release"),
    ):
        assert told in run(*more, *option, "-o", tmp_path / "x", expect=2).stderr
    again = run(*asked, "-o", tmp_path / "two", "--json", expect=1)
    assert json.loads(again.stdout)["quarantine"]["blocks"] == 180
    assert "180 meter-days and 2 whole files left out at no cost" in again.stderr
    assert not (tmp_path / "two").exists()
