"""The page of reproduced figures is what its generator makes of the saved data."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from experiments.reproduction_page import (
    KINDS,
    OPENING,
    ROBUSTNESS,
    collect,
    make_page,
    render,
)

from hushmeter.errors import DataError, InputError
from hushmeter.study.figures import ITEMS, MOST_WORDS, Caption, item_title, read_caption
from hushmeter.study.figures.attackers import BAYES, ONE, PAPER, RUN

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_what_the_generator_makes_of_the_saved_data():
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == render(DOCS / "figures")


def test_the_page_has_claim_result_verdict_and_reason_of_every_item():
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert page.startswith(OPENING)
    *sections, last = page.split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections] == [item_title(item) for item in ITEMS]
    assert f"## {last}".startswith(ROBUSTNESS)
    for section in sections:
        for words in ("The paper: ", *(f"**{kind}** (" for kind in KINDS.values()), "*Verdict: "):
            assert words in section


@pytest.mark.parametrize("item", ITEMS)
def test_the_saved_claims_are_those_of_the_code(item, small_items):
    for kind in KINDS:
        saved = read_caption(DOCS / "figures" / f"{kind}-{item}.txt")
        assert saved.claim == small_items[0][item].words.claim
        assert len(saved.text.split()) <= MOST_WORDS
        assert "Error" not in str(saved)


def test_the_page_has_one_table_of_robustness_and_one_for_each_appliance():
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    last = page.split("\n## ")[-1]
    assert "| slope, " not in page
    for kind in KINDS:
        for every in (3, 60):
            rows = [row for row in last.splitlines() if f"| Fig. 6, {every} s, {kind} |" in row]
            for name in (*PAPER, "limit of any attacker, one reading"):
                (row,) = [row for row in rows if f"| {name} |" in row]
                assert row.count("[") >= 3
        saved = pd.read_csv(DOCS / "figures" / f"{kind}-appliances.csv")
        for name in saved.appliance.unique():
            table = page.split(f"| α, {name} | ε = 10 |")[1].split("\n\n")[0]
            for row in (ONE, RUN, *PAPER, BAYES):
                assert f"\n| {row} | " in table


def test_pictures_in_the_docs_are_small():
    pictures = list((DOCS / "figures").glob("*.png"))
    assert set(ITEMS) - {"table1"} <= {path.stem for path in pictures}
    assert sum(path.stat().st_size for path in pictures) < 1_000_000


def test_from_results_to_the_page(tmp_path, small_items):
    made, _, folder = small_items
    make_page(folder, folder, tmp_path)
    page = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    saved = made["fig4"].words
    for words in (saved.claim, saved.finding, saved.source, "figures/fig4.png", "α / F1, rae13"):
        assert words in page
    rows = made["fig4"].table
    mean = rows[(rows.attacker == "Algorithm 2") & (rows.epsilon == 10)][["alpha", "f1"]].mean()
    assert f"| Algorithm 2 | {mean.alpha:.3f} / {mean.f1:.2f} |" in page


def test_a_caption_is_read_back_as_it_was_saved(tmp_path):
    caption = Caption(
        "fig2",
        "a home. Of sorts",
        "it falls.",
        "it: fell.",
        "in part",
        "because: x.",
        (("3 s, “x”", "holds: by 2"), ("noise", "10/ε W")),
    )
    (tmp_path / "fig2.txt").write_text(str(caption), encoding="utf-8")
    assert read_caption(tmp_path / "fig2.txt") == caption
    (tmp_path / "fig2.txt").write_text("something else", encoding="utf-8")
    with pytest.raises(DataError, match="not a caption"):
        read_caption(tmp_path / "fig2.txt")
    with pytest.raises(DataError, match="holds no caption"):
        collect({"real": tmp_path / "none"}, tmp_path / "docs")
    with pytest.raises(InputError, match="verdict"):
        Caption("fig2", "s", "c", "f", "perhaps", "r")
