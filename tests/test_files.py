from __future__ import annotations

from pathlib import Path

import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.files import atomic, write_table, write_text


def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "one")
    with pytest.raises(DataError, match="exists; add --force"):
        write_text(path, "two")
    assert path.read_text() == "one"
    write_text(path, "two", force=True)
    assert path.read_text() == "two"


def test_a_failure_leaves_nothing_behind(tmp_path):
    path = tmp_path / "deep" / "a.txt"

    def fail() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert list(path.parent.iterdir()) == []


def test_an_unwritable_place_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_only_known_tables(tmp_path):
    with pytest.raises(InputError, match=r"must end in .csv or .parquet"):
        write_table(Path(tmp_path / "a.xlsx"), {})
