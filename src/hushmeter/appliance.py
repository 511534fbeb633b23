"""Appliances, and the catalogue of typical ones with the public source of every entry.

A household rarely knows the power and the running time of its appliances. The catalogue gives a
low, a typical and a high value for each kind of appliance. Its high values, or the words of the
user, calibrate the noise of a release; nothing that was found in the readings ever does.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple

from hushmeter.checks import one_of, positive
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


SOURCES = ("typed", "catalogue", "learnt")
PUBLIC_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Preferred numbers R10 of ISO 3: every learnt number is rounded up to one of them, times a power
of ten, before it calibrates any noise."""

QUANTITY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(kWh|Wh|kW|W|s|min|h)(?!\w)", re.IGNORECASE)
"""A number with its unit in the words about an appliance, such as "2.1 kW"."""

QUANTITIES = {
    "w": ("power", 1.0),
    "kw": ("power", 1000.0),
    "wh": ("energy_wh", 1.0),
    "kwh": ("energy_wh", 1000.0),
    "s": ("run_s", 1.0),
    "min": ("run_s", 60.0),
    "h": ("run_s", 3600.0),
}
"""Field of an appliance and factor for every unit of `QUANTITY`."""

OPTIONAL_NUMBERS = (
    "run_s",
    "runs_per_day",
    "high",
    "max_power",
    "run_high_s",
    "energy_wh",
    "use_s_per_day",
)
NUMBERS = ("power", "levels", *OPTIONAL_NUMBERS)


def checked_marks(marks: Iterable[str], known: tuple[str, ...], owner: str) -> tuple[str, ...]:
    """The names of typed numbers in a fixed order; raise `InputError` for an unknown one."""
    given = tuple(marks)
    for mark in given:
        one_of(f"typed of {owner}", mark, known)
    return tuple(name for name in known if name in given)


