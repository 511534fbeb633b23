"""JSON of portals and their interfaces: lists of records with a time and a value.

A list of objects is a table whose columns are the keys; objects inside a record give keys such as
``interval.start``. Plain values of the objects around a list, such as a unit or the number of a
meter, belong to all records of the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.errors import DataError
from hushmeter.read.options import DECIMALS, Circuits, ReadOptions
from hushmeter.read.parts import read_parts
from hushmeter.read.recording import Series
from hushmeter.read.source import open_text
from hushmeter.read.table import whole_table
from hushmeter.read.text_table import RawTable, arrow_table, find_decimal, unique_names
from hushmeter.read.words import STAMPS, has_word

KIND = "JSON"
MAX_DEPTH, MAX_COLUMNS = 24, 200
LEAST_RECORDS = 2
HISTORY = {"entity_id", "state", "last_changed"}
LONGEST_INTEGER = 18
RESOLUTION = re.compile(r"P(?:T(\d{1,3})([MH])|(\d)D)")
MINUTES = {"M": 1, "H": 60}


@dataclass
class Found:
    """Records of one place in the document, with the plain values around each of them."""

    records: list[Mapping[str, Any]] = field(default_factory=list)
    around: list[Mapping[str, Any]] = field(default_factory=list)


def read_json(
    path: Path, options: ReadOptions, *, circuits: Circuits = "leave"
) -> tuple[Series, str]:
    """Read the list of records of a JSON file that holds the meter's readings."""
    places: dict[str, Found] = {}
    _walk(_parse(path), (), {}, places, 0)
    lists = {name: found for name, found in places.items() if len(found.records) >= LEAST_RECORDS}
    if not lists:
        raise DataError(
            f"{path} is JSON without a list of records that have a time and a value: convert its "
            "readings to CSV with timestamp and watts."
        )
    tables = {name: partial(_table, found, options, path) for name, found in lists.items()}
    return read_parts(tables, options, path, noun="list", circuits=circuits)


