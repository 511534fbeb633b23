from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.apps.study.sweep import (
    KEYS,
    Case,
    Contender,
    Study,
    measure_utility,
    parse_epsilons,
    read_study,
    run_study,
    split_trace,
    sweep,
)
from hushmeter.files import write_table
from tests.attack.test_registry import OWN

STUDY = """
name = "small"
seed = 3
seeds = 2
epsilon = [10, 0.1]
mechanism = ["laplace", "gaussian"]

[[case]]
home = "similar8"
readings = 200
sparsity = 0.98

[[attacker]]
name = "multi-shot"

[[attacker]]
name = "hierarchical"
label = "exact"
parameters = { solver = "exact", direction = "signed" }
"""

STUDY_OF_ONE = """
[[case]]
home = "similar8"
readings = 200

[[attacker]]
name = "fhmm"
{line}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


def without_time(table):
    return table.drop(columns="seconds")


def test_one_row_per_cell_with_scores_and_utility(path):
    table = sweep(path)
    assert len(table) == 2 * 2 * 2 * 2
    assert not table.duplicated(list(KEYS)).any()
    wanted = {"alpha", "alpha_floor", "f1", "balanced_accuracy", "seconds", "hourly_error_w"}
    assert wanted <= set(table.columns)
    assert {f"visibility {n}" for n in hm.synth.ready_home("similar8").names} <= set(table.columns)
    loud, quiet = (table[table.epsilon == e] for e in (0.1, 10))
    assert loud.hourly_error_w.mean() > 10 * quiet.hourly_error_w.mean()
    exact = quiet[quiet.attacker == "exact"]
    assert exact.alpha.mean() > exact.alpha_floor.mean()


def test_a_row_is_what_the_library_gives(path):
    study = read_study(path)
    case = study.cases[0]
    row = sweep(study).query("attacker == 'exact' and mechanism == 'laplace'").iloc[0]
    unit = hm.resolve_unit("fluctuation", interval_s=6.0, home=case.home)
    mechanism = hm.calibrate("laplace", 10.0, unit)
    noise = np.random.default_rng(np.random.SeedSequence((3, 0, 0, 0, 0)))
    released = mechanism.release(case.test.readings, rng=noise)
    attacker = hm.attackers["hierarchical"](case.home, solver="exact", direction="signed")
    states = attacker.predict(released)
    assert row.alpha == hm.score(states, case.test).alpha


def test_all_attackers_see_the_same_release(path):
    table = sweep(path)
    errors = table.groupby(["mechanism", "epsilon", "seed"]).reading_error_w.nunique()
    assert (errors == 1).all()


def test_results_are_the_same_for_any_number_of_workers(path):
    one, two = (without_time(sweep(path, jobs=n)) for n in (1, 2))
    pd.testing.assert_frame_equal(one, two)


def test_results_are_the_same_on_a_dask_cluster(path):
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    alone = without_time(sweep(path))
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        there = sweep(path, executor=client.get_executor())
    pd.testing.assert_frame_equal(without_time(there), alone)


def test_a_killed_sweep_goes_on_where_it_stopped(path, tmp_path):
    class PowerCutError(Exception):
        pass

    def stop(row, left):
        if left == 10:
            raise PowerCutError

    out = tmp_path / "out"
    with pytest.raises(PowerCutError):
        run_study(path, out, jobs=1, resume=False, report=stop)
    log = out / "cells.jsonl"
    kept = log.read_text().splitlines()
    assert 0 < len(kept) < 16
    log.write_text("\n".join(kept) + '\n{"home": "torn')
    fresh = []
    table = run_study(path, out, jobs=1, resume=True, report=lambda row, left: fresh.append(row))
    assert len(fresh) == 16 - len(kept)
    pd.testing.assert_frame_equal(without_time(table), without_time(sweep(path)))
    stored = pd.read_parquet(out / "results.parquet")
    pd.testing.assert_frame_equal(without_time(stored), without_time(table), check_dtype=False)


def test_an_earlier_sweep_is_not_mixed_with_another(path, tmp_path):
    out = tmp_path / "out"
    run_study(path, out, jobs=1, resume=False)
    for resume in (False, True):
        with pytest.raises(hm.errors.DataError, match="contains a finished sweep; name another"):
            run_study(path, out, jobs=1, resume=resume)
    (out / "results.parquet").unlink()
    with pytest.raises(hm.errors.DataError, match="contains a stopped sweep; add --resume"):
        run_study(path, out, jobs=1, resume=False)
    path.write_text(STUDY.replace("seed = 3", "seed = 4"))
    with pytest.raises(hm.errors.DataError, match="cells of another study"):
        run_study(path, out, jobs=1, resume=True)


@pytest.mark.parametrize("what", ["delta", "tolerance"])
def test_whatever_changes_the_noise_makes_another_study(path, tmp_path, what):
    """Neither the δ of the Gaussian nor a home's tolerance shows in the readings."""
    home, out = hm.synth.ready_home("similar8"), tmp_path / "out"
    home.save(tmp_path / "home.toml")
    text = STUDY.replace('home = "similar8"', 'home = "home.toml"')
    trace = hm.synth.trace(home, 400, 0.98, seed=1)
    columns = {"timestamp": trace.times, "watts": trace.readings}
    write_table(tmp_path / "m.csv", columns | dict(zip(home.names, trace.power.T, strict=True)))
    text = text.replace("readings = 200\nsparsity = 0.98", 'data = "m.csv"')
    path.write_text("delta = 1e-5\n" + text)
    run_study(path, out, jobs=1, resume=False)
    (out / "results.parquet").unlink()
    if what == "delta":
        path.write_text("delta = 1e-7\n" + text)
    else:
        wider = hm.Home(home.appliances, 2 * home.tolerance, name=home.name)
        wider.save(tmp_path / "home.toml", force=True)
    with pytest.raises(hm.errors.DataError, match="cells of another study"):
        run_study(path, out, jobs=1, resume=True)


