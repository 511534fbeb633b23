"""Restored values: better than the release, honest about their spread, never mistaken for it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.read import read_home_data
from hushmeter.releases.restore import deconvolve, restore_file

HOME = hm.synth.ready_home("evening")
KETTLE = HOME.subset(["kettle"])


@pytest.fixture(scope="module")
def evening():
    """Thirty days of the evening home as hourly means."""
    return hm.synth.trace(HOME, 14_400 * 30, seed=1).coarsen("1h")


def ratio(loads, sigma, seeds=4):
    """Mean absolute error after restoring, as a share of that of the release."""
    ratios = []
    for seed in range(seeds):
        noise = np.rint(np.random.default_rng(seed).normal(0, sigma, loads.size))
        means, _ = deconvolve(loads + noise, lambda w: -0.5 * (w / sigma) ** 2, sigma)
        ratios.append(np.abs(means - loads).mean() / np.abs(noise).mean())
    return float(np.mean(ratios))


def test_the_noise_of_a_heat_pump_on_the_evening_home(evening):
    assert ratio(evening.readings, 1660.0) <= 0.50


@pytest.mark.parametrize("sigma", [105.0, 210.0, 420.0, 835.0, 1670.0])
def test_restoring_never_makes_the_hours_worse(evening, sigma):
    assert ratio(evening.readings, sigma) <= 1.0


def test_the_kettle_noise_on_redd(shared_data):
    loads = read_home_data(shared_data / "redd" / "redd_house1_3s.parquet").coarsen("1h").readings
    assert ratio(loads, 210.0) <= 0.62
    assert ratio(loads, 105.0) <= 1.0
    assert ratio(loads, 1670.0) <= 1.0


@pytest.mark.parametrize("sigma", [150.0, 5.0])
def test_the_em_algorithm_against_a_plain_loop(rng, sigma):
    """The matrix form against the formula of each step, written out; 5 W leave one point each."""
    loads = rng.choice([50.0, 400.0, 2000.0], 60)
    values = loads + np.rint(rng.normal(0, sigma, 60))
    found, deviations = deconvolve(
        values, lambda w: -0.5 * (w / sigma) ** 2, sigma, points=20, steps=15
    )
    support = np.linspace(0, max(values.max(), 4 * sigma), 20)
    weights = np.full(20, 1 / 20)
    for _ in range(15):
        new = np.zeros(20)
        for y in values:
            p = weights * np.exp(-0.5 * ((y - support) / sigma) ** 2)
            new += p / p.sum()
        weights = new / 60
    for y, mean, deviation in zip(values, found, deviations, strict=True):
        p = weights * np.exp(-0.5 * ((y - support) / sigma) ** 2)
        p /= p.sum()
        assert mean == pytest.approx(p @ support, rel=1e-9)
        variance = p @ support**2 - (p @ support) ** 2 + (support[1] - support[0]) ** 2 / 12
        assert deviation == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_the_stated_deviations_are_those_of_the_errors(evening):
    sigma = 835.0
    values = evening.readings + np.rint(np.random.default_rng(5).normal(0, sigma, len(evening)))
    means, deviations = deconvolve(values, lambda w: -0.5 * (w / sigma) ** 2, sigma)
    errors = means - evening.readings
    assert np.sqrt((errors**2).mean() / (deviations**2).mean()) == pytest.approx(1, abs=0.25)


def test_the_distribution_of_the_loads_has_at_least_two_points(evening):
    unit = hm.resolve_unit("change", interval_s=3600.0, size=100.0)
    done = hm.release(evening[:24], hm.calibrate("laplace", 1, unit), unit)
    assert hm.restore(done, points=2).trace.readings.min() >= 0
    with pytest.raises(InputError, match="points must be"):
        hm.restore(done, points=1)


def test_many_different_values_need_little_memory(rng):
    import tracemalloc

    loads = rng.gamma(1.0, 300.0, 100_000)
    values = loads + rng.normal(0, 300.0, loads.size)
    tracemalloc.start()
    means, _ = deconvolve(values, lambda w: -0.5 * (w / 300.0) ** 2, 300.0, steps=30)
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()
    assert np.abs(means - loads).mean() < np.abs(values - loads).mean()


@pytest.mark.parametrize("name", ["laplace", "staircase", "gaussian"])
def test_every_mechanism_is_restored_from_its_receipt(evening, name, tmp_path):
    unit = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=KETTLE)
    done = hm.release(evening, hm.calibrate(name, 0.3, unit), unit, home=KETTLE)
    restored = hm.restore(done)
    errors = [np.abs(t.readings - evening.readings).mean() for t in (done.trace, restored.trace)]
    assert errors[1] < errors[0]
    done.save(tmp_path / "out.csv")
    again = restore_file(tmp_path / "out.csv")
    np.testing.assert_allclose(again.trace.readings, restored.trace.readings)
    data, mark = again.save(tmp_path / "restored.csv")
    marked = json.loads(mark.read_text())
    receipt = json.loads((tmp_path / "out.csv.receipt.json").read_text())
    assert marked["schema"] == "hushmeter-restored-1"
    assert marked["source"]["sha256"] == receipt["files"]["out.csv"]["sha256"]
    assert "restored_watts" in data.read_text().splitlines()[0]


def test_what_cannot_be_restored_is_refused(evening, tmp_path):
    unit = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=KETTLE)
    mechanism = hm.calibrate("gaussian", 1.9, unit)
    for name in ("one.csv", "two.csv"):
        hm.release(evening, mechanism, unit, home=KETTLE).save(tmp_path / name)
    with pytest.raises(DataError, match=r"its receipt does not verify: .*SHA-256 differs"):
        restore_file(tmp_path / "one.csv", receipt=tmp_path / "two.csv.receipt.json")
    restore_file(tmp_path / "one.csv").save(tmp_path / "restored.csv")
    with pytest.raises(DataError, match="is already restored; give the released file"):
        restore_file(tmp_path / "restored.csv")
    with pytest.raises(DataError, match="exists"):
        restore_file(tmp_path / "one.csv").save(tmp_path / "restored.csv")
    hm.write_meter(tmp_path / "bare.csv", evening)
    with pytest.raises(DataError, match="cannot be read"):
        restore_file(tmp_path / "bare.csv")
    with pytest.raises(InputError, match="restore needs a release, got a Trace"):
        hm.restore(evening)
    hm.release(evening, mechanism, unit, home=KETTLE, rng=1).save(tmp_path / "simulated.csv")
    with pytest.raises(DataError, match="is a simulation"):
        restore_file(tmp_path / "simulated.csv")


def test_a_calendar_release_with_restored_cells(evening, tmp_path):
    """The hours are better than those of the calendar alone."""
    done = hm.release_views(evening, epsilon=0.5, home=KETTLE)
    restored = hm.restore(done)
    truth = done.promise.exact_sums(evening)[0] * float(done.promise.grid)
    before, after = (np.abs(r.estimate - truth).mean() for r in (done, restored))
    assert after < before
    with pytest.raises(InputError, match="already restored"):
        hm.restore(restored)
    with pytest.raises(InputError, match="restored values are not a release"):
        restored.save(tmp_path / "out")
    done.save(tmp_path / "views")
    hours = restore_file(tmp_path / "views")
    np.testing.assert_allclose(hours.trace.readings, restored.estimate)
    assert hours.source["mechanism"] == "calendar"
    days = hm.release_views(evening, epsilon=0.5, home=KETTLE, tables=("days", "months"))
    with pytest.raises(InputError, match="has no hours, so there is nothing to restore"):
        hm.restore(days)
