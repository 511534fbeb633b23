"""Numbers that were learnt from an upload never calibrate its release silently."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice import public_facts
from hushmeter.write import meter_bytes
from tests.apps.page.serving import serving, upload
from tests.cli.test_commands import run

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
    del receipt["output"]["sha256"], receipt["files"]
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
    assert "was learnt from these readings" in sentence
    assert "\n" not in sentence
    view = {"trace": session["id"], "home": session["home"], "epsilon": 1.0}
    shown = client.post("/api/view", json=view).json()
    assert shown["needs_consent"] is True
    assert {one["source"] for one in shown["parameters"]} == {"learnt from these readings"}
    for one in shown["parameters"]:
        assert one["used"] == hm.appliance.round_up_to_public_step(one["value"])


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
    assert answer["receipt"]["files"][answer["file_name"]]["bytes"] == len(data)


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
        del receipt["output"]["sha256"], receipt["files"]
        assert public_part(answer) == receipt
        seen = {"trace": session["id"], "home": model, **choices}
        shown = client.post("/api/view", json=seen).json()
        stated = shown["promise"]["receipt"]
        assert stated == {name: receipt[name] for name in stated}


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
    plan = client.post("/api/plan", json=wish).json()["receipt"]
    answer = client.post("/api/release", json=wish)
    # The page names the length of the cells that the plan found.
    every = {"every": f"{plan['cells']['interval_s']}s", "span": "run"}
    view = client.post("/api/view", json=wish | every).json()
    assert view["promise"]["receipt"] == plan
    out = tmp_path / "out.csv"
    run("release", file, "--hide", "kettle,oven", "--for", purpose, "-o", out)
    receipt = json.loads((tmp_path / "out.csv.receipt.json").read_text(encoding="utf-8"))
    del receipt["output"]["sha256"], receipt["files"]
    assert public_part(answer) == receipt
    assert plan == {name: receipt[name] for name in plan}
    assert "kettle" not in str(receipt)


def test_the_plan_of_a_short_file_fits_into_it(client):
    session = client.post("/api/examples", json={"name": "evening"}).json()
    wish = {"trace": session["id"], "home": session["home"], "hide": ["kettle"], "purpose": "day"}
    plan = client.post("/api/plan", json=wish).json()
    assert plan["receipt"]["cells"]["interval_s"] == 3600


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
    unit = hm.resolve_unit("appliance", "run", interval_s=hm.metered(trace), home=known)
    request = {"home": home, "trace": session["id"], "span": "run", "points": 3}
    curves = client.post("/api/bounds", json=request).json()
    expected = [unit.l1 / epsilon for epsilon in curves["epsilon"]]
    np.testing.assert_allclose(curves["scale_w"], expected)
    ideal = client.post("/api/bounds", json={**request, "trace": None, "interval_s": 900}).json()
    assert ideal["scale_w"][0] < curves["scale_w"][0]
    goal = {"hide": ["kettle"], "odds": 0.6, "mechanism": "gaussian"}
    found = client.post("/api/advise", json={"home": home, "trace": session["id"], **goal}).json()
    facts, forms, _ = public_facts(trace, "UTC")
    wanted = hm.advise(hm.Request(home=known, **goal), facts, forms=forms)
    assert [option["scale"] for option in found["options"]] == [o.scale for o in wanted.options]


LARGE_CHANGE_W = 120.0


@pytest.fixture(scope="module")
def distant(client):
    """Two uploads that differ by 120 W in one reading of the kettle."""
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    trace = hm.synth.trace(home, 4000, 0.99, seed=5)
    at = int(np.argmax(trace.power[:, 0]))
    sessions = []
    for change in (0.0, LARGE_CHANGE_W):
        power = trace.power.copy()
        power[at, 0] += change
        readings = trace.readings + (power - trace.power).sum(axis=1)
        other = hm.Trace(readings, 6.0, trace.start, trace.states, power, trace.names)
        answer = upload(client, meter_bytes(other, "csv"), "meter.csv")
        assert answer.status_code == 200, answer.text
        sessions.append(answer.json())
    exact = [session["home"]["appliances"][0]["high"] for session in sessions]
    assert exact[1] - exact[0] == pytest.approx(LARGE_CHANGE_W, abs=1.0)
    return sessions


def with_minutes(home, **claims):
    """What a client sends after somebody has changed the minutes of the first appliance."""
    first = {**home["appliances"][0], "run_s": 240.0, "run_high_s": None, "energy_wh": None}
    return {**home, "appliances": [first | claims, *home["appliances"][1:]]}


CLAIMS = {
    "edited": {},
    "claimed to be typed": {"source": "typed"},
    "claimed to be typical": {"source": "catalogue"},
    "every number claimed": {"typed": ["power", "levels", "high", "max_power", "run_s"]},
    "another name": {"name": "boiler", "source": "typed"},
    "as power": {"high": None, "max_power": None, "source": "typed"},
}


@pytest.mark.parametrize("identified", [True, False])
@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_edited_minutes_do_not_turn_learnt_watts_into_typed_ones(
    client, distant, claims, identified
):
    asked = {"span": "run", "protect": "appliance"}
    for session in distant:
        asked["appliance"] = claims.get("name", "kettle")
        home = with_minutes(session["home"], **claims)
        if not identified:
            home |= {"id": None, "learnt_from": None}
        if "high" in claims:
            home["appliances"][0]["watts"] = session["home"]["appliances"][0]["high"]
        refused = release(client, session, home=home, **asked)
        assert refused.status_code == 422
        assert "was learnt from these readings" in refused.json()["error"]
        view = {"trace": session["id"], "home": home, "epsilon": 1.0, **asked}
        shown = client.post("/api/view", json=view).json()
        assert shown["needs_consent"] is True
        power = shown["parameters"][0]
        assert power["source"] == "learnt from these readings"
        assert power["used"] == hm.appliance.round_up_to_public_step(power["value"])


def test_a_mixed_appliance_keeps_its_own_minutes(client, distant):
    """Only the learnt numbers are rounded, and the promise is the same for both uploads."""
    parts = []
    for session in distant:
        home = with_minutes(session["home"], source="typed")
        asked = {"home": home, "span": "run", "appliance": "kettle"}
        answer = release(client, session, **asked, accept_learnt=True)
        parts.append(public_part(answer))
        found = {one["name"]: one for one in answer.json()["private"]["parameters"]}
        assert found["length of a run of the kettle"]["source"] == "typed"
        assert found["length of a run of the kettle"]["used"] == 240.0
        assert found["power of the kettle"]["source"] == "learnt from these readings"
    assert parts[0] == parts[1]
    assert parts[0]["sources"] == ["learnt from these readings", "typed"]


def test_own_watts_and_minutes_need_no_consent(client, distant):
    parts = []
    for session in distant:
        own = {"name": "kettle", "watts": 2345.0, "run_s": 222.0, "source": "learnt"}
        home = {**session["home"], "appliances": [own, session["home"]["appliances"][1]]}
        asked = {"home": home, "span": "run", "appliance": "kettle"}
        parts.append(public_part(release(client, session, **asked)))
    assert parts[0] == parts[1]
    assert parts[0]["sources"] == ["typed"]


def test_learnt_lengths_of_runs_need_consent_whatever_is_protected(client, distant):
    for protect in ({"protect": "change", "watts": 500.0}, {"protect": "fluctuation"}):
        home = {**distant[0]["home"], "tolerance": 33.0}
        refused = release(client, distant[0], home=home, span="run", **protect)
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("the length of a run of the ")
        assert release(client, distant[0], home=home, span="reading", **protect).status_code == 200


def test_a_learnt_tolerance_needs_consent_and_an_own_one_does_not(client, distant):
    learnt = distant[0]["home"]
    for home in (learnt, {**learnt, "learnt_from": None, "id": None, "typed": ["tolerance"]}):
        refused = release(client, distant[0], home=home, protect="fluctuation")
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("the tolerance was learnt")


def test_a_home_that_is_saved_keeps_the_sources_of_its_numbers(client, distant):
    home = with_minutes(distant[0]["home"], source="typed")
    for given in ({"home": home}, {"home": {**home, "id": None}, "trace": distant[0]["id"]}):
        text = client.post("/api/homes/write", json=given).text
        kettle = hm.Home.from_toml(text).appliances[0]
        assert kettle.source == "learnt"
        assert kettle.source_of("run_s") == "typed"
        assert kettle.protected_run_s == 240.0
        assert kettle.protected_power == hm.appliance.round_up_to_public_step(kettle.high)


def test_a_home_of_a_file_keeps_its_sources_when_it_is_edited(client, distant, tmp_path):
    """The home was learnt before, from the same time; the upload has no appliances."""
    text = client.post("/api/homes/write", json={"home": distant[0]["home"]}).text
    read = client.post("/api/homes/read", files={"file": ("home.toml", text.encode())}).json()
    bare = client.post("/api/examples", json={"name": "evening"}).json()
    home = with_minutes(read, source="typed")
    asked = {"trace": bare["id"], "home": home, "epsilon": 1.0, "span": "run"}
    shown = client.post("/api/view", json=asked | {"appliance": "kettle"}).json()
    found = {one["name"]: one["source"] for one in shown["parameters"]}
    assert found["power of the kettle"].startswith("learnt")
    assert found["length of a run of the kettle"] == "typed"


def test_every_route_with_a_home_decides_the_sources_itself(client, distant):
    """A route that forgot it would take the power of the kettle as it was sent."""
    session = distant[0]
    home = {**with_minutes(session["home"], source="typed"), "id": None, "learnt_from": None}
    home["appliances"] = home["appliances"][:1]
    routes = client.get("/api/openapi.json").json()["paths"]
    asked = {"trace": session["id"], "home": home, "epsilon": 1.0, "span": "run", "tz": "UTC"}
    asked |= {"hide": ["kettle"], "appliance": "kettle", "length": 600, "attacker": "bayes"}
    asked |= {"accept_learnt": True, "protect": "appliance"}
    exact = f"{home['appliances'][0]['high']:g}"
    checked = []
    for path, methods in routes.items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {})
        name = body.get("application/json", {}).get("schema", {}).get("$ref", "").split("/")[-1]
        fields = client.app.openapi()["components"]["schemas"].get(name, {}).get("properties", {})
        if "home" not in fields:
            continue
        found_itself = ("epsilon", "protect", "appliance") if path == "/api/advise" else ()
        request = {k: v for k, v in asked.items() if k in fields and k not in found_itself}
        answer = client.post(path, json=request)
        assert answer.status_code in (200, 400), answer.text
        told = answer.json() if "json" in answer.headers["content-type"] else {}
        stated = {name: told.get(name) for name in ("unit", "receipt", "promise", "options")}
        assert exact not in str(stated), path
        checked.append(path)
    assert len(checked) == 10


def test_a_learnt_number_is_no_change_of_ones_own(client, distant):
    session = distant[0]
    high = session["home"]["appliances"][0]["high"]
    for more in ({"protect": "change", "watts": high}, {"protect": "range", "clamp": [0, high]}):
        for home in (None, session["home"]):
            refused = release(client, session, home=home, **more)
            assert refused.status_code == 422
            assert "was learnt from readings" in refused.json()["error"]


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
