"""The nightly job of the page about operations, run as it is printed there."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.fleet.test_job_log import parse_prometheus
from tests.cli.test_commands import run

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


def block(language, name):
    """The block of the page whose first lines name a file."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [text for text in blocks if name in "".join(text.splitlines()[:2])]
    return found


@pytest.fixture
def night(tmp_path):
    """Run the script for a day; it finds the hushmeter of this Python."""
    if shutil.which("sqlite3") is None or sys.platform == "win32":
        pytest.skip("the script needs a POSIX shell and sqlite3")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "nightly": block("sh", "hushmeter-nightly"),
        "hushmeter": f'#!/bin/sh\nexec {sys.executable} -m hushmeter "$@"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    base = tmp_path / "base"
    for number, day in enumerate(DAYS):
        run("synth-fleet", "--meters", 3, "--days", 1, "--interval", 3600, "--files", 1,
            "--start", day, "--seed", number, "-o", base / "in" / day)  # fmt: skip
    (base / "ledger").mkdir()
    url = f"sqlite:///{base}/ledger/ledger.db"
    run("ledger", "init", "--ledger", url, "--clamp", "0,15000")
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def run_night(day, expect=0):
        environment = {**os.environ, "PATH": path, "HUSHMETER_BASE": str(base)}
        done = subprocess.run(
            ["sh", str(tools / "nightly"), day],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        log = base / "log/hushmeter.jsonl"
        shown = log.read_text() if log.exists() else ""
        assert done.returncode == expect, done.stderr + shown
        return done

    run_night.base = base
    return run_night


@pytest.mark.slow
def test_nights_a_lost_ledger_an_old_backup_and_the_newest_one(night):
    base = night.base
    ledger = base / "ledger/ledger.db"
    for day in DAYS[:2]:
        night(day)
        assert (base / "out" / day / "manifest.json").exists()
    lines = [json.loads(line) for line in (base / "log/hushmeter.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if line["event"] != "file"] == 2 * [
        "started", "result", "finished",
    ]  # fmt: skip
    assert all(
        value == 0
        for value in parse_prometheus((base / "metrics/hushmeter.prom").read_text())[
            "hushmeter_job_exit_code"
        ].values()
    )
    assert stat.S_IMODE((base / "backup/ledger-2024-01-02.db").stat().st_mode) == 0o600
    # The ledger is lost: the job makes no empty one.
    for path in base.glob("ledger/*"):
        path.unlink()
    assert "does not exist: restore it" in night(DAYS[2], expect=1).stderr
    assert not (base / "out" / DAYS[2]).exists()
    # A backup that is too old is refused.
    shutil.copy(base / "backup/ledger-2024-01-01.db", ledger)
    assert "damaged or too old" in night(DAYS[2], expect=1).stderr
    assert not (base / "out" / DAYS[2] / "manifest.json").exists()
    assert not (base / "backup/ledger-2024-01-03.db").exists()
    mark = (base / "marks/head").read_text().strip()
    verify = ("ledger", "verify", "--ledger", f"sqlite:///{ledger}", "--head", mark)
    run(*verify, expect=1)
    # The newest backup has the mark, and the next night continues.
    for path in base.glob("ledger/*"):
        path.unlink()
    shutil.copy(base / "backup/ledger-2024-01-02.db", ledger)
    run(*verify)
    night(DAYS[2])
    spends = run("ledger", "show", "--ledger", f"sqlite:///{ledger}", "--json")
    assert json.loads(spends.stdout)["spends"] == 9


def test_the_units_of_systemd_are_valid(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for name in ("hushmeter-nightly.service", "hushmeter-nightly.timer"):
        text = block("ini", name).replace("/usr/local/bin/hushmeter-nightly", "/bin/true")
        (tmp_path / name).write_text(text.replace("User=hushmeter\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "hushmeter" in line]
    assert own == [], done.stderr
    when = re.search(r"OnCalendar=(.*)", block("ini", "hushmeter-nightly.timer"))[1]
    found = subprocess.run(
        ["systemd-analyze", "calendar", when], capture_output=True, text=True, check=False
    )
    assert "02:30:00" in found.stdout, found.stderr


def test_every_promise_names_a_test_that_exists():
    table = PAGE.read_text(encoding="utf-8").partition(
        "| fault | promise | test |\n|---|---|---|\n"
    )[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    rows = [row for row in rows if not row[0].startswith("**")]
    assert len(rows) > 40
    for fault, promise, test in rows:
        assert fault
        assert promise
        file, name = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", test).groups()
        assert f"def {name}(" in (PAGE.parents[1] / file).read_text(encoding="utf-8"), name
