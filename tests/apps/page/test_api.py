"""The JSON API against the Python one: the same numbers for the same seed."""

from __future__ import annotations

import base64
import gzip
import json
import math
import time
from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice import public_facts
from hushmeter.apps.page import workers
from hushmeter.apps.page.api import USUAL
from hushmeter.apps.page.attacks import NOT_LIVE
from hushmeter.apps.page.server import EXAMPLES, Settings, make_example
from hushmeter.apps.page.views import CONCERNED, curve_rows, on_stretches
from hushmeter.files import json_text
from hushmeter.releases.receipt import describe_promise, digest
from hushmeter.theory.bounds import bound_curves, switch_limit
from hushmeter.write import meter_bytes
from tests.apps.page.serving import call_workers, example, serving, upload


@pytest.fixture(scope="module")
def client():
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def evening(client):
    return example(client)


@pytest.fixture(scope="module")
def sub_metered(tmp_path_factory):
    """A CSV with a column per appliance, and its trace."""
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 3000, 0.99, seed=5)
    path = tmp_path_factory.mktemp("sub") / "sub.csv"
    hm.write_meter(path, trace)
    return path, trace


def view(client, session, path="view", **more):
    request = {"trace": session["id"], "home": session["home"], "epsilon": 5.0, "seed": 7} | more
    answer = client.post(f"/api/{path}", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def attack(client, session, attacker="bayes", **more):
    return view(client, session, "attack", attacker=attacker, **more)


def promised(epsilon, **more):
    """The promise for the evening, from the library alone."""
    case = make_example("evening")
    return hm.Request(home=case.home, epsilon=epsilon, **more).resolve(hm.metered(case.trace))


def by_library(epsilon, seed, attacker="bayes", mechanism="laplace", span="reading", every=None):
    """Release, attack and score the evening with the public functions alone."""
    case = make_example("evening")
    promise = promised(epsilon, mechanism=mechanism, span=span, every=every)
    noise = promise.noise
    # Without the home, the receipt has no account of whole days, which takes seconds.
    released = replace(promise, home=None).release(case.trace, rng=seed).trace
    seen = case.trace if every is None else case.trace.coarsen(every)
    training = case.training if every is None else case.training.coarsen(every)
    fitted = hm.attackers[attacker](case.home).fit(training).knows(noise)
    states = fitted.predict(released, rng=seed)
    return seen, released, states, hm.score(states, seen)


@pytest.mark.parametrize(
    "choice",
    [
        {"epsilon": 5.0, "seed": 7},
        {"epsilon": 0.3, "seed": 0, "span": "run"},
        {"epsilon": 20.0, "seed": 1, "mechanism": "staircase", "attacker": "multi-shot"},
        {"epsilon": 8.0, "seed": 2, "mechanism": "gaussian", "attacker": "sparse-hmm"},
        {"epsilon": 1.0, "seed": 3, "span": "run", "every": "5min", "attacker": "co"},
        {"epsilon": 2.0, "seed": 4, "attacker": "all-off"},
    ],
    ids=lambda choice: "-".join(str(value) for value in choice.values()),
)
def test_a_view_is_what_the_library_gives_for_the_same_seed(client, evening, choice):
    settings = {name: value for name, value in choice.items() if name != "attacker"}
    seen, released, states, score = by_library(**choice)
    rows = [list(row) for row in curve_rows(released)]
    assert view(client, evening, **settings)["released"] == rows
    found = attack(client, evening, **choice)
    assert found["score"]["alpha"] == score.alpha
    assert found["score"]["alpha_floor"] == score.alpha_floor
    assert found["score"]["f1"] == score.f1
    for i, (row, strip) in enumerate(zip(found["visibility"], found["strips"], strict=True)):
        one = score.per_appliance[i]
        assert (row["appliance"], row["accuracy"], row["floor"]) == (one.name, one.alpha, one.floor)
        if math.isnan(one.visibility):
            assert row["visibility"] is row["low"] is row["high"] is None
        else:
            assert row["visibility"] == one.visibility
            assert row["low"] is None or row["low"] - 1e-9 <= one.visibility <= row["high"] + 1e-9
        assert strip["guess"] == [list(run) for run in on_stretches(states[:, i], seen)]
        assert strip["truth"] == [list(run) for run in on_stretches(seen.truth()[:, i], seen)]
        wrong = states[:, i] != seen.truth()[:, i]
        assert strip["wrong"] == [list(run) for run in on_stretches(wrong, seen)]
    assert found["sentences"] == list(hm.explain(score))


def test_a_view_repeats_with_its_seed_and_differs_with_another(client, evening):
    first, again, other = (view(client, evening, seed=seed) for seed in (1, 1, 2))
    for answer in (first, again):
        del answer["seconds"]
    assert first == again
    assert first["released"] != other["released"]
    assert first["metered"] == other["metered"]


def test_a_view_says_promise_training_and_cost(client, evening):
    found = view(client, evening, epsilon=1.0)
    case = make_example("evening")
    promise = promised(1.0)
    released = replace(promise, home=None).release(case.trace, rng=7)
    assert found["promise"]["receipt"] == json.loads(json_text(describe_promise(promise)))
    assert found["promise"]["sentences"] == list(hm.explain(promise))
    sentence = f"ε = 1 protects {promise.unit.sentence}."
    assert found["promise"]["sentences"][0] == sentence
    assert found["verdict"]["error"] == promise.errors.hour_w
    trained = attack(client, evening, epsilon=1.0)["trained_on"]
    assert trained == "three other days of the same home, sub-metered and without noise"
    kwh = found["cost"]["kwh"]
    assert kwh["true"] == pytest.approx(case.trace.readings.sum() * 6 / 3.6e6)
    assert kwh["released"] == pytest.approx(released.trace.readings.sum() * 6 / 3.6e6)
    assert kwh["error"] == pytest.approx(promise.noise.std * math.sqrt(2400) * 6 / 3.6e6)
    hours = case.trace.coarsen("1h"), released.trace.coarsen("1h")
    assert [row[0] for row in found["cost"]["hourly"]] == [
        int(moment) for moment in hours[0].times.astype("datetime64[ms]").astype(int)
    ]
    for column, hourly in enumerate(hours, start=1):
        shown = [row[column] for row in found["cost"]["hourly"]]
        np.testing.assert_allclose(shown, hourly.readings, atol=0.06)
    assert found["cost"]["peak"]["true"] == pytest.approx(hours[0].readings.max())
    assert found["simulation"] is True


def test_the_strongest_attacker_follows_a_view_and_is_named(client, evening):
    request = {"trace": evening["id"], "home": evening["home"], "epsilon": 5.0, "seed": 7}
    found = client.post("/api/attack", json=request).json()
    case = make_example("evening")
    noise, released = promised(5.0).noise, by_library(5.0, 7)[1]
    strongest = hm.attackers["strongest"](case.home).fit(case.training).knows(noise)
    score = hm.score(strongest.predict(released, rng=7), case.trace)
    assert found["chosen"] == strongest.choose().sentence
    assert found["name"] == strongest.choose().name
    assert found["score"]["alpha"] == score.alpha
    assert found["sentences"] == list(hm.explain(score))
    nobody = {"trace": evening["id"], "home": {"appliances": [{"name": "pump", "watts": 90}]}}
    unknown = client.post("/api/attack", json=nobody | {"epsilon": 5.0}).json()
    assert unknown["strips"] is unknown["score"] is unknown["chosen"] is None
    assert unknown["sentences"] == []


def test_restored_values_and_a_calendar_are_those_of_the_library(client):
    made = hm.synth.household(3, interval_s=900.0, seed=3).trace
    session = upload(client, meter_bytes(made, "csv"), "meter.csv").json()
    kettle = next(a for a in client.get("/api/about").json()["catalogue"] if a["name"] == "kettle")
    request = {"trace": session["id"], "home": {"appliances": [kettle]}, "hide": ["kettle"]}
    request |= {"span": "run", "epsilon": 2.0, "seed": 3, "mechanism": "gaussian"}
    shown = client.post("/api/restore", json=request | {"every": "1h"}).json()
    home = hm.Home.from_words(["kettle"])
    asked = hm.Request(home=home, span="run", epsilon=2.0, every="1h", mechanism="gaussian")
    better = hm.restore(asked.resolve(hm.metered(made)).release(made, rng=3))
    values = [row[1] for row in shown["rows"] if row[1] is not None]
    np.testing.assert_allclose(values, better.trace.readings, atol=0.06)
    assert shown["error_w"] == pytest.approx(better.std.mean())
    found = client.post("/api/calendar", json=request | {"tz": "UTC"}).json()
    done = hm.release_views(made, epsilon=2.0, home=home, rng=3)
    months = done.view("months")
    assert [one["value"] for one in found["months"]] == pytest.approx(list(months.values))
    assert [one["error"] for one in found["months"]] == pytest.approx(list(months.errors))
    assert sum(one["metered"] for one in found["months"]) == pytest.approx(made.energy_kwh, abs=0.1)
    short = client.post("/api/examples", json={"name": "evening"}).json()["id"]
    refused = client.post("/api/calendar", json=request | {"trace": short})
    assert refused.status_code == 400
    assert "at least one day" in refused.json()["error"]


def test_a_calendar_in_which_no_table_gets_a_share(client):
    """The typical day and the months are then sums of the hours."""
    loads = np.random.default_rng(0).gamma(1.0, 300.0, 24 * 40)
    trace = hm.Trace(loads, 3600.0, "2024-03-01T00:00Z")
    session = upload(client, meter_bytes(trace, "csv"), "meter.csv").json()
    boiler = {"name": "boiler", "watts": 100.0, "run_s": 31 * 86_400.0}
    request = {"trace": session["id"], "home": {"appliances": [boiler]}, "hide": ["boiler"]}
    request |= {"span": "run", "epsilon": 1.0, "tz": "UTC"}
    answer = client.post("/api/calendar", json=request)
    assert answer.status_code == 200, answer.json()
    assert [len(answer.json()[name]) for name in ("profile", "months")] == [24, 2]


def test_every_attacker_on_offer_can_follow_the_slider(client, evening):
    offered = client.get("/api/about").json()["attackers"]
    assert [one["name"] for one in offered if one["default"]] == ["strongest"]
    assert {one["name"] for one in offered} == set(hm.attackers) - set(NOT_LIVE)
    for one in offered:
        found = attack(client, evening, one["name"], length=600)
        assert found["attacker"] == one["name"]
        assert 0 < found["score"]["alpha"] <= 1


def test_a_part_of_a_trace(client, evening):
    found = view(client, evening, start=600, length=300)
    assert (found["start"], found["length"]) == (600, 300)
    assert found["metered"] == [
        list(row) for row in curve_rows(make_example("evening").trace[600:900])
    ]
    assert view(client, evening, start=2300, length=5000)["length"] == 100


def test_an_edited_home(client, evening):
    home = json.loads(json.dumps(evening["home"]))
    home["appliances"][5]["watts"] = 1800.0
    assert "three other days" in attack(client, evening, home=home)["trained_on"]
    home["appliances"][5]["name"] = "samovar"
    found = attack(client, evening, home=home)
    assert found["trained_on"] == "a synthetic day of the home that is described here"
    known = [name for name in hm.synth.ready_home("evening").names if name != "kettle"]
    assert [row["appliance"] for row in found["visibility"]] == known
    assert [strip["appliance"] for strip in found["strips"]] == known, "nothing is invented"
    home["appliances"] = home["appliances"][2:4]
    assert [strip["appliance"] for strip in attack(client, evening, home=home)["strips"]] == [
        "fridge",
        "washing machine",
    ]


def test_without_noise_the_attack_is_on_the_readings_themselves(client, evening):
    found = view(client, evening, epsilon=None)
    case = make_example("evening")
    states = hm.attackers["bayes"](case.home).fit(case.training).predict(case.trace, rng=7)
    attacked = attack(client, evening, epsilon=None)
    assert attacked["score"]["alpha"] == hm.score(states, case.trace).alpha
    for field in ("released", "cost", "verdict", "promise"):
        assert found[field] is None
    assert (found["parameters"], found["needs_consent"]) == ([], False)
    assert found["interval_s"] == view(client, evening, epsilon=None, every="15min")["interval_s"]


def test_findings_are_those_of_the_library(client, tmp_path):
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 7 * 1440, interval_s=60.0, seed=2)
    hm.write_meter(tmp_path / "week.csv", hm.Trace(trace.readings.round(1), 60.0, trace.start))
    session = upload(client, (tmp_path / "week.csv").read_bytes(), "week.csv").json()
    request = {"trace": session["id"], "tz": "Europe/London"}
    shown = client.post("/api/findings", json=request).json()
    found = hm.findings(hm.read_meter(tmp_path / "week.csv"), tz="Europe/London")
    assert [one["sentence"] for one in shown["findings"]] == [f.sentence for f in found.findings]
    assert (shown["notes"], shown["withheld"]) == (list(found.notes), list(found.withheld))
    names = {one["name"] for one in client.get("/api/about").json()["catalogue"]}
    for one, finding in zip(shown["findings"], found.findings, strict=True):
        assert one["marks"] == (1000 * finding.marks).round().astype(int).tolist()
        assert len(one["places"]) == len(one["marks"])
        assert set(one["appliances"]) <= names
    wrong = client.post("/api/findings", json={**request, "tz": "Atlantis"})
    assert wrong.status_code == 422


