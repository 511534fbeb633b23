"""A new attacker, threat or command is one module and one entry, as docs/architecture.md says.

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
THREAT = '''"""A toy."""

import numpy as np

from hushmeter.threat import Threat


class WorksAtHome(Threat):
    """A day on which more is used than on a usual known day is a day of work at home."""

    name = "works at home"

    def fit(self, known, answers):
        self.levels = [known[answers == answer].mean() for answer in (0, 1)]
        return self

    def predict(self, values):
        spread = np.hypot(50.0, self.noise_w)
        odds = np.exp([-(((values - level) / spread) ** 2) / 2 for level in self.levels]).T
        return odds / odds.sum(axis=1, keepdims=True)
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
    """A copy of the package with a toy attacker, a toy threat and a toy command."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "hushmeter"
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(Path(hm.__file__).parent, package, ignore=ignored)
    (package / "apps" / "nilm" / "threshold.py").write_text(ATTACKER, encoding="utf-8")
    add(package / "apps" / "__init__.py", '"co": ', '"threshold": "threshold:Threshold",\n    ')
    (package / "threat" / "works_at_home.py").write_text(THREAT, encoding="utf-8")
    entry = '"threat.works_at_home": "WorksAtHome",\n        '
    add(package / "threat" / "__init__.py", '"threat.attackers": ', entry)
    (package / "cli" / "count.py").write_text(COMMAND, encoding="utf-8")
    add(package / "cli" / "__init__.py", '"inspect": "inspect", ', '"count": "count", ')
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


def test_a_threat_is_a_module_and_a_line_of_the_package(extended):
    code = """
import numpy as np
import hushmeter as hm
rng = np.random.default_rng(1)
answers = rng.integers(0, 2, 200)
days = 200.0 + 300.0 * answers + rng.normal(0, 50, 200)
noise = hm.Laplace(epsilon=1.0, sensitivity=100.0)
attacker = hm.threat.WorksAtHome().knows(noise.std).fit(days[:100], answers[:100])
seen = noise.release(days[100:], rng=2)
found = hm.threat.rate(attacker.predict(seen), answers[100:], floor=0.5)
print(isinstance(attacker, hm.threat.Threat), found.share > 0.8, found.low > found.floor)
"""
    assert run(extended, "-c", code).split() == ["True", "True", "True"]
