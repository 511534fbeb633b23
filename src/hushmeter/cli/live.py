"""`hushmeter live`: protect readings as they come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    APPLIANCE,
    CLAMP,
    DELTA,
    EPSILON,
    GRID,
    HIDE,
    HOURLY_COST,
    JSON,
    MAX_EPSILON,
    MECHANISM,
    ODDS,
    PURPOSE,
    SPAN,
    USE,
    VIEWS,
    check_seed,
    choose_protection,
    clamp_in_ledger,
    parse_watts,
    refuse_contradictions,
    refuse_without_views,
    takes_home,
)
from hushmeter.errors import BudgetError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hushmeter.home import Home
    from hushmeter.live.payloads import Parser
    from hushmeter.live.preview import Preview
    from hushmeter.live.service import Service
    from hushmeter.live.state import Item, State
    from hushmeter.live.stream import Terms
    from hushmeter.live.watch import WatchedWindow
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit
    from hushmeter.releases.view_plan import ViewPlan


@takes_home(required=False)
def live(
    context: typer.Context,
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="mqtt://HOST/TOPIC, dsmr:///dev/ttyUSB0, dsmr+tcp://HOST:PORT, a growing CSV "
            "file, or - for standard input.",
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", help="mqtt://HOST, http://…, or a folder for one file a day; can be repeated."
        ),
    ] = None,
    state: Annotated[
        Path, typer.Option(help="File in which everything is kept before it is published.")
    ] = Path("live.db"),
    interval: Annotated[
        str, typer.Option(help="Length of a metered reading: how often the meter sends.")
    ] = "10s",
    home: Home | None,
    hide: Annotated[str | None, HIDE] = None,
    odds: Annotated[float, ODDS] = 0.6,
    purpose: Annotated[str | None, PURPOSE] = None,
    epsilon: Annotated[str | None, EPSILON] = None,
    mechanism: Annotated[str, MECHANISM] = "laplace",
    protect: Annotated[
        str | None,
        typer.Option(help="appliance (default), fluctuation (the paper), range or change."),
    ] = None,
    appliance: Annotated[str | None, APPLIANCE] = None,
    span: Annotated[str, SPAN] = "run",
    use: Annotated[str | None, USE] = None,
    every: Annotated[str, typer.Option(help="Length of a window: a value for each 1h.")] = "1h",
    views: Annotated[bool, VIEWS] = False,
    hourly_cost: Annotated[float, HOURLY_COST] = 1.1,
    sensitivity: Annotated[
        str | None,
        typer.Option(help="Protect any change of this number of watts; needs no home."),
    ] = None,
    clamp: Annotated[str | None, CLAMP] = None,
    grid: Annotated[str, GRID] = "1",
    delta: Annotated[float, DELTA] = 1e-6,
    max_epsilon: Annotated[float, MAX_EPSILON] = 20.0,
    name: Annotated[str, typer.Option(help="Name of the stream, in topics and messages.")] = "home",
    payload: Annotated[
        str | None,
        typer.Option(
            help="number, json:PATH, statestream, tasmota, shelly1, shelly2, dsmr or csv."
        ),
    ] = None,
    time_path: Annotated[
        str | None, typer.Option(help="Where a JSON payload has its time; else it arrives now.")
    ] = None,
    step: Annotated[
        float, typer.Option(help="Step to which the meter rounds, in watts; 0 if unknown.")
    ] = 1.0,
    readings: Annotated[
        str | None,
        typer.Option(help="Whether a reading is one of samples (MQTT, P1) or of means (CSV)."),
    ] = None,
    changes: Annotated[
        str | None,
        typer.Option(help="yes if the meter sends only changes of its value, no if it does not."),
    ] = None,
    online: Annotated[
        str | None,
        typer.Option(help="Topic that says whether a meter that sends changes is connected."),
    ] = None,
    heartbeat: Annotated[
        str,
        typer.Option(help="Longest time between two messages of a meter that sends changes."),
    ] = "0s",
    grace: Annotated[
        str, typer.Option(help="Time from the end of a window until it closes.")
    ] = "10s",
    clock: Annotated[
        str | None,
        typer.Option(help="system (MQTT, P1), or readings: time is that of the last reading."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End at the end of the file; do not wait for more.")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(help="End of the readings of a file, as 2024-02-01T00:00Z."),
    ] = None,
    accept_learnt: Annotated[
        bool,
        typer.Option(
            "--accept-learnt",
            help="Accept numbers of the home that were learnt at the time of these readings.",
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show raw and protected values of --state; needs no SOURCE."),
    ] = False,
    file_format: Annotated[str, typer.Option(help="Files of a folder: csv or parquet.")] = "csv",
    ledger: Annotated[
        str | None, typer.Option(help="Pay in this ledger: sqlite:///file.db or postgresql://…")
    ] = None,
    ledger_meter: Annotated[
        str | None, typer.Option(help="Name of the meter in the ledger; needed with --ledger.")
    ] = None,
    stream: Annotated[str, typer.Option(help="Name of the series of the meter.")] = "load",
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Accept `hushmeter replay`; mark every message.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Simulate with this seed; never publish the result.")
    ] = None,
    json: Annotated[bool, JSON] = False,
    unit: Annotated[str, typer.Option(help="Unit of the values: W or kW.")] = "W",
    tz: Annotated[
        str, typer.Option(help="Time zone of days, and of times without one: Europe/London.")
    ] = "UTC",
) -> None:
    """Protect the readings of a meter as they come, for ever, and publish them.

    Every window of --every gets a mean with exact private noise at a fixed time, also if readings
    are missing; days and months are sums of the windows. With --views days, the typical day and
    months have noise of their own and are more accurate, for one ε of everything together. --hide,
    -e and the other options choose the noise as in `hushmeter release`. Each window is kept in
    --state before it is published, so that it never gets noise twice, even after a crash. Ctrl+C
    stops the stream; the same command goes on with it.

    --watch shows, in another terminal and for you alone, raw against protected values and what the
    strongest attacker could say about each window.

    Example: hushmeter live mqtt://localhost/meter/power --changes no --hide kettle --to shared

    Example: hushmeter live meter.csv --hide kettle --views --to shared --once
    """
    from hushmeter.live.state import State
    from hushmeter.noise.parameters import parse_clamp

    check_seed(seed)
    if watch:
        _watch(state, once=once, json=json)
        return
    if source is None or not to:
        raise InputError("name a source of readings and, with --to, where they are published.")
    if (ledger is None) != (ledger_meter is None):
        raise InputError("--ledger and --ledger-meter belong together: give both, or neither.")
    refuse_contradictions(context, hide, epsilon, "span", "use")
    refuse_without_views(context, views)
    feed = _Feed.of(
        source,
        payload,
        interval=interval,
        options=(unit, tz, time_path, simulation or seed is not None),
        changes=changes,
        once=once,
        until=until,
        clock=clock,
    )
    bounds = clamp_in_ledger(ledger, None if clamp is None else parse_clamp(clamp))
    unit_of_protection, noise, home = _protection(
        tz=tz,
        views=views,
        hourly_cost=hourly_cost,
        interval=interval,
        every=every,
        step=step,
        # A change is reported within one interval, so it counts as a sample does.
        sampled=feed.hold or _is_sampled(readings, source),
        home=home,
        hide=hide,
        odds=odds,
        purpose=purpose,
        epsilon=epsilon,
        mechanism=mechanism,
        protect=protect,
        appliance=appliance,
        span=span,
        use=use,
        sensitivity=sensitivity,
        clamp=bounds,
        grid=grid,
        delta=delta,
        max_epsilon=max_epsilon,
    )
    terms = _terms(
        name,
        unit_of_protection,
        noise,
        zone=tz,
        grace=grace,
        hold=feed.hold,
        heartbeat=heartbeat,
        accept_learnt=accept_learnt,
        seed=seed,
        simulation=simulation,
        home=home,
        clamp=bounds,
        hourly_cost=hourly_cost,
    )
    say = _printer(json)
    with State(state, terms.describe()) as kept:
        service = _service(
            terms, kept, feed, to,
            online=online, file_format=file_format, ledger=ledger, ledger_meter=ledger_meter,
            stream=stream, say=say,
        )  # fmt: skip
        _announce(terms, json)
        _run(service)
    if service.ended:
        raise BudgetError("the stream has ended, because the budget does not allow more.")


def _usual_payload(source: str) -> str:
    """The payload of a source if none is named."""
    if source.startswith("dsmr"):
        return "dsmr"
    return "number" if "://" in source else "csv"


@dataclass(frozen=True)
class _Feed:
    """What the options say about the readings that come in; times are in ns since 1970."""

    source: str
    kind: str
    parser: Parser
    hold: bool
    by_readings: bool
    once: bool
    until_ns: int | None
    preview: Preview | None

    @classmethod
    def of(
        cls,
        source: str,
        payload: str | None,
        *,
        interval: str,
        options: tuple[str, str, str | None, bool],
        changes: str | None,
        once: bool,
        until: str | None,
        clock: str | None,
    ) -> _Feed:
        """Check the options, and look at all rows of a file that ends."""
        from hushmeter.checks import seconds
        from hushmeter.live.payloads import PayloadOptions, make_parser
        from hushmeter.live.preview import preview
        from hushmeter.live.sources import LineSource

        kind = payload or _usual_payload(source)
        parser = make_parser(kind, PayloadOptions(*options))
        until_ns = None if until is None else _end_of_readings(until, options[1], source, once)
        seen = None
        if once and source != "-" and "://" not in source:
            lines = LineSource(Path(source), follow=False, header=kind == "csv")
            seen = preview(lines, parser, source)
        interval_ns = round(seconds("interval", interval) * 1e9)
        even = options[3] or (seen is not None and seen.is_even(interval_ns))
        hold = _sends_changes(changes, kind, even=even)
        if clock not in (None, "system", "readings"):
            raise InputError(f"--clock must be system or readings, got {clock!r}.")
        # The next change of a file that grows is no clock.
        ends = once or until is not None
        by_readings = "://" not in source and (ends or not hold)
        if clock is not None:
            by_readings = clock == "readings"
        return cls(source, kind, parser, hold, by_readings, once, until_ns, seen)


def _sends_changes(changes: str | None, kind: str, *, even: bool) -> bool:
    """True if the meter sends only changes of its value: as stated, or as its payload is known."""
    from hushmeter.live.payloads import AT_FIXED_TIMES, CHANGES_ONLY

    if changes not in (None, "yes", "no"):
        raise InputError(f"--changes must be yes or no, got {changes!r}.")
    if changes is not None:
        return changes == "yes"
    if kind in CHANGES_ONLY:
        return True
    if even or kind in AT_FIXED_TIMES:
        return False
    raise InputError(
        "say whether the meter sends a message only when its value has changed: --changes yes, or "
        "--changes no if it sends at fixed times. The times of changes follow from the readings "
        "and must not be published."
    )


def _end_of_readings(until: str, zone: str, source: str, once: bool) -> int:
    """Return --until [ns since 1970]; it belongs to a source that ends."""
    import time
    from datetime import datetime

    from hushmeter.clock import SECOND, in_zone

    if not (once or source == "-"):
        raise InputError("--until belongs to a file with --once, or to standard input.")
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise InputError(f"--until is like 2024-02-01T00:00Z, got {until!r}.") from None
    end = round(in_zone(moment, zone).timestamp()) * SECOND
    if end > time.time_ns():
        raise InputError(f"--until {until} is later than now; nobody knows readings of that time.")
    return end


def _is_sampled(readings: str | None, source: str) -> bool:
    """True if a reading is the power at one moment, and not a mean."""
    if readings is None:
        return "://" in source
    if readings not in ("samples", "means"):
        raise InputError(f"--readings must be samples or means, got {readings!r}.")
    return readings == "samples"


def _protection(**given: Any) -> tuple[Unit, Mechanism | ViewPlan, Home | None]:
    """Return the unit of protection, the noise and the home that the options mean."""
    from hushmeter.advice.hiding import find_appliances, plan_to_hide
    from hushmeter.advice.sentences import explain
    from hushmeter.checks import seconds
    from hushmeter.live.calendar import common_month
    from hushmeter.live.stream import allow_for_samples
    from hushmeter.noise import clamped
    from hushmeter.noise.parameters import exact
    from hushmeter.privacy.units import calibrate, resolve_unit
    from hushmeter.releases.view_plan import plan_views
    from hushmeter.trace import Metering

    interval_s = seconds("interval", given["interval"])
    home: Home | None = given["home"]
    metered: dict[str, Any] = {
        "interval_s": interval_s,
        "every": given["every"],
        "metering": Metering(resolution_w=given["step"]),
    }

    form: dict[str, Any] = {}
    if given["views"]:
        month = common_month(interval_s, seconds("every", given["every"]), given["tz"])
        costs = (given["hourly_cost"],)
        form = {"forms": ("calendar",), "calendar": month, "hourly_costs": costs}

    def tables(unit: Unit, epsilon: Any) -> ViewPlan:
        if float(exact("epsilon", epsilon)) > given["max_epsilon"]:
            raise InputError(
                f"epsilon must be at most --max-epsilon {given['max_epsilon']:g}, got {epsilon}."
            )
        return plan_views(
            unit,
            form["calendar"],
            epsilon=epsilon,
            delta=given["delta"],
            hourly_cost=given["hourly_cost"],
            grid=given["grid"],
        )

    def sampled(appliances: Any) -> list[Any]:
        if not given["sampled"]:
            return list(appliances)
        return [allow_for_samples(appliance, interval_s) for appliance in appliances]

    if given["hide"] is not None:
        wanted = sampled(find_appliances(given["hide"], home))
        plan = plan_to_hide(
            wanted,
            given["odds"],
            given["purpose"],
            home=home,
            delta=given["delta"],
            **metered,
            **form,
        )
        if not plan.advice.feasible:
            raise InputError(f"nothing can be published: {explain(plan.advice)[0]}")
        if form:
            return plan.unit, tables(plan.unit, plan.option.epsilon), plan.home
        return plan.unit, clamped(plan.mechanism, given["clamp"]), plan.home
    chosen = choose_protection(given["protect"], given["sensitivity"], home)
    if home is not None:
        home = home.with_appliances(sampled(home.appliances))
    bounds = given["clamp"]
    watts = given["sensitivity"]
    unit = resolve_unit(
        chosen,
        given["span"],
        home=home,
        appliance=given["appliance"],
        clamp=bounds,
        watts=None if watts is None else parse_watts("sensitivity", watts),
        use=given["use"],
        **metered,
    )
    if form:
        return unit, tables(unit, given["epsilon"]), home
    noise = calibrate(
        given["mechanism"],
        given["epsilon"],
        unit,
        delta=given["delta"],
        grid=given["grid"],
        clamp=bounds,
        max_epsilon=given["max_epsilon"],
    )
    return unit, noise, home


def _terms(
    name: str,
    unit: Unit,
    noise: Mechanism | ViewPlan,
    *,
    zone: str,
    grace: str,
    hold: bool,
    heartbeat: str,
    accept_learnt: bool,
    seed: int | None,
    simulation: bool,
    home: Home | None,
    clamp: tuple[float, float] | None,
    hourly_cost: float,
) -> Terms:
    """Return the terms of the stream."""
    from hushmeter.checks import seconds
    from hushmeter.live.calendar import CalendarTerms
    from hushmeter.live.stream import SeriesTerms
    from hushmeter.releases.view_plan import ViewPlan

    shared: dict[str, Any] = {
        "zone": zone,
        "grace_s": 0.0 if grace in ("0", "0s") else seconds("grace", grace),
        "hold": hold,
        "heartbeat_s": 0.0 if heartbeat in ("0", "0s") else seconds("heartbeat", heartbeat),
        "accept_learnt": accept_learnt,
        "seed": seed,
        "simulation": simulation,
        "home": home,
    }
    if isinstance(noise, ViewPlan):
        return CalendarTerms(name, unit, noise, clamp, hourly_cost, **shared)
    return SeriesTerms(name, unit, noise, **shared)


def _service(
    terms: Terms,
    kept: State,
    feed: _Feed,
    to: list[str],
    *,
    online: str | None,
    file_format: str,
    ledger: str | None,
    ledger_meter: str | None,
    stream: str,
    say: Callable[[Item], None],
) -> Service:
    """Connect the parts of a stream."""
    import time

    from hushmeter.live.places import open_sink, open_source
    from hushmeter.live.service import LedgerAccount, Log, Service

    span = time.time_ns(), time.time_ns()
    if feed.preview is not None:
        last = int(feed.preview.times.max())
        span = int(feed.preview.times.min()), max(last, feed.until_ns or last)
    terms.refuse_learnt(*span)
    account = None
    if ledger is not None and ledger_meter is not None:
        account = LedgerAccount(ledger, ledger_meter, stream, terms, kept)
    log = Log(lambda sentence: typer.echo(f"hushmeter: {sentence}", err=True))
    return Service(
        terms,
        kept,
        open_source(feed.source, feed.kind, terms, follow=not feed.once, online=online),
        feed.parser,
        [open_sink(place, terms, kept, kind=file_format, log=log) for place in to],
        account=account,
        by_readings=feed.by_readings,
        until_ns=feed.until_ns,
        log=log,
        on_item=say,
    )


def _announce(terms: Terms, json: bool) -> None:
    """Print what is protected and how often values are published."""
    from hushmeter.formatting import duration_in_words

    if json:
        return
    facts = terms.describe()
    typer.echo(f"Protected: {terms.unit.sentence}, at ε = {facts['epsilon']:.4g}.")
    typer.echo(
        f"A value is published for every {duration_in_words(terms.window_s)}, "
        f"{facts['windows_per_day']} a day; the unit is protected for ever, because a change "
        f"touches at most {terms.unit.touches} of them."
    )
    if "tables" in facts:
        typer.echo(
            "Days, hours of the day and months have noise of their own. ε is that of all tables "
            "together; it is spent from the first value on and does not grow from month to month."
        )
    if terms.simulation:
        typer.echo("This is a simulation: every message is marked. Do not use it for a real meter.")


def _printer(json: bool) -> Callable[[Item], None]:
    """Return a function that prints every message that was published."""
    from hushmeter.live.sinks import message_text

    def say(item: Item) -> None:
        if json:
            typer.echo(message_text(item))
            return
        message = item.message
        if item.kind == "window":
            value = "no value" if message["watts"] is None else f"{message['watts']:g} W"
            mark = "" if message["complete"] else f" (incomplete: {100 * message['share']:.4g} %)"
            typer.echo(f"{message['start']}  {value}{mark}")
        elif item.kind == "status":
            typer.echo(message["sentence"])
        elif item.kind == "typical-day":
            errors = [hour["standard_error_w"] for hour in message["hours"]]
            typer.echo(
                f"{item.label}  typical day of {len(errors)} values, each ± {max(errors):.4g} W"
            )
        else:
            value = "no value" if message["kwh"] is None else f"{message['kwh']:.3f} kWh"
            typer.echo(f"{item.label}  {value} ± {message['standard_error_kwh'] or 0:.3f}")

    return say


def _run(service: Service) -> None:
    """Run until the source ends or a signal comes."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: service.stop())
    service.run()


