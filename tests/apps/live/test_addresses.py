"""P1 ports: a pseudo-terminal and a TCP bridge carry a stream of telegrams to protected hours."""

import os
import socket
import termios
import threading
import time

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.live.addresses import LONGEST_LINE, LineSource, TelegramSource, open_source
from hushmeter.apps.live.payloads import PayloadError, make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import State
from tests.apps.live.streams import KEY, Witness, make_terms, make_trace
from tests.apps.live.test_payloads import with_checksum

NOISE = b"\x00\xff half a telegram!\r\n"


def telegrams(trace):
    """The readings of a trace as a meter in winter sends them."""
    local = trace.times + np.timedelta64(1, "h")
    for moment, watts in zip(local.astype("datetime64[s]").tolist(), trace.readings, strict=True):
        yield with_checksum(
            "/KFM5KAIFA-METER\r\n\r\n1-3:0.2.8(42)\r\n"
            f"0-0:1.0.0({moment:%y%m%d%H%M%S}W)\r\n1-0:1.8.1(000671.578*kWh)\r\n"
            f"1-0:1.7.0({watts / 1000:06.3f}*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!"
        )


class Port:
    """The meter's end of a line: a pseudo-terminal or a TCP server."""

    def __init__(self, kind):
        self._kind = kind
        if kind == "tcp":
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.device = f"127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._master, self._slave = os.openpty()
            self.device = os.ttyname(self._slave)

    def connect(self):
        """Wait until the stream has opened the line."""
        if self._kind == "tcp":
            self._connection, _ = self._listener.accept()
            return
        for _ in range(500):
            # An opened port is raw; before that the terminal would change line ends.
            if not termios.tcgetattr(self._slave)[3] & termios.ICANON:
                return
            time.sleep(0.02)
        raise AssertionError("the port was not opened")

    def send(self, data):
        if self._kind == "tcp":
            self._connection.sendall(data)
            return
        while data:
            data = data[os.write(self._master, data[:1024]) :]

    def cut(self):
        if self._kind == "tcp":
            self._connection.close()
            self._listener.close()
        else:
            os.close(self._slave)
            os.close(self._master)


@pytest.mark.parametrize(("kind", "version"), [("serial", "5"), ("serial", "4"), ("tcp", "5")])
def test_telegrams_become_the_hours_of_the_file(tmp_path, kind, version):
    terms, witness, log = make_terms(interval_s=10.0), Witness(), []
    trace = make_trace(3 / 24 + 0.001, interval_s=10.0)
    sent = list(telegrams(trace))
    (tmp_path / "meter.txt").write_bytes(b"".join(sent))
    port = Port(kind)
    scheme = "dsmr+tcp" if kind == "tcp" else "dsmr"
    address = f"{scheme}://{port.device}?version={version}"
    source = open_source(address, "dsmr", terms, follow=False)
    with State(tmp_path / "s.db", terms.describe()) as state:
        service = Service(
            terms, state, Feed(source, make_parser("dsmr"), by_readings=True), [witness],
            log=log.append, new_key=lambda _: KEY,
        )  # fmt: skip
        thread = threading.Thread(target=service.run)
        thread.start()
        port.connect()
        port.send(NOISE + sent[0][30:])
        for first in range(0, len(sent), 50):
            block = b"".join(sent[first : first + 50])
            # A line knows no telegrams: its parts are cut anywhere.
            port.send(block[:777])
            port.send(block[777:])
        for _ in range(500):
            if len(witness.items) >= 3:
                break
            time.sleep(0.02)
        port.cut()
        for _ in range(500):
            if log:
                break
            time.sleep(0.02)
        service.stop()
        thread.join()
    metered = hm.read_meter(tmp_path / "meter.txt")
    hours = hm.Trace(metered.readings[: 3 * 360], 10.0, metered.start)
    released = terms.promise.release(hours, key=KEY)
    messages = witness.messages("window")
    assert [m["watts"] for m in messages] == released.trace.readings.tolist()
    assert all(m["complete"] for m in messages)
    (line,) = log
    assert line.startswith(f"the port {port.device} is lost (")
    assert line.endswith("; it is opened again.")


def test_a_port_that_does_not_exist_is_tried_again(tmp_path):
    lost = []
    source = TelegramSource(str(tmp_path / "ttyUSB0"), tcp=False)
    source.start(lambda *_: None, lost.append, lambda: None)
    for _ in range(500):
        if lost:
            break
        time.sleep(0.02)
    source.stop()
    assert "No such file or directory" in lost[0]
    assert source.error is None


def test_a_line_that_is_cut_is_no_reading(tmp_path):
    """A part of a line that is too long has to be too long as well, or it would be read."""
    line = b"2024-03-01T00:00:00Z,5," + b"-" * 2 * LONGEST_LINE
    (tmp_path / "meter.csv").write_bytes(line + b"\n")
    first, *_ = LineSource(tmp_path / "meter.csv", follow=False).read_all()
    assert line.startswith(first)
    with pytest.raises(PayloadError, match="has more than 65536 bytes"):
        make_parser("csv")("", first)
