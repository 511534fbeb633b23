"""`hushmeter data`: the paper's segments out of a local copy of the data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import FORCE, JSON
from hushmeter.cli.output import print_files, print_json


def data(
    segment: Annotated[str, typer.Argument(metavar="SEGMENT", help="ukdale4, teald or redd1.")],
    root: Annotated[Path, typer.Option("--root", help="Folder (or file) of the data set.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the home and its readings.")
    ] = None,
    real_mains: Annotated[
        bool, typer.Option("--real-mains", help="Keep the metered mains, not the sum.")
    ] = False,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Cut a segment of the paper out of a data set, learn its home, compare with the paper.

    Example: hushmeter data redd1 --root redd/low_freq -o redd1
    """
    from hushmeter.cli.learn import describe, draw
    from hushmeter.files import refuse_overwrite
    from hushmeter.learn.segments import cut_segment, find_segment

    find_segment(segment)
    files: list[str] = []
    if output is not None:
        for name in ("home.toml", "readings.parquet", "home.png", "home.svg", "home.csv"):
            refuse_overwrite(output / name, force)
    result = cut_segment(segment, root, denoised=not real_mains)
    if output is not None:
        from hushmeter.write import write_meter

        result.learnt.home.save(output / "home.toml", force=force)
        write_meter(output / "readings.parquet", result.learnt.trace, force=force)
        pictures = draw(result.learnt, result.trace, output / "home.toml", force)
        files = [str(output / "home.toml"), str(output / "readings.parquet"), *pictures]
    if json:
        told = describe(result.learnt, result.recording)
        print_json({"segment": segment, "findings": result.findings, **told, "files": files})
        return
    typer.echo(f"{segment}: {result.recording.format}; meter: {result.learnt.mains}.")
    for sentence in (*result.findings, *result.recording.notes, *result.learnt.notes):
        typer.echo(sentence)
    print_files(files)
