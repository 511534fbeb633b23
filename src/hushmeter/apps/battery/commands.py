"""`hushmeter battery`: a battery that makes the noise physically."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    ATTACKER,
    ENERGY_PRICE,
    FILE,
    FORCE,
    JSON,
    NO_HOME,
    as_rare,
    check_seed,
    rare_option,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
    print_table,
    show_activity,
)
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.apps.battery import Battery
    from hushmeter.apps.battery.guarantee import BatteryCase, Guarantee, Sizing, Upkeep
    from hushmeter.home import Home
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace


EVERY_TOLERANCE = 0.1
"""Largest relative difference between --every and the multiple of the interval that is used."""


FIGURES = ("battery", "controllers", "exposure", "sizing")


BATTERY = "hushmeter-battery-1"
"""Schema by which a report recognises an answer that was saved as JSON."""


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
    from hushmeter.apps.battery import Battery, choose_control, control_grid, operate
    from hushmeter.apps.battery.guarantee import BatteryCase, Prices, expect_year, horizon_readings
    from hushmeter.apps.battery.plot import draw_battery
    from hushmeter.apps.plot import save_figures
    from hushmeter.checks import seconds
    from hushmeter.files import json_text, refuse_overwrite, write_text
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
    from hushmeter.apps.battery.guarantee import tell_guarantee, tell_visibility

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
