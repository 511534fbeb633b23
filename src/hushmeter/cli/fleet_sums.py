"""`hushmeter fleet-sums`: sums of a fleet with one noise per published number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli import options as given
from hushmeter.cli.fleet import JobFrame, print_end, print_promise, run_job
from hushmeter.cli.job_log import LogFormat, MetricsFile
from hushmeter.cli.options import file_option, noise_option, parse_interval, parse_numbers
from hushmeter.cli.output import print_table

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.fleet import FleetRelease
    from hushmeter.fleet.sum_terms import Run

_SHOWN = 24
"""Most rows of a table that are printed."""


def fleet_sums(
    *,
    source: Annotated[str, given.SOURCE],
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
        noise_option(help="Largest run to hide, for --unit-of run: WATTS,TIME or WATTS,TIME,WH."),
    ] = None,
    tables: Annotated[
        str,
        typer.Option(help="What is published: sums (with peaks), shape, quantiles, or several."),
    ] = "sums",
    noise: Annotated[
        str, noise_option(help="laplace, gaussian, or best: the one with the smaller error.")
    ] = "best",
    every: Annotated[str, typer.Option(help="UTC bin of a sum: hour or day.")] = "hour",
    clamp: Annotated[str, given.CLAMP],
    by: Annotated[
        str, typer.Option(help="Columns with nested groups, coarsest first: region,feeder.")
    ] = "group",
    cap: Annotated[
        float | None,
        noise_option(help="Scale the days of households above this energy down to it, in kWh."),
    ] = None,
    grid: Annotated[str | None, given.GRID] = None,
    delta: Annotated[float, given.DELTA] = 1e-6,
    max_epsilon: Annotated[float, given.MAX_EPSILON] = 20.0,
    min_meters: Annotated[int, noise_option(help="Do not publish groups with fewer meters.")] = 1,
    quantiles: Annotated[
        str, noise_option(help="Quantiles of the hourly means of single meters.")
    ] = "0.1,0.5,0.9",
    levels: Annotated[
        str | None,
        noise_option(help="Public grid of the quantiles in watts, rising: 0,200,500,…"),
    ] = None,
    ledger: Annotated[str, given.LEDGER],
    stream: Annotated[str, given.STREAM] = "sums",
    interval: Annotated[
        str | None,
        file_option(help="Length of a reading; by default that of the first file."),
    ] = None,
    columns: Annotated[str | None, given.COLUMNS] = None,
    spark: Annotated[str | None, given.SPARK] = None,
    jobs: Annotated[int, given.JOBS] = 1,
    dry_run: Annotated[bool, given.DRY_RUN] = False,
    resume: Annotated[bool, given.RESUME] = False,
    output: Annotated[Path, given.NEW_FOLDER],
    json: Annotated[bool, given.JSON] = False,
    unit: Annotated[str | None, given.FILE_UNIT] = None,
    tz: Annotated[str | None, given.FILE_TZ] = None,
    decimal: Annotated[str | None, given.FILE_DECIMAL] = None,
    log_format: LogFormat = "text",
    metrics: MetricsFile = None,
) -> None:
    """Release sums, load shapes and quantiles of groups of meters, with one noise per number.

    ε protects everything that one household does in one civil day, or in the whole --period, or
    one --run of an appliance. The error of a sum does not grow with the number of households, and
    a --cap on the energy of a household's day, which must be public, makes it much smaller.
    Groups, times and the membership of meters are public. The ledger charges every member for
    every day. Sums of nested groups are joined by least squares, and the peak of every group has
    bounds. Hours of the day are those of --tz. The tables are written to OUT_DIR, with a manifest.

    Example: hushmeter fleet-sums readings -e 1 --clamp 0,15000 --ledger sqlite:///l.db -o sums
    """
    from hushmeter.fleet import JobOptions, SumTerms
    from hushmeter.fleet.job import InputFormat, parse_columns
    from hushmeter.fleet.sum_terms import parse_days
    from hushmeter.noise.parameters import parse_clamp

    def ask() -> tuple[SumTerms, JobOptions]:
        terms = SumTerms(
            epsilon,
            parse_clamp(clamp),
            _words(by),
            every,
            noise,
            grid,
            delta,
            max_epsilon,
            min_meters,
            unit_of,
            parse_days(period),
            _parse_run(run),
            cap,
            _words(tables),
            tuple(parse_numbers("quantiles", quantiles)),
            None if levels is None else tuple(parse_numbers("levels", levels)),
            tz,
        )
        return terms, JobOptions(
            ledger,
            stream,
            parse_columns(columns),
            form=InputFormat(unit, tz, decimal=decimal),
            interval_s=None if interval is None else parse_interval(interval),
            jobs=jobs,
            resume=resume,
            dry_run=dry_run,
        )

    frame = JobFrame("fleet-sums", source, output, log_format, metrics, spark)
    run_job(frame, ask, _print_report, json)


def _words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(word.strip() for word in text.split(","))


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
    watts, *energy = parse_numbers("run", ",".join((parts[0], *parts[2:])))
    return Run(watts, parse_interval(parts[1]), energy[0] if energy else None)


_COLUMNS = {
    "sums": ("start", "meters", "energy_kwh", "energy_se_kwh", "mean_w", "mean_se_w"),
    "peaks": ("start", "meters", "peak_kw", "peak_low_kw", "peak_high_kw"),
    "shape": ("hour", "meters", "mean_w", "mean_se_w"),
    "quantiles": ("hour", "quantile", "value_w", "low_w", "high_w"),
}
_TITLES = {
    "start": "from (UTC)", "energy_kwh": "kWh", "energy_se_kwh": "±", "mean_w": "mean W",
    "mean_se_w": "±", "peak_kw": "peak kW", "peak_low_kw": "at least", "peak_high_kw": "at most",
    "value_w": "W", "low_w": "at least", "high_w": "at most",
}  # fmt: skip
"""Columns of the printed tables after the group, and their titles."""


def _print_report(done: FleetRelease, output: Path) -> None:
    """Print the promise and the first rows of every table."""
    from hushmeter.trace import JOULES_PER_KWH

    promise = done.manifest["promise"]
    print_promise(done.manifest)
    for one in promise["tables"]:
        if one["table"] == "sums":
            error = one["error"] * promise["cells"]["interval_s"] / JOULES_PER_KWH
            typer.echo(f"standard error of every sum: {error:.3g} kWh")
    for name, table in done.tables.items():
        _print_table(name, table, promise)
    print_end(done.manifest, output)


def _print_table(name: str, table: pd.DataFrame, promise: dict[str, Any]) -> None:
    """Print the first rows of a table."""
    by, every = ", ".join(promise["groups"]["by"]), promise["groups"]["every"]
    clock = promise["cells"]["zone"]
    title = {
        "sums": f"By {by}, every {every}",
        "peaks": f"Largest load by {by}, in one {every}, with bounds at 95 % confidence",
        "shape": f"Mean load by {by} and hour of the day ({clock})",
        "quantiles": f"Quantiles of the hourly means of single meters by {by} and hour ({clock})",
    }[name]
    columns = ("group", *_COLUMNS[name])
    rows = [
        tuple(_cell(column, row[column]) for column in columns)
        for row in table.head(_SHOWN).to_dict("records")
    ]
    print_table(title, tuple(_TITLES.get(column, column) for column in columns), rows)
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
