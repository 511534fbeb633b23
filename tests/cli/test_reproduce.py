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