def test_every_highlighted_appliance_is_in_the_catalogue():
    assert {name for names in CONCERNED.values() for name in names} <= set(hm.catalogue)
    assert set(USUAL) <= set(hm.catalogue)


def test_without_a_home_there_is_noise_and_no_attack(client, evening):
    asked = {"home": None, "protect": "change", "watts": 2000}
    found = attack(client, evening, **asked)
    assert found["strips"] is found["visibility"] is found["score"] is found["trained_on"] is None
    sentences = view(client, evening, **asked)["promise"]["sentences"]
    change = "any change of up to 2000 W, in one metered reading of 6 s"
    assert sentences[0] == f"ε = 5 protects {change}."
    assert any("a whole day of usual use" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"epsilon": 0}, 422, "epsilon: input should be greater than or equal to 0.000001."),
        ({"epsilon": 21}, 422, "epsilon: input should be less than or equal to 20."),
        ({"attacker": "bayez"}, 422, "there is no attacker named 'bayez'; did you mean 'bayes'?"),
        ({"attacker": "rnn"}, 422, "the page does not offer the rnn attacker: its training takes"),
        ({"attacker": "hold"}, 422, "the page does not offer the hold attacker: it needs the true"),
        ({"home": None}, 422, "protect 'appliance' needs a home."),
        ({"start": 2400}, 400, "start must be below the number of readings, 2400"),
        ({"length": 30_001}, 422, "length must be at most 30000 readings."),
        ({"every": "7s"}, 422, "every must be a whole multiple of the 6 s interval, got 7 s."),
        ({"every": "1d"}, 400, "no interval of 86400 s is complete in this trace."),
        (
            {"trace": "x"},
            404,
            "this server does not hold the trace, or no longer holds it: load the file again.",
        ),
        ({"sed": 3}, 422, "sed: extra inputs are not permitted."),
        ({"appliance": "toaster"}, 422, "there is no appliance named 'toaster'; known: "),
        ({"clamp": [5, 1], "protect": "range"}, 422, "clamp must be finite with low < high"),
    ],
)
def test_a_view_is_refused_in_one_sentence(client, evening, change, status, sentence):
    request = {"trace": evening["id"], "home": evening["home"], "epsilon": 1.0} | change
    answer = client.post("/api/attack", json=request)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"].startswith(sentence)
    assert answer.json()["error"].endswith((".", "?"))


