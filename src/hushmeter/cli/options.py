"""Options that several commands share, and the functions that parse their text.

One option has one name, one help text and one parser in every command. Heavy imports wait inside
the functions, so that `hushmeter --help` answers fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from hushmeter.cli.output import flag_of
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.parts import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hushmeter.attack.base import Attacker
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request

# `--help` leaves out the options of a panel, `--help-all` shows them.
RARE = "Seldom needed"
rare_option = partial(typer.Option, rich_help_panel=RARE)
noise_option = partial(typer.Option, rich_help_panel="The noise in detail")
file_option = partial(typer.Option, rich_help_panel="What the file does not say")
job_option = partial(typer.Option, rich_help_panel="How the job runs")


def as_rare(option: Any) -> Any:
    """Return an option that several commands share as one that a command seldom needs."""
    made = copy(option)
    made.rich_help_panel = RARE
    return made


FILE = typer.Argument(metavar="FILE", help="A file of readings in any known format.")
HOME = typer.Option(
    "--home", help="A home as TOML file, or a ready one: evening, redd-like, rae13, similar8."
)
HAVE = typer.Option(
    "--have", help='Appliances instead of --home: kettle,oven,"car charger 7.4 kW".'
)
HIDE = typer.Option(
    "--hide",
    help='What nobody should be able to tell: "when we get up", evenings, "which days we are '
    'away", "that we are away", kettle,oven or "kettle 2100 W 180 s".',
)
ODDS = typer.Option(
    "--odds",
    "--max-odds",
    help="How often the best attacker may be right: 60 out of 100, or 0.6; a coin is 50.",
)
PURPOSE = typer.Option(
    "--for", help="What the data is for: hour, day, month, profile (typical day) or register."
)
EPSILON = typer.Option("-e", "--epsilon", help="ε of the unit of protection.")
EPSILONS = typer.Option("-e", "--epsilon", help="ε as a range LO:HI, or values with commas.")
MECHANISM = noise_option("--mechanism", help="laplace, staircase or gaussian.")
APPLIANCE = noise_option("--appliance", help="Protect only this appliance.")
SPAN = typer.Option(
    "--span",
    help="What ε protects: one reading, run or day; or when (not whether) a run happened.",
)
USE = noise_option("--use", help="Longest use a day of an appliance, such as 30min; for day, when.")
PROTECT = noise_option(
    "--protect", help="appliance (default), fluctuation (the paper), range or change."
)
VIEWS = typer.Option("--views", help="Release hours, days, typical day and months together.")
TABLE = typer.Option(
    "--table",
    help="Also publish this table: days, months, typical-day, typical-week, year, or a band such "
    'as "peak = weekdays 16:00-21:00"; can be repeated.',
)
HOURLY_COST = noise_option(
    "--hourly-cost", help="With --views or --table: error of an hour, against hours alone."
)
SENSITIVITY = noise_option(
    "--sensitivity", help="Protect any change of this number of watts; needs no home."
)
EVERY = typer.Option("--every", help="Release means over 1min, 30min or 1h, not every reading.")
CLAMP = noise_option("--clamp", help="Smallest and largest reading, LO,HI in watts.")
GRID = noise_option("--grid", help="Step of the released readings in watts.")
DELTA = noise_option("--delta", help="δ of Gaussian noise.")
MAX_EPSILON = noise_option("--max-epsilon", help="Refuse a larger ε.")
ACCEPT_LEARNT = noise_option(
    "--accept-learnt", help="Accept numbers of the home that were learnt from these readings."
)

# Options of the commands that release a fleet.
SOURCE = typer.Argument(help="Folder with files, or its URL (s3://…).", metavar="IN_DIR")
LEDGER = typer.Option("--ledger", help="sqlite:///file.db or postgresql://…")
STREAM = job_option("--stream", help="Name of the series of the meters.")
INTERVAL = file_option(
    "--interval", "--every", help="Length of a reading; by default that of the first file."
)
COLUMNS = file_option(
    "--columns", help="Other column names: meter=…,time=…,value=…,unit=…,interval=…"
)
FILE_UNIT = file_option("--unit", help="Unit of files without a unit: W, kW, Wh or kWh.")
FILE_TZ = file_option("--tz", help="Zone of times without a zone, such as Europe/Berlin.")
FILE_DECIMAL = file_option("--decimal", help="Decimal mark of text: point (default) or comma.")
SPARK = job_option(
    "--spark",
    help="Use this Spark cluster: spark://host:7077, or submit under spark-submit.",
    metavar="MASTER_URL",
)
DRY_RUN = typer.Option("--dry-run", help="Check all files, but spend and write nothing.")
RESUME = typer.Option("--resume", help="Continue an interrupted release.")
NEW_FOLDER = typer.Option("-o", "--output", help="A new or empty folder.")
FORMATS = ("text", "json")
LogFormat = Annotated[
    str, job_option(help="Log on standard error: text, or json with one object per line.")
]
MetricsFile = Annotated[
    Path | None,
    job_option(help="Write counts and times of this job for Prometheus.", metavar="FILE.prom"),
]


def register_own_attacker(text: str | None) -> str | None:
    """Register an attacker given as module:Class, and return its name; other text is returned.

    Names are checked later by the command, so that this import does not slow down `--help`.
    """
    if text is None or ":" not in text:
        return text
    from hushmeter.attack.registry import attackers

    return attackers.register(attackers.resolve(text, Path.cwd())).name


ATTACKER = typer.Option(
    "-a",
    "--attacker",
    help="An attacker of `hushmeter attack --list`, or module:Class.",
    callback=register_own_attacker,
)
PARAMETER = typer.Option(
    "-p", "--parameter", help="Parameter of the attacker, name=value; can be repeated."
)
ENERGY_PRICE = typer.Option("--energy-price", help="Price of one kWh.")
JOBS = typer.Option("-j", "--jobs", help="Number of worker processes.")
OPEN = typer.Option("--open", help="Open the page in a browser.")
FIGURE = typer.Option("-o", "--output", help="Folder or .png file for the figure.")
FORCE = typer.Option("--force", help="Overwrite existing files.")
JSON = typer.Option("--json", help="Print JSON.")

RANGE_VALUES = 200


READER_OPTIONS: dict[str, Any] = {
    name: file_option(flag_of(name), help=text)
    for name, text in {
        "time_column": "Column of the times.",
        "value_column": "Column (or entity) of the meter.",
        "unit": "Unit of the values: W, kW, Wh, kWh …",
        "stamp": "Whether a time is the start or the end of its reading.",
        "tz": "Time zone of times without one, such as Europe/London.",
        "building": "Which home, if the file holds several.",
        "meter": "Which meter, if the file holds several.",
        "register": "Which register or direction, if several.",
        "counter": "Whether the values only count up: yes or no.",
        "step": "Step to which the meter rounds, in the unit of its values.",
        "reading_length": "Length of a reading of a change history: 1min.",
        "changes": "Whether a row is there only where the value changed: yes or no.",
        "start": "Read only from this date or time on, such as 2024-01-01.",
        "end": "Read only up to, and not including, this date or time.",
        "sheet": "Which sheet of a workbook, or list of a JSON file, if several.",
        "member": "Which file, if an archive has several.",
        "decimal": "Decimal mark of the numbers: point or comma.",
    }.items()
}
"""Options of the reader of meter files, by the fields of `ReadOptions`."""


def takes_reader_options(
    *names: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options of the reader of meter files.

    The command receives them in one argument, `options`, of type `ReadOptions`.
    """
    chosen = names or tuple(READER_OPTIONS)
    kinds = {name: Annotated[str | None, READER_OPTIONS[name]] for name in chosen}

    def build(values: dict[str, Any]) -> object:
        from hushmeter.read import ReadOptions

        return ReadOptions(**values)

    return _replace_parameter("options", kinds, build, last=True)


