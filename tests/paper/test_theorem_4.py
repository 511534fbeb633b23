"""Theorem 4: the upper bound of the one-shot accuracy, printed, integrated and corrected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from hushmeter.appliance import Appliance
from hushmeter.home import Home
from hushmeter.theory.bounds import Conditions, bounds
from hushmeter.theory.exact import ContinuousLaplace, exact_curve
from hushmeter.theory.one_shot import corrected_upper, integral_upper, printed_upper


def make_home(powers, tolerance):
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


def alike(norm, n=8, tolerance=2.0):
    return make_home(np.full(n, norm / math.sqrt(n)), tolerance)


PAPER = alike(364.27)


def as_printed(n, norm, delta, epsilon):
    r"""1+\frac{A_{2}\epsilon^{2}+B_{2}\epsilon+C_{2}}{8\delta\epsilon N\|P\|}
    e^{-\frac{2\epsilon m}{\delta}}
    -\frac{16\delta\epsilon^{2}+4\delta\epsilon+3\delta}{16\epsilon N\|P\|}e^{-\epsilon}
    """
    m = n * norm + 2 * delta
    A2 = 4 * m**2 - 8 * delta * m - 4 * m * n * norm  # noqa: N806
    B2 = 6 * delta * m - 8 * delta**2 - 4 * delta * n * norm  # noqa: N806
    C2 = 3 * delta**2  # noqa: N806
    first = (A2 * epsilon**2 + B2 * epsilon + C2) / (8 * delta * epsilon * n * norm)
    last = (16 * delta * epsilon**2 + 4 * delta * epsilon + 3 * delta) / (16 * epsilon * n * norm)
    return 1 + first * math.exp(-2 * epsilon * m / delta) - last * math.exp(-epsilon)


def by_quadrature(n, norm, delta, epsilon):
    r"""1-\int_{2\delta}^{m}\frac{x-2\delta}{N\|P\|}(\ldots)e^{-x/\lambda}dx-\int_m^\infty(\ldots)dx"""
    scale = delta / 2 / epsilon
    m = n * norm + 2 * delta

    def density(x):
        return (x / (4 * scale**2) + 1 / (4 * scale)) * math.exp(-x / scale)

    end = min(m, 2 * delta + 80 * scale)
    body = quad(
        lambda x: (x - 2 * delta) / (n * norm) * density(x), 2 * delta, end, epsabs=1e-13, limit=400
    )[0]
    tail = quad(density, m, m + 80 * scale, epsabs=1e-13, limit=400)[0]
    return 1 - body - tail


@pytest.mark.parametrize("epsilon", [1e-4, 0.003, 0.01, 0.2, 1.0, 7.0])
@pytest.mark.parametrize(("n", "norm", "delta"), [(8, 364.27, 2.0), (13, 6000, 5.0), (2, 10, 0.5)])
def test_the_printed_form_is_the_papers_text(n, norm, delta, epsilon):
    found = printed_upper(alike(norm, n, delta), epsilon).raw
    assert found == pytest.approx(as_printed(n, norm, delta, epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-4, 0.003, 0.01, 0.2, 1.0, 7.0])
@pytest.mark.parametrize(("n", "norm", "delta"), [(8, 364.27, 2.0), (13, 6000, 5.0), (2, 10, 0.5)])
def test_the_integral_form_is_the_papers_integral(n, norm, delta, epsilon):
    found = integral_upper(alike(norm, n, delta), delta / 2 / epsilon).raw
    assert found == pytest.approx(by_quadrature(n, norm, delta, epsilon), abs=1e-10)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.5, 4.0])
def test_the_integral_form_in_epsilon(epsilon):
    n, delta, norm = 8, 2.0, 364.27
    m = n * norm + 2 * delta
    closed = (
        1
        - (3 * delta + 4 * delta * epsilon) / (8 * epsilon * n * norm) * math.exp(-4 * epsilon)
        + (3 * delta + 2 * epsilon * m)
        / (8 * epsilon * n * norm)
        * math.exp(-2 * epsilon * m / delta)
    )
    assert integral_upper(PAPER, delta / 2 / epsilon).raw == pytest.approx(closed, rel=1e-12)


def test_where_the_printed_form_turns_and_leaves_the_unit_interval():
    log_inverse = np.linspace(0, 12, 120_001)
    upper = bounds(PAPER, np.exp(-log_inverse), form="printed").upper
    lowest = int(np.argmin(upper.raw))
    assert upper.raw[lowest] == pytest.approx(0.8945, abs=5e-5)
    assert log_inverse[lowest] == pytest.approx(7.13, abs=5e-3)
    first = math.exp(-log_inverse[np.flatnonzero(upper.raw > 1)[0]])
    assert first == pytest.approx(3.34e-4, rel=1e-3)
    assert upper.vacuous[upper.raw > 1].all()
    assert np.asarray(upper).max() == 1.0


def test_the_integral_tends_to_one_half():
    assert integral_upper(PAPER, 1e12).raw == pytest.approx(0.5, abs=1e-6)


def test_it_is_no_limit_for_all_attackers():
    """To say that nothing switched is right about 1 − U/N of the appliances at every ε."""
    silent = 1 - 1 / 8
    assert bounds(PAPER, 3e-4, form="integral").upper.raw < silent
    assert bounds(PAPER, 1e-6).upper.raw < silent


def test_the_integral_form_fails_where_most_of_the_home_switches():
    home = alike(364.27)
    scale = 1e6
    exact = float(exact_curve(home, scale, np.ones(8)))
    assert exact > 0.99
    assert integral_upper(home, scale).raw < 0.51
    assert corrected_upper(home, ContinuousLaplace(scale), 8).raw >= exact


def test_the_corrected_form_by_hand():
    home = make_home([100, 150, 200, 350, 400], 3.0)
    for scale in (1.0, 30.0, 400.0):
        for most in (0, 1, 5):

            def mean_beyond(x, scale=scale):
                return (1.5 * scale + x / 2) * math.exp(-x / scale)

            reach = (5 - most) * 400.0
            expected = 1 - (mean_beyond(6.0) - mean_beyond(6.0 + reach)) / (2 * 5 * 400.0)
            found = corrected_upper(home, ContinuousLaplace(scale), most).raw
            assert found == pytest.approx(expected, rel=1e-12)


def test_opposite_switches_are_covered_by_the_cancelled_power():
    """100 W on and 160 W off: the jump is 60 W, 200 W less than what switched."""
    home = make_home([100, 160, 150], 1.0)
    scale = 60.0
    exact = float(exact_curve(home, scale, [1, -1, 0]))
    mixed = bounds(home, 0.5 / scale, conditions=Conditions(switched=[1, -1, 0]))
    assert mixed.upper.raw >= exact
    by_hand = corrected_upper(home, ContinuousLaplace(scale), 2, cancelled_power=200.0)
    assert mixed.upper.raw == pytest.approx(by_hand.raw)
    assert (
        bounds(home, 0.5 / scale, max_switches=2, conditions=Conditions(mixed=True)).upper.raw
        >= exact
    )
