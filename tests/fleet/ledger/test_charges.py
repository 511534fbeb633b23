"""What the ledger charges is what a customer's period costs: against independent accounting."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushmeter.errors import InputError
from hushmeter.fleet.job import FleetJob, FleetTerms, build_mechanism
from hushmeter.fleet.ledger import Price, period_price
from hushmeter.fleet.ledger.charges import femto_delta, price_text

CLAMP = (0.0, 15_000.0)


def price(delta=0.0, **terms) -> Price:
    one = FleetTerms(**{"epsilon": "1", "clamp": CLAMP, **terms})
    return FleetJob(one, "in", "out", "sqlite:///l.db", "r", ledger_delta=delta).price


def test_a_day_of_readings_costs_every_reading():
    """96 quarter hours at ε = 1 each were charged as ε = 1, which is not the ε of a customer."""
    assert price() == Price(100_000_000)
    assert price(interval_s=3600) == Price(25_000_000)
    assert price(mechanism="staircase") == Price(100_000_000)
    assert price(period="month") == Price(4 * 745 * 1_000_000)


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
@pytest.mark.parametrize("sensitivity", [None, "500"])
def test_noise_for_a_day_covers_the_25_hours_of_the_longest_day(mechanism, sensitivity):
    """The unit "day" is calibrated for 25 hours, so such a day costs no more than its ε."""
    paid = price(mechanism=mechanism, span="day", sensitivity=sensitivity).micro / 1e6
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
    assert price(delta=1e-12, interval_s=86_400) == Price(2_000_000)
    assert price(delta=1e-6, mechanism="gaussian") == price(mechanism="gaussian")


@given(st.sampled_from(["reading", "day"]), st.sampled_from([900, 1800, 3600]))
def test_the_price_of_gaussian_noise_covers_the_exact_loss_of_a_day(span, interval_s):
    """δ(ε) of 25 hours of the continuous Gaussian at the charged ε is at most the charged δ."""
    terms = FleetTerms("1", CLAMP, mechanism="gaussian", span=span, interval_s=interval_s)
    paid = price(mechanism="gaussian", span=span, interval_s=interval_s)
    epsilon, sigma = paid.micro / 1e6, build_mechanism(terms).std
    shift = 15_000 * math.sqrt(25 * 3600 / interval_s) / sigma
    delta = stats.norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * stats.norm.cdf(
        -shift / 2 - epsilon / shift
    )
    assert delta <= paid.femto / 1e15 == 1e-6


def test_a_price_names_its_unit():
    assert price_text(Price(100_000_000, 10**9), "day") == (
        "ε = 100, δ = 1e-06 for all readings of a customer's day (up to 25 hours)"
    )
    assert "customer's month" in price_text(Price(1), "month")


def test_amounts_that_no_ledger_can_add_up_are_refused():
    noise = build_mechanism(FleetTerms("1", CLAMP))
    assert period_price(noise, 15_000.0, 900, "day") == Price(100_000_000)
    with pytest.raises(InputError, match="period must be one of"):
        period_price(noise, 15_000.0, 900, "year")
    with pytest.raises(InputError, match="epsilon must be at most"):
        period_price(noise, 15_000.0, Fraction(1, 10**6), "day")
