"""Options for a goal: all of them keep it, the cheapest comes first, and no reading has a say."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import hushmeter as hm
from hushmeter.advice import (
    advise,
    find_front,
    find_reach,
    measure_with,
    public_facts,
    with_run,
)
from hushmeter.advice.sentences import explain_reach
from hushmeter.errors import InputError
from hushmeter.privacy import compose
from hushmeter.releases.purposes import PURPOSES
from hushmeter.releases.search import NEAR_A_COIN, ODDS_SLACK, best_grid, best_odds
from tests.cli.test_commands import run

HOME = hm.synth.ready_home("evening")
METER = hm.Metered(6.0)


def advise_on(hide="kettle", *, home=HOME, metered=METER, limits=None, **wish) -> hm.Advice:
    return advise(hm.Request(hide=hide, home=home, **wish), metered, **(limits or {}))


def rebuilt(option):
    """The option's mechanism and unit, made anew from what it says."""
    unit = hm.resolve_unit(
        span="run", interval_s=6.0, home=HOME, appliance="kettle", every=option.every_s
    )
    return hm.calibrate(option.mechanism, option.epsilon, unit, grid=best_grid(unit)), unit


def test_every_option_keeps_the_odds_and_wastes_little():
    advice = advise_on(odds=0.6)
    assert advice.feasible
    assert len(advice.options) == 20
    series = [option for option in advice.options if option.form == "series"]
    assert len(series) == 18
    for option in series:
        mechanism, unit = rebuilt(option)
        assert best_odds(mechanism, unit) == pytest.approx(option.odds, abs=1e-9)
        assert mechanism.scale == pytest.approx(option.scale)
    for option in advice.options:
        assert 0.6 - ODDS_SLACK <= option.odds <= 0.6


def test_the_promise_is_that_of_the_first_option():
    for purpose in PURPOSES:
        advice = advise_on(purpose=purpose, metered=hm.Metered(1800.0))
        promise, best = advice.promise, advice.best
        assert (promise.epsilon, promise.odds) == (best.epsilon, best.odds)
        assert (promise.errors, promise.joint) == (best.errors, best.form == "calendar")
        assert set(advice.to_dict()) == {"goal", "feasible", "options", "appliance"}


def test_the_cheapest_comes_first():
    for purpose in PURPOSES:
        options = advise_on(purpose=purpose, mechanism="gaussian").options
        costs = [option.errors.of(purpose) or math.inf for option in options]
        assert costs == sorted(costs)
        assert {option.form for option in options} == {"series", "calendar"}


def test_a_run_of_a_given_length():
    kettle = HOME.appliances[HOME.index("kettle")]
    short, long = (
        advise_on(with_run(kettle, readings, 6.0), mechanism="laplace") for readings in (10, 100)
    )
    assert long.best.cost.hourly_w > short.best.cost.hourly_w
    assert (short.appliance.run_s, long.appliance.run_s) == (60, 600)


def test_less_odds_cost_more():
    costs = [
        advise_on(odds=odds, mechanism="gaussian").best.cost.hourly_w for odds in (0.52, 0.6, 0.8)
    ]
    assert costs == sorted(costs, reverse=True)


def test_one_reading_of_laplace_has_a_closed_form():
    """1 − e^(−s/2)/2 = 0.6 at s = −2 ln 0.8: λ = P/s."""
    advice = advise_on(span="reading", mechanism="laplace")
    metered = next(o for o in advice.options if o.every_s == 6.0)
    assert metered.scale == pytest.approx(2100 / 0.4463, rel=0.01)


def test_nobody_is_held_below_a_coin():
    advice = advise_on(odds=0.5, mechanism="gaussian")
    assert not advice.feasible
    assert advice.best.odds <= NEAR_A_COIN
    assert "There is no release" in hm.explain(advice)[0]


