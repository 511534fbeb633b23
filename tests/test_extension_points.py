"""A new attacker or command is one module and one entry, as docs/architecture.md says.

Other files add a toy of their kind: tests/releases/test_labels.py a table,
tests/noise/test_kinds.py a mechanism, tests/read/test_source.py a file format.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hushmeter as hm

ATTACKER = '''"""A toy."""

import numpy as np

from hushmeter.attack.base import Attacker


class Threshold(Attacker):
    """An appliance is on if the reading is larger than its power."""

    name = "threshold"
    needs = "the powers"
    assumes = "one appliance at a time"

    def _predict(self, seen):
        return np.asarray(seen.readings)[:, None] > self.home.powers
'''
COMMAND = '''"""`hushmeter count`: a toy."""

from pathlib import Path
from typing import Annotated

import typer

from hushmeter.cli.options import JSON
from hushmeter.cli.output import print_json


def count(
    file: Annotated[Path, typer.Argument(help="Readings.")],
    json: Annotated[bool, JSON] = False,
) -> None:
    """Count the readings of a file.

    Example: hushmeter count meter.csv
    """
    import hushmeter as hm

    found = len(hm.read_meter(file))
    print_json({"readings": found}) if json else typer.echo(f"{found} readings")
'''


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with a toy attacker and a toy command."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "hushmeter"
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(Path(hm.__file__).parent, package, ignore=ignored)
    (package / "attack" / "threshold.py").write_text(ATTACKER, encoding="utf-8")
    add(package / "attack" / "registry.py", '"co": ', '"threshold": "threshold:Threshold",\n    ')
    (package / "cli" / "count.py").write_text(COMMAND, encoding="utf-8")
    add(package / "cli" / "__init__.py", '"inspect", ', '"count", ')
    hm.write_meter(folder / "meter.csv", hm.Trace([0.0, 2500.0, 100.0], interval_s=60.0))
    return folder


def add(path, before, entry):
    """Put an entry before the first place of another one."""
    text = path.read_text(encoding="utf-8")
    assert before in text, f"{path.name} has no entry {before}"
    path.write_text(text.replace(before, entry + before, 1), encoding="utf-8")


def run(folder, *words):
    """What a program of the extended package prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_is_a_module_and_a_name_in_a_panel(extended):
    assert json.loads(run(extended, "-m", "hushmeter", "count", "meter.csv", "--json")) == {
        "readings": 3
    }
    assert "Count the readings of a file." in run(extended, "-m", "hushmeter", "--help")


def test_an_attacker_is_a_module_and_a_line_of_the_registry(extended):
    code = """
import hushmeter as hm
hm.check_attacker(hm.attackers["threshold"])
home = hm.synth.ready_home("evening")
print(hm.attackers["threshold"](home).predict(hm.read_meter("meter.csv")).sum(axis=1).tolist())
"""
    assert run(extended, "-c", code).strip() == "[0, 6, 1]"
    words = ("attack", "meter.csv", "--home", "evening", "-a", "threshold", "-o", "s.csv", "--json")
    found = json.loads(run(extended, "-m", "hushmeter", *words))
    assert found["attacker"] == "threshold"
