"""Compiled code that is loaded once, by the process from which workers are forked.

The fork server imports this module. Loading the compiled kernels and the noise tables takes longer
than a file of a million rows, so it is not left to each worker.
"""

from __future__ import annotations

from hushmeter.fleet.blocks import Blocks
from hushmeter.fleet.job import Columns, FleetTerms
from hushmeter.fleet.noised_rows import noise_readings


def load_kernels() -> None:
    """Send one reading through the checks and the noise, so that all code is loaded."""
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
    blocks.add(blocks.arrays(record))
    for epsilon in ("1", "100"):
        terms = FleetTerms(epsilon=epsilon, clamp=(0.0, 15_000.0), max_epsilon=100.0)
        noise_readings(blocks.readings(record), terms.promise.noise, bytes(32))


load_kernels()
