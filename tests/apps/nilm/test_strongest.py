"""The strongest attacker: the mean of two, and a guess where held-back days do not beat it."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm import strongest
from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.apps.nilm.strongest import (
    MOST_BLOCKS,
    MOST_JUDGED,
    NO_DATA,
    SHORT_FOLDS,
    THRESHOLDS,
    Strongest,
    cut_blocks,
    leave_out,
    sample_noise,
)
from hushmeter.apps.nilm.trees import Trees
from hushmeter.errors import DataError, InputError, NotFittedError
from hushmeter.noise import Laplace
from hushmeter.scoring import score
from tests.apps.nilm.test_trees import HOME as MAINS_HOME
from tests.apps.nilm.test_trees import make_trace

HOME = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("lamp", 60.0)], 20.0, 100.0)
ROWS = 6000


@pytest.fixture(scope="module")
def train():
    return hm.synth.trace(HOME, 3000, 0.97, seed=1)


@pytest.fixture(scope="module")
def fitted(train):
    """An attacker that learnt from five hours."""
    return Strongest(HOME).fit(train)


@pytest.fixture(scope="module")
def days():
    return make_trace(1, 6 * 1440)


@pytest.fixture(scope="module")
def both(days):
    """An attacker that learnt from six days with unmetered load."""
    pytest.importorskip("lightgbm", reason="needs the extra nilm")
    return Strongest(MAINS_HOME, rows=ROWS).fit(days)


class Answers:
    """Stands in for an attacker that has learnt: its probabilities are given."""

    name = "bayes"

    def __init__(self, chance):
        self.chance, self.means_ = chance, (np.zeros(1),)

    def knows(self, mechanism):
        return self

    def predict_proba(self, readings, **given):
        return self.chance(readings.readings)


def judge(states, chance, days=1.0):
    """What is chosen if `chance` gives the probabilities for readings."""
    states = np.asarray(states)
    trace = hm.Trace(100 + states @ HOME.powers, days * 86_400 / len(states), states=states)
    made = Strongest(HOME)
    made._learn = lambda part: {"bayes": Answers(chance)}
    return made.fit(trace).choose()


def test_the_answer_is_the_plain_mean_of_both(both, days):
    test = make_trace(2, 2000)
    parts = [Bayes(MAINS_HOME).fit(days), Trees(MAINS_HOME, rows=ROWS).fit(days)]
    noise = Laplace(1.0, 200.0, grid=1.0)
    for mechanism in (None, noise):
        made = both.knows(mechanism)
        choice = made.choose()
        assert choice.name == "bayes and trees"
        assert choice.without_data == ()
        mean = np.mean([one.knows(mechanism).predict_proba(test) for one in parts], axis=0)
        np.testing.assert_array_equal(made.predict_proba(test), mean)
        np.testing.assert_array_equal(made.predict(test), mean > choice.threshold)
    assert both.choose().f1 > both.knows(noise).choose().f1
    assert "The attacker is bayes and trees: it is right about" in both.choose().sentence


def test_the_days_that_decide_are_unknown_to_the_copies(both, days):
    blocks = cut_blocks(days)
    assert len(blocks) == 6
    np.testing.assert_array_equal(both.blocks_[0][1], days.readings[blocks[1]])
    np.testing.assert_array_equal(both.blocks_[1][1], days.readings[blocks[4]])
    rest = leave_out(days, blocks[1::3])
    assert len(rest) == 4 * 1440
    (copy,) = both.held_back_
    np.testing.assert_array_equal(copy["trees"].readings_, rest.readings)
    assert copy["trees"].parameters == both.fitted_["trees"].parameters


def test_without_lightgbm_bayes_answers_and_trees_is_named(days, monkeypatch):
    monkeypatch.setattr(strongest, "find_spec", lambda _: None)
    choice = Strongest(MAINS_HOME).fit(days).choose()
    assert choice.name == "bayes"
    assert "stronger attacker trees is not installed: it needs the extra named nilm" in (
        choice.sentence
    )


def test_less_than_four_days_are_left_to_bayes(fitted, train):
    assert list(fitted.fitted_) == ["bayes"]
    assert len(fitted.held_back_) == SHORT_FOLDS
    choice = fitted.choose()
    assert (choice.name, choice.threshold) == ("bayes", 0.5)
    assert "less than 4 days, too little for trees" in choice.sentence
    test = hm.synth.trace(HOME, 1000, 0.97, seed=2)
    alone = Bayes(HOME).fit(train)
    np.testing.assert_array_equal(fitted.predict(test), alone.predict(test))


def test_less_than_four_days_beside_unmetered_load_are_answered_by_the_guess():
    short = make_trace(1, 3000)
    made = Strongest(MAINS_HOME).fit(short)
    assert made.unmetered_
    assert made.choose().name == NO_DATA
    assert "too few beside a load that nobody meters" in made.choose().sentence
    assert "does not show that the readings hide anything" in made.choose().sentence
    assert not made.predict(short).any()
    assert score(made.fitted_["bayes"].predict(short), short).f1 > 0.5


def test_the_answer_follows_the_noise(fitted):
    clean = fitted.choose()
    assert clean.without_data == ()
    assert clean.alpha > clean.floor
    blind = fitted.knows(Laplace(1e-3, 2000.0, grid=1.0))
    assert blind.choose().name == NO_DATA
    assert blind.choose().alpha == pytest.approx(blind.choose().floor)
    assert "the answer is that guess" in blind.choose().sentence
    assert not blind.predict([3000.0] * 50).any()
    # The lamp disappears before the kettle.
    between = fitted.knows(Laplace(1.0, 700.0, grid=1.0)).choose()
    assert clean.f1 > between.f1 > 0


@pytest.mark.parametrize("scale", [0.0, 20.0, 300.0, 3000.0, 1e5])
def test_it_is_not_below_the_guess_without_data(fitted, train, scale):
    test = hm.synth.trace(HOME, 6000, 0.97, seed=3)
    mechanism = Laplace(1.0, scale, grid=1.0) if scale else None
    noisy = test.replace_readings(test.readings + sample_noise(mechanism, len(test), 5))
    found = score(fitted.knows(mechanism).predict(noisy), test)
    floor = (test.truth() == (train.truth().mean(axis=0) > 0.5)).mean()
    assert found.alpha >= floor - 0.005


def test_a_weak_appliance_is_answered_without_data():
    place = np.arange(500)
    states = np.stack([place % 10 == 0, place % 3 == 0], axis=1)
    choice = judge(states, lambda y: np.stack([y > 1000, y % 2000 < 130], axis=1) * 1.0)
    assert choice.name == "bayes"
    assert choice.without_data == ("lamp",)
    assert "answers without data about lamp" in choice.sentence


def test_the_better_guess_of_two_is_the_floor():
    place = np.arange(1200)
    mostly = np.stack([place % 10 == 5, place % 100 > 20], axis=1)
    nothing = judge(mostly, lambda y: np.zeros((len(y), 2)))
    assert nothing.name == NO_DATA
    assert nothing.floor == pytest.approx(1 - (mostly ^ [False, True]).mean())
    # Most of the training, but not of the days that decide (the second and the fifth of six).
    day = place // 200
    changed = np.stack([place % 10 == 5, ~np.isin(day, (1, 4)) | (place % 20 < 11)], axis=1)
    off = judge(changed, lambda y: np.zeros((len(y), 2)), days=6.0)
    assert off.floor == pytest.approx((0.9 + 0.55) / 2)


def test_the_threshold_has_the_highest_f1_of_the_days_that_decide():
    states = np.arange(1200)[:, None] % 10 == np.array([0, 5])

    def chance(y):
        return np.where(np.stack([y > 1000, (y > 130) & (y < 1000)], axis=1), 0.38, 0.33)

    assert judge(states, chance, days=6.0).threshold == 0.35
    assert judge(states, lambda y: chance(y) > 0.35, days=6.0).threshold == THRESHOLDS[0]
    # Short data is no reason for a threshold.
    assert judge(states, chance, days=3.0).name == NO_DATA


def test_at_most_two_weeks_decide_and_all_times_of_day():
    length = 60 * 2880
    states = np.zeros((length, 2), bool)
    made = Strongest(HOME)
    made._learn = lambda part: {"bayes": Answers(lambda y: np.zeros((len(y), 2)))}
    made.fit(hm.Trace(np.zeros(length), 30.0, states=states))
    assert len(made.blocks_) == MOST_BLOCKS
    assert sum(len(readings) for _, readings, _, _ in made.blocks_) == MOST_JUDGED
    assert made.choose().name == NO_DATA


def test_training_data_is_cut_into_parts_and_left_out(train):
    blocks = cut_blocks(train)
    assert [part.start for part in blocks] == [0, 600, 1200, 1800, 2400]
    rest = leave_out(train, [blocks[1], blocks[3]])
    np.testing.assert_array_equal(rest.readings[600:1200], train.readings[1200:1800])
    assert np.flatnonzero(rest.run_starts).tolist() == [0, 600, 1200]


def test_a_saved_attacker_answers_alike(both, fitted, tmp_path):
    both.save(tmp_path / "both.npz")
    copy, test = Strongest.load(tmp_path / "both.npz"), make_trace(2, 500)
    for mechanism in (None, Laplace(1.0, 700.0, grid=1.0)):
        assert copy.knows(mechanism).choose() == both.knows(mechanism).choose()
        chances = [one.knows(mechanism).predict_proba(test) for one in (copy, both)]
        np.testing.assert_array_equal(*chances)
    damaged = fitted.knows(None)
    damaged.held_back_ = ()
    damaged.save(tmp_path / "damaged.npz")
    with pytest.raises(DataError, match="damaged"):
        Strongest.load(tmp_path / "damaged.npz")


def test_wrong_input_is_refused(fitted):
    with pytest.raises(NotFittedError):
        Strongest(HOME).predict([1.0])
    with pytest.raises(InputError, match="trained on readings of 6 s"):
        fitted.predict(hm.Trace([1.0, 2.0], 60.0))
    with pytest.raises(InputError, match="rows"):
        Strongest(HOME, rows=0)
