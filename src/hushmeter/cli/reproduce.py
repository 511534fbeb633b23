"""`hushmeter reproduce`: reproduce the paper's figures and tables by their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import FORCE, JOBS, JSON, check_seed
from hushmeter.cli.output import cell_progress, print_files, print_json


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
