"""NILMTK's HDF5: /building<i>/elec/meter<j>/table, two-level columns, metadata as attributes.

Attributes are pickles. A pickle from a stranger's file can run any code when it is loaded, so none
is: its steps are read one by one, for plain containers, numbers and text alone.

A dataset of HDF5 can keep its values in any other file of the computer (external storage, virtual
datasets), a link can lead into another file, and a filter can name a library that is loaded to
decode the values. The file of a stranger could so make the program read, and then release, a file
that the stranger may not read. The whole file is therefore walked before PyTables opens it: no
link is followed, and a dataset that is only opened reads nothing.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pickletools import (
    OpcodeInfo,
    genops,
    markobject,
    pybytes_or_str,
    pyfloat,
    pyint,
    pyinteger_or_bool,
    pyunicode,
)
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any

import numpy as np

from hushmeter.errors import DataError, HushmeterError, MissingExtraError
from hushmeter.processes import run_python
from hushmeter.read.folders import HOLD_S, Channel, align, choose_building, clean, usual_interval
from hushmeter.read.recording import Recording, Task
from hushmeter.read.source import hdf5_source, refuse_large

FORMAT = "NILMTK HDF5"
WANTED = (("power", "active"), ("power", "apparent"))
CHUNK = 1_000_000
LITERAL = (pyint, pyinteger_or_bool, pyfloat, pyunicode, pybytes_or_str)
"""What a step of a pickle writes out as text or a number."""
PLAIN: dict[str, Callable[[list[Any]], Any]] = {
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    **dict.fromkeys(("EMPTY_LIST", "LIST"), list),
    **dict.fromkeys(("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"), tuple),
    **dict.fromkeys(("EMPTY_DICT", "DICT"), lambda items: _pairs(items)),
}
ORDERED = "collections OrderedDict"
LONGEST_S, MOST_BYTES = 3600, 1 << 36
DEFLATE, SHUFFLE, CHECKSUM, LZO, BZIP2, BLOSC, BLOSC2 = 1, 2, 3, 305, 307, 32001, 32026
PACKAGED = {LZO: "lzo", BZIP2: "bzip2", BLOSC: "blosc", BLOSC2: "blosc2"}
"""Filters that PyTables may contain, by their number in HDF5."""
ADVICE = "only data in the file itself are read: write all of them into one file, without links"


class Unread:
    """An object of a pickle that is no plain data; nobody may take it for a value."""

    def _refuse(self, *_: object) -> Any:
        raise TypeError("its metadata hold more than dicts, lists, text and numbers")

    __bool__ = __int__ = __iter__ = __hash__ = __str__ = _refuse


def read_plain_pickle(data: bytes, **__: Any) -> Any:
    """Read the dicts, lists, text and numbers of a pickle without loading it.

    Nothing that it names is imported or called: any other object is left unread.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    value: Any
    try:
        for code, value, _ in genops(bytes(data)):
            if code.name == "STOP":
                return stack.pop()
            if code.name == "MARK":
                marks.append(len(stack))
            elif code.name.endswith("GET"):
                stack.append(memo[int(value)])
            elif code.name.endswith("PUT") or code.name == "MEMOIZE":
                memo[len(memo) if value is None else int(value)] = stack[-1]
            else:
                has_mark = markobject in code.stack_before
                end = marks.pop() if has_mark else len(stack)
                items, below = stack[end:], code.stack_before
                first = end - (below.index(markobject) if has_mark else len(below))
                taken = stack[max(first, 0) : end]
                stack[max(first, 0) :] = _made(code, value, taken, items)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(str(error)) from None
    raise pickle.UnpicklingError("it has no end")


