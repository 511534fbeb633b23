"""The Bayes attacker: its recursions, its beam and unusual data."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hushmeter import Appliance, Gaussian, Home, Laplace, Staircase, Trace, score, synth
from hushmeter.apps.nilm import bayes
from hushmeter.apps.nilm.bayes import Bayes, Fineness, correlated_pairs
from hushmeter.errors import DataError, InputError, NotFittedError

MECHANISMS = [
    Laplace(epsilon=0.5, sensitivity=10.0),
    Staircase(epsilon=1.0, sensitivity=10.0),
    Gaussian(epsilon=1.0, delta=1e-6, sensitivity=10.0),
    Laplace(epsilon=20.0, sensitivity=10.0, grid=10.0),
]


@pytest.fixture(scope="module")
def evening() -> tuple[Home, Trace, Trace]:
    home = synth.ready_home("evening")
    return home, synth.trace(home, 4000, 0.98, seed=1), synth.trace(home, 2000, 0.98, seed=2)


def test_what_wide_noise_takes_does_not_grow_with_it(evening):
    """A hundred million grid steps; so wide a staircase is all but Laplace noise."""
    home, train, _ = evening
    mechanism = Staircase(epsilon=0.001, sensitivity=7000.0)
    assert mechanism.quantile(1 - 1e-10) > 1e8 * mechanism.grid
    attacker = Bayes(home, mechanism=mechanism).fit(train)
    tracemalloc.start()
    emission = attacker._model().emission(1e5)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
    noise = Laplace(epsilon=0.001, sensitivity=7000.0)
    other = replace(attacker._model(), noise=noise).emission(1e5)
    readings = np.linspace(-2e7, 2e7, 41)
    assert emission.densities(readings) == pytest.approx(other.densities(readings), rel=0.01)


def test_marginals_by_enumeration():
    """Bayes' rule spelt out over all paths of two appliances and three readings."""
    home = Home([Appliance("lamp", 60.0), Appliance("fridge", 110.0)], tolerance=5.0)
    train = synth.trace(home, 600, 0.9, seed=1)
    mechanism = Laplace(epsilon=0.4, sensitivity=10.0)
    attacker = Bayes(home, mechanism=mechanism, most_unmetered=1).fit(train)
    readings = np.array([70.0, 160.0, 95.0])
    model = attacker._model()
    density = model.emission(model.reach(readings)).densities(readings)
    matrix, initial = np.kron(*model.transitions[:2]), model.chains.joint_initial()
    joint = (
        (initial * density[0])[:, None, None]
        * matrix[:, :, None]
        * (density[1][:, None] * matrix * density[2])[None]
    )
    expected = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    chance = np.array(expected) / joint.sum()
    # The fridge, the larger one, is the first digit.
    assert attacker.predict_proba(readings)[:, 1] == pytest.approx(chance[:, 2:].sum(axis=1))
    assert attacker.predict_proba(readings)[:, 0] == pytest.approx(chance[:, 1::2].sum(axis=1))


@pytest.mark.parametrize("decoder", ["marginal", "viterbi"])
def test_sees_a_home_without_noise(evening, decoder):
    home, train, test = evening
    attacker = Bayes(home, decoder=decoder).fit(train)
    result = score(attacker.predict(test), test, power=attacker.predict_power(test))
    assert result.alpha > 0.99
    assert result.kolter > 0.98
    assert attacker.base_load_ == pytest.approx(home.base_load, abs=3.0)


@pytest.mark.parametrize("mechanism", MECHANISMS[:3], ids=lambda m: m.name)
def test_knowing_the_noise_helps(evening, mechanism):
    home, train, test = evening
    noisy = mechanism.release(test.readings, rng=4)
    aware = score(Bayes(home, mechanism=mechanism).fit(train).predict(noisy), test)
    blind = score(Bayes(home).fit(train).predict(noisy), test)
    assert aware.f1 > blind.f1
    assert aware.f1 > 0.85


