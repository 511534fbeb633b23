"""Theorem 3: the lower bound of the one-shot accuracy, printed, integrated and corrected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from hushmeter.appliance import Appliance
from hushmeter.home import Home
from hushmeter.theory.bounds import Conditions, bounds
from hushmeter.theory.exact import ContinuousLaplace, exact_curve
from hushmeter.theory.one_shot import corrected_lower, integral_lower, printed_lower


def make_home(powers, tolerance):
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


def alike(norm, n=8, tolerance=2.0):
    return make_home(np.full(n, norm / math.sqrt(n)), tolerance)


def as_printed(n, delta, epsilon, c):
    r"""1-\frac{4C\delta\epsilon+8\delta\epsilon+3\delta}{4\epsilon N}
    +\frac{A_{1}\epsilon+B_{1}}{4\epsilon N}e^{-\frac{2\epsilon b}{\delta}}
    """
    b = 2 * (n - (2 + c) * delta)
    A1 = 2 * n - 4 * delta - 2 * c * delta  # noqa: N806
    B1 = 3 * delta  # noqa: N806
    return (
        1
        - (4 * c * delta * epsilon + 8 * delta * epsilon + 3 * delta) / (4 * epsilon * n)
        + (A1 * epsilon + B1) / (4 * epsilon * n) * math.exp(-2 * epsilon * b / delta)
    )


def by_quadrature(n, delta, epsilon, c):
    r"""1-2\int_{N-(C+2)\delta}^{\infty}(\frac{x}{4\lambda^2}+\frac1{4\lambda})e^{-x/\lambda}dx
    -2\int_{0}^{N-(C+2)\delta}\frac{(C+2)\delta+x}{N}(\ldots)e^{-x/\lambda}dx
    """
    scale = delta / 2 / epsilon
    end = n - (c + 2) * delta

    def density(x):
        return (x / (4 * scale**2) + 1 / (4 * scale)) * math.exp(-x / scale)

    tail = quad(density, end, max(end, 0) + 60 * scale, epsabs=1e-13, limit=400)[0]
    body = quad(
        lambda x: ((c + 2) * delta + x) / n * density(x),
        0,
        end,
        epsabs=1e-13,
        limit=400,
        points=[min(end, k * scale) for k in (1, 5, 20)],
    )[0]
    return 1 - 2 * tail - 2 * body


@pytest.mark.parametrize("epsilon", [0.003, 0.01, 0.2, 1.0, 7.0])
@pytest.mark.parametrize(("n", "delta", "c"), [(8, 2.0, 0.015), (13, 5.0, 0.001), (5, 0.5, 0.04)])
def test_the_printed_form_is_the_papers_text(n, delta, c, epsilon):
    home = alike(364.27, n, delta)
    found = printed_lower(home, epsilon, constant=c).raw
    assert found == pytest.approx(as_printed(n, delta, epsilon, c), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 7.0])
@pytest.mark.parametrize(("n", "delta", "c"), [(8, 2.0, 0.015), (13, 5.0, 0.001), (5, 0.5, 0.04)])
def test_the_integral_form_is_the_papers_integral(n, delta, c, epsilon):
    home = alike(364.27, n, delta)
    found = integral_lower(home, delta / 2 / epsilon, constant=c).raw
    assert found == pytest.approx(by_quadrature(n, delta, epsilon, c), abs=1e-10)


def test_the_exponent_is_misprinted():
    home = alike(364.27)
    answer = {
        form: bounds(home, 0.01, form=form, conditions=Conditions(recovery_constant=0.015)).lower
        for form in ("printed", "integral")
    }
    assert answer["printed"].raw == pytest.approx(-0.706, abs=5e-4)
    assert answer["printed"].vacuous
    assert float(answer["printed"]) == 0.0
    assert answer["integral"].raw == pytest.approx(0.0049, abs=5e-5)


def test_halving_the_printed_exponent_gives_the_integral():
    n, delta, c, epsilon = 8, 2.0, 0.015, 0.3
    a = n - (2 + c) * delta
    extra = (2 * a * epsilon + 3 * delta) / (4 * epsilon * n)
    change = extra * (math.exp(-2 * epsilon * a / delta) - math.exp(-4 * epsilon * a / delta))
    home = alike(364.27)
    printed = printed_lower(home, epsilon, constant=c).raw
    assert printed + change == pytest.approx(
        integral_lower(home, delta / 2 / epsilon, constant=c).raw, rel=1e-12
    )


def test_no_room_is_no_bound():
    assert integral_lower(alike(364.27, tolerance=20.0), 1.0).raw == 0.0


def test_the_counterexample():
    """120, 122, … 134 W; the smallest switches."""
    home = make_home(range(120, 136, 2), 0.5)
    exact = float(exact_curve(home, 0.25 / 5, [1, 0, 0, 0, 0, 0, 0, 0]))
    assert exact == pytest.approx(0.7635, abs=5e-5)
    printed = bounds(home, 5.0, form="printed").lower
    assert printed.raw == pytest.approx(0.8647, abs=5e-5)
    assert not printed.vacuous
    assert bounds(home, 5.0, form="integral").lower.raw > exact
    assert bounds(home, 5.0).lower.raw <= exact


def test_the_corrected_form_by_hand():
    """Both candidates written out for Laplace noise."""
    home = make_home([100, 150, 200, 350, 400], 3.0)
    total, smallest, n = 1200.0, 100.0, 5
    for scale in (1.0, 30.0, 400.0):
        for most, power in ((0, 0.0), (1, 400.0), (2, 750.0)):

            def shortfall(a, scale=scale):
                if a <= 0:
                    return 0.0
                return a - 1.5 * scale + (1.5 * scale + a / 2) * math.exp(-a / scale)

            first = shortfall((n - 2 * most) * smallest) / (n * smallest)
            second = shortfall(total - power) / total - most / n
            found = corrected_lower(home, ContinuousLaplace(scale), most).raw
            assert found == pytest.approx(max(first, second), rel=1e-12)


def test_epsilon_enters_through_the_scale_alone():
    home = alike(364.27)
    for form in ("corrected", "printed", "integral"):
        wide, same = bounds(home, 0.4, sensitivity=4.0, form=form), bounds(home, 0.1, form=form)
        assert wide.lower.raw == pytest.approx(same.lower.raw, rel=1e-12)
        assert wide.upper.raw == pytest.approx(same.upper.raw, rel=1e-12)
