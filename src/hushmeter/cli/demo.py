"""`hushmeter demo`: one synthetic day, released at four ε, attacked, explained on a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FORCE, JSON, OPEN, check_seed
from hushmeter.cli.output import (
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
    show_activity,
)
from hushmeter.report.demo import (
    EPSILONS,
    HIDE,
    HOME,
    MAX_ODDS,
    PAGE,
    READINGS_PER_DAY,
    WRITTEN,
)
from hushmeter.study import COMPARED

if TYPE_CHECKING:
    from hushmeter.report.demo import Demo


def demo(
    readings: Annotated[
        int, typer.Option(help="Number of readings of 6 s to attack; a day has 14400.")
    ] = READINGS_PER_DAY,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic day.")] = 1,
    show: Annotated[bool, OPEN] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the page and its data.")
    ] = Path("demo-report"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Release one day of a synthetic home at four ε, attack it, and describe it on a page.

    The attackers learn from the day before. The folder contains everything that the page uses:
    the study and its results, the readings, the home, a release with its receipt, and pictures.

    Example: hushmeter demo -o demo-report --open
    """
    import webbrowser

    from hushmeter.checks import whole
    from hushmeter.files import refuse_overwrite
    from hushmeter.report.demo import make_demo

    whole("readings", readings)
    check_seed(seed)
    for name in (PAGE, *WRITTEN):
        refuse_overwrite(output / name, force)
    with show_activity("starting", quiet=json) as note:
        made = make_demo(output, readings=readings, seed=seed, note=note)
    if json:
        _print_json(made)
    else:
        _print(made)
    if show:
        webbrowser.open(made.page.resolve().as_uri())


def _print_json(made: Demo) -> None:
    """Print the scores, the attacked days, the advice and the files as JSON."""
    columns = ["alpha", "alpha_floor", "f1", "monthly_bill_error"]
    table = made.results.sweeps[0].table
    means = table.groupby(["attacker", "epsilon"], sort=False)[columns].mean()
    print_json(
        {
            "home": HOME,
            "attackers": means.reset_index().to_dict("records"),
            "days": [day.content for day in made.results.days],
            "advice": made.advice,
            "files": [made.page, *(made.page.parent / name for name in WRITTEN)],
        }
    )


def _print(made: Demo) -> None:
    """Print what the file shows, how to hide it, what that costs, and what is left to attackers."""
    from hushmeter.report.results import rate_appliances
    from hushmeter.report.sections import as_metered, mean_utility

    sweep = made.results.sweeps[0]
    found = rate_appliances(sweep, HOME, "laplace", made.results.guesses)
    metered = as_metered(found, made.results.days, HOME)
    rows = [
        (
            row.name,
            short_out_of_100(row.guess),
            short_out_of_100(metered[row.name]),
            *(short_out_of_100(row.best[epsilon].right) for epsilon in EPSILONS),
        )
        for row in found
    ]
    costs = mean_utility(sweep.table, HOME, "laplace")
    bills = (f"{costs[epsilon].monthly_bill_error:.2f}" for epsilon in EPSILONS)
    rows.append(("error of a month's bill", "", "0", *bills))
    head = ("right about the …", "no data", "no noise", *(f"ε = {e:g}" for e in EPSILONS))
    title = (
        "What is left: in how many out of 100 moments somebody is right about an appliance, with "
        f"the best of {len(COMPARED)} attackers or with a guess without data, whichever is "
        "better, if every reading of 6 s is released with a chosen ε."
    )
    _print_story(made.page.parent / "meter.csv", made.page.parent / "home.toml")
    print_table(title, head, rows)
    print_sentences(f"ε protects {made.released.promise.unit.sentence}.")
    typer.echo(_next(made.page))


def _print_story(file: Path, home: Path) -> None:
    """Print what one file shows, how to hide one appliance in it, and what that costs."""
    from hushmeter.advice.sentences import compare_promise
    from hushmeter.home import read_home
    from hushmeter.learn.inspection import inspect_recording
    from hushmeter.privacy.units import metered
    from hushmeter.read import read_home_recording
    from hushmeter.releases.request import Request

    recording = read_home_recording(file)
    trace = recording.trace
    shown = inspect_recording(recording).to_dict()["regime_sentence"]
    request, facts = Request(hide=HIDE, odds=MAX_ODDS, home=read_home(home)), metered(trace)
    promise = request.resolve(facts)
    print_sentences(
        f"The file: {file}, {len(trace)} readings of {trace.interval_s:g} s of a synthetic home.",
        f"What shows: {shown}",
        *promise.sentences,
        f"What it costs: {' '.join(compare_promise(request, promise, facts, trace))}",
        f"How: hushmeter release {file} --home {home} --hide {HIDE} -o shared",
    )


def _next(page: Path) -> str:
    """Return the path of the page and the commands to try with the files of the demo."""
    from importlib.util import find_spec
    from shutil import which

    lines = ["", f"The page: {page.resolve()}", "Open it in a browser. What to try next:"]
    if which("hushmeter") is None:
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}")
    folder = page.parent
    lines += [
        f"  hushmeter inspect {folder / 'meter.csv'}",
        f"  hushmeter advise {folder / 'meter.csv'} --hide kettle",
    ]
    if find_spec("fastapi") is None:
        lines.append('  pip install ".[web]"')
    return "\n".join([*lines, "  hushmeter serve --open"])
