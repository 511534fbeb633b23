"""The attackers by name: those of this package, of installed packages, and your own.

An attacker is imported when it is first used. There are three ways to add one:

- `hushmeter.attackers.register(MyAttacker)`, also as a decorator, for the running program;
- an entry point of the group `hushmeter.attackers` in an installed package;
- `module:Class` wherever the command line or a study file names an attacker.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from hushmeter.attack.base import Attacker
from hushmeter.errors import InputError, UnknownNameError

ENTRY_POINTS = "hushmeter.attackers"
"""Group of the entry points of other packages."""

BUILT_IN = {
    "one-shot": "one_shot:OneShot",
    "multi-shot": "multi_shot:MultiShot",
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
