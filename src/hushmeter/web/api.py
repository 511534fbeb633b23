"""The routes under /api. Each one checks a request, computes in a process, and returns a model."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from hushmeter import __version__
from hushmeter.appliance import Appliance, catalogue
from hushmeter.attack.registry import attackers
from hushmeter.errors import DataError
from hushmeter.home import Home
from hushmeter.learn.inspection import sentences
from hushmeter.noise import MECHANISMS
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.releases.search import LONG_RESOLUTIONS_S, RESOLUTIONS_S
from hushmeter.web import schemas
from hushmeter.web.attacks import DEFAULT, attack_view, live_attackers
from hushmeter.web.requests import find_plan, make_download
from hushmeter.web.server import EXAMPLES, Server, Session, Settings
from hushmeter.web.uploads import (
    OPTIONS,
    learn_from,
    parse_home,
    read_options,
    read_upload,
    take_form,
)
from hushmeter.web.views import (
    calendar_view,
    find_advice,
    find_bounds,
    find_findings,
    find_left,
    make_view,
    restore_view,
)

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.ErrorAnswer, "description": words}
    for code, words in {
        400: "The data cannot be used.",
        401: "The token is missing or wrong.",
        403: "The request does not come from this server's page, or lacks the header X-Hushmeter.",
        404: "The server does not hold the trace.",
        413: "The request is too large.",
        415: "The body is neither JSON nor a form.",
        422: "The request is malformed.",
        503: "Too many requests are waiting.",
        504: "The request exceeded its time limit.",
    }.items()
}
UNITS = [*(("appliance", span) for span in ("reading", "run", "day")), ("fluctuation", "reading")]
"""What the page offers to protect, and over how long."""
LIMITS = ("upload_bytes", "unpacked_bytes", "readings", "view_readings", "appliances", "request_s")
"""Settings that a client must know."""
USUAL = (
    "kettle",
    "oven",
    "washing machine",
    "fridge",
    "television",
    "electric shower",
    "heat pump",
    "car charger",
)
"""Appliances that the page shows first; the others are folded."""
SIZED = tuple(catalogue[name] for name in catalogue if catalogue[name].ask)
"""Appliances that differ so much in size that somebody must state it."""
FOUND = ("format", "readings", "interval_s", "start", "end", "unit", "gaps", "duplicates")
"""Fields of an inspection that are repeated in the description of a trace."""


def make_router(server: Server) -> APIRouter:
    """Make all routes of one server."""
    router = APIRouter(prefix="/api", responses=ERRORS)
    _add_traces(router, server)
    _add_homes(router, server)
    _add_answers(router, server)
    return router


def describe_server(settings: Settings) -> schemas.About:
    """Describe what can be chosen on a server, and what it accepts."""
    return schemas.About(
        version=__version__,
        attackers=[
            schemas.AttackerAbout(
                name=name,
                summary=(
                    f"This attacker needs {attackers[name].needs}. "
                    f"It assumes: {attackers[name].assumes}."
                ),
                default=name == DEFAULT,
            )
            for name in live_attackers()
        ],
        mechanisms=list(MECHANISMS),
        units=UNITS,
        examples=EXAMPLES,
        resolutions_s=[float(every) for every in RESOLUTIONS_S + LONG_RESOLUTIONS_S],
        catalogue=typical_appliances(),
        sizes={one.name: (one.power_w.low, one.power_w.high) for one in SIZED},
        limits={name: getattr(settings, name) for name in LIMITS} | {"max_epsilon": MAX_EPSILON},
    )


def describe_session(server: Server, key: str, session: Session) -> schemas.SessionModel:
    """Describe a trace that the server holds."""
    found = session.found.to_dict()
    return schemas.SessionModel(
        id=key,
        name=session.name,
        regime={"name": found["regime"], "sentence": found["regime_sentence"]},
        sentences=list(sentences(session.found)),
        has_truth=session.trace.states is not None,
        zone=session.zone,
        home=None if session.home is None else server.hold_home(session.home, key),
        kept=len(session.trace),
        **{k: found[k] for k in FOUND},
    )


def typical_appliances() -> list[schemas.ApplianceModel]:
    """Return the appliances of the catalogue with their high values, the most usual ones first."""
    names = dict.fromkeys((*USUAL, *catalogue))
    members = [Appliance.from_words(name) for name in names]
    return schemas.to_model(Home(members)).appliances


def _add_traces(router: APIRouter, server: Server) -> None:
    """Add the routes that load, describe and remove readings."""

    @router.get("/about", summary="What this server offers")
    async def about() -> schemas.About:
        return describe_server(server.settings)

    @router.post("/examples", summary="Open an example home")
    async def examples(request: schemas.ExampleRequest) -> schemas.SessionModel:
        session = await server.example(request.name)
        return describe_session(server, server.hold(session), session)

    @router.post("/traces", summary="Load a file of readings", openapi_extra=_form(OPTIONS))
    async def traces(request: Request) -> schemas.SessionModel:
        with server.uploading():
            data, name, fields = await take_form(request)
            options = read_options(fields)
            given = (data, name, options, server.settings)
            session = await server.compute(read_upload, *given, long=True)
        return describe_session(server, server.hold(session), session)

    @router.get("/traces/{trace}", summary="Describe a loaded trace")
    async def trace_of(trace: str) -> schemas.SessionModel:
        return describe_session(server, trace, server.sessions.get(trace))

    @router.delete("/traces/{trace}", status_code=204, summary="Remove a trace")
    async def forget(trace: str) -> Response:
        server.sessions.remove(trace)
        return Response(status_code=204)


def _add_homes(router: APIRouter, server: Server) -> None:
    """Add the routes that read, write and learn homes."""

    @router.post("/homes/read", summary="Read a home from TOML", openapi_extra=_form(()))
    async def read(request: Request) -> schemas.HomeModel:
        data, name, _ = await take_form(request)
        home = await server.compute(parse_home, data, name, server.settings)
        return server.hold_home(home, secrets.token_urlsafe(24))

    @router.post("/appliance", summary="An appliance in words, such as “car charger 7.4 kW”")
    async def appliance(request: schemas.ApplianceRequest) -> schemas.ApplianceModel:
        return schemas.to_model(Home([Appliance.from_words(request.words)])).appliances[0]

    @router.post(
        "/homes/write",
        summary="Write a home as TOML",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def write(request: schemas.HomeRequest) -> PlainTextResponse:
        disposition = {"Content-Disposition": 'attachment; filename="home.toml"'}
        home = schemas.to_home(server.settle(request)[0].home)
        return PlainTextResponse(home.to_toml(), headers=disposition)

    @router.post("/homes/learn", summary="Learn a home from sub-metered readings")
    async def learn(request: schemas.TraceRequest) -> schemas.HomeModel:
        session = server.sessions.get(request.trace)
        if session.trace.power is None:
            raise DataError(
                f"{session.name} has only the readings of the meter and no column for each "
                "appliance, so no home can be learnt from it: enter the appliances yourself."
            )
        home = await server.compute(learn_from, session, long=True)
        return server.hold_home(home, request.trace)


def _add_answers(router: APIRouter, server: Server) -> None:
    """Add the routes that compute: a view, bounds, advice and a release."""
    compute, settle = server.compute, server.settle

    @router.post("/plan", summary="The promise of a release")
    async def plan(request: schemas.PlanRequest) -> schemas.PromiseModel:
        return await compute(find_plan, *settle(request))

    @router.post("/view", summary="The promise of a release, and an example with a seed")
    async def view(request: schemas.ViewRequest) -> schemas.View:
        return await compute(make_view, *settle(request), server.settings)

    @router.post("/attack", summary="Attack the release of a view and score the attack")
    async def attack(request: schemas.AttackRequest) -> schemas.AttackModel:
        return await compute(attack_view, *settle(request), server.settings, long=True)

    @router.post("/restore", summary="What a recipient can restore from the release of a view")
    async def restore(request: schemas.ViewRequest) -> schemas.RestoredModel:
        return await compute(restore_view, *settle(request), server.settings, long=True)

    @router.post("/calendar", summary="Typical day and months of a simulated release")
    async def calendar(request: schemas.CalendarRequest) -> schemas.CalendarModel:
        return await compute(calendar_view, *settle(request), long=True)

    @router.post("/findings", summary="What the readings show, from the readings alone")
    async def show_findings(request: schemas.FindingsRequest) -> schemas.FindingsModel:
        session = server.sessions.get(request.trace)
        return await compute(find_findings, session, request.tz, long=True)

    @router.post("/left", summary="What a release leaves of the statements about a home")
    async def left(request: schemas.LeftRequest) -> schemas.LeftModel:
        return await compute(find_left, *settle(request), long=True)

    @router.post("/bounds", summary="Accuracy against ε, with bounds")
    async def bounds(request: schemas.BoundsRequest) -> schemas.BoundsModel:
        return await compute(find_bounds, *settle(request), long=True)

    @router.post("/advise", summary="The releases that hide an appliance, and their cost")
    async def advise(request: schemas.AdviseRequest) -> schemas.AdviceModel:
        return await compute(find_advice, *settle(request), long=True)

    @router.post("/release", summary="Protected readings and their receipt, to download")
    async def release(request: schemas.ReleaseRequest) -> schemas.Download:
        limit = server.settings.release_s
        return await server.workers.run(limit, make_download, *settle(request), long=True)


def _form(fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the OpenAPI description of an upload form."""
    properties: dict[str, Any] = {"file": {"type": "string", "format": "binary"}}
    properties |= {name: {"type": "string"} for name in fields}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["file"],
        "additionalProperties": False,
    }
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }
