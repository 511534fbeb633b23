"""`hushmeter battery` and `hushmeter price`: a battery that makes noise, and what ε is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    ENERGY_PRICE,
    EPSILONS,
    FIGURE,
    FILE,
    FORCE,
    HIDE,
    JSON,
    NO_HOME,
    PURPOSE,
    as_rare,
    check_seed,
    parse_epsilon_range,
    parse_numbers,
    rare_option,
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
    with_bar,
)
from hushmeter.errors import DataError, InputError, UnknownNameError

if TYPE_CHECKING:
    from hushmeter.battery import Battery
    from hushmeter.battery.guarantee import BatteryCase, Guarantee, Sizing, Upkeep
    from hushmeter.home import Home
    from hushmeter.price import Buyer, Menu
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request
    from hushmeter.releases.restore import Estimate
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace

EVERY_TOLERANCE = 0.1
"""Largest relative difference between --every and the multiple of the interval that is used."""

FIGURES = ("battery", "controllers", "exposure", "sizing")


@takes_reader_options()
@takes_request("epsilon", "mechanism", "appliance", "span", "every", "delta", mechanism="laplace")
def battery(
    *,
    file: Annotated[Path, FILE],
    request: Request,
    capacity: Annotated[float, typer.Option(help="Usable capacity in kWh.")],
    power: Annotated[float, typer.Option(help="Charging power in kW.")],
    discharge: Annotated[
        float | None, rare_option(help="Discharging power in kW; default: the charging power.")
    ] = None,
    efficiency: Annotated[float, rare_option(help="Efficiency of a round trip, up to 1.")] = 0.9,
    charge: Annotated[float, rare_option(help="Share of the capacity stored at the start.")] = 0.5,
    away: Annotated[
        str | None, rare_option(help="Hours in which an electric vehicle is away: 8-17 or 22-6.")
    ] = None,
    trip: Annotated[float, rare_option(help="Energy of a vehicle's daily trips in kWh.")] = 0.0,
    controller: Annotated[str, typer.Option(help="direct, reserved or lookahead.")] = "direct",
    interval: Annotated[
        str | None, rare_option(help="Interval at which the battery acts; default: the meter's.")
    ] = None,
    horizon: Annotated[str, typer.Option(help="Period over which the guarantee holds.")] = "1d",
    max_failure: Annotated[
        float,
        rare_option(help="Largest failure probability for which the size table is computed."),
    ] = 0.01,
    days: Annotated[int, rare_option(help="Number of horizons to simulate.")] = 1000,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Show the result of a battery that is too small.")
    ] = False,
    attacker: Annotated[str, as_rare(ATTACKER)] = "co",
    energy_price: Annotated[float, as_rare(ENERGY_PRICE)] = 0.30,
    battery_price: Annotated[float, rare_option(help="Price of a battery, money per kWh.")] = 400.0,
    seed: Annotated[int, rare_option(help="Seed of the simulations.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the figures.")
    ] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Simulate a battery that puts the noise on the meter: guarantee (ε, δ̂), sizes and cost.

    ε holds only while the battery can follow its noise. δ̂ is the probability that the battery
    cannot follow at some reading of the horizon. If the file has a column of watts for each
    appliance, an attacker attacks the meter without and with the battery.

    Example: hushmeter battery meter.csv --home evening -e 1 --capacity 10 --power 5
    --appliance kettle --span run --every 30min -o battery/
    """
    from hushmeter.battery import Battery, choose_control, control_grid, operate
    from hushmeter.battery.guarantee import BatteryCase, Prices, expect_year, horizon_readings
    from hushmeter.checks import seconds
    from hushmeter.files import json_text, refuse_overwrite, write_text
    from hushmeter.plot import save_figures
    from hushmeter.plot.adopters import draw_battery
    from hushmeter.privacy.units import metered, with_longest_runs

    check_seed(seed)
    if output is not None:
        for name in FIGURES:
            refuse_overwrite(output / f"{name}.png", force)
    prices = Prices(energy_price, battery_price)
    acts = None if interval is None else seconds("interval", interval)
    hours = None if away is None else _read_hours(away)
    store = Battery(capacity, power, discharge, efficiency, charge, acts or 6.0, hours, trip)
    if request.home is None:
        raise InputError(NO_HOME)
    known, trace = _read_house(file, request.home, options)
    request = request.with_changes(
        home=with_longest_runs(known, trace), every=_fit_every(request.every, trace, quiet=json)
    )
    facts = metered(trace)
    unit = request.unit(facts)
    load = trace if unit.window == 1 else trace.coarsen(unit.window * unit.interval_s)
    store = _fit_interval(store, acts, load)
    load = store.at_home(load, options.tz or "UTC")
    period = min(seconds("horizon", horizon), store.home_hours * 3600) if away else horizon
    control = choose_control(controller, horizon_readings(period, load.interval_s))
    noise = request.with_changes(grid=control_grid(control, unit)).resolve(facts).noise
    mechanism, delta = noise.name, float(request.delta)
    case = BatteryCase(known, load, unit, noise, store, control, prices, max_failure, seed)
    with show_activity(f"simulating {days} horizons", quiet=json) as now:
        found = case.assess(days, delta)
        if not anyway:
            case.refuse_hopeless(found, mechanism, delta)
        now("sizing batteries")
        year = expect_year(noise, store, prices)
        table = case.size(mechanism, delta)
        now("attacking the meter")
        done = operate(load, store, noise, control, rng=seed)
        scores = case.attack(done, attacker)
        answer = _describe_battery(case, found, year, table, scores)
        now("drawing")
        files = []
        if output is not None:
            pictures = draw_battery(case, done, scores, table, attacker)
            files = save_figures(pictures, output, force=force)
            write_text(output / "battery.json", json_text(answer), force=force)
            files.append(str(output / "battery.json"))
    if json:
        print_json({**answer, "files": files})
    else:
        _print_sizes(case, answer, files)


