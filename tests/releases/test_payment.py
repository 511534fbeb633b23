"""Paying for a release: every day that it covers, for the change that the ledger protects."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fleet.cases import new_ledger

import hushmeter as hm
from hushmeter.errors import BudgetError, DataError, InputError
from hushmeter.ledger import DayChange, open_ledger
from hushmeter.releases.payment import covered_days, pay_for_release, price_of, save_paid

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)


def hourly(days=3, start="2024-03-01T00:00Z", metering=None):
    readings = np.random.default_rng(0).gamma(1.0, 300.0, 24 * days).round(1)
    return hm.Trace(readings, 3600.0, start, metering=metering or hm.Metering())


def promise_of(trace, **request):
    given = {"epsilon": 1, "home": KETTLE, "clamp": (0, 5000), **request}
    return hm.Request(**given).resolve(hm.metered(trace))


@pytest.mark.parametrize("tables", [(), ("views",), ("days", "peak = 16:00-21:00")])
def test_every_day_is_paid_for_once(tmp_path, tables):
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace, tables=tables).release(trace)
    with pay_for_release(url, done, meter="m") as payment:
        payment.written("0" * 64)
    assert payment.days == 3
    with open_ledger(url) as ledger:
        assert payment.price == price_of(done.promise, ledger.protects, ledger.composition_delta)
    with (
        pytest.raises(BudgetError),
        pay_for_release(url, promise_of(trace, tables=tables).release(trace), meter="m"),
    ):
        raise AssertionError


def test_tables_cost_the_epsilon_of_a_day_in_all_of_them():
    promise = promise_of(hourly(), tables=("views", "peak = 16:00-21:00"))
    protects = DayChange(5000.0, 20_000.0)
    price = price_of(promise, protects)
    change = protects.on_unit(promise.unit, promise.clamp, on_whole_intervals=True)
    assert price.micro >= 1e6 * promise.compose(change).epsilon
    assert price.micro > 1e6 * promise.epsilon
    days = price_of(promise_of(hourly(), tables=("days",)), protects)
    assert days.micro > 1e6


def test_readings_without_a_clamp_have_no_price():
    with pytest.raises(InputError, match="does not clamp its readings"):
        price_of(promise_of(hourly(), clamp=None), DayChange.within(0.0, 5000.0))


def test_what_has_no_price_is_not_charged():
    rounded = hourly(metering=hm.Metering(resolution_w=0.1))
    done = promise_of(rounded, span="when", clamp=None, mechanism="gaussian").release(rounded)
    with (
        pytest.raises(InputError, match="publishes the sums of the days"),
        pay_for_release("sqlite:///unused.db", done, meter="m"),
    ):
        pass
    seeded = promise_of(hourly()).release(hourly(), rng=1)
    with (
        pytest.raises(InputError, match="a simulation spends no budget"),
        pay_for_release("sqlite:///unused.db", seeded, meter="m"),
    ):
        pass


def test_the_days_of_values_with_a_margin():
    values = hourly(2, "2024-03-01T01:00Z")
    assert covered_days(values) == ["2024-03-01", "2024-03-02", "2024-03-03"]
    assert covered_days(values, 2 * 3600.0)[0] == "2024-02-29"


@pytest.mark.parametrize("name", ["out.csv", "views"])
def test_what_cannot_be_written_costs_nothing(tmp_path, name):
    """The place is a file, or the release exists: nothing is charged, and the next try works."""
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace, tables=() if name.endswith("csv") else ("views",)).release(trace)
    (tmp_path / "blocked").write_text("a file, not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        save_paid(url, done, tmp_path / "blocked" / name, meter="m")
    with open_ledger(url) as ledger:
        assert ledger.history("m") == []
    files, payment = save_paid(url, done, tmp_path / name, meter="m")
    assert payment.days == 3
    assert all(file.exists() for file in files)
    assert hm.verify(tmp_path / name).passed
    with open_ledger(url) as ledger:
        (release,) = {row["release"] for row in ledger.history("m")}
        assert ledger.state_of(release, "m") == "released"
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")]
    assert left == []


def test_a_payment_that_is_refused_leaves_no_file(tmp_path):
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace).release(trace)
    save_paid(url, done, tmp_path / "one.csv", meter="m")
    with pytest.raises(BudgetError):
        save_paid(url, done, tmp_path / "two.csv", meter="m")
    assert not [path for path in tmp_path.iterdir() if "two" in path.name]
