"""Writers of traces as files that other tools can read."""

from __future__ import annotations

from pathlib import Path

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.trace import Trace

__all__ = ["write_meter"]

SUFFIXES = (".csv", ".parquet", ".h5", ".hdf5", ".xml")


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
    suffix = target.suffix.lower()
    if suffix in (".csv", ".parquet"):
        from hushmeter.files import write_table

        columns = {"timestamp": trace.times, "watts": trace.readings}
        for name, power in appliance_columns(trace).items():
            if name in columns:
                raise InputError(
                    f"an appliance cannot be named {name!r}, like a column of the meter."
                )
            columns[name] = power
        write_table(target, columns, force=force)
    elif suffix in (".h5", ".hdf5"):
        from hushmeter.write.nilmtk import write_nilmtk

        write_nilmtk(target, trace, force=force)
    elif suffix == ".xml":
        from hushmeter.write.green_button import write_green_button

        write_green_button(target, trace, force=force)
    else:
        raise InputError(f"{target} must end in one of {', '.join(SUFFIXES)}.")


def appliance_columns(trace: Trace) -> dict[str, FloatArray]:
    """Return the power of each appliance [W] by its name, or by its number without names."""
    if trace.power is None:
        return {}
    names = trace.names or [f"appliance_{i + 1}" for i in range(trace.power.shape[1])]
    return dict(zip(names, trace.power.T, strict=True))
