"""Compiled loops: the only module that imports numba.

Numba reads `.numba_config.yaml` of the current folder when it is imported and whenever it compiles.
Such a file can name a folder of compiled code, which is loaded with `pickle`: who wrote the folder
would run code here. Numba reads the file with PyYAML, so it is imported as if there were none.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


if "numba" not in sys.modules:
    with _without_settings_of_folder():
        import numba.core.config
    # It would look for the file again before it compiles.
    numba.core.config._config_fname = ""

from numba import njit as compiled  # noqa: E402

__all__ = ["compiled"]
