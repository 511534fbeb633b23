"""`hushmeter demo`, `sweep`, `reproduce` and `report`: a story, studies, figures, reports."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    FORCE,
    JOBS,
    JSON,
    OPEN,
    check_seed,
)
from hushmeter.cli.output import (
    cell_progress,
    print_files,
    print_json,
    print_list,
    print_sentences,
    print_table,
    show_activity,
)
from hushmeter.errors import InputError
from hushmeter.formatting import spread_out

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.apps.study.report.demo import Demo


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
    from hushmeter.apps.study.sweep import move_study, run_study
    from hushmeter.files import write_text

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
        _print_scores(table)
        print_files(files)
    for message in failed:
        typer.echo(f"hushmeter: a cell failed: {message}", err=True)
    if failed:
        raise typer.Exit(1)


def _print_scores(table: pd.DataFrame) -> None:
    if "alpha" not in table:
        return
    means = table.groupby(["home", "mechanism", "attacker", "epsilon"], sort=False)[
        ["alpha", "alpha_floor", "f1"]
    ].mean()
    for (home, mechanism), part in means.groupby(level=[0, 1], sort=False):
        attackers = part.index.unique(level="attacker")
        room = (WIDTH - max(map(len, attackers))) // CELL
        values = sorted(part.index.unique(level="epsilon"), reverse=True)
        epsilons = spread_out(values, max(2, room))
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
    from hushmeter.apps.study.report.page import collect_results, missing_results, write_report
    from hushmeter.files import refuse_overwrite

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


def reproduce(
    *,
    item: Annotated[
        str, typer.Argument(metavar="ITEM", help="fig2 … fig9, table1, appliances or all.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder of real data sets, instead of synthetic stand-ins."),
    ] = None,
    readings: Annotated[
        int | None,
        typer.Option(
            help="Number of attacked readings; default: 3000 of a stand-in, all of a set."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of releases of each kind, at least 2.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of data and noise.")] = 0,
    jobs: Annotated[int, JOBS] = 1,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Reproduce a figure or table of the paper: the picture, the data behind it and a caption.

    Without --data each item uses a synthetic stand-in. With --data it uses the real data sets in
    the folders redd, ukdale, rae, refit, tracebase and homes, and the stand-in for a missing set.
    Each caption states the data, the paper's claim, the finding, and whether they agree. The item
    appliances, which the paper names as future work, shows each appliance on its own.

    Example: hushmeter reproduce fig2 -o figures
    """
    from hushmeter.apps.study.figures import ITEMS, Setting
    from hushmeter.apps.study.figures import reproduce as make
    from hushmeter.files import refuse_overwrite

    check_seed(seed)
    wanted = list(ITEMS) if item == "all" else [item]
    for name in wanted:
        refuse_overwrite(output / f"{name}.txt", force)
    made = []
    for name in wanted:
        with cell_progress(name, quiet=json) as report:
            setting = Setting(seed, seeds, readings, jobs, data, report)
            artefact = make(name, setting)
        files = artefact.save(output, force=force)
        made.append({"item": name, "caption": artefact.caption, "files": list(map(str, files))})
        if not json:
            typer.echo(artefact.caption)
            print_files(files)
    if json:
        print_json(made)


FEWEST_DAYS = 21
"""Days that the picture and the habits of a household need."""


def demo(
    days: Annotated[int, typer.Option(help="Number of days of the household.")] = 56,
    seed: Annotated[int, typer.Option(help="Seed of the household and of the noise.")] = 2,
    show: Annotated[bool, OPEN] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the page and its data.")
    ] = Path("demo-report"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show what eight weeks of a simulated household reveal, and what is left after a release.

    The readings are released in two ways: as exact days, which hide when people get up, and as
    hours with noise, which hide a kettle. The folder contains the page, the readings, both
    releases with their receipts, and the picture with its data.

    Example: hushmeter demo -o demo-report --open
    """
    import webbrowser

    from hushmeter.apps.study.report.demo import METER, PAGE, WISHES, make_demo
    from hushmeter.checks import whole
    from hushmeter.files import refuse_overwrite

    whole("days", days, least=FEWEST_DAYS)
    check_seed(seed)
    for name in (PAGE, METER, *WISHES):
        refuse_overwrite(output / name, force)
    with show_activity("starting", quiet=json) as note:
        made = make_demo(output, days=days, seed=seed, force=force, note=note)
    if json:
        _print_demo_json(made)
    else:
        _print_demo(made)
    if show:
        webbrowser.open(made.page.resolve().as_uri())


def _print_demo_json(made: Demo) -> None:
    """Print what is left of every statement in each release, and the files, as JSON."""
    shared = [
        {
            "hide": one.wish,
            "sentences": one.release.promise.sentences,
            "month": one.month,
            "left": [asdict(statement) for statement in one.left],
        }
        for one in made.shared
    ]
    print_json({"days": made.days, "shared": shared, "files": made.files})


def _print_demo(made: Demo) -> None:
    """Print what the readings show, what is left of it, and what it costs."""
    names = [one.folder.name for one in made.shared]
    print_list(
        f"What {made.days} days of half hours of a simulated household reveal, and what is left of "
        f"it in {' and in '.join(names)}:",
        [
            f"{before} "
            f"({'; '.join(f'{n}: {one.verdict}' for n, one in zip(names, found, strict=True))})"
            for before, found in made.rows
        ],
    )
    for one in made.shared:
        typer.echo(f"\n{one.folder.name}: {one.command}")
        print_sentences(*one.release.promise.sentences, f"A month: {one.month}.")
    typer.echo(_next_steps(made.page))


def _next_steps(page: Path) -> str:
    """Return the path of the page and the commands to try with the files of the demo."""
    from importlib.util import find_spec
    from shutil import which

    from hushmeter.apps.study.report.demo import METER, ZONE

    lines = ["", f"The page: {page.resolve()}", "Open it in a browser. What to try next:"]
    if which("hushmeter") is None:
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}")
    meter = page.parent / METER
    lines += [
        f"  hushmeter inspect {meter} --tz {ZONE}",
        f"  hushmeter advise {meter} --tz {ZONE} --hide kettle",
    ]
    if find_spec("fastapi") is None:
        lines.append('  pip install ".[page]"')
    return "\n".join([*lines, "  hushmeter serve --open"])
