"""schemathesis against the OpenAPI description: nothing it can think of makes the server fail."""

from __future__ import annotations

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from hushmeter.apps.page.server import Settings
from tests.apps.page.serving import example, serving

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance)
OPERATIONS = [
    ("/api/about", "GET"),
    ("/api/examples", "POST"),
    ("/api/traces", "POST"),
    ("/api/traces/{trace}", "GET"),
    ("/api/traces/{trace}", "DELETE"),
    ("/api/homes/read", "POST"),
    ("/api/homes/write", "POST"),
    ("/api/appliance", "POST"),
    ("/api/homes/learn", "POST"),
    ("/api/view", "POST"),
    ("/api/attack", "POST"),
    ("/api/restore", "POST"),
    ("/api/calendar", "POST"),
    ("/api/bounds", "POST"),
    ("/api/findings", "POST"),
    ("/api/left", "POST"),
    ("/api/advise", "POST"),
    ("/api/plan", "POST"),
    ("/api/release", "POST"),
]
PATIENCE_S = 300.0
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


@pytest.fixture(scope="module")
def client():
    # Small views and much patience: the description allows any home, which may take its time.
    patient = Settings(view_readings=300, request_s=PATIENCE_S, release_s=PATIENCE_S)
    with serving(patient) as running:
        yield running


@pytest.fixture(scope="module")
def schema(client):
    return schemathesis.openapi.from_url(
        f"{client.base_url}/api/openapi.json",
        headers=dict(client.headers),
        timeout=PATIENCE_S,
    )


def check_content(description, path, method, answer):
    """Compare an answer with what the description says about its status.

    schemathesis 4.32 writes the tuples of a response as JSON Schema of 2019 did, and then refuses
    them as a schema of OpenAPI 3.1. The description itself is used here, as it is.
    """
    stated = description["paths"][path][method.lower()]["responses"][str(answer.status_code)]
    for kind, content in stated.get("content", {}).items():
        whole = {"components": description["components"], **content["schema"]}
        found = answer.json() if kind == "application/json" else answer.text
        jsonschema_rs.Draft202012Validator(whole).validate(found)


def attack(schema, client, path, method, examples):
    """So many calls, with what the page always sends; a trace that is named is there."""
    trace, description = example(client)["id"], client.get("/api/openapi.json").json()

    @given(case=schema[path][method].as_strategy())
    @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
    def call(case):
        if isinstance(case.body, dict) and isinstance(case.body.get("trace"), str):
            case.body["trace"] = trace
        given = {name: client.headers[name] for name in ("X-Hushmeter", "Authorization")}
        answer = case.call(headers=given, timeout=2 * PATIENCE_S)
        case.validate_response(answer, checks=CHECKS)
        check_content(description, path, method, answer)

    call()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_makes_the_server_fail(schema, client, path, method):
    attack(schema, client, path, method, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_of_many_makes_the_server_fail(schema, client, path, method):
    attack(schema, client, path, method, 200)


def test_an_answer_that_differs_from_the_description_is_found(client):
    description = client.get("/api/openapi.json").json()
    request = {"name": "evening"}
    answer = client.post("/api/examples", json=request)
    check_content(description, "/api/examples", "POST", answer)
    session = answer.json()
    view = {"trace": session["id"], "home": session["home"], "epsilon": 1.0}
    shown = client.post("/api/view", json=view)
    assert shown.status_code == 200, shown.text
    check_content(description, "/api/view", "POST", shown)
    # A row is a tuple of a time and two powers.
    wrong = shown.json()
    wrong["metered"][0][0] = "midnight"
    with pytest.raises(jsonschema_rs.ValidationError):
        check_content(description, "/api/view", "POST", httpx.Response(200, json=wrong))


def test_the_description_names_every_route_and_no_other_origin(client):
    found = client.get("/api/openapi.json").json()
    named = {
        (path, method.upper()) for path, methods in found["paths"].items() for method in methods
    }
    assert named == set(OPERATIONS)
    for path in found["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            assert {"400", "403", "422", "504"} <= set(operation["responses"])
    for path in ("/docs", "/redoc", "/api/docs"):
        assert client.get(path).status_code == 404
