"""Payloads of meters and bridges: from the bytes of one message to a time and a power.

A parser returns the time of the reading, or None if the payload carries none and the time of
arrival counts, and the power, or None if the payload is `AWAY`, the word for a meter that is not
connected. It raises one of these, whose sentences never contain the payload:

* `NoValue`: the payload is a declared word for a missing value.
* `PayloadError`: anything else that is not a number. This may follow from the value of a reading
  (a word for a value above the range, a field that is left out at zero), so nothing public may
  follow from it: the reading counts as 0 W.
* `NotAReading`: the message is torn, has no readable time, or comes from a replay. This follows
  from no value, and the message is ignored.

The unit of the values is declared. A payload that names a unit of power itself is converted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hushmeter.clock import SECOND, in_zone
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.read.dsmr import DRAWN, STAMP, telegram_seconds, winter_offset
from hushmeter.trace import SECONDS_PER_DAY

Parsed = tuple[int | None, float | None]
"""Time [ns since 1970] and power [W] of a reading."""

FACTORS = {"W": 1.0, "kW": 1000.0}
"""Watts per unit that can be declared."""

STATED_FACTORS = FACTORS | {"mW": 0.001, "MW": 1e6}
"""Watts per unit that a payload can name."""

AWAY = "unavailable"
"""Word for a meter that is not connected, as Home Assistant defines it."""

NO_VALUE = frozenset({"unknown", "none", "null", ""})
"""Words for a missing value of a meter that is connected."""

CHANGES_ONLY = frozenset({"statestream", "shelly1", "shelly2"})
"""Payloads of bridges that send a message only when the value has changed."""

AT_FIXED_TIMES = frozenset({"tasmota", "dsmr"})
"""Payloads of meters that send at fixed times, whatever their value."""

SIMULATION = "simulation"
"""Field of a JSON payload that `hushmeter replay` sets."""


class PayloadError(ValueError):
    """A payload is not a number; the sentence says why without its content.

    Attributes
    ----------
    moment : int or None
        Time of the reading [ns since 1970], if the payload carries it.
    """

    moment: int | None = None


class NoValue(PayloadError):  # noqa: N818
    """A payload is a declared word for a missing value."""


class NotAReading(PayloadError):  # noqa: N818
    """A message that is no reading, for a reason that follows from no value."""


class Skip(NotAReading):
    """A message that is no reading and no fault."""


@dataclass(frozen=True)
class PayloadOptions:
    """What a payload does not say about itself.

    Attributes
    ----------
    unit : {"W", "kW"}
        Declared unit of the values.
    zone : str or None
        Time zone of times without one.
    time_path : str or None
        Path of the time in a JSON payload; "time" by default, if it is there.
    simulation : bool
        True if readings of `hushmeter replay` are accepted.
    """

    unit: str = "W"
    zone: str | None = None
    time_path: str | None = None
    simulation: bool = False


Parser = Callable[[str, bytes], Parsed]
"""From a topic (or "") and a payload to a reading."""


def make_parser(kind: str, options: PayloadOptions | None = None) -> Parser:
    """Return the parser of a kind of payload.

    Parameters
    ----------
    kind : str
        "number", "csv" (time,watts), "json:PATH", "statestream" (Home Assistant), "tasmota",
        "shelly1", "shelly2" or "dsmr".
    options : PayloadOptions, optional

    Returns
    -------
    callable
        From a topic and a payload to a time and a power.

    Raises
    ------
    InputError
        If the kind or the unit is unknown.
    """
    known = options or PayloadOptions()
    if known.unit not in FACTORS:
        raise InputError(
            f"a stream needs readings of power in W or kW, got {known.unit!r}; an energy counter "
            "cannot be streamed."
        )
    if kind.startswith("json:") and len(kind) > 5:
        return _json_parser(kind[5:], known)
    makers: dict[str, Callable[[PayloadOptions], Parser]] = {
        "number": _number_parser,
        "csv": _csv_parser,
        "statestream": _statestream_parser,
        "tasmota": _tasmota_parser,
        "shelly1": _number_parser,
        "shelly2": _shelly2_parser,
        "dsmr": _dsmr_parser,
    }
    if kind not in makers:
        raise UnknownNameError("payload", kind, [*makers, "json:PATH"])
    return makers[kind](known)


@contextmanager
def _at(moment: int | None) -> Iterator[None]:
    """Give the time of the reading to an error about its value."""
    try:
        yield
    except PayloadError as error:
        error.moment = moment
        raise


def _number_parser(options: PayloadOptions) -> Parser:
    """A plain number such as b"123.4"."""
    factor = FACTORS[options.unit]

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        return None, _watts_of_text(payload.decode("utf-8", "replace").strip('"'), factor)

    return parse


def _csv_parser(options: PayloadOptions) -> Parser:
    """One line of a table: time, value."""
    factor = FACTORS[options.unit]
    moment_of = _time_reader(options.zone)

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        text = payload.decode("utf-8", "replace")
        # Where semicolons separate the columns, a comma is the decimal sign.
        cells = text.split(";" if ";" in text else ",")
        moment = moment_of(cells[0].strip())
        with _at(moment):
            if len(cells) < 2:
                raise PayloadError("a line is not a time and a number")
            value = cells[1].replace(",", ".") if ";" in text else cells[1]
            return moment, _watts_of_text(value, factor)

    return parse


def _json_parser(path: str, options: PayloadOptions) -> Parser:
    """One field of a JSON document; a field "unit" beside it must be the declared unit."""
    factor = FACTORS[options.unit]
    steps, time_steps = _path(path), _path(options.time_path or "time")
    moment_of = _time_reader(options.zone)

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        document = _document(payload, options)
        stamp = _follow(document, time_steps)
        if stamp is None and options.time_path is not None:
            raise NotAReading("a payload has no time at --time-path")
        moment = None if stamp is None else moment_of(stamp)
        with _at(moment):
            value, around = _follow(document, steps), _follow(document, steps[:-1])
            if value is None and not _has(document, steps):
                raise PayloadError("a payload has no field at the path of --payload")
            stated = None
            if isinstance(around, dict):
                stated = around.get("unit", around.get("unit_of_measurement"))
            return moment, _watts(value, _factor(stated, factor))

    return parse


def _statestream_parser(options: PayloadOptions) -> Parser:
    """Home Assistant's mqtt_statestream: …/state, with …/unit_of_measurement beside it."""
    factor = FACTORS[options.unit]
    units: dict[str, str] = {}

    def parse(topic: str, payload: bytes) -> Parsed:
        sensor, _, field = topic.rpartition("/")
        if field == "unit_of_measurement":
            units[sensor] = payload.decode("utf-8", "replace").strip('"')
            raise Skip
        if field not in ("state", ""):
            raise Skip
        text = payload.decode("utf-8", "replace").strip('"')
        return None, _watts_of_text(text, _factor(units.get(sensor), factor))

    return parse


