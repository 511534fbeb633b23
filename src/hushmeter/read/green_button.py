"""Green Button / ESPI: an Atom feed of energy readings, as North American utilities give it.

An IntervalBlock belongs to a MeterReading, which names its ReadingType, all by links. Values are
uom × 10^powerOfTenMultiplier; starts are UTC seconds. Namespaces come with and without prefixes,
blocks overlap, and some feeds leave the ReadingType to another file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.errors import DataError
from hushmeter.read.espi import Block, Feed, last_part, parse_feed
from hushmeter.read.grid import unix_ns
from hushmeter.read.options import ReadOptions, unit_factor
from hushmeter.read.recording import Series

FORMAT = "Green Button XML"
UNITS = {"72": ("Wh", True), "38": ("W", False), "61": ("VA", False)}
OTHER_UNITS = {
    "42": "cubic metres", "119": "cubic feet", "132": "Btu", "169": "therms", "128": "US gallons",
    "134": "litres", "71": "VAh", "73": "varh", "63": "var", "5": "amperes", "29": "volts",
}  # fmt: skip
ELECTRICITY = {None, "", "0", "1", "2", "3"}
LONGEST_INTERVAL = 90_000
REVERSE = "19"


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
    groups: dict[str, list[Block]] = {}
    for block in feed.blocks:
        groups.setdefault(_type_link(feed, block), []).append(block)
    notes: list[str] = []
    chosen = _choose(feed, groups, notes, path)
    return _series(feed.types.get(chosen), groups[chosen], options, notes, path)


def _refuse_other_services(feed: Feed, path: Path) -> None:
    named = {"1": "gas", "2": "water", "3": "time", "4": "heat", "5": "refuse", "6": "sewerage"}
    others = feed.services & set(named)
    if others and "0" not in feed.services:
        words = ", ".join(sorted(named[kind] for kind in others))
        raise DataError(f"{path} is a feed of {words}, not of electricity.")


def _type_link(feed: Feed, block: Block) -> str:
    """The ReadingType a block belongs to: through its MeterReading, or the only one there is."""
    parents = {_stem(link) for rel in ("up", "self") for link in block.links.get(rel, [])}
    for links in feed.meters:
        related = links.get("related", [])
        mine = {_stem(link) for link in [*related, *links.get("self", [])]}
        if parents & mine or len(feed.meters) == 1:
            for link in related:
                if "ReadingType" in link:
                    return last_part(link)
    return next(iter(feed.types)) if len(feed.types) == 1 else ""


def _choose(feed: Feed, groups: dict[str, list[Block]], notes: list[str], path: Path) -> str:
    """The type of delivered electricity with the most readings; what else is there is said."""
    usable, why = [], []
    for link in groups:
        reason = _refusal(feed.types.get(link))
        if reason is None:
            usable.append(link)
        else:
            why.append(reason)
    if not usable:
        raise DataError(f"{path} has no electricity readings: {'; '.join(sorted(set(why)))}.")

    def rank(link: str) -> tuple[bool, int]:
        delivered = feed.types.get(link, {}).get("flowDirection") != REVERSE
        return delivered, sum(len(block.starts) for block in groups[link])

    chosen = max(usable, key=rank)
    others = len(groups) - 1
    if others:
        notes.append(f"{others} other reading types in the feed were left out.")
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
    if kind.get("accumulationBehaviour") in ("1", "3", "9"):
        return "the values are a running register, not energy per interval"
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
    return Series(
        times,
        values,
        FORMAT,
        unit,
        factor,
        energy,
        durations=durations if energy else None,
        interval_s=length,
        stamp=options.stamp or "start",
        lenient=options.repeats != "refuse",
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


def _length(kind: dict[str, str] | None, durations: Any, path: Path) -> float:
    """The usual interval [s]; bills (a month long) are refused."""
    known = durations[np.isfinite(durations) & (durations > 0)]
    declared = (kind or {}).get("intervalLength", "")
    if known.size == 0 and not declared.isdigit():
        raise DataError(f"{path}: no reading says how long its interval is.")
    length = float(np.median(known)) if known.size else float(declared)
    if not 0 < length <= LONGEST_INTERVAL:
        raise DataError(
            f"{path}: its readings are {length / 86_400:.3g} days long: bills, not interval data; "
            "ask the utility for hourly or 15-minute readings."
        )
    return length


def _contents(feed: Feed) -> str:
    parts = [f"{len(feed.types)} ReadingType", f"{len(feed.meters)} MeterReading"]
    return ", ".join([*parts, f"{len(feed.services)} service"])


def _stem(link: str) -> str:
    """The MeterReading part of a link to it or to its blocks."""
    head, found, rest = link.rstrip("/").partition("/MeterReading/")
    return f"{head}{found}{rest.split('/')[0]}" if found else link