def test_a_cost_cap_can_make_a_goal_infeasible():
    kept = advise_on(mechanism="gaussian", limits={"max_hourly_error": 215.0})
    assert kept.feasible
    assert all(option.errors.hour_w <= 215 for option in kept.options)
    lost = advise_on(mechanism="gaussian", limits={"max_hourly_error": 20.0})
    assert not lost.feasible
    assert lost.best.odds <= 0.6
    days = advise_on(mechanism="gaussian", purpose="day", limits={"max_error": 0.5})
    assert days.feasible
    assert all(option.errors.day_kwh <= 0.5 for option in days.options)


def test_measured_odds_of_an_attacker():
    trace = hm.synth.trace(HOME, 3000, seed=1)
    limits = {"odds_of": measure_with("hold", HOME, "kettle", trace)}
    advice = advise_on(mechanism="laplace", limits=limits)
    # Holding the first state never sees the kettle, so the least noise is enough.
    assert advice.best.odds == 0.5
    assert advice.best.epsilon > 15
    assert advice.best.unknown is None
    assert {option.form for option in advice.options} == {"series"}
    limits = {"odds_of": measure_with("one-shot", HOME, "heat pump", trace)}
    assert advise_on("heat pump", mechanism="laplace", odds=0.9, limits=limits).options


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"hide": "toaster"}, "no appliance named 'toaster'"),
        ({"odds": 1.0}, "odds must lie between 0 and 1"),
        ({"odds": -0.1}, "odds must be positive"),
        ({"span": "week"}, "span must be one of"),
        ({"purpose": "week"}, "purpose must be one of"),
        ({"mechanism": "uniform"}, "mechanism must be one of"),
        ({"delta": 2.0}, "delta must lie between 0 and 1"),
        ({"limits": {"max_hourly_error": math.nan}}, "max_hourly_error must be positive"),
        ({"limits": {"max_error": 0}}, "max_error must be positive"),
        ({"limits": {"forms": ["table"]}}, "form must be one of"),
        ({"hide": None, "epsilon": 1}, "advice needs a wish: say what to hide"),
    ],
)
def test_bad_goals_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        advise_on(**keywords)


def test_bad_facts_are_refused():
    with pytest.raises(ValueError, match="run must be a whole number"):
        with_run(HOME.appliances[0], 0, 6.0)
    with pytest.raises(ValueError, match="interval_s must be positive"):
        public_facts(-1)
    for trace in (None, hm.Trace([1.0, 2.0], 6.0)):
        with pytest.raises(ValueError, match="needs a trace with true states"):
            measure_with("hold", HOME, "kettle", trace)


def test_public_facts_hold_no_reading_and_name_what_does_not_fit():
    facts, forms, notes = public_facts(hm.Trace([7.0] * 48, 3600.0, "2024-01-15T00:00Z"))
    assert not facts.times.readings.any()
    assert (facts.interval_s, facts.readings) == (3600, 48)
    assert (forms, notes) == (("series", "calendar"), ())
    _, forms, (note,) = public_facts(hm.Trace([7.0] * 4, 700.0, "2024-01-15T00:00Z"))
    assert forms == ("series",)
    assert note.startswith("The calendar release is not among the options: ")


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_no_offset_of_a_run_exceeds_the_odds(mechanism):
    """A run of 3 min may begin in one hour and end in the next: no division beats the goal."""
    advice = advise_on(odds=0.9, mechanism=mechanism, every="1h", limits={"forms": ["series"]})
    noise, unit = rebuilt(advice.best)
    for share in (0.5, 0.6, 0.75, 0.9):
        parts = [(share * unit.l1, 1), ((1 - share) * unit.l1, 1)]
        assert compose(noise, parts).odds <= 0.9 + 1e-6


def test_the_largest_measured_power_has_its_own_epsilon():
    fridge = hm.Appliance("fridge", 100.0, run_s=900.0, high=150.0, max_power=1500.0)
    home = hm.Home([fridge], 10.0)
    advice = advise_on("fridge", home=home, span="reading", mechanism="laplace")
    metered = next(option for option in advice.options if option.every_s == 6)
    assert metered.largest_epsilon == pytest.approx(10 * metered.epsilon, rel=0.01)
    sentence = hm.explain(advice)[1]
    assert "exceed the 150 W that this ε protects; its largest power, 1.5 kW, is" in sentence
    assert f"protected at ε = {advice.best.largest_epsilon:.3g}." in sentence
    assert advise_on(mechanism="laplace").best.largest_epsilon is None


