"""What is left after a release: the same statements, other verdicts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import hushmeter as hm
from hushmeter import synth
from hushmeter.cli import app
from hushmeter.errors import DataError, InputError
from hushmeter.files import receipt_path
from hushmeter.learn.habits import Finding, clock, weekends
from hushmeter.releases.purposes import OF_PURPOSE
from hushmeter.releases.receipt import SCHEMA
from hushmeter.threat import (
    likely_findings,
    read_for_attack,
    released_findings,
    what_is_left,
)
from hushmeter.threat.remaining import (
    PERIODS,
    RULES,
    _Cells,
    _judge,
    _make_tests,
    _of_100,
    _Test,
    _upper,
)

COOKS = ("fridge", "kettle", "microwave", "oven", "television")


@pytest.fixture(scope="module")
def home():
    habits = synth.Habits(works_away=True, trips_per_month=3)
    return synth.household(days=56, interval_s=3600, appliances=COOKS, habits=habits, seed=4)


def promise_of(home, **request):
    return hm.Request(**request).resolve(hm.metered(home.trace, home.zone))


def left(home, promise, releases=20):
    found = what_is_left(home.trace, promise, tz=home.zone, releases=releases, rng=1)
    return {one.kind: one for one in found}


def test_little_noise_leaves_everything_and_much_noise_hides_it(home):
    small = left(home, promise_of(home, watts=10.0, epsilon=1.0), releases=8)
    large = left(home, promise_of(home, watts=20_000.0, epsilon=0.2), releases=40)
    assert {"first-use", "away", "workday-empty", "active-hours"} <= set(small)
    assert all(one.verdict == "still there" for one in small.values())
    assert {kind for kind, one in large.items() if one.verdict == "gone"} >= {"first-use", "night"}
    for kind, one in small.items():
        assert one.before == large[kind].before
        assert large[kind].still_there <= one.still_there + 0.05
        assert one.after.startswith("Still there. ")


def test_the_noise_of_a_kettle_leaves_the_household(home):
    found = left(home, promise_of(home, hide="kettle"))
    assert found["first-use"].verdict == "still there"
    assert found["first-use"].still_there > found["first-use"].by_chance


def test_days_without_hours_do_not_show_when_people_get_up(home):
    request = hm.Request(hide="when we get up")
    facts = hm.metered(home.trace, home.zone)
    promise = request.as_calendar(facts).resolve(facts)
    found = left(home, promise)
    assert found["first-use"].verdict == "gone"
    assert found["first-use"].still_there == 0
    assert found["away"].verdict == "still there"


@pytest.mark.parametrize("watts", [250.0, 400.0])
def test_a_power_that_nearly_every_release_states_is_not_gone(home, watts):
    """Also if somebody without the readings would assume the same power."""
    ripple = np.random.default_rng(3).normal(0, 20, len(home.trace))
    even = replace(home, trace=home.trace.replace_readings(np.round(watts + ripple)))
    found = left(even, promise_of(even, hide="kettle"))
    # Three hours of 56 nights have 36 W of noise: 83 or 97 of 100 releases are within 20 %.
    assert found["night"].still_there > 0.6
    assert found["night"].verdict == "still there"


def test_a_typical_day_shows_the_load_of_every_evening(home):
    """Hours of the mean day tell when a strong load returns and when people are active."""
    watts = home.trace.readings.copy()
    hours = np.arange(watts.size) % 24
    watts[(hours >= 19) & (hours < 22)] += 4000
    cooks = replace(home, trace=home.trace.replace_readings(watts))
    found = left(cooks, promise_of(cooks, hide="which days we are away"), releases=3)
    assert found["returns"].verdict == "still there"
    assert found["returns"].still_there == 1


def test_typical_days_say_nothing_certain_about_single_days(home):
    """Each day is estimated to be the typical one of its month: no count of days follows."""
    done = promise_of(home, hide="which days we are away").release(home.trace, rng=1)
    shown = released_findings(done, tz=home.zone)
    assert shown.findings == ()
    assert "no released table shows them" in shown.withheld[0]
    likely = likely_findings(done, tz=home.zone)
    assert {"first-use", "active-hours"} <= {one.kind for one in likely}
    assert not any(" on half of the " in one.sentence for one in likely)


@pytest.mark.parametrize("length", [3, 14])
def test_months_hide_which_days_a_short_absence_has(home, length):
    """An absence of two weeks shows in the sum of its month."""
    stated = hm.findings(home.trace, tz=home.zone)
    dates = [str(np.datetime64("2024-02-01") + k) for k in range(length)]
    said = {"dates": dates, "count": length, "days": 55, "longest_days": length}
    stated = replace(stated, findings=(Finding("away", "", said, "likely"),))
    promise = promise_of(home, hide="which days we are away")
    (away,) = what_is_left(home.trace, promise, tz=home.zone, stated=stated, releases=3)
    assert away.verdict == ("gone" if length == 3 else "still there")
    assert away.after.split(", but")[0].rstrip(".").endswith("table shows single days")


@pytest.mark.parametrize(("first", "end"), [(19, 21), (23, 24), (23, 25), (22, 25), (24, 26)])
def test_a_load_around_midnight_is_still_there(home, first, end):
    """One hour of every night, within a window that midnight may divide."""
    draw = np.random.default_rng(3)
    watts = 200 + draw.normal(0, 20, len(home.trace))
    days = np.arange(len(home.trace) // 24 - 1)
    watts[24 * days + draw.integers(first, end, days.size)] += 4000
    charges = replace(home, trace=home.trace.replace_readings(np.round(watts)))
    load = left(charges, promise_of(charges, watts=10.0, epsilon=1.0), releases=3)["returns"]
    assert f"between {clock(first)} and {clock(end)} " in load.before
    assert (load.verdict, load.still_there) == ("still there", 1)


def test_weekends_of_which_noise_leaves_next_to_nothing_are_compared():
    working = np.arange(70) % 7 < 5
    stated, answer = (
        Finding(
            "weekend", "", weekends(np.where(working, 500.0, watts), working, forced=True), "sure"
        )
        for watts in (250.0, 0.01)
    )
    assert answer.evidence["ratio"] == 2e-5
    same = RULES["weekend"][0]
    assert same(stated, stated)
    assert not same(stated, answer)


def test_equal_shares_in_all_hours_are_compared():
    """They have no correlation."""
    shares = {"all": [1.0] * 24, "most": [0.9] * 24, "evenings": [0.0] * 18 + [0.9] * 6}
    all_day, most, evenings = (
        Finding("active-hours", "", {"share_by_hour": found}, "likely") for found in shares.values()
    )
    same = RULES["active-hours"][0]
    assert same(all_day, most)
    assert same(evenings, evenings)
    assert not same(all_day, evenings)
    assert not same(evenings, most)


@pytest.mark.parametrize("tables", [(), *OF_PURPOSE.values()], ids=["cells", *OF_PURPOSE])
@pytest.mark.parametrize("kind", ["lived in", "empty", "even", "exporting"])
def test_no_noise_and_no_home_make_an_attack_fail(home, kind, tables):
    """From 10 W to 100 kW; a warning of NumPy is an error here."""
    watts = home.trace.readings
    load = {
        "lived in": watts,
        "empty": 0 * watts,
        "even": 0 * watts + 500,
        "exporting": watts - 5e3,
    }
    trace = home.trace.replace_readings(load[kind])
    facts = hm.metered(trace, home.zone)
    for number, noise in enumerate((10.0, 1e3, 1e5)):
        promise = hm.Request(watts=noise, epsilon=1.0, span="day", tables=tables).resolve(facts)
        stated = hm.findings(home.trace, tz=home.zone)
        found = what_is_left(trace, promise, tz=home.zone, stated=stated, releases=2, rng=number)
        assert all(0 <= share <= 1 for one in found for share in (one.still_there, one.by_chance))
        assert {one.before for one in found} <= {one.sentence for one in stated.findings}


def odds_of(one):
    """The odds of the direct test, as stated."""
    text = one.after.split("tests it would be right ")[1].removeprefix("more than ")
    return int(text.split()[0])


def test_a_usual_time_is_gone_only_if_no_test_tells_it_from_another(home):
    """With much noise the answer is the usual time, right or not, whatever the home does."""
    odds = {}
    for watts in (100.0, 1000.0, 100_000.0):
        one = left(home, promise_of(home, watts=watts, epsilon=2.0), releases=30)["first-use"]
        odds[watts] = odds_of(one)
        assert (one.verdict == "gone") is (watts == 100_000.0), one
    assert odds[100.0] == 99
    assert odds[100.0] >= odds[1000.0] > odds[100_000.0]


@pytest.mark.parametrize("noise_w", [469.0, 2000.0])
def test_a_load_of_several_hours_is_judged_as_a_block(noise_w):
    """Also where the attacker states one of its hours, because the mean of all days shows it."""
    draw = np.random.default_rng(5)
    hours = np.arange(24 * 90) % 24
    watts = 200 + 2300 * ((hours >= 6) & (hours < 9)) * (draw.random(hours.size) < 0.8)
    trace = hm.Trace(np.round(watts), 3600, "2024-01-01T00:00Z")
    said = {"first_hour": 6, "end_hour": 9, "watts": 2000, "count": 85, "days": 89}
    block = Finding("returns", "2 to 3 kW between 6:00 and 9:00", said, "sure")
    stated = hm.findings(trace)
    stated = replace(stated, findings=(block,))
    promise = hm.Request(watts=noise_w / 3.7, epsilon=1.0).resolve(hm.metered(trace, "UTC"))
    (one,) = what_is_left(trace, promise, stated=stated, releases=30, rng=1)
    assert one.verdict == "still there"
    assert odds_of(one) == 99


def test_the_odds_of_the_direct_test_are_those_of_a_direct_attack(rng):
    """Two derivations: simulated answers about two homes, and the normal distribution."""
    cells = _Cells(np.arange(24 * 60, dtype=float), 1.0, np.zeros(24 * 60))
    load = np.where(cells.covers(18, 21), 30.0, 0.0)
    said = {"first_hour": 18, "end_hour": 21}
    (test,) = _make_tests(Finding("returns", "", said, "sure"), replace(cells, watts=load))
    noise = rng.normal(0, 500, (4000, load.size)) @ test.weights
    test.results.extend(noise.tolist())
    with_it, without = noise[:2000] + test.weights @ load, noise[2000:]
    right = np.mean([*(with_it > test.signal / 2), *(without <= test.signal / 2)])
    assert 0.6 < test.odds < 0.9
    assert abs(test.odds - right) < 4.9 * np.sqrt(0.25 / 4000)


def hidden_by_other_use(kind):
    """A statement that a comparison with all other hours or days does not show, and its cells."""
    hours = np.arange(24 * 84, dtype=float) + 24 * 4  # From a Monday on
    cells = _Cells(hours, 1.0, np.zeros(hours.size))
    days, clock = np.divmod(hours, 24)
    working = (days + 3) % 7 < 5
    late = days >= 46
    if kind == "returns":  # A storage heater uses as much at night as the load by day.
        said = {"first_hour": 18, "end_hour": 20}
        watts = np.where(clock < 7, 3000.0, 0.0)
        watts[cells.covers(18, 20)] = watts[~cells.covers(18, 20)].mean()
    elif kind == "workday-empty":  # Nobody is in at weekends either.
        said = {"first_hour": 9, "end_hour": 17}
        watts = np.where((clock >= 17) & (clock < 23), 1000.0, 100.0)
    elif kind == "active-hours":  # The night uses as much as the day, as a heater does.
        said = {"share_by_hour": [0.0] * 7 + [1.0] * 16 + [0.0]}
        watts = np.where(clock < 7, 500 * 8 / 7, np.where(clock < 23, 500.0, 0.0))
    elif kind == "change":  # Winter comes as the first use gets later.
        said = {"date": "1970-02-16", "before_hour": 6.0, "after_hour": 8.0, "use": "first"}
        watts = np.where(clock >= np.where(late, 8, 6), 1000.0, 0.0) + 1000.0 * late
    else:  # The use of weekends begins with a strong load, that of working days slowly.
        said = {"hour": 7.0, "weekend_hour": 9.0}
        watts = np.where(working, 2.0 * clock, np.where(clock >= 9, 2000.0, 0.0))
    return Finding(kind, "", said, "sure"), replace(cells, watts=watts)


@pytest.mark.parametrize(
    "kind", ["returns", "workday-empty", "active-hours", "change", "first-use"]
)
def test_other_use_does_not_hide_a_statement_from_the_direct_test(kind, rng):
    one, cells = hidden_by_other_use(kind)
    tests = _make_tests(one, cells)
    noise = rng.normal(0, 1000, (500, cells.watts.size))
    for test in tests:
        test.results.extend((noise @ test.weights).tolist())
    assert max(test.odds for test in tests) > 0.95


@pytest.mark.parametrize("step_h", [0.25, 0.5, 1.0, 24.0])
def test_cells_cover_hours_of_the_clock(step_h):
    cells = _Cells(np.arange(0, 48, step_h), step_h, np.zeros(round(48 / step_h)))
    for first, stop in ((6, 9), (22, 2), (0, 24), (19, 28)):
        inside = cells.covers(first, stop)
        middle = [
            any((h + k * step_h / 50 - first) % 24 < ((stop - first) % 24 or 24) for k in range(50))
            for h in cells.hours
        ]
        assert inside.tolist() == middle


def test_the_guess_is_the_same_for_every_release(home):
    small, large = (
        left(home, promise_of(home, watts=watts, epsilon=1.0), releases=3)
        for watts in (10.0, 20_000.0)
    )
    assert {k: v.by_chance for k, v in small.items()} == {k: v.by_chance for k, v in large.items()}


def test_no_answer_of_few_releases_is_not_gone():
    assert _upper(0, 50) < 0.1 < _upper(0, 20)
    assert _upper(3, 3) == 1


def test_few_releases_are_a_first_estimate_that_more_releases_refine(home):
    promise = promise_of(home, watts=20_000.0, epsilon=0.2)
    stated = hm.findings(home.trace, tz=home.zone)
    few, same, many = (
        what_is_left(home.trace, promise, tz=home.zone, stated=known, releases=count, rng=1)
        for count, known in ((3, None), (3, stated), (40, stated))
    )
    assert few == same
    assert [one.before for one in few] == [one.before for one in many]
    gone = {one.kind for one in many if one.verdict == "gone"}
    assert gone
    assert {one.verdict for one in few if one.kind in gone} == {"uncertain"}


@pytest.fixture(scope="module")
def minutes():
    """A home whose single runs show: a kettle, a fridge and a car."""
    return synth.household(
        days=28, interval_s=60, appliances=("fridge", "kettle", "oven", "car charger"), seed=3
    )


def test_what_is_hidden_comes_first_and_is_not_still_there(minutes):
    """A kettle that was hidden was "still there", as everything was, and near the end."""
    facts = hm.metered(minutes.trace, minutes.zone)
    promise = hm.Request(hide="kettle").as_calendar(facts).resolve(facts)
    found = what_is_left(minutes.trace, promise, tz=minutes.zone, releases=40, rng=1)
    assert found[0].kind == "kettle"
    assert found[0].verdict in ("gone", "uncertain")
    assert found[0].odds[0] < promise.odds + 0.01
    known = {one.kind: one for one in found}
    assert known["car-charger"].verdict == "still there"
    assert known["car-charger"].odds[0] > 0.99
    assert {one.verdict for one in found} >= {"gone", "still there"}


@pytest.mark.parametrize(
    ("hide", "kind", "verdict"),
    [
        ("when we get up", "first-use", "gone"),
        # The longest absence is so long that the sum of a month may show it.
        ("which days we are away", "away", "still there"),
    ],
)
def test_a_hidden_habit_comes_first(home, hide, kind, verdict):
    facts = hm.metered(home.trace, home.zone)
    promise = hm.Request(hide=hide).as_calendar(facts).resolve(facts)
    found = what_is_left(home.trace, promise, tz=home.zone, releases=2, rng=1)
    assert (found[0].kind, found[0].verdict) == (kind, verdict)


def test_a_sum_of_months_shows_no_run_and_no_period(minutes):
    """It was said that a kettle and the period of a fridge are still there."""
    promise = promise_of(minutes, watts=20.0, epsilon=1.0, span="day", tables=["months"])
    found = {one.kind: one for one in left(minutes, promise, releases=30).values()}
    assert {found[kind].verdict for kind in ("kettle", "fridge", "car-charger")} == {"gone"}
    assert found["fridge"].after == "Gone: no released table shows single days."
    assert found["base-load"].verdict == "gone"


def test_sums_of_days_show_a_car_but_no_kettle(minutes):
    promise = promise_of(minutes, watts=20.0, epsilon=1.0, span="day", tables=["days"])
    found = left(minutes, promise, releases=30)
    assert found["kettle"].verdict == "gone"
    assert found["car-charger"].verdict == "still there"
    assert found["fridge"].after == f"Gone: no released table shows {PERIODS}."


def test_exact_sums_of_days_show_no_kettle_either(minutes):
    """Other use varies more from day to day than one boil, so that no noise is needed."""
    promise = promise_of(minutes, hide="when we get up", tables=["days", "months"])
    assert promise.exact
    found = left(minutes, promise, releases=2)
    assert found["kettle"].verdict == "gone"
    assert 0.5 < found["kettle"].odds[0] < 0.55


def test_usual_hours_may_show_a_long_run():
    minutes = synth.household(
        days=29, interval_s=60, start="2024-02-01", appliances=("fridge", "kettle", "car charger")
    )
    facts = hm.metered(minutes.trace, minutes.zone)
    promise = hm.Request(hide="which days we are away").as_calendar(facts).resolve(facts)
    found = left(minutes, promise, releases=2)
    assert found["kettle"].verdict == "gone"
    assert found["car-charger"].verdict == "uncertain"


def test_fine_values_with_little_noise_show_every_run(minutes):
    found = left(minutes, promise_of(minutes, watts=1.0, epsilon=1.0), releases=3)
    shown = [found[kind] for kind in ("kettle", "fridge", "car-charger", "base-load")]
    assert {one.verdict for one in shown} == {"still there"}
    assert min(one.odds[0] for one in shown) > 0.99


def test_what_is_always_on_is_judged_too(home):
    """The first statement of every list had no verdict."""
    for watts, verdict in ((10.0, "still there"), (50_000.0, "gone")):
        found = left(home, promise_of(home, watts=watts, epsilon=1.0), releases=30)
        assert found["base-load"].verdict == verdict
        assert list(found) == [one.kind for one in hm.findings(home.trace, tz=home.zone).findings]


def test_a_test_that_is_right_56_times_does_not_share_a_verdict_with_one_over_99(home):
    verdicts = {}
    for watts in (100.0, 2_000.0, 4_000.0, 500_000.0):
        promise = promise_of(home, watts=watts, epsilon=2.0)
        one = what_is_left(home.trace, promise, tz=home.zone, releases=60, rng=1)
        verdicts |= {round(100 * o.odds[0]): o.verdict for o in one if o.kind == "first-use"}
    assert {verdict for odds, verdict in verdicts.items() if odds > 99} <= {"still there"}
    assert {verdict for odds, verdict in verdicts.items() if 56 <= odds <= 70} <= {"uncertain"}
    assert set(verdicts.values()) == {"gone", "uncertain", "still there"}


def test_a_reassuring_verdict_needs_more_releases_than_an_alarming_one():
    one = Finding("first-use", "", {"hour": 7.0, "weekend_hour": None}, "about")
    answers = np.zeros((40, 2), np.bool_)
    cases = {
        (0.51, 0.50, 0.52): "gone", (0.54, 0.51, 0.56): "uncertain", (0.56, 0.54, 0.6): "uncertain",
        (0.74, 0.6, 0.9): "uncertain", (0.76, 0.55, 0.99): "still there",
    }  # fmt: skip
    assert {odds: _judge(one, answers, odds, False).verdict for odds in cases} == cases
    few = {odds: _judge(one, answers[:3], odds, False).verdict for odds in cases}
    assert set(few.values()) == {"uncertain", "still there"}
    assert {odds for odds in few if few[odds] == "still there"} == {(0.76, 0.55, 0.99)}


def test_the_bounds_of_the_odds_hold_as_often_as_stated(rng):
    """Of 500 series of results, each bound misses the true odds in about 5 of 100."""
    true = norm.cdf(1.0 / 2)
    missed = np.zeros(2)
    for _ in range(500):
        test = _Test(np.ones(1), 1.0, results=rng.normal(0, 1, 20).tolist())
        _, low, high = test.bounds
        missed += true < low, true > high
    assert (missed < 500 * 0.05 + 4.9 * np.sqrt(500 * 0.05 * 0.95)).all()
    assert (missed > 0).all()


def test_the_odds_of_a_run_are_those_of_a_direct_attack(rng):
    """Two derivations: a simulated decision about one run, and the odds that are stated."""
    hours = np.arange(24.0 * 2000)
    others, noise = 90.0, 120.0
    cells = _Cells(hours, 1.0, rng.normal(500, others, hours.size))
    starts = 24 * np.arange(5, 1900, 7) + 18.25
    marks = np.column_stack([starts, starts + 0.5]) * 3600
    run = Finding("strong-run", "", {"watts": 400.0, "seconds": 1800.0}, "sure", marks)
    cells = replace(cells, watts=cells.watts + 400 * cells.share_of(*(marks / 3600).T))
    (test,) = _make_tests(run, cells)
    assert np.flatnonzero(test.weights).size == 1
    assert test.weights.max() == 200
    test.results.extend(rng.normal(0, noise * 200, 4000).tolist())
    draws = rng.normal(0, np.hypot(others, noise), 20_000)
    right = np.mean([*(draws[:10_000] + 200 > 100), *(draws[10_000:] <= 100)])
    assert test.odds == pytest.approx(right, abs=0.02)


def test_no_load_of_a_release_is_passed_over(home, tmp_path):
    """Also where one of several loads is clear; hours of use are never clear under noise."""
    hours = np.arange(len(home.trace)) % 24
    lunch = np.random.default_rng(3).random(hours.size) < 0.75
    watts = 150.0 + 5000 * ((hours >= 19) & (hours < 21))
    watts += 1100 * lunch * ((hours >= 11) & (hours < 13))
    cooks = replace(home, trace=home.trace.replace_readings(np.round(watts)))
    # The noise is a real one, without a seed.
    path = tmp_path / "hours.csv"
    promise_of(cooks, watts=400.0, epsilon=1.0).release(cooks.trace).save(path)
    loads = [one for one in likely_findings(read_for_attack(path)) if one.kind == "returns"]
    answer = json.loads(CliRunner().invoke(app, ["inspect", str(path), "--json"]).stdout)
    printed = [one["sentence"] for name in ("findings", "likely") for one in answer[name]]
    assert loads
    assert [printed.count(one.sentence) for one in loads] == [1] * len(loads)
    assert "active-hours" not in {one["kind"] for one in answer["findings"]}
    assert "active-hours" in {one["kind"] for one in answer["likely"]}


def test_every_chance_is_a_probability(home):
    found = hm.findings(home.trace, tz=home.zone).findings
    kinds = {one.kind for one in found} & set(RULES)
    assert kinds
    for one in found:
        if one.kind in RULES:
            same, chance = RULES[one.kind]
            assert same(one, one)
            assert 0 <= chance(one) < 1


def test_the_same_seed_gives_the_same_answer_and_progress_is_reported(home):
    promise, seen = promise_of(home, hide="kettle"), []
    one, two = (
        what_is_left(
            home.trace, promise, releases=3, rng=7, progress=lambda k, n: seen.append((k, n))
        )
        for _ in range(2)
    )
    assert one == two
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2
    with pytest.raises(InputError, match="releases"):
        what_is_left(home.trace, promise, releases=0)


def test_a_release_is_inspected_with_its_noise(home, tmp_path):
    trace = home.trace
    # The noise is a real one, without a seed, and so small that the first use is always found.
    promise = promise_of(home, watts=20.0, epsilon=1.0)
    done = promise.release(trace)
    found = released_findings(done, tz=home.zone)
    assert found.of_kind("first-use")
    assert any("standard deviation" in note for note in found.notes)
    path = tmp_path / "shared.csv"
    done.save(path)
    shown = CliRunner().invoke(app, ["inspect", str(path), "--tz", home.zone, "--json"])
    kinds = {one["kind"] for one in json.loads(shown.stdout)["findings"]}
    assert "first-use" in kinds
    assert "fridge" not in kinds
    rows = path.read_text().splitlines()
    rows[3] = rows[4].split(",")[0] + ",1"
    path.write_text("\n".join(rows))
    with pytest.raises(DataError, match="does not verify"):
        read_for_attack(path)


def test_what_has_no_habits_to_infer_is_said_in_one_sentence(home, tmp_path):
    promise = promise_of(home, watts=20.0, epsilon=1.0, span="day", tables=["months"])
    promise.release(home.trace).save(tmp_path / "months")
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "months")])
    assert shown.exit_code == 0
    assert "habits are searched for in hours and in days. The release has only months;" in (
        " ".join(shown.output.split())
    )


@pytest.mark.parametrize("name", ["shared", "shared.csv"])
def test_a_receipt_of_another_version_is_named(home, tmp_path, name):
    """Its values have noise, so they are not read as metered ones."""
    form = {"span": "day", "tables": ["days"]} if name == "shared" else {}
    place = tmp_path / name
    promise_of(home, watts=20.0, epsilon=1.0, **form).release(home.trace).save(place)
    receipt = receipt_path(place)
    receipt.write_text(receipt.read_text().replace(SCHEMA, "hushmeter-receipt-2"))
    shown = CliRunner().invoke(app, ["inspect", str(place)])
    assert shown.exit_code == 1
    assert f"{receipt} is not a public receipt of this version" in str(shown.exception)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (0.0001, "0.1"),
        (0.0031, "0.4"),
        (0.01, "1"),
        (0.99, "99"),
        (0.995, "more than 99"),
    ],
)
def test_a_share_is_a_number_out_of_100(share, text):
    """A share below one in a hundred is rounded up: no guess is said to be impossible."""
    assert _of_100(share) == text
