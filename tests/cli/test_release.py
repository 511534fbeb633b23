"""`hushmeter release` and `hushmeter audit`, run as a person runs them."""

from __future__ import annotations

import csv
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import hushmeter as hm
from hushmeter.files import write_table
from hushmeter.formatting import format_two_digits, format_watts
from hushmeter.home import LearntFrom
from hushmeter.trace import digest
from tests.cli.test_commands import run


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("case")
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 1500, seed=2)
    home.save(folder / "home.toml")
    write_table(folder / "meter.csv", {"timestamp": trace.times, "watts": trace.readings})
    return folder


def release(case, out, *more, expect=0, file="meter.csv"):
    return run("release", case / file, "-o", out, *more, expect=expect)


def test_a_release_and_its_receipt(case, tmp_path):
    out = tmp_path / "released.csv"
    done = release(case, out, "-e", "0.5", "--home", case / "home.toml")
    assert "whether any one appliance is on (up to 7200 W)" in done.stdout
    released = hm.read_meter(out)
    receipt = json.loads((tmp_path / "released.csv.receipt.json").read_text())
    assert receipt["kind"] == "release"
    assert receipt["epsilon"] == pytest.approx(0.5)
    assert receipt["output"]["sha256"] == digest(released)
    private = json.loads((tmp_path / "released.csv.private.json").read_text())
    assert private["receipt"] == receipt
    assert "kettle" not in json.dumps(receipt)
    assert "released before" not in done.stdout
    assert released.start == hm.read_meter(case / "meter.csv").start
    again = tmp_path / "again.csv"
    second = release(case, again, "-e", "0.5", "--home", case / "home.toml")
    assert "each further release of these readings adds its ε" in " ".join(second.stdout.split())
    assert "Together they have at most ε = 1 for a change that each of them protects" in " ".join(
        second.stdout.split()
    )
    assert (hm.read_meter(again).readings != released.readings).any()


@pytest.mark.parametrize(
    ("more", "unit", "epsilon"),
    [
        (["--mechanism", "staircase"], "in one metered reading", 1.0),
        (["--appliance", "kettle", "--span", "run"], "the kettle is on (2100 W), over one run", 1),
        (["--protect", "fluctuation"], "fluctuations of 10 W", 1.0),
        (
            ["--mechanism", "gaussian", "--span", "run", "--every", "30min", "--delta", "1e-5"],
            "over one of its own runs (up to 3 hours)",
            1.0,
        ),
        (["--protect", "range", "--clamp", "0,12000"], "any value of a reading (12000 W", 1.0),
        (["--sensitivity", "250", "--grid", "0.5"], "any change of up to 250 W", 1.0),
    ],
)
def test_units_of_protection(case, tmp_path, more, unit, epsilon):
    home = [] if "--sensitivity" in more else ["--home", case / "home.toml"]
    done = release(case, tmp_path / "out.parquet", "-e", 1, "--seed", 4, "--json", *home, *more)
    receipt = json.loads(done.stdout)
    assert unit in receipt["private"]["sentence"]
    assert receipt["epsilon"] == pytest.approx(epsilon, rel=0.2)
    assert receipt["epsilon"] <= epsilon * (1 + 1e-9)
    assert receipt["kind"] == "simulation"
    grid = Fraction(receipt["cells"]["grid"])
    readings = hm.read_meter(tmp_path / "out.parquet").readings
    steps = np.rint(readings / float(grid))
    np.testing.assert_array_equal(readings, steps * grid.numerator / grid.denominator)


