"""Restored values with a known home: better than without it, and only where this was measured."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.releases.restore import _training, restore_file

HOME = hm.synth.ready_home("evening")
KETTLE = HOME.subset(["kettle"])


@pytest.fixture(scope="module")
def day():
    return hm.synth.trace(HOME, 14_400, seed=11)


def released(load, seed=3):
    unit = hm.resolve_unit("appliance", "reading", interval_s=load.interval_s, home=KETTLE)
    return hm.release(load, hm.calibrate("laplace", 1.0, unit), unit, rng=seed)


def test_a_known_home_makes_restored_values_better(day):
    """Also with a constant load of 180 W that is no appliance of the home."""
    load = hm.Trace(day.readings + 180.0, 6.0, day.start).coarsen(60.0)
    done = released(load)
    with_home, alone = hm.restore(done, home=HOME), hm.restore(done)
    errors = [
        np.abs(trace.readings - load.readings).mean()
        for trace in (done.trace, alone.trace, with_home.trace)
    ]
    assert errors[2] < 0.22 * errors[0]
    assert errors[2] < 0.6 * errors[1]
    assert (with_home.source["method"], alone.source["method"]) == ("home", "loads")
    scaled = (with_home.trace.readings - load.readings) / with_home.std
    assert np.sqrt((scaled**2).mean()) == pytest.approx(1, abs=0.4)


def test_no_constant_load_is_found_in_an_empty_home():
    """Readings below what the attacker expects leave its expectation as it is."""
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)
    done = released(hm.Trace(np.zeros(240), 60.0, "2024-03-01T00:00Z"), seed=1)
    attacker = hm.attackers["bayes"](home).fit(_training(home, 60.0)).knows(done.promise.noise)
    expected, _ = attacker.predict_load(done.trace)
    assert done.trace.readings.mean() < expected.mean()
    np.testing.assert_allclose(hm.restore(done, home=home).trace.readings, expected)


@pytest.mark.parametrize("interval_s", [6.0, 7.0, 10.0, 60.0])
def test_the_chains_are_learnt_from_four_days(interval_s):
    learnt_from = _training(KETTLE, interval_s)
    assert learnt_from.interval_s == interval_s
    assert len(learnt_from) * interval_s == pytest.approx(4 * 86_400, abs=interval_s)


def test_hours_and_calendars_are_restored_without_the_home(day):
    hours = released(day.coarsen("1h"))
    found = hm.restore(hours, home=HOME)
    assert found.source["method"] == "loads"
    np.testing.assert_array_equal(found.trace.readings, hm.restore(hours).trace.readings)
    calendar = hm.release_views(day.coarsen("1h"), epsilon=1, home=KETTLE, rng=1)
    np.testing.assert_array_equal(
        hm.restore(calendar, home=HOME).estimate, hm.restore(calendar).estimate
    )
    with pytest.raises(InputError, match="restore needs a release"):
        hm.restore(day, home=HOME)


def test_files_are_restored_with_a_home(day, tmp_path):
    load = day[:3000].coarsen(60.0)
    unit = hm.resolve_unit("appliance", "reading", interval_s=60.0, home=KETTLE)
    done = hm.release(load, hm.calibrate("laplace", 1.0, unit), unit, home=KETTLE)
    done.save(tmp_path / "out.csv")
    found = restore_file(tmp_path / "out.csv", home=HOME)
    np.testing.assert_allclose(found.trace.readings, hm.restore(done, home=HOME).trace.readings)
    found.save(tmp_path / "restored.csv")
    with pytest.raises(DataError, match="is already restored"):
        restore_file(tmp_path / "restored.csv", home=HOME)


def test_the_sum_of_all_loads_by_enumeration(rng):
    """Mean and variance of the joint states against the joint distribution of all paths."""
    home = hm.Home([hm.Appliance("lamp", 60.0), hm.Appliance("fridge", 110.0)], tolerance=5.0)
    attacker = hm.attackers["bayes"](home, most_unmetered=1)
    attacker.fit(hm.synth.trace(home, 600, 0.9, seed=1))
    attacker = attacker.knows(hm.Laplace(epsilon=0.4, sensitivity=10.0))
    readings = np.array([70.0, 160.0, 95.0])
    model = attacker._model()
    density = model.emission(model.reach(readings)).densities(readings)
    initial = model.chains.joint_initial()
    matrix = np.ones((1, 1))
    for each in model.transitions:
        matrix = np.kron(matrix, each)
    joint = (
        (initial * density[0])[:, None, None]
        * matrix[:, :, None]
        * (density[1][:, None] * matrix * density[2])[None]
    )
    joint /= joint.sum()
    watts, spread = np.zeros(1), np.zeros(1)
    for means, variances in zip(model.means, model.variances, strict=True):
        watts, spread = (
            np.add.outer(one, more).ravel() for one, more in ((watts, means), (spread, variances))
        )
    starts = np.array([True, False, False])
    means, variances = model.sum_moments(readings, starts)
    for t, axes in enumerate([(1, 2), (0, 2), (0, 1)]):
        chance = joint.sum(axis=axes)
        assert means[t] == pytest.approx(chance @ watts)
        assert variances[t] == pytest.approx(chance @ (watts**2 + spread) - (chance @ watts) ** 2)
