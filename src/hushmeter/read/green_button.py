"""Green Button / ESPI: an Atom feed of energy readings, as North American utilities give it.

An IntervalBlock belongs to a MeterReading, which names its ReadingType, all by links. Values are
uom × 10^powerOfTenMultiplier; starts are UTC seconds. Namespaces come with and without prefixes,
blocks overlap, and some feeds leave the ReadingType to another file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hushmeter.checks import FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.formatting import count_of
from hushmeter.read.headers import is_missing
from hushmeter.read.recording import Rows, Series, Task, add_rows, unit_factor
from hushmeter.read.regular_times import refuse_mean
from hushmeter.read.source import TEXT_CAP, open_stream
from hushmeter.read.times import unix_ns

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FORMAT = "Green Button XML"
MAX_DEPTH = 64
UNITS = {"72": ("Wh", True), "38": ("W", False), "61": ("VA", False)}
OTHER_UNITS = {
    "42": "cubic metres", "119": "cubic feet", "132": "Btu", "169": "therms", "128": "US gallons",
    "134": "litres", "71": "VAh", "73": "varh", "63": "var", "5": "amperes", "29": "volts",
}  # fmt: skip
ELECTRICITY = {None, "", "0", "1", "2", "3"}
LONGEST_INTERVAL = 90_000
LARGEST_VALUE = 1e15  # No register shows more, in whatever unit
LONGEST_STATED = 1e9  # A longer duration is damaged [s]
LEAST_MEAN_W = 3.0
RARE = 0.01
FORWARD, NET, REVERSE = "1", "4", "19"
REGISTERS = {"1", "2", "3", "9"}
ESTIMATES = {"8", "9", "12"}
SUMMER_ZONES = {
    -12_600: "America/St_Johns",
    -14_400: "America/Halifax",
    -18_000: "America/New_York",
    -21_600: "America/Chicago",
    -25_200: "America/Denver",
    -28_800: "America/Los_Angeles",
    -32_400: "America/Anchorage",
}
"""North American zones with summer time, by their winter offset from UTC [s]."""


@dataclass
class Block:
    """The readings of one entry."""

    links: dict[str, list[str]]
    starts: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    qualities: list[str] = field(default_factory=list)


@dataclass
class Feed:
    """What was gathered from the feed: links as found, tags without their namespace."""

    blocks: list[Block] = field(default_factory=list)
    meters: list[dict[str, list[str]]] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    clock: dict[str, str] = field(default_factory=dict)


def parse_feed(task: Task) -> Feed:
    """Read the feed once; every element is dropped as soon as it has been read."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    feed, walk = Feed(), _Walk(task)
    try:
        with open_stream(task.path, TEXT_CAP) as stream:
            for event, element in iterparse(stream, ("start", "end"), forbid_dtd=True):
                walk.step(feed, event, element)
        walk.close(feed)
    except DefusedXmlException:
        raise task.error(
            "declares entities or a document type, as XML bombs do; "
            "a Green Button feed has none, so it was not read."
        ) from None
    except (ParseError, UnicodeError, LookupError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).split("\n")[0]
        raise task.error(f"is not well-formed XML ({reason}): download it again.") from None
    return feed


