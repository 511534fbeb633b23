"""From a wish to a promise: its odds, its grid, and that no better choice was left out."""

from __future__ import annotations

import itertools
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.home import LearntFrom
from hushmeter.noise import MECHANISMS
from hushmeter.noise.losses import DELTA
from hushmeter.releases.purposes import PURPOSES
from hushmeter.releases.request import enclose_uses, find_hidden, use_energy_wh
from hushmeter.releases.search import (
    GRIDS,
    MOST_EPSILON,
    ODDS_SLACK,
    ROUNDING,
    best_grid,
    best_odds,
    calibrate_series,
    candidates,
    cannot_win,
    keep_odds,
    least_error,
    least_noise,
    measured_odds,
    search_noise,
)

START = "2024-01-15T00:00Z"
KETTLE = hm.Appliance("kettle", 2100.0, run_s=180.0)
LAMP = hm.Appliance("lamp", 12.0, run_s=7200.0)
MACHINE = hm.Appliance("machine", 2300.0, run_s=9000.0, energy_wh=1500.0)
HOURS = hm.Metered(3600.0)


def unit_of(appliance, every, span="run", interval_s=60.0):
    home = hm.Home([appliance], 10.0)
    return hm.resolve_unit(span=span, interval_s=interval_s, home=home, every=every)


@pytest.mark.parametrize("interval_s", [6, 60, 900, 1800, 3600])
def test_the_interval_of_the_meter_does_not_change_hourly_noise(interval_s):
    """σ = Δ2/μ with Δ2 = 2100 W·180 s/1 h and μ = 2Φ⁻¹(0.6), about 0.5 % more for exact noise."""
    promise = hm.Request(hide="kettle 2100 W 180 s", odds=60).resolve(hm.Metered(interval_s))
    assert promise.cells.interval_s == 3600
    assert promise.noise.scale == pytest.approx(208.1, rel=1e-3)
    assert promise.noise.scale == pytest.approx(105 / 0.5067, rel=0.005)


@pytest.mark.parametrize(
    ("zone", "length", "first", "cells"),
    [
        ("Europe/Berlin", 3600, "2024-03-29T23:00", [24, 23, 24]),
        ("Australia/Adelaide", 1800, "2024-04-05T13:30", [48, 50, 48]),
        ("Asia/Kathmandu", 900, "2024-04-05T18:15", [96, 96, 96]),
    ],
)
def test_a_day_of_any_zone_begins_with_a_cell(zone, length, first, cells):
    """Three civil days with a change of the clock in the second, where the zone has one."""
    trace = hm.Trace(np.ones(len(cells) * 96 + 8), 900.0, f"{first}Z")
    promise = hm.Request(hide="kettle", purpose="day").resolve(hm.metered(trace, zone))
    table = next(entry.table for entry in promise.tables if entry.name == "days")
    assert promise.cells.interval_s == length
    assert promise.cells.times.times[0] == np.datetime64(first)
    assert np.bincount(table.labels[table.labels < 3]).tolist() == cells


@settings(max_examples=20)
@given(
    st.sampled_from(
        ["kettle", "fridge, tv", "washing machine 1.2 kWh", "car charger 7.2 kW", "lamp 12 W 2 h"]
    ),
    st.sampled_from([0.51, 0.55, 0.6, 0.75, 0.9, 0.99]),
    st.sampled_from(list(PURPOSES)),
    st.sampled_from([None, "reading", "day", "when"]),
    st.sampled_from([(), ("views",)]),
)
def test_a_promise_keeps_the_odds_and_wastes_little(words, odds, purpose, span, tables):
    assume(not (tables and span == "when"))
    request = hm.Request(hide=words, odds=odds, purpose=purpose, span=span, tables=tables)
    promise = request.resolve(HOURS)
    assert promise.odds <= odds
    # The search ends at ε = 20.
    assert promise.odds >= odds - ODDS_SLACK or promise.epsilon >= 0.99 * MOST_EPSILON
    (change,) = promise.unit.changes
    assert change.watts == request.member.protected_power
    if span == "reading":
        # To hide a reading is to hide a run as long as a cell.
        assert change.energy == pytest.approx(change.watts * promise.cells.interval_s)
    elif promise.unit.span == "run":
        assert change.energy == pytest.approx(3600 * use_energy_wh(request.member))


