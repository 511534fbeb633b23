from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import hushmeter as hm
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.privacy import (
    bound_unknown_moment,
    compose,
    compose_change,
    unknown_moment,
)
from hushmeter.privacy.sensitivity import IDEAL, Change
from hushmeter.releases.promise import promise_of
from hushmeter.trace import Metering

KETTLE = hm.Home(
    [hm.Appliance("kettle", 2000.0, run_s=180.0), hm.Appliance("lamp", 60.0)], tolerance=20.0
)


def account_of(mechanism, home, interval_s, *, every=None, metering=IDEAL, readings=24):
    """The account of a promise with a given noise, for means and meters of any kind."""
    facts = hm.Metered(interval_s, metering, readings=readings)
    unit = hm.resolve_unit(interval_s=facts, home=home, every=every)
    return promise_of(mechanism, unit, facts, home).account(home)


@pytest.mark.parametrize(
    ("epsilon", "readings", "basic", "pld"),
    [
        (0.01, 96, 0.96, 0.382),
        (0.01, 2880, 28.8, 2.43),
        (0.01, 14400, 144, 6.01),
        (0.1, 96, 9.6, 4.58),
        (0.1, 2880, 288, 38.2),
        (0.1, 14400, 1440, 125),
        (1, 96, 96, 69.3),
        (1, 2880, 2880, 1264),
        (1, 14400, 14400, 5758),
    ],
)
def test_laplace_composes_as_known(epsilon, readings, basic, pld):
    found = compose(Laplace(epsilon, 1000, on_grid=True), [(1000, readings)])
    assert found.basic == pytest.approx(basic)
    assert found.pld == pytest.approx(pld, rel=3e-3)
    assert found.epsilon == found.pld
    assert 0.5 < found.odds <= 1


def test_the_staircase_composes_worse():
    found = compose(Staircase(1, 1000, on_grid=True), [(1000, 2880)])
    assert found.pld == pytest.approx(1487, abs=1)


def test_agrees_with_dp_accounting_on_continuous_laplace():
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_laplace_mechanism(2.0, sensitivity=1, value_discretization_interval=1e-3)
    ours = compose(Laplace(0.5, 5000, on_grid=True), [(5000, 30)])
    composed = theirs.self_compose(30)
    assert ours.pld == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=1e-4)
    assert ours.odds == pytest.approx((1 + composed.get_delta_for_epsilon(0)) / 2, abs=1e-5)


def test_thirty_readings_reveal_what_one_does_not():
    """ε = 0.5 a reading: 62.2 % is the cap of one reading; 30 constant readings give 89.8 %."""
    mechanism = Laplace(0.5, 2000, on_grid=True)
    noise = np.random.default_rng(0).laplace(0, 1, (400_000, 30))
    ratio = (np.abs(noise - 0.5) - np.abs(noise)).sum(axis=1)
    simulated = (ratio > 0).mean()
    assert compose(mechanism, [(2000, 1)]).odds == pytest.approx(1 - math.exp(-0.25) / 2, abs=1e-4)
    # five standard errors of the likelihood-ratio test on 400 000 runs
    assert compose(mechanism, [(2000, 30)]).odds == pytest.approx(simulated, abs=2.4e-3)


def test_a_kettle_under_the_papers_sensitivity():
    """δ = 20, Δf = 10, ε = 0.1: ε_i = 20, seen in 99.998 %; a 60 W lamp in 63 %."""
    kettle, lamp = hm.account(Laplace(0.1, 10, on_grid=True), KETTLE, 14_400)
    assert kettle.reading.basic == pytest.approx(20)
    assert kettle.reading.odds == pytest.approx(0.99998, abs=1e-5)
    assert lamp.reading.odds == pytest.approx(0.63, abs=1e-3)
    # The run need not begin together with a reading, and a civil day has up to 25 hours.
    assert kettle.run_readings == 31
    assert kettle.run.basic == pytest.approx(600, rel=1e-3)
    assert lamp.run is None
    assert kettle.day.readings == 15_001


