"""The attackers by name; each is imported when it is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from hushmeter.attack.base import Attacker
from hushmeter.errors import UnknownNameError

_CLASSES = {
    "one-shot": "one_shot:OneShot",
    "multi-shot": "multi_shot:MultiShot",
    "hierarchical": "hierarchical:Hierarchical",
    "co": "combinatorial:CombinatorialOptimisation",
    "fhmm": "factorial_hmm:FactorialHmm",
    "sparse-hmm": "super_state_hmm:SuperStateHmm",
    "ip": "integer_program:IntegerProgram",
    "alip": "integer_program:AidedIntegerProgram",
    "rnn": "recurrent_net:RecurrentNet",
    "bayes": "bayes:Bayes",
    "all-off": "naive:AllOff",
    "hold": "naive:Hold",
}


class AttackerRegistry(Mapping[str, type[Attacker]]):
    """Read-only mapping from the name of an attacker to its class.

    Raises
    ------
    UnknownNameError
        If no attacker has this name; the message suggests the nearest name.
    """

    def __getitem__(self, name: str) -> type[Attacker]:
        if name not in _CLASSES:
            raise UnknownNameError("attacker", name, _CLASSES)
        module, attribute = _CLASSES[name].split(":")
        attacker: type[Attacker] = getattr(import_module(f"hushmeter.attack.{module}"), attribute)
        return attacker

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __repr__(self) -> str:
        return f"<attackers: {', '.join(_CLASSES)}>"


attackers = AttackerRegistry()
