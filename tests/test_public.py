"""The registry of what is public, docs/public.toml, walked over all that the commands publish.

Two homes differ by one boil of a kettle. The same commands publish both: a series, a calendar, a
fleet, its sums and a stream, with their receipts, manifests, messages, logs and metrics. Every item
that occurs is registered with its origin, every registered item occurs, and every item whose origin
is neither the noise, the clock nor chance is equal in both.
"""

from __future__ import annotations

import base64
import csv
import json
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushmeter as hm
from hushmeter.read import read_recording
from hushmeter.write import write_meter
from tests.apps.page.serving import serving, upload
from tests.cli.test_commands import run

REGISTRY = tomllib.loads(
    (Path(__file__).parents[1] / "docs" / "public.toml").read_text(encoding="utf-8")
)
DIFFERS = {"noise", "clock", "chance"}
"""Origins whose items differ between two releases of the same file."""

START = np.datetime64("2024-03-01T00:00", "s")
DAYS = 32
PER_HOUR = 12
INTERVAL_S = 3600 / PER_HOUR


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


def pattern_of(artefact, item):
    """The registered name of an item, or None."""
    known = REGISTRY["artefact"][artefact]["items"]
    if item in known:
        return item
    return next((k for k in known if k.endswith(".*") and item.startswith(k[:-1])), None)


def columns_of(path):
    """A published table as a document: its columns."""
    if path.suffix == ".parquet":
        columns = pq.read_table(path).to_pydict()
        return {name: list(map(str, values)) for name, values in columns.items()}
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def json_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def documents_of_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def metrics_of(path):
    """Names and values of the metrics, without their labels."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    pairs = (line.rsplit(" ", 1) for line in lines)
    return [{name.partition("{")[0].removeprefix("hushmeter_job_"): v} for name, v in pairs]


def load(extra):
    """Readings of a month [W]: a fridge and, in one of the two homes, one boil of a kettle more."""
    rng, rows = np.random.default_rng(7), np.arange(PER_HOUR * 24 * DAYS)
    watts = 80 + 120 * (rows // 4 % 2) + np.rint(rng.uniform(0, 300, rows.size))
    watts[8 * PER_HOUR + 3] += extra
    return watts


def publish_series(folder, watts):
    """A series and a calendar of the home's file, and what a reader finds in it."""
    write_meter(folder / "meter.csv", hm.Trace(watts, INTERVAL_S, START))
    facts = read_recording(folder / "meter.csv").public
    yield (
        "facts of a file",
        {field.name: str(getattr(facts, field.name)) for field in fields(facts)},
    )
    hide = ("--hide", "kettle", "--step", 1)
    done = run("release", folder / "meter.csv", *hide, "-o", folder / "out.csv")
    yield "exit codes", {"release": done.returncode}
    yield "receipt", json_of(folder / "out.csv.receipt.json")
    yield "series", columns_of(folder / "out.csv")
    run("release", folder / "meter.csv", *hide, "--views", "-o", folder / "views")
    hide = ("--hide", "when we get up", "--stream", folder.name)
    run("release", folder / "meter.csv", *hide, "-o", folder / "days")
    for place in ("views", "days"):
        yield "receipt", json_of(folder / place / "receipt.json")
        for path in sorted((folder / place).glob("*.csv")):
            yield f"table {path.stem}", columns_of(path)
    yield "names of files", {"tables": sorted(p.name for p in (folder / "views").iterdir())}


def publish_stream(folder, watts):
    """A stream of the same file, and one that ends because the cap of its ledger is reached."""
    words = ("--interval", f"{INTERVAL_S:g}s", "--hide", "kettle", "--step", 1, "--once", "--json")
    first = ("--state", folder / "first.db", "--to", folder / "stream")
    done = run("live", folder / "meter.csv", *words, *first)
    yield "exit codes", {"live": done.returncode}
    ledger = f"sqlite:///{folder / 'home.db'}"
    run("ledger", "init", "--ledger", ledger, "--change", "3kW,8kWh")
    run("ledger", "cap", "--ledger", ledger, "--total", 300)
    second = ("--state", folder / "second.db", "--to", folder / "capped")
    account = ("--ledger", ledger, "--ledger-meter", "home")
    ended = run("live", folder / "meter.csv", *words, *second, *account, expect=1)
    third = ("--views", "--state", folder / "third.db", "--to", folder / "tables")
    tables = run("live", folder / "meter.csv", *words, *third)
    for message in documents_of_lines(done.stdout + ended.stdout + tables.stdout):
        yield f"message {message['kind']}", message
    yield "names of files", {"stream": sorted(p.name for p in (folder / "stream").iterdir())}
    yield "receipt", json_of(folder / "tables" / "2024-03" / "receipt.json")
    day = folder / "stream" / "2024-03-01.csv"
    yield "series", columns_of(day)
    yield "receipt", json_of(day.with_name(day.name + ".receipt.json"))
    summary = json_of(day.with_name("2024-03-01.summary.json"))
    yield "receipt", summary.pop("receipt")
    assert summary.pop("stream") == "home"
    yield "message day", {"kind": "day", **summary}


