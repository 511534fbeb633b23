"""`hushmeter demo`: one synthetic day, released at four ε, attacked, explained on a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli import demo_files as files
from hushmeter.cli.demo_files import ATTACKERS, EPSILONS, HOME, READINGS_PER_DAY
from hushmeter.cli.options import FORCE, JSON, OPEN, check_seed
from hushmeter.cli.output import (
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
    show_activity,
)

if TYPE_CHECKING:
    import pandas as pd

    from hushmeter.advice.planner import Advice
    from hushmeter.releases.series import Release
    from hushmeter.report.collect import Results


def demo(
    readings: Annotated[
        int, typer.Option(help="Readings of 6 s to attack; a day has 14400.")
    ] = READINGS_PER_DAY,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic day.")] = 1,
    show: Annotated[bool, OPEN] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the page and its data.")
    ] = Path("demo-report"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Release one day of a synthetic home at four ε, attack it, and tell it on a page.

    The attackers learn from the day before. All that the page rests on is in the folder:
    the study and its results, the readings, the home, a release with its receipt, pictures.

    Example: hushmeter demo -o demo-report --open
    """
    import webbrowser

    from hushmeter.checks import whole
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.collect import collect_results
    from hushmeter.report.page import write_report
    from hushmeter.study.plan import read_study

    whole("readings", readings)
    check_seed(seed)
    page = output / "index.html"
    for name in ("index.html", *files.WRITTEN):
        refuse_overwrite(output / name, force)
    files.clear_sweep(output)
    files.write_study(output, seed, readings)
    with show_activity("making a day", quiet=json) as now:
        case = read_study(output / "study.toml").cases[0]
        files.write_inputs(case, output)
        now(f"attacking the day at four ε with {len(ATTACKERS)} attackers")
        files.sweep_day(output)
        now("looking at the day as metered and as released")
        released = files.look_at_day(case, seed, output)
        now("searching for the cheapest way to hide the kettle")
        advice = files.advise_household(case.home, case.test, output)
        now("writing the page")
        found = collect_results([output / name for name in files.FOR_THE_PAGE])
        write_report(found, page, force=True)
    if json:
        _print_json(found, advice, page)
    else:
        _print(found, released, advice, page)
    if show:
        webbrowser.open(page.resolve().as_uri())


def _print_json(found: Results, advice: Advice, page: Path) -> None:
    table = found.sweeps[0].table
    means = _means(table)
    print_json(
        {
            "home": HOME,
            "attackers": means.reset_index().to_dict("records"),
            "days": [day.content for day in found.days],
            "advice": advice,
            "files": [page, *(page.parent / name for name in files.WRITTEN)],
        }
    )


def _means(table: pd.DataFrame) -> pd.DataFrame:
    columns = ["alpha", "alpha_floor", "f1", "monthly_bill_error"]
    return table.groupby(["attacker", "epsilon"], sort=False)[columns].mean()


def _print(found: Results, released: Release, advice: Advice, page: Path) -> None:
    """Who is followed at which ε, what it costs, and where the page is."""
    from hushmeter.advice.sentences import explain
    from hushmeter.report.cost import mean_utility
    from hushmeter.report.sights import look

    sweep = found.sweeps[0]
    metered = next(day.content["score"] for day in found.days if day.content["epsilon"] is None)
    seen = {a["name"]: a["alpha"] for a in metered["per_appliance"]}
    rows = [
        (
            row.name,
            short_out_of_100(row.guess),
            short_out_of_100(seen[row.name]),
            *(short_out_of_100(row.sights[epsilon].right) for epsilon in EPSILONS),
        )
        for row in look(sweep, HOME, "laplace", found.guesses)
    ]
    costs = mean_utility(sweep.table, HOME, "laplace")
    bills = (f"{costs[epsilon].monthly_bill_error:.2f}" for epsilon in EPSILONS)
    rows.append(("bill a month off by", "", "0", *bills))
    head = ("right about the …", "no data", "metered", *(f"ε = {e:g}" for e in EPSILONS))
    title = f"“{HOME}”: the best of {len(ATTACKERS)} attackers, right of 100 moments"
    print_table(title, head, rows)
    print_sentences(f"ε protects {released.private.sentence}.", explain(advice)[0])
    typer.echo(_next(page))


def _next(page: Path) -> str:
    """Where to look, and what to try with the files that are there now."""
    from importlib.util import find_spec
    from shutil import which

    lines = ["", f"The page: {page.resolve()}", "Open it in a browser. What to try next:"]
    if which("hushmeter") is None:
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}")
    folder = page.parent
    lines += [
        f"  hushmeter inspect {folder / 'meter.csv'}",
        f"  hushmeter advise --home {folder / 'home.toml'} --hide kettle",
    ]
    if find_spec("fastapi") is None:
        lines.append('  pip install ".[web]"')
    return "\n".join([*lines, "  hushmeter serve --open"])
