"""`python -m experiments NAME`: make the tables and figures of the documentation again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments import write_results
from hushmeter.errors import HushmeterError, InputError
from hushmeter.files import refuse_overwrite

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

DATA = typer.Option("--data", help="Folder of the real data sets.")
OUTPUT = typer.Option("-o", "--output", help="Folder for the results.")
FORCE = typer.Option("--force", help="Replace existing files.")
SEEDS = typer.Option(help="Number of releases of each kind.")
SEED = typer.Option(help="Seed of data and noise.")


@app.command()
def real_mains(
    data: Annotated[Path, DATA],
    output: Annotated[Path, OUTPUT],
    attacker: Annotated[
        list[str] | None, typer.Option("-a", "--attacker", help="Only this attacker.")
    ] = None,
    every: Annotated[
        list[str] | None, typer.Option(help="Interval, such as 1min or 15min; may be repeated.")
    ] = None,
    readings: Annotated[int | None, typer.Option(help="Number of attacked readings.")] = None,
    seeds: Annotated[int, SEEDS] = 5,
    training_seeds: Annotated[int, typer.Option(help="Trainings of each network.")] = 2,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Run attackers on the real mains of all homes in a folder (docs/attackers.md).

    The noise has five sizes. The experiment takes several minutes per home.
    """
    from experiments.real_mains import ATTACKERS, markdown, run_benchmark, save_benchmark
    from hushmeter.checks import seconds

    _check_folder(data)
    refuse_overwrite(output / "real-mains.csv", force)
    table = run_benchmark(
        data,
        names=attacker or ATTACKERS,
        intervals=[seconds("every", text) for text in every or ["1min"]],
        seeds=seeds,
        training_seeds=training_seeds,
        readings=readings,
        note=_note,
    )
    _print_made(markdown(table), save_benchmark(table, output, force=force))


@app.command()
def options(
    output: Annotated[Path, OUTPUT],
    data: Annotated[Path | None, DATA] = None,
    receipts: Annotated[
        Path | None, typer.Option(help="Keep one release of each kind with its receipts here.")
    ] = None,
    seeds: Annotated[int, SEEDS] = 5,
    seed: Annotated[int, SEED] = 0,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Compare the kinds of release for every purpose (docs/mechanisms.md).

    A kettle, a heat pump and a car charger are hidden to 60 out of 100, with independent noise and
    in a calendar release, both also restored.
    """
    from experiments.release_options import compare_options, options_markdown, read_homes

    if data is not None:
        _check_folder(data)
    refuse_overwrite(output / "options.csv", force)
    homes = read_homes(data, seed)
    table = compare_options(homes, draws=seeds, seed=seed, receipts=receipts, note=_note)
    _finish("options", table, options_markdown(table), output, force)


@app.command()
def meter_effects(
    output: Annotated[Path, OUTPUT],
    seeds: Annotated[int, SEEDS] = 5,
    seed: Annotated[int, SEED] = 0,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Measure what a meter error of 5 % and solar panels do to attackers (docs/attackers.md)."""
    from experiments.meter_effects import compare_meters, meters_markdown

    refuse_overwrite(output / "meter-effects.csv", force)
    table = compare_meters(seeds=seeds, seed=seed, note=_note)
    _finish("meter-effects", table, meters_markdown(table), output, force)


@app.command()
def reproduction(
    stand_ins: Annotated[Path, typer.Argument(help="Results of `hushmeter reproduce all`.")],
    real: Annotated[Path, typer.Argument(help="The same with --data.")],
    docs: Annotated[Path, typer.Argument(help="The folder of the documentation.")],
) -> None:
    """Make docs/reproduction.md and docs/figures from saved figures and tables."""
    from experiments.reproduction_page import make_page

    make_page(stand_ins, real, docs)


@app.command()
def lone_meter(
    save: Annotated[bool, typer.Option("--save", help="Write it into docs/findings.md.")] = False,
) -> None:
    """Measure precision and recall of every statement about a lone meter (docs/findings.md)."""
    from experiments.lone_meter import make_table, save_table

    text = make_table()
    typer.echo(text)
    if save:
        save_table(text)


@app.command()
def threats(
    save: Annotated[bool, typer.Option("--save", help="Write it into docs/threats.md.")] = False,
    homes: Annotated[int, typer.Option(help="Number of simulated homes.")] = 16,
    seeds: Annotated[int, SEEDS] = 3,
) -> None:
    """Measure what others learn about a household from releases (docs/threats.md)."""
    from experiments.threats import make_table, markdown, write_page

    text = markdown(make_table(homes=homes, seeds=seeds))
    typer.echo(text)
    if save:
        write_page(text)


def _check_folder(data: Path) -> None:
    if not data.is_dir():
        raise InputError(f"{data} is not a folder; name the folder of the data sets.")


def _note(words: str) -> None:
    typer.echo(words, err=True)


def _finish(item: str, table: pd.DataFrame, caption: str, output: Path, force: bool) -> None:
    """Write the table and the caption of an experiment, and print the caption and the files."""
    _print_made(caption, write_results(output, item, table, caption, force=force))


def _print_made(caption: str, files: list[Path]) -> None:
    typer.echo(caption)
    for file in files:
        typer.echo(file)


def main() -> None:
    """Run one experiment; an error of the data is one sentence."""
    try:
        app(standalone_mode=True)
    except HushmeterError as error:
        raise SystemExit(f"experiments: {error}") from None


if __name__ == "__main__":
    main()
