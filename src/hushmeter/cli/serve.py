"""`hushmeter serve`: the local page and its JSON API."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.job_log import LogFormat, check_format
from hushmeter.cli.options import JSON, OPEN
from hushmeter.cli.output import print_json

PORT = 8642


def serve(
    host: Annotated[
        str,
        typer.Option(help="Address to bind. If other computers can reach it, a token is needed."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 chooses any free port.")] = PORT,
    open_page: Annotated[bool, OPEN] = False,
    max_upload: Annotated[int, typer.Option(help="Size of the largest file in MB.")] = 50,
    watch: Annotated[
        Path | None,
        typer.Option(help="State of a stream: its page is at /live, on this computer only."),
    ] = None,
    json: Annotated[bool, JSON] = False,
    log_format: LogFormat = "text",
) -> None:
    """Serve a page with a slider that shows what an ε protects. Ctrl+C stops the server.

    Readings stay in the memory of this process. Nothing is written to disk, logged or sent to
    other computers. Without --host, only this computer can connect.

    Example: hushmeter serve --open

    Example: hushmeter serve --watch live.db --open
    """
    from hushmeter.web.processes import start_loading

    check_format(log_format)
    start_loading()
    from hushmeter.checks import whole
    from hushmeter.web.app import address_of, bind, choose_settings, create_app, run_app
    from hushmeter.web.confinement import find_confinement

    if log_format == "json":
        from hushmeter.web.access_log import log_as_json

        log_as_json()
    settings = choose_settings(host, whole("max_upload", max_upload), watch)
    app = create_app(settings)
    listener = bind(host, port)
    url = address_of(host, listener.getsockname()[1], settings.token)
    if watch is not None:
        url += "live"

    def announce() -> None:
        if json:
            print_json({"url": url, "token": settings.token})
        else:
            typer.echo(f"The page: {url}")
            if settings.token is not None:
                typer.echo("Everybody who has this address can use the page.")
                typer.echo("The connection is not encrypted.")
            typer.echo(find_confinement().sentence)
            typer.echo("Press Ctrl+C to stop the server. It keeps no readings.")
        if open_page:
            import webbrowser

            webbrowser.open(url)

    with listener, suppress(KeyboardInterrupt):
        run_app(app, listener, announce)