def _tasmota_parser(options: PayloadOptions) -> Parser:
    """tele/…/SENSOR of Tasmota: ENERGY.Power, one number or one for each phase."""
    factor = FACTORS[options.unit]
    moment_of = None if options.zone is None else _time_reader(options.zone)

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        document = _document(payload, options)
        # The time of Tasmota has no zone: without --tz the time of arrival counts.
        stamp = _follow(document, ["Time"])
        moment = None if moment_of is None or stamp is None else moment_of(stamp)
        with _at(moment):
            power = _follow(document, ["ENERGY", "Power"])
            if power is None:
                raise PayloadError("a payload has no ENERGY.Power")
            parts = power if isinstance(power, list) else [power]
            watts = [_watts(part, factor) for part in parts]
            return moment, math.fsum(w for w in watts if w is not None)

    return parse


_SHELLY = re.compile(r"^(switch|pm1|em|em1|light|cover):\d+$")
_SHELLY_POWER = ("apower", "total_act_power", "act_power")


def _shelly2_parser(options: PayloadOptions) -> Parser:
    """Shelly Gen2 and later: …/status/switch:0, or …/events/rpc with NotifyStatus."""
    factor = FACTORS[options.unit]

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        document = _document(payload, options)
        params = document.get("params") if isinstance(document, dict) else None
        found = [document] if params is None else []
        moment = None
        if isinstance(params, dict):
            found = [part for name, part in params.items() if _SHELLY.match(name)]
            stamp = params.get("ts")
            if isinstance(stamp, int | float):
                moment = round(stamp * 1000) * (SECOND // 1000)
        for part in found:
            for name in _SHELLY_POWER:
                if isinstance(part, dict) and name in part:
                    with _at(moment):
                        return moment, _watts(part[name], factor)
        # A notification about something else, such as a switch, is no reading.
        raise Skip

    return parse


def _dsmr_parser(options: PayloadOptions) -> Parser:
    """A DSMR P1 telegram with its own time, unit and checksum."""
    from dsmr_parser.exceptions import InvalidChecksumError, ParseError
    from dsmr_parser.parsers import TelegramParser

    winter = winter_offset(options.zone)

    def parse(topic: str, payload: bytes) -> Parsed:  # noqa: ARG001
        text = payload.decode("latin-1")
        try:
            TelegramParser.validate_checksum(text)
        except (InvalidChecksumError, ParseError, ValueError, IndexError):
            # A checksum fails by a fault of the line, which follows from no value.
            raise NotAReading("a telegram is torn or fails its checksum") from None
        moment = _telegram_time(text, winter)
        with _at(moment):
            drawn = DRAWN.search(text)
            if drawn is None:
                raise PayloadError("a telegram has no power drawn (1-0:1.7.0)")
            return moment, float(drawn[1]) * FACTORS[drawn[2]]

    return parse


def _telegram_time(text: str, winter: timedelta) -> int | None:
    """Time of a telegram [ns since 1970], or None if it has none or an impossible one."""
    stamp = STAMP.search(text)
    if stamp is None:
        return None
    try:
        return int(telegram_seconds(stamp[1], stamp[2], winter)) * SECOND
    except ValueError:
        return None


def _time_reader(zone: str | None) -> Callable[[Any], int]:
    """Return a function from a time (ISO 8601 text, or seconds since 1970) to nanoseconds."""

    def read(stamp: Any) -> int:
        if isinstance(stamp, str):
            try:
                moment = datetime.fromisoformat(stamp)
            except ValueError:
                return _from_number(stamp)
            if moment.tzinfo is None:
                if zone is None:
                    raise NotAReading("a time has no time zone; give --tz")
                moment = in_zone(moment, zone)
            # Whole microseconds, because a float of seconds would lose the last digits.
            since = moment - _EPOCH
            return (
                since.days * SECONDS_PER_DAY + since.seconds
            ) * SECOND + since.microseconds * 1000
        return _from_number(stamp)

    return read


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _from_number(stamp: Any) -> int:
    """Seconds since 1970, up to the year 2286, as nanoseconds; whole milliseconds are kept."""
    try:
        seconds = float(stamp)
    except (TypeError, ValueError):
        raise NotAReading("a time is neither ISO 8601 nor seconds since 1970") from None
    if isinstance(stamp, bool) or not 0 <= seconds < 1e10:
        raise NotAReading("a time is neither ISO 8601 nor seconds since 1970")
    return round(seconds * 1000) * (SECOND // 1000)


def _path(text: str) -> list[str]:
    """Split a path such as ENERGY.Power or channels.0.power; a colon belongs to a name."""
    steps = text.split(".")
    if not all(steps):
        raise InputError(f"a path in a JSON payload is like ENERGY.Power, got {text!r}.")
    return steps


def _document(payload: bytes, options: PayloadOptions) -> Any:
    """Parse JSON; refuse readings of a replay unless they are expected."""
    document = None
    for text in (payload, _mend(payload)):
        try:
            document = json.loads(text)
            break
        except (ValueError, RecursionError):
            continue
    else:
        raise PayloadError("a payload is not JSON")
    if isinstance(document, dict) and document.get(SIMULATION) and not options.simulation:
        raise NotAReading("a payload comes from hushmeter replay; accept it with --simulation")
    return document


_BARE = re.compile(r"(:\s*)([^\s\"{\[\]},][^,}\]]*)?(?=\s*[,}])")


def _mend(payload: bytes) -> str:
    """Quote what is no JSON value, such as inf or nothing at all, so that the time can be read."""

    def quote(found: re.Match[str]) -> str:
        value = (found[2] or "").strip()
        try:
            json.loads(value)
        except ValueError:
            value = json.dumps(value or "-")
        return f"{found[1]}{value}"

    return _BARE.sub(quote, payload.decode("utf-8", "replace"))


def _follow(document: Any, steps: list[str]) -> Any:
    """Return the part of a document at a path, or None."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def _has(document: Any, steps: list[str]) -> bool:
    """True if the path exists, even if its value is null."""
    around = _follow(document, steps[:-1])
    return isinstance(around, dict) and steps[-1] in around


def _watts(value: Any, factor: float) -> float | None:
    """Return a JSON value as watts, or None for a meter that is not connected."""
    if value is None:
        raise NoValue("a value is missing")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PayloadError("a value is not a number")
    return _watts_of_text(value, factor)


def _watts_of_text(value: str | float, factor: float) -> float | None:
    """Return a number, or a text with a number, as watts; None for a meter that is away."""
    try:
        watts = float(value) * factor
    except (ValueError, OverflowError):
        word = str(value).strip().lower()
        if word == AWAY:
            return None
        if word in NO_VALUE:
            raise NoValue("a value is missing") from None
        raise PayloadError("a value is not a number") from None
    if not math.isfinite(watts):
        raise PayloadError("a value is not a finite number")
    return watts


def _factor(stated: Any, declared: float) -> float:
    """Return the watts per unit that a payload states, or the declared ones if it states none."""
    if stated is None:
        return declared
    if not isinstance(stated, str) or stated not in STATED_FACTORS:
        raise PayloadError("a payload states a unit that is not one of power")
    return STATED_FACTORS[stated]
