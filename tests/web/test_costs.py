"""The time of an attack is estimated before the attack is accepted."""

from __future__ import annotations

import time

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.web.attacks import live_attackers
from hushmeter.web.costs import LONG_S, estimate_attack
from tests.web.serving import example, serving


def large_home(session, count=40):
    """A home of many appliances, one of which has its truth in the example."""
    known = session["home"]["appliances"][0]["name"]
    names = [known, *(f"appliance {i}" for i in range(count - 1))]
    return {"appliances": [{"name": n, "watts": 50 + 37 * i} for i, n in enumerate(names)]}


@pytest.fixture(scope="module")
def client():
    with serving() as running:
        yield running


@pytest.mark.parametrize("attacker", ["alip", "ip", "fhmm"])
def test_an_attack_that_takes_minutes_is_refused_at_once(client, attacker):
    session = example(client)
    body = {"trace": session["id"], "home": large_home(session), "epsilon": 1.0}
    answer = client.post("/api/attack", json={**body, "attacker": attacker})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(f"the attacker {attacker} would take about ")
    assert answer.json()["error"].endswith(
        "readings of 40 appliances, and the page allows 30 s: choose fewer readings, fewer "
        "appliances or another attacker."
    )
    # Fewer readings are accepted, averaged ones too.
    few = client.post("/api/attack", json={**body, "attacker": "co", "every": "30min"})
    assert few.status_code == 200, few.text


@pytest.mark.parametrize("name", live_attackers())
def test_the_examples_are_short(name):
    assert estimate_attack(name, hm.synth.ready_home("evening"), 2400, 0) < LONG_S


def test_estimates_grow_with_everything_that_takes_time():
    homes = [hm.synth.home(n=n, seed=1) for n in (4, 8, 16, 24, 40)]
    for name in live_attackers():
        seconds = [estimate_attack(name, home, 1000, 1000) for home in homes]
        assert seconds == sorted(seconds)
        assert estimate_attack(name, homes[2], 2000, 1000) > seconds[2]
        assert estimate_attack(name, homes[2], 1000, 2000) > seconds[2]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("bayes", 16), ("fhmm", 14), ("co", 30), ("alip", 12)])
def test_the_estimate_is_of_the_right_order(name, count):
    """Within a factor of 20, on any machine: what matters is minutes against a moment."""
    home = hm.synth.home(n=count, seed=1)
    trace = hm.synth.trace(home, 4000, interval_s=6.0, seed=2)
    noisy = trace.readings[:1000] + np.random.default_rng(3).laplace(0, 200, 1000)
    attacker = hm.attackers[name](home)
    attacker.fit(trace).predict(noisy[:10], rng=0)
    start = time.perf_counter()
    attacker.fit(trace).predict(noisy, rng=0)
    taken = max(time.perf_counter() - start, 0.05)
    assert taken / 20 < max(estimate_attack(name, home, 1000, 4000), 0.05) < 20 * taken
