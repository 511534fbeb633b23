"""The channels of a raw file: what one device writes into one column, and how a run changes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.read.headers import split_words
from hushmeter.read.recording import unit_factor
from hushmeter.trace import SECONDS_PER_HOUR

CELL = re.compile(r"([<>≥]?)\s*([-+]?[\d.,' ]*\d)\s*([kM]?Wh?)?")
BEYOND = re.compile(r"(?i)[<>≥]|ol$|over|out of|high$|max|lim|err")
THOUSAND = 1000.0


@dataclass(frozen=True)
class Run:
    """A power that is added for some time [W, s since 1970]; `seed` places the registers."""

    appliance: str
    watts: float
    first: float
    stop: float
    seed: int

    def mean(self, starts: FloatArray, ends: FloatArray) -> FloatArray:
        """Mean added power in every interval [W]."""
        overlap = np.clip(np.minimum(ends, self.stop) - np.maximum(starts, self.first), 0.0, None)
        mean: FloatArray = self.watts * overlap / np.maximum(ends - starts, 1e-9)
        return mean


@dataclass
class Form:
    """How a column writes its numbers."""

    decimals: int = 0
    comma: bool = False
    unit: str = ""
    larger: str = ""
    larger_decimals: int = 0
    off: Any = None
    word: str = ""
    limit: float = np.inf
    width: int = 0
    typed: bool = False
    whole: bool = False

    def cell(self, value: float) -> Any:
        """The cell of a value, as the device would write it."""
        if value > self.limit:
            return self.word
        if self.off is not None and abs(value) < 0.5 * 10.0**-self.decimals:
            return self.off
        unit, decimals = self.unit, self.decimals
        if self.larger and abs(value) >= THOUSAND:
            value, unit, decimals = value / THOUSAND, self.larger, self.larger_decimals
        if self.typed:
            return round(value) if self.whole else value
        text = f"{value:0{self.width}.{decimals}f}"
        if float(text) == 0:
            text = text.lstrip("-")
        return (text.replace(".", ",") if self.comma else text) + (f" {unit}" if unit else "")


def read_cells(cells: Sequence[Any]) -> tuple[FloatArray, Form]:
    """The numbers of a column (NaN where there is none), in its smaller unit, and its form."""
    values = np.full(len(cells), np.nan)
    form, rest = Form(), Counter[Any]()
    decimals: dict[str, int] = {}
    texts = [cell for cell in cells if isinstance(cell, str)]
    form.comma = any("," in text for text in texts) and not any("." in text for text in texts)
    form.typed = not texts or any(isinstance(cell, int | float) for cell in cells)
    form.whole = all(isinstance(cell, int) for cell in cells if isinstance(cell, int | float))
    for i, cell in enumerate(cells):
        if isinstance(cell, int | float):
            values[i] = cell
            continue
        match = CELL.fullmatch(cell.strip()) if isinstance(cell, str) else None
        if match is None or match[1]:
            rest[cell] += 1
            if isinstance(cell, str) and BEYOND.match(cell):
                form.word = cell
                form.limit = _number(match[2], form.comma) if match else np.nan
            continue
        values[i] = _number(match[2], form.comma) * (THOUSAND if "k" in (match[3] or "") else 1.0)
        digits = len(re.split("[.,]", match[2])[1]) if re.search("[.,]", match[2]) else 0
        decimals[match[3] or ""] = max(decimals.get(match[3] or "", 0), digits)
    units = sorted(decimals, key=len)
    if units:
        form.unit, form.decimals = units[0], decimals[units[0]]
        if len(units) > 1:
            form.larger, form.larger_decimals = units[-1], decimals[units[-1]]
        elif units[0].startswith("k"):
            values = values / THOUSAND
        elif units[0] and np.nanmax(values) < THOUSAND:
            # Nothing in the file shows how such a device writes a thousand watts.
            form.larger, form.larger_decimals = f"k{units[0]}", 2
    if np.isnan(form.limit):
        form.limit = float(np.nanmax(values, initial=-np.inf))
    zeros = Counter(cell for cell, v in zip(cells, values, strict=True) if v == 0)
    idle = rest + zeros if not form.word else zeros
    if idle and sum(idle.values()) >= 0.5 * len(cells):
        form.off = idle.most_common(1)[0][0]
    return values, form


def _number(text: str, comma: bool) -> float:
    plain = re.sub("[' ]", "", text)
    plain = plain.replace(".", "").replace(",", ".") if comma else plain.replace(",", "")
    return float(plain)


@dataclass
class Channel:
    """What one device writes into one column."""

    # use, export, plug, sum (all that is drawn), cost or peak
    name: str
    role: str
    places: list[tuple[int, int]]
    # The interval of every cell [s since 1970]; for a counter, since the cell before
    starts: FloatArray
    ends: FloatArray
    values: FloatArray  # In the unit of the cells; NaN where there is no number
    watts: FloatArray  # Watts of the interval in one unit of a cell
    counter: bool
    form: Form

    @property
    def powers(self) -> FloatArray:
        """Mean power of every interval [W]; of a counter, from its differences."""
        units = np.diff(self.values, prepend=self.values[:1]) if self.counter else self.values
        return np.nan_to_num(units) * self.watts

    def changed(self, added: FloatArray, seed: int) -> dict[tuple[int, int], Any]:
        """The cells that change if the mean power of every interval rises by `added` [W]."""
        units = added / self.watts
        if self.counter:
            step = 10.0**-self.form.decimals
            phase = np.random.default_rng([seed, len(self.name)]).uniform(0.0, 1.0)
            units = np.floor(np.cumsum(units) / step + phase + 1e-9) * step
        result = {}
        for i in np.flatnonzero(np.abs(units) > 0):
            value = self.values[i]
            if np.isnan(value):
                # The cell of a device that failed stays as it is; a plug that was off was silent.
                if self.role != "plug" or self.form.off is None:
                    continue
                value = 0.0
            result[self.places[i]] = self.form.cell(float(value + units[i]))
        return result


def make_channel(
    cells: Sequence[Sequence[Any]],
    role: str,
    places: list[tuple[int, int]],
    starts: Any,
    lengths: Any,
    unit: str,
    *,
    name: str = "",
    counter: bool = False,
) -> Channel:
    """The channel of these places among all cells; times are in seconds."""
    values, form = read_cells([cells[i][j] for i, j in places])
    factor, energy = unit_factor(unit)
    starts = np.asarray(starts, dtype=np.float64)
    lengths = np.broadcast_to(np.asarray(lengths, dtype=np.float64), starts.shape)
    watts = factor * SECONDS_PER_HOUR / lengths if energy else np.full(starts.shape, factor)
    if role != "plug":
        form.off = None
    ends = starts + lengths
    return Channel(name or role, role, places, starts, ends, values, watts, counter, form)


@dataclass
class Words:
    """A column of words that follow from the meter's power, the word of the least power first."""

    places: list[tuple[int, int]]
    powers: FloatArray
    starts: FloatArray
    ends: FloatArray
    words: list[str]
    limits: list[float]

    def changed(self, added: FloatArray) -> dict[tuple[int, int], Any]:
        """The cells that change if the power of every interval rises by `added` [W]."""
        new = np.searchsorted(self.limits, self.powers + added)
        return {self.places[i]: self.words[new[i]] for i in np.flatnonzero(added > 0)}


