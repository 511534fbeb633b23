"""`hushmeter fleet` and its siblings: series and sums of many meters, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.apps.fleet.job_log import JobLog, logged_job
from hushmeter.cli import options as given
from hushmeter.cli.options import (
    LogFormat,
    MetricsFile,
    file_option,
    noise_option,
    parse_interval,
    parse_numbers,
    parse_watts,
)
from hushmeter.cli.output import INTERRUPTED, print_files, print_json, print_table, progress_bar
from hushmeter.formatting import count_of

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.apps.fleet import FileReport, FleetRelease, JobOptions, Schedule
    from hushmeter.apps.fleet.job import Terms
    from hushmeter.apps.fleet.released_folder import FleetSummary
    from hushmeter.apps.fleet.sum_terms import Run

_SHOWN = 24
"""Most rows of a table that are printed."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options that the commands that release a fleet share."""

    source: Annotated[str, given.SOURCE]
    ledger: Annotated[str, given.LEDGER]
    stream: Annotated[str | None, given.STREAM] = None
    columns: Annotated[str | None, given.COLUMNS] = None
    load: Annotated[
        str | None,
        noise_option(
            help="Public mean load of a meter, or of the smallest group of sums, in watts."
        ),
    ] = None
    accept_noise: Annotated[
        bool, noise_option("--accept-noise", help="Accept noise above the stated --load.")
    ] = False
    spark: Annotated[str | None, given.SPARK] = None
    jobs: Annotated[int, given.JOBS] = 1
    sign: Annotated[Path | None, given.job_option(help="Sign the manifest with this key.")] = None
    dry_run: Annotated[bool, given.DRY_RUN] = False
    resume: Annotated[bool, given.RESUME] = False
    output: Annotated[Path, given.NEW_FOLDER]
    json: Annotated[bool, given.JSON] = False
    unit: Annotated[str | None, given.FILE_UNIT] = None
    tz: Annotated[str | None, given.FILE_TZ] = None
    decimal: Annotated[str | None, given.FILE_DECIMAL] = None
    log_format: LogFormat = "text"
    metrics: MetricsFile = None

    def options(self, interval: str | None, **more: Any) -> JobOptions:
        """Return how the release is run; the length of a reading is that of the files if None."""
        from hushmeter.apps.fleet import JobOptions
        from hushmeter.apps.fleet.job import InputFormat, parse_columns

        return JobOptions(
            self.ledger,
            self.stream,
            parse_columns(self.columns),
            form=InputFormat(self.unit, self.tz, decimal=self.decimal),
            interval_s=None if interval is None else parse_interval(interval),
            jobs=self.jobs,
            resume=self.resume,
            dry_run=self.dry_run,
            load_w=None if self.load is None else parse_watts("load", self.load),
            accept_noise=self.accept_noise,
            signing_key=self.sign,
            **more,
        )


