from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.protect.cost import expect_cost
from hushmeter.wording import duration, times, watts

HOME = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)


def test_a_score_in_odds():
    truth = np.array([[1], [0], [0], [0], [0], [0], [0], [0]], bool)
    assert hm.explain(hm.score(truth, truth, names=["kettle"])) == (
        "Right about the kettle in 100 of 100 moments; without your data: 87.5.",
    )


def test_a_receipt_names_its_unit():
    trace = hm.Trace(np.full(50, 100.0), 6.0)
    unit = hm.resolve_unit(interval_s=6.0, home=HOME)
    done = hm.release(trace, hm.calibrate("laplace", 0.5, unit), home=HOME, rng=0)
    first, kettle = hm.explain(done)
    assert first == (
        "A simulation, not to be published. Protected at ε = 0.5: whether the kettle is on "
        "(2000 W), in one metered reading of 6 s."
    )
    assert kettle == (
        "Best guess about the kettle, right times of 100: from one reading 61.1, "
        "from one run 89.8, from a whole day over 99.9; a coin: 50."
    )
    assert hm.explain(done.receipt) == hm.explain(done)


def test_costs_in_watts_and_money():
    sentences = hm.explain(expect_cost(hm.Laplace(1.0, 2000.0, on_grid=True), 1800.0))
    assert sentences[0] == (
        "A released reading (30 min) is off by 2 kW on average, the mean of an hour by 1.6 kW."
    )
    assert "on the bill at 0.30 per kWh" in sentences[1]


def test_there_are_no_words_for_anything_else():
    with pytest.raises(TypeError, match="no words for a int"):
        hm.explain(3)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.5, "50"), (0.714, "71.4"), (0.9994, "99.9"), (0.99999, "over 99.9"), (1.0, "100")],
)
def test_odds_are_never_rounded_up_to_certainty(share, words):
    assert times(share) == words


def test_units_are_said_short():
    assert (watts(12.345), watts(60_000)) == ("12.3 W", "60 kW")
    assert (watts(999.7), watts(-10_470), watts(1.234e9)) == ("1 kW", "-10.5 kW", "1230000 kW")
    assert (duration(6), duration(90), duration(3600)) == ("6 s", "1.5 min", "1 h")


def test_large_energies_have_no_exponent():
    from hushmeter.wording import _two_digits

    values = {0.0523: "0.052", 8.94: "8.9", 99.6: "100", 223.0: "220", 12_345.0: "12000"}
    assert {value: _two_digits(value) for value in values} == values