def _made(code: OpcodeInfo, value: Any, taken: list[Any], items: list[Any]) -> list[Any]:
    """What a step of a pickle leaves in place of what it took and of the items above a mark."""
    name = code.name
    if name in PLAIN:
        return [PLAIN[name](items or taken)]
    if (name == "GLOBAL" and value == ORDERED) or (
        name == "STACK_GLOBAL" and " ".join(taken) == ORDERED
    ):
        return [dict]
    if name == "REDUCE" and taken[0] is dict:
        return [dict(*taken[1])]
    if name.startswith("APPEND") and isinstance(taken[0], list):
        taken[0].extend(items or taken[1:])
    elif name.startswith("SETITEM") and isinstance(taken[0], dict):
        taken[0].update(_pairs(items or taken[1:]))
    elif code.stack_after and code.stack_after[0] in LITERAL:
        return [value]
    else:
        return [None if name == "NONE" else Unread()] * len(code.stack_after)
    return taken[:1]


def _pairs(items: list[Any]) -> dict[Any, Any]:
    """The keys and values that follow each other in a list."""
    return dict(zip(items[::2], items[1::2], strict=True))


@contextmanager
def _plain_pickles() -> Iterator[None]:
    """PyTables loads every attribute with `pickle`; while reading, with `read_plain_pickle`."""
    from tables import attributeset

    loud = attributeset.pickle
    attributeset.pickle = SimpleNamespace(
        loads=read_plain_pickle, dumps=pickle.dumps, UnpicklingError=pickle.UnpicklingError
    )
    try:
        yield
    finally:
        attributeset.pickle = loud


def read_nilmtk(task: Task) -> Recording:
    """One building of a NILMTK file, read in a process of its own.

    A damaged file can make HDF5 end its process or fill the memory. A process that may not start
    another one is the confined worker of a server, and is itself one that may end.
    """
    if find_spec("tables") is None or find_spec("h5py") is None:
        raise MissingExtraError("reading NILMTK's HDF5", "nilmtk")
    try:
        done = run_python(
            f"from {__name__} import answer; answer()",
            pickle.dumps((os.path.realpath(""), task), protocol=4),
            LONGEST_S,
        )
    except PermissionError:
        return read_here(task)
    except TimeoutExpired:
        raise task.error(f"was not read within {LONGEST_S} s: cut it into one building.") from None
    try:
        if done.returncode != 0:
            raise pickle.UnpicklingError("no answer")
        # The process has the rights of this one: what it could answer, it could do itself.
        found, *said = pickle.loads(done.stdout)
    except (pickle.UnpicklingError, EOFError):
        raise task.error(
            "is no readable NILMTK file: HDF5 ended while it read it, so the file is damaged or "
            "too large; copy it again, or keep one building."
        ) from None
    for own, theirs in zip((task.notes, task.private, task.reasons), said, strict=True):
        own[:] = theirs
    if isinstance(found, HushmeterError):
        raise found
    recording: Recording = found
    return recording


def answer() -> None:
    """Read the file of the task on standard input, and write what comes of it."""
    folder, task = pickle.load(sys.stdin.buffer)
    os.chdir(folder)
    _bound_memory()
    found: Recording | HushmeterError
    try:
        found = read_here(task)
    except HushmeterError as error:
        found = error
    outcome = found, task.notes, task.private, task.reasons
    sys.stdout.buffer.write(pickle.dumps(outcome, protocol=4))
    sys.stdout.buffer.flush()
    # PyTables would close the nodes of a damaged file once more, and fail.
    os._exit(0)


def _bound_memory() -> None:
    """Let the process have no more memory than it could need, where the system can do that."""
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if most == resource.RLIM_INFINITY or most > MOST_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, most))


def read_here(task: Task) -> Recording:
    """One building of a NILMTK file: its mains, and its other meters on its grid."""
    import tables

    try:
        with warnings.catch_warnings(), _plain_pickles():
            # PyTables warns about a damaged node and goes on without it.
            warnings.simplefilter("error")
            refuse_outside_data(task)
            with tables.open_file(mode="r", **hdf5_source(task.path)) as file:
                return _read_building(task, file)
    except HushmeterError:
        raise
    except Exception as error:
        # For a damaged file, HDF5 and PyTables raise errors of many kinds.
        reason = " ".join(str(error).split())[:160].rstrip(".")
    raise task.error(f"is no readable NILMTK file: {reason}.")