def test_the_command_gives_the_same_noise_for_every_file_of_one_day(tmp_path):
    day = hm.synth.trace(hm.synth.ready_home("evening"), 14_400, seed=1)
    scales = []
    for every in (6, 60, 900, 1800, 3600):
        coarse = day if every == 6 else day.coarsen(every)
        path = tmp_path / f"{every}.csv"
        hm.write_meter(path, hm.Trace(coarse.readings, coarse.interval_s, coarse.start))
        wish = ("--hide", "kettle 2100 W 180 s", "--odds", 60, "--for", "hour")
        done = run("advise", path, *wish, "--json")
        best = json.loads(done.stdout)["advice"]["options"][0]
        assert best["every_s"] == 3600
        scales.append(best["scale"])
    assert scales == pytest.approx([208.1] * 5, rel=0.01)


def test_without_a_purpose_the_advice_is_what_the_command_writes_into_a_folder(tmp_path):
    hm.write_meter(tmp_path / "meter.csv", hm.synth.household(9, interval_s=1800.0, seed=2).trace)
    advised = run("advise", tmp_path / "meter.csv", "--hide", "kettle").stdout
    written = ("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", tmp_path / "shared")
    released = run(*written).stdout
    # The promise, the small table of odds and the cost are the same lines.
    same = [line for line in advised.splitlines() if line in released.splitlines()]
    assert [line.split()[0] for line in same][:3] == ["Hidden:", "Nobody", "60"]
    assert any(line.startswith("Each hour is off by") for line in same)
    assert "-o shared" in advised.splitlines()[-1]


@pytest.mark.parametrize("purpose", ["day", "month"])
def test_days_and_months_of_a_zone_are_sums_of_its_own_days(tmp_path, purpose):
    trace = hm.synth.household(20, interval_s=1800.0, zone="Europe/London", seed=2).trace
    facts = hm.metered(trace, "Asia/Tokyo")
    promise = hm.Request(hide="kettle", purpose=purpose).resolve(facts)
    assert promise.words == {"day": ("days", "months"), "month": ("months",)}[purpose]
    best = advise(hm.Request(hide="kettle", purpose=purpose), facts).best
    assert (best.errors, best.tables) == (promise.errors, promise.words)
    # Days have less noise than in a calendar with hours, whose share of the budget they have now.
    views = hm.Request(hide="kettle", purpose=purpose, tables=["views"]).resolve(facts)
    assert best.errors.of(purpose) < views.errors.of(purpose) / 2
    hm.write_meter(tmp_path / "meter.csv", trace)
    words = ("--hide", "kettle", "--for", purpose, "--tz", "Asia/Tokyo")
    told = run("release", tmp_path / "meter.csv", *words, "-o", tmp_path / "a.csv", expect=2)
    assert "are written as a folder" in told.stderr


READINGS = st.lists(st.integers(-500, 20_000), min_size=48, max_size=48)
WISHES = st.sampled_from(["kettle", "tv, fridge", "kettle 2100 W 180 s"])


def calibration(receipt: dict) -> dict:
    """Every number of a public receipt, except for the digests of the released values."""
    receipt["output"].pop("sha256", None)
    return {key: receipt[key] for key in receipt if key not in ("private", "files", "warnings")}


@settings(max_examples=3)
@given(READINGS, READINGS, WISHES)
def test_readings_never_calibrate_a_release_of_the_command(tmp_path_factory, first, second, wish):
    folder = tmp_path_factory.mktemp("wish")
    receipts, advice = [], []
    for name, readings in (("a", first), ("b", second)):
        path = folder / f"{name}.csv"
        # One decimal in every value: the number of decimals of a file is public.
        rows = [f"2024-01-{15 + i // 24}T{i % 24:02}:00Z,{w}.0" for i, w in enumerate(readings)]
        path.write_text("timestamp,watts\n" + "\n".join(rows) + "\n")
        for out, more in ((f"{name}.out.csv", ()), (f"{name}-views", ("--views",))):
            done = run("release", path, "--hide", wish, *more, "-o", folder / out, "--json")
            receipts.append(calibration(json.loads(done.stdout)))
        for more in (("--for", "register"), ("--max-hourly-error", 50)):
            found = json.loads(run("advise", path, "--hide", wish, *more, "--json").stdout)
            advice.append((found["advice"], found["within_the_error"], found["notes"]))
    assert receipts[:2] == receipts[2:]
    assert advice[:2] == advice[2:]


