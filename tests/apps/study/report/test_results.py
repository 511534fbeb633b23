"""The results that are found in folders, and how visible every appliance is in a sweep."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.apps.study.report.page import (
    WITHOUT_DATA,
    ApplianceVisibility,
    BestAttack,
    SweepResult,
    collect_results,
    rate_appliances,
    reading,
)
from hushmeter.apps.study.sweep import Case, Contender, Study
from hushmeter.errors import DataError

CAPTION = (
    "fig5 on the synthetic stand-in “similar8”.\nThe paper: this; and that.\n"
    "Here: other. At ε = 1: 2.\nVerdict: in part: why\n"
)


@pytest.fixture
def folder(swept, tmp_path):
    return shutil.copytree(swept, tmp_path / "swept")


def test_a_sweep_is_found_with_its_study(swept):
    found = collect_results([swept])
    (sweep,) = found.sweeps
    assert sweep.study.name == "small"
    assert sweep.case("three & more").home.names[0] == "kettle"
    assert sweep.case("nobody") is None
    assert sweep.failed == ()
    assert not found.items


def test_the_study_may_be_named_apart_or_be_missing(swept):
    assert collect_results([swept / "results"]).sweeps[0].study is None
    both = collect_results([swept / "results", swept / "study.toml"])
    assert both.sweeps[0].study is not None
    assert len(collect_results([swept, swept / "results"]).sweeps) == 1


def test_a_study_with_other_readings_is_not_taken(folder):
    study = folder / "study.toml"
    study.write_text(study.read_text().replace("seed = 3", "seed = 4"))
    assert collect_results([folder]).sweeps[0].study is None
    study.write_text(study.read_text().replace("seed = 4", "seed = 3").replace("300", "301"))
    assert collect_results([folder]).sweeps[0].study is None
    study.write_text("not = [toml")
    assert collect_results([folder]).sweeps[0].study is None


def test_captions_and_answers_are_recognised_by_what_they_hold(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "inner" / "fig5.txt").write_text(CAPTION, encoding="utf-8")
    (tmp_path / ".hidden" / "fig5.txt").write_text(CAPTION, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("nothing of ours")
    (tmp_path / "other.json").write_text("[1, 2]")
    (tmp_path / "b.json").write_text('{"schema": "hushmeter-battery-1"}')
    (tmp_path / "r.json").write_text('{"schema": "hushmeter-receipt-3"}')
    found = collect_results([tmp_path])
    (item,) = found.items
    assert str(item.words) == CAPTION
    assert item.words.verdict == "in part"
    assert (len(found.batteries), len(found.receipts), len(found.prices)) == (1, 1, 0)


def damage(folder, kind):
    results = folder / "results" / "results.parquet"
    if kind == "torn":
        results.write_bytes(results.read_bytes()[:900])
    elif kind == "foreign":
        pd.DataFrame({"a": [1]}).to_parquet(results)
    elif kind == "failed":
        pd.DataFrame({"home": ["x"], "error": ["ValueError: no."]}).to_parquet(results)
    elif kind == "no manifest":
        (folder / "results" / "manifest.json").unlink()
    elif kind == "bad manifest":
        (folder / "results" / "manifest.json").write_text("{")
    elif kind == "short manifest":
        (folder / "results" / "manifest.json").write_text("{}")
    elif kind == "unfinished":
        results.unlink()
    elif kind == "later":
        (folder / "b.json").write_text('{"schema": "hushmeter-battery-7"}')
    elif kind == "no caption":
        (folder / "fig5.txt").write_text(CAPTION.replace("Verdict", "V"), encoding="utf-8")
    elif kind == "no letters":
        (folder / "fig5.txt").write_bytes(b"fig5 on \xff\xfe.\n")
    else:
        (folder / "b.json").write_text("not json")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("torn", "results.parquet cannot be read .*run the sweep again"),
        ("foreign", "is not the result of a sweep: it has no column 'home'"),
        ("failed", "every cell of .* failed: ValueError: no"),
        ("no manifest", "has no manifest.json beside it"),
        ("bad manifest", "manifest.json is not a JSON file"),
        ("short manifest", "manifest.json is damaged or incomplete"),
        ("unfinished", "is not finished: continue it with --resume"),
        ("later", "has the schema hushmeter-battery-7, which this version does not know"),
        ("no caption", "fig5.txt is not a caption of `hushmeter reproduce`"),
        ("no letters", "fig5.txt is not a caption of `hushmeter reproduce`"),
        ("not json", "b.json is not a JSON file: write it again"),
    ],
)
def test_damage_is_reported_in_one_sentence(folder, kind, message):
    damage(folder, kind)
    with pytest.raises(DataError, match=message) as caught:
        collect_results([folder])
    assert "\n" not in str(caught.value)


def test_nothing_at_all(tmp_path):
    with pytest.raises(DataError, match="there are no results in"):
        collect_results([tmp_path])
    with pytest.raises(DataError, match="does not exist: name a folder or a file"):
        collect_results([tmp_path / "none"])


def test_an_incomplete_answer_is_reported_with_its_name(tmp_path):
    told = r"b.json is damaged or incomplete \(KeyError: 'unit'\)"
    with pytest.raises(DataError, match=told), reading(tmp_path / "b.json"):
        json.loads("{}")["unit"]
    with pytest.raises(DataError, match="my own words"), reading(tmp_path):
        raise DataError("my own words")


@pytest.fixture(scope="module")
def sweep(swept):
    return collect_results([swept]).sweeps[0]


def test_the_guess_is_the_best_without_data(sweep):
    truth = sweep.study.cases[0].test.truth()
    on = truth.mean(axis=0)
    first = (truth == truth[0]).mean(axis=0)
    rows = rate_appliances(sweep, "three & more", "laplace")
    expected = np.maximum(np.maximum(on, 1 - on), first)
    np.testing.assert_allclose([row.guess for row in rows], expected, atol=1e-12)


def test_the_best_attacker_is_the_one_of_the_table(sweep):
    table = sweep.table.query("mechanism == 'laplace' and attacker in ('co', 'bayes')")
    for row in rate_appliances(sweep, "three & more", "laplace"):
        for epsilon, found in row.best.items():
            at = table[table.epsilon == epsilon]
            means = {
                name: part[f"alpha {row.name}"].sum() / len(part)
                for name, part in at.groupby("attacker")
            }
            expected = max(*means.values(), row.guess)
            assert found.right == pytest.approx(expected, abs=1e-12)
            means[WITHOUT_DATA] = row.guess
            assert means[found.attacker] == pytest.approx(expected, abs=1e-12)
            assert found.right - row.guess == pytest.approx(found.visibility * (1 - row.guess))
            assert found.visibility >= 0


def test_epsilons_go_from_little_to_much_protection(sweep):
    row = rate_appliances(sweep, "three & more", "laplace")[0]
    assert list(row.best) == sorted(sweep.study.epsilons, reverse=True)


def test_followed_down_to_the_last_epsilon_in_a_row():
    def attacks(*seen):
        return {
            e: BestAttack(0.9, "co", v) for e, v in zip((10.0, 3.0, 1.0, 0.3), seen, strict=True)
        }

    assert ApplianceVisibility("a", 0.5, attacks(0.9, 0.8, 0.1, 0.9)).followed_down_to == 3.0
    assert ApplianceVisibility("a", 0.5, attacks(0.5, 0.8, 0.8, 0.8)).followed_down_to is None
    assert ApplianceVisibility("a", 0.5, attacks(*[0.6] * 4)).followed_down_to == 0.3


def test_an_appliance_that_never_switches_needs_no_data(tmp_path):
    home = hm.synth.ready_home("similar8").subset(["lamp", "fridge"])
    states = np.zeros((40, 2), bool)
    states[::3, 0] = True
    trace = hm.Trace(states @ home.powers, 6.0, states=states, names=home.names)
    case = Case("still", home, trace, trace)
    study = Study("s", (case,), (Contender("co", "co"),), epsilons=(1.0, 0.02), seeds=1)
    manifest = {"attackers": [{"label": "co", "name": "co"}]}
    table = hm.sweep(study)
    lamp, fridge = rate_appliances(
        SweepResult(tmp_path, table, manifest, (), None), "still", "laplace"
    )
    assert fridge.guess == 1.0
    assert np.isnan(fridge.best[1.0].visibility)
    assert lamp.guess == pytest.approx(26 / 40)
    clear = SweepResult(tmp_path, table[table.epsilon == 1.0], manifest, (), None)
    (lamp, _) = rate_appliances(clear, "still", "laplace")
    assert np.isnan(lamp.guess)
    assert lamp.best[1.0].visibility == lamp.best[1.0].right == 1.0
    assert lamp.followed_down_to == 1.0
