"""The wheel contains every file and works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import hushmeter as hm

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hushmeter"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Wheel and source distribution, built as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found" in done.stdout + done.stderr:
        pytest.skip("no package registry can be reached to fetch hatchling")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def empty(dist, tmp_path_factory):
    """The programs of a fresh environment with the wheel and nothing optional."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    (wheel,) = dist.glob("*.whl")
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-c"]
    done = subprocess.run(
        [*pip, ROOT / "constraints.txt", wheel], capture_output=True, text=True, check=False
    )
    if "No matching distribution found" in done.stderr:
        pytest.skip("no package registry can be reached to fetch the dependencies")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def run(empty, *arguments, cwd, expect=0):
    done = subprocess.run(
        [empty / "hushmeter", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def shipped_files():
    return {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_package_and_no_cache(dist):
    (wheel,) = dist.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == shipped_files()
    assert "hushmeter/py.typed" in names
    assert any(name.endswith("templates/report.html") for name in names)
    assert any(name.startswith("hushmeter/apps/page/static/") for name in names)


def test_the_source_distribution_can_be_tested_and_documented(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {"LICENSE", "README.md", "CONTRIBUTING.md", "Makefile", "constraints.txt"}
    assert wanted | {"pyproject.toml", "docs/conf.py", "tests/conftest.py"} <= names
    assert not [n for n in names if "__pycache__" in n or "docs/_build" in n]


def test_the_readme_of_the_wheel_has_no_relative_link(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith(".dist-info/METADATA")]
        text = files.read(name).decode()
    assert "](https://github.com/hushmeter/hushmeter/blob/main/docs/" in text
    assert "](https://github.com/hushmeter/hushmeter/raw/main/docs/page-desktop.png)" in text
    assert "](docs/" not in text
    assert "](CHANGELOG.md)" not in text


def test_core_commands_work_without_any_extra(empty, tmp_path):
    (tmp_path / "home.toml").write_text(
        'tolerance = 20\n[[appliance]]\nname = "kettle"\npower = 2000\nrun_s = 180\n'
    )
    rows = [f"{1_700_000_000 + 6 * i},{2000 * (i % 40 < 8) + 90}" for i in range(1200)]
    (tmp_path / "meter.csv").write_text("\n".join(["timestamp,watts", *rows]) + "\n")
    assert run(empty, "--version", cwd=tmp_path).stdout.strip() == f"hushmeter {hm.__version__}"
    assert "hushmeter demo" in run(empty, cwd=tmp_path).stdout
    assert "bayes" in run(empty, "attackers", cwd=tmp_path).stdout
    assert "1200 readings" in run(empty, "inspect", "meter.csv", cwd=tmp_path).stdout
    release = ("release", "meter.csv", "--home", "home.toml", "-e", "1", "-o", "out.csv")
    assert "protected: whether the kettle is on" in run(empty, *release, cwd=tmp_path).stdout
    attack = ("attack", "out.csv", "--home", "home.toml", "-a", "multi-shot", "-o", "seen.csv")
    assert "multi-shot on 1200 readings" in run(empty, *attack, cwd=tmp_path).stdout
    ledger = ("ledger", "show", "--ledger", "sqlite:///ledger.db")
    assert run(empty, *ledger, cwd=tmp_path, expect=1).stderr.startswith("hushmeter: ")
    module = [empty / "python", "-m", "hushmeter", "--version"]
    assert subprocess.run(module, capture_output=True, check=True).stdout.startswith(b"hushmeter")


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("deep", "attack meter.csv --home evening -a rnn --train meter.csv -o seen.csv"),
        ("nilm", "attack meter.csv --home evening -a trees --train meter.csv -o seen.csv"),
        ("page", "serve"),
        ("postgres", "ledger show --ledger postgresql://localhost/none"),
        ("nilmtk", "inspect meter.h5"),
    ],
)
def test_a_missing_extra_is_answered_with_the_pip_command(empty, tmp_path, extra, command):
    evening = hm.synth.ready_home("evening")
    hm.write_meter(tmp_path / "meter.csv", hm.synth.trace(evening, 100, seed=1))
    (tmp_path / "meter.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    done = run(empty, *command.split(), cwd=tmp_path, expect=2)
    assert done.stderr.startswith("hushmeter: ")
    assert f'pip install ".[{extra}]"' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_job_on_spark_is_answered_with_the_pip_command(empty):
    code = (
        "from hushmeter.errors import MissingExtraError\n"
        "from hushmeter.apps.fleet.task import spark_session\n"
        "try:\n"
        "    with spark_session('local[1]'): pass\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run(
        [empty / "python", "-c", code], capture_output=True, text=True, check=False
    )
    assert 'pip install ".[spark]"' in done.stdout, done.stderr
