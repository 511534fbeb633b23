"""`hushmeter report`: one page of all results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import FORCE, JSON
from hushmeter.cli.output import print_json, print_sentences


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
