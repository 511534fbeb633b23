"""`hushmeter reproduce`: the paper's figures and tables by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import FORCE, JOBS, JSON, check_seed
from hushmeter.cli.output import cell_progress, print_files, print_json


def reproduce(
    *,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="fig2 … fig9, table1, or all.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of real data sets, instead of stand-ins.")
    ] = None,
    readings: Annotated[
        int | None,
        typer.Option(help="Readings that are attacked; else 3000 of a stand-in, all of a set."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Releases of each kind, at least 2.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of data and noise.")] = 0,
    jobs: Annotated[int, JOBS] = 1,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Reproduce a figure or table: picture, data behind it and caption.

    Without --data each item runs on its synthetic stand-in; with it on the real sets found there,
    as folders redd, ukdale, rae, refit, tracebase and homes, and on the stand-in for a set that is
    not. Each caption says what was used, what the paper claims, what was found and whether they
    agree.

    Example: hushmeter reproduce fig2 -o figures
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.figures import ITEMS, Setting
    from hushmeter.study.figures import reproduce as make

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
