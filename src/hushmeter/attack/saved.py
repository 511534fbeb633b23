"""Saved attackers: one .npz file with a JSON header and arrays, never a pickle.

The header contains the name of the attacker, its home (as TOML), its parameters and what it has
learnt; every array in them is replaced by its key in the archive. Nothing in a file is executed:
values are numbers, text, lists, arrays, level tables and mechanisms of this package.
"""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushmeter.errors import DataError, InputError
from hushmeter.files import atomic
from hushmeter.home import Home
from hushmeter.noise import Mechanism, parse_mechanism

if TYPE_CHECKING:
    from hushmeter.attack.base import Attacker

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
