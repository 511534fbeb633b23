"""What a person may ask, and requests that contradict themselves."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.home import LearntFrom
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.request import (
    describe_use,
    enclose_uses,
    find_appliances,
    odds_share,
    use_energy_wh,
)

START = "2024-01-15T00:00Z"
HOUR = hm.Metered(3600.0)
KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
PEAK = "peak = weekdays 16:00-21:00"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "say what to hide, such as hide='kettle', or give an epsilon"),
        ({"hide": "kettle", "epsilon": 1}, "hide finds the noise itself: leave out epsilon"),
        ({"hide": "kettle", "grid": 2}, "hide finds the noise itself: leave out grid"),
        ({"hide": "kettle", "watts": 9}, "hide finds the noise itself: leave out watts"),
        ({"hide": "kettle", "protect": "range"}, "leave out protect"),
        ({"epsilon": 1, "odds": 60}, "odds and purpose need hide"),
        ({"epsilon": 1, "purpose": "day"}, "odds and purpose need hide"),
        ({"epsilon": 1, "watts": 5, "protect": "appliance"}, "watts is the size of a change"),
        ({"epsilon": 30}, "at most max_epsilon = 20, got 30"),
        ({"epsilon": 1, "tables": ["views"], "mechanism": "laplace"}, "leave out laplace"),
        ({"epsilon": 1, "tables": ["days"], "mechanism": "staircase"}, "leave out staircase"),
        ({"epsilon": 1, "tables": [PEAK], "span": "when"}, "further tables have nothing to add"),
        ({"epsilon": 1, "tables": ["days", "register"]}, "the register adds up the hours"),
        ({"epsilon": 1, "tables": ["weeks"]}, "no table named 'weeks'"),
        ({"epsilon": 1, "span": "week"}, "span must be one of"),
        ({"epsilon": 1, "protect": "everything"}, "protect must be one of"),
        ({"epsilon": 1, "mechanism": "uniform"}, "mechanism must be one of"),
        ({"epsilon": 1, "delta": 2.0}, "delta must lie between 0 and 1"),
        ({"epsilon": 1, "clamp": (5, 1)}, "clamp must be"),
        ({"hide": "ketle"}, "did you mean 'kettle'"),
        ({"hide": " , "}, "name what to hide"),
        ({"hide": "kettle", "odds": 100}, "between 1 and 100 out of 100, got 100"),
        ({"hide": "kettle", "odds": -0.1}, "odds must be positive"),
    ],
)
def test_contradictions_are_refused_in_one_sentence(fields, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.Request(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hide": "kettle", "odds": 50}, "no release keeps the odds at 50 out of 100"),
        ({"hide": "kettle", "purpose": "week"}, "purpose must be one of hour, day, month, profile"),
        ({"hide": "kettle", "use": "30min"}, "use is a time a day: it needs span 'day'"),
        ({"epsilon": 1}, "protect 'appliance' needs a home"),
        ({"epsilon": 1, "home": KETTLE, "tables": ["hours"], "every": "1d"}, "hours is finer"),
        (
            {"epsilon": 1, "home": KETTLE, "tables": ["views", "x = 16:30-17:30"]},
            "a border at 16:30, within a cell of 1 hour",
        ),
        ({"epsilon": 1, "home": KETTLE, "tables": ["views"], "every": "7h"}, "divide a day"),
        (
            {"epsilon": 1, "home": KETTLE, "tables": ["a = 16:00-21:00, 20:00-22:00"]},
            "the parts of the band a overlap",
        ),
    ],
)
def test_requests_that_do_not_fit_the_meter_are_refused_in_one_sentence(fields, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.Request(**fields).resolve(HOUR)
    assert "\n" not in str(caught.value)


def test_words_of_tables():
    request = hm.Request(epsilon=1, tables=["views", "days", PEAK])
    assert request.tables == (*VIEWS, PEAK)
    assert request.several
    assert hm.Request(epsilon=1, tables="views").tables == VIEWS
    for tables, words in (
        ((), ("cells",)),
        (("hours",), ("hours",)),
        (("register",), ("cells", "register")),
        (("hours", "register"), ("hours", "register")),
    ):
        request = hm.Request(epsilon=1, home=KETTLE, tables=tables)
        assert not request.several
        assert request.words == words
        promise = request.resolve(HOUR)
        assert [entry.name for entry in promise.tables] == ["cells"]
        assert promise.noise.name == "laplace"


@pytest.mark.parametrize("tables", [("register",), ("hours", "register")])
def test_the_register_is_a_view_of_the_cells(tables):
    trace = hm.Trace(np.full(48, 300.0), 3600.0, START)
    request = hm.Request(epsilon=1, home=KETTLE, tables=tables)
    done = request.resolve(hm.metered(trace)).release(trace)
    assert done.view("register").values[-1] == pytest.approx(done.estimate.sum() / 1000)


def test_the_span_that_a_request_means():
    assert hm.Request(epsilon=1).chosen_span() == "reading"
    assert hm.Request(epsilon=1, tables=["days"]).chosen_span() == "run"
    assert hm.Request(hide="kettle").chosen_span() == "run"
    lamp = hm.Home([hm.Appliance("lamp", 60.0)])
    assert hm.Request(hide="lamp", home=lamp).chosen_span() == "reading"
    assert hm.Request(hide="kettle", span="when").chosen_span() == "when"


def test_odds_are_a_share_or_out_of_100():
    assert odds_share(60) == odds_share(0.6) == 0.6
    scales = [hm.Request(hide="kettle", odds=o).resolve(HOUR).noise.scale for o in (60, 0.6)]
    assert scales[0] == scales[1]


def test_a_meter_that_samples_needs_longer_runs():
    """One sample counts for its whole interval: a run of 180 s lies in four slots of 60 s."""
    request = hm.Request(hide=hm.Appliance("kettle", 2100.0, run_s=180.0), every="1h")
    mean, sample = (request.unit(hm.Metered(60.0, samples=s), "1h") for s in (False, True))
    assert mean.l1 == pytest.approx(105)
    assert sample.l1 == pytest.approx(105 * 4 / 3)


def test_an_enclosing_use_keeps_the_source_of_each_number():
    """Only numbers that enclose a learnt one are learnt, rounded and in need of consent."""
    learnt = hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt", typed=["run_s"])
    own = hm.Appliance("oven", 2222.0, run_s=3333.0)
    use = enclose_uses([learnt, own])
    assert use.source_of("power") == use.source_of("energy_wh") == "learnt"
    assert use.source_of("run_s") == "typed"
    assert use.protected_run_s == 3333.0
    assert use.protected_power == 2500.0


def test_several_appliances_are_enclosed_in_one_use():
    found = find_appliances("kettle, tv, oven 2 kW")
    use = enclose_uses(found)
    assert use.protected_power == 3100
    assert use.protected_run_s == 28_800
    assert use_energy_wh(use) == max(map(use_energy_wh, found)) == 2600
    assert describe_use(use).startswith("any use of up to 2.6 kWh and 3.1 kW that lasts up to 8 h")
    together = hm.Request(hide=found).unit(HOUR)
    for appliance in found:
        alone = hm.Request(hide=appliance).unit(HOUR)
        for size in ("l1", "l2", "largest", "touches"):
            assert getattr(together, size) >= getattr(alone, size)


@pytest.mark.parametrize("hidden", ["kettle", "kettle,oven"])
@pytest.mark.parametrize("tables", [(), VIEWS])
def test_numbers_of_a_learnt_home_need_consent(hidden, tables):
    """Several appliances are joined into one use, which stays "learnt" with its days."""
    appliances = [
        hm.Appliance("kettle", 2087.0, run_s=171.0, source="learnt"),
        hm.Appliance("oven", 2600.0, run_s=1800.0),
    ]
    trace = hm.Trace(np.full(48, 300.0), 3600.0, START)
    here = LearntFrom("0f" * 32, START, "2024-01-20T00:00Z")
    elsewhere = LearntFrom("0f" * 32, "2023-01-15T00:00Z", "2023-01-20T00:00Z")
    for learnt_from, refused in ((here, True), (elsewhere, False)):
        home = hm.Home(appliances, 20.0, learnt_from=learnt_from)
        request = hm.Request(hide=hidden, home=home, tables=tables)
        assert request.member.source == "learnt"
        promise = request.resolve(hm.metered(trace))
        if refused:
            with pytest.raises(InputError, match="learnt from these readings"):
                promise.release(trace)
            agreed = request.with_changes(accept_learnt=True).resolve(hm.metered(trace))
            assert agreed.release(trace).receipt.sources == ("learnt from these readings",)
        else:
            assert promise.release(trace).receipt.sources == ("learnt from other days",)


def test_names_are_those_of_the_home_if_there_is_one():
    home = hm.Home([hm.Appliance("tv", 80.0, run_s=3600.0), hm.Appliance("kettle", 2000.0)])
    assert find_appliances("television", home)[0] is home.appliances[0]
    assert find_appliances("kettle", home)[0].protected_power == 2000
    with pytest.raises(InputError, match="no appliance named 'oven'"):
        find_appliances("oven", home)
