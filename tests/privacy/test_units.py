from __future__ import annotations

import math
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.privacy import compose_change
from hushmeter.privacy.units import (
    calibrate,
    resolve_unit,
    with_longest_runs,
)
from hushmeter.trace import Metering

HOME = hm.Home(
    [
        hm.Appliance("kettle", 2000.0, run_s=180.0),
        hm.Appliance("washer", levels=(200.0, 1900.0), run_s=3600.0),
        hm.Appliance("lamp", 60.0),
    ],
    tolerance=20.0,
)


def test_a_kettle_as_metered_and_as_half_hours():
    """A 2 kW kettle running 3 minutes, ε = 1: 60 kW of noise at 6 s, 200 W as 30-minute means."""
    metered = resolve_unit("appliance", "run", interval_s=6.0, home=HOME, appliance="kettle")
    coarse = resolve_unit(
        "appliance", "run", interval_s=6.0, home=HOME, appliance="kettle", every="30min"
    )
    assert metered.l1 == 60_000
    assert metered.l2 == pytest.approx(2000 * math.sqrt(30))
    assert coarse.l1 == coarse.l2 == pytest.approx(200)
    assert calibrate("laplace", 1, metered).scale == pytest.approx(60_000, rel=1e-3)
    assert calibrate("laplace", 1, coarse).scale == pytest.approx(200, rel=0.02)


def test_units_of_the_paper_and_of_the_default():
    paper = resolve_unit("fluctuation", interval_s=6.0, home=HOME)
    assert paper.l1 == paper.l2 == 10.0
    assert "not switches" in paper.sentence
    everyone = resolve_unit(interval_s=6.0, home=HOME)
    assert everyone.l1 == 2000.0
    assert everyone.sentence == (
        "whether any one appliance is on (up to 2000 W), in one metered reading of 6 s"
    )
    one = resolve_unit(interval_s=6.0, home=HOME, appliance="washer", span="run")
    assert one.changes[0].watts == 1900.0
    assert one.sentence == "whether the washer is on (1900 W), over one run of up to 1 hour"
    clamped = resolve_unit("range", interval_s=6.0, size=(0, 10_000))
    assert clamped.l1 == 10_000
    change = resolve_unit("change", "day", interval_s=900.0, size=50.0)
    # The day on which summer time ends has 25 hours.
    assert change.changes[0].seconds == 90_000
    assert change.l1 == 5000.0
    assert change.touches == 101
    assert change.sentence == (
        "any change of up to 50 W, over one day, in which it may last all the time"
    )


def test_worst_changes_differ_between_the_norms():
    """Over a run, the washer has the larger Δ1, and per reading the kettle the larger change."""
    home = HOME.subset(["kettle", "washer"])
    unit = resolve_unit(span="run", interval_s=6.0, home=home)
    assert unit.l1 == 1900.0 * 600
    assert unit.largest == 2000.0
    # A run of an hour need not begin with a reading.
    assert unit.touches == 601
    assert unit.sentence == (
        "whether any one appliance is on (up to 2000 W), over one of its own runs (up to 1 hour)"
    )


def test_a_half_hour_run_on_a_half_hour_meter_costs_the_staircase_two_readings():
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=1800.0)], tolerance=20.0)
    unit = resolve_unit(span="run", interval_s=1800.0, home=home)
    assert unit.touches == 2
    assert calibrate("staircase", 1, unit).epsilon == 0.5


@given(
    st.sampled_from(["laplace", "staircase", "gaussian"]),
    st.sampled_from([0.25, 1.0, 4.0]),
    st.sampled_from(["reading", "run", "day"]),
    st.sampled_from([None, "1min", "30min"]),
)
def test_calibrated_noise_protects_its_unit_at_its_epsilon(name, epsilon, span, every):
    home = HOME.subset(["kettle", "washer"])
    unit = resolve_unit(span=span, interval_s=6.0, home=home, every=every)
    mechanism = calibrate(name, epsilon, unit, delta=1e-5)
    assert mechanism.epsilon_of(unit) <= epsilon * (1 + 1e-9)
    assert mechanism.epsilon_of(unit) >= 0.8 * epsilon


