"""Extracts of other shapes: released with one command, and equal to the same data as Parquet."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.apps.fleet.cases import KEY, RELEASE, TERMS, new_ledger, readings, release, spends, write

from hushmeter.apps.fleet import input_files
from hushmeter.apps.fleet.input_files import partition_values
from hushmeter.apps.fleet.job import Columns, InputFormat
from hushmeter.apps.fleet.released_folder import check_released_folder
from hushmeter.errors import DataError, InputError

PLAIN = replace(TERMS, epsilon="1e6", max_epsilon=1e7)
"""Noise so small that the released values are the rounded input."""

HALF_HOUR = 1800


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def local_times(zone: str, day: str, days: int = 1, step_s: int = HALF_HOUR) -> list[datetime]:
    """The starts of all readings of civil days, as instants."""
    first = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    last = first + timedelta(days=days)
    count = int((last.timestamp() - first.timestamp()) // step_s)
    return [
        datetime.fromtimestamp(first.timestamp() + i * step_s, ZoneInfo(zone)) for i in range(count)
    ]


def csv_text(times, values, meters=("00123", "77"), *, mark=".", sep=",", form="%Y-%m-%d %H:%M"):
    """A usual extract: id, local time and kWh, without unit and interval."""
    lines = [sep.join(("mpan", "read_at", "kwh", "tariff"))]
    for meter in meters:
        for time, value in zip(times, values, strict=True):
            number = f"{value:.3f}".replace(".", mark)
            lines.append(sep.join((meter, time.strftime(form), number, "E7")))
    return "\n".join(lines) + "\n"


COLUMNS = Columns("mpan", "read_at", "kwh")
FORM = InputFormat("kWh", "Europe/London")


def usual(tmp_path, name="in/a.csv", day="2024-06-03", **more):
    times = local_times("Europe/London", day)
    values = np.round(np.random.default_rng(0).uniform(0, 2, len(times)), 3)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = csv_text(times, values, **more).encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return times, values


def release_usual(tmp_path, ledger, **more):
    options = {"columns": COLUMNS, "form": FORM, "interval_s": HALF_HOUR, **more}
    return release(tmp_path / "in", tmp_path / "out", ledger, PLAIN, **options)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("in/a.csv", {}),
        ("in/a.csv.gz", {}),
        ("in/a.csv", {"sep": ";", "mark": ",", "form": "%d.%m.%Y %H:%M"}),
        ("in/a.csv", {"form": "%d/%m/%Y %H:%M:%S"}),
    ],
)
def test_a_usual_extract_is_released(tmp_path, ledger, name, more):
    """A decimal comma is stated: a mark that is found in the values would depend on them."""
    times, values = usual(tmp_path, name, **more)
    form = replace(FORM, decimal="comma") if "mark" in more else FORM
    done = release_usual(tmp_path, ledger, keep=("tariff",), form=form)
    assert done.manifest["released_rows"] == 96, done.manifest["quarantine"]
    out = pq.read_table(tmp_path / f"{name.replace('in/', 'out/')}.parquet")
    assert out.schema.names == ["mpan", "read_at", "kwh", "unit", "interval_s", "tariff"]
    assert out["mpan"].to_pylist() == ["00123"] * 48 + ["77"] * 48
    stamps = [t.timestamp() for t in out["read_at"].to_pylist()]
    assert stamps == [t.timestamp() for t in times] * 2
    assert out["kwh"].to_numpy() == pytest.approx(np.tile(values, 2), abs=1e-3)
    assert set(out["unit"].to_pylist()) == {"kWh"}
    assert set(out["tariff"].to_pylist()) == {"E7"}
    # A British summer day begins at 23:00 UTC, so it belongs to two UTC days.
    assert {period for _, period, _ in spends(ledger)} == {"2024-06-02", "2024-06-03"}
    assert check_released_folder(tmp_path / "out") == []


@pytest.mark.parametrize(("day", "readings_a_day"), [("2024-10-27", 50), ("2024-03-31", 46)])
def test_days_on_which_the_clock_changes(tmp_path, ledger, day, readings_a_day):
    """The hour that the clock shows twice is told apart by the order of a meter's rows."""
    times, values = usual(tmp_path, day=day)
    assert len(times) == readings_a_day
    done = release_usual(tmp_path, ledger)
    assert done.complete
    out = pq.read_table(tmp_path / "out/a.csv.parquet")
    assert [t.timestamp() for t in out["read_at"].to_pylist()] == [t.timestamp() for t in times] * 2
    assert out["kwh"].to_numpy() == pytest.approx(np.tile(values, 2), abs=1e-3)