def test_bounds_are_those_of_the_library(client, evening):
    request = {"home": evening["home"], "points": 21}
    found = client.post("/api/bounds", json=request).json()
    home = hm.synth.ready_home("evening")
    unit = hm.resolve_unit(interval_s=6.0, home=home)
    curves = bound_curves(home.one_power_each(), np.geomspace(1e-3, 20, 21), sensitivity=unit.l1)
    for name, values in {
        "epsilon": curves.epsilon,
        "ln_inverse": -np.log(curves.epsilon),
        "exact": curves.exact,
        "lower": curves.corrected.lower.clipped,
        "upper": curves.corrected.upper.clipped,
        "universal": curves.limit,
        "upper_vacuous": curves.corrected.upper.vacuous,
        "lower_vacuous": curves.corrected.lower.vacuous,
    }.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
    assert found["floor"] == curves.floor
    assert found["unit"] == unit.sentence


@pytest.mark.parametrize("mechanism", ["staircase", "gaussian"])
def test_other_noise_has_the_limit_of_any_attacker_alone(client, evening, mechanism):
    request = {"home": evening["home"], "points": 5, "mechanism": mechanism}
    found = client.post("/api/bounds", json=request).json()
    assert found["exact"] is found["lower"] is found["upper"] is None
    home = hm.synth.ready_home("evening")
    for epsilon, limit, scale in zip(
        found["epsilon"][2:], found["universal"][2:], found["scale_w"][2:], strict=True
    ):
        noise = promised(epsilon, mechanism=mechanism).noise
        optimum = hm.universal_limit(home, noise).mean()
        assert limit == pytest.approx(switch_limit(optimum, 1 - found["floor"]), abs=1e-4)
        assert scale == noise.scale


