"""A release on disk: never a mixture of old and new files, whatever happens between two steps."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hushmeter.releases.storage import find_earlier_releases

import hushmeter as hm
from hushmeter.errors import DataError, InputError

TRACE = hm.Trace([100.0, 2100.0, 90.0, 95.0], 6.0, "2024-01-15T00:00Z")
UNIT = hm.resolve_unit("change", interval_s=6.0, watts=100.0)


def make_release(epsilon, trace=TRACE):
    return hm.release(trace, hm.calibrate("laplace", epsilon, UNIT), UNIT)


def hash_file(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_no_mixture(folder):
    """Data with a receipt are the data of that receipt; at worst there is no receipt."""
    data, receipt = folder / "out.csv", folder / "out.csv.receipt.json"
    if receipt.exists():
        fields = json.loads(receipt.read_text())
        assert fields["file"]["sha256"] == hash_file(data)
        assert hm.verify(data).passed
        return fields["epsilon"]
    return None


def test_three_files_are_written(tmp_path):
    files = make_release(1.0).save(tmp_path / "deep" / "out.csv")
    assert [file.name for file in files] == [
        "out.csv",
        "out.csv.receipt.json",
        "out.csv.private.json",
    ]
    assert stat.S_IMODE(files[2].stat().st_mode) == 0o600
    receipt = json.loads(files[1].read_text())
    assert receipt["file"] == {"sha256": hash_file(files[0]), "bytes": files[0].stat().st_size}
    private = json.loads(files[2].read_text())
    assert private["receipt"] == receipt
    assert private["input"]["readings"] == 4
    assert len(list((tmp_path / "deep").iterdir())) == 3


def test_nothing_is_overwritten_without_force(tmp_path):
    for name in ("out.csv", "out.csv.receipt.json", "out.csv.private.json"):
        (tmp_path / name).write_text("precious")
        with pytest.raises(DataError, match="exists; add --force"):
            make_release(1.0).save(tmp_path / "out.csv")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match="must end in"):
        make_release(1.0).save(tmp_path / "out.txt")


def test_a_fault_at_any_step_leaves_no_mixture(tmp_path, monkeypatch):
    """Every call of the file system fails once, in turn, with "no space left on device"."""
    seen = set()
    for number in range(60):
        folder = tmp_path / str(number)
        make_release(0.1).save(folder / "out.csv")
        calls = 0

        def guard(name, real, number=number):
            def call(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls - 1 == number:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(*arguments, **options)

            return call

        message = ""
        with monkeypatch.context() as patch:
            for name in ("open", "fsync", "replace", "unlink"):
                patch.setattr(os, name, guard(name, getattr(os, name)))
            try:
                make_release(20.0).save(folder / "out.csv", force=True)
            except DataError as error:
                message = str(error)
        seen.add(check_no_mixture(folder))
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        if calls <= number:
            break
        # A folder that cannot be flushed is no error; every other fault is one sentence.
        assert message == "" or "cannot be written: No space left" in message
    assert {0.1, 20.0, None} <= {None if e is None else round(e, 6) for e in seen}
    assert number > 10


CHILD = """
    import os, signal, sys
    import hushmeter as hm

    trace = hm.Trace([100.0, 2100.0, 90.0, 95.0], 6.0, "2024-01-15T00:00Z")
    unit = hm.resolve_unit("change", interval_s=6.0, watts=100.0)
    left = int(sys.argv[2])

    def guard(real):
        def call(*arguments, **options):
            global left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*arguments, **options)
        return call

    done = hm.release(trace, hm.calibrate("laplace", 20.0, unit), unit)
    for name in ("open", "write", "fsync", "close", "replace", "unlink"):
        setattr(os, name, guard(getattr(os, name)))
    done.save(sys.argv[1], force=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_system_call_leaves_no_mixture(tmp_path):
    (tmp_path / "child.py").write_text(textwrap.dedent(CHILD))
    for number in range(60):
        folder = tmp_path / str(number)
        make_release(0.1).save(folder / "out.csv")
        done = subprocess.run(
            [sys.executable, tmp_path / "child.py", folder / "out.csv", str(number)],
            check=False,
            capture_output=True,
        )
        check_no_mixture(folder)
        if done.returncode == 0:
            assert check_no_mixture(folder) == pytest.approx(20.0)
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert number > 10


def test_earlier_releases_of_the_same_readings_are_found(tmp_path):
    make_release(0.5).save(tmp_path / "one.csv")
    other = make_release(1.0, TRACE.replace_readings([1.0, 2.0, 3.0, 4.0]))
    other.save(tmp_path / "other.csv")
    hm.release(TRACE, hm.calibrate("laplace", 1, UNIT), UNIT, rng=1).save(tmp_path / "seeded.csv")
    (tmp_path / "broken.private.json").write_text("{")
    found = find_earlier_releases(tmp_path, TRACE)
    assert [(earlier.path.name, earlier.epsilon, earlier.days) for earlier in found] == [
        ("one.csv.private.json", pytest.approx(0.5), 1)
    ]


@pytest.mark.parametrize("interval_s", [6.0, 900.0, 3600.0])
def test_an_export_that_overlaps_an_earlier_one_is_recognised(tmp_path, interval_s):
    """One more row, fewer rows, and a later month: the days that were released before are told."""
    per_day = round(86_400 / interval_s)
    rng = np.random.default_rng(2)
    whole = hm.Trace(rng.gamma(1, 300, 6 * per_day).round(), interval_s, "2024-01-15T00:00Z")
    unit = hm.resolve_unit("change", interval_s=interval_s, watts=100.0)
    released = whole[: 3 * per_day]
    hm.release(released, hm.calibrate("laplace", 1, unit), unit).save(tmp_path / "one.csv")
    parts = {
        "one row more": (whole[: 3 * per_day + 1], 3),
        "one row fewer": (whole[: 3 * per_day - 1], 3),
        "one row later": (whole[1 : 3 * per_day], 3),
        "the next days too": (whole[2 * per_day :], 1),
        "other days": (whole[3 * per_day :], 0),
        "another meter": (whole.replace_readings(rng.gamma(1, 300, len(whole)).round()), 0),
    }
    for name, (part, days) in parts.items():
        found = [earlier.days for earlier in find_earlier_releases(tmp_path, part)]
        assert found == ([days] if days else []), name
