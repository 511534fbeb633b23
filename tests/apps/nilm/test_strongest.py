"""The choice of the strongest attacker: on held-back data, under the noise, never on the test."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm.strongest import (
    FOLDS,
    MOST_BLOCKS,
    MOST_JUDGED,
    NO_DATA,
    QUICK,
    Strongest,
    cut_blocks,
    default_candidates,
    leave_out,
    sample_noise,
)
from hushmeter.attack.base import AllOff, Attacker
from hushmeter.attack.registry import attackers
from hushmeter.errors import DataError, InputError, NotFittedError, UnknownNameError
from hushmeter.noise import Laplace
from hushmeter.scoring import score

HOME = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("lamp", 60.0)], 20.0, 100.0)


@pytest.fixture(scope="module")
def train():
    return hm.synth.trace(HOME, 3000, 0.97, seed=1)


@pytest.fixture(scope="module")
def fitted(train):
    return Strongest(HOME, candidates=("all-off", "bayes", "co")).fit(train)


class Threshold(Attacker):
    """Answers that the kettle is on above 1000 W; a user's attacker that overrides `predict`."""

    name: ClassVar[str] = "threshold"
    needs: ClassVar[str] = "nothing"
    assumes: ClassVar[str] = "nothing"

    def predict(self, readings, *, initial_state=None, rng=None):
        values, _ = self._observe(readings)
        return np.stack([values > 1000, values > 1e9], axis=1)


def test_the_choice_follows_the_noise(fitted):
    clean = fitted.choose()
    assert clean.name == "bayes"
    assert clean.without_data == ()
    assert clean.alpha > clean.floor
    blind = fitted.knows(Laplace(1e-3, 2000.0, grid=1.0)).choose()
    assert blind.name == NO_DATA
    assert blind.alpha == pytest.approx(blind.floor)
    # The lamp disappears before the kettle.
    between = fitted.knows(Laplace(1.0, 700.0, grid=1.0)).choose()
    assert clean.f1 > between.f1 > blind.f1


def test_it_answers_as_the_chosen_attacker(fitted, train):
    test = hm.synth.trace(HOME, 1000, 0.97, seed=2)
    alone = attackers["bayes"](HOME).fit(train)
    np.testing.assert_array_equal(fitted.predict(test), alone.predict(test))
    np.testing.assert_array_equal(fitted.predict_power(test), alone.predict_power(test))


@pytest.mark.parametrize("scale", [0.0, 20.0, 300.0, 3000.0, 1e5])
def test_it_is_not_below_the_guess_without_data(fitted, train, scale):
    test = hm.synth.trace(HOME, 6000, 0.97, seed=3)
    mechanism = Laplace(1.0, scale, grid=1.0) if scale else None
    noisy = test.replace_readings(test.readings + sample_noise(mechanism, len(test), 5))
    found = score(fitted.knows(mechanism).predict(noisy), test)
    floor = (test.truth() == (train.truth().mean(axis=0) > 0.5)).mean()
    assert found.alpha >= floor - 0.005


def choose_among(candidate, states):
    """The choice of a strongest attacker with a single candidate, from readings without noise."""
    power = states * HOME.powers
    train = hm.Trace(100 + power.sum(axis=1), 6.0, states=states, power=power)
    attackers._registered[candidate.name] = candidate
    try:
        return Strongest(HOME, candidates=(candidate.name,)).fit(train).choose()
    finally:
        del attackers._registered[candidate.name]


def test_a_weak_appliance_is_answered_without_data():
    class Wrong(AllOff):
        name: ClassVar[str] = "wrong-lamp"

        def _predict(self, seen):
            return np.stack([seen.readings > 1000, seen.readings % 2000 < 130], axis=1)

    states = np.stack([np.arange(500) % 10 == 0, np.arange(500) % 3 == 0], axis=1)
    choice = choose_among(Wrong, states)
    assert choice.without_data == ("lamp",)
    assert choice.name == "wrong-lamp"
    assert "answers without data about lamp" in choice.sentence


