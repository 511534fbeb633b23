"""The routes under /api. Each one checks a request, computes in a process, and returns a model.

Uploaded files are received into memory, decompressed within limits, and read in a process.
"""

from __future__ import annotations

import asyncio
import io
import re
import secrets
import tomllib
import zipfile
import zlib
from collections.abc import AsyncGenerator
from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from hushmeter import __version__
from hushmeter.appliance import Appliance, catalogue
from hushmeter.apps.page import schemas
from hushmeter.apps.page.attacks import DEFAULT, attack_view, live_attackers
from hushmeter.apps.page.server import EXAMPLES, Server, Session, Settings
from hushmeter.apps.page.views import (
    calendar_view,
    find_advice,
    find_bounds,
    find_findings,
    find_left,
    find_plan,
    make_download,
    make_view,
    note_download,
    restore_view,
)
from hushmeter.attack.registry import attackers
from hushmeter.errors import DataError, InputError, TooLargeError
from hushmeter.home import Home
from hushmeter.learn.homes import learn_home
from hushmeter.learn.inspection import inspect_recording, sentences
from hushmeter.noise import MECHANISMS
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.read import ReadOptions, read_bytes, read_home_bytes
from hushmeter.read.source import GZIP_MAGIC, ZIP_MAGIC, refuse_bomb
from hushmeter.releases.search import LONG_RESOLUTIONS_S, RESOLUTIONS_S

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

OPTIONS = tuple(field.name for field in fields(ReadOptions))
MOST_FIELD = 1000
# A file of equal readings with ten digits each is compressed about 30 : 1.
BINARY = (b"\x89HDF", b"PAR1", ZIP_MAGIC)
"""First bytes of formats whose size is checked by their own reader."""
SEPARATORS = (b"\n", b",", b";", b"\t")


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
        made = await server.workers.run(limit, make_download, *settle(request), long=True)
        return await asyncio.to_thread(note_download, made)


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


# Uploaded files


class MemoryParser(MultiPartParser):
    """A form parser that never writes a file to disk."""

    spool_max_size = 0


async def take_form(request: Request) -> tuple[bytes, str, dict[str, str]]:
    """Receive a form with one file."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InputError(
            "the request must be multipart/form-data with the file in the field “file”."
        )
    parser = MemoryParser(
        request.headers,
        _chunks(request),
        max_files=1,
        max_fields=len(OPTIONS) + 6,
        max_part_size=MOST_FIELD,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InputError(f"the form cannot be read: {error.message.rstrip('.')}.") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InputError("the form has no file in its field “file”.")
        data, name = await file.read(), safe_name(file.filename or "")
    finally:
        await form.close()
    return data, name, {key: value for key, value in form.items() if isinstance(value, str)}


def safe_name(name: str) -> str:
    """Return the last part of a file's name, short and printable, for use in messages only."""
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(c if c.isprintable() else "_" for c in last).strip(". ")
    return printable[:80] or "the file"


def read_options(fields: dict[str, str]) -> ReadOptions:
    """Return the options with which a file is read. Repeated times are counted, not refused."""
    for name in fields:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise InputError(f"the form has no field {name[:40]!r}; its fields are {known}.")
    given: dict[str, Any] = {name: value for name, value in fields.items() if value.strip()}
    return ReadOptions(**given)


def read_upload(data: bytes, name: str, options: ReadOptions, settings: Settings) -> Session:
    """Read an uploaded file. Its home is learnt if it has a column for each appliance."""
    plain = unpack(data, name, settings)
    if not plain.startswith(BINARY):
        _refuse_many(plain, name, settings)
    most = settings.values
    try:
        recording = read_home_bytes(plain, name, options, most_values=most)
    except TooLargeError:
        raise
    except DataError:
        # Circuits that never have a value together are no reason to refuse the meter.
        recording = read_bytes(plain, name, options, most_values=most)
    found = inspect_recording(recording)
    trace = found.recording.trace
    if len(trace) > settings.readings:
        raise TooLargeError(
            f"{name} has {len(trace)} readings, but the page takes at most {settings.readings}: "
            "split it into smaller files."
        )
    zone = found.recording.public.zone
    if trace.power is None:
        return Session(name, found, trace, zone=zone)
    metered = read_bytes(plain, name, options, most_values=most).trace
    if found.learnt is None:
        return Session(name, found, trace, zone=zone, metered=metered)
    home = found.learnt.home
    return Session(name, found, found.learnt.trace, home, zone=zone, metered=metered)


def parse_home(data: bytes, name: str, settings: Settings) -> Home:
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


def learn_from(session: Session) -> Home:
    """Learn a home from the sub-metered readings of a session."""
    return learn_home(session.trace).home


def unpack(data: bytes, name: str, settings: Settings) -> bytes:
    """Decompress a gzip file; check the sizes in a zip archive; return other files as they are."""
    if data.startswith(ZIP_MAGIC):
        _check_archive(data, name, settings)
    if not data.startswith(GZIP_MAGIC):
        return data
    plain = _decompress(data, name, settings)
    if plain.startswith(GZIP_MAGIC):
        raise TooLargeError(f"{name} contains another compressed file: decompress it once.")
    return plain


def _decompress(data: bytes, name: str, settings: Settings) -> bytes:
    """Return the content of a gzip file, refused as soon as it exceeds the limits."""
    parts: list[bytes] = []
    size = 0
    rest = data
    try:
        while rest:
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                part = stream.decompress(rest, 1 << 20)
                rest = stream.unconsumed_tail
                size += len(part)
                _refuse_bomb(size, len(data), name, settings)
                parts.append(part)
                if not part and not rest:
                    raise DataError(f"{name} is an incomplete gzip file: load it again.")
            # A gzip file may end with zeros, and it may consist of several members.
            rest = stream.unused_data.lstrip(b"\0")
    except zlib.error:
        raise DataError(f"{name} is a damaged gzip file: load it again.") from None
    return b"".join(parts)


def _check_archive(data: bytes, name: str, settings: Settings) -> None:
    """Refuse a zip archive or workbook by its declared sizes, or with a gzip file in it.

    A reader that finds more bytes than declared refuses the archive as damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _refuse_bomb(sum(entry.file_size for entry in entries), len(data), name, settings)
            for entry in entries:
                with archive.open(entry) as member:
                    if member.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                        raise TooLargeError(
                            f"{name} contains another compressed file: decompress it once."
                        )
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError) as error:
        if isinstance(error, TooLargeError):
            raise
        # The reader of archives explains what is wrong with this one.
        return


def _refuse_bomb(size: int, packed: int, name: str, settings: Settings) -> None:
    """Raise `TooLargeError` if a file grows too much while it is decompressed."""
    refuse_bomb(size, packed, name)
    if size > settings.unpacked_bytes:
        raise TooLargeError(
            f"{name} decompresses to more than {settings.unpacked_bytes >> 20} MB: "
            "split it into smaller files."
        )


def _refuse_many(data: bytes, name: str, settings: Settings) -> None:
    """Raise `TooLargeError` for a text file with too many values, before it is parsed."""
    if sum(data.count(mark) for mark in SEPARATORS) > settings.values:
        raise TooLargeError(
            f"{name} has more than {settings.values} values: split it into smaller files."
        )


async def _chunks(request: Request) -> AsyncGenerator[bytes, None]:
    async for chunk in request.stream():
        yield chunk