def _read_hours(text: str) -> tuple[float, float]:
    """Two hours of the day, such as 8-17 or 7:30-16."""
    try:
        start, end = (
            int(hour) + int(minutes or 0) / 60
            for hour, _, minutes in (part.partition(":") for part in text.split("-"))
        )
    except ValueError:
        raise InputError(
            f"--away takes two hours of the day, such as 8-17, got {text!r}."
        ) from None
    return start, end


def _read_house(file: Path, home: Home, options: ReadOptions) -> tuple[Home, Trace]:
    """The home and the trace, with true states if the file has every appliance of the home."""
    from hushmeter.read import read_home_recording

    known, trace = home, read_home_recording(file, options, need_circuits=False).trace
    labelled = trace.power is not None and set(known.names) <= set(trace.names or ())
    return known, known.label(trace) if labelled else trace


def _fit_every(every: float | str | None, trace: Trace, *, quiet: bool) -> float | None:
    """The whole multiple of the metered interval nearest to --every, with a note if they differ."""
    from hushmeter.checks import seconds
    from hushmeter.trace import nearest_multiple

    if every is None:
        return None
    nearest = nearest_multiple(every, trace.interval_s, tolerance=EVERY_TOLERANCE)
    if abs(nearest - seconds("every", every)) > 1e-6 * nearest and not quiet:
        print_sentences(
            f"The meter's interval of {trace.interval_s:g} s does not divide {every}; means over "
            f"{nearest:g} s are used."
        )
    return nearest


def _fit_interval(store: Battery, acts: float | None, load: Trace) -> Battery:
    """The battery at the meter's interval; another requested interval is refused."""
    if acts is not None and abs(acts - load.interval_s) > 1e-9 * acts:
        raise InputError(
            f"the battery acts every {acts:g} s, but the meter reports every "
            f"{load.interval_s:g} s; leave --interval out or set --every {acts:g}s."
        )
    return replace(store, interval_s=load.interval_s)


