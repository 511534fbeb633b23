"""A power cut: what was reported as written is on the disk, and nothing is half of two versions.

A small ext4 file system lies in a file behind a loop device. A copy of this file, made while the
file system is mounted, is the disk as a power cut at that moment would leave it: it lacks what the
system has not written yet. The copy is mounted, which repairs it as the next start of a machine
does, and looked at.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import hushmeter as hm
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.apps.ledger import open_ledger
from hushmeter.apps.ledger.payment import finish_paid, save_paid
from hushmeter.apps.live.addresses import FolderSink
from hushmeter.apps.live.state import State, read_state
from hushmeter.releases.restore import restore_file
from tests.apps.fleet.cases import new_ledger, release, release_sums, small_fleet
from tests.apps.ledger.test_payment import hourly, promise_of
from tests.apps.live.streams import make_calendar_terms, make_trace, run_table, write_table
from tests.releases.test_files import check_no_mixture

SIZE = 48 << 20
# The system writes nothing by itself during a test, and a rename writes no content of its file.
MOUNTED = "loop,noauto_da_alloc,commit=600"
CUTS = 12


class Disk:
    """A mounted file system, and what a power cut would leave of it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._mounted = folder, []
        self._image = folder / "disk.ext4"
        with self._image.open("wb") as file:
            file.truncate(SIZE)
        made = subprocess.run(
            ["mkfs.ext4", "-q", self._image],
            check=False,
            capture_output=True,
            text=True,
        )
        if made.returncode:
            pytest.skip(f"no file system can be made here: {made.stderr.strip()}")
        self.path = self._mount(self._image)

    def _mount(self, image: Path) -> Path:
        place = image.with_suffix(".mounted")
        place.mkdir()
        done = subprocess.run(
            ["mount", "-o", MOUNTED, image, place], check=False, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"this machine mounts no loop device: {done.stderr.strip()}")
        self._mounted.append(place)
        return place

    def after_a_cut(self) -> Path:
        """The files that are there after a power cut at this moment."""
        copy = self._folder / f"cut-{len(self._mounted)}.ext4"
        subprocess.run(["cp", "--sparse=always", self._image, copy], check=True)
        return self._mount(copy)

    def close(self) -> None:
        for place in reversed(self._mounted):
            subprocess.run(["umount", place], check=True)


@pytest.fixture
def disk(tmp_path):
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    made = None
    try:
        made = Disk(tmp_path)
        yield made
    finally:
        if made is not None:
            made.close()


def test_what_was_not_flushed_is_lost(disk):
    """The cut is real: without a flush, a file that was just written is not there."""
    (disk.path / "plain.txt").write_text("x" * 10_000)
    new, old = disk.path / "new", disk.path / "renamed.txt"
    new.write_text("y" * 10_000)
    new.rename(old)
    there = disk.after_a_cut()
    assert [path.name for path in there.iterdir()] == ["lost+found"]


def save_file(disk, _):
    trace = hourly()
    promise_of(trace).release(trace).save(disk / "out.csv")
    return lambda there: hm.verify(there / "out.csv").passed


def save_views(disk, _):
    trace = hourly()
    promise_of(trace, tables=("views",)).release(trace).save(disk / "shared" / "views")
    return lambda there: hm.verify(there / "shared" / "views").passed


def save_restored(disk, scratch):
    trace = hourly()
    promise_of(trace).release(trace).save(scratch / "out.csv")
    files = restore_file(scratch / "out.csv").save(disk / "restored.csv")
    contents = {path.name: path.read_bytes() for path in files}
    return lambda there: {name: (there / name).read_bytes() for name in contents} == contents


def save_with_a_payment(disk, _):
    trace, url = hourly(), new_ledger(disk)
    save_paid(url, promise_of(trace).release(trace), disk / "out.csv", meter="m")

    def check(there):
        with open_ledger(f"sqlite:///{there}/ledger.db") as ledger:
            days = len(ledger.history("m"))
        return days == 3 and hm.verify(there / "out.csv").passed

    return check


