"""Uploaded files: taken from the request into memory, unpacked within limits, read by `read`."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from hushmeter.errors import DataError, InputError
from hushmeter.learn.inspection import inspect_recording
from hushmeter.read import ReadOptions, Recording, read_bytes
from hushmeter.read.source import GZIP_MAGIC
from hushmeter.web.sessions import Session

if TYPE_CHECKING:
    from starlette.requests import Request

    from hushmeter.web.settings import Settings

OPTIONS = ("time_column", "value_column", "unit", "stamp", "tz", "building")
MOST_FIELD = 1000
# Ten digits a reading, all alike, pack about 30 : 1.
MOST_RATIO = 200
RATIO_FROM = 1 << 20
HDF5_MAGIC, PARQUET_MAGIC = b"\x89HDF", b"PAR1"
SEPARATORS = (b"\n", b",", b";", b"\t")


class MemoryParser(MultiPartParser):
    """A parser of forms that never spools a file to disk."""

    spool_max_size = 0


async def take_form(request: Request) -> tuple[bytes, str, dict[str, str]]:
    """The one file of a form, a harmless name for it, and the other fields."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InputError("send the file as multipart/form-data, in the field file.")
    parser = MemoryParser(
        request.headers, _chunks(request), max_files=1, max_fields=12, max_part_size=MOST_FIELD
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InputError(f"the form cannot be read: {error.message.rstrip('.')}.") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InputError("the form has no file in the field file.")
        data, name = await file.read(), safe_name(file.filename or "")
    finally:
        await form.close()
    return data, name, {key: value for key, value in form.items() if isinstance(value, str)}


def safe_name(name: str) -> str:
    """The last part of a file's name, short and printable: for messages and nothing else."""
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(c if c.isprintable() else "_" for c in last).strip(". ")
    return printable[:80] or "the file"


def read_options(fields: dict[str, str]) -> ReadOptions:
    """What a person told about the file; repeated times are counted, not refused."""
    for name in fields:
        if name not in OPTIONS:
            raise InputError(f"the form has no field {name[:40]!r}; known: {', '.join(OPTIONS)}.")
    given: dict[str, Any] = {name: value for name, value in fields.items() if value.strip()}
    return ReadOptions(**given, repeats="last")


def read_upload(data: bytes, name: str, options: ReadOptions, settings: Settings) -> Session:
    """A session from the bytes of a file; its home is learnt where it has sub-meters."""
    found = inspect_recording(_read(unpack(data, name, settings), name, options, settings))
    trace = found.recording.trace
    if len(trace) > settings.readings:
        raise DataError(
            f"{name} holds {len(trace)} readings; the page takes {settings.readings}: "
            "cut it into smaller files."
        )
    if found.learnt is None:
        return Session(name, found, trace)
    return Session(name, found, found.learnt.trace, found.learnt.home)


def unpack(data: bytes, name: str, settings: Settings) -> bytes:
    """The bytes, decompressed where they are gzip; a file that grows too much is refused."""
    if data[:2] != GZIP_MAGIC:
        return data
    parts: list[bytes] = []
    size = 0
    rest = data
    try:
        while rest:
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                part = stream.decompress(rest, 1 << 20)
                rest = stream.unconsumed_tail
                size += len(part)
                _refuse_bomb(size, len(data), name, settings)
                parts.append(part)
                if not part and not rest:
                    raise DataError(f"{name} is a torn gzip file: load it again.")
            # Zeros may follow the end, and so may another member.
            rest = stream.unused_data.lstrip(b"\0")
    except zlib.error:
        raise DataError(f"{name} is a damaged gzip file: load it again.") from None
    return b"".join(parts)


def _refuse_bomb(size: int, packed: int, name: str, settings: Settings) -> None:
    if size > RATIO_FROM and size > MOST_RATIO * packed:
        raise DataError(f"{name} unpacks to more than {MOST_RATIO} times its size: not readings.")
    if size > settings.unpacked_bytes:
        raise DataError(
            f"{name} unpacks to more than {settings.unpacked_bytes >> 20} MB: "
            "cut it into smaller files."
        )


_hdf5 = threading.Lock()


def _read(data: bytes, name: str, options: ReadOptions, settings: Settings) -> Recording:
    if data.startswith(HDF5_MAGIC):
        # HDF5 is not made for threads.
        with _hdf5:
            return read_bytes(data, name, options, most_values=settings.values)
    if not data.startswith(PARQUET_MAGIC):
        _refuse_many(data, name, settings)
    return read_bytes(data, name, options, most_values=settings.values)


def _refuse_many(data: bytes, name: str, settings: Settings) -> None:
    """Refuse a text with more values than are taken, before it is parsed."""
    if sum(data.count(mark) for mark in SEPARATORS) > settings.values:
        raise DataError(
            f"{name} holds more than {settings.values} values: cut it into smaller files."
        )


async def _chunks(request: Request) -> AsyncGenerator[bytes, None]:
    async for chunk in request.stream():
        yield chunk
