"""The command line: it parses options, calls the library and prints the results.

The module of a command is imported when the command is used, and its heavy imports wait inside the
functions, so that every command and `hushmeter --help` answer fast.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from hushmeter.errors import HushmeterError, MissingExtraError, printable
from hushmeter.parts import listed

GUIDE = """\
hushmeter releases smart-meter readings under differential privacy and measures
what an attacker can still detect in them.

  see an example      hushmeter demo -o demo-report
  use a browser       hushmeter serve --open

Your meter
  what a file shows   hushmeter inspect FILE
  what hiding costs   hushmeter advise FILE --hide kettle
  share a file        hushmeter release FILE --hide kettle -o OUT.csv
  check a release     hushmeter verify OUT.csv
  use a release       hushmeter restore OUT.csv -o restored.csv
  appliances by name  hushmeter catalogue
  list your own       hushmeter catalogue --have kettle,oven -o home.toml
  learn a home        hushmeter learn FILE -o home.toml       (with sub-meters)
  use a battery       hushmeter battery --help
  what ε is worth     hushmeter price --home evening --trace FILE

A fleet
  release a fleet     hushmeter fleet --help
  its budget          hushmeter ledger --help
  daily profiles      hushmeter cluster DAYS.parquet -o clusters

Live and web
  share a stream      hushmeter live --help
  try it with a file  hushmeter replay --help

Research
  list attackers      hushmeter attack --list
  run one attack      hushmeter attack FILE --home evening -a co -o OUT.csv
  run a study         hushmeter sweep STUDY.toml -o results
  redo the paper      hushmeter reproduce fig2 -o figures
  write a report      hushmeter report results figures -o report.html

“evening” is a synthetic home to begin with; your own is a short file home.toml.
All commands: hushmeter --help. One command: hushmeter COMMAND --help.
Nothing leaves this machine, and nothing is overwritten without --force."""

CORE = {
    "Your meter": {
        "inspect": "inspect", "advise": "advise", "release": "release", "verify": "verify",
        "restore": "restore", "catalogue": "catalogue", "learn": "learn",
    },
    "Attacks and theory": {"attack": "attack", "bounds": "bounds", "audit": "audit"},
    # The help of another command names it: `attack --list`.
    None: {"attackers": "attack"},
}  # fmt: skip
"""The commands of the core by panel of the help, and their modules; without a panel: hidden."""

PANELS = {
    title: {name: f"hushmeter.cli.{module}" for name, module in names.items()}
    for title, names in CORE.items()
}
for _title, _names in listed("COMMANDS").items():
    PANELS.setdefault(_title, {}).update(
        {name: f"hushmeter.apps.{app}.commands" for name, app in _names.items()}
    )

ALL_OPTIONS = "hushmeter.all_options"
"""Key of the context that says that `--help-all` was given."""

FUNCTIONS = {"attackers": "list_attackers", "ledger": "app"}
"""Functions, and groups, of the commands that have another name in their module."""

MODULES = {name: module for names in PANELS.values() for name, module in names.items()}


class Commands(Mapping[str, Any]):
    """The commands by their names; the module of a command is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _load_command(name, MODULES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class Command(TyperCommand):
    """A command whose `--help` shows the most used options, and `--help-all` all of them.

    An option in a help panel with a title of its own is rare, unless it is required.
    """

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.rare: list[Any] = []
        self._help_all: Any = None
        for option in self.params:
            if option.required:
                option.rich_help_panel = None  # type: ignore[attr-defined]
            elif getattr(option, "rich_help_panel", None) is not None:
                self.rare.append(option)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option of which only the last value would count, and a name that is no text."""
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in self.params:
            single = not (getattr(option, "is_flag", True) or option.multiple)
            if single and given.count(option) > 1:
                ctx.fail(f"{option.opts[-1]} is given twice, and only one value counts; give one")
        left = super().parse_args(ctx, args)
        try:
            str(ctx.params.get("output")).encode()
        except UnicodeEncodeError:
            ctx.fail("the name of the output is not UTF-8; choose another name")
        return left

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the command, `--help`, and `--help-all` if there are rare options."""
        options = super().get_params(ctx)
        if not self.rare:
            return options
        if self._help_all is None:
            everything: Any = copy(options[-1])
            everything.name, everything.opts = "help_all", ["--help-all"]
            everything.help = f"Show also what is seldom needed ({len(self.rare)})."
            everything.callback = self._show_all
            self._help_all = everything
        return [*options, self._help_all]

    def _show_all(self, context: typer.Context, _: Any, wanted: bool) -> None:
        """Print the help of all options and end, if it was asked for."""
        if wanted:
            context.meta[ALL_OPTIONS] = True
            typer.echo(context.get_help(), color=context.color)
            context.exit()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, without the rare options unless all were asked for."""
        hidden = not ctx.meta.get(ALL_OPTIONS, False)
        for option in self.rare:
            option.hidden = hidden
        try:
            super().format_help(ctx, formatter)
        finally:
            for option in self.rare:
                option.hidden = False  # the shell completes all options


@cache
def _load_command(name: str, module: str) -> Any:
    """Import the module of a command and make the command."""
    panel = next(title for title, names in PANELS.items() if name in names)
    made = typer.Typer(rich_markup_mode="rich", callback=lambda: None)
    function = FUNCTIONS.get(name, name.replace("-", "_"))
    found = getattr(import_module(module), function)
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name, rich_help_panel=panel)
        commands = found.registered_commands
    else:
        made.command(name, rich_help_panel=panel, hidden=panel is None)(found)
        commands = made.registered_commands
    for info in commands:
        info.cls = Command
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
    # NumPy warns about numbers that are refused a moment later.
    warnings.simplefilter("ignore", RuntimeWarning)
    try:
        try:
            sys.exit(app(prog_name="hushmeter", standalone_mode=False))
        except ModuleNotFoundError as error:
            place = MODULES.get(sys.argv[1], "")
            if ".apps." not in place or (error.name or "").startswith("hushmeter"):
                raise
            raise MissingExtraError("this command", place.split(".")[2]) from None
    except HushmeterError as error:
        from hushmeter.cli.output import exit_code_of, with_flags

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
    typer.echo(f"hushmeter: {printable(message)}", err=True)
    sys.exit(code)
