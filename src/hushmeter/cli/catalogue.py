"""`hushmeter catalogue`: the appliances and households that hushmeter knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    FORCE,
    HAVE,
    JSON,
)
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.appliance import ApplianceKind


HEADER = """\
# The appliances of a home. Edit the numbers that you know better, and delete what you do not have.
# power, high: usual and highest power while on [W]     run_s, run_high_s: usual and longest run [s]
# energy_wh: largest energy of one run [Wh]             use_s_per_day: longest use a day [s]
# tolerance: variation of a reading without a switch [W]
# Noise is calibrated on high, run_high_s, energy_wh and use_s_per_day.

"""


def catalogue(
    kind: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One appliance, with its sources.")
    ] = None,
    have: Annotated[list[str] | None, HAVE] = None,
    name: Annotated[str, typer.Option(help="Name of the home.")] = "home",
    tolerance: Annotated[
        float | None, typer.Option(help="Variation of a reading without a switch, in watts.")
    ] = None,
    base_load: Annotated[
        float, typer.Option(help="Power that is drawn all the time, in watts.")
    ] = 0.0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .toml file; without it, print.")
    ] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the typical appliances, print one of them, or write a home from their names.

    Each name can be used with --have and --hide. The high values calibrate the noise. With --have,
    the command writes a home as a TOML file to edit: the catalogue fills in what you do not state
    after a name, such as a power, the length of a run or its energy.

    Example: hushmeter catalogue kettle

    Example: hushmeter catalogue --have kettle,oven,"pump 300 W 2 h" -o home.toml
    """
    from hushmeter.appliance import catalogue as kinds

    if have:
        if kind is not None:
            raise InputError("give either the name of one appliance or --have, not both.")
        _write_home(have, (tolerance, base_load, name), output, force, json)
    elif output is not None:
        raise InputError("name the appliances of the home to write: --have kettle,oven.")
    elif kind is not None:
        if json:
            print_json(kinds[kind])
        else:
            _print_kind(kinds[kind])
    elif json:
        print_json(list(kinds.values()))
    else:
        _print_kinds(list(kinds.values()))


def _write_home(
    have: list[str],
    facts: tuple[float | None, float, str],
    output: Path | None,
    force: bool,
    json: bool,
) -> None:
    """Write or print a home of listed appliances; `facts` are its tolerance, base load and name."""
    from hushmeter.files import write_text
    from hushmeter.home import DEFAULT_TOLERANCE, Home

    if output is not None and output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    tolerance, base_load, name = facts
    listed = Home.from_words(have).appliances
    known = Home(listed, tolerance or DEFAULT_TOLERANCE, base_load, name)
    text = HEADER + known.to_toml()
    if output is not None:
        write_text(output, text, force=force)
    if json:
        print_json({**known.to_dict(), "files": [] if output is None else [str(output)]})
    elif output is None:
        typer.echo(text, nl=False)
    else:
        print_sentences(
            f"{len(known)} appliances; edit the numbers that you know better, then use it with "
            f"--home {output}."
        )
        print_files([output])


def _print_kinds(kinds: list[ApplianceKind]) -> None:
    """Print the high values of all entries of the catalogue."""
    from hushmeter.formatting import format_watt_hours, format_watts

    rows = [
        (
            kind.name,
            format_watts(kind.power_w.high),
            _time(kind.run_s.high),
            format_watt_hours(kind.run_wh.high),
            format_watt_hours(kind.day_wh),
        )
        for kind in kinds
    ]
    print_table(
        "Typical appliances: high values, on which noise is calibrated",
        ("appliance", "power", "run", "energy of a run", "energy a day"),
        rows,
    )
    print_sentences("One appliance with all its numbers and sources: hushmeter catalogue NAME.")


def _print_kind(kind: ApplianceKind) -> None:
    """Print one entry of the catalogue."""
    from hushmeter.formatting import format_watt_hours, format_watts

    rows = [
        ("power", *map(format_watts, kind.power_w)),
        ("one run", *map(_time, kind.run_s)),
        ("energy of a run", *map(format_watt_hours, kind.run_wh)),
        ("runs a day", *(f"{runs:g}" for runs in kind.runs_per_day)),
        ("energy a day", "", "", format_watt_hours(kind.day_wh)),
    ]
    title = kind.name
    if kind.aliases:
        title += f", also called {', '.join(kind.aliases)}"
    print_table(title, ("", "low", "typical", "high"), rows)
    print_sentences(
        kind.basis,
        "All numbers are typical values, rounded by hand. The sources describe the kind of "
        "appliance; they do not state every number.",
        *(f"Source: {source}" for source in kind.sources),
    )


def _time(value: float) -> str:
    """A typical length of time: whole and half units as they are, others as “about 9 min”."""
    from hushmeter.formatting import short_duration

    for size in (3600, 60):
        if value >= size and (2 * value / size) % 1:
            return f"about {short_duration(round(value / size) * size)}"
    return short_duration(value)