def test_nobody_is_held_below_a_coin():
    for odds, tables in itertools.product((0.4, 0.5, 0.509), ((), ("views",))):
        with pytest.raises(InputError, match="a coin is right 50 times; allow larger odds"):
            hm.Request(hide="kettle", odds=odds, tables=tables).resolve(HOURS)


@pytest.mark.parametrize("tables", [(), ("views",)])
def test_a_clamp_changes_nothing_but_the_readings(tables):
    free, bounded = (
        hm.Request(hide="kettle", tables=tables, clamp=clamp).resolve(HOURS)
        for clamp in (None, (0.0, 9000.0))
    )
    assert bounded.clamp == (0, 9000)
    assert (bounded.epsilon, bounded.odds) == (free.epsilon, free.odds)
    assert bounded.errors == free.errors
    assert bounded.means(hm.Trace([-5.0, 9e4], 3600.0, START)).tolist() == [0, 9000]


def test_longer_periods_cost_less_for_their_purpose():
    facts = hm.Metered(1800.0)
    found = {
        purpose: hm.Request(hide="kettle", odds=60, purpose=purpose).resolve(facts)
        for purpose in ("hour", "day", "month")
    }
    assert found["hour"].cells.interval_s == 3600
    assert found["day"].cells.interval_s == 86_400
    assert found["day"].errors.day_kwh < found["hour"].errors.day_kwh / 4
    assert found["month"].errors.month_kwh <= found["hour"].errors.month_kwh / 4
    fixed = hm.Request(hide="kettle", odds=60, every="30min").resolve(facts)
    assert fixed.cells.interval_s == 1800


def test_odds_are_a_share_or_out_of_100():
    assert hm.Request(hide="kettle", odds=60) == hm.Request(hide="kettle", odds=0.6)
    assert hm.Request(hide="kettle") == hm.Request(hide="kettle", odds=0.6)
    with pytest.raises(InputError, match="between 1 and 100 out of 100, got 100"):
        hm.Request(hide="kettle", odds=100)


@pytest.mark.parametrize(
    ("interval_s", "purpose", "readings", "lengths"),
    [
        (1.0, "month", None, [1, 60, 300, 900, 1800, 3600, 21_600, 86_400]),
        (6.0, "hour", None, [6, 60, 300, 900, 1800, 3600]),
        (60.0, "profile", None, [60, 300, 900, 1800, 3600]),
        (900.0, "month", None, [900, 1800, 3600, 21_600, 86_400]),
        (3600.0, "register", 48, [3600, 21_600, 86_400]),
        # A day does not fit twice into 47 hours.
        (3600.0, "day", 47, [3600, 21_600]),
        (86_400.0, None, None, [86_400]),
    ],
)
def test_every_length_has_every_mechanism(interval_s, purpose, readings, lengths):
    request = hm.Request(hide="kettle", purpose=purpose)
    found = candidates(request, hm.Metered(interval_s, readings=readings))
    assert [(one.every, one.mechanism) for one in found] == list(
        itertools.product(lengths, MECHANISMS)
    )
    fixed = request.with_changes(every=2 * interval_s, mechanism="laplace")
    assert [one.every for one in candidates(fixed, hm.Metered(interval_s))] == [2 * interval_s]
    views = request.with_changes(tables=["views"])
    assert candidates(views, hm.Metered(interval_s)) == [views]


@pytest.mark.parametrize("interval_s", [7.0, 8.0, 45.0])
def test_every_interval_has_cells_of_about_one_hour(interval_s):
    found = candidates(hm.Request(hide="kettle"), hm.Metered(interval_s))
    longest = max(one.every for one in found)
    assert len({(one.every, one.mechanism) for one in found}) == len(found)
    assert longest == pytest.approx(3600, rel=0.01)
    assert longest % interval_s == 0


