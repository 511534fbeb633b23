"""The spends of a ledger as CSV or Parquet, a piece at a time."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.files import atomic, table_format

if TYPE_CHECKING:
    from hushmeter.fleet.ledger.book import Ledger

PIECE = 100_000


def export_rows(ledger: Ledger, path: Path, *, force: bool = False) -> int:
    """Write every spend of a ledger; how many there were."""
    import pyarrow as pa

    kind = table_format(path)
    schema = pa.schema(
        [
            ("meter", pa.string()),
            ("period", pa.string()),
            ("stream", pa.string()),
            ("micro_epsilon", pa.int64()),
            ("release", pa.string()),
            ("source", pa.string()),
            ("entry", pa.int64()),
            ("at", pa.string()),
        ]
    )
    rows, count = ledger.rows(), 0
    with atomic(path, force=force) as temporary, _writer(kind, temporary, schema) as writer:
        while piece := list(islice(rows, PIECE)):
            writer.write_batch(pa.RecordBatch.from_pylist(piece, schema=schema))
            count += len(piece)
    return count


def _writer(kind: str, path: Path, schema: Any) -> Any:
    from pyarrow import csv, parquet

    if kind == "csv":
        return csv.CSVWriter(str(path), schema)
    return parquet.ParquetWriter(str(path), schema, compression="zstd")