@given(
    st.sampled_from([Laplace, Staircase, lambda *given: Gaussian(given[0], 1e-3, given[1])]),
    st.sampled_from([0.05, 0.5, 2.0]),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_hockey_stick_equals_the_sum(make, epsilon, sensitivity, shift):
    mechanism = make(epsilon, sensitivity)
    reach = int(mechanism.quantile(1 - 1e-13)) + shift + 50
    places = np.arange(-reach, reach + 1)
    epsilons = np.linspace(-4, 4, 33) * epsilon
    plain, moved = mechanism.pmf(places), mechanism.pmf(places - shift)
    expected = [np.maximum(plain - np.exp(e) * moved, 0).sum() for e in epsilons]
    found = mechanism.hockey_stick(shift, epsilons)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_gaussian_readings_add_up_by_their_length():
    mechanism = Gaussian(1.0, 1e-6, 1000.0)
    found = compose(mechanism, [(300.0, 25)])
    length = 5 * 301 / mechanism.scale
    assert found.odds == pytest.approx(norm.cdf(length / 2))
    at = norm.cdf(length / 2 - found.pld / length)
    at -= math.exp(found.pld) * norm.cdf(-length / 2 - found.pld / length)
    assert at == pytest.approx(1e-6, rel=1e-6)


def test_a_coarser_release_averages_a_short_run_away():
    mechanism = Laplace(1.0, 2000, on_grid=True)
    metered, *_ = hm.account(mechanism, KETTLE, 14_400)
    half_hours, *_ = account_of(mechanism, KETTLE, 6.0, every="30min")
    assert metered.run.readings == 31
    assert half_hours.run.readings == 2
    assert half_hours.run.basic == pytest.approx(0.1, abs=2e-3)
    assert half_hours.run.epsilon == pytest.approx(0.1, abs=2e-3)
    assert half_hours.day.readings == 51


def test_a_run_over_several_windows_is_the_sum_of_its_parts():
    home = hm.Home([hm.Appliance("pump", 500.0, run_s=65.0)], tolerance=5.0)
    (pump,) = account_of(Laplace(0.2, 500, on_grid=True), home, 1.0, every=30)
    assert pump.run.readings == 4
    assert pump.run.basic == pytest.approx(0.2 * (2 + 85 / 500), rel=3e-3)


def test_hopeless_losses_are_added_plainly():
    found = compose(Laplace(10, 10, on_grid=True), [(2000, 3)])
    assert found.pld == found.basic == 6000
    assert found.odds == 1.0
    narrow = Gaussian(1, 1e-6, 1, on_grid=True)
    narrow.sigma_steps = 2.0
    found = compose(narrow, [(30, 3)])
    # The loss of a value is normal with the mean 15²/2 and the deviation 15.
    assert 1 < found.basic / (3 * (112.5 + 15 * norm.isf(1e-6 / 3))) < 1.06
    assert found.pld == found.basic


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: compose(m, [(5, 1)], 0.0), "delta must be positive"),
        (lambda m: compose(m, [(5, 1)], 1.0), "delta must lie between 0 and 1"),
        (lambda m: compose(m, [(5, 0)]), "times must be a whole number"),
        (lambda m: compose(m, [(0.0, 1)]), "watts must be positive"),
        (lambda m: compose(m, []), "at least one change"),
        (lambda m: hm.account(m, KETTLE, 0), "readings must be a whole number"),
        (lambda m: hm.account(m, KETTLE), "readings must be a whole number"),
        (lambda m: account_of(m, KETTLE, 10.0, every=5), "every must be a whole multiple"),
        (lambda m: hm.account(m, KETTLE, 10, delta=-1), "delta must be positive"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Laplace(1.0, 10.0))


@pytest.mark.parametrize("mechanism", [Gaussian(1, 1e-3, 1000), Gaussian(1, 1e-9, 1000)])
@pytest.mark.parametrize("times", [1, 30])
def test_the_basic_epsilon_of_gaussian_noise_is_at_delta_prime(mechanism, times):
    found = compose(mechanism, [(1000.0, times)], delta=1e-6)
    share = 1e-6 / times
    each, length = found.basic / times, 1001 * mechanism.grid / mechanism.scale
    at = norm.cdf(length / 2 - each / length)
    at -= math.exp(each) * norm.cdf(-length / 2 - each / length)
    assert at == pytest.approx(share, rel=1e-5)
    assert found.epsilon == found.pld <= found.basic * (1 + 1e-9)


def test_no_epsilon_is_promised_below_the_rounding_of_the_transforms():
    found = compose(Laplace(0.1, 1000, on_grid=True), [(1000.0, 1000)], delta=1e-12)
    assert found.epsilon == found.basic == pytest.approx(100)


def test_lengths_of_runs_and_days_are_rounded_up():
    """Rounding down would leave out a reading of the run, or of the day."""
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=100.0)], tolerance=20.0)
    (kettle,) = hm.account(Laplace(1.0, 2000, on_grid=True), home, interval_s=60.0)
    assert kettle.run_readings == kettle.run.readings == 3
    assert kettle.run.basic == pytest.approx(100 / 60, abs=2e-3)
    (odd,) = hm.account(Laplace(1.0, 2000, on_grid=True), home, interval_s=7.0)
    assert odd.day.readings == math.ceil(90_000 / 7) + 1