def test_marginals_beat_the_path_in_accuracy(evening):
    home, train, test = evening
    mechanism = Laplace(epsilon=0.1, sensitivity=10.0)
    noisy = mechanism.release(test.readings, rng=4)
    alphas = [
        score(Bayes(home, mechanism=mechanism, decoder=d).fit(train).predict(noisy), test).alpha
        for d in ("marginal", "viterbi")
    ]
    assert alphas[0] > alphas[1] - 0.002


def test_the_chances_are_calibrated(evening):
    home, train, test = evening
    mechanism = Laplace(epsilon=0.1, sensitivity=10.0)
    noisy = mechanism.release(test.readings, rng=4)
    chance = Bayes(home, mechanism=mechanism).fit(train).predict_proba(noisy)
    for low, high in pairwise((0.0, 0.1, 0.4, 0.6, 0.9, 1.0)):
        inside = (chance >= low) & (chance <= high)
        assert abs(test.states[inside].mean() - chance[inside].mean()) < 0.12


@pytest.mark.parametrize("decoder", ["marginal", "viterbi"])
@pytest.mark.parametrize("epsilon", [pytest.param(None, marks=pytest.mark.slow), 1.0, 0.3])
def test_the_beam_comes_close_to_the_exact_answer(epsilon, decoder):
    home = synth.ready_home("rae13").subset(
        ["fridge", "lights", "computer", "furnace", "dishwasher", "microwave", "kettle", "oven"]
    )
    train, test = (synth.trace(home, t, 0.99, seed=t) for t in (4000, 1000))
    mechanism = None if epsilon is None else Laplace(epsilon=epsilon, sensitivity=10.0)
    readings = test.readings if mechanism is None else mechanism.release(test.readings, rng=3)
    exact = Bayes(home, mechanism=mechanism, decoder=decoder).fit(train)
    beam = Bayes(home, mechanism=mechanism, decoder=decoder, exact_states=1, width=64).fit(train)
    assert (exact.approximation_, beam.approximation_) == ("exact", "beam")
    results = [score(a.predict(readings), test) for a in (exact, beam)]
    assert results[1].alpha > results[0].alpha - 0.01
    agree = (exact.predict(readings) == beam.predict(readings)).mean()
    assert agree > 0.98


def test_the_beam_serves_a_crowd_and_its_gaps():
    home = synth.home(n=24, spread="diverse", seed=4)
    train = synth.trace(home, 3000, 0.99, seed=1)
    test = synth.trace(home, 300, 0.99, seed=2)
    cut = Trace(test.readings, 6.0, steps=np.r_[0:100, 150:350], states=test.states)
    attacker = Bayes(home, width=256).fit(train)
    assert attacker.approximation_ == "beam"
    found = attacker.predict(cut, initial_state=test.states[0])
    assert (found[0] == test.states[0]).all()
    assert (found[:100] == test.states[:100]).mean() > 0.99, "after the gap nothing is known"
    assert attacker.predict_power(cut).shape == (300, 24)


def test_a_narrow_beam_of_equal_states_finds_room():
    """Twins make ties: more states than usual may change in pairs."""
    home = Home([Appliance(f"lamp {i}", 60.0) for i in range(18)], tolerance=2.0)
    trace = synth.trace(home, 400, 0.97, seed=1)
    mechanism = Laplace(epsilon=0.05, sensitivity=10.0)
    attacker = Bayes(home, mechanism=mechanism, width=40).fit(trace)
    assert attacker.approximation_ == "beam"
    noisy = mechanism.release(trace.readings, rng=1)
    chance = attacker.predict_proba(noisy)
    assert ((chance >= 0) & (chance <= 1)).all()


def test_unmetered_load_becomes_a_chain(rng):
    home = Home([Appliance("kettle", 2000.0), Appliance("lamp", 60.0)], tolerance=5.0)

    def trace(seed: int) -> Trace:
        clean = synth.trace(home, 3000, 0.97, seed=seed)
        heater = np.repeat(np.random.default_rng(seed).integers(0, 2, 60), 50) * 450.0
        return Trace(clean.readings + heater, 6.0, states=clean.states, power=clean.power)

    train, test = trace(1), trace(2)
    with_chain = Bayes(home).fit(train)
    assert with_chain.means_[-1] == pytest.approx([0.0, 450.0], abs=5.0)
    without = Bayes(home, most_unmetered=1).fit(train)
    assert score(with_chain.predict(test), test).f1 > 0.99
    assert score(without.predict(test), test).f1 < 0.9


