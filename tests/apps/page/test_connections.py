"""Connections that stay open without a request, and clients that leave, do no lasting harm.

How long a client may take for the head of a request or to read its answer, and how many connections
one client may have, is the task of the proxy in front of a server that other computers reach. On
this computer other users can at most make the page unavailable while they hold its connections.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from contextlib import ExitStack
from http.client import HTTPResponse

import httpx
import pytest

from hushmeter.apps.page.server import Settings
from tests.apps.page.serving import serving

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


def answer_on(line):
    """Status and text of the answer; the connection itself stays open for the next request."""
    response = HTTPResponse(line)
    response.begin()
    return response.status, response.read().decode()


@pytest.mark.parametrize("sent", [b"", HALF_HEAD], ids=["nothing", "head"])
def test_more_connections_than_the_limit_are_refused_until_others_leave(sent):
    with serving(Settings(connections=20)) as client:
        with ExitStack() as stack:
            for _ in range(30):
                connect(client, stack, sent)
            with httpx.Client(base_url=client.base_url, headers=client.headers) as other:
                assert other.get("/api/about").status_code == 503
        deadline = time.monotonic() + 60
        while client.get("/api/about").status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert client.get("/api/about").status_code == 200


def test_the_body_of_an_answer_does_not_wait_for_its_head():
    """Without this option, Linux sends the body when the client has confirmed the head."""
    with serving() as client:
        assert client.get("/api/about").status_code == 200
        lines = [
            one.transport.get_extra_info("socket") for one in client.server.server_state.connections
        ]
        assert lines
        assert all(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for line in lines)


def test_a_body_that_never_ends_is_refused():
    with serving(Settings(request_s=0.3)) as client, ExitStack() as stack:
        status, text = answer_on(connect(client, stack, HALF_BODY))
        assert status == 504
        assert "the request did not arrive in time" in text


@pytest.mark.slow
def test_a_body_that_never_ends_is_cut_off():
    """The connection itself is closed when nothing new has come for some seconds."""
    with serving(Settings(request_s=0.3)) as client, ExitStack() as stack:
        line = connect(client, stack, HALF_BODY)
        assert answer_on(line)[0] == 504
        assert line.recv(4096) == b""


def test_single_bytes_do_not_prolong_a_body():
    with serving(Settings(request_s=0.5)) as client, ExitStack() as stack:
        line = connect(client, stack, HALF_BODY)
        for _ in range(400):  # The body is not complete before all of them are sent.
            line.sendall(b" ")
            if select.select([line], [], [], 0.02)[0]:
                break
        assert answer_on(line)[0] == 504


@pytest.mark.slow
def test_single_bytes_do_not_keep_a_connection():
    with serving(Settings(request_s=0.5)) as client, ExitStack() as stack:
        line = connect(client, stack, HALF_BODY)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(3000):
                line.sendall(b" ")
                time.sleep(0.02)


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


def test_a_body_must_come_at_a_rate(monkeypatch):
    """An upload that sends a little now and then gives up its place before the time limit."""
    monkeypatch.setattr("hushmeter.apps.page.security.PATIENCE_S", 0.3)
    with serving(Settings(request_s=600.0)) as client, ExitStack() as stack:
        assert answer_on(connect(client, stack, HALF_BODY))[0] == 504


@pytest.mark.parametrize(
    "text",
    [
        ("a." * 20_000) + "a = 1",
        "[" + "a." * 20_000 + "a]",
        "a = " + "[" * 20_000,
        "a = " + "{b=" * 20_000,
        'x = "y"\n' + '"a" . ' * 20_000 + "a = 1",
    ],
    ids=["key", "table", "arrays", "tables", "quoted"],
)
def test_a_deep_home_takes_neither_time_nor_memory(text):
    with serving() as client:
        answer = client.post("/api/homes/read", files={"file": ("home.toml", text.encode())})
        assert answer.status_code in (400, 413)
        assert client.get("/api/about").status_code == 200
