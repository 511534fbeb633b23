"""Data sets that are folders: REDD and UK-DALE (house_k/channel_k.dat), RAE (houseN_power_*.csv).

REDD has its mains as channels 1 and 2, logged every second, its circuits every three or four
seconds at times of their own. UK-DALE has one aggregate channel and plugs every six seconds;
mains.dat, where present, holds the mains of one-second meters (time, active W, apparent VA, V).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hushmeter.errors import DataError
from hushmeter.read.channels import Channel, align, clean
from hushmeter.read.options import ReadOptions
from hushmeter.read.recording import Recording

MAINS = frozenset({"mains", "aggregate", "main"})
REDD_INTERVAL_S = 3.0
UKDALE_INTERVAL_S = 6.0


def read_folder(path: Path, options: ReadOptions) -> Recording:
    """One home of a data set that is a folder."""
    house = _house_folder(path, options.building)
    if house is not None:
        return read_channels(house)
    blocks = sorted(path.glob("house*_power_blk*.csv*"))
    if blocks:
        return _read_rae(blocks, options, path)
    raise DataError(
        f"{path} holds neither house_<k>/labels.dat (REDD, UK-DALE) nor house<k>_power_blk<n>.csv "
        f"(RAE); it holds {_listing(path)}."
    )


def read_channels(house: Path) -> Recording:
    """A REDD or UK-DALE house, mains and circuits on one grid."""
    labels = read_labels(house / "labels.dat")
    mains_numbers = [number for number, name in labels.items() if name in MAINS]
    notes: list[str] = []
    redd = len(mains_numbers) == 2
    interval = REDD_INTERVAL_S if redd else UKDALE_INTERVAL_S
    mains = _mains(house, labels, mains_numbers, notes)
    circuits, absent = [], []
    for number, name in labels.items():
        file = house / f"channel_{number}.dat"
        if number in mains_numbers:
            continue
        if file.is_file() and file.stat().st_size:
            circuits.append(read_channel(file, name))
        else:
            absent.append(name)
    if absent:
        notes.append(f"No samples, so left out: {', '.join(absent)}.")
    if redd:
        notes.append("The mains are two phases, channels 1 and 2, added up.")
    return align(
        mains,
        circuits,
        interval_s=interval,
        path=house,
        format_name="REDD low_freq folder" if redd else "UK-DALE folder",
        notes=notes,
    )


def read_labels(path: Path) -> dict[int, str]:
    """Channel numbers and names, in the order of the file."""
    labels: dict[int, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
    for row, line in enumerate(lines, 1):
        if not line.strip():
            continue
        number, _, name = line.strip().partition(" ")
        if not number.isdigit() or not name.strip():
            raise DataError(f"{path}: line {row} is not a number and a name: {line[:40]!r}.")
        labels[int(number)] = name.strip()
    if not labels:
        raise DataError(f"{path} names no channel.")
    return labels


def read_channel(path: Path, name: str, column: int = 1) -> Channel:
    """One .dat file: unix seconds and watts, separated by a space, no header."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(autogenerate_column_names=True),
            parse_options=csv.ParseOptions(delimiter=" "),
        )
        seconds = table.column(0).cast(pa.float64()).to_numpy()
        watts = table.column(column).cast(pa.float64()).to_numpy()
    except (pa.ArrowException, OSError, IndexError) as error:
        reason = str(error).split("\n")[0].rstrip(".")[:160]
        raise DataError(f"{path} is no channel of unix seconds and watts: {reason}.") from None
    return clean(name, seconds, watts, path)


def _mains(
    house: Path, labels: dict[int, str], numbers: list[int], notes: list[str]
) -> list[Channel]:
    """mains.dat (active power) where there is one, else the channels that are labelled so."""
    best = house / "mains.dat"
    if best.is_file() and best.stat().st_size:
        notes.append("Mains from mains.dat, active power at one second.")
        return [read_channel(best, "mains")]
    files = [house / f"channel_{number}.dat" for number in numbers]
    found = [read_channel(file, labels[n]) for n, file in zip(numbers, files, strict=True)
             if file.is_file() and file.stat().st_size]  # fmt: skip
    if found and len(found) < len(numbers):
        raise DataError(
            f"{house} has only {len(found)} of its {len(numbers)} mains channels: copy them all."
        )
    if not found:
        notes.append("No mains: the readings are the sum of the circuits.")
    return found


def _house_folder(path: Path, building: int | str | None) -> Path | None:
    if (path / "labels.dat").is_file():
        return path
    houses = sorted(p.name for p in path.glob("house_*") if (p / "labels.dat").is_file())
    houses = houses or sorted(p.name for p in path.glob("*/house_*") if p.is_dir())
    if not houses:
        return None
    if building is None and len(houses) > 1:
        raise DataError(
            f"{path} holds {', '.join(houses)}: choose one, such as --building {houses[0][6:]}."
        )
    wanted = houses[0] if building is None else f"house_{building}"
    for folder in (path, *sorted(p for p in path.iterdir() if p.is_dir())):
        if (folder / wanted / "labels.dat").is_file():
            return folder / wanted
    raise DataError(f"{path} has no {wanted}, only {', '.join(houses)}.")


def _read_rae(blocks: list[Path], options: ReadOptions, path: Path) -> Recording:
    """The blocks of one RAE house, one after another."""
    from hushmeter.read.regular import assemble
    from hushmeter.read.table import read_table

    houses = sorted({match[1] for b in blocks if (match := re.match(r"house(\d+)", b.name))})
    house = str(options.building or houses[0])
    mine = [block for block in blocks if block.name.startswith(f"house{house}_")]
    if not mine:
        raise DataError(f"{path} has no house {house}, only {', '.join(houses)}.")
    series, mains = read_table(mine[0], options, circuits="sum")
    for block in mine[1:]:
        more, _ = read_table(block, options, circuits="sum")
        if more.names != series.names or series.power is None or more.power is None:
            raise DataError(f"{block} has other columns than {mine[0].name}.")
        series.times = np.concatenate([series.times, more.times])
        series.values = np.concatenate([series.values, more.values])
        series.power = np.concatenate([series.power, more.power])
    series.found = series.times.size
    series.notes.append(f"House {house}: {', '.join(block.name for block in mine)}.")
    return assemble(series, path, mains=mains)


def _listing(path: Path) -> str:
    names = sorted(p.name for p in path.iterdir())[:8]
    return ", ".join(names) or "nothing"
