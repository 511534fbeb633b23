"""Checks of every request, and headers of every answer.

The server holds the readings of a home, so neither another user of the computer nor another page
in the same browser may reach them:

- Every request needs the token of the server. Only the files of the page, which are the same for
  everybody, are open to all.
- The token comes to the page in the fragment of its address. Browsers never send a fragment, so it
  is in no log and in no Referer. A cookie would not do: browsers send the cookies of 127.0.0.1 to
  every port of it, and so to a server of another user.
- The host name of a request must be one of the server's names, which prevents DNS rebinding.
- A request that changes or computes something needs a header that a form or a script of another
  site cannot set without permission.
- A request that a page of another site started is refused.
- No answer allows another origin to read it.

The log holds no reading, no name of a file, no identifier of a trace and no address of a client. As
JSON it has one object per request or fault, with counts and times.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from hushmeter.apps.page.workers import WorkerFault, find_place

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hushmeter.apps.page.server import Settings

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
OPEN_PATHS = ("/", "/live", "/plotly.min.js")
OPEN_FOLDER = "/static/"
"""The files of the page; every other address needs the token."""
MARK = "x-hushmeter"
READING_METHODS = ("GET", "HEAD")
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d+)?", re.ASCII)
"""A name, or an address in brackets, with a port."""
PATIENCE_S = 5.0
"""Time after which a body must come at a rate [s]."""
LEAST_RATE = 100_000
"""Slowest rate of a body [bytes/s]."""
BODY_TYPES = ("application/json", "multipart/form-data")
UPLOADS = ("/api/traces",)
FORM_OVERHEAD = 1 << 16
FAULT = "hushmeter failed with an unexpected error; the log of the server names the kind of error."

UNKNOWN_ROUTE = "unknown"

log = logging.getLogger("hushmeter.apps.page")
access_log = logging.getLogger("hushmeter.apps.page.access")


class Refusal(Exception):  # noqa: N818
    """A request that the server refuses, with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """Middleware that checks every request before the app and adds headers to every answer."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on to the app."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        marked = _marking(send, private=not _is_open(scope["path"]))
        try:
            limit = self._check(scope)
        except Refusal as refusal:
            await refuse(refusal.status, str(refusal))(scope, receive, marked)
            return
        received = _limited(receive, limit, self.settings.request_s)
        await self._answer(scope, received, marked)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. An unexpected error becomes a sentence without its message."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except ClientDisconnect:
            # The client left before its request was complete; nobody waits for an answer.
            return
        except Exception as error:
            # The message of an error may contain a reading, so it is not logged.
            kind, place = type(error).__name__, find_place(error)
            if isinstance(error, WorkerFault):
                kind, place = error.kind, error.place
            log.error("fault: %s at %s", kind, place)
            if not started:
                await refuse(500, FAULT)(scope, receive, send)

    def _check(self, scope: Scope) -> int:
        """Raise `Refusal` for a forbidden request; return the largest size of its body [bytes]."""
        headers, path = Headers(scope=scope), str(scope["path"])
        check_host(headers.get("host", ""), self.settings.hosts)
        if _is_open(path):
            return 0
        # A proxy takes TLS away, so that the server itself sees http in either case.
        _check_origin(headers, "http" if self.settings.is_local else "https")
        _check_token(headers, self.settings.token)
        limit = self.settings.body_bytes
        if path in UPLOADS:
            limit = self.settings.upload_bytes + FORM_OVERHEAD
        if scope["method"] not in READING_METHODS:
            _check_change(headers, scope["method"])
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limit:
            raise Refusal(413, too_large(limit))
        return limit


def check_host(host: str, names: Collection[str]) -> None:
    """Refuse a request whose host name is not one of the server's, as in DNS rebinding."""
    # A user name before the host, as in evil@127.0.0.1, belongs to no Host header.
    found = HOST.fullmatch(host)
    if found is None or (found[1] or found[2]).lower() not in names:
        raise Refusal(
            403,
            "the host name of the request is wrong: open the address that the server printed at "
            "its start.",
        )


