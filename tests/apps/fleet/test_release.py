"""The fleet job on one machine: what it writes, what it charges, what it repeats."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.fleet.cases import (
    KEY,
    RELEASE,
    TERMS,
    digests,
    new_ledger,
    published,
    readings,
    release,
    small_fleet,
    spends,
    write,
)

from hushmeter.apps.fleet import folders, series
from hushmeter.apps.fleet import input_files as fleet_input
from hushmeter.apps.fleet import job as fleet_job
from hushmeter.apps.fleet import task as fleet_task
from hushmeter.apps.fleet.folders import PrivateFolder, StagedFile, list_files
from hushmeter.apps.fleet.job import Columns, FleetJob, FleetTerms, InputFormat, plain
from hushmeter.apps.fleet.release import private_list
from hushmeter.apps.fleet.released_folder import read_manifest
from hushmeter.apps.fleet.series import stretch_key
from hushmeter.apps.fleet.task import protect_file, split_charges
from hushmeter.apps.ledger import DayChange, Ledger, open_ledger
from hushmeter.errors import DataError, InputError
from hushmeter.noise.samplers import KEY_BYTES
from hushmeter.privacy.units import Metered
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.request import Request

PRICE = 26 * 500_000
"""What a customer's day of 26 hourly readings costs at ε = 0.5 each [micro-ε]."""


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


@pytest.fixture
def fleet(tmp_path):
    return small_fleet(tmp_path)


def noise_of(source, output, name):
    """Released minus clamped true power [W] of a file in watts."""
    true, out = (pq.read_table(folder / name)["value"].to_numpy() for folder in (source, output))
    return out - np.clip(true, *TERMS.clamp)


def test_a_release(fleet, ledger, tmp_path):
    done = release(fleet, tmp_path / "out", ledger)
    assert done.complete
    for name in list_files(fleet):
        true, out = pq.read_table(fleet / name), pq.read_table(tmp_path / "out" / name)
        true = true.drop(["group"])
        assert out.schema.equals(true.schema)
        assert out.drop(["value"]).equals(true.drop(["value"]))
        assert (out["value"].to_numpy() % 1 == 0).all()
    wanted = {(f"M{m:08d}", f"2024-01-0{d}", "load") for m in range(12) for d in (1, 2)}
    assert set(spends(ledger)) == wanted
    with open_ledger(ledger) as opened:
        assert opened.balance("M00000003").spent == 2 * PRICE
        assert opened.verify() == []


def test_the_noise_has_the_distribution_of_the_mechanism(tmp_path, ledger):
    fleet = small_fleet(tmp_path, meters=100, days=20, files=2)
    release(fleet, tmp_path / "out", ledger)
    noise = np.concatenate([noise_of(fleet, tmp_path / "out", n) for n in list_files(fleet)])
    law = TERMS.promise.noise
    # Central limits that fail once in a million: |z| < 4.9; kurtosis of Laplace noise is 6.
    assert noise.size == 48_000
    assert abs(noise.mean()) < 4.9 * law.std / noise.size**0.5
    assert abs((noise**2).mean() / law.std**2 - 1) < 4.9 * (5 / noise.size) ** 0.5
    below = (np.abs(noise) <= law.quantile(0.5)).mean()
    assert abs(below - 0.5) < 4.9 * 0.5 / noise.size**0.5 + 1e-3


def test_the_manifest_says_what_was_promised(fleet, ledger, tmp_path):
    done = release(fleet, tmp_path / "out", ledger)
    manifest = read_manifest(tmp_path / "out")
    facts = manifest.facts
    assert facts == done.manifest == json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest.terms == TERMS
    assert facts["promise"]["unit"]["sentence"].startswith("any value of a reading of up to 12 kWh")
    assert facts["promise"]["tables"][0]["noise"]["scale"] == 24_000
    assert facts["promise"]["epsilon"] == 0.5
    assert {f["file"]: f["sha256"] for f in facts["files"]} == digests(tmp_path / "out")
    assert facts["quarantine"] == {"files": 0, "blocks": 0, "reasons": {}}
    with open_ledger(ledger) as opened:
        assert facts["ledger_head"] == str(opened.head())
        with opened._store.reading():
            begun = opened._store.entry("release", facts["release"], "")
        promise = facts["promise"] | {"charge": facts["charge"]}
        assert begun.facts["terms"] == json.loads(json.dumps(promise))
    assert facts["charge"]["epsilon"] == "13"
    assert facts["charge"]["unit"] == (
        "any readings of a customer's day (up to 25 hours) between 0 W and 15 kW"
    )
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "manifest.json",
        *list_files(fleet),
    ]


def test_any_number_of_workers_gives_the_same_bytes(fleet, ledger, tmp_path):
    seen = []
    release(fleet, tmp_path / "one", ledger, key=KEY, release=RELEASE)
    release(
        fleet,
        tmp_path / "two",
        new_ledger(tmp_path, "other"),
        jobs=2,
        key=KEY,
        release=RELEASE,
        report=lambda one, done, total: seen.append((one.source, done, total)),
    )
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert sorted(source for source, *_ in seen) == list_files(fleet)
    assert seen[-1][1:] == (12 * 2 * 24,) * 2


def test_every_release_has_fresh_noise(fleet, ledger, tmp_path):
    release(fleet, tmp_path / "a", ledger, stream="one")
    release(fleet, tmp_path / "b", ledger, stream="two")
    name = list_files(fleet)[0]
    first, second = (noise_of(fleet, tmp_path / out, name) for out in "ab")
    assert (first == second).mean() < 0.01


