"""`hushmeter advise`: find the release that meets a privacy goal at the lowest cost."""

from __future__ import annotations

from dataclasses import asdict
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
    as_rare,
    check_seed,
    rare_option,
    repeat_given,
    repeat_options,
    takes_reader_options,
    takes_request,
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
from hushmeter.parts import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from hushmeter.advice import Advice, Option, Reach
    from hushmeter.advice.sentences import OwnUse
    from hushmeter.appliance import Appliance
    from hushmeter.privacy.units import Metered
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request
    from hushmeter.trace import Trace

MOST_ROWS = 8
"""Options in the table."""

WISH = ("odds", "span", "use", "purpose", "mechanism", "every", "views", "hourly_cost", "delta")
"""Options of a wish beside --hide, in the order in which the next command repeats them."""


@takes_reader_options()
@takes_request(*WISH)
def advise(
    context: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Your file; the cost is compared with your use."),
    ] = None,
    request: Request,
    hide: Annotated[str | None, HIDE] = None,
    interval: Annotated[
        str, rare_option(help="Length of a metered reading, without a file.")
    ] = "6s",
    run: Annotated[int | None, rare_option(help="Length of a run in metered readings.")] = None,
    max_hourly_error: Annotated[
        float | None, typer.Option(help="Largest standard error of the hourly mean in watts.")
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(help="Largest standard error of what the data is for, in W or kWh."),
    ] = None,
    attacker: Annotated[str | None, as_rare(ATTACKER)] = None,
    energy_price: Annotated[
        float | None, rare_option(help="Price of energy per kWh; the cost is then also money.")
    ] = None,
    seed: Annotated[int, rare_option(help="Seed of the simulations.")] = 0,
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
    from hushmeter.advice import advise as find_advice
    from hushmeter.advice import find_reach, public_facts, with_run
    from hushmeter.checks import seconds
    from hushmeter.privacy.units import refuse_unknown_rounding
    from hushmeter.read import read_recording

    check_seed(seed)
    recording = None if file is None else read_recording(file, options)
    trace = None if recording is None else recording.trace
    zone = "UTC" if recording is None else recording.public.zone or "UTC"
    facts, forms, notes = public_facts(trace or seconds("interval", interval), zone)
    if trace is not None:
        refuse_unknown_rounding(request.span or "run", trace.metering)
    limit, purpose = _limit(max_hourly_error, max_error, request.purpose)
    limited = request.with_changes(purpose=purpose)
    if hide is None:
        if limit is None:
            raise InputError(
                "say what to hide, such as --hide kettle, or the largest error of an hour, such as "
                "--max-hourly-error 50."
            )
        with show_activity("searching for what can be hidden", quiet=json):
            found = find_reach(request.appliances, limit, limited, facts, forms=forms)
        if json:
            print_json({"within_the_error": _reach_rows(found), "notes": notes})
        else:
            _print_reach(found, limit, limited, facts, notes)
        return
    request = request.with_changes(hide=hide)
    if run is not None:
        request = request.with_changes(hide=with_run(request.member, run, facts.interval_s))
    settings: dict[str, Any] = {} if energy_price is None else {"price_per_kwh": energy_price}
    told: dict[str, None] = {}
    with show_activity(f"searching for ways to hide the {hide}", quiet=json):
        if attacker is not None:
            settings["odds_of"] = _measure(attacker, request, file, options, seed, told)
        search: Callable[..., Advice] = partial(find_advice, metered=facts, **settings)
        limits = {"max_hourly_error": max_hourly_error, "max_error": max_error}
        advice = search(request, forms=forms, **limits)
        own, local = (None, ()) if trace is None else _compare(advice, request, facts, trace)
        reach: tuple[Reach, ...] = ()
        if limit and not (advice.feasible or attacker or advice.best.odds > advice.goal.max_odds):
            reach = find_reach([request.member], limit, limited, facts, forms=forms)
        files = [] if output is None else _draw(advice, request, search, own, output, force)
    notes = (*notes, *told)
    if json:
        _print_json(advice, reach, local, notes, files)
        return
    own_file = file if attacker is None else None
    if reach:
        _explain_reach(reach, limit or 0.0, limited, facts)
        _print_options(advice)
        print_sentences(_needed_error(advice))
    else:
        if own_file is not None:
            print_sentences(*advice.promise.sentences)
            _print_odds(advice)
            print_sentences(*local)
        _print_options(advice)
        _print_recommendation(advice, own, energy_price, brief=own_file is not None)
    print_sentences(*(f"Note: {note}" for note in notes))
    print_files(files)
    if own_file is not None and advice.feasible:
        given = repeat_given(context, "hide", "home", "have", *WISH)
        print_sentences(
            f"Next: {_next(own_file, advice, request, given + repeat_options(options))}"
        )


def _limit(
    hourly: float | None, error: float | None, purpose: str | None
) -> tuple[float | None, str | None]:
    """The limit of the error, if there is one, and the purpose that it is about."""
    if hourly is not None and error is not None and purpose not in (None, "hour"):
        raise InputError("give one limit of the error: --max-hourly-error or --max-error.")
    given = [limit for limit in (hourly, error) if limit is not None]
    return min(given, default=None), purpose if hourly is None else "hour"


