from __future__ import annotations

import math

import pytest

import hushmeter as hm
from hushmeter.advice.planner import measure_with, public_facts, with_run
from hushmeter.privacy.accounting import compose
from hushmeter.privacy.units import calibrate, resolve_unit
from hushmeter.releases.purposes import PURPOSES
from hushmeter.releases.search import NEAR_A_COIN, ODDS_SLACK, best_grid, best_odds

HOME = hm.synth.ready_home("evening")


def rebuilt(option, hide="kettle", span="run"):
    """The option's mechanism and unit, made anew from what it says."""
    unit = resolve_unit(span=span, interval_s=6.0, home=HOME, appliance=hide, every=option.every_s)
    return calibrate(option.mechanism, option.epsilon, unit, grid=best_grid(unit)), unit


def advise(hide="kettle", *, home=HOME, interval_s=6.0, forms=("series", "calendar"), **wish):
    """Advice for a wish; limits of errors and measured odds are those of `hm.advise`."""
    limits = ("max_hourly_error", "max_error", "price_per_kwh", "odds_of")
    given = {name: wish.pop(name) for name in limits if name in wish}
    request = hm.Request(hide=hide, home=home, **wish)
    return hm.advise(request, hm.Metered(interval_s), forms=forms, **given)


def test_every_option_keeps_the_odds_and_wastes_little():
    advice = advise(odds=0.6)
    assert advice.feasible
    assert len(advice.options) == 20
    series = [option for option in advice.options if option.form == "series"]
    for option in series:
        mechanism, unit = rebuilt(option)
        assert best_odds(mechanism, unit) == pytest.approx(option.odds, abs=1e-9)
        assert option.odds <= 0.6
        assert option.odds >= 0.6 - ODDS_SLACK
        assert mechanism.scale == pytest.approx(option.scale)


def test_the_cheapest_comes_first():
    for purpose in PURPOSES:
        options = advise(purpose=purpose, mechanism="gaussian").options
        costs = [option.errors.of(purpose) or math.inf for option in options]
        assert costs == sorted(costs)


def test_a_run_of_a_given_length():
    kettle = HOME.appliances[HOME.index("kettle")]
    short, long = (
        advise(with_run(kettle, n, 6.0), home=None, mechanism="laplace") for n in (10, 100)
    )
    assert long.best.cost.hourly_w > short.best.cost.hourly_w


def test_less_odds_cost_more():
    costs = [
        advise(odds=odds, mechanism="gaussian").best.cost.hourly_w for odds in (0.52, 0.6, 0.8)
    ]
    assert costs == sorted(costs, reverse=True)


def test_one_reading_of_laplace_has_a_closed_form():
    """1 − e^(−s/2)/2 = 0.6 at s = −2 ln 0.8: λ = P/s."""
    advice = advise(span="reading", mechanism="laplace")
    metered = next(o for o in advice.options if o.every_s == 6.0)
    assert metered.scale == pytest.approx(2100 / 0.4463, rel=0.01)


def test_nobody_is_held_below_a_coin():
    advice = advise(odds=0.5, mechanism="gaussian")
    assert not advice.feasible
    assert advice.best.odds <= NEAR_A_COIN
    assert "There is no release" in hm.explain(advice)[0]


def test_a_cost_cap_can_make_a_goal_infeasible():
    kept = advise(max_hourly_error=215.0, mechanism="gaussian")
    assert kept.feasible
    assert all(option.errors.hour_w <= 215 for option in kept.options)
    lost = advise(max_hourly_error=20.0, mechanism="gaussian")
    assert not lost.feasible
    assert lost.best.odds <= 0.6


