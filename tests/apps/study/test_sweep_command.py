"""`hushmeter sweep`."""

from __future__ import annotations

import json

import pandas as pd

import hushmeter as hm
from hushmeter.apps.study.sweep import read_study
from tests.apps.study.test_sweep import STUDY
from tests.cli.test_commands import run


def test_a_sweep_writes_rows_and_prints_a_table(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    done = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", "-j", 2)
    assert "similar8, laplace: α/F1 against ε" in done.stdout
    assert len(pd.read_parquet(tmp_path / "out" / "results.parquet")) == 16
    again = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", expect=1)
    assert "contains a finished sweep" in again.stderr


def test_failures_are_reported_and_the_rest_is_kept(tmp_path):
    broken = STUDY.replace('"multi-shot"', '"multi-shot"\nparameters = { rounding = "up" }')
    (tmp_path / "study.toml").write_text(broken)
    done = run("sweep", tmp_path / "study.toml", "-o", tmp_path / "out", "--json", expect=1)
    assert json.loads(done.stdout)["rows"] == 16
    assert "rounding must be one of" in done.stderr
    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert table.alpha.notna().sum() == 8


def test_the_study_lies_beside_its_results_and_finds_its_files(tmp_path):
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    home.save(tmp_path / "plans" / "home.toml")
    text = STUDY.replace('home = "similar8"', 'home = "home.toml"')
    (tmp_path / "plans" / "study.toml").write_text(text)
    run("sweep", tmp_path / "plans" / "study.toml", "-o", tmp_path / "out")
    kept = read_study(tmp_path / "out" / "study.toml")
    asked = read_study(tmp_path / "plans" / "study.toml")
    assert kept.name == asked.name
    assert kept.cases[0].home == home
    assert (kept.cases[0].test.readings == asked.cases[0].test.readings).all()
    page = run("report", tmp_path / "out", "-o", tmp_path / "report.html")
    assert "study.toml" not in page.stdout
