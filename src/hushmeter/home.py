"""A home and its appliances (Section II-A of the paper), and its file in TOML.

The paper's P is `Home.powers` [W], its δ is `Home.tolerance` [W].
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.appliance_kinds import catalogue
from hushmeter.checks import FloatArray, non_negative, one_of, positive
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.formatting import format_watts, html_facts, html_rows, short_duration
from hushmeter.trace import SECONDS_PER_DAY, utc

if TYPE_CHECKING:
    from hushmeter.assumptions import AssumptionCheck
    from hushmeter.trace import Trace

MOST_DOTS = 64
"""Most dots of a key or a text in the file of a home."""

HOME_KEYS = {"name", "tolerance", "base_load", "learnt_from", "typed", "use_catalogue", "appliance"}
DEFAULT_TOLERANCE = 20.0
"""Tolerance [W] of a home that does not state one. It is a fixed number, because the fluctuation
between two switches is never estimated from the readings that are to be released."""

MOST_ROWS = 20
"""Largest number of appliances that a notebook lists."""
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


def _checked_marks(marks: Iterable[str], known: tuple[str, ...], owner: str) -> tuple[str, ...]:
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
        object.__setattr__(self, "typed", _checked_marks(self.typed, NUMBERS, self.name))
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
        >>> import hushmeter as hm
        >>> hm.Appliance.from_words("kettle 2100 W 180 s").protected_power
        2100.0
        >>> hm.Appliance.from_words("kettle").protected_power
        3100.0
        """
        if text in catalogue:
            return _fill_from_catalogue({"name": catalogue[text].name})
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
        return _fill_from_catalogue(entry)

    @property
    def on_levels(self) -> tuple[float, ...]:
        """Powers [W] of the on-states: `levels`, or the mean power alone."""
        return self.levels or (self.power,)

    def source_of(self, field: str) -> str:
        """Where one number comes from.

        Parameters
        ----------
        field : str
            Name of the number, such as "power" or "run_s".

        Returns
        -------
        str
            "typed", "catalogue" or "learnt".
        """
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
        """Length of a run [s] that a release hides: `run_high_s` if it is known, else `run_s`."""
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

        Returns
        -------
        Appliance or None
            None if the largest power is unknown or is protected already. The protected run and
            its energy do not change.
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


