"""Whole files that differ by one run of a kettle: what a release publishes about them is equal.

The files are written as the meter, its plugs, the portal or the logger would have written them with
and without the run. A release publishes times and gaps exactly, so they may not depend on a value.
"""

from __future__ import annotations

import csv
import json
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.test_commands import run
from tests.read.spreadsheets import xlsx_bytes

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.privacy.sensitivity import Change
from hushmeter.read import ReadOptions, read_home_recording, read_recording

DAY = 1440
KETTLE = slice(600, 603)
START = np.datetime64("2024-01-15T00:00")
POWER = ["--sensitivity", "2000", "-e", "1"]


def minutes(count=DAY):
    return [f"{START + np.timedelta64(i, 'm')}:00Z" for i in range(count)]


def load(with_run, count=DAY):
    """Watts of every minute: a base load, and three minutes of a kettle."""
    watts = 150 + 20 * (np.arange(count) % 7)
    if with_run:
        watts[KETTLE] += 2000
    return watts


def table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def published(path, *options, expect=0):
    """Everything public of a release, without its noise: times, gaps, and the receipt's facts."""
    out = path.with_name(f"{path.stem}-out.csv")
    done = run("release", path, *POWER, *options, "-o", out, "--force", "--json", expect=expect)
    if expect:
        return done.stderr
    with out.open() as file:
        times = [row[0] for row in csv.reader(file)]
    receipt = json.loads(out.with_name(out.name + ".receipt.json").read_text())
    facts = {key: receipt[key] for key in ("unit", "tables", "epsilon")}
    return times, facts, receipt["output"]["readings"]


def refused(path, *options):
    return " ".join(published(path, *options, expect=1).split())


def test_a_plug_that_is_empty_while_it_is_off(tmp_path):
    """Critical: such a cell made a gap in the mains."""
    found = []
    for with_run in (False, True):
        watts = load(with_run)
        plug = [
            w if with_run and KETTLE.start <= i < KETTLE.stop else "" for i, w in enumerate(watts)
        ]
        rows = zip(minutes(), watts, plug, load(False) % 40, strict=True)
        path = table(tmp_path / f"{with_run}.csv", ("timestamp", "watts", "kettle", "fridge"), rows)
        found.append(published(path))
        assert read_recording(path).power is None
    assert found[0] == found[1]
    assert len(found[0][0]) == DAY + 1
    assert len(read_home_recording(path).trace) == 3


@pytest.mark.parametrize("suffix", ["parquet", "xlsx", "json"])
def test_a_plug_that_is_empty_in_other_formats(tmp_path, suffix):
    found = []
    for with_run in (False, True):
        watts = load(with_run)
        plug = [float(w) if with_run and KETTLE.start <= i < KETTLE.stop else None
                for i, w in enumerate(watts)]  # fmt: skip
        columns = {"timestamp": minutes(), "watts": watts.tolist(), "kettle": plug,
                   "lamp": [5.0] * DAY}  # fmt: skip
        path = tmp_path / f"{with_run}.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.table(columns), path)
        elif suffix == "xlsx":
            rows = [list(row) for row in zip(*columns.values(), strict=True)]
            path.write_bytes(xlsx_bytes({"Sheet": [list(columns), *rows]}))
        else:
            records = [dict(zip(columns, row, strict=True))
                       for row in zip(*columns.values(), strict=True)]  # fmt: skip
            path.write_text(json.dumps(records))
        found.append(published(path))
    assert found[0] == found[1]
    assert len(found[0][0]) == DAY + 1


