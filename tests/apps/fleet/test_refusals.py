"""What is refused costs nothing: every case is seen in the ledger and on the disk."""

from __future__ import annotations

import os
import resource
import subprocess
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from tests.apps.fleet.cases import (
    KEY,
    TERMS,
    digests,
    new_ledger,
    readings,
    release,
    small_fleet,
    spends,
    write,
)

from hushmeter.apps.fleet import SumTerms
from hushmeter.apps.fleet.folders import PrivateFolder
from hushmeter.apps.fleet.release import private_list
from hushmeter.apps.fleet.released_folder import read_manifest
from hushmeter.apps.ledger import open_ledger
from hushmeter.errors import DataError, InputError

SECRET = 4321.0
"""A reading that must not appear in any report."""


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def spoil(columns, name, row, value):
    columns[name][row] = value
    return columns


def twice(columns):
    return {name: [*values, values[30]] for name, values in columns.items()}


FAULTS = {
    "twice": (twice, 96, "has this time twice"),
    "interval": (lambda c: spoil(c, "interval_s", 30, 900), 30, "is not the 3600 s"),
    "off the grid": (
        lambda c: spoil(c, "time", 30, c["time"][30].replace(minute=7)),
        30,
        "not a whole number of intervals",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_block_is_left_out_and_costs_nothing(tmp_path, ledger, fault):
    """Row 30 is meter a at 06:00 of the second day."""
    change, row, sentence = FAULTS[fault]
    columns = spoil(readings(), "value", 31, SECRET)
    write(tmp_path / "in/x.parquet", change(columns))
    done = release(tmp_path / "in", tmp_path / "out", ledger)
    (problem,) = done.reports[0].problems
    assert (problem.meter, problem.period, problem.row) == ("a", "2024-03-02", row)
    assert problem.time.startswith("2024-03-02T06:0")
    assert sentence in problem.sentence
    wanted = {("a", "2024-03-01"), ("b", "2024-03-01"), ("b", "2024-03-02")}
    assert {(meter, period) for meter, period, _ in spends(ledger)} == wanted
    out = pq.read_table(tmp_path / "out/x.parquet")
    assert out.num_rows == 72
    assert not done.complete
    report = private_list(tmp_path / "out").read_text()
    assert report.splitlines()[1].startswith(f"x.parquet,a,2024-03-02,{row},2024-03-02T06:0")
    assert str(int(SECRET)) not in report
    assert read_manifest(tmp_path / "out").facts["quarantine"]["blocks"] == 1


def test_over_the_cap(tmp_path, ledger):
    write(tmp_path / "in/x.parquet", readings(days=4))
    with open_ledger(ledger) as opened:
        opened.set_cap(total="26")
        opened.set_cap(window=(2, "13"), meter="b")
    done = release(tmp_path / "in", tmp_path / "out", ledger)
    kept = {("a", "2024-03-01"), ("a", "2024-03-02"), ("b", "2024-03-01"), ("b", "2024-03-03")}
    assert {(meter, period) for meter, period, _ in spends(ledger)} == kept
    sentences = {p.sentence for p in done.reports[0].problems}
    assert any("days of the customer so far cost ε = 26 of 26" in s for s in sentences)
    assert any("over the cap on 2 periods in a row" in s for s in sentences)
    assert len(done.manifest["quarantine"]["reasons"]) == 2
    with open_ledger(ledger) as opened:
        assert opened.verify() == []


def naive(path):
    write(path, readings(), zone=None)


def no_unit(path):
    columns = readings()
    del columns["unit"]
    write(path, columns)


def torn(path):
    write(path, readings())
    path.write_bytes(path.read_bytes()[:-200])


def rotten(path):
    """One bit of one page has changed; the footer is whole."""
    write(path, readings(days=60), write_page_checksum=True)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)


def headless(path):
    write(path, readings())
    raw = bytearray(path.read_bytes())
    raw[4:40] = bytes(36)
    path.write_bytes(raw)


def no_parquet(path):
    path.write_text("meter,time\n")


@pytest.mark.parametrize(
    ("spoilt", "sentence"),
    [
        (naive, "times without a zone"),
        (no_unit, "has no column 'unit'"),
        (torn, "the file cannot be read"),
        (rotten, "the file cannot be read"),
        (headless, "the file cannot be read"),
        (no_parquet, "the file cannot be read"),
    ],
)
def test_a_bad_file_is_left_out_and_costs_nothing(tmp_path, ledger, spoilt, sentence):
    write(tmp_path / "in/good.parquet", readings(meters=("z",)))
    spoilt(tmp_path / "in/bad.parquet")
    done = release(tmp_path / "in", tmp_path / "out", ledger)
    (problem,) = done.reports[0].problems
    assert sentence in problem.sentence
    assert "\n" not in problem.sentence
    assert list(digests(tmp_path / "out")) == ["good.parquet"]
    assert {meter for meter, *_ in spends(ledger)} == {"z"}
    assert list(read_manifest(tmp_path / "out").sha256) == ["good.parquet"]
    assert done.manifest["quarantine"] == {
        "files": 1,
        "blocks": 0,
        "reasons": {"the file cannot be used": 1},
    }


def test_an_empty_file_is_nothing(tmp_path, ledger):
    write(tmp_path / "in/empty.parquet", {name: [] for name in readings()})
    done = release(tmp_path / "in", tmp_path / "out", ledger, interval_s=3600)
    assert done.complete
    assert done.reports[0].state == "empty"
    assert spends(ledger) == []
    assert digests(tmp_path / "out") == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "0"}, "epsilon must be positive"),
        ({"epsilon": "nan"}, "epsilon must be positive"),
        ({"epsilon": "inf"}, "epsilon must be positive"),
        ({"epsilon": "21"}, "epsilon must be at most max_epsilon = 20"),
        ({"clamp": (5.0, 1.0)}, "low < high"),
        ({"clamp": (0.0, float("nan"))}, "finite with low < high"),
        ({"clamp": None}, "the readings of a fleet need a clamp"),
        ({"every": "1h"}, "the readings of many homes: leave out every"),
        ({"tables": ("days",)}, "a fleet releases series"),
        ({"protect": "change", "watts": -3.0}, "watts must be positive"),
        ({"mechanism": "uniform"}, "mechanism must be one of"),
        ({"grid": "0"}, "grid must be positive"),
    ],
)
def test_terms_that_cannot_be_kept(tmp_path, ledger, change, message):
    fleet = small_fleet(tmp_path)
    with pytest.raises(InputError, match=message):
        release(fleet, tmp_path / "out", ledger, replace(TERMS, **change))
    untouched(tmp_path, ledger)


