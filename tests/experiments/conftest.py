"""Running an experiment as its user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def run_experiment(*arguments, expect=0):
    """Run `python -m experiments` and check its exit code."""
    command = [sys.executable, "-m", "experiments", *map(str, arguments)]
    # Other tests may hold a page open, whose processes ignore the current folder.
    environment = os.environ | {"PYTHONSAFEPATH": ""}
    done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True)
    assert done.returncode == expect, done.stderr
    return done
