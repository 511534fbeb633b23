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

`make_parser` is the boundary of all messages: nothing else is ever raised, whatever the bytes are.

The unit of the values is declared. A payload that names a unit of power itself is converted.

A file that ends can be refused without telling anybody anything, so all its rows are read before
anything of it is published (`preview`). A stream cannot: a gap or an error would be public.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.clock import SECOND, in_zone
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.read.meter_records import DRAWN, STAMP, telegram_seconds, winter_offset
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

LONGEST_MESSAGE = 1 << 16
"""Longest message that is read [bytes]."""

LAST_NS = 9 * 10**9 * SECOND
"""First time that is too late for a reading, in the year 2255 [ns since 1970]."""

SIMULATION = "simulation"
"""Field of a JSON payload that `hushmeter replay` sets."""


class PayloadError(ValueError):
    """A payload is not a number; the sentence says why without its content."""

    moment: int | None = None  # Time of the reading [ns since 1970], if the payload carries it


class NoValue(PayloadError):  # noqa: N818
    """A payload is a declared word for a missing value."""


class NotAReading(PayloadError):  # noqa: N818
    """A message that is no reading, for a reason that follows from no value."""


class Skip(NotAReading):
    """A message that is no reading and no fault."""


@dataclass(frozen=True)
class PayloadOptions:
    """What a payload does not say about itself."""

    unit: str = "W"  # Declared unit of the values
    zone: str | None = None  # Time zone of times without one
    # Path of the time in a JSON payload; "time" by default, if it is there
    time_path: str | None = None
    simulation: bool = False  # True if readings of `hushmeter replay` are accepted

    @property
    def factor(self) -> float:
        """Watts per declared unit."""
        return FACTORS[self.unit]


Parser = Callable[[str, bytes], Parsed]
"""From a topic (or "") and a payload to a reading."""


def make_parser(kind: str, options: PayloadOptions | None = None) -> Parser:
    """Return the parser of a kind of payload, from a topic and a payload to a time and a power.

    The kind is "number", "csv" (time,watts), "json:PATH", "statestream" (Home Assistant),
    "tasmota", "shelly1", "shelly2" or "dsmr". Raise `InputError` if it or the unit is unknown.
    """
    known = options or PayloadOptions()
    if known.unit not in FACTORS:
        raise InputError(
            f"a stream needs readings of power in W or kW, got {known.unit!r}; an energy counter "
            "cannot be streamed."
        )
    if kind.startswith("json:") and len(kind) > 5:
        json_parser = partial(_parse_json, known, _path(kind[5:]), _path(known.time_path or "time"))
        return partial(_read_message, json_parser)
    parsers: dict[str, Callable[..., Parsed]] = {
        "number": _parse_number,
        "csv": _parse_csv,
        "statestream": partial(_parse_statestream, {}),
        "tasmota": _parse_tasmota,
        "shelly1": _parse_number,
        "shelly2": _parse_shelly2,
        "dsmr": _parse_dsmr,
    }
    if kind not in parsers:
        raise UnknownNameError("payload", kind, [*parsers, "json:PATH"])
    return partial(_read_message, partial(parsers[kind], known))


def _read_message(parse: Parser, topic: str, payload: bytes) -> Parsed:
    """Return what a parser finds in a message; every failure of it becomes a `PayloadError`."""
    if len(payload) > LONGEST_MESSAGE:
        raise PayloadError(f"a payload has more than {LONGEST_MESSAGE} bytes")
    try:
        moment, watts = parse(topic, payload)
    except PayloadError:
        raise
    except Exception:
        raise PayloadError("a payload cannot be read") from None
    if watts is None or math.isfinite(watts):
        return moment, watts
    fault = PayloadError("a value is not a finite number")
    fault.moment = moment
    raise fault


