"""The page of reproduced figures is what its generator makes of the saved data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from experiments.reproduction_page import (
    KINDS,
    MOST_WORDS_OF_THE_PAGE,
    OPENING,
    collect,
    make_page,
    render,
)

from hushmeter.apps.study.figures import (
    EPSILONS,
    ITEMS,
    MOST_WORDS,
    Caption,
    item_title,
    read_caption,
)
from hushmeter.errors import DataError, InputError

DOCS = Path(__file__).resolve().parents[2] / "docs"


def saved_captions(item: str) -> dict[str, Caption]:
    files = {kind: DOCS / "figures" / f"{kind}-{item}.txt" for kind in KINDS}
    return {kind: read_caption(file) for kind, file in files.items() if file.is_file()}


def test_the_page_is_what_the_generator_makes_of_the_saved_data():
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == render(DOCS / "figures")


def test_the_page_has_one_table_of_claims_and_a_short_section_for_every_item():
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert len(page.split()) <= MOST_WORDS_OF_THE_PAGE
    assert page.startswith(OPENING)
    claims, *sections = page.split("\n## ")[1:]
    assert claims.startswith("Claims and verdicts")
    assert [section.splitlines()[0] for section in sections] == [item_title(item) for item in ITEMS]
    for item, section in zip(ITEMS, sections, strict=True):
        captions = saved_captions(item)
        assert captions
        words = [line for line in section.splitlines() if "figures/" not in line]
        assert len(" ".join(words).split()) <= 150 * len(captions)
        for kind, caption in captions.items():
            assert f"**{KINDS[kind]}** (" in section
            assert f"(figures/{kind}-{item}.txt)" in section
            assert caption.verdict in claims


@pytest.mark.parametrize("item", ITEMS)
def test_the_saved_claims_are_those_of_the_code(item, small_items):
    for saved in saved_captions(item).values():
        assert saved.claim == small_items[0][item].words.claim
        assert len(saved.text.split()) <= MOST_WORDS
        assert "Error" not in str(saved)


def test_the_data_of_the_sweeps_have_every_epsilon():
    for item in ("fig3", "fig4", "fig5", "fig6"):
        for kind in saved_captions(item):
            saved = pd.read_csv(DOCS / "figures" / f"{kind}-{item}.csv")
            assert set(EPSILONS) <= set(saved.epsilon.round(6))


def test_pictures_in_the_docs_are_wide_and_small():
    from PIL import Image

    pictures = list((DOCS / "figures").glob("*-*.png"))
    for item in set(ITEMS) - {"table1"}:
        for kind in saved_captions(item):
            assert DOCS / "figures" / f"{kind}-{item}.png" in pictures
    for path in pictures:
        if path.stem != "real-mains":
            with Image.open(path) as picture:
                assert picture.width == 2000, path.name
    assert sum(path.stat().st_size for path in pictures) < 5_000_000


def test_from_results_to_the_page(tmp_path, small_items):
    made, files, _ = small_items
    folder = tmp_path / "few"
    folder.mkdir()
    for file in (*files["fig4"], *files["table1"]):
        shutil.copy(file, folder)
    make_page(folder, folder, tmp_path)
    page = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    saved = made["fig4"].words
    for words in (saved.claim, saved.finding, saved.source, "figures/real-fig4.png"):
        assert words in page
    rows = made["fig4"].table
    mean = rows[(rows.attacker == "Algorithm 2") & (rows.epsilon == 10)][["alpha", "f1"]].mean()
    kept = pd.read_csv(tmp_path / "figures" / "real-fig4.csv").set_index(["attacker", "epsilon"])
    assert kept.alpha["Algorithm 2", 10.0] == pytest.approx(mean.alpha, abs=1e-5)
    assert kept.f1["Algorithm 2", 10.0] == pytest.approx(mean.f1, abs=1e-5)


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
