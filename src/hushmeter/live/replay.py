"""Replay of a file as if a meter sent it now: the test bench of a stream.

Each reading becomes a JSON document with its time and a mark, so that nobody mistakes it for a real
meter: {"time": "2024-03-01T00:00:00Z", "watts": 250.0, "simulation": true}. `hushmeter live` takes
such readings only with --simulation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.live.mqtt import WAIT_S, Connection, MqttPlace, wait_until_published
from hushmeter.live.payloads import SIMULATION
from hushmeter.live.stream import iso_of

if TYPE_CHECKING:
    from paho.mqtt.client import MQTTMessageInfo

    from hushmeter.trace import Trace

MOST_WAITING = 500
"""Messages after which the replay waits for an answer of the broker."""


def replay_messages(trace: Trace, *, start_ns: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the time since the first reading [ns] and the message of every reading of a trace.

    The first reading has its own time, or `start_ns` [ns since 1970].
    """
    times = trace.times.astype("datetime64[ns]").astype(np.int64)
    since = (times - times[0]).tolist()
    begin = int(times[0]) if start_ns is None else start_ns
    for after, watts in zip(since, trace.readings.tolist(), strict=True):
        fields = {"time": iso_of(begin + after), "watts": watts, SIMULATION: True}
        yield after, json.dumps(fields)


def pace(
    messages: Iterator[tuple[int, str]],
    speed: float | None,
    send: Callable[[str], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send messages at the pace of their times, or `speed` times faster; return their number.

    Without a speed they are sent as fast as possible.
    """
    begin, count = time.monotonic(), 0
    for after, message in messages:
        if speed is not None:
            left = begin + after / SECOND / speed - time.monotonic()
            if left > 0:
                sleep(left)
        send(message)
        count += 1
    return count


def replay_to_mqtt(
    place: MqttPlace, messages: Iterator[tuple[int, str]], speed: float | None
) -> int:
    """Publish messages to a topic of a broker; return their number."""
    sentences: list[str] = []
    connection = Connection(
        place, "hushmeter-replay", on_connect=lambda: None, on_lost=sentences.append
    )
    connection.start()
    try:
        _wait_for_connection(connection, sentences)
        sent = 0
        last: MQTTMessageInfo | None = None

        def send(message: str) -> None:
            nonlocal sent, last
            sent += 1
            # Messages of one connection keep their order, so one answer is enough for all before.
            answered = sent % MOST_WAITING == 0
            last = connection.client.publish(place.topic, message, qos=int(answered))
            if answered:
                _wait_for(last)

        count = pace(messages, speed, send)
        if last is not None:
            _wait_for(last)
        return count
    finally:
        connection.stop()


def _wait_for_connection(connection: Connection, sentences: list[str]) -> None:
    """Wait for the first connection; raise `DataError` if the broker refuses or is silent."""
    until = time.monotonic() + WAIT_S
    while not connection.connected.wait(0.05):
        if sentences or time.monotonic() > until:
            raise DataError(sentences[0] if sentences else f"{connection.place} does not answer.")


def _wait_for(info: MQTTMessageInfo) -> None:
    """Wait until the broker has a message, and so every earlier one."""
    if not wait_until_published(info):
        raise DataError("the broker does not answer; start the replay again.")
