"""The semi-blind attacker: types, populations of small networks, and homes never seen."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm.network import NetSettings
from hushmeter.apps.nilm.semi_blind import (
    HomeData,
    PopulationWindows,
    SemiBlind,
    label_types,
    learn_population,
    raise_thresholds,
    strange_circuits,
    type_of,
)
from hushmeter.errors import DataError, InputError, MissingExtraError, NotFittedError
from hushmeter.scoring import score

torch = pytest.importorskip("torch", reason="needs the extra deep")

SMALL = {"settings": {"channels": 8, "steps": 2, "batch": 2, "window": 32, "nets": 2}}


def make_home(seed: int, length: int = 4000, interval_s: float = 60.0, kettle: float = 2000.0):
    """A home with a kettle, a fridge, a drifting rest and a base load of its own."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) * interval_s
    power = np.zeros((length, 2))
    run = round(240 / interval_s)
    for first in rng.choice(length - run, length // (40 * run), replace=False):
        power[first : first + run, 0] = kettle
    power[:, 1] = 90.0 * ((t + 1000 * seed) % 3600 < 1300)
    rest = 100 + 80 * seed + 40 * np.sin(t / 9000) + rng.normal(0, 8, length)
    names = ("Kettle", "fridge_1") if seed % 2 else ("kettle 2", "Refrigerator")
    return hm.Trace(rest + power.sum(axis=1), interval_s, power=power, names=names)


@pytest.fixture(scope="module")
def population():
    homes = [make_home(seed, kettle=1900.0 + 100 * seed) for seed in (1, 2, 3)]
    return learn_population(
        homes, settings=NetSettings(16, nets=1, steps=80, batch=8, window=96, rate=1e-2), seed=1
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Kettle", "kettle"),
        ("WashingMachine", "washing machine"),
        ("washing_machine_2", "washing machine"),
        ("refrigerator", "fridge"),
        ("Fridge-Freezer", "fridge"),
        ("dish washer", "dishwasher"),
        ("washer_dryer", "tumble dryer"),
        ("hair_dryer", "hair dryer"),
        ("ac2", "air conditioner"),
        ("electric_heat", "portable heater"),
        ("microwave oven", "microwave"),
        ("stove", "hob"),
        ("lighting4", "lighting"),
        ("7", "7"),
    ],
)
def test_the_type_follows_from_the_name(name, kind):
    assert type_of(name) == kind


def test_a_pause_of_a_programme_belongs_to_the_run_and_gaps_do_not():
    power = np.zeros((100, 2))
    power[[10, 11, 26, 27, 60], 0] = 2000.0
    power[[10, 26], 1] = 2000.0
    steps = np.arange(100) + 50 * (np.arange(100) >= 40)
    trace = hm.Trace(
        power.sum(axis=1), 60.0, power=power, names=("dishwasher", "Kettle"), steps=steps
    )
    labelled = label_types(trace)
    assert labelled.names == ("kettle", "dishwasher")
    assert np.flatnonzero(labelled.states[:, 1]).tolist() == [*range(10, 28), 60]
    assert np.flatnonzero(labelled.states[:, 0]).tolist() == [10, 26]


def test_a_population_attacks_a_home_that_it_has_not_seen(population):
    assert population.types_ == ("fridge", "kettle")
    assert population.homes_.tolist() == [3, 3]
    assert population.powers_ == pytest.approx([90, 2100], abs=110)
    unseen = label_types(make_home(6, kettle=2150.0))
    target = hm.Home([hm.Appliance("my kettle", 1.0), hm.Appliance("fridge", 1.0)], 10.0)
    attacker = population.for_home(target)
    states = attacker.predict(unseen)
    truth = unseen.states[:, [unseen.names.index(name) for name in ("kettle", "fridge")]]
    found = score(states, truth)
    assert found.per_appliance[0].f1 > 0.8
    assert found.alpha > found.alpha_floor
    assert (population.thresholds_ == 0.5).all()


def test_thresholds_rise_where_a_home_would_be_below_always_off():
    # Two homes, three thresholds, three types; the last type is not metered in the first home.
    gains = np.array(
        [
            [[0.02, -0.05, 0.0], [0.03, -0.01, 0.0], [0.01, -0.001, 0.0]],
            [[0.01, 0.01, -0.01], [0.01, 0.01, -0.01], [0.01, 0.01, -0.01]],
        ]
    )
    assert raise_thresholds(gains).tolist() == [0, 1, 0]
    # Nothing helps in a home in which every threshold loses: the last one is used.
    assert raise_thresholds(np.full((1, 3, 1), -0.1)).tolist() == [2]
    assert raise_thresholds(np.full((1, 3, 1), 0.1)).tolist() == [0]


