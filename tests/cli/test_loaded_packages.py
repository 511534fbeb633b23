"""A command loads the packages of what it does, and of no other application."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hushmeter.ledger import DayChange, open_ledger
from hushmeter.write import write_meter
from tests.live.streams import make_trace

CODE = """
import sys
from hushmeter.cli import main
sys.argv = ["hushmeter", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
found = {name.split(".")[1] for name in sys.modules if name.startswith("hushmeter.")}
print(*found & {"battery", "behaviour", "fleet", "ledger", "live", "price", "web"})
"""
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
    write_meter(tmp_path / "meter.csv", make_trace(1.02, interval_s=600.0))
    open_ledger(f"sqlite:///{tmp_path}/ledger.db", create=DayChange.within(0, 15_000)).close()
    if "released.csv" in words:
        subprocess.run(
            [sys.executable, "-m", "hushmeter", *RELEASE, "-o", "released.csv"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[-1].split()) == loaded
