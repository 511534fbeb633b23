"""Readers: from a file of meter readings to a `Recording` and its `Trace`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hushmeter.errors import DataError
from hushmeter.read.recording import ReadOptions, Recording, Task
from hushmeter.read.source import MemoryFile, read_file
from hushmeter.trace import Trace

__all__ = [
    "ReadOptions",
    "Recording",
    "read_bytes",
    "read_home_bytes",
    "read_home_data",
    "read_home_recording",
    "read_meter",
    "read_recording",
]


def read_meter(path: str | Path, **options: Any) -> Trace:
    """Read meter readings from a file; the format is recognised by the content.

    Supported are Green Button XML, NEM12, the exports of Home Assistant, DSMR telegrams, NILMTK's
    HDF5, and tables (CSV, Excel, JSON or Parquet, also gzipped or in a zip archive) of utilities,
    portals, loggers and data sets. A table
    needs a column of times and one of power or energy. Only the meter is read: `read_home_data`
    also reads the power of circuits.

    Parameters
    ----------
    path : str or Path
        The file; "-" reads standard input.
    **options
        Fields of `ReadOptions`: facts that the file does not contain, such as ``unit="kWh"`` or
        ``tz="Europe/Dublin"``.

    Returns
    -------
    Trace
        Watts, UTC, interval starts; missing readings are steps.

    Raises
    ------
    DataError
        If the file cannot be read or holds no usable readings; the message says where.
    InputError
        If an option is wrong.

    Examples
    --------
    >>> hm.write_meter("meter.csv", hm.Trace([120.0, 2120.0], 60.0, "2024-01-01T00:00Z"))
    >>> hm.read_meter("meter.csv")
    Trace(2 readings, 60 s, from 2024-01-01T00:00:00Z, no truth)
    """
    return read_recording(path, ReadOptions(**options)).trace


def read_recording(path: str | Path, options: ReadOptions | None = None) -> Recording:
    """Read meter readings with the public facts about them: format, gaps, notes, metering.

    Circuits are not read: nothing that a release publishes may depend on them.
    """
    source = Path(path)
    if str(source) == "-":
        return read_bytes(sys.stdin.buffer.read(), "standard input", options)
    if not source.is_file():
        raise DataError(f"{source} is not a file.")
    return read_file(Task(source, options or ReadOptions()))


def read_bytes(
    data: bytes, name: str, options: ReadOptions | None = None, *, most_values: int | None = None
) -> Recording:
    """Like `read_recording`, of a file that is only in memory; nothing is written to disk."""
    return read_file(Task(MemoryFile(name, data, most_values), options or ReadOptions()))


def read_home_bytes(
    data: bytes, name: str, options: ReadOptions | None = None, *, most_values: int | None = None
) -> Recording:
    """Like `read_bytes`, with the circuits beside the meter, where the file has some."""
    file = MemoryFile(name, data, most_values)
    return read_file(Task(file, options or ReadOptions(), "beside"))


def read_home_data(
    path: str | Path,
    building: int | str | None = None,
    *,
    time_column: str | None = None,
    unit: str | None = None,
    tz: str | None = None,
) -> Trace:
    """Read an appliance-level data set: a trace with the power of every circuit.

    Parameters
    ----------
    path : str or Path
        A folder of REDD, UK-DALE or RAE (the data set's or one house's), a NILMTK HDF5 file, or
        a table with a column per circuit.
    building : int or str, optional
        Which home, where there are several.
    time_column, unit, tz
        See `ReadOptions`.

    Returns
    -------
    Trace
        `readings` are the metered mains, or the sum of the circuits where there are none;
        `power` and `names` are the circuits. `learn_home` adds the states.

    Examples
    --------
    >>> home = hm.synth.ready_home("evening").subset(["kettle", "oven"])
    >>> hm.write_meter("circuits.csv", hm.synth.trace(home, 600, seed=1))
    >>> hm.read_home_data("circuits.csv").names
    ('kettle', 'oven')
    """
    options = ReadOptions(time_column, unit=unit, tz=tz, building=building)
    return read_home_recording(path, options).trace


def read_home_recording(
    path: str | Path, options: ReadOptions | None = None, *, need_circuits: bool = True
) -> Recording:
    """Read an appliance-level data set with the facts about it."""
    source = Path(path)
    task = Task(source, options or ReadOptions(), "sum" if need_circuits else "beside")
    if str(source) == "-":
        recording = read_home_bytes(sys.stdin.buffer.read(), "standard input", options)
    elif source.is_dir():
        from hushmeter.read.folders import read_folder

        recording = read_folder(task)
    elif source.exists():
        recording = read_file(task)
    else:
        raise DataError(f"{source} {'does not exist' if need_circuits else 'is not a file'}.")
    if need_circuits and recording.trace.power is None:
        raise DataError(
            f"{source} ({recording.format}) has only the meter, no column per appliance: "
            "learning a home needs sub-metered data."
        )
    return recording
