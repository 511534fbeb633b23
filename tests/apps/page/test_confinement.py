"""Processes that read uploads: what the operating system denies them, and what holds without it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

import hushmeter as hm
from hushmeter.apps.page import workers
from hushmeter.apps.page.workers import WorkerPool, confine, find_confinement
from hushmeter.errors import DataError
from hushmeter.read import read_bytes
from tests.apps.page.serving import call_workers, run_apart, serving, upload
from tests.read import hostile_files

ROOT = Path(__file__).parents[3]
needs_landlock = pytest.mark.skipif(
    not find_confinement().files, reason="this system does not offer Landlock"
)
needs_network_rules = pytest.mark.skipif(
    not find_confinement().network, reason="this system does not offer Landlock for TCP"
)


@pytest.fixture(scope="module")
def pool():
    made = WorkerPool(workers=1, waiting=4, most_bytes=1 << 40, readable=(ROOT,))
    yield made
    made.close()


def call(pool, function, *given):
    return run_apart(pool.run(60.0, function, *given))


def denied(action) -> bool:
    """Whether the operating system refuses an action."""
    try:
        action()
    except PermissionError:
        return True
    return False


def try_files(secret: str, folder: str) -> dict[str, bool]:
    place = Path(folder)
    return {
        "read": denied(Path(secret).read_bytes),
        "system file": denied(Path("/etc/passwd").read_bytes),
        "memory of the parent": denied(Path(f"/proc/{os.getppid()}/environ").read_bytes),
        "list": denied(lambda: list(place.iterdir())),
        "write": denied(lambda: (place / "new").write_bytes(b"")),
        "remove": denied(lambda: Path(secret).unlink()),
        "make a folder": denied(lambda: (place / "made").mkdir()),
        "link": denied(lambda: (place / "link").symlink_to(secret)),
        "write code": denied(lambda: (workers.PACKAGE / "new.py").write_bytes(b"")),
        "run a program": denied(lambda: os.execv(sys.executable, [sys.executable, "-V"])),
    }


def connect(port: int) -> bool:
    return denied(lambda: socket.create_connection(("127.0.0.1", port), timeout=5).close())


def listen() -> bool:
    return denied(lambda: socket.create_server(("127.0.0.1", 0)).close())


def follow(data: bytes) -> str:
    """Read an HDF5 file in this process without the check of the reader."""
    from hushmeter.read import nilmtk
    from hushmeter.read.recording import Task
    from hushmeter.read.source import MemoryFile

    check, nilmtk.refuse_outside_data = nilmtk.refuse_outside_data, lambda path: None
    try:
        found = nilmtk.read_here(Task(MemoryFile("stranger.h5", data)))
        return str(found.trace.readings[0])
    except DataError as error:
        return str(error)
    finally:
        nilmtk.refuse_outside_data = check


def grow_trees() -> int:
    """Learn five days as the page does, and attack them."""
    home = hm.synth.ready_home("evening").subset(["kettle", "car charger"])
    days = hm.synth.trace(home, 5 * 1440, interval_s=60.0, seed=1)
    made = hm.attackers["strongest"](home, rows=2000).fit(days)
    return len(made.fitted_) if made.predict(days[:100]).shape == (100, 2) else 0


def test_a_worker_grows_the_trees_of_the_strongest_attacker(pool):
    pytest.importorskip("lightgbm", reason="needs the extra nilm")
    assert call(pool, grow_trees) == 2


@needs_landlock
def test_a_worker_can_open_no_file_but_its_code(pool, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    found = call(pool, try_files, str(secret), str(tmp_path))
    assert [what for what, refused in found.items() if not refused] == []
    assert secret.read_bytes() == b"secret"


@needs_network_rules
def test_a_worker_can_open_no_connection(pool):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert call(pool, connect, listener.getsockname()[1])
    assert call(pool, listen)


@needs_landlock
def test_the_system_holds_where_the_reader_would_fail(pool, tmp_path):
    pytest.importorskip("h5py", reason="needs the extra nilmtk")
    data = hostile_files.external_storage(tmp_path)
    assert follow(data) == str(float(hostile_files.SECRET)), "the attack works outside of a worker"
    answer = call(pool, follow, data)
    assert "is no readable NILMTK file" in answer
    assert str(hostile_files.SECRET) not in answer.replace(str(tmp_path), "")


@needs_landlock
def test_every_process_of_a_server_is_confined(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    with serving() as client:
        for found in call_workers(client, try_files, str(secret), str(tmp_path)):
            assert all(found.values())


def read_without_landlock(data: bytes, results) -> None:
    """Read a file in a process of a system without Landlock."""
    workers._version = lambda: 0
    enforced = confine()
    try:
        told = str(read_bytes(data, "stranger.h5").trace.readings[0])
    except DataError as error:
        told = str(error)
    results.send((enforced, enforced.sentence, told))


def compile_kernel(number: int) -> int:
    """Compile a kernel that Numba is told to save."""
    from numba import njit

    @njit(cache=True)
    def double(value):
        return 2 * value

    return double(number)


def test_a_worker_compiles_and_saves_nothing(pool):
    folder = Path(__file__).parent / "__pycache__"
    assert call(pool, compile_kernel, 21) == 42
    assert not list(folder.glob("test_confinement*compile_kernel*.nb*"))


def test_without_landlock_the_readers_still_refuse(tmp_path):
    pytest.importorskip("h5py", reason="needs the extra nilmtk")
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    data = hostile_files.external_storage(tmp_path)
    process = context.Process(target=read_without_landlock, args=(data, theirs))
    process.start()
    enforced, sentence, told = ours.recv()
    process.join()
    assert enforced == workers.Confinement(files=False, network=False)
    assert "does not deny the processes that read them access to other files" in sentence
    assert "keeps its values in another file" in told


@pytest.mark.parametrize(
    ("version", "files", "network", "scopes"),
    [(1, 13, 0, 0), (2, 14, 0, 0), (3, 15, 0, 0), (4, 15, 3, 0), (5, 16, 3, 0), (6, 16, 3, 3)],
)
def test_each_version_of_landlock_is_asked_for_what_it_knows(version, files, network, scopes):
    rights = workers._rights(version)
    assert (rights.files, rights.network, rights.scopes) == ((1 << files) - 1, network, scopes)


@pytest.mark.parametrize(("files", "network"), [(True, True), (True, False), (False, False)])
def test_the_operator_gets_one_sentence(files, network):
    sentence = workers.Confinement(files, network).sentence
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert ("can open no other file" in sentence) == files


def test_uploads_are_read_in_a_confined_process():
    """Zones, libraries and compiled code are still found."""
    rows = "".join(
        f"2024-01-{d:02d} {h:02d}:00,{100 + h}\n" for d in range(1, 29) for h in range(24)
    )
    with serving() as client:
        answer = upload(client, ("time,watts\n" + rows).encode(), tz="Europe/Berlin")
        assert answer.status_code == 200, answer.text
        assert answer.json()["readings"] == 28 * 24


def test_serve_says_what_is_enforced():
    command = [sys.executable, "-m", "hushmeter", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        lines = [""]
        while "Ctrl+C" not in lines[-1]:
            lines.append(server.stdout.readline())
            assert lines[-1], "the server ended"
    finally:
        server.kill()
        server.communicate()
    assert f"{find_confinement().sentence}\n" in lines
