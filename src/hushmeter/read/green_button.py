"""Green Button / ESPI: an Atom feed of energy readings, as North American utilities give it.

An IntervalBlock belongs to a MeterReading, which names its ReadingType, all by links. Values are
uom × 10^powerOfTenMultiplier; starts are UTC seconds. Namespaces come with and without prefixes,
blocks overlap, and some feeds leave the ReadingType to another file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError
from hushmeter.read.source import TEXT_CAP, open_stream
from hushmeter.read.times import unix_ns

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


from typing import NamedTuple

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series

MAX_DEPTH = 64


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


def parse_feed(path: Path) -> Feed:
    """Walk the feed once; every element is dropped as soon as it has been read."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    feed, walk = Feed(), _Walk()
    try:
        with open_stream(path, TEXT_CAP) as stream:
            for event, element in iterparse(stream, ("start", "end"), forbid_dtd=True):
                walk.step(feed, event, element, path)
        walk.close(feed)
    except DefusedXmlException:
        raise DataError(
            f"{path} declares entities or a document type, as XML bombs do; "
            "a Green Button feed has none, so it was not read."
        ) from None
    except (ParseError, UnicodeError, LookupError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).split("\n")[0]
        raise DataError(f"{path} is not well-formed XML ({reason}): download it again.") from None
    return feed


class _Walk:
    """Where the walk through the feed stands."""

    def __init__(self) -> None:
        self.links: dict[str, list[str]] = {}
        self.block = Block({})
        self.content: list[tuple[str, Any]] = []
        self.first = True
        self.depth = 0

    def step(self, feed: Feed, event: str, element: Element, path: Path) -> None:
        tag = _tag(element)
        if event == "start":
            self._start(tag, path)
            return
        self.depth -= 1
        if tag == "link":
            self.links.setdefault(element.get("rel", ""), []).append(element.get("href", ""))
        elif tag == "IntervalReading":
            _read_interval(element, self.block, path)
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

    def _start(self, tag: str, path: Path) -> None:
        self.depth += 1
        if self.first and tag not in ("feed", "entry", "IntervalBlock", "UsagePoint"):
            raise DataError(
                f"{path} is XML, but its first element is <{tag[:40]}>, not the <feed> of a "
                "Green Button file."
            )
        if self.depth > MAX_DEPTH:
            raise DataError(f"{path} nests its elements too deeply for a Green Button feed.")
        self.first = False
        if tag == "entry":
            self.links, self.content, self.block = {}, [], Block({})

    def close(self, feed: Feed) -> None:
        """Hand on what an entry held, or a file that is no more than a block."""
        for tag, content in self.content:
            if tag == "MeterReading":
                feed.meters.append(self.links)
            else:
                feed.types[last_part(self.links.get("self", [f"#{len(feed.types)}"])[0])] = content
        if self.block.starts:
            self.block.links = self.links
            feed.blocks.append(self.block)
        self.links, self.content, self.block = {}, [], Block({})


