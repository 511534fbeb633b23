"""`hushmeter live` protects readings as they come; `replay` sends a file as a meter would."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.options import (
    FILE,
    JSON,
    LEDGER,
    READER_OPTIONS,
    STREAM,
    as_rare,
    check_seed,
    clamp_in_ledger,
    file_option,
    parse_length,
    rare_option,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import print_json, print_sentences, print_table, short_out_of_100
from hushmeter.errors import BudgetError, InputError

if TYPE_CHECKING:
    from hushmeter.apps.live.state import Item
    from hushmeter.apps.live.stream import Terms
    from hushmeter.checks import IntArray
    from hushmeter.read import ReadOptions
    from hushmeter.releases.request import Request


@takes_reader_options("unit", "tz", "changes")
@takes_request(every="1h", unless="watch", rare=("purpose", "span", "table"))
def live(
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
    request: Request,
    name: Annotated[str, rare_option(help="Name of the stream, in topics and messages.")] = "home",
    payload: Annotated[
        str | None,
        rare_option(help="number, json:PATH, statestream, tasmota, shelly1, shelly2, dsmr or csv."),
    ] = None,
    time_path: Annotated[
        str | None, rare_option(help="Where a JSON payload has its time; else it arrives now.")
    ] = None,
    step: Annotated[
        float, rare_option(help="Step to which the meter rounds, in watts; 0 if unknown.")
    ] = 1.0,
    readings: Annotated[
        str | None,
        rare_option(help="Whether a reading is one of samples (MQTT, P1) or of means (CSV)."),
    ] = None,
    until: Annotated[
        str | None, file_option("--until", help="End of the readings, as 2024-02-01T00:00Z.")
    ] = None,
    online: Annotated[
        str | None,
        rare_option(help="Topic that says whether a meter that sends changes is connected."),
    ] = None,
    heartbeat: Annotated[
        str | None,
        rare_option(
            help="Longest time until a meter that sends changes has sent its value again after a "
            "silence: 0s if at once."
        ),
    ] = None,
    grace: Annotated[
        str, rare_option(help="Time from the end of a window until it closes.")
    ] = "10s",
    clock: Annotated[
        str | None,
        rare_option(help="system (MQTT, P1), or readings: time is that of the last reading."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End at the end of the file; do not wait for more.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show raw and protected values of --state; needs no SOURCE."),
    ] = False,
    file_format: Annotated[str, rare_option(help="Files of a folder: csv or parquet.")] = "csv",
    ledger: Annotated[str | None, as_rare(LEDGER)] = None,
    ledger_meter: Annotated[
        str | None, rare_option(help="Name of the meter in the ledger; needed with --ledger.")
    ] = None,
    stream: Annotated[str, STREAM] = "load",
    simulation: Annotated[
        bool, rare_option("--simulation", help="Accept `hushmeter replay`; mark every message.")
    ] = False,
    seed: Annotated[
        int | None, rare_option(help="Simulate with this seed; never publish the result.")
    ] = None,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Protect the readings of a meter as they come, and publish them until Ctrl+C.

    Every window of --every (one hour by default) gets a mean with exact private noise at a fixed
    time, also if readings are missing; days and months are sums of the windows. With --views days,
    the typical day and months have noise of their own and are more accurate, for one ε of
    everything together; --table adds other tables. --hide, -e and the other options choose the
    noise as in `hushmeter release`. Each window is kept in --state before it is published, so that
    it never gets noise twice, even after a crash. Ctrl+C stops the stream; the same command goes on
    with it.

    --watch shows, in another terminal and for you alone, raw against protected values and what the
    strongest attacker could say about each window.

    Example: hushmeter live mqtt://localhost/meter/power --changes no --hide kettle --to shared

    Example: hushmeter live meter.csv --hide kettle --views --to shared --once
    """
    from hushmeter.apps.live.addresses import open_sink, open_source, read_times
    from hushmeter.apps.live.delivery import LedgerAccount, Log
    from hushmeter.apps.live.payloads import CHANGES_ONLY, PayloadOptions, make_parser
    from hushmeter.apps.live.service import Feed, Service
    from hushmeter.apps.live.state import State
    from hushmeter.apps.live.stream import Terms
    from hushmeter.checks import seconds
    from hushmeter.privacy.units import Metered
    from hushmeter.trace import Metering

    check_seed(seed)
    if watch:
        _watch(state, once=once, json=json)
        return
    if source is None or not to:
        raise InputError("name a source of readings and, with --to, where they are published.")
    if (ledger is None) != (ledger_meter is None):
        raise InputError("--ledger and --ledger-meter belong together: give both, or neither.")
    is_file, zone, interval_s = (
        "://" not in source,
        options.tz or "UTC",
        seconds("interval", interval),
    )
    marked = simulation or seed is not None
    kind = payload or ("dsmr" if source.startswith("dsmr") else "csv" if is_file else "number")
    parse = make_parser(kind, PayloadOptions(options.unit or "W", zone, time_path, marked))
    last = _end_of_readings(until, zone, ends=once or source == "-")
    times = None
    # A stream that has begun goes on, whatever its file begins with now.
    if is_file and source != "-" and (once or not state.exists()):
        times = read_times(source, kind, parse, grows=not once)
    hold = _sends_changes(options.changes, kind, marked, times, interval_s)
    # The next change of a file that grows is no clock.
    is_clock = is_file and (once or last is not None or not hold)
    by_readings = _choose("clock", clock, ("readings", "system"), is_clock)
    # A change is reported within one interval, so it counts as a sample does.
    samples = hold or _choose("readings", readings, ("samples", "means"), not is_file)
    metered = Metered(interval_s, Metering(step), zone, samples=samples)
    terms = Terms(
        name,
        _for_a_run(request, ledger).resolve(metered),
        grace_s=parse_length("grace", grace),
        hold=hold,
        heartbeat_s=_heartbeat(heartbeat, ask=hold and not is_file and kind not in CHANGES_ONLY),
        seed=seed,
        simulation=simulation,
    )
    terms.refuse_learnt(*_span(times, last))
    log = Log(lambda sentence: typer.echo(f"hushmeter: {sentence}", err=True))
    with State(state, terms.describe()) as kept:
        account = None
        if ledger is not None and ledger_meter is not None:
            account = LedgerAccount(ledger, ledger_meter, stream, terms, kept)
        opened = open_source(source, kind, terms, follow=not once, online=online)
        service = Service(
            terms,
            kept,
            Feed(opened, parse, by_readings, last),
            [open_sink(place, terms, kept, kind=file_format, log=log) for place in to],
            account=account,
            log=log,
            on_item=lambda item: typer.echo(item.text if json else _line(item)),
        )
        if not json:
            _announce(terms)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: service.stop())
        service.run()
    if service.ended:
        raise BudgetError("the stream has ended, because the budget does not allow more.")