def refuse(status: int, sentence: str) -> Response:
    """Return the answer to a refused request."""
    extra = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status)
    return Response(
        json.dumps({"error": sentence}, ensure_ascii=False), status, extra, "application/json"
    )


def too_large(limit: int) -> str:
    """Return the sentence for a request that is too large."""
    size = f"{limit >> 20} MB" if limit >> 20 else f"{limit} bytes"
    return f"the request is larger than {size}: send a smaller file."


def _check_origin(headers: Headers, scheme: str) -> None:
    """Refuse a request that a page of another site started."""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin")
    foreign = origin is not None and origin != f"{scheme}://{headers.get('host')}"
    if site not in ("none", "same-origin") or foreign:
        raise Refusal(403, "only the page of this server may send this request.")


def _is_open(path: str) -> bool:
    """Return True for the files of the page, which hold no data."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _check_token(headers: Headers, token: str) -> None:
    """Refuse a request without the token of the server."""
    given = headers.get("authorization", "").encode()
    if not secrets.compare_digest(given, f"Bearer {token}".encode()):
        raise Refusal(
            401,
            "the token is missing or wrong: open the address that the server printed at its start.",
        )


def _check_change(headers: Headers, method: str) -> None:
    """Refuse a request that changes something if its header or content type is wrong."""
    if headers.get(MARK) != "1":
        raise Refusal(403, "a request that is not a GET needs the header X-Hushmeter: 1.")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and kind not in BODY_TYPES:
        raise Refusal(415, f"the content type must be {' or '.join(BODY_TYPES)}.")


def _limited(receive: Receive, limit: int, limit_s: float) -> Receive:
    """Return the body; raise an error if it is too long [bytes] or takes too much time [s].

    One clock runs for the whole body: after `PATIENCE_S` it must have come at `LEAST_RATE` or
    faster, so that single bytes hold no place for long.
    """
    left, is_complete = limit, False
    begun = time.monotonic()

    async def counted() -> Message:
        nonlocal left, is_complete
        if is_complete:
            return await receive()
        deadline = begun + min(limit_s, PATIENCE_S + (limit - left) / LEAST_RATE)
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(
                504, "this takes too long: the request did not arrive in time; send it again."
            ) from None
        is_complete = not message.get("more_body", False)
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, too_large(limit))
        return message

    return counted


def _marking(send: Send, *, private: bool) -> Send:
    """Return `send` with security headers added; browsers must not store an answer with data."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["Cache-Control"] = "no-store" if private else "no-cache"
        await send(message)

    return marked


class JsonLines(logging.Formatter):
    """A formatter that writes each record as one line of JSON.

    The attribute `facts` of a record holds counts and times.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "command": "serve",
        }
        facts = getattr(record, "facts", None)
        # A record without facts is the sentence of a fault, which names its kind and its place.
        line |= {"event": "fault", "message": record.getMessage()} if facts is None else facts
        return json.dumps(line, ensure_ascii=False, allow_nan=False)


class AccessLog:
    """Middleware that logs the route, the status, the sizes and the time of every request.

    The route is logged as it is written in the API, such as /api/traces/{trace}, and never as the
    client sent it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it when it is answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        status, received, sent = 0, 0, 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        async def noted(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, counted, noted)
        finally:
            facts = {
                "event": "request",
                "method": scope["method"],
                "route": getattr(scope.get("route"), "path", UNKNOWN_ROUTE),
                # 499 is what other servers log for a client that left without an answer.
                "status": status or 499,
                "received_bytes": received,
                "sent_bytes": sent,
                "seconds": round(time.monotonic() - began, 4),
            }
            access_log.info("request", extra={"facts": facts})


def log_as_json() -> None:
    """Write the log of the server to standard error as JSON, one line per request or fault."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.propagate = False
    access_log.setLevel(logging.INFO)


def log_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors of the event loop, such as too many open files, in one line each."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # The message of an error may contain a reading, so it is not logged.
        log.error("fault: %s in the event loop", type(error).__name__)

    loop.set_exception_handler(handle)
