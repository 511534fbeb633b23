"""A look at the input before a release: which files, how many rows, how long a reading lasts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hushmeter.errors import DataError, InputError
from hushmeter.fleet.job import FleetTerms, build_mechanism
from hushmeter.fleet.ledger.batch import is_name
from hushmeter.fleet.schema import Columns
from hushmeter.trace import check_interval


def list_files(source: Path) -> list[str]:
    """Names of the Parquet files below a folder, in order; hidden ones are left out."""
    found = (path.relative_to(source) for path in source.rglob("*.parquet") if path.is_file())
    names = sorted(p.as_posix() for p in found if not any(part[0] == "." for part in p.parts))
    for name in names:
        if not is_name(name):
            raise DataError(
                f"{source} holds a file {name!r}, whose name is too long or cannot be printed; "
                "rename it."
            )
    return names


@dataclass(frozen=True)
class Footer:
    """Rows of a file, and the bytes of its columns but for the value."""

    rows: int = 0
    other_bytes: int = 0


def read_footer(path: Path, value: str) -> Footer:
    """What a file's footer says; nothing for one that cannot be read."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        return Footer()
    columns = (
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    )
    size = sum(c.total_compressed_size for c in columns if c.path_in_schema != value)
    return Footer(metadata.num_rows, size)


def find_interval(source: Path, files: Sequence[str], columns: Columns) -> int:
    """The interval of the first row that has one [s]: it is public, as times are."""
    import pyarrow as pa
    from pyarrow import parquet

    for name in files:
        try:
            file = parquet.ParquetFile(source / name)
            batches = file.iter_batches(1024, columns=[columns.interval], use_threads=False)
            values = next(batches).column(0).drop_null().to_pylist()
            return check_interval(values[0])
        except (pa.ArrowException, OSError, InputError, StopIteration, IndexError, KeyError):
            continue
    raise DataError(
        f"no file of {source} says in its first rows, in column {columns.interval!r}, how many "
        "seconds a reading lasts; give --interval."
    )


def estimate_bytes(terms: FleetTerms, footers: dict[str, Footer]) -> int:
    """About what the output takes.

    A value takes the entropy of its noise, at most log2(σ/g·√(2πe)) bits, which packing misses by
    a tenth.
    """
    noise = build_mechanism(terms)
    bits = math.log2(max(2.0, noise.std / noise.grid * math.sqrt(2 * math.pi * math.e)))
    return sum(int(f.other_bytes + 1.2 * bits / 8 * f.rows) for f in footers.values())
