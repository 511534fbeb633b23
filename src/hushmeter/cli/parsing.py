"""From words on the command line to values: homes, seeds, numbers, lists and ranges of ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hushmeter.errors import DataError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hushmeter.home import Home

RANGE_VALUES = 200


def parse_home(text: str) -> Home:
    """A home from a TOML file, or a ready one by its name."""
    from hushmeter.home import read_home
    from hushmeter.synth import READY_HOMES, ready_home

    if text in READY_HOMES:
        return ready_home(text)
    if not Path(text).exists():
        ready = ", ".join(sorted(READY_HOMES))
        raise DataError(f"{text} is not a file, and not a ready home either ({ready}).")
    return read_home(text)


def check_seed(seed: int | None) -> None:
    """Refuse a negative seed before anything is computed."""
    from hushmeter.checks import whole

    if seed is not None:
        whole("seed", seed, least=0)


def parse_interval(text: str) -> int:
    """Length of a reading [s]: 15min, or a bare number of seconds."""
    from hushmeter.checks import seconds

    length = seconds("interval", float(text) if text.isdecimal() else text)
    if length != int(length):
        raise InputError(f"interval must be whole seconds, got {text!r}.")
    return int(length)


def parse_watts(name: str, text: str) -> float:
    """A number of watts."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number of watts, got {text!r}.") from None


def parse_numbers(name: str, text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers with commas, got {text!r}.") from None


def parse_epsilons(text: str) -> NDArray[np.float64]:
    """ε from LO:HI (200 values, evenly spaced in ln ε) or a list with commas."""
    import numpy as np

    from hushmeter.theory.exact import positive_array

    try:
        values = [float(part) for part in text.replace(":", ",").split(",")]
    except ValueError:
        raise InputError(f"epsilon must be LO:HI or numbers with commas, got {text!r}.") from None
    checked = positive_array("epsilon", values)
    if ":" not in text:
        return checked
    if len(values) != 2 or values[0] >= values[1]:
        raise InputError(f"epsilon must be LO:HI with LO below HI, got {text!r}.")
    return np.geomspace(checked[0], checked[1], RANGE_VALUES)
