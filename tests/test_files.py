from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from hushmeter.errors import DataError, InputError
from hushmeter.files import (
    atomic,
    publish_staged,
    replace_together,
    stage,
    write_table,
    write_text,
)


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


def test_a_device_or_a_pipe_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (Path("/dev/null"), tmp_path / "pipe"):
        with pytest.raises(DataError, match="is a device or a pipe"):
            write_text(place, "x", force=True)
    assert (tmp_path / "pipe").is_fifo()


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


GUARDED = ("open", "fsync", "replace", "unlink")


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    steps = []
    opened = {}

    def record(name, real):
        def call(*arguments, **options):
            result = real(*arguments, **options)
            if name == "open":
                opened[result] = Path(arguments[0])
            elif name == "fsync":
                steps.append(("fsync", "folder" if opened[arguments[0]].is_dir() else "file"))
            elif name == "replace":
                steps.append(("replace", Path(arguments[1]).name))
            return result

        return call

    writes = {
        "a": lambda: write_text(tmp_path / "a", "x"),
        "b": lambda: replace_together({tmp_path / "b": b"x"}),
        "c": lambda: replace_together({tmp_path / "c": {"one": b"x"}}),
    }
    for name, write in writes.items():
        steps.clear()
        with monkeypatch.context() as patch:
            for call in GUARDED:
                patch.setattr(os, call, record(call, getattr(os, call)))
            write()
        # What is written together is first in a folder of its own, and c is a folder itself.
        inside = {"a": 0, "b": 1, "c": 2}[name] * [("fsync", "folder")]
        assert steps == [("fsync", "file"), *inside, ("replace", name), ("fsync", "folder")]


def test_a_link_is_replaced_and_never_followed(tmp_path):
    precious = tmp_path / "elsewhere" / "precious"
    precious.mkdir(parents=True)
    (precious / "file.csv").write_text("precious")
    file, folder = precious / "file.csv", precious
    writes = [
        (file, lambda path: write_text(path, "new", force=True)),
        (file, lambda path: write_table(path, {"watts": [1.0]}, force=True)),
        (file, lambda path: replace_together({path: b"new"})),
        (file, lambda path: replace_together({path.with_suffix(".0"): b"new", path: b"new"})),
        (folder, lambda path: replace_together({path: {"file.csv": b"new"}})),
        (folder, lambda path: replace_together({path: b"new"})),
        (tmp_path / "nowhere", lambda path: write_text(path, "new", force=True)),
    ]
    for number, (target, write) in enumerate(writes):
        link = tmp_path / f"{number}.csv"
        link.symlink_to(target)
        with pytest.raises(DataError, match="exists; add --force"):
            write_text(link, "new")
        write(link)
        assert not link.is_symlink()
        assert link.exists()
        assert file.read_text() == "precious"
        assert [path.name for path in folder.iterdir()] == ["file.csv"]
    assert not (tmp_path / "nowhere").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_fault_at_any_step_leaves_no_mixture_of_a_folder_and_its_receipt(tmp_path, monkeypatch):
    """Every call of the file system fails once, in turn, with "no space left on device"."""
    seen = set()
    for number in range(60):
        place = tmp_path / str(number)
        receipt, folder = place / "out.private.json", place / "out"
        replace_together({receipt: b"old", folder: {"a": b"old", "b": b"old"}}, private=[receipt])
        assert mode_of(receipt) == 0o600
        calls = 0

        def fail(real, number=number):
            def call(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls - 1 == number:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(*arguments, **options)

            return call

        message = ""
        with monkeypatch.context() as patch:
            for name in GUARDED:
                patch.setattr(os, name, fail(getattr(os, name)))
            try:
                replace_together({receipt: b"new", folder: {"a": b"new", "b": b"new"}})
            except DataError as error:
                message = str(error)
        found = None
        if folder.exists():
            (found,) = {path.read_bytes() for path in (receipt, folder / "a", folder / "b")}
        seen.add(found)
        if calls <= number:
            assert not [path for path in place.iterdir() if path.name.startswith(".")]
            break
        assert message == "" or "cannot be written: No space left" in message
    assert seen == {b"old", b"new", None}
    assert number > 10


def test_more_than_ten_files_are_published_in_their_order(tmp_path, monkeypatch):
    folder, names = tmp_path / ".staged", [f"{n}.csv" for n in range(12)]
    stage(folder, {tmp_path / name: name.encode() for name in names})
    published, rename = [], Path.replace

    def note(path, target):
        published.append(Path(target).name)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", note)
    publish_staged(folder, tmp_path)
    assert published == names
    assert [(tmp_path / name).read_text() for name in names] == names


def test_a_staged_file_without_its_place_in_the_order_is_refused(tmp_path):
    folder, out = tmp_path / ".staged", tmp_path / "out.csv"
    out.write_text("old")
    stage(folder, {out: b"new"})
    (folder / "1-other.csv").write_text("new")
    with pytest.raises(DataError, match=r"1-other.csv has no number of two digits.*nothing was"):
        publish_staged(folder, tmp_path)
    assert out.read_text() == "old"
    with pytest.raises(DataError, match="100-100"):
        stage(tmp_path / ".many", {tmp_path / f"{n}": b"" for n in range(101)})


def test_a_staged_file_replaces_no_folder(tmp_path):
    stage(tmp_path / "new", {tmp_path / "out.csv": b"1"})
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(DataError, match="is a folder, which a file would replace; rename it"):
        publish_staged(tmp_path / "new", tmp_path)
    assert (tmp_path / "out.csv").is_dir()


def test_one_of_several_writers_without_force_wins(tmp_path):
    """All of them have looked and found nothing; the first one that publishes has the name."""
    path, receipt = tmp_path / "out.csv", tmp_path / "out.csv.receipt.json"
    folders = [tmp_path / f".{n}" for n in range(5)]
    for n, folder in enumerate(folders):
        stage(folder, {path: f"{n}".encode(), receipt: f"{n}".encode()})
    publish_staged(folders[3], tmp_path, force=False)
    for n in (0, 1, 2, 4):
        with pytest.raises(DataError, match="exists; add --force"):
            publish_staged(folders[n], tmp_path, force=False)
    assert (path.read_text(), receipt.read_text()) == ("3", "3")
    # The winner may repeat it, for example after a crash.
    publish_staged(folders[3], tmp_path, force=False)
    assert (path.read_text(), receipt.read_text()) == ("3", "3")
