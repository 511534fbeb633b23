"""`hushmeter home` and `hushmeter catalogue`: a home from a list of its appliances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, HAVE, JSON
from hushmeter.cli.output import print_files, print_json, print_sentences, print_table

if TYPE_CHECKING:
    from hushmeter.appliance_kinds import ApplianceKind

HEADER = """\
# The appliances of a home. Edit the numbers that you know better, and delete what you do not have.
# power, high: usual and highest power while on [W]     run_s, run_high_s: usual and longest run [s]
# energy_wh: largest energy of one run [Wh]             use_s_per_day: longest use a day [s]
# tolerance: variation of a reading without a switch [W]
# Noise is calibrated on high, run_high_s, energy_wh and use_s_per_day.

"""


def home(
    have: Annotated[list[str], HAVE],
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
    """Write a home from a list of its appliances, as a TOML file to edit.

    The catalogue of typical appliances fills in what you do not state. State a power, a run or an
    energy after the name if you know it.

    Example: hushmeter home --have kettle,oven,"car charger 7.4 kW","pump 300 W 2 h" -o home.toml
    """
    from hushmeter.errors import InputError
    from hushmeter.files import write_text
    from hushmeter.home import DEFAULT_TOLERANCE, Home

    if output is not None and output.suffix.lower() != ".toml":
        raise InputError(f"{output} must end in .toml.")
    listed = Home.from_words(have)
    known = Home(listed.appliances, tolerance or DEFAULT_TOLERANCE, base_load, name)
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


def catalogue(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One appliance, with its sources.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the typical appliances, or print the numbers and the sources of one of them.

    Each name can be used with --have and --hide. The high values calibrate the noise.

    Example: hushmeter catalogue kettle
    """
    from hushmeter.appliance_kinds import catalogue as kinds

    if name is not None:
        kind = kinds[name]
        if json:
            print_json(kind)
        else:
            _print_kind(kind)
        return
    if json:
        print_json(list(kinds.values()))
        return
    rows = [
        (
            kind.name,
            _watts(kind.power_w.high),
            _time(kind.run_s.high),
            _watt_hours(kind.run_wh.high),
            _watt_hours(kind.day_wh),
        )
        for kind in kinds.values()
    ]
    print_table(
        "Typical appliances: high values, on which noise is calibrated",
        ("appliance", "power", "run", "energy of a run", "energy a day"),
        rows,
    )
    print_sentences("One appliance with all its numbers and sources: hushmeter catalogue NAME.")


def _watts(value: float) -> str:
    from hushmeter.formatting import format_watts

    return format_watts(value)


def _watt_hours(value: float) -> str:
    from hushmeter.formatting import format_watt_hours

    return format_watt_hours(value)


def _time(value: float) -> str:
    """A typical length of time: whole and half units as they are, others as “about 9 min”."""
    from hushmeter.formatting import short_duration

    for size in (3600, 60):
        if value >= size and (2 * value / size) % 1:
            return f"about {short_duration(round(value / size) * size)}"
    return short_duration(value)


def _print_kind(kind: ApplianceKind) -> None:
    """Print one entry of the catalogue."""
    rows = [
        ("power", *map(_watts, kind.power_w)),
        ("one run", *map(_time, kind.run_s)),
        ("energy of a run", *map(_watt_hours, kind.run_wh)),
        ("runs a day", *(f"{runs:g}" for runs in kind.runs_per_day)),
        ("energy a day", "", "", _watt_hours(kind.day_wh)),
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