REFRESH_S = 10.0
"""Time between two looks of --watch [s]."""


def _watch(state: Path, *, once: bool, json: bool) -> None:
    """Show the last windows again and again until Ctrl+C."""
    import time
    from contextlib import suppress

    from hushmeter.cli.output import print_json
    from hushmeter.live.watch import look_at, right_out_of

    with suppress(KeyboardInterrupt):
        while True:
            terms, windows = look_at(state)
            if json:
                print_json({"terms": terms, "windows": windows, "right": right_out_of(windows)})
                return
            if not once:
                typer.echo("\033[2J\033[H", nl=False)
            _show(terms, windows)
            if once:
                return
            time.sleep(REFRESH_S)


def _show(terms: dict[str, Any], windows: list[WatchedWindow]) -> None:
    """Print raw against protected values, and the strongest attacker."""
    from hushmeter.cli.output import print_sentences, print_table, short_out_of_100
    from hushmeter.live.watch import describe_attacker

    def watts(value: float | None) -> str:
        return "" if value is None else f"{value:.0f}"

    def odds(value: float | None) -> str:
        return "" if value is None else short_out_of_100(value)

    print_table(
        f"Stream {terms['stream']}, for you alone:",
        ["window (UTC)", "raw W", "published W", "readings %", "if it ran", "if it did not"],
        [
            (
                window.start,
                watts(window.raw_w),
                watts(window.protected_w),
                f"{100 * window.share:.4g}",
                odds(window.if_it_ran),
                odds(window.if_it_did_not),
            )
            for window in windows
        ],
    )
    print_sentences(*describe_attacker(terms, windows))
