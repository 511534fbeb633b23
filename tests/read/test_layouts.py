from __future__ import annotations

import json
import math

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.sensitivity import Change
from hushmeter.read import (
    ReadOptions,
    read_home_data,
    read_home_recording,
    read_meter,
    read_recording,
)


def test_octopus_over_the_end_of_summer_time(samples, save):
    found = read_recording(save(samples.octopus()))
    assert found.format == "Octopus half-hourly CSV"
    assert found.trace.interval_s == 1800
    assert found.public.gaps == 0
    assert found.trace.start == np.datetime64("2023-10-29T00:00")
    np.testing.assert_allclose(found.trace.readings, 2.0 * np.arange(1, 9))


def test_n3rgy_stamps_the_end(samples, save):
    trace = read_meter(save(samples.n3rgy()))
    assert trace.start == np.datetime64("2023-01-01T00:00")
    np.testing.assert_allclose(trace.readings, 200.0 * np.arange(1, 7))
    gas = samples.n3rgy().replace(b"(kWh)", b"(m3)")
    with pytest.raises(DataError, match="a gas export"):
        read_meter(save(gas))


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("Active Import Interval (kW)", 1000.0), ("Active Import Interval (kWh)", 2000.0)],
)
def test_esb_local_end_stamps_newest_first(samples, save, kind, factor):
    found = read_recording(save(samples.esb(kind)))
    assert len(found.trace) == 96
    assert (found.public.gaps, found.public.duplicates, found.public.reversed) == (0, 0, 0)
    assert found.trace.start == np.datetime64("2023-10-28T12:00")
    np.testing.assert_allclose(found.trace.readings, factor * (0.5 + 0.01 * np.arange(96)))
    assert "in an hour that the clock shows twice" in found.public.clock_changes
    assert any("Export" in note for note in found.notes)


def test_the_skipped_hour_is_one_hour_short(save):
    rows = "".join(f"2024-03-31 {h:02d}:{m:02d},1\n" for h in (0, 2, 3) for m in (0, 30))
    found = read_recording(
        save(("time,kWh\n" + rows).encode()), ReadOptions(tz="Europe/London", unit="kWh")
    )
    assert found.public.gaps == 0
    assert found.trace.interval_s == 1800


def test_any_table_with_options(save):
    rows = ("When;Usage;Note", "31/01/2024 00:30;0,25;a", "31/01/2024 01:00;0,5;b",
            "31/01/2024 01:30;1,0;c", "")  # fmt: skip
    text = "\n".join(rows).encode()
    options = {"time_column": "when", "value_column": "Usage", "unit": "kWh"}
    trace = read_meter(save(text), **options, stamp="end", tz="Europe/Madrid")
    assert trace.start == np.datetime64("2024-01-30T23:00")
    np.testing.assert_allclose(trace.readings, [500, 1000, 2000])
    with pytest.raises(DataError, match=r"without a zone.*`tz="):
        read_meter(save(text), **options)
    with pytest.raises(InputError, match="has no column 'Use'"):
        read_meter(save(text), value_column="Use", time_column="When")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "BTU"}, "unit must be one of"),
        ({"stamp": "middle"}, "stamp must be one of"),
        ({"tz": "Mars/Olympus"}, "tz must be a time zone"),
    ],
)
def test_wrong_options_are_refused(samples, save, options, message):
    with pytest.raises(InputError, match=message):
        read_meter(save(samples.plain_csv()), **options)


def test_lines_above_the_header_and_units_in_names(save):
    head = "Name,Somebody\n\nDate and more\ntimestamp,Usage (kWh)\n"
    rows = "".join(f"2024-01-01T{hour:02d}:00Z,{min(hour + 1, 2)}\n" for hour in range(3))
    text = (head + rows).encode()
    np.testing.assert_allclose(read_meter(save(text)).readings, [1000, 2000, 2000])


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_encodings(save, encoding):
    text = "timestamp,watts,Küche\n1,5,1\n2,6,2\n".encode(encoding)
    trace = read_home_data(save(text))
    assert trace.names == ("Küche",)
    assert trace.readings.tolist() == [5.0, 6.0]


