"""The output folder of a release: its private part, and the files that are written into it.

The private folder OUT_DIR/.hushmeter belongs to an unfinished release. Only its owner can read it.
It is on the file system of the output, so that a rename out of it is atomic, and it is removed when
the release is finished::

    lock           held by the job that works here
    release.key    32 random bytes, durable before the first spend
    release.json   what was asked for; if it exists, the release has begun
    ledger.head    the last known end of the ledger
    staging/       files that are being written
    reports/       what became of each file
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from hushmeter.errors import DataError
from hushmeter.files import create_file, flush_folder, move, one_sentence, write_bytes, write_text
from hushmeter.fleet.job import Columns
from hushmeter.fleet.source_folder import output_name
from hushmeter.noise.randomness import KEY_BYTES

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

PRIVATE = ".hushmeter"
"""Name of the private folder."""

SEALED = "sealed"
"""Name of the folder, within the private one, of files that are complete and fixed."""

MARK = b"hushmeter.release"
"""Entry of the metadata of every released Parquet file; see `FleetJob.mark`."""

WRITE_ROWS = 1 << 15
"""Rows that the Parquet writer encodes together."""


class PrivateFolder:
    """The private folder of an output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.path = output / PRIVATE
        self.key_file = self.path / "release.key"
        self.begun_file = self.path / "release.json"
        self.head_file = self.path / "ledger.head"
        self.staging = self.path / "staging"
        self.reports = self.path / "reports"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and lock it against other jobs.

        At the end the private folder is removed if no release is in progress, and so are all
        empty folders of the output, and the output itself if it was made here and is empty.
        """
        new = not self.output.exists()
        with one_sentence(self.output):
            self.output.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            # A lock that is only a file with a name would outlive a killed job.
            lock = FileLock(self.path / "lock", mode=0o600, fallback_to_soft=False)
            try:
                # This fails too if a job that ended meanwhile removed the file that was locked.
                lock.acquire(blocking=False)
            except Timeout:
                raise DataError(
                    f"another job is working in {self.output}; wait for it, or name another folder."
                ) from None
        try:
            yield
        finally:
            if not self.begun_file.exists():
                shutil.rmtree(self.path, ignore_errors=True)
                self._remove_empty_folders(whole=new)
            lock.release()

    def _remove_empty_folders(self, *, whole: bool) -> None:
        """Remove the folders of the output that hold nothing, and if `whole` the output itself."""
        folders = [path for path in self.output.rglob("*") if path.is_dir()]
        for path in [*sorted(folders, reverse=True), *([self.output] if whole else [])]:
            # A folder that is not empty stays.
            with suppress(OSError):
                path.rmdir()

    def begin(self, asked: dict[str, Any], key: bytes) -> None:
        """Begin a release: write the key first, and then the job that marks the beginning."""
        with one_sentence(self.output):
            for folder in (self.staging, self.reports):
                folder.mkdir(mode=0o700, exist_ok=True)
            write_bytes(self.key_file, key, force=True)
            write_text(self.begun_file, json.dumps(asked, indent=2), force=True)
            flush_folder(self.output)

    @property
    def asked(self) -> dict[str, Any] | None:
        """The job of an unfinished release as plain data; None if no release has begun."""
        content = _content(self.begun_file)
        return None if content is None else dict(json.loads(content))

    def key(self) -> bytes:
        """Return the release key; raise `DataError` if it is lost."""
        found = _content(self.key_file)
        if found is None or len(found) != KEY_BYTES:
            raise DataError(
                f"the key of the unfinished release in {self.output} is lost, so it cannot be "
                "resumed; release the rest into another folder with --correct, which spends again."
            )
        return found

    def write_head(self, head: str) -> None:
        """Keep the end of the ledger, so that an older copy of the ledger is detected."""
        write_text(self.head_file, head, force=True)

    def head(self) -> str | None:
        """Return the last known end of the ledger, or None if there is none."""
        content = _content(self.head_file)
        return None if content is None else content.decode()

    @property
    def sealed(self) -> bool:
        """True if all files of the release are complete and only have to be moved."""
        return (self.path / SEALED).is_dir()

    def seal(self, contents: Mapping[str, bytes]) -> None:
        """Write files that complete a release, and fix them for good.

        A resumed job publishes these files and no others, whatever its input is by then: two
        versions of a noisy number would tell more than one.
        """
        draft = self.staging / SEALED
        with one_sentence(self.output):
            draft.mkdir(mode=0o700)
            for name, content in contents.items():
                with one_sentence(self.output / name):
                    create_file(draft / name, content, public=True)
            flush_folder(draft)
            move(draft, self.path / SEALED)

    def publish_sealed(self, last: str) -> None:
        """Move the sealed files into the output; the one that makes it a release comes last."""
        for path in sorted((self.path / SEALED).iterdir(), key=lambda one: one.name == last):
            move(path, self.output / path.name)

    def remove_unlisted(self, listed: Collection[str]) -> None:
        """Remove files of this release that a manifest will not list, and refuse any other file."""
        written = {output_name(source) for source in self.reported()}
        for path in sorted(self.output.rglob("*")):
            name = path.relative_to(self.output)
            if name.parts[0] == PRIVATE or path.is_dir() or name.as_posix() in listed:
                continue
            if name.as_posix() not in written:
                raise DataError(
                    f"{path} is not part of the release; move it elsewhere and continue with "
                    "--resume."
                )
            with one_sentence(path):
                path.unlink()

    def report_file(self, source: str) -> Path:
        """Return the path of the report of a file.

        It is named by a hash, because a path may be longer than a file name can be.
        """
        return self.reports / f"{hashlib.sha256(source.encode()).hexdigest()}.json"

    def write_report(self, source: str, content: bytes) -> None:
        """Write the report of a file."""
        write_bytes(self.report_file(source), content, force=True)

    def report(self, source: str) -> dict[str, Any] | None:
        """Return the report of a file, or None if there is no complete one."""
        return _complete_json(self.report_file(source))

    def partial_file(self, source: str) -> Path:
        """Return the path of the partial sums of a file."""
        return self.report_file(source).with_suffix(".sums")

    def partial(self, source: str) -> bytes | None:
        """Return the partial sums of a file, or None if there are none."""
        return _content(self.partial_file(source))

    def write_partial(self, source: str, content: bytes) -> None:
        """Write the partial sums of a file."""
        write_bytes(self.partial_file(source), content, force=True)

    def reported(self) -> Iterator[str]:
        """Yield the names of the files that have a report."""
        for path in self.reports.glob("[!.]*.json"):
            found = _complete_json(path)
            if found is not None:
                yield found["source"]

    def clear_staging(self) -> None:
        """Remove the incomplete files of a killed job."""
        for path in self.staging.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def destroy(self) -> None:
        """Overwrite and remove the key, and then remove the folder."""
        with one_sentence(self.output):
            if self.key_file.exists():
                with self.key_file.open("r+b") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                self.key_file.unlink()
                flush_folder(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
            if self.path.exists():
                # A task that was taken for dead has written into the folder meanwhile.
                shutil.rmtree(self.path)
            flush_folder(self.output)


class StagedFile(io.RawIOBase):
    """A file in the staging folder, whose SHA-256 is computed while it is written."""

    def __init__(self, folder: PrivateFolder, target: Path, size: int) -> None:
        self._path = folder.staging / secrets.token_hex(8)
        self._target, self._output = target, folder.output
        self._sum = hashlib.sha256()
        self.size = 0
        self._descriptor = -1
        with one_sentence(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._descriptor, 0, max(1, size))
            except OSError:
                self.discard()
                raise

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes and return how many."""
        view = memoryview(data).cast("B")
        self._sum.update(view)
        done = 0
        while done < view.nbytes:
            done += os.write(self._descriptor, view[done:])
        self.size += done
        return done

    @property
    def digest(self) -> str:
        """SHA-256 of what was written, as hexadecimal text."""
        return self._sum.hexdigest()

    def settle(self) -> None:
        """Cut off unused room and make the content durable."""
        with one_sentence(self._target):
            os.ftruncate(self._descriptor, self.size)
            os.fsync(self._descriptor)

    def publish(self) -> None:
        """Rename the file to its final name, durably."""
        with one_sentence(self._target):
            self._close()
            self._path.replace(self._target)
            for folder in (self._target.parent, *self._new_folders()):
                flush_folder(folder)

    def discard(self) -> None:
        """Remove the file if it was not published."""
        self._close()
        with suppress(OSError):
            self._path.unlink()

    def _new_folders(self) -> Iterator[Path]:
        """Yield the folders from the output folder to the file, whose names must be durable."""
        for folder in self._target.parent.parents:
            if folder == self._output or self._output in folder.parents:
                yield folder

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def output_schema(schema: pa.Schema, columns: Columns) -> pa.Schema:
    """Return the schema of the output: float32 values stay, all others become float64."""
    import pyarrow as pa

    place = schema.get_field_index(columns.value)
    field = schema.field(place)
    kind = pa.float32() if field.type == pa.float32() else pa.float64()
    return schema.set(place, field.with_type(kind))