def test_the_odds_of_a_wish_do_not_change_the_bounds(client, evening):
    request = {"home": evening["home"], "points": 5, "hide": ["kettle"]}
    found = client.post("/api/bounds", json=request | {"odds": 0.6}).json()
    assert found == client.post("/api/bounds", json=request).json()
    assert len(found["epsilon"]) == 5


def test_bounds_follow_the_released_interval(client, evening):
    request = {"home": evening["home"], "points": 5, "every": "15min", "span": "run"}
    found = client.post("/api/bounds", json=request).json()
    home = hm.synth.ready_home("evening")
    unit = hm.resolve_unit(span="run", interval_s=6.0, home=home, every="15min")
    curves = bound_curves(home.one_power_each(), np.geomspace(1e-3, 20, 5), sensitivity=unit.l1)
    np.testing.assert_allclose(found["universal"], curves.limit, rtol=1e-12)
    np.testing.assert_allclose(found["scale_w"], curves.scale, rtol=1e-12)


@pytest.mark.parametrize("every", ["1min", "1h"])
def test_every_attacker_takes_longer_readings(client, evening, every):
    for one in client.get("/api/about").json()["attackers"]:
        assert 0 < attack(client, evening, one["name"], every=every)["score"]["alpha"] <= 1
    found = view(client, evening, every=every)
    assert found["interval_s"] == {"1min": 60, "1h": 3600}[every]
    assert found["reveals"].startswith(f"At {every[0]} {every[1:]} a reading, ")