def test_fine_readings_are_averaged_over_minutes(population):
    fine = make_home(4, length=6000, interval_s=10.0)
    chance = population.predict_proba(fine)
    assert chance.shape == (6000, 2)
    minutes = population.predict_proba(fine.coarsen(60.0))
    np.testing.assert_allclose(chance[::6], minutes, atol=1e-5)
    with pytest.raises(InputError, match="at most 1 min, and these have 15 min"):
        population.predict(hm.Trace([1.0, 2.0], 900.0))


def test_a_saved_population_answers_alike(population, tmp_path):
    population.save(tmp_path / "population.npz")
    copy = SemiBlind.load(tmp_path / "population.npz")
    test = make_home(5, length=500)
    np.testing.assert_array_equal(copy.predict_proba(test), population.predict_proba(test))
    damaged = population.for_home(population.home)
    damaged.thresholds_ = np.ones(3)
    damaged.save(tmp_path / "damaged.npz")
    with pytest.raises(DataError, match="damaged"):
        SemiBlind.load(tmp_path / "damaged.npz")


def test_a_type_that_the_population_lacks_is_named(population):
    with pytest.raises(InputError, match="no microwave: it has fridge, kettle"):
        population.for_home(hm.Home([hm.Appliance("microwave", 900.0)], 10.0))


def test_windows_hide_the_states_of_types_that_are_not_metered():
    homes = [label_types(make_home(1)), label_types(make_home(2))]
    only_kettle = homes[0].derive(
        states=homes[0].states[:, :1], power=homes[0].power[:, :1], names=["kettle"]
    )
    data = [HomeData.of(trace, ("fridge", "kettle")) for trace in (only_kettle, homes[1])]
    assert data[0].metered.tolist() == [False, True]
    windows = PopulationWindows(data, [], 64, np.random.default_rng(0))
    example = windows.draw(200)
    known = example.valid[:, :, 0] > 0
    assert 0 < known.float().mean() < 1
    # Where the fridge is not metered, only the runs that were added are known.
    assert ((example.states[:, :, 0] > 0) <= known).all()
    assert (example.valid[:, :, 1] == 1).all()


def test_networks_leave_out_homes_and_the_same_seed_gives_the_same():
    homes = [make_home(seed, length=600) for seed in (1, 2, 3)]
    one, two = (learn_population(homes, **SMALL, seed=4) for _ in range(2))
    assert len(one.weights_) == 2
    np.testing.assert_array_equal(one.predict_proba(homes[0]), two.predict_proba(homes[0]))
    assert len(learn_population(homes[:1], **SMALL).weights_) == 1


def test_bad_data_is_refused():
    bare = hm.Trace(np.arange(600.0), 60.0)
    with pytest.raises(DataError, match="column of watts for each circuit"):
        learn_population([bare], **SMALL)
    lamps = hm.Trace(np.arange(600.0), 60.0, power=np.ones((600, 1)), names=["lamp"])
    with pytest.raises(DataError, match="no circuit of the data has a known type: kettle"):
        learn_population([lamps], **SMALL)
    with pytest.raises(DataError, match="at most 1 min, got 15 min"):
        learn_population([make_home(1, interval_s=60.0, length=900).coarsen("15min")], **SMALL)
    with pytest.raises(DataError, match="at least 32 min"):
        learn_population([make_home(1)[:31]], **SMALL)
    with pytest.raises(NotFittedError):
        SemiBlind(hm.Home([hm.Appliance("kettle", 2000.0)], 10.0)).predict([1.0])


def test_a_missing_torch_is_reported_at_once(monkeypatch):
    monkeypatch.setattr("hushmeter.apps.nilm.network.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[deep\]"'):
        SemiBlind(hm.Home([hm.Appliance("kettle", 2000.0)], 10.0))


def test_circuits_of_other_types_disturb_the_training_windows():
    trace = make_home(1)
    dryer = 3000.0 * (np.arange(4000) % 500 < 40)
    power = np.column_stack([trace.power, dryer, np.full(4000, 5.0)])
    names = [*trace.names, "sauna", "clock"]
    strange = strange_circuits(hm.Trace(trace.readings, 60.0, power=power, names=names))
    assert len(strange) == 1
    data = [HomeData.of(label_types(trace), ("fridge", "kettle"))]
    windows = PopulationWindows(data, strange, 64, np.random.default_rng(0))
    drawn = windows._circuit(200)
    assert drawn.shape == (200,)
    assert drawn.max() > 2000
    assert PopulationWindows(data, [], 64, np.random.default_rng(0))._circuit(9).shape == (9,)