def test_milliseconds_and_no_header(save):
    assert read_meter(save(b"timestamp,watts\n1700000000000,1\n1700000001000,2\n")).interval_s == 1
    bare = read_meter(save(b"1700000000 5.5\n1700000006 6.5\n1700000012 7\n", "channel_1.dat"))
    assert bare.interval_s == 6
    assert bare.readings.tolist() == [5.5, 6.5, 7.0]


def test_a_file_of_export_only_is_refused(samples, save):
    text = samples.esb().replace(b"Import", b"Export")
    with pytest.raises(DataError, match=r"holds only export or production \(Read Type: Active Ex"):
        read_meter(save(text))


def test_rae_adds_two_poles(samples, save):
    found = read_home_recording(save(samples.rae()))
    trace = found.trace
    assert found.format == "RAE CSV"
    assert trace.interval_s == 1
    dryer = trace.power[:, trace.names.index("clothes dryer")]
    assert set(dryer) == {0.0, 4400.0}
    assert "sub5" not in trace.names
    assert "fridge" in trace.names
    assert any("Two poles were added" in note for note in found.notes)


def test_rae_blocks_of_a_folder_follow_each_other(samples, tmp_path):
    first = samples.rae()
    second = first.replace(str(samples.START)[:6].encode(), b"170009")
    (tmp_path / "house1_power_blk1.csv").write_bytes(first)
    (tmp_path / "house1_power_blk2.csv").write_bytes(second)
    found = read_home_recording(tmp_path)
    assert len(found.trace) == 120
    assert found.public.gaps == 1
    with pytest.raises(DataError, match=r"no house '2' \(found: 1\)"):
        read_home_data(tmp_path, 2)


def test_ampds_watts_and_amperes(samples, save):
    trace = read_home_data(save(samples.ampds()))
    assert trace.interval_s == 60
    assert set(trace.names) == {
        "north bedroom", "clothes dryer", "kitchen fridge", "furnace fan and thermostat",
        "heat pump",
    }  # fmt: skip
    assert trace.power.min() == -1.0
    lines = samples.ampds().decode().splitlines()
    amps = [lines[0]] + [",".join([line.split(",")[0], *["1.5"] * 9]) for line in lines[1:]]
    with pytest.raises(DataError, match="these are amperes"):
        read_home_data(save("\n".join(amps).encode()))


def test_refit_jitter_goes_on_a_grid(samples, save):
    found = read_home_recording(save(samples.refit()))
    assert found.format == "REFIT CSV"
    assert found.trace.interval_s == 7
    assert found.public.gaps == 0
    assert found.trace.names == tuple(f"Appliance{i}" for i in range(1, 10))
    assert any("exceed the aggregate" in note for note in found.notes)


def test_pecan_street_homes_are_distinguished(samples, save):
    path = save(samples.pecan_street())
    with pytest.raises(DataError, match=r"holds 2 homes \(dataid: 26, 59\)"):
        read_home_data(path)
    trace = read_home_data(path, 26)
    assert trace.interval_s == 900
    assert trace.names == ("air1", "car1")
    assert trace.start == np.datetime64("2018-01-01T06:00")
    np.testing.assert_allclose(trace.power[4:, 1], 3300)
    other = read_home_recording(path, ReadOptions(building=59))
    assert other.trace.names == ("air1",)
    assert any("car1" in note for note in other.notes)


def test_redd_mains_are_added_and_channels_aligned(samples, tmp_path):
    samples.channel_folder(tmp_path / "low_freq")
    found = read_home_recording(tmp_path, ReadOptions(building=1))
    trace = found.trace
    assert found.format == "REDD low_freq folder"
    assert trace.interval_s == 3
    assert found.public.gaps == 0
    assert trace.names == ("refrigerator", "kettle")
    settled = np.abs(trace.readings - trace.power.sum(axis=1)) < 1
    assert settled.mean() > 0.9
    assert set(trace.power[:, 1]) == {0.0, 1500.0}