def test_advice_is_that_of_the_library(client, evening):
    wish = {"hide": ["kettle"], "odds": 0.7, "mechanism": "laplace"}
    request = {"home": evening["home"], "trace": evening["id"], **wish}
    found = client.post("/api/advise", json=request).json()
    case = make_example("evening")
    facts, forms, notes = public_facts(case.trace, "UTC")
    advice = hm.advise(hm.Request(home=case.home, **wish), facts, forms=forms)
    assert found["feasible"] is advice.feasible
    options = json.loads(json_text(advice.options))
    assert found["options"] == options
    assert found["sentences"] == list(hm.explain(advice))
    assert found["notes"] == list(notes)
    assert "at least one day" in notes[0]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_download_is_real_and_opens_with_read_meter(client, evening, tmp_path, kind):
    home = {**evening["home"], "appliances": evening["home"]["appliances"][5:6]}
    request = {"trace": evening["id"], "home": home, "epsilon": 1.0, "format": kind}
    first, second = (client.post("/api/release", json=request).json() for _ in range(2))
    assert first["data"] != second["data"]
    assert first["receipt"]["kind"] == "release"
    path = tmp_path / first["file_name"]
    path.write_bytes(base64.b64decode(first["data"]))
    receipt = tmp_path / first["receipt_name"]
    receipt.write_text(json.dumps(first["receipt"]), encoding="utf-8")
    assert hm.verify(path).passed
    trace = hm.read_meter(path)
    assert len(trace) == 2400
    assert digest(trace) == first["receipt"]["output"]["sha256"]
    assert first["receipt"]["epsilon"] == pytest.approx(1.0)
    assert first["receipt_name"] == f"{first['file_name']}.receipt.json"
    assert first["receipt"]["files"][path.name]["bytes"] == path.stat().st_size
    assert "kettle" not in str(first["receipt"])
    assert first["sentences"][0].startswith("ε = 1 protects whether the kettle is on")