def _describe_battery(
    case: BatteryCase,
    found: Guarantee,
    year: Upkeep,
    table: list[Sizing],
    scores: tuple[Score, Score] | None,
) -> dict[str, Any]:
    """The complete result, for machines and for the report."""
    from hushmeter.battery.guarantee import tell_guarantee, tell_visibility
    from hushmeter.report import BATTERY

    prices = case.prices
    sentences = tell_guarantee(found, case.unit, case.battery, case.control, year)
    return {
        "schema": BATTERY,
        "unit": case.unit.sentence,
        "battery": case.battery,
        "control": case.control,
        "mechanism": case.mechanism.describe(),
        "guarantee": found,
        "year": year,
        "prices": case.prices,
        "sizing": table,
        "without_battery": None if scores is None else scores[0],
        "with_battery": None if scores is None else scores[1],
        "sentences": sentences if scores is None else (*sentences, *tell_visibility(*scores)),
        "assumptions": (
            f"energy costs {prices.energy:.2f} per kWh and a battery {prices.capacity:g} per kWh; "
            f"it lasts {prices.cycle_life:g} cycles or {prices.calendar_life:g} years.",
            *(
                ["the sizes are those of storage that is always there."]
                if case.battery.away
                else []
            ),
        ),
    }


def _print_sizes(case: BatteryCase, answer: dict[str, Any], files: list[str]) -> None:
    from hushmeter.formatting import format_watts, short_duration

    print_sentences(*answer["sentences"])
    rows: list[tuple[Any, ...]] = [
        (
            row.controller,
            f"{row.epsilon:.3g}",
            format_watts(row.scale_w),
            f"{row.capacity_kwh:.3g}",
            f"{row.power_kw:.3g}",
            f"{row.year.loss_kwh:.0f}",
            f"{row.year.cycles:.0f}",
            f"{row.year.cost:.0f}",
        )
        for row in answer["sizing"]
    ]
    title = (
        f"Sizes that fail in at most {case.max_failure:g} of the horizons of "
        f"{short_duration(answer['guarantee'].horizon_s)} (proved)"
    )
    head = ("controller", "ε", "noise", "kWh", "kW", "lost kWh/year", "cycles/year", "cost/year")
    print_table(title, head, rows)
    print_sentences(*(f"Assumed: {line}" for line in answer["assumptions"]))
    print_files(files)


