"""Compiled kernels in a process that may not write.

Numba writes each kernel that it compiles to a folder, and reads it from there the next time. A
process that reads the files of strangers must not write what others will run. It reads kernels
that are there, and keeps those that it compiles in its memory.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def stop_saving() -> set[Path]:
    """Make Numba write nothing in this process; return the folders from which it reads kernels."""
    # Numba has no types for what it does not export.
    caching: Any = import_module("numba.core.caching")
    config: Any = import_module("numba.core.config")

    def ignore(*_: object) -> None:
        """Do nothing."""

    caching.Cache.save_overload = ignore
    # It writes a file to find out whether a folder can be used.
    caching._CacheLocator.ensure_cache_path = ignore
    user_wide = caching.AppDirs(appname="numba", appauthor=False).user_cache_dir
    return {Path(folder) for folder in (config.CACHE_DIR, user_wide) if folder}
