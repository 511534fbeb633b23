"""Writers: a trace as a file that other tools open."""

from __future__ import annotations

from pathlib import Path

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError
from hushmeter.trace import Trace

__all__ = ["write_meter"]

SUFFIXES = (".csv", ".parquet", ".h5", ".hdf5", ".xml")


def write_meter(path: str | Path, trace: Trace, *, force: bool = False) -> None:
    """Write readings as CSV, Parquet, NILMTK-shaped HDF5 or Green Button XML, by the file's name.

    CSV and Parquet hold timestamp (UTC, interval start), watts, and a column per appliance where
    its power is known. HDF5 (.h5) holds one NILMTK building: meter 1 is the site meter, the
    others are the appliances. Green Button XML holds watt-hours per interval and no appliances.

    Parameters
    ----------
    path : str or Path
        Ends in .csv, .parquet, .h5 (or .hdf5) or .xml.
    trace : Trace
    force : bool
        Overwrite an existing file.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix in (".csv", ".parquet"):
        from hushmeter.files import write_table

        columns = {"timestamp": trace.times, "watts": trace.readings}
        for name, power in appliance_columns(trace).items():
            if name in columns:
                raise InputError(f"an appliance named {name!r} would hide the meter's column.")
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
    """Power of each appliance [W] under its name, or its number where there are no names."""
    if trace.power is None:
        return {}
    names = trace.names or [f"appliance_{i + 1}" for i in range(trace.power.shape[1])]
    return dict(zip(names, trace.power.T, strict=True))
