"""`hushmeter advise`: find the release that meets a privacy goal at the lowest cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    FIGURE,
    FORCE,
    HIDE,
    JSON,
    NO_HOME,
    ODDS,
    PURPOSE,
    SPAN,
    USE,
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
from hushmeter.errors import DataError, InputError

if TYPE_CHECKING:
    from hushmeter.advice.hiding import OwnUse, Plan
    from hushmeter.advice.options import Option
    from hushmeter.advice.planner import Advice
    from hushmeter.advice.tradeoff import Reach
    from hushmeter.home import Appliance, Home
    from hushmeter.read import ReadOptions, Recording
    from hushmeter.trace import Trace

MOST_ROWS = 8
"""Options in the table."""


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
    hide: Annotated[str | None, HIDE] = None,
    odds: Annotated[float, ODDS] = 0.6,
    purpose: Annotated[str | None, PURPOSE] = None,
    interval: Annotated[
        str, typer.Option(help="Length of a metered reading, without a file.")
    ] = "6s",
    span: Annotated[str | None, SPAN] = None,
    use: Annotated[str | None, USE] = None,
    run: Annotated[int | None, typer.Option(help="Length of a run in metered readings.")] = None,
    max_hourly_error: Annotated[
        float | None, typer.Option(help="Largest standard error of the hourly mean in watts.")
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(help="Largest standard error of what the data is for, in W or kWh."),
    ] = None,
    attacker: Annotated[str | None, ATTACKER] = None,
    energy_price: Annotated[
        float | None, typer.Option(help="Price of energy per kWh; the cost is then also money.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Find the release that hides an appliance at the lowest cost for what the data is for.

    An appliance is a name of `hushmeter catalogue`, or a name with its numbers; with --home or
    --have it is one of that home. The search covers readings as metered and of 1 to 60 minutes
    (for days, months and register values up to 24 hours) with Laplace, staircase and Gaussian
    noise, and the calendar release (release --views). It finds the largest ε at which the best
    possible attacker stays within the odds, and ranks the options by the standard error of an hour,
    a day, a month, an hour of the typical day (profile) or a register value. The values of the
    readings have no influence on the result; they are only compared with its cost.

    With a limit of the error (--max-hourly-error, or --max-error for what the data is for) and
    without --hide, the command lists what can be hidden within this error, and to which odds. With
    --attacker the odds are those that this attacker reaches on the file, which then needs a column
    of watts for each appliance of --home. Without --span one run is hidden, or one reading if the
    length of a run is unknown. With -o, the figure shows privacy against error for every purpose.

    Example: hushmeter advise meter.csv --hide kettle --odds 60 --for month -o advice.png

    Example: hushmeter advise --max-hourly-error 50
    """
    from hushmeter.checks import seconds
    from hushmeter.read import read_recording

    check_seed(seed)
    if file is not None and trace is not None:
        raise InputError("give the file of readings once, as FILE or with --trace.")
    source = file or trace
    recording = None if source is None else read_recording(source, options)
    readings = None if recording is None else recording.trace
    wanted: dict[str, Any] = {
        "purpose": purpose,
        "span": span,
        "use": use,
        "interval_s": seconds("interval", interval) if readings is None else readings.interval_s,
    }
    public, notes = _public_facts(recording)
    limits = {"max_hourly_error": max_hourly_error, "max_error": max_error}
    if energy_price is not None:
        wanted["price_per_kwh"] = energy_price
    if hide is None:
        if max_hourly_error is None and max_error is None:
            raise InputError(
                "say what to hide, such as --hide kettle, or the largest error of an hour, such as "
                "--max-hourly-error 50."
            )
        with show_activity("searching for what can be hidden", quiet=json):
            found = _reach(_all_appliances(home), limits, wanted, public)
        _print_reach(found, limits, wanted, odds, notes, json)
        return
    plan: Plan | None = None
    search: Callable[..., Advice]
    own: OwnUse | None = None
    local: tuple[str, ...] = ()
    files: list[str] = []
    reach: tuple[Reach, ...] = ()
    with show_activity(f"searching for ways to hide the {hide}", quiet=json):
        if attacker is None:
            plan = _plan(hide, odds, home, run, wanted | public | limits)
            advice, search = plan.advice, partial(_advice_at, plan, wanted | public)
        else:
            search = _measured_search(attacker, hide, home, readings, run, seed, wanted)
            advice = search(max_odds=odds, **limits)
        if readings is not None:
            own, local = _compare(advice, plan, readings)
        if not advice.feasible and attacker is None and advice.best.odds <= advice.goal.max_odds:
            assert plan is not None
            reach = _reach([plan.use], limits, wanted, public)
        if output is not None:
            files = _draw(advice, search, own, wanted["interval_s"], output, force)
    if json:
        print_json(
            {
                "advice": advice,
                "within_the_error": _reach_rows(reach),
                "own_use": local,
                "notes": notes,
                "files": files,
            }
        )
        return
    if reach:
        _explain_reach(reach, limits, wanted, odds)
        _print_options(advice)
        print_sentences(_needed_error(advice))
    else:
        if plan is not None and source is not None:
            print_sentences(*plan.promise, *local)
        _print_options(advice)
        _print_recommendation(advice, own, energy_price, brief=plan is not None and own is not None)
    print_sentences(*(f"Note: {note}" for note in notes))
    print_files(files)
    if plan is not None and source is not None and advice.feasible:
        print_sentences(f"Next: {_next(source, advice, wanted, hide, odds, options)}")


