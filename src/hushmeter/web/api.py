"""The routes under /api: each takes a request, computes in a thread, and answers a model."""

from __future__ import annotations

import tomllib
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from hushmeter.errors import DataError, InputError
from hushmeter.home import Home
from hushmeter.learn.homes import learn_home
from hushmeter.learn.inspection import sentences
from hushmeter.web import answers, requests
from hushmeter.web.about import describe_server
from hushmeter.web.downloads import make_download
from hushmeter.web.homes import to_home, to_model
from hushmeter.web.planning import find_advice, find_bounds
from hushmeter.web.server import Server
from hushmeter.web.sessions import Session
from hushmeter.web.settings import Settings
from hushmeter.web.uploads import OPTIONS, read_options, read_upload, take_form
from hushmeter.web.views import make_view

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": answers.ErrorAnswer, "description": words}
    for code, words in {
        400: "The data says no.",
        401: "The token is missing or wrong.",
        403: "Not a request of this server's page, or the header X-Hushmeter is missing.",
        404: "There is no such trace, or no longer.",
        413: "Too large.",
        415: "Neither JSON nor a form.",
        422: "The request is malformed.",
        503: "Too many requests wait.",
        504: "It takes too long.",
    }.items()
}


def make_router(server: Server) -> APIRouter:
    """All routes of one server."""
    router = APIRouter(prefix="/api", responses=ERRORS)
    _add_traces(router, server)
    _add_homes(router, server)
    _add_answers(router, server)
    return router


def _add_traces(router: APIRouter, server: Server) -> None:
    @router.get("/about", summary="What this server offers")
    async def about() -> answers.About:
        return describe_server(server.settings)

    @router.post("/examples", summary="Try an example home")
    async def examples(request: requests.ExampleRequest) -> answers.SessionModel:
        session = await server.compute(server.example, request.name)
        return describe_session(server.sessions.add(session), session)

    @router.post("/traces", summary="Load a file of readings", openapi_extra=_form(OPTIONS))
    async def traces(request: Request) -> answers.SessionModel:
        with server.uploading():
            data, name, fields = await server.receive(take_form(request))
            options = read_options(fields)
            session = await server.compute(read_upload, data, name, options, server.settings)
        return describe_session(server.sessions.add(session), session)

    @router.get("/traces/{trace}", summary="What is known of a loaded trace")
    async def trace_of(trace: str) -> answers.SessionModel:
        return describe_session(trace, server.sessions.get(trace))

    @router.delete("/traces/{trace}", status_code=204, summary="Forget a trace")
    async def forget(trace: str) -> Response:
        server.sessions.remove(trace)
        return Response(status_code=204)


def _add_homes(router: APIRouter, server: Server) -> None:
    @router.post("/homes/read", summary="Read a home from TOML", openapi_extra=_form(()))
    async def read(request: Request) -> requests.HomeModel:
        data, name, _ = await server.receive(take_form(request))
        return to_model(_parse_home(data, name, server.settings))

    @router.post(
        "/homes/write",
        summary="Write a home as TOML",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def write(request: requests.HomeRequest) -> PlainTextResponse:
        disposition = {"Content-Disposition": 'attachment; filename="home.toml"'}
        return PlainTextResponse(to_home(request.home).to_toml(), headers=disposition)

    @router.post("/homes/learn", summary="Learn a home from sub-metered readings")
    async def learn(request: requests.TraceRequest) -> requests.HomeModel:
        session = server.sessions.get(request.trace)
        if session.trace.power is None:
            raise DataError(
                f"{session.name} has only the meter, no column per appliance: "
                "learning a home needs sub-metered data."
            )
        learnt = await server.compute(learn_home, session.trace)
        return to_model(learnt.home)


def _add_answers(router: APIRouter, server: Server) -> None:
    @router.post("/view", summary="Release with a seed, attack and score")
    async def view(request: requests.ViewRequest) -> answers.View:
        session = server.sessions.get(request.trace)
        answer: answers.View = await server.compute(
            make_view, request, session, server.fits, server.settings
        )
        return answer

    @router.post("/bounds", summary="Accuracy against ε, with bounds")
    async def bounds(request: requests.BoundsRequest) -> answers.BoundsModel:
        answer: answers.BoundsModel = await server.compute(find_bounds, request)
        return answer

    @router.post("/advise", summary="The ε that hides an appliance, and its price")
    async def advise(request: requests.AdviseRequest) -> answers.AdviceModel:
        interval = request.interval_s
        if request.trace is not None:
            interval = server.sessions.get(request.trace).trace.interval_s
        answer: answers.AdviceModel = await server.compute(find_advice, request, interval)
        return answer

    @router.post("/release", summary="Protected readings and their receipt, to keep")
    async def release(request: requests.ReleaseRequest) -> answers.Download:
        session = server.sessions.get(request.trace)
        limit = server.settings.release_s
        return await server.workshop.run(limit, make_download, request, session)


def describe_session(key: str, session: Session) -> answers.SessionModel:
    """A session as JSON."""
    found = session.found.to_dict()
    return answers.SessionModel(
        id=key,
        name=session.name,
        regime=answers.Regime(name=found["regime"], sentence=found["regime_sentence"]),
        sentences=list(sentences(session.found)),
        has_truth=session.trace.states is not None,
        home=None if session.home is None else to_model(session.home),
        kept=len(session.trace),
        **{k: found[k] for k in _FOUND},
    )


_FOUND = ("format", "readings", "interval_s", "start", "end", "unit", "gaps", "duplicates")


def _parse_home(data: bytes, name: str, settings: Settings) -> Home:
    try:
        home = Home.from_toml(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{name} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{name} describes no valid home: {error}") from None
    if len(home) > settings.appliances:
        raise DataError(f"{name} has {len(home)} appliances; the page takes {settings.appliances}.")
    return home


def _form(fields: tuple[str, ...]) -> dict[str, Any]:
    """The form of an upload, for the OpenAPI description."""
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
