"""`hushmeter replay`: play a file back as if a meter sent it now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import FILE, JSON, takes_reader_options
from hushmeter.cli.output import print_json
from hushmeter.errors import InputError

if TYPE_CHECKING:
    from hushmeter.read import ReadOptions


@takes_reader_options()
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
    import time

    from hushmeter.live.mqtt import parse_mqtt
    from hushmeter.live.replay import pace, replay_messages, replay_to_mqtt
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