@given.takes_fields("job", Job)
def fleet(
    *,
    epsilon: Annotated[str, given.EPSILON],
    mechanism: Annotated[str, given.MECHANISM] = "laplace",
    span: Annotated[str, typer.Option(help="Unit that ε protects: reading or day.")] = "reading",
    sensitivity: Annotated[
        str | None,
        typer.Option(help="Protect a change of this many watts, not any value within the clamp."),
    ] = None,
    clamp: Annotated[str, given.CLAMP],
    grid: Annotated[str | None, given.GRID] = None,
    delta: Annotated[float, given.DELTA] = 1e-6,
    max_epsilon: Annotated[float, given.MAX_EPSILON] = 20.0,
    period: Annotated[
        str, typer.Option(help="Period that the ledger charges: each day or month of its zone.")
    ] = "day",
    interval: Annotated[str | None, given.INTERVAL] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Publish this column too, unchanged and without noise."),
    ] = None,
    correct: Annotated[
        bool,
        typer.Option("--correct", help="Release periods again, with fresh noise and a new charge."),
    ] = False,
    head: Annotated[
        str | None, given.job_option(help="Refuse a ledger without this earlier high-water mark.")
    ] = None,
    job: Job,
) -> None:
    """Release every Parquet and CSV file of a folder under differential privacy.

    Each file needs a meter id, a time, a value, its unit and its interval_s. The options --unit,
    --tz and --interval state what the files lack, and so do folders such as feeder=F7. Rows are
    sorted by meter and time, and other columns are dropped unless --keep names them. The ledger
    charges every (meter, period) before any of it is written. What cannot be released is left
    out, costs nothing and is listed in OUT_DIR.quarantine.csv; the exit code is then 1. A value
    that is no number counts as 0 W and is listed in OUT_DIR.odd-cells.csv, which is private.
    Released values are in W, or in --unit. The output does not depend on --jobs.

    Example: hushmeter fleet readings/ -e 1 --clamp 0,15000 --ledger sqlite:///ledger.db -o out -j 2
    """
    from hushmeter.apps.fleet import FleetTerms
    from hushmeter.noise.mechanism import parse_clamp

    def ask() -> tuple[FleetTerms, JobOptions]:
        terms = FleetTerms(
            epsilon=epsilon,
            clamp=parse_clamp(clamp),
            mechanism=mechanism,
            span=span,
            watts=None if sensitivity is None else parse_watts("sensitivity", sensitivity),
            grid=grid,
            delta=delta,
            max_epsilon=max_epsilon,
            period=period,
        )
        return terms, job.options(interval, keep=keep or (), correct=correct, head=head)

    _run_job("fleet", job, ask, _print_summary)


@given.takes_fields("job", Job)
def fleet_sums(
    *,
    epsilon: Annotated[str, typer.Option("-e", "--epsilon", help="ε of the unit of protection.")],
    unit_of: Annotated[
        str, typer.Option(help="What ε protects: household-day, household or run.")
    ] = "household-day",
    period: Annotated[
        str | None,
        typer.Option(help="Days of the release: 2024-01-01..2024-01-31; others are left out."),
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
    every: Annotated[
        str, typer.Option(help="Bin of a sum: hour (UTC) or day (of the ledger).")
    ] = "hour",
    clamp: Annotated[str, given.CLAMP],
    by: Annotated[
        str, typer.Option(help="Columns with nested groups, coarsest first: region,feeder.")
    ] = "group",
    cap: Annotated[
        float | None,
        noise_option(help="Scale the days of households above this energy down to it, in kWh."),
    ] = None,
    reference: Annotated[
        str | None,
        noise_option(help="Public energy of a household's day: its mean, or a file of days."),
    ] = None,
    grid: Annotated[str | None, given.GRID] = None,
    delta: Annotated[float, given.DELTA] = 1e-6,
    max_epsilon: Annotated[float, given.MAX_EPSILON] = 20.0,
    min_meters: Annotated[int, noise_option(help="Do not publish groups with fewer meters.")] = 1,
    quantiles: Annotated[
        str, noise_option(help="Quantiles of the hourly means of single meters.")
    ] = "0.1,0.5,0.9",
    levels: Annotated[
        str | None, noise_option(help="Public grid of the quantiles in watts, rising: 0,200,500,…")
    ] = None,
    interval: Annotated[
        str | None, file_option(help="Length of a reading; by default that of the first file.")
    ] = None,
    job: Job,
) -> None:
    """Release sums, load shapes and quantiles of groups of meters, with one noise per number.

    ε protects everything that one household does in one civil day, or in the whole --period, or
    one --run of an appliance. The error of a sum does not grow with the number of households, and
    a --cap on the energy of a household's day, which must be public, makes it much smaller. What
    the cap cuts off is part of the stated error: the number of days above it is published with
    noise, and their mean excess is that of the --reference.
    Groups, times and the membership of meters are public. The ledger charges every member for
    every day. Sums of nested groups are joined by least squares, and the peak of every group has
    bounds. Days are those of the ledger, and hours of the day those of --tz. The tables are written
    to OUT_DIR, with a manifest.

    Example: hushmeter fleet-sums readings -e 1 --clamp 0,15000 --every day --cap 40
    --reference 10kWh --min-meters 100 --ledger sqlite:///l.db -o sums
    """
    from hushmeter.apps.fleet import SumTerms
    from hushmeter.apps.fleet.clipping import read_reference
    from hushmeter.apps.fleet.sum_terms import parse_days
    from hushmeter.noise.mechanism import parse_clamp

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
            job.tz,
            reference=None if reference is None else read_reference(reference, cap),
        )
        return terms, job.options(interval)

    _run_job("fleet-sums", job, ask, _print_sums)


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
    force: Annotated[bool, given.FORCE] = False,
    json: Annotated[bool, given.JSON] = False,
) -> None:
    """Print energy, mean power and bills of groups, each with its standard error.

    The errors follow from the known noise alone. The true number is within one standard error
    two times out of three, and within two of them 19 times out of 20. Days and months are those of
    the ledger's time zone, or of that of a calendar release.

    Example: hushmeter fleet-stats out --by group --every hour -o feeders.csv
    """
    from hushmeter.apps.fleet.released_folder import summarise_estimates, summarise_fleet
    from hushmeter.files import refuse_overwrite, table_format, write_table
    from hushmeter.releases.restore import holds_estimates

    if output is not None:
        table_format(output)
        refuse_overwrite(output, force)
    of_estimates = folder.is_file() or holds_estimates(folder)
    summarise = summarise_estimates if of_estimates else summarise_fleet
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
    _print_summary_table(summary, by, every)
    print_files(files)


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
    json: Annotated[bool, given.JSON] = False,
    unit: Annotated[str, typer.Option(help="W, kW, Wh or kWh (per interval).")] = "W",
) -> None:
    """Write a synthetic fleet as Parquet files.

    The households have daily shapes and weekends; some have solar panels, some charge a car.
    Columns: meter, time (UTC), value, unit, interval_s, group (the feeder, of 50 meters).

    Example: hushmeter synth-fleet --meters 1000 --days 30 -o fleet
    """
    from hushmeter.formatting import count_of
    from hushmeter.synth.traces import FleetPlan, write_fleet

    plan = FleetPlan(meters, days, parse_interval(interval), seed, unit, start)
    with progress_bar("writing", rows=True) as advance:
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


