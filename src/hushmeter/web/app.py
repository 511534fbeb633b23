"""The app: the page, plotly.js from the installed package, and the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hushmeter import __version__
from hushmeter.errors import MissingExtraError
from hushmeter.web.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

STATIC = Path(__file__).with_name("static")
DESCRIPTION = (
    "Release smart-meter readings under differential privacy and see what an attacker still sees. "
    "Readings stay in the memory of this server. A request that is not a GET needs the header "
    '`X-Hushmeter: 1`; every error is `{"error": "one sentence"}`.'
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """A FastAPI app with its own memory.

    Parameters
    ----------
    settings : Settings, optional
        Limits, names of the host and the token.

    Raises
    ------
    MissingExtraError
        If the extra [web] is not installed.
    """
    try:
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
        from fastapi import FastAPI
    except ImportError:
        raise MissingExtraError("the web page", "web") from None
    from hushmeter.web.api import make_router
    from hushmeter.web.problems import add_handlers
    from hushmeter.web.security import Guard
    from hushmeter.web.server import Server

    chosen = settings or Settings()
    server = Server(chosen)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        forgetting = asyncio.create_task(server.forget_idle())
        yield
        forgetting.cancel()
        server.workshop.close()

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
    add_handlers(app)
    _add_page(app)
    app.add_middleware(Guard, settings=chosen)
    return app


def find_plotly() -> Path:
    """plotly.min.js of the installed plotly package."""
    try:
        import plotly
    except ImportError:
        raise MissingExtraError("the charts of the web page", "web") from None
    return Path(str(plotly.__file__)).with_name("package_data") / "plotly.min.js"


def _add_page(app: FastAPI) -> None:
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
