"""`hushmeter report`."""

from __future__ import annotations

import json

from tests.apps.study.report.pages import check_page
from tests.cli.test_commands import run


def test_a_page_of_a_reproduced_figure(tmp_path):
    run("reproduce", "fig2", "-o", tmp_path / "figures")
    page = tmp_path / "report.html"
    done = run("report", tmp_path / "figures", "-o", page)
    assert "For the reader of the paper" in done.stdout
    assert "The results do not include a battery (hushmeter battery FILE" in done.stdout
    assert f"The page: {page}" in done.stdout
    assert check_page(page.read_text(encoding="utf-8")).table("All items")[1][0] == "Fig. 2"
    again = run("report", tmp_path / "figures", "-o", page, expect=1)
    assert "exists; add --force" in again.stderr
    forced = run("report", tmp_path / "figures", "-o", page, "--force", "--json")
    answer = json.loads(forced.stdout)
    assert answer["found"]["items"] == 1
    assert answer["sections"][0] == "For the reader of the paper"
    assert len(answer["missing"]) == 4


def test_bad_input_is_one_sentence(tmp_path):
    page = tmp_path / "report.html"
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "fig3.txt").write_text("nothing")
    for folder, code, message in (
        ("none", 1, "does not exist: name a folder or a file"),
        ("empty", 1, "there are no results in"),
        ("broken", 1, "fig3.txt is not a caption of `hushmeter reproduce`"),
    ):
        done = run("report", tmp_path / folder, "-o", page, expect=code)
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    done = run("report", tmp_path / "empty", "-o", tmp_path / "report.pdf", expect=2)
    assert "must end in .html" in done.stderr
    assert not page.exists()


def test_help_has_an_example():
    text = " ".join(run("report", "--help").stdout.split())
    assert "Example: hushmeter report results figures study.toml -o report.html" in text