def test_a_nilmtk_plug_that_logs_only_while_it_is_on(tmp_path):
    pytest.importorskip("tables", reason="needs the extra nilmtk")
    pandas = pytest.importorskip("pandas")
    found = []
    for with_run in (False, True):
        path = tmp_path / f"{with_run}.h5"
        index = pandas.date_range("2024-01-15", periods=DAY, freq="min", tz="UTC")
        kettle = load(with_run) - load(False)
        # The plug is asked once an hour, and every minute while it draws power.
        there = (kettle > 0) | (np.arange(DAY) % 60 == 0)
        columns = pandas.MultiIndex.from_tuples([("power", "active")])
        with pandas.HDFStore(path) as store:
            for meter, frame in (
                (1, pandas.DataFrame(load(with_run).astype(float), index, columns)),
                (2, pandas.DataFrame(kettle[there].astype(float), index[there], columns)),
            ):
                store.put(f"/building1/elec/meter{meter}", frame, format="table", track_times=False)
            store.get_storer(
                "/building1/elec/meter1"
            ).group._v_parent._v_parent._v_attrs.metadata = {
                "elec_meters": {1: {"site_meter": True}, 2: {"submeter_of": 0}},
                "appliances": [{"type": "kettle", "meters": [2]}],
            }
        found.append(published(path))
    assert found[0] == found[1]
    assert len(found[0][0]) == DAY + 1


def test_devices_of_an_energy_dashboard_are_not_read(samples, save):
    path = save(samples.ha_energy())
    assert read_recording(path).power is None
    without = save(b"".join(line + b"\n" for line in samples.ha_energy().splitlines()
                            if b"device_consumption" not in line), "other.csv")  # fmt: skip
    np.testing.assert_array_equal(read_recording(without).trace.times,
                                  read_recording(path).trace.times)  # fmt: skip


def test_a_file_of_circuits_alone_is_not_released(tmp_path):
    pytest.importorskip("tables", reason="needs the extra nilmtk")
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "plugs.h5"
    index = pandas.date_range("2024-01-15", periods=100, freq="min", tz="UTC")
    columns = pandas.MultiIndex.from_tuples([("power", "active")])
    frame = pandas.DataFrame(np.ones(100), index, columns)
    with pandas.HDFStore(path) as store:
        store.put("/building1/elec/meter1", frame, format="table", track_times=False)
        group = store.get_storer("/building1/elec/meter1").group._v_parent._v_parent
        group._v_attrs.metadata = {"elec_meters": {1: {"site_meter": False}}}
    assert "has no meter of the whole home" in refused(path)
    assert read_home_recording(path).mains == "sum of sub-meters"


@pytest.mark.parametrize("word", [">2000", "OL", "overflow", "max", "Err", "#VALUE!"])
def test_a_word_that_follows_from_the_value_refuses_the_file(tmp_path, word):
    """Critical: in at most 5 % of the rows such a word became a gap."""
    cells = [word if w > 2000 else w for w in load(True)]
    path = table(tmp_path / "m.csv", ("timestamp", "watts"), zip(minutes(), cells, strict=True))
    assert f"is '{word}' in row 600, neither a number nor a mark" in refused(path)


@pytest.mark.parametrize("first", [0, 600])
def test_units_in_cells_count_for_every_cell(tmp_path, first):
    """Critical: kilowatts after the first 200 rows became gaps."""
    found = []
    for with_run in (False, True):
        watts = np.roll(load(with_run), first - KETTLE.start)
        cells = [f"{w / 1000:.2f} kW" if w >= 1000 else f"{w} W" for w in watts]
        path = table(tmp_path / f"{with_run}.csv", ("timestamp", "power"),
                     zip(minutes(), cells, strict=True))  # fmt: skip
        found.append(published(path))
        np.testing.assert_allclose(read_recording(path).watts, watts)
        assert read_recording(path).unit == "W"
    assert found[0] == found[1]


def test_a_number_without_a_unit_among_cells_with_one_is_refused(tmp_path):
    cells = ["412 W"] * 5 + ["2.31"] + ["400 W"] * 5
    path = table(tmp_path / "m.csv", ("timestamp", "power"), zip(minutes(), cells, strict=False))
    with pytest.raises(DataError, match=r"'2.31' in row 5"):
        read_recording(path)
    stated = table(
        tmp_path / "s.csv", ("timestamp", "power (kW)"), zip(minutes(), cells, strict=False)
    )
    assert read_recording(stated).watts[5] == pytest.approx(2310)


def net(with_run):
    """Quarter hours of a home with solar panels, in watts; a run turns an export into an import."""
    power = 800 - 1500 * np.sin(np.pi * np.clip((np.arange(96) - 28) / 40, 0, 1))
    power[50] += 2000 if with_run else 0
    return power


