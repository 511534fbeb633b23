"""Numbers that were learnt from an upload never calibrate its release silently."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import hushmeter as hm
from tests.web.serving import serving, upload

CHANGE_W = 40.0


@pytest.fixture(scope="module")
def client():
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def neighbours(client, tmp_path_factory):
    """Two uploads of a sub-metered day that differ by 40 W in one reading of the kettle."""
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    trace = hm.synth.trace(home, 4000, 0.99, seed=5)
    folder = tmp_path_factory.mktemp("neighbours")
    sessions = []
    for name, change in (("one", 0.0), ("two", CHANGE_W)):
        power = trace.power.copy()
        at = int(np.flatnonzero(trace.states[:, 0])[3])
        power[at, 0] += change
        readings = trace.readings + (power - trace.power).sum(axis=1)
        other = hm.Trace(readings, 6.0, trace.start, trace.states, power, trace.names)
        path = folder / f"{name}.csv"
        hm.write_meter(path, other)
        answer = upload(client, path.read_bytes(), "meter.csv")
        assert answer.status_code == 200, answer.text
        sessions.append(answer.json())
    return sessions


def release(client, session, **more):
    request = {"trace": session["id"], "home": session["home"], "epsilon": 1.0} | more
    return client.post("/api/release", json=request)


def public_part(answer):
    """The public receipt without the digests of the noisy data, which differ in every release."""
    assert answer.status_code == 200, answer.text
    receipt = answer.json()["receipt"]
    del receipt["output"]["sha256"], receipt["file"]
    return receipt


@pytest.mark.parametrize("span", ["reading", "run", "day"])
def test_uploads_that_differ_by_40_w_in_one_reading_have_the_same_receipt(client, neighbours, span):
    exact = [session["home"]["appliances"][0]["high"] for session in neighbours]
    assert exact[0] != exact[1], "the learnt number itself differs"
    parts = [
        public_part(release(client, session, span=span, accept_learnt=True))
        for session in neighbours
    ]
    assert parts[0] == parts[1]
    assert parts[0]["sources"] == ["learnt from these readings"]


def test_learnt_numbers_need_consent(client, neighbours):
    session = neighbours[0]
    refused = release(client, session)
    assert refused.status_code == 422
    sentence = refused.json()["error"]
    assert sentence.startswith("the power of the ")
    assert "was learnt from the same readings" in sentence
    assert "\n" not in sentence
    view = {"trace": session["id"], "home": session["home"], "epsilon": 1.0}
    shown = client.post("/api/view", json=view).json()
    assert shown["needs_consent"] is True
    assert {one["source"] for one in shown["parameters"]} == {"learnt from these readings"}
    for one in shown["parameters"]:
        assert one["used"] == hm.home.round_up_to_public_step(one["value"])


def test_a_home_in_the_users_own_words_needs_no_consent(client, neighbours):
    home = {"appliances": [{"name": "kettle", "watts": 2000.0, "run_s": 180.0}]}
    typed = [release(client, session, home=home, span="run") for session in neighbours]
    parts = [public_part(answer) for answer in typed]
    assert parts[0] == parts[1]
    assert parts[0]["sources"] == ["typed"]


def test_a_learnt_home_without_its_origin_needs_consent(client, neighbours):
    home = {**neighbours[0]["home"], "learnt_from": None}
    assert release(client, neighbours[0], home=home).status_code == 422


def test_the_private_part_is_a_file_of_its_own(client, neighbours):
    answer = release(client, neighbours[0], accept_learnt=True).json()
    assert "kettle" not in str(answer["receipt"])
    private = answer["private"]
    assert answer["private_name"] == f"{answer['file_name']}.private.json"
    assert private["receipt"] == answer["receipt"]
    assert [one["name"] for one in private["home"]["appliance"]] == ["kettle", "fridge"]
    data = base64.b64decode(answer["data"])
    assert answer["receipt"]["file"]["bytes"] == len(data)


def test_examples_have_typical_numbers(client):
    session = client.post("/api/examples", json={"name": "evening"}).json()
    assert {one["source"] for one in session["home"]["appliances"]} == {"catalogue"}
    assert public_part(release(client, session))["sources"] == ["catalogue"]