def test_the_choice_uses_data_that_the_candidates_have_not_seen(train):
    blocks = cut_blocks(train)
    assert [part.start for part in blocks] == [0, 600, 1200, 1800, 2400]
    assert [part.stop for part in blocks] == [600, 1200, 1800, 2400, 3000]
    rest = leave_out(train, [blocks[1], blocks[3]])
    np.testing.assert_array_equal(rest.readings[:600], train.readings[:600])
    np.testing.assert_array_equal(rest.readings[600:1200], train.readings[1200:1800])
    assert np.flatnonzero(rest.run_starts).tolist() == [0, 600, 1200]

    class Memory(AllOff):
        """Remembers the readings of its training data, and knows nothing else."""

        name: ClassVar[str] = "memory"

        def fit(self, trace):
            self.seen_ = dict(zip(trace.readings.tolist(), trace.truth().tolist(), strict=True))
            return super().fit(trace)

        def _predict(self, seen):
            nothing = [False] * len(self.home)
            return np.array([self.seen_.get(y, nothing) for y in seen.readings.tolist()])

    registry = attackers._registered
    registry["memory"] = Memory
    try:
        made = Strongest(HOME, candidates=("memory", "bayes")).fit(train)
    finally:
        del registry["memory"]
    assert score(made.fitted_["memory"].predict(train), train).f1 == 1.0
    assert made.choose().name == "bayes"


def test_a_loss_that_the_days_do_not_agree_about_is_no_reason_to_leave_an_appliance_out():
    class Seasonal(AllOff):
        """Right about the lamp in the first part alone, and always right about the kettle."""

        name: ClassVar[str] = "seasonal"

        def _predict(self, seen):
            return np.stack([seen.readings > 1000, np.ones(len(seen), bool)], axis=1)

    place = np.arange(1200)
    kettle = place % 10 == 5
    # The lamp is on in the first half of the training data: no gain and no loss on the whole.
    unclear = choose_among(Seasonal, np.stack([kettle, (place < 600) & (place % 100 > 0)], axis=1))
    assert unclear.without_data == ()
    # Here the answer "on" about the lamp is wrong on every day.
    wrong = choose_among(Seasonal, np.stack([kettle, place % 10 == 0], axis=1))
    assert wrong.without_data == ("lamp",)
    assert wrong.f1 == 0.5


def test_few_days_do_not_tell_candidates_apart_so_the_first_one_stays(train):
    noise = Laplace(1.0, 500.0, grid=1.0)
    made = Strongest(HOME, candidates=("bayes", "co")).fit(train).knows(noise)
    truths = [block[2] for block in made.blocks_]
    answers = [made._answer(made.held_back_["bayes"][block[0]], block) for block in made.blocks_]
    better = [answer.copy() for answer in answers]
    # Better on one day of five, and worse on another one by less.
    worse = int((answers[0] != truths[0]).sum()) // 4
    better[0], better[1][:worse] = truths[0], ~truths[1][:worse]
    alone = Strongest(HOME, candidates=("bayes",)).fit(train).knows(noise).choose()
    found = {"bayes": answers, "co": better}
    made._answer = lambda attacker, block: found[attacker.name][
        next(i for i, one in enumerate(made.blocks_) if one is block)
    ]
    assert made.choose().name == "bayes"
    assert made.choose().f1 == alone.f1
    # If it is better on every day, it is chosen.
    made._choices = {}
    found["co"] = truths
    assert made.choose().name == "co"
    assert made.choose().f1 == 1.0


def test_at_most_two_weeks_decide_and_all_times_of_day(train):
    class Free(AllOff):
        name: ClassVar[str] = "free"

    attackers._registered["free"] = Free
    try:
        long = hm.Trace(
            np.zeros(40 * 2880), 30.0, states=np.zeros((40 * 2880, 2), bool), power=None
        )
        made = Strongest(HOME, candidates=("free",)).fit(long)
    finally:
        del attackers._registered["free"]
    assert len(cut_blocks(long)) == 40
    assert len(made.blocks_) == MOST_BLOCKS
    assert sum(len(readings) for _, readings, _, _ in made.blocks_) == MOST_JUDGED
    assert {fold for fold, *_ in made.blocks_} == set(range(FOLDS))
    assert made.choose().name == NO_DATA


