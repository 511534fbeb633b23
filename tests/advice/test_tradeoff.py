"""What can be hidden within an error, and privacy against error for every purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.special import ndtr

import hushmeter as hm
from hushmeter.advice.sentences import explain_reach
from hushmeter.advice.tradeoff import find_front, find_reach
from hushmeter.errors import InputError
from hushmeter.releases.purposes import PURPOSES

KETTLE = hm.Appliance("kettle", 2100.0, run_s=180.0)
FRIDGE = hm.Appliance("fridge", 100.0, run_s=900.0)
OVEN = hm.Appliance("oven", 3000.0, run_s=7200.0)


def reach_of(appliances, limit, purpose=None, *, interval_s=3600.0, **wish):
    request = hm.Request(hide=KETTLE, purpose=purpose, **wish)
    return find_reach(appliances, limit, request, hm.Metered(interval_s))


def test_the_odds_within_an_error_have_a_closed_form():
    """Gaussian noise of 50 W on hours: Φ(E/(1 h·2σ)) for a run of E watt-seconds."""
    found = {r.appliance.name: r for r in reach_of([KETTLE, FRIDGE], 50.0, interval_s=60.0)}
    for name, watts in (("kettle", 105.0), ("fridge", 25.0)):
        option = found[name].option
        assert option.mechanism == "gaussian"
        assert 49.8 <= option.errors.hour_w <= 50
        # Rounding to the grid moves each of the two touched hours by up to 1 W more.
        assert ndtr(watts / 100) <= option.odds <= ndtr((watts + 2.1) / 99.6)


@pytest.mark.parametrize("purpose", list(PURPOSES))
def test_the_answer_turned_around_is_the_answer(purpose):
    """What an error allows, asked as a goal, needs this error."""
    limit = {"W": 60.0, "kWh": 1.0}[PURPOSES[purpose].unit]
    (reach,) = reach_of([KETTLE], limit, purpose)
    wish = hm.Request(hide=KETTLE, odds=reach.odds + 1e-3, purpose=purpose)
    kept = hm.advise(wish, hm.Metered(3600.0), max_error=limit)
    assert kept.feasible
    assert kept.best.form == reach.option.form
    less = replace(wish, odds=reach.odds - 0.019)
    assert not hm.advise(less, hm.Metered(3600.0), max_error=limit).feasible


def test_what_cannot_be_hidden_is_named():
    reach = reach_of([OVEN, KETTLE, FRIDGE], 25.0)
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
    with pytest.raises(InputError, match="error of a day follows from the rounding"):
        reach_of([KETTLE], 1.0, "day", span="when")
    with pytest.raises(InputError, match="max_error must be positive"):
        reach_of([KETTLE], 0.0)


def test_the_front_falls_with_the_odds():
    def search(*, odds, every, purpose, forms):
        wish = hm.Request(
            hide=KETTLE, odds=odds, every=every, purpose=purpose, mechanism="gaussian"
        )
        return hm.advise(wish, hm.Metered(3600.0), forms=forms)

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
