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
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.files import receipt_path
from hushmeter.releases.files import is_file_form, is_release
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.receipt import SCHEMA
from hushmeter.releases.verify import make_signing_key

TRACE = hm.Trace([100.0, 2100.0, 90.0, 95.0], 6.0, "2024-01-15T00:00Z")
UNIT = hm.resolve_unit("change", interval_s=6.0, size=100.0)


def make_release(epsilon, trace=TRACE):
    return hm.release(trace, hm.calibrate("laplace", epsilon, UNIT), UNIT)


def hash_file(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_no_mixture(folder):
    """Data with a receipt are the data of that receipt; at worst there is no receipt."""
    data, receipt = folder / "out.csv", folder / "out.csv.receipt.json"
    if receipt.exists():
        fields = json.loads(receipt.read_text())
        assert fields["files"]["out.csv"]["sha256"] == hash_file(data)
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
    assert receipt["files"] == {
        "out.csv": {"sha256": hash_file(files[0]), "bytes": files[0].stat().st_size}
    }
    private = json.loads(files[2].read_text())
    assert private["receipt"] == receipt
    assert private["input"]["readings"] == 4
    assert len(list((tmp_path / "deep").iterdir())) == 3


@pytest.mark.parametrize("name", ["out.csv", "out.h5", "out.7z", "out.z"])
def test_a_name_with_an_ending_is_a_file(name):
    assert is_file_form(Path(name))


@pytest.mark.parametrize("name", ["out", "out.2024", "out.5", "home 1. floor", "out."])
def test_a_name_without_an_ending_is_a_folder(name):
    assert not is_file_form(Path(name))


def test_nothing_is_overwritten_without_force(tmp_path):
    for name in ("out.csv", "out.csv.receipt.json", "out.csv.private.json"):
        (tmp_path / name).write_text("precious")
        with pytest.raises(DataError, match="exists; add --force"):
            make_release(1.0).save(tmp_path / "out.csv")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]
        (tmp_path / name).unlink()


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
    unit = hm.resolve_unit("change", interval_s=6.0, size=100.0)
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


# Folders of several tables ----------------------------------------------------------------------

HOME = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
PEAK = "peak = weekdays 16:00-21:00"
KINDS = {
    "views": {"tables": VIEWS},
    "bands": {"tables": (*VIEWS, "typical-week", "year", PEAK, "evening = 18:00-23:00")},
    "no cells": {"tables": ("days", "months", PEAK)},
    "cells": {"tables": ("hours",), "span": "run", "mechanism": "laplace"},
}


def make_tables(zone="Europe/Berlin", days=33, **more):
    rng = np.random.default_rng(0)
    steps = np.delete(np.arange(24 * days), slice(100, 105))
    start = "2024-03-09T23:00Z"
    trace = hm.Trace(rng.gamma(1.0, 300.0, steps.size), 3600.0, start, steps=steps)
    return hm.release_views(trace, epsilon=1.9, home=HOME, zone=zone, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_read_as_it_was_written(kind, tmp_path):
    done = make_tables(**KINDS[kind])
    folder = tmp_path / "out"
    files = done.save(folder)
    assert {path.name for path in files} == {
        *(path.name for path in folder.iterdir()), "out.private.json",
    }  # fmt: skip
    found = hm.read_release(folder)
    for one, other in zip(found.sums, done.sums, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found.estimate, done.estimate)
    assert found.view_names == done.view_names
    for one, other in zip(found.views, done.views, strict=True):
        np.testing.assert_allclose(one.errors, other.errors)
        assert one.labels.keys() == other.labels.keys()
    assert found.promise.epsilon == pytest.approx(done.promise.epsilon)
    assert found.private is None
    assert str(found).startswith("release: ")
    assert hm.verify(folder).problems == ()


def test_a_folder_with_incomplete_hours_is_read_as_it_was_written(tmp_path):
    steps = np.delete(np.arange(4 * 1440), [7, 8, 3000])
    trace = hm.Trace(np.full(steps.size, 300.0), 60.0, "2024-03-01T00:00Z", steps=steps)
    done = hm.release_views(trace, epsilon=1, home=HOME)
    done.save(tmp_path / "out")
    assert hm.verify(tmp_path / "out").problems == ()
    np.testing.assert_allclose(hm.read_release(tmp_path / "out").estimate, done.estimate)
    plain = hm.release_views(trace, epsilon=1, home=HOME, tables=("hours",), every="1h")
    plain.save(tmp_path / "plain")
    assert hm.verify(tmp_path / "plain").problems == ()


@pytest.fixture
def saved(tmp_path):
    done = make_tables()
    done.save(tmp_path / "out")
    return done, tmp_path / "out"


def test_the_private_part_lies_beside_the_folder(saved):
    _, folder = saved
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "hours.csv", "days.csv", "typical-day.csv", "months.csv", "register.csv", "receipt.json",
    }  # fmt: skip
    private = folder.with_name("out.private.json")
    assert private.stat().st_mode & 0o077 == 0
    assert json.loads(private.read_text())["home"]["appliance"][0]["name"] == "kettle"
    assert "kettle" not in "".join(path.read_text() for path in folder.iterdir())


def test_an_analyst_reads_the_files_with_pandas(saved):
    done, folder = saved
    days = pd.read_csv(folder / "days.csv", parse_dates=["day"])
    np.testing.assert_allclose(days.kwh, done.view("days").values, atol=1e-6)
    profile = pd.read_csv(folder / "typical-day.csv")
    assert profile.groupby("month").size().to_dict() == {"2024-03": 24, "2024-04": 24}
    assert (days.kwh_standard_error > 0).all()