def test_an_uncalibrated_mechanism_is_worth_what_it_is_worth():
    unit = resolve_unit(interval_s=6.0, home=HOME, appliance="kettle")
    assert hm.Laplace(0.1, 10.0).epsilon_of(unit) == pytest.approx(0.1 * 2001 / 11)
    assert hm.Staircase(0.1, 10.0).epsilon_of(unit) == pytest.approx(0.1 * 182)


def test_one_rule_turns_the_size_of_a_change_into_an_epsilon():
    size = SimpleNamespace(l1=100.0, l2=60.0, largest=50.0, touches=3)
    assert hm.Staircase(0.5, 50.0).epsilon_of(size) == pytest.approx(1.5)
    laplace = hm.Laplace(1.0, 100.0, touches=3)
    assert laplace.epsilon_of(size) == pytest.approx(1.0)
    size.l1 = 200.0
    assert laplace.epsilon_of(size) > 1.9
    assert np.isfinite(hm.Gaussian(1.0, 1e-6, 60.0, touches=3).epsilon_of(size))


def test_long_runs_favour_the_gaussian():
    unit = resolve_unit(span="run", interval_s=6.0, home=HOME, appliance="washer")
    gaussian, laplace = (calibrate(name, 1, unit) for name in ("gaussian", "laplace"))
    assert gaussian.mean_abs < laplace.mean_abs / 3


def test_run_lengths_are_learnt_from_a_trace():
    states = np.zeros((40, 3), bool)
    states[5:12, 2] = True
    states[20:25, 2] = True
    trace = hm.Trace(np.zeros(40), 6.0, states=states)
    known = with_longest_runs(HOME, trace)
    assert [one.run_s for one in known.appliances] == [180.0, 3600.0, 42.0]
    unit = resolve_unit(span="run", interval_s=6.0, home=known, appliance="lamp")
    assert unit.changes[0].seconds == 42
    gap = hm.Trace(np.zeros(40), 6.0, states=states, steps=np.arange(40) + (np.arange(40) > 8))
    # The gap cuts the run of seven into four and three.
    assert with_longest_runs(HOME, gap).appliances[2].run_s == 30.0
    never = hm.Trace(np.zeros(40), 6.0, states=np.zeros((40, 3), bool))
    assert with_longest_runs(HOME, never).appliances[2].run_s == 6.0


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"protect": "everything"}, "protect must be one of"),
        ({"span": "week"}, "span must be one of"),
        ({}, "protect 'appliance' needs a home"),
        ({"protect": "fluctuation"}, "needs a home, for its tolerance"),
        ({"protect": "range"}, "needs a clamp"),
        ({"protect": "change"}, "watts must be a number"),
        ({"protect": "change", "size": 0}, "watts must be positive"),
        ({"protect": "change", "size": 5, "span": "run"}, "a home that states how long"),
        ({"home": HOME, "span": "run"}, "how long the lamp runs"),
        ({"home": HOME, "appliance": "toaster"}, "no appliance named 'toaster'"),
        (
            {"home": HOME, "protect": "fluctuation", "appliance": "kettle"},
            "an appliance is named, but protect is 'fluctuation'",
        ),
        ({"home": HOME, "every": "7s"}, "whole multiple of the 6 s interval, got 7 s"),
        ({"home": HOME, "every": "soon"}, "every must be a time such as"),
        ({"home": HOME, "interval_s": 0}, "interval_s must be positive"),
    ],
)
def test_bad_units_are_refused_in_one_sentence(keywords, message):
    with pytest.raises(ValueError, match=message):
        resolve_unit(**{"interval_s": 6.0, **keywords})


