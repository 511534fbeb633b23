"""Numbers that were learnt from an upload never calibrate its release silently."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

import hushmeter as hm
from tests.cli.test_commands import run
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


REGISTER_KWH = np.round(1000 + np.cumsum(np.random.default_rng(1).uniform(0, 0.4, 97)), 1)


@pytest.fixture(scope="module")
def metered_files(tmp_path_factory):
    """A counter of a meter, and a logger that rounds to 100 W: the rounding of both counts."""
    folder = tmp_path_factory.mktemp("metered")
    times = np.datetime64("2024-03-01T00:00") + 15 * np.arange(97).astype("timedelta64[m]")
    rows = [f"{t}Z,{kwh:.1f}" for t, kwh in zip(times, REGISTER_KWH, strict=True)]
    counter = folder / "counter.csv"
    counter.write_text("\n".join(["time,import register [kWh]", *rows]) + "\n", encoding="utf-8")
    trace = hm.synth.trace(hm.synth.ready_home("evening"), 96, interval_s=900.0, seed=3)
    green_button = folder / "green-button.xml"
    hm.write_meter(green_button, hm.Trace(trace.readings.round(-2), 900.0, trace.start))
    return [counter, green_button]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("every", [None, "1h"])
def test_the_page_and_the_command_give_the_same_public_receipt(
    client, metered_files, tmp_path, every, mechanism
):
    kettle = hm.Appliance("kettle", 2100.0, run_s=180.0)
    home = hm.Home([kettle], tolerance=20.0)
    home.save(tmp_path / "home.toml")
    for file in metered_files:
        session = upload(client, file.read_bytes(), file.name).json()
        model = {"tolerance": 20.0, "appliances": [{"name": "kettle", "watts": 2100, "run_s": 180}]}
        choices = {"span": "run", "mechanism": mechanism, "every": every, "epsilon": 2.0}
        answer = release(client, session, home=model, **choices)
        out = tmp_path / f"{file.stem}.csv"
        command = ["release", file, "--home", tmp_path / "home.toml", "-e", "2", "--span", "run"]
        command += ["--mechanism", mechanism, "-o", out]
        command += [] if every is None else ["--every", every]
        # Both refuse what the steps of the counter make impossible.
        run(*command, expect=0 if answer.status_code == 200 else 2)
        if answer.status_code != 200:
            continue
        receipt = json.loads((tmp_path / f"{out.name}.receipt.json").read_text(encoding="utf-8"))
        del receipt["output"]["sha256"], receipt["file"]
        assert public_part(answer) == receipt
        seen = {"trace": session["id"], "home": model, **choices}
        shown = client.post("/api/view", json=seen).json()
        assert shown["scale_w"] == receipt["mechanism"]["scale"]


@pytest.mark.parametrize("purpose", ["hour", "month", "profile", "register"])
def test_a_plan_of_the_page_is_that_of_the_command(client, tmp_path, purpose):
    made = hm.synth.household(4, interval_s=900.0, seed=3)
    file = tmp_path / "meter.xml"
    hm.write_meter(file, made.trace)
    session = upload(client, file.read_bytes(), file.name).json()
    names = ["kettle", "oven"]
    offered = client.get("/api/about").json()["catalogue"]
    home = {"appliances": [one for one in offered if one["name"] in names]}
    wish = {"trace": session["id"], "home": home, "hide": names, "purpose": purpose}
    plan = client.post("/api/plan", json=wish).json()
    settings = {name: plan[name] for name in ("epsilon", "mechanism")}
    settings |= {"span": "run", "hide": names, "every": f"{plan['every_s']:g}s"}
    answer = release(client, session, home=home, **settings)
    out = tmp_path / "out.csv"
    run("release", file, "--hide", "kettle,oven", "--for", purpose, "-o", out)
    receipt = json.loads((tmp_path / "out.csv.receipt.json").read_text(encoding="utf-8"))
    del receipt["output"]["sha256"], receipt["file"]
    assert public_part(answer) == receipt
    assert "kettle" not in str(receipt)


def test_the_plan_of_a_short_file_fits_into_it(client):
    session = client.post("/api/examples", json={"name": "evening"}).json()
    wish = {"trace": session["id"], "home": session["home"], "hide": ["kettle"], "purpose": "day"}
    assert client.post("/api/plan", json=wish).json()["every_s"] == 3600


def test_learnt_numbers_of_a_plan_need_consent_too(client, neighbours):
    settings = {"span": "run", "hide": ["kettle", "fridge"]}
    assert release(client, neighbours[0], **settings).status_code == 422
    parts = [
        public_part(release(client, session, **settings, accept_learnt=True))
        for session in neighbours
    ]
    assert parts[0] == parts[1]
    assert parts[0]["sources"] == ["learnt from these readings"]


def test_curves_and_advice_count_how_the_meter_rounds(client, metered_files):
    file = metered_files[1]
    session = upload(client, file.read_bytes(), file.name).json()
    home = {"appliances": [{"name": "kettle", "watts": 2100, "run_s": 180}]}
    trace = hm.read_meter(file)
    assert trace.metering.resolution_w > 0
    known = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], 20.0)
    unit = hm.resolve_unit(
        "appliance", "run", interval_s=900.0, home=known, metering=trace.metering
    )
    request = {"home": home, "trace": session["id"], "span": "run", "points": 3}
    curves = client.post("/api/bounds", json=request).json()
    expected = [unit.l1 / epsilon for epsilon in curves["epsilon"]]
    np.testing.assert_allclose(curves["scale_w"], expected)
    ideal = client.post("/api/bounds", json={**request, "trace": None, "interval_s": 900}).json()
    assert ideal["scale_w"][0] < curves["scale_w"][0]
    goal = {"appliance": "kettle", "max_odds": 0.6, "mechanisms": ["gaussian"]}
    found = client.post("/api/advise", json={"home": home, "trace": session["id"], **goal}).json()
    wanted = hm.advise(
        known, "kettle", max_odds=0.6, mechanisms=("gaussian",), trace=trace, forms=("series",)
    )
    assert [option["scale"] for option in found["options"]] == [o.scale for o in wanted.options]


def test_a_download_reads_the_meter_alone(client):
    """A plug that writes nothing while it is off made gaps in the readings of the meter."""
    found = []
    for boiling in (range(0), range(100, 103)):
        lines = ["timestamp,watts,kettle,fridge"]
        for i in range(300):
            time = f"2024-01-15T{i // 60:02d}:{i % 60:02d}:00Z"
            kettle = 2000 if i in boiling else ""
            lines.append(f"{time},{2150 if i in boiling else 150},{kettle},{50 * (i % 2)}")
        session = upload(client, "\n".join(lines).encode(), "meter.csv").json()
        asked = {"trace": session["id"], "epsilon": 1, "protect": "change", "watts": 2000}
        answer = client.post("/api/release", json=asked)
        assert answer.status_code == 200, answer.text
        data = base64.b64decode(answer.json()["data"]).decode()
        found.append([line.split(",")[0] for line in data.splitlines()])
    assert found[0] == found[1]
    assert len(found[0]) == 301
