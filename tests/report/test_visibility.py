from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.report.collect import Saved, SweepResult, collect_results
from hushmeter.report.visibility import (
    WITHOUT_DATA,
    ApplianceVisibility,
    BestAttack,
    rate_appliances,
)
from hushmeter.study.definition import Case, Contender, Study


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


def test_a_measured_guess_from_habits_counts(sweep, tmp_path):
    habits = {"schema": "x", "home": "three & more", "alpha": {"kettle": 0.999, "<script>": 0.1}}
    kettle, other, _ = rate_appliances(
        sweep, "three & more", "laplace", [Saved(tmp_path / "guess.json", habits)]
    )
    assert kettle.guess == 0.999
    assert other.guess > 0.1
    elsewhere = Saved(tmp_path / "guess.json", {**habits, "home": "another"})
    assert rate_appliances(sweep, "three & more", "laplace", [elsewhere])[0].guess < 0.999


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