def test_a_job_travels(tmp_path):
    job = FleetJob(TERMS, "in", "out", "sqlite:///x.db", RELEASE, key=KEY)
    with open_ledger(new_ledger(tmp_path)) as opened:
        job = job.paid_in(opened)
    assert pickle.loads(pickle.dumps(job)) == job
    assert FleetJob.from_dict(json.loads(json.dumps(job.to_dict())), KEY) == job
    assert KEY.hex() not in repr(job)
    assert repr(KEY) not in repr(job)
    assert "secret" not in repr(replace(job, ledger="postgresql://me:secret@host/db"))


@pytest.mark.parametrize("stated", [None, "kWh"])
@pytest.mark.parametrize("unit", ["W", "kW", "Wh", "kWh"])
def test_values_are_published_in_watts_or_in_the_stated_unit(tmp_path, ledger, unit, stated):
    """Half an hour: 1 kWh is 2000 W for that long."""
    watts = {"W": 1.0, "kW": 1e3, "Wh": 2.0, "kWh": 2e3}[unit]
    columns = readings(interval_s=1800, unit=unit)
    columns["value"] = [v / watts for v in columns["value"]]
    columns["value"][5], columns["value"][6] = 1e307, -7.0
    write(tmp_path / "in/a.parquet", columns)
    # So little noise that the rounding is all there is: ε = 20000 for the whole range.
    terms = replace(TERMS, epsilon="1e6", max_epsilon=1e7, interval_s=1800)
    release(tmp_path / "in", tmp_path / "out", ledger, terms, form=InputFormat(unit=stated))
    out = pq.read_table(tmp_path / "out/a.parquet")
    assert set(out["unit"].to_pylist()) == {stated or "W"}
    with np.errstate(over="ignore"):
        true = np.clip(np.array(columns["value"]) * watts, 0, 12_000)
    per_unit = 2000 if stated else 1
    assert out["value"].to_numpy() * per_unit == pytest.approx(np.floor(true + 0.5), rel=1e-12)


def test_units_may_differ_between_blocks(tmp_path, ledger):
    columns = readings()
    for row in range(48, 96):
        columns["unit"][row], columns["value"][row] = "kWh", columns["value"][row] / 1000
    write(tmp_path / "in/a.parquet", columns)
    terms = replace(TERMS, epsilon="1e6", max_epsilon=1e7)
    assert release(tmp_path / "in", tmp_path / "out", ledger, terms).complete
    out = pq.read_table(tmp_path / "out/a.parquet")["value"].to_numpy()
    columns["value"][48:] = [1000 * value for value in columns["value"][48:]]
    assert out == pytest.approx(columns["value"])


def odd_table(columns):
    """A file with other names and types, further columns, and metadata of its own."""
    return pa.table(
        {
            "mpan": pa.array([7 if m == "a" else 8 for m in columns["meter"]], pa.int64()),
            "at": pa.array(columns["time"], pa.timestamp("us", tz="Europe/Berlin")),
            "load": pa.array(columns["value"], pa.float32()),
            "unit": pa.array(columns["unit"], pa.large_string()),
            "interval_s": pa.array(columns["interval_s"], pa.uint16()),
            "tags": pa.array([["x"], None, []] * 32, pa.list_(pa.string())),
            "note": pa.array([None, "n"] * 48, pa.string()),
            "register_kwh": pa.array(np.cumsum(columns["value"]) / 1000),
        },
    ).replace_schema_metadata({"owner": "grid"})


def test_only_kept_columns_are_published(tmp_path, ledger):
    table = odd_table(readings())
    (tmp_path / "in/deep/er").mkdir(parents=True)
    pq.write_table(table, tmp_path / "in/deep/er/x.parquet", row_group_size=40)
    names, keep = Columns("mpan", "at", "load"), ("note", "tags")
    release(tmp_path / "in", tmp_path / "out", ledger, columns=names, keep=keep)
    file = pq.ParquetFile(tmp_path / "out/deep/er/x.parquet")
    out, wanted = file.read(), table.drop(["register_kwh"])
    assert out.schema.remove_metadata().equals(wanted.schema.remove_metadata())
    assert out.drop(["load"]).equals(wanted.drop(["load"]))
    assert set(file.metadata.metadata) == {b"ARROW:schema", b"hushmeter.release"}
    # The row groups of the input may depend on the readings too.
    assert [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)] == [96]
    group = file.metadata.row_group(0)
    stored = {group.column(c).path_in_schema: group.column(c) for c in range(7)}
    assert "BYTE_STREAM_SPLIT" in stored["load"].encodings
    assert "DELTA_BINARY_PACKED" in stored["at"].encodings
    assert {column.compression for column in stored.values()} == {"ZSTD"}
    assert spends(ledger)[0] == ("7", "2024-03-01", "load")
    assert read_manifest(tmp_path / "out").facts["kept_without_noise"] == ["note", "tags"]


def test_a_column_that_cannot_be_kept(tmp_path, ledger):
    write(tmp_path / "in/a.parquet", readings())
    with pytest.raises(InputError, match="column 'value' is released in any case"):
        release(tmp_path / "in", tmp_path / "out", ledger, keep=("value",))
    done = release(tmp_path / "in", tmp_path / "out", ledger, keep=("feeder",))
    assert "no single column 'feeder' to keep" in done.reports[0].problems[0].sentence
    assert spends(ledger) == []


