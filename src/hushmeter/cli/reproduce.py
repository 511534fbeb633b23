"""`hushmeter reproduce`: reproduce the paper's figures and tables by their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, JOBS, JSON, check_seed
from hushmeter.cli.output import cell_progress, print_files, print_json
from hushmeter.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def reproduce(
    *,
    item: Annotated[
        str,
        typer.Argument(
            metavar="ITEM",
            help="fig2 … fig9, table1, appliances, all, real-mains, options or meter-effects.",
        ),
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
    every: Annotated[
        list[str] | None,
        typer.Option(help="For real-mains: interval, such as 1min or 15min; may be repeated."),
    ] = None,
    attacker: Annotated[
        list[str] | None, typer.Option("-a", "--attacker", help="For real-mains: only this one.")
    ] = None,
    receipts: Annotated[
        Path | None,
        typer.Option(help="For options: keep one release of each kind with its receipts here."),
    ] = None,
    training_seeds: Annotated[
        int, typer.Option(help="For real-mains: number of trainings of each network.")
    ] = 2,
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

    The item real-mains is not in the paper: it runs attackers on the real mains of all homes in the
    folder --data, with noise of five sizes, and writes one table and one figure. It takes several
    minutes per home.

    The item options is not in the paper either: it hides a kettle, a heat pump and a car charger to
    60 out of 100, with independent noise and in a calendar release, both also restored, and
    measures the errors of an hour, a day, a month, the typical day and a register value on a
    synthetic home and on the homes in the folder --data.

    The item meter-effects measures what a meter error of 5 % and solar panels, the two cases that
    the paper leaves out, do to the accuracy of four attackers on a synthetic home.

    Example: hushmeter reproduce fig2 -o figures

    Example: hushmeter reproduce real-mains --data homes --seeds 3 -o benchmark
    """
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.figures import ITEMS, Setting
    from hushmeter.study.figures import reproduce as make

    check_seed(seed)
    if item == "real-mains":
        counts = (seeds, training_seeds, readings)
        _real_mains(data, attacker, every, counts, output, force=force, json=json)
        return
    if item == "options":
        _options(data, seeds, seed, receipts, output, force=force, json=json)
        return
    if item == "meter-effects":
        _meter_effects(seeds, seed, output, force=force, json=json)
        return
    if receipts is not None:
        raise InputError("--receipts is for the item options.")
    if attacker or every:
        raise InputError("--attacker and --every are for the item real-mains.")
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


def _real_mains(
    data: Path | None,
    names: list[str] | None,
    every: list[str] | None,
    counts: tuple[int, int, int | None],
    output: Path,
    *,
    force: bool,
    json: bool,
) -> None:
    """Run the benchmark on real mains and write its table and its figure."""
    from hushmeter.checks import seconds
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.real_mains import ATTACKERS, markdown, run_benchmark, save_benchmark

    if data is None or not data.is_dir():
        raise InputError("real-mains needs --data DIR, the folder of sub-metered homes.")
    refuse_overwrite(output / "real-mains.csv", force)
    table = run_benchmark(
        data,
        names=names or ATTACKERS,
        intervals=[seconds("every", text) for text in every or ["1min"]],
        seeds=counts[0],
        training_seeds=counts[1],
        readings=counts[2],
        note=lambda words: typer.echo(words, err=True),
    )
    files = save_benchmark(table, output, force=force)
    _print_made("real-mains", markdown(table), files, json=json)


def _options(
    data: Path | None,
    draws: int,
    seed: int,
    receipts: Path | None,
    output: Path,
    *,
    force: bool,
    json: bool,
) -> None:
    """Compare the kinds of release for every purpose and write the table."""
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.release_options import compare_options, find_homes, options_markdown

    if data is not None and not data.is_dir():
        raise InputError(f"{data} is not a folder; name the folder of the data sets.")
    refuse_overwrite(output / "options.csv", force)
    table = compare_options(
        find_homes(data, seed),
        draws=draws,
        seed=seed,
        receipts=receipts,
        note=lambda words: typer.echo(words, err=True),
    )
    _finish("options", table, options_markdown(table), output, force=force, json=json)


def _meter_effects(seeds: int, seed: int, output: Path, *, force: bool, json: bool) -> None:
    """Measure what a meter error and solar panels do to attackers, and write the table."""
    from hushmeter.files import refuse_overwrite
    from hushmeter.study.meter_effects import compare_meters, meters_markdown

    refuse_overwrite(output / "meter-effects.csv", force)
    table = compare_meters(seeds=seeds, seed=seed, note=lambda words: typer.echo(words, err=True))
    _finish("meter-effects", table, meters_markdown(table), output, force=force, json=json)


def _finish(
    item: str, table: pd.DataFrame, caption: str, output: Path, *, force: bool, json: bool
) -> None:
    """Write the table and the caption of a study, and print the caption and the files."""
    from hushmeter.files import write_results

    _print_made(item, caption, write_results(output, item, table, caption, force=force), json=json)


def _print_made(item: str, caption: str, files: list[Path], *, json: bool) -> None:
    """Print a caption and the written files."""
    if json:
        print_json({"item": item, "caption": caption, "files": list(map(str, files))})
    else:
        typer.echo(caption)
        print_files(files)
