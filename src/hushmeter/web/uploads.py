"""Uploaded files: received into memory, decompressed within limits, and read."""

from __future__ import annotations

import io
import re
import tomllib
import zipfile
import zlib
from collections.abc import AsyncGenerator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from hushmeter.errors import DataError, InputError, TooLargeError
from hushmeter.home import Home
from hushmeter.learn.homes import learn_home
from hushmeter.learn.inspection import inspect_recording
from hushmeter.read import ReadOptions, read_bytes, read_home_bytes
from hushmeter.read.source import GZIP_MAGIC, ZIP_MAGIC
from hushmeter.web.server import Session

if TYPE_CHECKING:
    from starlette.requests import Request

    from hushmeter.web.server import Settings

OPTIONS = tuple(field.name for field in fields(ReadOptions))
MOST_FIELD = 1000
# A file of equal readings with ten digits each is compressed about 30 : 1.
MOST_RATIO = 200
RATIO_FROM = 1 << 20
BINARY = (b"\x89HDF", b"PAR1", ZIP_MAGIC)
"""First bytes of formats whose size is checked by their own reader."""
SEPARATORS = (b"\n", b",", b";", b"\t")


class MemoryParser(MultiPartParser):
    """A form parser that never writes a file to disk."""

    spool_max_size = 0


async def take_form(request: Request) -> tuple[bytes, str, dict[str, str]]:
    """Receive a form with one file."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InputError(
            "the request must be multipart/form-data with the file in the field “file”."
        )
    parser = MemoryParser(
        request.headers,
        _chunks(request),
        max_files=1,
        max_fields=len(OPTIONS) + 6,
        max_part_size=MOST_FIELD,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InputError(f"the form cannot be read: {error.message.rstrip('.')}.") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InputError("the form has no file in its field “file”.")
        data, name = await file.read(), safe_name(file.filename or "")
    finally:
        await form.close()
    return data, name, {key: value for key, value in form.items() if isinstance(value, str)}


def safe_name(name: str) -> str:
    """Return the last part of a file's name, short and printable, for use in messages only."""
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(c if c.isprintable() else "_" for c in last).strip(". ")
    return printable[:80] or "the file"


def read_options(fields: dict[str, str]) -> ReadOptions:
    """Return the options with which a file is read. Repeated times are counted, not refused."""
    for name in fields:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise InputError(f"the form has no field {name[:40]!r}; its fields are {known}.")
    given: dict[str, Any] = {name: value for name, value in fields.items() if value.strip()}
    return ReadOptions(**given)


def read_upload(data: bytes, name: str, options: ReadOptions, settings: Settings) -> Session:
    """Read an uploaded file. Its home is learnt if it has a column for each appliance."""
    plain = unpack(data, name, settings)
    if not plain.startswith(BINARY):
        _refuse_many(plain, name, settings)
    most = settings.values
    try:
        recording = read_home_bytes(plain, name, options, most_values=most)
    except TooLargeError:
        raise
    except DataError:
        # Circuits that never have a value together are no reason to refuse the meter.
        recording = read_bytes(plain, name, options, most_values=most)
    found = inspect_recording(recording)
    trace = found.recording.trace
    if len(trace) > settings.readings:
        raise TooLargeError(
            f"{name} has {len(trace)} readings, but the page takes at most {settings.readings}: "
            "split it into smaller files."
        )
    zone = found.recording.public.zone
    if trace.power is None:
        return Session(name, found, trace, zone=zone)
    metered = read_bytes(plain, name, options, most_values=most).trace
    if found.learnt is None:
        return Session(name, found, trace, zone=zone, metered=metered)
    home = found.learnt.home
    return Session(name, found, found.learnt.trace, home, zone=zone, metered=metered)


def parse_home(data: bytes, name: str, settings: Settings) -> Home:
    """Return the home of an uploaded TOML file; raise `DataError` if it is not valid."""
    try:
        home = Home.from_toml(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{name} is not a TOML file: {error}.") from None
    except InputError as error:
        raise DataError(f"{name} does not describe a valid home: {error}") from None
    if len(home) > settings.appliances:
        raise DataError(
            f"{name} has {len(home)} appliances, but the page takes at most {settings.appliances}."
        )
    return home


def learn_from(session: Session) -> Home:
    """Learn a home from the sub-metered readings of a session."""
    return learn_home(session.trace).home


def unpack(data: bytes, name: str, settings: Settings) -> bytes:
    """Decompress a gzip file; check the sizes in a zip archive; return other files as they are."""
    if data.startswith(ZIP_MAGIC):
        _check_archive(data, name, settings)
    if not data.startswith(GZIP_MAGIC):
        return data
    plain = _decompress(data, name, settings)
    if plain.startswith(GZIP_MAGIC):
        raise TooLargeError(f"{name} contains another compressed file: decompress it once.")
    return plain


def _decompress(data: bytes, name: str, settings: Settings) -> bytes:
    """Return the content of a gzip file, refused as soon as it exceeds the limits."""
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
                    raise DataError(f"{name} is an incomplete gzip file: load it again.")
            # A gzip file may end with zeros, and it may consist of several members.
            rest = stream.unused_data.lstrip(b"\0")
    except zlib.error:
        raise DataError(f"{name} is a damaged gzip file: load it again.") from None
    return b"".join(parts)


def _check_archive(data: bytes, name: str, settings: Settings) -> None:
    """Refuse a zip archive or workbook by its declared sizes, or with a gzip file in it.

    A reader that finds more bytes than declared refuses the archive as damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _refuse_bomb(sum(entry.file_size for entry in entries), len(data), name, settings)
            for entry in entries:
                with archive.open(entry) as member:
                    if member.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                        raise TooLargeError(
                            f"{name} contains another compressed file: decompress it once."
                        )
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError) as error:
        if isinstance(error, TooLargeError):
            raise
        # The reader of archives explains what is wrong with this one.
        return


def _refuse_bomb(size: int, packed: int, name: str, settings: Settings) -> None:
    """Raise `TooLargeError` if a file grows too much while it is decompressed."""
    if size > RATIO_FROM and size > MOST_RATIO * packed:
        raise TooLargeError(
            f"{name} decompresses to more than {MOST_RATIO} times its size, which meter readings "
            "never do: load another file."
        )
    if size > settings.unpacked_bytes:
        raise TooLargeError(
            f"{name} decompresses to more than {settings.unpacked_bytes >> 20} MB: "
            "split it into smaller files."
        )


def _refuse_many(data: bytes, name: str, settings: Settings) -> None:
    """Raise `TooLargeError` for a text file with too many values, before it is parsed."""
    if sum(data.count(mark) for mark in SEPARATORS) > settings.values:
        raise TooLargeError(
            f"{name} has more than {settings.values} values: split it into smaller files."
        )


async def _chunks(request: Request) -> AsyncGenerator[bytes, None]:
    async for chunk in request.stream():
        yield chunk
