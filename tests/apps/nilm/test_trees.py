"""The boosted trees: features, the noise that they are grown for, and what they depend on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm import trees
from hushmeter.apps.nilm.trees import MOST_NOISES, Trees, Widths, cut_pieces, largest
from hushmeter.attack.base import GaussianNoise
from hushmeter.attack.registry import attackers
from hushmeter.errors import InputError, MissingExtraError, NotFittedError
from hushmeter.noise import Laplace
from hushmeter.scoring import score

pytest.importorskip("lightgbm", reason="needs the extra nilm")

HOME = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("heater", 900.0)], 20.0)
NOISE = Laplace(1.0, 600.0, grid=1.0)
LENGTH = 4000


def make_trace(seed: int, length: int = LENGTH) -> hm.Trace:
    """Real mains at 1 min: two appliances above a load that nobody meters."""
    rng = np.random.default_rng(seed)
    states = np.zeros((length, 2), bool)
    for column, (count, size) in enumerate(((length // 80, 3), (length // 200, 30))):
        for first in rng.integers(0, length - size, count):
            states[first : first + size, column] = True
    power = states * HOME.powers
    rest = 150 + 60 * np.sin(np.arange(length) / 200) + rng.normal(0, 10, length)
    mains = rest + power.sum(axis=1)
    return hm.Trace(mains, 60.0, states=states, power=power, names=HOME.names)


@pytest.fixture(scope="module")
def train():
    return make_trace(1)


@pytest.fixture(scope="module")
def fitted(train):
    return Trees(HOME, rounds=40).fit(train)


def test_it_learns_a_home_with_unmetered_load(fitted):
    test = make_trace(2)
    assert score(fitted.predict(test), test).f1 > 0.95


def test_the_trees_are_grown_for_the_noise_that_is_attacked(fitted):
    test = make_trace(2)
    noisy = test.replace_readings(test.readings + NOISE.sample(len(test), rng=3))
    blind, informed = fitted, fitted.knows(NOISE)
    assert score(informed.predict(noisy), test).f1 > score(blind.predict(noisy), test).f1 + 0.1
    assert set(fitted.models_) >= {"none", "Laplace " + f"{NOISE.std!r} {NOISE.grid!r}"}
    # The noise of means over several readings is described by its deviation alone.
    assert fitted.knows(GaussianNoise(50.0)).predict(noisy).shape == (len(noisy), 2)


def test_the_same_seed_and_data_give_the_same_trees(train, fitted):
    again, other = (Trees(HOME, rounds=40, seed=seed).fit(train) for seed in (0, 1))
    assert again.models_["none"] == fitted.models_["none"]
    assert other.models_["none"] != fitted.models_["none"]


def test_a_saved_attacker_grows_the_same_trees_for_another_noise(train, tmp_path):
    made = Trees(HOME, rounds=5).fit(train)
    made.save(tmp_path / "trees.npz")
    copy = Trees.load(tmp_path / "trees.npz")
    assert copy.models_ == made.models_
    found = [one.knows(NOISE).predict_proba(train) for one in (made, copy)]
    np.testing.assert_array_equal(*found)


def test_only_the_latest_noises_are_kept(train):
    made = Trees(HOME, rounds=1, rows=500).fit(train[:1000])
    for scale in range(1, 2 * MOST_NOISES):
        made.knows(GaussianNoise(float(scale))).predict([1.0])
    assert len(made.models_) == MOST_NOISES
    assert list(made.models_)[-1] == f"GaussianNoise {2.0 * MOST_NOISES - 1!r} 1.0"


def test_an_answer_depends_on_nothing_beyond_a_gap(fitted):
    places = np.r_[0:250, 260:261, 300:900]
    trace = make_trace(3).select(places)
    whole = fitted.predict_proba(trace)
    for first, stop in ((0, 250), (250, 251), (251, 851)):
        part = fitted.predict_proba(trace[first:stop])
        np.testing.assert_array_equal(whole[first:stop], part)


def test_pieces_of_a_long_run_give_the_same_as_the_whole(fitted, monkeypatch):
    trace = make_trace(3, 3001)
    whole = fitted.predict_proba(trace)
    monkeypatch.setattr(trees, "TOGETHER", 256)
    np.testing.assert_allclose(fitted.predict_proba(trace), whole, atol=1e-9)


def test_an_appliance_that_never_switches_keeps_its_state(train):
    states = train.truth().copy()
    states[:, 0], states[:, 1] = True, False
    idle = train.derive(states=states, power=states * HOME.powers)
    made = Trees(HOME, rounds=2).fit(idle)
    assert made.never_on_ == ("heater",)
    assert made.predict_proba(train)[:3].tolist() == [[1.0, 0.0]] * 3


def test_constant_readings_are_learnt_from():
    states = np.arange(200)[:, None] % 20 < np.array([3, 5])
    flat = hm.Trace(np.full(200, 100.0), 60.0, states=states)
    chance = Trees(HOME, rounds=3).fit(flat).predict_proba(flat)
    assert ((chance > 0) & (chance < 1)).all()


@pytest.mark.parametrize("widths", [[1], [2, 3], [15, 60], [4, 7, 33]])
def test_the_largest_of_the_last_readings_and_its_distance(widths, rng):
    values = rng.integers(0, 30, (3, 200)).astype(float)
    found = largest(values, widths)
    for k, width in enumerate(widths):
        for t in range(width - 1, 200):
            window = values[:, t - width + 1 : t + 1]
            np.testing.assert_array_equal(found[2 * k][:, t], window.max(axis=1))
            distance = found[2 * k + 1][:, t].astype(int)
            assert (distance < width).all()
            np.testing.assert_array_equal(values[np.arange(3), t - distance], window.max(axis=1))


@pytest.mark.parametrize("interval_s", [6.0, 60.0, 900.0])
def test_the_features_are_those_of_plain_windows(interval_s, rng):
    widths = Widths(interval_s)
    reach, length = widths.reach, 40
    y = rng.normal(500, 100, (1, length + 2 * reach))
    found = widths.features(y)[0]
    t = reach + 17
    row, series = found[17], y[0]
    expected = [*series[t - 5 : t + 6]]
    for width in widths.means:
        right, left = series[t : t + width].mean(), series[t - width : t].mean()
        expected += [right, left, right - left, series[t] - right]
    for width in widths.centred:
        expected.append(series[t - width // 2 : t + width // 2 + 1].mean())
    half, smooth = widths.base // 2, widths.smooth // 2
    means = [series[k - smooth : k + smooth + 1].mean() for k in range(t - half, t + half + 1)]
    expected += [series[t - k : t + k + 1].mean() - min(means) for k in (0, 2)]
    for width in widths.extremes:
        near = [series[k - 1 : k + 2].mean() for k in range(t - width // 2, t + width // 2 + 1)]
        expected += [min(near), max(near)]
    for width in widths.deviations:
        expected.append(series[t - width // 2 : t + width // 2 + 1].std())
    for width in widths.edges:
        edge = {
            k: series[k : k + width].mean() - series[k - width : k].mean()
            for k in range(t - widths.jumps[-1], t + widths.jumps[-1] + 1)
        }
        for sign in (1, -1):
            for step in (-1, 1):
                for span in widths.jumps:
                    sizes = [sign * edge[t + step * k] for k in range(span)]
                    expected += [max(sizes), np.argmax(sizes)]
    np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-3)


def test_widths_are_times():
    minute, fine, coarse = (Widths(interval_s) for interval_s in (60.0, 6.0, 900.0))
    assert minute.means == list(trees.MEANS)
    assert (fine.means[0], fine.means[-1], fine.jumps[-1]) == (1, 1200, 1800)
    assert coarse.means == [1, 2, 3, 4, 5, 8]
    assert Widths(60.0).features(np.zeros((1, 2 * minute.reach + 1))).shape == (1, 1, 118)


def test_pieces_are_all_readings_once():
    starts = np.zeros(1000, bool)
    starts[[0, 3, 400, 401]] = True
    seen = []
    for places, inner in cut_pieces(starts, 100, 7):
        seen += places[:, 7:-7][inner].tolist()
        assert places.min() >= 0
    assert sorted(seen) == list(range(1000))


def test_readings_that_are_left_out_are_weighted_for(train, rng):
    made = Trees(HOME, rows=8000).fit(train)
    parts = list(made._examples(rng))
    weights = np.concatenate([part[2] for part in parts])
    assert weights.size < 0.4 * 4 * len(train)
    # The number is binomial: 16,000 readings with weights of at most 20.
    assert weights.sum() == pytest.approx(4 * len(train), rel=0.15)


def test_exchanged_appliances_keep_the_unmetered_load(rng):
    trace = make_trace(1, 10 * 1440)
    rest = 150 + 60 * np.sin(np.arange(len(trace)) / 200)
    quiet = trace.replace_readings(rest + trace.power.sum(axis=1))
    made = Trees(HOME, rounds=1, rows=1000).fit(quiet)
    made.rows = 10**9
    exchanged = 0
    for features, on, _ in made._examples(rng):
        left = features[:, 5] - (on * HOME.powers[::-1]).sum(axis=1)
        assert ((left > 89) & (left < 211)).all()
        exchanged += int((on != quiet.truth()[: len(on), ::-1]).sum())
    assert exchanged > 0


def test_a_missing_lightgbm_is_reported_at_once(monkeypatch):
    monkeypatch.setattr(trees, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[nilm\]"'):
        attackers["trees"](HOME)


def test_lightgbm_is_imported_only_to_train():
    code = (
        "import sys, hushmeter as hm\n"
        "hm.attackers['trees'](hm.synth.ready_home('evening'))\n"
        "assert 'lightgbm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_input_is_refused(fitted):
    with pytest.raises(NotFittedError):
        Trees(HOME).predict([1.0])
    with pytest.raises(InputError, match="trained on readings of 1 min"):
        fitted.predict(hm.Trace([1.0, 2.0], 6.0))
    with pytest.raises(InputError, match="rounds"):
        Trees(HOME, rounds=0)
