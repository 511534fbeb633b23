from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.noise import Gaussian, Laplace, Staircase, parse_mechanism, samplers
from hushmeter.noise import mechanism as mechanism_module
from hushmeter.noise.mechanism import (
    MAX_STEPS,
    _check_on_grid,
    _check_readings,
    _output_array,
    exact,
    steps_apart,
    to_steps,
)

KEY = bytes(range(32))
MAKERS = [
    Laplace,
    Staircase,
    lambda epsilon, sensitivity, grid=1.0, **more: Gaussian(
        epsilon, 1e-6, sensitivity, grid, **more
    ),
]
makers = pytest.mark.parametrize("make", MAKERS, ids=["laplace", "staircase", "gaussian"])


@pytest.fixture
def no_randomness(monkeypatch):
    """Nothing may be drawn: any key request fails the test."""

    def refuse(*_):
        raise RuntimeError("randomness was drawn")

    monkeypatch.setattr(mechanism_module, "release_key", refuse)


@makers
@pytest.mark.parametrize("value", [float("nan"), 0, -1, float("inf"), "x", None, True, "1/0", [1]])
def test_bad_epsilon_sensitivity_and_grid_are_refused(make, value):
    for arguments in ((value, 10.0), (1.0, value), (1.0, 10.0, value)):
        with pytest.raises(InputError, match=r"must be"):
            make(*arguments)


def test_the_sentence_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"^epsilon must be positive and finite, got nan\.$"):
        Laplace(float("nan"), 10.0)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, float("nan"), "1e-61"])
def test_bad_delta_is_refused(delta):
    with pytest.raises(InputError, match="delta"):
        Gaussian(1.0, delta, 10.0)


@makers
def test_epsilon_above_the_cap_needs_an_override(make):
    with pytest.raises(InputError, match="max_epsilon"):
        make(21, 10.0)
    assert make(0.3, 10.0, max_epsilon=0.3).epsilon == 0.3
    raised = make(21, 10.0, max_epsilon=25)
    assert raised.describe()["max_epsilon"] == 25.0
    assert make(20, 10.0).epsilon == 20


def test_a_scale_beyond_the_digits_is_refused():
    for make in MAKERS:
        with pytest.raises(InputError, match="too wide"):
            make("1e-12", 10.0)


@makers
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None])
@pytest.mark.parametrize("clamp", [None, (0.0, 5000.0)])
def test_a_reading_that_is_no_number_is_refused_with_its_row(make, bad, clamp, no_randomness):
    readings = [1.0, 2.0, bad, 4.0]
    with pytest.raises(DataError, match="row 2"):
        make(1.0, 10.0, clamp=clamp).release(np.array(readings, dtype=float))


def test_readings_that_are_not_a_vector_of_numbers_are_refused(no_randomness):
    mechanism = Laplace(1, 10)
    with pytest.raises(InputError, match="numbers"):
        mechanism.release(["a", "b"])
    with pytest.raises(InputError, match="one dimension"):
        mechanism.release(np.zeros((2, 2)))
    with pytest.raises(DataError, match="row 1 is 1e\\+11 W, too large"):
        mechanism.release([0.0, 1e11])


@pytest.mark.parametrize("clamp", [(1.0,), (2.0, 1.0), (0.0, float("inf")), 5, ("a", "b")])
def test_a_bad_clamp_is_refused(clamp):
    with pytest.raises(InputError, match="clamp"):
        Laplace(1, 10, clamp=clamp)


def test_other_bad_parameters_are_refused():
    with pytest.raises(InputError, match="too far"):
        Laplace(1, 10, grid="1e-9", clamp=(0.0, 1000.0))
    with pytest.raises(InputError, match="touches"):
        Laplace(1, 10, touches=0)
    with pytest.raises(InputError, match="size"):
        Laplace(1, 10).sample(-1)
    with pytest.raises(InputError, match="out must be"):
        Laplace(1, 10).release([1.0, 2.0], out=np.empty(3))