KETTLE = hm.Appliance("kettle", 2100.0, run_s=180.0)
FRIDGE = hm.Appliance("fridge", 100.0, run_s=900.0)
OVEN = hm.Appliance("oven", 3000.0, run_s=7200.0)
WISH = hm.Request(hide=KETTLE)
HOURS = hm.Metered(3600.0)


def test_the_odds_within_an_error_have_a_closed_form():
    """Gaussian noise of 50 W on hours: Φ(E/(1 h·2σ)) for a run of E watt-seconds."""
    reach = find_reach([KETTLE, FRIDGE], 50.0, WISH, hm.Metered(60.0))
    found = {entry.appliance.name: entry for entry in reach}
    for name, watts, grid in (("kettle", 105.0, 0.2), ("fridge", 25.0, 0.05)):
        option = found[name].option
        assert option.mechanism == "gaussian"
        assert 49.8 <= option.errors.hour_w <= 50
        # Rounding to the grid moves each of the two touched hours by up to one step more.
        assert ndtr(watts / 100) <= option.odds <= ndtr((watts + 2 * grid) / 99.6)


@pytest.mark.parametrize("purpose", list(PURPOSES))
def test_the_answer_turned_around_is_the_answer(purpose):
    """What an error allows, asked as a goal, needs this error."""
    limit = {"W": 60.0, "kWh": 1.0}[PURPOSES[purpose].unit]
    wish = hm.Request(hide=KETTLE, purpose=purpose)
    (reach,) = find_reach([KETTLE], limit, wish, HOURS)
    odds = reach.odds + 1e-3
    kept = advise(wish.with_changes(odds=odds), HOURS, max_error=limit)
    assert kept.feasible
    assert kept.best.form == reach.option.form
    assert not advise(wish.with_changes(odds=odds - 0.02), HOURS, max_error=limit).feasible


def test_what_cannot_be_hidden_is_named():
    reach = find_reach([OVEN, KETTLE, FRIDGE], 25.0, WISH, HOURS)
    assert [entry.appliance.name for entry in reach] == ["fridge", "kettle", "oven"]
    assert reach[2].option is None
    assert reach[2].odds == 1
    (sentence,) = explain_reach(reach, 25.0, "hour", 0.7)
    assert sentence == (
        "With a standard error of at most 25 W in each hour, this appliance can be hidden to 70 "
        "out of 100: fridge."
    )
    (alone,) = explain_reach(reach[1:2], 25.0, "hour", 0.7)
    assert "the kettle can only be hidden to" in alone


def test_a_limit_that_no_noise_moves_is_refused():
    moved = hm.Request(hide=KETTLE, span="when", purpose="day")
    with pytest.raises(InputError, match="error of a day follows from the rounding"):
        find_reach([KETTLE], 1.0, moved, HOURS)
    with pytest.raises(InputError, match="max_error must be positive"):
        find_reach([KETTLE], 0.0, WISH, HOURS)


def test_the_front_falls_with_the_odds():
    def search(forms, **changes):
        wish = WISH.with_changes(mechanism="gaussian", **changes)
        return advise(wish, HOURS, forms=forms)

    lines = find_front(search, 3600.0, odds=(0.55, 0.6, 0.8))
    assert [(line.form, line.every_s) for line in lines] == [
        ("series", 3600), ("series", 86_400), ("calendar", 3600),
    ]  # fmt: skip
    for line in lines:
        for purpose in PURPOSES:
            errors = [point.of(purpose) for point in line.errors]
            if None not in errors:
                assert errors == sorted(errors, reverse=True)
                assert errors[0] > 3 * errors[-1]