def test_means_conserve_energy_up_to_the_noise(case, tmp_path):
    release(
        case, tmp_path / "out.csv", "-e", 20, "--sensitivity", 1, "--every", "10min", "--seed", 1
    )
    coarse = hm.read_meter(case / "meter.csv").coarsen("10min")
    noisy = hm.read_meter(tmp_path / "out.csv")
    np.testing.assert_array_equal(noisy.times, coarse.times)
    assert np.abs(noisy.readings - coarse.readings).max() < 3


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["-e", "0"], 2, "epsilon must be positive and finite, got 0."),
        (["-e", "nan"], 2, "epsilon must be positive and finite, got nan."),
        (["-e", "inf"], 2, "epsilon must be positive and finite, got inf."),
        (["-e", "-1"], 2, "epsilon must be positive and finite, got -1."),
        (["-e", "much"], 2, "epsilon must be positive and finite, got much."),
        (["-e", "21"], 2, "epsilon must be at most --max-epsilon = 20"),
        (["-e", "1", "--sensitivity", "0"], 2, "--sensitivity must be positive"),
        (["-e", "1", "--sensitivity", "nan"], 2, "--sensitivity must be positive"),
        (["-e", "1", "--sensitivity", "x"], 2, "sensitivity must be a number of watts"),
        (["-e", "1e-15", "--sensitivity", "1e6"], 2, "choose a larger epsilon"),
        (["-e", "1", "--grid", "0"], 2, "grid must be positive"),
        (["-e", "1", "--clamp", "5"], 2, "clamp must be LO,HI"),
        (["-e", "1", "--clamp", "5,1"], 2, "low < high"),
        (["-e", "1", "--protect", "range"], 2, "needs a clamp"),
        (["-e", "1", "--mechanism", "uniform"], 2, "mechanism must be one of"),
        (["-e", "1", "--span", "week"], 2, "span must be one of"),
        (["-e", "1", "--every", "7s"], 2, "whole multiple of the 6 s interval"),
        (["-e", "1", "--appliance", "kettel"], 2, "did you mean 'kettle'"),
        (["-e", "1", "--mechanism", "gaussian", "--delta", "0"], 2, "delta must be positive"),
        (["-e", "1", "--hide", "kettle"], 2, "--hide finds the noise itself: leave out --epsilon."),
        (["--hide", "kettle", "--grid", "1"], 2, "leave out --grid."),
        ([], 2, "say what to hide, such as --hide kettle, or give an ε of your own with -e."),
        (["-e", "1", "--for", "day"], 2, "--odds and --for need --hide"),
        (["-e", "1", "--hourly-cost", "1.2"], 2, "--hourly-cost needs several tables"),
        (["-e", "1", "--views", "--mechanism", "laplace"], 2, "leave out --mechanism laplace."),
        (["-e", "1", "--table", "weeks"], 2, "there is no table named 'weeks'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(case, tmp_path, more, code, message):
    out = tmp_path / "out.csv"
    done = release(case, out, "--home", case / "home.toml", *more, expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,5\n2,\n", "holds a single reading"),
        ("1,5\n2,inf\n", "is inf in row 1"),
        ("1,5\n1,6\n", "several different values for one time"),
        ("2024-01-01 00:00:00,5\n2024-01-01 00:00:06,6\n", "times without a zone"),
        ("", "holds no readings"),
    ],
)
def test_bad_readings_are_refused_before_anything_is_written(tmp_path, rows, message):
    (tmp_path / "bad.csv").write_text("timestamp,watts\n" + rows)
    done = release(
        tmp_path, tmp_path / "out.csv", "-e", 1, "--sensitivity", 10, file="bad.csv", expect=1
    )
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "protect 'appliance' needs to know your appliances"),
        (["--protect", "fluctuation"], "protect 'fluctuation' needs to know your appliances"),
        (["--home", "evning"], "evning is neither a file nor a ready home (evening"),
    ],
)
def test_without_a_home_it_says_what_to_do(case, tmp_path, more, message):
    code = 1 if "--home" in more else 2
    out = tmp_path / "out.csv"
    done = run("release", case / "meter.csv", "-e", 1, *more, "-o", out, expect=code)
    assert message in done.stderr
    run("release", case / "meter.csv", "-e", 1, "--sensitivity", 2000, "-o", out)


def test_the_cells_alone_are_a_file_or_a_folder(case, tmp_path):
    options = ("-e", 1, "--sensitivity", 10, "--every", "1min")
    done = release(case, tmp_path / "folder", *options)
    assert "register.csv" in done.stdout
    assert "follow from the noisy tables" in run("verify", tmp_path / "folder").stdout
    taken = release(case, tmp_path, *options, expect=1)
    assert "exists; add --force to overwrite it" in taken.stderr
    other = release(case, tmp_path, *options, "--force", expect=1)
    assert "exists and is not a release; choose another name" in other.stderr
    when = ("--hide", "kettle", "--span", "when", "--step", 1)
    wrong = release(case, tmp_path / "when", *when, expect=2)
    assert "the span 'when' is written as a file" in wrong.stderr


