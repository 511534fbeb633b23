"""Every name and every test file of the paper map exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAPER_MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
SYMBOLS = sorted(set(re.findall(r"`(hushmeter\.[\w.]+)`", PAPER_MAP)))
FILES = sorted(set(re.findall(r"`(tests/[\w/.]+)`", PAPER_MAP)))


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


def test_the_paper_map_is_not_empty():
    assert len(SYMBOLS) >= 15
    assert len(FILES) >= 10
