"""The menu: monotone, zero for no harm, and equal to a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.behaviour.profiles import synthetic_profiles
from hushmeter.apps.price import Buyer, price_menu, rescale, tell_menu, vary_menu
from hushmeter.apps.price.load import describe_load
from hushmeter.apps.price.menu import Sale, appliance_visibility
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.units import calibrate
from hushmeter.releases.restore import Estimate

HOME = hm.synth.ready_home("evening")
SMALL = HOME.subset(["kettle", "fridge", "television"])
TRACE = hm.synth.trace(SMALL, 14_400 * 2 + 6000, seed=1)
PROFILES = synthetic_profiles(300).values
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def by_epsilon(home, **fields):
    return hm.Request(home=home, epsilon=1, **fields)


def make_promise(home, epsilon, interval_s=6.0, **fields):
    return hm.Request(home=home, epsilon=epsilon, **fields).resolve(hm.Metered(interval_s))


@pytest.fixture(scope="module")
def menu():
    return price_menu(by_epsilon(SMALL), TRACE, steps=EPSILONS)


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
@pytest.mark.parametrize("use", ["hour", "forecast", "clusters", "appliances"])
def test_menus_are_monotone(mechanism, use):
    found = price_menu(
        by_epsilon(SMALL, mechanism=mechanism),
        TRACE,
        steps=EPSILONS,
        buyer=Buyer(use=use),
        profiles=PROFILES,
        refine=0,
    )
    for name in ("compensation", "willingness", "odds", "clusters", "quality"):
        values = [getattr(entry, name) for entry in found.entries]
        assert (np.diff(values) >= 0).all(), name
    assert (np.diff([e.forecast_w for e in found.entries]) <= 0).all()
    assert (np.diff([e.visibility for e in found.entries], axis=0) >= 0).all()


@pytest.mark.parametrize("use", ["hour", "day", "month", "profile", "forecast", "clusters"])
def test_menus_of_a_wish_are_monotone_and_keep_the_odds(use):
    """Every entry is the release that hides the kettle for this purpose and these odds."""
    long = hm.synth.trace(SMALL, 24 * 100, seed=3, interval_s=3600.0)
    odds = (0.55, 0.6, 0.8, 0.95)
    wish = hm.Request(home=SMALL, hide="kettle")
    found = price_menu(wish, long, buyer=Buyer(use=use), steps=odds, refine=0)
    assert found.by == "odds"
    for name in ("odds", "compensation", "willingness", "quality"):
        assert (np.diff([getattr(entry, name) for entry in found.entries]) >= 0).all(), name
    purpose = use if use in ("day", "month", "profile") else "hour"
    for entry, goal in zip(found.entries, odds, strict=True):
        asked = hm.Request(home=SMALL, hide="kettle", odds=goal, purpose=purpose)
        promise = asked.resolve(hm.metered(long))
        assert entry.odds == promise.odds <= goal
        assert entry.epsilon == promise.epsilon
        # The kettle is what is hidden, so its visibility is that of the odds.
        assert entry.visibility[0] == pytest.approx(2 * promise.odds - 1, abs=1e-6)
    told = " ".join(tell_menu(found))
    assert "times out of 100" in told
    assert "whether the kettle is on" in told


def test_the_wish_is_to_hide_what_has_a_harm():
    found = price_menu(SMALL, TRACE, harm={"fridge": 5.0}, steps=(60, 90), refine=0)
    assert found.unit.changes[0].name == "fridge"
    assert [entry.odds for entry in found.entries] == pytest.approx([0.6, 0.9], abs=3e-3)
    with pytest.raises(InputError, match="a wish about appliances"):
        price_menu(hm.Request(home=SMALL, hide="evenings, kettle"), TRACE)


def test_the_quality_of_a_purpose_is_a_skill():
    """1 − σ²/s² with the error of the promise and the spread of the days themselves."""
    hours = np.random.default_rng(1).gamma(2.0, 400.0, 24 * 60)
    trace = hm.Trace(hours, 3600.0)
    wish = hm.Request(hide="kettle 2000 W 180 s")
    menu = price_menu(wish, trace, buyer=Buyer(use="day"), steps=(0.6, 0.9), refine=0)
    spread = (hours.reshape(-1, 24).sum(axis=1) / 1000).std()
    for entry, odds in zip(menu.entries, (0.6, 0.9), strict=True):
        asked = hm.Request(hide="kettle 2000 W 180 s", odds=odds, purpose="day")
        error = asked.resolve(hm.metered(trace)).errors.day_kwh
        assert entry.quality == pytest.approx(1 - (error / spread) ** 2)


def test_clusters_that_any_day_would_be_put_into_are_worth_nothing():
    """Noise that spreads all days over the clusters is not better than the largest cluster."""
    menu = price_menu(
        by_epsilon(SMALL), TRACE, buyer=Buyer(use="clusters"), profiles=PROFILES,
        steps=(0.001, 10.0), refine=0,
    )  # fmt: skip
    assert menu.entries[0].clusters > 0
    assert menu.entries[0].quality == menu.entries[0].willingness == 0


def test_no_harm_costs_nothing():
    found = price_menu(by_epsilon(SMALL), TRACE, harm=0.0, steps=EPSILONS)
    assert all(entry.compensation == 0 for entry in found.entries)
    assert found.best.epsilon == 10.0
    assert found.worthwhile == pytest.approx((0.03, 10.0))
    partly = price_menu(by_epsilon(SMALL), TRACE, harm={"kettle": 7.0}, steps=EPSILONS, refine=0)
    for entry in partly.entries:
        assert entry.compensation == pytest.approx(7 * entry.visibility[0])


def test_a_closed_form_example():
    """One appliance, one reading, W = V√v and C = wv with v = 1 − e^(−ε/2).

    The surplus V√v − wv is largest at v* = (V/2w)², where it is V²/4w, and ends at v = (V/w)².
    """
    home = hm.Home([hm.Appliance("kettle", 2000.0)], 20.0)
    buyer = Buyer(value=10.0, use="appliances", shape=0.5)
    epsilons = np.geomspace(0.05, 8, 60).round(4).tolist()
    found = price_menu(by_epsilon(home), TRACE, harm=12.0, buyer=buyer, steps=epsilons, refine=4)
    for entry in found.entries:
        assert entry.visibility[0] == pytest.approx(1 - math.exp(-entry.epsilon / 2), abs=2e-3)
    best_v, last_v = (10 / 24) ** 2, (10 / 12) ** 2
    assert found.best.epsilon == pytest.approx(-2 * math.log(1 - best_v), rel=0.03)
    assert found.best.surplus == pytest.approx(100 / 48, rel=1e-3)
    assert found.worthwhile[0] == pytest.approx(0.05)
    assert found.worthwhile[1] == pytest.approx(-2 * math.log(1 - last_v), rel=0.01)


def test_errors_of_the_buyer_are_those_of_a_simulation(menu):
    entry = next(e for e in menu.entries if e.epsilon == 1.0)
    noise = calibrate("laplace", 1.0, menu.unit)
    hourly, errors = TRACE.coarsen("1h").readings, []
    for seed in range(20):
        noisy = TRACE.replace_readings(noise.release(TRACE.readings, rng=seed))
        guess = noisy.coarsen("1h").readings
        errors.append(((guess[:-24] - hourly[24:]) ** 2).mean())
    # A buyer whose forecast is worse than the mean forecasts the mean.
    expected = min(math.sqrt(np.mean(errors)), hourly.std())
    assert expected == pytest.approx(entry.forecast_w, rel=0.05)


def test_visibility_is_over_one_run():
    promise = make_promise(SMALL, 1.0)
    run, noise = appliance_visibility(promise, SMALL)[0], promise.noise
    reading = 2 * hm.universal_limit(SMALL, noise)[0] - 1
    assert run > 2 * reading
    assert run == pytest.approx(2 * hm.universal_limit(SMALL, noise, readings=30)[0] - 1, abs=1e-3)


def test_the_answer_moves_as_it_must(menu):
    moved = vary_menu(menu)
    assert moved["as assumed"].best == menu.best
    assert moved["harm × 2"].best.surplus < menu.best.surplus < moved["harm × ½"].best.surplus
    assert moved["buyer's value × 2"].best.surplus > menu.best.surplus
    hopeless = rescale(menu, harm=100.0)
    assert hopeless.worthwhile is None
    assert "at no ε of the menu" in tell_menu(hopeless)[0]


def test_every_assumption_is_stated(menu):
    told = tell_menu(menu)
    assert all(f"Assumed: {line}" in told for line in menu.assumptions)
    text = " ".join(told)
    for part in (
        "kettle 10",
        "60 a year for perfect data",
        "24 h",
        "in one metered reading",
        "ε protects",
    ):
        assert part in text


def test_the_load_is_described():
    hours = np.tile(np.arange(24.0) * 100, 3)
    load = describe_load(hm.Trace(hours, 3600.0))
    assert load.lag_h == 24
    assert load.forecast_w == 0
    assert load.hourly_sd_w == pytest.approx(hours.std())
    short = describe_load(hm.Trace([100.0, 300.0, 100.0, 300.0], 3600.0))
    assert (short.lag_h, short.forecast_w) == (1, 200.0)


@pytest.mark.parametrize(
    ("readings", "interval", "message"),
    [
        ([1.0, 2.0, 3.0], 7200.0, "an hour or less"),
        ([1.0, 2.0], 3600.0, "at least three hours"),
        ([5.0] * 10, 3600.0, "never changes"),
    ],
)
def test_loads_that_say_nothing(readings, interval, message):
    with pytest.raises(DataError, match=message):
        describe_load(hm.Trace(readings, interval))


def test_bad_terms_are_refused():
    with pytest.raises(InputError, match="no appliance named 'ketle'"):
        price_menu(SMALL, TRACE, harm={"ketle": 1.0})
    with pytest.raises(InputError, match="harm must be finite"):
        price_menu(SMALL, TRACE, harm=-1.0)
    with pytest.raises(InputError, match="at least two values"):
        price_menu(SMALL, TRACE, steps=[0.6])
    with pytest.raises(InputError, match="use must be one of"):
        Buyer(use="spying")
    with pytest.raises(InputError, match="shape must be positive"):
        Buyer(shape=0.0)


@pytest.mark.parametrize(("every", "readings"), [("15min", 4.0), ("1h", 1.0), ("3h", None)])
def test_the_noise_of_an_hour_is_that_of_its_readings(every, readings):
    """Values of more than an hour show no hours, so that nobody pays for them as hours."""
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)
    promise = make_promise(home, 1.0, 900.0, every=every)
    load = describe_load(hm.Trace(1000 * np.arange(48.0), 3600.0))
    entry = Sale(home, load, (1.0,), Buyer()).entry(promise)
    if readings is None:
        assert entry.hourly_noise_w is None
        assert entry.quality == entry.willingness == 0
        return
    assert entry.hourly_noise_w == pytest.approx(promise.noise.std / np.sqrt(readings))
    assert entry.quality > 0


def test_a_meter_of_7_seconds_has_a_menu():
    """Without a length every reading is released; 30 minutes become 257 readings, 1799 s."""
    trace = hm.synth.trace(SMALL, 12_343, interval_s=7.0, seed=1)
    assert price_menu(by_epsilon(SMALL), trace, steps=(0.1, 1.0), refine=0).unit.window == 1
    request = by_epsilon(SMALL, every="30min")
    menu = price_menu(request, trace, steps=(0.1, 1.0), refine=0)
    assert menu.unit.window == 257
    assert "on readings of 1799 s;" in menu.assumptions[0]


@pytest.mark.parametrize("use", ["hour", "forecast", "clusters"])
def test_errors_of_released_hours_reach_every_number(use):
    """The stated errors against menus of loads that are one standard error larger."""
    from dataclasses import replace

    load = hm.synth.trace(HOME, 288 * 40, seed=2, interval_s=300.0).coarsen("1h")
    done = hm.release_views(load, epsilon=2, home=HOME.subset(["kettle"]), rng=3)
    estimate = Estimate("home", "calendar", done.trace, done.view("hours").errors, done)
    buyer = Buyer(use=use, shape=0.7)
    menu = price_menu(by_epsilon(SMALL), estimate, steps=(3.0, 8.0), buyer=buyer, refine=0)
    # Worthless data are surely worthless: the synthetic home has no pattern to forecast.
    assert all((entry.surplus_se > 0) == (entry.quality > 0) for entry in menu.entries)
    assert use == "forecast" or menu.entries[-1].quality > 0
    assert menu.entries[0].surplus_se == menu.entries[0].willingness_se
    if use == "clusters":
        assert all(0 < entry.clusters_se < 0.3 for entry in menu.entries)
        return
    assert "±" in " ".join(tell_menu(menu))
    known, small = menu.load, 1e-4
    moved = replace(
        known,
        hourly_sd_w=known.hourly_sd_w + small * known.hourly_sd_se_w,
        forecast_w=known.forecast_w + small * known.forecast_se_w,
        mean_w=known.mean_w + small * known.hourly_sd_se_w,
    )
    for entry in menu.entries:
        promise = hm.Request(home=SMALL, epsilon=entry.epsilon).resolve(hm.Metered(3600.0))
        other = Sale(SMALL, moved, menu.harm, buyer).entry(promise)
        slope = (other.willingness - entry.willingness) / small
        assert abs(slope) == pytest.approx(entry.willingness_se, rel=1e-3)
        slope = (other.forecast_w - entry.forecast_w) / small
        assert slope == pytest.approx(entry.forecast_se_w, rel=1e-3)


@pytest.mark.parametrize("use", ["hour", "forecast"])
def test_nothing_is_paid_for_data_that_are_worse_than_none(use):
    long = hm.synth.trace(HOME, 288 * 30, seed=5, interval_s=300.0).coarsen("1h")
    menu = price_menu(
        by_epsilon(SMALL), long, steps=(0.001, 10.0), buyer=Buyer(use=use, handling=1.0), refine=0
    )
    worst, best = menu.entries[0], menu.entries[-1]
    assert worst.hourly_noise_w > menu.load.hourly_sd_w
    if use == "hour" or worst.forecast_w >= menu.load.without_data_w:
        assert worst.willingness == 0
    assert worst.surplus < best.surplus
    assert worst.forecast_w < worst.hourly_noise_w / 20, "noisy hours get no weight"
    assert "worth nothing" in " ".join(menu.assumptions)