@pytest.mark.parametrize("options", [(), ("--register", "Import")])
def test_a_column_of_directions_by_sign(tmp_path, options):
    """Critical: rows of export were left out, so that the sign of every reading was public."""
    found = []
    times = [f"{START + np.timedelta64(15 * i, 'm')}:00Z" for i in range(96)]
    for with_run in (False, True):
        power = net(with_run)
        rows = [(t, "Import" if p >= 0 else "Export", f"{abs(p) / 4000:.3f}")
                for t, p in zip(times, power, strict=True)]  # fmt: skip
        path = table(tmp_path / f"{with_run}.csv", ("start", "direction", "kWh"), rows)
        found.append(published(path, *options))
        np.testing.assert_allclose(read_recording(path).watts, np.clip(power, 0, None), atol=2.1)
    assert found[0] == found[1]
    assert len(found[0][0]) == 97


def test_an_empty_cell_of_import_beside_one_of_export(tmp_path):
    found = []
    times = [f"{START + np.timedelta64(15 * i, 'm')}:00Z" for i in range(96)]
    for with_run in (False, True):
        power = net(with_run) / 4000
        rows = [(t, f"{p:.3f}" if p >= 0 else "", f"{-p:.3f}" if p < 0 else "")
                for t, p in zip(times, power, strict=True)]  # fmt: skip
        header = ("start", "Import (kWh)", "Export (kWh)")
        found.append(published(table(tmp_path / f"{with_run}.csv", header, rows)))
    assert found[0] == found[1]
    assert len(found[0][0]) == 97


def test_parallel_registers_stay_apart(tmp_path):
    times = [f"{START + np.timedelta64(15 * i, 'm')}:00Z" for i in range(96)]
    rows = [row for i, t in enumerate(times)
            for row in ((t, "Import", 0.1 + i % 3), (t, "Export", 0.2))]  # fmt: skip
    path = table(tmp_path / "m.csv", ("start", "direction", "kWh"), rows)
    np.testing.assert_allclose(read_recording(path).watts, 4000 * (0.1 + np.arange(96) % 3))


def changes_of(watts):
    """Rows of a logger that writes a value only where it changed."""
    kept = [0, *(np.flatnonzero(np.diff(watts)) + 1).tolist()]
    return [(minutes()[i], watts[i]) for i in kept]


def still(with_run):
    """A load that changes in six of seven minutes."""
    watts = 150 + 20 * (np.cumsum(np.arange(DAY) % 7 != 0) % 5)
    if with_run:
        watts[601:603] = 2150
    return watts


def test_a_logger_of_changes_as_a_plain_table(tmp_path):
    """Critical: 3000 and 3002 readings, without a note."""
    found = []
    for with_run in (False, True):
        path = table(
            tmp_path / f"{with_run}.csv", ("timestamp", "watts"), changes_of(still(with_run))
        )
        assert "state it (--changes yes, with --from and --to)" in refused(path)
        assert "state the start and end of the recording (--from, --to with" in refused(
            path, "--changes", "yes"
        )
        done = run("inspect", path)
        assert "Before a release:" in done.stdout
        stated = ("--changes", "yes", "--from", "2024-01-15", "--to", "2024-01-16")
        found.append(published(path, *stated))
        trace = read_recording(path, ReadOptions(changes="yes", end="2024-01-16T00:00Z")).trace
        np.testing.assert_allclose(trace.readings, still(with_run))
    assert found[0] == found[1]
    assert len(found[0][0]) == DAY + 1