def test_unknown_mechanisms_are_refused():
    unit = resolve_unit("change", interval_s=6.0, size=10)
    with pytest.raises(ValueError, match="mechanism must be one of"):
        calibrate("uniform", 1, unit)


@pytest.mark.parametrize("clamp", [(10, 0), (0, math.nan), (0, 1, 2), (0, math.inf), 5])
def test_a_clamp_that_is_no_range_is_refused(clamp):
    with pytest.raises(ValueError, match="clamp must be"):
        resolve_unit("range", interval_s=6.0, size=clamp)


@pytest.mark.parametrize("interval_s", [6.0, 60.0, 900.0, 1800.0, 3600.0])
def test_one_day_needs_the_same_noise_whatever_the_interval_of_its_file(interval_s):
    """A kettle of 2100 W and 180 s in hourly values: Δ 105 W, noise of 210 W at 60 to 40."""
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    unit = resolve_unit("appliance", "run", interval_s=interval_s, home=home, every="1h")
    assert unit.l1 == unit.l2 == pytest.approx(105)
    assert unit.touches == 2
    # A Gaussian with μ = 0.5067 = 2Φ⁻¹(0.6) has σ = Δ/μ = 207 W; rounding adds √2 steps to Δ.
    mechanism = calibrate("gaussian", "1.6", unit, delta=1e-6)
    same = resolve_unit("appliance", "run", interval_s=3600.0, home=home)
    assert mechanism.scale == calibrate("gaussian", "1.6", same, delta=1e-6).scale


@pytest.mark.parametrize("interval_s", [6.0, 60.0, 900.0, 1800.0, 3600.0])
def test_advice_at_60_to_40_is_210_watts_for_every_file(interval_s):
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    wish = hm.Request(hide="kettle", odds=0.6, home=home, mechanism="gaussian")
    advice = hm.advise(wish, hm.Metered(interval_s), forms=("series",))
    hourly = next(option for option in advice.options if option.every_s == 3600)
    assert hourly.scale == pytest.approx(210, abs=3)


def test_a_run_shorter_than_two_readings_of_the_meter_touches_three():
    """A run of 100 s on a 60 s meter; rounding its length down would halve the noise."""
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=100.0)], tolerance=20.0)
    unit = resolve_unit("appliance", "run", interval_s=60.0, home=home)
    assert unit.touches == 3
    assert unit.l1 == pytest.approx(2000 * 100 / 60)
    assert unit.l2 == pytest.approx(2000 * math.hypot(1, 40 / 60))
    assert calibrate("staircase", 3, unit).epsilon == pytest.approx(1)
    assert calibrate("laplace", 1, unit).scale == pytest.approx(3336, abs=1)


def test_a_day_that_is_no_whole_number_of_readings_is_rounded_up():
    unit = resolve_unit("change", "day", interval_s=7.0, size=50.0)
    assert unit.touches == math.ceil(90_000 / 7) + 1 == 12_859


def test_upper_values_and_a_stated_energy_calibrate_the_noise():
    washer = hm.Appliance(
        "washer", 400.0, run_s=5400.0, high=2650.0, run_high_s=14_040.0, energy_wh=1500.0
    )
    home = hm.Home([washer], tolerance=20.0)
    (change,) = resolve_unit("appliance", "run", interval_s=3600.0, home=home).changes
    assert (change.watts, change.seconds) == (2650.0, 14_040.0)
    assert change.l1 == pytest.approx(1500.0)
    assert change.largest == pytest.approx(1500.0)
    assert change.touches == 5


def test_the_meter_is_counted():
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)

    def counted(metering, readings=None):
        facts = hm.Metered(3600.0, metering, readings=readings)
        return resolve_unit(span="run", interval_s=facts, home=home)

    assert counted(Metering(resolution_w=100.0)).l1 == pytest.approx(305)
    with pytest.raises(InputError, match="give their number"):
        counted(Metering(register_step_w=1.0))
    day = counted(Metering(register_step_w=1.0), 24)
    assert day.l1 == pytest.approx(105 + 26)
    assert day.touches == 24
    assert calibrate("laplace", 1, day).steps >= 131 + 24