def test_the_manifest_names_versions_and_inputs(path, tmp_path):
    run_study(path, tmp_path / "out", jobs=1, resume=False)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["versions"]["hushmeter"] == hm.__version__
    assert len(manifest["cases"][0]["test"]) == 64


def test_every_attacker_that_can_use_the_noise_knows_it_unless_the_study_says_otherwise():
    home = hm.synth.ready_home("similar8").subset(["lamp", "fridge", "hi-fi"])
    train, test = split_trace(hm.synth.trace(home, 1200, 0.99, seed=2), 0.5)
    contenders = (
        Contender("fhmm", "fhmm", {"chains": "counted"}),
        Contender("fhmm, ignorant", "fhmm", {"chains": "counted"}, knows_noise=False),
        Contender("bayes", "bayes", knows_noise=True),
        Contender("bayes, ignorant", "bayes", knows_noise=False),
    )
    study = Study(
        "noise", (Case("home", home, train, test),), contenders, epsilons=(0.03,), seeds=2
    )
    alpha = sweep(study).groupby("attacker").alpha.mean()
    assert alpha["fhmm"] > alpha["fhmm, ignorant"]
    assert alpha["bayes"] > alpha["bayes, ignorant"]
    with pytest.raises(ValueError, match="hold cannot use the noise distribution"):
        Study("x", study.cases, (Contender("hold", "hold", knows_noise=True),))


@pytest.mark.parametrize(
    ("line", "knows"),
    [
        ("", None),
        ("knows_noise = true", True),
        ("knows_noise = false", False),
    ],
)
def test_a_study_file_says_who_knows_the_noise(tmp_path, line, knows):
    text = STUDY_OF_ONE.format(line=line)
    (tmp_path / "study.toml").write_text(text)
    assert read_study(tmp_path / "study.toml").contenders[0].knows_noise is knows


def test_a_study_file_that_does_not_say_clearly_who_knows_the_noise_is_refused(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY_OF_ONE.format(line="knows_noise = 1"))
    with pytest.raises(ValueError, match="knows_noise of the attacker fhmm must be true or false"):
        read_study(tmp_path / "study.toml")


@pytest.mark.parametrize("name", ["multi-shot", "hierarchical"])
def test_the_papers_attackers_know_the_noise_too(name):
    home = hm.synth.ready_home("evening")
    train, test = split_trace(hm.synth.trace(home, 1200, 0.99, seed=2), 0.5)
    contenders = (Contender("knows", name), Contender("ignorant", name, knows_noise=False))
    study = Study("noise", (Case("home", home, train, test),), contenders, epsilons=(0.1,), seeds=1)
    knows, ignorant = sweep(study).set_index("attacker").alpha[["knows", "ignorant"]]
    unit = hm.resolve_unit("fluctuation", interval_s=6.0, home=home)
    mechanism = hm.calibrate("laplace", 0.1, unit)
    place = (0, 0, 0, 0, 0)
    noise, rounding = (
        np.random.default_rng(np.random.SeedSequence(p)) for p in (place, (*place, 0))
    )
    noisy = test.replace_readings(mechanism.release(test.readings, rng=noise))
    attacker = hm.attackers[name](home, mechanism=mechanism)
    states = attacker.predict(noisy, rng=rounding)
    assert knows == hm.score(states, test).alpha
    assert knows != ignorant