def test_the_run_row_of_the_staircase_is_that_of_the_worst_offset():
    """A run of one hour touches two hourly values, whatever its size: 2·ε, not ε."""
    home = hm.Home([hm.Appliance("heater", 2000.0, run_s=3600.0)], tolerance=20.0)
    (heater,) = hm.account(Staircase(2, 2000, on_grid=True), home, interval_s=3600.0)
    assert heater.run.basic == pytest.approx(4)


def test_half_and_half_reveals_more_than_an_aligned_run_under_the_staircase():
    """ε = 3 a value and Δ = 105 W: odds .923 aligned, .946 half and half."""
    mechanism = Staircase(3, 105, on_grid=True)
    kettle = Change("kettle", 2100, 180, 3600)
    aligned = compose(mechanism, [(105, 1)]).odds
    halves = compose(mechanism, [(52, 1), (53, 1)]).odds
    assert aligned == pytest.approx(0.9224, abs=1e-3)
    assert halves == pytest.approx(0.9455, abs=1e-3)
    assert compose_change(mechanism, kettle).odds >= halves


def test_gaussian_noise_of_less_than_a_grid_step_is_accounted_on_the_grid():
    """σ = 0.31 steps: the continuous formula states odds of .947, the true odds are .995."""
    mechanism = Gaussian(20, 1e-3, 1, on_grid=True)
    mechanism.sigma_steps = 0.31
    assert norm.cdf(1 / 0.62) == pytest.approx(0.947, abs=1e-3)
    assert compose(mechanism, [(1, 1)]).odds == pytest.approx(0.9946, abs=1e-3)


def test_the_rounding_of_the_transforms_grows_with_the_number_of_values():
    mechanism = Laplace("0.0005", 1000, on_grid=True)
    few = compose(mechanism, [(1000.0, 1000)], delta=1.2e-11)
    many = compose(mechanism, [(1000.0, 10**6)], delta=1.2e-11)
    assert few.pld < few.basic
    assert many.pld == many.basic == pytest.approx(500)
    assert compose(mechanism, [(1000.0, 10**6)], delta=1e-9).pld < 10


def test_the_meter_is_accounted_for():
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
    mechanism = Laplace(1.0, 105)
    rows = [
        account_of(mechanism, home, 3600.0, metering=metering)[0].run
        for metering in (Metering(), Metering(resolution_w=10.0), Metering(register_step_w=10.0))
    ]
    assert rows[0].epsilon < rows[1].epsilon < rows[2].epsilon
    assert [row.readings for row in rows] == [2, 2, 24]


@pytest.mark.parametrize(("moments", "expected"), [(24, 0.5276), (720, 0.505)])
def test_an_attacker_who_does_not_know_when_at_60_to_40(moments, expected):
    """Gaussian noise of 420/0.5067 W on hourly values; a run of one value."""
    unit = hm.resolve_unit("change", "reading", interval_s=3600.0, size=420.0)
    (change,) = unit.changes
    mechanism = hm.Gaussian(1.9, 1e-6, 420.0)
    mu = (change.l1 + 1) / mechanism.sigma_steps
    wanted = 0.5 + 0.25 * np.sqrt(np.expm1(mu**2) / moments)
    found = unknown_moment(mechanism, change, moments)
    assert found.odds == pytest.approx(wanted, rel=1e-9)
    # The value for exactly 60:40.
    assert 0.5 + 0.25 * np.sqrt(np.expm1(0.50669**2) / moments) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    "mechanism", [hm.Laplace(0.8, 20.0), hm.Gaussian(1.5, 1e-5, 20.0), hm.Staircase(0.8, 20.0)]
)
def test_the_second_moment_of_the_likelihood_ratio_is_its_sum(mechanism):
    """The closed forms against the sum over the outcomes themselves."""
    outcomes = np.arange(-6000, 6001)
    unit = hm.resolve_unit("change", "reading", interval_s=3600.0, size=20.0)
    (change,) = unit.changes
    steps = mechanism.steps_of(20.0)
    logs = 2 * mechanism.log_pmf(outcomes - steps) - mechanism.log_pmf(outcomes)
    total = np.exp(logs).sum()
    found = unknown_moment(mechanism, change, 24)
    assert found.odds == pytest.approx(0.5 + 0.25 * np.sqrt((total - 1) / 24), rel=1e-6)


def test_simulated_attackers_who_do_not_know_when_stay_below_the_bound():
    """The likelihood-ratio test against the mixture over 24 moments, Gaussian noise."""
    rng = np.random.default_rng(4)
    mu, moments, runs = 0.50669, 24, 40_000
    noise = rng.standard_normal((2, runs, moments))
    noise[1, np.arange(runs), rng.integers(0, moments, runs)] += mu
    ratio = np.exp(mu * noise - mu**2 / 2).mean(axis=2)
    right = ((ratio[1] > 1).mean() + (ratio[0] <= 1).mean()) / 2
    assert right == pytest.approx(0.522, abs=0.006)
    assert right < 0.5276 + 4.5 * 0.5 / np.sqrt(2 * runs)