@pytest.mark.parametrize("name", ["laplace", "staircase", "gaussian"])
def test_a_register_of_one_kilowatt_hour_is_refused_with_a_remedy(name):
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    metering = Metering(register_step_w=1000.0)
    unit = resolve_unit(span="run", interval_s=hm.Metered(3600.0, metering, readings=24), home=home)
    with pytest.raises(
        InputError, match=r"too coarse.*release longer means or a shorter period"
    ) as refused:
        calibrate(name, 1, unit)
    assert ("use Gaussian noise" in str(refused.value)) == (name != "gaussian")


def test_a_fine_register_over_a_month_suits_gaussian_noise_only():
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    unit = resolve_unit(
        span="run",
        interval_s=hm.Metered(900.0, Metering(register_step_w=4.0), readings=2880),
        home=home,
        every="1h",
    )
    assert unit.l2 == pytest.approx(105 + math.sqrt(720 + 6))
    assert calibrate("gaussian", 1, unit).steps >= 131
    with pytest.raises(InputError, match="use Gaussian noise"):
        calibrate("laplace", 1, unit)


@pytest.mark.parametrize(
    ("watts", "minutes", "ratio"),
    [(2100, 24, 12.3), (2400, 42, 7.0), (2000, 72, 4.8), (7200, 180, 2.8)],
    ids=["kettle", "oven", "washing machine", "car charger"],
)
def test_a_cap_on_the_use_of_a_day_needs_less_noise(watts, minutes, ratio):
    """Hourly means against an appliance that may be on for all of the 24 hours of a day."""
    home = hm.Home([hm.Appliance("it", float(watts))], tolerance=20.0)
    capped = resolve_unit(
        "appliance", "day", interval_s=60.0, home=home, every="1h", use=f"{minutes}min"
    )
    hours = minutes / 60
    assert capped.l1 == pytest.approx(watts * hours)
    assert capped.l2 == pytest.approx(watts * math.hypot(math.sqrt(hours // 1), hours % 1))
    assert watts * math.sqrt(24) / capped.l2 == pytest.approx(ratio, abs=0.06)
    assert capped.touches == 26
    free = resolve_unit("appliance", "day", interval_s=60.0, home=home, every="1h")
    assert free.l2 == pytest.approx(watts * 5)  # a civil day has up to 25 hours
    assert "on all the time" in free.sentence
    assert "for at most" in capped.sentence


def test_the_use_of_a_kettle_in_quarter_hours_and_in_hours():
    """2100 W for 1440 s a day: Δ1 3360 and 840 W, Δ2 2449 and 840 W."""
    kettle = hm.Appliance("kettle", 2100.0, use_s_per_day=1440.0)
    home = hm.Home([kettle], tolerance=20.0)
    for every, l1, l2 in (("15min", 3360, 2449), ("1h", 840, 840)):
        unit = resolve_unit("appliance", "day", interval_s=60.0, home=home, every=every)
        assert unit.l1 == pytest.approx(l1)
        assert unit.l2 == pytest.approx(l2, abs=0.5)
    given = resolve_unit("appliance", "day", interval_s=60.0, home=home, every="1h", use=720)
    assert given.l1 == pytest.approx(420)


def test_gaussian_noise_for_the_day_of_a_kettle_at_60_to_40():
    """1332 W of error on an hourly mean with at most 24 minutes a day."""
    home = hm.Home([hm.Appliance("kettle", 2100.0)], tolerance=20.0)
    unit = resolve_unit("appliance", "day", interval_s=60.0, home=home, every="1h", use="24min")
    mechanism = calibrate("gaussian", "1.9", unit)
    (change,) = unit.changes
    odds = compose_change(mechanism, change).odds
    mu = 2 * NormalDist().inv_cdf(odds)
    assert mechanism.mean_abs * mu / 0.50669 == pytest.approx(1332, rel=0.01)


def test_when_but_not_whether():
    kettle = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    unit = resolve_unit("appliance", "when", interval_s=60.0, home=kettle, every="1h")
    assert unit.l1 == pytest.approx(210)
    assert unit.l2 == pytest.approx(105 * math.sqrt(2))
    assert unit.largest == pytest.approx(105)
    assert unit.touches == 4
    assert unit.sentence == (
        "when the kettle is on (2100 W): the time of one run of up to 3 minutes within its day, "
        "not whether it happened"
    )
    heater = hm.Home([hm.Appliance("heater", 1000.0, run_s=9000.0)], tolerance=20.0)
    long = resolve_unit("appliance", "when", interval_s=60.0, home=heater, every="1h")
    assert long.l2 == pytest.approx(1000 * math.sqrt(2 * (2 + 0.25)))
    used = resolve_unit("appliance", "when", interval_s=60.0, home=heater, every="1h", use="2h")
    assert used.l1 == pytest.approx(4000)


def test_a_meter_that_rounds_moves_the_sum_of_the_day_of_a_moved_run():
    """The run overlaps four readings in both places; the sum is scaled to a fifth of a value."""
    kettle = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    meter = hm.Metered(60.0, Metering(resolution_w=10.0))
    unit = resolve_unit("appliance", "when", interval_s=meter, home=kettle, every="1h")
    value = 105 + 4 * 10 / 60
    assert unit.day_scale == pytest.approx(0.2 * value / (2 * 4 * 10 / 60))
    assert unit.l1 == pytest.approx((1 + 1 + 0.2) * value)
    assert unit.l2 == pytest.approx(value * math.sqrt(1 + 1 + 0.2**2))
    assert (unit.largest, unit.touches) == (pytest.approx(value), 2 + 2 + 1)


def test_a_register_is_the_same_after_a_moved_run():
    """Only the values of one day can move, however long the period is."""
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    unit = resolve_unit(
        "appliance",
        "when",
        interval_s=hm.Metered(3600.0, Metering(register_step_w=1.0), readings=8760),
        home=home,
    )
    assert unit.touches == 26


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"span": "run", "use": 60}, "use is a time a day: it needs span 'day' or 'when'"),
        ({"span": "day", "use": 0}, "use must be positive"),
        ({"span": "day", "use": "2d"}, "use must be at most one day, got 2 days"),
        ({"span": "day", "use": "much"}, "use must be a time such as"),
        ({"span": "when", "appliance": "lamp"}, "need to know how long the lamp runs"),
        ({"span": "when", "protect": "change", "size": 5, "home": None}, "span 'when' needs a"),
    ],
)
def test_bad_uses_are_refused_in_one_sentence(keywords, message):
    with pytest.raises(InputError, match=message):
        resolve_unit(**{"interval_s": 6.0, "home": HOME, **keywords})


@pytest.mark.parametrize(
    ("metering", "message"),
    [
        (Metering(register_step_w=2.0, registers=2), "one of the 2 registers"),
        (Metering(1.0, stretch=1.1), "readings have different lengths"),
        (Metering(1.0, copies=2), "readings have different lengths"),
        (Metering(1.0, reach=1), "readings have different lengths"),
        (Metering(), "state the step of the readings"),
    ],
)
def test_when_is_refused_where_the_sums_of_days_show_the_time(metering, message):
    """A run that moves from one tariff to the other moves the rounding of both registers."""
    meter = hm.Metered(1800.0, metering, readings=48)
    with pytest.raises(InputError, match=message):
        resolve_unit("appliance", "when", interval_s=meter, home=HOME, appliance="kettle")