@dataclass(frozen=True)
class Appliance:
    """One appliance: the paper's A_i with its mean power P_i.

    Parameters
    ----------
    name : str
        Name of the appliance, unique in a home.
    power : float, optional
        Mean power while on [W]; by default the mean of `levels`.
    levels : sequence of float, optional
        Powers [W] of its on-states, for an appliance with more than one.
    run_s : float, optional
        Usual length of one run [s].
    runs_per_day : float, optional
        Usual number of runs a day.
    high : float, optional
        Upper power while on [W], such as the 99.9th percentile of its readings while on.
    max_power : float, optional
        Largest power ever measured [W]; at least `high`.
    run_high_s : float, optional
        Upper length of one run [s]; at least `run_s`.
    energy_wh : float, optional
        Largest energy of one run [Wh]; by default the protected power times the length of a run.
    use_s_per_day : float, optional
        Largest time of use a day [s], at most one day.
    source : {"typed", "catalogue", "learnt"}, default "typed"
        Where the numbers come from. Numbers that were learnt from readings are rounded up to
        `PUBLIC_STEPS` in the properties whose names begin with "protected", because these
        calibrate the noise and their exact values would tell something about the readings.
    typed : sequence of str, optional
        Numbers that somebody entered although the others have another source, such as "run_s".
        Every number that is not named here has the source of the appliance.

    Raises
    ------
    InputError
        If the name is empty, no power is given, a number is not positive and finite, or an upper
        value is below the usual one.

    Examples
    --------
    >>> hm.Appliance("kettle", 2000.0, run_s=180.0, high=2200.0).protected_power
    2200.0
    """

    name: str
    power: float = None  # type: ignore[assignment]
    levels: tuple[float, ...] = ()
    run_s: float | None = None
    runs_per_day: float | None = None
    high: float | None = None
    max_power: float | None = None
    run_high_s: float | None = None
    energy_wh: float | None = None
    use_s_per_day: float | None = None
    source: str = "typed"
    typed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("an appliance needs a name.")
        levels = tuple(sorted(positive(f"a level of {self.name}", w) for w in self.levels))
        if self.power is None and not levels:
            raise InputError(
                f"{self.name} needs a power or levels [W]: the catalogue has no such appliance."
            )
        power = sum(levels) / len(levels) if self.power is None else self.power
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "power", positive(f"power of {self.name}", power))
        one_of(f"source of {self.name}", self.source, SOURCES)
        object.__setattr__(self, "typed", checked_marks(self.typed, NUMBERS, self.name))
        for field in OPTIONAL_NUMBERS:
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, positive(f"{field} of {self.name}", value))
        self._check_order("high", "max_power")
        self._check_order("run_s", "run_high_s")
        if self.use_s_per_day is not None and self.use_s_per_day > SECONDS_PER_DAY:
            raise InputError(f"use_s_per_day of {self.name} must be at most {SECONDS_PER_DAY} s.")

    def _check_order(self, lower: str, upper: str) -> None:
        """Raise `InputError` if both fields are given and the upper one is the smaller."""
        least, most = getattr(self, lower), getattr(self, upper)
        if least is not None and most is not None and most < least:
            raise InputError(
                f"{upper} of {self.name} ({most:g}) must be at least its {lower} ({least:g})."
            )

    @staticmethod
    def from_words(text: str) -> Appliance:
        """Make an appliance from its name and, if they are known, its numbers.

        Parameters
        ----------
        text : str
            A name of the catalogue ("kettle"), a name with its power, the longest run and the
            largest energy of a run ("kettle 2100 W 180 s", "washing machine 1.2 kWh"), or any
            other name with at least a power ("aquarium 80 W 12 h").

        Returns
        -------
        Appliance
            Numbers that the text gives are used as they are. The catalogue gives the others.

        Raises
        ------
        InputError
            If the text has no name, repeats a quantity, or has neither a known name nor a power.

        Examples
        --------
        >>> hm.Appliance.from_words("kettle 2100 W 180 s").protected_power
        2100.0
        >>> hm.Appliance.from_words("kettle").protected_power
        3100.0
        """
        if text in catalogue:
            return fill_from_catalogue({"name": catalogue[text].name})
        entry: dict[str, Any] = {"name": " ".join(QUANTITY.sub(" ", text).split())}
        for number, unit in QUANTITY.findall(text):
            field, factor = QUANTITIES[unit.lower()]
            if field in entry:
                raise InputError(f"{text!r} gives two numbers for one quantity; leave one out.")
            entry[field] = float(number) * factor
        if entry["name"] in catalogue:
            entry["name"] = catalogue[entry["name"]].name
        elif entry["name"] and "power" not in entry:
            catalogue[entry["name"]]  # raises the error with the nearest name of the catalogue
        return fill_from_catalogue(entry)

    @property
    def on_levels(self) -> tuple[float, ...]:
        """Powers [W] of the on-states: `levels`, or the mean power alone."""
        return self.levels or (self.power,)

    def source_of(self, field: str) -> str:
        """Where the number of a field comes from: "typed", "catalogue" or "learnt"."""
        return "typed" if field in self.typed else self.source

    @property
    def power_field(self) -> str:
        """The field that states the protected power: "high", "levels" or "power"."""
        if self.high is not None:
            return "high"
        return "levels" if self.levels else "power"

    @property
    def run_field(self) -> str:
        """The field that states the protected length of a run: "run_high_s" or "run_s"."""
        return "run_s" if self.run_high_s is None else "run_high_s"

    @property
    def protected_power(self) -> float:
        """Power [W] that a release hides: `high` if it is known, else the highest on-level."""
        power = max(self.on_levels) if self.high is None else self.high
        return self._public(self.power_field, power)

    @property
    def protected_run_s(self) -> float | None:
        """Length of a run [s] that a release hides: of `run_high_s` and `run_s` the first known."""
        length = self.run_s if self.run_high_s is None else self.run_high_s
        return None if length is None else self._public(self.run_field, length)

    @property
    def protected_energy_wh(self) -> float | None:
        """Energy of a run [Wh] that a release hides, or None if `energy_wh` is unknown."""
        return None if self.energy_wh is None else self._public("energy_wh", self.energy_wh)

    @property
    def protected_use_s_per_day(self) -> float | None:
        """Time of use a day [s] that a release hides, or None if `use_s_per_day` is unknown."""
        if self.use_s_per_day is None:
            return None
        return min(self._public("use_s_per_day", self.use_s_per_day), float(SECONDS_PER_DAY))

    def at_largest_power(self) -> Appliance | None:
        """Return the appliance with its largest measured power as the protected one.

        None if the largest power is unknown or is protected already. The protected run and its
        energy do not change.
        """
        if self.max_power is None or self.max_power <= self.protected_power:
            return None
        return replace(
            self,
            high=self.max_power,
            run_high_s=self.protected_run_s,
            energy_wh=self.protected_energy_wh,
            source="typed",
            typed=(),
        )

    def _public(self, field: str, value: float) -> float:
        """The value of a field itself, or rounded up to a public step if it was learnt."""
        return round_up_to_public_step(value) if self.source_of(field) == "learnt" else value

    @property
    def duty(self) -> float | None:
        """Usual share of the day during which it is on, or None if its habits are unknown."""
        if self.run_s is None or self.runs_per_day is None:
            return None
        return min(1.0, self.run_s * self.runs_per_day / SECONDS_PER_DAY)


def round_up_to_public_step(value: float) -> float:
    """Round a positive number up to the next of `PUBLIC_STEPS` times a power of ten."""
    exponent = math.floor(math.log10(positive("value", value))) - 1
    for power in range(exponent, exponent + 4):
        for step in PUBLIC_STEPS:
            rounded = float(f"{step}e{power}")
            if rounded >= value:
                return rounded
    raise AssertionError(f"no public step is as large as {value}")


def fill_from_catalogue(entry: dict[str, Any]) -> Appliance:
    """The appliance of an entry, with the numbers of the catalogue where nothing is known.

    The numbers form three groups: power, run and use. A group is filled only if the entry has none
    of its numbers, so that a catalogue value never contradicts what the user has stated.
    """
    kind = catalogue.get(entry["name"])
    if kind is None:
        return Appliance(**entry)
    filled = dict(entry)
    if not filled.keys() & {"power", "levels", "high", "max_power"}:
        filled |= {"power": kind.power_w.typical, "high": kind.power_w.high}
    if not filled.keys() & {"run_s", "run_high_s"}:
        filled |= {"run_s": kind.run_s.typical, "run_high_s": kind.run_s.high}
        filled.setdefault("energy_wh", kind.run_wh.high)
    if filled != entry:
        filled.setdefault("source", "catalogue")
    appliance = Appliance(**filled)
    if filled.keys() & {"runs_per_day", "use_s_per_day"}:
        return appliance
    use = kind.use_at(appliance.protected_power)
    return replace(appliance, runs_per_day=kind.runs_per_day.typical, use_s_per_day=use)
