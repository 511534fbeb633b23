from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.learn.homes import (
    FLAT_RULE,
    Rule,
    compare_rules,
    find_levels,
    learn_home,
    on_states,
    run_edges,
    select_period,
)
from hushmeter.read import read_home_data
from hushmeter.trace import digest


def made(length=20_000):
    """A fridge that idles at 12 W, a two-level washer, a kettle, a router, a silent circuit."""
    rng, time_ = np.random.default_rng(3), np.arange(length)
    fridge = np.where(time_ % 400 < 130, 95.0, 12.0)
    washer = np.where(time_ % 5000 < 900, np.where(time_ % 100 < 30, 2000.0, 150.0), 0.0)
    kettle = np.where(time_ % 3000 < 25, 2200.0, 0.0)
    router, silent = np.full(length, 9.0), np.zeros(length)
    power = np.column_stack([fridge, washer, kettle, router, silent])
    power += np.abs(rng.normal(0, 0.5, power.shape)) * (power > 0)
    mains = power.sum(axis=1) + 60 + rng.normal(0, 2, length)
    names = ("fridge", "washer", "kettle", "router", "silent")
    return hm.Trace(mains, 6.0, "2024-01-01T00:00Z", power=power, names=names)


@pytest.fixture(scope="module")
def learnt():
    return learn_home(made())


def test_roles_thresholds_and_levels(learnt):
    circuits = {c.name: c for c in learnt.circuits}
    assert {n: c.role for n, c in circuits.items()} == {
        "fridge": "appliance", "washer": "appliance", "kettle": "appliance",
        "router": "always on", "silent": "never on",
    }  # fmt: skip
    assert circuits["fridge"].idle == pytest.approx(12.4, abs=1)
    assert circuits["fridge"].threshold == pytest.approx((12 + 95) / 2, abs=2)
    assert circuits["washer"].levels == pytest.approx((150, 2000), rel=0.02)
    assert learnt.home.appliances[1].levels == pytest.approx((150, 2000), rel=0.02)
    assert learnt.home.appliances[2].levels == ()


def test_powers_habits_base_and_tolerance(learnt):
    home = learnt.home
    assert home.names == ("fridge", "washer", "kettle")
    assert home.powers[0] == pytest.approx(95.4, abs=1)
    assert home.appliances[2].run_s == pytest.approx(150, rel=0.05)
    duty = [a.duty for a in home.appliances]
    np.testing.assert_allclose(duty, learnt.trace.truth().mean(axis=0), rtol=0.02)
    assert 4 < home.tolerance < 12
    assert home.base_load == pytest.approx(9 + 60, abs=5)
    assert learnt.mains == "real mains"
    assert "quantile" in learnt.notes[0]


def test_denoised_is_the_sum_of_sub_meters():
    trace = made()
    learnt = learn_home(trace, denoised=True)
    np.testing.assert_allclose(learnt.trace.readings, trace.power.sum(axis=1))
    assert learnt.mains == "denoised (sum of sub-meters)"
    assert learnt.home.base_load == pytest.approx(12.4 + 9.4, abs=1)
    assert learnt.home.tolerance < 4


def test_a_flat_rule_calls_an_idling_fridge_always_on(learnt):
    flat = learn_home(made(), rule=FLAT_RULE)
    assert flat.circuits[0].role == "always on"
    sentences = compare_rules(learnt, flat)
    assert "flat rule" in sentences[0]
    assert any("fridge: appliance instead of always on" in s and "12" in s for s in sentences)


def test_sparsity_is_that_of_every_circuit(learnt):
    states = np.column_stack([
        on_states(made().power[:, i], c.threshold, made().run_starts)
        for i, c in enumerate(learnt.circuits)
    ])  # fmt: skip
    switches = (states[1:] != states[:-1]).sum()
    assert learnt.sparsity == pytest.approx(1 - switches / (5 * 19_999), abs=1e-4)


def test_short_pauses_are_merged_before_short_runs_are_dropped():
    power = np.array([0, 9, 0, 9, 9, 0, 0, 0, 9, 0, 0, 0.0])
    starts = np.zeros(12, bool)
    starts[0] = True
    merged = on_states(power, 5, starts, min_on=2, min_off=2)
    assert merged.astype(int).tolist() == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert on_states(power, 5, starts).sum() == 4


def test_nothing_is_merged_or_dropped_at_a_gap():
    power = np.array([9, 0, 0, 0, 0, 9.0])
    starts = np.array([1, 0, 0, 1, 0, 0], bool)
    assert on_states(power, 5, starts, min_on=3, min_off=3).sum() == 2
    first, stop = run_edges(power > 5, starts)
    assert (first.tolist(), stop.tolist()) == ([0, 5], [1, 6])


