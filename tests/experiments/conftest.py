"""Running an experiment as its user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def run_experiment(*arguments, expect=0):
    """Run `python -m experiments` and check its exit code."""
    command = [sys.executable, "-m", "experiments", *map(str, arguments)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done