def publish_page(folder, watts):
    """A release of the same file on the page: its receipt and the released file."""
    home = {"appliances": [{"name": "kettle", "watts": 3117.0, "run_s": 427.0}]}
    with serving() as client:
        session = upload(client, (folder / "meter.csv").read_bytes(), step="1").json()
        request = {"trace": session["id"], "home": home, "epsilon": 1.0, "span": "run"}
        answer = client.post("/api/release", json=request)
    assert answer.status_code == 200, answer.text
    yield "receipt", answer.json()["receipt"]
    (folder / "page.csv").write_bytes(base64.b64decode(answer.json()["data"]))
    yield "series", columns_of(folder / "page.csv")


def write_fleet(folder, watts):
    """One Parquet file of two meters with hourly means; the first is the home."""
    hours = watts.reshape(-1, PER_HOUR).mean(axis=1)
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


CAP = ("--cap", "20", "--reference", "10kWh", "--accept-noise")


def publish_fleet(folder, watts):
    """Readings and sums of a fleet with a ledger."""
    write_fleet(folder, watts)
    ledger = f"sqlite:///{folder / 'fleet.db'}"
    run("ledger", "init", "--ledger", ledger, "--clamp", "0,12000")
    common = ("-e", 1, "--clamp", "0,12000", "--ledger", ledger, "--log-format", "json")
    for command, kind, more in (
        ("fleet", "fleet", ("--stream", "one")),
        ("fleet-sums", "sums", ("--stream", "two", "--tables", "sums,shape,quantiles", *CAP)),
    ):
        out, metrics = folder / kind, folder / f"{kind}.prom"
        done = run(command, folder / "in", *common, *more, "--metrics", metrics, "-o", out)
        yield "exit codes", {kind: done.returncode}
        for line in documents_of_lines(done.stderr):
            yield "log", line
        for line in metrics_of(metrics):
            yield "metrics", line
        yield f"manifest of {kind}", json_of(out / "manifest.json")
        for path in sorted(out.rglob("*.parquet")):
            yield f"{kind} {path.stem}", columns_of(path)
        names = sorted(str(p.relative_to(out)) for p in out.rglob("*"))
        yield "names of files", {kind: names}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """All published documents of both homes: a list of (artefact, items) for each home."""
    both = []
    for extra in (0.0, 2000.0):
        folder, watts = tmp_path_factory.mktemp("home"), load(extra)
        documents = [
            (artefact, list(items(document)))
            for publish in (publish_series, publish_stream, publish_page, publish_fleet)
            for artefact, document in publish(folder, watts)
        ]
        both.append(documents)
    return both


def test_every_public_item_is_registered(published):
    unknown = {
        (artefact, item)
        for documents in published
        for artefact, found in documents
        for item, _ in found
        if pattern_of(artefact, item) is None
    }
    assert unknown == set()


def test_every_registered_item_occurs(published):
    seen = {
        (artefact, pattern_of(artefact, item))
        for artefact, found in published[0]
        for item, _ in found
    }
    registered = {(a, item) for a, entry in REGISTRY["artefact"].items() for item in entry["items"]}
    assert registered - seen == set()


def test_every_origin_is_explained():
    used = {o for entry in REGISTRY["artefact"].values() for o in entry["items"].values()}
    assert set(REGISTRY["origin"]) == used
    assert used >= DIFFERS


def test_items_that_do_not_come_from_noise_are_equal_in_both_homes(published):
    one, two = published
    assert [artefact for artefact, _ in one] == [artefact for artefact, _ in two]
    for (artefact, first), (_, second) in zip(one, two, strict=True):
        origins = REGISTRY["artefact"][artefact]["items"]
        fixed = [
            [(item, v) for item, v in found if origins[pattern_of(artefact, item)] not in DIFFERS]
            for found in (first, second)
        ]
        assert fixed[0] == fixed[1], artefact