def test_missing_rows_need_a_statement_and_get_one(tmp_path):
    two = 2 * DAY
    rows = [
        row for i, row in enumerate(zip(minutes(two), load(False, two), strict=True)) if i != 77
    ]
    path = table(tmp_path / "m.csv", ("timestamp", "watts"), rows)
    assert "--changes no" in refused(path)
    trace = hm.read_meter(path)
    with pytest.raises(DataError, match=r"nothing was released: .*`changes=no`"):
        hm.release_views(trace, epsilon=1, home=hm.synth.ready_home("evening"))
    unit = hm.resolve_unit("change", interval_s=hm.metered(trace), size=2000)
    with pytest.raises(DataError, match=r"nothing was released: .*`changes=no`"):
        hm.release(trace, hm.calibrate("laplace", 1, unit), unit)
    assert len(published(path, "--changes", "no")[0]) == two
    whole = table(
        tmp_path / "w.csv", ("timestamp", "watts"), zip(minutes(), load(False), strict=True)
    )
    assert len(published(whole)[0]) == DAY + 1


def test_a_missing_mark_at_the_end_needs_a_statement_too(tmp_path):
    cells = [*load(False)[:-1], "n/a"]
    path = table(tmp_path / "m.csv", ("timestamp", "watts"), zip(minutes(), cells, strict=True))
    assert "--changes no" in refused(path)


def history(rows):
    return "entity_id,state,last_changed\n" + "".join(
        f"sensor.meter_power,{value},{time}\n" for time, value in rows
    )


def test_a_history_needs_its_end(tmp_path):
    """High: the end of the file was that of the last change."""
    found = []
    for last in (700, 760):
        watts = np.where(np.arange(DAY) < last, 200, 150)
        path = tmp_path / f"{last}.csv"
        path.write_text(history(changes_of(watts)))
        assert "its start and end would be that of a change" in refused(path)
        assert "Before a release:" in run("inspect", path).stdout
        found.append(published(path, "--from", "2024-01-15", "--to", "2024-01-16"))
    assert found[0] == found[1]
    assert len(found[0][0]) == DAY + 1


def test_a_state_that_is_a_word_of_its_value_is_refused(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text(history([(minutes()[0], 5), (minutes()[9], "OL"), (minutes()[90], 7)]))
    with pytest.raises(DataError, match="the state in line 3 is 'OL'"):
        read_recording(path)
    path.write_text(history([(minutes()[0], 5), (minutes()[9], "unavailable"), (minutes()[90], 7)]))
    assert read_recording(path).public.gaps == 0


def test_the_states_of_a_data_base_need_a_start_and_an_end(tmp_path):
    """Old states are deleted, so that the first row is a change as well."""
    path = tmp_path / "home-assistant_v2.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE states_meta (metadata_id INTEGER, entity_id TEXT);"
            "CREATE TABLE state_attributes (attributes_id INTEGER, shared_attrs TEXT);"
            "CREATE TABLE states (state TEXT, last_changed_ts REAL, last_updated_ts REAL,"
            " metadata_id INTEGER, attributes_id INTEGER);"
            "INSERT INTO states_meta VALUES (1, 'sensor.power');"
            'INSERT INTO state_attributes VALUES (1, \'{"unit_of_measurement": "W"}\');'
        )
        seconds = START.astype("datetime64[s]").astype(int)
        rows = [
            (str(v), None, float(seconds + 60 * i)) for i, v in ((7, 100), (90, 300), (95, 120))
        ]
        database.executemany("INSERT INTO states VALUES (?, ?, ?, 1, 1)", rows)
    assert "its start and end would be that of a change" in refused(path)
    until = ("--to", "2024-01-15T03:00Z")
    assert "(--from with a time" in refused(path, *until)
    assert "state a later --from." in refused(path, *until, "--from", "2024-01-15T00:05Z")
    times, _, count = published(path, *until, "--from", "2024-01-15T01:00Z")
    assert times[1].startswith("2024-01-15 01:00")
    assert count == 120


def test_a_counter_of_changes_holds_until_its_next_row(tmp_path):
    """A line to the next change would move its energy into hours before."""
    path = tmp_path / "history.csv"
    rows = [("00:00", 5.0), ("03:10", 5.5), ("03:20", 0.2), ("04:30", 0.3)]
    path.write_text(
        "entity_id,state,last_changed\n"
        + "".join(f"sensor.meter_energy,{value},2024-01-15T{clock}:00Z\n" for clock, value in rows)
    )
    options = ReadOptions(end="2024-01-15T06:00Z")
    np.testing.assert_allclose(read_recording(path, options).watts, [0, 0, 0, 700, 100, 0])