def test_wrong_words_are_refused():
    for change in ({"span": "week"}, {"period": "year"}, {"interval_s": 7}):
        with pytest.raises(InputError, match="must"):
            replace(TERMS, **change)


def untouched(folder, ledger):
    assert spends(ledger) == []
    assert not (folder / "out").exists()


def test_folders_that_will_not_do(tmp_path, ledger):
    fleet = small_fleet(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "precious").write_text("x")
    file = tmp_path / "file"
    file.write_text("x")
    for source, output, kind, message in (
        (empty, "out", DataError, "holds no .parquet, .csv or .csv.gz files"),
        (file, "out", DataError, "is not a folder"),
        (fleet, "in/out", InputError, "must not contain one another"),
        (fleet, ".", InputError, "must not contain one another"),
        (fleet, "taken", DataError, "is not empty"),
        (fleet, "file", DataError, "is not a folder"),
        (fleet, "file/out", DataError, "cannot be written: Not a directory"),
    ):
        with pytest.raises(kind, match=message):
            release(source, tmp_path / output, ledger)
    untouched(tmp_path, ledger)
    assert sorted(path.name for path in taken.iterdir()) == ["precious"]


@pytest.mark.parametrize(
    ("name", "stream", "message"),
    [
        ("a\nb.parquet", "load", "'a.*b.parquet', whose name is too long or cannot be"),
        ("b.parquet", "", "stream must be printable text"),
    ],
)
def test_names_that_the_ledger_cannot_keep(tmp_path, ledger, name, stream, message):
    fleet = small_fleet(tmp_path)
    write(fleet / name, readings())
    with pytest.raises((DataError, InputError), match=message):
        release(fleet, tmp_path / "out", ledger, stream=stream)
    untouched(tmp_path, ledger)


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"schema": "hushmeter-fleet-2"}', '{"schema": "hushmeter-fleet-2", "terms": 5}'],
)
@pytest.mark.parametrize("interval_s", [None, 3600])
def test_a_damaged_description_of_an_unfinished_release(tmp_path, ledger, content, interval_s):
    folder = PrivateFolder(tmp_path / "out")
    folder.path.mkdir(parents=True)
    folder.key_file.write_bytes(KEY)
    folder.begun_file.write_text(content)
    with pytest.raises(DataError, match=r"release\.json cannot be read: .*another folder with"):
        release(small_fleet(tmp_path), tmp_path / "out", ledger, resume=True, interval_s=interval_s)
    assert spends(ledger) == []


