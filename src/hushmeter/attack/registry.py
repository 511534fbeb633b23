"""The attackers by name: those of this package, of installed packages, your own, and saved ones.

An attacker is imported when it is first used. There are three ways to add one:

- `hushmeter.attackers.register(MyAttacker)`, also as a decorator, for the running program;
- an entry point of the group `hushmeter.attackers` in an installed package;
- `module:Class` wherever the command line or a study file names an attacker.

A saved attacker is one .npz file with a JSON header and arrays, never a pickle. The header contains
the name of the attacker, its home (as TOML), its parameters and what it has learnt; every array in
them is replaced by its key in the archive. Nothing in a file is executed: values are numbers, text,
lists, arrays, level tables and mechanisms of this package.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushmeter.attack.base import Attacker
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.files import atomic
from hushmeter.home import Home
from hushmeter.noise import Mechanism, parse_mechanism

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker


ENTRY_POINTS = "hushmeter.attackers"
"""Group of the entry points of other packages."""

BUILT_IN = {
    "one-shot": "one_shot:OneShot",
    "multi-shot": "hierarchical:MultiShot",
    "hierarchical": "hierarchical:Hierarchical",
    "co": "combinatorial:CombinatorialOptimisation",
    "fhmm": "factorial_hmm:FactorialHmm",
    "sparse-hmm": "super_state_hmm:SuperStateHmm",
    "ip": "combinatorial:IntegerProgram",
    "alip": "combinatorial:AidedIntegerProgram",
    "rnn": "recurrent_net:RecurrentNet",
    "tcn": "tcn:Tcn",
    "semi-blind": "semi_blind:SemiBlind",
    "bayes": "bayes:Bayes",
    "strongest": "strongest:Strongest",
    "all-off": "base:AllOff",
    "hold": "base:Hold",
}
"""Attackers of this package: name → module and class."""

Class = TypeVar("Class", bound=type[Attacker])


class AttackerRegistry(Mapping[str, type[Attacker]]):
    """Mapping from the name of an attacker to its class.

    A lookup `attackers[name]` finds attackers of this package, registered attackers and entry
    points, in this order. It never imports a module that the name contains, so it is safe for names
    from outside, such as those in a request to the web page. `resolve` does import such a module.
    """

    def __init__(self) -> None:
        self._registered: dict[str, type[Attacker]] = {}

    def register(self, cls: Class) -> Class:
        """Add an attacker class under its `name`, for the running program."""
        name = _check_class(cls, "register")
        known = self._registered.get(name)
        if name in BUILT_IN or (known is not None and _path(known) != _path(cls)):
            raise InputError(f"another attacker is named {name!r}: choose another name.")
        self._registered[name] = cls
        return cls

    def resolve(self, text: str, folder: Path | None = None) -> type[Attacker]:
        """Find an attacker by its name or by `module:Class`.

        Only use this for text that the user of the program has written: it imports the module.
        """
        module, colon, attribute = text.partition(":")
        if not colon:
            return self[text]
        if folder is not None and str(folder) not in sys.path:
            sys.path.append(str(folder))
        found = getattr(_import(module, text), attribute, None)
        if found is None:
            raise InputError(f"the module {module} has no class {attribute!r}.")
        _check_class(found, text)
        cls: type[Attacker] = found
        return cls

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        """Attackers of other installed packages, which cannot replace those of this one."""
        found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        return {name: point for name, point in found.items() if name not in BUILT_IN}

    def __getitem__(self, name: str) -> type[Attacker]:
        if name in BUILT_IN:
            module, attribute = BUILT_IN[name].split(":")
            cls: type[Attacker] = getattr(import_module(f"hushmeter.attack.{module}"), attribute)
            return cls
        if name in self._registered:
            return self._registered[name]
        if name in self._entry_points:
            return self.resolve(self._entry_points[name].value)
        raise UnknownNameError("attacker", name, list(self))

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter({**BUILT_IN, **self._registered, **self._entry_points})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<attackers: {', '.join(self)}>"


def _import(module: str, text: str) -> Any:
    """Import a module of the user; every failure becomes one sentence."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise InputError(f"{text} cannot be imported: {error}.") from None
        raise InputError(
            f"there is no module named {module!r} for the attacker {text}: install it, or run the "
            f"command in the folder of {module}.py."
        ) from None
    except Exception as error:  # anything can go wrong in the code of a user
        raise InputError(f"{text} cannot be imported: {type(error).__name__}: {error}.") from None


def _check_class(cls: Any, what: str) -> str:
    """The name of an attacker class; raises `InputError` unless it is complete."""
    if not (isinstance(cls, type) and issubclass(cls, Attacker)):
        raise InputError(f"{what} needs a subclass of hushmeter.Attacker, got {cls!r}.")
    for field in ("name", "needs", "assumes"):
        if not isinstance(getattr(cls, field, None), str) or not getattr(cls, field):
            raise InputError(f"the attacker class {cls.__name__} must define {field} as text.")
    if re.fullmatch(r"[a-z0-9]+([-_.][a-z0-9]+)*", cls.name) is None:
        raise InputError(
            f"the name of an attacker has lower-case letters, digits and hyphens, got {cls.name!r}."
        )
    return cls.name


