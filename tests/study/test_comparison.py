from __future__ import annotations

import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.study.figures.attackers import check_statements
from hushmeter.study.figures.comparison import Comparison, compare
from hushmeter.study.figures.item import EPSILONS, Setting
from hushmeter.study.plan import Case, Contender, split_trace


def made_up(levels, falls):
    """Rows of attackers whose α falls by `falls` over the last six ε."""
    rows = []
    for name, level in levels.items():
        for i, epsilon in enumerate(EPSILONS):
            alpha = level - falls.get(name, 0.0) * max(0, i - 3) / 6
            for seed in range(3):
                rows.append(
                    {"attacker": name, "epsilon": epsilon, "seed": seed, "alpha": alpha,
                     "f1": alpha / 2, "alpha_floor": 0.7, "hold_floor": 0.6}
                )  # fmt: skip
    return Comparison(pd.DataFrame(rows))


AS_PRINTED = {"Sparse-HMM": 0.95, "multi-shot": 0.93, "ALIP": 0.9, "RNN": 0.88, "IP": 0.86,
              "CO": 0.8, "FHMM": 0.78}  # fmt: skip


def test_ranks_means_and_slopes():
    found = made_up({"a": 0.8, "b": 0.9, "all-off": 0.7}, {"a": 0.1, "b": 0.4})
    assert found.names == ["a", "b"]
    assert found.rank() == ["b", "a"]
    assert found.floor == pytest.approx(0.7)
    assert found.mean("b", epsilon=EPSILONS[-1]) == pytest.approx(0.5)
    assert found.list_means() == "b 0.900, a 0.800"
    assert found.list_slopes().startswith("a -")


FALLS = {"Sparse-HMM": 0.5, "multi-shot": 0.5, "IP": 0.1, "ALIP": 0.1, "RNN": 0.2, "CO": 0.05,
         "FHMM": 0.05}  # fmt: skip


def test_every_statement_of_the_paper_can_hold():
    found = made_up(AS_PRINTED, FALLS)
    assert [one.words for one in check_statements(found) if not one.holds] == []


@pytest.mark.parametrize(
    ("levels", "falls", "broken"),
    [
        ({"Sparse-HMM": 0.7}, {}, "Sparse-HMM is best"),
        ({"ALIP": 0.82}, {}, "ALIP beats IP"),
        ({}, {"IP": 0.6}, "ALIP and IP are more robust than Sparse-HMM and multi-shot"),
        ({"CO": 0.94, "Sparse-HMM": 0.93}, {}, "CO and FHMM are weaker than Sparse-HMM"),
        ({"RNN": 0.99}, {}, "RNN is ordinary"),
        ({}, {"CO": 0.0}, "piecewise linear in ln(1/ε)"),
    ],
)
def test_every_statement_can_fail(levels, falls, broken):
    found = made_up(AS_PRINTED | levels, FALLS | falls)
    assert broken in [one.words for one in check_statements(found) if not one.holds]


def test_an_attacker_that_fails_is_left_out_and_told():
    home = hm.synth.ready_home("similar8")
    train, test = split_trace(hm.synth.trace(home, 480, 0.98), 0.5)
    case = Case("home", home, train, test)
    broken = Contender("broken", "co", {"no_such_parameter": 1})
    found = compare(case, Setting(seeds=2), (Contender("hold", "hold"), broken))
    assert set(found.table.attacker) == {"hold"}
    assert "broken (" in found.failed[0]
    with pytest.raises(DataError, match="every attacker failed"):
        compare(case, Setting(seeds=2), (broken,))
