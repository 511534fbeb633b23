"""A command loads the packages of what it does, and of no other application."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

import hushmeter as hm
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.write import write_meter
from tests.cli.test_commands import run

CODE = """
import sys
from hushmeter.cli import main
sys.argv = ["hushmeter", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
found = [name for name in sys.modules if name.split(".")[0] == "hushmeter"]
found = {name.removeprefix("hushmeter.").removeprefix("apps.") for name in found}
print(*{name.split(".")[0] for name in found})
"""
APPLICATIONS = {"battery", "behaviour", "fleet", "ledger", "live", "price", "page", "plot", "study"}
NOISE = ("-e", "1", "--sensitivity", "2100", "--span", "reading", "--clamp", "0,15000")
RELEASE = ("release", "meter.csv", *NOISE)
LIVE = ("live", "meter.csv", "--interval", "600s", "--step", "0", "--to", "out", "--once", *NOISE)
PAID = ("--ledger", "sqlite:///ledger.db", "--ledger-meter", "m")


# How many modules a command loads is a number of size.toml.
@pytest.mark.parametrize(
    ("words", "loaded", "without"),
    [
        ((*RELEASE, "-o", "out.csv"), set(), set()),
        ((*RELEASE, "--views", "-o", "out"), set(), set()),
        ((*RELEASE, "-o", "out.csv", *PAID), {"ledger"}, set()),
        # What is left after the release are findings of learn.
        (("release", "meter.csv", "--hide", "kettle", "-o", "out.csv"), set(), {"attack", "synth"}),
        (LIVE, {"live"}, set()),
        ((*LIVE, "--views"), {"live"}, set()),
        ((*LIVE, *PAID), {"live", "ledger"}, set()),
        (("verify", "released.csv"), set(), set()),
        (("inspect", "meter.csv"), set(), {"noise", "privacy", "releases"}),
    ],
)
def test_a_command_loads_no_other_application(tmp_path, words, loaded, without):
    packages = load(tmp_path, words)
    assert packages & APPLICATIONS == loaded
    assert not packages & without


def load(folder, words):
    """Run a command in a process and return the packages that it loads."""
    readings = hm.synth.trace(hm.synth.ready_home("evening"), 147, seed=1).readings.round()
    write_meter(folder / "meter.csv", hm.Trace(readings, 600.0, "2024-03-01T00:00Z"))
    open_ledger(f"sqlite:///{folder}/ledger.db", create=DayChange.within(0, 15_000)).close()
    with contextlib.chdir(folder):
        if "released.csv" in words:
            run(*RELEASE, "-o", "released.csv")
        command = [sys.executable, "-c", CODE, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())