def test_idle_power_is_not_taken_for_running(rng):
    """A standby of 25 or 55 W must not hide a lamp of 14 W."""
    home = Home([Appliance("pump", 1800.0), Appliance("lamp", 14.0)], tolerance=5.0)

    def trace(seed: int) -> Trace:
        states = synth.trace(home, 4000, 0.98, seed=seed).states
        standby = np.repeat(np.random.default_rng(seed).choice([25.0, 55.0], 80), 50)
        noise = np.random.default_rng(seed + 9).normal(0, 1, (4000, 2))
        power = np.where(states, home.powers, np.stack([standby, 0 * standby], axis=1)) + noise
        return Trace(power.sum(axis=1), 60.0, states=states, power=power)

    attacker = Bayes(home).fit(trace(1))
    assert attacker.idle_.tolist()[0] == 2
    assert score(attacker.predict(trace(2)), trace(2)).f1 > 0.97


def test_unfitted(evening):
    home, _, test = evening
    for call in ("predict", "predict_power", "predict_proba"):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(Bayes(home), call)(test)


def test_training_data_without_states(evening):
    home, train, _ = evening
    with pytest.raises(DataError, match="no true states"):
        Bayes(home).fit(Trace(train.readings, 6.0))


def test_training_data_without_power(evening):
    home, train, test = evening
    bare = Trace(train.readings, 6.0, states=train.states)
    attacker = Bayes(home).fit(bare)
    assert attacker.means_[home.index("washing machine")].size == 3, "levels of the home"
    assert score(attacker.predict(test), test).alpha > 0.98


def test_appliances_that_never_switch():
    home = Home([Appliance("router", 20.0), Appliance("kettle", 2000.0)], tolerance=5.0)
    states = np.zeros((300, 2), bool)
    states[:, 0] = True
    trace = Trace(states @ home.powers, 6.0, states=states, power=states * home.powers)
    assert (Bayes(home).fit(trace).predict(trace) == states).all()


def test_the_shortest_training_data():
    home = Home([Appliance("kettle", 2000.0)], tolerance=5.0)
    trace = Trace([2000.0], 6.0, states=[[True]], power=[[2000.0]])
    assert Bayes(home).fit(trace).predict(trace).shape == (1, 1)


def test_a_gap_starts_the_chains_anew(evening):
    home, train, test = evening
    cut = Trace(test.readings[:400], 6.0, steps=np.r_[0:150, 500:750])
    attacker = Bayes(home).fit(train)
    late = attacker.predict_proba(test.readings[150:400])
    assert attacker.predict_proba(cut)[150:] == pytest.approx(late, abs=1e-6)


@pytest.mark.parametrize("exact_states", [1 << 16, 1])
def test_initial_state_and_readings_below_the_base_load(evening, exact_states):
    home, train, _ = evening
    attacker = Bayes(home, exact_states=exact_states, width=64).fit(train)
    state = np.arange(len(home)) % 2 == 1
    chance = attacker.predict_proba(np.full(5, 90.0), initial_state=state)
    assert chance[0] == pytest.approx(state.astype(float))
    assert not attacker.predict(np.full(5, -500.0)).any()


