"""Small results of every item."""

from __future__ import annotations

import pytest

from tests.study.items import make_small_items


@pytest.fixture(scope="session")
def small_items(tmp_path_factory):
    """Every item on its stand-in, the files of each, and the folder they are saved in."""
    made, folder = make_small_items(), tmp_path_factory.mktemp("items")
    return made, {item: one.save(folder) for item, one in made.items()}, folder
