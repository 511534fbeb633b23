"""MQTT: a source of readings, a sink of protected values, and the connection that both share.

A place is a URL: mqtt://user@host:1883/topic, or mqtts:// for TLS. The password comes from the URL
or, better, from the environment variable HUSHMETER_MQTT_PASSWORD; it is never printed. `?ca=FILE`
names the certificate of a private authority.

Topics of a stream called home, below the prefix of the sink (hushmeter by default), all retained:

    hushmeter/home/window, day, month    the last message of each kind; typical-day in a calendar
    hushmeter/home/status                whether values are published, and why not
    hushmeter/home/terms                 what is protected, at which ε, by which noise
    hushmeter/home/availability          online or offline; the broker sets it if the process dies

*Home Assistant* reads a retained message PREFIX/sensor/NODE/OBJECT/config and makes an entity of it
[1]_, so that the protected sensors appear there by themselves. The power of a window is a
measurement in W. The energy of a day or a month is a total in kWh that begins at zero at its start
(`last_reset`). Noise can make it negative, so it is not declared as ever increasing.

*Replay* sends a file as if a meter sent it now: the test bench of a stream. Each reading becomes a
JSON document with its time and a mark, so that nobody mistakes it for a real meter:
{"time": "2024-03-01T00:00:00Z", "watts": 250.0, "simulation": true}. `hushmeter live` takes such
readings only with --simulation.

References
----------
.. [1] Home Assistant, "MQTT sensor" and "MQTT discovery", home-assistant.io/integrations/mqtt.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from hushmeter import __version__
from hushmeter.apps.live.addresses import Back, Lost, Receive, Sink, SinkError, Source
from hushmeter.apps.live.payloads import SIMULATION
from hushmeter.apps.live.stream import iso_of
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError, MissingExtraError

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessageInfo

    from hushmeter.apps.live.state import Item, State
    from hushmeter.apps.live.stream import Terms
    from hushmeter.trace import Trace

PASSWORD = "HUSHMETER_MQTT_PASSWORD"
PORTS = {"mqtt": 1883, "mqtts": 8883}
KEEPALIVE_S = 30
WAIT_S = 5.0
"""Longest time to wait for a connection at the start, and for the answer to a message [s]."""

ONLINE_WORDS = frozenset({"online", "true", "1", "on", "connected"})
"""Payloads of a topic of availability that say that a meter is connected."""

LEAST_GRACE_S = 2
"""Shortest time within which a lost connection is noticed [s]."""

RETAINED_S = 1.0
"""Longest time to wait for a message that the broker keeps [s]."""

RECONNECT_S = (1, 30)
"""Shortest and longest time until a lost connection is made again [s]."""

ONLINE, OFFLINE = "online", "offline"
"""Content of the topic of availability."""

EXPIRES_AFTER = 3
"""Number of windows without a message after which Home Assistant shows "unavailable"."""

MOST_WAITING = 500
"""Messages after which the replay waits for an answer of the broker."""


@dataclass(frozen=True)
class MqttPlace:
    """A broker and a topic."""

    host: str
    port: int
    topic: str
    tls: bool
    user: str | None
    password: str | None
    options: dict[str, str]

    def __str__(self) -> str:
        return f"mqtt{'s' if self.tls else ''}://{self.host}:{self.port}"


def parse_mqtt(url: str) -> MqttPlace:
    """Parse the URL of a broker."""
    # A topic may have the sign # for all topics below it.
    parts = urlsplit(url, allow_fragments=False)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise InputError("a broker is given as mqtt://HOST:PORT/TOPIC or mqtts://….") from None
    if not parts.hostname:
        raise InputError("a broker is given as mqtt://HOST:PORT/TOPIC; the host is missing.")
    password = unquote(parts.password) if parts.password else os.environ.get(PASSWORD)
    return MqttPlace(
        parts.hostname,
        port,
        unquote(parts.path).strip("/"),
        parts.scheme == "mqtts",
        unquote(parts.username) if parts.username else None,
        password,
        {name: values[-1] for name, values in parse_qs(parts.query).items()},
    )


class Connection:
    """A connection to a broker that is made again whenever it is lost.

    A connection that is lost silently is noticed within twice `keepalive_s`. `on_lost` gets a
    sentence after every loss or failed attempt. A broker ends a connection if another one has its
    `client_id`; some take no more than 23 letters.
    """

    def __init__(
        self,
        place: MqttPlace,
        client_id: str,
        *,
        keepalive_s: int = KEEPALIVE_S,
        on_connect: Callable[[], None],
        on_lost: Callable[[str], None],
    ) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise MissingExtraError("MQTT", "live") from None
        self.place, self._keepalive_s = place, keepalive_s
        self.connected = threading.Event()
        self._answered = False
        self.client: Client = Client(CallbackAPIVersion.VERSION2, client_id=client_id)
        self._on_connect, self._on_lost = on_connect, on_lost
        if place.user is not None:
            self.client.username_pw_set(place.user, place.password)
        if place.tls:
            self.client.tls_set_context(_tls_context(place.options.get("ca")))
        self.client.reconnect_delay_set(*RECONNECT_S)
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_connect_fail = self._failed
        # paho ends its thread at the first exception, and nobody would notice.
        self.client.loop_forever = partial(self._exchange, self.client.loop_forever)  # type: ignore[method-assign]

    def _exchange(self, loop: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Exchange messages in the thread of paho; any fault in it is a lost connection."""
        while True:
            try:
                return loop(*args, **more)
            except Exception as error:
                self.connected.clear()
                kind = type(error).__name__
                self._on_lost(f"the connection to {self.place} fails ({kind}); it is made again.")
                # A fault that comes at once again must not take all of a processor.
                time.sleep(RECONNECT_S[0])
                with suppress(OSError, ValueError):
                    self.client.reconnect()

    def start(self) -> None:
        """Begin to connect, in a thread."""
        self.client.connect_async(self.place.host, self.place.port, self._keepalive_s)
        self.client.loop_start()

    def stop(self) -> None:
        """Disconnect and end the thread."""
        self.client.disconnect()
        self.client.loop_stop()

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:  # noqa: ARG002
        self._answered = True
        if reason.is_failure:
            self._on_lost(f"{self.place} refuses the connection: {str(reason).lower()}.")
            return
        self._on_connect()
        self.connected.set()

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:  # noqa: ARG002
        was, answered = self.connected.is_set(), self._answered
        self.connected.clear()
        self._answered = False
        if not reason.is_failure:
            return  # This side closed it, perhaps before the broker answered.
        if was:
            self._on_lost(f"the connection to {self.place} is lost; it is made again.")
        elif not answered:
            self._on_lost(
                f"{self.place} closes the connection without an answer; check the port, and use "
                "mqtts:// if the broker expects TLS."
            )

    def _failed(self, client: Any, data: Any) -> None:  # noqa: ARG002
        # paho calls this from within its handler of the error.
        error = sys.exc_info()[1]
        if isinstance(error, ssl.SSLError):
            reason = f"TLS fails ({error.reason or 'unknown'})"
        else:
            reason = getattr(error, "strerror", None) or "no answer"
        self._on_lost(f"{self.place} cannot be reached: {reason}.")


