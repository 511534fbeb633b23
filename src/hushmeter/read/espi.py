"""Walking through an ESPI feed: what Green Button readings are made of, gathered in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError
from hushmeter.read.source import TEXT_CAP, open_stream

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

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