@makers
def test_empty_input_is_a_no_op(make):
    released = make(1.0, 10.0).release([])
    assert released.shape == (0,)
    assert released.dtype == np.float64
    assert make(1.0, 10.0).sample(0).size == 0


@makers
def test_out_of_range_and_negative_readings_are_clamped(make):
    mechanism = make(1.0, 10.0, clamp=(-100.0, 5000.0))
    wild = mechanism.release([-1e300, 7000.0, 1e300, -100.4], key=KEY)
    tame = mechanism.release([-100.0, 5000.0, 5000.0, -100.0], key=KEY)
    assert np.array_equal(wild, tame)


@makers
@pytest.mark.parametrize("grid", ["1", "0.1", "2.5", "1/3"])
def test_released_readings_are_rounded_half_up_plus_noise_on_the_grid(make, grid):
    mechanism = make(1.0, 10.0, grid)
    readings = np.array([0.0, 0.49, 0.5, 1.5, -0.5, 1234.567, 2.5])
    steps = np.floor(readings / float(Fraction(grid)) + 0.5)
    total = (steps + mechanism.sample(7, key=KEY)).astype(int)
    exact_grid = Fraction(grid)
    expected = [int(t) * exact_grid.numerator / exact_grid.denominator for t in total]
    assert mechanism.release(readings, key=KEY).tolist() == expected


@makers
def test_replay_is_byte_identical_and_blocks_leave_no_trace(make, monkeypatch):
    mechanism = make(0.5, 10.0)
    readings = np.linspace(0, 3000, 40_000)
    first = mechanism.release(readings, key=KEY)
    assert first.tobytes() == mechanism.release(readings, key=KEY).tobytes()
    assert np.array_equal(first[:777], mechanism.release(readings[:777], key=KEY))
    monkeypatch.setattr(samplers, "BLOCK", 333)
    assert first.tobytes() == mechanism.release(readings, key=KEY).tobytes()
    out = np.empty_like(readings)
    assert mechanism.release(readings, key=KEY, out=out) is out
    assert out.tobytes() == first.tobytes()


def test_real_releases_differ_and_simulations_repeat():
    mechanism, readings = Laplace(0.5, 10.0), np.zeros(100)
    assert not np.array_equal(mechanism.release(readings), mechanism.release(readings))
    assert np.array_equal(mechanism.release(readings, rng=7), mechanism.release(readings, rng=7))
    generator = np.random.default_rng(3)
    first, second = (mechanism.release(readings, rng=generator) for _ in range(2))
    assert not np.array_equal(first, second)
    again = mechanism.release(readings, rng=np.random.default_rng(3))
    assert np.array_equal(first, again)


def test_steps_of_the_sensitivity():
    assert Laplace(1, 10).steps == 11
    assert Laplace(1, "10.5").steps == 11
    assert Laplace(1, 10, on_grid=True).steps == 10
    assert Laplace(1, 0.3, grid=0.1).steps == 4
    assert Laplace(1, 0.3, grid=0.1, on_grid=True).steps == 3
    assert Laplace(1, 5000, clamp=(0.0, 5000.0)).steps == 5000
    assert Laplace(1, 9000, clamp=(0.0, 5000.0)).steps == 5000
    assert Laplace(1, 10, clamp=(0.0, 5000.0)).steps == 11
    assert Laplace(1, 60, touches=30).steps == 90
    with pytest.raises(InputError, match="whole number of grid steps"):
        Laplace(1, "10.5", on_grid=True)


def test_off_grid_readings_are_refused_where_on_grid_was_promised(no_randomness):
    with pytest.raises(DataError, match=r"row 1 is 0\.25 W, which is not on the grid"):
        Laplace(1, 10, grid=0.1, on_grid=True).release([0.3, 0.25])


