"""Checks of ε-differential privacy that Theorem 2 and Algorithm 3 share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from hushmeter.noise.mechanism import to_steps
from hushmeter.noise.table_sampler import exp_minus

epsilons = st.fractions(Fraction(1, 1000), 20, max_denominator=1000)
powers = st.decimals("0.1", "5000", places=2)
grids = st.sampled_from(["0.01", "0.1", "0.25", "1", "5", "1/3", "7"])
readings = st.floats(-20_000, 20_000)
outputs = st.integers(-(10**6), 10**6)


@st.composite
def protected_inputs(draw, kind):
    """Draw a mechanism, the distances of one output from two protected inputs [steps], and ε."""
    epsilon, sensitivity, reading = draw(epsilons), draw(powers), draw(readings)
    mechanism = kind(epsilon, sensitivity, draw(grids))
    other = reading + draw(st.floats(-1, 1)) * float(sensitivity)
    assume(abs(Fraction(reading) - Fraction(other)) <= Fraction(sensitivity))
    output = draw(outputs)
    distances = [abs(output - to_steps(x, mechanism.exact_grid)) for x in (reading, other)]
    return mechanism, distances, epsilon


def check_certified_ratios(masses, epsilon, steps, at):
    """Check that P(i)·e^(−ε) ≤ P(i + d) is possible for every value within the bounds."""
    low, high = masses.masses(256, 64)
    growth = exp_minus(epsilon, 256)

    def index(value):
        return 2 * value if value >= 0 else -2 * value - 1

    for shift in {1, steps // 2, steps, -steps}:
        first, second = index(at), index(at + shift)
        if max(first, second) < len(low):
            assert (low[first] * growth.low) >> 256 <= high[second]


def worst_log_ratio(mechanism, steps):
    """Largest |log-ratio| of the masses of two inputs at most `steps` apart."""
    k = np.arange(-12 * steps, 12 * steps + 1)
    shifts = range(-steps, steps + 1)
    return max(np.abs(mechanism.log_pmf(k) - mechanism.log_pmf(k + s)).max() for s in shifts)
