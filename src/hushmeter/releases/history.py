"""The register of releases: a private file in which the commands note what a user has released.

Exact sums of complete days hide when electricity is used, but only as long as nobody can subtract
two of them. The days of London and those of Berlin differ by one hour of every night; a corrected
file differs by the correction; noise of an appliance bounds nothing beside exact days. A release
that overlaps another one in time is therefore refused if one of them publishes exact sums and they
have another wish, another zone or other readings. Days that are equal repeat their numbers, so that
a later export of the same meter with more days is released without a word.

The file holds, for each release, its name, ε, δ and its stretches of time, and keyed digests of
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
from contextlib import contextmanager
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
        known = _read(place)
        entry, before = _entry(known["key"], private, name, stream), known["releases"]
        earlier = [one for one in before if _overlap(one, entry)]
        if not despite:
            for one in earlier:
                _refuse_difference(one, entry)
        _write(place, known, [*before, entry])
        try:
            yield _warnings(entry, earlier)
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
    starts = trace.times.astype(np.int64) / 1e9
    new = np.ones(len(trace), dtype=np.bool_)
    for entry in _read(register_path())["releases"]:
        if entry["stream"] != stream or entry["name"] == _name(unfinished):
            continue
        for first, stop in entry["spans"]:
            new &= (starts >= stop) | (starts + trace.interval_s <= first)
    if not new.any():
        raise DataError("all times of these readings were released before; nothing is new.")
    return trace.select(np.flatnonzero(new))


def _read(place: Path) -> dict[str, Any]:
    """The register, or a new one with a random key."""
    if not place.exists():
        return {"schema": SCHEMA, "key": secrets.token_hex(32), "releases": []}
    more = "; restore it, or remove it if you know what you have released"
    with one_sentence(place, "read", kinds=(OSError, *DAMAGED), more=more):
        known: dict[str, Any] = parse_json(place.read_bytes())
        if known["schema"] != SCHEMA or len(bytes.fromhex(known["key"])) != 32:
            raise ValueError("it is not a register of this version")
        for entry in known["releases"]:
            if entry.keys() != {*_FIELDS} or not all(a < b for a, b in entry["spans"]):
                raise ValueError("an entry is incomplete")
    return known


_FIELDS = ("name", "stream", "epsilon", "delta", "exact", "form", "spans", "days")


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _write(place: Path, known: dict[str, Any], releases: list[dict[str, Any]]) -> None:
    write_bytes(place, json_text({**known, "releases": releases}).encode(), force=True)


def _entry(key: str, private: Mapping[str, Any], name: Path, stream: str) -> dict[str, Any]:
    """What the register notes about a release."""

    def keyed(*parts: str) -> str:
        message = "\n".join((stream, *parts)).encode()
        return hmac.new(bytes.fromhex(key), message, hashlib.sha256).hexdigest()[:24]

    receipt, read = private["receipt"], private["input"]
    values = (
        _name(name),
        stream,
        receipt["epsilon"],
        receipt["delta"],
        read["exact"],
        keyed("form", receipt["unit"]["sentence"]),
        read["spans"],
        {keyed(read["zone"], day): keyed(day, found) for day, found in read["days"].items()},
    )
    return dict(zip(_FIELDS, values, strict=True))


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two releases of a meter have a time in common."""
    if one["stream"] != other["stream"]:
        return False
    # Stretches of one release never overlap, so that only neighbours in time can.
    both = sorted([*one["spans"], *other["spans"]])
    return any(first[1] > second[0] for first, second in pairwise(both))


def _refuse_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuse a release beside an earlier one, if their difference may show what both hide."""
    if not (one["exact"] or other["exact"]):
        return
    common = one["days"].keys() & other["days"].keys()
    if one["form"] != other["form"]:
        differs = "another wish or zone"
    elif any(one["days"][day] != other["days"][day] for day in common):
        differs = "other readings"
    else:
        return
    raise DataError(
        f"{one['name']} was released for the same time with {differs}, and one of the two has "
        "exact sums: together they may show what each of them hides. Ask for the same wish and "
        "zone, name another meter with --stream NAME, or add --despite to release, whose receipt "
        "then says that nothing bounds both together."
    )


def _warnings(entry: Mapping[str, Any], earlier: list[dict[str, Any]]) -> list[str]:
    """A sentence about earlier releases with noise of the same readings."""
    named, total = [], float(entry["epsilon"])
    for one in earlier:
        common = one["days"].keys() & entry["days"].keys()
        equal = sum(one["days"][day] == entry["days"][day] for day in common)
        # The first and the last day of a file may not be whole.
        if one["epsilon"] and equal and 2 * equal >= len(common):
            named.append(f"{count_of(len(common), 'day')} in {one['name']}")
            total += one["epsilon"]
    if not named or not entry["epsilon"]:
        return []
    return [
        f"These readings were released before ({', '.join(named)}): each further release of these "
        f"readings adds its ε. Together they have at most ε = {total:.4g} for a change that each "
        "of them protects."
    ]
