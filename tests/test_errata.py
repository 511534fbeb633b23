"""Errata and nomenclature agree with the code; `tests/docs` runs the code of the pages."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tests.test_docs import resolve

DOCS = Path(__file__).resolve().parents[1] / "docs"
ERRATA = (DOCS / "errata.md").read_text(encoding="utf-8")
NOMENCLATURE = (DOCS / "nomenclature.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", ERRATA, flags=re.DOTALL | re.MULTILINE))
NAMES = sorted(set(re.findall(r"`(hushmeter\.[\w.]+)`", NOMENCLATURE + ERRATA)))
ITEMS = [
    "Lemma 1",
    "Theorem 1 and Proposition 1",
    "Theorem 3",
    "Theorem 4",
    "Theorem 5",
    "Lemma 3 and Theorem 6",
    "Proposition 2",
    "Algorithm 1",
    "Algorithm 2",
    "Algorithm 3",
    "What ε protects",
    "Accuracy against ln(1/ε)",
    "Data",
]


def test_every_defect_has_its_section_and_its_row():
    assert list(SECTIONS) == ITEMS
    assert re.findall(r"^\| \[(.+?)\]\(#", ERRATA, flags=re.MULTILINE) == ITEMS


def test_the_code_of_the_page_is_plenty():
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", ERRATA, flags=re.DOTALL))
    assert len(doctest.DocTestParser().get_examples(code)) > 60


@pytest.mark.parametrize("item", ITEMS)
def test_every_number_in_bold_is_computed_in_its_section(item):
    blocks = re.findall(r"```pycon\n(.*?)```", SECTIONS[item], flags=re.DOTALL)
    examples = [e for block in blocks for e in doctest.DocTestParser().get_examples(block)]
    printed = re.findall(r"-?\d+(?:\.\d+)?", " ".join(e.want for e in examples))
    prose = re.sub(r"```pycon\n.*?```", "", SECTIONS[item], flags=re.DOTALL)
    bold = re.findall(r"\*\*(.+?)\*\*", prose)
    assert bold or item in ("Algorithm 2", "Data")
    assert set(bold) <= set(printed)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name):
    assert resolve(name) is not None


def test_every_row_of_the_nomenclature_has_a_name_and_a_unit():
    cells = re.compile(r"(?<!\\)\|")
    lines = [line for line in NOMENCLATURE.splitlines() if "`hushmeter." in line]
    rows = [[cell.strip() for cell in cells.split(line)] for line in lines]
    assert len(rows) > 35
    for row in rows:
        assert len(row) == 6
        assert row[4] in {"W", "1/W", "1", ""}
