"""The registry of what is public, docs/public.toml, walked over everything that the commands publish.

Two homes differ by one run of a kettle. The same commands publish both: a series, a calendar, a
fleet, its sums and a stream, with their receipts, manifests, messages, logs and metrics. Every item
that occurs is registered with its origin, every registered item occurs, and every item whose origin
is neither the noise, the clock nor chance is equal in both.
"""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushmeter as hm
from hushmeter.write import write_meter
from tests.cli.test_commands import run

REGISTRY = tomllib.loads(
    (Path(__file__).parents[1] / "docs" / "public.toml").read_text(encoding="utf-8")
)
DIFFERS = {"noise", "clock", "chance"}
"""Origins whose items differ between two releases of the same file."""

START = np.datetime64("2024-03-01T00:00", "s")
DAYS = 31


def items(value, name=""):
    """Every item of a JSON document: its place, with [] for the entries of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from items(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from items(inner, f"{name}[]")
    else:
        yield name, value


def collect(documents):
    """The items of several documents of one kind, the values of equal places in one list."""
    found = {}
    for document in documents:
        for name, value in items(document):
            found.setdefault(name, []).append(value)
    return found


def columns_of(path):
    """A published table as a document: its columns."""
    if path.suffix == ".parquet":
        return {name: list(map(str, values)) for name, values in pq.read_table(path).to_pydict().items()}
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def json_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def documents_of_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def metrics_of(path):
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [dict([line.rsplit(" ", 1)]) for line in lines]


def load(extra):
    """Minutes of a month [W]: a fridge and, in one of the two homes, one boil of a kettle more."""
    rng = np.random.default_rng(7)
    watts = 80 + 120 * (np.arange(1440 * DAYS) // 20 % 2) + np.rint(rng.uniform(0, 300, 1440 * DAYS))
    watts[8 * 60 + 12 : 8 * 60 + 15] += extra
    return watts


def publish_series(folder, watts):
    trace = hm.Trace(watts, 60.0, START)
    write_meter(folder / "meter.csv", trace)
    hide = ("--hide", "kettle")
    done = run("release", folder / "meter.csv", *hide, "--step", 1, "-o", folder / "out.csv")
    yield "terminal of release", [{"exit code": done.returncode}]
    yield "receipt", [json_of(folder / "out.csv.receipt.json")]
    yield "series", [columns_of(folder / "out.csv")]
    run("release", folder / "meter.csv", *hide, "--step", 1, "--views", "-o", folder / "views")
    yield "receipt of tables", [json_of(folder / "views" / "receipt.json")]
    for path in sorted((folder / "views").iterdir()):
        if path.suffix == ".csv":
            yield f"table {path.stem}", [columns_of(path)]
    yield "folder of tables", [{"names": sorted(p.name for p in (folder / "views").iterdir())}]


def publish_stream(folder, watts):
    words = ("--interval", "60s", "--hide", "kettle", "--step", 1, "--once", "--json")
    state = ("--state", folder / "state")
    done = run("live", folder / "meter.csv", *words, *state, "--to", folder / "stream")
    messages = documents_of_lines(done.stdout)
    for kind in ("window", "day", "month", "status"):
        yield f"message {kind}", [m for m in messages if m["kind"] == kind]
    names = sorted(p.name for p in (folder / "stream").iterdir())
    yield "folder of a stream", [{"names": names}]
    yield "receipt of a stream", [json_of(folder / "stream" / "2024-03-01.csv.receipt.json")]
    yield "summary of a day", [json_of(folder / "stream" / "2024-03-01.summary.json")]


def write_fleet(folder, watts):
    """One Parquet file of two meters with hourly means; the first is the home."""
    hours = watts.reshape(-1, 60).mean(axis=1)
    times = START + 3600 * np.arange(hours.size)
    other = 100 + 50 * (np.arange(hours.size) % 24)
    table = {
        "meter": ["a"] * hours.size + ["b"] * hours.size,
        "time": pa.array(np.tile(times, 2), pa.timestamp("s", tz="UTC")),
        "value": np.concatenate([hours, other]),
        "unit": ["W"] * (2 * hours.size),
        "interval_s": pa.array([3600] * (2 * hours.size), pa.int32()),
        "group": ["north"] * (2 * hours.size),
    }
    (folder / "in").mkdir()
    pq.write_table(pa.table(table), folder / "in" / "part.parquet")


def publish_fleet(folder, watts):
    write_fleet(folder, watts)
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    run("ledger", "init", "--ledger", ledger, "--clamp", "0,12000")
    common = ("--clamp", "0,12000", "--ledger", ledger, "--log-format", "json")
    for command, kind, more in (
        ("fleet", "fleet", ("--stream", "one")),
        ("fleet-sums", "sums", ("--stream", "two", "--tables", "sums,shape,quantiles")),
    ):
        out, metrics = folder / kind, folder / f"{kind}.prom"
        words = ("-e", 1, *common, *more, "--metrics", metrics, "-o", out)
        done = run(command, folder / "in", *words)
        yield f"log of {kind}", documents_of_lines(done.stderr)
        yield f"metrics of {kind}", metrics_of(metrics)
        yield f"manifest of {kind}", [json_of(out / "manifest.json")]
        for path in sorted(out.rglob("*.parquet")):
            yield f"{kind} {path.stem}", [columns_of(path)]
        names = sorted(str(p.relative_to(out)) for p in out.rglob("*"))
        yield f"folder of {kind}", [{"names": names}]




@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """All artefacts of both homes: {artefact: {item: values}}."""
    both = []
    for extra in (0.0, 2000.0):
        folder = tmp_path_factory.mktemp("home")
        found = {}
        for publish in (publish_series, publish_stream, publish_fleet):
            for artefact, documents in publish(folder, load(extra)):
                found[artefact] = collect(documents)
        both.append(found)
    return both


def test_every_public_item_is_registered_and_every_registered_item_occurs(published):
    for found in published:
        assert {name: set(entries) for name, entries in found.items()} == {
            name: set(entry["items"]) for name, entry in REGISTRY["artefact"].items()
        }


def test_every_origin_is_explained():
    used = {o for entry in REGISTRY["artefact"].values() for o in entry["items"].values()}
    assert used == set(REGISTRY["origin"])
    assert DIFFERS <= used


def test_items_that_do_not_come_from_noise_are_equal_in_both_homes(published):
    one, two = published
    different = [
        (artefact, item, one[artefact][item], two[artefact][item])
        for artefact, entry in REGISTRY["artefact"].items()
        for item, origin in entry["items"].items()
        if origin not in DIFFERS and one[artefact][item] != two[artefact][item]
    ]
    assert different == []