def _path(cls: type) -> str:
    """Module and name of a class: a module that was reloaded has new class objects."""
    return f"{cls.__module__}:{cls.__qualname__}"


attackers = AttackerRegistry()


FORMAT = "hushmeter attacker"
"""Text by which a file is recognised."""

VERSION = 1
"""Version of the file format."""

HEADER = "header"
"""Key of the header in the archive."""

Arrays = dict[str, NDArray[Any]]


def save_attacker(attacker: Attacker, path: str | Path, *, force: bool = False) -> None:
    """Write an attacker, fitted or not."""
    target = Path(path)
    if target.suffix != ".npz":
        raise InputError(f"{target} must end in .npz.")
    arrays: Arrays = {}
    header = {"format": FORMAT, "version": VERSION, **_describe(attacker, arrays)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic(target, force=force) as temporary, temporary.open("wb") as file:
        np.savez(file, **{HEADER: text}, **arrays)  # type: ignore[arg-type]


def load_attacker(path: str | Path, cls: type[Attacker] | None = None) -> Attacker:
    """Read an attacker that `save_attacker` wrote."""
    source = Path(path)
    header, arrays = _open(source)
    try:
        attacker = _restore(header, arrays, _class_for(header["attacker"], cls, source))
    except (KeyError, TypeError, IndexError, InputError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{source} contains a damaged attacker: {error}") from None
    return attacker


def _describe(attacker: Attacker, arrays: Arrays) -> dict[str, Any]:
    """Name, home, parameters and learnt values of an attacker; arrays move to `arrays`."""
    return {
        "attacker": attacker.name,
        "home": attacker.home.to_toml(),
        "parameters": _encode(attacker.parameters, arrays),
        "learnt": _encode(learnt(attacker), arrays),
    }


def _restore(described: dict[str, Any], arrays: Arrays, cls: type[Attacker]) -> Attacker:
    """The inverse of `_describe`."""
    home = Home.from_toml(described["home"])
    attacker = cls(home, **_decode(described["parameters"], arrays))
    for name, value in _decode(described["learnt"], arrays).items():
        if not _is_learnt(name):
            raise DataError(f"a saved attacker sets {name!r}, which no attacker learns.")
        setattr(attacker, name, value)
    attacker._check_learnt()
    return attacker


def learnt(attacker: Attacker) -> dict[str, Any]:
    """Attributes that `fit` has set: those whose names end in an underscore."""
    return {name: value for name, value in vars(attacker).items() if _is_learnt(name)}


def _is_learnt(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _class_for(name: str, cls: type[Attacker] | None, source: Path) -> type[Attacker]:
    from hushmeter.attack.registry import attackers

    if cls is None:
        return attackers[name]
    if cls.name != name:
        raise DataError(f"{source} contains the attacker {name!r}, not {cls.name!r}.")
    return cls


def _open(source: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with np.load(source, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        raise DataError(f"{source} is not a saved attacker.") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{source} is not a saved attacker.")
    if header.get("version") != VERSION:
        raise DataError(
            f"{source} was written by another version of hushmeter: fit the attacker again."
        )
    return header, arrays


def _encode(value: Any, arrays: Arrays) -> Any:
    """Convert a value to JSON; arrays move to `arrays`, other types become one-key objects."""
    from hushmeter.attack.base import Attacker, AttackerSettings
    from hushmeter.attack.levels import LevelTable

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encode(entry, arrays) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if isinstance(value, AttackerSettings):
        return _encode(vars(value), arrays)
    if isinstance(value, LevelTable):
        return {"levels": _encode(value.powers, arrays)}
    if isinstance(value, Attacker):
        return {"attacker": _describe(value, arrays)}
    if isinstance(value, Mechanism):
        return {"mechanism": {value.name: value.parameters()}}
    raise InputError(f"a {type(value).__name__} cannot be saved with an attacker.")


def _decode(value: Any, arrays: Arrays) -> Any:
    """The inverse of `_encode`."""
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items()))
    return _decoders(arrays)[kind](content)


def _decoders(arrays: Arrays) -> dict[str, Callable[[Any], Any]]:
    from hushmeter.attack.levels import LevelTable
    from hushmeter.attack.registry import attackers

    def decode(value: Any) -> Any:
        return _decode(value, arrays)

    return {
        "array": lambda key: arrays[key],
        "list": lambda entries: [decode(entry) for entry in entries],
        "tuple": lambda entries: tuple(decode(entry) for entry in entries),
        "dict": lambda pairs: {decode(k): decode(v) for k, v in pairs},
        "levels": lambda powers: LevelTable(decode(powers)),
        "mechanism": parse_mechanism,
        "attacker": lambda content: _restore(content, arrays, attackers[content["attacker"]]),
    }