def test_one_failed_cell_does_not_stop_the_rest():
    home = hm.synth.ready_home("similar8")
    train, test = split_trace(hm.synth.trace(home, 300, 0.98), 0.5)
    bare = hm.Trace(train.readings, 6.0)
    study = Study(
        "half broken",
        (Case("good", home, train, test), Case("no truth", home, bare, test)),
        (Contender("hold", "hold"),),
        epsilons=(1.0,),
        seeds=1,
    )
    table = sweep(study)
    assert table.set_index("home").alpha.notna().to_dict() == {"good": True, "no truth": False}
    assert "hold cannot be trained: " in table.error.dropna().iloc[0]


def test_real_data_in_a_study(tmp_path):
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 600, seed=1)
    columns = {"timestamp": trace.times, "watts": trace.readings}
    columns |= dict(zip(home.names, trace.power.T, strict=True))
    write_table(tmp_path / "meter.parquet", columns)
    home.save(tmp_path / "home.toml")
    (tmp_path / "study.toml").write_text(
        'epsilon = 1.0\nseeds = 1\n[[case]]\nhome = "home.toml"\ndata = "meter.parquet"\n'
        'train = 0.25\n[[attacker]]\nname = "all-off"\n'
    )
    study = read_study(tmp_path / "study.toml")
    assert len(study.cases[0].train) == 150
    assert len(sweep(study)) == 1


def test_epsilons_in_all_spellings():
    assert parse_epsilons("0.1:10:3") == [0.1, 1.0, 10.0]
    assert parse_epsilons([1, 2.5]) == [1.0, 2.5]
    assert parse_epsilons(3) == [3.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon = [10, 0.1]", "epsilon = [0]"), "epsilon must be positive"),
        (("epsilon = [10, 0.1]", 'epsilon = "1:2"'), "LO:HI:COUNT"),
        (('mechanism = ["laplace", "gaussian"]', 'mechanism = "uniform"'), "mechanism must be one"),
        (('name = "multi-shot"', 'name = "multishot"'), "did you mean 'multi-shot'"),
        (('home = "similar8"', 'hme = "similar8"'), "did you mean 'home'"),
        (('home = "similar8"', 'home = "none.toml"'), "none.toml cannot be read"),
        (('label = "exact"', 'label = "multi-shot"'), "two attackers of the study have the same"),
        (("seeds = 2", "seeds = 0"), "seeds must be a whole number"),
        (("seed = 3", "seed = -1"), "seed must be a whole number"),
        (("readings = 200", "readings = 0"), "readings must be a whole number"),
        (("readings = 200", "train = 1.5"), "train must be a share"),
        (("[[case]]", "[case]"), "case must be written as"),
        (('name = "small"', 'nme = "small"'), "did you mean 'name'"),
        (('name = "small"', "= x"), "is not a TOML file"),
    ],
)
def test_bad_studies_are_refused_in_one_sentence(path, change, message):
    path.write_text(STUDY.replace(*change, 1))
    with pytest.raises(hm.errors.DataError, match=message) as caught:
        read_study(path)
    assert "\n" not in str(caught.value)


def test_an_empty_study_or_a_missing_file(tmp_path):
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(hm.errors.DataError, match="a study needs a case"):
        read_study(tmp_path / "empty.toml")
    with pytest.raises(hm.errors.DataError, match="cannot be read"):
        read_study(tmp_path / "none.toml")


def test_utility_is_measured_hour_by_hour():
    true = hm.Trace(np.tile([1000.0, 3000.0], 60), 60.0)
    released = true.replace_readings(true.readings + 60.0)
    found = measure_utility(true, released)
    assert found.reading_error_w == found.hourly_error_w == found.peak_error_w == 60.0
    assert found.daily_error_kwh == pytest.approx(0.12 * np.sqrt(12))
    assert found.monthly_bill_error == pytest.approx(found.daily_error_kwh * np.sqrt(30) * 0.3)
    long = hm.Trace([1.0, 2.0], 7200.0)
    assert measure_utility(long, long.replace_readings([4.0, 1.0])).hourly_error_w == 2.0
    short = hm.Trace([1.0, 2.0], 60.0)
    assert measure_utility(short, short).hourly_error_w == 0.0
    with pytest.raises(ValueError, match="same interval"):
        measure_utility(true, short)


