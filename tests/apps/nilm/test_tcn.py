"""The convolutional attacker: small networks on synthetic homes; real homes in slow tests."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.appliance import Appliance
from hushmeter.apps.nilm.network import Cells, Encoder, NetSettings
from hushmeter.apps.nilm.neural import THRESHOLD, Tcn, TrainingData, Windows
from hushmeter.errors import DataError, InputError, NotFittedError
from hushmeter.home import Home
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.scoring import score

torch = pytest.importorskip("torch", reason="needs the extra deep")

HOME = Home([Appliance("kettle", 2000.0), Appliance("heater", 900.0)], 20.0, 150.0)
SMALL = {"settings": {"channels": 8, "nets": 1, "steps": 3, "batch": 2, "window": 16}}


def make_trace(length: int, interval_s: float, seed: int = 0, unmetered: float = 60.0):
    """Runs of two appliances over a slowly moving unmetered load."""
    rng = np.random.default_rng(seed)
    states = np.zeros((length, 2), bool)
    for i, run in ((0, 300.0), (1, 1500.0)):
        readings = max(1, round(run / interval_s))
        for first in rng.choice(length, max(1, length // (12 * readings)), replace=False):
            states[first : first + readings, i] = True
    power = states * HOME.powers
    drift = unmetered * np.sin(np.arange(length) * interval_s / 5000)
    readings = 150 + drift + power.sum(axis=1) + rng.normal(0, 10, length)
    return hm.Trace(readings, interval_s, states=states, power=power, names=HOME.names)


@pytest.fixture(scope="module")
def fitted():
    trainer = Tcn(HOME, settings=NetSettings(16, nets=1, steps=60, batch=8, window=96, rate=1e-2))
    return trainer.fit(make_trace(6000, 60.0, seed=1))


def test_it_finds_the_appliances_without_noise_and_with_known_noise(fitted):
    test = make_trace(3000, 60.0, seed=2)
    clean = score(fitted.predict(test), test)
    assert clean.f1 > 0.9
    noise = Laplace(1.0, 600.0, grid=1.0)
    noisy = test.replace_readings(test.readings + noise.sample(len(test), rng=3))
    informed = score(fitted.knows(noise).predict(noisy), test)
    assert informed.f1 > score(fitted.predict(noisy), test).f1 + 0.05
    assert informed.f1 < clean.f1


def test_other_distributions_of_the_same_size_are_known(fitted):
    test = make_trace(500, 60.0, seed=2)
    mechanisms = (
        Laplace(1.0, 300.0, grid=1.0),
        Gaussian(1.0, 1e-3, 100.0, grid=1.0),
        Staircase(3.0, 800.0, grid=1.0),
    )
    answers = [fitted.knows(m).predict_proba(test) for m in mechanisms]
    for i in range(3):
        assert np.abs(answers[i] - answers[i - 1]).max() > 1e-4


def test_the_threshold_is_the_same_whatever_the_noise_hides(fitted):
    """A threshold that rises where little is left lost F1 in homes that were kept aside."""
    test = make_trace(500, 60.0, seed=2)
    for noise in (None, Laplace(1.0, 500.0, grid=1.0), Laplace(1.0, 1e5, grid=1.0)):
        informed = fitted.knows(noise)
        chance = informed.predict_proba(test)
        np.testing.assert_array_equal(informed.predict(test), chance > THRESHOLD)


def test_the_same_seed_gives_the_same_networks():
    trace = make_trace(700, 60.0)
    one, two = (Tcn(HOME, **SMALL, seed=3).fit(trace) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(trace), two.predict_proba(trace))
    other = Tcn(HOME, **SMALL, seed=4).fit(trace)
    assert (one.predict_proba(trace) != other.predict_proba(trace)).any()


@pytest.mark.parametrize("interval_s", [3.0, 7.0, 60.0, 900.0, 1800.0])
def test_it_runs_at_every_interval(interval_s):
    trace = make_trace(1000, interval_s)
    attacker = Tcn(HOME, **SMALL).fit(trace)
    chance = attacker.predict_proba(trace)
    assert chance.shape == (1000, 2)
    assert np.isfinite(chance).all()
    assert attacker.predict(trace.readings[:7]).shape == (7, 2)


def test_readings_within_a_minute_are_distinguished():
    trace = make_trace(20_000, 15.0, seed=4)
    attacker = Tcn(
        HOME, settings=NetSettings(16, nets=1, steps=60, batch=8, window=64, rate=1e-2)
    ).fit(trace)
    test = make_trace(8000, 15.0, seed=5)
    found = attacker.predict(test)
    starts = np.flatnonzero(np.diff(found[:, 0].astype(int)) == 1) + 1
    # Predicted starts lie at every place of a minute, not only at its first reading.
    assert len(set(starts % 4)) == 4
    assert score(found, test).f1 > 0.9


def test_gaps_separate_what_is_seen(fitted):
    test = make_trace(600, 60.0, seed=2)
    steps = np.arange(600) + 1000 * (np.arange(600) >= 300)
    gapped = hm.Trace(test.readings, 60.0, steps=steps)
    parts = [fitted.predict_proba(test.readings[part]) for part in (slice(300), slice(300, 600))]
    np.testing.assert_allclose(fitted.predict_proba(gapped), np.concatenate(parts), atol=1e-5)
    assert np.abs(fitted.predict_proba(gapped) - fitted.predict_proba(test.readings)).max() > 1e-4


def test_a_saved_attacker_answers_alike(fitted, tmp_path):
    fitted.save(tmp_path / "tcn.npz")
    copy = hm.Attacker.load(tmp_path / "tcn.npz")
    test = make_trace(300, 60.0, seed=6)
    np.testing.assert_array_equal(copy.predict_proba(test), fitted.predict_proba(test))


@pytest.mark.parametrize(
    "damage",
    [
        {"weights_": ()},
        {"weights_": ((np.ones(3),),)},
        {"never_on_": ("toaster",)},
    ],
)
def test_a_damaged_file_is_refused(fitted, tmp_path, damage):
    attacker = fitted.knows(None)
    vars(attacker).update(damage)
    attacker.save(tmp_path / "tcn.npz")
    with pytest.raises(DataError, match="damaged"):
        Tcn.load(tmp_path / "tcn.npz")


def test_windows_stay_inside_runs_and_outside_the_part_left_out():
    trace = make_trace(2000, 60.0)
    run_starts = np.zeros(2000, bool)
    run_starts[[0, 1000]] = True
    # The state of the only appliance tells the place: before 1000, after it, or left out.
    readings = np.arange(2000.0)
    data = TrainingData(readings, np.zeros((2000, 1)), np.zeros((2000, 1), bool), run_starts)
    encoder = Encoder(Cells(60.0), 0.0, 1.0)
    windows = Windows(data, encoder, 16, 1.0, 1, np.random.default_rng(0))
    assert windows.rows.size == 1600
    assert not ((windows.rows >= 400) & (windows.rows < 800)).any()
    for centre in (0, 399, 400, 799, 800, 999, 1000, 1999):
        first, last = windows.run_first[centre], windows.run_last[centre]
        assert first <= centre <= last
        assert {400, 800, 1000}.isdisjoint(range(first + 1, last + 1))
    example = windows.draw(4)
    assert example.states.shape == (4, 16, 1)
    assert len(list(windows.held_out(32))) == 2
    assert len(trace) == 2000


def test_training_stops_early_when_the_left_out_part_no_longer_improves(monkeypatch):
    counted = []
    monkeypatch.setattr(
        "hushmeter.apps.nilm.neural.Windows.draw",
        lambda self, count, draw=Windows.draw: counted.append(1) or draw(self, count),
    )
    monkeypatch.setattr("hushmeter.apps.nilm.network.CHECKS", 40)
    # Steps of this size make the network worse and worse.
    Tcn(HOME, settings={**SMALL["settings"], "steps": 40, "rate": 50.0}).fit(make_trace(700, 60.0))
    assert len(counted) < 40


def test_too_little_training_data_is_refused_with_the_number_that_is_needed():
    with pytest.raises(DataError, match=r"needs at least 512 readings of 1 min .*, got 300"):
        Tcn(HOME).fit(make_trace(300, 60.0))


def test_an_appliance_that_never_runs_is_predicted_off_and_named():
    trace = make_trace(700, 60.0)
    states, power = np.array(trace.states), np.array(trace.power)
    states[:, 1], power[:, 1] = False, 0.0
    quiet = trace.derive(states=states, power=power, names=HOME.names)
    attacker = Tcn(HOME, **SMALL).fit(quiet)
    assert attacker.never_on_ == ("heater",)
    assert not attacker.predict_proba(trace)[:, 1].any()
    with pytest.raises(DataError, match="no appliance is ever on"):
        Tcn(HOME, **SMALL).fit(
            trace.derive(states=states & False, power=power * 0, names=HOME.names)
        )


def test_another_interval_than_trained_on_is_refused(fitted):
    with pytest.raises(InputError, match="trained on readings of 1 min, and these have 30 s"):
        fitted.predict(make_trace(100, 30.0))


def test_predicting_needs_fit():
    with pytest.raises(NotFittedError, match="call fit"):
        Tcn(HOME).predict([1.0])


@pytest.mark.parametrize(
    "settings", [{"window": 0}, {"channels": 6}, {"nets": 6}, {"rate": 0}, {"stepps": 3}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Tcn(HOME, settings=settings)


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="seed"):
        Tcn(HOME, seed=-1)
    with pytest.raises(InputError, match="settings must be a NetSettings, got 3"):
        Tcn(HOME, settings=3)
