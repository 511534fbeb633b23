"""The core runs when the folder of the apps is deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import hushmeter as hm

ROOT = Path(__file__).resolve().parents[1]
APPS = ROOT / "src" / "hushmeter" / "apps"
TESTED = ("noise", "privacy", "attack", "paper", "theory", "test_trace.py", "test_clock.py")
"""Tests of the core that are run in the empty environment, too."""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A copy of the source without the apps."""
    folder = tmp_path_factory.mktemp("core")
    ignored = shutil.ignore_patterns("apps", "__pycache__")
    shutil.copytree(APPS.parent, folder / "src" / "hushmeter", ignore=ignored)
    assert not (folder / "src/hushmeter/apps").exists()
    return folder


@pytest.fixture(scope="module")
def program(core):
    """The command line of the copy in this environment."""
    environment = os.environ | {"PYTHONPATH": str(core / "src")}
    return [sys.executable, "-P", "-m", "hushmeter"], environment


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A home with 40 days of readings."""
    folder = tmp_path_factory.mktemp("home")
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge", "television"])
    home.save(folder / "home.toml")
    hm.write_meter(folder / "meter.csv", hm.synth.household(days=40, interval_s=1800.0).trace)
    hm.write_meter(folder / "fine.csv", hm.synth.trace(home, 3000, seed=1))
    return folder


def run(program, words, folder, expect=0):
    command, environment = program
    done = subprocess.run(
        [*command, *words.split()], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


WORK = {
    "inspect meter.csv": "first use",
    "inspect meter.csv --json": '"findings"',
    "release meter.csv --hide kettle -o shared": "Hidden",
    "verify shared": "receipt",
    "restore shared -o restored.csv": "restored.csv",
    "release fine.csv --home home.toml -e 1 -o out.csv": "protected",
    "advise meter.csv --hide kettle": "Hidden",
    "catalogue kettle": "kettle",
    "audit --samples 40000 --seed 1": "The claim was not refuted.",
    "bounds home.toml": "bound",
    "attack --list": "multi-shot",
    "attack fine.csv --home home.toml -a hierarchical -o seen.csv": "hierarchical on 3000 readings",
}
"""Commands of the core, each with a word that it prints; later ones use files of earlier ones."""


def test_the_commands_of_the_core_work(program, files):
    for words, printed in WORK.items():
        assert printed in run(program, words, files), words


def test_the_help_lists_the_commands_of_the_core_alone(program, files):
    text = run(program, "--help", files)
    assert "release" in text
    assert "fleet-sums" not in text
    assert "bayes" not in run(program, "attack --list", files)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("inspect meter.csv -o picture", "plot"),
        ("bounds home.toml -o bounds", "plot"),
        ("advise meter.csv --hide kettle -o advice", "plot"),
        ("release meter.csv --hide kettle -o x --ledger sqlite:///l.db --ledger-meter a", "ledger"),
    ],
)
def test_what_needs_an_app_is_answered_with_its_pip_command(program, files, words, extra):
    text = run(program, words, files, expect=2)
    assert f'pip install ".[{extra}]"' in text
    assert len(text.strip().splitlines()) == 1


def test_no_name_of_the_package_is_lost_silently(program, files):
    code = (
        "import hushmeter as hm\n"
        "for name in ('Ledger', 'sweep', 'plot_trace'):\n"
        "    try: getattr(hm, name)\n"
        "    except ImportError as error: print(error)\n"
        "print(sorted(set(hm.__all__) - {'Ledger', 'open_ledger', 'sweep', 'read_study', 'Study',"
        " 'plot_trace'}) and [getattr(hm, n) for n in ('release', 'advise', 'paper')] and 'ok')\n"
    )
    command, environment = program
    done = subprocess.run(
        [command[0], "-P", "-c", code], cwd=files, env=environment, capture_output=True, text=True
    )
    assert done.stdout.count('pip install ".[') == 3, done.stderr
    assert done.stdout.rstrip().endswith("ok")


@pytest.mark.slow
def test_the_core_installs_and_passes_its_tests_in_an_empty_environment(core, files, tmp_path):
    """A wheel that is built without the apps, with nothing but what the core asks for."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_readme.py", "constraints.txt"):
        shutil.copy(ROOT / name, core)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("apps"))
    build = [sys.executable, "-m", "build", "--wheel", "--quiet", "--outdir", str(core), str(core)]
    done = subprocess.run(build, capture_output=True, text=True)
    if "No matching distribution found" in done.stdout + done.stderr:
        pytest.skip("no package registry can be reached to fetch hatchling")
    assert done.returncode == 0, done.stdout + done.stderr
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    (wheel,) = core.glob("*.whl")
    assert subprocess.run([*pip, wheel]).returncode == 0
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for words, printed in WORK.items():
        words = words.replace(" -o ", " --force -o ") if words[:3] != "adv" else words
        found = run(([python, "-m", "hushmeter"], environment), words, files)
        assert printed in found, words
    tools = ("pytest", "hypothesis", "scipy", "mpmath", "opendp", "dp-accounting", "scikit-learn")
    assert subprocess.run([*pip, *tools]).returncode == 0
    tests = [str(tmp_path / "tests" / name) for name in TESTED]
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--rootdir",
         tmp_path, "-c", ROOT / "pyproject.toml", *tests],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