@dataclass(frozen=True)
class LearntFrom:
    """The readings from which the learnt numbers of a home come."""

    # `digest` of the trace of the readings: SHA-256 as hexadecimal text
    sha256: str
    # Start of the first and of the last reading, UTC, as ISO 8601 text
    start: str
    end: str

    def __post_init__(self) -> None:
        if not isinstance(self.sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise InputError("sha256 of learnt_from must be 64 hexadecimal letters.")
        for moment in (self.start, self.end):
            utc(moment)

    def overlaps(self, trace: Trace) -> bool:
        """True if a trace shares a moment with the readings from which the numbers come."""
        first, last = utc(self.start), utc(self.end)
        return bool(trace.times[0] <= last and first <= trace.times[-1])


@dataclass(frozen=True)
class Home:
    """The appliances of a household, as far as an attacker knows them.

    Parameters
    ----------
    appliances : iterable of Appliance
        At least one; their names differ.
    tolerance : float, default 20
        The paper's δ [W]: largest difference between a jump of the meter and the power that
        switched.
    base_load : float, default 0
        Power that is drawn all the time by no named appliance [W].
    name : str, default "home"
        Name of the home.
    learnt_from : LearntFrom, optional
        The readings from which the tolerance, and the numbers of every appliance with the source
        "learnt", come.
    typed : sequence of str, optional
        ("tolerance",) if somebody entered the tolerance of a home that was learnt.

    Raises
    ------
    InputError
        If there is no appliance, two have the same name, or a number is out of range.

    Examples
    --------
    >>> import hushmeter as hm
    >>> home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)], 20.0)
    >>> home.powers.tolist()
    [2000.0, 120.0]
    """

    appliances: tuple[Appliance, ...]
    tolerance: float
    base_load: float = 0.0
    name: str = "home"
    learnt_from: LearntFrom | None = None
    typed: tuple[str, ...] = ()

    def __init__(
        self,
        appliances: Iterable[Appliance],
        tolerance: float = DEFAULT_TOLERANCE,
        base_load: float = 0.0,
        name: str = "home",
        learnt_from: LearntFrom | None = None,
        typed: Iterable[str] = (),
    ) -> None:
        members = tuple(appliances)
        if not members:
            raise InputError("a home needs at least one appliance.")
        seen: set[str] = set()
        for appliance in members:
            if appliance.name in seen:
                raise InputError(f"two appliances are named {appliance.name!r}.")
            seen.add(appliance.name)
        object.__setattr__(self, "appliances", members)
        object.__setattr__(self, "tolerance", positive("tolerance", tolerance))
        object.__setattr__(self, "base_load", non_negative("base_load", base_load))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "learnt_from", learnt_from)
        object.__setattr__(self, "typed", _checked_marks(typed, ("tolerance",), "the home"))

    def __repr__(self) -> str:
        """One line: the name, the number of appliances and the tolerance."""
        return f"Home({self.name[:40]!r}, {len(self)} appliances, tolerance {self.tolerance:g} W)"

    def _repr_html_(self) -> str:
        """A table of the appliances, for notebooks."""
        rows = [
            (a.name, format_watts(a.power), "" if a.run_s is None else short_duration(a.run_s))
            for a in self.appliances[:MOST_ROWS]
        ]
        if len(self) > MOST_ROWS:
            rows.append((f"and {len(self) - MOST_ROWS} more", "", ""))
        facts = {
            "tolerance": format_watts(self.tolerance),
            "base load": format_watts(self.base_load),
        }
        table = html_rows(("appliance", "power", "usual run"), rows)
        return html_facts(f"Home {self.name}", facts, table)

    def __len__(self) -> int:
        return len(self.appliances)

    @cached_property
    def powers(self) -> FloatArray:
        """The paper's P: mean on-powers [W], shape (N,), read-only."""
        powers = np.array([appliance.power for appliance in self.appliances])
        powers.flags.writeable = False
        return powers

    @property
    def is_tolerance_learnt(self) -> bool:
        """True if the tolerance was learnt from readings."""
        return self.learnt_from is not None and "tolerance" not in self.typed

    @property
    def protected_tolerance(self) -> float:
        """Tolerance [W] that a release of fluctuations hides; rounded up if it was learnt."""
        return (
            round_up_to_public_step(self.tolerance) if self.is_tolerance_learnt else self.tolerance
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Appliance names, in the order of `powers`."""
        return tuple(appliance.name for appliance in self.appliances)

    def index(self, name: str) -> int:
        """Return the column of the appliance called `name`; raise `UnknownNameError` if unknown."""
        if name not in self.names:
            raise UnknownNameError("appliance", name, self.names)
        return self.names.index(name)

    def subset(self, names: Iterable[str]) -> Home:
        """Return the home with only the named appliances.

        Parameters
        ----------
        names : iterable of str
            Names of the appliances, in the order of the new home.

        Returns
        -------
        Home
        """
        chosen = [self.appliances[self.index(name)] for name in names]
        return self.with_appliances(chosen)

    def one_power_each(self) -> Home:
        """Return the home in the paper's model: one mean power for each appliance, no levels."""
        return self.with_appliances(replace(one, levels=()) for one in self.appliances)

    def with_appliances(self, appliances: Iterable[Appliance]) -> Home:
        """Return the home with other appliances and with everything else unchanged.

        Parameters
        ----------
        appliances : iterable of Appliance

        Returns
        -------
        Home
        """
        return Home(
            appliances, self.tolerance, self.base_load, self.name, self.learnt_from, self.typed
        )

    def label(self, trace: Trace) -> Trace:
        """Return the trace with the true states of this home's appliances.

        Parameters
        ----------
        trace : Trace
            With a column of power for every appliance of the home. An appliance counts as on
            above half of its mean power.

        Raises
        ------
        DataError
            If the trace lacks the power of an appliance.
        """
        missing = [name for name in self.names if name not in (trace.names or ())]
        if trace.power is None or trace.names is None or missing:
            lacking = ", ".join(missing or self.names)
            raise DataError(f"the readings have no column of watts for {lacking}.")
        power = trace.power[:, [trace.names.index(name) for name in self.names]]
        return trace.derive(states=power > self.powers / 2, power=power, names=self.names)

    def check(self, trace: Trace | None = None, *, meter_error: float = 0.0) -> AssumptionCheck:
        """Check Assumptions 1–3 of the paper on this home and, if given, on a trace.

        Parameters
        ----------
        trace : Trace, optional
            With the true states of the appliances; Assumptions 1 and 2 need it.
        meter_error : float
            Largest relative error of the meter, such as 0.05, that the tolerance must cover. The
            readings of the trace must not contain it: use 0 for readings of the meter itself.

        Returns
        -------
        AssumptionCheck
        """
        from hushmeter.assumptions import check_assumptions

        return check_assumptions(self, trace, meter_error=meter_error)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the home as TOML.

        Parameters
        ----------
        path : str or Path
            The file.
        force : bool
            Whether to replace an existing file.

        Raises
        ------
        DataError
            If the file exists and `force` is False.
        """
        from hushmeter.files import write_text

        write_text(Path(path), self.to_toml(), force=force)

    def to_toml(self) -> str:
        """Return the home as TOML text."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the home as plain values, as in its TOML file; unknown numbers are left out."""
        table: dict[str, Any] = {
            "name": self.name,
            "tolerance": self.tolerance,
            "base_load": self.base_load,
        }
        if self.learnt_from is not None:
            table["learnt_from"] = asdict(self.learnt_from)
        if self.typed:
            table["typed"] = self.typed
        entries = [
            {field: value for field, value in vars(a).items() if value not in (None, (), "typed")}
            for a in self.appliances
        ]
        pairs = zip(entries, self.appliances, strict=True)
        if any(_fill_from_catalogue(entry) != appliance for entry, appliance in pairs):
            # The file is complete: reading it must not add what this home does not know.
            table["use_catalogue"] = False
        table["appliance"] = entries
        return table

    @classmethod
    def from_words(cls, words: str | Iterable[str]) -> Home:
        """Make a home from a list of its appliances in words.

        Parameters
        ----------
        words : str or iterable of str
            Appliances for `Appliance.from_words`; one text may list several, with commas.

        Returns
        -------
        Home
            With the default tolerance and no base load.

        Raises
        ------
        InputError
            If no appliance is named, one is named twice, or one is unknown and has no power.

        Examples
        --------
        >>> import hushmeter as hm
        >>> hm.Home.from_words("kettle, oven, car charger 7.4 kW").names
        ('kettle', 'oven', 'car charger 7.4 kW')
        """
        texts = [words] if isinstance(words, str) else list(words)
        parts = [part.strip() for text in texts for part in text.split(",")]
        return cls(Appliance.from_words(part) for part in parts if part)

    @classmethod
    def from_toml(cls, text: str) -> Home:
        """Return the home that TOML text describes.

        Raises
        ------
        tomllib.TOMLDecodeError
            If the text is not TOML.
        InputError
            If the text describes no valid home.
        """
        # A key such as a.a.a… takes memory that grows with the square of its length.
        if any(part.count(".") > MOST_DOTS for part in re.split(r"[=,{}\[\]\n]", text)):
            raise InputError(f"it has a key or a text with more than {MOST_DOTS} dots.")
        try:
            return _from_table(tomllib.loads(text))
        except RecursionError:
            raise InputError("its values are nested too deeply.") from None


def read_home(path: str | Path) -> Home:
    """Read a home from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file, as `Home.save` writes it. For an appliance of the catalogue the name is enough:
        the catalogue gives the power, the run and the use if the file gives no number for them,
        unless the file has `use_catalogue = false`. The tolerance is 20 W if the file gives none.

    Returns
    -------
    Home

    Raises
    ------
    DataError
        If the file is missing, is not TOML, or describes no valid home.
    """
    source = Path(path)
    try:
        return Home.from_toml(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{source} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{source} describes no valid home: {error}") from None


def _from_table(table: dict[str, Any]) -> Home:
    """The home that a table of TOML describes; raise `InputError` if it is not valid."""
    appliances = table.get("appliance")
    if not isinstance(appliances, list) or not all(isinstance(a, dict) for a in appliances):
        raise InputError("it has no [[appliance]] entries.")
    _refuse_unknown_keys(table, HOME_KEYS, "home")
    for entry in appliances:
        _refuse_unknown_keys(entry, set(Appliance.__dataclass_fields__), "appliance")
        if "name" not in entry:
            raise InputError("an appliance has no name.")
        if not isinstance(entry.get("levels", []), list):
            raise InputError(f"levels of {entry['name']} must be a list of watts.")
    for entry in (table, *appliances):
        if not isinstance(entry.get("typed", []), list):
            raise InputError("typed must be a list of the names of numbers.")
    fill = table.get("use_catalogue", True)
    if not isinstance(fill, bool):
        raise InputError("use_catalogue must be true or false.")
    return Home(
        [_fill_from_catalogue(entry) if fill else Appliance(**entry) for entry in appliances],
        table.get("tolerance", DEFAULT_TOLERANCE),
        table.get("base_load", 0.0),
        str(table.get("name", "home")),
        _read_learnt_from(table.get("learnt_from")),
        table.get("typed", ()),
    )


def _fill_from_catalogue(entry: dict[str, Any]) -> Appliance:
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


def _read_learnt_from(entry: Any) -> LearntFrom | None:
    """The origin of the learnt numbers in a table of TOML."""
    if entry is None:
        return None
    known = set(LearntFrom.__dataclass_fields__)
    if not isinstance(entry, dict) or set(entry) != known:
        raise InputError(f"learnt_from must have {', '.join(sorted(known))}.")
    return LearntFrom(**entry)


def _refuse_unknown_keys(table: dict[str, Any], known: set[str], kind: str) -> None:
    """Raise `UnknownNameError` for the first key that is not known."""
    for key in table:
        if key not in known:
            raise UnknownNameError(f"{kind} entry", key, known)
