"""schemathesis against the OpenAPI description: nothing it can think of makes the server fail."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hushmeter.web.server import Settings
from tests.web.serving import example, serving

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
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
        f"{client.base_url}/api/openapi.json", headers=dict(client.headers)
    )


def attack(schema, client, path, method, examples):
    """So many calls, with what the page always sends; a trace that is named is there."""
    trace = example(client)["id"]

    @given(case=schema[path][method].as_strategy())
    @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
    def call(case):
        if isinstance(case.body, dict) and isinstance(case.body.get("trace"), str):
            case.body["trace"] = trace
        given = {name: client.headers[name] for name in ("X-Hushmeter", "Authorization")}
        answer = case.call(headers=given, timeout=2 * PATIENCE_S)
        case.validate_response(answer, checks=CHECKS)

    call()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_makes_the_server_fail(schema, client, path, method):
    attack(schema, client, path, method, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_of_many_makes_the_server_fail(schema, client, path, method):
    attack(schema, client, path, method, 200)


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
