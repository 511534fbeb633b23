"""From a request to a promise: the least noise, one grid for all ways, and what is not searched."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.noise import MECHANISMS
from hushmeter.noise.losses import DELTA
from hushmeter.privacy.units import resolve_unit
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.purposes import PURPOSES
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.request import use_energy_wh
from hushmeter.releases.search import (
    ODDS_SLACK,
    at_epsilon,
    best_grid,
    best_odds,
    calibrate_series,
    candidates,
    cannot_win,
    keep_odds,
    least_error,
    least_noise,
    price_of,
)
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
        {"odds": 0.55, "purpose": "hour"},
        {"odds": 0.6, "purpose": "day", "metering": Metering(resolution_w=10.0)},
        {"odds": 0.8, "purpose": "month", "span": "day", "use": 1800.0},
        {"odds": 0.7, "purpose": "profile", "span": "when"},
        {"odds": 0.99, "purpose": "hour", "interval_s": 900.0},
        {"odds": 0.7, "purpose": "hour", "span": "reading", "interval_s": 900.0},
        {"odds": 0.6, "interval_s": 1800.0},
    ],
    ids=str,
)
def test_the_search_finds_the_best_of_all_candidates(appliance, wish):
    given = dict(wish)
    facts = hm.Metered(given.pop("interval_s", 300.0), given.pop("metering", Metering()))
    request = hm.Request(hide=appliance, **given)
    purpose = request.for_purpose(facts)
    every = [keep_odds(one, facts) for one in candidates(request, facts)]
    prices = [
        price_of(promise.errors, purpose) for promise in every if promise.odds <= given["odds"]
    ]
    best = least_error(candidates(request, facts), facts)
    assert price_of(best.errors, purpose) == min(prices)
    assert best.odds <= given["odds"]


@pytest.mark.parametrize("interval_s", [6, 60, 900, 1800, 3600])
def test_the_interval_of_the_meter_does_not_change_hourly_noise(interval_s):
    """σ = Δ2/μ with Δ2 = 2100 W·180 s/1 h and μ = 2Φ⁻¹(0.6), about 1 % more for exact noise."""
    promise = hm.Request(hide="kettle 2100 W 180 s", odds=60).resolve(hm.Metered(interval_s))
    assert promise.cells.interval_s == 3600
    assert promise.noise.scale == pytest.approx(210, rel=0.01)
    assert promise.noise.scale == pytest.approx(105 / 0.5067, rel=0.02)


def test_a_promise_keeps_the_odds_of_its_own_unit():
    for words in ("kettle", "fridge, tv", "washing machine 1.2 kWh"):
        request = hm.Request(hide=words, odds=0.6)
        promise = request.resolve(hm.Metered(900))
        assert 0.599 <= best_odds(promise.noise, promise.unit) <= 0.6
        assert promise.unit.largest_watts == request.member.protected_power
        energy = 3600 * use_energy_wh(request.member)
        assert promise.unit.changes[0].energy == pytest.approx(energy)


def test_longer_periods_cost_less_for_their_purpose():
    found = {
        purpose: hm.Request(hide="kettle", purpose=purpose).resolve(hm.Metered(1800))
        for purpose in ("hour", "day", "month")
    }
    assert found["hour"].cells.interval_s == 3600
    assert found["day"].cells.interval_s == 86_400
    day, hour, month = (found[name].errors for name in ("day", "hour", "month"))
    assert day.day_kwh < hour.day_kwh / 4
    assert month.month_kwh <= hour.month_kwh / 4
    fixed = hm.Request(hide="kettle", every="30min").resolve(hm.Metered(1800))
    assert fixed.cells.interval_s == 1800


@pytest.mark.parametrize("tables", [VIEWS, (*VIEWS, "peak = 16:00-21:00"), ("days", "months")])
@pytest.mark.parametrize("odds", [0.52, 0.6, 0.9, 0.99999])
def test_tables_keep_the_odds_and_waste_little(tables, odds):
    promise = hm.Request(hide="kettle", odds=odds, tables=tables).resolve(hm.Metered(900))
    assert promise.odds <= odds
    # ε is at most 20, which is not enough for odds close to one.
    assert promise.odds >= odds - ODDS_SLACK or promise.epsilon == pytest.approx(20, rel=1e-6)


GRID_UNITS = [
    (appliance, every, span)
    for appliance in (KETTLE, LAMP, MACHINE)
    for every in (None, 900.0, 3600.0, 86_400.0)
    for span in ("reading", "run", "day")
]


@pytest.mark.parametrize("name", MECHANISMS)
def test_rounding_to_the_best_grid_adds_little_noise(name):
    """Against a grid ten times as fine; on a coarser grid it would add more than half a percent."""
    for appliance, every, span in GRID_UNITS:
        unit = unit_of(appliance, every, span)
        grid = best_grid(unit)
        if grid == Fraction("0.001"):
            continue
        coarse, fine = (hm.calibrate(name, 2, unit, grid=g).std for g in (grid, grid / 10))
        assert coarse <= fine * 1.006, (appliance.name, every, span)


def test_one_promise_has_one_noise_whatever_the_way_in():
    """An ε that a wish found, stated as such, gives the same grid, noise and errors."""
    facts = hm.Metered(60.0)
    for tables in ((), VIEWS):
        wish = hm.Request(hide=KETTLE, odds=60, every="12h" if not tables else None, tables=tables)
        found = wish.resolve(facts)
        stated = hm.Request(
            epsilon=Fraction(found.noise.exact_epsilon) if not tables else found.epsilon,
            home=hm.Home([KETTLE]), span="run", every=found.cells.interval_s, tables=tables,
            mechanism=found.noise.name,
        ).resolve(facts)  # fmt: skip
        one, two = describe_promise(found), describe_promise(stated)
        assert two["cells"] == one["cells"]
        assert two["epsilon"] == pytest.approx(one["epsilon"], rel=1e-9)
        for name, error in one["errors"].items():
            assert two["errors"][name] == (None if error is None else pytest.approx(error)), name


@pytest.mark.parametrize("tables", [VIEWS, ("days",), ("hours", "days", "peak = 16:00-21:00")])
@pytest.mark.parametrize("epsilon", [0.02, 0.05, 1, 7, 20])
def test_no_epsilon_of_tables_is_above_the_wish(tables, epsilon):
    """Also where wide noise needs a coarser grid, which moves more sums."""
    home = hm.Home([hm.Appliance("car", 11_000.0, run_s=4 * 3600.0)])
    request = hm.Request(epsilon=epsilon, home=home, tables=tables)
    promise = request.resolve(hm.Metered(3600.0))
    assert epsilon * (1 - 1e-6) <= promise.epsilon <= epsilon
    finer = request.with_changes(grid="0.001").resolve(hm.Metered(3600.0))
    assert finer.epsilon <= epsilon
    assert finer.grid <= promise.grid or epsilon < 1


def test_a_stated_grid_is_kept():
    promise = at_epsilon(
        hm.Request(epsilon=1, home=hm.Home([KETTLE]), tables=VIEWS, grid=2), hm.Metered(3600.0), 1
    )
    assert promise.grid == 2


def test_noise_that_is_too_wide_is_refused():
    home = hm.Home([hm.Appliance("x", 1e-3, run_s=60.0)])
    request = hm.Request(epsilon=Fraction(1, 10**14), home=home, tables=VIEWS)
    with pytest.raises(InputError, match="too wide for any grid"):
        request.resolve(hm.Metered(3600.0))


def test_every_purpose_has_a_promise():
    for purpose in PURPOSES:
        promise = hm.Request(hide=KETTLE, purpose=purpose).resolve(hm.Metered(900.0))
        assert promise.errors.of(purpose) > 0


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
