"""Connections that stay open without a request, and clients that leave, harm nobody else."""

from __future__ import annotations

import logging
import socket
import sys
import time
from contextlib import ExitStack, suppress

import httpx
import pytest

from hushmeter.web.app import find_plotly
from hushmeter.web.connections import SPARE_FILES, RateLimit, most_connections
from hushmeter.web.server import Settings
from tests.web.serving import serving

HALF_HEAD = b"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
HALF_BODY = (
    b"POST /api/bounds HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hushmeter: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
)
HALF_FORM = HALF_BODY.replace(b"bounds", b"traces").replace(
    b"application/json", b"multipart/form-data; boundary=x"
)


def connect(client, stack, sent=b""):
    line = stack.enter_context(
        socket.create_connection((client.base_url.host, client.base_url.port), timeout=60)
    )
    mark = b"X-Hushmeter: 1\r\n"
    token = f"Authorization: {client.headers['Authorization']}\r\n".encode()
    line.sendall(sent.replace(mark, mark + token))
    return line


def is_closed(line):
    """The server closes the connection without an answer."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "head", "body"])
def test_an_honest_client_is_served_beside_many_that_owe_a_request(sent):
    with serving(Settings(connections=40)) as client, ExitStack() as stack:
        lines = [connect(client, stack, sent) for _ in range(110)]
        with httpx.Client(base_url=client.base_url, headers=client.headers) as honest:
            assert honest.get("/api/about").status_code == 200
        # Those that have owed a request for longest made room.
        assert all(is_closed(line) for line in lines[:70])


def test_the_body_of_an_answer_does_not_wait_for_its_head():
    """Without this option, Linux sends the body when the client has confirmed the head."""
    with serving() as client:
        assert client.get("/api/about").status_code == 200
        lines = [
            one.transport.get_extra_info("socket") for one in client.server.server_state.connections
        ]
        assert lines
        assert all(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for line in lines)


def test_requests_that_are_served_are_not_closed_for_new_ones():
    with serving(Settings(connections=5)) as client, ExitStack() as stack:
        connect(client, stack, HALF_HEAD)
        session = client.post("/api/examples", json={"name": "evening"}).json()
        body = {"trace": session["id"], "home": session["home"], "epsilon": 1.0}
        with httpx.Client(base_url=client.base_url, headers=client.headers) as other:
            for _ in range(20):
                connect(client, stack, HALF_HEAD)
            assert other.post("/api/view", json=body, timeout=60).status_code == 200


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "head", "body"])
def test_a_request_that_never_ends_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr("hushmeter.web.connections.BODY_MARGIN_S", 0.0)
    with serving(Settings(header_s=0.3, request_s=0.3)) as client, ExitStack() as stack:
        assert is_closed(connect(client, stack, sent))


def test_single_bytes_do_not_prolong_a_head():
    with serving(Settings(header_s=0.5)) as client, ExitStack() as stack:
        line = connect(client, stack, HALF_HEAD)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(3000):
                line.sendall(b"a")
                time.sleep(0.02)


def test_a_client_that_does_not_read_is_cut_off():
    """Eight answers of 4.8 MB do not fit into the buffers of the system."""
    request = b"GET /plotly.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    size = find_plotly().stat().st_size
    with serving(Settings(write_s=0.2)) as client, ExitStack() as stack:
        line = connect(client, stack, 8 * request)
        # A busy machine answers late: the time without reading begins with the answer.
        line.recv(1, socket.MSG_PEEK)
        time.sleep(4)
        received = 0
        with suppress(ConnectionResetError):
            while part := line.recv(1 << 20):
                received += len(part)
        assert 0 < received < 8 * size
        assert client.get("/api/about").status_code == 200


@pytest.mark.parametrize("sent", [HALF_BODY, HALF_FORM], ids=["json", "form"])
def test_a_client_that_leaves_is_no_fault(sent, caplog):
    with caplog.at_level(logging.INFO), serving() as client:
        with ExitStack() as stack:
            for _ in range(3):
                connect(client, stack, sent)
            assert client.get("/api/about").status_code == 200
        assert client.get("/api/about").status_code == 200
    assert "fault" not in caplog.text
    assert "Traceback" not in caplog.text


def test_a_log_is_bounded_and_reports_what_it_left_out():
    now = [0.0]
    limit = RateLimit(most=3, per_s=0.5, clock=lambda: now[0])

    def passes():
        record = logging.LogRecord("a", logging.ERROR, "", 0, "fault: %s", ("OSError",), None)
        return record.getMessage() if limit.filter(record) else None

    assert [passes() for _ in range(1000)] == ["fault: OSError"] * 3 + [None] * 997
    now[0] = 2.0
    assert passes() == "fault: OSError (997 lines before it were left out)"
    assert passes() is None
    now[0] = 2000.0
    assert sum(passes() is not None for _ in range(10)) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files")
def test_fewer_open_files_mean_fewer_connections():
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections(Settings(connections=10**9)) == soft - SPARE_FILES
    assert most_connections(Settings(connections=7)) == 7
