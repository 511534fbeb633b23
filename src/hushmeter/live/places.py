"""From the places of the command line to sources and sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from hushmeter.errors import InputError
from hushmeter.live.mqtt import MqttSink, MqttSource, parse_mqtt
from hushmeter.live.sinks import FolderSink, HttpSink, Sink
from hushmeter.live.sources import LineSource, Source, TelegramSource
from hushmeter.live.state import State
from hushmeter.live.stream import Terms


def open_source(
    place: str, payload: str, terms: Terms, *, follow: bool, online: str | None = None
) -> Source:
    """Return the source at a place.

    Parameters
    ----------
    place : str
        mqtt://HOST/TOPIC, mqtts://…, dsmr:///dev/ttyUSB0, dsmr+tcp://HOST:PORT, the path of a file,
        or "-" for standard input. `?version=4` chooses the version of DSMR.
    payload : str
        Kind of the payloads.
    terms : Terms
        The terms of the stream.
    follow : bool
        Wait for more at the end of a file.
    online : str, optional
        Topic of MQTT that says whether the meter is connected.

    Returns
    -------
    Source

    Raises
    ------
    InputError
        If the place has an unknown form, or `online` belongs to no broker.
    """
    scheme = _scheme(place)
    if scheme in ("mqtt", "mqtts"):
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
    """Return the sink at a place.

    Parameters
    ----------
    place : str
        mqtt://HOST/PREFIX, mqtts://…, http://…, https://…, or a folder.
    terms : Terms
        The terms of the stream.
    state : State
        Its state.
    kind : {"csv", "parquet"}
        Format of the files of a folder.
    log : callable
        Takes sentences about a connection.

    Returns
    -------
    Sink

    Raises
    ------
    InputError
        If the place has an unknown form.
    """
    scheme = _scheme(place)
    if scheme in ("mqtt", "mqtts"):
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
