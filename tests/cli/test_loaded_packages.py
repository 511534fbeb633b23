"""A command loads the packages of what it does, and of no other application."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hushmeter as hm
from hushmeter.ledger import DayChange, open_ledger
from hushmeter.write import write_meter

CODE = """
import sys
from hushmeter.cli import main
sys.argv = ["hushmeter", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
found = [name for name in sys.modules if name.split(".")[0] == "hushmeter"]
print(len(found))
print(*{name.split(".")[1] for name in found if "." in name})
"""
APPLICATIONS = {"battery", "behaviour", "fleet", "ledger", "live", "price", "web"}
NOISE = ("-e", "1", "--sensitivity", "2100", "--span", "reading", "--clamp", "0,15000")
RELEASE = ("release", "meter.csv", *NOISE)
LIVE = ("live", "meter.csv", "--interval", "600s", "--step", "0", "--to", "out", "--once", *NOISE)
PAID = ("--ledger", "sqlite:///ledger.db", "--ledger-meter", "m")


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        ((*RELEASE, "-o", "out.csv"), set()),
        ((*RELEASE, "--views", "-o", "out"), set()),
        ((*RELEASE, "-o", "out.csv", *PAID), {"ledger"}),
        (("release", "meter.csv", "--hide", "kettle", "-o", "out.csv"), set()),
        (LIVE, {"live"}),
        ((*LIVE, "--views"), {"live"}),
        ((*LIVE, *PAID), {"live", "ledger"}),
        (("verify", "released.csv"), set()),
        (("inspect", "meter.csv"), set()),
    ],
)
def test_a_command_loads_no_other_application(tmp_path, words, loaded):
    assert load(tmp_path, words)[1] & APPLICATIONS == loaded


@pytest.mark.parametrize(
    ("words", "most", "without"),
    [
        (("release", "meter.csv", "--hide", "kettle", "-o", "out.csv"), 60, {"learn", "synth"}),
        (("inspect", "meter.csv"), 45, {"noise", "privacy", "releases"}),
    ],
)
def test_a_command_loads_few_modules(tmp_path, words, most, without):
    count, packages = load(tmp_path, words)
    assert count <= most
    assert not packages & without


def load(folder, words):
    """Run a command in a process; return how many modules and which packages it loads."""
    readings = hm.synth.trace(hm.synth.ready_home("evening"), 147, seed=1).readings.round()
    write_meter(folder / "meter.csv", hm.Trace(readings, 600.0, "2024-03-01T00:00Z"))
    open_ledger(f"sqlite:///{folder}/ledger.db", create=DayChange.within(0, 15_000)).close()
    if "released.csv" in words:
        subprocess.run(
            [sys.executable, "-m", "hushmeter", *RELEASE, "-o", "released.csv"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        cwd=folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *_, count, packages = done.stdout.splitlines()
    return int(count), set(packages.split())
