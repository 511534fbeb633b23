from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

import hushmeter as hm
from hushmeter.apps.study.comparison import (
    Comparison,
    fit_breakpoints,
    judge_rate,
    local_exponents,
    rank_by_slope,
    tell_rate,
)
from hushmeter.apps.study.figures import EPSILONS, Setting, Source, attackers, compare
from hushmeter.apps.study.figures.attackers import check_statements
from hushmeter.apps.study.sweep import Case, Contender, paper_mechanism, split_trace
from hushmeter.errors import DataError
from hushmeter.privacy.units import resolve_unit
from hushmeter.scoring import count_blocks


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


def scattered(found, half, names=None):
    """The same rows, in which each attacker has its own good and bad seeds, by ±`half`."""
    places = {name: i for i, name in enumerate(dict.fromkeys(found.table.attacker))}
    turn = (found.table.attacker.map(places) + found.table.seed) % 3 - 1
    chosen = found.table.attacker.isin(names or list(places))
    return Comparison(found.table.assign(alpha=found.table.alpha + half * turn.where(chosen, 0)))


def test_a_difference_that_may_be_zero_leaves_a_statement_undecided():
    found = scattered(made_up(AS_PRINTED, FALLS), 0.05)
    verdicts = {one.words: one.holds for one in check_statements(found)}
    # α 0.95 against 0.93, 0.90 against 0.86, on seeds that differ by up to 0.1
    for words in ("Sparse-HMM is best", "ALIP beats IP"):
        assert verdicts[words] is None


def test_differences_are_paired():
    """A good or bad seed that all attackers share decides nothing about their difference."""
    found = made_up(AS_PRINTED, FALLS)
    spread = found.table.seed.map({0: -0.05, 1: 0.0, 2: 0.05})
    shared = Comparison(found.table.assign(alpha=found.table.alpha + spread))
    gap = shared.difference("ALIP", "IP")
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.04, 0.04, 0.04))
    low, high = shared.interval("ALIP")
    assert high - low == pytest.approx(0.1)
    assert shared.slope_difference("ALIP", "IP").value == pytest.approx(0.0, abs=1e-12)


def test_a_training_run_does_not_decide_a_statement():
    found = scattered(made_up(AS_PRINTED, FALLS), 0.2, ["RNN"])
    verdicts = {one.words: one for one in check_statements(found)}
    assert verdicts["RNN is ordinary"].holds is None
    assert "place between 1 and 7 of 7" in verdicts["RNN is ordinary"].because
    best = verdicts["Sparse-HMM is best"]
    assert best.holds is None
    assert "minus RNN +0.070 [" in best.because
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
    levels |= {f"{attackers.QUARTER} {k}": 0.5 for k in range(3)}
    rows = made_up(levels, {}).table.assign(home="x", mechanism="laplace")
    rows = rows[(rows.seed == 0) | ~rows.attacker.str.startswith("RNN")].reset_index(drop=True)
    monkeypatch.setattr(attackers, "find_building", lambda *_: source)
    monkeypatch.setattr(attackers, "compare", lambda *_, **__: Comparison(rows))
    _, found = attackers.compare_building.__wrapped__(Setting(), 60.0)
    assert found.names == ["CO", "RNN", "FHMM", attackers.QUARTER]
    assert found.difference("RNN", attackers.QUARTER).value == pytest.approx(0.3)
    assert found.mean("RNN") == pytest.approx(0.8)
    assert found.interval("RNN") == pytest.approx((0.7, 0.9))


@pytest.mark.parametrize(("own", "other", "holds"), [(0.5, 0.0, True), (0.0, 0.5, False)])
def test_the_cause_of_the_rank_of_the_rnn_is_tested(monkeypatch, own, other, holds):
    """A network that knows a share of its training days and of others by heart."""
    home = hm.synth.ready_home("evening")
    train, test = (hm.synth.trace(home, 96 * 8, interval_s=900.0, seed=s) for s in (1, 2))

    class Net:
        def __init__(self, *_, **__):
            pass

        def fit(self, _):
            return self

        def predict(self, part, **_):
            known = np.random.default_rng(0).random(part.truth().shape)
            return part.truth() & (known < (own if part is train else other))

    monkeypatch.setattr(attackers, "attackers", {"rnn": Net})
    source = Source(Case("x", home, train, test), "x", "x", real=False)
    more = made_up({"RNN": 0.9, attackers.QUARTER: 0.8}, {})
    judged = attackers._judge_cause(more, source, Setting())
    assert judged.holds is holds
    less = made_up({"RNN": 0.8, attackers.QUARTER: 0.9}, {})
    assert attackers._judge_cause(less, source, Setting()).holds is False
    assert "four times as many training readings" in judged.because


def daily(days: int, seed: int = 0) -> tuple[hm.Trace, hm.Trace, dict[str, np.ndarray]]:
    """Days of a simulated home, and the answers of two attackers that forget."""
    home = hm.synth.ready_home("evening")
    train = hm.synth.trace(home, 30 * 96, interval_s=900.0, seed=seed + 1)
    trace = hm.synth.trace(home, days * 96, interval_s=900.0, seed=seed)
    noise = hm.Laplace(1.0, 300.0, grid=10.0)
    noisy = trace.replace_readings(noise.release(trace.readings, rng=seed))
    answers = {
        name: hm.attackers[name](home).fit(train).predict(noisy) for name in ("co", "sparse-hmm")
    }
    return trace, noisy, answers


