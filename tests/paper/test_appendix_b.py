"""Appendix B: the sparsity s and synthetic traces of a wanted sparsity."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.trace import Trace


def test_sparsity_is_the_formula(rng):
    states = rng.random((50, 4)) < 0.3
    trace = Trace(np.zeros(50), 6.0, states=states)
    switches = sum(int((states[t + 1] != states[t]).sum()) for t in range(49))
    assert trace.sparsity == pytest.approx(1 - switches / (4 * 49))


def test_pairs_across_a_gap_do_not_count():
    states = np.array([[0], [1], [0], [0]], bool)
    assert Trace(np.zeros(4), 6.0, states=states).sparsity == pytest.approx(1 / 3)
    gap = Trace(np.zeros(4), 6.0, states=states, steps=[0, 1, 9, 10])
    assert gap.sparsity == pytest.approx(1 / 2)


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999])
@pytest.mark.parametrize("name", ["similar8", "rae13", "redd-like", "evening"])
def test_the_wanted_sparsity_is_hit(name, sparsity):
    home = synth.ready_home(name)
    trace = synth.trace(home, 1500, sparsity, seed=7)
    assert trace.sparsity == pytest.approx(sparsity, abs=0.005)
    assert abs(trace.sparsity - sparsity) * len(home) * 1499 <= 0.5 + 1e-6


def test_sparsity_needs_two_readings_in_a_row():
    with pytest.raises(ValueError, match="two readings in a row"):
        _ = Trace([1.0, 2.0], 1.0, states=[[0], [1]], steps=[0, 5]).sparsity
