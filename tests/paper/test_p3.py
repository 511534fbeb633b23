"""(P3) and (P4): the relaxed problem, against a linear programme."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from hushmeter import synth
from hushmeter.attack.one_shot import is_saturated, relaxed_cardinality, solve_relaxed
from hushmeter.noise.laplace import Laplace
from hushmeter.trace import jumps as jumps_of


class LinearProgramme:
    """min Σ Δ_i subject to K − δ ≤ Δ·P ≤ K + δ, 0 ≤ Δ ≤ 1, solved by HiGHS."""

    def __init__(self, powers: np.ndarray) -> None:
        self.solver = highspy.Highs()
        self.solver.silent()
        n = powers.size
        self.solver.addVars(n, np.zeros(n), np.ones(n))
        self.solver.changeColsCost(n, np.arange(n, dtype=np.int32), np.ones(n))
        self.solver.addRow(0.0, 0.0, n, np.arange(n, dtype=np.int32), powers)
        self.solver.setOptionValue("primal_feasibility_tolerance", 1e-10)
        self.solver.setOptionValue("dual_feasibility_tolerance", 1e-10)

    def solve(self, jump: float, tolerance: float) -> np.ndarray | None:
        self.solver.changeRowBounds(0, jump - tolerance, jump + tolerance)
        self.solver.run()
        if self.solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return None
        assert self.solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return np.array(self.solver.getSolution().col_value)


def random_instance(rng: np.random.Generator, case: int) -> tuple[np.ndarray, float, float]:
    n = int(rng.integers(1, 14))
    powers = rng.uniform(20, 3000, n)
    if case % 4 == 0:  # ties
        powers = rng.choice([100.0, 250.0, 1000.0], n)
    tolerance = float(rng.uniform(0.5, 40))
    jump = float(rng.uniform(0, 1.2 * powers.sum()))
    if case % 7 == 0:  # nothing to explain
        jump = float(rng.uniform(0, tolerance))
    return powers, jump, tolerance


def test_equals_a_linear_programme_on_many_instances(rng):
    seen = {"quiet": 0, "infeasible": 0, "tied": 0, "plain": 0}
    for case in range(2400):
        powers, jump, tolerance = random_instance(rng, case)
        ours = solve_relaxed(powers, [jump], tolerance)[0]
        theirs = LinearProgramme(powers).solve(jump, tolerance)
        saturated = bool(is_saturated(powers, [jump], tolerance)[0])
        assert saturated == (theirs is None)
        if theirs is None:
            seen["infeasible"] += 1
            assert (ours == 1).all()
            continue
        assert ours.sum() == pytest.approx(theirs.sum(), abs=1e-9)
        assert abs(ours @ powers - jump) <= tolerance + 1e-9
        assert ((ours >= 0) & (ours <= 1)).all()
        tied = np.unique(powers).size < powers.size
        seen["quiet" if jump <= tolerance else "tied" if tied else "plain"] += 1
        if not tied:  # the optimum is unique: the points agree, not only their values
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert all(count > 100 for count in seen.values()), seen


def test_names_the_largest_whichever_switched():
    powers = [100.0, 1000.0, 300.0]
    np.testing.assert_allclose(solve_relaxed(powers, [102.0], 2.0)[0], [0, 0.1, 0])
    np.testing.assert_allclose(solve_relaxed(powers, [1152.0], 2.0)[0], [0, 1, 0.5])


def test_equal_powers_fill_in_index_order():
    np.testing.assert_array_equal(solve_relaxed([100.0, 100.0], [102.0], 2.0), [[1, 0]])


@pytest.mark.parametrize("jump", [0.0, 1.0, 2.0])
def test_jumps_within_the_tolerance_switch_nothing(jump):
    assert not solve_relaxed([100.0, 50.0], [jump], 2.0).any()


def test_beyond_all_powers_is_saturated_exactly_at_the_edge():
    np.testing.assert_array_equal(
        is_saturated([100.0, 50.0], [151.9, 152.0, 152.1], 2.0), [False, False, True]
    )


def test_p4_is_p3_of_the_noisy_jumps():
    home = synth.ready_home("similar8")
    trace = synth.trace(home, 200, 0.95)
    noisy = Laplace(epsilon=1.0, sensitivity=10.0).release(trace.readings, rng=0)
    steps = jumps_of(noisy)
    assert steps[5] == abs(noisy[5] - noisy[4])
    shares = solve_relaxed(home.powers, steps, home.tolerance)
    one_by_one = [solve_relaxed(home.powers, [k], home.tolerance)[0] for k in steps]
    np.testing.assert_array_equal(shares, one_by_one)


def test_its_support_solves_p2(rng):
    for case in range(300):
        powers, jump, tolerance = random_instance(rng, case)
        if is_saturated(powers, [jump], tolerance)[0]:
            continue
        support = np.count_nonzero(solve_relaxed(powers, [jump], tolerance)[0])
        assert support == relaxed_cardinality(powers, [jump], tolerance)[0]


def test_no_readings_give_no_rows():
    assert solve_relaxed([1.0, 2.0], [], 1.0).shape == (0, 2)


@pytest.mark.parametrize(
    ("powers", "jumps", "tolerance", "message"),
    [
        ([], [1.0], 1.0, "at least one appliance"),
        ([100.0, -5.0], [1.0], 1.0, "powers must be positive, got -5 W"),
        ([100.0, 0.0], [1.0], 1.0, "powers must be positive"),
        ([np.nan], [1.0], 1.0, "powers must be finite, but row 0 is nan"),
        ([[1.0, 2.0]], [1.0], 1.0, "powers must have one dimension"),
        ([1.0], [[1.0]], 1.0, "jumps must have one dimension"),
        ([1.0], [0.0, np.nan], 1.0, "jumps must be finite, but row 1 is nan"),
        ([1.0], [0.0, np.inf], 1.0, "jumps must be finite, but row 1 is inf"),
        ([1.0], [3.0, -1.0], 1.0, "jumps must not be negative"),
        (["kettle"], [1.0], 1.0, "powers must be numbers"),
        ([1.0], [1.0], 0.0, "tolerance must be positive and finite, got 0.0."),
        ([1.0], [1.0], -2.0, "tolerance must be positive"),
        ([1.0], [1.0], np.nan, "tolerance must be positive and finite, got nan."),
        ([1.0], [1.0], "2", "tolerance must be a number"),
    ],
)
def test_bad_input_is_one_sentence(powers, jumps, tolerance, message):
    with pytest.raises(ValueError, match=message) as caught:
        solve_relaxed(powers, jumps, tolerance)
    assert "\n" not in str(caught.value)


def test_infeasible_jumps_by_hand():
    """P = 100, 50 and δ = 10: 160 W is the largest jump that has a solution."""
    jumps = [160.0, 160.5, 0.0]
    expected = {"all": [1.0, 1.0], "none": [0.0, 0.0], "error": [np.nan, np.nan]}
    for rule, answer in expected.items():
        found = solve_relaxed([100.0, 50.0], jumps, 10.0, unexplained=rule)
        np.testing.assert_array_equal(found, [[1.0, 1.0], answer, [0.0, 0.0]])
    with pytest.raises(ValueError, match="unexplained must be one of all, none, error"):
        solve_relaxed([100.0], [1.0], 1.0, unexplained="nearest")