def _read_building(task: Task, file: Any) -> Recording:
    """The mains of one building, and its circuits unless `circuits` is "leave"."""
    group = _building(task, file, task.options.building)
    metadata = _metadata(group)
    described = {int(k): m for k, m in metadata.get("elec_meters", {}).items()}
    tables = _enabled(task, dict(_meters(task, group)), described)
    names = _names(metadata)
    sites = [number for number in tables if described.get(number, {}).get("site_meter")]
    if not metadata and tables:
        task.notes.append("No metadata: meter 1 is taken as the mains.")
        sites = [min(tables)]
    if task.circuits == "leave":
        if not sites:
            raise task.error(
                f"({group._v_name}) has no meter of the whole home (site_meter), only "
                "circuits: the gaps of their sum depend on the readings."
            )
        tables = {number: tables[number] for number in sites}
    refuse_large(task.path, sum(int(table.nrows) for table in tables.values()), 2)
    channels = {
        number: _channel(
            task, table, "mains" if number in sites else names.get(number, f"meter{number}")
        )
        for number, table in tables.items()
    }
    unnamed = [str(number) for number in tables if number not in sites and number not in names]
    if metadata and unnamed:
        task.notes.append(
            f"Meters without an appliance are kept as circuits: {', '.join(unnamed)}."
        )
    others = [number for number in tables if number not in sites]
    inner = _inner(task, others, described)
    return _align(
        task,
        [channels[number] for number in sites],
        [replace(channels[number], inner=number in inner) for number in others],
    )


def _align(task: Task, mains: list[Channel], circuits: list[Channel]) -> Recording:
    """All meters on one grid; nothing is held if they were logged at the same times."""
    everything = [*mains, *circuits]
    if not everything:
        raise task.error("has no meter with a table.")
    interval = usual_interval(everything)
    together = all(np.array_equal(c.seconds, everything[0].seconds) for c in everything)
    if not together:
        task.notes.append(f"Meters were put on one grid of {interval:g} s.")
    return align(
        task,
        mains,
        circuits,
        interval_s=interval,
        format_name=FORMAT,
        hold_s=0.0 if together else HOLD_S,
        step_w=task.options.step_size or 0.0,
    )


def _enabled(
    task: Task, tables: dict[int, Any], described: dict[int, dict[str, Any]]
) -> dict[int, Any]:
    """The meters that the metadata do not disable: a disabled meter repeats another one."""
    off = [number for number in tables if described.get(number, {}).get("disabled")]
    if off:
        listed = ", ".join(map(str, off))
        task.notes.append(f"Meters that the metadata disable were left out: {listed}.")
    return {number: table for number, table in tables.items() if number not in off}


def _inner(task: Task, circuits: list[int], described: dict[int, dict[str, Any]]) -> list[int]:
    """Circuits that lie behind another circuit, so that their power is a part of that one's.

    Where a meter lies behind itself the metadata cannot be followed, and no circuit counts as a
    part of another.
    """
    parents = {number: described.get(number, {}).get("submeter_of") for number in circuits}
    for number in circuits:
        seen, above = {number}, parents[number]
        while above in parents:
            if above in seen:
                task.notes.append("Meters lie behind themselves (submeter_of); all are added up.")
                return []
            seen.add(above)
            above = parents[above]
    inner = [number for number in circuits if parents[number] in parents]
    if inner:
        pairs = ", ".join(f"{number} behind {parents[number]}" for number in inner)
        task.notes.append(f"Meters lie behind other circuits and are parts of them: {pairs}.")
    return inner


