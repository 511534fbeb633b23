"""Writer of Green Button feeds, which the tools of households and utilities can read.

A feed has one UsagePoint, one MeterReading, one ReadingType (energy delivered per interval), and
an IntervalBlock for every stretch of at most 10 000 readings without a gap. The feed contains no
name or address. Its identifiers are derived from the position of an entry in the feed, so that
the same trace always gives the same file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.trace import Trace, iso

ATOM, ESPI = "http://www.w3.org/2005/Atom", "http://naesb.org/espi"
BASE = "/espi/1_1/resource"
POINT = f"{BASE}/RetailCustomer/1/UsagePoint/1"
METER = f"{POINT}/MeterReading/1"
TYPE = f"{BASE}/ReadingType/1"
# Powers of ten of the unit: nano-watt-hours, or micro-watt-hours if a value would need more than
# the 48 bits of an ESPI integer.
FINE, COARSE = -9, -6
LARGEST_VALUE = 2.0**47
LONGEST_BLOCK = 10_000


def green_button_text(trace: Trace) -> str:
    """Return a feed with the energy of every interval in whole nano- or micro-watt-hours."""
    if abs(trace.interval_s - round(trace.interval_s)) > 1e-9:
        raise InputError(
            f"Green Button needs an interval of whole seconds, but the trace has "
            f"{trace.interval_s:g} s; release means over longer intervals."
        )
    return "".join(_feed(trace))


def _feed(trace: Trace) -> Iterator[str]:
    """The parts of the XML text, in order."""
    updated = iso(trace.times[-1].astype("datetime64[s]"))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<feed xmlns="{ATOM}">\n<id>{_identifier("feed")}</id>\n'
    yield f"<title>Green Button Usage Feed</title>\n<updated>{updated}</updated>\n"
    service = "<ServiceCategory><kind>0</kind></ServiceCategory>"
    yield _entry(
        POINT, (f"{POINT}/MeterReading",), _espi("UsagePoint", service), "Electricity", updated
    )
    energy = trace.readings * (trace.interval_s / 3600)
    exponent = FINE if np.abs(energy).max() * 10.0**-FINE < LARGEST_VALUE else COARSE
    links = (f"{METER}/IntervalBlock", TYPE)
    yield _entry(METER, links, _espi("MeterReading", ""), "Released readings", updated)
    yield _entry(
        TYPE, (), _espi("ReadingType", _reading_type(trace, exponent)), "Energy delivered", updated
    )
    for number, (first, stop) in enumerate(_blocks(trace), 1):
        block = _espi("IntervalBlock", _block(trace, energy, exponent, first, stop))
        yield _entry(f"{METER}/IntervalBlock/{number}", (), block, "", updated)
    yield "</feed>\n"


def _reading_type(trace: Trace, exponent: int) -> str:
    """The ReadingType: energy (kind 12) in watt-hours (uom 72), delivered (flowDirection 1)."""
    parts = {
        "accumulationBehaviour": 4,
        "commodity": 1,
        "currency": 840,
        "dataQualifier": 12,
        "flowDirection": 1,
        "intervalLength": round(trace.interval_s),
        "kind": 12,
        "phase": 769,
        "powerOfTenMultiplier": exponent,
        "timeAttribute": 0,
        "uom": 72,
    }
    return "".join(f"<{name}>{value}</{name}>" for name, value in parts.items())


def _blocks(trace: Trace) -> Iterator[tuple[int, int]]:
    """First row and row after the last of every block; no block contains a gap."""
    for run in trace.runs:
        for first in range(run.start, run.stop, LONGEST_BLOCK):
            yield first, min(run.stop, first + LONGEST_BLOCK)


def _block(trace: Trace, energy: FloatArray, exponent: int, first: int, stop: int) -> str:
    """The readings of one IntervalBlock."""
    seconds = trace.times[first:stop].astype("datetime64[s]").astype(np.int64)
    units = np.rint(energy[first:stop] * 10.0**-exponent).astype(np.int64)
    length = round(trace.interval_s)
    head = _period("interval", length * (stop - first), int(seconds[0]))
    readings = (
        f"<IntervalReading>{_period('timePeriod', length, start)}<value>{value}</value>"
        "</IntervalReading>\n"
        for start, value in zip(seconds.tolist(), units.tolist(), strict=True)
    )
    return head + "".join(readings)


def _period(tag: str, duration: int, start: int) -> str:
    """A length of time and its start, both in seconds."""
    return f"<{tag}><duration>{duration}</duration><start>{start}</start></{tag}>"


def _espi(tag: str, inner: str) -> str:
    """An element of the ESPI name space."""
    return f'<{tag} xmlns="{ESPI}">{inner}</{tag}>'


def _entry(link: str, related: tuple[str, ...], content: str, title: str, updated: str) -> str:
    """An entry of the Atom feed with its links."""
    up = link.rsplit("/", 1)[0]
    links = "".join(f'<link rel="related" href="{href}"/>' for href in related)
    return (
        f"<entry><id>{_identifier(link)}</id>"
        f'<link rel="self" href="{link}"/><link rel="up" href="{up}"/>{links}'
        f"<title>{title}</title><content>{content}</content>"
        f"<published>{updated}</published><updated>{updated}</updated></entry>\n"
    )


def _identifier(name: str) -> str:
    """An identifier that depends on nothing but the position in the feed."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'hushmeter:{name}')}"
