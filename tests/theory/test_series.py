"""The exact accuracy of Algorithm 1 over a series: brute force, FFT and simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.attack.levels import Increments
from hushmeter.attack.multi_shot import MultiShot
from hushmeter.attack.one_shot import solve_relaxed
from hushmeter.errors import InputError
from hushmeter.theory.bounds import Conditions
from hushmeter.theory.exact import ContinuousLaplace, appliance_accuracy, series_accuracy

SIMILAR = hm.synth.ready_home("similar8")


def make_home(powers, tolerance):
    return hm.Home([hm.Appliance(f"a{i}", float(p)) for i, p in enumerate(powers)], tolerance)


def make_trace(home, states, offset=0.0, **options):
    states = np.asarray(states, dtype=bool)
    readings = states @ home.powers + offset
    return hm.Trace(readings, 60.0, states=states, names=home.names, **options)


def by_enumeration(home, trace, mechanism, reach):
    """Sum over every noise of every reading, with the attacker's own solver and increments."""
    parts = Increments(home)
    steps = np.arange(-reach, reach + 1)
    masses = mechanism.pmf(steps)
    grid = mechanism.grid
    cells = np.floor(trace.readings / grid + 0.5)
    correct = np.zeros(trace.states.shape)
    for path in product(range(steps.size), repeat=len(trace)):
        noise = steps[list(path)]
        jumps = np.abs(np.diff((cells + noise) * grid, prepend=(cells[0] + noise[0]) * grid))
        shares = solve_relaxed(parts.home.powers, jumps, home.tolerance)
        state = parts.expand(trace.states[0]).astype(float)
        for t in range(len(trace)):
            if t and not trace.run_starts[t]:
                state = state * (1 - shares[t]) + (1 - state) * shares[t]
            on = [1 - np.prod(1 - state[parts.owners == i]) for i in range(len(home))]
            right = np.where(trace.states[t], on, 1 - np.array(on))
            correct[t] += np.prod(masses[list(path)]) * right
    return correct


def by_convolution(home, trace, mechanism):
    """The recursion with full convolutions instead of double cumulative sums."""
    reach = round(mechanism.quantile(1 - 1e-15) / mechanism.grid) + 1
    steps = np.arange(-reach, reach + 1)
    masses = mechanism.pmf(steps)
    differences = np.arange(-2 * reach, 2 * reach + 1) * mechanism.grid
    cells = np.floor(trace.readings / mechanism.grid + 0.5) * mechanism.grid
    correct = np.ones(trace.states.shape)
    weights = np.repeat(masses[:, None], len(home), axis=1)
    for t in range(1, len(trace)):
        jump = np.abs(cells[t] - cells[t - 1] + differences)
        named = solve_relaxed(home.powers, jump, home.tolerance)
        factor = 1 - 2 * np.abs(named - (trace.states[t] != trace.states[t - 1]))
        for i in range(len(home)):
            full = np.convolve(factor[:, i], weights[:, i])
            weights[:, i] = masses * full[2 * reach : 4 * reach + 1]
        correct[t] = (1 + weights.sum(axis=0)) / 2
    return correct


@pytest.mark.parametrize("readings", [1, 2, 3])
def test_all_noise_paths(readings):
    home = make_home([7.5, 4.0], 1.0)
    states = [[1, 0], [0, 0], [0, 1]][:readings]
    trace = make_trace(home, states, offset=0.3)
    # At ε = 6 per step a noise beyond 5 steps has probability 1e-13.
    mechanism = hm.Laplace(6, 1, 1, on_grid=True)
    assert series_accuracy(home, trace, mechanism=mechanism) == pytest.approx(
        by_enumeration(home, trace, mechanism, 5), abs=1e-11
    )


def test_levels_are_increments_on_all_noise_paths():
    """Appliances with three and two levels, whose readings say which level it is."""
    home = hm.Home(
        [hm.Appliance("a", levels=(3.0, 8.5, 11.0)), hm.Appliance("b", levels=(4.0, 6.5))], 1.0
    )
    states = np.array([[0, 1], [1, 1], [1, 0]], dtype=bool)
    trace = hm.Trace([4.0, 14.5, 11.0], 60.0, states=states, names=home.names)
    mechanism = hm.Laplace(6, 1, 1, on_grid=True)
    found = series_accuracy(home, trace, mechanism=mechanism)
    assert found == pytest.approx(by_enumeration(home, trace, mechanism, 5), abs=1e-11)
    mean = hm.exact_accuracy(home, mechanism=mechanism, readings=trace)
    assert mean == pytest.approx(found[1:].mean())


def test_many_levels_are_refused():
    home = hm.Home([hm.Appliance("a", levels=tuple(range(10, 100, 10)))], 1.0)
    trace = hm.Trace([10.0, 20.0], 60.0, states=np.ones((2, 1), bool), names=home.names)
    with pytest.raises(InputError, match="a has 9 levels; at most 8 are exact"):
        series_accuracy(home, trace, mechanism=hm.Laplace(1, 1))