def compared(trace: hm.Trace, answers: dict[str, np.ndarray], part: slice) -> Comparison:
    """One release at six ε, all with the same answers: their days are what is resampled."""
    rows, counts = [], []
    for name, states in answers.items():
        for epsilon in EPSILONS[:6]:
            rows.append({"attacker": name, "epsilon": epsilon, "seed": 0, "f1": 0.5,
                         "alpha": (states[part] == trace.truth()[part]).mean()})  # fmt: skip
            counts.append(count_blocks(states[part], trace[part]))
    return Comparison(pd.DataFrame(rows), counts=counts, blocks="days")


def test_intervals_over_days_contain_the_truth_as_often_as_they_promise():
    """Nominal 95 % over twelve days of simulated homes: found between 90 and 98 %."""
    span, parts = 12, 200
    trace, _, answers = daily(span * parts)
    right = {name: (states == trace.truth()).mean() for name, states in answers.items()}
    gap = right["co"] - right["sparse-hmm"]
    hits = np.zeros(3)
    for k in range(parts):
        found = compared(trace, answers, slice(k * span * 96, (k + 1) * span * 96))
        ends = [found.interval(name) for name in answers]
        difference = found.difference("co", "sparse-hmm")
        hits[:2] += [low <= right[n] <= high for n, (low, high) in zip(right, ends, strict=True)]
        hits[2] += difference.low <= gap <= difference.high
    assert ((hits / parts >= 0.90) & (hits / parts <= 0.98)).all(), hits / parts


def test_the_interval_over_days_is_wider_than_that_over_seeds():
    trace, _, answers = daily(20)
    found = compared(trace, answers, slice(None))
    low, high = found.interval("co")
    assert low < found.mean("co") < high
    assert high - low > 0.003
    fit = found.fits()["co"]
    assert fit.steepest.value == pytest.approx(0.0, abs=1e-9)
    seeds = Comparison(found.table)
    assert np.isnan(seeds.interval("co")).all(), "one seed alone has no interval"


@pytest.mark.parametrize("kind", ["laplace", "staircase", "gaussian"])
@pytest.mark.parametrize("width", [1.0, 10.0, 15.5, 234.03])
def test_the_noise_of_the_figures_has_the_scale_of_the_paper(kind, width):
    home = hm.Home([hm.Appliance("kettle", 2000.0)], 2 * width)
    unit = resolve_unit("fluctuation", interval_s=60.0, home=home)
    for epsilon in EPSILONS:
        mechanism = paper_mechanism(kind, epsilon, unit)
        if kind == "laplace":
            assert mechanism.scale == pytest.approx(width / epsilon, rel=1e-3)
            # The mean size of continuous Laplace noise is its scale.
            assert mechanism.mean_abs == pytest.approx(width / epsilon, rel=1e-3)
        assert mechanism.epsilon_for(width) == pytest.approx(epsilon)
        steps = Fraction(str(width)) / mechanism.exact_grid
        assert steps.denominator == 1
        # Readings anywhere that differ by Δf are released as if they did exactly.
        a = np.random.default_rng(0).uniform(0, 5000, 500)
        grid = mechanism.grid
        apart = np.floor((a + width) / grid + 0.5) - np.floor(a / grid + 0.5)
        assert np.abs(apart - steps).max() <= 1e-9


def test_a_slow_attacker_sees_all_days():
    trace = hm.synth.trace(hm.synth.ready_home("similar8"), 4 * 1440, 0.98, interval_s=60.0)
    one = Contender("slow", "co", thinned=(60, 6))
    part = one.thin(trace)
    assert len(part) == len(trace) // 6
    assert np.unique(part.times.astype("datetime64[D]")).size == 4
    assert part.run_starts.sum() == 16
    assert Contender("all", "co").thin(trace) is trace


@pytest.mark.parametrize(("power", "exponent"), [(1.0, 1.0), (0.5, 0.5)])
def test_exponents_of_known_curves(power, exponent):
    epsilon = np.geomspace(10, 0.01, 12)
    found = local_exponents(epsilon, 0.9 - 0.001 * (epsilon**-power - 10**-power))
    # The accuracy at the largest ε is not that without noise, which matters for the first points.
    assert found[-1] == pytest.approx(exponent, abs=0.02)
    line = local_exponents(epsilon, 0.9 + 0.05 * np.log(epsilon / 10))
    assert np.nanmax(line) > 1 / np.log(3) > np.nanmin(line)
    assert tell_rate(epsilon, np.ones(12)) == "the accuracy does not fall"


@pytest.mark.parametrize(
    ("curve", "verdicts"),
    [
        (lambda e: 0.9 - 1e-4 / e, (True, False)),
        (lambda e: 0.9 + 0.05 * np.log(e), (False, True)),
        (lambda e: 0.9 / (1 + 0.3 / e), (False, False)),
        (lambda e: np.full(e.size, 0.9), (False, False)),
    ],
)
def test_the_rate_1_over_epsilon_and_a_line_exclude_each_other(curve, verdicts):
    epsilon = np.geomspace(1000, 0.001, 40)
    assert tuple(one.holds for one in judge_rate(epsilon, curve(epsilon))) == verdicts


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
