"""Limits of the local server: every one of them is a promise about memory or time."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

MEGABYTE = 1 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """What a server accepts.

    Parameters
    ----------
    hosts : tuple of str
        Names by which the server may be addressed; empty for any, which needs a token.
    token : str, optional
        Needed by every call of the API, as `Authorization: Bearer TOKEN`.
    upload_bytes : int
        Largest file.
    unpacked_bytes : int
        Largest file after decompression.
    body_bytes : int
        Largest JSON body.
    readings : int
        Most readings of a file.
    values : int
        Most values of a file: readings times columns.
    view_readings : int
        Most readings that one view attacks.
    appliances : int
        Most appliances of a home.
    sessions : int
        Most traces held at a time; the least recently used is forgotten.
    session_bytes : int
        Most bytes of all traces held.
    idle_s : float
        A trace that nobody asked for in so long is forgotten [s].
    workers : int
        Threads that compute.
    uploads : int
        Most files on their way into memory at a time.
    waiting : int
        Most requests that compute or wait for a thread.
    request_s : float
        Longest answer [s].
    release_s : float
        Longest answer where a receipt is drawn up [s]: its account composes whole days.
    """

    hosts: tuple[str, ...] = LOOPBACK
    token: str | None = None
    upload_bytes: int = 50 * MEGABYTE
    unpacked_bytes: int = 200 * MEGABYTE
    body_bytes: int = MEGABYTE
    readings: int = 2_000_000
    values: int = 20_000_000
    view_readings: int = 20_000
    appliances: int = 40
    sessions: int = 256
    session_bytes: int = 512 * MEGABYTE
    idle_s: float = 3600.0
    workers: int = field(default_factory=lambda: max(2, min(4, os.cpu_count() or 2)))
    uploads: int = 8
    waiting: int = 256
    request_s: float = 30.0
    release_s: float = 120.0