def _public_facts(recording: Recording | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a plan may know about the readings: times, time zone and how the meter rounds."""
    from hushmeter.advice.planner import FORMS, calendar_of

    if recording is None:
        return {"forms": FORMS}, ()
    trace = recording.trace
    facts: dict[str, Any] = {
        "forms": FORMS,
        "metering": trace.metering,
        "readings": len(trace),
        "zone": recording.public.zone or "UTC",
    }
    try:
        calendar = calendar_of(trace, trace.interval_s, facts["zone"])
    except DataError as error:
        facts["forms"] = ("series",)
        return facts, (f"The calendar release is not among the options: {error}",)
    # The errors are those of a month of 30 days, also if the file is shorter. Only the effect of a
    # register depends on the number of cells.
    if trace.metering.register_step_w:
        facts["calendar"] = calendar
    return facts, ()


def _plan(
    hide: str, odds: float, home: Home | None, run: int | None, wanted: dict[str, Any]
) -> Plan:
    """The plan that hides the named appliances."""
    from hushmeter.advice.hiding import enclose_uses, find_appliances, plan_to_hide
    from hushmeter.advice.planner import with_run

    use = enclose_uses(find_appliances(hide, home))
    if run is not None:
        use = with_run(use, run, wanted["interval_s"])
    return plan_to_hide(use, odds, **wanted)


def _advice_at(plan: Plan, wanted: dict[str, Any], *, max_odds: float, **changed: Any) -> Advice:
    """The advice of a plan at other odds, without a limit of the error."""
    from hushmeter.advice.hiding import plan_to_hide

    return plan_to_hide(plan.use, max_odds, **wanted | changed).advice


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

    def find(**changed: Any) -> Advice:
        return search(home, hide, **more | changed)

    return find


def _all_appliances(home: Home | None) -> list[Appliance]:
    """The appliances of the home, or those of the catalogue."""
    from hushmeter.appliance_kinds import catalogue
    from hushmeter.home import Appliance

    if home is not None:
        return list(home.appliances)
    return [Appliance.from_words(name) for name in catalogue]


def _reach(
    appliances: list[Appliance],
    limits: dict[str, float | None],
    wanted: dict[str, Any],
    public: dict[str, Any],
) -> tuple[Reach, ...]:
    """What can be hidden within the limit of the error."""
    from hushmeter.advice.tradeoff import find_reach

    error, purpose = _limit(limits, wanted["purpose"])
    rest = {name: wanted[name] for name in ("span", "use", "interval_s")}
    return find_reach(appliances, error, purpose, **rest, **public)


def _limit(limits: dict[str, float | None], purpose: str | None) -> tuple[float, str | None]:
    """The limit of the error, and the purpose that it is about."""
    hourly, error = limits["max_hourly_error"], limits["max_error"]
    if hourly is not None and error is not None and purpose not in (None, "hour"):
        raise InputError("give one limit of the error: --max-hourly-error or --max-error.")
    if hourly is not None:
        return (hourly if error is None else min(hourly, error)), "hour"
    assert error is not None
    return error, purpose


def _compare(advice: Advice, plan: Plan | None, readings: Trace) -> tuple[OwnUse, tuple[str, ...]]:
    """The own use, and sentences that set the cost beside it."""
    from hushmeter.advice.hiding import compare_plan, compare_with_use, describe_restoring

    own = compare_with_use(advice.best.errors, readings, advice.goal.purpose)
    if plan is None:
        return own, own.sentences
    return own, (*compare_plan(plan, readings), *describe_restoring(plan, readings))


def _next(
    file: Path,
    advice: Advice,
    wanted: dict[str, Any],
    hide: str,
    odds: float,
    options: ReadOptions,
) -> str:
    """The command that makes the release of this advice."""
    from shlex import quote

    command = f"hushmeter release {quote(str(file))} --hide {quote(hide)}"
    command += "" if odds in (60, 0.6) else f" --odds {odds:g}"
    for name in ("span", "use"):
        command += "" if wanted[name] is None else f" --{name} {quote(wanted[name])}"
    if advice.best.form == "calendar":
        command += " --views"
        if advice.best.name != "calendar":
            command += f" --hourly-cost {advice.best.hourly_cost:g}"
        return f"{command}{repeat_options(options)} -o shared"
    command += "" if advice.goal.purpose == "hour" else f" --for {advice.goal.purpose}"
    return f"{command}{repeat_options(options)} -o shared.csv"


def _print_options(advice: Advice) -> None:
    """Print the table of options: the standard error of every purpose."""
    from hushmeter.advice.purposes import PURPOSES
    from hushmeter.formatting import short_duration

    shown = [*advice.options[:MOST_ROWS]]
    # The calendar release and the best series are always compared.
    for form in ("series", "calendar"):
        others = [option for option in advice.options if option.form == form]
        if others and not any(option.form == form for option in shown):
            shown[-1:] = others[:1]
    rows = [
        (
            o.name,
            short_duration(o.every_s),
            f"{o.epsilon:.2g}",
            short_out_of_100(o.odds),
            "–" if o.unknown is None else short_out_of_100(o.unknown.odds),
            *(_number(o.errors.of(purpose)) for purpose in PURPOSES),
        )
        for o in shown
    ]
    head = ("release", "every", "ε", "odds", "blind", "hour", "day", "month", "typ.", "reg.")
    title = (
        f"Releases that meet the goal, best for {_word(advice)} first"
        if advice.feasible
        else "Releases that come nearest to the goal"
    )
    others = [o for o in shown if o.form == "calendar" and o.name != "calendar"]
    more = "".join(f" {o.name}: calendar with --hourly-cost {o.hourly_cost:g}." for o in others)
    print_table(
        f"{title}. Odds out of 100, and of an attacker to whom all times of the run are equally "
        "likely (blind); standard errors of an hour [W], a day [kWh], a month [kWh], an hour of "
        "the typical day [W] (typ.) and a register value [kWh] (reg.)."
        f"{more}",
        head,
        rows,
    )


def _word(advice: Advice) -> str:
    """What the data is for, in the plural."""
    words = {"profile": "the typical day", "register": "register values"}
    return words.get(advice.goal.purpose, f"{advice.goal.purpose}s")


def _number(value: float | None) -> str:
    """A number of a narrow column."""
    from hushmeter.formatting import format_two_digits

    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 9.95 else format_two_digits(value)


def _print_recommendation(
    advice: Advice, own: OwnUse | None, price: float | None, *, brief: bool
) -> None:
    """Print the recommendation; `brief` if its promise and its cost were printed before."""
    from hushmeter.advice.sentences import (
        describe_bill,
        describe_largest,
        describe_option,
        recommend,
    )

    if not brief:
        print_sentences(*recommend(advice, own, price), *describe_largest(advice))
        return
    bill = "" if price is None else f"; {describe_bill(advice.best, price)}"
    print_sentences(
        f"The first row is the cheapest for {_word(advice)}: {describe_option(advice.best)}{bill}.",
        *describe_largest(advice),
    )


def _needed_error(advice: Advice) -> str:
    """The error that the wanted odds need, where a limit of the error does not allow them."""
    from hushmeter.advice.purposes import PURPOSES
    from hushmeter.formatting import out_of_100

    hourly = advice.goal.max_hourly_error is not None
    purpose = PURPOSES["hour" if hourly else advice.goal.purpose]
    errors = [option.errors.of(purpose.name) for option in advice.options]
    least = min((error for error in errors if error is not None), default=None)
    if least is None:
        return f"No release of these readings shows {purpose.subject}."
    return (
        f"To hide it to {out_of_100(advice.goal.max_odds)} out of 100, accept a standard error of "
        f"{purpose.text(least)} in {purpose.subject}."
    )


def _explain_reach(
    reach: tuple[Reach, ...], limits: dict[str, float | None], wanted: dict[str, Any], odds: float
) -> None:
    """Print what can be hidden within the limit of the error."""
    from hushmeter.advice.planner import odds_share
    from hushmeter.advice.purposes import choose_purpose
    from hushmeter.advice.sentences import explain_reach

    error, purpose = _limit(limits, wanted["purpose"])
    chosen = choose_purpose(purpose, wanted["interval_s"])
    print_sentences(*explain_reach(reach, error, chosen, odds_share(odds)))


def _print_reach(
    reach: tuple[Reach, ...],
    limits: dict[str, float | None],
    wanted: dict[str, Any],
    odds: float,
    notes: tuple[str, ...],
    json: bool,
) -> None:
    """Print which appliances can be hidden within the limit of the error, and to which odds."""
    from hushmeter.advice.hiding import use_energy_wh
    from hushmeter.formatting import format_watt_hours, format_watts, short_duration

    if json:
        print_json({"within_the_error": _reach_rows(reach), "notes": notes})
        return
    _explain_reach(reach, limits, wanted, odds)

    def row(use: Appliance, option: Option) -> tuple[str, ...]:
        energy = "–" if use.protected_run_s is None else format_watt_hours(use_energy_wh(use))
        blind = "–" if option.unknown is None else short_out_of_100(option.unknown.odds)
        return (
            use.name,
            format_watts(use.protected_power),
            energy,
            short_out_of_100(option.odds),
            blind,
            f"{option.name} {short_duration(option.every_s)}, ε {option.epsilon:.2g}",
        )

    rows = [row(entry.appliance, entry.option) for entry in reach if entry.option is not None]
    if rows:
        print_table(
            "How often the best attacker is right, out of 100, if the time of the run is known and "
            "if all times are equally likely (blind); a coin is right 50 times.",
            ("appliance", "power", "energy", "odds", "blind", "release"),
            rows,
        )
    visible = [entry.appliance.name for entry in reach if entry.option is None]
    if visible and rows:
        print_sentences(f"Within this error nothing hides these: {', '.join(visible)}.")
    print_sentences(*(f"Note: {note}" for note in notes))


def _reach_rows(reach: tuple[Reach, ...]) -> list[dict[str, Any]]:
    """What can be hidden within the limit of the error, as JSON."""
    return [
        {"appliance": entry.appliance.name, "odds": entry.odds, "option": entry.option}
        for entry in reach
    ]


def _draw(
    advice: Advice,
    search: Callable[..., Advice],
    own: OwnUse | None,
    interval_s: float,
    output: Path,
    force: bool,
) -> list[str]:
    """Draw privacy against error for every purpose, and write the numbers behind the figure."""
    from hushmeter.advice.purposes import PURPOSES
    from hushmeter.advice.tradeoff import find_front
    from hushmeter.plot.figure import figure_place, save_figure
    from hushmeter.plot.price import draw_front

    front = find_front(search, interval_s)
    goal = advice.goal
    folder, name = figure_place(output, "advice")
    points = [
        (line, odds, errors)
        for line in front
        for odds, errors in zip(line.odds, line.errors, strict=True)
    ]
    data: dict[str, list[Any]] = {
        "release": [line.form for line, _, _ in points],
        "every_s": [line.every_s for line, _, _ in points],
        "odds": [odds for _, odds, _ in points],
    }
    for purpose in PURPOSES.values():
        data[f"standard_error_{purpose.field}"] = [e.of(purpose.name) for _, _, e in points]
    span = "the time of a run" if goal.span == "when" else f"one {goal.span}"
    title = f"Hiding {span} of the {goal.appliance}: privacy against error"
    figure = draw_front(front, goal, None if own is None else own.mean_w, title)
    paths = save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]