def test_the_nearest_float_below_a_half_is_covered_by_the_slack():
    almost = np.nextafter(0.5, 0)
    assert to_steps(almost, Fraction(1)) == 1
    assert [to_steps(watts, Fraction(1)) for watts in (-0.5, 0.49, 2.5)] == [0, 0, 3]
    assert steps_apart(Fraction(10) - Fraction(1, 10**12), Fraction(1)) == 11
    assert steps_apart(Fraction("9.5"), Fraction(1)) == 10
    assert MAX_STEPS == 2**36


def test_the_slack_counts_once_for_every_reading():
    many = 1 << 14
    assert steps_apart(Fraction(10**6) - Fraction(1, 2), Fraction(1), many) == 10**6 + many
    assert steps_apart(Fraction(10**6) - Fraction(1, 2), Fraction(1), 24) == 10**6 - 1 + 24


@makers
def test_a_change_between_the_steps_of_the_meter_counts_as_the_next_step(make):
    """A meter on whole watts may show 61 W for an appliance of 60.7 W, and 1 W for one of 0.4."""
    mechanism = make(1, 10, on_grid=True)
    assert mechanism.steps_of("60.7") == 61
    assert mechanism.steps_of("0.4") == 1
    assert mechanism.epsilon_for("0.4") > 0
    assert Laplace(1, "0.5", on_grid=True, touches=2).steps == 1


@makers
@pytest.mark.parametrize("value", [10**400, "1e-400", "1e-101", 1e300, "1e999999999"])
def test_numbers_beyond_all_measure_are_refused_in_one_sentence(make, value):
    for arguments in ((1, value), (1, 10, value)):
        with pytest.raises(InputError, match="must lie between 1e-100 and 1e100"):
            make(*arguments)
    with pytest.raises(InputError, match="epsilon must"):
        make(value, 10)


@makers
def test_an_epsilon_that_leaves_no_noise_is_refused(make):
    assert make(4000, 1, on_grid=True, max_epsilon=1e6).sample(3, rng=0).tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="epsilon 5000 leaves no noise at all on a grid of 1 W"):
        make(5000, 1, on_grid=True, max_epsilon=1e6)


def test_stairs_stay_whole_numbers_however_small_epsilon_is():
    """Beyond 2^53 a float skips odd numbers, and the last bits would show the reading's."""
    mechanism = Staircase("1e-9", 2e6)
    noise = mechanism.sample(4000, rng=1)
    assert np.abs(noise).max() < 2**53
    assert mechanism.coarsened
    assert mechanism.steps / mechanism.epsilon <= 2**45
    with pytest.raises(InputError, match="too wide for any grid"):
        Staircase("1e-14", 2e6)


def test_parameters_are_exact_decimals():
    assert exact("x", 0.1) == Fraction(1, 10)
    assert exact("x", np.float64(0.1)) == Fraction(1, 10)
    assert exact("x", "1/3") == Fraction(1, 3)
    assert exact("x", Decimal("2.50")) == Fraction(5, 2)
    assert exact("x", np.int64(3)) == 3
    assert Laplace("1/3", 10).exact_epsilon == Fraction(1, 3)


def test_wide_noise_coarsens_the_grid_and_says_so():
    fine, coarse = Laplace(1, 1e9), Laplace("1e-4", 1e9)
    assert not fine.coarsened
    assert coarse.coarsened
    assert coarse.grid == 500.0
    assert coarse.steps == 2_000_001
    assert coarse.describe()["coarsened"] is True
    assert np.all(coarse.release([1000.0, 77.0], rng=1) % 500 == 0)
    gaussian = Gaussian(1, 1e-6, 2000)
    assert gaussian.coarsened
    assert gaussian.grid == 2.0
    assert Staircase(1, 3e7).coarsened


@makers
def test_facts_are_plain_json(make):
    facts = make(0.5, 10.0, clamp=(0.0, 100.0)).describe()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["guarantee"] == "computational (AES-256-CTR)"
    assert facts["steps"] == 11
    assert facts["clamp"] == [0.0, 100.0]


