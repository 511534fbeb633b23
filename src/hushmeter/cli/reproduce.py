"""`hushmeter reproduce`: the paper's figures and tables by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.output import print_json


def reproduce(
    item: Annotated[str, typer.Argument(help="fig2 … fig9, table1, or all.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of real data sets, instead of stand-ins.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and noise.")] = 0,
    seeds: Annotated[int, typer.Option(help="Releases of each kind, at least 2.")] = 5,
    readings: Annotated[
        int | None,
        typer.Option(help="Readings that are attacked; else 3000 of a stand-in, all of a set."),
    ] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Workers.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite earlier results.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reproduce a figure or table: picture, data behind it and caption.

    Without --data each item runs on its synthetic stand-in; with it on the real sets found there,
    as folders redd, ukdale, rae, refit, tracebase and homes, and on the stand-in for a set that is
    not. Each caption says what was used, what the paper claims, what was found and whether they
    agree.

    Example: hushmeter reproduce fig2 -o figures
    """
    from hushmeter.cli.progress import cell_progress
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.figures import ITEMS, Setting
    from hushmeter.study.figures import reproduce as make

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
    if json:
        print_json(made)
    else:
        typer.echo(f"Written to {output}")
