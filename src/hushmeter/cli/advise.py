"""`hushmeter advise`: find the release that meets a privacy goal at the lowest cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    ENERGY_PRICE,
    FIGURE,
    FORCE,
    JSON,
    SPAN,
    check_seed,
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

if TYPE_CHECKING:
    from hushmeter.advice.planner import Advice
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions

FRONT = (0.51, 0.53, 0.56, 0.6, 0.65, 0.7, 0.8, 0.9)


@takes_reader_options()
@takes_home()
def advise(
    *,
    home: Home,
    hide: Annotated[str, typer.Option(help="The appliance to hide.")],
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Any file of readings; it gives the interval.")
    ] = None,
    interval: Annotated[
        str, typer.Option(help="Length of a metered reading, without --trace.")
    ] = "6s",
    max_odds: Annotated[
        float,
        typer.Option(
            help="How often the best attacker may be right: 0.6, or 60 out of 100; a coin is 0.5."
        ),
    ] = 0.6,
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

    The search covers readings as metered and of 1 to 60 minutes, with Laplace, staircase and
    Gaussian noise. It finds the largest ε at which the best possible attacker stays within the
    odds. With --attacker the odds are those that this attacker reaches on --trace, which then needs
    a column of watts for each appliance. Without --span one run is hidden, or one reading if the
    home does not give the length of a run.

    Example: hushmeter advise --home evening --hide kettle --max-odds 0.6 -o advice.png
    """
    from hushmeter.advice.planner import advise as search
    from hushmeter.checks import seconds
    from hushmeter.read import read_recording

    check_seed(seed)
    readings = None if trace is None else read_recording(trace, options).trace
    if readings is not None and attacker is not None:
        readings = home.label(readings)
    wanted: dict[str, Any] = {
        "span": span,
        "run": run,
        "interval_s": seconds("interval", interval) if readings is None else readings.interval_s,
        "max_hourly_error": max_hourly_error,
        "price_per_kwh": energy_price,
        "attacker": attacker,
        "trace": readings,
        "seed": seed,
    }
    files = []
    with show_activity(f"searching for ways to hide the {hide}", quiet=json):
        advice = search(home, hide, max_odds=max_odds, **wanted)
        if output is not None:
            wanted |= {"mechanisms": (advice.best.mechanism,), "max_hourly_error": None}
            front = [search(home, hide, max_odds=odds, **wanted) for odds in FRONT]
            files = _draw(advice, front, output, force)
    if json:
        print_json({"advice": advice, "files": files})
    else:
        _print(advice, files)


def _print(advice: Advice, files: list[str]) -> None:
    from hushmeter.advice.sentences import explain
    from hushmeter.formatting import format_watts, short_duration

    rows = [
        (
            o.mechanism,
            short_duration(o.every_s),
            f"{o.epsilon:.3g}",
            short_out_of_100(o.odds),
            format_watts(o.cost.reading_w),
            format_watts(o.cost.hourly_w),
            f"{o.cost.daily_kwh:.2g} kWh",
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
