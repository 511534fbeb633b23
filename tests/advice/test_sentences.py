from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.releases.cost import expect_cost

HOME = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)


def test_a_score_in_odds():
    truth = np.array([[1], [0], [0], [0], [0], [0], [0], [0]], bool)
    assert hm.explain(hm.score(truth, truth, names=["kettle"])) == (
        "The attacker is right about the kettle in 100 out of 100 moments; "
        "a guess without your data is right in 87.5.",
    )


def test_a_receipt_names_its_unit():
    trace = hm.Trace(np.full(50, 100.0), 6.0)
    unit = hm.resolve_unit(interval_s=6.0, home=HOME)
    done = hm.release(trace, hm.calibrate("laplace", 0.5, unit), unit, home=HOME, rng=0)
    first, kettle = hm.explain(done)
    assert first == (
        "This is a simulation and must not be published. ε = 0.5 protects whether the kettle is "
        "on (2000 W), in one metered reading of 6 s."
    )
    assert kettle == (
        "From one reading, the best possible guess about the kettle is right 61.1 times out of "
        "100; from one run 89.8 times; from a whole day over 99.9 times. A coin is right 50 times."
    )
    assert hm.explain(done.receipt) == (
        "This is a simulation and must not be published. ε = 0.5 protects any use of up to "
        "3.33 Wh and 2 kW, in one metered reading of 6 s.",
    )


def test_costs_in_watts_and_money():
    sentences = hm.explain(expect_cost(hm.Laplace(1.0, 2000.0, on_grid=True), 1800.0))
    assert sentences[0] == (
        "A released reading (30 min) is off by 2 kW on average, and the mean of an hour by 1.6 kW."
    )
    assert "on the bill at 0.30 per kWh" in sentences[1]


def test_there_are_no_words_for_anything_else():
    with pytest.raises(TypeError, match="Advice, got int"):
        hm.explain(3)
