"""Compiled loops: the only module that imports numba, which may be absent.

Without numba, or with HUSHMETER_COMPILED=0 in the environment, loops run as plain Python functions.

Numba reads `.numba_config.yaml` of the current folder when it is imported and whenever it compiles.
Such a file can name a folder of compiled code, which is loaded with `pickle`: who wrote the folder
would run code here. Numba reads the file with PyYAML, so it is imported as if there were none.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Loop = TypeVar("Loop", bound=Callable[..., Any])


@contextmanager
def _without_settings_of_folder() -> Iterator[None]:
    """Let nothing in the current folder tell numba what to do, while it is imported."""
    if not Path(os.environ.get("NUMBA_CACHE_DIR") or Path.cwd()).is_absolute():
        del os.environ["NUMBA_CACHE_DIR"]
    known: Any = sys.modules.get("yaml")
    sys.modules["yaml"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A Numba config file is found")
            yield
    finally:
        del sys.modules["yaml"]
        if known is not None:
            sys.modules["yaml"] = known


def _plain(**_: Any) -> Any:
    """Return a decorator that takes the options of numba and compiles nothing."""

    def keep(function: Loop) -> Any:
        @wraps(function)
        def run(*given: Any) -> Any:
            # Compiled code does not warn of integers that wrap around, nor of infinite results.
            with np.errstate(all="ignore"):
                return function(*given)

        return run

    return keep


def _numba() -> Any:
    """Return the decorator of numba, or the plain one where numba is absent."""
    try:
        if "numba" not in sys.modules:
            with _without_settings_of_folder():
                import numba.core.config
            # It would look for the file again before it compiles.
            numba.core.config._config_fname = ""
        from numba import njit
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return _plain
    return njit


compiled: Callable[..., Callable[[Loop], Loop]] = (
    _plain if os.environ.get("HUSHMETER_COMPILED") == "0" else _numba()
)

__all__ = ["compiled"]