def test_a_download_beside_exact_sums_is_refused(client, tmp_path):
    """The page keeps the register of the commands."""
    trace = hm.synth.household(21, interval_s=1800.0, zone="Europe/Berlin", seed=1).trace
    hm.write_meter(tmp_path / "meter.csv", trace)
    session = upload(client, (tmp_path / "meter.csv").read_bytes(), changes="no").json()
    request = {"trace": session["id"], "tz": "Europe/Berlin", "format": "zip", "calendar": True}
    wish = {**request, "hide": ["evenings"]}
    for _ in range(2):
        assert client.post("/api/release", json=wish).status_code == 200
    for other in ({**wish, "tz": "Europe/London"}, {**request, "hide": ["kettle"]}):
        answer = client.post("/api/release", json=other)
        assert answer.status_code == 400
        assert "was released for the same time with another wish" in answer.json()["error"]


def test_a_download_takes_no_seed(client, evening):
    request = {"trace": evening["id"], "home": evening["home"], "epsilon": 1.0, "seed": 1}
    answer = client.post("/api/release", json=request)
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "seed: extra inputs are not permitted.",
    )


def test_a_coarser_download(client, evening, tmp_path):
    home = {**evening["home"], "appliances": evening["home"]["appliances"][5:6]}
    request = {"trace": evening["id"], "home": home, "epsilon": 1.0}
    request |= {"span": "run", "every": "30min"}
    found = client.post("/api/release", json=request).json()
    path = tmp_path / found["file_name"]
    path.write_bytes(base64.b64decode(found["data"]))
    assert (len(hm.read_meter(path)), hm.read_meter(path).interval_s) == (8, 1800.0)


def test_a_sub_metered_file_brings_its_home(client, sub_metered):
    path, _ = sub_metered
    answer = upload(client, path.read_bytes(), "sub.csv")
    assert answer.status_code == 200, answer.text
    session = answer.json()
    assert session["has_truth"] is True
    learnt = hm.learn_home(hm.read_home_data(path))
    assert [a["name"] for a in session["home"]["appliances"]] == list(learnt.home.names)
    assert session["home"]["tolerance"] == learnt.home.tolerance
    assert client.post("/api/homes/learn", json={"trace": session["id"]}).status_code == 200
    same = attack(client, session)
    assert "the same readings that it attacks" in same["trained_on"]
    part = attack(client, session, start=2000, length=500)
    assert "outside the stretch" in part["trained_on"]
    assert part["score"]["alpha"] > 0.5


def test_nothing_is_invented_about_a_meter_without_sub_meters(client, sub_metered):
    trace = sub_metered[1]
    lines = [f"{t}Z,{w:.1f}" for t, w in zip(trace.times.astype(str), trace.readings, strict=True)]
    data = "\n".join(["timestamp,watts", *lines]).encode()
    session = upload(client, gzip.compress(data), "meter.csv.gz").json()
    assert (session["has_truth"], session["home"], session["readings"]) == (False, None, 3000)
    assert session["sentences"][0] == session["regime"]["sentence"]
    home = {"appliances": [{"name": "kettle", "watts": 2100}, {"name": "fridge", "watts": 160}]}
    found = attack(client, session, home=home)
    assert found["strips"] is found["visibility"] is found["score"] is found["trained_on"] is None
    found = view(client, session, home=home)
    assert found["verdict"]["own"] == pytest.approx(trace.readings.mean(), rel=1e-3)
    assert client.post("/api/homes/learn", json={"trace": session["id"]}).json()["error"] == (
        "meter.csv.gz has only the readings of the meter and no column for each appliance, so no "
        "home can be learnt from it: enter the appliances yourself."
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "h5", "xml"])
def test_every_format_is_read_from_memory_as_from_disk(client, sub_metered, tmp_path, suffix):
    path = tmp_path / f"home.{suffix}"
    hm.write_meter(path, sub_metered[1])
    session = upload(client, path.read_bytes(), path.name).json()
    trace = hm.read_meter(path)
    held = client.app.state.server.sessions.get(session["id"]).trace
    np.testing.assert_array_equal(held.readings, trace.readings)
    np.testing.assert_array_equal(held.times, trace.times)
    assert client.get(f"/api/traces/{session['id']}").json() == session