def test_a_silent_channel_is_a_gap(samples, tmp_path):
    house = samples.channel_folder(tmp_path)
    rows = (house / "channel_4.dat").read_text().splitlines()
    (house / "channel_4.dat").write_text("\n".join(rows[:50] + rows[120:]) + "\n")
    found = read_home_recording(house)
    assert found.public.gaps == 1
    assert any("kettle" in note and "silent" in note for note in found.notes)
    (house / "channel_4.dat").write_text("5 1\n6 2\n")
    with pytest.raises(DataError, match=r"no moment has every channel.*kettle"):
        read_home_data(house)


def test_ukdale_prefers_mains_dat(samples, tmp_path):
    house = samples.channel_folder(tmp_path, redd=False)
    found = read_home_recording(tmp_path, ReadOptions(building=4))
    assert found.format == "UK-DALE folder"
    assert found.trace.interval_s == 6
    rows = "".join(f"{samples.START + i} 500.0 520.0 240.0\n" for i in range(600))
    (house / "mains.dat").write_text(rows)
    best = read_home_recording(house)
    np.testing.assert_allclose(best.trace.readings, 500.0)
    with pytest.raises(DataError, match="no building '9'"):
        read_home_data(tmp_path, 9)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("labels.dat", "one mains\n", "line 1 is not a number and a name"),
        ("labels.dat", "", "names no channel"),
        ("channel_3.dat", "soon 5\n", "no channel of unix seconds and watts"),
        ("channel_3.dat", "5\n6\n", "no channel of unix seconds and watts"),
    ],
)
def test_broken_folders_say_which_file(samples, tmp_path, file, text, message):
    house = samples.channel_folder(tmp_path)
    (house / file).write_text(text)
    with pytest.raises(DataError, match=message):
        read_home_data(house)


def test_other_folders_and_files_without_appliances(samples, save, tmp_path):
    with pytest.raises(DataError, match="holds neither house_"):
        read_home_data(tmp_path)
    with pytest.raises(DataError, match="has only the meter"):
        read_home_data(save(samples.n3rgy()))
    with pytest.raises(DataError, match="does not exist"):
        read_home_data(tmp_path / "none")


def test_a_table_without_mains_is_summed(save):
    found = read_home_recording(save(b"timestamp,fridge,kettle\n1,5,0\n2,5,100\n3,5,0\n"))
    assert found.mains == "sum of sub-meters"
    assert found.trace.readings.tolist() == [5.0, 105.0, 5.0]


