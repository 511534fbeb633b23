"""`hushmeter fleet-sums`: sums of a fleet with one noise per published number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import CLAMP, DELTA, GRID, JSON, MAX_EPSILON, SOURCE, parse_interval
from hushmeter.cli.output import print_json, print_table

if TYPE_CHECKING:
    from hushmeter.fleet.sums import SumsRelease

_SHOWN = 24
"""Most rows that are printed."""


def fleet_sums(
    *,
    source: Annotated[str, SOURCE],
    epsilon: Annotated[str, typer.Option("-e", "--epsilon", help="ε of a household's day.")],
    noise: Annotated[
        str, typer.Option(help="laplace, gaussian, or best: the one with the smaller error.")
    ] = "best",
    every: Annotated[str, typer.Option(help="UTC bin of a sum: hour or day.")] = "hour",
    clamp: Annotated[str, CLAMP],
    by: Annotated[
        str, typer.Option(help="Columns with nested groups, coarsest first: region,feeder.")
    ] = "group",
    grid: Annotated[str, GRID] = "1",
    delta: Annotated[float, DELTA] = 1e-6,
    max_epsilon: Annotated[float, MAX_EPSILON] = 20.0,
    min_meters: Annotated[int, typer.Option(help="Do not publish groups with fewer meters.")] = 1,
    ledger: Annotated[str, typer.Option(help="sqlite:///file.db or postgresql://…")],
    stream: Annotated[str, typer.Option(help="Name of the series of the meters.")] = "sums",
    interval: Annotated[
        str | None, typer.Option(help="Length of a reading; by default that of the first file.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Other column names: meter=…,time=…,value=…,unit=…,interval=…"),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="A new or empty folder.")],
    json: Annotated[bool, JSON] = False,
    unit: Annotated[
        str | None, typer.Option(help="Unit of files without a unit: W, kW, Wh or kWh.")
    ] = None,
    tz: Annotated[
        str | None, typer.Option(help="Zone of times without a zone, such as Europe/Berlin.")
    ] = None,
) -> None:
    """Release sums and means of groups of meters, with one noise for each published number.

    ε protects everything that one household does in one civil day. The error of a sum does not
    grow with the number of households. Groups, times and the membership of meters are public.
    The ledger charges every member for every day. Sums of nested groups are joined by least
    squares. The table is written to OUT_DIR/sums.parquet, with a manifest.

    Example: hushmeter fleet-sums readings -e 1 --clamp 0,15000 --ledger sqlite:///l.db -o sums
    """
    from hushmeter.fleet.job import InputFormat, parse_columns
    from hushmeter.fleet.sums import SumTerms, release_sums
    from hushmeter.noise.parameters import parse_clamp

    terms = SumTerms(
        epsilon,
        parse_clamp(clamp),
        tuple(name.strip() for name in by.split(",")),
        every=every,
        mechanism=noise,
        grid=grid,
        delta=delta,
        max_epsilon=max_epsilon,
        min_meters=min_meters,
    )
    done = release_sums(
        source,
        output,
        terms,
        ledger=ledger,
        stream=stream,
        columns=parse_columns(columns),
        form=InputFormat(unit, tz),
        interval_s=None if interval is None else parse_interval(interval),
    )
    if json:
        print_json(done.manifest)
    else:
        _print_report(done, output)
    if not done.complete:
        left = done.manifest["quarantine"]
        typer.echo(
            f"hushmeter: {left['blocks']} meter-days and {left['files']} whole files left out at "
            f"no cost; most often: {next(iter(left['reasons']))}.",
            err=True,
        )
        raise typer.Exit(1)


def _print_report(done: SumsRelease, output: Path) -> None:
    """Print the promise and the first rows."""
    facts, table = done.manifest, done.table
    promise, charge = facts["promise"], facts["charge"]
    delta = f", δ = {promise['delta']:g}" if promise["delta"] else ""
    typer.echo(f"protected: {promise['unit']}, at ε = {promise['epsilon']}{delta}")
    typer.echo(f"charged for each of {charge['blocks']} meter-days: ε = {charge['epsilon']}{delta}")
    rows = [
        (
            str(row["group"]), f"{row['start']:%Y-%m-%dT%H:%MZ}", str(row["meters"]),
            f"{row['energy_kwh']:.1f}", f"{row['energy_se_kwh']:.1f}",
            f"{row['mean_w']:.0f}", f"{row['mean_se_w']:.0f}",
        )
        for row in table.head(_SHOWN).to_dict("records")
    ]  # fmt: skip
    header = ("group", "from (UTC)", "meters", "kWh", "±", "mean W", "±")
    print_table(f"By {', '.join(promise['by'])}, every {promise['every']}", header, rows)
    if len(table) > _SHOWN:
        typer.echo(f"… and {len(table) - _SHOWN} more rows")
    if len(table):
        typer.echo(f"Written: {output}; ledger at {facts['ledger_head']}")
    else:
        typer.echo(f"Nothing was released, and {output} was not written.")
