"""The register of releases: a private file in which the commands note what a user has released.

Exact sums of complete days hide when electricity is used, but only as long as nobody can subtract
two of them. The days of London and those of Berlin differ by one hour of every night; a corrected
file differs by the correction; noise of an appliance bounds nothing beside exact days. A release
that overlaps another one in time is therefore refused if one of them publishes exact sums and they
have another wish, another zone or other readings. Days that are equal repeat their numbers, so that
a later export of the same meter with more days is released without a word.

The file holds, for each release, its name, ε and its stretches of time, and keyed digests of
its wish with the zone, of its days and of the readings of each day; no readings. A release is noted
before it is published.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.errors import DataError
from hushmeter.files import (
    DAMAGED,
    json_text,
    make_folder,
    one_sentence,
    parse_json,
    take_lock,
    write_bytes,
)
from hushmeter.formatting import count_of
from hushmeter.releases.files import paid_folder
from hushmeter.trace import Trace

SCHEMA = "hushmeter-releases-1"
WAIT_S = 60.0
"""How long a command waits for another one that is publishing."""

NAMED = "; name a folder for it in XDG_DATA_HOME"

REFUSED = (
    "{name} was released for the same time with another wish, another zone or other readings, and "
    "one of the two has exact sums: together they may show what each of them hides. Ask for the "
    "same wish and zone, name another meter with --stream NAME, or add --despite to release, whose "
    "receipt then says that nothing bounds both together."
)

_DATA_FOLDERS = {
    "win32": os.environ.get("LOCALAPPDATA", "~/AppData/Local"),
    "darwin": "~/Library/Application Support",
}


def register_path() -> Path:
    """Return the path of the register, in the folder for the data of the user."""
    data = os.environ.get("XDG_DATA_HOME") or _DATA_FOLDERS.get(sys.platform, "~/.local/share")
    with one_sentence("the register of releases", "found", kinds=RuntimeError, more=NAMED):
        return Path(data).expanduser() / "hushmeter" / "releases.json"


@contextmanager
def recorded(
    private: Mapping[str, Any], name: Path, *, stream: str = "load", despite: bool = False
) -> Iterator[list[str]]:
    """Note a release while it is published, and give sentences about earlier ones.

    `private` is its private receipt as plain values, and `stream` names the meter. A simulation is
    not noted. If publishing fails, the note is removed, unless the release may be paid for. Raise
    `DataError` if it must not be published beside an earlier one, unless `despite` is set.
    """
    if private["receipt"]["kind"] != "release":
        yield []
        return
    place = register_path()
    with one_sentence(place, more=NAMED):
        make_folder(place.parent)
        lock = take_lock(place.with_suffix(".lock"), lambda: f"{place} is in use.", WAIT_S)
    try:
        with _reading(place):
            known = _read(place)
            before = list(known["releases"])
            entry = _entry(known["key"], private, name, stream)
            sentences = _compare(entry, before, despite)
        _write(place, known, [*before, entry])
        try:
            yield sentences
        except BaseException:
            if not paid_folder(name).exists():
                _write(place, known, before)
            raise
    finally:
        lock.release()


def unreleased(trace: Trace, stream: str = "load", unfinished: Path | None = None) -> Trace:
    """Return the readings of a meter at times of which nothing was released.

    An unfinished release does not count. Raise `DataError` if there are none.
    """
    starts, place = trace.times.astype(np.int64) / 1e9, register_path()
    new = np.ones(len(trace), dtype=np.bool_)
    with _reading(place):
        for entry in _read(place)["releases"]:
            if entry["stream"] == stream and entry["name"] != _name(unfinished):
                for first, stop in entry["spans"]:
                    new &= (starts >= stop) | (starts + trace.interval_s <= first)
    if not new.any():
        raise DataError("all times of these readings were released before; nothing is new.")
    return trace.select(np.flatnonzero(new))


def _reading(place: Path) -> AbstractContextManager[None]:
    """Say in one sentence that the register is damaged."""
    more = "; restore it, or remove it if you know what you have released"
    return one_sentence(place, "read", kinds=(OSError, *DAMAGED), more=more)


def _read(place: Path) -> dict[str, Any]:
    """The register, or a new one with a random key."""
    if not place.exists():
        return {"schema": SCHEMA, "key": secrets.token_hex(32), "releases": []}
    known: dict[str, Any] = parse_json(place.read_bytes())
    if known["schema"] != SCHEMA:
        raise ValueError("it is not a register of this version")
    return known


def _write(place: Path, known: dict[str, Any], releases: list[dict[str, Any]]) -> None:
    write_bytes(place, json_text({**known, "releases": releases}).encode(), force=True)


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _entry(key: str, private: Mapping[str, Any], name: Path, stream: str) -> dict[str, Any]:
    """What the register notes about a release."""

    def keyed(*parts: str) -> str:
        message = "\n".join((stream, *parts)).encode()
        return hmac.new(bytes.fromhex(key), message, hashlib.sha256).hexdigest()[:24]

    receipt, read = private["receipt"], private["input"]
    days = read["days"].items()
    return {
        "name": _name(name),
        "stream": stream,
        "epsilon": receipt["epsilon"],
        "exact": read["exact"],
        "form": keyed("form", receipt["unit"]["sentence"]),
        "spans": read["spans"],
        "days": {keyed(read["zone"], day): keyed(day, found) for day, found in days},
    }


def _compare(entry: Mapping[str, Any], before: list[dict[str, Any]], despite: bool) -> list[str]:
    """Return a sentence about noise that adds up; refuse what must not lie beside an earlier one.

    Two releases with the same wish and zone have the same days, and equal readings give equal sums.
    """
    named, total = [], float(entry["epsilon"])
    for one in before:
        if one["stream"] != entry["stream"] or not _overlap(one["spans"], entry["spans"]):
            continue
        common = one["days"].keys() & entry["days"].keys()
        equal = sum(one["days"][day] == entry["days"][day] for day in common)
        differs = one["form"] != entry["form"] or equal < len(common)
        if differs and (one["exact"] or entry["exact"]):
            if not despite:
                raise DataError(REFUSED.format(name=one["name"]))
        # The first and the last day of a file may not be whole.
        elif one["epsilon"] and entry["epsilon"] and equal and 2 * equal >= len(common):
            named.append(f"{count_of(len(common), 'day')} in {one['name']}")
            total += one["epsilon"]
    if not named:
        return []
    return [
        f"These readings were released before ({', '.join(named)}): each further release of these "
        f"readings adds its ε. Together they have at most ε = {total:.4g} for a change that each "
        "of them protects."
    ]


def _overlap(one: list[list[int]], other: list[list[int]]) -> bool:
    """True if stretches of two releases have a time in common; those of one release have none."""
    return any(first[1] > second[0] for first, second in pairwise(sorted([*one, *other])))
