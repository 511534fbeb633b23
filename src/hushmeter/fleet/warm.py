"""Imported once by the process from which workers are forked: everything compiled is loaded.

Loading takes longer than a file of a million rows does, so it is not left to each worker.
"""

from __future__ import annotations

from hushmeter.fleet.blocks import Blocks
from hushmeter.fleet.job import FleetTerms, build_mechanism
from hushmeter.fleet.schema import Columns
from hushmeter.fleet.task import add_noise


def load_kernels() -> None:
    """Send one reading through the checks and the noise."""
    import pyarrow as pa
    from pyarrow import parquet  # noqa: F401

    record = pa.record_batch(
        {
            "meter": pa.array(["m"]).dictionary_encode(),
            "time": pa.array([0], pa.timestamp("s", tz="UTC")),
            "value": pa.array([1.0]),
            "unit": pa.array(["kWh"]).dictionary_encode(),
            "interval_s": pa.array([900]),
        }
    )
    blocks = Blocks(Columns(), "day", 900, "s")
    blocks.add(blocks.batch(record))
    for epsilon in ("1", "100"):
        mechanism = build_mechanism(FleetTerms(epsilon, (0.0, 15_000.0), max_epsilon=100.0))
        add_noise(blocks.readings(record), mechanism, bytes(32))


load_kernels()
