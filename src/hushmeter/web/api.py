"""The routes under /api. Each one checks a request, computes in a process, and returns a model."""

from __future__ import annotations

import secrets
import tomllib
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from hushmeter import __version__
from hushmeter.appliance_kinds import catalogue
from hushmeter.attack.registry import attackers
from hushmeter.errors import DataError, InputError
from hushmeter.home import Appliance, Home
from hushmeter.learn.homes import learn_home
from hushmeter.learn.inspection import sentences
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.web import schemas
from hushmeter.web.attacks import DEFAULT, live_attackers
from hushmeter.web.costs import LONG_S, estimate_view
from hushmeter.web.planning import INTERVALS_S, find_advice, find_bounds, find_plan
from hushmeter.web.releases import make_download
from hushmeter.web.server import Server, Settings
from hushmeter.web.sessions import EXAMPLES, Session
from hushmeter.web.uploads import OPTIONS, read_options, read_upload, take_form
from hushmeter.web.views import attack_view, calendar_view, find_findings, make_view, restore_view
from hushmeter.web.workers import Kept, TraceOf

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
ATTACKER_LABELS = {
    "strongest": "The strongest of several",
    "bayes": "Bayes, knows the noise",
    "one-shot": "One-shot (P3)",
    "multi-shot": "Multi-shot (Algorithm 1)",
    "hierarchical": "Hierarchical (Algorithm 2)",
    "co": "Combinatorial optimisation",
    "fhmm": "Factorial HMM",
    "sparse-hmm": "Sparse-HMM",
    "ip": "Integer program",
    "alip": "Aided linear integer program",
    "all-off": "Believes that everything is off",
}
MECHANISM_LABELS = {
    "laplace": "Laplace",
    "staircase": "Staircase",
    "gaussian": "Gaussian (δ = 1e-6)",
}
UNIT_LABELS = {
    ("appliance", "reading"): "one appliance in one reading",
    ("appliance", "run"): "one appliance over one run",
    ("appliance", "day"): "one appliance over one day",
    ("fluctuation", "reading"): "fluctuations within a state in one reading, not switches",
}
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
FOUND = ("format", "readings", "interval_s", "start", "end", "unit", "gaps", "duplicates")
"""Fields of an inspection that are repeated in the description of a trace."""


def make_router(server: Server) -> APIRouter:
    """Make all routes of one server.

    Parameters
    ----------
    server : Server

    Returns
    -------
    APIRouter
    """
    router = APIRouter(prefix="/api", responses=ERRORS)
    _add_traces(router, server)
    _add_homes(router, server)
    _add_answers(router, server)
    return router


def describe_server(settings: Settings) -> schemas.About:
    """Describe what can be chosen on a server, and what it accepts.

    Parameters
    ----------
    settings : Settings

    Returns
    -------
    About
    """
    return schemas.About(
        version=__version__,
        attackers=[
            schemas.AttackerAbout(
                name=name,
                label=ATTACKER_LABELS.get(name, name),
                summary=(
                    f"This attacker needs {attackers[name].needs}. "
                    f"It assumes: {attackers[name].assumes}."
                ),
                default=name == DEFAULT,
            )
            for name in live_attackers()
        ],
        mechanisms=[schemas.Named(name=n, label=label) for n, label in MECHANISM_LABELS.items()],
        units=[
            schemas.UnitAbout(protect=protect, span=span, label=label)
            for (protect, span), label in UNIT_LABELS.items()
        ],
        examples=[schemas.Named(name=name, label=label) for name, label in EXAMPLES.items()],
        resolutions_s=[float(every) for every in INTERVALS_S],
        catalogue=typical_appliances(),
        limits=schemas.Limits(
            upload_bytes=settings.upload_bytes,
            unpacked_bytes=settings.unpacked_bytes,
            readings=settings.readings,
            view_readings=settings.view_readings,
            appliances=settings.appliances,
            max_epsilon=MAX_EPSILON,
            request_s=settings.request_s,
        ),
    )


