"""`hushmeter reproduce`."""

from __future__ import annotations

import json

from tests.cli.test_commands import run


def test_a_figure_with_its_data_and_caption(tmp_path):
    done = run("reproduce", "fig2", "-o", tmp_path)
    assert "The paper:" in done.stdout
    assert "Verdict:" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "fig2.png", "fig2.svg", "fig2.csv", "fig2.txt",
    }  # fmt: skip
    again = run("reproduce", "fig2", "-o", tmp_path, expect=1)
    assert "exists; add --force" in again.stderr
    forced = run("reproduce", "fig2", "-o", tmp_path, "--force", "--json")
    assert json.loads(forced.stdout)[0]["item"] == "fig2"


def test_an_unknown_figure_is_one_sentence(tmp_path):
    done = run("reproduce", "fig1", "-o", tmp_path, expect=2)
    assert "there is no figure or table named 'fig1'" in done.stderr


def test_a_folder_of_data_that_lacks_a_set_falls_back(tmp_path):
    (tmp_path / "data").mkdir()
    done = run("reproduce", "table1", "--data", tmp_path / "data", "-o", tmp_path / "out")
    assert "synthetic stand-ins" in done.stdout
    absent = run("reproduce", "table1", "--data", tmp_path / "no", "-o", tmp_path / "x", expect=2)
    assert "is not a folder" in absent.stderr


def test_table_1_on_real_data(tmp_path, shared_data):
    done = run("reproduce", "table1", "--data", shared_data, "-o", tmp_path)
    assert "REDD building 1" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"table1.csv", "table1.txt"}
