"""`hushmeter fleet`: release the readings of a fleet of meters, charged to a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli import options as given
from hushmeter.cli.job_log import INTERRUPTED, JobLog, LogFormat, MetricsFile, logged_job
from hushmeter.cli.options import parse_interval, parse_watts
from hushmeter.cli.output import print_json, row_progress
from hushmeter.formatting import count_of

if TYPE_CHECKING:
    from hushmeter.fleet import FileReport, FleetRelease, JobOptions, Schedule
    from hushmeter.fleet.job import Terms


def fleet(
    *,
    source: Annotated[str, given.SOURCE],
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
    ledger: Annotated[str, given.LEDGER],
    period: Annotated[
        str, typer.Option(help="Period that the ledger charges: each UTC day or month.")
    ] = "day",
    stream: Annotated[str, given.STREAM] = "load",
    interval: Annotated[str | None, given.INTERVAL] = None,
    columns: Annotated[str | None, given.COLUMNS] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Publish this column too, unchanged and without noise."),
    ] = None,
    correct: Annotated[
        bool,
        typer.Option("--correct", help="Release periods again, with fresh noise and a new charge."),
    ] = False,
    spark: Annotated[str | None, given.SPARK] = None,
    jobs: Annotated[int, given.JOBS] = 1,
    head: Annotated[
        str | None, given.job_option(help="Refuse a ledger without this earlier high-water mark.")
    ] = None,
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
    from hushmeter.fleet import FleetTerms, JobOptions
    from hushmeter.fleet.job import InputFormat, parse_columns
    from hushmeter.noise.parameters import parse_clamp

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
        return terms, JobOptions(
            ledger,
            stream,
            parse_columns(columns),
            keep or (),
            InputFormat(unit, tz, decimal=decimal),
            None if interval is None else parse_interval(interval),
            jobs,
            resume,
            correct,
            dry_run,
            head,
        )

    run_job(
        JobFrame("fleet", source, output, log_format, metrics, spark), ask, _print_summary, json
    )


@dataclass(frozen=True)
class JobFrame:
    """A command, its folders, its log, and the cluster on which it runs."""

    command: str
    source: str
    output: Path
    log_format: str
    metrics: Path | None
    spark: str | None


def run_job(
    frame: JobFrame,
    ask: Callable[[], tuple[Terms, JobOptions]],
    show: Callable[[FleetRelease, Path], None],
    json: bool,
) -> None:
    """Release a fleet and print what was released; exit with code 1 if something was left out."""
    from hushmeter.fleet import release_fleet

    output = frame.output
    with logged_job(frame.command, frame.log_format, frame.metrics) as job:
        job.folders = (frame.source, str(output))
        terms, options = ask()
        with (
            explain_interrupt(output, job),
            scheduler(frame.spark, options.ledger) as schedule,
            row_progress("releasing") as advance,
        ):

            def report(file: FileReport, rows: int, total: int) -> None:
                advance(rows, total)
                job.note_file(file.state, file.rows, file.released_rows, rows, total)

            options = replace(options, report=report, schedule=schedule)
            done = release_fleet(frame.source, output, terms, options)
        _note_counts(job, done.manifest)
        if json:
            print_json(done.manifest)
        else:
            show(done, output)
        if not done.complete:
            if not job.is_json:
                sentence = _left_out(done.manifest, terms.period, output)
                typer.echo(f"hushmeter: {sentence}", err=True)
            raise typer.Exit(1)


@contextmanager
def explain_interrupt(output: Path, job: JobLog) -> Iterator[None]:
    """After Ctrl-C, print what is kept and how to continue; the exit code is 130."""
    try:
        yield
    except KeyboardInterrupt:
        if job.is_json:
            raise typer.Exit(INTERRUPTED) from None
        from hushmeter.fleet.output_folder import PrivateFolder

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


def scheduler(spark: str | None, ledger: str) -> AbstractContextManager[Schedule | None]:
    """Return the scheduler of a Spark cluster, or None for worker processes of this machine."""
    if spark is None:
        return nullcontext()
    from hushmeter.fleet.spark import cluster_schedule

    return cluster_schedule(spark, ledger)


def _note_counts(job: JobLog, facts: dict[str, Any]) -> None:
    """Log the counts of a manifest."""
    left, released = facts["quarantine"], facts["released_rows"]
    files = sum(bool(file["sha256"]) for file in facts["files"])
    job.note_counts(
        {"files": files, "readings": released, "periods": facts["released_blocks"]},
        {"files": left["files"], "readings": facts["rows"] - released, "periods": left["blocks"]},
        facts["charge"]["micro_epsilon"] / 1e6,
        dry_run=facts.get("dry_run", False),
    )


def _print_summary(done: FleetRelease, output: Path) -> None:
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
    print_promise(facts)
    print_end(facts, output)


def print_promise(facts: dict[str, Any]) -> None:
    """Print the unit of protection, its ε, and what the ledger charges."""
    from hushmeter.ledger.charges import Price, amount_text

    promise, charge = facts["promise"], facts["charge"]
    delta = f", δ = {promise['delta']:g}" if promise["delta"] else ""
    typer.echo(f"protected: {promise['unit']['sentence']}")
    typer.echo(f"at ε = {promise['epsilon']:.6g}{delta}")
    blocks = count_of(facts["released_blocks"], f"meter-{promise.get('period', 'day')}")
    price = amount_text(Price(charge["micro_epsilon"], charge["femto_delta"]))
    typer.echo(f"{'to be ' * facts.get('dry_run', False)}charged for each of {blocks}: {price}")
    typer.echo(f"for {charge['unit']}")


def print_end(facts: dict[str, Any], output: Path) -> None:
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
    from hushmeter.fleet.manifest import quarantine_file

    left = facts["quarantine"]
    blocks = count_of(left["blocks"], f"meter-{period}")
    files = count_of(left["files"], "whole file")
    parts = " and ".join(p for p, n in ((blocks, left["blocks"]), (files, left["files"])) if n)
    often = next(iter(left["reasons"]))
    if facts.get("dry_run", False):
        return f"{parts} would be left out at no cost; most often: {often}."
    return f"{parts} left out at no cost; most often: {often}; see {quarantine_file(output)}."
