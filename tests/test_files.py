from __future__ import annotations

import os
import stat
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


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no rights of this kind")
def test_a_file_belongs_to_its_owner_alone_from_its_first_moment(tmp_path, no_umask):
    path = tmp_path / "deep" / "deeper" / "a.csv"
    with atomic(path) as temporary:
        assert mode_of(temporary) == 0o600
        temporary.write_text("x")
    write_table(path.with_suffix(".parquet"), {"watts": [1.0]})
    for folder in (path.parent, path.parent.parent):
        assert mode_of(folder) == 0o700
    assert {mode_of(one) for one in path.parent.iterdir()} == {0o600}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no rights of this kind")
def test_a_private_file_does_not_take_over_the_rights_of_the_one_before(tmp_path):
    path = tmp_path / "home.toml"
    path.write_text("old")
    path.chmod(0o666)
    write_text(path, "new", force=True)
    assert mode_of(path) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no rights of this kind")
def test_what_is_written_for_others_follows_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "out" / "a.prom", "x", public=True)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "out") == 0o755
    assert mode_of(tmp_path / "out" / "a.prom") == 0o644
