"""Pairs of raw files that differ by one protected change, and what may differ between them."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from tests.neighbours.audit import compare_neighbours
from tests.neighbours.raw_files import (
    WRITERS,
    House,
    Meter,
    clock_change,
    exact_time,
    options_of,
    ordinary_day,
    random_house,
)

import hushmeter as hm
from hushmeter.errors import HushmeterError
from hushmeter.read import read_bytes
from hushmeter.releases.promise import check_metering
from hushmeter.releases.receipt import describe_promise

HOME = hm.Home(
    [
        hm.Appliance("kettle", 2100.0, run_s=180.0),
        hm.Appliance("heat pump", 1400.0, run_s=2160.0),
        hm.Appliance("washing machine", levels=(250.0, 1950.0), run_s=4320.0, energy_wh=900.0),
        hm.Appliance("fridge", 160.0, run_s=1080.0),
    ],
    tolerance=40.0,
)
CLAMP = (0.0, 12_000.0)
USE_S = 5400.0
UNITS = (
    ("appliance", "run"),
    ("appliance", "run"),
    ("appliance", "when"),
    ("appliance", "day"),
    ("appliance", "capped day"),
    ("appliance", "reading"),
    ("fluctuation", "reading"),
    ("range", "reading"),
    ("change", "reading"),
)
PEAK, NIGHT, EVENING = "peak = 16:00-21:00", "night = 22:00-06:00", "evening = 18:00-23:00"
TABLES = (
    ("views",),
    ("hours", "days", "typical-week", PEAK, NIGHT, EVENING),
    ("days", "months"),
    ("hours", "typical-day", "months", "year", PEAK),
    (NIGHT, PEAK, "days"),
    ("days",),
)
READINGS = {6: 600, 10: 300, 60: 480, 900: 100, 1800: 60, 3600: 40}


@dataclass(frozen=True)
class Pair:
    """Two houses that one meter records, and the unit for which they are neighbours."""

    kind: str
    meter: Meter
    one: House
    other: House
    protect: str
    span: str
    appliance: str
    every: float | None
    tables: tuple[str, ...] = ()

    @property
    def zone(self):
        """Time zone of the days; runs are moved within a day of UTC."""
        return "UTC" if self.span == "when" else ("UTC", "Europe/London")[self.meter.seed % 2]

    @property
    def files(self):
        """Name, both contents and the options of the reader."""
        write = WRITERS[self.kind].write
        name, content, fields = write(self.one, self.meter)
        return name, (content, write(self.other, self.meter)[1]), fields


def draw_pair(kind, number, *, spans=UNITS, days=None):
    """A pair that depends on its number alone."""
    writer = WRITERS[kind]
    rng = np.random.default_rng([zlib.crc32(kind.encode()), number])
    interval = int(rng.choice(writer.intervals))
    start = [ordinary_day(3), clock_change(autumn=True), clock_change(autumn=False)][
        rng.integers(3)
    ]
    days = days or writer.days
    if writer.days:
        start = ordinary_day(3)
    meter = Meter(
        start,
        interval,
        days * 86_400 // interval if days else READINGS[interval],
        float(rng.choice(writer.steps)),
        phase=float(rng.random()),
        jitter=float(rng.choice([0.0, 0.4])) * min(interval, 10),
        seed=int(rng.integers(2**31)),
    )
    protect, span = spans[rng.integers(len(spans))]
    member = HOME.appliances[int(rng.integers(len(HOME)))]
    # A run that is moved to a time at which the home feeds in is missing from what it draws.
    solar = writer.solar and span != "when"
    house = random_house(meter.start, float(meter.starts[-1]), rng, solar=solar)
    one, other = neighbours(house, meter, protect, span, member, rng)
    every = [None, 3600 if interval >= 60 else 600][rng.integers(2)]
    return Pair(kind, meter, one, other, protect, span, member.name, every)


def neighbours(house, meter, protect, span, member, rng):
    """Two houses that differ by one change that the unit protects."""
    if span == "when":
        # The same run at two times of one day.
        day = 86_400 * (rng.uniform(meter.start, meter.starts[-1]) // 86_400)
        length, watts = run_of(member, rng)
        first, last = max(day, meter.start), min(day + 86_400, meter.starts[-1]) - length
        moments = [float(exact_time(t)) for t in rng.uniform(first, max(first, last), 2)]
        return tuple(house.plus(member.name, t, t + length, watts) for t in moments)
    if span in ("day", "capped day") and rng.random() < 0.3:
        # A day that was replaced: the appliance ran at other times.
        day = float(exact_time(rng.uniform(meter.start - 45_000, meter.starts[-1])))
        half = USE_S / 2 if span == "capped day" else 45_000.0
        return tuple(
            house.plus(member.name, t, t + half, member.protected_power) for t in (day, day + half)
        )
    return house, add_change(house, meter, protect, span, member, rng)


def run_of(member, rng):
    """Length [s] and power [W] of a run that is protected."""
    length = member.protected_run_s * rng.choice([1.0, rng.uniform(0.2, 1.0)])
    if member.energy_wh is not None:
        length = min(length, member.energy_wh * 3600 / member.protected_power)
    return float(exact_time(length)), member.protected_power


def add_change(house, meter, protect, span, member, rng):
    """The house with one change that the unit protects."""
    if span == "reading":
        watts = {
            "appliance": member.protected_power,
            "fluctuation": HOME.tolerance / 2,
            "range": CLAMP[1] - 9000.0,
            "change": 300.0,
        }[protect] * rng.choice([1.0, rng.random()])
        row = int(rng.choice([meter.spoilt[0], rng.integers(meter.readings)]))
        first = float(meter.starts[row])
        name = member.name if protect == "appliance" else "base"
        return house.plus(name, first, first + meter.interval_s, float(watts))
    if span == "run":
        length, watts = run_of(member, rng)
        offset = rng.uniform(-meter.interval_s, meter.interval_s) * rng.integers(2)
        # Often where a device failed: rows are missing, merged or late there.
        row = meter.starts[meter.spoilt[0]] if rng.random() < 0.3 else rng.choice(meter.starts)
        first = float(exact_time(row + offset + meter.interval_s * rng.integers(3)))
        return house.plus(member.name, first, first + length, watts)
    # A day of an appliance: on for all of it, or switching as it likes.
    length = 25 * 3600.0
    first = float(exact_time(rng.uniform(meter.start - length / 2, meter.starts[-1])))
    if span == "capped day":
        # Ten runs anywhere in the day, which together last as long as the cap allows.
        for start in np.sort(rng.choice(int(length) // 600, 10, replace=False)) * 600.0:
            begin = float(exact_time(first + start))
            house = house.plus(member.name, begin, begin + USE_S / 10, member.protected_power)
        return house
    if rng.random() < 0.5:
        return house.plus(member.name, first, first + length, member.protected_power)
    moments = np.sort(exact_time(rng.uniform(first, first + length, 20)))
    for begin, end in moments.reshape(-1, 2):
        house = house.plus(member.name, float(begin), float(end), member.protected_power)
    return house


def resolve(recording, pair):
    """The promise of a release of this file."""
    use = USE_S if pair.span == "capped day" else None
    request = hm.Request(
        epsilon=1,
        protect=pair.protect,
        span="day" if use else pair.span,
        use=use,
        home=HOME,
        appliance=pair.appliance if pair.protect == "appliance" else None,
        clamp=CLAMP if pair.protect == "range" else None,
        watts=300.0 if pair.protect == "change" else None,
        every=pair.every,
        tables=pair.tables,
    )
    promise = request.resolve(hm.metered(recording.trace, pair.zone))
    check_metering(recording.trace, promise.unit)
    return promise


def read_and_resolve(name, content, fields, pair):
    """A recording with its promise, or the sentence with which a release is refused."""
    try:
        recording = read_bytes(content, name, options_of(fields))
        return recording, resolve(recording, pair)
    except HushmeterError as error:
        return str(error)


def check_pair(pair):
    """Read both files and compare all that is public and all that would get noise."""
    name, contents, fields = pair.files
    if contents[0] == contents[1]:
        # The change is too small for the meter, or happens when it does not record.
        return "same"
    found = [read_and_resolve(name, content, fields, pair) for content in contents]
    refused = [isinstance(each, str) for each in found]
    if all(refused):
        return "refused"
    if any(refused):
        assert WRITERS[pair.kind].refused_one, (
            pair.kind,
            describe(pair),
            found[refused.index(True)],
        )
        return "refused one"
    (one, promise), (two, other) = found
    problems = compare_neighbours(one, two, promise)
    assert not problems, (pair.kind, describe(pair), problems)
    # Everything that a receipt states but the digests.
    assert describe_promise(promise) == describe_promise(other), (pair.kind, describe(pair))
    return "compared"


def check_tables(pair):
    """The same for several tables of hours, without cells in some of them, and bands."""
    tables = TABLES[pair.meter.seed % len(TABLES)]
    return check_pair(replace(pair, every=3600, tables=tables))


def describe(pair):
    return pair.meter, pair.protect, pair.span, pair.appliance, pair.every, pair.tables


def count_outcomes(kind, pairs, check=check_pair, **more):
    """Check so many pairs of a kind, and count what happened to them."""
    outcomes = Counter(check(draw_pair(kind, number, **more)) for number in range(pairs))
    assert outcomes["same"] <= pairs / 2, outcomes
    if WRITERS[kind].compared:
        assert outcomes["compared"] >= (pairs - outcomes["same"]) / 2, outcomes
    else:
        assert outcomes["compared"] == 0, outcomes
    return outcomes