def test_bad_parameters(evening):
    home, train, _ = evening
    for wrong in (
        {"decoder": "guess"},
        {"mechanism": 0.3},
        {"most_levels": 0},
        {"budget": -1},
        {"width": 0},
        {"exact_states": 2.5},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Bayes(home, **wrong)
    with pytest.raises(InputError, match="8 appliances, the home 1"):
        Bayes(Home([Appliance("kettle", 2000.0)], tolerance=5.0)).fit(train)
    crowd = synth.home(n=70)
    with pytest.raises(InputError, match="70 bits"):
        Bayes(crowd).fit(synth.trace(crowd, 100)).predict([100.0])


def real_mains(length: int, seed: int) -> tuple[Home, Trace]:
    """A kettle and a heater beside unmetered loads that look like levels of appliances."""
    rng = np.random.default_rng(seed)
    home = Home([Appliance("kettle", 2000.0), Appliance("heater", 700.0)], 20.0, 100.0)
    states = np.zeros((length, 2), np.bool_)
    for i, run in ((0, 4), (1, 25)):
        for first in rng.choice(length - run, length // (40 * run), replace=False):
            states[first : first + run, i] = True
    power = states * home.powers * rng.normal(1, 0.05, states.shape)
    rest = 150 + 120 * np.sin(np.arange(length) / 300) + 30 * rng.standard_normal(length)
    for watts, run in ((90.0, 40), (400.0, 15), (1200.0, 6), (650.0, 12)):
        for first in rng.choice(length - run, length // (30 * run), replace=False):
            rest[first : first + run] += watts * rng.normal(1, 0.1)
    return home, Trace(rest + power.sum(axis=1), 60.0, states=states, power=power)


def test_unmetered_load_does_not_bring_it_below_everything_off():
    home, train = real_mains(6000, 1)
    _, test = real_mains(3000, 2)
    attacker = Bayes(home).fit(train)
    assert attacker.means_[-1].size > 1
    clean = score(attacker.predict(test), test)
    assert clean.alpha > clean.alpha_floor - 0.005
    noise = Laplace(1.0, 200.0, grid=1.0)
    noisy = test.replace_readings(test.readings + noise.sample(len(test), rng=3))
    found = score(attacker.knows(noise).predict(noisy), test)
    assert found.alpha > found.alpha_floor - 0.005
    # Noise hides something: it must not make the attacker stronger.
    assert found.f1 < clean.f1 + 0.02


def test_the_states_are_chosen_on_readings_that_were_held_back(monkeypatch):
    home, train = real_mains(4000, 1)
    learnt = []
    plain = Bayes._learn
    monkeypatch.setattr(
        Bayes, "_learn", lambda self, part, how: (learnt.append(len(part)), plain(self, part, how))
    )
    Bayes(home).fit(train)
    assert learnt[0] == 4000
    assert learnt[1:] == [3200] * 7 + [4000]


def coupled_home(length: int, seed: int) -> tuple[Home, Trace]:
    """A fan that runs whenever the cooler runs, a lamp, and unmetered load."""
    rng = np.random.default_rng(seed)
    home = Home([Appliance("lamp", 80.0), Appliance("fan", 250.0), Appliance("cooler", 1500.0)], 20)
    states = np.zeros((length, 3), np.bool_)
    for first in rng.choice(length - 30, length // 120, replace=False):
        states[first : first + 25, 2] = True
        states[first : first + 30, 1] = True
    states[:, 0] = np.arange(length) % 90 < 30
    power = states * home.powers * rng.normal(1, 0.03, states.shape)
    rest = 200 + 150 * (np.arange(length) % 400 < 150) + 40 * rng.standard_normal(length)
    return home, Trace(rest + power.sum(axis=1), 60.0, states=states, power=power)


def test_pairs_are_strong_disjoint_and_in_the_given_order():
    _, trace = coupled_home(2000, 1)
    states = np.column_stack([trace.truth(), np.zeros(2000, bool), trace.truth()[:, 2]])
    # The copy of the cooler is its strongest partner, so the fan and the idle column stay alone.
    assert correlated_pairs(states, [2, 1, 0, 3, 4]) == [(2, 4)]
    assert correlated_pairs(trace.truth(), [2, 1, 0]) == [(2, 1)]
    assert correlated_pairs(trace.truth(), [0, 1, 2]) == [(1, 2)]
    assert correlated_pairs(trace.truth()[:, :1], [0]) == []


@pytest.mark.parametrize("exact_states", [1 << 16, 1])
def test_a_pair_without_coupling_answers_as_two_appliances(exact_states):
    home, train = coupled_home(2500, 1)
    _, test = coupled_home(500, 2)
    alone = Bayes(home, exact_states=exact_states).fit(train)
    alone._learn(train, Fineness(2, 0.5, 4096, coupled=True))
    assert alone.pairs_.tolist() == [[2, 1]]
    pair = alone.knows(None)
    joined = [np.kron(part[2], part[1]) for part in (alone.transitions_, alone.initial_)]
    pair.pair_transitions_, pair.pair_initial_ = (joined[0],), (joined[1],)
    alone.pairs_ = np.empty((0, 2), np.int64)
    alone.pair_transitions_ = alone.pair_initial_ = ()
    # In the beam, a change of both appliances of a pair is one change.
    close = 1e-9 if exact_states > 1 else 0.05
    first = test.truth()[0]
    one, two = (a.predict_proba(test, initial_state=first) for a in (alone, pair))
    np.testing.assert_allclose(one, two, atol=close)
    for attacker in (alone, pair):
        attacker.decoder = "viterbi"
    paths = [attacker._path(attacker._see(test)) for attacker in (alone, pair)]
    assert (paths[0] == paths[1]).mean() > 0.999


def test_coupling_finds_the_appliance_that_follows_another():
    home, train = coupled_home(6000, 1)
    _, test = coupled_home(3000, 2)
    noise = Laplace(1.0, 400.0, grid=1.0)
    noisy = test.replace_readings(test.readings + noise.sample(len(test), rng=3))
    found = []
    for coupled in (False, True):
        attacker = Bayes(home, mechanism=noise).fit(train)
        attacker._learn(train, Fineness(2, 0.5, 4096, coupled=coupled))
        found.append(score(attacker.predict(noisy), test, names=home.names)["fan"].f1)
    assert found[1] > found[0] + 0.05


def test_a_home_of_more_than_twelve_appliances_keeps_its_levels():
    rng = np.random.default_rng(4)
    powers = np.linspace(60, 1500, 14)
    home = Home([Appliance(f"load {i}", float(p)) for i, p in enumerate(powers)], 5.0)
    states = rng.random((3000, 14)) < 0.1
    power = states * powers
    power[:, 0] *= rng.choice([0.5, 1.5], 3000)
    train = Trace(power.sum(axis=1), 60.0, states=states, power=power)
    attacker = Bayes(home).fit(train)
    assert attacker.means_[0].tolist() == pytest.approx([0.0, 30.0, 90.0], abs=0.1)
    assert attacker.predict(train[:20]).shape == (20, 14)


def test_unmetered_load_gives_a_large_home_no_more_states_than_its_budget():
    """Thirteen appliances got up to four states each on real mains, and were found less often."""
    rng = np.random.default_rng(4)
    powers = np.linspace(60, 1500, 13)
    home = Home([Appliance(f"load {i}", float(p)) for i, p in enumerate(powers)], 5.0)
    states = np.repeat(rng.random((300, 13)) < 0.1, 10, axis=0)
    power = states * powers * rng.choice([0.5, 1.0, 1.5], states.shape)
    rest = np.repeat(rng.choice([100.0, 300.0, 900.0], 300), 10)
    train = Trace(rest + power.sum(axis=1), 60.0, states=states, power=power)
    attacker = Bayes(home, most_unmetered=3, exact_states=1, width=32).fit(train)
    assert [means.size for means in attacker.means_] == [2] * 13 + [3]


def test_a_model_of_few_states_is_judged_on_more_readings(monkeypatch):
    sizes, sample = [], bayes._spread_sample

    def record(trace, blocks):
        sizes.append(len(sample(trace, blocks)))
        return sample(trace, blocks)

    monkeypatch.setattr(bayes, "_spread_sample", record)
    rng = np.random.default_rng(0)
    home = Home([Appliance("kettle", 2000.0)], tolerance=20.0)
    on = np.repeat(rng.random(50_000) < 0.05, 3)[:, None]
    unmetered = np.repeat(rng.choice([100.0, 400.0, 900.0], 15_000), 10)
    train = Trace(2000.0 * on[:, 0] + unmetered, 60.0, states=on)
    attacker = Bayes(home, most_levels=1, most_unmetered=3).fit(train)
    monkeypatch.setattr(bayes, "HELD_WORK", 1)
    Bayes(home, most_levels=1, most_unmetered=3).fit(train)
    assert sizes == [24_000, 6000]
    assert score(attacker.predict(train[:5000]), train[:5000]).f1 > 0.99
