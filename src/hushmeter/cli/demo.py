"""`hushmeter demo`: what one simulated household reveals, and what is left after a release."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, JSON, OPEN, check_seed
from hushmeter.cli.output import print_json, print_list, print_sentences, show_activity

if TYPE_CHECKING:
    from hushmeter.report.demo import Demo

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

    from hushmeter.checks import whole
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.demo import METER, PAGE, WISHES, make_demo

    whole("days", days, least=FEWEST_DAYS)
    check_seed(seed)
    for name in (PAGE, METER, *WISHES):
        refuse_overwrite(output / name, force)
    with show_activity("starting", quiet=json) as note:
        made = make_demo(output, days=days, seed=seed, force=force, note=note)
    if json:
        _print_json(made)
    else:
        _print(made)
    if show:
        webbrowser.open(made.page.resolve().as_uri())


def _print_json(made: Demo) -> None:
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


def _print(made: Demo) -> None:
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
    typer.echo(_next(made.page))


def _next(page: Path) -> str:
    """Return the path of the page and the commands to try with the files of the demo."""
    from importlib.util import find_spec
    from shutil import which

    from hushmeter.report.demo import METER, ZONE

    lines = ["", f"The page: {page.resolve()}", "Open it in a browser. What to try next:"]
    if which("hushmeter") is None:
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}")
    meter = page.parent / METER
    lines += [
        f"  hushmeter inspect {meter} --tz {ZONE}",
        f"  hushmeter advise {meter} --tz {ZONE} --hide kettle",
    ]
    if find_spec("fastapi") is None:
        lines.append('  pip install ".[web]"')
    return "\n".join([*lines, "  hushmeter serve --open"])