def test_a_household_is_protected_in_a_period_that_can_be_computed():
    """A manifest of a stranger asked for sums of 7·10⁹ readings, which need 54 GB."""
    for days, interval_s in ((("1970-01-02", "2199-12-30"), 1), (("2000-01-01", "2019-12-30"), 6)):
        with pytest.raises(InputError, match="too many readings"):
            SumTerms(
                "1", (0, 5000.0), ("group",), unit_of="household", days=days, interval_s=interval_s
            )


def test_a_ledger_must_be_there(tmp_path, ledger):
    fleet = small_fleet(tmp_path)
    with pytest.raises(DataError, match="there is no ledger at"):
        release(fleet, tmp_path / "out", f"sqlite:///{tmp_path}/none.db")
    untouched(tmp_path, ledger)


def test_a_ledger_by_month_takes_no_days(tmp_path, ledger):
    fleet = small_fleet(tmp_path)
    release(fleet, tmp_path / "first", ledger, replace(TERMS, period="month"))
    with pytest.raises(DataError, match="counts by month"):
        release(fleet, tmp_path / "out", ledger, stream="other")
    assert len(spends(ledger)) == 12
    assert digests(tmp_path / "out") == {}


def in_a_child(work) -> int:
    """Exit code of `work` in a process whose limits and rights die with it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            # A measurement of coverage may still have to be written.
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_an_output_that_cannot_be_written(tmp_path, ledger):
    source = small_fleet(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    # The folder that xdist puts in between counts too.
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    for path in tmp_path.glob("ledger.db*"):
        path.chmod(0o666)
    tmp_path.chmod(0o777)

    def work():
        if os.geteuid() == 0:
            os.setgid(65_534)
            os.setuid(65_534)
        for output in (locked, locked / "out"):
            try:
                release(source, output, ledger)
            except DataError as error:
                if "cannot be written: Permission denied" not in str(error):
                    return 3
            else:
                return 2
        return 0

    assert in_a_child(work) == 0
    assert spends(ledger) == []
    assert list(locked.iterdir()) == []


def test_a_full_disk_is_known_before_anything_is_spent(tmp_path, ledger):
    """Room for every file is reserved before its spend: here no file may grow beyond 64 KiB."""
    source = small_fleet(tmp_path)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
        try:
            release(source, tmp_path / "out", ledger)
        except DataError as error:
            return 0 if "cannot be written: File too large" in str(error) else 3
        return 2

    assert in_a_child(work) == 0
    assert spends(ledger) == []
    assert digests(tmp_path / "out") == {}
    # With room again, the same release goes on.
    assert release(source, tmp_path / "out", ledger, resume=True).complete


@pytest.fixture
def mounts():
    made = []
    yield made
    for path in made:
        subprocess.run(["umount", str(path)], check=True)


def test_a_disk_without_room_for_the_whole_release(tmp_path, ledger, mounts):
    tiny = mount_tmpfs(tmp_path / "tiny", "64k", mounts)
    source = small_fleet(tmp_path, meters=800)
    with pytest.raises(DataError, match=r"has room for 0.0\d+ MB and the release takes about 0.1"):
        release(source, tiny / "out", ledger)
    assert spends(ledger) == []
    assert list(tiny.iterdir()) == []


def test_a_disk_that_fills_up_while_writing(tmp_path, ledger, mounts):
    """A file system of 1.5 MB: the whole is estimated to fit, a file's reserve does not."""
    tiny = mount_tmpfs(tmp_path / "tiny", "1500k", mounts)
    source = small_fleet(tmp_path)
    ballast = tiny / "ballast"
    ballast.write_bytes(bytes(900_000))
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        release(source, tiny / "out", ledger)
    assert spends(ledger) == []
    ballast.unlink()
    assert release(source, tiny / "out", ledger, resume=True).complete


def test_a_disk_without_room_for_the_manifest(tmp_path, ledger):
    """All files are out; the sentence is one, and with room again the release is closed."""
    source = small_fleet(tmp_path)

    def work():
        def full(_, done, total):
            if done == total:
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

        try:
            release(source, tmp_path / "out", ledger, report=full)
        except DataError as error:
            return 0 if "manifest.json cannot be written: File too large" in str(error) else 3
        return 2

    assert in_a_child(work) == 0
    assert not (tmp_path / "out/manifest.json").exists()
    assert release(source, tmp_path / "out", ledger, resume=True).complete


def mount_tmpfs(path, size, mounts):
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"this test mounts a small file system: {done.stderr.strip()}")
    mounts.append(path)
    return path