def _parse(path: Path) -> Any:
    with open_text(path) as stream:
        text = stream.read().strip("\ufeff\x00 \t\r\n")
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise DataError(f"{path} is JSON that nests too deeply.") from None
    except ValueError as error:
        reason = str(error)
    try:
        return [json.loads(line, parse_int=_integer) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not well-formed JSON ({reason}): download it again.") from None


def _integer(text: str) -> float:
    """A whole number; one of many digits as a float, because arrays hold 64 bits."""
    return int(text) if len(text) <= LONGEST_INTEGER else float(text)


def _walk(
    node: Any,
    place: tuple[str, ...],
    around: Mapping[str, Any],
    places: dict[str, Found],
    depth: int,
) -> None:
    """Collect the lists of records, of pairs and of parallel columns below a node."""
    if depth > MAX_DEPTH:
        return
    if isinstance(node, dict):
        own = {**around, **_scalars(node)}
        columns = _parallel(node)
        if columns is not None:
            _add(places, place, [dict(zip(columns, row, strict=True))
                                 for row in zip(*columns.values(), strict=True)], own)  # fmt: skip
        for key, child in node.items():
            if columns is None or key not in columns:
                _walk(child, (*place, str(key)), own, places, depth + 1)
    elif isinstance(node, list):
        records = [item for item in node if isinstance(item, dict)]
        if len(records) == len(node) and records:
            leaves = [_scalars(item) for item in _placed(records, around)]
            if sum(len(leaf) > 1 for leaf in leaves) == len(leaves):
                _add(places, place, leaves, around)
            for item in records:
                _walk_children(item, place, around, places, depth)
        elif _are_pairs(node):
            name = str(around.get("name") or (place[-1] if place else "value"))
            pairs = [{"time": pair[0], name: pair[1]} for pair in node]
            _add(places, (*place, name), pairs, {k: v for k, v in around.items() if k != "name"})
        else:
            for item in node:
                _walk(item, place, around, places, depth + 1)


def _walk_children(
    item: Mapping[str, Any],
    place: tuple[str, ...],
    around: Mapping[str, Any],
    places: dict[str, Found],
    depth: int,
) -> None:
    """Walk through the lists inside a record; its plain values belong to their records."""
    own = {**around, **_scalars(item)}
    columns = _parallel(item)
    if columns is not None:
        _walk(item, place, around, places, depth + 1)
        return
    for key, child in item.items():
        if isinstance(child, list | dict):
            _walk(child, (*place, str(key)), own, places, depth + 1)


def _add(
    places: dict[str, Found],
    place: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    around: Mapping[str, Any],
) -> None:
    found = places.setdefault(".".join(place) or "list", Found())
    found.records.extend(records)
    found.around.extend([around] * len(records))


def _scalars(node: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Plain values of an object and of the objects inside it, with keys joined by points."""
    values: dict[str, Any] = {}
    for key, value in node.items():
        if isinstance(value, dict) and depth < 4:
            values.update(_scalars(value, f"{prefix}{key}.", depth + 1))
        elif not isinstance(value, list | dict):
            values[f"{prefix}{key}"] = value
    return values


def _parallel(node: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Columns of equal length of which one is named as times are, or None."""
    lists = {
        str(key): value for key, value in node.items()
        if isinstance(value, list) and len(value) >= LEAST_RECORDS
        and not any(isinstance(cell, list | dict) for cell in value)
    }  # fmt: skip
    if len(lists) < 2 or len({len(column) for column in lists.values()}) != 1:
        return None
    return lists if any(has_word(name, STAMPS) for name in lists) else None


def _are_pairs(node: Sequence[Any]) -> bool:
    """True for a list of pairs of a time and a number."""
    return len(node) >= LEAST_RECORDS and all(
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str | int | float)
        and (item[1] is None or isinstance(item[1], int | float)) for item in node
    )  # fmt: skip


def _placed(
    records: Sequence[Mapping[str, Any]], around: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Records with a start where they have only a position in a period of a given resolution.

    Market documents of European grid operators give the start of a period, its resolution, and
    points that are numbered from one.
    """
    values = {key.lower().rpartition(".")[2]: value for key, value in around.items()}
    match = RESOLUTION.fullmatch(str(values.get("resolution", "")))
    start = _moment(values.get("start"))
    if match is None or start is None or not all("position" in r for r in records):
        yield from records
        return
    minutes = int(match[1]) * MINUTES[match[2]] if match[1] else int(match[3]) * 1440
    for record in records:
        try:
            number = int(record["position"])
        except (TypeError, ValueError):
            continue
        moment = start + np.timedelta64((number - 1) * minutes, "m")
        # The quantity that goes "out" of the grid is what the customer draws.
        rest = {key.removeprefix("out_Quantity."): value for key, value in record.items()}
        del rest["position"]
        yield {"start": f"{moment}Z", **rest}


def _moment(text: object) -> np.datetime64 | None:
    """A time in UTC, such as 2024-01-01T00:00Z."""
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(?::\d{2})?(?:\.0+)?Z", str(text))
    return None if match is None else np.datetime64(match[1], "m")


def _table(found: Found, options: ReadOptions, path: Path) -> RawTable:
    """The records as a table; values that differ between lists are columns of their own."""
    if any(set(record) >= HISTORY for record in found.records[:5]):
        raise DataError(
            f"{path} is a history of Home Assistant in JSON: export it as CSV, because its rows "
            "are changes and not intervals."
        )
    keys = list(dict.fromkeys(key for record in found.records for key in record))
    outer = list(dict.fromkeys(key for values in found.around for key in values))
    varying = [key for key in outer if key not in keys and not _is_constant(found.around, key)]
    if len(keys) + len(varying) > MAX_COLUMNS:
        raise DataError(f"{path} has records of more than {MAX_COLUMNS} keys.")
    columns = [[record.get(key) for record in found.records] for key in keys]
    columns += [[values.get(key) for values in found.around] for key in varying]
    mark = None if options.decimal is None else DECIMALS[options.decimal]
    texts = [[cell for cell in set(map(str, column)) if cell != "None"]
             for column in columns if any(isinstance(cell, str) for cell in column)]  # fmt: skip
    fixed = [f"{key}: {found.around[0][key]}" for key in outer if key in found.around[0]
             and key not in varying]  # fmt: skip
    raw = RawTable(
        arrow_table([[_plain(cell) for cell in column] for column in columns],
                    unique_names([*keys, *varying])),
        preamble=tuple(fixed),
        decimal=mark or find_decimal(texts, ";", path),
        kind=KIND,
    )  # fmt: skip
    return whole_table(raw, options, path)


def _is_constant(around: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(values.get(key) == around[0].get(key) for values in around)


def _plain(cell: Any) -> Any:
    """A cell as text, number or None; true and false are words."""
    return str(cell).lower() if isinstance(cell, bool) else cell