def _read_interval(element: Element, block: Block, path: Path) -> None:
    period = next((child for child in element if _tag(child) == "timePeriod"), None)
    start = None if period is None else _child(period, "start")
    value = _child(element, "value")
    if start is None or value is None:
        raise DataError(
            f"{path}: IntervalReading {len(block.starts) + 1} lacks its start or value."
        )
    quality = next((child for child in element if _tag(child) == "ReadingQuality"), None)
    if quality is not None:
        block.qualities.append(_child(quality, "quality") or "")
    length = None if period is None else _child(period, "duration")
    try:
        block.starts.append(float(start))
        block.durations.append(float(length) if length else math.nan)
        block.values.append(float(value))
    except ValueError:
        raise DataError(
            f"{path}: IntervalReading {len(block.starts)} is not numbers "
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


FORMAT = "Green Button XML"
UNITS = {"72": ("Wh", True), "38": ("W", False), "61": ("VA", False)}
OTHER_UNITS = {
    "42": "cubic metres", "119": "cubic feet", "132": "Btu", "169": "therms", "128": "US gallons",
    "134": "litres", "71": "VAh", "73": "varh", "63": "var", "5": "amperes", "29": "volts",
}  # fmt: skip
ELECTRICITY = {None, "", "0", "1", "2", "3"}
LONGEST_INTERVAL = 90_000
RARE = 0.01
REVERSE = "19"
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


class Origin(NamedTuple):
    """Links to the MeterReading and the ReadingType of a block, empty where there is none."""

    meter: str
    type: str


def read_green_button(path: Path, options: ReadOptions) -> Series:
    """The electricity readings of a feed; gas, bills and feeds without readings are refused."""
    feed = parse_feed(path)
    _refuse_other_services(feed, path)
    count = sum(len(block.starts) for block in feed.blocks)
    if count == 0:
        raise DataError(
            f"{path} is a Green Button feed without an IntervalReading (it holds {_contents(feed)})"
            ": ask the utility for the interval data."
        )
    groups: dict[Origin, list[Block]] = {}
    for block in feed.blocks:
        groups.setdefault(_origin(feed, block), []).append(block)
    notes: list[str] = []
    chosen = _choose(feed, groups, notes, path)
    series = _series(feed.types.get(chosen.type), groups[chosen], options, notes, path)
    series.zone = options.tz or _zone(feed.clock)
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


def _refuse_other_services(feed: Feed, path: Path) -> None:
    named = {"1": "gas", "2": "water", "3": "time", "4": "heat", "5": "refuse", "6": "sewerage"}
    others = feed.services & set(named)
    if others and "0" not in feed.services:
        words = ", ".join(sorted(named[kind] for kind in others))
        raise DataError(f"{path} is a feed of {words}, not of electricity.")


def _origin(feed: Feed, block: Block) -> Origin:
    """What a block belongs to: through its MeterReading, or the only ReadingType there is."""
    parents = {_stem(link) for rel in ("up", "self") for link in block.links.get(rel, [])}
    for links in feed.meters:
        related = links.get("related", [])
        mine = {_stem(link) for link in [*related, *links.get("self", [])]}
        if parents & mine or len(feed.meters) == 1:
            for link in related:
                if "ReadingType" in link:
                    return Origin(_stem(links.get("self", [""])[0]), last_part(link))
    return Origin("", next(iter(feed.types)) if len(feed.types) == 1 else "")


def _choose(feed: Feed, groups: dict[Origin, list[Block]], notes: list[str], path: Path) -> Origin:
    """The meter and type of delivered electricity with the most readings; the rest is said."""
    reasons = {origin: _refusal(feed.types.get(origin.type)) for origin in groups}
    usable = [origin for origin, reason in reasons.items() if reason is None]
    if not usable:
        why = sorted({reason for reason in reasons.values() if reason is not None})
        raise DataError(f"{path} has no electricity readings: {'; '.join(why)}.")
    chosen = max(usable, key=lambda origin: sum(len(block.starts) for block in groups[origin]))
    others = [origin for origin in groups if origin != chosen]
    if others:
        named = ", ".join(last_part(origin.meter or origin.type) for origin in others[:5])
        notes.append(f"Other meters or reading types ({len(others)}) were left out: {named}.")
    return chosen


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


def _series(
    kind: dict[str, str] | None,
    blocks: list[Block],
    options: ReadOptions,
    notes: list[str],
    path: Path,
) -> Series:
    starts = np.concatenate([block.starts for block in blocks])
    durations = np.concatenate([block.durations for block in blocks])
    values = np.concatenate([block.values for block in blocks])
    unit, factor, energy = _unit(kind, options, notes, path)
    times = unix_ns(starts, path)
    length = _length(kind, durations, path)
    durations = np.where(np.isfinite(durations) & (durations > 0), durations, length)
    if np.unique(durations).size > 1:
        notes.append("Intervals differ in length (days of 23 or 25 hours?); each used its own.")
    estimates = sum(quality in ESTIMATES for block in blocks for quality in block.qualities)
    if estimates:
        notes.append(f"{estimates} readings are marked as estimates of the utility.")
    return Series(
        times,
        values,
        FORMAT,
        unit,
        factor,
        energy,
        durations=durations,
        interval_s=length,
        chosen_s=options.interval_s,
        stamp=options.stamp or "start",
        # Values are whole numbers of the unit that the reading type declares.
        step=options.step_size or 1.0,
        repeats="last",
        notes=notes,
    )


def _unit(
    kind: dict[str, str] | None, options: ReadOptions, notes: list[str], path: Path
) -> tuple[str, float, bool]:
    if options.unit is not None:
        return options.unit, *unit_factor(options.unit)
    if kind is None:
        notes.append(
            "The feed has no ReadingType: Wh is assumed. If the power looks a thousand times too "
            "large (some utilities give thousandths), say so: --unit milliWh."
        )
        return "Wh", 1.0, True
    name, energy = UNITS[kind["uom"]]
    try:
        exponent = int(kind.get("powerOfTenMultiplier") or 0)
    except ValueError:
        exponent = 99
    if abs(exponent) > 12:
        raise DataError(
            f"{path}: powerOfTenMultiplier {kind.get('powerOfTenMultiplier')!r} makes no sense."
        )
    return name if exponent == 0 else f"{name} × 10^{exponent}", 10.0**exponent, energy


def _length(kind: dict[str, str] | None, durations: FloatArray, path: Path) -> float:
    """The usual interval [s]; bills (a month long) are refused."""
    known = durations[np.isfinite(durations) & (durations > 0)]
    declared = (kind or {}).get("intervalLength", "")
    if known.size == 0 and not declared.isdigit():
        raise DataError(f"{path}: no reading says how long its interval is.")
    length = _usual_length(known) if known.size else float(declared)
    if not 0 < length <= LONGEST_INTERVAL:
        raise DataError(
            f"{path}: its readings are {length / 86_400:.3g} days long: bills, not interval data; "
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
