"""The page of reproduced figures is what its generator makes of the saved data."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.study import figure_attackers
from hushmeter.study.artefact import Caption, read_caption
from hushmeter.study.figures import ITEMS, Setting, reproduce
from hushmeter.study.reproduction import KINDS, OPENING, collect, main, render, title

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_what_the_generator_makes_of_the_saved_data():
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == render(DOCS / "figures")


def test_the_page_tells_claim_result_verdict_and_reason_of_every_item():
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert page.startswith(OPENING)
    sections = page.split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections] == [title(item) for item in ITEMS]
    for section in sections:
        for words in ("The paper: ", *(f"**{kind}** (" for kind in KINDS.values()), "*Verdict: "):
            assert words in section


@pytest.mark.parametrize("item", ["fig2", "fig9", "table1"])
def test_the_saved_claims_are_those_of_the_code(item):
    made = reproduce(item, Setting(seeds=2, readings=240))
    for kind in KINDS:
        assert read_caption(DOCS / "figures" / f"{kind}-{item}.txt").claim == made.words.claim


def test_pictures_in_the_docs_are_small():
    pictures = list((DOCS / "figures").glob("*.png"))
    assert {path.stem for path in pictures} == set(ITEMS) - {"table1"}
    assert sum(path.stat().st_size for path in pictures) < 1_000_000


def test_from_results_to_the_page(tmp_path, monkeypatch):
    every = figure_attackers.contenders()
    few = tuple(one for one in every if one.label != "RNN")
    monkeypatch.setattr(figure_attackers, "contenders", lambda **_: few)
    for item in ITEMS:
        reproduce(item, Setting(seeds=2, readings=240)).save(tmp_path / "made")
    main([str(tmp_path / "made"), str(tmp_path / "made"), str(tmp_path / "docs")])
    page = (tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")
    saved = read_caption(tmp_path / "made" / "fig4.txt")
    for words in (saved.claim, saved.finding, saved.source, "figures/fig4.png", "α / F1, rae13"):
        assert words in page
    with pytest.raises(InputError, match="give the folders"):
        main(["one"])


def test_a_caption_is_read_back_as_it_was_saved(tmp_path):
    caption = Caption(
        "fig2", "a home. Of sorts", "it falls.", "it: fell.", "in part", "because: x."
    )
    (tmp_path / "fig2.txt").write_text(str(caption), encoding="utf-8")
    assert read_caption(tmp_path / "fig2.txt") == caption
    (tmp_path / "fig2.txt").write_text("something else", encoding="utf-8")
    with pytest.raises(DataError, match="no caption"):
        read_caption(tmp_path / "fig2.txt")
    with pytest.raises(DataError, match="cannot be read"):
        collect({"real": tmp_path / "none"}, tmp_path / "docs")
    with pytest.raises(InputError, match="verdict"):
        Caption("fig2", "s", "c", "f", "perhaps", "r")