def test_reader_options_reach_the_reader(client):
    rows = "".join(f"2024-01-01 {h:02d}:{m:02d},0.2\n" for h in range(20) for m in (0, 30))
    data = f"When,Use\n{rows}".encode()
    answer = upload(client, data, "half.csv")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("half.csv does not state the unit of 'Use'")
    options = {"time_column": "When", "value_column": "Use", "unit": "kWh", "stamp": "end"}
    session = upload(client, data, "half.csv", tz="Europe/London", **options).json()
    assert (session["start"], session["interval_s"]) == ("2023-12-31T23:30:00Z", 1800.0)
    assert session["regime"]["name"] == "occupancy"
    wrong = upload(client, data, "half.csv", tz="Nowhere", **options)
    assert wrong.status_code == 422
    assert wrong.json()["error"].startswith("tz must be a time zone")


def test_a_real_green_button_file(client, shared_data):
    files = sorted(shared_data.rglob("*.xml"))
    if not files:
        pytest.skip(f"no Green Button file in {shared_data}")
    loaded = [upload(client, path.read_bytes(), path.name) for path in files[:6]]
    assert any(answer.status_code == 200 for answer in loaded)
    for path, answer in zip(files, loaded, strict=False):
        if answer.status_code == 200:
            assert answer.json()["readings"] >= len(hm.read_meter(path))
        else:
            assert answer.json()["error"].startswith(path.name)


def test_the_page_takes_the_time_zone_that_a_file_states(client):
    """ESB Networks writes the local time of Ireland; the browser may be anywhere."""
    header = "MPRN,Meter Serial Number,Read Value,Read Type,Read Date and End Time"
    kind = "Active Import Interval (kWh)"
    rows = [
        f"10000000000,1,0.1,{kind},{day:02d}-07-2024 {half // 2:02d}:{30 * (half % 2):02d}"
        for day in range(1, 4)
        for half in range(48)
    ]
    data = "\n".join([header, *rows]).encode()
    assert upload(client, data, "hdf.csv").json()["zone"] == "Europe/Dublin"
    assert upload(client, data, "hdf.csv", tz="Europe/London").json()["zone"] == "Europe/London"


def test_readings_that_are_there_twice_are_counted_once(client):
    """A window is counted in readings that are kept; the last one must lie within the trace."""
    rows = [f"2024-01-01T00:{m:02d}:00Z,{100 + m}" for m in range(60) for _ in range(1 + m % 2)]
    session = upload(client, "\n".join(["timestamp,watts", *rows]).encode()).json()
    assert (session["readings"], session["duplicates"], session["kept"]) == (90, 30, 60)
    home = {"appliances": [{"name": "kettle", "watts": 50}]}
    assert view(client, session, home=home, start=session["kept"] - 1, length=1)["length"] == 1


def sources_of():
    keys = [(one.source, key) for one in workers._HELD.values() for key in one.made]
    return [source for source, key in keys if isinstance(key[1], str) and key[1] in hm.attackers]


def learnt(client):
    """The sources of all fitted attackers, in all processes of the server."""
    return [source for found in call_workers(client, sources_of) for source in found]


def test_what_was_learnt_goes_with_the_readings(client, sub_metered):
    session = upload(client, sub_metered[0].read_bytes()).json()
    source = client.app.state.server.sessions.get(session["id"]).source
    attack(client, session)
    assert source in learnt(client)
    client.delete(f"/api/traces/{session['id']}")
    assert source not in learnt(client)


def test_an_example_that_is_forgotten_stays_learnt(client):
    session = example(client)
    attack(client, session)
    client.delete(f"/api/traces/{session['id']}")
    assert "example evening" in learnt(client)


def test_idle_readings_leave_the_memory_though_nobody_asks():
    with serving(Settings(idle_s=0.2)) as client:
        example(client)
        sessions = client.app.state.server.sessions
        deadline = time.monotonic() + 30
        while len(sessions) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(sessions) == 0


def test_a_trace_can_be_forgotten(client):
    session = example(client)
    assert client.delete(f"/api/traces/{session['id']}").status_code == 204
    assert client.get(f"/api/traces/{session['id']}").status_code == 404
    assert client.delete(f"/api/traces/{session['id']}").status_code == 404