def test_a_gap_keeps_the_state():
    home = make_home([7.5, 4.0], 1.0)
    trace = make_trace(home, [[1, 0], [0, 0], [0, 1]], steps=np.array([0, 1, 5]))
    mechanism = hm.Laplace(6, 1, 1, on_grid=True)
    found = series_accuracy(home, trace, mechanism=mechanism)
    assert found == pytest.approx(by_enumeration(home, trace, mechanism, 5), abs=1e-11)
    assert found[2, 0] == pytest.approx(found[1, 0])
    assert found[2, 1] == pytest.approx(1 - found[1, 1])


NOISES = {
    "laplace": lambda width, grid=1: hm.Laplace(1, width, grid),
    "staircase": lambda width, grid=1: hm.Staircase(1, width, grid),
    "gaussian": lambda width, grid=1: hm.Gaussian(1, 1e-5, width, grid),
}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(3.0, 90.0), min_size=1, max_size=4),
    st.sampled_from(sorted(NOISES)),
    st.floats(0.5, 20.0),
    st.integers(0, 2**31),
)
def test_double_sums_equal_convolutions(powers, kind, width, seed):
    home = make_home(powers, 2.0)
    rng = np.random.default_rng(seed)
    trace = make_trace(home, rng.random((8, len(powers))) < 0.5, offset=rng.uniform(-5, 5))
    mechanism = NOISES[kind](width)
    assert series_accuracy(home, trace, mechanism=mechanism) == pytest.approx(
        by_convolution(home, trace, mechanism), abs=1e-10
    )


@pytest.mark.parametrize("kind", sorted(NOISES))
@pytest.mark.parametrize("length", [30, 150, 600])
@pytest.mark.parametrize(("width", "grid"), [(2, 1), (10, 1), (30, 1), (200, 5), (1500, 20)])
def test_simulation_agrees(kind, length, width, grid):
    """45 cells of mechanism, length and width, with fixed seeds."""
    trace = hm.synth.trace(SIMILAR, length, sparsity=0.95, seed=length)
    mechanism = NOISES[kind](width, grid)
    attacker = MultiShot(SIMILAR, correction="none")
    drawn = [
        hm.score(
            attacker.predict(
                mechanism.release(trace.readings, rng=seed),
                initial_state=trace.states[0],
                rng=seed,
            )[1:],
            trace.states[1:],
        ).alpha
        for seed in range(40)
    ]
    exact = hm.exact_accuracy(SIMILAR, mechanism=mechanism, readings=trace)
    spread = np.std(drawn, ddof=1) / np.sqrt(len(drawn))
    assert spread > 0
    assert abs(np.mean(drawn) - exact) < 4.5 * spread


def test_one_jump_is_the_accuracy_of_one_shot():
    home = make_home([60.0, 40.0, 25.0], 2.0)
    mechanism = hm.Laplace(1, 20, on_grid=True)
    trace = make_trace(home, [[0, 0, 0], [1, 0, 0]])
    one = appliance_accuracy(home, ["a0"], mechanism=mechanism)
    assert series_accuracy(home, trace, mechanism=mechanism)[1] == pytest.approx(one, abs=1e-9)


def test_theorem_5_encloses_the_exact_value():
    trace = hm.synth.trace(SIMILAR, 601, sparsity=0.99, seed=4)
    switches = np.abs(np.diff(trace.states.astype(int), axis=0)).sum(axis=1)
    for epsilon in ("0.1", "1"):
        mechanism = hm.Laplace(epsilon, 1, on_grid=True)
        exact = series_accuracy(SIMILAR, trace, mechanism=mechanism)[1:].mean()
        bound = hm.bounds(
            SIMILAR, readings=600, max_switches=switches, conditions=Conditions(mechanism=mechanism)
        )
        assert float(bound.lower) <= exact <= float(bound.upper)


def test_correction_can_destroy_an_almost_correct_state():
    """The counterexample of the docstring: the accuracy falls from 1 − 1/N to 0."""
    n = 6
    home = make_home([10.0 * (n - 1)] + [10.0] * (n - 1), 1.0)
    large, nothing = np.eye(n)[0], np.zeros(n)
    for correction, expected in (("none", 1 - 1 / n), ("paper", 0.0), ("dead-band", 0.0)):
        attacker = MultiShot(home, correction=correction)
        # Two readings of the load of the large appliance, from a state that misses it.
        readings = np.full(2, home.powers @ large)
        state = attacker.predict(readings, initial_state=nothing, rng=0)[1]
        assert hm.score(state[None], large[None].astype(bool)).alpha == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mechanism": ContinuousLaplace(1.0)}, "a mechanism with a grid"),
        ({"mechanism": hm.Laplace(1, 1), "max_switches": 1}, "readings alone"),
        ({"mechanism": hm.Laplace("0.000001", 10)}, "use a coarser grid"),
    ],
)
def test_bad_arguments(arguments, words):
    trace = hm.synth.trace(SIMILAR, 10, seed=0)
    with pytest.raises(InputError, match=words):
        hm.exact_accuracy(SIMILAR, readings=trace, **arguments)


def test_another_home_is_refused():
    with pytest.raises(InputError, match="the trace has 8 appliances, the home 2"):
        series_accuracy(
            make_home([1, 2], 1), hm.synth.trace(SIMILAR, 9, seed=0), mechanism=hm.Laplace(1, 1)
        )
