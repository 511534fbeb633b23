"""What can be hidden within an error, and privacy against error for every purpose."""

from __future__ import annotations

import pytest
from scipy.special import ndtr

import hushmeter as hm
from hushmeter.advice.planner import advise
from hushmeter.advice.sentences import explain_reach
from hushmeter.advice.tradeoff import find_front, find_reach
from hushmeter.errors import InputError
from hushmeter.releases.purposes import PURPOSES

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
