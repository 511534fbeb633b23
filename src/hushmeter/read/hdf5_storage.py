"""Whether an HDF5 file keeps all of its data in itself.

A dataset of HDF5 can keep its values in any other file of the computer (external storage, virtual
datasets), a link can lead into another file, and a filter can name a library that is loaded to
decode the values. The file of a stranger could so make the program read, and then release, a file
that the stranger may not read. The whole file is therefore walked before any value is read: no
link is followed, and a dataset that is only opened reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hushmeter.errors import DataError, MissingExtraError

DEFLATE, SHUFFLE, CHECKSUM, LZO, BZIP2, BLOSC, BLOSC2 = 1, 2, 3, 305, 307, 32001, 32026
PACKAGED = {LZO: "lzo", BZIP2: "bzip2", BLOSC: "blosc", BLOSC2: "blosc2"}
"""Filters that PyTables may contain, by their number in HDF5."""
ADVICE = "only data in the file itself are read: write all of them into one file, without links"


def refuse_outside_data(path: Path) -> None:
    """Refuse an HDF5 file that leads to other files or to code, before its values are read."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("reading NILMTK's HDF5", "nilmtk") from None
    with path.open("rb") as stream, h5py.File(stream, "r") as file:
        for name, dataset in _datasets(file.id, path):
            _refuse_outside(name, dataset.get_create_plist(), path)
            _refuse_unstored(name, dataset, path)


def _datasets(root: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Every dataset below a group, with its name; any link that is not a plain one is refused."""
    from h5py import h5d, h5g, h5o

    # Groups can contain themselves, and can be nested deeper than functions of Python.
    waiting, seen = [("", h5g.open(root, b"/"))], set()
    while waiting:
        above, group = waiting.pop()
        _walk_attributes(group)
        for link in _plain_links(group, above, path):
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


def _plain_links(group: Any, above: str, path: Path) -> list[str]:
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
            raise DataError(
                f"{path}: {shown} is {what.get(kind, 'a user-defined link')}, which is not "
                f"followed; {ADVICE}."
            )
    return names


def _refuse_outside(name: str, creation: Any, path: Path) -> None:
    """Refuse a dataset whose values are in other files or need code that is not at hand."""
    from h5py import h5d

    shown = f"{path}: the dataset {name[-80:]}"
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


def _refuse_unstored(name: str, dataset: Any, path: Path) -> None:
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
        raise DataError(
            f"{path}: the dataset {name[-80:]} declares {math.prod(dataset.shape)} rows, but does "
            "not store all of them: copy the file again."
        )


def _is_at_hand(number: int) -> bool:
    """Whether HDF5 or the installed PyTables contains a filter, so that no plugin is loaded."""
    import tables

    if number in (DEFLATE, SHUFFLE, CHECKSUM):
        return True
    return number in PACKAGED and tables.which_lib_version(PACKAGED[number]) is not None
