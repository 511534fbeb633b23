"""The command line. Heavy imports wait inside the commands, so that help answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from hushmeter.cli import (
    advise,
    attack,
    audit,
    battery,
    bounds,
    cluster,
    data,
    demo,
    fleet,
    fleet_stats,
    inspect,
    learn,
    ledger,
    price,
    release,
    report,
    reproduce,
    serve,
    sweep,
    synth_fleet,
)
from hushmeter.cli.guide import show_guide
from hushmeter.errors import HushmeterError, InputError, MissingExtraError

app = typer.Typer(
    name="hushmeter",
    help=(
        "Release smart-meter readings under differential privacy "
        "and see what an attacker still sees."
    ),
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, dict[str, Callable[..., Any]]] = {
    "To begin with": {"demo": demo.demo, "serve": serve.serve},
    "Your own meter": {
        "inspect": inspect.inspect,
        "learn": learn.learn,
        "advise": advise.advise,
        "release": release.release,
        "battery": battery.battery,
    },
    "Many homes": {
        "fleet": fleet.fleet,
        "fleet-stats": fleet_stats.fleet_stats,
        "synth-fleet": synth_fleet.synth_fleet,
        "cluster": cluster.cluster,
    },
    "Data for money": {"price": price.price},
    "Research": {
        "attackers": attack.list_attackers,
        "attack": attack.attack,
        "bounds": bounds.bounds,
        "sweep": sweep.sweep,
        "audit": audit.audit,
        "data": data.data,
        "reproduce": reproduce.reproduce,
        "report": report.report,
    },
}
for _panel, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(ledger.app, name="ledger", rich_help_panel="Many homes")
for _info in (*app.registered_commands, *ledger.app.registered_commands):
    # Lines of a docstring end where the source does; those of a terminal end at its edge.
    _told = (getattr(_info.callback, "__doc__", None) or "").split("\n\n")
    _info.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _told)


def _show_version(wanted: bool) -> None:
    if wanted:
        from hushmeter import __version__

        typer.echo(f"hushmeter {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Nothing leaves this machine; nothing is overwritten without --force."""
    show_guide(context)


def main() -> None:
    """Run a command; every error is one sentence and an exit code (1 data, 2 usage)."""
    try:
        sys.exit(app(prog_name="hushmeter", standalone_mode=False))
    except (InputError, MissingExtraError) as error:
        _fail(str(error), 2)
    except HushmeterError as error:
        _fail(str(error), 1)
    except Exception as error:
        if hasattr(error, "format_message"):
            _fail_usage(error)
        if os.environ.get("HUSHMETER_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is not None:
            _fail(f"{error.filename} cannot be used: {error.strerror}.", 1)
        _fail(
            f"unexpected {type(error).__name__}: {error} "
            "(this is a fault of hushmeter; HUSHMETER_DEBUG=1 shows where).",
            1,
        )


def _fail_usage(error: Any) -> NoReturn:
    """Typer's own complaint in our voice; it has none where it has already shown the help."""
    words = error.format_message().rstrip(".").replace(". Did you", "; did you")
    if not words:
        sys.exit(error.exit_code)
    command = "hushmeter" if error.ctx is None else error.ctx.command_path
    _fail(f"{words[0].lower()}{words[1:]} (see {command} --help).", error.exit_code)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"hushmeter: {message}", err=True)
    sys.exit(code)
