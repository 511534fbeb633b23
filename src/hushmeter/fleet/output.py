"""The output of one file: room reserved before the spend, hashed as written, renamed when whole."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError
from hushmeter.fleet.schema import Columns
from hushmeter.fleet.state import PrivateFolder, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

WRITE_ROWS = 1 << 15
_SPARE = 1 << 20


class StagedFile(io.RawIOBase):
    """A file in staging, with its SHA-256 as it grows.

    Parameters
    ----------
    folder : PrivateFolder
    target : Path
        Where it is to appear.
    size : int
        Bytes to reserve, so that a full disk is known before anything is spent.
    """

    def __init__(self, folder: PrivateFolder, target: Path, size: int) -> None:
        self._path = folder.staging / secrets.token_hex(8)
        self._target, self._output = target, folder.output
        self._sum = hashlib.sha256()
        self.size = 0
        self._descriptor = -1
        with self._plainly():
            target.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._descriptor, 0, max(1, size))
            except OSError:
                self.discard()
                raise

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")
        self._sum.update(view)
        done = 0
        while done < view.nbytes:
            done += os.write(self._descriptor, view[done:])
        self.size += done
        return done

    @property
    def digest(self) -> str:
        """SHA-256 of what was written."""
        return self._sum.hexdigest()

    def settle(self) -> None:
        """Cut off unused room and make the content durable."""
        with self._plainly():
            os.ftruncate(self._descriptor, self.size)
            os.fsync(self._descriptor)

    def publish(self) -> None:
        """Rename to the final name, durably."""
        with self._plainly():
            self._path.replace(self._target)
            for folder in (self._target.parent, *self._new_folders()):
                sync_folder(folder)
            self._close()

    def discard(self) -> None:
        """Remove the file; nothing appears."""
        self._close()
        with suppress(OSError):
            self._path.unlink()

    def _new_folders(self) -> Iterator[Path]:
        """Folders between the output folder and the file, whose names must be durable too."""
        for folder in self._target.parent.parents:
            if folder == self._output or self._output in folder.parents:
                yield folder

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(f"{self._target} cannot be written: {error.strerror}.") from None


def room_for(metadata: parquet.FileMetaData, value: str) -> int:
    """Room for the output of a file [bytes]: other columns unpacked, 8 per noised value."""
    others = sum(
        metadata.row_group(g).column(c).total_uncompressed_size
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
        if metadata.row_group(g).column(c).path_in_schema != value
    )
    return int(others + 8 * metadata.num_rows + _SPARE)


def output_schema(schema: pa.Schema, columns: Columns) -> pa.Schema:
    """As the input, but for the value: float32 stays, all else becomes float64."""
    import pyarrow as pa

    place = schema.get_field_index(columns.value)
    field = schema.field(place)
    kind = pa.float32() if field.type == pa.float32() else pa.float64()
    return schema.set(place, field.with_type(kind))


@contextmanager
def open_writer(
    sink: StagedFile, wanted: pa.Schema, held: pa.Schema, leaves: list[str], columns: Columns,
    release: str,
) -> Iterator[parquet.ParquetWriter]:  # fmt: skip
    """A writer of zstd Parquet, each column in the encoding that suits it.

    Noise has no repeats: its bytes split by place pack best. Times and intervals rise evenly:
    their differences. All else comes from few values: a dictionary. Text is held as dictionaries
    from reader to writer; the schema written into the file is the `wanted` one all the same.
    """
    import pyarrow as pa
    from pyarrow import parquet

    encodings = {
        columns.value: "BYTE_STREAM_SPLIT",
        columns.time: "DELTA_BINARY_PACKED",
        columns.interval: "DELTA_BINARY_PACKED",
    }
    # Readers skip row groups by meter and time; other statistics cost more than they save.
    sought = {columns.meter, columns.time}
    with parquet.ParquetWriter(
        pa.PythonFile(sink, mode="w"),
        held,
        compression="zstd",
        use_dictionary=[leaf for leaf in leaves if leaf not in encodings],
        column_encoding=encodings,
        write_statistics=[leaf for leaf in leaves if leaf in sought],
        write_batch_size=WRITE_ROWS,
        store_schema=False,
    ) as writer:
        yield writer
        writer.add_key_value_metadata(
            {
                **(wanted.metadata or {}),
                b"ARROW:schema": base64.b64encode(wanted.serialize().to_pybytes()),
                b"hushmeter.release": release.encode(),
            }
        )
