"""What the ledger charges is what a customer's period costs: against independent accounting."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushmeter.apps.fleet import FleetTerms
from hushmeter.apps.ledger import DayChange, Price, period_price
from hushmeter.apps.ledger.charges import LONGEST_S, femto_delta, price_text, touched_readings
from hushmeter.errors import InputError

CLAMP = (0.0, 15_000.0)
DAY = DayChange.within(*CLAMP)


def price(delta=0.0, protects=DAY, **terms) -> Price:
    one = FleetTerms(**{"epsilon": "1", "clamp": CLAMP, **terms})
    return one.price(protects, delta)


def test_a_day_of_readings_costs_every_reading():
    """96 quarter hours at ε = 1 each were charged as ε = 1, which is not the ε of a customer."""
    assert price() == Price(100_000_000)
    # A civil day may begin at half past, so that it overlaps 26 readings of an hour.
    assert price(interval_s=3600) == Price(26_000_000)
    # A range that begins below zero, as of a home with solar panels, is as wide.
    below = (-5000.0, 10_000.0)
    assert price(protects=DayChange.within(*below), clamp=below) == Price(100_000_000)
    assert price(mechanism="staircase") == Price(100_000_000)
    assert price(period="month") == Price(4 * 745 * 1_000_000)


def test_a_small_sensitivity_is_charged_what_the_declared_change_costs():
    """ε = 0.01 for one watt is 150 for 15 kW, in each of 100 readings."""
    assert price(epsilon="0.01", watts=1.0, grid="1") == Price(75 * 100 * 10**6)
    small = DayChange(1000, 1000)
    # 4 kW in steps of 1 W, and a step of rounding in each of 100 readings; ε = 0.01 is two steps.
    assert price(epsilon="0.01", watts=1.0, grid="1", protects=small) == Price(20_500_000)


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_noise_for_a_day_covers_the_25_hours_of_the_longest_day(mechanism):
    """The unit "day" is calibrated for 25 hours, so such a day costs no more than its ε."""
    paid = price(mechanism=mechanism, span="day").micro / 1e6
    assert 0.98 < paid <= 1


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
@given(day=st.integers(0, 365), minutes=st.sampled_from([1, 5, 15, 30, 60]))
def test_no_civil_day_of_a_year_costs_more_than_a_period(zone, day, minutes):
    """Readings on the UTC grid that a civil day touches, times what each of them loses."""
    start = datetime(2024, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(days=day)
    first, last = (t.timestamp() for t in (start, start + timedelta(days=1)))
    step = minutes * 60
    touched = math.ceil(last / step) - math.floor(first / step)
    assert touched * 1_000_000 <= price(mechanism="staircase", interval_s=step).micro
    # The energy of a civil day bounds the change of Laplace noise, wherever the day begins.
    assert (last - first) / step * 1_000_000 <= price(interval_s=step).micro


@pytest.mark.parametrize("interval_s", [60, 420, 900, 1800, 2700, 3600, 7200, 86_400])
@pytest.mark.parametrize("kind", ["day", "month"])
def test_as_many_readings_are_counted_as_a_period_can_touch(kind, interval_s):
    """Over all beginnings of the longest period that a time zone allows."""
    length_s = LONGEST_S[kind]
    starts = range(0, 900 * interval_s, 900)
    most = max(-(-(start + length_s) // interval_s) - start // interval_s for start in starts)
    assert touched_readings(interval_s, length_s, on_whole_intervals=True) == most
    # Readings may also begin at any other time.
    later = math.ceil((interval_s - 1e-6 + length_s) / interval_s)
    assert touched_readings(interval_s, length_s, on_whole_intervals=False) == later


@pytest.mark.parametrize(("readings", "known"), [(96, 69.3), (100, 71.5)])
def test_the_composed_price_agrees_with_dp_accounting(readings, known):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = pld.from_laplace_mechanism(1.0, sensitivity=1.0, value_discretization_interval=1e-3)
    theirs = one.self_compose(readings).get_epsilon_for_delta(1e-6)
    assert theirs == pytest.approx(known, abs=0.1)
    if readings == 100:
        ours = price(delta=1e-6)
        assert ours.femto == femto_delta(1e-6)
        # Theirs rounds losses up; ours is exact on the grid of 1 W.
        assert theirs * 0.995 <= ours.micro / 1e6 <= theirs * 1.005


def test_composition_is_charged_only_where_it_is_less():
    assert price(delta=1e-12, interval_s=86_400) == Price(3_000_000)
    assert price(delta=1e-6, mechanism="gaussian") == price(mechanism="gaussian")


@given(st.sampled_from(["reading", "day"]), st.sampled_from([900, 1800, 3600]))
def test_the_price_of_gaussian_noise_covers_the_exact_loss_of_a_day(span, interval_s):
    """δ(ε) of 25 hours of the continuous Gaussian at the charged ε is at most the charged δ."""
    terms = FleetTerms(
        epsilon="1", clamp=CLAMP, mechanism="gaussian", span=span, interval_s=interval_s
    )
    paid = price(mechanism="gaussian", span=span, interval_s=interval_s)
    epsilon, sigma = paid.micro / 1e6, terms.promise.noise.std
    shift = 15_000 * math.sqrt(25 * 3600 / interval_s) / sigma
    delta = stats.norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * stats.norm.cdf(
        -shift / 2 - epsilon / shift
    )
    assert delta <= paid.femto / 1e15 == 1e-6


def test_a_price_names_its_unit():
    assert price_text(Price(100_000_000, 10**9), DAY) == (
        "ε = 100, δ = 1e-06 for any readings of a customer's day (up to 25 hours) between 0 W and "
        "15 kW"
    )
    use = DayChange(3000, 8000)
    assert price_text(Price(10**6), use) == (
        "ε = 1 for a change of at most 3 kW and 8 kWh within a customer's day (up to 25 hours)"
    )
    assert "and 8 kWh on each day, within a customer's month" in price_text(Price(1), use, "month")


def test_amounts_that_no_ledger_can_add_up_are_refused():
    noise = FleetTerms(epsilon="1", clamp=CLAMP).promise.noise
    with pytest.raises(InputError, match="period must be one of"):
        DAY.on_meter(900, clamp=CLAMP, period="year")
    change = DAY.on_meter(1e-6, clamp=CLAMP)
    with pytest.raises(InputError, match="epsilon must be at most"):
        period_price(noise, change)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("3kW,8kWh", DayChange(3000, 8000)),
        ("3000, 8000", DayChange(3000, 8000)),
        (" 2.5 kW , 500 Wh ", DayChange(2500, 500)),
    ],
)
def test_a_change_is_read_as_it_is_written(text, change):
    assert DayChange.parse(text) == change
    assert DayChange.from_dict(change.describe()) == change
    assert DayChange.from_dict(asdict(change)) == change
    assert DayChange.from_dict(DAY.describe()) == DAY


@pytest.mark.parametrize("text", ["", "3kW", "3kWh,8kW", "3kW,8kWh,1", "-3,8", "1.2.3,4", "0,1"])
def test_another_text_is_no_change(text):
    with pytest.raises(InputError):
        DayChange.parse(text)


def test_more_energy_than_a_day_has_is_refused():
    with pytest.raises(InputError, match=r"at most 25 kWh in a day of 25 hours, got 26 kWh"):
        DayChange(1000, 26_000)


@pytest.mark.parametrize("clamp", [(-1.0, 15_000.0), (0.0, 15_001.0), (20_000.0, 30_000.0)])
def test_a_release_with_a_wider_clamp_cannot_be_priced(clamp):
    with pytest.raises(InputError, match=r"choose a clamp within 0,15000\."):
        price(clamp=clamp)
    with pytest.raises(InputError, match=r"clamp them to 0,15000 or a narrower range\."):
        DAY.on_meter(900, clamp=None)
    assert price(protects=DayChange(1000, 1000), clamp=clamp).micro > 0
    assert price(clamp=(0.0, 7500.0)).micro == 100_000_000