@pytest.mark.parametrize("watts", [[0.0] * 50, [21.0] * 50, [5.0]])
def test_a_single_level_has_no_threshold(watts):
    levels = find_levels(np.array(watts))
    assert levels.on == ()
    assert levels.threshold == float("inf")


def test_cuts_by_time():
    trace = made(1000)
    part = select_period(trace, "2024-01-01T00:10:00Z", "2024-01-01T01:00:00+00:00")
    assert len(part) == 500
    assert len(select_period(trace, None, "2024-01-02")) == 1000
    with pytest.raises(DataError, match="no reading lies between 2025"):
        select_period(trace, "2025-01-01", None)
    with pytest.raises(InputError, match="ISO 8601"):
        select_period(trace, "yesterday", None)


def test_bad_input():
    trace = made(500)
    with pytest.raises(DataError, match="this trace has none"):
        learn_home(hm.Trace([1.0, 2.0], 6.0))
    with pytest.raises(UnknownNameError, match="did you mean 'kettle'"):
        learn_home(trace, appliances=["ketle"])
    with pytest.raises(DataError, match="none of the 1 circuits switches"):
        learn_home(trace, appliances=["router"])
    with pytest.raises(InputError, match="quantile must lie"):
        Rule(quantile=0)
    with pytest.raises(InputError, match="threshold must be finite"):
        Rule(threshold=-1)


@pytest.mark.parametrize(("on", "role"), [(989, "appliance"), (990, "always on")])
def test_a_circuit_on_in_99_percent_of_the_readings_is_always_on(on, role):
    watts = np.full(1000, 100.0)
    watts[: 1000 - on] = 2.0
    lamp = np.where(np.arange(1000) % 100 < 50, 60.0, 0.0)
    trace = hm.Trace(
        watts + lamp, 60.0, power=np.column_stack([watts, lamp]), names=["pump", "lamp"]
    )
    rule = Rule(threshold=50.0, min_on_s=0.0, min_off_s=0.0)
    assert learn_home(trace, rule=rule).circuits[0].role == role


def test_the_base_load_is_the_5_percent_quantile_of_the_unexplained_power():
    """The unexplained power takes the values 1 … 1000 W once each."""
    rest = np.random.default_rng(0).permutation(1000) + 1.0
    lamp = np.where(np.arange(1000) % 100 < 50, 60.0, 0.0)
    trace = hm.Trace(rest + lamp, 60.0, power=lamp[:, None], names=["lamp"])
    found = learn_home(trace, rule=Rule(threshold=30.0, min_on_s=0.0, min_off_s=0.0))
    assert found.home.base_load == pytest.approx(1 + 0.05 * 999)


