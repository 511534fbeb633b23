"""Every error as {"error": one sentence} with a fitting status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from hushmeter.errors import HushmeterError, InputError, MissingExtraError
from hushmeter.web.security import refuse
from hushmeter.web.sessions import UnknownTraceError
from hushmeter.web.work import BusyError, TooSlowError

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (UnknownTraceError, 404),
    (InputError, 422),
    (MissingExtraError, 422),
    (HushmeterError, 400),
)
BUSY = "the server is busy with other requests: try again in a moment."
TOO_SLOW = (
    "this takes too long for the page: choose fewer readings, fewer appliances or another attacker."
)


def add_handlers(app: FastAPI) -> None:
    """Answer every error of the app with a sentence."""

    @app.exception_handler(HushmeterError)
    async def _say_hushmeter(_: Request, error: HushmeterError) -> Response:
        status = next(code for kind, code in STATUSES if isinstance(error, kind))
        return refuse(status, str(error))

    @app.exception_handler(RequestValidationError)
    async def _say_malformed(_: Request, error: RequestValidationError) -> Response:
        return refuse(422, describe(error.errors()))

    @app.exception_handler(HTTPException)
    async def _say_http(_: Request, error: HTTPException) -> Response:
        words = {404: "there is nothing at this address.", 405: "this address takes other methods."}
        answer = refuse(error.status_code, words.get(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(BusyError)
    async def _say_busy(_: Request, __: BusyError) -> Response:
        return refuse(503, BUSY)

    @app.exception_handler(TooSlowError)
    async def _say_slow(_: Request, __: TooSlowError) -> Response:
        return refuse(504, TOO_SLOW)


def describe(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first error of a malformed request as a sentence."""
    first = errors[0]
    where = ".".join(str(part) for part in first.get("loc", ())[1:])
    what = str(first.get("msg", "is malformed")).rstrip(".")
    return f"{where or 'the request'}: {what[:1].lower()}{what[1:]}."
