from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.study.comparison import Comparison, fit_breakpoints, rank_by_slope
from hushmeter.study.definition import Case, Contender, split_trace
from hushmeter.study.figures import EPSILONS, Setting, attackers, compare
from hushmeter.study.figures.attackers import check_statements
from hushmeter.study.figures.sources import Source


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
    first, second = found.tell_robustness()
    assert first[0] == "slope, a"
    assert second[1].startswith("α -0.")
    assert found.interval("a") == pytest.approx((0.8, 0.8))
    assert found.tell("a") == "0.800 [0.800, 0.800]"


def test_the_table_of_robustness_has_slopes_breaks_and_limits():
    found = made_up({"a": 0.8, "b": 0.9}, {"a": 0.1, "b": 0.4})
    x = -np.log(EPSILONS)
    # The curves of `made_up` are flat up to the fourth ε and straight from there.
    limit = 1 - 0.03 * np.maximum(x - x[3], 0)
    table = found.robustness({"limit": limit}).set_index(["name", "measure"])
    assert table.index.tolist() == [
        ("a", "alpha"), ("a", "f1"), ("b", "alpha"), ("b", "f1"), ("limit", "alpha"),
    ]  # fmt: skip
    step = x[1] - x[0]
    np.testing.assert_allclose(table.slope["b", "alpha"], -0.4 / 6 / step, rtol=0.1)
    np.testing.assert_allclose(table.slope["b", "f1"], -0.2 / 6 / step, rtol=0.1)
    np.testing.assert_allclose(table.slope["limit", "alpha"], -0.03, rtol=0.1)
    for name in ("a", "b", "limit"):
        row = table.loc[name, "alpha"]
        assert row.break_1_low <= row.break_1 <= row.break_1_high
        assert row.slope_low <= row.slope <= row.slope_high
        places = abs(np.log([row.break_1, row.break_2]) + x[3])
        # One of the two breaks is the only real one; the other one may be anywhere.
        assert places.min() < 0.25


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
        ({}, {"CO": 0.0}, "each is piecewise linear in ln(1/ε)"),
    ],
)
def test_every_statement_can_fail(levels, falls, broken):
    found = made_up(AS_PRINTED | levels, FALLS | falls)
    assert broken in [one.words for one in check_statements(found) if not one.holds]


def test_overlapping_intervals_leave_a_statement_undecided():
    found = made_up(AS_PRINTED, FALLS)
    spread = found.table.seed.map({0: -0.05, 1: 0.0, 2: 0.05})
    table = found.table.assign(alpha=found.table.alpha + spread)
    verdicts = {one.words: one.holds for one in check_statements(Comparison(table))}
    # α 0.95 against 0.93, 0.90 against 0.86: the intervals have a half-width of 0.12
    for words in ("Sparse-HMM is best", "ALIP beats IP"):
        assert verdicts[words] is None


def spread_rnn(found, level, half):
    """The same rows with three training runs of the RNN at `level` and `half` around it."""
    rnn = found.table.attacker == "RNN"
    spread = found.table.seed.map({0: -half, 1: 0.0, 2: half}) + level - 0.88
    return Comparison(found.table.assign(alpha=found.table.alpha + spread.where(rnn, 0.0)))


def test_a_training_run_does_not_decide_a_statement():
    found = spread_rnn(made_up(AS_PRINTED, FALLS), 0.88, 0.05)
    verdicts = {one.words: one for one in check_statements(found)}
    # The interval of the RNN is 0.76 to 1.00: it may be the first or the last of the seven, and
    # Sparse-HMM, whose mean is the largest, is not certainly the best.
    assert verdicts["RNN is ordinary"].holds is None
    assert "place between 1 and 7 of 7" in verdicts["RNN is ordinary"].because
    best = verdicts["Sparse-HMM is best"]
    assert best.holds is None
    assert "RNN 0.880 [0.756, 1.004]" in best.because
    # A sharp interval decides both.
    verdicts = {one.words: one.holds for one in check_statements(made_up(AS_PRINTED, FALLS))}
    assert verdicts["RNN is ordinary"] is True
    assert verdicts["Sparse-HMM is best"] is True


def test_robustness_by_accuracy_alone_is_named():
    found = made_up(AS_PRINTED, FALLS)
    steep = found.table.attacker.isin(["ALIP", "IP"])
    fall = 0.2 * np.log(10 / found.table.epsilon)
    table = found.table.assign(f1=found.table.f1 - fall.where(steep, 0.0))
    words = "ALIP and IP are more robust than Sparse-HMM and multi-shot"
    for rows, verdict in ((found.table, "holds"), (table, "holds by α, not by F1")):
        (one,) = [one for one in check_statements(Comparison(rows)) if one.words == words]
        assert one.verdict == verdict
        assert "slopes of F1: ALIP" in one.because


def test_training_runs_of_the_rnn_become_one_attacker(monkeypatch):
    home = hm.synth.ready_home("redd-like")
    source = Source(Case("x", home, None, None), "x", "x", real=False)
    levels = {"CO": 0.8, "RNN 0": 0.7, "RNN 1": 0.8, "RNN 2": 0.9, "FHMM": 0.6}
    rows = made_up(levels, {}).table.assign(home="x", mechanism="laplace")
    nets = rows.attacker.str.startswith("RNN")
    monkeypatch.setattr(
        attackers, "compare", lambda *_, seeds=None: Comparison(rows[nets if seeds else ~nets])
    )
    found = attackers.compare_all(source, Setting())
    # In the order of the paper's list, so that the seven have the seven colours.
    assert found.names == ["RNN", "CO", "FHMM"]
    assert found.mean("RNN") == pytest.approx(0.8)
    low, high = found.interval("RNN")
    assert high - low == pytest.approx(2 * 4.3027 * 0.1 / 3**0.5, rel=1e-4)


