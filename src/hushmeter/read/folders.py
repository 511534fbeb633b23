"""Data sets that are folders: REDD and UK-DALE (house_k/channel_k.dat), RAE (houseN_power_*.csv).

REDD has its mains as channels 1 and 2, logged every second, its circuits every three or four
seconds at times of their own. UK-DALE has one aggregate channel and plugs every six seconds;
mains.dat, where present, holds the mains of one-second meters (time, active W, apparent VA, V).

Channels that were logged apart are put on one grid. A cell of the grid takes the mean of a
channel's samples in it, or its last sample, if that is not too old. A cell where a channel has
neither is a gap. Samples of the mains fill at most one further cell, because the noise of a
release grows with the number of readings that one sample fills.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hushmeter.checks import BoolArray, FloatArray, IntArray
from hushmeter.clock import SECOND
from hushmeter.errors import DataError
from hushmeter.read.part import Part
from hushmeter.read.recording import Chooser, Recording, Task, metering_of_sum
from hushmeter.read.source import refuse_faults, refuse_outside
from hushmeter.read.text_columns import TextForm, load_cells
from hushmeter.trace import Trace, iso

MAINS = frozenset({"mains", "aggregate", "main"})
REDD_INTERVAL_S = 3.0
UKDALE_INTERVAL_S = 6.0
MAX_CELLS = 500_000_000
HOLD_S = 60.0
MAINS_HOLD = 1
# A release with very large noise must still be readable.
LARGEST_W = 1e12


def read_folder(task: Task) -> Recording:
    """One home of a data set that is a folder."""
    house = _house_folder(task.path, task.options.building)
    blocks = sorted(task.path.glob("house*_power_blk*.csv*"))
    for file in blocks if house is None else house.iterdir():
        refuse_outside(file, task.path)
    if house is not None:
        return read_channels(replace(task, path=house))
    if blocks:
        return _read_rae(task, blocks)
    names = ", ".join(sorted(place.name for place in task.path.iterdir())[:8])
    raise task.error(
        f"holds neither house_<k>/labels.dat (REDD, UK-DALE) nor house<k>_power_blk<n>.csv "
        f"(RAE); it holds {names or 'nothing'}."
    )


def read_channels(task: Task) -> Recording:
    """A REDD or UK-DALE house, mains and circuits on one grid."""
    house = task.path
    labels = read_labels(house / "labels.dat")
    mains_numbers = [number for number, name in labels.items() if name in MAINS]
    redd = len(mains_numbers) == 2
    interval = REDD_INTERVAL_S if redd else UKDALE_INTERVAL_S
    mains = _mains(task, labels, mains_numbers)
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
        task.notes.append(f"No samples, so left out: {', '.join(absent)}.")
    if redd:
        task.notes.append("The mains are two phases, channels 1 and 2, added up.")
    name = "REDD low_freq folder" if redd else "UK-DALE folder"
    return align(task, mains, circuits, interval_s=interval, format_name=name)


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
    fault = f"{path} is no channel of unix seconds and watts"
    with refuse_faults(fault, OSError, IndexError):
        with path.open("rb") as file:
            names = [str(i) for i in range(len(file.readline().split(b" ")))]
        table = load_cells(path, TextForm("utf-8-sig", " ", names))
        if table is None:
            raise DataError(f"{fault}: a row has another number of cells than the first.")
        chosen = [table[names[i]] for i in (0, column)]
        words = next((cells for cells in chosen if cells.kind not in "iuf"), None)
        if words is not None:
            raise DataError(f"{fault}: {words.known().tolist()[0]} is no number.")
    seconds, watts = (cells.floats() for cells in chosen)
    return clean(name, seconds, watts, path)


def _mains(task: Task, labels: dict[int, str], numbers: list[int]) -> list[Channel]:
    """mains.dat (active power) where there is one, else the channels that are labelled so."""
    house = task.path
    best = house / "mains.dat"
    if best.is_file() and best.stat().st_size:
        task.notes.append("Mains from mains.dat, active power at one second.")
        return [read_channel(best, "mains")]
    files = [house / f"channel_{number}.dat" for number in numbers]
    found = [read_channel(file, labels[n]) for n, file in zip(numbers, files, strict=True)
             if file.is_file() and file.stat().st_size]  # fmt: skip
    if found and len(found) < len(numbers):
        raise DataError(
            f"{house} has only {len(found)} of its {len(numbers)} mains channels: copy them all."
        )
    if not found:
        task.notes.append("No mains: the readings are the sum of the circuits.")
    return found


def _house_folder(path: Path, building: int | str | None) -> Path | None:
    if (path / "labels.dat").is_file():
        return path
    houses = sorted(p.name for p in path.glob("house_*") if (p / "labels.dat").is_file())
    houses = houses or sorted(p.name for p in path.glob("*/house_*") if p.is_dir())
    if not houses:
        return None
    wanted = choose_building(houses, "house_", building, path)
    for folder in (path, *sorted(p for p in path.iterdir() if p.is_dir())):
        if (folder / wanted / "labels.dat").is_file():
            return folder / wanted
    raise DataError(f"{path} has {wanted} without its labels.dat: copy the file, too.")


def choose_building(
    names: Sequence[str], prefix: str, building: int | str | None, path: Path
) -> str:
    """The building that the user chose, or the only one, of names such as house_1."""
    chooser = Chooser(path, "building", "building")
    if building is not None:
        return chooser.asked(names, building, prefix=prefix)
    if len(names) > 1:
        raise chooser.several(name.removeprefix(prefix) for name in names)
    return names[0]


def _read_rae(task: Task, blocks: list[Path]) -> Recording:
    """The blocks of one RAE house, one after another."""
    from hushmeter.read.regular_times import assemble
    from hushmeter.read.table import read_table

    houses = sorted({match[1] for b in blocks if (match := re.match(r"house(\d+)", b.name))})
    house = task.chooser("house", "building").asked(houses, task.options.building or houses[0])
    mine = [block for block in blocks if block.name.startswith(f"house{house}_")]
    series = read_table(replace(task, path=mine[0]))
    for block in mine[1:]:
        more = read_table(replace(task, path=block, notes=[]))
        if more.names != series.names or series.power is None or more.power is None:
            raise DataError(f"{block} has other columns than {mine[0].name}.")
        series.times = np.concatenate([series.times, more.times])
        series.values = np.concatenate([series.values, more.values])
        series.power = np.concatenate([series.power, more.power])
    series.found = series.times.size
    task.notes.append(f"House {house}: {', '.join(block.name for block in mine)}.")
    return assemble(task, series)


@dataclass(frozen=True)
class Channel:
    """One logged circuit: unix seconds, ascending, watts, and how many samples were left out."""

    name: str
    seconds: FloatArray
    watts: FloatArray
    dropped: int = 0
    # Measured again by another circuit, so that a sum of the circuits must leave it out
    inner: bool = False


def align(
    task: Task,
    mains: Sequence[Channel],
    circuits: Sequence[Channel],
    *,
    interval_s: float,
    format_name: str,
    hold_s: float = HOLD_S,
    step_w: float = 0.0,
) -> Recording:
    """Mains (added up) and circuits on one grid of `interval_s` seconds."""
    part = task.part()
    length = round(max(hold_s, interval_s) * SECOND)
    mains, circuits = (_cut(task, one, part, length) for one in (mains, circuits))
    everything = [*mains, *circuits]
    start, cells = _span(task, everything, interval_s)
    hold = round(hold_s / interval_s)
    holds = [min(hold, MAINS_HOLD)] * len(mains) + [hold] * len(circuits)
    columns = [
        _on_grid(channel, start, cells, interval_s, longest)
        for channel, longest in zip(everything, holds, strict=True)
    ]
    missing: BoolArray = np.zeros(cells, dtype=np.bool_)
    for column in columns:
        missing |= np.isnan(column)
    keep: IntArray = np.flatnonzero(~missing)
    if keep.size == 0:
        raise _never_together(task, everything)
    task.notes.extend(_drops(everything))
    task.notes.extend(_losses(everything, columns, keep.size))
    outer = range(len(mains)) if mains else [i for i, one in enumerate(circuits) if not one.inner]
    readings = sum((columns[i][keep] for i in outer), np.zeros(keep.size))
    power = np.column_stack([c[keep] for c in columns[len(mains) :]]) if circuits else None
    copies = max(_copies(everything[i], start, cells, interval_s, holds[i]) for i in outer)
    trace = Trace(
        readings,
        interval_s,
        np.datetime64(round((start + keep[0] * interval_s) * 1e9), "ns"),
        power=power,
        names=number_repeats([channel.name for channel in circuits]) if circuits else None,
        steps=keep - keep[0],
        metering=replace(metering_of_sum(step_w, len(outer)), copies=copies),
    )
    return Recording.of_trace(
        trace,
        format_name,
        readings=max(everything[i].seconds.size + everything[i].dropped for i in outer),
        notes=tuple(task.notes),
        mains="metered" if mains else "sum of sub-meters",
    ).within(task, part)


def _cut(task: Task, channels: Sequence[Channel], part: Part, length: int) -> Sequence[Channel]:
    """The samples of some channels within a part; a sample counts for a length [ns]."""
    if not part:
        return channels
    found = []
    for channel in channels:
        times = np.rint(channel.seconds * SECOND).astype(np.int64)
        part.refuse_wider(task.error, int(times[0]), int(times[-1]), length)
        inside = part.holds(times, times + 1)
        if not inside.any():
            raise task.error(
                f"has no sample of {channel.name} {part}: choose a longer part (`end=`)."
            )
        seconds, watts = channel.seconds[inside], channel.watts[inside]
        found.append(replace(channel, seconds=seconds, watts=watts, dropped=0))
    return found


def _copies(channel: Channel, start: float, cells: int, interval_s: float, hold: int) -> int:
    """Most cells that one sample fills; only the times of the samples are used."""
    index = np.unique(np.floor((channel.seconds - start) / interval_s).astype(np.int64))
    index = index[(index >= -hold) & (index < cells)]
    apart = np.diff(index, append=cells)
    return int(np.clip(apart, 1, hold + 1).max(initial=1))


def clean(name: str, seconds: FloatArray, watts: FloatArray, path: Path) -> Channel:
    """A channel in ascending order without repeats or missing values; the first repeat stays."""
    found = seconds.size
    good = np.isfinite(seconds) & np.isfinite(watts) & (seconds >= 0) & (seconds < 7.3e9)
    seconds, watts = seconds[good], watts[good]
    # A gap is public, so a value never makes one: it is used, or the file is refused.
    if np.abs(watts).max(initial=0.0) > LARGEST_W:
        raise DataError(f"{path} ({name}) has a sample beyond {LARGEST_W:g} W: check its unit.")
    if seconds.size == 0:
        raise DataError(
            f"{path} ({name}) holds no usable sample: unix seconds and watts are needed."
        )
    if np.diff(seconds).min(initial=1.0) <= 0:
        seconds, rows = np.unique(seconds, return_index=True)
        watts = watts[rows]
    return Channel(name, seconds, watts, found - seconds.size)


def usual_interval(channels: Sequence[Channel], finest: float = 1.0) -> float:
    """The coarsest median step of the channels, in whole seconds."""
    steps = [float(np.median(np.diff(c.seconds))) for c in channels if c.seconds.size > 1]
    return max([finest, *(float(round(step)) for step in steps)])


def number_repeats(names: Sequence[str]) -> tuple[str, ...]:
    """Names that occur more than once get a number each."""
    counts: dict[str, int] = {}
    result = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        result.append(f"{name}_{counts[name]}" if names.count(name) > 1 else name)
    return tuple(result)


def _span(task: Task, channels: Sequence[Channel], interval_s: float) -> tuple[float, int]:
    """Start [s] and number of cells of the time that all channels cover, in whole intervals."""
    first = max(channel.seconds[0] for channel in channels)
    last = min(channel.seconds[-1] for channel in channels)
    if last < first:
        raise _never_together(task, channels)
    start = float(np.floor(first / interval_s) * interval_s)
    cells = int((last - start) // interval_s) + 1
    if cells > MAX_CELLS:
        raise task.error(f"spans {cells} intervals of {interval_s:g} s: cut it first.")
    return start, cells


def _on_grid(
    channel: Channel, start: float, cells: int, interval_s: float, hold: int
) -> FloatArray:
    """Means per cell, held over at most `hold` empty cells, NaN elsewhere."""
    index = np.floor((channel.seconds - start) / interval_s).astype(np.int64)
    inside = (index >= -hold) & (index < cells)
    index, watts = index[inside], channel.watts[inside]
    column = np.full(cells, np.nan)
    now = index >= 0
    counts = np.bincount(index[now], minlength=cells)
    sums = np.bincount(index[now], weights=watts[now], minlength=cells)
    filled = counts > 0
    column[filled] = sums[filled] / counts[filled]
    if not now.all():
        _lead_in(column, index[~now], watts[~now], hold)
    return _hold(column, hold)


def _lead_in(column: FloatArray, index: IntArray, watts: FloatArray, hold: int) -> None:
    """A sample shortly before the grid begins still holds at its first cell."""
    if index.size and np.isnan(column[0]) and -int(index[-1]) <= hold:
        column[0] = watts[-1]


def _hold(column: FloatArray, limit: int) -> FloatArray:
    there = ~np.isnan(column)
    if there.all() or not there.any():
        return column
    last = np.where(there, np.arange(column.size), -1)
    np.maximum.accumulate(last, out=last)
    near = (last >= 0) & (np.arange(column.size) - last <= limit)
    held = np.full(column.size, np.nan)
    held[near] = column[last[near]]
    return held


def _drops(channels: Sequence[Channel]) -> list[str]:
    """Which channels had samples without a value or with a time that was already there."""
    named = ", ".join(f"{c.name} ({c.dropped})" for c in channels if c.dropped)
    return [f"Samples that repeat a time or lack a value were left out: {named}."] if named else []


def _losses(channels: Sequence[Channel], columns: Sequence[FloatArray], kept: int) -> list[str]:
    """Which channels cost the most cells, if any were lost."""
    cells = columns[0].size
    if kept == cells:
        return []
    lost = {c.name: int(np.isnan(v).sum()) for c, v in zip(channels, columns, strict=True)}
    worst = sorted(lost, key=lambda name: lost[name], reverse=True)[:3]
    named = ", ".join(f"{name} ({lost[name] / cells:.1%})" for name in worst if lost[name])
    return [
        f"{cells - kept} of {cells} cells are gaps, because a channel was silent: mostly {named}."
    ]


def _never_together(task: Task, channels: Sequence[Channel]) -> DataError:
    latest = max(channels, key=lambda c: c.seconds[0])
    earliest = min(channels, key=lambda c: c.seconds[-1])
    return task.error(
        f": no moment has every channel: {latest.name} starts {_when(latest.seconds[0])}, "
        f"{earliest.name} ends {_when(earliest.seconds[-1])}; leave one of them out."
    )


def _when(seconds: float) -> str:
    return iso(np.datetime64(round(seconds * 1e9), "ns"))