def takes_fields(
    name: str, kind: type[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options that the fields of a dataclass are annotated with.

    The command receives an instance of the dataclass in the argument with this name.
    """
    defaults = {
        field.name: Parameter.empty if field.default is MISSING else field.default
        for field in fields(kind)
    }
    kinds = get_type_hints(kind, include_extras=True)
    return _replace_parameter(name, kinds, lambda values: kind(**values), defaults=defaults)


def repeat_options(options: ReadOptions, names: Iterable[str] = tuple(READER_OPTIONS)) -> str:
    """Return the reader options that were given, as text for the next command."""
    given = [(name, getattr(options, name)) for name in names]
    return "".join(f" {flag_of(name)} {quote(str(value))}" for name, value in given if value)


def repeat_given(context: typer.Context, *names: str) -> str:
    """Return the options among these parameters that the user has typed, as text."""
    text = ""
    for option in sorted(
        (one for one in context.command.params if one.name in names),
        key=lambda one: names.index(one.name or ""),
    ):
        source = context.get_parameter_source(option.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[option.name or ""]
        flag = next(name for name in option.opts if name.startswith("--"))
        for one in value if isinstance(value, list | tuple) else (value,):
            word = f"{one:g}" if isinstance(one, float) else quote(str(one))
            text += f" {flag}" if one is True else f" {flag} {word}"
    return text


HOME_OPTIONS: dict[str, Any] = {
    "home": Annotated[str | None, HOME],
    "have": Annotated[list[str] | None, HAVE],
}


def takes_home(*, required: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with --home and --have.

    The command receives the home in one argument, `home`, of type `Home`, or None if neither
    option is given and no home is required.
    """

    def build(values: dict[str, Any]) -> object:
        known = choose_home(**values)
        if known is None and required:
            raise InputError(NO_HOME)
        return known

    return _replace_parameter("home", HOME_OPTIONS, build)


REQUEST_OPTIONS: dict[str, Any] = {
    "hide": Annotated[str | None, HIDE],
    "odds": Annotated[float | None, ODDS],
    "purpose": Annotated[str | None, PURPOSE],
    "epsilon": Annotated[str | None, EPSILON],
    "mechanism": Annotated[str | None, MECHANISM],
    "protect": Annotated[str | None, PROTECT],
    "appliance": Annotated[str | None, APPLIANCE],
    "span": Annotated[str | None, SPAN],
    "use": Annotated[str | None, USE],
    "every": Annotated[str | None, EVERY],
    "views": Annotated[bool | None, VIEWS],
    "table": Annotated[list[str] | None, TABLE],
    "hourly_cost": Annotated[float | None, HOURLY_COST],
    "sensitivity": Annotated[str | None, SENSITIVITY],
    "clamp": Annotated[str | None, CLAMP],
    "grid": Annotated[str | None, GRID],
    "delta": Annotated[str | None, DELTA],
    "max_epsilon": Annotated[float | None, MAX_EPSILON],
    "accept_learnt": Annotated[bool | None, ACCEPT_LEARNT],
}
"""Options of a request, by their parameters, in the order of the help."""

FLAGS = {
    "purpose": "--for",
    "watts": "--sensitivity",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in REQUEST_OPTIONS
        if name not in ("purpose", "views", "table")
    },
}
"""The option of every field of a request that has one."""

_FIELD = "|".join(FLAGS)
_NAMED = re.compile(
    r"(?:^|(?<=leave out )|(?<=raise )|(?<=at most )|(?<=odds and )|(?<=need )|(?<=but ))"
    rf"(?:{_FIELD})(?= (?:must|finds|is|and|needs?|if|=)(?: |$)|[.,])"
)
"""A word of a sentence that stands for a field, not for the thing that the field is about."""


def takes_request(
    *names: str, unless: str = "", homes: bool = True, rare: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options of a release and, if `homes`, with --home and --have.

    The command receives them in one argument, `request`, of type `Request`. `names` are keys of
    `REQUEST_OPTIONS`, all of them if none is given, and `defaults` are fields for options that are
    not used. `rare` are further options that only --help-all shows. If neither --hide nor -e is
    among the options, the request is about the appliances of the home or of the catalogue. A
    sentence about a field of the request names its option. With the option `unless` of the command
    there is no request.
    """
    chosen = names or tuple(REQUEST_OPTIONS)
    kinds = {
        **(HOME_OPTIONS if homes else {}),
        **{name: REQUEST_OPTIONS[name] for name in REQUEST_OPTIONS if name in chosen},
    }
    for name in rare:
        kind, option = get_args(kinds[name])
        kinds[name] = Annotated[kind, as_rare(option)]

    def build(values: dict[str, Any]) -> object:
        return make_request(values, defaults)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        made = _replace_parameter("request", kinds, build)(command)

        @wraps(made)
        def run(**values: Any) -> None:
            if values.get(unless):
                command(**{n: v for n, v in values.items() if n not in kinds}, request=None)
                return
            try:
                made(**values)
            except InputError as error:
                error.args = (name_options(str(error)),)
                raise

        return run

    return decorate


def make_request(values: dict[str, Any], defaults: dict[str, Any] | None = None) -> Request:
    """Make the request that options mean; None stands for an option that is not used."""
    from hushmeter.appliance import Appliance, catalogue
    from hushmeter.noise.mechanism import parse_clamp
    from hushmeter.releases.request import Request

    given = {name: value for name, value in values.items() if value is not None and value != []}
    home = choose_home(given.pop("home", None), given.pop("have", None))
    views, tables = given.pop("views", False), given.pop("table", [])
    if views or tables:
        given["tables"] = ("views" if views else "cells", *tables)
    if "sensitivity" in given:
        given["watts"] = parse_watts("sensitivity", given.pop("sensitivity"))
    if "clamp" in given:
        given["clamp"] = parse_clamp(given["clamp"])
    fields = {**(defaults or {}), **given}
    if not {"hide", "epsilon"} & {*values, *fields}:
        everything = (Appliance.from_words(name) for name in catalogue)
        fields["hide"] = everything if home is None else home.appliances
    elif "hide" not in values and "epsilon" not in fields:
        raise InputError("give the ε of the unit of protection with -e.")
    return Request(home=home, **fields)


def name_options(message: str) -> str:
    """Name the options in a sentence that names fields of a request."""
    for python, words in (
        ("accept_learnt=True (--accept-learnt)", "--accept-learnt"),
        ("an epsilon of your own", "an ε of your own with -e"),
        ("tables=['views']", "--views"),
        ("needs a home, for its tolerance.", NEEDS_APPLIANCES),
        ("needs a home.", NEEDS_APPLIANCES),
    ):
        message = message.replace(python, words)
    message = re.sub(rf"\b({_FIELD})='([^']*)'", lambda m: f"{FLAGS[m[1]]} {m[2]}", message)
    return _NAMED.sub(lambda m: FLAGS[m[0]], message)


def _replace_parameter(
    replaced: str,
    kinds: dict[str, Any],
    build: Callable[[dict[str, Any]], object],
    *,
    last: bool = False,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command so that several options stand in the place of one of its parameters.

    `kinds` has the annotation of every option, and `build` makes the parameter from their values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in kinds}
            command(**values, **{replaced: build(given)})

        # Typer reads the signature of the wrapper, so the wrapper gets the parameters of the
        # command with the options in the place of the replaced one.
        hints = get_type_hints(
            command,
            localns={"ReadOptions": object, "Home": object, "Request": object},
            include_extras=True,
        )
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
            for name, kind in kinds.items()
        ]
        own: list[Parameter] = []
        for name, parameter in signature(command).parameters.items():
            if name == replaced:
                own += [] if last else added
            else:
                own.append(parameter.replace(annotation=hints[name]))
        parameters = own + (added if last else [])
        # The home comes first in every help.
        parameters.sort(key=lambda parameter: (parameter.kind, parameter.name not in HOME_OPTIONS))
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


NEEDS_APPLIANCES = (
    "needs to know your appliances: list them with --have kettle,oven, give --home, or protect any "
    "change of a given number of watts with --sensitivity."
)
NO_HOME = (
    "a home is needed: list your appliances with --have kettle,oven, or give --home with a file or "
    "a ready home such as evening."
)


def choose_home(home: str | None, have: list[str] | None) -> Home | None:
    """Return the home of --home or --have, or None if neither is given; both are refused."""
    from hushmeter.home import Home

    if home is not None and have:
        raise InputError("give either --home or --have, not both.")
    if have:
        return Home.from_words(have)
    return None if home is None else parse_home(home)


def parse_home(text: str) -> Home:
    """Read a home from a TOML file, or make a ready one by its name."""
    from hushmeter.home import read_home
    from hushmeter.synth import READY_HOMES, ready_home

    if text in READY_HOMES:
        return ready_home(text)
    if not Path(text).exists():
        ready = ", ".join(sorted(READY_HOMES))
        raise DataError(f"{text} is neither a file nor a ready home ({ready}).")
    return read_home(text)


def check_seed(seed: int | None) -> None:
    """Refuse a negative seed before anything is computed."""
    from hushmeter.checks import whole

    if seed is not None:
        whole("seed", seed, least=0)


def parse_interval(text: str) -> int:
    """Parse the length of a reading [s]: 15min, or a number of seconds without a unit."""
    from hushmeter.checks import seconds

    length = seconds("interval", float(text) if text.isdecimal() else text)
    if length != int(length):
        raise InputError(f"interval must be a whole number of seconds, got {text!r}.")
    return int(length)


def parse_length(name: str, text: str) -> float:
    """Parse a length of time, which may be zero [s]."""
    from hushmeter.checks import seconds

    return 0.0 if text.strip() in ("0", "0s") else seconds(name, text)


def check_format(log_format: str) -> None:
    """Raise `InputError` unless a log format is "text" or "json"."""
    if log_format not in FORMATS:
        raise InputError(f"log-format must be text or json, got {log_format!r}.")


def clamp_in_ledger(
    ledger: str | None, clamp: tuple[float, float] | None
) -> tuple[float, float] | None:
    """Return the clamp of a release: its own, or by default the one that its ledger declares."""
    if ledger is None:
        return clamp
    with load("ledger", "--ledger").open_ledger(ledger) as opened:
        bounds: tuple[float, float] | None = opened.protects.bounds_for(clamp)
    return bounds


def parse_watts(name: str, text: str) -> float:
    """Parse a number of watts."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number of watts, got {text!r}.") from None


def parse_numbers(name: str, text: str) -> list[float]:
    """Parse numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers with commas, got {text!r}.") from None


def parse_epsilon_range(text: str) -> NDArray[np.float64]:
    """Parse ε as LO:HI (200 values, evenly spaced in ln ε) or as numbers with commas."""
    import numpy as np

    from hushmeter.checks import positive_array

    try:
        values = [float(part) for part in text.replace(":", ",").split(",")]
    except ValueError:
        raise InputError(f"epsilon must be LO:HI or numbers with commas, got {text!r}.") from None
    checked = positive_array("epsilon", values)
    if ":" not in text:
        return checked
    if len(values) != 2 or values[0] >= values[1]:
        raise InputError(f"epsilon must be LO:HI with LO below HI, got {text!r}.")
    return np.geomspace(checked[0], checked[1], RANGE_VALUES)


def read_parameters(given: Sequence[str], chosen: type[Attacker]) -> dict[str, Any]:
    """Parameters given as name=value; a value is JSON, or text if it is not valid JSON."""
    import json

    from hushmeter.checks import once
    from hushmeter.noise import parse_mechanism

    known = list(signature(chosen).parameters)[1:]
    values: dict[str, Any] = {}
    for entry in given:
        if "=" not in entry:
            raise InputError(f"--parameter must have the form name=value, got {entry!r}.")
    pairs = [entry.partition("=")[::2] for entry in given]
    for name, text in once("--parameter", pairs).items():
        if name not in known:
            raise UnknownNameError(f"parameter of {chosen.name}", name, known)
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
        if name == "mechanism":
            values[name] = parse_mechanism(values[name])
    return values
