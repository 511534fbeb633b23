"""`hushmeter serve`: the page in the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    JSON,
    OPEN,
    LogFormat,
    check_format,
)
from hushmeter.cli.output import print_json
from hushmeter.errors import MissingExtraError

if TYPE_CHECKING:
    pass


PORT = 8642


def serve(
    host: Annotated[
        str,
        typer.Option(help="Address to bind; another than this computer's needs --behind-proxy."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 chooses any free port.")] = PORT,
    open_page: Annotated[bool, OPEN] = False,
    max_upload: Annotated[int, typer.Option(help="Size of the largest file in MB.")] = 50,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            help="Name under which a proxy with TLS in front serves the page to others.",
            metavar="NAME",
        ),
    ] = None,
    watch: Annotated[
        Path | None,
        typer.Option(help="State of a stream: its page is at /live, on this computer only."),
    ] = None,
    json: Annotated[bool, JSON] = False,
    log_format: LogFormat = "text",
) -> None:
    """Serve the page that shows what readings reveal and what hiding it costs, until Ctrl+C.

    Readings stay in the memory of this process. Nothing is written to disk, logged or sent to
    other computers. Only this computer can connect, or a proxy with TLS (--behind-proxy). The
    printed address contains a token; without it nobody, not even another user of this computer,
    gets any data.

    Example: hushmeter serve --open

    Example: hushmeter serve --watch live.db --open
    """
    check_format(log_format)
    try:
        from hushmeter.apps.page.workers import find_confinement, start_loading
    except ImportError:
        raise MissingExtraError("the page", "page") from None
    start_loading()
    from hushmeter.apps.page.app import address_of, bind, choose_settings, create_app, run_app
    from hushmeter.checks import whole

    if log_format == "json":
        from hushmeter.apps.page.security import log_as_json

        log_as_json()
    settings = choose_settings(host, whole("max_upload", max_upload), behind_proxy)
    app = create_app(settings, stream=None if watch is None else _look_at(watch))
    listener = bind(host, port)
    path = "" if watch is None else "live"
    bound = listener.getsockname()[1]
    url = address_of(host, bound, settings.token, path, behind_proxy)

    @contextmanager
    def announced() -> Iterator[None]:
        if json:
            print_json({"url": url, "token": settings.token})
        else:
            typer.echo(f"The page: {url}")
            typer.echo("Everybody who has this address can use the page: keep it to yourself.")
            if behind_proxy is not None:
                typer.echo(f"The proxy must pass requests on to {host} port {bound}.")
            typer.echo(find_confinement().sentence)
            typer.echo("Press Ctrl+C to stop the server. It keeps no readings.")
        with _opened(url) if open_page else nullcontext():
            yield

    with listener, suppress(KeyboardInterrupt):
        run_app(app, listener, announced())


def _look_at(state: Path) -> Callable[[], dict[str, Any]]:
    """Return what looks at a stream; a server without one does not load the packages of streams."""
    from functools import partial

    from hushmeter.apps.live.stream import show_stream

    return partial(show_stream, state)


@contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open an address with a token in a browser, through a file that only its owner can read.

    All users of a computer can read the command line of a browser, so it names the file alone.
    """
    import html
    import webbrowser
    from tempfile import TemporaryDirectory

    from hushmeter.files import write_text

    address = html.escape(url)
    text = (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={address}"><title>hushmeter</title>'
        f'<p><a href="{address}">Open the page</a></p>\n'
    )
    with TemporaryDirectory(prefix="hushmeter-") as folder:
        page = Path(folder) / "open.html"
        write_text(page, text)
        webbrowser.open(page.as_uri())
        yield
