"""The command line. Heavy imports wait inside the commands, so that help answers at once."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

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
app.command("demo")(demo.demo)
app.command("inspect")(inspect.inspect)
app.command("learn")(learn.learn)
app.command("data")(data.data)
app.command("release")(release.release)
app.command("bounds")(bounds.bounds)
app.command("cluster")(cluster.cluster)
app.command("advise")(advise.advise)
app.command("battery")(battery.battery)
app.command("price")(price.price)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("serve")(serve.serve)
app.command("report")(report.report)
app.add_typer(ledger.app, name="ledger")
app.command("fleet")(fleet.fleet)
app.command("fleet-stats")(fleet_stats.fleet_stats)
app.command("synth-fleet")(synth_fleet.synth_fleet)
app.command("audit")(audit.audit)
app.command("attack")(attack.attack)
app.command("attackers")(attack.list_attackers)


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
        app()
    except (InputError, MissingExtraError) as error:
        _fail(str(error), 2)
    except HushmeterError as error:
        _fail(str(error), 1)
    except Exception as error:
        if os.environ.get("HUSHMETER_DEBUG"):
            raise
        _fail(
            f"unexpected {type(error).__name__}: {error} "
            "(this is a fault of hushmeter; HUSHMETER_DEBUG=1 shows where).",
            1,
        )


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"hushmeter: {message}", err=True)
    sys.exit(code)
