"""The plan of a study: its homes, attackers, mechanisms, ε and seeds, read from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter import synth
from hushmeter.attack.registry import attackers
from hushmeter.checks import FloatArray, one_of, positive, seconds, whole
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.home import Home, read_home
from hushmeter.noise import find_kind
from hushmeter.privacy.units import PROTECT
from hushmeter.read import read_home_recording
from hushmeter.trace import Trace


@dataclass(frozen=True)
class Case:
    """A home with readings to attack and other readings to learn from.

    Attributes
    ----------
    name : str
        Name of the case in the results.
    home : Home
        The home.
    train, test : Trace
        Readings from which attackers learn, and readings that are released and attacked.
    """

    name: str
    home: Home
    train: Trace
    test: Trace


@dataclass(frozen=True)
class Contender:
    """An attacker of the study.

    Attributes
    ----------
    label : str
        Name in the results.
    name : str
        Name of a registered attacker.
    parameters : dict
        Parameters of the attacker.
    knows_noise : bool, optional
        Whether the attacker knows the noise distribution of each release. If it is not given,
        every attacker that can use the distribution knows it (`Attacker.uses_noise`).
    thinned : (int, int)
        (p, q): of every q pieces of p readings only the first one is attacked, so that a slow
        attacker sees all days of a long series; (1, 1) for all readings.
    releases : int, optional
        Number of releases that it attacks, if fewer than the seeds of the study.
    """

    label: str
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    knows_noise: bool | None = None
    thinned: tuple[int, int] = (1, 1)
    releases: int | None = None

    def thin(self, trace: Trace) -> Trace:
        """Return the readings that this attacker attacks; the others become gaps."""
        piece, every = self.thinned
        if every == 1:
            return trace
        return trace.select(np.flatnonzero(np.arange(len(trace)) // piece % every == 0))


@dataclass(frozen=True)
class Study:
    r"""Everything that determines the result of a sweep.

    Attributes
    ----------
    name : str
        Name of the study.
    cases : tuple of Case
        The homes and their readings.
    contenders : tuple of Contender
        The attackers.
    mechanisms : tuple of str
        Names of the mechanisms.
    epsilons : tuple of float
        Values of ε.
    seeds : int
        Number of releases of each kind.
    seed : int
        Seed of the whole study.
    protect : str
        What ε protects in one reading; see `resolve_unit`.
    sensitivity : float or None
        Protected change for `protect` = "change". [W]
    delta : float
        δ of the Gaussian mechanism.
    knows_first_state : bool
        Whether every attacker knows which appliances are on at the first reading, X_0 of the
        paper. Without it, the baseline that this state lasts has no score.
    paper_noise : bool
        Whether readings are released on a grid of which Δf is a multiple, fine against the noise,
        so that Laplace noise has the paper's scale λ = Δf/ε. A release on the usual grid of 1 W
        has up to one step more.
    block_s : float or None
        Length of the blocks [s] whose hits and errors are counted in the column `counts` of each
        row, for intervals over blocks; by default they are not counted.
    theory : bool
        Whether the rows of the first seed have the column `expected`: the exact E[α] on all
        readings, of the attackers for which it can be computed.

    Raises
    ------
    InputError
        If a part is missing, a name occurs twice, or a value is out of its range.

    Examples
    --------
    >>> case = '[[case]]\nhome = "similar8"\nreadings = 60\n[[attacker]]\nname = "hold"\n'
    >>> _ = Path("study.toml").write_text('name = "small"\n' + case)
    >>> hm.read_study("study.toml").mechanisms
    ('laplace',)
    """

    name: str
    cases: tuple[Case, ...]
    contenders: tuple[Contender, ...]
    mechanisms: tuple[str, ...] = ("laplace",)
    epsilons: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
    seeds: int = 5
    seed: int = 0
    protect: str = "fluctuation"
    sensitivity: float | None = None
    delta: float = 1e-6
    knows_first_state: bool = False
    paper_noise: bool = False
    block_s: float | None = None
    theory: bool = False

    def __post_init__(self) -> None:
        if not (self.cases and self.contenders and self.mechanisms and self.epsilons):
            raise InputError("a study needs a case, an attacker, a mechanism and an epsilon.")
        for kind, names in (
            ("case", [case.name for case in self.cases]),
            ("attacker", [one.label for one in self.contenders]),
        ):
            if len(set(names)) < len(names):
                raise InputError(f"two {kind}s of the study have the same name.")
        for mechanism in self.mechanisms:
            find_kind(mechanism)
        for epsilon in self.epsilons:
            positive("epsilon", epsilon)
        for one in self.contenders:
            # A module of the user is imported by the sweep, not by everyone who reads the study.
            if ":" not in one.name and not attackers[one.name].uses_noise and one.knows_noise:
                raise InputError(
                    f"the attacker {one.name} cannot use the noise distribution: remove "
                    f"knows_noise = true from {one.label}."
                )
        whole("seeds", self.seeds)
        whole("seed", self.seed, least=0)
        one_of("protect", self.protect, PROTECT)
        if not isinstance(self.knows_first_state, bool):
            raise InputError(
                f"knows_first_state must be true or false, got {self.knows_first_state!r}."
            )


def read_study(path: str | Path) -> Study:
    r"""Read a study from TOML; the paths in it are relative to its folder.

    Parameters
    ----------
    path : str or Path
        The TOML file.

    Returns
    -------
    Study
        The study with its data.

    Raises
    ------
    DataError
        If the file or a file that it names cannot be read, or the study is not valid.

    Examples
    --------
    >>> case = '[[case]]\nhome = "similar8"\nreadings = 60\n[[attacker]]\nname = "hold"\n'
    >>> _ = Path("study.toml").write_text('name = "small"\n' + case)
    >>> hm.read_study("study.toml").seeds
    5
    """
    source = Path(path)
    try:
        table = tomllib.loads(source.read_text(encoding="utf-8"))
        return study_from(table, source.parent, source.stem)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{source} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{source} is not a valid study: {error}") from None


def move_study(source: Path, folder: Path) -> str:
    """Return the TOML of a study with its paths rewritten for another folder."""
    import os

    import tomli_w

    table = tomllib.loads(source.read_text(encoding="utf-8"))
    table.setdefault("name", source.stem)
    for entry in _tables(table, "case"):
        for key in ("home", "data"):
            if key in entry and entry[key] not in synth.READY_HOMES:
                named = (source.parent / str(entry[key])).resolve()
                entry[key] = Path(os.path.relpath(named, folder.resolve())).as_posix()
    return tomli_w.dumps(table)


def study_from(table: dict[str, Any], folder: Path, name: str = "study") -> Study:
    """Return the study of parsed TOML tables; paths are relative to `folder`."""
    known = {"case", "attacker", "mechanism", "epsilon", "seeds", "seed", "protect"}
    _known_keys(table, known | {"name", "sensitivity", "delta", "knows_first_state"}, "study entry")
    seed = whole("seed", table.get("seed", 0), least=0)
    cases = [_case(entry, folder, seed + i) for i, entry in enumerate(_tables(table, "case"))]
    options: dict[str, Any] = {
        key: table[key]
        for key in ("seeds", "protect", "sensitivity", "delta", "knows_first_state")
        if key in table
    }
    if "mechanism" in table:
        options["mechanisms"] = tuple(np.atleast_1d(table["mechanism"]).tolist())
    if "epsilon" in table:
        options["epsilons"] = tuple(parse_epsilons(table["epsilon"]))
    contenders = [_contender(entry) for entry in _tables(table, "attacker")]
    return Study(
        str(table.get("name", name)), tuple(cases), tuple(contenders), seed=seed, **options
    )


def parse_epsilons(value: Any) -> list[float]:
    """Return ε from a number, a list, or text LO:HI:COUNT, evenly spaced in ln ε."""
    if isinstance(value, str):
        parts = value.split(":")
        try:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
            values: FloatArray = np.geomspace(low, high, count)
        except (ValueError, IndexError):
            raise InputError(f"epsilon must be LO:HI:COUNT or a list, got {value!r}.") from None
        return [float(f"{epsilon:.6g}") for epsilon in values]
    return [positive("epsilon", epsilon) for epsilon in np.atleast_1d(value)]


def split_trace(trace: Trace, share: float) -> tuple[Trace, Trace]:
    """Split a trace into its first `share`, to learn from, and the rest, to attack."""
    if not 0 < positive("train", share) < 1:
        raise InputError(f"train must be a share between 0 and 1, got {share}.")
    cut = round(share * len(trace))
    return trace[:cut], trace[cut:]


def _case(entry: dict[str, Any], folder: Path, seed: int) -> Case:
    """The case of one [[case]] table, with readings from a file or synthetic ones."""
    known = {"name", "home", "data", "readings", "sparsity", "interval", "train"}
    _known_keys(entry, known, "case entry")
    if "home" not in entry:
        raise InputError("a case has no home; add home = NAME or a path of a home.toml.")
    home = _home(str(entry["home"]), folder)
    if "data" in entry:
        trace = _read_case(entry, home, folder)
    else:
        trace = synth.trace(
            home,
            2 * whole("readings", entry.get("readings", 2400)),
            entry.get("sparsity"),
            interval_s=seconds("interval", entry.get("interval", 6.0)),
            seed=seed,
        )
    train, test = split_trace(trace, entry.get("train", 0.5))
    return Case(str(entry.get("name", home.name)), home, train, test)


def _read_case(entry: dict[str, Any], home: Home, folder: Path) -> Trace:
    """The readings of a file: means over `interval`, and the first 2 · `readings` of them."""
    if "sparsity" in entry:
        raise InputError("sparsity is for synthetic readings; remove it, or remove data.")
    trace = home.label(read_home_recording(folder / str(entry["data"])).trace)
    if "interval" in entry:
        length = seconds("interval", entry["interval"])
        trace = trace if length == trace.interval_s else trace.coarsen(length)
    if "readings" in entry:
        wanted = 2 * whole("readings", entry["readings"])
        if wanted > len(trace):
            raise InputError(
                f"{entry['data']} has {len(trace)} readings of {trace.interval_s:g} s, but "
                f"readings = {entry['readings']} needs {wanted}, half of them to learn from."
            )
        trace = trace[:wanted]
    return trace


def _home(text: str, folder: Path) -> Home:
    """A ready home by its name, or the home of a file."""
    return synth.ready_home(text) if text in synth.READY_HOMES else read_home(folder / text)


def _contender(entry: dict[str, Any]) -> Contender:
    """The attacker of one [[attacker]] table."""
    _known_keys(entry, {"name", "label", "parameters", "knows_noise", "told"}, "attacker entry")
    name = str(entry.get("name", ""))
    parameters = dict(entry.get("parameters", {}))
    # Studies written before knows_noise had this name call it told.
    knows = entry.get("knows_noise", entry.get("told"))
    if not (knows is None or isinstance(knows, bool)):
        raise InputError(
            f"knows_noise of the attacker {name} must be true or false, got {knows!r}."
        )
    return Contender(str(entry.get("label", name)), name, parameters, knows)


def _tables(table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of tables of one key."""
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{key} must be written as [[{key}]].")
    return entries


def _known_keys(table: dict[str, Any], known: set[str], kind: str) -> None:
    """Refuse a table with an unknown key."""
    for key in table:
        if key not in known:
            raise UnknownNameError(kind, key, known)