def test_the_authors_programs_need_their_loads():
    assert attackers.authors_programs(hm.synth.ready_home("similar8")) == ()
    names = [*attackers.AUTHORS_RATINGS, "lighting"]
    home = hm.Home([hm.Appliance(name, 100.0 + 10 * i) for i, name in enumerate(names)], 20.0)
    alip, ip = attackers.authors_programs(home)
    readings = [0.0, 186.0, 186.0, 186.0 + 1096, 186.0 + 1096, 186.0 + 1096, 186.0]
    for one in (alip, ip):
        states = hm.attackers[one.name](home, **one.parameters).predict(readings)
        assert states[4].tolist() == [True, True, False, False, False]


def test_an_attacker_that_fails_is_left_out_and_reported():
    home = hm.synth.ready_home("similar8")
    train, test = split_trace(hm.synth.trace(home, 480, 0.98), 0.5)
    case = Case("home", home, train, test)
    broken = Contender("broken", "co", {"no_such_parameter": 1})
    found = compare(case, Setting(seeds=2), (Contender("hold", "hold"), broken))
    assert set(found.table.attacker) == {"hold"}
    assert found.failed[0].startswith("broken cannot be trained: ")
    with pytest.raises(DataError, match="every attacker failed"):
        compare(case, Setting(seeds=2), (broken,))


EPSILON = np.geomspace(10, 1e-3, 16)
X = -np.log(EPSILON)


def broken_line(x, first=1.0, second=5.0, top=0.95, slope=-0.12):
    return top + slope * (np.maximum(x - first, 0) - np.maximum(x - second, 0))


def sigmoid(x, low, high, middle, width):
    return low + (high - low) / (1 + np.exp((x - middle) / width))


def test_known_break_points_are_found_within_their_intervals(rng):
    rows = broken_line(X) + rng.normal(0, 0.004, (8, X.size))
    fit = fit_breakpoints(EPSILON, rows)
    for found, true in zip(fit.breaks, (1.0, 5.0), strict=True):
        assert found.value == pytest.approx(true, abs=0.25)
        assert found.low <= found.value <= found.high
    assert [s.value for s in fit.slopes] == pytest.approx([0, -0.12, 0], abs=0.01)
    assert fit.steepest.value == pytest.approx(-0.12, abs=0.01)
    assert fit.better == "piecewise"
    np.testing.assert_allclose(fit.values, broken_line(X), atol=0.01)


def test_one_break():
    fit = fit_breakpoints(EPSILON, broken_line(X, second=99.0), breaks=1)
    assert fit.breaks[0].value == pytest.approx(1.0, abs=0.1)
    assert len(fit.slopes) == 2


def test_a_sigmoid_is_called_one(rng):
    rows = sigmoid(X, 0.5, 0.95, 2.0, 0.9) + rng.normal(0, 0.001, (6, X.size))
    fit = fit_breakpoints(EPSILON, rows)
    assert fit.better == "sigmoid"
    # a second opinion on the sigmoid's own fit
    mean = rows.mean(axis=0)
    parameters, _ = curve_fit(sigmoid, X, mean, p0=(0.5, 1, 2, 1))
    error = ((mean - sigmoid(X, *parameters)) ** 2).sum()
    assert fit.sigmoid_bic <= 16 * np.log(error / 16) + 4 * np.log(16) + 1e-3


def test_no_line_through_the_same_breaks_is_better(rng):
    """The fit is the least-squares one: moving any coefficient makes it worse."""
    rows = broken_line(X) + rng.normal(0, 0.02, (3, X.size))
    fit = fit_breakpoints(EPSILON, rows, bootstrap=20)
    mean = rows.mean(axis=0)
    hinges = [np.maximum(X - b.value, 0) for b in fit.breaks]
    basis = np.stack([np.ones_like(X), X, *hinges], axis=1)
    best = ((mean - fit.values) ** 2).sum()
    for column in basis.T:
        for step in (-1e-3, 1e-3):
            assert ((mean - fit.values - step * column) ** 2).sum() > best


def test_attackers_are_ranked_from_robust_to_fragile():
    fits = {
        name: fit_breakpoints(EPSILON, broken_line(X, slope=slope), bootstrap=10)
        for name, slope in {"steep": -0.2, "flat": -0.01, "middle": -0.1}.items()
    }
    assert rank_by_slope(fits) == ["flat", "middle", "steep"]


def test_the_order_of_epsilon_does_not_matter(rng):
    rows = broken_line(X) + rng.normal(0, 0.01, (3, X.size))
    order = rng.permutation(X.size)
    one = fit_breakpoints(EPSILON, rows, bootstrap=30)
    other = fit_breakpoints(EPSILON[order], rows[:, order], bootstrap=30)
    assert one.breaks == other.breaks


@pytest.mark.parametrize(
    ("epsilon", "accuracy", "message"),
    [
        (EPSILON[:4], np.ones(4), "at least 6 different values"),
        (np.full(8, 1.0), np.ones(8), "at least 6 different values"),
        (EPSILON, np.ones(3), "accuracy has shape"),
        (-EPSILON, np.ones(16), "epsilon must be positive"),
        (EPSILON, np.full(16, np.nan), "accuracy must be finite"),
    ],
)
def test_bad_input_is_one_sentence(epsilon, accuracy, message):
    with pytest.raises(ValueError, match=message):
        fit_breakpoints(epsilon, accuracy)


def test_other_numbers_of_breaks_are_refused():
    with pytest.raises(ValueError, match="breaks must be one of 1, 2"):
        fit_breakpoints(EPSILON, np.ones(16), breaks=3)