@pytest.mark.parametrize("every", [60.0, 900.0, 3600.0, 43_200.0, 86_400.0])
@pytest.mark.parametrize("appliance", [KETTLE, LAMP, MACHINE], ids=lambda one: one.name)
def test_the_grid_is_the_coarsest_that_costs_little(appliance, every):
    """Each touched value moves by up to one step more: (Δ1 + touches·g)/Δ1 of the noise."""
    unit = unit_of(appliance, every)
    grid = best_grid(unit)
    for name in MECHANISMS:
        here, finest = (hm.calibrate(name, 1.0, unit, grid=g) for g in (grid, GRIDS[-1]))
        assert here.scale <= finest.scale * (1 + ROUNDING)
        # Wide noise takes a coarser grid.
        assert here.exact_grid == grid or here.coarsened
    coarser = [float(g) for g in GRIDS if Fraction(g) > grid]
    assert all(unit.touches * g > ROUNDING * unit.l1 for g in coarser)


@pytest.mark.parametrize("every", ["1h", "12h", "1d"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wish_and_its_epsilon_get_the_same_noise(mechanism, every):
    wish = hm.Request(hide=KETTLE, every=every, mechanism=mechanism, purpose="month")
    found = wish.resolve(HOURS)
    home = hm.Home([KETTLE])
    stated = hm.Request(
        epsilon=found.epsilon, home=home, span="run", every=every, mechanism=mechanism
    ).resolve(HOURS)
    assert stated.grid == found.grid
    assert stated.noise.scale == pytest.approx(found.noise.scale, rel=1e-9)
    assert stated.errors.day_kwh == pytest.approx(found.errors.day_kwh, rel=1e-9)


@pytest.mark.parametrize("appliance", [KETTLE, LAMP, MACHINE], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "wish",
    [
        {"odds": 0.55, "purpose": "hour"},
        {"odds": 0.6, "purpose": "day", "metering": hm.Metering(resolution_w=10.0)},
        {"odds": 0.8, "purpose": "month", "span": "day", "use": 1800.0},
        {"odds": 0.7, "purpose": "profile", "span": "when"},
        {"odds": 0.99, "purpose": "hour", "interval_s": 900.0},
        {"odds": 0.7, "purpose": "hour", "span": "reading", "interval_s": 900.0},
        {"odds": 0.6, "interval_s": 1800.0},
    ],
    ids=str,
)
def test_the_promise_is_that_of_the_first_of_all_options(appliance, wish):
    wish = dict(wish)
    facts = hm.Metered(wish.pop("interval_s", 300.0), wish.pop("metering", hm.Metering()))
    request = hm.Request(hide=appliance, home=hm.Home([appliance], 10.0), **wish)
    options = hm.advise(request, facts, forms=("series",))
    assert options.feasible
    found = least_error(candidates(request, facts), facts)
    best = options.best
    assert (found.noise.name, found.cells.interval_s) == (best.mechanism, best.every_s)
    assert (found.epsilon, found.odds, found.errors) == (best.epsilon, best.odds, best.errors)
    assert request.resolve(facts).errors == found.errors


@pytest.mark.parametrize("tables", [("views",), ("days", "months")])
@pytest.mark.parametrize("epsilon", [0.1, 0.37, 1.0, 3.3, 8.25])
def test_tables_that_share_an_epsilon_never_exceed_it(tables, epsilon):
    """Not even in its last digits: the ε of the promise is computed from the noise again."""
    home = hm.Home([KETTLE])
    promise = hm.Request(epsilon=epsilon, home=home, tables=tables).resolve(HOURS)
    assert epsilon * (1 - 1e-9) <= promise.epsilon <= epsilon


@pytest.mark.parametrize(
    ("interval_s", "length"), [(60.0, 3600.0), (1800.0, 3600.0), (7200.0, 7200.0)]
)
def test_tables_are_sums_of_hours_or_of_longer_readings(interval_s, length):
    request = hm.Request(epsilon=1, home=hm.Home([KETTLE]), tables=["days"])
    assert request.resolve(hm.Metered(interval_s)).cells.interval_s == length


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
def test_a_few_trials_find_the_noise(name):
    """Halving the range of ε would need eleven and more."""
    trials = []
    for every, odds in itertools.product((900.0, 3600.0), (0.55, 0.6, 0.75)):
        tried = []

        def odds_of(mechanism, unit, tried=tried):
            tried.append(best_odds(mechanism, unit))
            return tried[-1]

        found = search_noise(name, unit_of(KETTLE, every), DELTA, odds, odds_of)
        assert found is not None
        assert odds - ODDS_SLACK <= found[2] == tried[-1] <= odds
        trials.append(len(tried))
    assert max(trials) <= 6


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_noise_is_narrower_than_the_bound_for_any_noise(name):
    rng = np.random.default_rng(5)
    for appliance, every in itertools.product((KETTLE, LAMP, MACHINE), (60.0, 300.0, 3600.0)):
        unit = unit_of(appliance, every)
        mechanism = calibrate_series(name, float(rng.uniform(0.2, 15.0)), unit, DELTA)
        shown = 2 * best_odds(mechanism, unit) - 1
        assert mechanism.std**2 >= unit.changes[0].l2 ** 2 * (1 - shown) / (4 * shown)


def test_measured_odds_decide_the_noise_and_are_returned():
    request = hm.Request(hide=KETTLE, odds=0.7, every=3600.0, mechanism="laplace")
    # An attacker who is right half as often above a coin allows more ε than the best one.
    promise, odds = measured_odds(request, HOURS, lambda m, u: 0.25 + best_odds(m, u) / 2)
    assert 0.7 - ODDS_SLACK <= odds <= 0.7
    assert promise.odds == pytest.approx(2 * odds - 0.5, abs=1e-9)
    assert promise.epsilon > keep_odds(request, HOURS).epsilon


def test_an_enclosing_use_keeps_the_source_of_each_number():
    """Only numbers that enclose a learnt one are learnt, rounded and in need of consent."""
    learnt = hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt", typed=["run_s"])
    own = hm.Appliance("oven", 2222.0, run_s=3333.0)
    use = enclose_uses([learnt, own])
    assert use.source_of("power") == use.source_of("energy_wh") == "learnt"
    assert use.source_of("run_s") == "typed"
    assert use.protected_run_s == 3333.0
    assert use.protected_power == 2500.0


CORRECTED = hm.Appliance(
    "heater", 900.0, run_s=600.0, source="learnt", typed=["power", "run_s", "use_s_per_day"]
)


@pytest.mark.parametrize(
    ("hidden", "sources"),
    [
        (["oven"], ("catalogue",)),
        (["lamp 12 W 2 h"], ("typed",)),
        (["lamp 12 W 2 h", "heater 900 W 10 min"], ("typed",)),
        # The larger numbers are those of the oven, which nobody typed.
        (["oven", "lamp 12 W 2 h"], ("catalogue",)),
        ([CORRECTED, "oven"], ("catalogue",)),
        ([CORRECTED, "lamp 12 W 2 h"], ("typed",)),
    ],
)
def test_a_promise_names_the_source_of_the_numbers_of_several_appliances(hidden, sources):
    for order in (hidden, hidden[::-1]):
        assert hm.Request(hide=order).resolve(HOURS).sources == sources


def test_several_appliances_are_enclosed_in_one_use():
    found = find_hidden("kettle, tv, oven 2 kW")
    use = enclose_uses(found)
    assert use.protected_power == 3100
    assert use.protected_run_s == 28_800
    assert use_energy_wh(use) == max(map(use_energy_wh, found)) == 2600
    together = hm.Request(hide=found).unit(HOURS)
    for appliance in found:
        alone = hm.Request(hide=appliance).unit(HOURS)
        for size in ("l1", "l2", "largest", "touches"):
            assert getattr(together, size) >= getattr(alone, size)


@pytest.mark.parametrize("tables", [(), ("views",)])
@pytest.mark.parametrize("hidden", ["kettle", "kettle,oven"])
def test_numbers_of_a_learnt_home_need_consent(hidden, tables):
    """Several appliances are joined into one use, which stays "learnt" with its days."""
    appliances = [
        hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt"),
        hm.Appliance("oven", 2600.0, run_s=1800.0),
    ]
    trace = hm.Trace(np.full(48, 300.0), 3600.0, START)
    here = LearntFrom("0f" * 32, START, "2024-01-20T00:00Z")
    elsewhere = LearntFrom("0f" * 32, "2023-01-15T00:00Z", "2023-01-20T00:00Z")
    for learnt_from, consent in ((here, False), (here, True), (elsewhere, False)):
        home = hm.Home(appliances, 20.0, learnt_from=learnt_from)
        request = hm.Request(hide=hidden, home=home, tables=tables, accept_learnt=consent)
        assert request.member.source == "learnt"
        promise = request.resolve(hm.metered(trace))
        if learnt_from is here and not consent:
            with pytest.raises(InputError, match="learnt from these readings"):
                promise.release(trace)
            continue
        days = "these readings" if learnt_from is here else "other days"
        assert promise.release(trace).receipt.sources == (f"learnt from {days}",)


def test_names_are_those_of_the_home_if_there_is_one():
    home = hm.Home([hm.Appliance("tv", 80.0, run_s=3600.0), hm.Appliance("kettle", 2000.0)])
    assert find_hidden("television", home)[0] is home.appliances[0]
    assert find_hidden("kettle", home)[0].protected_power == 2000
    with pytest.raises(InputError, match="no appliance named 'oven'"):
        find_hidden("oven", home)
    with pytest.raises(InputError, match="name what to hide"):
        find_hidden(" , ")


def test_an_unknown_run_means_one_reading():
    home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance=20.0)
    request = hm.Request(hide="kettle", home=home)
    unit = request.resolve(HOURS).unit
    assert (request.chosen_span(), unit.span, unit.changes[0].seconds) == ("reading", "run", 3600)


def test_the_promise_names_energy_power_and_odds():
    hidden, odds = hm.Request(hide="kettle", odds=60).resolve(HOURS).sentences
    assert "any use of up to 235 Wh and 3.1 kW that lasts up to 7 minutes" in hidden
    assert "60 times out of 100" in odds


def test_a_request_takes_no_readings():
    """What is public about a trace holds zeros in the place of its readings."""
    assert not {"trace", "readings"} & {field.name for field in fields(hm.Request)}
    trace = hm.Trace(np.arange(48.0), 3600.0, START)
    assert not hm.metered(trace).times.readings.any()


READINGS = st.lists(st.integers(-500, 20_000), min_size=48, max_size=48)
WISHES = st.sampled_from(["kettle", "tv, fridge", "kettle 2100 W 180 s"])
TABLES = st.sampled_from([(), ("views",), ("hours", "register"), ("peak = daily 16:00-21:00",)])


@settings(max_examples=25)
@given(READINGS, READINGS, WISHES, st.sampled_from(list(PURPOSES)), TABLES)
def test_readings_never_calibrate_a_release(first, second, wish, purpose, tables):
    receipts = []
    for readings in (first, second):
        trace = hm.Trace(readings, 3600.0, START)
        request = hm.Request(hide=wish, odds=60, purpose=purpose, tables=tables)
        done = request.resolve(hm.metered(trace)).release(trace)
        assert done.promise.odds <= 0.6
        receipt = done.receipt.to_dict()
        # The digest is that of the released values.
        receipt["output"].pop("sha256")
        receipts.append(receipt)
    assert receipts[0] == receipts[1]
