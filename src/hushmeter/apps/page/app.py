"""The web app: the page, plotly.js from the installed package, the API, errors, and serving."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hushmeter import __version__
from hushmeter.apps.page.server import (
    LOOPBACK,
    MEGABYTE,
    Server,
    Settings,
    UnknownTraceError,
    is_loopback,
)
from hushmeter.apps.page.workers import BusyError, TooSlowError
from hushmeter.errors import (
    DataError,
    HushmeterError,
    InputError,
    MissingExtraError,
    TooLargeError,
)

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.responses import Response

STATIC = Path(__file__).with_name("static")
DESCRIPTION = (
    "Release smart-meter readings under differential privacy and see what an attacker can still "
    "infer from them. Readings stay in the memory of this server. Every request needs the header "
    "`Authorization: Bearer TOKEN` with the token that the server printed, and a request that is "
    'not a GET needs `X-Hushmeter: 1`. Every error has the form `{"error": "one sentence"}`.'
)
ANSWERS: tuple[tuple[type[Exception], int, str], ...] = (
    (BusyError, 503, "the server is busy with other requests: try again in a moment."),
    (
        TooSlowError,
        504,
        "this takes too long for the page: choose fewer readings, fewer appliances or another "
        "attacker.",
    ),
    (UnknownTraceError, 404, ""),
    (TooLargeError, 413, ""),
    (InputError, 422, ""),
    (MissingExtraError, 422, ""),
    (HushmeterError, 400, ""),
)
"""Status of each kind of error, and its sentence if the error has none."""
NOT_FOUND = "there is nothing at this address."
WRONG_METHOD = "this address does not accept this method."
BACKLOG = 128
"""Connections that may wait to be accepted."""


def create_app(
    settings: Settings | None = None, *, stream: Callable[[], dict[str, Any]] | None = None
) -> FastAPI:
    """Make a web app with its own memory; `stream` looks at a stream, whose page is at /live."""
    try:
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
        from fastapi import FastAPI
    except ImportError:
        raise MissingExtraError("the page", "page") from None
    from hushmeter.apps.page.api import make_router
    from hushmeter.apps.page.security import AccessLog, Guard, log_loop_errors

    chosen = settings or Settings()
    server = Server(chosen)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log_loop_errors(asyncio.get_running_loop())
        await server.workers.start()
        forgetting = asyncio.create_task(server.forget_idle())
        yield
        forgetting.cancel()
        server.workers.close()

    app = FastAPI(
        title="hushmeter",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.server = server
    app.include_router(make_router(server))
    _add_error_answers(app)
    _add_page(app)
    if stream is not None:
        _add_live_page(app, chosen, stream)
    app.add_middleware(Guard, settings=chosen)
    app.add_middleware(AccessLog)
    return app


def find_plotly() -> Path:
    """Return the path of plotly.min.js in the installed plotly package."""
    try:
        import plotly
    except ImportError:
        raise MissingExtraError("the charts of the page", "page") from None
    return Path(str(plotly.__file__)).with_name("package_data") / "plotly.min.js"


def choose_settings(host: str, max_upload: int, proxy: str | None = None) -> Settings:
    """Return the limits of a server (`max_upload` in MB), its names and a new token.

    `proxy` is the name under which a proxy with TLS in front of the server is reached. Raise
    `InputError` if other computers can reach the address and there is no proxy.
    """
    if proxy is None and not is_loopback(host):
        raise InputError(
            f"other computers can reach {host}, and the connection to them is not encrypted: leave "
            "out --host, or put a proxy with TLS in front and give its name with --behind-proxy."
        )
    names: tuple[str, ...] = (host, *LOOPBACK)
    if proxy is not None:
        name = urlsplit(f"//{proxy}").hostname
        if name is None or "/" in proxy:
            raise InputError(
                "--behind-proxy is a name such as meter.example.org, with a port if it is not 443, "
                f"got {proxy!r}."
            )
        names = (name,)
    upload = max_upload * MEGABYTE
    return Settings(
        hosts=tuple(dict.fromkeys(name.lower() for name in names)),
        upload_bytes=upload,
        unpacked_bytes=max(upload, Settings.unpacked_bytes),
    )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port must be between 0 and 65535, got {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends the body of an answer without waiting for the client to confirm its head, which
    # clients do after 40 ms, only for sockets that name their protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{host} port {port} cannot be bound ({reason}): choose another --port, or 0 for any "
            "free one."
        ) from None
    return listener


def address_of(host: str, port: int, token: str, path: str = "", proxy: str | None = None) -> str:
    """Return the address to type into a browser."""
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if proxy is not None:
        place = f"https://{proxy}"
    return f"{place}/{path}#token={token}"


def make_config(app: FastAPI) -> uvicorn.Config:
    """Return how the app is served: only unexpected errors are logged, without their messages."""
    import uvicorn

    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        backlog=BACKLOG,
        limit_concurrency=app.state.server.settings.connections,
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        timeout_keep_alive=15,
    )


def run_app(app: FastAPI, listener: socket.socket, running: AbstractContextManager[None]) -> None:
    """Serve the app until a signal; `running` is entered when it answers and left at the end."""
    import uvicorn

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            running.__enter__()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            running.__exit__(None, None, None)
            await super().shutdown(sockets)

    Announced(make_config(app)).run(sockets=[listener])


def describe_malformed(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the first error of a malformed request as one sentence."""
    first = errors[0]
    where = ".".join(str(part) for part in first.get("loc", ())[1:])
    what = str(first.get("msg", "is malformed")).rstrip(".")
    return f"{where or 'the request'}: {what[:1].lower()}{what[1:]}."


def _add_page(app: FastAPI) -> None:
    """Serve the page, its files and plotly.js."""
    from fastapi.responses import FileResponse
    from starlette.staticfiles import StaticFiles

    plotly_js = find_plotly()

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    @app.get("/plotly.min.js", include_in_schema=False)
    async def plotly() -> FileResponse:
        return FileResponse(plotly_js, media_type="text/javascript; charset=utf-8")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_live_page(app: FastAPI, settings: Settings, look: Callable[[], dict[str, Any]]) -> None:
    """Serve the page of a stream at /live and what `look` gives at /api/live.

    The page shows raw values, for the household alone, so it exists only on a server that other
    computers cannot reach. Raise `InputError` if they can, and what `look` raises.
    """
    if not settings.is_local:
        raise InputError(
            "raw values of a stream are shown on this computer only: leave out --host and "
            "--behind-proxy, or --watch."
        )
    from fastapi.responses import FileResponse

    look()

    @app.get("/live", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "live.html", media_type="text/html; charset=utf-8")

    # A function without async runs in a thread, so that a slow disk delays no other request.
    @app.get("/api/live", include_in_schema=False)
    def data() -> dict[str, Any]:
        return look()


def _add_error_answers(app: FastAPI) -> None:
    """Answer every error with one sentence and a fitting status."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    from hushmeter.apps.page.security import refuse

    async def from_library(_: Request, error: Exception) -> Response:
        found = next(one for one in ANSWERS if isinstance(error, one[0]))
        return refuse(found[1], found[2] or str(error))

    async def malformed(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refuse(422, describe_malformed(error.errors()))

    async def from_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: NOT_FOUND, 405: WRONG_METHOD}
        answer = refuse(error.status_code, words.get(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    for kind in (HushmeterError, BusyError, TooSlowError):
        app.add_exception_handler(kind, from_library)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, from_http)