def test_attackers_know_the_first_state_only_if_the_study_says_so(tmp_path):
    home = hm.synth.ready_home("evening")
    train, test = split_trace(hm.synth.trace(home, 1200, 0.99, seed=2), 0.5)
    cases, contenders = (Case("home", home, train, test),), (Contender("hold", "hold"),)
    for knows in (False, True):
        study = Study("x", cases, contenders, epsilons=(1.0,), seeds=1, knows_first_state=knows)
        row = sweep(study).iloc[0]
        first = test.truth()[0] if knows else None
        states = hm.attackers["hold"](home).predict(test, initial_state=first)
        # What an attacker is given is not scored.
        assert row.alpha == (states == test.truth())[1 if knows else 0 :].mean()
    assert test.truth()[0].any()
    (tmp_path / "study.toml").write_text(STUDY_OF_ONE.format(line=""))
    assert read_study(tmp_path / "study.toml").knows_first_state is False


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_study_names_an_attacker_of_a_module_beside_it(tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = f"own_attackers_{jobs}"
    (tmp_path / f"{module}.py").write_text(OWN)
    text = STUDY_OF_ONE.format(line="").replace("fhmm", f"{module}:AllOn")
    path = tmp_path / "study.toml"
    path.write_text("epsilon = 1\nseeds = 1\n" + text)
    assert read_study(path).contenders[0].label == f"{module}:AllOn"
    assert module not in sys.modules, "reading a study imports nothing"
    row = run_study(path, tmp_path / "out", jobs=jobs, resume=False).iloc[0]
    assert row.alpha == pytest.approx(1 - row.alpha_floor)


def test_a_registered_attacker_is_known_to_the_workers(monkeypatch):
    monkeypatch.setattr(hm.attackers, "_registered", dict(hm.attackers._registered))

    class Registered(hm.attackers["all-off"]):
        name = "registered-in-a-test"

    hm.attackers.register(Registered)
    home = hm.synth.ready_home("similar8")
    train, test = split_trace(hm.synth.trace(home, 300, 0.98), 0.5)
    contenders = (Contender("mine", "registered-in-a-test"), Contender("all-off", "all-off"))
    cases = (Case("home", home, train, test),)
    table = sweep(Study("own", cases, contenders, epsilons=(1.0,), seeds=1), jobs=2)
    assert table.alpha.nunique() == 1


def test_an_own_attacker_that_cannot_be_found_is_one_sentence(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY_OF_ONE.format(line="").replace("fhmm", "nowhere:Nobody"))
    with pytest.raises(hm.errors.InputError, match="there is no module named 'nowhere'"):
        sweep(path)


@pytest.fixture
def recorded(tmp_path):
    """A study of a file with 1200 readings of 30 s; {lines} are keys of its case."""
    home = hm.synth.ready_home("similar8")
    trace = hm.synth.trace(home, 1200, 0.98, interval_s=30.0, seed=1)
    columns = dict(zip(home.names, trace.power.T, strict=True))
    data = {"timestamp": trace.times, "watts": trace.readings, **columns}
    write_table(tmp_path / "sub.parquet", data)

    def read(lines):
        text = STUDY_OF_ONE.format(line="").replace(
            "readings = 200", f'data = "sub.parquet"\n{lines}'
        )
        (tmp_path / "study.toml").write_text(text)
        return read_study(tmp_path / "study.toml").cases[0]

    return read


@pytest.mark.parametrize(
    ("lines", "interval_s", "length"),
    [
        ("", 30.0, 600),
        ("readings = 200", 30.0, 200),
        ("interval = '30s'", 30.0, 600),
        ("interval = '5min'", 300.0, 60),
        ("interval = '5min'\nreadings = 40", 300.0, 40),
    ],
)
def test_a_file_of_a_study_has_the_interval_and_length_of_its_case(
    recorded, lines, interval_s, length
):
    case = recorded(lines)
    assert case.test.interval_s == case.train.interval_s == interval_s
    assert (len(case.train), len(case.test)) == (length, length)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("readings = 601", "1200 readings of 30 s, but readings = 601 needs 1202"),
        ("interval = '45s'", "whole multiple of the 30 s interval"),
        ("sparsity = 0.9", "sparsity is for synthetic readings"),
    ],
)
def test_what_a_file_of_a_study_cannot_give_is_refused(recorded, lines, message):
    with pytest.raises(hm.errors.DataError, match=message):
        recorded(lines)