def is_even(times: IntArray, interval_ns: int) -> bool:
    """True if there is exactly one row for every interval from the first to the last time [ns]."""
    slots = np.unique(times // interval_ns)
    return bool(slots.size == times.size == slots[-1] - slots[0] + 1)


def preview(lines: Iterable[bytes], parse: Parser, name: str) -> IntArray:
    """Read the times of all rows of a table, in their order [ns since 1970].

    Raise `DataError` if a row has no time, or neither a number nor a declared word for a missing
    value; the message has the name of the table.
    """
    times = []
    for row, line in enumerate(lines, 1):
        try:
            moment, _ = parse("", line)
        except Skip:
            continue
        except NoValue as error:
            moment = error.moment
        except PayloadError as error:
            advice = (
                "each row begins with a time such as 2024-03-01T00:00:00Z and goes on with a "
                "value; `hushmeter release` reads the files of portals"
                if isinstance(error, NotAReading) or row == 1
                else "write a number, or leave the cell empty where the meter has no value"
            )
            raise DataError(
                f"{name} cannot be published, because row {row} of its readings cannot be read: "
                f"{error}; {advice}."
            ) from None
        if moment is None:
            raise DataError(f"{name} cannot be published, because a row of it has no time.")
        times.append(moment)
    if not times:
        raise DataError(f"{name} has no readings.")
    return np.array(times, dtype=np.int64)


@contextmanager
def _at(moment: int | None) -> Iterator[None]:
    """Give the time of the reading to an error about its value; any error is a `PayloadError`."""
    if moment is not None and not 0 <= moment < LAST_NS:
        raise NotAReading("a time is outside the years 1970 to 2255")
    try:
        yield
    except Exception as error:
        # Nobody can list what damaged bytes do to a parser, and the damage may follow from a value.
        found = PayloadError("a payload cannot be read")
        if isinstance(error, PayloadError):
            found = error
        found.moment = moment
        raise found from None


def _parse_number(options: PayloadOptions, _topic: str, payload: bytes) -> Parsed:
    """A plain number such as b"123.4"."""
    return None, _watts_of_text(payload.decode("utf-8", "replace").strip('"'), options.factor)


def _parse_csv(options: PayloadOptions, _topic: str, payload: bytes) -> Parsed:
    """One line of a table: time, value."""
    text = payload.decode("utf-8", "replace")
    # Where semicolons separate the columns, a comma is the decimal sign.
    cells = text.split(";" if ";" in text else ",")
    moment = _moment(cells[0].strip(), options.zone)
    with _at(moment):
        if len(cells) < 2:
            raise PayloadError("a line is not a time and a number")
        value = cells[1].replace(",", ".") if ";" in text else cells[1]
        return moment, _watts_of_text(value, options.factor)


def _parse_json(
    options: PayloadOptions, steps: list[str], time_steps: list[str], _topic: str, payload: bytes
) -> Parsed:
    """One field of a JSON document; a field "unit" beside it must be a unit of power."""
    document = _document(payload, options)
    stamp = _follow(document, time_steps)
    if stamp is None and options.time_path is not None:
        raise NotAReading("a payload has no time at --time-path")
    moment = None if stamp is None else _moment(stamp, options.zone)
    with _at(moment):
        value, around = _follow(document, steps), _follow(document, steps[:-1])
        if value is None and not (isinstance(around, dict) and steps[-1] in around):
            raise PayloadError("a payload has no field at the path of --payload")
        stated = None
        if isinstance(around, dict):
            stated = around.get("unit", around.get("unit_of_measurement"))
        return moment, _watts(value, _factor(stated, options.factor))


def _parse_statestream(
    units: dict[str, str], options: PayloadOptions, topic: str, payload: bytes
) -> Parsed:
    """Home Assistant's mqtt_statestream: …/state, with …/unit_of_measurement beside it."""
    sensor, _, field = topic.rpartition("/")
    text = payload.decode("utf-8", "replace").strip('"')
    if field == "unit_of_measurement":
        units[sensor] = text
    if field not in ("state", ""):
        raise Skip
    return None, _watts_of_text(text, _factor(units.get(sensor), options.factor))


def _parse_tasmota(options: PayloadOptions, _topic: str, payload: bytes) -> Parsed:
    """tele/…/SENSOR of Tasmota: ENERGY.Power, one number or one for each phase."""
    document = _document(payload, options)
    # The time of Tasmota has no zone: without --tz the time of arrival counts.
    stamp = _follow(document, ["Time"])
    moment = None if options.zone is None or stamp is None else _moment(stamp, options.zone)
    with _at(moment):
        power = _follow(document, ["ENERGY", "Power"])
        if power is None:
            raise PayloadError("a payload has no ENERGY.Power")
        watts = [_watts(p, options.factor) for p in (power if isinstance(power, list) else [power])]
        return moment, math.fsum(w for w in watts if w is not None)


_SHELLY = re.compile(r"^(switch|pm1|em|em1|light|cover):\d+$")
_SHELLY_POWER = ("apower", "total_act_power", "act_power")


def _parse_shelly2(options: PayloadOptions, _topic: str, payload: bytes) -> Parsed:
    """Shelly Gen2 and later: …/status/switch:0, or …/events/rpc with NotifyStatus."""
    document = _document(payload, options)
    params = document.get("params") if isinstance(document, dict) else None
    found, moment = [document] if params is None else [], None
    if isinstance(params, dict):
        found = [part for name, part in params.items() if _SHELLY.match(name)]
        stamp = params.get("ts")
        moment = None if stamp is None else _from_number(stamp)
    for part in found:
        for name in _SHELLY_POWER:
            if isinstance(part, dict) and name in part:
                with _at(moment):
                    return moment, _watts(part[name], options.factor)
    # A notification about something else, such as a switch, is no reading.
    raise Skip


def _parse_dsmr(options: PayloadOptions, _topic: str, payload: bytes) -> Parsed:
    """A DSMR P1 telegram with its own time, unit and checksum."""
    from dsmr_parser.exceptions import InvalidChecksumError, ParseError
    from dsmr_parser.parsers import TelegramParser

    text = payload.decode("latin-1")
    try:
        TelegramParser.validate_checksum(text)
    except (InvalidChecksumError, ParseError, ValueError, IndexError):
        # A checksum fails by a fault of the line, which follows from no value.
        raise NotAReading("a telegram is torn or fails its checksum") from None
    moment, stamp = None, STAMP.search(text)
    with suppress(ValueError):
        if stamp is not None:
            winter = winter_offset(options.zone)
            moment = int(telegram_seconds(stamp[1], stamp[2], winter)) * SECOND
    with _at(moment):
        drawn = DRAWN.search(text)
        if drawn is None:
            raise PayloadError("a telegram has no power drawn (1-0:1.7.0)")
        return moment, float(drawn[1]) * FACTORS[drawn[2]]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(stamp: Any, zone: str | None) -> int:
    """Return a time (ISO 8601 text, or seconds since 1970) in nanoseconds since 1970."""
    if not isinstance(stamp, str):
        return _from_number(stamp)
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
    return (since.days * SECONDS_PER_DAY + since.seconds) * SECOND + since.microseconds * 1000


def _from_number(stamp: Any) -> int:
    """Seconds since 1970 as nanoseconds; whole milliseconds are kept."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(stamp, bool):
            return round(float(stamp) * 1000) * (SECOND // 1000)
    raise NotAReading("a time is neither ISO 8601 nor seconds since 1970")


def _path(text: str) -> list[str]:
    """Split a path such as ENERGY.Power or channels.0.power; a colon belongs to a name."""
    steps = text.split(".")
    if not all(steps):
        raise InputError(f"a path in a JSON payload is like ENERGY.Power, got {text!r}.")
    return steps


def _document(payload: bytes, options: PayloadOptions) -> Any:
    """Parse JSON; refuse readings of a replay unless they are expected."""
    try:
        try:
            document = json.loads(payload)
        except ValueError:
            document = json.loads(_mend(payload))
    except (ValueError, RecursionError):
        raise PayloadError("a payload is not JSON") from None
    if isinstance(document, dict) and document.get(SIMULATION) and not options.simulation:
        raise NotAReading("a payload comes from hushmeter replay; accept it with --simulation")
    return document


# No part can match in two ways, and a value is short: the time is in proportion to the message.
_BARE = re.compile(r"(:\s*+)([^\s\"{\[\]},][^,}\]]{0,99}+)?+(?=\s{0,99}+[,}])")


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
    return watts


def _factor(stated: Any, declared: float) -> float:
    """Return the watts per unit that a payload states, or the declared ones if it states none."""
    if stated is None:
        return declared
    if not isinstance(stated, str) or stated not in STATED_FACTORS:
        raise PayloadError("a payload states a unit that is not one of power")
    return STATED_FACTORS[stated]
