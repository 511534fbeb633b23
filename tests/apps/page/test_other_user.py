"""Another user of the same machine tries to get at the data of a household, and gets nothing."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from benchmarks.bench_web import call_with

import hushmeter as hm
from hushmeter.apps.page.app import STATIC, create_app, find_plotly
from hushmeter.apps.page.server import Settings
from tests.apps.page.test_commands import served

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux")
    or os.geteuid() != 0
    or not all(map(shutil.which, ("useradd", "userdel"))),
    reason="only root can add a user of the machine, with useradd",
)
PUBLIC = ("shared.csv", "shared.csv.receipt.json", "calendar", "published", "publisher.pub")
"""What the household wrote for others; names of files and folders."""
GIVEN = ("raw.csv", "sub.csv", "browser")
"""What the household had before."""


@pytest.fixture(scope="module")
def other_user():
    """The numbers of a user and a group that have nothing; both are removed at the end."""
    name = f"hm-{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
    try:
        import pwd

        entry = pwd.getpwnam(name)
        yield entry.pw_uid, entry.pw_gid
    finally:
        subprocess.run(["userdel", name], check=True)


@pytest.fixture(scope="module")
def household():
    """A folder that everybody may enter, with the usual umask; all files come from commands."""
    folder = Path(tempfile.mkdtemp(prefix="hushmeter-household-", dir="/tmp"))
    folder.chmod(0o755)
    before = os.umask(0o022)
    try:
        write_readings(folder)
        for words in (
            "learn sub.csv -o home.toml",
            "release raw.csv --hide kettle --odds 60 --for hour -o shared.csv",
            "release raw.csv --hide kettle --views -o calendar",
            "live raw.csv --interval 60s --hide kettle --to published --state live.db --once",
            "verify --new-key publisher",
        ):
            command = [sys.executable, "-m", "hushmeter", *words.split()]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
        yield folder
    finally:
        os.umask(before)
        shutil.rmtree(folder)


def write_readings(folder):
    """Two days of a meter, and an evening with a plug for each appliance."""
    days = hm.synth.household(2, interval_s=60.0, zone="UTC", seed=2).trace
    hm.write_meter(folder / "raw.csv", days)
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    hm.write_meter(folder / "sub.csv", hm.synth.trace(home, 4000, 0.99, seed=5))
    browser = folder / "browser"
    browser.write_text(f"#!/bin/sh\nwhile [ ! -e {folder}.stop ]; do sleep 0.2; done\n")
    browser.chmod(0o755)
    for name in ("raw.csv", "sub.csv"):
        (folder / name).chmod(0o600)


@contextmanager
def run_as(user):
    """A function that runs a task in a process of another user and returns its result."""

    def run(task, *given):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.close(reader)
                try:
                    os.setgroups([])
                    os.setgid(user[1])
                    os.setuid(user[0])
                    os.chdir("/")
                    answer = {"result": task(*given)}
                except BaseException:
                    answer = {"error": traceback.format_exc()}
                with os.fdopen(writer, "w") as pipe:
                    json.dump(answer, pipe)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = json.load(pipe)
        os.waitpid(child, 0)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    yield run


@pytest.fixture
def stranger(other_user):
    with run_as(other_user) as run:
        yield run


def readable(folder):
    """Every file below a folder that this user can open, and every folder that it can list."""
    found = []
    for place, _, names in os.walk(folder):
        found += [str(Path(place) / name) for name in names if is_open(Path(place) / name)]
        found += [place] if os.access(place, os.R_OK) else []
    return sorted(found)


def is_open(path):
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def test_the_stranger_is_one(stranger, household):
    assert stranger(os.geteuid) != os.geteuid()
    assert stranger(is_open, household / "shared.csv"), "the folder itself hides nothing"
    assert not stranger(is_open, household / "raw.csv")


def test_only_what_is_published_can_be_read(stranger, household):
    found = {Path(name).relative_to(household) for name in stranger(readable, household)}
    beyond = {one for one in found if one.parts and one.parts[0] not in (*PUBLIC, *GIVEN)}
    assert beyond == set()
    for name in PUBLIC:
        assert Path(name) in found, "what is published keeps the usual rights"
    private = ["home.toml", "home.csv", "shared.csv.private.json", "calendar.private.json"]
    for name in (*private, "publisher.key", "live.db", "live.db.days"):
        assert (household / name).exists(), name


def test_no_ledger_can_be_read(stranger, household):
    from hushmeter.apps.ledger.databases import SqliteStore

    folder = Path(tempfile.mkdtemp(prefix="hushmeter-ledger-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        SqliteStore(folder / "ledger.db", create=True).close()
        assert stranger(readable, folder) == [str(folder)]
    finally:
        shutil.rmtree(folder)


def ask(origin, method, path, headers):
    """The status and the body of an answer."""
    parts = urlsplit(origin)
    line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        line.request(method, path, b"{}" if method == "POST" else None, headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode("latin-1")
    finally:
        line.close()


def try_everything(origin, paths, tokens):
    """Every answer that is neither a refusal nor a file of the page."""
    page = {"/": STATIC / "index.html", "/live": STATIC / "live.html"}
    page["/plotly.min.js"] = find_plotly()
    page |= {f"/static/{p.relative_to(STATIC)}": p for p in STATIC.rglob("*") if p.is_file()}
    got = []
    for path, file in page.items():
        status, body = ask(origin, "GET", path, {})
        if (status, body) != (200, file.read_bytes().decode("latin-1")):
            got.append((path, status, body[:200]))
    for path in paths:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            for token in tokens:
                headers = {"X-Hushmeter": "1", "Content-Type": "application/json"}
                headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
                status, body = ask(origin, method, path, headers)
                refused = not body or set(json.loads(body)) == {"error"}
                if status != 401 or not refused:
                    got.append((method, path, status, body[:200]))
    return got


def read_processes(pids):
    """The command lines of all processes, and what else can be read of some of them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_bytes().decode("latin-1"))
    private = [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("environ", "mem", "maps")]
    return lines, [str(path) for path in private if is_open(path)]


