"""`hushmeter fleet-stats`: sums of released readings with their standard errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, JSON
from hushmeter.cli.output import print_files, print_json, print_table

if TYPE_CHECKING:
    from hushmeter.fleet.statistics import FleetSummary

_SHOWN = 24
"""Most rows that are printed."""


def fleet_stats(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A released fleet, a calendar release, a restored file, or a folder of these.",
            metavar="OUT_DIR",
        ),
    ],
    by: Annotated[str, typer.Option(help="Column to group by: group, meter, …")] = "group",
    every: Annotated[str, typer.Option(help="Period of a sum: hour, day, month or all.")] = "month",
    energy_price: Annotated[
        float | None, typer.Option(help="Price per kWh, for bills (with --by meter).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all rows as .csv or .parquet.")
    ] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Print energy, mean power and bills of groups, each with its standard error.

    The errors follow from the known noise alone. The true number is within one standard error
    two times out of three, and within two of them 19 times out of 20. Days and months are those of
    UTC, or of the time zone of a calendar release.

    Example: hushmeter fleet-stats out --by group --every hour -o feeders.csv
    """
    from hushmeter.files import refuse_overwrite, table_format, write_table
    from hushmeter.fleet.statistics import summarise_estimates, summarise_fleet
    from hushmeter.releases.restore import holds_estimates

    if output is not None:
        table_format(output)
        refuse_overwrite(output, force)
    summarise = summarise_estimates if holds_estimates(folder) else summarise_fleet
    summary = summarise(folder, by, every, price_per_kwh=energy_price)
    files = [] if output is None else [output]
    if output is not None:
        columns = {str(name): summary.table[name].to_numpy() for name in summary.table}
        columns["start"] = summary.table["start"].dt.tz_localize(None).to_numpy()
        write_table(output, columns, force=force, public=True)
    if json:
        rows = [
            {**row, "start": stamp}
            for row, stamp in zip(summary.table.to_dict("records"), _stamps(summary), strict=True)
        ]
        facts = {"reading_se_w": summary.reading_se_w, "notes": summary.notes, "rows": rows}
        print_json({**facts, "files": files})
        return
    _print_report(summary, by, every)
    print_files(files)


def _stamps(summary: FleetSummary) -> list[str | None]:
    """Return the start of each row as text; None if a row covers all times."""
    starts = summary.table["start"]
    texts = starts.dt.strftime("%Y-%m-%dT%H:%MZ")
    return [text if there else None for text, there in zip(texts, starts.notna(), strict=True)]


def _print_report(summary: FleetSummary, by: str, every: str) -> None:
    """Print the first rows as a table, and the notes."""
    table = summary.table
    pairs = [("energy_kwh", "energy_se_kwh", "kWh"), ("mean_w", "mean_se_w", "mean W")]
    if "bill" in table:
        pairs.append(("bill", "bill_se", "bill"))
    rows = []
    for i, stamp in enumerate(_stamps(summary)[:_SHOWN]):
        row = [str(table[by].iloc[i]), stamp or "all", str(table["readings"].iloc[i])]
        for value, error, _ in pairs:
            row += _with_error(float(table[value].iloc[i]), float(table[error].iloc[i]))
        rows.append(row)
    title = (
        f"By {by}, every {every}; the standard error of a single reading is "
        f"{summary.reading_se_w:.4g} W"
    )
    header = [by, "from (UTC)", "readings"]
    print_table(title, [*header, *(cell for *_, unit in pairs for cell in (unit, "±"))], rows)
    if len(table) > _SHOWN:
        typer.echo(f"… and {len(table) - _SHOWN} more rows; write them all with -o.")
    for note in summary.notes:
        typer.echo(note)


def _with_error(value: float, error: float) -> tuple[str, str]:
    """Round a number to the place of the second digit of its error."""
    import math

    places = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:.{places}f}", f"{error:.{places}f}"
