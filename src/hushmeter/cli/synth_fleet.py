"""`hushmeter synth-fleet`: a synthetic fleet of meters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import JSON, parse_interval
from hushmeter.cli.output import print_json, row_progress


def synth_fleet(
    *,
    meters: Annotated[int, typer.Option(help="Number of meters.")] = 10_000,
    days: Annotated[int, typer.Option(help="Number of days.")] = 30,
    interval: Annotated[
        str, typer.Option(help="Length of a reading, which must divide a day.")
    ] = "15min",
    files: Annotated[
        int | None, typer.Option(help="Number of files; by default one per two million rows.")
    ] = None,
    start: Annotated[str, typer.Option(help="First day, UTC.")] = "2024-01-01",
    seed: Annotated[int, typer.Option(help="The same seed gives the same fleet.")] = 0,
    output: Annotated[Path, typer.Option("-o", "--output", help="A new or empty folder.")],
    json: Annotated[bool, JSON] = False,
    unit: Annotated[str, typer.Option(help="W, kW, Wh or kWh (per interval).")] = "W",
) -> None:
    """Write a synthetic fleet as Parquet files.

    The households have daily shapes and weekends; some have solar panels, some charge a car.
    Columns: meter, time (UTC), value, unit, interval_s, group (the feeder, of 50 meters).

    Example: hushmeter synth-fleet --meters 1000 --days 30 -o fleet
    """
    from hushmeter.formatting import count_of
    from hushmeter.synth.fleet import FleetPlan, write_fleet

    plan = FleetPlan(meters, days, parse_interval(interval), seed, unit, start)
    with row_progress("writing") as advance:
        done = 0

        def report(rows: int) -> None:
            nonlocal done
            done += rows
            advance(done, plan.rows)

        paths = write_fleet(plan, output, files=files, report=report)
    if json:
        print_json({"rows": plan.rows, "meters": meters, "files": [str(path) for path in paths]})
        return
    files_made, who = count_of(len(paths), "file"), count_of(meters, "meter")
    typer.echo(f"{plan.rows} readings of {who} written to {files_made} in {output}")
