"""A mechanism answers for itself: a new kind is one module and one entry of the registry."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.ledger.charges import period_price
from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.noise import MECHANISMS, Mechanism, audit, parse_mechanism
from hushmeter.noise.samplers import MAX_DIGITS, laplace_digits, laplace_sampler
from hushmeter.privacy import compose_change, unknown_moment

SOURCE = Path(hm.__file__).parent
KINDS = {"Laplace", "Staircase", "Gaussian"}
NAMES = {"laplace", "staircase", "gaussian"}


def asks_for_a_kind(node):
    """True for isinstance with a kind of noise, and for a comparison with the name of one."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
        return any(
            getattr(one, "id", getattr(one, "attr", "")) in KINDS for one in ast.walk(node.args[1])
        )
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        found = {
            one.value
            for side in sides
            for one in ast.walk(side)
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        }
        # `"laplace" in study.mechanisms` asks what was studied, and not for the kind of a noise.
        return bool(found & NAMES) and not isinstance(node.ops[0], ast.In)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
        return bool({getattr(key, "value", None) for key in node.value.keys} & NAMES)
    return isinstance(node, ast.MatchValue) and getattr(node.value, "value", None) in NAMES


def questions(code):
    return [node.lineno for node in ast.walk(ast.parse(code)) if asks_for_a_kind(node)]


def test_no_other_package_asks_for_the_kind_of_a_mechanism():
    files = [file for file in SOURCE.rglob("*.py") if file.parent != SOURCE / "noise"]
    assert len(files) > 100
    found = {str(file): questions(file.read_text("utf-8")) for file in files}
    assert not {file: lines for file, lines in found.items() if lines}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(noise, Gaussian)",
        "isinstance(noise, noise.Laplace | noise.Staircase)",
        'noise.name == "laplace"',
        'name != "gaussian"',
        'noise.name not in ("laplace", "gaussian")',
        '{"laplace": 1, "gaussian": 2}[name]',
    ],
)
def test_the_guard_finds_such_a_question(code):
    assert questions(code)


class PerValue(Mechanism):
    """Two-sided geometric noise whose ε is divided among the values, for a test.

    It shares no code with `Laplace` but the sampler, so it shows what a new kind must bring along.
    """

    name = "per-value"
    title = "geometric"
    norm = 1

    @staticmethod
    def measure(size):
        return size.largest

    @classmethod
    def calibrated(cls, epsilon, size, grid=1.0, *, delta=0, **options):
        return cls(Fraction(epsilon) / size.touches, size.largest, grid, **options)

    @property
    def _alpha(self):
        return math.exp(-self.epsilon / self.steps)

    @property
    def scale(self):
        return self.grid * self.steps / self.epsilon

    @property
    def mean_abs(self):
        return self.grid * 2 * self._alpha / (1 - self._alpha**2)

    @property
    def std(self):
        return self.grid * math.sqrt(2 * self._alpha) / (1 - self._alpha)

    def _log_mass(self, magnitude):
        return math.log((1 - self._alpha) / (1 + self._alpha)) + magnitude * math.log(self._alpha)

    def _tail(self, magnitude):
        return self._alpha**magnitude / (1 + self._alpha)

    def _fits(self, steps):
        return laplace_digits(self.exact_epsilon / steps) <= MAX_DIGITS

    def _sampler(self):
        return laplace_sampler(self.exact_epsilon / self.steps)

    def exact_epsilon_for(self, shift, touches=1):
        return self.exact_epsilon * touches * self.steps_of(shift) / self.steps

    def largest_loss(self, steps):
        return self.epsilon * steps / self.steps

    def losses(self, steps, most=0):
        reach = steps + math.ceil(40 * self.steps / self.epsilon)
        outcomes = np.arange(-reach, reach + 1)
        masses = np.bincount(
            np.abs(outcomes - steps) - np.abs(outcomes) + steps, self.pmf(outcomes)
        )
        return masses, self.epsilon / self.steps, -steps

    def cost(self, moved):
        return self.exact_epsilon * sum(n * step for step, n in moved.worst) / self.steps


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(MECHANISMS, PerValue.name, PerValue)


HOME = hm.Home([hm.Appliance("kettle", 60.0, run_s=3600.0), hm.Appliance("lamp", 20.0)], 5.0)
UNIT = hm.resolve_unit("appliance", "run", interval_s=1800.0, home=HOME, appliance="kettle")


def test_a_new_kind_is_calibrated_released_described_and_parsed_back(registered):
    noise = hm.calibrate("per-value", 3, UNIT)
    assert isinstance(noise, PerValue)
    assert noise.epsilon == 1.0
    assert noise.epsilon_of(UNIT) == pytest.approx(3)
    trace = hm.synth.trace(HOME, 480, 0.9, seed=1, interval_s=1800.0)
    done = hm.release(trace, noise, UNIT, home=HOME, rng=4)
    assert done.receipt.epsilon == pytest.approx(3)
    assert done.receipt.tables[0]["noise"]["mechanism"] == "per-value"
    twin = parse_mechanism({"per-value": noise.parameters()})
    assert twin.describe() == noise.describe()
    np.testing.assert_array_equal(
        twin.release(trace.readings, rng=4), noise.release(trace.readings, rng=4)
    )


def test_a_new_kind_is_accounted_for_as_its_distribution_is(registered):
    noise = hm.calibrate("per-value", 3, UNIT)
    (change,) = UNIT.changes
    same = hm.Laplace(noise.exact_epsilon, noise.exact_sensitivity)
    found, wanted = (compose_change(one, change) for one in (noise, same))
    assert found.odds == pytest.approx(wanted.odds, rel=1e-9)
    assert found.epsilon == pytest.approx(wanted.epsilon, rel=1e-9)
    assert unknown_moment(noise, change).odds == pytest.approx(unknown_moment(same, change).odds)
    assert period_price(noise, change) == period_price(same, change)
    limits = [hm.universal_limit(HOME, one, 0.3, readings=2) for one in (noise, same)]
    np.testing.assert_allclose(*limits, rtol=1e-9)
    assert audit(noise, 20_000, rng=1).passed
    accounts = hm.account(noise, HOME, interval_s=1800.0)
    assert accounts[0].run.odds == found.odds


def test_advice_and_attackers_use_a_new_kind(registered):
    wish = hm.Request(hide="kettle", odds=0.7, home=HOME, mechanism="per-value")
    advice = hm.advise(wish, hm.Metered(1800.0), forms=("series",))
    assert {option.mechanism for option in advice.options} == {"per-value"}
    assert "geometric noise" in " ".join(hm.explain(advice))
    train, test = (hm.synth.trace(HOME, 2000, 0.95, seed=seed) for seed in (1, 2))
    noise = hm.calibrate("per-value", 12, UNIT)
    noisy = test.replace_readings(noise.release(test.readings, rng=3))
    attacker = Bayes(HOME).fit(train)
    knowing = hm.score(attacker.knows(noise).predict(noisy), test)
    assert knowing.alpha > hm.score(attacker.predict(noisy), test).alpha
