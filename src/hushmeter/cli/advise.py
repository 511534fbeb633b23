"""`hushmeter advise`: find the release that meets a privacy goal at the lowest cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    ENERGY_PRICE,
    FIGURE,
    FORCE,
    HIDE,
    JSON,
    NO_HOME,
    ODDS,
    PURPOSE,
    SPAN,
    check_seed,
    repeat_options,
    takes_home,
    takes_reader_options,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
    print_table,
    short_out_of_100,
    show_activity,
)
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.advice.hiding import Plan
    from hushmeter.advice.planner import Advice
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.trace import Trace

FRONT = (0.51, 0.53, 0.56, 0.6, 0.65, 0.7, 0.8, 0.9)


@takes_reader_options()
@takes_home(required=False)
def advise(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Your file; the cost is compared with your use."),
    ] = None,
    home: Home | None,
    trace: Annotated[Path | None, typer.Option("--trace", help="The same as FILE.")] = None,
    hide: Annotated[str, HIDE],
    odds: Annotated[float, ODDS] = 0.6,
    purpose: Annotated[str, PURPOSE] = "hour",
    interval: Annotated[
        str, typer.Option(help="Length of a metered reading, without a file.")
    ] = "6s",
    span: Annotated[str | None, SPAN] = None,
    run: Annotated[int | None, typer.Option(help="Length of a run in metered readings.")] = None,
    max_hourly_error: Annotated[
        float | None, typer.Option(help="Largest error of the hourly mean in watts.")
    ] = None,
    attacker: Annotated[str | None, ATTACKER] = None,
    energy_price: Annotated[float, ENERGY_PRICE] = 0.30,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Find the resolution, the noise and the ε that hide an appliance at the lowest cost.

    An appliance is a name of `hushmeter catalogue`, or a name with its numbers; with --home or
    --have it is one of that home. The search covers readings as metered and of 1 to 60 minutes,
    for a day or a month up to 24 hours, with Laplace, staircase and Gaussian noise. It finds the
    largest ε at which the best possible attacker stays within the odds. The values of the readings
    have no influence on the result; they are only compared with its cost. With --attacker the odds
    are those that this attacker reaches on the file, which then needs a column of watts for each
    appliance of --home. Without --span one run is hidden, or one reading if the length of a run is
    unknown.

    Example: hushmeter advise meter.csv --hide kettle --odds 60 -o advice.png
    """
    from hushmeter.checks import seconds
    from hushmeter.read import read_recording

    check_seed(seed)
    if file is not None and trace is not None:
        raise InputError("give the file of readings once, as FILE or with --trace.")
    source = file or trace
    readings = None if source is None else read_recording(source, options).trace
    wanted: dict[str, Any] = {
        "purpose": purpose,
        "span": span,
        "interval_s": seconds("interval", interval) if readings is None else readings.interval_s,
        "max_hourly_error": max_hourly_error,
        "price_per_kwh": energy_price,
    }
    plan: Plan | None = None
    search: Callable[..., Advice]
    local: tuple[str, ...] = ()
    files: list[str] = []
    with show_activity(f"searching for ways to hide the {hide}", quiet=json):
        if attacker is None:
            plan = _plan(hide, odds, home, readings, run, wanted)
            advice, search = plan.advice, partial(_search_again, plan, readings, wanted)
        else:
            search = _measured_search(attacker, hide, home, readings, run, seed, wanted)
            advice = search(odds)
        if readings is not None:
            local = _compare(advice, plan, readings)
        if output is not None:
            front = [search(odds, mechanisms=(advice.best.mechanism,)) for odds in FRONT]
            files = _draw(advice, front, output, force)
    if json:
        print_json({"advice": advice, "own_use": local, "files": files})
        return
    if plan is not None and source is not None:
        print_sentences(*plan.promise, *local)
    _print(advice, files, brief=plan is not None and source is not None)
    if plan is not None and source is not None and advice.feasible:
        print_sentences(f"Next: {_next(source, hide, odds, purpose, options)}")


def _plan(
    hide: str,
    odds: float,
    home: Home | None,
    readings: Trace | None,
    run: int | None,
    wanted: dict[str, Any],
) -> Plan:
    """The plan that hides the named appliances."""
    from dataclasses import replace

    from hushmeter.advice.hiding import enclose_uses, find_appliances, plan_to_hide
    from hushmeter.checks import whole

    use = enclose_uses(find_appliances(hide, home))
    if run is not None:
        length = whole("run", run) * wanted["interval_s"]
        use = replace(use, run_s=length, run_high_s=None, energy_wh=None)
    return plan_to_hide(use, odds, **wanted, **_public_facts(readings))


