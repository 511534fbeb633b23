from __future__ import annotations

import math

import pytest

import hushmeter as hm
from hushmeter.advice.least_noise import ODDS_SLACK, best_odds
from hushmeter.advice.planner import NEAR_A_COIN, advise
from hushmeter.advice.purposes import PURPOSES
from hushmeter.privacy.accounting import compose
from hushmeter.privacy.units import calibrate, resolve_unit

HOME = hm.synth.ready_home("evening")


def rebuilt(option, hide="kettle", span="run"):
    """The option's mechanism and unit, made anew from what it says."""
    unit = resolve_unit(span=span, interval_s=6.0, home=HOME, appliance=hide, every=option.every_s)
    return calibrate(option.mechanism, option.epsilon, unit), unit


def test_every_option_keeps_the_odds_and_wastes_little():
    advice = advise(HOME, "kettle", max_odds=0.6)
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
        options = advise(HOME, "kettle", purpose=purpose, mechanisms="gaussian").options
        costs = [option.errors.of(purpose) or math.inf for option in options]
        assert costs == sorted(costs)


def test_a_run_of_a_given_length():
    short, long = (advise(HOME, "kettle", run=n, mechanisms=["laplace"]) for n in (10, 100))
    assert long.best.cost.hourly_w > short.best.cost.hourly_w


def test_less_odds_cost_more():
    costs = [
        advise(HOME, "kettle", max_odds=odds, mechanisms=["gaussian"]).best.cost.hourly_w
        for odds in (0.52, 0.6, 0.8)
    ]
    assert costs == sorted(costs, reverse=True)


def test_one_reading_of_laplace_has_a_closed_form():
    """1 − e^(−s/2)/2 = 0.6 at s = −2 ln 0.8: λ = P/s."""
    advice = advise(HOME, "kettle", span="reading", mechanisms=["laplace"])
    metered = next(o for o in advice.options if o.every_s == 6.0)
    assert metered.scale == pytest.approx(2100 / 0.4463, rel=0.01)


def test_nobody_is_held_below_a_coin():
    advice = advise(HOME, "kettle", max_odds=0.5, mechanisms=["gaussian"])
    assert not advice.feasible
    assert advice.best.odds <= NEAR_A_COIN
    assert "There is no release" in hm.explain(advice)[0]


def test_a_cost_cap_can_make_a_goal_infeasible():
    kept = advise(HOME, "kettle", max_hourly_error=215.0, mechanisms=["gaussian"])
    assert kept.feasible
    assert all(option.errors.hour_w <= 215 for option in kept.options)
    lost = advise(HOME, "kettle", max_hourly_error=20.0, mechanisms=["gaussian"])
    assert not lost.feasible
    assert lost.best.odds <= 0.6


def test_measured_odds_of_an_attacker():
    trace = hm.synth.trace(HOME, 3000, seed=1)
    advice = advise(HOME, "kettle", attacker="hold", trace=trace, mechanisms=["laplace"])
    # holding the first state never sees the kettle, so the least noise is enough
    assert advice.best.odds == 0.5
    assert advice.best.epsilon > 15
    seen = advise(
        HOME, "heat pump", attacker="one-shot", trace=trace, mechanisms=["laplace"], max_odds=0.9
    )
    assert seen.options


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"hide": "toaster"}, "no appliance named 'toaster'"),
        ({"max_odds": 1.0}, "max_odds must lie between 0 and 1"),
        ({"max_odds": -0.1}, "max_odds must be positive"),
        ({"span": "week"}, "span must be one of"),
        ({"run": 0}, "run must be a whole number"),
        ({"mechanisms": ["uniform"]}, "mechanism must be one of"),
        ({"mechanisms": []}, "mechanisms must name at least one of laplace"),
        ({"delta": 2.0}, "delta must lie between 0 and 1"),
        ({"max_hourly_error": math.nan}, "max_hourly_error must be positive"),
        ({"attacker": "hold"}, "needs a trace with true states"),
        ({"interval_s": -1}, "interval_s must be positive"),
    ],
)
def test_bad_goals_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        advise(HOME, **{"hide": "kettle", **keywords})


def test_one_mechanism_may_be_named_by_a_word():
    named, listed = (advise(HOME, "kettle", mechanisms=m) for m in ("laplace", ["laplace"]))
    assert named == listed


def test_odds_are_a_share_or_out_of_100():
    share, times = (advise(HOME, "kettle", max_odds=m, mechanisms="laplace") for m in (0.6, 60))
    assert share == times
    with pytest.raises(ValueError, match="between 1 and 100 out of 100, got 100"):
        advise(HOME, "kettle", max_odds=100)


def test_an_unknown_run_means_one_reading():
    home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance=20.0)
    assert advise(home, "kettle", mechanisms=["laplace"]).goal.span == "reading"


@pytest.mark.parametrize("interval_s", [7.0, 8.0, 45.0])
def test_every_interval_has_options_of_about_one_hour(interval_s):
    advice = advise(HOME, "kettle", interval_s=interval_s, mechanisms="gaussian")
    longest = max(option.every_s for option in advice.options)
    assert longest == pytest.approx(3600, rel=0.01)
    assert longest % interval_s == 0


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_no_offset_of_a_run_exceeds_the_odds(mechanism):
    """A run of 3 min may begin in one hour and end in the next: no division beats the goal."""
    advice = advise(HOME, "kettle", max_odds=0.9, mechanisms=mechanism)
    option = next(o for o in advice.options if o.every_s == 3600)
    noise, unit = rebuilt(option)
    for share in (0.5, 0.6, 0.75, 0.9):
        parts = [(share * unit.l1, 1), ((1 - share) * unit.l1, 1)]
        assert compose(noise, parts).odds <= 0.9 + 1e-6


def test_the_largest_measured_power_has_its_own_epsilon():
    fridge = hm.Appliance("fridge", 100.0, run_s=900.0, high=150.0, max_power=1500.0)
    advice = advise(hm.Home([fridge], 10.0), "fridge", span="reading", mechanisms="laplace")
    metered = next(option for option in advice.options if option.every_s == 6)
    assert metered.largest_epsilon == pytest.approx(10 * metered.epsilon, rel=0.01)
    sentence = hm.explain(advice)[1]
    assert "exceed the 150 W that this ε protects; its largest power, 1.5 kW, is" in sentence
    assert f"protected at ε = {advice.best.largest_epsilon:.3g}." in sentence
    plain = advise(HOME, "kettle", mechanisms="laplace")
    assert plain.best.largest_epsilon is None
