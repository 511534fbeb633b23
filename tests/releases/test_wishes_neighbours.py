"""Households that use electricity at other times, or on other days: everything published is equal.

A household is its use in every minute, over more days than the file has. Its neighbour moves the
use within each civil day, or exchanges whole days of a month, also where a reading is missing and
beyond both ends of the file. A meter makes a file of each, and the public command releases it, once
or twice. Whatever both publish is compared byte by byte, noise excepted.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from shutil import rmtree

import numpy as np
import pytest
from tests.cli.test_commands import run
from tests.releases.test_neighbour_paths import published

from hushmeter.clock import local_times

WISHES = ("when we get up", "which days we are away", "evenings, which days we are away")
ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
    "Pacific/Chatham", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana", "America/Santiago",
)  # fmt: skip
METERS = ("energy", "register", "power")
STORIES = ("once", "once", "a day later", "another zone", "a gap filled", "new days")
DAYS, DAY = 80, 1440
"""Length of the known use [days], and of a day [min]."""


@dataclass(frozen=True)
class Case:
    """What both households have in common: the meter, its file and the releases."""

    wish: str
    zone: str
    meter: str
    story: str
    start: np.datetime64  # Start of the known use
    minutes: int  # Length of a reading [min]
    first: int  # Minute at which the file begins
    there: np.ndarray  # Whether each reading of the file is there, (readings,)

    @property
    def times(self):
        """Start of every reading of the file."""
        begin = self.first + self.minutes * np.arange(self.there.size)
        return self.start + begin * np.timedelta64(1, "m")

    @property
    def options(self):
        step = {"energy": (), "register": ("--counter", "yes", "--step", "0.01")}
        power = ("--unit", "W", "--step", "10")
        unit = ("--unit", "kWh", *step[self.meter]) if self.meter in step else power
        return ("--hide", self.wish, "--changes", "no", *unit)


def draw_case(rng):
    months = ("2023-03", "2023-09", "2023-10", "2024-02", "2024-03", "2024-04", "2024-10")
    start = np.datetime64(rng.choice(months)).astype("datetime64[D]") - rng.integers(3, 30)
    minutes = int(rng.choice([15, 30, 60, 20], p=[0.4, 0.3, 0.2, 0.1]))
    # Most meters read at whole multiples of their interval, in UTC or by a clock.
    phase = int(rng.choice([0, 30, 7], p=[0.7, 0.2, 0.1]))
    first = phase + minutes * int(rng.integers(0, 3 * DAY // minutes))
    count = (DAYS * DAY - first) // minutes - int(rng.integers(0, 20 * DAY // minutes))
    there = np.ones(count, dtype=bool)
    if rng.random() < 0.6:
        # Some days with missing readings, one of them or many
        begin = int(rng.integers(1, count - 3 * DAY // minutes))
        width = int(rng.choice([1, 5, DAY // minutes, 3 * DAY // minutes]))
        there[begin : begin + width] = rng.random(width) < rng.choice([0.0, 0.5, 0.95])
    wish, zone = str(rng.choice(WISHES)), str(rng.choice(ZONES))
    meter, story = str(rng.choice(METERS)), str(rng.choice(STORIES))
    return Case(wish, zone, meter, story, start.astype("datetime64[m]"), minutes, first, there)


def draw_use(rng):
    """Watt-hours of every minute; quiet nights and absences among days."""
    use = rng.integers(0, 40, (DAYS, DAY)) * (rng.random((DAYS, DAY)) < 0.3)
    return (use * (rng.random((DAYS, 1)) < 0.8) + 2).ravel()


def neighbour(case, use, rng):
    """The use of the neighbour: every day, or the days of every month, in another order."""
    minutes = case.start + np.arange(use.size) * np.timedelta64(1, "m")
    local = local_times(minutes.astype("datetime64[s]"), case.zone)
    days, other = local.astype("datetime64[D]"), use.copy()
    if case.wish != WISHES[1]:
        for day in np.unique(days):
            here = np.flatnonzero(days == day)
            other[here] = rng.permutation(other[here])
    if case.wish != WISHES[0]:
        clock = (local - days).astype("timedelta64[m]").astype(int)
        names, first = np.unique(days, return_index=True)
        # Days with the same hours
        plain = [
            (name, at)
            for name, at in zip(names, first, strict=True)
            if np.array_equal(clock[at : at + DAY], np.arange(DAY)) and (days == name).sum() == DAY
        ]
        for month in {name.astype("datetime64[M]") for name, _ in plain}:
            own = [at for name, at in plain if name.astype("datetime64[M]") == month]
            moved = [other[at : at + DAY].copy() for at in own]
            for at, number in zip(own, rng.permutation(len(own)), strict=True):
                other[at : at + DAY] = moved[number]
    assert other.sum() == use.sum()
    return other


def write_file(case, use, path, rows):
    """The file of a meter with some of its readings."""
    stop = case.first + case.minutes * case.there.size
    energy = use[case.first : stop].reshape(-1, case.minutes).sum(axis=1)
    times, values = case.times, energy / 1000
    if case.meter == "register":
        # A counter that is cut off to ten watt-hours, read at both ends of every reading
        counts = use[: case.first].sum() + np.append(0, np.cumsum(energy))
        times, values = np.append(times, case.start + stop * np.timedelta64(1, "m")), counts // 10
        values, rows = values / 100, np.append(rows, True)
    elif case.meter == "power":
        values = np.rint(energy * 60 / case.minutes / 10) * 10
    column = {"energy": "energy_kwh", "register": "register_kwh", "power": "watts"}[case.meter]
    lines = [
        f"{time}:00Z,{value:.3f}\n"
        for time, value in zip(times[rows].astype(str), values[rows], strict=True)
    ]
    path.write_text(f"timestamp,{column}\n" + "".join(lines))


def publish(case, use, folder, monkeypatch):
    """Release one household's files; return the exit codes and all that is public."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    rows, codes = case.there, []
    later = np.arange(rows.size) >= rows.size - DAY // case.minutes
    files = {
        "a day later": [rows & ~later, rows],
        "new days": [rows & ~later, rows],
        "a gap filled": [rows, np.ones_like(rows)],
        "another zone": [rows, rows],
    }.get(case.story, [rows])
    for number, there in enumerate(files):
        zone, more = case.zone, ()
        if number and case.story == "another zone":
            if codes == [1]:
                break  # These are neighbours in the first zone.
            zone = ZONES[(ZONES.index(case.zone) + 1) % len(ZONES)]
        if number and case.story == "new days":
            more = ("--new",)
        write_file(case, use, folder / "meter.csv", there)
        words = (*case.options, "--tz", zone, *more, "-o", folder / f"out/{number}", "--json")
        for expect in (0, 1):
            try:
                run("release", folder / "meter.csv", *words, expect=expect)
            except AssertionError:
                continue
            codes.append(expect)
            break
    out = folder / "out"
    receipts = [json.loads(path.read_text()) for path in out.rglob("receipt.json")]
    if any(receipt["epsilon"] for receipt in receipts):
        return codes, published(out)
    return codes, {path.name: path.read_bytes() for path in sorted(out.rglob("*.[cj]s*"))
                   if "private" not in path.name}  # fmt: skip