def _search_again(
    plan: Plan,
    readings: Trace | None,
    wanted: dict[str, Any],
    odds: float,
    mechanisms: Sequence[str],
) -> Advice:
    """The advice of a plan at other odds, without a limit of the error."""
    from hushmeter.advice.hiding import plan_to_hide

    free = wanted | {"max_hourly_error": None, "mechanisms": mechanisms}
    return plan_to_hide(plan.use, odds, **free, **_public_facts(readings)).advice


def _public_facts(readings: Trace | None) -> dict[str, Any]:
    """What a plan may know about the readings: how the meter rounds, and how many there are."""
    if readings is None:
        return {}
    return {"metering": readings.metering, "readings": len(readings)}


def _measured_search(
    attacker: str,
    hide: str,
    home: Home | None,
    readings: Trace | None,
    run: int | None,
    seed: int,
    wanted: dict[str, Any],
) -> Callable[..., Advice]:
    """A search with the odds that an attacker reaches on the file."""
    from hushmeter.advice.planner import advise as search

    if home is None:
        raise InputError(NO_HOME)
    truth = None if readings is None else home.label(readings)
    more = {**wanted, "attacker": attacker, "trace": truth, "run": run, "seed": seed}

    def find(odds: float, **changed: Any) -> Advice:
        return search(home, hide, max_odds=odds, **more | changed)

    return find


def _compare(advice: Advice, plan: Plan | None, readings: Trace) -> tuple[str, ...]:
    """Sentences that set the cost beside the own use of the file."""
    from hushmeter.advice.hiding import compare_plan, compare_with_use

    if plan is not None:
        return compare_plan(plan, readings)
    return compare_with_use(advice.best.cost, readings, advice.goal.purpose).sentences


def _next(file: Path, hide: str, odds: float, purpose: str, options: ReadOptions) -> str:
    """The command that makes the release of this advice."""
    from shlex import quote

    command = f"hushmeter release {quote(str(file))} --hide {quote(hide)}"
    command += "" if odds in (60, 0.6) else f" --odds {odds:g}"
    command += "" if purpose == "hour" else f" --for {purpose}"
    return f"{command}{repeat_options(options)} -o shared.csv"


def _print(advice: Advice, files: list[str], *, brief: bool) -> None:
    """Print the table of options and, unless `brief`, what the best of them means."""
    from hushmeter.advice.sentences import describe_option, explain
    from hushmeter.formatting import format_two_digits, format_watts, short_duration

    rows = [
        (
            o.mechanism,
            short_duration(o.every_s),
            f"{o.epsilon:.3g}",
            short_out_of_100(o.odds),
            format_watts(o.cost.reading_w),
            format_watts(o.cost.hourly_w),
            f"{format_two_digits(o.cost.daily_kwh)} kWh",
            f"{o.cost.monthly_bill:.2f}",
        )
        for o in advice.options[:8]
    ]
    head = ("noise", "every", "ε", "odds", "reading", "hour", "day", "bill")
    title = (
        "Releases that meet the goal, cheapest first"
        if advice.feasible
        else "Releases that come nearest to the goal"
    )
    columns = "odds out of 100; mean error of a reading, an hour, a day and the bill of a month"
    print_table(f"{title}: {columns}", head, rows)
    if brief:
        print_sentences(f"The first row is the cheapest: {describe_option(advice.best)}.")
    else:
        print_sentences(*explain(advice))
    print_files(files)


def _draw(advice: Advice, front: list[Advice], output: Path, force: bool) -> list[str]:
    from hushmeter.plot.figure import figure_place, save_figure
    from hushmeter.plot.price import draw_advice

    goal = advice.goal
    title = f"Hiding the {goal.appliance} over one {goal.span}: what it costs"
    folder, name = figure_place(output, "advice")
    data = {
        "mechanism": [o.mechanism for o in advice.options],
        "every_s": [o.every_s for o in advice.options],
        "epsilon": [o.epsilon for o in advice.options],
        "odds": [o.odds for o in advice.options],
        "hourly_error_w": [o.cost.hourly_w for o in advice.options],
    }
    figure = draw_advice(advice, front, title)
    paths = save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]