def test_a_row_an_hour_longer_is_no_reading(tmp_path):
    """High: 90 minutes among half hours became one reading of three times its power."""
    starts = [START + np.timedelta64(30 * i, "m") for i in range(96)]
    rows = [(f"{t}:00Z", f"{t + np.timedelta64(90 if i == 40 else 30, 'm')}:00Z", 0.5)
            for i, t in enumerate(starts) if i not in (41, 42)]  # fmt: skip
    path = table(tmp_path / "m.csv", ("start", "end", "kWh"), rows)
    with pytest.raises(DataError, match=r"readings of 30 min and of 1\.5 h"):
        read_recording(path, ReadOptions(changes="no"))


def test_half_hours_of_a_day_with_a_change_of_the_clock(tmp_path):
    """Local starts and ends of both changes of the clock: every row is half an hour long."""
    for day in ("2024-03-31", "2024-10-27"):
        start = np.datetime64(f"{day}T00:00") - np.timedelta64(2, "h")
        utc = [start + np.timedelta64(30 * i, "m") for i in range(60)]
        change = np.datetime64(f"{day}T01:00")
        summer = day < "2024-06"
        local = [t + np.timedelta64(1 + ((t >= change) == summer), "h") for t in utc]
        ends = [*local[1:], local[-1] + np.timedelta64(30, "m")]
        rows = [(str(a).replace("T", " "), str(b).replace("T", " "), 0.5)
                for a, b in zip(local, ends, strict=True)]  # fmt: skip
        path = table(tmp_path / "m.csv", ("start", "end", "kWh"), rows)
        found = read_recording(path, ReadOptions(tz="Europe/Berlin"))
        np.testing.assert_array_equal(found.trace.times, np.array(utc, dtype="datetime64[ns]"))
        np.testing.assert_allclose(found.watts, 1000)
        assert found.public.metering.stretch == 1
        assert found.public.metering.unsettled is None


@pytest.mark.parametrize(("days", "readings", "reach"), [(20, 481, 1), (60, 1439, 0)])
def test_an_hour_that_may_hold_two_hours_is_divided_or_left_out(tmp_path, days, readings, reach):
    """A portal with 24 rows on the day of 25 hours may have added two hours up."""
    hours = np.datetime64("2024-10-29T00:00") - np.arange(24 * days, 0, -1) * np.timedelta64(1, "h")
    rows = [(str(t).replace("T", " "), 0.4 + 0.01 * (i % 5)) for i, t in enumerate(hours)]
    path = table(tmp_path / "m.csv", ("start", "kWh"), rows)
    found = read_recording(path, ReadOptions(tz="Europe/Berlin"))
    assert len(found.trace) == readings
    assert found.public.metering.reach == reach
    assert found.public.metering.unsettled is None


def test_days_of_23_and_25_hours_count_in_the_sensitivity(tmp_path):
    days = np.arange("2024-03-20", "2024-04-10", dtype="datetime64[D]")
    path = table(tmp_path / "m.csv", ("date", "kWh"), [(str(d), 12.0) for d in days])
    found = read_recording(path, ReadOptions(tz="Europe/Berlin"))
    assert found.public.metering.stretch == pytest.approx(24 / 23)
    assert found.public.metering.unsettled is None
    assert found.trace.energy_kwh == pytest.approx(12.0 * days.size)


def counter_file(path, seconds, energy_ws):
    """A register in whole milliwatt-hours, so that its rounding does not matter here."""
    start = int(START.astype("datetime64[s]").astype(int))
    rows = [(start + s, f"{e / 3600:.6f}") for s, e in zip(seconds, energy_ws, strict=True)]
    return table(path, ("timestamp", "meter reading (Wh)"), rows)


def read_counter(path):
    return read_recording(path, ReadOptions(changes="no", step=1e-6, counter="yes"))


