"""The page of a stream: raw against protected values, for the household alone.

The page exists only on a server that shows a stream and that other computers cannot reach. Its
data need the token of the server, as every other user of this computer can reach the address. Raw
means are read from the state of the stream, which the server never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import InputError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from hushmeter.web.server import Settings

PAGE = Path(__file__).with_name("static") / "live.html"


def add_live_page(app: FastAPI, settings: Settings, look: Callable[[], dict[str, Any]]) -> None:
    """Serve the page of a stream at /live and what `look` gives at /api/live.

    Raise `InputError` if other computers can reach the server, and what `look` raises.
    """
    if not settings.is_local:
        raise InputError(
            "raw values of a stream are shown on this computer only: leave out --host, or --watch."
        )
    from fastapi.responses import FileResponse

    look()

    @app.get("/live", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE, media_type="text/html; charset=utf-8")

    # A function without async runs in a thread, so that a slow disk delays no other request.
    @app.get("/api/live", include_in_schema=False)
    def data() -> dict[str, Any]:
        return look()
