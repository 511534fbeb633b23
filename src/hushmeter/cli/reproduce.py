"""`hushmeter reproduce`: the paper's figures and tables by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.output import print_json


def reproduce(
    item: Annotated[str, typer.Argument(help="fig2 … fig9, table1, or all.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")],
    seed: Annotated[int, typer.Option(help="Seed of data and noise.")] = 0,
    seeds: Annotated[int, typer.Option(help="Releases of each kind.")] = 5,
    readings: Annotated[int, typer.Option(help="Readings that are attacked.")] = 3000,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Workers.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite earlier results.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reproduce a figure or table on its synthetic stand-in: picture, data and caption.

    Each caption says what the paper claims, what was found and whether they agree.

    Example: hushmeter reproduce fig2 -o figures
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.figures import ITEMS, Setting
    from hushmeter.study.figures import reproduce as make

    wanted = list(ITEMS) if item == "all" else [item]
    for name in wanted:
        refuse_overwrite(output / f"{name}.txt", force)
    setting = Setting(seed=seed, seeds=seeds, readings=readings, jobs=jobs)
    made = []
    for name in wanted:
        artefact = make(name, setting)
        files = artefact.save(output, force=force)
        made.append({"item": name, "caption": artefact.caption, "files": list(map(str, files))})
        if not json:
            typer.echo(artefact.caption)
    if json:
        print_json(made)
    else:
        typer.echo(f"Written to {output}")
