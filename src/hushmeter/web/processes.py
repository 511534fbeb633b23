"""How the processes of the server are started: forked from a process that only loads code.

This module imports nothing heavy, so that loading can begin before the server itself is imported.
"""

from __future__ import annotations

import os
from multiprocessing import forkserver, get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOADED = "hushmeter.web.preload"


def process_context() -> ForkServerContext | SpawnContext:
    """Return the context that starts processes; Windows cannot fork and loads the code anew.

    The server has threads, so a fork of the server itself would not be safe.
    """
    if os.name == "nt":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def start_loading() -> None:
    """Start the process that loads the code, and do not wait for it."""
    if os.name != "nt":
        process_context()
        forkserver.ensure_running()
