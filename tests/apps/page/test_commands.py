"""`hushmeter serve` as a person starts it: a real server, its address, its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from benchmarks.bench_web import call_with

from hushmeter.apps.page.app import address_of, bind, choose_settings
from hushmeter.apps.page.server import is_loopback
from hushmeter.errors import DataError, InputError
from tests.cli import changed
from tests.cli.test_commands import run

READINGS = "timestamp,watts\n" + "".join(f"{1_700_000_000 + 6 * i},{4711 + i}\n" for i in range(50))


@contextmanager
def served(*arguments, environment=None):
    """The process and the address it prints as JSON."""
    options = changed(("--port", "0"), arguments)
    command = [sys.executable, "-m", "hushmeter", "serve", "--json", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        lines = ""
        while not lines.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines += line
        yield process, json.loads(lines)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def log_of_a_session():
    """Everything a server prints while a file is loaded, viewed and refused, and its exit code."""
    with served() as (process, found):
        client = httpx.Client(**call_with(found["url"]), timeout=60)
        page, about = client.get("/"), client.get("/api/about")
        session = client.post("/api/traces", files={"file": ("secret-name.csv", READINGS)})
        trace = session.json()["id"]
        request = {"trace": trace, "epsilon": 1.0, "protect": "change", "watts": 100}
        view = client.post("/api/view", json=request)
        refused = client.post("/api/traces", files={"file": ("secret-name.csv", "4711,4712")})
        client.close()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    answers = [page, about, session, view, refused]
    return found, answers, trace, output + errors, process.returncode


def test_it_answers_on_this_computer_alone_and_ends_well(log_of_a_session):
    found, answers, _, _, code = log_of_a_session
    assert found["url"].startswith("http://127.0.0.1:")
    assert found["url"].endswith(f"/#token={found['token']}")
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 400]
    assert code == 0


def test_no_reading_name_or_id_is_logged(log_of_a_session):
    found, _, trace, printed, _ = log_of_a_session
    for secret in (
        found["token"],
        "4711",
        "4712",
        "secret-name",
        trace,
        "GET",
        "POST",
        "Traceback",
    ):
        assert secret not in printed


def test_the_log_as_json_has_routes_sizes_and_times_only():
    with served("--log-format", "json") as (process, found):
        with httpx.Client(**call_with(found["url"]), timeout=60) as client:
            session = client.post("/api/traces", files={"file": ("secret-name.csv", READINGS)})
            trace = session.json()["id"]
            client.get(f"/api/traces/{trace}")
            client.get("/api/nothing-4711")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert [(one["method"], one["route"], one["status"]) for one in lines] == [
        ("POST", "/api/traces", 200),
        ("GET", "/api/traces/{trace}", 200),
        ("GET", "unknown", 404),
    ]
    assert lines[0]["received_bytes"] > len(READINGS)
    assert all(one["sent_bytes"] > 0 and one["seconds"] >= 0 for one in lines)
    for secret in (found["token"], trace, "4711", "secret-name"):
        assert secret not in errors
    run("serve", "--log-format", "xml", expect=2)


def test_a_token_is_made_and_needed():
    with served() as (_, found):
        port = found["url"].rpartition(":")[2].partition("/")[0]
        assert found["url"].endswith(f"/#token={found['token']}")
        assert len(found["token"]) == 32
        about = f"http://127.0.0.1:{port}/api/about"
        assert httpx.get(about).status_code == 401
        bearer = {"Authorization": f"Bearer {found['token']}"}
        assert httpx.get(about, headers=bearer).status_code == 200


def test_settings_follow_the_address():
    assert choose_settings("127.0.0.1", 50).is_local
    assert "127.0.0.5" in choose_settings("127.0.0.5", 50).hosts
    assert choose_settings("127.0.0.1", 300).unpacked_bytes == 300 << 20
    far = [choose_settings("192.168.1.7", 50, "Meter.example.org") for _ in range(2)]
    assert far[0].hosts == ("meter.example.org",)
    assert far[0].token != far[1].token
    assert not any(one.is_local for one in far)
    assert not choose_settings("127.0.0.1", 50, "meter.example.org").is_local
    assert choose_settings("::", 50, "meter.example.org:8443").hosts == ("meter.example.org",)
    for wrong in ("", "https://meter.example.org", "meter.example.org/page", ":8443"):
        with pytest.raises(InputError, match="--behind-proxy is a name such as"):
            choose_settings("::", 50, wrong)
    assert [is_loopback(h) for h in ("localhost", "::1", "127.9.9.9", "0.0.0.0", "pc.lan")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert address_of("::1", 80, "abc", "live") == "http://[::1]:80/live#token=abc"
    assert address_of("127.0.0.1", 80, "abc") == "http://127.0.0.1:80/#token=abc"
    behind = address_of("0.0.0.0", 80, "abc", proxy="meter.example.org")
    assert behind == "https://meter.example.org/#token=abc"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "pc.lan"])
def test_other_computers_need_a_proxy_with_tls(host):
    done = run("serve", "--host", host, "--port", 0, expect=2)
    assert done.stderr.startswith(
        f"hushmeter: other computers can reach {host}, and the connection"
    )
    assert "give its name with --behind-proxy" in done.stderr


def test_behind_a_proxy_its_name_alone_and_the_token_open_the_page():
    with (
        socket.create_server(("127.0.0.1", 0)) as free,
        served("--behind-proxy", "meter.example.org", "--port", str(free.getsockname()[1] + 1)) as (
            process,
            found,
        ),
    ):
        assert found["url"] == f"https://meter.example.org/#token={found['token']}"
        port = free.getsockname()[1] + 1
        about = f"http://127.0.0.1:{port}/api/about"
        bearer = {"Authorization": f"Bearer {found['token']}"}
        assert httpx.get(about, headers=bearer).status_code == 403
        named = {"Host": "meter.example.org", "Origin": "https://meter.example.org"}
        assert httpx.get(about, headers=named).status_code == 401
        assert httpx.get(about, headers=bearer | named).status_code == 200
        assert process.poll() is None


def test_a_taken_port_is_reported_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", port, expect=1)
    assert done.stderr.startswith(f"hushmeter: 127.0.0.1 port {port} cannot be bound (")
    assert len(done.stderr.splitlines()) == 1


def test_wrong_addresses_are_refused():
    with pytest.raises(InputError, match="port must be between 0 and 65535, got 70000"):
        bind("127.0.0.1", 70_000)
    for host in ("no-such-host.invalid", "a" * 300, "\u2014"):
        with pytest.raises(DataError, match="cannot be bound"):
            bind(host, 0)


def test_help_has_an_example():
    printed = run("serve", "--help").stdout
    assert "Example: hushmeter serve --open" in printed
    assert "--host" in printed


@pytest.mark.parametrize("missing", ["fastapi", "plotly"])
def test_without_the_extra_the_pip_command_is_shown(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['hushmeter', 'serve', "
        "'--port', '0']; from hushmeter.cli import main; main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert 'pip install ".[page]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="the browser is a script of a shell")
def test_the_browser_is_started_without_the_token_on_its_command_line(tmp_path):
    """Every user of a computer can read the command lines of all processes."""
    seen, content = tmp_path / "seen", tmp_path / "content"
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\nfile="${1#file://}"\ncat "$file" > ' + f'{content}\nstat -c "%a %n" '
        f'"$file" "$(dirname "$file")" > {seen}.part\nmv {seen}.part {seen}\n'
    )
    browser.chmod(0o755)
    with served("--open", environment={"BROWSER": f"{browser} %s"}) as (process, found):
        deadline = time.monotonic() + 60
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        listed = seen.read_text().split()
        assert found["token"] not in seen.read_text()
        assert listed[::2] == ["600", "700"]
        assert f'url={found["url"]}"' in content.read_text()
        assert found["token"] not in Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert not Path(listed[1]).exists()
