"""A file that exists only in memory, for readers that expect a path."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, NoReturn

from hushmeter.errors import DataError

if sys.platform == "win32":
    from pathlib import WindowsPath as SystemPath
else:
    from pathlib import PosixPath as SystemPath


class MemoryFile(SystemPath):
    """Bytes under a name.

    It is a path so that readers take it and name it in their messages; the operating system never
    gets to see it, because it has no file-system path.

    Parameters
    ----------
    name : str
        For messages only.
    data : bytes
    most_values : int, optional
        Most values that a packed table may hold: a small file can unpack to a lot.
    """

    def __new__(cls, name: str, *_: Any) -> MemoryFile:
        """The path; the bytes follow in `__init__`."""
        return super().__new__(cls, name)

    def __init__(self, name: str, data: bytes, most_values: int | None = None) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(name)
        self.data, self.most_values = data, most_values

    def __fspath__(self) -> NoReturn:
        raise DataError(f"{self} is only in memory, and this format needs a file.")

    def open(self, *_: Any, **__: Any) -> Any:
        """Its bytes as a stream."""
        return io.BytesIO(self.data)


def arrow_source(path: Path) -> Any:
    """What pyarrow reads: the path, or the bytes of a file in memory."""
    if isinstance(path, MemoryFile):
        import pyarrow as pa

        return pa.BufferReader(path.data)
    return path


def read_parquet(path: Path) -> Any:
    """The table of a Parquet file; of one in memory only as much as it may hold."""
    from pyarrow import parquet

    texts = None
    if isinstance(path, MemoryFile):
        found = parquet.ParquetFile(arrow_source(path))
        groups = [found.metadata.row_group(i) for i in range(found.metadata.num_row_groups)]
        refuse_large(path, sum(group.num_rows for group in groups), found.metadata.num_columns)
        # Packed text stays packed until its length is known: one long word may stand in every row.
        texts = [name for name in found.schema.names if _is_text(found, name)]
    table = parquet.read_table(arrow_source(path), read_dictionary=texts)
    for i, name in enumerate(table.column_names):
        table = table.set_column(i, name, _unpack_text(path, table.column(i)))
    return table


def _is_text(file: Any, name: str) -> bool:
    fields = file.schema_arrow
    return name in fields.names and _is_text_type(fields.field(name).type)


def _is_text_type(kind: Any) -> bool:
    from pyarrow import types

    return any(
        is_kind(kind)
        for is_kind in (
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
        )
    )


def _unpack_text(path: Path, column: Any) -> Any:
    """A packed column as plain values, refused where it is too long; others as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return column
    size = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    # A value of eight bytes is what a number takes.
    refuse_large(path, -(-size // 8), 1)
    return column.cast(column.type.value_type)


def hdf5_source(path: Path) -> dict[str, Any]:
    """Arguments with which PyTables opens a path, or a file in memory."""
    if isinstance(path, MemoryFile):
        return {
            "filename": path.name,
            "driver": "H5FD_CORE",
            "driver_core_image": path.data,
            "driver_core_backing_store": 0,
        }
    return {"filename": str(path)}


def refuse_large(path: Path, rows: int, columns: int) -> None:
    """Refuse a packed table with more values than its reader was told to take."""
    if isinstance(path, MemoryFile) and path.most_values is not None:
        values = rows * columns
        if values > path.most_values:
            raise DataError(
                f"{path} unpacks to {rows} rows of {columns} columns, and at most "
                f"{path.most_values} values are taken: cut it into smaller files."
            )