def _building(task: Task, file: Any, building: int | str | None) -> Any:
    found = sorted(n for n in file.root._v_children if re.fullmatch(r"building\d+", n))
    if not found:
        raise task.error(
            f"is HDF5, but has no /building<i>/elec: it is not a NILMTK file "
            f"(found: {', '.join(list(file.root._v_children)[:8]) or 'nothing'})."
        )
    return file.root._v_children[choose_building(found, "building", building, task.path)]


def _attribute(node: Any, name: str) -> Any:
    attributes = node._v_attrs
    if name not in attributes:
        return None
    return attributes[name]


def _metadata(group: Any) -> dict[str, Any]:
    value = _attribute(group, "metadata")
    if value is not None and not isinstance(value, dict):
        bool(Unread())
    return value or {}


def _names(metadata: dict[str, Any]) -> dict[int, str]:
    """Meter number → the appliances it measures."""
    names: dict[int, str] = {}
    for appliance in metadata.get("appliances", []):
        label = str(appliance.get("original_name") or appliance.get("type", "appliance"))
        for meter in appliance.get("meters", []):
            number = int(meter)
            names[number] = f"{names[number]} + {label}" if number in names else label
    return names


def _meters(task: Task, group: Any) -> Iterator[tuple[int, Any]]:
    if "elec" not in group._v_children:
        raise task.error(f"({group._v_name}) has no elec group.")
    children = group._v_children["elec"]._v_children
    for name in sorted(children, key=lambda n: int(re.sub(r"\D", "", n) or 0)):
        match = re.fullmatch(r"meter(\d+)", name)
        if match:
            node = children[name]
            if "table" not in node._v_children:
                raise task.error(
                    f": {name} has no table; write it with format='table', as NILMTK does."
                )
            yield int(match[1]), node._v_children["table"]


def _channel(task: Task, table: Any, name: str) -> Channel:
    """One meter's power, read in chunks."""
    block, column, quantity = _power_column(task, table)
    if quantity[1] != "active":
        task.notes.append(f"{name} is {quantity[1]} power; no active power is there.")
    unit = _index_unit(table)
    seconds, watts = [], []
    for start in range(0, table.nrows, CHUNK):
        rows = table.read(start, start + CHUNK)
        seconds.append(rows["index"].astype(np.float64) / unit)
        values = rows[block]
        watts.append((values[:, column] if values.ndim == 2 else values).astype(np.float64))
    if not seconds:
        raise task.error(f": the table of {name} is empty.")
    return clean(name, np.concatenate(seconds), np.concatenate(watts), task.path)