def test_nothing_is_overwritten(case, tmp_path):
    taken = tmp_path / "out.csv.receipt.json"
    taken.write_text("precious")
    done = release(case, tmp_path / "out.csv", "-e", 1, "--sensitivity", 10, expect=1)
    assert "exists; add --force" in done.stderr
    assert taken.read_text() == "precious"
    assert not (tmp_path / "out.csv").exists()
    release(case, tmp_path / "out.csv", "-e", 1, "--sensitivity", 10, "--force")


def test_the_notes_of_the_reader_are_printed(tmp_path):
    rows = [f"sensor.power,{100 + m},2024-01-01T00:{m:02}:00Z" for m in range(30)]
    (tmp_path / "ha.csv").write_text("entity_id,state,last_changed\n" + "\n".join(rows))
    part = ["--from", "2024-01-01", "--to", "2024-01-01T00:30Z"]
    inspected = json.loads(run("inspect", tmp_path / "ha.csv", *part, "--json").stdout)
    assert inspected["notes"]
    options = ["-e", 1, "--sensitivity", 10, *part]
    done = release(tmp_path, tmp_path / "one.csv", *options, "--json", file="ha.csv")
    assert json.loads(done.stdout)["notes"] == inspected["notes"]
    done = release(tmp_path, tmp_path / "two.csv", *options, file="ha.csv")
    assert f"Note: {inspected['notes'][0]}" in done.stdout


def test_a_home_learnt_from_the_same_readings_needs_consent(case, tmp_path):
    kettle = hm.Appliance("kettle", 2087.0, source="learnt")
    span = LearntFrom("0f" * 32, "2024-01-15T00:00:00Z", "2024-01-16T00:00:00Z")
    hm.Home([kettle], 11.0, learnt_from=span).save(tmp_path / "home.toml")
    options = ["-e", 1, "--home", tmp_path / "home.toml"]
    done = release(case, tmp_path / "out.csv", *options, expect=2)
    assert "was learnt from these readings" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["home.toml"]
    done = release(case, tmp_path / "out.csv", *options, "--accept-learnt")
    assert "learnt from these readings" in done.stdout
    receipt = json.loads((tmp_path / "out.csv.receipt.json").read_text())
    assert receipt["sources"] == ["learnt from these readings"]


def test_minutes_typed_into_a_learnt_home_leave_its_watts_as_learnt(case, tmp_path):
    kettle = hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt")
    span = LearntFrom("0f" * 32, "2024-01-15T00:00:00Z", "2024-01-16T00:00:00Z")
    hm.Home([kettle], 11.0, learnt_from=span).save(tmp_path / "home.toml")
    edited = (tmp_path / "home.toml").read_text().replace("run_s = 171.0", "run_s = 240.0")
    marked = edited.replace('source = "learnt"', 'source = "learnt", typed = ["run_s"]')
    (tmp_path / "home.toml").write_text(marked)
    options = ["-e", 1, "--home", tmp_path / "home.toml", "--span", "run"]
    done = release(case, tmp_path / "out.csv", *options, expect=2)
    assert "the power of the kettle was learnt from these readings" in done.stderr
    release(case, tmp_path / "out.csv", *options, "--accept-learnt")
    receipt = json.loads((tmp_path / "out.csv.receipt.json").read_text())
    assert receipt["sources"] == ["learnt from these readings", "typed"]
    (change,) = receipt["unit"]["changes"]
    assert change["watts"] == 2500.0
    assert change["watt_hours"] == pytest.approx(2500 * 240 / 3600)