def test_upper_values_are_the_999th_permille_of_the_readings_and_runs():
    """One run of 1000 W per 100 readings; every tenth run is longer, one reading is a spike."""
    time_ = np.arange(100_000)
    heater = np.where(time_ % 100 < np.where(time_ // 100 % 10 == 0, 30, 20), 1000.0, 0.0)
    spike = int(np.flatnonzero(heater)[5])
    heater[spike] = 9000.0
    trace = hm.Trace(heater, 6.0, power=heater[:, None], names=["heater"])
    learnt = learn_home(trace, denoised=True)
    circuit, heater_of_home = learnt.circuits[0], learnt.home.appliances[0]
    assert "exceed this; the largest, 9 kW, has 9 times the ε" in learnt.notes[-1]
    assert (heater_of_home.high, heater_of_home.max_power) == (1000.0, 9000.0)
    assert heater_of_home.run_high_s == 180.0
    assert heater_of_home.source == "learnt"
    assert (circuit.high, circuit.max_power) == (1000.0, 9000.0)
    assert circuit.above_protected == pytest.approx(1 / (heater > 0).sum())
    assert circuit.high_run_s == circuit.longest_run_s == 180.0
    assert circuit.high_energy_wh == pytest.approx((30 * 1000) * 6 / 3600, rel=0.3)


def test_a_learnt_home_names_its_readings_and_calibrates_with_public_steps(learnt, tmp_path):
    """Readings that differ by 40 W in one moment protect the same powers, runs and energies."""
    trace, home = made(), learnt.home
    assert home.learnt_from.sha256 == digest(trace)
    assert home.learnt_from.overlaps(trace)
    assert (home.learnt_from.start, home.learnt_from.end[:10]) == (
        "2024-01-01T00:00:00Z",
        "2024-01-02",
    )
    power = trace.power.copy()
    power[10, 2] += 40.0
    other = learn_home(
        hm.Trace(trace.readings, 6.0, "2024-01-01T00:00Z", power=power, names=trace.names)
    ).home
    assert other != home
    for one, two in zip(home.appliances, other.appliances, strict=True):
        assert one.protected_power == two.protected_power >= one.high
        assert one.protected_run_s == two.protected_run_s >= one.run_high_s
        assert one.protected_energy_wh == two.protected_energy_wh >= one.energy_wh
    home.save(tmp_path / "home.toml")
    assert hm.read_home(tmp_path / "home.toml") == home


@pytest.mark.parametrize("minutes", [15, 30, 60])
@pytest.mark.parametrize("denoised", [True, False])
def test_coarse_data_can_be_learnt_although_something_switches_at_every_step(minutes, denoised):
    trace = made(20_000 * 4).coarsen(60.0 * minutes)
    found = learn_home(trace, denoised=denoised)
    assert found.home.tolerance > 0
    assert "washer" in found.home.names


@pytest.fixture(scope="module")
def redd(shared_data):
    path = shared_data / "redd" / "redd_house1_3s.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    return read_home_data(path)


def test_redd_with_a_flat_rule(redd):
    flat = learn_home(redd, rule=FLAT_RULE)
    mean = {c.name: c.mean_on for c in flat.circuits}
    assert mean["fridge"] == pytest.approx(199, rel=0.03)
    assert mean["microwave"] == pytest.approx(1179, rel=0.03)
    assert mean["dishwasher"] == pytest.approx(643, rel=0.03)
    assert round(100 * flat.sparsity, 2) == 99.93
    roles = {c.name: c.role for c in flat.circuits}
    assert roles["kitchen_outlets_1"] == roles["kitchen_outlets_2"] == "always on"


def test_redd_with_its_own_thresholds_is_explained(redd):
    learnt, flat = learn_home(redd), learn_home(redd, rule=FLAT_RULE)
    sentences = " ".join(compare_rules(learnt, flat))
    assert "oven: " in sentences
    assert "bathroom_gfi: " in sentences
    assert "kitchen_outlets_2: appliance instead of always on" in sentences
    fridge = next(c for c in learnt.circuits if c.name == "fridge")
    assert fridge.mean_on == pytest.approx(199, rel=0.03)
    assert 5 <= learnt.home.tolerance <= 40


SETS = [
    ("redd/redd_house1_3s.parquet", None, 10.0, 0.9993, 0.9993),
    ("redd/redd_house1_3s.parquet", None, 1.0, 0.9876, 0.9876),
    ("refit/refit_houses_2_4_7_19_2015-01-08_8s.parquet", 2, 10.0, 0.996, 0.9997),
    ("refit/refit_houses_2_4_7_19_2015-01-08_8s.parquet", 4, 10.0, 0.996, 0.9997),
    ("refit/refit_houses_2_4_7_19_2015-01-08_8s.parquet", 7, 10.0, 0.996, 0.9997),
    ("refit/refit_houses_2_4_7_19_2015-01-08_8s.parquet", 19, 10.0, 0.996, 0.9997),
    ("tracebase/tracebase_2012-01-21_1hz_virtual_13dev.parquet", None, 10.0, 0.9994, 0.9994),
    ("ukdale/ukdale_house1_2014-11-09_6s_4app.parquet", None, 10.0, 0.98, 0.9999),
]


@pytest.mark.parametrize(("file", "building", "watts", "low", "high"), SETS)
def test_sparsity_of_each_set_under_a_stated_rule(shared_data, file, building, watts, low, high):
    path = shared_data / file
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    trace = read_home_data(path, building, tz="UTC")
    learnt = learn_home(trace, denoised=True, rule=Rule(watts, 0.0, 0.0))
    assert low - 5e-5 <= learnt.sparsity <= high + 5e-5


@pytest.mark.parametrize("every", ["15min", "30min"])
def test_coarse_readings_are_learnt_and_their_limits_stated(every):
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 30 * 1440, interval_s=60.0, seed=3)
    learnt = learn_home(trace.coarsen(every))
    assert set(learnt.home.names) <= set(home.names)
    assert {"kettle", "oven", "heat pump", "car charger"} <= set(learnt.home.names)
    assert learnt.home.tolerance > 0
    kettle = learnt.home.appliances[learnt.home.index("kettle")]
    assert kettle.power < 2000
    assert any(note.startswith("The usual run takes fewer than 3") for note in learnt.notes)
    assert not any(note.startswith("The usual run") for note in learn_home(trace).notes)


def test_a_quantile_is_never_taken_from_too_few_steps():
    """Everything switches at 30 of 40 steps: the meter minus the appliances has all of them."""
    rng = np.random.default_rng(5)
    on = np.arange(400) % 2 == 0
    power = np.where(on, 1000.0, 0.0)
    power[-12:] = 0.0
    readings = power + 100.0 + rng.uniform(0, 8, 400)
    trace = hm.Trace(readings, 1800.0, power=power[:, None], names=["kettle"])
    learnt = learn_home(trace)
    assert "at 399 steps of the meter minus all appliances" in learnt.notes[0]
    assert 4 < learnt.home.tolerance <= 8