def release_series(disk, scratch):
    url = new_ledger(disk)
    done = release(small_fleet(scratch), disk / "fleet", url)

    def check(there):
        with open_ledger(f"sqlite:///{there}/ledger.db") as ledger:
            ledger.check_head(done.manifest["ledger_head"])
            return ledger.verify() == [] and hm.verify(there / "fleet").passed

    return check


def release_tables(disk, scratch):
    url, terms = new_ledger(disk), SumTerms("1", (0.0, 12_000.0), ("group",))
    release_sums(small_fleet(scratch), disk / "sums", terms, ledger=url)
    return lambda there: hm.verify(there / "sums").passed


def publish_a_stream(disk, scratch):
    terms = make_calendar_terms()
    table = write_table(scratch / "meter.csv", make_trace(2, interval_s=900.0))
    run_table(table, terms, disk / "s.db", [lambda state: FolderSink(disk / "days", terms, state)])
    published = {path.name: path.read_bytes() for path in (disk / "days").glob("*.csv")}
    assert len(published) == 2

    def check(there):
        found = {path.name: path.read_bytes() for path in (there / "days").glob("*.csv")}
        # The state opens again, so it knows every window that was published.
        State(there / "s.db", terms.describe()).close()
        return found == published and len(read_state(there / "s.db").windows) == 48

    return check


WRITERS = (
    save_file,
    save_views,
    save_restored,
    save_with_a_payment,
    release_series,
    release_tables,
    publish_a_stream,
)


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_reported_as_written_is_there(disk, tmp_path, write):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    check = write(disk.path, scratch)
    assert check(disk.after_a_cut())


def test_a_cut_after_the_payment_loses_nothing(disk, monkeypatch):
    """The release is sealed and paid for when the power fails; the next command publishes it."""
    trace, url, output = hourly(), new_ledger(disk.path), disk.path / "out.csv"
    promise, cuts = promise_of(trace), []
    monkeypatch.setattr(
        "hushmeter.apps.ledger.payment.publish_staged",
        lambda *_, **__: cuts.append(disk.after_a_cut()),
    )
    with pytest.raises(FileNotFoundError):
        save_paid(url, promise.release(trace), output, meter="m")
    monkeypatch.undo()
    (there,) = cuts
    url = f"sqlite:///{there}/ledger.db"
    account = {"meter": "m", "stream": "load", "force": False}
    _, payment = finish_paid(url, promise, trace, there / "out.csv", **account)
    assert payment.days == 3
    assert hm.verify(there / "out.csv").passed
    with open_ledger(url) as ledger:
        assert len(ledger.history("m")) == 3


REPLACE = """
    import sys
    import hushmeter as hm

    trace = hm.Trace([100.0, 2100.0, 90.0, 95.0], 6.0, "2024-01-15T00:00Z")
    unit = hm.resolve_unit("change", interval_s=6.0, size=100.0)
    made = [hm.release(trace, hm.calibrate("laplace", e, unit), unit) for e in (0.1, 20.0)]
    while True:
        for one in made:
            one.save(sys.argv[1], force=True)
            print("saved", flush=True)
"""


def test_a_cut_at_any_moment_leaves_no_mixture(disk, tmp_path):
    """A release is replaced again and again; the power fails at random moments."""
    (tmp_path / "replace.py").write_text(textwrap.dedent(REPLACE))
    chance, seen = random.Random(3), []
    with subprocess.Popen(
        [sys.executable, tmp_path / "replace.py", disk.path / "out.csv"], stdout=subprocess.PIPE
    ) as process:
        try:
            for _ in range(CUTS):
                process.stdout.readline()
                time.sleep(chance.uniform(0, 0.05))
                # A disk that stands still while it is copied.
                process.send_signal(signal.SIGSTOP)
                seen.append(check_no_mixture(disk.after_a_cut()))
                process.send_signal(signal.SIGCONT)
        finally:
            process.kill()
    assert any(epsilon is not None for epsilon in seen), json.dumps(seen)