def describe_session(server: Server, key: str, session: Session) -> schemas.SessionModel:
    """Describe a trace that the server holds.

    Parameters
    ----------
    server : Server
    key : str
        Identifier of the trace.
    session : Session

    Returns
    -------
    SessionModel
    """
    found = session.found.to_dict()
    return schemas.SessionModel(
        id=key,
        name=session.name,
        regime=schemas.Regime(name=found["regime"], sentence=found["regime_sentence"]),
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
            data, name, fields = await server.receive(take_form(request))
            options = read_options(fields)
            session = await server.compute(
                read_upload, data, name, options, server.settings, long=True
            )
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
        data, name, _ = await server.receive(take_form(request))
        home = _parse_home(data, name, server.settings)
        return server.hold_home(home, secrets.token_urlsafe(24))

    @router.post(
        "/homes/write",
        summary="Write a home as TOML",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def write(request: schemas.HomeRequest) -> PlainTextResponse:
        disposition = {"Content-Disposition": 'attachment; filename="home.toml"'}
        home = schemas.to_home(server.settle(request).home)
        return PlainTextResponse(home.to_toml(), headers=disposition)

    @router.post("/homes/learn", summary="Learn a home from sub-metered readings")
    async def learn(request: schemas.TraceRequest) -> schemas.HomeModel:
        session = server.sessions.get(request.trace)
        if session.trace.power is None:
            raise DataError(
                f"{session.name} has only the readings of the meter and no column for each "
                "appliance, so no home can be learnt from it: enter the appliances yourself."
            )
        learnt = await server.compute(learn_home, TraceOf(session), long=True)
        return server.hold_home(learnt.home, request.trace)


def _add_answers(router: APIRouter, server: Server) -> None:
    """Add the routes that compute: a view, bounds, advice and a release."""

    def find_trace(key: str | None) -> TraceOf | None:
        return None if key is None else TraceOf(server.sessions.get(key))

    @router.post("/view", summary="Release with a seed, attack and score")
    async def view(request: schemas.ViewRequest) -> schemas.View:
        session = server.sessions.get(request.trace)
        seconds = estimate_view(request, session, server.settings)
        answer: schemas.View = await server.compute(
            make_view,
            server.settle(request),
            session,
            Kept.FITS,
            server.settings,
            long=seconds > LONG_S,
        )
        return answer

    @router.post("/attack", summary="Attack the release of a view and score the attack")
    async def attack(request: schemas.ViewRequest) -> schemas.AttackModel:
        session = server.sessions.get(request.trace)
        estimate_view(request, session, server.settings)
        answer: schemas.AttackModel = await server.compute(
            attack_view, server.settle(request), session, Kept.FITS, server.settings, long=True
        )
        return answer

    @router.post("/restore", summary="What a recipient can restore from the release of a view")
    async def restore(request: schemas.ViewRequest) -> schemas.RestoredModel:
        session = server.sessions.get(request.trace)
        answer: schemas.RestoredModel = await server.compute(
            restore_view, server.settle(request), session, server.settings, long=True
        )
        return answer

    @router.post("/calendar", summary="Typical day and months of a simulated calendar release")
    async def calendar(request: schemas.CalendarRequest) -> schemas.CalendarModel:
        session = server.sessions.get(request.trace)
        answer: schemas.CalendarModel = await server.compute(
            calendar_view, server.settle(request), session, long=True
        )
        return answer

    @router.post("/findings", summary="What the readings show, from the readings alone")
    async def show_findings(request: schemas.FindingsRequest) -> schemas.FindingsModel:
        session = server.sessions.get(request.trace)
        answer: schemas.FindingsModel = await server.compute(
            find_findings, session, request.tz, long=True
        )
        return answer

    @router.post("/bounds", summary="Accuracy against ε, with bounds")
    async def bounds(request: schemas.BoundsRequest) -> schemas.BoundsModel:
        trace = find_trace(request.trace)
        answer: schemas.BoundsModel = await server.compute(
            find_bounds, server.settle(request), trace
        )
        return answer

    @router.post("/advise", summary="The releases that hide an appliance, and their cost")
    async def advise(request: schemas.AdviseRequest) -> schemas.AdviceModel:
        trace = find_trace(request.trace)
        answer: schemas.AdviceModel = await server.compute(
            find_advice, server.settle(request), trace
        )
        return answer

    @router.post("/plan", summary="The release that hides some appliances at the least cost")
    async def plan(request: schemas.PlanRequest) -> schemas.PlanModel:
        trace = find_trace(request.trace)
        answer: schemas.PlanModel = await server.compute(find_plan, server.settle(request), trace)
        return answer

    @router.post("/release", summary="Protected readings and their receipt, to download")
    async def release(request: schemas.ReleaseRequest) -> schemas.Download:
        session = server.sessions.get(request.trace)
        limit = server.settings.release_s
        return await server.workers.run(
            limit, make_download, server.settle(request), session, long=True
        )


def _parse_home(data: bytes, name: str, settings: Settings) -> Home:
    """Return the home of an uploaded TOML file; raise `DataError` if it is not valid."""
    try:
        home = Home.from_toml(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{name} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{name} does not describe a valid home: {error}") from None
    if len(home) > settings.appliances:
        raise DataError(
            f"{name} has {len(home)} appliances, but the page takes at most {settings.appliances}."
        )
    return home


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
