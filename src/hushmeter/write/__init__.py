"""Writers of traces as files that other tools can read."""

from __future__ import annotations

from pathlib import Path

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.files import refuse_overwrite, table_bytes, write_bytes
from hushmeter.trace import Trace

__all__ = ["meter_bytes", "meter_format", "write_meter"]

FORMATS = {".csv": "csv", ".parquet": "parquet", ".h5": "h5", ".hdf5": "h5", ".xml": "xml"}


def write_meter(path: str | Path, trace: Trace, *, force: bool = False) -> None:
    """Write readings as CSV, Parquet, NILMTK's HDF5 or Green Button XML, by the file's name.

    Parameters
    ----------
    path : str or Path
        Ends in .csv, .parquet, .h5 (or .hdf5) or .xml.
    trace : Trace
        The readings [W].
    force : bool, default False
        Overwrite an existing file.

    Raises
    ------
    InputError
        If the name has another ending, or the format cannot hold the trace.
    DataError
        If the file exists and `force` is not set, or cannot be written.
    MissingExtraError
        If HDF5 is asked for and the extra `nilmtk` is not installed.

    Notes
    -----
    CSV and Parquet hold the columns timestamp (UTC, start of the interval) and watts, and one
    column for each appliance whose power is known. HDF5 holds one building in NILMTK's layout:
    meter 1 is the site meter, the others are the appliances. Green Button XML holds watt-hours
    per interval and no appliances.
    """
    target = Path(path)
    kind = meter_format(target)
    refuse_overwrite(target, force)
    content = meter_bytes(trace, kind)
    write_bytes(target, content, force=force)


def meter_format(path: Path) -> str:
    """Return the format of a file of readings by its name."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} must end in one of {', '.join(FORMATS)}.")
    if kind == "h5":
        from hushmeter.write.nilmtk import check_extra

        check_extra()
    return kind


def meter_bytes(trace: Trace, kind: str) -> bytes:
    """Return the content of a file of readings (`trace` [W])."""
    if kind == "h5":
        from hushmeter.write.nilmtk import nilmtk_bytes

        return nilmtk_bytes(trace)
    if kind == "xml":
        from hushmeter.write.green_button import green_button_text

        return green_button_text(trace).encode()
    return _table_bytes(trace, kind)


def _table_bytes(trace: Trace, kind: str) -> bytes:
    """The columns timestamp, watts and one for each appliance, as CSV or Parquet."""
    columns = {"timestamp": trace.times, "watts": trace.readings}
    for name, power in appliance_columns(trace).items():
        if name in columns:
            raise InputError(f"an appliance cannot be named {name!r}, like a column of the meter.")
        columns[name] = power
    return table_bytes(columns, kind)


def appliance_columns(trace: Trace) -> dict[str, FloatArray]:
    """Return the power of each appliance [W] by its name, or by its number without names."""
    if trace.power is None:
        return {}
    names = trace.names or [f"appliance_{i + 1}" for i in range(trace.power.shape[1])]
    return dict(zip(names, trace.power.T, strict=True))