def test_one_example_is_a_lone_meter(client):
    session = example(client, next(iter(EXAMPLES)))
    assert (session["readings"], session["interval_s"]) == (40_320, 60.0)
    assert (session["has_truth"], session["home"], session["zone"]) == (
        False,
        None,
        "Europe/London",
    )


@pytest.mark.parametrize("name", ["evening", "redd-like"])
def test_examples_carry_their_truth(client, name):
    session = example(client, name)
    assert (session["readings"], session["interval_s"], session["has_truth"]) == (2400, 6.0, True)
    case = make_example(name)
    assert (case.training.switches.sum(axis=0) > 0).all()
    assert (case.trace.switches.sum(axis=0) > 0).sum() >= 6
    unknown = client.post("/api/examples", json={"name": "evenin"})
    assert unknown.json() == {
        "error": "there is no example named 'evenin'; did you mean 'evening'?"
    }


def test_a_home_is_written_and_read_again(client, evening):
    written = client.post("/api/homes/write", json={"home": evening["home"]})
    assert written.headers["content-disposition"] == 'attachment; filename="home.toml"'
    ready = hm.synth.ready_home("evening")
    # The page marks the numbers of its examples as those of a catalogue.
    marked = tuple(replace(one, source="catalogue") for one in ready.appliances)
    assert hm.Home.from_toml(written.text) == replace(ready, appliances=marked)
    read = client.post("/api/homes/read", files={"file": ("home.toml", written.content)})
    assert {**read.json(), "id": None} == {**evening["home"], "id": None}
    for data, sentence in {
        b"\xff\xfe": "home.toml is not a TOML file",
        b"tolerance = 1": "home.toml does not describe a valid home: it has no [[appliance]]",
    }.items():
        refused = client.post("/api/homes/read", files={"file": ("home.toml", data)})
        assert refused.status_code == 400
        assert refused.json()["error"].startswith(sentence)


def fits_of():
    return [repr(key) for one in workers._HELD.values() for key in one.made]


def test_a_fit_is_made_once_for_equal_requests(client, evening):
    attack(client, evening, "fhmm", seed=1)
    before = Counter(chain.from_iterable(call_workers(client, fits_of)))
    attack(client, evening, "fhmm", seed=2, epsilon=1.0)
    attack(client, example(client), "fhmm", seed=3)
    # Fits of earlier tests may be forgotten meanwhile.
    made = Counter(chain.from_iterable(call_workers(client, fits_of))) - before
    assert any("'fhmm'" in key for key in before)
    assert not [key for key in made if "'fhmm'" in key]


def test_what_was_learnt_from_one_file_is_not_used_for_another(client, tmp_path):
    """Equal homes and stretches, other habits."""
    home = hm.synth.ready_home("evening")
    model = {"appliances": [{"name": "kettle", "watts": 2100}, {"name": "oven", "watts": 2600}]}
    scores = []
    for seed, sparsity in ((1, 0.9), (2, 0.999)):
        path = tmp_path / f"{seed}.parquet"
        hm.write_meter(path, hm.synth.trace(home, 3000, sparsity, seed=seed))
        session = upload(client, path.read_bytes(), "same.parquet").json()
        before = len(learnt(client))
        scores.append(attack(client, session, home=model)["score"])
        assert len(learnt(client)) == before + 1
    assert scores[0] != scores[1]


def test_busy_and_slow_are_reported():
    with serving(Settings(waiting=0)) as client:
        answer = client.post("/api/examples", json={"name": "evening"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"] == (
            "the server is busy with other requests: try again in a moment."
        )
    with serving() as client:
        # The time of the computation alone: the body of the request has the usual one.
        client.app.state.server.settings = Settings(request_s=1e-4)
        answer = client.post("/api/examples", json={"name": "evening"})
        assert answer.status_code == 504
        assert answer.json()["error"].startswith("this takes too long for the page")


def test_numbers_of_json_are_finite(client, evening):
    request = {"trace": evening["id"], "home": evening["home"], "epsilon": 1.0}
    text = client.post("/api/view", json=request).text
    json.loads(text, parse_constant=lambda word: pytest.fail(word))