def _measure(
    attacker: str,
    request: Request,
    file: Path | None,
    options: ReadOptions,
    seed: int,
    told: dict[str, None],
) -> Callable[..., float]:
    """A function that measures the odds of an attacker on the circuits of a file."""
    from hushmeter.advice import measure_with
    from hushmeter.read import read_home_recording

    if request.home is None:
        raise InputError(NO_HOME)
    truth = None
    if file is not None:
        # An attacker is measured on the truth of the circuits; everything else is the meter's.
        truth = request.home.label(read_home_recording(file, options, need_circuits=False).trace)
    return measure_with(attacker, request.home, request.member.name, truth, seed, told=told)


def _compare(
    advice: Advice, request: Request, facts: Metered, trace: Trace
) -> tuple[OwnUse, tuple[str, ...]]:
    """The own use, and sentences that set the cost beside it."""
    from hushmeter.advice.sentences import compare_promise, compare_with_use, describe_restoring

    promise = advice.promise
    own = compare_with_use(advice.best.errors, trace, advice.goal.purpose)
    if promise.joint:
        request = request.with_changes(
            tables=promise.words, hourly_cost=promise.hourly_cost, mechanism=None
        )
    sentences = compare_promise(request, promise, facts, trace)
    return own, (*sentences, *describe_restoring(promise, trace))


def _next(file: Path, advice: Advice, request: Request, given: str) -> str:
    """The command that makes the release of this advice."""
    from shlex import quote

    command = f"hushmeter release {quote(str(file))}{given}"
    if advice.best.form != "calendar" and request.purpose is not None:
        # One series is best for this purpose; a folder has hours, days and months.
        return f"{command} -o shared.csv"
    if not request.several and advice.best.name.startswith("cal."):
        command += f" --views --hourly-cost {advice.best.hourly_cost:g}"
    return f"{command} -o shared"


def _print_json(
    advice: Advice,
    reach: tuple[Reach, ...],
    local: tuple[str, ...],
    notes: tuple[str, ...],
    files: list[str],
) -> None:
    """Print the options, and the promise of the first one, as JSON."""
    from hushmeter.releases.receipt import describe_promise

    print_json(
        {
            "advice": advice,
            "promise": describe_promise(advice.promise),
            "within_the_error": _reach_rows(reach),
            "own_use": local,
            "notes": notes,
            "files": files,
        }
    )


def _print_odds(advice: Advice) -> None:
    """Print how often the best attacker is right about what, if there are several things."""
    from hushmeter.releases.receipt import ODDS_TITLE, odds_lines

    guesses = advice.promise.guesses
    if len(guesses) > 1:
        title = ODDS_TITLE[0].upper() + ODDS_TITLE[1:]
        typer.echo("\n".join([title, *odds_lines(asdict(guess) for guess in guesses)]))


def _print_options(advice: Advice) -> None:
    """Print the table of options: the standard error of every purpose."""
    from hushmeter.formatting import short_duration
    from hushmeter.releases.purposes import PURPOSES

    if len(advice.options) == 1:
        return
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
    title = f"Releases that meet the goal, best for {_word(advice)} first"
    if advice.best.name == "calendar" and advice.goal.purpose == "hour":
        title = f"Releases that meet the goal: the usual one, then those best for {_word(advice)}"
    if not advice.feasible:
        title = "Releases that come nearest to the goal"
    others = [o for o in shown if o.name.startswith("cal.")]
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
        describe_release,
        recommend,
    )

    if not brief:
        print_sentences(*recommend(advice, own, price), *describe_largest(advice))
        return
    bill = "" if price is None else f"; {describe_bill(advice.best, price)}"
    print_sentences(
        f"These numbers are for {describe_release(advice.best)}{bill}.", *describe_largest(advice)
    )


def _needed_error(advice: Advice) -> str:
    """The error that the wanted odds need, where a limit of the error does not allow them."""
    from hushmeter.formatting import out_of_100
    from hushmeter.releases.purposes import PURPOSES

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
    reach: tuple[Reach, ...], limit: float, request: Request, facts: Metered
) -> None:
    """Print what can be hidden within the limit of the error."""
    from hushmeter.advice.sentences import explain_reach

    assert request.odds is not None
    print_sentences(*explain_reach(reach, limit, request.for_purpose(facts), request.odds))


def _print_reach(
    reach: tuple[Reach, ...],
    limit: float,
    request: Request,
    facts: Metered,
    notes: tuple[str, ...],
) -> None:
    """Print which appliances can be hidden within the limit of the error, and to which odds."""
    from hushmeter.formatting import format_watt_hours, format_watts, short_duration
    from hushmeter.releases.request import use_energy_wh

    _explain_reach(reach, limit, request, facts)

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
    request: Request,
    search: Callable[..., Advice],
    own: OwnUse | None,
    output: Path,
    force: bool,
) -> list[str]:
    """Draw privacy against error for every purpose, and write the numbers behind the figure."""
    from hushmeter.advice import find_front
    from hushmeter.releases.labels import HOURLY_COST
    from hushmeter.releases.purposes import PURPOSES

    def advise_at(forms: tuple[str, ...], **changes: Any) -> Advice:
        wish = request.with_changes(tables=(), hourly_cost=HOURLY_COST, **changes)
        return search(wish, forms=forms)

    plot, pictures = (load(name, "a picture") for name in ("plot", "plot.advice"))
    front = find_front(advise_at, advice.promise.unit.interval_s)
    goal = advice.goal
    folder, name = plot.figure_place(output, "advice")
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
    figure = pictures.draw_front(front, goal, None if own is None else own.mean_w, title)
    paths = plot.save_figure(figure, folder, name, data, force=force)
    return [str(path) for path in paths.values()]
