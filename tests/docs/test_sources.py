"""The table of sources: complete, sorted, and in agreement with the files of the corpus."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from hushmeter.read.headers import load_layouts

ROOT = Path(__file__).parents[2]


def load():
    path = ROOT / "docs" / "extensions" / "layout_list.py"
    spec = importlib.util.spec_from_file_location("layout_list", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page = load()


def test_every_source_is_complete_and_in_order():
    sources = page.read_sources()
    names = [source["name"].lower() for source in sources]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for source in sources:
        assert source["checked"] in page.CHECKED
        assert source["country"]
        assert set(source) <= {"name", "country", "needs", "checked"}
        assert all(option.startswith("--") for option in source.get("needs", []))


def test_the_options_exist():
    from typer.main import get_command

    from hushmeter.cli import app

    inspect = get_command(app).commands["inspect"]
    known = {name for parameter in inspect.params for name in parameter.opts}
    needed = {option for source in page.read_sources() for option in source.get("needs", [])}
    assert needed <= known


def test_the_tables_have_a_row_for_each():
    assert page.describe_sources().count("\n| ") == len(page.read_sources())
    formats = {layout.format for layout in load_layouts()}
    assert page.describe_layouts().count("\n| ") == len(formats)
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert "<!-- sources -->" in text
    assert "<!-- layouts -->" in text


def test_real_files_of_the_corpus_need_no_more_than_stated(shared_data):
    truth = shared_data / "meterfiles" / "truth.json"
    if not truth.is_file():
        pytest.skip(f"{truth} is absent")
    sources = {source["name"].lower(): source for source in page.read_sources()}
    for entry in json.loads(truth.read_text(encoding="utf-8")):
        if entry["expected"] == "refuse":
            continue
        mine = [s for name, s in sources.items() if entry["source"].lower().startswith(name)]
        assert len(mine) == 1, entry["source"]
        assert mine[0]["checked"] == "real", entry["file"]
        asked = {flag for flag in entry["flags"] if flag.startswith("--")}
        assert asked <= set(mine[0].get("needs", [])), entry["file"]
