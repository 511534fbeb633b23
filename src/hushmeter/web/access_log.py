"""The log of the server as JSON: one object per request or fault, with counts and times.

It holds no reading, no name of a file, no identifier of a trace and no address of a client.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNKNOWN_ROUTE = "unknown"
log = logging.getLogger("hushmeter.web.access")


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
            log.info("request", extra={"facts": facts})


def log_as_json() -> None:
    """Write the log of the server to standard error as JSON, one line per request or fault."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger("hushmeter.web")
    root.addHandler(handler)
    root.propagate = False
    log.setLevel(logging.INFO)
