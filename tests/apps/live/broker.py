"""A real mosquitto on loopback for the tests."""

from __future__ import annotations

import getpass
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed here")


class Broker:
    """A mosquitto process on a free port of loopback."""

    def __init__(self, folder: Path, *settings: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        lines = [
            # A broker that root starts would become another user, who cannot read the folder.
            f"user {getpass.getuser()}",
            f"listener {self.port} 127.0.0.1",
            # A fast replay must not overflow the queue of a client.
            "max_queued_messages 0",
            *(settings or ("allow_anonymous true",)),
        ]
        self._config = folder / f"mosquitto-{self.port}.conf"
        self._config.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("mosquitto does not start")

    def pause(self, seconds: float) -> None:
        """Let the broker do nothing for a time; return at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self._process.send_signal, [signal.SIGCONT]).start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Subscriber:
    """A client that keeps every message, in the order of arrival."""

    def __init__(self, broker: Broker, *topics: str) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages: list[tuple[str, bytes, bool]] = []
        self._new = threading.Condition()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: [client.subscribe(t, qos=1) for t in topics]
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()

    def _take(self, client: Any, data: Any, message: Any) -> None:
        with self._new:
            self.messages.append((message.topic, message.payload, message.retain))
            self._new.notify_all()

    def of(self, topic: str) -> list[bytes]:
        """Payloads of one topic."""
        return [payload for name, payload, _ in self.messages if name == topic]

    def wait_for(self, topic: str, count: int, seconds: float = 60.0) -> list[bytes]:
        """Wait until a topic has a number of messages."""
        with self._new:
            arrived = self._new.wait_for(lambda: len(self.of(topic)) >= count, seconds)
        assert arrived, f"{len(self.of(topic))} of {count} messages on {topic}"
        return self.of(topic)

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish a message that the broker keeps."""
        self._client.publish(topic, payload, qos=1, retain=True).wait_for_publish(10)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
