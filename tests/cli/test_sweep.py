"""`hushmeter sweep`."""

from __future__ import annotations

import json

import pandas as pd

from tests.cli.test_commands import run
from tests.study.test_sweep import STUDY


def test_a_sweep_writes_rows_and_prints_a_table(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    done = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", "-j", 2)
    assert "similar8, laplace: α/F1 against ε" in done.stdout
    assert len(pd.read_parquet(tmp_path / "out" / "results.parquet")) == 16
    again = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", expect=1)
    assert "holds an earlier sweep" in again.stderr


def test_failures_are_told_and_the_rest_is_kept(tmp_path):
    broken = STUDY.replace('"multi-shot"', '"multi-shot"\nparameters = { rounding = "up" }')
    (tmp_path / "study.toml").write_text(broken)
    done = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", "--json", expect=1)
    assert json.loads(done.stdout)["rows"] == 16
    assert "rounding must be one of" in done.stderr
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert table.alpha.notna().sum() == 8