def test_a_table_that_is_not_published_is_left_out(tmp_path):
    done = make_tables(span="day", days=30)
    assert "days" not in [entry.name for entry in done.promise.tables]
    done.save(tmp_path / "out")
    assert "noisy_steps" not in (tmp_path / "out" / "days.csv").read_text()
    assert "noisy_steps" in (tmp_path / "out" / "typical-day.csv").read_text()
    np.testing.assert_allclose(hm.read_release(tmp_path / "out").estimate, done.estimate)
    assert hm.verify(tmp_path / "out").passed


def test_changed_files_are_found(saved):
    _, folder = saved
    path = folder / "days.csv"
    path.write_text(path.read_text().replace("2024-03-12", "2024-03-13"))
    assert any("SHA-256 differs" in problem for problem in hm.verify(folder).problems)
    (folder / "notes.txt").write_text("x")
    assert not hm.verify(folder).passed


def test_signatures(tmp_path):
    private, public = make_signing_key(tmp_path / "publisher")
    make_tables(days=25).save(tmp_path / "out", signing_key=private)
    assert "signed with the given key" in hm.verify(tmp_path / "out", key=public).checks[-1]
    path = tmp_path / "out" / "receipt.json"
    path.write_text(path.read_text().replace(f'"version": "{hm.__version__}"', '"version": "9"'))
    assert not hm.verify(tmp_path / "out", key=public).passed


def test_a_folder_is_not_overwritten(saved, tmp_path):
    done, folder = saved
    with pytest.raises(DataError, match="exists; add --force"):
        done.save(folder)
    done.save(folder, force=True)
    assert hm.verify(folder).passed
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="is not a release; choose another name"):
        done.save(tmp_path / "mine", force=True)
    with pytest.raises(DataError, match="cannot be read"):
        hm.read_release(tmp_path / "mine")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes\.txt is no file of the release; move it elsewhere"):
        done.save(folder, force=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["out.csv", "out.csv.receipt.json", "out.csv.private.json"])
def test_force_never_removes_a_folder_with_the_name_of_a_file(tmp_path, name):
    make_release(10.0).save(tmp_path / "first.csv")
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("first", "out")))
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    (tmp_path / name / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is a folder, not a file of a release"):
        make_release(20.0).save(tmp_path / "out.csv", force=True)
    assert (tmp_path / name / "notes.txt").read_text() == "mine"


def test_force_replaces_no_file_that_is_not_a_release(tmp_path):
    (tmp_path / "out.csv").write_text("my own table")
    with pytest.raises(DataError, match="exists and is not a release; choose another name"):
        make_release(10.0).save(tmp_path / "out.csv", force=True)
    assert (tmp_path / "out.csv").read_text() == "my own table"


def test_a_view_that_is_a_link_or_elsewhere_is_no_view(saved, tmp_path):
    _, folder = saved
    (folder / "days.csv").rename(tmp_path / "days.csv")
    (folder / "days.csv").symlink_to(tmp_path / "days.csv")
    assert not hm.verify(folder).passed
    with pytest.raises(DataError, match=r"has no file 'days\.csv' of its own"):
        hm.read_release(folder)
    receipt = folder / "receipt.json"
    receipt.write_text(receipt.read_text().replace('"days.csv"', '"../days.csv"'))
    with pytest.raises(DataError, match=r"has no file '\.\./days\.csv' of its own"):
        hm.read_release(folder)


def test_several_tables_are_no_single_file(saved, tmp_path):
    done, _ = saved
    with pytest.raises(InputError, match=r"are written as a folder"):
        done.save(tmp_path / "out.csv")


def test_cells_alone_may_be_a_folder_too(tmp_path):
    done = make_release(1.0)
    done.save(tmp_path / "out")
    assert hm.verify(tmp_path / "out").problems == ()
    back = hm.read_release(tmp_path / "out")
    np.testing.assert_array_equal(back.trace.readings, done.trace.readings)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xml"])
def test_a_file_is_read_back(tmp_path, suffix):
    done = make_release(1.0)
    done.save(tmp_path / f"out.{suffix}")
    back = hm.read_release(tmp_path / f"out.{suffix}")
    np.testing.assert_array_equal(back.trace.readings, done.trace.readings)
    np.testing.assert_array_equal(back.trace.times, done.trace.times)
    assert back.promise.epsilon == done.promise.epsilon
    assert back.promise.noise.std == done.promise.noise.std
    assert back.private is None
    assert is_release(tmp_path / f"out.{suffix}")
    assert not is_release(tmp_path)


@pytest.mark.parametrize("name", ["out.csv", "out"])
def test_a_release_of_another_version_is_still_a_release(tmp_path, name):
    make_release(1.0).save(tmp_path / name)
    receipt = receipt_path(tmp_path / name)
    receipt.write_text(receipt.read_text().replace(SCHEMA, "hushmeter-receipt-99"))
    assert is_release(tmp_path / name)
    receipt.write_text(receipt.read_text().replace("hushmeter-receipt-99", "another-schema-1"))
    assert not is_release(tmp_path / name)


def test_exact_days_are_a_file_that_rounds_nothing(tmp_path):
    home = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], 20.0)
    request = hm.Request(epsilon=1, home=home, span="when", every="1h", mechanism="gaussian")
    trace = hm.Trace(np.zeros(48), 3600.0, metering=hm.Metering(resolution_w=1.0))
    done = request.resolve(hm.metered(trace)).release(trace)
    with pytest.raises(InputError, match="the span 'when' is written as a file"):
        done.save(tmp_path / "out")
    with pytest.raises(InputError, match="keeps the sum of every day"):
        done.save(tmp_path / "out.xml")
    assert not list(tmp_path.iterdir())