def _for_a_run(request: Request, ledger: str | None) -> Request:
    """Return the request with one run as its span, and the bounds of the ledger by default."""
    if request.hourly_cost != type(request).hourly_cost and not request.several:
        raise InputError("--hourly-cost is about several tables: it needs --views or --table.")
    span = request.span or ("run" if request.hide is None else None)
    return request.with_changes(span=span, clamp=clamp_in_ledger(ledger, request.clamp))


def _sends_changes(
    stated: str | None, kind: str, marked: bool, times: IntArray | None, interval_s: float
) -> bool:
    """True if the meter sends only changes: as stated, or as its payload or its rows show."""
    from hushmeter.apps.live.payloads import AT_FIXED_TIMES, CHANGES_ONLY, is_even
    from hushmeter.clock import SECOND

    even = times is not None and is_even(times, round(interval_s * SECOND))
    if stated is None and not (marked or even or kind in CHANGES_ONLY | AT_FIXED_TIMES):
        raise InputError(
            "say whether the meter sends a message only when its value has changed: --changes yes, "
            "or --changes no if it sends at fixed times. The times of changes follow from the "
            "readings and must not be published."
        )
    return _choose("changes", stated, ("yes", "no"), kind in CHANGES_ONLY)


def _heartbeat(stated: str | None, *, ask: bool) -> float:
    """Return --heartbeat [s]; with `ask`, nobody else knows what comes after a silence."""
    if stated is None and ask:
        raise InputError(
            "say when a meter that sends only changes has sent its value again after it was not "
            "connected: --heartbeat 0s if at once, as a retained message of the broker does, or "
            "--heartbeat 5min if within five minutes, which are then missing after every silence. "
            "Otherwise the first change after a silence would show more than one run of what is "
            "hidden."
        )
    return 0.0 if stated is None else parse_length("heartbeat", stated)


def _choose(name: str, stated: str | None, words: tuple[str, str], usual: bool) -> bool:
    """True for the first of two words that an option takes; what is usual if it is not used."""
    from hushmeter.checks import one_of

    return usual if stated is None else one_of(f"--{name}", stated, words) == words[0]


def _span(times: IntArray | None, until: int | None) -> tuple[int, int]:
    """First and last time of the readings [ns since 1970]: those of a file, otherwise now."""
    now = time.time_ns()
    return (now, now) if times is None else (int(times.min()), max(int(times.max()), until or 0))


def _end_of_readings(until: str | None, zone: str, *, ends: bool) -> int | None:
    """Return --until [ns since 1970]; it belongs to a source that ends."""
    from datetime import datetime

    from hushmeter.clock import SECOND, in_zone

    if until is None:
        return None
    if not ends:
        raise InputError("--until belongs to a file with --once, or to standard input.")
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        raise InputError(f"--until is like 2024-02-01T00:00Z, got {until!r}.") from None
    end = round(in_zone(moment, zone).timestamp()) * SECOND
    if end > time.time_ns():
        raise InputError(f"--until {until} is later than now; nobody knows readings of that time.")
    return end


