"""Every block of the README and of docs/ runs and prints what the page shows."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Block, pages, read_blocks
from tests.docs.execution import Page, environment

PAGES = {path.name: read_blocks(path) for path in pages()}
LEFT_OUT = [block for blocks in PAGES.values() for block in blocks if "skip" in block.notes]


# test_json.py runs the commands of json.md and checks their keys.
@pytest.mark.parametrize("name", [n for n, blocks in PAGES.items() if blocks and n != "json.md"])
def test_the_page_does_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable, value in environment().items():
        monkeypatch.setenv(variable, value)
    page = Page()
    page.run(PAGES[name])
    if page.left_out:
        pytest.skip(f"the rest of the page passed; left out: {'; '.join(page.left_out)}")


@pytest.mark.parametrize("block", LEFT_OUT, ids=lambda block: block.place)
def test_a_block_is_left_out_for_a_reason(block: Block):
    assert len(block.notes["skip"].split()) >= 3


def test_readme_and_pages_are_found():
    assert {"README.md", "index.md", "household.md", "cli.md"} <= set(PAGES)
