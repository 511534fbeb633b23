"""Numbers as people say them: shares, watts, lengths of time."""

from __future__ import annotations


def times(share: float) -> str:
    """A share as “so many of 100”, never rounded up to certainty."""
    if share >= 0.9995:
        return "100" if share == 1 else "over 99.9"
    number = f"{100 * share:.1f}"
    return number.removesuffix(".0")


def watts(value: float) -> str:
    """Watts with three digits, kilowatts from 1000 on, never an exponent for what is large."""
    rounded = float(f"{value:.3g}")
    return f"{rounded / 1000:.12g} kW" if abs(rounded) >= 1000 else f"{rounded:g} W"


def two_digits(value: float) -> str:
    """Two digits, and never an exponent for what is large."""
    return f"{value:.2g}" if value < 99.5 else f"{float(f'{value:.2g}'):.0f}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is shortest to say."""
    for size, word in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {word}"
    return f"{seconds:g} s"


def even_duration(seconds: float) -> str:
    """Days, hours or minutes where they come out even, else seconds."""
    for size, word in ((86_400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {word}"
    return f"{seconds:g} s"


def say_duration(seconds: float) -> str:
    """Seconds, minutes, hours or days in words."""
    for size, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            number = seconds / size
            return f"{number:.3g} {word}{'s' if round(number, 2) != 1 else ''}"
    return f"{seconds:g} s"
