"""Where the homes of the figures come from."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.study import figures
from hushmeter.apps.study.figures import Setting, reproduce
from hushmeter.apps.study.sweep import sweep
from hushmeter.errors import DataError, InputError
from hushmeter.files import write_table
from hushmeter.trace import Runs


def save_day(path, *, seed=0, readings=12_000, interval_s=7.0, start="2015-01-08T00:00Z"):
    """A synthetic day in the layout of REFIT: Appliance1 … with their power."""
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, readings, interval_s=interval_s, start=start, seed=seed)
    columns = {"timestamp": trace.times, "house": [2] * len(trace), "aggregate": trace.readings}
    columns |= {f"Appliance{i + 1}": trace.power[:, i] for i in range(len(home))}
    write_table(path, columns)
    return trace


def test_without_data_stand_ins_are_named():
    for find, name in (
        (figures.find_eight, "similar8"),
        (figures.find_thirteen, "rae13"),
        (figures.find_building, "redd-like"),
    ):
        found = find(Setting(readings=240))
        assert not found.real
        assert f"synthetic stand-in “{name}”" in found.words
        assert found.details
        assert "data folder" not in found.words
        assert len(found.case.test) == 240


def test_the_meaning_of_epsilon_is_that_of_the_best_attacker():
    """A likelihood-ratio attacker of one run is right as often as the note of a figure says."""
    found = figures.find_building(Setting(readings=2000))
    told = figures.tell_meaning(found)
    at, odds = re.search(r"at ε = (.+) a reading, .* ([^ )]+ W, .+?)\) (.+) times", told).group(
        1, 3
    )
    assert at.split(" / ") == ["1", "0.1", "0.01", "0.003"]
    name = re.search(r"one run of (.+) \(", told)[1]
    home, test = found.case.home, found.case.test
    column = home.index(name)
    runs = Runs.of_true(test.truth()[:, column], test.run_starts).length
    length = int(np.median(runs))
    scale = home.tolerance / 2 / 0.003
    rng = np.random.default_rng(1)
    on = rng.random(40_000) < 0.5
    noise = rng.laplace(0, scale, (on.size, length))
    seen = noise + on[:, None] * home.powers[column]
    ratio = (np.abs(seen) - np.abs(seen - home.powers[column])).sum(axis=1)
    # Ratios are often exactly one, where rounding must not decide.
    right = ((ratio > 1e-6) == on).mean()
    assert float(odds.split(" / ")[-1]) == pytest.approx(100 * right, abs=1.5)


def test_an_empty_folder_falls_back_and_says_so(tmp_path):
    setting = Setting(readings=240, seeds=2, data=tmp_path)
    for find in (figures.find_eight, figures.find_thirteen, figures.find_building):
        found = find(setting)
        assert not found.real
        assert "no real set of this kind is in the data folder" in found.words
    assert "synthetic stand-ins" in reproduce("table1", setting).caption


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        Setting(data=tmp_path / "none")


def test_a_set_that_is_there_is_used_and_a_broken_one_is_reported(tmp_path):
    folder = tmp_path / "refit"
    folder.mkdir()
    trace = save_day(folder / "refit_houses_2_day.parquet")
    found = figures.find_eight(Setting(data=tmp_path))
    assert found.real
    assert "REFIT house 2, in place of UK-DALE building 4" in found.words
    assert len(found.case.test) == len(trace)
    assert all(not appliance.levels for appliance in found.case.home.appliances)
    np.testing.assert_allclose(found.case.test.readings, trace.power.sum(axis=1), atol=0.1)
    short = figures.find_eight(Setting(data=tmp_path, readings=500))
    assert len(short.case.test) == 500
    (folder / "refit_houses_2_day.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="refit_houses_2_day"):
        figures.find_eight(Setting(data=tmp_path))


def test_table_1_has_every_set_under_every_rule(tmp_path):
    (tmp_path / "refit").mkdir()
    save_day(tmp_path / "refit" / "refit_houses_2_day.parquet")
    table = reproduce("table1", Setting(data=tmp_path)).table
    rows = table[(table.data == "REFIT house 2") & (table.rule == "on above 10 W")]
    trace = figures.REFIT[0].read(tmp_path)
    on = trace.power > 10
    changes = np.abs(np.diff(on.astype(int), axis=0)).sum()
    assert rows.sparsity.item() == pytest.approx(1 - changes / (on.shape[1] * (len(trace) - 1)))


def recording(seed=0):
    """Two days of minutes around the cut, circuits with power."""
    home = hm.synth.ready_home("redd-like")
    start = "2011-04-29T00:00Z"
    trace = hm.synth.trace(home, 4 * 1440, interval_s=60.0, start=start, seed=seed)
    return hm.Trace(trace.readings, 60.0, trace.start, power=trace.power, names=trace.names)


def test_redd_learns_nothing_from_what_it_attacks(monkeypatch):
    plain = recording()
    cut = int(np.searchsorted(plain.times, np.datetime64("2011-04-30T00:00")))
    changed = np.where(np.arange(len(plain))[:, None] < cut, plain.power, 3 * plain.power)
    other = hm.Trace(plain.readings, 60.0, plain.start, power=changed, names=plain.names)
    found = []
    for trace in (plain, other):
        monkeypatch.setattr(figures, "read_segment", lambda name, data, trace=trace: trace)
        found.append(figures.find_building(Setting()))
    first, second = found
    assert first.case.home.to_toml() == second.case.home.to_toml()
    np.testing.assert_array_equal(first.case.train.readings, second.case.train.readings)
    assert not np.array_equal(first.case.test.readings, second.case.test.readings)
    assert first.case.train.times[-1] < np.datetime64("2011-04-30T00:00")
    assert first.case.test.times[0] >= np.datetime64("2011-04-30T00:00")
    assert len(first.case.home) <= 7
    assert first.case.home.tolerance == 20.0


def test_the_truth_of_the_attacked_part_uses_the_thresholds_learnt():
    trace = recording()
    learnt = hm.learn_home(trace[:3000], denoised=True)
    labelled = figures.label_circuits(trace[3000:], learnt)
    thresholds = {circuit.name: circuit.threshold for circuit in learnt.circuits}
    for i, name in enumerate(labelled.names):
        np.testing.assert_array_equal(
            labelled.states[:, i], labelled.power[:, i] > thresholds[name]
        )


def test_the_busiest_circuits_switch_and_use_most():
    trace = recording()
    learnt = hm.learn_home(trace, denoised=True)
    energy = dict(zip(trace.names, trace.power.sum(axis=0), strict=True))
    chosen = figures.busiest_circuits(trace, learnt, 3)
    assert len(chosen) == 3
    assert min(energy[n] for n in chosen) >= max(
        energy[n] for n in learnt.home.names if n not in chosen
    )


def test_real_homes_of_the_figures(shared_data):
    setting = Setting(data=shared_data, readings=600, seeds=2)
    for find, count, name in (
        (figures.find_eight, 8, "REFIT house 2"),
        (figures.find_thirteen, 13, "Tracebase"),
        (figures.find_building, 7, "REDD building 1"),
    ):
        found = find(setting)
        if not found.real:
            pytest.skip(f"the set of {name} is absent from {shared_data}")
        assert len(found.case.home) == count
        assert name in found.words
        assert len(found.case.test) == 600


def test_the_assumptions_hold_for_part_of_a_real_home(shared_data):
    found = figures.find_concentrated(Setting(data=shared_data))
    if found is None:
        pytest.skip(f"Tracebase is absent from {shared_data}")
    check = found.case.home.check(found.case.test)
    assert (check.sparse, check.bounded, check.concentrated) == (True, True, True)
    assert found.failing == ""
    assert figures.find_eight(Setting(data=shared_data)).failing == "Assumptions 2 and 3"


def test_real_table_1(shared_data):
    made = reproduce("table1", Setting(data=shared_data))
    if "REDD building 1" not in set(made.table.data):
        pytest.skip(f"REDD is absent from {shared_data}")
    found = made.table.set_index(["data", "rule"]).sparsity
    assert found["REDD building 1", "on above 10 W"] == pytest.approx(0.9993, abs=5e-5)
    assert found["REDD building 1", "on above 1 W"] == pytest.approx(0.9876, abs=5e-5)


def test_each_attacker_is_trained_once_for_all_cells(monkeypatch):
    from hushmeter.attack.base import Hold

    calls = []
    fit = Hold.fit
    monkeypatch.setattr(Hold, "fit", lambda self, trace: calls.append(1) or fit(self, trace))
    from hushmeter.apps.study.sweep import Contender, Study

    case = figures.find_eight(Setting(readings=240)).case
    study = Study("once", (case,), (Contender("hold", "hold"),), epsilons=(1.0, 0.1), seeds=3)
    assert len(sweep(study)) == 6
    assert len(calls) == 1