def shuffled(columns, order):
    return {name: [values[i] for i in order] for name, values in columns.items()}


@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("group_rows", [1 << 20, 100])
def test_the_order_of_the_input_is_not_published(
    tmp_path, ledger, monkeypatch, whole_numbers, group_rows
):
    """A file sorted by its values would publish the exact ranking of all readings."""
    monkeypatch.setattr(series, "GROUP_ROWS", group_rows)
    columns = readings(meters=("9", "10", "b2") if not whole_numbers else ("9", "10", "2"), days=3)
    columns["interval_s"][30] = 900
    columns["note"] = [f"{m}!" for m in columns["meter"]]
    by_value = np.argsort([-1 if v is None else v for v in columns["value"]], kind="stable")
    meter = pa.int32() if whole_numbers else pa.string()
    for name, order in (("by_value", by_value), ("as_metered", range(len(by_value)))):
        table = shuffled(columns, order)
        if whole_numbers:
            table["meter"] = pa.array([int(m) for m in table["meter"]], meter)
        path = tmp_path / name / "a.parquet"
        kinds = {"meter": meter, "time": pa.timestamp("s", tz="UTC"), "value": pa.float64()}
        path.parent.mkdir()
        pq.write_table(pa.table({n: pa.array(v, kinds.get(n)) for n, v in table.items()}), path)
        release(path.parent, tmp_path / f"{name}.out", ledger, stream=name, keep=("note",))
    one, two = (pq.ParquetFile(tmp_path / f"{n}.out/a.parquet") for n in ("by_value", "as_metered"))
    public = ["meter", "time", "unit", "interval_s", "note"]
    assert one.read(public).equals(two.read(public))
    assert one.num_row_groups == two.num_row_groups == -(-(216 - 24) // group_rows)
    out = one.read()
    keys = list(zip(out["meter"].to_pylist(), out["time"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    assert out["value"].to_pylist() != sorted(out["value"].to_pylist())


def test_every_row_keeps_its_own_noise_when_rows_are_sorted(tmp_path, ledger):
    columns = readings()
    order = np.random.default_rng(1).permutation(96)
    write(tmp_path / "in/a.parquet", shuffled(columns, order))
    terms = replace(TERMS, epsilon="1e6", max_epsilon=1e7)
    release(tmp_path / "in", tmp_path / "out", ledger, terms)
    out = pq.read_table(tmp_path / "out/a.parquet")
    assert out["value"].to_pylist() == pytest.approx(columns["value"], abs=1)
    assert out["meter"].to_pylist() == columns["meter"]


def test_a_large_file_must_be_sorted_already(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(fleet_task, "SORT_ROWS", 95)
    columns = readings()
    write(tmp_path / "in/a.parquet", columns)
    write(tmp_path / "in/b.parquet", shuffled(columns, range(95, -1, -1)))
    done = release(tmp_path / "in", tmp_path / "out", ledger)
    assert [file["state"] for file in done.manifest["files"]] == ["released", "quarantined"]
    assert "sort it, or split it into smaller files" in private_list(tmp_path / "out").read_text()


def test_dictionaries_show_neither_order_nor_values_of_the_input(tmp_path, ledger):
    """A dictionary sorted by consumption, with a meter that is not in the file at all."""
    columns = readings()
    stored = pa.DictionaryArray.from_arrays(
        pa.array([2 if m == "a" else 0 for m in columns["meter"]], pa.int32()), ["b", "secret", "a"]
    )
    write(tmp_path / "in/a.parquet", columns | {"meter": stored})
    release(tmp_path / "in", tmp_path / "out", ledger)
    out = pq.ParquetFile(tmp_path / "out/a.parquet", read_dictionary=["meter"]).read()
    assert out["meter"].chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert out["meter"].to_pylist() == columns["meter"]
    assert b"secret" not in (tmp_path / "out/a.parquet").read_bytes()


def test_paths_longer_than_a_name_can_be(tmp_path, ledger):
    folder = "/".join(f"kreis={letter * 20}" for letter in "äöü")
    write(tmp_path / "in" / folder / "a.parquet", readings())
    assert release(tmp_path / "in", tmp_path / "out", ledger).complete
    assert list(digests(tmp_path / "out")) == [f"{folder}/a.parquet"]


@pytest.mark.parametrize("limit", ["KEPT_BYTES", "RAW_BYTES"])
def test_large_files_are_read_in_stretches(tmp_path, ledger, monkeypatch, limit):
    """Whatever a file is too large for, it is released all the same, row by row in order."""
    write(tmp_path / "in/a.parquet", readings(days=8), row_group_size=300)
    monkeypatch.setattr(fleet_input, "RECORD_ROWS", 50)
    monkeypatch.setattr(folders if limit == "RAW_BYTES" else fleet_input, limit, 100)
    monkeypatch.setattr(fleet_input, "GROUP_ROWS", 100)
    monkeypatch.setattr(series, "GROUP_ROWS", 120)
    assert release(tmp_path / "in", tmp_path / "out", ledger).complete
    true, out = (pq.read_table(tmp_path / f / "a.parquet") for f in ("in", "out"))
    assert out.drop(["value"]).equals(true.drop(["value"]))
    groups = pq.ParquetFile(tmp_path / "out/a.parquet").metadata
    sizes = [groups.row_group(g).num_rows for g in range(groups.num_row_groups)]
    assert sizes == [120, 120, 120, 24]
    noise = noise_of(tmp_path / "in", tmp_path / "out", "a.parquet")
    assert np.unique(noise).size > 350


def test_many_blocks_are_charged_in_several_batches(fleet, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_task, "BATCH_BLOCKS", 3)
    for count, names in ((3, ["x"]), (0, ["x"]), (7, ["x", "x#2", "x#3"])):
        assert [name for name, _ in split_charges("x", np.arange(count))] == names
    release(fleet, tmp_path / "out", ledger)
    assert len(spends(ledger)) == 24
    with open_ledger(ledger) as opened:
        assert {row["source"] for row in opened.rows()} >= {"part-0000.parquet#2"}


def test_by_month(tmp_path, ledger):
    write(tmp_path / "in/a.parquet", readings(days=40))
    release(tmp_path / "in", tmp_path / "out", ledger, replace(TERMS, period="month"))
    assert sorted(spends(ledger)) == [
        (meter, month, "load") for meter in "ab" for month in ("2024-03", "2024-04")
    ]


def test_the_interval_is_that_of_the_first_file(tmp_path, ledger):
    write(tmp_path / "in/a.parquet", readings(interval_s=900))
    write(tmp_path / "in/b.parquet", readings(meters=("c",), interval_s=1800))
    done = release(tmp_path / "in", tmp_path / "out", ledger, replace(TERMS, span="day"))
    assert done.job.terms.interval_s == 900
    assert done.manifest["promise"]["unit"]["touches"] == 101
    assert {(p.meter, p.sentence) for r in done.reports for p in r.problems} == {
        ("c", "the interval is not the 900 s of this release.")
    }
    done = release(tmp_path / "in", tmp_path / "out2", ledger, interval_s=1800)
    assert done.manifest["released_rows"] == 96


# Keys.


def test_any_change_gives_another_key():
    base = FleetJob(TERMS, "in", "out", "l", "r", "s", promise={"epsilon": 1}, key=KEY)
    changes = [
        {},
        {"release": "r2"},
        {"stream": "s2"},
        {"correction": True},
        {"promise": {"epsilon": 2}},
        {"form": InputFormat(unit="kWh")},
        {"key": bytes(32)},
        # The same letters, cut elsewhere.
        {"release": "rs", "stream": ""},
        {"release": "", "stream": "rs"},
    ]
    keys = [replace(base, **change).file_key("f", bytes(32)) for change in changes]
    keys += [base.file_key("f2", bytes(32)), base.file_key("f", bytes(31) + b"\1")]
    keys += [stretch_key(keys[0], 0, 12), stretch_key(keys[0], 0, 1)]
    keys += [stretch_key(keys[0], 1, 2), bytes.fromhex(base.input_digest(bytes(32)))]
    assert {len(key) for key in keys} == {KEY_BYTES}
    assert all(a != b for a, b in combinations(keys, 2))


def test_noise_does_not_depend_on_what_is_left_out(tmp_path):
    """The same file under the same key: a row keeps its noise when another block is refused."""
    write(tmp_path / "in/a.parquet", readings())
    free, capped = new_ledger(tmp_path, "free"), new_ledger(tmp_path, "capped")
    with open_ledger(capped) as ledger:
        ledger.set_cap(total="13", meter="a")
    release(tmp_path / "in", tmp_path / "whole", free, key=KEY, release=RELEASE)
    release(tmp_path / "in", tmp_path / "part", capped, key=KEY, release=RELEASE)
    whole, part = (pq.read_table(tmp_path / f / "a.parquet") for f in ("whole", "part"))
    assert part.num_rows == 72
    assert part.equals(pa.concat_tables([whole.slice(0, 24), whole.slice(48)]))


def test_changed_data_get_fresh_noise(tmp_path):
    columns = readings()
    write(tmp_path / "a/x.parquet", columns)
    columns["value"][3] += 1
    write(tmp_path / "b/x.parquet", columns)
    for name in "ab":
        out = tmp_path / f"out-{name}"
        release(tmp_path / name, out, new_ledger(tmp_path, name), key=KEY, release=RELEASE)
    noise = [noise_of(tmp_path / n, tmp_path / f"out-{n}", "x.parquet") for n in "ab"]
    assert (noise[0] == noise[1]).mean() < 0.1


def test_the_key_is_private_and_destroyed(fleet, ledger, tmp_path):
    seen = {}

    def look(*_):
        folder = PrivateFolder(tmp_path / "out")
        seen["key"] = folder.key()
        seen["modes"] = {folder.path.stat().st_mode & 0o777, folder.key_file.stat().st_mode & 0o777}

    release(fleet, tmp_path / "out", ledger, report=look)
    assert len(seen["key"]) == KEY_BYTES
    assert seen["modes"] == {0o700, 0o600}
    assert not (tmp_path / "out/.hushmeter").exists()
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert seen["key"] not in everything
    assert seen["key"].hex().encode() not in everything


# Repeating, resuming, correcting.


def test_a_period_is_released_once(fleet, ledger, tmp_path):
    first = release(fleet, tmp_path / "out", ledger)
    again = release(fleet, tmp_path / "again", ledger)
    assert not again.complete
    assert digests(tmp_path / "again") == {}
    assert again.manifest["quarantine"]["reasons"] == {
        f"refused by the ledger (already released by release {first.job.release})": 24
    }
    with open_ledger(ledger) as opened:
        assert opened.balance("M00000000").spent == 2 * PRICE


def test_a_correction_spends_again_with_fresh_noise(fleet, ledger, tmp_path):
    release(fleet, tmp_path / "out", ledger)
    with open_ledger(ledger) as opened:
        opened.set_cap(total="39", meter="M00000000")
    done = release(fleet, tmp_path / "fixed", ledger, correct=True)
    assert done.manifest["correction"]
    problems = [p for r in done.reports for p in r.problems]
    assert [(p.meter, p.period) for p in problems] == [("M00000000", "2024-01-02")]
    with open_ledger(ledger) as opened:
        assert opened.balance("M00000000").spent == 3 * PRICE
        assert opened.balance("M00000001").spent == 4 * PRICE
        assert opened.verify() == []
    name = list_files(fleet)[1]
    first, second = (noise_of(fleet, tmp_path / out, name) for out in ("out", "fixed"))
    assert (first == second).mean() < 0.02


def stop_after(count):
    """A report that gives up after so many files."""
    done = []

    def report(one, *_):
        done.append(one.source)
        if len(done) == count:
            raise KeyboardInterrupt

    return report


def interrupted(fleet, ledger, output, count=2, **more):
    with pytest.raises(KeyboardInterrupt):
        release(fleet, output, ledger, report=stop_after(count), **more)


def test_resuming_goes_on_for_nothing(fleet, ledger, tmp_path):
    release(fleet, tmp_path / "whole", new_ledger(tmp_path, "other"), key=KEY, release=RELEASE)
    interrupted(fleet, ledger, tmp_path / "out", key=KEY, release=RELEASE)
    before = digests(tmp_path / "out")
    assert len(before) == 2
    with pytest.raises(DataError, match="unfinished release; add --resume"):
        release(fleet, tmp_path / "out", ledger)
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    assert done.complete
    assert done.job.release == RELEASE
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")
    assert len(spends(ledger)) == 24
    finished = release(fleet, tmp_path / "out", ledger, resume=True)
    assert finished.manifest == done.manifest
    assert finished.job.release == RELEASE
    with pytest.raises(DataError, match="holds a finished release"):
        release(fleet, tmp_path / "out", ledger)


def test_resuming_needs_the_same_terms(fleet, ledger, tmp_path):
    interrupted(fleet, ledger, tmp_path / "out")
    for change in ({"epsilon": "1"}, {"grid": "2"}, {"period": "month"}):
        name = next(iter(change))
        with pytest.raises(InputError, match=f"with another {name}"):
            release(fleet, tmp_path / "out", ledger, replace(TERMS, **change), resume=True)
    with pytest.raises(InputError, match="with another stream"):
        release(fleet, tmp_path / "out", ledger, stream="other", resume=True)
    assert release(fleet, tmp_path / "out", ledger, resume=True).complete


def test_without_its_key_a_release_cannot_go_on(fleet, ledger, tmp_path):
    interrupted(fleet, ledger, tmp_path / "out")
    PrivateFolder(tmp_path / "out").key_file.unlink()
    with pytest.raises(DataError, match=r"key of the unfinished release .* is lost.*--correct"):
        release(fleet, tmp_path / "out", ledger, resume=True)
    done = release(fleet, tmp_path / "anew", ledger, correct=True)
    assert done.complete


def test_a_file_that_changed_after_it_was_paid_for(fleet, ledger, tmp_path):
    interrupted(fleet, ledger, tmp_path / "out", count=1)
    name = list_files(fleet)[1]
    job = FleetJob.from_dict(
        PrivateFolder(tmp_path / "out").asked, PrivateFolder(tmp_path / "out").key()
    )
    protect_file(job, name)
    (tmp_path / "out" / name).unlink()
    table = pq.read_table(fleet / name)
    pq.write_table(table.slice(0, 24), fleet / name)
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    (problem,) = [p for r in done.reports for p in r.problems]
    assert "was paid for with other content" in problem.sentence
    assert name not in digests(tmp_path / "out")


class Crash(BaseException):
    """The machine dies here."""


def dies(*_):
    raise Crash


def cut_short(monkeypatch, owner, name, fleet, ledger, output, **more):
    """A release that dies where `owner.name` is called first."""
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(Crash):
            release(fleet, output, ledger, **more)


@pytest.mark.parametrize("maker", [(fleet_job, "hushmeter 9.9"), (pa, "pyarrow 9.9")])
def test_another_version_does_not_resume(fleet, ledger, tmp_path, monkeypatch, maker):
    """Published and paid for but not marked: other noise would be a second release for free."""
    cut_short(monkeypatch, Ledger, "mark_released", fleet, ledger, tmp_path / "out")
    before = digests(tmp_path / "out")
    assert len(before) == 1
    module, words = maker
    with monkeypatch.context() as patch:
        patch.setattr(module, "__version__", "9.9")
        with pytest.raises(DataError, match=rf"begun with .* and this is .*{words}"):
            release(fleet, tmp_path / "out", ledger, resume=True)
    assert digests(tmp_path / "out") == before
    assert release(fleet, tmp_path / "out", ledger, resume=True).complete
    assert before.items() <= digests(tmp_path / "out").items()


def test_what_is_published_stands_though_its_input_has_changed(
    fleet, ledger, tmp_path, monkeypatch
):
    cut_short(monkeypatch, Ledger, "mark_released", fleet, ledger, tmp_path / "out")
    (name,) = before = digests(tmp_path / "out")
    write(fleet / name, readings())
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    assert done.complete
    told = {file["file"]: file["sha256"] for file in done.manifest["files"]}
    assert told == digests(tmp_path / "out")
    assert told[name] == before[name]
    with open_ledger(ledger) as opened:
        assert opened.state_of(done.job.release, name) == "released"


def test_a_published_file_that_was_damaged_is_written_again(fleet, ledger, tmp_path):
    interrupted(fleet, ledger, tmp_path / "out", count=1)
    (name,) = before = digests(tmp_path / "out")
    (tmp_path / "out" / name).write_bytes(b"torn")
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    assert done.complete
    assert digests(tmp_path / "out")[name] == before[name]


def test_the_manifest_lists_only_what_is_there(fleet, ledger, tmp_path, monkeypatch):
    """Dead between report and rename; then the input goes: nothing was published of it."""
    cut_short(monkeypatch, StagedFile, "publish", fleet, ledger, tmp_path / "out")
    (fleet / list_files(fleet)[0]).unlink()
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    assert {file["file"] for file in done.manifest["files"]} == set(digests(tmp_path / "out"))


@pytest.mark.parametrize("stored", [pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_what_is_left_out_leaves_no_trace(tmp_path, ledger, stored):
    """Dictionaries are written whole: nothing that only dropped rows refer to may be in them."""
    columns = readings(meters=("kept", "refused"))
    columns["note"] = pa.array(["seen"] * 48 + ["unseen"] * 48).cast(stored)
    write(tmp_path / "in/a.parquet", columns)
    with open_ledger(ledger) as opened:
        opened.set_cap(total="0.000001", meter="refused")
    release(tmp_path / "in", tmp_path / "out", ledger, keep=("note",))
    texts = ["meter", "note", "unit"]
    out = pq.ParquetFile(tmp_path / "out/a.parquet", read_dictionary=texts).read()
    found = [out[name].chunk(0).dictionary.to_pylist() for name in texts]
    assert found == [["kept"], ["seen"], ["W"]]
    assert pq.read_table(tmp_path / "out/a.parquet").schema.field("note").type == stored


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_are_carried_through_where_rows_are_left_out(tmp_path, ledger, kind):
    columns = readings()
    columns["interval_s"][3] = 900
    columns["note"] = pa.array(["x", None, "yy"] * 32, pa.string()).cast(kind)
    write(tmp_path / "in/a.parquet", columns)
    done = release(tmp_path / "in", tmp_path / "out", ledger, keep=("note",))
    assert done.manifest["released_rows"] == 72
    true, out = (pq.read_table(tmp_path / f / "a.parquet") for f in ("in", "out"))
    assert out.drop(["value"]).equals(true.drop(["value"]).slice(24))


def test_a_late_task_does_not_keep_the_private_folder(fleet, ledger, tmp_path, monkeypatch):
    folder, rmtree, calls = PrivateFolder(tmp_path / "out"), shutil.rmtree, []

    def disturbed(path, **options):
        rmtree(path, **options)
        calls.append(path)
        if len(calls) == 1:
            folder.staging.mkdir(parents=True)
            (folder.staging / "late").write_bytes(b"")

    monkeypatch.setattr(folders.shutil, "rmtree", disturbed)
    assert release(fleet, tmp_path / "out", ledger).complete
    assert not folder.path.exists()


def test_a_job_that_comes_as_another_ends_does_not_lock_what_is_gone(
    fleet, ledger, tmp_path, monkeypatch
):
    """The other took folder and lock away between the opening of the lock and the locking."""
    folder = PrivateFolder(tmp_path / "out")
    opened = os.open

    def late(path, flags, *rest, **more):
        descriptor = opened(path, flags, *rest, **more)
        if Path(path).name == "lock":
            shutil.rmtree(folder.path)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", late)
        with pytest.raises(DataError, match="another job is working in"):
            release(fleet, tmp_path / "out", ledger)
    for place in (tmp_path / "out", folder.path):
        assert not place.is_dir() or not any(place.iterdir())
    assert release(fleet, tmp_path / "out", ledger).complete


def test_a_file_that_cannot_be_read_again(fleet, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "RAW_BYTES", 0)
    monkeypatch.setattr(fleet_input, "KEPT_BYTES", 0)
    write_noised = series.write_noised

    def disturb(job, source, *rest):
        os.truncate(fleet / source, 200)
        write_noised(job, source, *rest)

    monkeypatch.setattr(series, "write_noised", disturb)
    with pytest.raises(DataError, match=r"^part-0000\.parquet changed while it was read"):
        release(fleet, tmp_path / "out", ledger)
    assert digests(tmp_path / "out") == {}


def test_a_file_that_changes_while_it_is_read(fleet, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "RAW_BYTES", 0)
    write_noised = series.write_noised

    def disturb(job, source, *rest):
        write_noised(job, source, *rest)
        with (fleet / source).open("r+b") as file:
            file.seek(100)
            file.write(b"\0")

    monkeypatch.setattr(series, "write_noised", disturb)
    with pytest.raises(DataError, match="changed while it was read"):
        release(fleet, tmp_path / "out", ledger)
    assert digests(tmp_path / "out") == {}


def test_two_jobs_cannot_share_a_folder(fleet, ledger, tmp_path):
    def second(*_):
        with pytest.raises(DataError, match="another job is working in"):
            release(fleet, tmp_path / "out", ledger, resume=True)

    assert release(fleet, tmp_path / "out", ledger, report=second).complete


def test_what_was_published_was_paid_for(fleet, ledger, tmp_path):
    release(fleet, tmp_path / "out", ledger)
    assert published(tmp_path / "out") == {(m, p) for m, p, _ in spends(ledger)}


def test_the_estimate_of_the_room_is_close(tmp_path, ledger):
    fleet = small_fleet(tmp_path, meters=300, days=10, files=1)
    rehearsed = release(fleet, tmp_path / "dry", ledger, dry_run=True)
    release(fleet, tmp_path / "out", ledger)
    size = (tmp_path / "out" / list_files(fleet)[0]).stat().st_size
    estimate = rehearsed.manifest["estimated_bytes"]
    assert 0.8 * estimate < size < 1.1 * estimate


@pytest.mark.slow
def test_memory_is_bounded_whatever_the_file(tmp_path, ledger):
    """Ten million rows in one row group: less than 500 MB, measured in a process of its own."""
    fleet = small_fleet(tmp_path, meters=3500, days=30, files=1, interval_s=900)
    name = list_files(fleet)[0]
    table = pq.read_table(fleet / name)
    pq.write_table(table, fleet / name, compression="zstd", row_group_size=table.num_rows)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hushmeter.apps.fleet import FleetTerms, JobOptions, release_fleet\n"
        "terms = FleetTerms(epsilon='1', clamp=(0.0, 15e3))\n"
        "done = release_fleet(sys.argv[1], sys.argv[2], terms, JobOptions(sys.argv[3]))\n"
        "assert done.complete\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
    )
    command = [sys.executable, "-c", script, str(fleet), str(tmp_path / "out"), ledger]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) / 1024 < 500


def test_the_delta_of_gaussian_noise_is_charged_and_capped(tmp_path, ledger):
    write(tmp_path / "in/x.parquet", readings(meters=("a",), days=3))
    with open_ledger(ledger) as opened:
        opened.set_cap(delta="2e-6")
    terms = replace(TERMS, mechanism="gaussian")
    done = release(tmp_path / "in", tmp_path / "out", ledger, terms)
    assert done.manifest["released_blocks"] == 2
    assert done.manifest["charge"]["femto_delta"] == 10**9
    assert "over the cap on δ" in done.reports[0].problems[0].sentence
    with open_ledger(ledger) as opened:
        assert opened.balance("a").delta_spent == 2 * 10**9


def test_a_ledger_that_composes_charges_less_than_the_sum(tmp_path):
    write(tmp_path / "in/x.parquet", readings(meters=("a",)))
    url = f"sqlite:///{tmp_path}/composed.db"
    open_ledger(url, create=DayChange.within(0, 15_000), composition_delta=1e-6).close()
    done = release(tmp_path / "in", tmp_path / "out", url)
    assert done.complete
    charge = done.manifest["charge"]
    assert (charge["composition_delta"], charge["femto_delta"]) == (1e-6, 10**9)
    assert charge["micro_epsilon"] < PRICE
    with open_ledger(url) as opened:
        assert opened.balance("a").spent == 2 * charge["micro_epsilon"]


def test_a_dry_run_prints_what_a_release_would_do_and_does_nothing(fleet, ledger, tmp_path):
    columns = readings(meters=("M00000000", "odd"))
    columns["interval_s"][50] = 900
    write(fleet / "x.parquet", columns)
    (fleet / "y.parquet").write_bytes(b"no Parquet")
    with open_ledger(ledger) as opened:
        opened.set_cap(total="40")
        before = opened.head()
    (files, rows) = sorted(p.name for p in tmp_path.iterdir()), []
    tried = release(
        fleet, tmp_path / "out", ledger, dry_run=True, report=lambda *told: rows.append(told[1:])
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == files
    with open_ledger(ledger) as opened:
        assert opened.head() == before
        assert opened.verify(before) == []
    assert tried.manifest["dry_run"]
    assert len(rows) == 5
    done = release(fleet, tmp_path / "out", ledger)
    same = ("rows", "released_rows", "released_blocks", "quarantine", "charge", "promise")
    assert {key: tried.manifest[key] for key in same} == {key: done.manifest[key] for key in same}
    # The cap of 40 allows three days of 13 to the meter that is in two files.
    assert "over the cap" in str(done.manifest["quarantine"]["reasons"])
    assert not done.complete
    assert not tried.complete
    with pytest.raises(InputError, match="a dry run cannot resume"):
        release(fleet, tmp_path / "new", ledger, dry_run=True, resume=True)


def test_a_try_in_which_nothing_was_released_leaves_nothing_behind(fleet, ledger, tmp_path):
    """All is refused the second time: no folder, no key and no manifest stay."""
    deep = fleet / "feeder=1/day=2"
    deep.mkdir(parents=True)
    (fleet / list_files(fleet)[0]).rename(deep / "a.parquet")
    release(fleet, tmp_path / "out", ledger)
    again = release(fleet, tmp_path / "again", ledger)
    assert not again.complete
    assert not (tmp_path / "again").exists()
    (tmp_path / "empty").mkdir()
    release(fleet, tmp_path / "empty", ledger)
    assert list((tmp_path / "empty").iterdir()) == []
    # The folder can be used for the next try.
    release(fleet, tmp_path / "again", ledger, correct=True)
    assert digests(tmp_path / "again").keys() == digests(tmp_path / "out").keys()


def begun_and_killed(fleet, ledger, output, monkeypatch):
    """A release that ends after its first file was published."""
    calls, real = [], fleet_task.protect_file

    def dying(job, source):
        if calls:
            raise KeyboardInterrupt
        calls.append(source)
        return real(job, source)

    with monkeypatch.context() as patch:
        patch.setattr("hushmeter.apps.fleet.release.protect_file", dying)
        with pytest.raises(KeyboardInterrupt):
            release(fleet, output, ledger, key=KEY, release=RELEASE)
    return calls[0]


def test_a_ledger_that_was_turned_back_is_refused(fleet, ledger, tmp_path, monkeypatch):
    """Restored from a copy that was made before the release: its charges are forgotten."""
    path = Path(ledger.removeprefix("sqlite:///"))
    old = path.read_bytes()
    begun_and_killed(fleet, ledger, tmp_path / "out", monkeypatch)
    path.write_bytes(old)
    with pytest.raises(DataError, match=r"restored from an older copy.* restore the newest copy"):
        release(fleet, tmp_path / "out", ledger, resume=True)
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_ledger_that_is_replaced_during_a_release_is_refused(fleet, ledger, tmp_path):
    path = Path(ledger.removeprefix("sqlite:///"))
    other = Path(new_ledger(tmp_path, "other").removeprefix("sqlite:///"))

    def replace_at_the_end(report, done, total):
        if done == total:
            other.replace(path)
            for log in ("-wal", "-shm"):
                path.with_name(path.name + log).unlink()

    with pytest.raises(DataError, match="does not contain its earlier entry"):
        release(fleet, tmp_path / "out", ledger, report=replace_at_the_end)
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_stated_head_must_be_in_the_ledger(fleet, ledger, tmp_path):
    with open_ledger(ledger) as opened:
        mark = str(opened.head())
    assert release(fleet, tmp_path / "out", ledger, head=mark).complete
    with pytest.raises(DataError, match="does not contain its earlier entry"):
        release(fleet, tmp_path / "new", new_ledger(tmp_path, "b"), head=mark)
    with pytest.raises(InputError, match="a head must be COUNT:HASH"):
        release(fleet, tmp_path / "new", ledger, head="yesterday")
    assert not (tmp_path / "new").exists()


def test_an_unpaid_file_is_not_left_under_a_manifest(fleet, ledger, tmp_path, monkeypatch):
    """The ledger was turned back, its kept head is lost, and the input of the file is gone."""
    path = Path(ledger.removeprefix("sqlite:///"))
    old = path.read_bytes()
    first = begun_and_killed(fleet, ledger, tmp_path / "out", monkeypatch)
    assert (tmp_path / "out" / first).exists()
    path.write_bytes(old)
    PrivateFolder(tmp_path / "out").head_file.unlink()
    (fleet / first).unlink()
    done = release(fleet, tmp_path / "out", ledger, resume=True)
    assert not (tmp_path / "out" / first).exists()
    assert set(digests(tmp_path / "out")) == {file["file"] for file in done.manifest["files"]}


def test_a_foreign_file_in_the_folder_stops_the_release(fleet, ledger, tmp_path, monkeypatch):
    begun_and_killed(fleet, ledger, tmp_path / "out", monkeypatch)
    (tmp_path / "out/notes.txt").write_text("readings of a customer")
    with pytest.raises(DataError, match=r"notes\.txt is not part of the release; move it"):
        release(fleet, tmp_path / "out", ledger, resume=True)
    assert not (tmp_path / "out/manifest.json").exists()
    (tmp_path / "out/notes.txt").unlink()
    assert release(fleet, tmp_path / "out", ledger, resume=True).complete


def test_fleets_are_imported_without_fcntl():
    """Windows has no such module."""
    code = (
        "import sys; sys.modules['fcntl'] = None; "
        "import hushmeter.apps.fleet.sums, hushmeter.apps.fleet.commands"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(
    data=st.data(),
    epsilon=st.sampled_from(["0.05", "1", "3.5"]),
    interval_s=st.sampled_from([60, 900, 1800, 3600, 86_400]),
)
@settings(max_examples=200, deadline=None)
def test_a_fleet_promises_what_a_single_release_promises(data, epsilon, interval_s):
    """The same request: unit, noise, ε, δ, odds and errors are the same in the manifest."""
    watts = data.draw(st.sampled_from([None, 50.0, 2000.0]))
    asked = {
        "epsilon": epsilon,
        "clamp": data.draw(st.sampled_from([(0.0, 15_000.0), (-4000.0, 9000.0)])),
        "span": data.draw(st.sampled_from(["reading", "day"])),
        "mechanism": data.draw(st.sampled_from(["laplace", "staircase", "gaussian"])),
        "grid": data.draw(st.sampled_from([None, "1", "20"])),
        "delta": data.draw(st.sampled_from([1e-6, 1e-9])),
        "protect": "range" if watts is None else "change",
        "watts": watts,
    }
    one = describe_promise(Request(**asked).resolve(Metered(interval_s)))
    many = FleetTerms(**asked, interval_s=interval_s).describe()
    assert plain(one) == {name: plain(many)[name] for name in one}
