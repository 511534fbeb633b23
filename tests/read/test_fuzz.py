"""Mutated files: only hushmeter's own errors, never an empty trace, memory bounded."""

from __future__ import annotations

import gzip
import resource
import warnings

import numpy as np
import pytest

from hushmeter.errors import HushmeterError
from hushmeter.read import ReadOptions, read_home_recording, read_recording

QUICK, FULL = 80, 20_000
SEED = 20_240_601
HUGE = (b"1e308", b"-1e308", b"99999999999999999999", b"inf", b"-inf", b"nan", b"1e-320", b"0x1F")
OPTIONS = (
    None,
    ReadOptions(),
    ReadOptions(unit="kWh", tz="Europe/Dublin"),
    ReadOptions(stamp="end", tz="UTC"),
    ReadOptions(building=1),
)


@pytest.fixture(scope="module")
def seeds(samples, tmp_path_factory):
    """One good file of every format."""
    files = {
        "plain": samples.plain_csv(),
        "octopus": samples.octopus(),
        "n3rgy": samples.n3rgy(),
        "esb": samples.esb(count=12),
        "ha_energy": samples.ha_energy(),
        "ha_history": samples.ha_history(),
        "dsmr": samples.dsmr(5),
        "rae": samples.rae(12),
        "ampds": samples.ampds(20),
        "refit": samples.refit(20),
        "pecan": samples.pecan_street(4),
        "green": samples.green_button(),
        "green_prefix": samples.green_button(prefix=True),
        "parquet": samples.parquet(),
        "gzip": samples.zipped(samples.plain_csv()),
    }
    try:
        import tables  # noqa: F401

        import hushmeter as hm

        path = tmp_path_factory.mktemp("h5") / "home.h5"
        home = hm.synth.ready_home("redd-like")
        hm.write_meter(path, hm.synth.trace(home, 30, 0.9, seed=1))
        files["nilmtk"] = path.read_bytes()
    except ImportError:
        pass
    return files


def truncate(data, rng):
    return data[: int(rng.integers(0, len(data) + 1))]


def flip_bytes(data, rng):
    changed = bytearray(data)
    for place in rng.integers(0, max(len(data), 1), rng.integers(1, 12)):
        if changed:
            changed[place] = rng.integers(0, 256)
    return bytes(changed)


def wrong_encoding(data, rng):
    text = data.decode("latin-1")
    encoding = ("utf-16", "utf-16-le", "utf-32", "cp037", "utf-7")[rng.integers(0, 5)]
    return text.encode(encoding, errors="replace")


def swap_columns(data, rng):
    rows = [line.split(b",") for line in data.split(b"\n")]
    width = max(len(row) for row in rows)
    order = rng.permutation(width)
    return b"\n".join(b",".join(row[i] for i in order if i < len(row)) for row in rows)


def huge_numbers(data, rng):
    import re

    numbers = list(re.finditer(rb"\d+(\.\d+)?", data[:50_000]))
    if not numbers:
        return data
    for match in [numbers[i] for i in sorted(rng.integers(0, len(numbers), 3), reverse=True)]:
        data = data[: match.start()] + HUGE[rng.integers(0, len(HUGE))] + data[match.end() :]
    return data


def shuffle_lines(data, rng):
    head, *rest = data.split(b"\n")
    mode = rng.integers(0, 4)
    if mode == 0:
        rest = rest[::-1]
    elif mode == 1:
        rest = [rest[i] for i in rng.permutation(len(rest))]
    elif mode == 2:
        rest = [line for line in rest for _ in range(2)]
    else:
        rest = rest[: len(rest) // 2] * 3
    return b"\n".join([head, *rest])


def drop_or_add(data, rng):
    lines = data.split(b"\n")
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(0, len(lines)))
        if rng.random() < 0.5 and len(lines) > 1:
            del lines[place]
        else:
            words = (b"", b",,,,,,", b"unavailable", b'"', b"\x00" * 20, b"total;1;2", b"<a>", b"!")
            lines.insert(place, words[rng.integers(0, len(words))])
    return b"\n".join(lines)


def splice(data, rng):
    cut = sorted(rng.integers(0, len(data) + 1, 4))
    return data[: cut[1]] + data[cut[2] : cut[3]] + data[cut[0] :]


def bomb(data, rng):
    entity = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    return data.replace(b"?>", b"?>" + entity, 1).replace(b"<content>", b"<content>&b;", 1)


def many_columns(data, rng):
    # The full width of a million columns has a test of its own; it would rule the clock here.
    width = int(rng.integers(2, 3000))
    head, *rest = data.split(b"\n")
    return b"\n".join([head + b",x" * width, *(line + b",1" * width for line in rest if line)])


def pack(data, rng):
    packed = gzip.compress(data, mtime=0)
    return packed if rng.random() < 0.5 else flip_bytes(packed, rng)


MUTATIONS = (truncate, flip_bytes, wrong_encoding, swap_columns, huge_numbers, shuffle_lines,
             drop_or_add, splice, bomb, many_columns, pack)  # fmt: skip


def check(path, rng):
    """Read as both kinds; a trace must hold finite readings, an error must be ours."""
    options = OPTIONS[rng.integers(0, len(OPTIONS))]
    read = read_recording if rng.random() < 0.6 else read_home_recording
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read(path, options)
    except HushmeterError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "\n" not in message
        return False
    assert len(found.trace) > 0
    assert np.isfinite(found.trace.readings).all()
    assert found.public.readings >= 1
    return True


def fuzz(seeds, tmp_path, first, count):
    read = 0
    path = tmp_path / "mutated"
    names = list(seeds)
    for number in range(first, first + count):
        rng = np.random.default_rng([SEED, number])
        name = names[number % len(names)]
        data = seeds[name]
        steps = [MUTATIONS[i] for i in rng.integers(0, len(MUTATIONS), rng.integers(1, 3))]
        for mutate in steps:
            data = mutate(data, rng)
        path.write_bytes(data)
        try:
            read += check(path, rng)
        except BaseException as error:
            labels = [step.__name__ for step in steps]
            raise AssertionError(f"file {number} ({name}, {labels}): {error!r}") from error
    return read


def test_seeds_are_good(seeds, tmp_path):
    for name, data in seeds.items():
        path = tmp_path / name
        path.write_bytes(data)
        options = ReadOptions(building=26) if name == "pecan" else None
        assert len(read_recording(path, options).trace) > 0


def test_mutated_files(seeds, tmp_path):
    read = fuzz(seeds, tmp_path, 0, QUICK)
    assert 0 < read < QUICK


@pytest.mark.slow
def test_twenty_thousand_mutated_files(seeds, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = fuzz(seeds, tmp_path, 0, FULL)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert 0 < read < FULL
    assert grown < 600_000, f"{grown} kB more than before"


def test_a_million_columns_are_refused_at_once(tmp_path):
    path = tmp_path / "wide.csv"
    line = b"timestamp,watts" + b",x" * 1_000_000 + b"\n"
    path.write_bytes(line + b"1,2" + b",1" * 1_000_000 + b"\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HushmeterError, match="first line is longer than"):
        read_recording(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_years_of_hours_in_one_wide_row_are_read(tmp_path):
    path = tmp_path / "energy.csv"
    times = np.datetime64("2020-01-01T00") + np.arange(50_000)
    head = "entity_id,type,unit," + ",".join(f"{t}:00:00Z" for t in times)
    path.write_text(head + "\nsensor.a,grid_consumption,kWh" + ",1" * times.size + "\n")
    assert len(read_recording(path).trace) == 50_000