def compare(folder, seed, monkeypatch):
    """Release a household and its neighbour; return what became of them."""
    rng = np.random.default_rng(seed)
    case, use = draw_case(rng), draw_use(rng)
    found = []
    for side, own in (("one", use), ("two", neighbour(case, use, rng))):
        (folder / side).mkdir(parents=True)
        found.append(publish(case, own, folder / side, monkeypatch))
    rmtree(folder)
    assert found[0] == found[1], (seed, case)
    codes, public = found[0]
    if case.story == "another zone":
        assert codes[-1] == 1
    return ("refused", "published")[bool(public)], case.story, case.meter, case.wish


def compare_many(folder, seeds, monkeypatch):
    outcomes = Counter(compare(folder / str(seed), seed, monkeypatch) for seed in seeds)
    done = sum(count for (what, *_), count in outcomes.items() if what == "published")
    assert done > 0.6 * len(seeds), outcomes
    return outcomes


def test_neighbours_publish_the_same(tmp_path, monkeypatch):
    compare_many(tmp_path, range(104), monkeypatch)


@pytest.mark.slow
def test_thousands_of_neighbours_publish_the_same(tmp_path, monkeypatch):
    outcomes = compare_many(tmp_path, range(1000, 3400), monkeypatch)
    # Every kind of story, meter and wish is published many times.
    assert min(outcomes["published", s, m, w] for s in STORIES for m in METERS for w in WISHES) > 3
