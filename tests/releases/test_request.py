"""Requests: what contradicts itself is refused in one sentence, before a reading is seen."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.releases.labels import CELLS, VIEWS

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
HOUR = hm.Metered(3600.0)
PEAK = "peak = weekdays 16:00-21:00"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "say what to hide, such as hide='kettle', or give an epsilon"),
        ({"home": KETTLE}, "say what to hide"),
        ({"epsilon": 1, "odds": 60}, "odds and purpose need hide"),
        ({"epsilon": 1, "purpose": "day"}, "odds and purpose need hide"),
        ({"epsilon": 30, "home": KETTLE}, "at most max_epsilon = 20, got 30"),
        ({"epsilon": 1, "watts": 5, "protect": "range"}, "watts is the size of a change"),
        ({"hide": "kettle", "epsilon": 1}, "hide finds the noise itself: leave out epsilon"),
        ({"hide": "kettle", "protect": "range"}, "leave out protect"),
        ({"hide": "kettle", "appliance": "oven"}, "leave out appliance"),
        ({"hide": "kettle", "watts": 5}, "leave out watts"),
        ({"hide": "kettle", "grid": 1}, "leave out grid"),
        ({"hide": ""}, "name what to hide"),
        ({"hide": "oven", "home": KETTLE}, "oven"),
        ({"hide": "kettle", "odds": 100}, "odds must lie between 0 and 1"),
        ({"hide": "kettle", "odds": -1}, "odds must be positive"),
        ({"epsilon": 1, "hourly_cost": 1.5}, "hourly_cost needs several tables"),
        ({"epsilon": 1, "hourly_cost": 1.5, "tables": ["hours"]}, "hourly_cost needs several"),
        ({"epsilon": 1, "tables": ["days", "register"]}, "it needs the table hours too"),
        ({"epsilon": 1, "tables": ["views"], "span": "when"}, "further tables have nothing to add"),
        ({"epsilon": 1, "tables": ["views"], "mechanism": "laplace"}, "leave out mechanism='lap"),
        ({"hide": "kettle", "tables": ["days"], "mechanism": "staircase"}, "Gaussian noise"),
        ({"epsilon": 1, "tables": ["fortnights"]}, "fortnights"),
        ({"epsilon": 1, "tables": ["b = noon"]}, "the band b has the part 'noon'"),
        ({"epsilon": 1, "mechanism": "uniform"}, "uniform"),
        ({"epsilon": 1, "protect": "everything"}, "protect must be"),
        ({"epsilon": 1, "span": "week"}, "span must be"),
        ({"epsilon": 1, "delta": 0}, "delta must be positive"),
        ({"epsilon": 1, "delta": 1}, "delta must lie between 0 and 1"),
        ({"epsilon": 1, "clamp": (5, 5)}, "clamp"),
    ],
)
def test_a_request_that_contradicts_itself_is_one_sentence(fields, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.Request(**fields)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("fields", "facts", "message"),
    [
        ({"epsilon": 1}, HOUR, "protect 'appliance' needs a home"),
        ({"epsilon": 1, "home": KETTLE, "tables": ["views"], "hourly_cost": 1.0}, HOUR, "above 1"),
        ({"epsilon": 1, "home": KETTLE, "every": "90min"}, HOUR, "multiple"),
        ({"hide": "kettle", "tables": ["hours", "days"], "every": "1d"}, HOUR, "finer than the"),
        ({"hide": "kettle", "tables": ["hours"], "every": "1d"}, HOUR, "finer than the cells"),
        ({"hide": "kettle", "purpose": "hour"}, hm.Metered(86_400.0), "show no single hours"),
        ({"hide": "kettle", "odds": 40}, HOUR, "no release keeps the odds at 40 out of 100"),
        ({"hide": "kettle", "odds": 1.5}, HOUR, "no release keeps the odds at 1.5 out of 100"),
    ],
)
def test_a_request_that_does_not_fit_the_meter_is_one_sentence(fields, facts, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.Request(**fields).resolve(facts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "/etc/passwd"])
def test_an_unknown_zone_is_refused(zone):
    with pytest.raises(InputError, match="time zone such as"):
        hm.Metered(3600.0, zone=zone)


def test_a_run_longer_than_the_period_is_refused():
    pump = hm.Appliance("pump", 100.0, run_s=300_000.0)
    home = hm.Home([*KETTLE.appliances, pump], 10.0)
    trace = hm.Trace(np.ones(48), 3600.0, "2024-01-01T00:00Z")
    request = hm.Request(epsilon=1, home=home, tables=["views"])
    with pytest.raises(InputError, match="longer than the period of 48 hours"):
        request.resolve(hm.metered(trace))
    assert request.with_changes(span="day").resolve(hm.metered(trace)).epsilon <= 1


def test_views_are_four_tables_and_each_is_named_once():
    request = hm.Request(epsilon=1, home=KETTLE, tables=["views", "days", "year"])
    assert request.tables == (*VIEWS, "year")
    assert request.several
    alone = hm.Request(epsilon=1, home=KETTLE, tables="register")
    assert not alone.several
    assert alone.words == (CELLS, "register")
    assert hm.Request(epsilon=1, home=KETTLE).words == (CELLS,)


def test_the_span_by_default():
    assert hm.Request(epsilon=1, home=KETTLE).chosen_span() == "reading"
    assert hm.Request(epsilon=1, home=KETTLE, tables=["days"]).chosen_span() == "run"
    assert hm.Request(hide="kettle 2100 W 180 s").chosen_span() == "run"
    assert hm.Request(hide=hm.Appliance("heater", 900.0)).chosen_span() == "reading"


@pytest.mark.parametrize(
    ("fields", "tables"),
    [
        ({}, VIEWS),
        ({"purpose": "hour"}, VIEWS),
        ({"purpose": "register"}, VIEWS),
        ({"purpose": "day"}, ("days", "months")),
        ({"purpose": "profile"}, ("typical-day", "months")),
        ({"purpose": "month"}, ("months",)),
        ({"purpose": "day", "every": "1h"}, ()),
        ({"purpose": "day", "span": "when"}, ()),
        ({"purpose": "day", "mechanism": "gaussian"}, ()),
        ({"tables": ["year"]}, ("year",)),
    ],
)
def test_a_wish_has_the_tables_of_its_purpose(fields, tables):
    request = hm.Request(hide="kettle", **fields)
    assert request.as_calendar(HOUR).tables == tables
    for longer_or_short in (hm.Metered(7200.0), hm.Metered(3600.0, readings=23)):
        assert request.as_calendar(longer_or_short) == request


@pytest.mark.parametrize("odds", [0.6, 60])
@pytest.mark.parametrize("tables", [(), ("views",), ("days", "peak = weekdays 16:00-21:00")])
def test_a_wish_keeps_its_odds(odds, tables):
    promise = hm.Request(hide="kettle 2100 W 180 s", odds=odds, tables=tables).resolve(HOUR)
    assert 0.599 <= promise.odds <= 0.6
    assert "times out of 100" in promise.sentences[1]


def test_one_epsilon_has_one_noise_by_every_way_in():
    """The ε that a wish finds gives the same noise if it is stated."""
    for tables in ((), ("views",), ("hours", "peak = weekdays 16:00-21:00")):
        wish = hm.Request(
            hide=KETTLE.appliances[0], tables=tables, every="1h", mechanism="gaussian"
        ).resolve(HOUR)
        stated = hm.Request(
            epsilon=wish.epsilon, home=KETTLE, span="run", tables=tables, every="1h",
            mechanism="gaussian",
        ).resolve(HOUR)  # fmt: skip
        assert [e.name for e in stated.tables] == [e.name for e in wish.tables]
        assert stated.grid == wish.grid
        for one, other in zip(stated.tables, wish.tables, strict=True):
            assert one.noise.scale == pytest.approx(other.noise.scale, rel=1e-3)


def test_no_reading_enters_a_promise(rng):
    """Promises for two traces with the same times are equal in every public number."""
    from hushmeter.releases.receipt import describe_promise

    request = hm.Request(hide="kettle 2100 W 180 s", tables=["views", "peak = 16:00-21:00"])
    one, two = (
        request.resolve(hm.metered(hm.Trace(rng.gamma(1.0, 300.0, 800), 3600.0))) for _ in range(2)
    )
    assert describe_promise(one) == describe_promise(two)
    assert not one.cells.times.readings.any()


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
    trace = hm.Trace(np.full(48, 300.0), 3600.0, "2024-01-15T00:00Z")
    request = hm.Request(epsilon=1, home=KETTLE, tables=tables)
    done = request.resolve(hm.metered(trace)).release(trace)
    assert done.view("register").values[-1] == pytest.approx(done.estimate.sum() / 1000)


def test_a_meter_that_samples_needs_longer_runs():
    """One sample counts for its whole interval: a run of 180 s lies in four slots of 60 s."""
    request = hm.Request(hide=hm.Appliance("kettle", 2100.0, run_s=180.0), every="1h")
    mean, sample = (request.unit(hm.Metered(60.0, samples=s), "1h") for s in (False, True))
    assert mean.l1 == pytest.approx(105)
    assert sample.l1 == pytest.approx(105 * 4 / 3)
