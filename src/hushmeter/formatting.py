"""Numbers as text for people: shares out of 100, watts, kilowatt-hours and lengths of time."""

from __future__ import annotations


def out_of_100(share: float) -> str:
    """Format a share as a number out of 100, such as "71.4".

    Parameters
    ----------
    share : float
        Between 0 and 1.

    Returns
    -------
    str
        One digit after the point at most. A share below 1 is never rounded up to "100".
    """
    if share >= 0.9995:
        return "100" if share == 1 else "over 99.9"
    number = f"{100 * share:.1f}"
    return number.removesuffix(".0")


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
            return f"{number:.3g} {name if round(number, 2) == 1 else f'{name}s'}"
    return f"{seconds:g} s"