def _run_job(
    command: str,
    job: Job,
    ask: Callable[[], tuple[Terms, JobOptions]],
    show: Callable[[FleetRelease, Path, float | None], None],
) -> None:
    """Release a fleet and print what was released; exit with code 1 if something was left out."""
    from hushmeter.apps.fleet import release_fleet

    output = job.output
    with logged_job(command, job.log_format, job.metrics) as log:
        log.folders = (job.source, str(output))
        terms, options = ask()
        with (
            _explain_interrupt(output, log),
            _scheduler(job.spark, options.ledger) as schedule,
            progress_bar("releasing", rows=True) as advance,
        ):

            def report(file: FileReport, rows: int, total: int) -> None:
                advance(rows, total)
                released = file.released_rows
                log.write(
                    "file", state=file.state, rows=file.rows, released_rows=released, done=rows,
                    total=total,
                )  # fmt: skip

            options = replace(options, report=report, schedule=schedule)
            done = release_fleet(job.source, output, terms, options)
        log.note_counts(done.manifest)
        if job.json:
            print_json(done.manifest)
        else:
            show(done, output, options.load_w)
        if not done.complete:
            if not log.is_json:
                sentence = _left_out(done.manifest, terms.period, output)
                typer.echo(f"hushmeter: {sentence}", err=True)
            raise typer.Exit(1)