def _power_column(task: Task, table: Any) -> tuple[str, int, tuple[str, str]]:
    """Block and column of active power, or of what there is instead."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for field in table.colnames:
        if not field.startswith("values_block"):
            continue
        kind = _attribute(table, f"{field}_kind")
        for i, name in enumerate(kind if isinstance(kind, list) else []):
            if isinstance(name, tuple | list) and len(name) == 2:
                found[(str(name[0]), str(name[1]))] = (field, i)
    for quantity in WANTED:
        if quantity in found:
            return *found[quantity], quantity
    raise task.error(
        f": {table._v_parent._v_name} has no active or apparent power (found: "
        f"{', '.join(' '.join(q) for q in found) or 'none that can be read'})."
    )


def _index_unit(table: Any) -> float:
    """Ticks per second of the index."""
    match = re.search(r"\[(s|ms|us|ns)\]", str(_attribute(table, "index_kind")))
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[match[1] if match else "ns"]


def refuse_outside_data(task: Task) -> None:
    """Refuse an HDF5 file that leads to other files or to code, before its values are read."""
    import h5py

    with task.path.open("rb") as stream, h5py.File(stream, "r") as file:
        for name, dataset in _datasets(task, file.id):
            _refuse_outside(task, name, dataset.get_create_plist())
            _refuse_unstored(task, name, dataset)


def _datasets(task: Task, root: Any) -> Iterator[tuple[str, Any]]:
    """Every dataset below a group, with its name; any link that is not a plain one is refused."""
    from h5py import h5d, h5g, h5o

    # Groups can contain themselves, and can be nested deeper than functions of Python.
    waiting, seen = [("", h5g.open(root, b"/"))], set()
    while waiting:
        above, group = waiting.pop()
        _walk_attributes(group)
        for link in _plain_links(task, group, above):
            node = h5o.open(group, link.encode("utf-8"))
            address = h5o.get_info(node).addr
            if address in seen:
                continue
            seen.add(address)
            name = f"{above}/{link}"[-200:]
            if isinstance(node, h5g.GroupID):
                waiting.append((name, node))
            elif isinstance(node, h5d.DatasetID):
                _walk_attributes(node)
                yield name, node


def _walk_attributes(node: Any) -> None:
    """Raise an error for damaged attributes or names, at which PyTables ends the whole process."""
    from h5py import h5a

    for i in range(h5a.get_num_attrs(node)):
        attribute = h5a.open(node, index=i)
        attribute.name.decode("utf-8"), attribute.get_type(), attribute.get_space()


def _plain_links(task: Task, group: Any, above: str) -> list[str]:
    """The names in a group; a soft, external or user-defined link is refused and not followed."""
    from h5py import h5l

    names: list[str] = []
    kinds: list[int] = []

    def note(name: bytes, info: Any) -> None:
        names.append(name.decode("utf-8"))
        kinds.append(info.type)

    group.links.iterate(note, info=True)
    for name, kind in zip(names, kinds, strict=True):
        if kind != h5l.TYPE_HARD:
            what = {h5l.TYPE_SOFT: "a soft link", h5l.TYPE_EXTERNAL: "a link to another file"}
            shown = f"{above}/{name}"[-80:]
            raise task.error(
                f": {shown} is {what.get(kind, 'a user-defined link')}, which is not "
                f"followed; {ADVICE}."
            )
    return names


def _refuse_outside(task: Task, name: str, creation: Any) -> None:
    """Refuse a dataset whose values are in other files or need code that is not at hand."""
    from h5py import h5d

    shown = f"{task.path}: the dataset {name[-80:]}"
    if creation.get_external_count() > 0:
        raise DataError(f"{shown} keeps its values in another file (external storage); {ADVICE}.")
    if creation.get_layout() == h5d.VIRTUAL:
        raise DataError(f"{shown} takes its values from other datasets (virtual); {ADVICE}.")
    for i in range(creation.get_nfilters()):
        number = creation.get_filter(i)[0]
        if not _is_at_hand(number):
            raise DataError(
                f"{shown} is compressed by filter {number}, which PyTables does not contain; "
                "compress it with zlib, such as with h5repack -f GZIP=5."
            )


def _refuse_unstored(task: Task, name: str, dataset: Any) -> None:
    """Refuse a table that declares more rows than it stores: a small file would fill the memory."""
    from h5py import h5d, h5t

    kind, creation = dataset.get_type(), dataset.get_create_plist()
    if not isinstance(kind, h5t.TypeCompoundID):
        return
    if creation.get_layout() == h5d.CHUNKED:
        parts = zip(dataset.shape, creation.get_chunk(), strict=True)
        whole = dataset.get_num_chunks() >= math.prod(-(-rows // size) for rows, size in parts)
    else:
        whole = dataset.get_storage_size() >= math.prod(dataset.shape) * kind.get_size()
    if not whole:
        raise task.error(
            f": the dataset {name[-80:]} declares {math.prod(dataset.shape)} rows, but does "
            "not store all of them: copy the file again."
        )


def _is_at_hand(number: int) -> bool:
    """Whether HDF5 or the installed PyTables contains a filter, so that no plugin is loaded."""
    import tables

    if number in (DEFLATE, SHUFFLE, CHECKSUM):
        return True
    return number in PACKAGED and tables.which_lib_version(PACKAGED[number]) is not None
