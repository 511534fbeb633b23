"""The entry point: defaults, forms, mechanisms, arrays, curves and bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.errors import InputError
from hushmeter.home import Home
from hushmeter.noise import Gaussian, Laplace, Staircase
from hushmeter.theory.bounds import Conditions, bound_curves, bounds
from hushmeter.theory.exact import exact_accuracy, exact_curve
from hushmeter.theory.universal import laplace_limit
from hushmeter.trace import Trace

HOME = synth.ready_home("similar8")
RAE = synth.ready_home("rae13")
EPSILON = np.geomspace(1e-3, 10, 60)


def test_a_number_answers_with_numbers():
    answer = bounds(HOME, epsilon=0.1)
    assert 0 < float(answer.lower) < float(answer.upper) < 1
    assert not answer.lower.vacuous
    assert answer.form == "corrected"
    assert answer.groups == ()


def test_the_default_sensitivity_is_half_the_tolerance():
    assert bounds(HOME, 0.1).lower.raw == bounds(HOME, 0.1, sensitivity=1.0).lower.raw


@pytest.mark.parametrize("form", ["corrected", "printed", "integral"])
@pytest.mark.parametrize("extra", [{}, {"readings": 30}, {"readings": 30, "hierarchical": True}])
def test_an_array_is_its_numbers(form, extra):
    epsilon = np.geomspace(1e-3, 10, 30)
    many = bounds(RAE, epsilon, form=form, **extra)
    for i in (0, 7, 29):
        one = bounds(RAE, float(epsilon[i]), form=form, **extra)
        np.testing.assert_allclose(many.lower.raw[i], one.lower.raw, rtol=1e-12)
        np.testing.assert_allclose(many.upper.raw[i], one.upper.raw, rtol=1e-12)
    assert np.asarray(many.lower).min() >= 0
    assert np.asarray(many.upper).max() <= 1


def test_the_exact_curve_lies_between_them():
    epsilon = np.geomspace(1e-3, 10, 200)
    for home in (HOME, RAE):
        answer = bounds(home, epsilon, max_switches=2)
        curve = exact_curve(home, home.tolerance / 2 / epsilon, max_switches=2)
        assert (answer.lower.raw <= curve + 1e-12).all()
        assert (curve <= answer.upper.raw + 1e-12).all()


def test_an_array_of_epsilons_gives_the_values_of_each():
    epsilon = np.geomspace(1e-3, 10, 5)
    for extra in ({}, {"form": "printed"}, {"form": "integral"}, {"readings": 600}):
        together = bounds(RAE, epsilon, **extra)
        alone = [bounds(RAE, float(one), **extra) for one in epsilon]
        np.testing.assert_allclose(together.lower.raw, [one.lower.raw for one in alone])
        np.testing.assert_allclose(together.upper.raw, [one.upper.raw for one in alone])


def test_knowing_what_switched_sharpens():
    known = bounds(RAE, 0.05, conditions=Conditions(switched=["television"]))
    worst = bounds(RAE, 0.05, max_switches=1)
    assert known.lower.raw > worst.lower.raw
    assert known.upper.raw == worst.upper.raw
    exact = float(exact_curve(RAE, RAE.tolerance / 2 / 0.05, ["television"]))
    assert known.lower.raw <= exact <= known.upper.raw


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(0.2, 10, on_grid=True),
        Staircase(0.2, 10, on_grid=True),
        Gaussian(0.5, 1e-4, 10, on_grid=True),
        Laplace(0.2, 10, grid=5),
    ],
)
def test_a_mechanism_brings_its_own_noise(mechanism):
    answer = bounds(HOME, conditions=Conditions(mechanism=mechanism))
    for vector in np.vstack([np.zeros(8), np.eye(8)]):
        exact = exact_accuracy(HOME, vector, mechanism=mechanism)
        assert answer.lower.raw <= exact <= answer.upper.raw


def test_a_fine_grid_is_the_continuous_noise():
    fine = bounds(HOME, conditions=Conditions(mechanism=Laplace(0.2, 10, "0.001", on_grid=True)))
    continuous = bounds(HOME, 0.2, sensitivity=10.0)
    assert fine.lower.raw == pytest.approx(continuous.lower.raw, abs=1e-7)
    assert fine.upper.raw == pytest.approx(continuous.upper.raw, abs=1e-7)
    printed = bounds(
        HOME, form="printed", conditions=Conditions(mechanism=Laplace(0.2, 10, on_grid=True))
    )
    assert printed.lower.raw == pytest.approx(
        bounds(HOME, 0.2, sensitivity=10.0, form="printed").lower.raw
    )


def test_rounding_to_the_grid_is_a_disturbance():
    rounded = bounds(HOME, conditions=Conditions(mechanism=Laplace(0.2, 10, 5)))
    same_noise = Laplace(0.2, 15, 5, on_grid=True)
    assert (
        rounded.lower.raw
        == bounds(HOME, conditions=Conditions(mechanism=same_noise, disturbance=5.0)).lower.raw
    )


def test_the_switches_of_a_trace():
    trace = synth.trace(HOME, 200, 0.995, seed=1)
    counts = trace.switches[1:].sum(axis=1)
    by_reading = bounds(HOME, 1.0, readings=199, max_switches=counts)
    by_most = bounds(HOME, 1.0, readings=199, max_switches=int(counts.max()))
    assert by_reading.lower.raw > by_most.lower.raw
    assert isinstance(trace, Trace)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either epsilon or a mechanism"),
        ({"epsilon": 1.0, "mechanism": Laplace(1, 1)}, "either epsilon or a mechanism"),
        ({"mechanism": Laplace(1, 1), "sensitivity": 2.0}, "its own sensitivity"),
        ({"mechanism": Staircase(1, 1), "form": "printed"}, "for Laplace noise"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": [1.0, np.nan]}, "epsilon must be positive"),
        ({"epsilon": 1.0, "sensitivity": -1.0}, "sensitivity must be positive"),
        ({"epsilon": 1.0, "form": "hopeful"}, "form must be one of"),
        ({"epsilon": 1.0, "max_switches": 9}, "from 0 to 8"),
        ({"epsilon": 1.0, "max_switches": [1, 1]}, "must be one number"),
        ({"epsilon": 1.0, "readings": 3, "max_switches": [1, 1]}, "one number or 3"),
        ({"epsilon": 1.0, "readings": 0}, "readings must be"),
        ({"epsilon": 1.0, "hierarchical": True}, "give the number of readings"),
        ({"epsilon": 1.0, "readings": 3, "switched": ["lamp"]}, "do not give readings"),
        ({"epsilon": 1.0, "disturbance": -1.0}, "disturbance must be"),
    ],
)
def test_bad_input_is_answered(arguments, message):
    names = set(arguments) & set(Conditions.__dataclass_fields__)
    conditions = Conditions(**{name: arguments[name] for name in names})
    others = {name: value for name, value in arguments.items() if name not in names}
    with pytest.raises(InputError, match=message):
        bounds(HOME, **others, conditions=conditions)


def test_the_exact_curve_lies_between_the_corrected_bounds_and_below_the_limit():
    for most in (1, 3):
        curves = bound_curves(RAE, EPSILON, max_switches=most, sensitivity=50.0)
        assert (np.asarray(curves.corrected.lower) <= curves.exact + 1e-12).all()
        assert (curves.exact <= np.asarray(curves.corrected.upper) + 1e-12).all()
        assert (curves.exact <= curves.limit + 1e-12).all()
        assert (curves.limit >= curves.floor - 1e-12).all()


def best_accuracy(powers, scale, most):
    """Of the Bayes attacker who sees one reading and knows the state before, by quadrature."""
    vectors = [v for v in itertools.product((0, 1), repeat=len(powers)) if sum(v) <= most]
    x = np.linspace(-30 * scale, sum(powers) + 30 * scale, 400_001)
    densities = [np.exp(-np.abs(x - np.dot(v, powers)) / scale) / (2 * scale) for v in vectors]
    right = []
    for i in range(len(powers)):
        on = sum(d for v, d in zip(vectors, densities, strict=True) if v[i])
        right.append(np.maximum(on, sum(densities) - on).sum() * (x[1] - x[0]) / len(vectors))
    return np.mean(right)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("scale", [3.0, 10.0, 100.0, 1000.0])
def test_the_best_attacker_keeps_the_limit(most, scale):
    """One of 10 W among large ones: a switch of theirs tells that it did not, at any noise."""
    powers = [10.0, 1000.0, 2100.0, 4300.0]
    home = Home([Appliance(str(p), p) for p in powers], 2.0)
    curves = bound_curves(home, [1.0], sensitivity=scale, max_switches=most)
    assert best_accuracy(powers, scale, most) <= curves.limit[0] + 1e-5
    assert curves.limit[0] >= curves.floor


def test_columns_are_one_table():
    table = bound_curves(RAE, EPSILON).columns()
    assert {len(column) for column in table.values()} == {60}
    np.testing.assert_allclose(table["ln_1_over_epsilon"], -np.log(EPSILON))
    np.testing.assert_allclose(table["scale_w"], RAE.tolerance / 2 / EPSILON)
    assert table["nothing_switched"][0] == pytest.approx(1 - 13 / 14 / 13)


def test_more_switches_than_appliances_are_refused():
    with pytest.raises(ValueError, match="the home has 13 appliances"):
        bound_curves(RAE, EPSILON, max_switches=14)


def test_the_curves_of_a_trace_have_their_own_limit_and_floor():
    """Two appliances that switch one at a time: every term by hand."""
    home = Home([Appliance("kettle", 2000.0), Appliance("lamp", 60.0)], 10.0)
    states = np.zeros((101, 2), bool)
    states[20:60, 0] = True
    states[50:80, 1] = True
    trace = Trace(states @ home.powers, 6.0, states=states)
    curves = bound_curves(home, [0.05], trace=trace)
    assert curves.floor == pytest.approx(1 - 4 / 200)
    assert curves.max_switches == 1
    limit = 0.0
    for i, other in ((0, 1), (1, 0)):
        before, moves = states[:-1, i], np.diff(states.astype(int), axis=0)
        for on in (False, True):
            quiet = (before == on) & (moves[:, other] == 0)
            share, prior = quiet.mean(), np.abs(moves[quiet, i]).mean()
            limit += share * float(laplace_limit(home.powers[i], curves.scale, prior)[0])
        # Where the other appliance switches, this one never does, and an attacker may know it.
        limit += (moves[:, other] != 0).mean()
    assert curves.limit[0] == pytest.approx(limit / 2)
    assert curves.exact[0] == pytest.approx(exact_curve(home, curves.scale, trace=trace)[0])


def test_the_bounds_of_a_trace_contain_its_exact_accuracy():
    home = synth.ready_home("similar8")
    for sparsity in (0.99, 0.9, 0.6):
        trace = synth.trace(home, 800, sparsity, seed=3)
        curves = bound_curves(home, np.geomspace(10, 1e-3, 25), trace=trace)
        assert (curves.exact >= np.asarray(curves.corrected.lower) - 1e-9).all()
        assert (curves.exact <= np.asarray(curves.corrected.upper) + 1e-9).all()
        assert (curves.exact <= curves.limit + 1e-9).all()


def test_information_stands_beside_every_epsilon():
    """One reading: the exact bits; a series: bounds that contain those of independent readings."""
    from hushmeter import synth
    from hushmeter.noise import Laplace
    from hushmeter.theory.bounds import bound_curves, series_curves
    from hushmeter.theory.universal import reading_information

    home = synth.ready_home("similar8")
    curves = bound_curves(home, [0.01, 0.1, 1.0])
    noise = Laplace(0.01, 10.0, grid=1.0, on_grid=True)
    scale = noise.scale
    found = bound_curves(home, [home.tolerance / 2 / scale]).information[0]
    exact = np.mean([reading_information(float(p), noise) for p in home.powers])
    # The powers are rounded up to whole watts.
    assert found == pytest.approx(exact, rel=0.01)
    assert (np.diff(curves.information) > 0).all()
    trace = synth.trace(home, 600, seed=1)
    lower, upper = series_curves(home, trace, [0.01, 0.1, 1.0]).information.T
    assert (lower <= upper).all()
    assert (np.diff(upper) >= 0).all()
    assert (lower >= 0).all()
    assert (upper <= len(trace)).all()
    still = trace.derive(states=np.repeat(trace.truth()[:1], len(trace), axis=0))
    assert not series_curves(home, still, [0.1, 1.0]).information.any()