def test_measured_odds_of_an_attacker():
    trace = hm.synth.trace(HOME, 3000, seed=1)
    hold = measure_with("hold", HOME, "kettle", trace)
    advice = advise(mechanism="laplace", odds_of=hold)
    # holding the first state never sees the kettle, so the least noise is enough
    assert advice.best.odds == 0.5
    assert advice.best.epsilon > 15
    sees = measure_with("one-shot", HOME, "heat pump", trace)
    assert advise("heat pump", mechanism="laplace", odds=0.9, odds_of=sees).options


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"hide": "toaster"}, "no appliance named 'toaster'"),
        ({"odds": 100}, "odds must lie between 0 and 1"),
        ({"odds": -0.1}, "odds must be positive"),
        ({"span": "week"}, "span must be one of"),
        ({"mechanism": "uniform"}, "mechanism must be one of"),
        ({"forms": ("film",)}, "form must be one of"),
        ({"delta": 2.0}, "delta must lie between 0 and 1"),
        ({"max_hourly_error": math.nan}, "max_hourly_error must be positive"),
        ({"interval_s": -1}, "interval_s must be positive"),
    ],
)
def test_bad_goals_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        advise(**keywords)


def test_other_bad_goals_are_refused():
    with pytest.raises(ValueError, match="run must be a whole number"):
        with_run(HOME.appliances[0], 0, 6.0)
    with pytest.raises(ValueError, match="needs a trace with true states"):
        measure_with("hold", HOME, "kettle", None)
    with pytest.raises(ValueError, match="advice needs a wish"):
        hm.advise(hm.Request(epsilon=1, home=HOME), hm.Metered(6.0))


def test_odds_are_a_share_or_out_of_100():
    share, times = (advise(odds=odds, mechanism="laplace") for odds in (0.6, 60))
    assert share == times


def test_what_a_search_knows_about_a_file():
    """No times, so that errors are those of a month; the tables must fit the file."""
    trace = hm.Trace([100.0] * 72, 3600.0, "2024-03-01T00:00Z")
    facts, forms, notes = public_facts(trace, "Europe/Berlin")
    assert (facts.times, facts.readings, facts.zone) == (None, 72, "Europe/Berlin")
    assert (forms, notes) == (("series", "calendar"), ())
    _, forms, (note,) = public_facts(trace[:20], "UTC")
    assert forms == ("series",)
    assert note.startswith("The calendar release is not among the options: ")


def test_the_promise_of_the_first_option_comes_along():
    advice = advise(odds=60)
    promise = advice.promise
    assert promise.cells.interval_s == advice.best.every_s
    assert promise.odds == advice.best.odds
    assert promise.noise.scale == advice.best.scale
    tables = advise(odds=60, tables=["views", "peak = 16:00-21:00"])
    assert len(tables.options) == 1
    assert len(tables.promise.tables) == 5


def test_an_unknown_run_means_one_reading():
    home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance=20.0)
    assert advise(home=home, mechanism="laplace").goal.span == "reading"


@pytest.mark.parametrize("interval_s", [7.0, 8.0, 45.0])
def test_every_interval_has_options_of_about_one_hour(interval_s):
    advice = advise(interval_s=interval_s, mechanism="gaussian", forms=("series",))
    longest = max(option.every_s for option in advice.options)
    assert longest == pytest.approx(3600, rel=0.01)
    assert longest % interval_s == 0


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_no_offset_of_a_run_exceeds_the_odds(mechanism):
    """A run of 3 min may begin in one hour and end in the next: no division beats the goal."""
    advice = advise(odds=0.9, mechanism=mechanism)
    option = next(o for o in advice.options if o.every_s == 3600)
    noise, unit = rebuilt(option)
    for share in (0.5, 0.6, 0.75, 0.9):
        parts = [(share * unit.l1, 1), ((1 - share) * unit.l1, 1)]
        assert compose(noise, parts).odds <= 0.9 + 1e-6


def test_the_largest_measured_power_has_its_own_epsilon():
    fridge = hm.Appliance("fridge", 100.0, run_s=900.0, high=150.0, max_power=1500.0)
    home = hm.Home([fridge], 10.0)
    advice = advise("fridge", home=home, span="reading", mechanism="laplace")
    metered = next(option for option in advice.options if option.every_s == 6)
    assert metered.largest_epsilon == pytest.approx(10 * metered.epsilon, rel=0.01)
    sentence = hm.explain(advice)[1]
    assert "exceed the 150 W that this ε protects; its largest power, 1.5 kW, is" in sentence
    assert f"protected at ε = {advice.best.largest_epsilon:.3g}." in sentence
    plain = advise(mechanism="laplace")
    assert plain.best.largest_epsilon is None
