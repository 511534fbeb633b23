"""One tree of exceptions; every message is one sentence that says what, where and what to do.

::

    HushmeterError
     ├── InputError (ValueError)         a parameter is wrong: nothing was computed or spent
     │    └── UnknownNameError (KeyError)  a name that is not in a registry
     ├── DataError (ValueError)          a file or a trace cannot be used as it is
     ├── NotFittedError                  an attacker needs `fit` before `predict`
     ├── BudgetError                     the privacy budget says no
     └── MissingExtraError (ImportError) an optional dependency is absent

The command line ends with exit code 2 for `InputError` and `MissingExtraError` and with 1 for
the rest.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HushmeterError(Exception):
    """Root of every error hushmeter raises on purpose."""


class InputError(HushmeterError, ValueError):
    """A parameter is wrong; nothing was computed, written or spent."""


class UnknownNameError(InputError, KeyError):
    """A name that no registry knows, answered with the nearest known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"there is no {kind} named {str(name)!r}; {hint}")

    def __str__(self) -> str:
        return str(self.args[0])


class DataError(HushmeterError, ValueError):
    """A file or a trace cannot be used as it is."""


class NotFittedError(HushmeterError):
    """An attacker that learns from data was asked to predict before `fit`."""


class BudgetError(HushmeterError):
    """The privacy budget does not allow what was asked."""


class MissingExtraError(HushmeterError, ImportError):
    """An optional dependency is absent; the message carries the pip command."""

    def __init__(self, what: str, extra: str) -> None:
        command = f'pip install ".[{extra}]"'
        super().__init__(
            f"{what} needs the extra {extra!r}: run {command} in a clone of hushmeter."
        )
