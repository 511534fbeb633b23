"""The fuzz targets: their seeds are read, and atheris finds no fault in a bounded time."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent
SECONDS = 60


def load():
    spec = importlib.util.spec_from_file_location("fuzz_targets", FOLDER / "fuzz_targets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


targets = load()


@pytest.mark.parametrize("family", targets.FAMILIES)
def test_most_seeds_hold_readings_under_some_options(family):
    read = []
    for data in targets.seeds(family):
        read.append(any(targets.check(data, options) for options in targets.choices()))
    assert sum(read) > len(read) / 2, read


@pytest.mark.parametrize("family", targets.FAMILIES)
def test_torn_and_damaged_seeds_are_no_fault(family):
    rng = np.random.default_rng(7)
    for data in targets.seeds(family):
        for _ in range(6):
            torn = bytearray(data[: int(rng.integers(1, len(data) + 1))])
            for place in rng.integers(0, len(torn), 3):
                torn[place] = rng.integers(0, 256)
            targets.check(bytes(torn))


@pytest.mark.slow
@pytest.mark.parametrize("family", targets.FAMILIES)
def test_atheris_finds_no_fault(family, tmp_path):
    pytest.importorskip("atheris", reason='pip install ".[fuzz]"')
    command = [
        sys.executable,
        str(FOLDER / "fuzz_targets.py"),
        family,
        str(tmp_path / "corpus"),
        f"-max_total_time={SECONDS}",
        "-timeout=30",
        "-rss_limit_mb=4096",
        "-seed=1",
        f"-artifact_prefix={tmp_path}/",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)
    found = [path.name for path in tmp_path.iterdir() if path.is_file()]
    assert done.returncode == 0, f"{found}: {done.stderr[-3000:]}"
    assert "Done " in done.stderr