def test_a_signed_release_is_verified(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("verify", "--new-key", "mine")
    release(case, "out.csv", "-e", 1, "--sensitivity", 10, "--sign", "mine.key")
    done = run("verify", "out.csv", "--key", "mine.pub")
    assert "signed with the given key" in done.stdout
    found = json.loads(run("verify", "out.csv", "--json").stdout)
    assert found["passed"]
    (tmp_path / "out.csv").write_text("timestamp,watts\n2024-01-15 00:00:00Z,1\n")
    done = run("verify", "out.csv", expect=1)
    assert len(done.stderr.splitlines()) == 1
    assert not json.loads(run("verify", "out.csv", "--json", expect=1).stdout)["passed"]
    assert "give a file or folder" in run("verify", expect=2).stderr


def test_audit_finds_the_claim_standing_and_both_controls_broken():
    done = run("audit", "-e", "1", "--samples", 400_000, "--seed", 1, "--json")
    result = json.loads(done.stdout)
    assert result["passed"]
    assert 0.9 <= result["epsilon_lower"] <= 1
    assert len(result["caught"]) == 3
    assert all(result["caught"].values())
    text = run("audit", "--mechanism", "staircase", "--samples", 100_000, "--seed", 1).stdout
    assert "The claim was not refuted." in text
    assert text.count("broken, and caught") == 3


def test_a_powerless_audit_fails():
    """With too few samples a control slips through, and the audit says so."""
    done = run("audit", "-e", "0.01", "--samples", 1000, "--seed", 1, expect=1)
    assert "NOT CAUGHT" in done.stdout
    assert "The audit failed." in done.stdout


def test_a_release_is_paid_for_in_a_ledger(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///ledger.db"
    run("ledger", "init", "--ledger", url, "--clamp", "0,15000")
    options = [
        "-e",
        "0.01",
        "--home",
        case / "home.toml",
        "--ledger",
        url,
        "--ledger-meter",
        "home-7",
    ]
    done = release(case, "one.csv", *options)
    told = " ".join(done.stdout.split())
    assert "was charged for 1 day: each ε = " in told
    assert "for any readings of a customer's day (up to 25 hours) between 0 W and 15 kW." in told
    # The release has taken the clamp of the ledger, and its receipt says so.
    receipt = json.loads((tmp_path / "one.csv.receipt.json").read_text())
    assert receipt["cells"]["clamp"] == [0, 15000]
    wide = release(case, "x.csv", *options, "--clamp", "0,20000", expect=2)
    assert "choose a clamp within 0,15000." in wide.stderr
    shown = json.loads(run("ledger", "show", "--ledger", url, "--meter", "home-7", "--json").stdout)
    assert "home-7" in json.dumps(shown)
    again = release(case, "two.csv", *options, expect=1)
    assert "already released" in again.stderr
    assert not (tmp_path / "two.csv").exists()
    release(case, "two.csv", *options, "--stream", "second")
    assert run("ledger", "verify", "--ledger", url).returncode == 0
    assert "belong together" in release(case, "x.csv", *options[:-2], expect=2).stderr
    seeded = release(case, "x.csv", *options, "--seed", 1, "--stream", "third", expect=2)
    assert "a simulation spends no budget" in seeded.stderr
    assert not (tmp_path / "x.csv").exists()


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """Hourly readings over 35 days, in which a month ends."""
    folder = tmp_path_factory.mktemp("weeks")
    rng = np.random.default_rng(0)
    trace = hm.Trace(rng.gamma(1.0, 300.0, 24 * 35), 3600.0, "2024-03-10T00:00Z")
    write_table(folder / "meter.csv", {"timestamp": trace.times, "watts": trace.readings})
    return folder


def test_views_of_a_file(weeks, tmp_path):
    out = tmp_path / "views"
    options = ("-e", "1.9", "--home", "evening", "--appliance", "kettle", "--views")
    done = release(weeks, out, *options)
    assert " 58.5  one use, at a known time" in done.stdout
    assert "Standard errors in a month of 30 days: hours" in done.stdout
    assert len(hm.read_release(out).view("months").values) == 2
    checked = run("verify", out)
    assert "follow from the noisy tables" in checked.stdout
    refused = release(weeks, out, *options, expect=1)
    assert "exists; add --force" in refused.stderr
    file = release(weeks, tmp_path / "views.csv", *options, expect=2)
    assert "are written as a folder" in file.stderr
    again = json.loads(release(weeks, out, *options, "--force", "--json").stdout)
    assert sum(entry["share"] for entry in again["tables"]) == pytest.approx(1)
    assert again["largest_standard_errors"]["months"] < 1.5


@pytest.fixture
def months(tmp_path):
    """Readings of April, May, June and one day of July, in a zone that keeps its clock."""

    def write(length):
        times = np.datetime64("2024-04-01T00:00") + np.arange(92 * 1440 // length) * length
        lines = [f"{time},400" for time in times]
        (tmp_path / "meter.csv").write_text("\n".join(["time,watts", *lines]) + "\n")
        return tmp_path / "meter.csv", "--tz", "Africa/Lagos", "--hide", "kettle"

    return write


@pytest.mark.parametrize(
    ("minutes", "purpose"),
    [(30, "month"), (30, "day"), (30, "profile"), (30, None), (1440, "month"), (1440, "day")],
)
def test_a_month_has_the_same_error_in_advice_release_and_table(months, tmp_path, purpose, minutes):
    """April and June have the 30 days for which `advise` states errors."""
    out, wish = tmp_path / "shared", (*months(minutes), *(("--for", purpose) if purpose else ()))
    advised = json.loads(run("advise", *wish, "--json").stdout)["advice"]["options"][0]
    error = advised["errors"]["month_kwh"]
    done = run("release", *wish, "-o", out).stdout
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["errors"]["month_kwh"] == pytest.approx(error, rel=1e-9)
    table = list(csv.DictReader((out / "months.csv").read_text().splitlines()))
    assert [row["month"] for row in table] == ["2024-04", "2024-05", "2024-06", "2024-07"]
    april, may, june, _ = (float(row["kwh_standard_error"]) for row in table)
    assert april == june == pytest.approx(error, abs=1e-6)
    assert may == pytest.approx(error, rel=0.02)
    if minutes < 1440 or purpose == "month":
        assert f"{format_two_digits(error)} kWh" in done
    if purpose == "profile":
        short = max(hm.read_release(out).view("typical-day").errors)
        assert short > 3 * advised["errors"]["profile_w"]
        assert f"Largest standard errors in this file: typical day {format_watts(short)}." in done


def test_an_analyst_works_with_views_through_the_commands(weeks, tmp_path):
    """Release, verification, sums, clusters, restored values and prices of one home."""
    views = tmp_path / "homes" / "mine"
    options = ("-e", "1.9", "--home", "evening", "--appliance", "kettle", "--views")
    release(weeks, views, *options)
    months = json.loads(run("fleet-stats", views, "--every", "month", "--json").stdout)["rows"]
    assert [row["readings"] for row in months] == [24 * 22, 24 * 13]
    assert all(0 < row["energy_se_kwh"] < row["energy_kwh"] for row in months)
    found = run("cluster", tmp_path / "homes", "-k", 2, "-o", tmp_path / "clusters", "--json")
    clusters = json.loads(found.stdout)
    assert sum(clusters["counts"]) == clusters["profiles"] == 35
    assert np.array(clusters["centres_standard_error_kwh"]).shape == (2, 24)
    both = ("-k", 2, "--lambda", "0.1", "-o", tmp_path / "other")
    assert "a release has its own noise" in run("cluster", views, *both, expect=2).stderr
    run("restore", views, "-o", tmp_path / "restored.csv", "--json")
    refused = run("restore", tmp_path / "restored.csv", "-o", tmp_path / "again.csv", expect=1)
    assert "is already restored; give the released file instead" in refused.stderr
    for source in (views, tmp_path / "restored.csv"):
        menu = run("price", "--home", "evening", "--trace", source, "-e", "0.1,1", "--json")
        entries = json.loads(menu.stdout)["menu"]
        assert all(entry["forecast_se_w"] > 0 for entry in entries)
        # Forecasts from data with this noise are worse than the mean, so nobody pays for them.
        assert all(entry["willingness"] == entry["surplus_se"] == 0 for entry in entries)
    assert not (tmp_path / "again.csv").exists()


def test_a_receipt_of_another_file_is_refused(case, tmp_path):
    options = ("-e", "0.5", "--home", case / "home.toml")
    for name in ("one.csv", "two.csv"):
        release(case, tmp_path / name, *options)
    other = ("--receipt", tmp_path / "two.csv.receipt.json")
    refused = run("restore", tmp_path / "one.csv", *other, "-o", tmp_path / "r.csv", expect=1)
    assert "was not restored, because its receipt does not verify" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    run("restore", tmp_path / "one.csv", "--home", "evening", "-o", tmp_path / "r.csv")
    assert '"method": "home"' in (tmp_path / "r.csv.restored.json").read_text()


def test_views_that_cannot_be_made_are_refused_in_one_sentence(case, tmp_path):
    out = tmp_path / "views"
    hidden = ("--hide", "kettle", "--views")
    stated = ("-e", "1", "--home", "evening", "--appliance", "kettle", "--views")
    for options in (stated, hidden):
        short = release(case, out, *options, expect=1)
        assert "at least one day of readings" in short.stderr
        assert len(short.stderr.splitlines()) == 1
    hours = np.arange(72)
    hm.write_meter(tmp_path / "days.csv", hm.Trace(300.0 + hours, 3600.0, "2024-01-10T00:00Z"))
    charger = ("--hide", "heater 2 kW 100 h", "--views")
    long = release(tmp_path, out, *charger, file="days.csv", expect=2)
    assert "a run of up to 100 hours is longer than the period of 72 hours" in long.stderr
    noise = release(tmp_path, out, *hidden, "--mechanism", "laplace", file="days.csv", expect=2)
    assert "leave out --mechanism" in noise.stderr
    fine = release(tmp_path, out, *hidden, "--every", "7h", file="days.csv", expect=2)
    assert "need cells that divide a day, but 7 hours do not" in fine.stderr
    odd = hm.Trace(np.full(2 * 12_343, 300.0), 7.0, "2024-01-10T00:00Z")
    hm.write_meter(tmp_path / "odd.csv", odd)
    for options in (stated, hidden):
        refused = release(tmp_path, out, *options, file="odd.csv", expect=2)
        assert "must be a whole multiple of the 7 s interval" in refused.stderr
    assert not out.exists()


def test_views_follow_from_a_wish_and_pay_in_a_ledger(weeks, tmp_path):
    ledger = ("--ledger", f"sqlite:///{tmp_path}/l.db")
    run("ledger", "init", *ledger, "--clamp", "0,20000")
    out = tmp_path / "views"
    hidden = ("--hide", "kettle", "--odds", 60, "--views")
    done = release(weeks, out, *hidden, *ledger, "--ledger-meter", "m")
    assert done.stdout.startswith("Hidden: any use of up to 235 Wh and 3.1 kW")
    assert "55.5  one use at one of 24 times of the day, all equally likely" in done.stdout
    assert "was charged for 35 days" in done.stdout
    receipt = json.loads((out / "receipt.json").read_text())
    assert 0.599 < receipt["odds"] <= 0.6
    assert receipt["cells"]["clamp"] == [0, 20000]
    assert "kettle" not in json.dumps(receipt)
    private = json.loads((tmp_path / "views.private.json").read_text())
    assert private["own_use"][0].startswith("Each hour is off by about 5")
    assert "follow from the noisy tables" in run("verify", out).stdout
    # A day is released once in each stream, and a simulation is never paid for.
    for more, code, message in (
        ((), 1, "is already released by release"),
        (("--seed", 1), 2, "a simulation spends no budget"),
    ):
        again = release(
            weeks, tmp_path / "two", *hidden, *ledger, "--ledger-meter", "m", *more, expect=code
        )
        assert message in again.stderr
        assert not (tmp_path / "two").exists()


def test_when_and_a_cap_on_use(weeks, tmp_path):
    options = ("--home", "evening", "--appliance", "kettle", "--mechanism", "gaussian", "-e", "1.9")
    when = release(weeks, tmp_path / "when.csv", *options, "--span", "when", "--step", "0.1")
    assert when.stdout.startswith("Not hidden: whether an appliance ran.")
    day = release(
        weeks, tmp_path / "day.csv", *options, "--despite", "--span", "day", "--use", "24min"
    )
    assert "in which it is on for at most 24 minutes" in day.stdout
    wrong = release(weeks, tmp_path / "x.csv", *options, "--use", "24min", expect=2)
    assert "it needs span 'day' or 'when'" in wrong.stderr


def test_a_recipient_restores_a_release(weeks, tmp_path):
    options = ("-e", "1.9", "--home", "evening", "--appliance", "kettle", "--mechanism", "gaussian")
    release(weeks, tmp_path / "out.csv", *options, "--span", "run")
    done = run("restore", tmp_path / "out.csv", "-o", tmp_path / "restored.csv")
    assert "840 values were restored" in done.stdout
    assert "They are biased" in " ".join(done.stdout.split())
    again = run("restore", tmp_path / "restored.csv", "-o", tmp_path / "x.csv", expect=1)
    assert "is already restored" in again.stderr
    text = (tmp_path / "out.csv").read_text()
    (tmp_path / "out.csv").write_text(text + "2030-01-01 00:00:00Z,5\n")
    changed = run("restore", tmp_path / "out.csv", "-o", tmp_path / "x.csv", expect=1)
    assert "its receipt does not verify" in changed.stderr
    assert not (tmp_path / "x.csv").exists()


def spends_of(url, meter="m"):
    shown = json.loads(run("ledger", "show", "--ledger", url, "--meter", meter, "--json").stdout)
    return {s["period"]: s["micro_epsilon"] / 1e6 for s in shown["spends"]}


def test_the_ledger_charges_the_change_that_it_declares(tmp_path):
    """ε = 0.01 for one watt costs 120 and more for a kilowatt; a hidden kettle costs more, too."""
    trace = hm.Trace(np.full(24, 300.0), 3600.0, "2024-03-01T00:00Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    url = f"sqlite:///{tmp_path}/l.db"
    run("ledger", "init", "--ledger", url, "--change", "1kW,25kWh")
    paid = ("--ledger", url, "--ledger-meter", "m")
    release(tmp_path, tmp_path / "a.csv", "-e", "0.01", "--sensitivity", "1", *paid)
    # Each of 25 readings may move by 1000 W; the noise loses ε = 0.01 on two steps of 1 W.
    assert spends_of(url)["2024-03-01"] >= 25 * 1000 * 0.01 / 2
    hidden = ("--hide", "kettle", "--odds", 60, "--for", "hour", *paid, "--stream", "b")
    release(tmp_path, tmp_path / "b.csv", *hidden)
    receipt = json.loads((tmp_path / "b.csv.receipt.json").read_text())
    noise = receipt["tables"][0]["noise"]
    shown = json.loads(run("ledger", "show", "--ledger", url, "--meter", "m", "--json").stdout)
    epsilon = next(s["micro_epsilon"] / 1e6 for s in shown["spends"] if s["stream"] == "b")
    if noise["mechanism"] == "gaussian":
        mu = 1000 * math.sqrt(25) / noise["scale"]
        lost = stats.norm.cdf(mu / 2 - epsilon / mu)
        lost -= math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert lost <= receipt["delta"]
    else:
        assert epsilon >= 25 * 1000 / noise["scale"]


def test_a_value_of_a_week_is_charged_on_each_of_its_days(tmp_path):
    trace = hm.Trace(np.full(24 * 21, 300.0), 3600.0, "2024-02-29T00:00Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    url = f"sqlite:///{tmp_path}/l.db"
    run("ledger", "init", "--ledger", url, "--clamp", "0,15000")
    options = ("-e", "1", "--sensitivity", "1000", "--every", "7d")
    options += ("--ledger", url, "--ledger-meter", "m")
    done = release(tmp_path, tmp_path / "weeks.csv", *options)
    assert "was charged for 21 days" in done.stdout
    assert list(spends_of(url))[::20] == ["2024-02-29", "2024-03-20"]
    # The days of the third week cannot be released again.
    hm.write_meter(tmp_path / "part.csv", trace[24 * 15 : 24 * 17])
    again = release(
        tmp_path, tmp_path / "two.csv", *options[:4], *options[6:], expect=1, file="part.csv"
    )
    assert "already released" in again.stderr


def test_a_value_across_midnight_is_charged_on_both_days(tmp_path):
    trace = hm.Trace(np.full(3, 300.0), 3600.0, "2024-03-01T21:30Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    url = f"sqlite:///{tmp_path}/l.db"
    run("ledger", "init", "--ledger", url, "--change", "3kW,8kWh")
    paid = ("--ledger", url, "--ledger-meter", "m")
    release(tmp_path, tmp_path / "a.csv", "-e", "1", "--sensitivity", "1000", *paid)
    assert list(spends_of(url)) == ["2024-03-01", "2024-03-02"]
