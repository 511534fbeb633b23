"""The exceptions of hushmeter.

Every message is one sentence: what is wrong, where, and what to do about it. A message names an
option by the field of the library, such as `unit=kWh`; the command line shows it as --unit kWh, and
the page in the browser by the name of the input.

::

    HushmeterError
     ├── InputError (ValueError)         a parameter is wrong; nothing was computed or spent
     │    └── UnknownNameError (KeyError)  a name is not in a registry
     ├── DataError (ValueError)          a file or a trace cannot be used as it is
     │    └── TooLargeError                a file holds more data than its reader accepts
     ├── NotFittedError                  an attacker needs `fit` before `predict`
     ├── BudgetError                     the privacy budget does not allow a release
     └── MissingExtraError (ImportError) an optional dependency is not installed

The command line ends with exit code 2 after `InputError` and `MissingExtraError`, and with exit
code 1 after every other exception.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST, BEGINNING, END = 1500, 900, 500
"""Length of a longer message, and what is left of it: its advice stands at the end."""


def printable(text: str) -> str:
    """Return a message that may quote a stranger: it is short and controls no terminal."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= LONGEST else f"{shown[:BEGINNING]} … {shown[-END:]}"


class HushmeterError(Exception):
    """Base class of every error that hushmeter raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class InputError(HushmeterError, ValueError):
    """A parameter is wrong; nothing was computed, written or spent."""


class UnknownNameError(InputError, KeyError):
    """A name is not in a registry; the message suggests the nearest known name."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"there is no {kind} named {str(name)!r}; {hint}")

    def __str__(self) -> str:
        return str(self.args[0])


class DataError(HushmeterError, ValueError):
    """A file or a trace cannot be used as it is."""


class TooLargeError(DataError):
    """A file holds, or may unpack to, more data than its reader accepts."""


class NotFittedError(HushmeterError):
    """`predict` was called on an attacker that learns from data before `fit` was called."""


class BudgetError(HushmeterError):
    """The privacy budget does not allow a release."""


class MissingExtraError(HushmeterError, ImportError):
    """An optional dependency is absent; the message carries the pip command."""

    def __init__(self, what: str, extra: str) -> None:
        command = f'pip install ".[{extra}]"'
        super().__init__(
            f"{what} needs the extra {extra!r}: run {command} in a clone of hushmeter."
        )
