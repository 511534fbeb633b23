"""Attacks on coarser releases: the share of time on."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.scoring import on_shares, score, score_shares


def trace(steps=None):
    states = np.array([[1, 0], [1, 0], [0, 0], [0, 1], [0, 1], [0, 1], [1, 1], [1, 0]], bool)
    return hm.Trace(
        states @ [100.0, 50.0],
        60.0,
        "2024-01-01T00:00Z",
        states,
        states * [100.0, 50.0],
        steps=steps,
    )


def test_shares_are_means_of_the_states():
    assert on_shares(trace(), "4min").tolist() == [[0.5, 0.25], [0.5, 0.75]]


def test_incomplete_intervals_are_left_out_as_in_the_release():
    gapped = trace(steps=[0, 1, 2, 3, 4, 5, 8, 9])
    assert on_shares(gapped, "2min").shape == (len(gapped.coarsen("2min")), 2)
    assert on_shares(gapped, "4min").tolist() == [[0.5, 0.25]]


def test_the_error_is_a_mean_over_intervals():
    found = score_shares([[0.5, 0.25], [1.0, 0.75]], trace(), "4min")
    assert found.per_appliance.tolist() == [0.25, 0.0]
    assert found.error == 0.125
    assert found.off_error == 0.5


def test_an_attack_on_half_hours_has_both_scores():
    home = hm.synth.ready_home("evening")
    fine = hm.synth.trace(home, 14_400, seed=1)
    coarse = fine.coarsen("5min")
    states = hm.attackers["co"](home).predict(coarse)
    assert 0 <= score(states, coarse).alpha <= 1
    shares = score_shares(states, fine, "5min")
    assert 0 < shares.error < 1
    exact = score_shares(on_shares(fine, "5min"), fine, "5min")
    assert exact.error == 0.0


def test_bad_shares_are_refused():
    with pytest.raises(ValueError, match=r"shares have shape \(1, 2\), the truth \(2, 2\)"):
        score_shares([[0.0, 0.0]], trace(), "4min")
    with pytest.raises(ValueError, match="between 0 and 1"):
        score_shares([[0.0, 2.0], [0.0, 0.0]], trace(), "4min")
    with pytest.raises(ValueError, match="no true states"):
        on_shares(hm.Trace([1.0, 2.0], 60.0), "2min")