@takes_reader_options()
@takes_request("mechanism", "span", "every", "delta", rare=("span", "every"), epsilon=1)
def price(
    *,
    trace: Annotated[
        Path,
        typer.Option(
            "--trace", help="Any file of readings, a calendar release or a restored file."
        ),
    ],
    hide: Annotated[str | None, HIDE] = None,
    odds: Annotated[
        str | None, typer.Option("--odds", help="Odds of the menu out of 100: 55,60,70,80.")
    ] = None,
    purpose: Annotated[str | None, PURPOSE] = None,
    epsilon: Annotated[str | None, EPSILONS] = None,
    request: Request,
    harm: Annotated[
        list[str] | None,
        typer.Option(help="appliance=MONEY asked for a year without protection; may be repeated."),
    ] = None,
    buyer: Annotated[
        str,
        typer.Option(help="value=60,shape=0.5,handling=0,use=forecast|clusters|appliances|hour|…"),
    ] = "",
    profiles: Annotated[
        Path | None, typer.Option(help="File of the days of many homes, for the buyer's clusters.")
    ] = None,
    output: Annotated[Path | None, FIGURE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Print the price of data at several odds, with what the buyer learns and the home reveals.

    The menu is for the appliances of --hide; by default for those with a --harm. With -e it is for
    values of ε instead. Without --harm the household asks for 10 a year for each appliance. All
    money is in one currency of your choice. If the readings are a calendar release or a restored
    file, every number that depends on the load has a standard error.

    Example: hushmeter price --home evening --trace meter.csv --hide kettle,television
    --buyer value=60,use=forecast -o prices/
    """
    from hushmeter.behaviour.profiles import read_profiles
    from hushmeter.files import refuse_overwrite
    from hushmeter.plot import figure_place
    from hushmeter.price import HARM, price_menu, vary_menu

    if output is not None:
        folder, name = figure_place(output, "prices")
        refuse_overwrite(folder / f"{name}.png", force)
    weights = _read_harm(harm) if harm else HARM
    steps = None if odds is None else parse_numbers("odds", odds)
    if epsilon is None:
        request = _wish(request, hide, purpose, weights)
    elif (hide or odds or purpose) is not None:
        raise InputError("give either -e or a wish with --hide, --odds and --for, not both.")
    else:
        steps = parse_epsilon_range(epsilon).tolist()
    menu = price_menu(
        request,
        _read_load(trace, options),
        harm=weights,
        buyer=_read_buyer(buyer, purpose),
        profiles=None if profiles is None else read_profiles(profiles).values,
        steps=steps,
        watch=partial(with_bar, text="computing prices", quiet=json),
    )
    variations = vary_menu(menu)
    answer = _describe_menu(menu, variations)
    files = [] if output is None else _write(menu, variations, answer, output, force)
    if json:
        print_json({**answer, "files": files})
    else:
        _print_menu(menu, variations, files)


def _wish(
    request: Request, hide: str | None, purpose: str | None, harm: dict[str, float] | float
) -> Request:
    """The request with what is to be hidden: by default the appliances that have a harm."""
    hidden: Any = hide
    if hide is None:
        if request.home is None:
            raise InputError(f"{NO_HOME} Or name what to hide with --hide.")
        named = [name for name, money in harm.items() if money] if isinstance(harm, dict) else []
        hidden = [",".join(named)] if named else request.home.appliances
    return request.with_changes(hide=hidden, purpose=purpose, epsilon=None)


def _read_load(path: Path, options: ReadOptions) -> Trace | Estimate:
    """The readings of a file, or the released hours of one home with their errors."""
    from hushmeter.read import read_home_recording
    from hushmeter.releases.restore import holds_estimates, read_estimates

    if not holds_estimates(path):
        return read_home_recording(path, options, need_circuits=False).trace
    found = read_estimates(path)
    if len(found) > 1:
        raise DataError(f"{path} has {len(found)} homes; a menu is for one of them.")
    return found[0]


def _read_harm(given: Sequence[str]) -> dict[str, float]:
    from hushmeter.checks import once

    pairs = [entry.rpartition("=")[::2] for entry in given]
    return {
        name: _number("--harm", f"{name}={value}", value)
        for name, value in once("--harm", pairs).items()
    }


def _read_buyer(text: str, purpose: str | None) -> Buyer:
    """The buyer of --buyer; without a use of its own, the data are for the purpose of the wish."""
    from hushmeter.checks import once
    from hushmeter.price import Buyer

    values: dict[str, Any] = {} if purpose is None else {"use": purpose}
    pairs = [entry.partition("=")[::2] for entry in filter(None, text.split(","))]
    for name, value in once("--buyer", pairs).items():
        if name not in Buyer.__dataclass_fields__:
            raise UnknownNameError("term of a buyer", name, Buyer.__dataclass_fields__)
        values[name] = value if name == "use" else _number("--buyer", f"{name}={value}", value)
    return Buyer(**values)


def _number(option: str, entry: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{option} takes name=number, got {entry!r}.") from None


def _print_menu(menu: Menu, variations: dict[str, Menu], files: list[str]) -> None:
    from hushmeter.price import tell_menu

    released = menu.load.hourly_sd_se_w > 0
    step = max(1, len(menu.entries) // 10)
    shown = sorted({*menu.entries[::step], menu.best}, key=lambda one: getattr(one, menu.by))
    rows = [
        (
            _proved(e.odds) + ("*" if e is menu.best else ""),
            f"{e.epsilon:.3g}",
            "–" if e.hourly_noise_w is None else f"{e.hourly_noise_w:.0f}",
            f"{e.forecast_w:.0f}",
            f"{100 * e.quality:.1f}",
            _proved((1 + max(e.visibility)) / 2),
            f"{e.compensation:.2f}",
            f"{e.willingness:.2f}",
            f"{e.surplus:.2f}",
            *([f"{e.surplus_se:.2f}"] if released else []),
        )
        for e in shown
    ]
    head = ["odds", "ε", "hour", "forecast", "quality", "run", "asked", "paid", "surplus"]
    head += ["±"] if released else []
    title = (
        "The menu; money is per year, * marks the best entry. “odds”: how often out of 100 the "
        f"best attacker is right about {menu.unit.sentence}, which ε protects. “hour” and "
        "“forecast”: errors of an hour and of its forecast [W]. “quality”: percent of perfect "
        f"data, for the use “{menu.buyer.use}”. “run”: the odds about one run of the most exposed "
        "appliance"
    ) + ("; the last column is the standard error of what is paid and of the surplus" * released)
    print_table(title, head, rows)
    print_table(
        "The same with other assumptions",
        ("", "best odds", "ε", "surplus", f"from {SHORT[menu.by]}", f"to {SHORT[menu.by]}"),
        [_variation(name, other) for name, other in variations.items()],
    )
    print_sentences(*tell_menu(menu))
    print_files(files)


def _proved(odds: float) -> str:
    """Odds out of 100, never rounded up to certainty."""
    return short_out_of_100(min(odds, 1 - 1e-12))


SHORT = {"odds": "odds", "epsilon": "ε"}
"""What the entries of a menu differ in, as a word of a table."""


def _variation(name: str, menu: Menu) -> tuple[str, ...]:
    best, ends = menu.best, ("–", "–")
    if menu.worthwhile is not None:
        low, high = menu.worthwhile
        by_odds = menu.by == "odds"
        ends = (_proved(low), _proved(high)) if by_odds else (f"{low:.3g}", f"{high:.3g}")
    return name, _proved(best.odds), f"{best.epsilon:.3g}", f"{best.surplus:.2f}", *ends


def _describe_menu(menu: Menu, variations: dict[str, Menu]) -> dict[str, Any]:
    """The complete result, for machines and for the report."""
    from hushmeter.price import tell_menu
    from hushmeter.report import PRICE

    moved = {
        name: {
            "best_odds": other.best.odds,
            "best_epsilon": other.best.epsilon,
            "surplus": other.best.surplus,
            "worthwhile": other.worthwhile,
        }
        for name, other in variations.items()
    }
    same = ("names", "harm", "buyer", "load", "by", "best", "worthwhile", "assumptions")
    return {
        "schema": PRICE,
        **{name: getattr(menu, name) for name in same},
        "unit": menu.unit.sentence,
        "menu": menu.entries,
        "sensitivity": moved,
        "sentences": tell_menu(menu),
    }


def _write(
    menu: Menu, variations: dict[str, Menu], answer: dict[str, Any], output: Path, force: bool
) -> list[str]:
    """Write the figure with its data, and the result as JSON beside it."""
    from hushmeter.files import json_text, write_text
    from hushmeter.plot import figure_place, save_figure
    from hushmeter.plot.adopters import draw_menu

    folder, name = figure_place(output, "prices")
    columns = ["odds", "epsilon", "mechanism", "every_s", "hourly_noise_w", "forecast_w"]
    columns += ["clusters", "quality", "compensation", "willingness", "surplus"]
    if menu.load.hourly_sd_se_w > 0:
        columns += ["forecast_se_w", "clusters_se", "quality_se", "willingness_se", "surplus_se"]
    data = {column: [getattr(e, column) for e in menu.entries] for column in columns}
    for i, appliance in enumerate(menu.names):
        data[f"visibility {appliance}"] = [e.visibility[i] for e in menu.entries]
    figure = draw_menu(menu, variations, f"One year of data; ε protects {menu.unit.sentence}")
    files = [*save_figure(figure, folder, name, data, force=force).values()]
    write_text(folder / f"{name}.json", json_text(answer), force=force)
    return [str(path) for path in (*files, folder / f"{name}.json")]
