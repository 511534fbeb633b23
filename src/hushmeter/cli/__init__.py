"""The command line: it parses options, calls the library and prints the results.

Heavy imports wait inside the commands, so that `hushmeter --help` answers fast.
"""

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
    fleet_sums,
    home,
    inspect,
    learn,
    ledger,
    live,
    price,
    release,
    replay,
    report,
    reproduce,
    restore,
    serve,
    sweep,
    synth_fleet,
    verify,
)
from hushmeter.cli.job_log import exit_code_of
from hushmeter.errors import HushmeterError

GUIDE = """\
hushmeter releases smart-meter readings under differential privacy and measures
what an attacker can still detect in them.

  see an example      hushmeter demo -o demo-report
  use a browser       hushmeter serve --open

Your own meter
  what a file shows   hushmeter inspect FILE
  what hiding costs   hushmeter advise FILE --hide kettle
  share a file        hushmeter release FILE --hide kettle -o OUT.csv
  check a release     hushmeter verify OUT.csv
  use a release       hushmeter restore OUT.csv -o restored.csv
  share a stream      hushmeter live --help
  appliances by name  hushmeter catalogue
  learn a home        hushmeter learn FILE -o home.toml       (with sub-meters)
  use a battery       hushmeter battery --help

Many homes
  release a fleet     hushmeter fleet --help
  its budget          hushmeter ledger --help
  daily profiles      hushmeter cluster DAYS.parquet -o clusters

Data for money
  what ε is worth     hushmeter price --home evening --trace FILE

Research
  list attackers      hushmeter attackers
  run one attack      hushmeter attack FILE --home evening -a co -o OUT.csv
  without sub-meters  hushmeter learn-population DATA… -o population.npz
  run a study         hushmeter sweep STUDY.toml -o results
  redo the paper      hushmeter reproduce fig2 -o figures
  write a report      hushmeter report results figures -o report.html

“evening” is a synthetic home to begin with; your own is a short file home.toml.
All commands: hushmeter --help. One command: hushmeter COMMAND --help.
Nothing leaves this machine, and nothing is overwritten without --force."""

app = typer.Typer(
    name="hushmeter",
    help=(
        "Release smart-meter readings under differential privacy "
        "and measure what an attacker can still detect in them."
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
        "catalogue": home.catalogue,
        "home": home.home,
        "learn": learn.learn,
        "advise": advise.advise,
        "release": release.release,
        "live": live.live,
        "replay": replay.replay,
        "restore": restore.restore,
        "verify": verify.verify,
        "battery": battery.battery,
    },
    "Many homes": {
        "fleet": fleet.fleet,
        "fleet-sums": fleet_sums.fleet_sums,
        "fleet-stats": fleet_stats.fleet_stats,
        "synth-fleet": synth_fleet.synth_fleet,
        "cluster": cluster.cluster,
    },
    "Data for money": {"price": price.price},
    "Research": {
        "attackers": attack.list_attackers,
        "attack": attack.attack,
        "learn-population": learn.learn_population,
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
    # A docstring breaks its lines for the source; help breaks them for the terminal.
    _paragraphs = (getattr(_info.callback, "__doc__", None) or "").split("\n\n")
    _info.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _paragraphs)


def _show_version(wanted: bool) -> None:
    """Print the version and end, if it was asked for."""
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
    if context.invoked_subcommand is None:
        typer.echo(GUIDE)


def main() -> None:
    """Run a command.

    Every error is printed as one sentence. The exit code is 1 if the data or the budget do not
    allow what was asked, and 2 if the usage is wrong.
    """
    try:
        sys.exit(app(prog_name="hushmeter", standalone_mode=False))
    except HushmeterError as error:
        _fail(str(error), exit_code_of(error))
    except Exception as error:
        if hasattr(error, "format_message"):
            _fail_usage(error)
        if os.environ.get("HUSHMETER_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is not None:
            _fail(f"{error.filename} cannot be used: {error.strerror}.", 1)
        _fail(
            f"unexpected {type(error).__name__}: {error} "
            "(this is a fault of hushmeter; set HUSHMETER_DEBUG=1 to see where).",
            1,
        )


def _fail_usage(error: Any) -> NoReturn:
    """Print a usage error of Typer as one sentence; its text is empty if it has printed help."""
    text = error.format_message().rstrip(".").replace(". Did you", "; did you")
    if not text:
        sys.exit(error.exit_code)
    command = "hushmeter" if error.ctx is None else error.ctx.command_path
    _fail(f"{text[0].lower()}{text[1:]} (see {command} --help).", error.exit_code)


def _fail(message: str, code: int) -> NoReturn:
    """Print the message on standard error and end with the exit code."""
    typer.echo(f"hushmeter: {message}", err=True)
    sys.exit(code)
