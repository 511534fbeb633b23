"""`hushmeter sweep` and `hushmeter report`: run a study, and one page of all results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, JOBS, JSON
from hushmeter.cli.output import (
    cell_progress,
    print_files,
    print_json,
    print_sentences,
    print_table,
)

if TYPE_CHECKING:
    import pandas as pd

WIDTH, CELL = 76, 13
"""Columns of a terminal beside the frame, and of one “0.123/0.45”."""


def sweep(
    *,
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study, as TOML.")],
    jobs: Annotated[int, JOBS] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a sweep that was stopped.")
    ] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    json: Annotated[bool, JSON] = False,
) -> None:
    """Run every attacker at every ε, mechanism, home and seed, and write one row for each.

    The results do not depend on the number of workers. The exit code is 1 if a row failed; the
    other rows are written nevertheless.

    Example: hushmeter sweep study.toml -j 2 -o results
    """
    from hushmeter.files import write_text
    from hushmeter.study.definition import move_study
    from hushmeter.study.sweep import run_study

    with cell_progress("attacking", quiet=json) as report:
        table = run_study(study, output, jobs=jobs, resume=resume, report=report)
    write_text(output / "study.toml", move_study(study, output), force=True)
    _print_results(table, output, json)


def _print_results(table: pd.DataFrame, output: Path, json: bool) -> None:
    files = [output / name for name in ("results.parquet", "manifest.json", "study.toml")]
    failed = [] if "error" not in table else sorted(set(table["error"].dropna()))
    if json:
        print_json({"rows": len(table), "failed": failed, "files": files})
    else:
        _print(table)
        print_files(files)
    for message in failed:
        typer.echo(f"hushmeter: a cell failed: {message}", err=True)
    if failed:
        raise typer.Exit(1)


def _print(table: pd.DataFrame) -> None:
    if "alpha" not in table:
        return
    means = table.groupby(["home", "mechanism", "attacker", "epsilon"], sort=False)[
        ["alpha", "alpha_floor", "f1"]
    ].mean()
    for (home, mechanism), part in means.groupby(level=[0, 1], sort=False):
        attackers = part.index.unique(level="attacker")
        room = (WIDTH - max(map(len, attackers))) // CELL
        epsilons = _some(sorted(part.index.unique(level="epsilon"), reverse=True), max(2, room))
        rows = []
        for attacker in attackers:
            found = part.xs((home, mechanism, attacker))
            rows.append(
                (
                    str(attacker),
                    *(f"{found.at[e, 'alpha']:.3f}/{found.at[e, 'f1']:.2f}" for e in epsilons),
                )
            )
        floor = float(part["alpha_floor"].mean())
        title = f"{home}, {mechanism}: α/F1 against ε (everything off: α {floor:.3f})"
        print_table(title, ("attacker", *(f"{e:g}" for e in epsilons)), rows)
    # A study in which the attackers do not know the first state has no floor that needs it.
    if table["hold_floor"].notna().any():
        print_sentences("The attackers know the true state at the first reading.")


def _some(values: list[float], most: int) -> list[float]:
    """At most a given number of the values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS", help="Folders with results, and the TOML files of studies."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Describe the results of sweeps, figures, releases, batteries and prices on one page.

    The page is one HTML file that needs no network. It has parts for the household, for the
    analyst and for the reader of the paper. The end of the page names what is missing.

    Example: hushmeter report results figures study.toml -o report.html
    """
    from hushmeter.errors import InputError
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.page import missing_results, write_report
    from hushmeter.report.results import collect_results

    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{output} must end in .html.")
    refuse_overwrite(output, force)
    found = collect_results(results)
    sections = write_report(found, output, force=force)
    missing = missing_results(found)
    if json:
        counts = {name: len(entries) for name, entries in vars(found).items()}
        titles = [section.title for section in sections]
        answer = {"sections": titles, "found": counts, "missing": missing, "files": [output]}
        print_json(answer)
        return
    for section in sections:
        typer.echo(f"  {section.title}")
    for what, command in missing:
        print_sentences(f"The results do not include {what} ({command}).")
    typer.echo(f"The page: {output.resolve()}")