class _Walk:
    """The state of reading a feed: links, block and content of the current entry."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.links: dict[str, list[str]] = {}
        self.block = Block({})
        self.content: list[tuple[str, Any]] = []
        self.first = True
        self.depth = 0

    def step(self, feed: Feed, event: str, element: Element) -> None:
        tag = _tag(element)
        if event == "start":
            self._start(tag)
            return
        self.depth -= 1
        if tag == "link":
            self.links.setdefault(element.get("rel", ""), []).append(element.get("href", ""))
        elif tag == "IntervalReading":
            _read_interval(self.task, element, self.block)
            element.clear()
        elif tag == "ServiceCategory":
            feed.services.add(_child(element, "kind") or "")
        elif tag == "ReadingType":
            self.content.append((tag, {_tag(c): (c.text or "").strip() for c in element}))
        elif tag == "LocalTimeParameters":
            feed.clock = {_tag(c): (c.text or "").strip() for c in element}
        elif tag == "MeterReading":
            self.content.append((tag, None))
        elif tag == "entry":
            self.close(feed)
            element.clear()

    def _start(self, tag: str) -> None:
        self.depth += 1
        if self.first and tag not in ("feed", "entry", "IntervalBlock", "UsagePoint"):
            raise self.task.error(
                f"is XML, but its first element is <{tag[:40]}>, not the <feed> of a "
                "Green Button file."
            )
        if self.depth > MAX_DEPTH:
            raise self.task.error("nests its elements too deeply for a Green Button feed.")
        self.first = False
        if tag == "entry":
            self.links, self.content, self.block = {}, [], Block({})

    def close(self, feed: Feed) -> None:
        """Add what an entry held to the feed; a file can also be a single block without entries."""
        for tag, content in self.content:
            if tag == "MeterReading":
                feed.meters.append(self.links)
            else:
                link = self.links.get("self", [f"#{len(feed.types)}"])[0]
                feed.types[link.rstrip("/")] = content
        if self.block.starts:
            self.block.links = self.links
            feed.blocks.append(self.block)
        self.links, self.content, self.block = {}, [], Block({})


def _read_interval(task: Task, element: Element, block: Block) -> None:
    period = next((child for child in element if _tag(child) == "timePeriod"), None)
    start = None if period is None else _child(period, "start")
    value = _child(element, "value")
    if start is None:
        raise task.error(f": IntervalReading {len(block.starts) + 1} lacks its start.")
    if value is None or is_missing(value):
        return
    quality = next((child for child in element if _tag(child) == "ReadingQuality"), None)
    if quality is not None:
        block.qualities.append(_child(quality, "quality") or "")
    length = None if period is None else _child(period, "duration")
    try:
        block.starts.append(float(start))
        known = float(length) if length else math.nan
        block.durations.append(known if known < LONGEST_STATED else math.nan)
        block.values.append(float(value))
        if not abs(block.values[-1]) <= LARGEST_VALUE:
            raise ValueError
    except ValueError:
        raise task.error(
            f": IntervalReading {len(block.starts)} is not numbers "
            f"(start {start[:20]!r}, value {value[:20]!r})."
        ) from None


def _tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _child(element: Element, tag: str) -> str | None:
    text = next((child.text for child in element if _tag(child) == tag), None)
    return None if text is None or not text.strip() else text.strip()


def last_part(link: str) -> str:
    """The last two parts of a link: ReadingType/07."""
    return "/".join(link.rstrip("/").split("/")[-2:])


class Origin(NamedTuple):
    """Links to the MeterReading and the ReadingType of a block, empty where there is none."""

    meter: str
    type: str

    @property
    def point(self) -> str:
        """Link to the UsagePoint of the MeterReading."""
        return self.meter.partition("/MeterReading/")[0]


def read_green_button(task: Task, *, any_mean: bool = False) -> Series:
    """The electricity readings of a feed; gas, bills and feeds without readings are refused.

    `any_mean` accepts a mean that no home has: a release with very large noise can have one.
    """
    feed = parse_feed(task)
    _refuse_other_services(task, feed)
    count = sum(len(block.starts) for block in feed.blocks)
    if count == 0:
        raise task.error(
            f"is a Green Button feed without an IntervalReading (it holds {_contents(feed)})"
            ": ask the utility for the interval data."
        )
    groups: dict[Origin, list[Block]] = {}
    for block in feed.blocks:
        groups.setdefault(_origin(feed, block), []).append(block)
    chosen = _drawn(task, feed, groups)
    parts = {origin: groups[origin] for origin in chosen}
    series = _series(task, feed, parts, any_mean=any_mean)
    series.zone = task.options.tz or _zone(feed.clock)
    return series


def _zone(clock: dict[str, str]) -> str | None:
    """The time zone with the offsets of a feed, or None if the feed states no known ones."""
    try:
        offset, summer = int(clock["tzOffset"]), int(clock.get("dstOffset") or 0)
    except (KeyError, ValueError):
        return None
    if summer:
        return SUMMER_ZONES.get(offset)
    hours, rest = divmod(-offset, 3600)
    # The sign of these names is that of hours west of Greenwich.
    return f"Etc/GMT{hours:+d}" if not rest and -14 <= hours <= 12 else None


def _refuse_other_services(task: Task, feed: Feed) -> None:
    named = {"1": "gas", "2": "water", "3": "time", "4": "heat", "5": "refuse", "6": "sewerage"}
    others = feed.services & set(named)
    if others and "0" not in feed.services:
        words = ", ".join(sorted(named[kind] for kind in others))
        raise task.error(f"is a feed of {words}, not of electricity.")


def _origin(feed: Feed, block: Block) -> Origin:
    """What a block belongs to: through its MeterReading, or the only ReadingType there is."""
    parents = {_stem(link) for rel in ("up", "self") for link in block.links.get(rel, [])}
    for links in feed.meters:
        related = links.get("related", [])
        mine = {_stem(link) for link in [*related, *links.get("self", [])]}
        if parents & mine or len(feed.meters) == 1:
            for link in related:
                if "ReadingType" in link:
                    return Origin(_stem(links.get("self", [""])[0]), _find_type(feed, link))
    return Origin("", next(iter(feed.types)) if len(feed.types) == 1 else "")


def _find_type(feed: Feed, link: str) -> str:
    """The link of the ReadingType that a MeterReading names, maybe in a shorter form."""
    wanted = link.rstrip("/")
    if wanted in feed.types:
        return wanted
    longer = [known for known in feed.types if known.endswith(wanted) or wanted.endswith(known)]
    alike = longer or [known for known in feed.types if last_part(known) == last_part(wanted)]
    return alike[0] if len(alike) == 1 else ""


def _drawn(task: Task, feed: Feed, groups: dict[Origin, list[Block]]) -> list[Origin]:
    """The meter of delivered electricity, or its tariffs; the notes name the rest."""
    origins = _of_meter(task, list(groups))
    reasons = {origin: _refusal(feed.types.get(origin.type)) for origin in origins}
    usable = [origin for origin, reason in reasons.items() if reason is None]
    if not usable:
        why = sorted({reason for reason in reasons.values() if reason is not None})
        raise task.error(f"has no electricity readings: {'; '.join(why)}.")
    meters = task.chooser("meter", "meter")
    points = dict.fromkeys(origin.point for origin in usable)
    meters.only(map(last_part, points), " of electricity")
    rank = min(_rank(feed.types.get(origin.type)) for origin in usable)
    best = [origin for origin in usable if _rank(feed.types.get(origin.type)) == rank]
    chosen = _one_or_tariffs(task, feed, groups, best)
    if chosen is None:
        names = (last_part(origin.meter or origin.type) for origin in best)
        raise meters.several(names, " of electricity")
    others = [origin for origin in groups if origin not in chosen]
    if others:
        named = ", ".join(last_part(origin.meter or origin.type) for origin in others[:5])
        task.notes.append(f"Other meters or reading types ({len(others)}) were left out: {named}.")
    return chosen


def _of_meter(task: Task, origins: list[Origin]) -> list[Origin]:
    """The readings of the UsagePoint or MeterReading that the user chose, or all of them."""
    if task.options.meter is None:
        return origins
    wanted = task.options.meter.strip().strip("/").lower()
    for part in ("point", "meter"):
        links = [(origin, getattr(origin, part).lower()) for origin in origins]
        found = [origin for origin, link in links if link and f"/{link}".endswith(f"/{wanted}")]
        if found:
            return found
    names = (last_part(link) for o in origins for link in (o.point, o.meter) if link)
    raise task.chooser("meter", "meter").absent(task.options.meter, names)


def _rank(kind: dict[str, str] | None) -> tuple[int, bool]:
    """How well a type describes what the home drew: delivered before net, energy before power."""
    flow = (kind or {}).get("flowDirection", "")
    order = {FORWARD: 0, "": 1, "0": 1, NET: 3}.get(flow, 2)
    return order, (kind or {}).get("uom", "72") != "72"


def _one_or_tariffs(
    task: Task, feed: Feed, groups: dict[Origin, list[Block]], best: list[Origin]
) -> list[Origin] | None:
    """One series, the tariffs that are added up, or parts of different times; None if unclear."""
    if len(best) == 1:
        return best
    tariffs = {o: (feed.types.get(o.type) or {}).get("tou", "") for o in best}
    totals = [origin for origin, tariff in tariffs.items() if tariff in ("", "0")]
    if not totals and len(set(tariffs.values())) == len(best):
        task.notes.append(f"The readings of {len(best)} tariffs were added up.")
        return best
    if totals and len(totals) < len(best):
        task.notes.append("The readings of the total were read, not those of single tariffs.")
    pool = totals or best
    lengths = {o: _usual_length(_durations(groups[o])) for o in pool}
    finest = [origin for origin in pool if lengths[origin] == min(lengths.values())]
    if len(finest) == 1:
        return finest
    starts = [start for o in finest for start in {s for b in groups[o] for s in b.starts}]
    if len(starts) == len(set(starts)):
        task.notes.append(f"The readings of {len(finest)} series of different times were joined.")
        return finest
    return None


def _durations(blocks: Sequence[Block]) -> FloatArray:
    """The lengths that some readings state [s], or a single zero."""
    lengths = np.concatenate([block.durations for block in blocks])
    known: FloatArray = lengths[np.isfinite(lengths) & (lengths > 0)]
    return known if known.size else np.zeros(1)


def _refusal(kind: dict[str, str] | None) -> str | None:
    """Why readings of this type are no electricity load, or None."""
    if kind is None:
        return None
    unit = kind.get("uom", "")
    if kind.get("commodity") not in ELECTRICITY:
        return f"commodity {kind.get('commodity')} is not electricity"
    if not unit:
        return "the ReadingType names no unit, as some gas feeds do"
    if unit not in UNITS:
        return f"unit {unit} ({OTHER_UNITS.get(unit, 'not energy or power')}) is no active energy"
    if kind.get("accumulationBehaviour") in REGISTERS:
        return "the values are a running register, so ask the utility for energy per interval"
    if kind.get("flowDirection") == REVERSE:
        return "only what was fed into the grid (flowDirection 19) is there"
    return None


def _series(task: Task, feed: Feed, parts: dict[Origin, list[Block]], *, any_mean: bool) -> Series:
    """The readings of one series, or the sum of its tariffs."""
    kinds = [feed.types.get(origin.type) for origin in parts]
    units = [_unit(task, kind) for kind in kinds]
    unit, factor, energy = units[0]
    scales = [own / factor for _, own, _ in units]
    # In an interval, some tariffs may have no reading.
    readings = add_rows([_rows(task, b, s) for b, s in zip(parts.values(), scales, strict=True)])
    assert readings.durations is not None
    length = _length(task, kinds[0], readings.times, readings.durations)
    known = np.isfinite(readings.durations) & (readings.durations > 0)
    durations = np.where(known, readings.durations, length)
    if np.unique(durations).size > 1:
        task.notes.append(
            "Intervals differ in length (days of 23 or 25 hours?); each used its own."
        )
    marks = [mark for blocks in parts.values() for block in blocks for mark in block.qualities]
    estimates = sum(mark in ESTIMATES for mark in marks)
    if estimates:
        marked = count_of(estimates, "reading is marked", "readings are marked")
        task.notes.append(f"{marked} as estimates of the utility.")
    stated = kinds[0] is not None and task.options.unit is None
    mean = float(np.mean(readings.values)) * factor * (3600 / length if energy else 1.0)
    if not any_mean:
        refuse_mean(mean, task.path, LEAST_MEAN_W if stated else 0.0)
    return Series(
        readings.times,
        readings.values,
        FORMAT,
        unit,
        factor,
        energy,
        durations=durations,
        interval_s=length,
        stamp=task.options.stamp or "start",
        # Values are whole numbers of the unit that the reading type declares.
        step=max(scales),
        added=len(parts),
        repeats="last",
        complete=True,
    )


def _rows(task: Task, blocks: Sequence[Block], scale: float) -> Rows:
    """All readings of some blocks, with their values in a common unit."""
    return Rows(
        unix_ns(np.concatenate([block.starts for block in blocks]), task.path),
        scale * np.concatenate([block.values for block in blocks]),
        np.concatenate([block.durations for block in blocks]),
    )


def _unit(task: Task, kind: dict[str, str] | None) -> tuple[str, float, bool]:
    """Name of the unit, watts or watt-hours in it, and whether it is one of energy."""
    if kind is None and task.options.unit is not None:
        return task.options.unit, *unit_factor(task.options.unit)
    if kind is None:
        raise task.error(
            "has no ReadingType for its readings, so their unit is unknown: state it "
            "(`unit=Wh`, or `unit=milliWh` for utilities that give thousandths)."
        )
    name, energy = UNITS[kind["uom"]]
    try:
        exponent = int(kind.get("powerOfTenMultiplier") or 0)
    except ValueError:
        exponent = 99
    if abs(exponent) > 12:
        raise task.error(
            f": powerOfTenMultiplier {kind.get('powerOfTenMultiplier')!r} makes no sense."
        )
    if exponent == 0 or task.options.unit is None:
        task.unit(name, "what its ReadingType describes")
        return name if exponent == 0 else f"{name} × 10^{exponent}", 10.0**exponent, energy
    # Some utilities state a wrong multiplier, which the user may correct, but not power as energy.
    given = unit_factor(task.options.unit)
    if given[1] != energy:
        task.unit(name, "what its ReadingType describes")
    return task.options.unit, *given


def _length(
    task: Task, kind: dict[str, str] | None, times: IntArray, durations: FloatArray
) -> float:
    """The usual interval [s], as stated or as the starts show it; bills are refused."""
    known = durations[np.isfinite(durations) & (durations > 0)]
    declared = (kind or {}).get("intervalLength", "")
    apart = np.diff(np.unique(times).astype(np.float64) / SECOND)
    if known.size == 0 and not declared.isdigit() and apart.size == 0:
        raise task.error(": no reading states the length of its interval.")
    length = float(declared) if declared.isdigit() else 0.0
    length = _usual_length(known) if known.size else length
    if apart.size and (length == 0 or float((apart < 0.98 * length).mean()) > 0.5):
        # Readings that begin before the one before has ended are as long as their starts are apart.
        length = float(np.median(apart))
        durations[:] = length
        task.notes.append("The length of the readings was taken from their starts.")
    if not 0 < length <= LONGEST_INTERVAL:
        raise task.error(
            f": its readings are {length / 86_400:.3g} days long: bills, not interval data; "
            "ask the utility for hourly or 15-minute readings."
        )
    return length


def _usual_length(durations: FloatArray) -> float:
    """The shortest length [s] that is not rare, if it divides the others, else the median."""
    lengths, counts = np.unique(durations, return_counts=True)
    common = lengths[counts >= RARE * durations.size]
    whole = common.size > 0 and not (common % common[0]).any()
    return float(common[0] if whole else np.median(durations))


def _contents(feed: Feed) -> str:
    parts = [f"{len(feed.types)} ReadingType", f"{len(feed.meters)} MeterReading"]
    return ", ".join([*parts, f"{len(feed.services)} service"])


def _stem(link: str) -> str:
    """The MeterReading part of a link to it or to its blocks."""
    head, found, rest = link.rstrip("/").partition("/MeterReading/")
    return f"{head}{found}{rest.split('/')[0]}" if found else link