@contextmanager
def _explain_interrupt(output: Path, job: JobLog) -> Iterator[None]:
    """After Ctrl-C, print what is kept and how to continue; the exit code is 130."""
    try:
        yield
    except KeyboardInterrupt:
        if job.is_json:
            raise typer.Exit(INTERRUPTED) from None
        from hushmeter.apps.fleet.folders import PrivateFolder

        begun = PrivateFolder(output).begun_file.exists()
        typer.echo(
            "hushmeter: interrupted; "
            + (
                f"finished files are in {output}, what was charged stays charged, and nothing may "
                "be published yet; continue with the same command and --resume."
                if begun
                else "nothing was charged or written."
            ),
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _scheduler(spark: str | None, ledger: str) -> AbstractContextManager[Schedule | None]:
    """Return the scheduler of a Spark cluster, or None for worker processes of this machine."""
    if spark is None:
        return nullcontext()
    from hushmeter.apps.fleet.task import cluster_schedule

    return cluster_schedule(spark, ledger)


def _print_summary(done: FleetRelease, output: Path, load_w: float | None) -> None:
    """Print the main facts of a manifest of series."""
    from hushmeter.formatting import format_watts

    facts = done.manifest
    noise = facts["promise"]["tables"][0]["noise"]
    released = sum(file["state"] == "released" for file in facts["files"])
    typer.echo(
        f"{'dry run' if facts.get('dry_run') else 'release ' + facts['release']}: "
        f"{facts['released_rows']} of {facts['rows']} readings in {released} of "
        f"{len(facts['files'])} files"
    )
    typer.echo(
        f"noise: {noise['mechanism']}, scale {format_watts(noise['scale'])}, grid "
        f"{format_watts(noise['grid'])}"
    )
    for column in facts["kept_without_noise"]:
        typer.echo(f"published without noise, exactly as in the input: column {column!r}")
    _print_promise(facts)
    _print_errors(done, load_w)
    _print_end(facts, output)


def _print_errors(done: FleetRelease, load_w: float | None) -> None:
    """Print how far the noise moves every number of every table."""
    from hushmeter.apps.fleet.job import errors_of

    for one in errors_of(done.job.terms, load_w):
        typer.echo(one.sentence)


def _print_promise(facts: dict[str, Any]) -> None:
    """Print the unit of protection, its ε, and what the ledger charges."""
    from hushmeter.apps.ledger.charges import Price, amount_text

    promise, charge = facts["promise"], facts["charge"]
    delta = f", δ = {promise['delta']:g}" if promise["delta"] else ""
    typer.echo(f"protected: {promise['unit']['sentence']}")
    typer.echo(f"at ε = {promise['epsilon']:.6g}{delta}")
    blocks = count_of(facts["released_blocks"], f"meter-{promise.get('period', 'day')}")
    price = amount_text(Price(charge["micro_epsilon"], charge["femto_delta"]))
    typer.echo(f"{'to be ' * facts.get('dry_run', False)}charged for each of {blocks}: {price}")
    typer.echo(f"for {charge['unit']}")


def _print_end(facts: dict[str, Any], output: Path) -> None:
    """Print what was written."""
    if facts.get("dry_run", False):
        size = facts["estimated_bytes"] / 1e6
        room = f"; the release would take about {size:.3g} MB" if size else ""
        typer.echo(f"Nothing was spent or written{room}.")
    elif facts["released_blocks"]:
        typer.echo(f"Written: {output}; ledger at {facts['ledger_head']}")
    else:
        typer.echo(f"Nothing was released, and {output} was not written.")


def _left_out(facts: dict[str, Any], period: str, output: Path) -> str:
    """Return one sentence about what was left out of a release that is charged by period."""
    from hushmeter.apps.fleet.release import private_list

    left = facts["quarantine"]
    blocks = count_of(left["blocks"], f"meter-{period}")
    files = count_of(left["files"], "whole file")
    parts = " and ".join(p for p, n in ((blocks, left["blocks"]), (files, left["files"])) if n)
    often = next(iter(left["reasons"]))
    if facts.get("dry_run", False):
        return f"{parts} would be left out at no cost; most often: {often}."
    return f"{parts} left out at no cost; most often: {often}; see {private_list(output)}."


def _words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(word.strip() for word in text.split(","))


def _parse_run(text: str | None) -> Run | None:
    """Read the largest run to hide, such as 2100,3min or 2100,3min,100."""
    from hushmeter.apps.fleet.sum_terms import Run
    from hushmeter.errors import InputError

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
    "clipped": ("meters", "customer_days", "clipped_days", "clipped_se"),
    "peaks": ("start", "meters", "peak_kw", "peak_low_kw", "peak_high_kw"),
    "shape": ("hour", "meters", "mean_w", "mean_se_w"),
    "quantiles": ("hour", "quantile", "value_w", "low_w", "high_w"),
}
_TITLES = {
    "start": "from (UTC)", "energy_kwh": "kWh", "energy_se_kwh": "±", "mean_w": "mean W",
    "mean_se_w": "±", "peak_kw": "peak kW", "peak_low_kw": "at least", "peak_high_kw": "at most",
    "value_w": "W", "low_w": "at least", "high_w": "at most", "customer_days": "days in all",
    "clipped_days": "above the cap", "clipped_se": "±",
}  # fmt: skip
"""Columns of the printed tables after the group, and their titles."""


