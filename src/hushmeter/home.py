"""A home and its appliances (Section II-A of the paper), and its file in TOML.

The paper's P is `Home.powers` [W], its δ is `Home.tolerance` [W].
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.appliance import (
    Appliance,
    checked_marks,
    fill_from_catalogue,
    round_up_to_public_step,
)
from hushmeter.checks import BoolArray, FloatArray, non_negative, positive, refuse_unknown
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.formatting import format_watts, html_facts, html_rows, short_duration
from hushmeter.trace import utc

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
        object.__setattr__(self, "typed", checked_marks(typed, ("tolerance",), "the home"))

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
        """Return the home with other appliances and with everything else unchanged."""
        return Home(
            appliances, self.tolerance, self.base_load, self.name, self.learnt_from, self.typed
        )

    def label(self, trace: Trace) -> Trace:
        """Return the trace with the true states of this home's appliances.

        The trace needs a column of power for every appliance, which counts as on above half of its
        mean power; `DataError` names an appliance that lacks one.
        """
        missing = [name for name in self.names if name not in (trace.names or ())]
        if trace.power is None or trace.names is None or missing:
            lacking = ", ".join(missing or self.names)
            raise DataError(f"the readings have no column of watts for {lacking}.")
        power = trace.power[:, [trace.names.index(name) for name in self.names]]
        return trace.derive(states=power > self.powers / 2, power=power, names=self.names)

    def truth_of(self, trace: Trace) -> BoolArray:
        """Return the true states of a trace; raise `InputError` if they are of another number."""
        states = trace.truth()
        if states.shape[1] != len(self):
            raise InputError(f"the trace has {states.shape[1]} appliances, the home {len(self)}.")
        return states

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
        if any(fill_from_catalogue(entry) != appliance for entry, appliance in pairs):
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
        >>> hm.Home.from_words("kettle, oven, car charger 7.4 kW").names
        ('kettle', 'oven', 'car charger 7.4 kW')
        """
        texts = [words] if isinstance(words, str) else list(words)
        parts = [part.strip() for text in texts for part in text.split(",")]
        return cls(Appliance.from_words(part) for part in parts if part)

    @classmethod
    def from_toml(cls, text: str) -> Home:
        """Return the home of a text; raise `TOMLDecodeError` or, for no home, `InputError`."""
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

    Examples
    --------
    >>> hm.Home.from_words("kettle, oven").save("home.toml")
    >>> hm.read_home("home.toml").names
    ('kettle', 'oven')
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
    refuse_unknown("home entry", table, HOME_KEYS)
    for entry in appliances:
        refuse_unknown("appliance entry", entry, Appliance.__dataclass_fields__)
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
        [fill_from_catalogue(entry) if fill else Appliance(**entry) for entry in appliances],
        table.get("tolerance", DEFAULT_TOLERANCE),
        table.get("base_load", 0.0),
        str(table.get("name", "home")),
        _read_learnt_from(table.get("learnt_from")),
        table.get("typed", ()),
    )


def _read_learnt_from(entry: Any) -> LearntFrom | None:
    """The origin of the learnt numbers in a table of TOML."""
    if entry is None:
        return None
    known = set(LearntFrom.__dataclass_fields__)
    if not isinstance(entry, dict) or set(entry) != known:
        raise InputError(f"learnt_from must have {', '.join(sorted(known))}.")
    return LearntFrom(**entry)
