"""The register of releases: what is released beside what, and a file that survives everything."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.releases.history import recorded, register_path, unreleased

WHEN, WHICH = "when we get up", "which days we are away"
BERLIN = "Europe/Berlin"
RNG = np.random.default_rng(5)
# From the first of January in Berlin, 62 days
WHOLE = hm.Trace(RNG.gamma(1, 300, 62 * 48).round(), 1800.0, "2023-12-31T23:00Z")


def facts(trace, hide, zone=BERLIN, **more):
    """The private receipt of a release as plain values."""
    given = hm.metered(trace, zone)
    done = hm.Request(hide=hide, **more).as_calendar(given).resolve(given).release(trace)
    return done.private.to_dict(done.receipt)


def note(trace, hide, zone=BERLIN, *, name="one", stream="load", despite=False, **more):
    with recorded(
        facts(trace, hide, zone, **more), Path(name), stream=stream, despite=despite
    ) as sentences:
        return sentences


def moved(trace, watts=100.0):
    """The readings with a part of the use of one day at another time of it."""
    readings = trace.readings.copy()
    readings[500] += watts
    readings[510] -= watts
    return trace.replace_readings(readings)


GAP = WHOLE.select(np.delete(np.arange(len(WHOLE)), 1000))
REFUSED = {
    "another zone": (WHEN, (WHOLE, WHEN, "Europe/London")),
    "another wish": (WHEN, (WHOLE, WHICH)),
    "noise after exact sums": (WHEN, (WHOLE, "kettle")),
    "exact sums after noise": ("kettle", (WHOLE, "evenings")),
    "a wish with an appliance": ("evenings", (WHOLE, "evenings, kettle")),
    "a correction": (WHEN, (WHOLE.replace_readings(WHOLE.readings + 1), WHEN)),
    "use at another time": (WHEN, (moved(WHOLE), WHEN)),
    "one day in common": (WHEN, (WHOLE[40 * 48 :], WHEN, "Europe/London")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_release_that_differs_from_an_exact_one_is_refused(case):
    before, (trace, *other) = REFUSED[case]
    note(WHOLE[: 41 * 48], before)
    with pytest.raises(DataError, match="nothing bounds both together"):
        note(trace, *other, name="elsewhere/two")
    # The refused release is not noted; another meter, and a release despite it, are.
    assert len(json.loads(register_path().read_text())["releases"]) == 1
    assert note(trace, *other, stream="garage") == []
    note(trace, *other, despite=True)


ALLOWED = {
    "the same again": (WHOLE, WHOLE, WHEN),
    "more days": (WHOLE[: 20 * 48 + 5], WHOLE, WHEN),
    "more months": (WHOLE[: 45 * 48], WHOLE, WHICH),
    "fewer days": (WHOLE, WHOLE[100:900], WHEN),
    "a gap that was filled": (GAP, WHOLE, WHEN),
    "a gap of a month that was filled": (GAP, WHOLE, f"{WHEN}, {WHICH}"),
    "the next month in another zone": (WHOLE[: 31 * 48], WHOLE[32 * 48 :], WHEN, "Europe/London"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_equal_days_repeat_their_numbers(case):
    one, two, hide, *zone = ALLOWED[case]
    assert note(one, hide) == []
    assert note(two, hide, *zone) == []


def test_noise_adds_up_and_is_only_said():
    note(WHOLE[: 3 * 48 + 2], "kettle")
    parts = {
        "one row more": (WHOLE[: 3 * 48 + 3], 4),
        "one row later": (WHOLE[1 : 3 * 48 + 2], 4),
        "the next days too": (WHOLE[2 * 48 :], 2),
    }
    for name, (part, days) in parts.items():
        (sentence,) = note(part, "kettle", name=name)
        assert f"({days} days in " in sentence
        assert "adds its ε" in sentence
    # The second one shares only a day with it that has other rows.
    epsilon = json.loads(register_path().read_text())["releases"][0]["epsilon"]
    assert f"at most ε = {3 * epsilon:.4g} for" in sentence
    other = WHOLE.replace_readings(RNG.gamma(1, 300, len(WHOLE)).round())
    assert note(other, "kettle") == []


def test_noise_for_rounding_adds_up_too():
    rounded = WHOLE.derive(metering=hm.Metering(10.0))
    assert note(rounded, WHEN) == []
    assert "adds its ε" in note(rounded, WHEN)[0]


def test_only_what_is_new_is_left():
    note(WHOLE[: 20 * 48 + 7], WHEN)
    left = unreleased(WHOLE)
    # The day that was not complete is new.
    assert left.start == WHOLE.times[20 * 48]
    assert len(left) == 42 * 48
    assert len(unreleased(WHOLE, "garage")) == len(WHOLE)
    note(left, WHEN)
    with pytest.raises(DataError, match="nothing is new"):
        unreleased(WHOLE)


def test_the_register_is_private_and_holds_no_reading_day_or_wish():
    note(WHOLE, WHEN)
    place = register_path()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    text = place.read_text()
    assert not any(word in text for word in ("2024", BERLIN, "electricity", "get up"))
    (entry,) = json.loads(text)["releases"]
    assert entry["spans"] == [[1704063600, 1704063600 + 62 * 86_400]]
    assert len(entry["days"]) == 62
    # Another key gives other digests.
    place.unlink()
    note(WHOLE, WHEN)
    assert json.loads(place.read_text())["releases"][0]["days"].keys().isdisjoint(entry["days"])


def test_a_release_that_could_not_be_published_is_not_noted():
    with pytest.raises(OSError, match="full"), recorded(facts(WHOLE, WHEN), Path("out")):
        raise OSError("full")
    assert json.loads(register_path().read_text())["releases"] == []


def test_a_simulation_is_neither_noted_nor_refused():
    note(WHOLE, WHEN)
    given = hm.metered(WHOLE)
    done = hm.Request(hide=WHEN).resolve(given).release(WHOLE, rng=1)
    with recorded(done.private.to_dict(done.receipt), Path("two")) as sentences:
        assert sentences == []
    assert len(json.loads(register_path().read_text())["releases"]) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "x", "key": "", "releases": []}'])
def test_a_damaged_register_is_one_sentence(content):
    note(WHOLE, WHEN)
    register_path().write_text(content)
    with pytest.raises(DataError, match=r"releases.json cannot be read: .*; restore it, or remove"):
        note(WHOLE, WHEN)
    register_path().unlink()
    note(WHOLE, WHEN)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(DataError, match="name a folder for it in XDG_DATA_HOME"):
        note(WHOLE, WHEN)


def test_the_folder_is_that_of_the_platform(monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    for platform, folder in {
        "linux": ".local/share",
        "darwin": "Library/Application Support",
    }.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert register_path() == Path("/home/somebody", folder, "hushmeter/releases.json")


def test_two_commands_at_once_are_both_noted(tmp_path):
    for number in range(2):
        hm.write_meter(tmp_path / f"{number}.csv", WHOLE[: 3 * 48])
    command = [sys.executable, "-m", "hushmeter", "release", "--hide", "kettle", "--json"]
    running = [
        subprocess.Popen(
            [*command, tmp_path / f"{number}.csv", "-o", tmp_path / f"out-{number}"],
            stdout=subprocess.DEVNULL,
        )
        for number in range(2)
    ]
    assert [one.wait() for one in running] == [0, 0]
    assert len(json.loads(register_path().read_text())["releases"]) == 2


# The command ------------------------------------------------------------------------------------


def release(folder, trace, out, *more, expect=0):
    place = folder / out
    place.parent.mkdir(exist_ok=True)
    hm.write_meter(folder / "meter.csv", trace, force=True)
    words = ("--hide", WHEN, "--changes", "no", "-o", place, "--json", *more)
    return run("release", folder / "meter.csv", *words, expect=expect)


def test_the_difference_of_two_zones_is_refused_in_any_folder(tmp_path):
    """The running difference of the days of London and Berlin is one hour of every night."""
    release(tmp_path, WHOLE, "a/out", "--tz", BERLIN)
    refused = release(tmp_path, WHOLE, "b/out", "--tz", "Europe/London", expect=1).stderr
    assert "another wish, another zone or other readings" in " ".join(refused.split())
    assert list((tmp_path / "b").iterdir()) == []
    release(tmp_path, WHOLE, "b/out", "--tz", "Europe/London", "--despite")
    receipt = json.loads((tmp_path / "b/out/receipt.json").read_text())
    assert receipt["despite"] is True
    assert "Nothing bounds what this release shows together with earlier ones" in str(
        hm.read_release(tmp_path / "b/out").receipt
    )
    assert hm.verify(tmp_path / "b/out").passed


def test_new_releases_the_days_that_are_not_out(tmp_path):
    release(tmp_path, WHOLE[: 20 * 48], "out/one", "--tz", BERLIN)
    release(tmp_path, WHOLE, "out/two", "--tz", BERLIN, "--new")
    days = hm.read_release(tmp_path / "out/two").view("days").labels["day"].astype(str)
    assert (days[0], days[-1], days.size) == ("2024-01-21", "2024-03-02", 42)
    again = release(tmp_path, WHOLE, "out/three", "--tz", BERLIN, "--new", expect=1).stderr
    assert "nothing is new" in again
