"""The command line: it parses options, calls the library and prints the results.

The module of a command is imported when the command is used, and its heavy imports wait inside the
functions, so that every command and `hushmeter --help` answer fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

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

PANELS = {
    "To begin with": ("demo", "serve"),
    "Your own meter": (
        "inspect", "catalogue", "home", "learn", "advise", "release", "live", "replay", "restore",
        "verify", "battery",
    ),
    "Many homes": ("fleet", "fleet-sums", "fleet-stats", "synth-fleet", "cluster", "ledger"),
    "Data for money": ("price",),
    "Research": (
        "attackers", "attack", "learn-population", "bounds", "sweep", "audit", "data", "reproduce",
        "report",
    ),
}  # fmt: skip
"""The commands of each panel of the help."""

PLACES = {
    "attackers": ("attack", "list_attackers"),
    "catalogue": ("home", "catalogue"),
    "fleet-stats": ("fleet", "fleet_stats"),
    "fleet-sums": ("fleet", "fleet_sums"),
    "learn-population": ("learn", "learn_population"),
    "replay": ("live", "replay"),
    "synth-fleet": ("fleet", "synth_fleet"),
}
"""Module and function of the commands whose module has another name."""


class Commands(Mapping[str, Any]):
    """The commands by their names; the module of a command is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        panel = next((panel for panel, names in PANELS.items() if name in names), None)
        if panel is None:
            raise KeyError(name)
        return _load_command(name, panel)

    def __iter__(self) -> Iterator[str]:
        return (name for names in PANELS.values() for name in names)

    def __len__(self) -> int:
        return sum(map(len, PANELS.values()))


@cache
def _load_command(name: str, panel: str) -> Any:
    """Import the module of a command and make the command."""
    place, function = PLACES.get(name, (name.replace("-", "_"),) * 2)
    module = import_module(f"hushmeter.cli.{place}")
    made = typer.Typer(rich_markup_mode="rich", callback=lambda: None)
    if hasattr(module, "app"):
        made.add_typer(module.app, name=name, rich_help_panel=panel)
    else:
        made.command(name, rich_help_panel=panel)(getattr(module, function))
    for info in getattr(module, "app", made).registered_commands:
        # A docstring breaks its lines for the source; help breaks them for the terminal.
        paragraphs = (getattr(info.callback, "__doc__", None) or "").split("\n\n")
        info.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return typer.main.get_group(made).commands[name]


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()  # type: ignore[assignment]


app = typer.Typer(
    cls=LazyGroup,
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
        from hushmeter.cli.job_log import exit_code_of
        from hushmeter.cli.output import with_flags

        _fail(with_flags(str(error)), exit_code_of(error))
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
