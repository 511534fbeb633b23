"""`hushmeter fleet-sums`: sums of a fleet with one noise per published number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.fleet import explain_interrupt, left_out, report_files, scheduler
from hushmeter.cli.job_log import LogFormat, MetricsFile, logged_job
from hushmeter.cli.options import (
    CLAMP,
    COLUMNS,
    DELTA,
    DRY_RUN,
    FILE_DECIMAL,
    FILE_TZ,
    FILE_UNIT,
    GRID,
    JOBS,
    JSON,
    LEDGER,
    MAX_EPSILON,
    NEW_FOLDER,
    RESUME,
    SOURCE,
    SPARK,
    STREAM,
    parse_interval,
)
from hushmeter.cli.output import print_json, print_table, row_progress
from hushmeter.formatting import count_of

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.fleet.sum_terms import Run
    from hushmeter.fleet.sums import SumsRelease

_SHOWN = 24
"""Most rows of a table that are printed."""


def fleet_sums(
    *,
    source: Annotated[str, SOURCE],
    epsilon: Annotated[str, typer.Option("-e", "--epsilon", help="ε of the unit of protection.")],
    unit_of: Annotated[
        str, typer.Option(help="What ε protects: household-day, household or run.")
    ] = "household-day",
    period: Annotated[
        str | None,
        typer.Option(help="UTC days of the release: 2024-01-01..2024-01-31; others are left out."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Largest run to hide, for --unit-of run: WATTS,TIME or WATTS,TIME,WH."),
    ] = None,
    tables: Annotated[
        str,
        typer.Option(help="What is published: sums (with peaks), shape, quantiles, or several."),
    ] = "sums",
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
    quantiles: Annotated[
        str, typer.Option(help="Quantiles of the hourly means of single meters.")
    ] = "0.1,0.5,0.9",
    levels: Annotated[
        str | None,
        typer.Option(help="Public grid of the quantiles in watts, rising: 0,200,500,…"),
    ] = None,
    ledger: Annotated[str, LEDGER],
    stream: Annotated[str, STREAM] = "sums",
    interval: Annotated[
        str | None, typer.Option(help="Length of a reading; by default that of the first file.")
    ] = None,
    columns: Annotated[str | None, COLUMNS] = None,
    spark: Annotated[str | None, SPARK] = None,
    jobs: Annotated[int, JOBS] = 1,
    dry_run: Annotated[bool, DRY_RUN] = False,
    resume: Annotated[bool, RESUME] = False,
    output: Annotated[Path, NEW_FOLDER],
    json: Annotated[bool, JSON] = False,
    unit: Annotated[str | None, FILE_UNIT] = None,
    tz: Annotated[str | None, FILE_TZ] = None,
    decimal: Annotated[str | None, FILE_DECIMAL] = None,
    log_format: LogFormat = "text",
    metrics: MetricsFile = None,
) -> None:
    """Release sums, load shapes and quantiles of groups of meters, with one noise per number.

    ε protects everything that one household does in one civil day, or in the whole --period, or
    one --run of an appliance. The error of a sum does not grow with the number of households.
    Groups, times and the membership of meters are public. The ledger charges every member for
    every day. Sums of nested groups are joined by least squares, and the peak of every group has
    bounds. Hours of the day are those of --tz. The tables are written to OUT_DIR, with a manifest.

    Example: hushmeter fleet-sums readings -e 1 --clamp 0,15000 --ledger sqlite:///l.db -o sums
    """
    from hushmeter.fleet.job import InputFormat, parse_columns
    from hushmeter.fleet.sum_terms import SumTerms, parse_period
    from hushmeter.fleet.sums import release_sums
    from hushmeter.noise.parameters import parse_clamp

    with logged_job("fleet-sums", log_format, metrics) as job:
        job.folders = (str(source), str(output))
        terms = SumTerms(
            epsilon,
            parse_clamp(clamp),
            _words(by),
            every=every,
            mechanism=noise,
            grid=grid,
            delta=delta,
            max_epsilon=max_epsilon,
            min_meters=min_meters,
            unit_of=unit_of,
            period=parse_period(period),
            run=_parse_run(run),
            tables=_words(tables),
            quantiles=_numbers("quantiles", quantiles),
            levels=None if levels is None else _numbers("levels", levels),
            tz=tz,
        )
        with (
            explain_interrupt(output, job),
            scheduler(spark, ledger) as schedule,
            row_progress("adding up") as advance,
        ):
            done = release_sums(
                source,
                output,
                terms,
                ledger=ledger,
                stream=stream,
                columns=parse_columns(columns),
                form=InputFormat(unit, tz, decimal=decimal),
                interval_s=None if interval is None else parse_interval(interval),
                jobs=jobs,
                resume=resume,
                dry_run=dry_run,
                report=report_files(advance, job),
                schedule=schedule,
            )
        left, charge = done.manifest["quarantine"], done.manifest["charge"]
        job.note_counts(
            {"readings": done.manifest["released_readings"], "periods": charge["blocks"]},
            {"files": left["files"], "periods": left["blocks"]},
            charge["micro_epsilon"] / 1e6,
            dry_run=dry_run,
        )
        if json:
            print_json(done.manifest)
        else:
            _print_report(done, output)
        if not done.complete:
            if not job.is_json:
                typer.echo(f"hushmeter: {left_out(done.manifest, 'day', output)}", err=True)
            raise typer.Exit(1)


def _words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(word.strip() for word in text.split(","))


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """Read a list of numbers."""
    from hushmeter.errors import InputError

    try:
        return tuple(float(word) for word in _words(text))
    except ValueError:
        raise InputError(f"{name} must be numbers between commas, got {text!r}.") from None


def _parse_run(text: str | None) -> Run | None:
    """Read the largest run to hide, such as 2100,3min or 2100,3min,100."""
    from hushmeter.errors import InputError
    from hushmeter.fleet.sum_terms import Run

    if text is None:
        return None
    parts = _words(text)
    if len(parts) not in (2, 3):
        raise InputError(
            f"run must be WATTS,TIME or WATTS,TIME,WH, such as 2100,3min, got {text!r}."
        )
    watts, *energy = _numbers("run", ",".join((parts[0], *parts[2:])))
    return Run(watts, parse_interval(parts[1]), energy[0] if energy else None)


def _print_report(done: SumsRelease, output: Path) -> None:
    """Print the promise and the first rows of every table."""
    from hushmeter.ledger.charges import Price, amount_text

    facts = done.manifest
    promise, charge = facts["promise"], facts["charge"]
    delta = f", δ = {promise['delta']:g}" if promise["delta"] else ""
    dry = facts.get("dry_run", False)
    typer.echo(f"protected: {promise['unit']}, at ε = {promise['epsilon']}{delta}")
    price = amount_text(Price(charge["micro_epsilon"], charge["femto_delta"]))
    blocks = count_of(charge["blocks"], "meter-day")
    typer.echo(f"{'to be ' if dry else ''}charged for each of {blocks}: {price}")
    typer.echo(f"for {charge['unit']}")
    for name, table in done.tables.items():
        _print_table(name, table, promise)
    if dry:
        typer.echo("Nothing was spent or written.")
    elif facts["files"]:
        typer.echo(f"Written: {output}; ledger at {facts['ledger_head']}")
    else:
        typer.echo(f"Nothing was released, and {output} was not written.")


def _print_table(name: str, table: pd.DataFrame, promise: dict[str, object]) -> None:
    """Print the first rows of a table."""
    by = ", ".join(map(str, promise["by"]))  # type: ignore[call-overload]
    clock = promise["tz"] or "UTC"
    titles = {
        "sums": f"By {by}, every {promise['every']}",
        "peaks": f"Largest load by {by}, in one {promise['every']}, with bounds at 95 % confidence",
        "shape": f"Mean load by {by} and hour of the day ({clock})",
        "quantiles": f"Quantiles of the hourly means of single meters by {by} and hour ({clock})",
    }
    columns = {
        "sums": (("group", "group"), ("start", "from (UTC)"), ("meters", "meters"),
                 ("energy_kwh", "kWh"), ("energy_se_kwh", "±"), ("mean_w", "mean W"),
                 ("mean_se_w", "±")),
        "peaks": (("group", "group"), ("start", "from (UTC)"), ("meters", "meters"),
                  ("peak_kw", "peak kW"), ("peak_low_kw", "at least"), ("peak_high_kw", "at most")),
        "shape": (("group", "group"), ("hour", "hour"), ("meters", "meters"),
                  ("mean_w", "mean W"), ("mean_se_w", "±")),
        "quantiles": (("group", "group"), ("hour", "hour"), ("quantile", "quantile"),
                      ("value_w", "W"), ("low_w", "at least"), ("high_w", "at most")),
    }[name]  # fmt: skip
    rows = [
        tuple(_cell(column, row[column]) for column, _ in columns)
        for row in table.head(_SHOWN).to_dict("records")
    ]
    print_table(titles[name], tuple(title for _, title in columns), rows)
    if len(table) > _SHOWN:
        typer.echo(f"… and {len(table) - _SHOWN} more rows")


def _cell(column: str, value: object) -> str:
    """Format one number of a table."""
    if column == "start":
        return f"{value:%Y-%m-%dT%H:%MZ}"
    if column.endswith(("_kwh", "_kw")):
        return f"{value:.1f}"
    if column.endswith("_w"):
        return f"{value:.0f}"
    return f"{value:g}" if column == "quantile" else str(value)