@contextmanager
def open_writer(
    sink: StagedFile, wanted: pa.Schema, held: pa.Schema, leaves: list[str], columns: Columns,
    mark: str,
) -> Iterator[parquet.ParquetWriter]:  # fmt: skip
    """Open a writer of Parquet with zstd compression and a suitable encoding for each column.

    Noise has no repetitions, so its values are compressed best with their bytes split by place
    (BYTE_STREAM_SPLIT). Times and intervals rise evenly, so their differences are stored. All
    other columns have few different values and are stored as dictionaries. Readers of the file see
    the schema `wanted`; `leaves` are Parquet's own paths of its columns, and `mark` is that of the
    release.
    """
    import pyarrow as pa
    from pyarrow import parquet

    encodings = {
        columns.value: "BYTE_STREAM_SPLIT",
        columns.time: "DELTA_BINARY_PACKED",
        columns.interval: "DELTA_BINARY_PACKED",
    }
    # Readers skip row groups by meter and time; other statistics cost more than they save.
    searched = {columns.meter, columns.time}
    with parquet.ParquetWriter(
        pa.PythonFile(sink, mode="w"),
        held,
        compression="zstd",
        use_dictionary=[leaf for leaf in leaves if leaf not in encodings],
        column_encoding=encodings,
        write_statistics=[leaf for leaf in leaves if leaf in searched],
        write_batch_size=WRITE_ROWS,
        store_schema=False,
    ) as writer:
        yield writer
        writer.add_key_value_metadata(
            {
                b"ARROW:schema": base64.b64encode(wanted.serialize().to_pybytes()),
                MARK: mark.encode(),
            }
        )


def table_bytes(table: pd.DataFrame, mark: str) -> bytes:
    """Return a table as the bytes of a Parquet file with the mark of its release."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    content = pa.Table.from_pandas(table, preserve_index=False)
    content = content.replace_schema_metadata({MARK: mark})
    parquet.write_table(content, sink, compression="zstd")
    return bytes(sink.getvalue())


def _complete_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; return None if the file is absent or incomplete."""
    try:
        return dict(json.loads(_content(path) or b""))
    except ValueError:
        return None


def _content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
