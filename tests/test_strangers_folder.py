"""A stranger's folder as the current one: none of its files is run, whatever its name."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

import hushmeter as hm
from tests.apps.fleet.cases import small_fleet

SOURCE = Path(hm.__file__).parent
SEVEN = ("numpy", "json", "hushmeter", "signal", "typing", "tables", "yaml")
# As the script of an installation, whose path has not the current folder; and as a module.
SCRIPT = ["-c", "import sys; sys.path.pop(0); from hushmeter.cli import main; main()"]
MODULE = ["-m", "hushmeter"]
STARTS = ("subprocess", "subprocess.run", "multiprocessing.get_context", "ProcessPoolExecutor")
STUDY = """
epsilon = [1]
seeds = 1
[[case]]
name = "evening"
readings = 200
home = "evening"
[[attacker]]
name = "bayes"
[[attacker]]
name = "co"
"""


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Files of readings that are no stranger's."""
    folder = tmp_path_factory.mktemp("readings")
    trace = hm.synth.trace(hm.synth.ready_home("evening"), 400, seed=1)
    hm.write_meter(folder / "m.csv", trace)
    hm.write_meter(folder / "m.h5", trace)
    small_fleet(folder)
    (folder / "study.toml").write_text(STUDY)
    return folder


@pytest.fixture
def stranger(tmp_path):
    """A folder whose modules leave a mark when they are run, and settings of Numba."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    for name in SEVEN:
        code = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(99)\n"
        (folder / f"{name}.py").write_text(code)
    (folder / ".numba_config.yaml").write_text("cache_locator_classes: json.Locator\n")
    (folder / "matplotlibrc").write_text("text.usetex: True\n")
    return folder


def run(stranger, start, *words):
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "PYTHONSAFEPATH": ""}
    command = [sys.executable, *start, *map(str, words)]
    done = subprocess.run(
        command, cwd=stranger, env=environment, capture_output=True, text=True, check=False
    )
    assert not (stranger.parent / "ran").exists(), (stranger.parent / "ran").read_text()
    assert done.returncode == 0, done.stderr
    return done


COMMANDS = {
    "inspect": "inspect {0}/m.csv",
    "inspect h5": "inspect {0}/m.h5",
    "release": "release {0}/m.csv --hide kettle -o out.csv",
    "attack": "attack {0}/m.csv --home evening -a co -o states.csv",
    "bounds": "bounds -e 0.1,1 --have kettle -o figure",
    "catalogue": "catalogue --have kettle -o home.toml",
    "fleet": "fleet {0}/in -o out --ledger sqlite:///l.db -e 1 --clamp 0,100 -j 2",
    "sweep": "sweep {0}/study.toml -o results -j 2",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_what_lies_in_the_current_folder(name, readings, stranger):
    if name == "fleet":
        run(stranger, SCRIPT, *["ledger", "init", "--ledger", "sqlite:///l.db", "--clamp", "0,100"])
    run(stranger, SCRIPT, *COMMANDS[name].format(readings).split())


@pytest.mark.parametrize("name", ["inspect h5", "attack"])
def test_the_module_drops_the_current_folder_before_it_imports(name, readings, stranger):
    # Python itself looks for the module hushmeter in the current folder.
    (stranger / "hushmeter.py").unlink()
    run(stranger, MODULE, *COMMANDS[name].format(readings).split())


def test_the_processes_of_the_page_run_nothing_of_the_current_folder(stranger):
    command = [sys.executable, *SCRIPT, "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "PYTHONSAFEPATH": ""}
    with subprocess.Popen(
        command, cwd=stranger, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        ended = threading.Timer(120, server.terminate)
        ended.start()
        line = next(line for line in server.stdout if "http://" in line)
        address, token = line[line.index("http://") :].split()[0].rstrip(".,").split("#")
        headers = {"Authorization": f"Bearer {token.removeprefix('token=')}"}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if httpx.get(f"{address}api/examples", headers=headers).status_code < 500:
                break
        server.terminate()
        ended.cancel()
    assert not (stranger.parent / "ran").exists(), (stranger.parent / "ran").read_text()


def imported(path):
    """The names that a module imports from others."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_one_module_starts_processes_and_one_imports_numba():
    for path in SOURCE.rglob("*.py"):
        for name in imported(path):
            assert path.stem == "compiled" or name.split(".")[0] != "numba", path
            assert path.stem == "processes" or not name.endswith(STARTS), path