def _announce(terms: Terms) -> None:
    """Print what is protected and how often values are published."""
    from hushmeter.formatting import duration_in_words

    promise, tables = terms.promise, [entry.name for entry in terms.promise.tables[1:]]
    sentences = [
        *promise.sentences,
        f"ε = {promise.epsilon:.4g}. A value is published for every "
        f"{duration_in_words(terms.window_s)}, {terms.describe()['windows_per_day']} a day; the "
        f"unit is protected for ever, because a change touches at most {terms.unit.touches} of "
        "them.",
    ]
    if tables:
        sentences.append(
            f"These tables have noise of their own: {', '.join(tables)}. ε is that of all tables "
            "together; it is spent from the first value on and does not grow from month to month."
        )
    if terms.simulation:
        sentences.append(
            "This is a simulation: every message is marked. Do not use it for a real meter."
        )
    print_sentences(*sentences)


def _line(item: Item) -> str:
    """A message as one line for a person."""
    message = item.message
    if item.kind == "window":
        value = "no value" if message["watts"] is None else f"{message['watts']:g} W"
        mark = "" if message["complete"] else f" (incomplete: {100 * message['share']:.4g} %)"
        return f"{message['start']}  {value}{mark}"
    if item.kind == "status":
        return str(message["sentence"])
    if item.kind in ("day", "month"):
        value = "no value" if message["kwh"] is None else f"{message['kwh']:.3f} kWh"
        return f"{item.label}  {value} ± {message['standard_error_kwh'] or 0:.3f}"
    rows, unit = message["values"], "W" if "watts" in message["values"][0] else "kWh"
    worst = max(row[f"standard_error_{unit.lower()}"] for row in rows)
    name = item.kind.replace("-", " ")
    return f"{item.label}  {name} of {len(rows)} values, each ± {worst:.4g} {unit}"


REFRESH_S = 10.0
"""Time between two looks of --watch [s]."""


def _watch(state: Path, *, once: bool, json: bool) -> None:
    """Show the last windows again and again until Ctrl+C."""
    from hushmeter.apps.live.stream import show_stream

    if json:
        print_json(show_stream(state))
        return
    with suppress(KeyboardInterrupt):
        while True:
            shown = show_stream(state)
            if not once:
                typer.echo("\033[2J\033[H", nl=False)
            _show(shown)
            if once:
                return
            time.sleep(REFRESH_S)


def _show(shown: dict[str, Any]) -> None:
    """Print raw against protected values, and the strongest attacker."""

    def cell(value: float | None, text: Callable[[float], str]) -> str:
        return "" if value is None else text(value)

    print_table(
        f"Stream {shown['terms']['stream']}, for you alone:",
        ["window (UTC)", "raw W", "published W", "readings %", "if it ran", "if it did not"],
        [
            (
                window["start"],
                cell(window["raw_w"], "{:.0f}".format),
                cell(window["protected_w"], "{:.0f}".format),
                f"{100 * window['share']:.4g}",
                cell(window["if_it_ran"], short_out_of_100),
                cell(window["if_it_did_not"], short_out_of_100),
            )
            for window in shown["windows"]
        ],
    )
    print_sentences(*shown["sentences"])


@takes_reader_options(*(name for name in READER_OPTIONS if name not in ("start", "end")))
def replay(
    *,
    file: Annotated[Path, FILE],
    to: Annotated[
        str, typer.Option("--to", help="mqtt://HOST/TOPIC, or - for standard output.")
    ] = "-",
    speed: Annotated[str, typer.Option(help="How many times faster than the meter, or max.")] = "1",
    now: Annotated[
        bool, typer.Option("--now", help="Move the times so that the first reading is now.")
    ] = False,
    json: Annotated[bool, JSON] = False,
    options: ReadOptions,
) -> None:
    """Send the readings of a file as if a meter sent them now, marked as a simulation.

    Each message is JSON with `time`, `watts` and `simulation`. Use it to try a stream before a real
    meter is connected. Messages on a broker can be read by everybody who may read its topics, so
    replay only readings that you would show them.

    Example: hushmeter replay meter.csv --speed 600 --to mqtt://localhost/meter/power
    """
    from hushmeter.apps.live.mqtt import pace, parse_mqtt, replay_messages, replay_to_mqtt
    from hushmeter.read import read_recording

    factor = _parse_speed(speed)
    if json and to == "-":
        raise InputError("the messages go to standard output; leave out --json, or give --to.")
    trace = read_recording(file, options).trace
    messages = replay_messages(trace, start_ns=time.time_ns() if now else None)
    if to == "-":
        pace(messages, factor, typer.echo)
        return
    place = parse_mqtt(to)
    if not place.topic:
        raise InputError("a replay needs a topic: mqtt://HOST/TOPIC.")
    count = replay_to_mqtt(place, messages, factor)
    if json:
        print_json({"messages": count, "broker": str(place), "topic": place.topic})
    else:
        typer.echo(f"{count} readings were sent to {place.topic} of {place}, as a simulation.")


def _parse_speed(text: str) -> float | None:
    """Parse a speed: a positive number, or "max" for as fast as possible."""
    from hushmeter.checks import positive

    if text == "max":
        return None
    try:
        return positive("speed", float(text))
    except ValueError:
        raise InputError(f"speed must be a positive number or max, got {text!r}.") from None
