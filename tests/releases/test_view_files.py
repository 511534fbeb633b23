"""Files of a calendar release: they can be read back, and every change of them is found."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.releases.signing import make_signing_key

HOME = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)


def make_release(zone="UTC", days=33, **more):
    rng = np.random.default_rng(0)
    steps = np.delete(np.arange(24 * days), slice(100, 105))
    start = "2024-03-09T23:00Z"
    trace = hm.Trace(rng.gamma(1.0, 300.0, steps.size), 3600.0, start, steps=steps)
    return hm.release_views(trace, epsilon=1.9, home=HOME, zone=zone, **more)


@pytest.fixture
def saved(tmp_path):
    done = make_release("Europe/Berlin")
    done.save(tmp_path / "out")
    return done, tmp_path / "out"


def test_what_is_written_is_read(saved):
    done, folder = saved
    found = hm.read_views(folder)
    for one, other in zip(found.tables, done.tables, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found.estimate, done.estimate)
    for one, other in zip(found.views, done.views, strict=True):
        np.testing.assert_allclose(one.errors, other.errors)
    assert found.calendar.months == done.calendar.months == ("2024-03", "2024-04")
    assert found.private is None
    assert str(found).startswith("release: ")
    with pytest.raises(InputError, match="has no private part"):
        found.save(folder.with_name("again"))
    assert hm.verify(folder).passed


def test_the_private_part_lies_beside_the_folder(saved):
    _, folder = saved
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "hours.csv", "days.csv", "hours-of-day.csv", "months.csv", "register.csv", "receipt.json",
    }  # fmt: skip
    private = folder.with_name("out.private.json")
    assert private.stat().st_mode & 0o077 == 0
    assert json.loads(private.read_text())["home"]["appliance"][0]["name"] == "kettle"
    assert "kettle" not in "".join(path.read_text() for path in folder.iterdir())


def test_an_analyst_reads_the_files_with_pandas(saved):
    done, folder = saved
    days = pd.read_csv(folder / "days.csv", parse_dates=["day"])
    np.testing.assert_allclose(days.kwh, done.days.values, atol=1e-6)
    profile = pd.read_csv(folder / "hours-of-day.csv")
    assert profile.groupby("month").size().to_dict() == {"2024-03": 24, "2024-04": 24}
    assert (days.kwh_standard_error > 0).all()


def test_a_table_that_is_not_published_is_left_out(tmp_path):
    done = make_release(span="day", days=30)
    assert done.plan.shares[1] == 0
    done.save(tmp_path / "out")
    assert "noisy_steps" not in (tmp_path / "out" / "days.csv").read_text()
    assert "noisy_steps" in (tmp_path / "out" / "hours-of-day.csv").read_text()
    np.testing.assert_allclose(hm.read_views(tmp_path / "out").estimate, done.estimate)
    assert hm.verify(tmp_path / "out").passed


def tamper(folder, change):
    path = folder / "receipt.json"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(epsilon=0.5), "states ε = 0.5, but its own numbers give"),
        (lambda f: f.update(odds=0.5), "states odds"),
        (lambda f: f["tables"][0].update(share=0.1), "the sum of the shares|the share of cells"),
        (lambda f: f["tables"][3].update(sigma_steps=99999.0), "states"),
        (lambda f: f.update(kind="simulation"), "is a simulation, not a release"),
        (lambda f: f["tables"].pop(), "impossible entry"),
        (lambda f: f["files"].pop("days.csv"), "does not list: days.csv"),
        (
            lambda f: f["calendar"].update(zone="UTC"),
            "does not follow|impossible entry|no complete",
        ),
    ],
)
def test_a_changed_receipt_is_found(saved, change, message):
    import re

    _, folder = saved
    tamper(folder, change)
    found = hm.verify(folder)
    assert any(re.search(message, problem) for problem in found.problems), found.problems


def test_changed_files_are_found(saved):
    _, folder = saved
    path = folder / "days.csv"
    path.write_text(path.read_text().replace("2024-03-12", "2024-03-13"))
    assert any("SHA-256 differs" in problem for problem in hm.verify(folder).problems)
    (folder / "notes.txt").write_text("x")
    assert not hm.verify(folder).passed


def test_signatures(tmp_path):
    private, public = make_signing_key(tmp_path / "publisher")
    make_release(days=25).save(tmp_path / "out", signing_key=private)
    assert "signed with the given key" in hm.verify(tmp_path / "out", key=public).checks[-1]
    tamper(tmp_path / "out", lambda f: f.update(version="9"))
    assert not hm.verify(tmp_path / "out", key=public).passed


def test_nothing_is_overwritten(saved, tmp_path):
    done, folder = saved
    with pytest.raises(DataError, match=r"out.private.json exists; add --force"):
        done.save(folder)
    done.save(folder, force=True)
    assert hm.verify(folder).passed
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="is not a calendar release; choose another folder"):
        done.save(tmp_path / "mine", force=True)
    with pytest.raises(DataError, match="cannot be read"):
        hm.read_views(tmp_path / "mine")
    leftover = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert leftover == []