def test_accounts_count_the_moments_of_a_day():
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], 20.0)
    (hourly,) = hm.account(hm.Gaussian(1.9, 1e-6, 105.0, touches=2), home, interval_s=3600.0)
    assert hourly.unknown is not None
    assert hourly.run is not None
    assert hourly.unknown.moments == 24
    assert 0.5 < hourly.unknown.odds < hourly.run.odds
    # Beside noise that hides nothing, not knowing when does not help.
    (open_,) = hm.account(hm.Gaussian(1.9, 1e-6, 1.0), home, interval_s=3600.0)
    assert open_.unknown.odds == open_.run.odds
    unit = hm.resolve_unit("appliance", "when", interval_s=3600.0, home=home)
    noise = hm.Gaussian(1.9, 1e-6, 105.0, touches=2)
    (when,) = promise_of(noise, unit, unit.metered, home).account(home)
    assert (when.reading, when.run, when.day) == (None, None, None)
    assert when.when.odds > hourly.run.odds


def habit(moments):
    """Half of all runs in the first moment, the others equally likely."""
    return np.append(0.5, np.full(moments - 1, 0.5 / (moments - 1)))


@pytest.mark.parametrize("prior", ["even", "habit"])
def test_the_bound_without_the_time_holds_for_its_stated_prior(prior):
    """The formula for a prior π, and the best attacker of 400 000 simulated days."""
    moments, shift = 24, 0.5067
    known = norm.cdf(shift / 2)
    found = bound_unknown_moment(moments, known, math.expm1(shift**2), 0.0)
    weights = np.full(moments, 1 / moments) if prior == "even" else habit(moments)
    gram = np.where(np.eye(moments) > 0, math.exp(shift**2), 1.0)
    formula = 0.5 + 0.25 * math.sqrt(weights @ gram @ weights - 1)
    stated = found.odds if prior == "even" else found.habit_odds
    assert stated == pytest.approx(formula, rel=1e-12)
    rng, right = np.random.default_rng(5), 0
    for _ in range(20):
        ran = rng.random(20_000) < 0.5
        noise = rng.normal(size=(20_000, moments))
        when = rng.choice(moments, 20_000, p=weights)
        noise[np.arange(20_000), when] += shift * ran
        ratio = np.exp(shift * noise - shift**2 / 2) @ weights
        right += int(((ratio > 1) == ran).sum())
    # Five standard deviations of the share of right guesses.
    share = right / 400_000
    assert share <= stated + 5 * 0.5 / math.sqrt(400_000)
    if prior == "habit":
        # The bound for equally likely hours does not hold for this household.
        assert share > found.odds + 5 * 0.5 / math.sqrt(400_000)
    assert found.odds < found.habit_odds < known


def test_one_reading_counts_how_the_meter_rounds():
    """A lamp of 4 W on a meter that rounds to 100 W moves a reading by up to 104 W."""
    lamp = hm.Home([hm.Appliance("lamp", 4.0, run_s=3600.0)], tolerance=1.0)
    noise = hm.Laplace(1.0, 20.0)
    ideal, rounded, counted = (
        account_of(noise, lamp, 3600.0, metering=metering, readings=3)[0].reading
        for metering in (Metering(), Metering(resolution_w=100.0), Metering(register_step_w=100.0))
    )
    assert rounded == compose(noise, [(104.0, 1)])
    assert rounded.odds > 0.95 > 0.62 > ideal.odds
    assert counted == compose(noise, [(204.0, 1), (100.0, 2)])


def test_a_register_moves_the_same_values_in_all_moments():
    """Values after a run move by its phase, whenever it was: not knowing when gains nothing."""
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    facts = hm.Metered(3600.0, hm.Metering(register_step_w=2.0), readings=720)
    counted = hm.resolve_unit("appliance", "run", interval_s=facts, home=home)
    plain = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=home)
    for unit, gains in ((plain, True), (counted, False)):
        noise = hm.calibrate("gaussian", 1.9, unit)
        (change,) = unit.changes
        found, known = unknown_moment(noise, change), compose_change(noise, change)
        assert found.moments == 24
        assert (found.odds < known.odds - 0.05) is gains


def test_readings_that_hold_parts_of_the_next_moment_leave_fewer_moments():
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)])
    for metering, moments in ((hm.Metering(), 24), (hm.Metering(copies=2), 8)):
        unit = hm.resolve_unit(
            "appliance", "run", interval_s=hm.Metered(1800.0, metering), home=home, every="1h"
        )
        assert unit.changes[0].moments == moments
