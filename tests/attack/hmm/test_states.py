"""Learnt states against enumeration, and the slack against its sampling error."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.stats import chi2, norm

from hushmeter import Appliance, Home, Trace, synth
from hushmeter.attack.hmm import states as learning
from hushmeter.attack.hmm.states import cut_ranges, learn_slack, learn_states


def brute_cut(values: np.ndarray, count: int) -> float:
    ordered, total = np.sort(values), values.size
    costs = []
    for cuts in combinations(range(1, total), count - 1):
        parts = np.split(ordered, cuts)
        borders_differ = all(a[-1] < b[0] for a, b in pairwise(parts))
        if borders_differ and min(part.size for part in parts) >= learning.LEAST:
            cost = count * learning.PENALTY * np.log(total)
            for part in parts:
                spread = 0.5 * np.log(part.var() + learning.FLOOR**2)
                cost += part.size * (spread - np.log(part.size / total))
            costs.append(cost)
    return min(costs, default=np.inf)


def test_cuts_are_the_best_ones(rng):
    for _ in range(10):
        values = rng.choice([5.0, 60.0, 300.0], 14) + rng.normal(0, 3, 14)
        costs, borders = cut_ranges(values, 3)
        for count in range(1, costs.size + 1):
            assert costs[count - 1] == pytest.approx(brute_cut(values, count))
            assert borders[count - 1].size == count - 1


def test_states_stay_within_the_budget():
    home = synth.ready_home("evening")
    train = synth.trace(home, 4000, 0.98, seed=1)
    for budget, sizes in ((256, 2 * np.ones(8)), (384, None)):
        found = learn_states(train, home, 6, 2, 8, budget)
        counts = [means.size for means in found.means[:-1]]
        assert np.prod(counts) <= budget
        assert sizes is None or (counts == sizes).all()
    assert counts[home.index("washing machine")] == 3


def test_slack_is_for_errors_that_last(rng):
    """Bounds that fail once in a million.

    Independent errors of σ = 3 W need no slack, lasting ones s² = 4σ² − σ² − ¼, as the mean over
    four readings spreads like one. Both are told from the median of n squares, whose relative
    standard error is ½/(f(m)·m·√n) at the median m of χ²₁ with density f: 5 % for the 2000
    windows of 8000 readings, 12 % for 400 independent errors.
    """
    home = Home([Appliance("lamp", 60.0)], tolerance=5.0)
    states = synth.trace(home, 8000, 0.98, seed=1).states

    def slack(error: np.ndarray) -> float:
        power = states * 60.0 + error[:, None]
        trace = Trace(power.sum(axis=1), 6.0, states=states, power=power)
        return learn_slack(trace, learn_states(trace, home, 1, 1, 1, 2))

    median, model = chi2.median(1), 3.0**2 + learning.SHARPEST**2
    one, other = (norm.isf(1e-6) / (2 * chi2.pdf(median, 1) * median * n**0.5) for n in (2000, 400))
    most = np.sqrt(9 * (1 + one) - model)
    least = np.sqrt(learning.SLACK_WINDOW * 9 * (1 - other) - model)
    assert (most, least) == pytest.approx((1.41, 2.60), abs=0.01)
    assert slack(rng.normal(0, 3, 8000)) < most
    assert slack(np.repeat(rng.normal(0, 3, 400), 20)) > least