@pytest.mark.parametrize("kind", ["restart", "jitter", "minutes"])
def test_a_counter_at_uneven_times_keeps_its_sensitivity(tmp_path, rng, kind):
    """High: watts of a short time moved up to 10.7 times as far as the receipt stated."""
    if kind == "restart":
        seconds = [*range(0, 36_001, 900), 36_420, 36_480, *range(37_380, 80_000, 900)]
    elif kind == "jitter":
        seconds = (900 * np.arange(90) + np.append(0, rng.integers(-200, 200, 89))).tolist()
    else:
        seconds = np.cumsum(rng.choice([8, 50, 60, 60, 60, 60, 62, 70], 1200)).tolist()
    seconds = np.array(seconds)
    watts, length = 2000.0, 180.0
    base = read_counter(counter_file(tmp_path / "a.csv", seconds, 300.0 * seconds))
    change = Change("kettle", watts, length, base.trace.interval_s, metering=base.public.metering)
    worst = 0.0
    for at in [*rng.uniform(seconds[0], seconds[-1] - length, 40).tolist(), 36_300.0]:
        energy = 300.0 * seconds + watts * np.clip(seconds - at, 0, length)
        other = read_counter(counter_file(tmp_path / "b.csv", seconds, energy))
        np.testing.assert_array_equal(base.trace.times, other.trace.times)
        moved = np.abs(other.watts - base.watts)
        assert moved.sum() <= change.l1 * (1 + 1e-6) + 0.1
        assert np.linalg.norm(moved) <= change.l2 * (1 + 1e-6) + 0.1
        assert moved.max(initial=0) <= change.largest * (1 + 1e-6) + 0.1
        assert (moved > 0.1).sum() <= change.touches
        worst = max(worst, moved.sum() / change.l1)
    assert worst > 0.6


def test_means_at_uneven_times_keep_their_sensitivity(tmp_path, rng):
    """A logger gives the mean power until its next row, which is sometimes early."""
    seconds = np.cumsum(rng.choice([6, 40, 55, 60, 60, 60, 60, 65, 75], 1200))
    stamps = int(START.astype("datetime64[s]").astype(int)) + seconds[:-1]
    lengths = np.diff(seconds)
    power, run_s = 2000.0, 150.0
    options = ReadOptions(changes="no")

    def recorded(at):
        begin = np.clip(seconds[:-1] - at, 0, run_s)
        added = power * (np.clip(seconds[1:] - at, 0, run_s) - begin) / lengths
        rows = [(t, f"{300 + w:.6f}") for t, w in zip(stamps, added, strict=True)]
        return read_recording(table(tmp_path / "m.csv", ("timestamp", "watts"), rows), options)

    base = recorded(-1e9)
    assert 1 < base.public.metering.stretch <= 2
    change = Change("x", power, run_s, base.trace.interval_s, metering=base.public.metering)
    for at in rng.uniform(seconds[0], seconds[-1], 40):
        moved = np.abs(recorded(at).watts - base.watts)
        assert moved.sum() <= change.l1
        assert np.linalg.norm(moved) <= change.l2
        assert moved.max() <= change.largest
        assert (moved > 0).sum() <= change.touches


def test_points_of_a_market_document_that_repeat_are_left_out(tmp_path):
    """A curve of type A03 has no point where the value is that of the point before."""
    points = [
        {"position": str(i), "out_Quantity.quantity": f"{0.1 * (i % 3 + 1):.1f}"}
        for i in range(1, 97)
        if i != 50
    ]
    start = {"start": "2024-01-15T00:00Z"}
    period = {"resolution": "PT15M", "timeInterval": start, "Point": points}
    path = tmp_path / "market.json"
    path.write_text(json.dumps({"Period": [period]}))
    assert read_recording(path, ReadOptions(unit="kWh")).public.metering.unsettled is not None


def test_a_whole_telegram_without_a_number_is_refused(save):
    telegrams = [
        f"/ISK5\n\n0-0:1.0.0(24010112{i:02d}00W)\n1-0:1.7.0({power}*kW)\n!\n"
        for i, power in enumerate(("00.500", ">9.999", "00.600"))
    ]
    with pytest.raises(DataError, match="telegram 2 has no number as its power"):
        read_recording(save("".join(telegrams).encode()))
