"""From the places of the command line to sources and sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from hushmeter.errors import InputError
from hushmeter.live.mqtt import PORTS, MqttSink, MqttSource, parse_mqtt
from hushmeter.live.sinks import FolderSink, HttpSink, Sink
from hushmeter.live.sources import LineSource, Source, TelegramSource
from hushmeter.live.state import State
from hushmeter.live.stream import Terms


def open_source(
    place: str, payload: str, terms: Terms, *, follow: bool, online: str | None = None
) -> Source:
    """Return the source at a place.

    It is mqtt://HOST/TOPIC, mqtts://…, dsmr:///dev/ttyUSB0, dsmr+tcp://HOST:PORT, the path of a
    file, or "-" for standard input. `?version=4` chooses the version of DSMR, `follow` waits for
    more at the end of a file, and `online` is a topic that says whether the meter is connected.
    """
    scheme = _scheme(place)
    if scheme in PORTS:
        return MqttSource(parse_mqtt(place), terms, payload, online=online)
    if online is not None:
        raise InputError("--online is a topic of the broker of a source mqtt://….")
    if scheme in ("dsmr", "dsmr+tcp"):
        parts = urlsplit(place)
        version = parse_qs(parts.query).get("version", ["5"])[-1]
        tcp = scheme == "dsmr+tcp"
        return TelegramSource(parts.netloc if tcp else parts.path, tcp=tcp, version=version)
    if scheme:
        raise InputError(
            f"a source begins with mqtt://, mqtts://, dsmr:// or dsmr+tcp://, not {scheme}://."
        )
    path = None if place == "-" else Path(place)
    return LineSource(path, follow=follow and path is not None, header=payload == "csv")


def open_sink(
    place: str, terms: Terms, state: State, *, kind: str = "csv", log: Callable[[str], None]
) -> Sink:
    """Return the sink at a place: mqtt(s)://HOST/PREFIX, http(s)://… or a folder."""
    scheme = _scheme(place)
    if scheme in PORTS:
        return MqttSink(parse_mqtt(place), terms, state, log)
    if scheme in ("http", "https"):
        return HttpSink(place, terms)
    if scheme:
        raise InputError(
            f"--to begins with mqtt://, mqtts://, http:// or https://, not {scheme}://."
        )
    return FolderSink(place, terms, state, kind=kind)


def _scheme(place: str) -> str:
    """Return the scheme of a URL, or "" for a path."""
    return place.partition("://")[0].lower() if "://" in place else ""
