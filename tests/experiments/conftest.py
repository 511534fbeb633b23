"""Running an experiment as its user does, and small results of every item of the paper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.study.items import make_small_items

TOP = Path(__file__).resolve().parents[2]


def run_experiment(*arguments, expect=0):
    """Run `python -m experiments` and check its exit code."""
    command = [sys.executable, "-m", "experiments", *map(str, arguments)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture(scope="session")
def small_items(tmp_path_factory):
    """Every item on its stand-in, the files of each, and the folder they are saved in."""
    made, folder = make_small_items(), tmp_path_factory.mktemp("items")
    return made, {item: one.save(folder) for item, one in made.items()}, folder