def _print_sums(done: FleetRelease, output: Path, load_w: float | None) -> None:
    """Print the promise and the first rows of every table."""
    promise = done.manifest["promise"]
    _print_promise(done.manifest)
    _print_errors(done, load_w)
    for name, table in done.tables.items():
        _print_sums_table(name, table, promise)
    _print_end(done.manifest, output)


def _print_sums_table(name: str, table: pd.DataFrame, promise: dict[str, Any]) -> None:
    """Print the first rows of a table."""
    by, every = ", ".join(promise["groups"]["by"]), promise["groups"]["every"]
    clock = promise["cells"]["zone"]
    title = {
        "sums": f"By {by}, every {every}",
        "clipped": f"Days of customers above the cap, by {by}",
        "peaks": f"Largest load by {by}, in one {every}, with bounds at 95 % confidence",
        "shape": f"Mean load by {by} and hour of the day ({clock})",
        "quantiles": f"Quantiles of the hourly means of single meters by {by} and hour ({clock})",
    }[name]
    columns = ("group", *_COLUMNS[name])
    rows = [
        tuple(_cell(column, row[column]) for column in columns)
        for row in table.head(_SHOWN).to_dict("records")
    ]
    _print_first_rows(title, [_TITLES.get(column, column) for column in columns], rows, len(table))


def _cell(column: str, value: object) -> str:
    """Format one number of a table."""
    if column == "start":
        return f"{value:%Y-%m-%dT%H:%MZ}"
    if column.endswith(("_kwh", "_kw")) or column.startswith("clipped"):
        return f"{value:.1f}"
    if column.endswith("_w"):
        return f"{value:.0f}"
    return f"{value:g}" if column == "quantile" else str(value)


def _print_first_rows(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], count: int, hint: str = ""
) -> None:
    """Print the first rows of a table, and how many more there are."""
    print_table(title, header, rows)
    if count > _SHOWN:
        typer.echo(f"… and {count - _SHOWN} more rows{hint}")


def _stamps(summary: FleetSummary) -> list[str | None]:
    """Return the start of each row as text; None if a row covers all times."""
    starts = summary.table["start"]
    texts = starts.dt.strftime("%Y-%m-%dT%H:%MZ")
    return [text if there else None for text, there in zip(texts, starts.notna(), strict=True)]


def _print_summary_table(summary: FleetSummary, by: str, every: str) -> None:
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
    header += [cell for *_, unit in pairs for cell in (unit, "±")]
    _print_first_rows(title, header, rows, len(table), "; write them all with -o.")
    for note in summary.notes:
        typer.echo(note)


def _with_error(value: float, error: float) -> tuple[str, str]:
    """Round a number to the place of the second digit of its error."""
    import math

    places = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:.{places}f}", f"{error:.{places}f}"