def wait_until_published(info: MQTTMessageInfo) -> bool:
    """Wait until the broker has a message; return False if that takes too long or fails."""
    try:
        info.wait_for_publish(WAIT_S)
        return info.is_published()
    except (RuntimeError, ValueError):
        return False


def _tls_context(authority: str | None) -> ssl.SSLContext:
    """Return a context that checks the certificate of the broker."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError):
        raise InputError(f"the certificate file {authority} cannot be used.") from None


class MqttSource(Source):
    """Messages of one topic, or of several with + and #.

    If the meter sends only changes, a message that the broker kept is the present value; otherwise
    it is an old reading and is left out. On the topic `online` the meter and, by its last will, the
    broker say whether the meter is connected.
    """

    def __init__(
        self, place: MqttPlace, terms: Terms, payload: str, *, online: str | None = None
    ) -> None:
        super().__init__()
        if not place.topic:
            raise InputError("a source is given as mqtt://HOST/TOPIC; the topic is missing.")
        if online is not None and not terms.hold:
            raise InputError("--online belongs to a meter that sends only changes.")
        if terms.hold and terms.grace_s < LEAST_GRACE_S:
            raise InputError(
                f"a lost connection is noticed within --grace, so it must be {LEAST_GRACE_S} s or "
                "more for a meter that sends only changes."
            )
        self._place, self._terms, self._online = place, terms, online
        self._topics = [place.topic]
        if payload == "statestream" and place.topic.endswith("/state"):
            # The unit arrives first if both are retained and it is subscribed first.
            self._topics.insert(0, f"{place.topic.removesuffix('state')}unit_of_measurement")
        if online is not None:
            self._topics.append(online)
        self._connection: Connection | None = None
        self.subscribed = threading.Event()
        """Set when the broker has confirmed the subscription for the first time."""

    def start(self, receive: Receive, lost: Lost, back: Back) -> None:
        """Connect and subscribe."""

        def take(client: Any, data: Any, message: Any) -> None:  # noqa: ARG001
            if message.topic == self._online:
                word = message.payload.decode("utf-8", "replace").strip().strip('"').lower()
                if word in ONLINE_WORDS:
                    back()
                else:
                    lost("the meter is not connected to the broker.")
            elif self._terms.hold or not message.retain:
                receive(message.topic, message.payload)

        def subscribe() -> None:
            for topic in self._topics:
                connection.client.subscribe(topic, qos=0)

        def confirmed(client: Any, data: Any, message: Any, answers: Any, more: Any) -> None:  # noqa: ARG001
            if any(answer.is_failure for answer in answers):
                lost(f"{self._place} refuses to send the topic; check the rights of its user.")
                return
            self.subscribed.set()
            if self._online is None:
                back()

        # A loss is noticed within twice the time between two questions.
        keepalive_s = max(1, min(KEEPALIVE_S, int(self._terms.grace_s / 2)))
        connection = Connection(
            self._place,
            f"hushmeter-{self._terms.name}-{secrets.token_hex(4)}",
            keepalive_s=keepalive_s if self._terms.hold else KEEPALIVE_S,
            on_connect=subscribe,
            on_lost=lost,
        )
        connection.client.on_message = take
        connection.client.on_subscribe = confirmed
        self._connection = connection
        connection.start()

    def stop(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.stop()


class MqttSink(Sink):
    """Retained messages with availability and Home Assistant's discovery.

    The path of the URL is the prefix of the topics. `?discovery=PREFIX` is the prefix of the
    discovery, homeassistant by default; `?discovery=no` leaves it out.
    """

    def __init__(
        self, place: MqttPlace, terms: Terms, state: State, log: Callable[[str], None]
    ) -> None:
        super().__init__(f"{place}/{place.topic}")
        self._state = state
        self._last: dict[str, str] = {}
        self._terms, self._base = terms, f"{place.topic or 'hushmeter'}/{terms.name}"
        self._discovery = place.options.get("discovery", "homeassistant")
        self._available = ONLINE
        self._compared = False
        self._retained = threading.Event()
        self._until: int | None = None
        # The same again after a crash, so that the broker ends the old connection and its last will
        # comes first; another one for another prefix.
        number = zlib.crc32(self._base.encode())
        self._connection = Connection(
            place, f"hushmeter-{terms.name}-{number:08x}",
            on_connect=self._greet_again, on_lost=log,
        )  # fmt: skip
        self._connection.client.on_message = self._take_retained
        self._connection.client.will_set(f"{self._base}/availability", OFFLINE, qos=1, retain=True)

    def open(self) -> None:
        """Connect; after `WAIT_S` the stream starts without the broker."""
        for item in self._state.last_delivered(self.name):
            self._remember(item)
        self._connection.start()
        self._connection.connected.wait(WAIT_S)

    def _connected(self) -> Any:
        """Return the client; raise `SinkError` if the broker is not connected."""
        if not self._connection.connected.is_set():
            raise SinkError(f"{self._connection.place} is not connected; values wait for it.")
        return self._connection.client

    def _retain(self, topic: str, text: str) -> MQTTMessageInfo:
        """Publish a message that the broker keeps."""
        client = self._connection.client
        return client.publish(f"{self._base}/{topic}", text, qos=1, retain=True)

    def published_until(self) -> int | None:
        """Return the end of the window that the broker keeps [ns since 1970]."""
        client, topic = self._connected(), f"{self._base}/window"
        client.subscribe(topic, qos=1)
        self._retained.wait(RETAINED_S)
        client.unsubscribe(topic)
        self._connected()
        return self._until

    def _take_retained(self, client: Any, data: Any, message: Any) -> None:  # noqa: ARG002
        """Read the window that the broker keeps; a simulation was no release."""
        # It may be anybody's message, and paho ends the connection at an exception.
        with suppress(Exception):
            kept = json.loads(message.payload)
            if not kept.get("simulation"):
                self._until = int(datetime.fromisoformat(kept["end"]).timestamp()) * SECOND
        self._retained.set()

    def accept(self) -> None:
        """Publish everything that is retained, now and after every connection."""
        self._compared = True
        self._greet()

    def _greet_again(self) -> None:
        """Greet after every connection but those before the state was compared."""
        if self._compared:
            self._greet()

    def publish(self, item: Item) -> None:
        """Publish a message and wait until the broker has it."""
        self._connected()
        # Remembered first: a connection that is made meanwhile must not bring back an older one.
        text = self._remember(item)
        if item.kind == "status":
            self._retain("availability", self._available)
        if not wait_until_published(self._retain(item.kind, text)):
            raise SinkError(f"{self._connection.place} does not answer; values wait for it.")

    def _remember(self, item: Item) -> str:
        """Keep a message as the last one of its kind, and return it as it is published."""
        if item.kind == "status":
            self._available = ONLINE if item.message["status"] == "publishing" else OFFLINE
        text = json.dumps(item.message, ensure_ascii=False)
        self._last = self._last | {item.kind: text}
        return text

    def close(self) -> None:
        """Say that the stream is offline, and disconnect."""
        if self._compared and self._connection.connected.is_set():
            wait_until_published(self._retain("availability", OFFLINE))
        self._connection.stop()

    def _greet(self) -> None:
        """Publish everything that is retained after every connection, the last messages too."""
        client = self._connection.client
        self._retain("terms", json.dumps(self._terms.describe(), ensure_ascii=False))
        if self._discovery != "no":
            for topic, config in discovery_messages(self._terms, self._base, self._discovery):
                client.publish(topic, json.dumps(config), qos=1, retain=True)
        for kind, text in self._last.items():
            self._retain(kind, text)
        self._retain("availability", self._available)


def discovery_messages(
    terms: Terms, base: str, prefix: str = "homeassistant"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the topics and the configurations of the sensors of a stream."""
    node = f"hushmeter_{terms.name}"
    shared = {
        "availability_topic": f"{base}/availability",
        "payload_available": ONLINE,
        "payload_not_available": OFFLINE,
        "force_update": True,
        "device": {
            "identifiers": [node],
            "name": f"hushmeter {terms.name}",
            "manufacturer": "hushmeter",
            "model": "simulation" if terms.simulation else "protected readings",
            "sw_version": __version__,
        },
        "origin": {"name": "hushmeter", "sw_version": __version__},
    }
    yield (
        f"{prefix}/sensor/{node}/power/config",
        {
            "name": "Protected power",
            "unique_id": f"{node}_power",
            "device_class": "power",
            "state_class": "measurement",
            "unit_of_measurement": "W",
            "state_topic": f"{base}/window",
            "value_template": "{{ value_json.watts }}",
            "json_attributes_topic": f"{base}/window",
            "expire_after": round(EXPIRES_AFTER * terms.window_s + terms.grace_s),
            **shared,
        },
    )
    for kind in ("day", "month"):
        yield (
            f"{prefix}/sensor/{node}/{kind}/config",
            {
                "name": f"Protected energy of the last {kind}",
                "unique_id": f"{node}_{kind}",
                "device_class": "energy",
                "state_class": "total",
                "unit_of_measurement": "kWh",
                "state_topic": f"{base}/{kind}",
                "value_template": "{{ value_json.kwh }}",
                "last_reset_value_template": "{{ value_json.start }}",
                "json_attributes_topic": f"{base}/{kind}",
                **shared,
            },
        )


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
        place,
        f"hushmeter-replay-{secrets.token_hex(3)}",
        on_connect=lambda: None,
        on_lost=sentences.append,
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
