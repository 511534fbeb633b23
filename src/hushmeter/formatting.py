"""Numbers as text for people, and small tables for notebooks.

Shares are given out of 100, powers in watts, energies in kilowatt-hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypeVar

Item = TypeVar("Item")


def out_of_100(share: float) -> str:
    """Format a share as a number out of 100, such as "71.4"."""
    if share >= 0.9995:
        return "100" if share == 1 else "over 99.9"
    number = f"{100 * share:.1f}"
    return number.removesuffix(".0")


def odds_out_of_100(odds: float) -> str:
    """Format odds out of 100; they are never rounded up to certainty."""
    return out_of_100(min(odds, 1 - 1e-12))


def format_watts(value: float) -> str:
    """Format a power [W] with three significant digits, from 1000 W on in kilowatts."""
    rounded = float(f"{value:.3g}")
    return f"{rounded / 1000:.12g} kW" if abs(rounded) >= 1000 else f"{rounded:g} W"


def format_watt_hours(value: float) -> str:
    """Format an energy [Wh] with three significant digits, from 1000 Wh on in kilowatt-hours."""
    rounded = float(f"{value:.3g}")
    return f"{rounded / 1000:.12g} kWh" if abs(rounded) >= 1000 else f"{rounded:g} Wh"


def format_two_digits(value: float) -> str:
    """Format a number with two significant digits; large numbers get no exponent."""
    return f"{value:.2g}" if value < 99.5 else f"{float(f'{value:.2g}'):.0f}"


def count_of(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as "1 file" or "3 files"."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def spread_out(values: Sequence[Item], most: int) -> list[Item]:
    """Choose at most `most` of the values evenly, with the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def short_duration(seconds: float) -> str:
    """Format a length of time [s] briefly, such as "6 s", "1.5 min" or "24 h".

    The number has three digits at most. A length that three digits round up to the next unit is
    given in that unit: 3598 s is "1 h", not "60 min".
    """
    rounded = float(f"{seconds:.3g}")
    for name, size in (("h", 3600), ("min", 60)):
        if rounded >= size:
            return f"{float(f'{rounded / size:.3g}'):g} {name}"
    return f"{rounded:g} s"


def duration_in_words(seconds: float) -> str:
    """Format a length of time [s] for a sentence, such as "30 minutes"; at most three digits."""
    for name, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            number = seconds / size
            digits = f"{float(f'{number:.3g}'):g}"
            return f"{digits} {name if digits == '1' else f'{name}s'}"
    return f"{seconds:g} s"


def html_facts(title: str, facts: Mapping[str, str], picture: str = "") -> str:
    """Return a small table of names and values as HTML for a notebook."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table>{picture}</div>"


def html_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a header as HTML; all cells are escaped."""
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(c)}</td>" for c in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def html_line(lines: Iterable[Iterable[Sequence[float]]], label: str) -> str:
    """Return lines of points between 0 and 1 as a small picture in SVG."""
    paths = "".join(
        "<polyline points='"
        + " ".join(f"{400 * x:.1f},{60 - 56 * y - 2:.1f}" for x, y in points)
        + "'/>"
        for points in lines
    )
    return (
        "<svg viewBox='0 0 400 60' width='400' height='60' role='img' fill='none' "
        f"stroke='#0072B2'><title>{escape(label)}</title>{paths}</svg>"
    )
