"""The catalogue of typical household appliances, with the public source of every entry.

A household rarely knows the power and the running time of its appliances. The catalogue gives a
low, a typical and a high value for each kind of appliance. Its high values, or the words of the
user, calibrate the noise of a release; nothing that was found in the readings ever does.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple

from hushmeter.errors import InputError
from hushmeter.trace import SECONDS_PER_DAY

FILE = "appliance_kinds.toml"


class Range(NamedTuple):
    """A low, a typical and a high value, about the 5th, the 50th and the 99th percentile."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True)
class ApplianceKind:
    """One entry of the catalogue.

    Attributes
    ----------
    name : str
        Name of the kind, such as "kettle".
    group : str
        Group of kinds, such as "kitchen".
    power_w : Range
        Power while on, held for a minute or longer [W].
    run_s : Range
        Time from switching on to switching off, with the pauses of a programme [s].
    run_wh : Range
        Energy of one run [Wh].
    runs_per_day : Range
        Number of runs a day.
    day_wh : float
        Energy that a day rarely exceeds [Wh].
    aliases : tuple of str
        Other names of the kind.
    basis : str
        Explanation of the high values.
    sources : tuple of str
        Public sources of the numbers.
    ask : bool
        True if the kind has so many sizes that a wish must state the power of its own.
    """

    name: str
    group: str
    power_w: Range
    run_s: Range
    run_wh: Range
    runs_per_day: Range
    day_wh: float
    aliases: tuple[str, ...]
    basis: str
    sources: tuple[str, ...]
    ask: bool = False

    @property
    def use_s_per_day(self) -> float:
        """Time a day at the high power that takes `day_wh` [s], at most one day."""
        return self.use_at(self.power_w.high)

    def use_at(self, watts: float) -> float:
        """Time a day at a given power [W] that takes `day_wh`, in whole minutes [s].

        The result is rounded up, and is at most one day.
        """
        minutes = math.ceil(self.day_wh * 60 / watts)
        return min(float(SECONDS_PER_DAY), 60.0 * minutes)


@dataclass(frozen=True)
class Household:
    """What a household uses above its base load on a day at home."""

    name: str
    power_w: Range  # Power above the base load [W]
    day_wh: Range  # Energy of a day above the base load [Wh]
    basis: str  # Explanation of the high values
    sources: tuple[str, ...]  # Public sources of the numbers


class Catalogue(Mapping[str, ApplianceKind]):
    """The kinds of appliances by name.

    Upper and lower case, spaces and hyphens do not matter, and an alias such as "tv" finds the
    kind "television". Iteration gives the names in the order of the file, without aliases.

    Examples
    --------
    >>> import hushmeter as hm
    >>> kettle = hm.catalogue["kettle"]
    >>> kettle.power_w.high, kettle.run_wh.high
    (3100.0, 235.0)
    >>> hm.catalogue["TV"].name
    'television'
    """

    @cached_property
    def _file(self) -> dict[str, Any]:
        text = resources.files("hushmeter").joinpath(FILE).read_text(encoding="utf-8")
        return tomllib.loads(text)

    @cached_property
    def _kinds(self) -> dict[str, ApplianceKind]:
        """The kinds in the order of the file."""
        sources = self._file["sources"]
        return {entry["name"]: _kind(entry, sources) for entry in self._file["kind"]}

    @cached_property
    def households(self) -> dict[str, Household]:
        """The households by name; the last one has the largest numbers."""
        sources = self._file["sources"]
        return {
            entry["name"]: Household(
                entry["name"],
                Range(*map(float, entry["power_w"])),
                Range(*map(float, entry["day_wh"])),
                entry["basis"],
                tuple(sources[key] for key in entry["sources"]),
            )
            for entry in self._file["household"]
        }

    @cached_property
    def _names(self) -> dict[str, str]:
        """Name of the kind for every name and alias, in its plain form."""
        return {
            _plain(word): kind.name
            for kind in self._kinds.values()
            for word in (kind.name, *kind.aliases)
        }

    def __getitem__(self, name: str) -> ApplianceKind:
        """Return the kind with this name or alias; raise `InputError` if there is none."""
        found = self._names.get(_plain(name)) if isinstance(name, str) else None
        if found is None:
            near = difflib.get_close_matches(_plain(str(name)), self._names, n=1)
            hint = f"did you mean {self._names[near[0]]!r}? " if near else ""
            raise UnknownKindError(
                f"the catalogue has no appliance named {str(name)!r}; {hint}`hushmeter catalogue` "
                f'lists all names. Any other appliance needs its power: "{name} 300 W 2 h".'
            )
        return self._kinds[found]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} kinds of appliances: {', '.join(list(self)[:3])}, …)"


class UnknownKindError(InputError, KeyError):
    """The catalogue has no appliance with this name."""

    def __str__(self) -> str:
        return str(self.args[0])


catalogue = Catalogue()


def _kind(entry: dict[str, Any], sources: dict[str, str]) -> ApplianceKind:
    """The kind that one table of the file describes."""
    ranges = {
        field: Range(*map(float, entry[field]))
        for field in ("power_w", "run_s", "run_wh", "runs_per_day")
    }
    return ApplianceKind(
        entry["name"],
        entry["group"],
        **ranges,
        day_wh=float(entry["day_wh"]),
        aliases=tuple(entry["aliases"]),
        basis=entry["basis"],
        sources=tuple(sources[key] for key in entry["sources"]),
        ask=entry.get("ask", False),
    )


def _plain(name: str) -> str:
    """A name without capitals, spaces and hyphens, so that "E-bike  charger" is found."""
    return "".join(name.casefold().replace("-", " ").split())
