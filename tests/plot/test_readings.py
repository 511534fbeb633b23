from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.plot.readings import _stretches, draw_attack


@pytest.fixture
def attack():
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 600, seed=1)
    states = hm.attackers["hierarchical"](home).predict(trace, rng=0)
    return trace, states, hm.score(states, trace)


def test_every_appliance_has_a_strip_and_a_score(attack):
    trace, states, score = attack
    figure = draw_attack(trace, states, score, "title")
    top, strips = figure.axes
    labels = [tick.get_text() for tick in strips.get_yticklabels()]
    assert labels == list(reversed(trace.names))
    assert len(strips.texts) == len(trace.names)
    assert top.get_ylabel() == "meter [kW]"


def test_strips_cover_exactly_what_is_on():
    hours = np.arange(6) / 10
    where = np.array([False, True, True, False, False, True])
    np.testing.assert_allclose(_stretches(hours, where), [(0.1, 0.2), (0.5, 0.1)])
    assert _stretches(hours[:1], where[1:2]) == [(0.0, 1.0)]