@makers
def test_mechanisms_travel_between_processes(make):
    mechanism = make(0.5, 10.0)
    twin = pickle.loads(pickle.dumps(mechanism))
    assert np.array_equal(twin.sample(100, key=KEY), mechanism.sample(100, key=KEY))


def test_group_privacy():
    laplace, staircase = Laplace(0.5, 10), Staircase(0.5, 10)
    assert laplace.epsilon_for(10) == 0.5
    assert laplace.epsilon_for(0) == 0.0
    assert laplace.epsilon_for(21) == 1.0
    assert laplace.epsilon_for("0.5") == pytest.approx(0.5 / 11)
    assert [staircase.epsilon_for(x) for x in (0, 1, 10, 11, 22)] == [0, 0.5, 0.5, 1.0, 1.5]
    assert Laplace(1, 5000, clamp=(0.0, 5000.0)).epsilon_for(8000) == 1.0
    gaussian = Gaussian(1, 1e-6, 10)
    assert gaussian.epsilon_for(10) == 1.0
    assert gaussian.epsilon_for(0) == 0.0
    assert 0.4 < gaussian.epsilon_for(5) < 0.6
    assert 1.5 < gaussian.epsilon_for(20) < 2.5
    with pytest.raises(InputError):
        laplace.epsilon_for(-1)


@makers
def test_a_mechanism_is_made_again_from_its_own_parameters(make):
    mechanism = make("1/3", 10, "0.1", clamp=(0.0, 500.0))
    described = json.loads(json.dumps({mechanism.name: mechanism.parameters()}))
    twin = parse_mechanism(described)
    assert twin.describe() == mechanism.describe()
    assert np.array_equal(twin.sample(50, key=KEY), mechanism.sample(50, key=KEY))


def test_a_bad_description_of_a_mechanism_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="did you mean 'laplace'"):
        parse_mechanism({"laplase": {}})
    with pytest.raises(InputError, match="its name with its parameters"):
        parse_mechanism("laplace")
    with pytest.raises(InputError, match="must be names with values"):
        parse_mechanism({"laplace": 3})
    with pytest.raises(InputError, match="cannot be used"):
        parse_mechanism({"laplace": {"epsilon": 1, "sigma": 3}})


def test_good_readings_pass_as_contiguous_floats():
    values = _check_readings([1, 2, 3], math.inf)
    assert values.dtype == np.float64
    strided = _check_readings(np.arange(10)[::2], 100.0)
    assert strided.flags.c_contiguous
    array = np.arange(3.0)
    assert _check_readings(array, 10.0) is array


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_bad_row_is_named(bad):
    with pytest.raises(DataError, match=r"readings must be finite, but row 1 is -?(nan|inf)\."):
        _check_readings([0.0, bad, bad], 10.0)


def test_shapes_and_limits():
    with pytest.raises(DataError, match="row 0 is -10 W, too large"):
        _check_readings([-10.0], 10.0)
    with pytest.raises(InputError, match=r"shape \(\)"):
        _check_readings(5.0, 10.0)


def test_on_grid_allows_for_float_rounding_only():
    _check_on_grid(np.arange(100_000) * 0.1, Fraction(1, 10))
    _check_on_grid(np.array([1e9 + 0.1]), Fraction(1, 10))
    with pytest.raises(DataError, match="row 70000"):
        _check_on_grid(np.where(np.arange(80_000) < 70_000, 0.2, 0.15), Fraction(1, 10))


def test_outputs():
    given = np.empty(3)
    assert _output_array(given, 3) is given
    assert _output_array(None, 4).shape == (4,)
    for wrong in (np.empty(2), np.empty(3, dtype=np.float32), np.empty(6)[::2]):
        with pytest.raises(InputError, match="contiguous float64"):
            _output_array(wrong, 3)
