"""Exact mechanisms on an integer grid, their sampler, and the audit that tests them."""

from __future__ import annotations

from typing import Any

from hushmeter.checks import one_of
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.noise.gaussian import Gaussian
from hushmeter.noise.losses import Size
from hushmeter.noise.mechanism import Mechanism
from hushmeter.noise.pure import Laplace, Staircase

__all__ = [
    "DEFAULT_KIND",
    "MECHANISMS",
    "SHARING_KIND",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Size",
    "Staircase",
    "clamped",
    "find_kind",
    "parse_mechanism",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Laplace, Staircase, Gaussian)
}
"""Every kind of noise by its name; a new kind is one module and one entry here."""

DEFAULT_KIND = Laplace.name
"""Name of the noise of a request that states its ε and no kind of noise."""

SHARING_KIND = next(kind.name for kind in MECHANISMS.values() if kind.shares_budget)
"""Name of the noise with which several tables share one budget."""


def find_kind(name: str) -> type[Mechanism]:
    """Return the kind of noise with a name; an unknown name is an `InputError`."""
    return MECHANISMS[one_of("mechanism", name, tuple(MECHANISMS))]


def parse_mechanism(described: Any) -> Mechanism:
    """Make a mechanism from its name and its parameters, as a file or a command line has them."""
    if not isinstance(described, dict) or len(described) != 1:
        raise InputError(
            'a mechanism is written as its name with its parameters, such as {"laplace": '
            '{"epsilon": 1, "sensitivity": 10}}.'
        )
    name, given = next(iter(described.items()))
    if name not in MECHANISMS:
        raise UnknownNameError("mechanism", name, MECHANISMS)
    if not isinstance(given, dict):
        raise InputError(f"the parameters of {name} must be names with values, got {given!r}.")
    try:
        return MECHANISMS[name](**given)
    except TypeError as error:
        raise InputError(f"the parameters of {name} cannot be used: {error}.") from None


def clamped(mechanism: Mechanism, clamp: tuple[float, float] | None) -> Mechanism:
    """Return a mechanism with other bounds of a reading [W], or without any."""
    if clamp == mechanism.clamp:
        return mechanism
    return parse_mechanism({mechanism.name: mechanism.parameters() | {"clamp": clamp}})