def is_plug_of(column: str, appliance: str) -> bool:
    """True if a column or sensor is named after an appliance."""
    wanted = set(split_words(appliance))
    words = split_words(re.sub(r"[._-]", " ", column))
    return bool(wanted) and wanted <= set(words)


def set_price(channels: list[Channel]) -> None:
    """Let a cost follow the energy of the meter: its cells are worth watts at the usual price."""
    meter = next((c for c in channels if c.role == "use"), None)
    for channel in channels:
        if channel.role == "cost" and meter is not None and not channel.name.startswith("priced "):
            powers = dict(zip(meter.starts.tolist(), meter.powers.tolist(), strict=True))
            mine = np.array([powers.get(t, 0.0) for t in channel.starts.tolist()])
            known = (mine > 0) & (channel.values > 0)
            worth = np.median(mine[known] / channel.values[known]) if known.any() else np.inf
            channel.watts = np.full(mine.size, worth)
            channel.name = f"priced {channel.name}"


def sum_by_time(channels: Sequence[Channel], powers: Sequence[FloatArray]) -> dict[float, float]:
    """The sum of several channels at every start [W]."""
    total: dict[float, float] = {}
    for channel, own in zip(channels, powers, strict=True):
        for start, power in zip(channel.starts.tolist(), own.tolist(), strict=True):
            total[start] = total.get(start, 0.0) + power
    return total


def find_takers(channels: Sequence[Channel]) -> list[FloatArray]:
    """1 where a channel takes what is drawn: of several tariffs or phases the largest."""
    best: dict[float, tuple[float, int]] = {}
    for number, channel in enumerate(channels):
        known = np.isfinite(channel.values)
        for start, power, there in zip(channel.starts.tolist(), channel.powers.tolist(),
                                       known.tolist(), strict=True):  # fmt: skip
            rank = (power if there else -1.0, -number)
            if start not in best or rank > best[start]:
                best[start] = rank
    return [
        np.array([best[t][1] == -number for t in channel.starts.tolist()], dtype=np.float64)
        for number, channel in enumerate(channels)
    ]


__all__ = [
    "Channel",
    "Form",
    "Run",
    "Words",
    "find_takers",
    "is_plug_of",
    "make_channel",
    "read_cells",
    "set_price",
    "sum_by_time",
]