def test_a_time_that_the_clock_skips_is_left_out(tmp_path, ledger):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text(
        "mpan,read_at,kwh\n1,2024-03-31 00:30,1\n1,2024-03-31 01:30,1\n2,2024-03-31 00:30,1\n"
    )
    done = release_usual(tmp_path, ledger)
    assert done.manifest["quarantine"]["blocks"] == 1
    assert done.manifest["released_rows"] == 2
    assert "the time is missing" in str(done.manifest["quarantine"]["reasons"])


def test_parquet_with_local_times_and_without_a_unit(tmp_path, ledger):
    columns = readings(interval_s=HALF_HOUR)
    table = pa.table(
        {
            "meter": columns["meter"],
            "time": pa.array(columns["time"], pa.timestamp("s")),
            "value": columns["value"],
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in/a.parquet")
    form = InputFormat("W", "Asia/Tokyo")
    out = tmp_path / "out"
    done = release(tmp_path / "in", out, ledger, PLAIN, form=form, interval_s=HALF_HOUR)
    assert done.complete
    found = pq.read_table(out / "a.parquet")
    shift = timedelta(hours=9)
    assert [t.replace(tzinfo=None) + shift for t in found["time"].to_pylist()] == columns["time"]


def test_a_complete_parquet_file_is_not_converted(tmp_path, ledger, monkeypatch):
    """Stating a unit does not slow down files that have one; it is the unit of the output."""
    monkeypatch.setattr(input_files, "convert", None)
    write(tmp_path / "in/a.parquet", readings())
    form = InputFormat("kWh", "Europe/Berlin")
    done = release(tmp_path / "in", tmp_path / "out", ledger, form=form, interval_s=3600)
    assert done.complete
    assert set(pq.read_table(tmp_path / "out/a.parquet")["unit"].to_pylist()) == {"kWh"}


def test_hive_partitions_are_columns(tmp_path, ledger):
    times = local_times("UTC", "2024-06-03")
    for meter in ("11", "12"):
        path = tmp_path / f"in/feeder=F%207/mpan={meter}/a.csv"
        path.parent.mkdir(parents=True)
        lines = [f"{t.isoformat()},1.5" for t in times]
        path.write_text("\n".join(["Start,Consumption (kWh)", *lines]))
    names = Columns("mpan", "Start", "Consumption (kWh)")
    done = release(
        tmp_path / "in", tmp_path / "out", ledger, PLAIN, columns=names, keep=("feeder",),
        form=InputFormat("kWh"), interval_s=HALF_HOUR,
    )  # fmt: skip
    assert done.complete, done.manifest["quarantine"]
    out = pq.ParquetFile(tmp_path / "out/feeder=F%207/mpan=12/a.csv.parquet").read()
    assert set(out["mpan"].to_pylist()) == {"12"}
    assert set(out["feeder"].to_pylist()) == {"F 7"}
    assert {meter for meter, *_ in spends(ledger)} == {"11", "12"}
    assert partition_values("a=1/b/c=x%3Dy/f.csv") == {"a": "1", "c": "x=y"}


@pytest.mark.parametrize(
    ("form", "interval_s", "columns", "sentence"),
    [
        (InputFormat(None, "UTC"), HALF_HOUR, COLUMNS, "state the unit of its values"),
        (InputFormat("kWh"), HALF_HOUR, COLUMNS, "times without a zone in column 'read_at'"),
        (FORM, HALF_HOUR, Columns("meter", "read_at", "kwh"), "has no column 'meter' (it has mpan"),
        (FORM, HALF_HOUR, Columns("mpan", "tariff", "kwh"), "'tariff' that holds no times"),
    ],
)
def test_what_no_option_states_is_named(tmp_path, ledger, form, interval_s, columns, sentence):
    usual(tmp_path)
    done = release_usual(tmp_path, ledger, form=form, interval_s=interval_s, columns=columns)
    assert not done.complete
    (problem,) = done.reports[0].problems
    assert sentence in problem.sentence
    assert "E7" not in problem.sentence or "tariff" in problem.sentence
    assert spends(ledger) == []
    assert not (tmp_path / "out").exists()


def test_without_an_interval_nothing_begins(tmp_path, ledger):
    usual(tmp_path)
    with pytest.raises(DataError, match="how many seconds a reading lasts; give --interval"):
        release_usual(tmp_path, ledger, interval_s=None)
    for bad in ({"unit": "MWh"}, {"tz": "Mars/Base"}, {"tz": "../x"}):
        with pytest.raises(InputError, match=r"(unit|tz) must be"):
            InputFormat(**bad)


def test_two_files_with_one_output_are_refused(tmp_path, ledger):
    usual(tmp_path)
    write(tmp_path / "in/a.csv.parquet", readings())
    with pytest.raises(DataError, match=r"two files of .* would be released as a\.csv\.parquet"):
        release_usual(tmp_path, ledger)


def test_a_large_extract_must_be_split(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(input_files, "MAX_ROWS", 95)
    usual(tmp_path)
    done = release_usual(tmp_path, ledger)
    assert "more than 95 rows to convert; split it" in done.reports[0].problems[0].sentence


def test_a_parquet_file_of_many_rows_is_refused_before_it_is_read(tmp_path, ledger, monkeypatch):
    """A file of 4 MB took 9 GB: the rows of its footer count before they are unpacked."""
    monkeypatch.setattr(input_files, "MAX_ROWS", 95)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    (tmp_path / "in").mkdir()
    same = {"meter": "m", "time": "2024-03-01T00:00:00Z", "value": 1.0, "interval_s": 900}
    table = pa.table({name: pa.repeat(one, 96) for name, one in same.items()})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    with pytest.raises(DataError, match="more than 95 rows to convert; split it"):
        input_files.convert(tmp_path / "in" / "a.parquet", {}, Columns(), (), InputFormat(unit="W"))


def test_an_unsorted_extract_is_sorted_and_units_are_joined(tmp_path, ledger):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text(
        "mpan,read_at,kwh,unit\nb,2024-06-03T01:00Z,1,KWH\na,2024-06-03T00:30Z,2,kWh\n"
        "b,2024-06-03T00:30Z,3,kwh\na,2024-06-03T00:00Z,4,kWh\n"
    )
    assert release_usual(tmp_path, ledger, form=InputFormat()).complete
    out = pq.read_table(tmp_path / "out/a.csv.parquet")
    assert out["mpan"].to_pylist() == ["a", "a", "b", "b"]
    assert out["kwh"].to_pylist() == [8000, 4000, 6000, 2000]
    assert out["unit"].to_pylist() == ["W"] * 4


def test_other_options_give_other_noise(tmp_path):
    """The same bytes read in another zone are other data: equal noise would show the shift."""
    usual(tmp_path)
    values = []
    for tz in ("Europe/London", "Europe/Paris"):
        output, options = tmp_path / tz, {"columns": COLUMNS, "form": InputFormat("kWh", tz)}
        done = release(
            tmp_path / "in", output, new_ledger(tmp_path, tz[7:]), interval_s=HALF_HOUR, key=KEY,
            release=RELEASE, **options,
        )  # fmt: skip
        assert done.complete
        values.append(pq.read_table(output / "a.csv.parquet")["kwh"].to_numpy())
    assert abs(np.corrcoef(*values)[0, 1]) < 0.5
