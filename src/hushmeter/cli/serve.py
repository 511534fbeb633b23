"""`hushmeter serve`: the local page and its JSON API."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import JSON, OPEN
from hushmeter.cli.output import print_json

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from hushmeter.web.server import Settings

PORT = 8642
EVERYWHERE = ("0.0.0.0", "::")


def serve(
    host: Annotated[
        str, typer.Option(help="Address to bind; beyond this computer, a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any free one.")] = PORT,
    open_page: Annotated[bool, OPEN] = False,
    max_upload: Annotated[int, typer.Option(help="Largest file in MB.")] = 50,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Serve the page on which a slider shows what an ε protects, until Ctrl+C.

    Readings stay in the memory of this process: nothing is written to disk, logged or sent on.
    Without --host only this computer can connect.

    Example: hushmeter serve --open
    """
    from hushmeter.checks import whole
    from hushmeter.web.app import create_app

    settings = choose_settings(host, whole("max_upload", max_upload))
    listener = bind(host, port)
    app = create_app(settings)
    url = address(host, listener.getsockname()[1], settings.token)

    def announce() -> None:
        if json:
            print_json({"url": url, "token": settings.token})
        else:
            typer.echo(f"The page: {url}")
            if settings.token is not None:
                typer.echo("Whoever has this address can use it. The way there is not encrypted.")
            typer.echo("Ctrl+C ends it and forgets everything.")
        if open_page:
            import webbrowser

            webbrowser.open(url)

    with listener, suppress(KeyboardInterrupt):
        _run(app, listener, announce)


def choose_settings(host: str, max_upload: int) -> Settings:
    """Limits and, for an address beyond this computer, a token."""
    import secrets

    from hushmeter.web.server import LOOPBACK, MEGABYTE, Settings

    upload = max_upload * MEGABYTE
    unpacked = max(upload, Settings.unpacked_bytes)
    if is_loopback(host):
        names = tuple(dict.fromkeys((host, *LOOPBACK)))
        return Settings(hosts=names, upload_bytes=upload, unpacked_bytes=unpacked)
    return Settings(
        # Bound everywhere, the server has many names; the token keeps strangers out then.
        hosts=() if host in EVERYWHERE else (host.lower(), *LOOPBACK),
        token=secrets.token_urlsafe(24),
        upload_bytes=upload,
        unpacked_bytes=unpacked,
    )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this computer only."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or one sentence why not."""
    from hushmeter.errors import DataError, InputError

    if not 0 <= port <= 65_535:
        raise InputError(f"port must lie between 0 and 65535, got {port}.")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{host} port {port} cannot be bound ({reason}): choose another --port, 0 for any."
        ) from None


def address(host: str, port: int, token: str | None) -> str:
    """What to type into a browser; the token stays in the fragment, which is never sent."""
    name = socket.gethostname() if host in EVERYWHERE else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + ("" if token is None else f"#token={token}")


def make_config(app: FastAPI) -> uvicorn.Config:
    """How the app is served: nothing is logged but faults, by their kind and place."""
    import uvicorn

    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        timeout_keep_alive=15,
    )


def _run(app: FastAPI, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve until a signal."""
    import uvicorn

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce()

    Announced(make_config(app)).run(sockets=[listener])
