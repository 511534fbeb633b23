"""`hushmeter cluster`: the files it writes, the sentences it refuses with."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from tests.cli.test_commands import run as run_command
from typer.testing import CliRunner

from hushmeter.apps.behaviour import synthetic_profiles
from hushmeter.cli import app


@pytest.fixture
def days(tmp_path):
    path = tmp_path / "days.csv"
    pd.DataFrame(synthetic_profiles(120, seed=0).values).to_csv(path, index=False)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["cluster", *map(str, arguments)], catch_exceptions=True)


def test_it_writes_every_figure_with_its_data(days, tmp_path):
    out = tmp_path / "out"
    prices = ",".join(str(0.1 + 0.02 * hour) for hour in range(24))
    options = ["-k", 4, "--lambda", "0.05,0.5", "--repeats", 3, "--tariff", prices]
    done = run(days, "-o", out, *options, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["profiles"] == 120
    assert answer["scale_kwh"] == pytest.approx([0.05, 0.5])
    assert answer["stay"][0] > answer["stay"][1]
    assert len(answer["costs_per_kwh"]) == 4
    for name in ("centres", "interchanges", "stability"):
        for kind in ("png", "svg", "csv"):
            assert (out / f"{name}.{kind}").stat().st_size > 0
    assert set(pd.read_csv(out / "staying.csv")) >= {"id", "lower", "upper", "rival"}
    assert "exists; add --force" in str(run(days, "-o", out, *options).exception)
    table = run(days, "-o", out, "-k", 4, "-e", "2,20", "--repeats", 2, "--force")
    assert table.exit_code == 0
    assert "4 clusters of 120 days" in table.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-k", "121"], "120 profiles are too few for 121 clusters"),
        (["--lambda", "0.1", "-e", "1"], "not both"),
        (["--lambda", "much"], "lambda must be numbers with commas"),
        (["-e", "0"], "epsilon must be positive"),
        (["--tariff", "1,2"], "must have 24 prices"),
        (["--missing", "guess"], "missing must be one of refuse, drop"),
    ],
)
def test_bad_usage_is_one_sentence(days, tmp_path, options, sentence):
    done = run(days, "-o", tmp_path / "out", *options)
    assert sentence in str(done.exception)


def test_exit_codes_and_no_traceback(days, tmp_path):
    for options, code in ((["-k", "121"], 1), (["-e", "0"], 2)):
        done = run_command("cluster", days, "-o", tmp_path / "out", *options, expect=code)
        assert done.stderr.startswith("hushmeter: ")


def test_help_has_an_example():
    assert "hushmeter cluster days.parquet" in run("--help").output
