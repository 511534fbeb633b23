"""The choices that are left out of a search would not have won it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice.least_noise import best_odds, calibrate_series, cannot_win, least_noise
from hushmeter.advice.planner import advise
from hushmeter.noise import MECHANISMS
from hushmeter.noise.losses import DELTA
from hushmeter.privacy.units import resolve_unit
from hushmeter.trace import Metering

KETTLE = hm.Appliance("kettle", 2100.0, run_s=180.0)
LAMP = hm.Appliance("lamp", 12.0, run_s=7200.0)
MACHINE = hm.Appliance("machine", 2300.0, run_s=9000.0, energy_wh=1500.0)


def unit_of(appliance, every, span="run", interval_s=60.0):
    home = hm.Home([appliance], 10.0)
    return resolve_unit(span=span, interval_s=interval_s, home=home, every=every)


@pytest.mark.parametrize("appliance", [KETTLE, LAMP, MACHINE], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "wish",
    [
        {"max_odds": 0.55, "purpose": "hour"},
        {"max_odds": 0.6, "purpose": "day", "metering": Metering(resolution_w=10.0)},
        {"max_odds": 0.8, "purpose": "month", "span": "day", "use": 1800.0},
        {"max_odds": 0.7, "purpose": "profile", "span": "when"},
        {"max_odds": 0.99, "purpose": "hour", "interval_s": 900.0},
        {"max_odds": 0.7, "purpose": "hour", "span": "reading", "interval_s": 900.0},
        {"max_odds": 0.6, "max_hourly_error": 1.0, "interval_s": 1800.0},
    ],
    ids=str,
)
def test_the_best_option_is_the_first_of_all_options(appliance, wish):
    home = hm.Home([appliance], 10.0)
    given = {"interval_s": 300.0, "forms": ("series",), **wish}
    every_option = advise(home, appliance.name, **given)
    best = advise(home, appliance.name, only_best=True, **given)
    assert best.best == every_option.best
    assert best.feasible == every_option.feasible
    if best.feasible:
        assert len(best.options) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_only_noise_that_is_too_narrow_is_left_out(name):
    decided = 0
    for appliance, every, odds in itertools.product(
        (KETTLE, MACHINE), (60.0, 900.0, 3600.0), (0.55, 0.75, 0.95)
    ):
        unit = unit_of(appliance, every)
        found = least_noise(name, unit, DELTA, odds)
        assert found is not None
        least = found[0].std
        assert cannot_win(name, unit, DELTA, odds, 0.2 * least)
        decided += cannot_win(name, unit, DELTA, odds, 0.9 * least)
        for share in (1.0, 1.01, 1.1, 2.0):
            assert not cannot_win(name, unit, DELTA, odds, share * least)
    # The look is short, so it need not decide every case, but it must save most searches.
    assert decided >= 15


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_noise_is_narrower_than_the_bound_for_any_noise(name):
    rng = np.random.default_rng(5)
    for appliance, every in itertools.product((KETTLE, LAMP, MACHINE), (60.0, 300.0, 3600.0)):
        unit = unit_of(appliance, every)
        mechanism = calibrate_series(name, float(rng.uniform(0.2, 15.0)), unit, DELTA)
        shown = 2 * best_odds(mechanism, unit) - 1
        assert mechanism.std**2 >= unit.changes[0].l2 ** 2 * (1 - shown) / (4 * shown)
