"""Every row of the paper map has a verdict, and every name and test file in it exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAPER_MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
SYMBOL, FILE = r"`(hushmeter\.[\w.]+)`", r"`(tests/[\w/.]+)`"
SYMBOLS = sorted(set(re.findall(SYMBOL, PAPER_MAP)))
FILES = sorted(set(re.findall(FILE, PAPER_MAP)))


def resolve(symbol: str) -> object:
    """Import the longest module prefix, then walk the attributes."""
    parts = symbol.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            # Fields without a default are known to the dataclass only.
            fields = getattr(value, "__dataclass_fields__", {})
            value = fields[part] if part in fields else getattr(value, part)
        return value
    raise AssertionError(f"{symbol} does not exist")


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_of_the_paper_map_exists(symbol):
    assert resolve(symbol).__doc__


@pytest.mark.parametrize("file", FILES)
def test_every_test_of_the_paper_map_exists(file):
    assert (ROOT / file).is_file()


VERDICTS = ("equal", "better", "in part", "differs", "undecided", "not tested")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAPER_MAP.splitlines()
    if line.startswith("| ") and not line.startswith("| where")
]


def test_every_row_of_the_paper_map_has_a_place_code_tests_and_a_verdict():
    assert len(ROWS) >= 130
    for place, words, code, tests, verdict in ROWS:
        assert place, words
        assert re.search(SYMBOL, code), words
        assert re.search(FILE, tests), words
        assert verdict.startswith(VERDICTS), words
        if verdict.startswith(("differs", "not tested", "undecided")):
            assert len(verdict.split()) > 2, f"no reason: {words}"
    assert len({(place, words) for place, words, *_ in ROWS}) == len(ROWS)
