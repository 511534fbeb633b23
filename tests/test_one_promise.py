"""The same request states the same promise, whatever way it comes in."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.apps.fleet.job import FleetTerms
from hushmeter.apps.live.stream import Terms
from hushmeter.apps.page.schemas import PromiseRequest, to_model, to_request
from hushmeter.cli.options import make_request
from hushmeter.errors import HushmeterError
from hushmeter.files import json_text
from hushmeter.releases.labels import of_sums
from hushmeter.releases.receipt import Receipt, describe_promise
from hushmeter.releases.request import odds_share
from hushmeter.trace import Metering
from tests.cli.test_commands import run

HOME = hm.synth.ready_home("evening")
STATED = ("unit", "cells", "tables", "words", "epsilon", "delta", "odds", "errors", "hourly_cost")
"""What a promise states; where its numbers came from depends on the home and on the times."""


def stated(promise):
    """A promise as the plain values that a receipt or a command prints."""
    return entries(json.loads(json_text(describe_promise(promise))))


def entries(described):
    return {name: described[name] for name in STATED}


@st.composite
def meters(draw):
    """Readings of one to three days, with gaps, zones and meters that round."""
    interval_s = draw(st.sampled_from([600.0, 900.0, 1800.0, 3600.0]))
    count = round(draw(st.integers(1, 3)) * 86_400 / interval_s) + draw(st.integers(0, 5))
    steps = np.arange(count)
    if draw(st.booleans()):
        gap = draw(st.integers(1, count - 3))
        steps[gap:] += draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    trace = hm.Trace(
        np.rint(rng.gamma(1.0, 300.0, count)),
        interval_s,
        f"2024-{draw(st.sampled_from(['01-30', '03-30', '10-26']))}T00:00Z",
        steps=steps,
        metering=Metering(resolution_w=draw(st.sampled_from([0.0, 1.0, 10.0]))),
    )
    return trace, draw(st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))


uses = st.one_of(
    st.sampled_from(["kettle", "oven", "kettle, television", "washing machine", "fridge"]),
    st.builds(
        lambda watts, run_s: hm.Appliance("use", float(watts), run_s=float(run_s)),
        st.integers(50, 9000),
        st.integers(60, 6 * 3600),
    ),
)
tables = st.sampled_from(
    [
        (),
        ("hours",),
        ("views",),
        ("hours", "days"),
        ("hours", "months", "year"),
        ("hours", "typical-week", "peak = weekdays 16:00-21:00"),
        ("views", "peak = 16:00-21:00", "night = 22:00-06:00"),
    ]
)
wishes = st.fixed_dictionaries(
    {
        "hide": uses,
        "odds": st.sampled_from([0.55, 0.6, 70, 85.0]),
        "span": st.sampled_from([None, "run", "day"]),
    },
    optional={
        "purpose": st.sampled_from(["hour", "day", "month", "profile", "register"]),
        "clamp": st.just((0.0, 12_000.0)),
    },
)
numbers = st.fixed_dictionaries(
    {"epsilon": st.sampled_from(["0.3", 1, 1.9, "2.5"]), "home": st.just(HOME)},
    optional={
        "appliance": st.sampled_from(["kettle", "oven", "fridge"]),
        "span": st.sampled_from(["reading", "run", "day"]),
        "clamp": st.just((0.0, 12_000.0)),
        "grid": st.sampled_from(["1", "0.05"]),
    },
)
changes = st.fixed_dictionaries(
    {"epsilon": st.sampled_from([0.5, 2]), "watts": st.sampled_from([100.0, 2500.0])},
    optional={"span": st.sampled_from(["reading", "day"])},
)
forms = st.fixed_dictionaries(
    {"tables": tables, "every": st.sampled_from([None, "1h", "2h"])},
    optional={"mechanism": st.sampled_from(["laplace", "staircase", "gaussian"])},
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(meters(), st.one_of(wishes, numbers, changes), forms)
def test_every_way_in_states_the_same_promise(tmp_path_factory, meter, asked, form):
    trace, zone = meter
    facts = hm.metered(trace, zone)
    try:
        request = hm.Request(**asked, **form)
        promise = request.resolve(facts)
    except HushmeterError:  # It contradicts itself or does not fit the meter.
        reject()
    told = stated(promise)
    for other in (on_the_page(asked, form), in_a_command(asked, form)):
        assert other is None or stated(other.resolve(facts)) == told
    if request.hide is not None:
        # Where no cell is a local day, sums of days are tables, although nobody asked for tables.
        tables_made = of_sums(promise.words)
        concrete, shape = request, "calendar" if tables_made and not request.several else "series"
        if not tables_made:
            concrete = request.with_changes(
                every=promise.cells.interval_s, mechanism=promise.noise.name
            )
        assert stated(hm.advise(concrete, facts, forms=(shape,)).promise) == told
    if len(promise.tables) == 1:
        done = hm.release(trace, promise.noise, promise.unit, home=request.protected_home, rng=1)
        assert {**stated(done.promise), "words": told["words"]} == {
            **told,
            "cells": {**told["cells"], "zone": done.promise.cells.zone},
        }
    folder = tmp_path_factory.mktemp("release")
    real = replace(promise, accept_learnt=True).release(trace)
    assert entries(json.loads(real.receipt.to_json())) == told
    place = folder / ("out" if of_sums(promise.words) else "out.csv")
    real.save(place)
    checked = hm.verify(place)
    assert not checked.problems
    again = hm.read_release(place)
    assert nearly(stated(again.promise), told)
    read = Receipt.from_dict(json.loads(real.receipt.to_json()))
    assert entries(json.loads(read.to_json())) == told


def on_the_page(asked, form):
    """The same request as the page sends it, or None if the page has no word for a part of it."""
    words = {**asked, **form}
    if words.pop("tables") or "grid" in words:
        return None
    hide, home = words.pop("hide", None), words.pop("home", None)
    if isinstance(hide, hm.Appliance):
        hide, home = hide.name, hm.Home([hide])
    names = [] if hide is None else [name.strip() for name in hide.split(",")]
    if "epsilon" in words:
        words["epsilon"] = float(words["epsilon"])
    if "odds" in words:
        words["odds"] = odds_share(words["odds"])
    model = None if home is None else to_model(home)
    return to_request(PromiseRequest(hide=names, home=model, **words))


def in_a_command(asked, form):
    """The same request as the options of `release`, `advise` and `live` give it."""
    words = {**asked, **form}
    if isinstance(words.get("hide"), hm.Appliance):
        use = words["hide"]
        words["hide"] = f"use {use.power:g} W {use.run_s:g} s"
    if words.pop("home", None) is not None:
        words["home"] = "evening"
    if "watts" in words:
        words["sensitivity"] = f"{words.pop('watts'):g}"
    if "clamp" in words:
        words["clamp"] = "{:g},{:g}".format(*words["clamp"])
    names = list(words.pop("tables"))
    words["views"] = "views" in names
    words["table"] = [name for name in names if name != "views"]
    return make_request({"hide": None, "epsilon": None, **words})


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([600.0, 900.0, 1800.0, 3600.0]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    st.one_of(wishes, numbers, changes),
    forms,
)
def test_a_stream_states_the_same_promise(interval_s, zone, asked, form):
    facts = hm.Metered(interval_s, Metering(1.0), zone)
    try:
        promise = hm.Request(**asked, **form).resolve(facts)
        terms = Terms("home", in_a_command(asked, form).resolve(facts))
    except HushmeterError:
        reject()
    assert entries(json.loads(json_text(terms.describe()))) == stated(promise)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([60, 900, 1800, 3600]),
    st.fixed_dictionaries(
        {"epsilon": st.sampled_from(["0.3", 1, 1.9]), "clamp": st.just((0.0, 12_000.0))},
        optional={
            "watts": st.sampled_from([100.0, 2500.0]),
            "span": st.sampled_from(["reading", "run", "day"]),
            "mechanism": st.sampled_from(["laplace", "staircase", "gaussian"]),
            "grid": st.sampled_from(["1", "0.05"]),
            "delta": st.sampled_from(["1e-7", 1e-6]),
        },
    ),
)
def test_a_fleet_states_the_same_promise(interval_s, asked):
    try:
        terms = FleetTerms(**asked, interval_s=interval_s)
        described = json.loads(json_text(terms.describe()))
    except HushmeterError:
        reject()
    filled = {"protect": "change" if "watts" in asked else "range", "span": "reading"}
    promise = hm.Request(**{**filled, **asked}).resolve(hm.Metered(float(interval_s)))
    assert entries(described) == stated(promise)


def nearly(one, other):
    """True if two plain values are equal up to the last digits of their numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(nearly, one, other))
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-15)
    return one == other


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(meters(), uses, st.sampled_from([0.55, 60, 80]), tables)
def test_an_epsilon_of_ones_own_gets_the_noise_of_the_wish(meter, use, odds, words):
    """One promise does not get more noise because it is asked for by its ε."""
    facts = hm.metered(*meter)
    try:
        wish = hm.Request(hide=use, odds=odds, tables=words, mechanism="gaussian", every="1h")
        promise = wish.resolve(facts)
        own = hm.Request(
            epsilon=promise.epsilon,
            home=wish.protected_home,
            span=promise.unit.span,
            tables=words,
            mechanism="gaussian",
            every="1h",
        ).resolve(facts)
    except HushmeterError:
        reject()
    assert own.unit == promise.unit
    assert own.grid == promise.grid
    for one, other in zip(own.tables, promise.tables, strict=True):
        assert one.noise.scale == pytest.approx(other.noise.scale, rel=1e-3)
    assert own.odds == pytest.approx(promise.odds, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (("--hide", "kettle"), {"hide": "kettle"}),
        (
            ("--hide", "kettle", "--odds", 70, "--for", "month"),
            {"hide": "kettle", "odds": 70, "purpose": "month"},
        ),
        (
            ("--hide", "oven", "--every", "1h", "--mechanism", "laplace", "--span", "day"),
            {"hide": "oven", "every": "1h", "mechanism": "laplace", "span": "day"},
        ),
        (("--hide", "kettle", "--views"), {"hide": "kettle", "tables": ["views"]}),
        (
            ("--hide", "kettle", "--views", "--hourly-cost", 1.3, "--delta", "1e-7"),
            {"hide": "kettle", "tables": ["views"], "hourly_cost": 1.3, "delta": "1e-7"},
        ),
    ],
)
def test_the_commands_state_the_promise_of_python(tmp_path, options, fields):
    rng = np.random.default_rng(3)
    trace = hm.Trace(rng.gamma(1.0, 300.0, 48 * 5).round(), 1800.0, "2024-03-29T00:00Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    reader = (tmp_path / "meter.csv", "--tz", "Europe/Berlin", "--step", 1)
    read = hm.read_meter(tmp_path / "meter.csv", tz="Europe/Berlin", step="1")
    request = hm.Request(**fields)
    promise = request.resolve(hm.metered(read, zone_of(tmp_path / "meter.csv")))
    # Days and months are tables of the zone, also if only the purpose asks for them.
    several = of_sums(promise.words)
    advised = json.loads(run("advise", *reader, *options, "--json").stdout)
    if not several:
        # A wish alone is also served by tables; the release is one of cells.
        series = [one for one in advised["advice"]["options"] if one["form"] == "series"]
        assert series[0]["epsilon"] == pytest.approx(promise.epsilon)
        assert series[0]["odds"] == pytest.approx(promise.odds)
        assert series[0]["scale"] == pytest.approx(promise.noise.scale)
        assert series[0]["errors"] == pytest.approx(stated(promise)["errors"])
    if several or advised["advice"]["options"][0]["form"] == "series":
        assert entries(advised["promise"]) == stated(promise)
    out = tmp_path / ("out" if several else "out.csv")
    released = json.loads(run("release", *reader, *options, "-o", out, "--json").stdout)
    assert entries(released) == stated(promise)
    assert released["sentences"] == list(promise.sentences)
    assert json.loads(run("verify", out, "--json").stdout)["passed"]


def zone_of(path):
    from hushmeter.read import ReadOptions, read_recording

    return read_recording(path, ReadOptions(tz="Europe/Berlin", step="1")).public.zone or "UTC"