def test_the_guess_is_on_only_for_what_is_on_in_every_part():
    place = np.arange(1000)
    states = np.stack([place % 10 < 9, place < 700], axis=1)
    train = hm.Trace(100 + (states * HOME.powers).sum(axis=1), 6.0, states=states)
    made = Strongest(HOME, candidates=("co",)).fit(train)
    assert made.guess_.tolist() == [True, False]


def test_candidates_that_have_learnt_are_used_again(train):
    known = attackers["bayes"](HOME).fit(train)
    made = Strongest(HOME, candidates="quick").fit_with(train, {"bayes": known})
    assert made.candidates == QUICK
    assert made.fitted_["bayes"] is known
    alone = Strongest(HOME, candidates=QUICK).fit(train)
    assert made.choose() == alone.choose()


def test_own_attackers_that_override_predict_can_be_candidates(train):
    registry = attackers._registered
    registry["threshold"] = Threshold
    try:
        made = Strongest(HOME, candidates=("threshold",)).fit(train)
    finally:
        del registry["threshold"]
    assert made.choose().name == "threshold"
    assert made.predict([100.0, 2100.0])[:, 0].tolist() == [False, True]


def test_a_saved_attacker_chooses_alike(fitted, tmp_path):
    fitted.save(tmp_path / "strongest.npz")
    copy = Strongest.load(tmp_path / "strongest.npz")
    for mechanism in (None, Laplace(1.0, 700.0, grid=1.0)):
        assert copy.knows(mechanism).choose() == fitted.knows(mechanism).choose()
    damaged = fitted.knows(None)
    damaged.held_back_ = {}
    damaged.save(tmp_path / "damaged.npz")
    with pytest.raises(DataError, match="damaged"):
        Strongest.load(tmp_path / "damaged.npz")


def test_a_candidate_that_cannot_learn_is_left_out_with_the_reason(train):
    pytest.importorskip("torch", reason="needs the extra deep")
    made = Strongest(HOME, candidates=("tcn", "bayes")).fit(train)
    assert "needs at least 5120 readings" in made.left_out_["tcn"]
    assert list(made.fitted_) == ["bayes"]
    with pytest.raises(DataError, match="no attacker can learn from this data: the tcn attacker"):
        Strongest(HOME, candidates=("tcn",)).fit(train)


def test_every_candidate_is_judged_with_what_it_attacks_with():
    """Single networks were judged where three attack: the choice was another one."""
    pytest.importorskip("torch", reason="needs the extra deep")
    small = {"channels": 8, "nets": 2, "steps": 2, "batch": 2, "window": 8}
    trace = hm.synth.trace(HOME, 1000, 0.97, interval_s=60.0, seed=1)
    net = attackers["tcn"](HOME, settings=small, seed=5).fit(trace)
    made = Strongest(HOME, candidates=("tcn", "bayes")).fit_with(trace, {"tcn": net})
    for name, held_back in made.held_back_.items():
        for fold, judged in enumerate(held_back):
            assert judged.parameters == made.fitted_[name].parameters
            rest = leave_out(trace, cut_blocks(trace)[fold::FOLDS])
            again = type(judged)(HOME, **judged.parameters).fit(rest)
            np.testing.assert_array_equal(judged.predict(trace), again.predict(trace))
    assert [len(judged.weights_) for judged in made.held_back_["tcn"]] == [2] * FOLDS


def test_wrong_names_and_intervals_are_refused(fitted):
    with pytest.raises(InputError, match="at least one attacker"):
        Strongest(HOME, candidates=())
    with pytest.raises(InputError, match="other than strongest"):
        Strongest(HOME, candidates=("strongest",))
    with pytest.raises(UnknownNameError):
        Strongest(HOME, candidates=("nonsense",))
    with pytest.raises(NotFittedError):
        Strongest(HOME, candidates=("bayes",)).predict([1.0])
    with pytest.raises(InputError, match="trained on readings of 6 s"):
        fitted.predict(hm.Trace([1.0, 2.0], 60.0))
    assert set(default_candidates()) >= {"bayes", "sparse-hmm"}
