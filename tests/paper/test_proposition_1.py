"""Proposition 1: the error of the relaxed solution under noise."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.appliance import Appliance
from hushmeter.attack.one_shot import solve_relaxed
from hushmeter.home import Home
from hushmeter.theory.one_shot import printed_switch_error, recovery_constant, switch_error


def make_home(powers, tolerance):
    return Home([Appliance(str(i), float(p)) for i, p in enumerate(powers)], tolerance)


def test_the_printed_form():
    home = make_home([100, 110, 120], 2.0)
    noise = np.array([-7.0, 0.5, 30.0])
    constant = recovery_constant(home.powers)
    np.testing.assert_allclose(
        printed_switch_error(home, noise), (2 + constant) * 2.0 + np.abs(noise), rtol=1e-14
    )
    assert printed_switch_error(home, 3.0, constant=0.015) == pytest.approx(2.015 * 2 + 3)


def test_the_printed_form_depends_on_the_unit_of_power():
    """The same home and noise in watts and in kilowatts: an error has no unit, the bound has."""
    watts, kilowatts = make_home([100, 110, 120], 2.0), make_home([0.1, 0.11, 0.12], 0.002)
    in_watts = float(printed_switch_error(watts, 30.0, constant=0.015))
    in_kilowatts = float(printed_switch_error(kilowatts, 0.03, constant=0.015 * 1000))
    assert in_watts > 10 * in_kilowatts
    assert switch_error(watts, 1, 30.0) == pytest.approx(switch_error(kilowatts, 1, 0.03))


def test_the_printed_form_fails_in_kilowatts():
    home = make_home([0.1, 0.11, 0.12], 0.002)
    shares = solve_relaxed(home.powers, [0.1 + 0.03], home.tolerance)[0]
    error = np.linalg.norm(shares - [1, 0, 0])
    assert error > printed_switch_error(home, 0.03, constant=0.015)
    assert error <= np.sqrt(switch_error(home, 1, 0.03))


def test_a_disturbance_counts_like_noise():
    home = make_home([100, 110, 120, 130], 2.0)
    np.testing.assert_allclose(
        switch_error(home, 1, [10.0, 500.0], disturbance=20.0), [2 + 0.3, 4.0]
    )