def connect_to(addresses):
    """The Unix sockets that take a connection of this user."""
    taken = []
    for address in addresses:
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(address.replace("@", "\0", 1))
                taken.append(address)
            except OSError:
                pass
    return taken


def sockets_of(pids):
    """The names of the Unix sockets of some processes."""
    inodes = set()
    for entry in (one for pid in pids for one in Path("/proc").glob(f"{pid}/fd/*")):
        with suppress(OSError):
            inodes.add(str(entry.readlink()).removeprefix("socket:[").rstrip("]"))
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sorted({row[7] for row in rows if len(row) > 7 and row[6] in inodes})


def family(pid):
    """The process and all processes that it started."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def routes(trace):
    """Every address of the server with a trace that it really holds, and some that it has not."""
    known = set(create_app(Settings(workers=1)).openapi()["paths"])
    known |= {"/api/live", "/api", "/docs", "/redoc", "//api/live", "/%61pi/about"}
    return sorted(path.replace("{trace}", trace) for path in known)


def test_the_page_and_its_stream_give_nothing(stranger, household):
    environment = {"BROWSER": f"{household}/browser %s &"}
    options = ("--watch", str(household / "live.db"), "--open")
    with ExitStack() as stack:
        process, found = stack.enter_context(served(*options, environment=environment))
        # The browser holds the output of the server, which ends after it.
        stack.callback(household.with_name(f"{household.name}.stop").touch)
        client = stack.enter_context(httpx.Client(**call_with(found["url"]), timeout=60))
        file = {"file": ("secret-name.csv", (household / "sub.csv").read_bytes())}
        trace = client.post("/api/traces", files=file).json()["id"]
        assert client.get(f"/api/traces/{trace}").status_code == 200
        assert len(client.get("/api/live").json()["windows"]) > 0
        origin = str(client.base_url)
        guesses = (None, "None", trace, found["token"][:-1] + "~", str(process.pid))
        assert stranger(try_everything, origin, routes(trace), guesses) == []
        pids = family(process.pid)
        assert len(pids) > 1
        lines, opened = stranger(read_processes, pids)
        assert opened == []
        assert any("open.html" in line for line in lines), "the browser runs"
        assert not any(found["token"] in line or trace in line for line in lines)
        pages = [part for line in lines for part in line.split("\0") if "open.html" in part]
        assert not any(stranger(is_open, Path(urlsplit(page).path)) for page in pages)
        assert stranger(connect_to, sockets_of(pids)) == []
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        assert not any(Path(urlsplit(page).path).exists() for page in pages)
