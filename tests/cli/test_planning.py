"""`hushmeter bounds` and `hushmeter advise`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice import with_run
from hushmeter.files import write_table
from tests.cli.test_commands import run


def test_bounds_prints_a_table_and_draws_it(tmp_path):
    done = run("bounds", "similar8", "-e", "0.01:10", "-o", tmp_path / "fig.png")
    assert "“nothing switched” scores 0.889" in done.stdout
    for kind in ("png", "svg", "csv"):
        assert (tmp_path / f"fig.{kind}").stat().st_size > 1000
    table = np.genfromtxt(tmp_path / "fig.csv", delimiter=",", names=True)
    assert table.size == 200
    assert (table["corrected_lower"] <= table["exact"]).all()
    again = run("bounds", "similar8", "-o", tmp_path / "fig.png", expect=1)
    assert "exists; add --force" in again.stderr


def test_bounds_of_a_file_as_json(tmp_path):
    home = hm.synth.ready_home("rae13")
    home.save(tmp_path / "home.toml")
    done = run("bounds", tmp_path / "home.toml", "-e", "0.1,1", "--max-switches", 2, "--json")
    answer = json.loads(done.stdout)
    expected = hm.bounds(home, [0.1, 1.0], max_switches=2)
    assert answer["epsilon"] == [0.1, 1.0]
    assert answer["corrected_lower"] == pytest.approx(expected.lower.raw.tolist())
    printed = run("bounds", tmp_path / "home.toml", "-e", "0.1,1", "--form", "printed").stdout
    assert "printed bounds" in printed


def test_bounds_of_readings(tmp_path):
    home = hm.synth.ready_home("similar8")
    trace = hm.synth.trace(home, 121, sparsity=0.95, seed=2)
    home.save(tmp_path / "home.toml")
    hm.write_meter(tmp_path / "sub.csv", trace)
    asked = ("bounds", tmp_path / "home.toml", "--readings", tmp_path / "sub.csv", "-e", "0.1,1")
    answer = json.loads(run(*asked, "--hierarchical", "--json").stdout)
    exact = hm.exact_accuracy(home, mechanism=hm.Laplace(1, 1, "0.125"), readings=trace)
    assert answer["readings"] == 120
    assert answer["exact"][1] == pytest.approx((121 * exact - 1) / 120, abs=0.01)
    for prefix in ("", "hierarchical_"):
        lower, upper = answer[f"{prefix}corrected_lower"], answer[f"{prefix}corrected_upper"]
        assert all(low <= high for low, high in zip(lower, upper, strict=True))
    assert answer["corrected_lower"][0] <= answer["exact"][0] <= answer["corrected_upper"][0]
    text = run(*asked).stdout
    assert "before error correction on 120 readings of sub.csv" in text.replace("\n", " ")
    assert "Assumption 3 (concentrated powers)" in text
    counted = json.loads(
        run("bounds", "rae13", "--readings", 600, "-e", "1", "--hierarchical", "--json").stdout
    )
    assert counted["readings"] == 600
    assert "exact" not in counted
    for prefix, hierarchical in (("", False), ("hierarchical_", True)):
        rae = hm.bounds(hm.synth.ready_home("rae13"), 1.0, readings=600, hierarchical=hierarchical)
        assert counted[f"{prefix}corrected_upper"] == [rae.upper.raw]
    assert "on 600 readings; corrected" in run("bounds", "rae13", "--readings", 600).stdout
    assert "is not a file" in run("bounds", "rae13", "--readings", "no.csv", expect=1).stderr
    refused = run("bounds", "similar8", "--hierarchical", expect=2).stderr
    assert "--hierarchical needs --readings" in refused


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["-e", "x"], 2, "epsilon must be LO:HI or numbers"),
        (["-e", "10:1"], 2, "LO below HI"),
        (["-e", "0:1"], 2, "epsilon must be positive"),
        (["--form", "guessed"], 2, "form must be one of"),
        (["--max-switches", "0"], 2, "max_switches must be a whole number"),
        (["--max-switches", "99"], 2, "the home has 8 appliances"),
        (["--sensitivity", "-1"], 2, "sensitivity must be positive"),
    ],
)
def test_bad_bounds_are_one_sentence(more, code, message):
    done = run("bounds", "similar8", *more, expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_advise_prints_options_sentences_and_a_figure(tmp_path):
    done = run("advise", "--home", "evening", "--hide", "kettle", "-o", tmp_path)
    assert "the usual one, then those best for hours." in done.stdout
    usual = "This is the usual release in which nobody can be right about one run of the kettle"
    assert f"{usual} more than 60 times out of 100" in done.stdout
    for kind in ("png", "svg"):
        assert (tmp_path / f"advice.{kind}").stat().st_size > 100
    head, *rows = (tmp_path / "advice.csv").read_text().splitlines()
    assert "standard_error_month_kwh" in head
    # Eight odds of readings as metered, of an hour and of a day, and of the calendar.
    assert len(rows) == 32


def test_an_error_turned_around_lists_what_can_be_hidden(tmp_path):
    have = ("--have", "fridge,kettle,car charger")
    done = run("advise", *have, "--interval", "1h", "--max-hourly-error", 300)
    assert done.stdout.startswith(
        "With a standard error of at most 300 W in each hour, this appliance can be hidden to 60 "
        "out of 100: fridge."
    )
    assert "Within this error nothing hides these: car charger." in done.stdout
    again = run("advise", *have, "--interval", "1h", "--max-hourly-error", 300, "--json")
    found = json.loads(again.stdout)["within_the_error"]
    assert [entry["appliance"] for entry in found] == ["fridge", "kettle", "car charger"]
    assert found[0]["odds"] < 0.6 < found[1]["odds"] < found[2]["odds"] == 1
    asked = run("advise", "--hide", "kettle", "--interval", "1h", "--max-hourly-error", 300)
    assert "the kettle can only be hidden to 65.3 out of 100" in asked.stdout
    assert "accept a standard error of 466 W in each hour" in asked.stdout
    assert "There is no release" not in asked.stdout
    for options, message in (
        ((), "say what to hide, such as --hide kettle, or the largest error"),
        (("--max-hourly-error", 50, "--max-error", 1, "--for", "day"), "give one limit"),
        (("--hide", "kettle", "--interval", "1d", "--for", "hour"), "show no single hours"),
    ):
        bad = run("advise", *options, expect=2)
        assert message in bad.stderr
        assert len(bad.stderr.splitlines()) == 1


def test_advice_for_moved_runs_has_nearly_exact_days(tmp_path):
    trace = hm.Trace(np.full(72, 400.0), 3600.0, "2024-01-15T00:00Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    wish = ("advise", tmp_path / "meter.csv", "--hide", "kettle", "--span", "when", "--for", "day")
    assert "state the step of the readings" in run(*wish, expect=2).stderr
    done = run(*wish, "--step", "0.001")
    assert "your mean day is 9.6 kWh." in done.stdout
    assert "published with less noise and show whether it ran." in done.stdout
    assert "--span when --for day" in done.stdout
    # The command that was printed makes that release.
    words = done.stdout.splitlines()[-1].removeprefix("Next: hushmeter ").split()
    made = run(*words[:-1], tmp_path / "shared.csv")
    assert "published with less noise" in made.stdout
    days = hm.read_meter(tmp_path / "shared.csv").coarsen("1d").readings
    # The meter rounds to a thousandth of a watt, so the noise of a day is small.
    assert days.tolist() == pytest.approx([400.0] * 3, abs=1)


def test_advise_as_json_equals_the_library():
    done = run(
        "advise", "--home", "evening", "--hide", "fridge", "--max-odds", 0.7, "--run", 50, "--json"
    )
    answer = json.loads(done.stdout)["advice"]
    home = hm.synth.ready_home("evening")
    fridge = with_run(home.appliances[home.index("fridge")], 50, 6.0)
    wish = hm.Request(hide=fridge, odds=0.7, home=home)
    expected = hm.advise(wish, hm.Metered(6.0))
    assert answer["feasible"]
    assert answer["options"][0]["epsilon"] == pytest.approx(expected.best.epsilon)
    assert answer["options"][0]["cost"]["hourly_w"] == pytest.approx(expected.best.cost.hourly_w)


def test_advise_by_an_attacker_on_a_trace(tmp_path):
    home = hm.synth.ready_home("evening")
    # Hours leave one resolution to search, under three kinds of noise.
    trace = hm.synth.trace(home, 200, interval_s=3600.0, seed=2)
    columns = {"timestamp": trace.times, "watts": trace.readings}
    write_table(tmp_path / "bare.csv", columns)
    columns |= dict(zip(home.names, trace.power.T, strict=True))
    write_table(tmp_path / "sub.csv", columns)
    base = ("advise", "--home", "evening", "--hide", "heat pump", "--attacker", "hold")
    done = run(*base, tmp_path / "sub.csv", "--json")
    assert json.loads(done.stdout)["advice"]["options"][0]["odds"] == 0.5
    bad = run(*base, tmp_path / "bare.csv", expect=1)
    assert "no column of watts for" in bad.stderr
    none = run(*base, expect=2)
    assert "needs a trace with true states" in none.stderr


def test_advise_names_what_answers_for_the_strongest_attacker(tmp_path, monkeypatch):
    """Without LightGBM the weaker attacker that runs is named, and nothing fails."""
    monkeypatch.setattr("hushmeter.apps.nilm.strongest.find_spec", lambda _: None)
    home = hm.synth.ready_home("evening").subset(["kettle", "heat pump"])
    home.save(tmp_path / "home.toml")
    trace = hm.synth.trace(home, 200, interval_s=3600.0, seed=2)
    columns = {"timestamp": trace.times, "watts": trace.readings}
    columns |= dict(zip(home.names, trace.power.T, strict=True))
    write_table(tmp_path / "sub.csv", columns)
    words = ("advise", "--home", tmp_path / "home.toml", "--hide", "heat pump")
    more = ("--attacker", "strongest", "--json")
    notes = json.loads(run(*words, tmp_path / "sub.csv", *more).stdout)["notes"]
    allowed = ("The attacker is bayes. The stronger attacker trees is not installed", "No attacker")
    assert any(note.startswith(allowed[0]) for note in notes)
    assert all(note.startswith(allowed) for note in notes[-2:])
