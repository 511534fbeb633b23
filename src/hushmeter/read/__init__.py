"""Readers: from the file a person holds to a `Trace`."""

from __future__ import annotations

from pathlib import Path

from hushmeter.errors import DataError
from hushmeter.read.table import read_table
from hushmeter.trace import Trace

__all__ = ["read_meter"]


def read_meter(path: str | Path) -> Trace:
    """Read meter readings from a CSV or Parquet file with the columns timestamp and watts.

    Further numeric columns are taken as the true power of the appliances they are named after.

    Raises
    ------
    DataError
        If the file cannot be read or holds no usable readings; the message says where.
    """
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} is not a file.")
    return read_table(source)
