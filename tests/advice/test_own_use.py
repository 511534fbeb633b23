"""From a wish to a release: what is hidden, at what cost, and that no reading has a say in it."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.advice.hiding import (
    compare_plan,
    compare_with_use,
    enclose_uses,
    find_appliances,
    plan_to_hide,
    use_energy_wh,
)
from hushmeter.advice.least_noise import best_odds
from hushmeter.advice.planner import FORMS, calendar_of
from hushmeter.advice.purposes import PURPOSES, series_errors
from hushmeter.errors import InputError
from hushmeter.home import LearntFrom
from tests.cli.test_commands import run

START = "2024-01-15T00:00Z"


def flat(watts: float, length: int = 48, interval_s: float = 3600.0) -> hm.Trace:
    return hm.Trace(np.full(length, watts), interval_s, START)


@pytest.mark.parametrize("interval_s", [6, 60, 900, 1800, 3600])
def test_the_interval_of_the_meter_does_not_change_hourly_noise(interval_s):
    """σ = Δ2/μ with Δ2 = 2100 W·180 s/1 h and μ = 2Φ⁻¹(0.6), about 1 % more for exact noise."""
    plan = plan_to_hide("kettle 2100 W 180 s", 60, interval_s=interval_s)
    assert plan.option.every_s == 3600
    assert plan.mechanism.scale == pytest.approx(210, rel=0.01)
    assert plan.mechanism.scale == pytest.approx(105 / 0.5067, rel=0.02)


def test_the_command_gives_the_same_noise_for_every_file_of_one_day(tmp_path):
    day = hm.synth.trace(hm.synth.ready_home("evening"), 14_400, seed=1)
    scales = []
    for every in (6, 60, 900, 1800, 3600):
        coarse = day if every == 6 else day.coarsen(every)
        path = tmp_path / f"{every}.csv"
        hm.write_meter(path, hm.Trace(coarse.readings, coarse.interval_s, coarse.start))
        done = run("advise", path, "--hide", "kettle 2100 W 180 s", "--odds", 60, "--json")
        best = json.loads(done.stdout)["advice"]["options"][0]
        assert best["every_s"] == 3600
        scales.append(best["scale"])
    assert scales == pytest.approx([210] * 5, rel=0.01)


def test_the_plan_keeps_the_odds_of_its_own_unit():
    for words in ("kettle", "fridge, tv", "washing machine 1.2 kWh"):
        plan = plan_to_hide(words, 0.6, interval_s=900)
        assert 0.599 <= best_odds(plan.mechanism, plan.unit) <= 0.6
        assert plan.unit.largest_watts == plan.use.protected_power
        assert plan.unit.changes[0].energy == pytest.approx(3600 * use_energy_wh(plan.use))


def test_longer_periods_cost_less_for_their_purpose():
    plans = {p: plan_to_hide("kettle", 60, p, interval_s=1800) for p in ("hour", "day", "month")}
    assert plans["hour"].option.every_s == 3600
    assert plans["day"].option.every_s == 86_400
    assert plans["day"].option.cost.daily_kwh < plans["hour"].option.cost.daily_kwh / 4
    assert plans["month"].option.cost.monthly_kwh <= plans["hour"].option.cost.monthly_kwh / 4
    fixed = plan_to_hide("kettle", 60, every="30min", interval_s=1800)
    assert fixed.option.every_s == 1800


def test_odds_are_a_share_or_out_of_100():
    shares = [plan_to_hide("kettle", odds, interval_s=3600).mechanism.scale for odds in (60, 0.6)]
    assert shares[0] == shares[1]


def test_an_enclosing_use_keeps_the_source_of_each_number():
    """Only numbers that enclose a learnt one are learnt, rounded and in need of consent."""
    learnt = hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt", typed=["run_s"])
    own = hm.Appliance("oven", 2222.0, run_s=3333.0)
    use = enclose_uses([learnt, own])
    assert use.source_of("power") == use.source_of("energy_wh") == "learnt"
    assert use.source_of("run_s") == "typed"
    assert use.protected_run_s == 3333.0
    assert use.protected_power == 2500.0


def test_several_appliances_are_enclosed_in_one_use():
    found = find_appliances("kettle, tv, oven 2 kW")
    use = enclose_uses(found)
    assert use.protected_power == 3100
    assert use.protected_run_s == 28_800
    assert use_energy_wh(use) == max(map(use_energy_wh, found)) == 2600
    together = plan_to_hide(found, 60, interval_s=3600)
    for appliance in found:
        alone = plan_to_hide(appliance, 60, interval_s=3600)
        for size in ("l1", "l2", "largest", "touches"):
            assert getattr(together.unit, size) >= getattr(alone.unit, size)


@pytest.mark.parametrize("hidden", ["kettle", "kettle,oven"])
def test_numbers_of_a_learnt_home_need_consent(hidden):
    """Several appliances are joined into one use, which stays "learnt" with its days."""
    appliances = [
        hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt"),
        hm.Appliance("oven", 2600.0, run_s=1800.0),
    ]
    here = LearntFrom("0f" * 32, START, "2024-01-20T00:00Z")
    elsewhere = LearntFrom("0f" * 32, "2023-01-15T00:00Z", "2023-01-20T00:00Z")
    for learnt_from, refused in ((here, True), (elsewhere, False)):
        home = hm.Home(appliances, 20.0, learnt_from=learnt_from)
        plan = plan_to_hide(hidden, 60, home=home, interval_s=3600.0)
        assert plan.use.source == "learnt"
        if refused:
            with pytest.raises(InputError, match="learnt from these readings"):
                hm.release(flat(300.0), plan.mechanism, plan.unit, home=plan.home)
        else:
            done = hm.release(flat(300.0), plan.mechanism, plan.unit, home=plan.home)
            assert done.receipt.sources == ("learnt from other days",)


def test_names_are_those_of_the_home_if_there_is_one():
    home = hm.Home([hm.Appliance("tv", 80.0, run_s=3600.0), hm.Appliance("kettle", 2000.0)])
    assert find_appliances("television", home)[0] is home.appliances[0]
    assert find_appliances("kettle", home)[0].protected_power == 2000
    with pytest.raises(InputError, match="no appliance named 'oven'"):
        find_appliances("oven", home)
    with pytest.raises(InputError, match="name what to hide"):
        find_appliances(" , ")


def test_the_promise_names_energy_power_and_odds():
    hidden, odds = plan_to_hide("kettle", 60, interval_s=3600).promise
    assert "any use of up to 235 Wh and 3.1 kW that lasts up to 7 minutes" in hidden
    assert "60 times out of 100" in odds


def test_the_cost_is_set_beside_the_own_use():
    plan = plan_to_hide("kettle", 60, interval_s=3600)
    quiet = compare_plan(plan, flat(900.0))
    error = plan.option.errors.hour_w
    assert quiet == (f"Each hour is off by about {error:.0f} W; your mean is 900 W.",)
    loud = compare_plan(plan, flat(200.0))
    assert loud[1].startswith("WARNING: the noise is 2.3 times your own use.")
    assert [line.split(".")[0] for line in loud[2:]] == [
        "What helps: --for day", "What helps: --for month",
    ]  # fmt: skip
    hopeless = compare_plan(plan_to_hide("car charger", 60, interval_s=3600), flat(200.0))
    assert hopeless[-1].startswith("Longer periods do not help enough")


def test_fine_readings_are_compared_themselves_too():
    home = hm.synth.ready_home("evening")
    unit = hm.resolve_unit(interval_s=6.0, home=home)
    errors = series_errors(hm.calibrate("laplace", 1, unit), 6.0)
    sentence = compare_with_use(errors, flat(924.0, interval_s=6.0)).sentence
    assert sentence.startswith("Each released value (6 s) is off by about 10.2 kW. Each hour")
    assert compare_with_use(errors, flat(0.0)).loud


def test_a_plan_takes_no_readings():
    names = set(inspect.signature(plan_to_hide).parameters)
    assert "trace" not in names
    assert {"interval_s", "metering", "readings"} <= names


READINGS = st.lists(st.integers(-500, 20_000), min_size=48, max_size=48)
WISHES = st.sampled_from(["kettle", "tv, fridge", "kettle 2100 W 180 s"])


def calibration(receipt: dict) -> dict:
    """Every number of a public receipt, except for the digests of the released values."""
    receipt.get("output", {}).pop("sha256", None)
    receipt.pop("file", None)
    return {key: receipt[key] for key in receipt if key not in ("private", "files", "warnings")}


@settings(max_examples=15, deadline=None)
@given(READINGS, READINGS, WISHES, st.sampled_from(list(PURPOSES)), st.sampled_from(FORMS))
def test_readings_never_calibrate_a_release_of_the_library(first, second, wish, purpose, form):
    receipts = []
    for readings in (first, second):
        trace = hm.Trace(readings, 3600.0, START)
        plan = plan_to_hide(
            wish,
            60,
            purpose,
            interval_s=trace.interval_s,
            metering=trace.metering,
            readings=48,
            forms=(form,),
            calendar=calendar_of(trace, trace.interval_s),
        )
        if form == "calendar":
            done = hm.release_views(
                trace, epsilon=plan.option.epsilon, unit=plan.unit, home=plan.home
            )
            assert done.plan.odds <= 0.6
            receipts.append(calibration(dict(done.receipt)))
        else:
            done = hm.release(trace, plan.mechanism, plan.unit, home=plan.home)
            receipts.append(calibration(done.receipt.to_dict()))
    assert receipts[0] == receipts[1]


@settings(max_examples=3, deadline=None)
@given(READINGS, READINGS, WISHES)
def test_readings_never_calibrate_a_release_of_the_command(tmp_path_factory, first, second, wish):
    folder = tmp_path_factory.mktemp("wish")
    receipts, advice = [], []
    for name, readings in (("a", first), ("b", second)):
        path = folder / f"{name}.csv"
        # One decimal in every value: the number of decimals of a file is public.
        rows = [f"2024-01-{15 + i // 24}T{i % 24:02}:00Z,{w}.0" for i, w in enumerate(readings)]
        path.write_text("timestamp,watts\n" + "\n".join(rows) + "\n")
        for out, more in ((f"{name}.out.csv", ()), (f"{name}.views", ("--views",))):
            done = run("release", path, "--hide", wish, *more, "-o", folder / out, "--json")
            receipts.append(calibration(json.loads(done.stdout)))
        for more in (("--for", "register"), ("--max-hourly-error", 50)):
            found = json.loads(run("advise", path, "--hide", wish, *more, "--json").stdout)
            advice.append((found["advice"], found["within_the_error"], found["notes"]))
    assert receipts[:2] == receipts[2:]
    assert advice[:2] == advice[2:]


def test_the_public_receipt_has_no_names_and_no_own_use(tmp_path):
    trace = flat(317.0)
    hm.write_meter(tmp_path / "meter.csv", trace)
    out = tmp_path / "out.csv"
    done = run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", out)
    assert "your mean is 317 W" in done.stdout
    assert "WARNING" in done.stdout
    receipt = (tmp_path / "out.csv.receipt.json").read_text()
    for word in ("kettle", "own_use", "mean"):
        assert word not in receipt + out.read_text()
    # A hash may contain these digits, but the receipt has no such number.
    assert re.search(r"\b317\b", receipt) is None
    unit = json.loads((tmp_path / "out.csv.receipt.json").read_text())["unit"]
    assert (unit["watts"], unit["watt_hours"]) == (3100.0, 235.0)
    private = json.loads((tmp_path / "out.csv.private.json").read_text())
    assert "your mean is 317 W" in private["own_use"][0]
    again = run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", tmp_path / "two.csv")
    assert "each further release of these readings adds its ε" in again.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what to hide, such as --hide kettle"),
        (["--hide", "kettle", "-e", 1], "leave out -e"),
        (["--hide", "kettle", "--clamp", "0,9", "--grid", 2], "leave out --clamp, --grid"),
        (["--hide", "kettle", "--hourly-cost", 2], "--hourly-cost is about a calendar release"),
        (["--hide", "kettle", "--use", "30min"], "use is a time a day: it needs span 'day'"),
        (["-e", 1, "--have", "kettle", "--odds", 60], "--odds needs --hide"),
        (["--hide", "ketle"], "did you mean 'kettle'"),
        (["--hide", "kettle", "--odds", 50], "nothing was released: There is no release"),
        (
            ["--hide", "kettle", "--for", "week"],
            "purpose must be one of hour, day, month, profile, register",
        ),
    ],
)
def test_contradictions_are_refused_in_one_sentence(tmp_path, options, message):
    hm.write_meter(tmp_path / "meter.csv", flat(300.0))
    out = tmp_path / "out.csv"
    done = run("release", tmp_path / "meter.csv", *options, "-o", out, expect=2)
    assert message in done.stderr
    assert not out.exists()


def test_a_release_with_an_epsilon_is_compared_with_the_own_use_too(tmp_path):
    hm.write_meter(tmp_path / "meter.csv", flat(924.0))
    done = run(
        "release", tmp_path / "meter.csv", "--home", "evening", "-e", 1, "-o", tmp_path / "o.csv"
    )
    assert "Each hour is off by about 10.2 kW; your mean is 924 W." in done.stdout
    assert "WARNING: the noise is 11 times your own use." in done.stdout
    assert "What helps:" in done.stdout
