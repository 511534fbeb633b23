"""What a process that reads the files of strangers may reach on this computer.

Readers refuse files that lead to other files. If a reader has a fault, the operating system must
hold: Linux offers Landlock (since 5.13), by which a process gives up its rights for good, without
being administrator. A worker keeps the right to read the code of Python and of its packages, and
the zones of time; it can open no other file, write none, and start no program. Since Linux 6.7 it
can neither connect to an address nor wait at one (TCP), and since 6.12 it cannot send signals to
other processes.

Landlock does not hide the names and sizes of files, and does not stop UDP.
"""

from __future__ import annotations

import ctypes
import os
import site
import sys
import sysconfig
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CREATE, ADD, RESTRICT = 444, 445, 446
"""Numbers of the calls of Landlock, which are the same on every processor but Alpha."""
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of rights on files by the version of Landlock that introduced the last of them."""
NETWORK_FROM, SIGNALS_FROM = 4, 6
BIND_AND_CONNECT = 0b11
SOCKETS_AND_SIGNALS = 0b11
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/urandom")


@dataclass(frozen=True)
class Confinement:
    """What the operating system enforces for the processes that read uploaded files."""

    files: bool  # True if they can open no file but the code of Python
    network: bool  # True if they can open no TCP connection

    @property
    def sentence(self) -> str:
        """One sentence for the operator of the server."""
        if self.files and self.network:
            return "Uploaded files are read by processes that can open no other file or connection."
        if self.files:
            return (
                "Uploaded files are read by processes that can open no other file; this system "
                "cannot also deny them connections (Linux 6.7 can)."
            )
        return (
            "Uploaded files are checked, but this system does not deny the processes that read "
            "them access to other files (Landlock of Linux 5.13 does)."
        )


def find_confinement() -> Confinement:
    """Return what this system enforces for the processes that read uploaded files."""
    version = _version()
    return Confinement(files=version >= 1, network=version >= NETWORK_FROM)


def confine(readable: Iterable[Path] = ()) -> Confinement:
    """Give up, for good, all access of this process to files but the code of Python.

    It must be called before the process starts a thread.
    """
    version = _version()
    if version < 1:
        return find_confinement()
    rights = _rights(version)
    rules = _call(CREATE, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    try:
        for place in {*_code_places(), *readable}:
            _allow_reading(rules, place)
        if _libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        _call(RESTRICT, rules, 0)
    finally:
        os.close(rules)
    return find_confinement()


class _Rights(ctypes.Structure):
    """struct landlock_ruleset_attr: the rights that a ruleset takes away."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr: rights that are left on a file or folder."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _rights(version: int) -> _Rights:
    """All rights that this version of Landlock can take away."""
    count = max(number for since, number in FILE_RIGHTS.items() if since <= version)
    return _Rights(
        (1 << count) - 1,
        BIND_AND_CONNECT if version >= NETWORK_FROM else 0,
        SOCKETS_AND_SIGNALS if version >= SIGNALS_FROM else 0,
    )


def _code_places() -> set[Path]:
    """Where Python finds its own code, that of its packages and libraries, and zones of time."""
    paths = sysconfig.get_paths()
    names = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        names.append(site.getusersitepackages())
    return {PACKAGE, *map(Path, (*names, *zoneinfo.TZPATH, *LIBRARIES, *DEVICES))}


def _allow_reading(rules: int, place: Path) -> None:
    """Leave the right to read a file, or a folder and all below it; absent ones are left out."""
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = READ_FILE | READ_FOLDER if place.is_dir() else READ_FILE
        rule = _Beneath(rights, opened)
        _call(ADD, rules, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


@cache
def _version() -> int:
    """The version of Landlock that the system offers; 0 where there is none or it is blocked."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(*map(ctypes.c_long, (CREATE, 0, 0, ASK_VERSION)))))


@cache
def _libc() -> ctypes.CDLL:
    """The library of the system's calls."""
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *given: object) -> int:
    """Return the result of a call of the system; raise `OSError` if it fails."""
    numbers = (ctypes.c_long(part) if isinstance(part, int) else part for part in given)
    result = int(_libc().syscall(ctypes.c_long(number), *numbers))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