def test_nilmtk_with_misaligned_meters(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("tables", reason="needs the extra nilmtk")
    path = tmp_path / "set.h5"
    with pd.HDFStore(path, "w", complevel=5, complib="blosc") as store:
        for number, (offset, step) in {1: (0, 1), 2: (1, 6), 3: (3, 6)}.items():
            times = pd.date_range("2014-01-01", periods=600 // step, freq=f"{step}s", tz="UTC")
            columns = [("power", "apparent"), ("power", "active")] if number == 1 else [
                ("power", "active")]  # fmt: skip
            header = pd.MultiIndex.from_tuples(columns, names=["physical_quantity", "type"])
            values = np.full((times.size, len(columns)), 100.0 * number, dtype=np.float32)
            frame = pd.DataFrame(values, times + pd.Timedelta(offset, "s"), header)
            store.put(f"building1/elec/meter{number}", frame, format="table", track_times=False)
        store.root.building1._v_attrs.metadata = {
            "elec_meters": {1: {"site_meter": True}, 2: {}, 3: {}},
            "appliances": [{"type": "fridge", "instance": 1, "meters": [2]},
                           {"type": "kettle", "instance": 1, "meters": [3]}],
        }  # fmt: skip
    found = read_home_recording(path)
    assert found.format == "NILMTK HDF5"
    assert found.trace.names == ("fridge", "kettle")
    assert found.trace.interval_s == 6
    np.testing.assert_allclose(found.trace.power, [[200, 300]] * len(found.trace))
    with pytest.raises(DataError, match="no building '3'"):
        read_home_data(path, 3)


def test_a_pickle_in_an_attribute_runs_no_code(tmp_path):
    tables = pytest.importorskip("tables", reason="needs the extra nilmtk")
    path, mark = tmp_path / "evil.h5", tmp_path / "ran"
    payload = f"cbuiltins\neval\n(S'open({str(mark)!r}, chr(119)).close()'\ntR.".encode()
    with tables.open_file(str(path), "w") as file:
        group = file.create_group("/", "building1")
        file.create_group(group, "elec")
        group._v_attrs._g_setattr(group, "metadata", np.bytes_(payload))
    with pytest.raises(DataError):
        read_meter(path)
    assert not mark.exists()


def test_other_hdf5_is_refused(tmp_path):
    tables = pytest.importorskip("tables", reason="needs the extra nilmtk")
    path = tmp_path / "other.h5"
    with tables.open_file(str(path), "w") as file:
        file.create_array("/", "numbers", np.arange(5))
    with pytest.raises(DataError, match="not a NILMTK file"):
        hm.read_meter(path)


def test_real_parquet_of_four_homes(shared_data):
    path = shared_data / "refit" / "refit_houses_2_4_7_19_2015-01-08_8s.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with pytest.raises(DataError, match="holds 4 homes"):
        read_home_data(path)
    trace = read_home_data(path, 4)
    assert trace.power.shape[1] == 9
    assert 86_000 <= len(trace) * trace.interval_s <= 86_450


def test_the_sum_of_statistics_includes_the_hour_that_begins_at_its_start(save):
    energies = np.array([0.1, 0.7, 0.2, 1.4, 0.3, 0.9])
    rows = [
        f"sensor.grid,kWh,26.01.2024 {hour:02d}:00,{total:.3f},{100 + total:.3f}"
        for hour, total in enumerate(np.cumsum(energies))
    ]
    path = save("\n".join(["statistic_id,unit,start,sum,state", *rows]).encode())
    trace = hm.read_meter(path, tz="UTC")
    np.testing.assert_allclose(trace.readings, 1000 * energies[1:])
    assert str(trace.start) == "2024-01-26T01:00:00.000000000"


HOURS = [f"2024-05-{1 + i // 24:02d} {i % 24:02d}:00" for i in range(72)]
ENERGIES = [round(0.2 + 0.1 * (i % 7), 3) for i in range(72)]


def written(row, *above, encoding="utf-8"):
    """Rows of three days below some lines."""
    rows = [
        row(i, when, value) for i, (when, value) in enumerate(zip(HOURS, ENERGIES, strict=True))
    ]
    return "\n".join([*above, *rows]).encode(encoding)


def number(value):
    return f"{value:.3f}".replace(".", ",")


PLACES = {
    "times of the query are the same in all rows": written(
        lambda _, t, v: f",,0,2024-05-01 00:00,2024-05-04 00:00,{t},{v},house",
        "#group,false,false,true,true,false,false,true",
        ",result,table,_start,_stop,_time,energy (kWh),entity",
    ),
    "a record with a count of rows stands above a table without a header": written(
        lambda _, t, v: f"ICP7,81,X,{t},{v},F", "INITIAL,1,AGENT,72"
    ),
    "names above a table of semicolons hold commas": written(
        lambda _, t, v: f"{t};{number(v)}",
        "Client: Doe, Jane",
        "Place: High Street 1, Town",
        "Time;Usage (kWh)",
    ),
    "the time of a reading is a range in one cell": written(
        lambda _, t, v: f"{t} - {t[11:13]}:59;{v}", "Period;Usage (kWh)"
    ),
    "a period of bills stands before the date": written(
        lambda i, t, v: f"05/01/2024 - 05/31/2024,{t[:10]},{i % 24 + 1},{v}",
        "Billing Period,Date,Hour Ending,kWh",
    ),
    "a price for the hour is no time": written(
        lambda i, t, v: (
            f"{t[:10]},{t[11:13]}:00-{(i + 1) % 24:02d}:00,{1000 * v:.0f},{v * 0.2:.4f}"
        ),
        "Fecha,Hora,Consumo (Wh),Coste por hora (€)",
    ),
    "entrante and saliente are abbreviated": written(
        lambda i, t, v: f"ES1;{t[:10]};{i % 24 + 1};{number(v)};{number(v / 3)};{number(v / 5)}",
        "CUPS;Fecha;Hora;AE_kWh;AS_kWh;AE_AUTOCONS_kWh",
    ),
    "a tariff stands above its column": written(
        lambda i, t, v: (
            f"{t};{number(v if i % 2 else 0)};{10 + i};{number(0 if i % 2 else v)};{9 + i}"
        ),
        ";Heures creuses;Heures creuses;Heures pleines;Heures pleines",
        "Date;Consommation (kWh);Index;Consommation (kWh);Index",
    ),
    "a word stands behind the last name": written(
        lambda _, t, v: f"{t},{v},$0.10,off-peak", "Time,kWh,Cost"
    ),
    "two meters are the directions of one": written(
        lambda _, t, v: f"sensor.grid_import,kWh,{t},{v}\nsensor.grid_export,kWh,{t},{v / 4}",
        "statistic_id,unit,start,delta",
    ),
    "directions are registers of intervals": written(
        lambda _, t, v: f"{t};DE1;1-1:1.29.0;{number(v)}\n{t};DE1;1-1:2.29.0;{number(v / 4)}",
        "Zeitstempel;Zählpunkt;Richtung;kWh",
    ),
    "text of Central Europe": written(
        lambda _, t, v: f"{t};{number(v)};{number(v)}",
        "Počátek intervalu;Činná - spotřeba [kWh];Činný - výkon [kW]",
        encoding="cp1250",
    ),
    "minus A is what was fed in": written(
        lambda _, t, v: f"{t};{number(v / 9)};{number(v)}", "Datum;-A_kWh;+A_kWh"
    ),
    "weekdays of another language": written(
        lambda _, t, v: f"středa {t};{number(v)}", "Datum a čas;Odběr (kWh)"
    ),
}
FACTS = {"a record with a count of rows stands above a table without a header": {
    "value_column": "column_4", "unit": "kWh"}}  # fmt: skip


@pytest.mark.parametrize("case", PLACES)
def test_places_in_which_portals_write_what_they_know(save, case):
    trace = hm.read_meter(save(PLACES[case]), tz="UTC", **FACTS.get(case, {}))
    assert trace.interval_s == 3600
    assert str(trace.start) == "2024-05-01T00:00:00.000000000"
    np.testing.assert_allclose(trace.readings, 1000 * np.array(ENERGIES), atol=1e-6)


def test_a_header_is_missing_and_the_question_shows_the_columns(save):
    path = save(PLACES["a record with a count of rows stands above a table without a header"])
    with pytest.raises(DataError, match=r"`value_column=NAME`; it may be column_4: 0\.2, 0\.3"):
        hm.read_meter(path, tz="UTC", unit="kWh")


@pytest.mark.parametrize("offset", ["-04:00", "-09:30", "+05:30"])
def test_an_offset_behind_a_time_is_no_end_of_a_range(save, offset):
    rows = [
        {"from": f"{t.replace(' ', 'T')}:00.000{offset}", "kWh": v}
        for t, v in zip(HOURS, ENERGIES, strict=True)
    ]
    trace = hm.read_meter(save(json.dumps(rows).encode(), "reads.json"))
    assert len(trace) == 72
    shift = np.datetime64("2024-05-01T00:00") - trace.start
    hours, minutes = int(offset[:3]), int(offset[0] + offset[4:])
    assert shift == np.timedelta64(60 * hours + minutes, "m")


def test_a_list_of_all_values_of_a_day_in_json(save):
    reads = [
        {"day": f"2024-05-{1 + d:02d}", "total": sum(ENERGIES[24 * d : 24 * d + 24]),
         "detail": {"values": ENERGIES[24 * d : 24 * d + 24], "costs": ENERGIES[:24]}}
        for d in range(3)
    ]  # fmt: skip
    trace = hm.read_meter(save(json.dumps(reads).encode(), "reads.json"), tz="UTC", unit="kWh")
    np.testing.assert_allclose(trace.readings, 1000 * np.array(ENERGIES))


AUTUMNS = [
    ("Europe/Berlin", "2023-10-29"), ("America/New_York", "2023-11-05"),
    ("Australia/Sydney", "2024-04-07"), ("Australia/Lord_Howe", "2024-04-07"),
    ("America/Santiago", "2024-04-06"), ("Asia/Jerusalem", "2023-10-29"),
    ("Atlantic/Azores", "2023-10-29"), ("Pacific/Auckland", "2024-04-07"),
]  # fmt: skip


def clock_rows(day, days, minutes, *, newest_first=False, last=1.0):
    """A table of energies with one row for every time of the clock, whatever it shows twice."""
    end = np.datetime64(day) + np.timedelta64(1, "D")
    count = days * 1440 // minutes
    stamps = end - np.arange(count, 0, -1) * np.timedelta64(minutes, "m")
    energies = [0.5 + 0.001 * (i % 7) for i in range(count)]
    energies[-1] = last
    rows = [f"{str(t).replace('T', ' ')};{e:.3f}" for t, e in zip(stamps, energies, strict=True)]
    text = "\n".join(["Datum;Verbrauch (kWh)", *(rows[::-1] if newest_first else rows)])
    return text.encode(), sum(round(e, 3) for e in energies)


@pytest.mark.parametrize(("zone", "day"), AUTUMNS)
@pytest.mark.parametrize("newest_first", [False, True])
def test_one_row_for_an_hour_that_is_shown_twice_is_divided_in_a_short_file(
    save, zone, day, newest_first
):
    text, energy = clock_rows(day, 3, 30, newest_first=newest_first)
    found = read_recording(save(text), ReadOptions(tz=zone))
    own = 1 if zone.endswith("Howe") else 2
    assert (len(found.trace), found.public.gaps) == (3 * 48 + own, 0)
    assert found.trace.energy_kwh == pytest.approx(energy)
    assert any("divided between both" in note for note in found.notes)
    assert found.public.metering.reach == own


@pytest.mark.parametrize("minutes", [5, 15, 30, 60])
@pytest.mark.parametrize("run_s", [300.0, 1200.0, 3600.0])
def test_a_run_in_divided_rows_moves_no_more_readings_than_are_counted(save, minutes, run_s):
    text, _ = clock_rows("2023-10-29", 3, minutes)
    options = ReadOptions(tz="Europe/Berlin")
    found = read_recording(save(text), options)
    counted = Change(
        "run", 2000.0, run_s, interval_s=60.0 * minutes, metering=found.public.metering
    ).overlapped
    head, *rows = text.decode().splitlines()
    place = next(i for i, row in enumerate(rows) if row.startswith("2023-10-29 02:00"))
    most = 0
    for first in range(place - 2, place + 60 // minutes + 1):
        touched = math.ceil(run_s / 60 / minutes) + 1  # the run begins at any time in a row
        moved = [
            f"{row[:-5]}{float(row[-5:]) + 0.1 * (first <= i < first + touched):.3f}"
            for i, row in enumerate(rows)
        ]
        other = read_recording(save("\n".join([head, *moved]).encode()), options)
        most = max(most, int((other.trace.readings != found.trace.readings).sum()))
    assert most <= counted
    assert most > math.ceil(run_s / 60 / minutes) + 1


@pytest.mark.parametrize(("zone", "day"), AUTUMNS)
def test_one_row_for_an_hour_that_is_shown_twice_is_a_gap_in_a_long_file(save, zone, day):
    text, energy = clock_rows(day, 60, 30)
    found = read_recording(save(text), ReadOptions(tz=zone))
    own = 1 if zone.endswith("Howe") else 2
    at_the_end = zone == "America/Santiago"
    assert (len(found.trace), found.public.gaps) == (60 * 48 - own, 0 if at_the_end else 1)
    assert found.trace.energy_kwh == pytest.approx(energy, rel=0.005)
    assert any("became a gap" in note for note in found.notes)
    assert found.public.metering.reach == 0


def test_a_gap_that_would_lose_much_of_the_energy_is_refused(save):
    text, _ = clock_rows("2023-10-29", 60, 60)
    heavy = text.replace(b"2023-10-29 02:00;0.5", b"2023-10-29 02:00;21.5")
    with pytest.raises(DataError, match=r"2023-10-29T02:00, which the clock shows twice.*cut the"):
        hm.read_meter(save(heavy), tz="Europe/Berlin")
