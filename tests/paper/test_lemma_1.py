"""Lemma 1: (P1) and (P2) need equally many switches, if Assumption 3 is asked for U ≤ U_t."""

from __future__ import annotations

import numpy as np

from hushmeter.assumptions import concentration_margin
from hushmeter.attack.one_shot import examine_exact, relaxed_cardinality


def assumption_3_margin(powers: np.ndarray, switches: int) -> float:
    ascending = np.sort(powers)
    return ascending[:switches].sum() - ascending[::-1][: switches - 1].sum()


def test_holds_where_assumption_3_covers_the_switches(rng):
    checked = 0
    while checked < 3000:
        powers = rng.uniform(50, 300, int(rng.integers(2, 9)))
        tolerance = float(rng.uniform(0.5, 5))
        switches = int(rng.integers(1, powers.size + 1))
        if min(assumption_3_margin(powers, u) for u in range(1, switches + 1)) <= 2 * tolerance:
            continue
        truth = rng.choice(powers.size, switches, replace=False)
        jump = powers[truth].sum() + rng.uniform(-tolerance, tolerance)
        exact = examine_exact(powers, [jump], tolerance)
        assert exact.feasible[0]
        assert exact.cardinality[0] == relaxed_cardinality(powers, [jump], tolerance)[0]
        checked += 1


def test_fails_as_printed():
    powers, jump, tolerance = [100.0, 100.0, 250.0], [200.0], 2.0
    # As printed, U < U_t = 2 asks only for U = 1, and that holds.
    assert assumption_3_margin(np.array(powers), 1) > 2 * tolerance
    assert assumption_3_margin(np.array(powers), 2) <= 2 * tolerance
    assert examine_exact(powers, jump, tolerance).cardinality[0] == 2
    assert relaxed_cardinality(powers, jump, tolerance)[0] == 1


def test_same_cardinality_is_not_the_same_solution_set():
    powers = np.array([100.0, 101.0, 104.0])
    assert concentration_margin(powers) > 4
    exact = examine_exact(powers, [100.0], 2.0)
    assert exact.ties[0] == 2  # (P1): 100 or 101; (P2): also any mix of the right total
    assert relaxed_cardinality(powers, [100.0], 2.0)[0] == 1


def test_infeasible_jumps_count_one_more_than_there_are():
    assert relaxed_cardinality([100.0, 50.0], [0.0, 60.0, 150.0, 500.0], 2.0).tolist() == [
        0,
        1,
        2,
        3,
    ]
