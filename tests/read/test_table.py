from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.files import write_table
from hushmeter.read import ReadOptions, read_bytes, read_meter

CSV = """timestamp,watts
2024-01-01T00:00:00Z,100
2024-01-01T00:00:06Z,250.5
2024-01-01T00:00:12Z,90
"""


def write(tmp_path, text, name="meter.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_csv(tmp_path):
    trace = read_meter(write(tmp_path, CSV))
    assert trace.readings.tolist() == [100.0, 250.5, 90.0]
    assert trace.interval_s == 6.0
    assert trace.start == np.datetime64("2024-01-01T00:00:00")
    assert trace.names is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_round_trip_with_appliances_and_gaps(tmp_path, suffix):
    home = hm.synth.ready_home("redd-like")
    made = hm.synth.trace(home, 300, 0.95)
    gap = np.arange(300) + 5 * (np.arange(300) > 100)
    trace = hm.Trace(made.readings, 6.0, made.start, None, made.power, made.names, gap)
    path = tmp_path / f"meter.{suffix}"
    columns = dict(zip(home.names, trace.power.T, strict=True))
    write_table(path, {"timestamp": trace.times, "watts": trace.readings, **columns})
    back = hm.read_home_data(path)
    np.testing.assert_allclose(back.readings, trace.readings, rtol=1e-12)
    np.testing.assert_allclose(back.power, trace.power, rtol=1e-12)
    assert back.names == home.names
    assert back.runs == trace.runs
    np.testing.assert_array_equal(back.times, trace.times)


def test_other_names_and_unix_times(tmp_path):
    text = "Unix,Aggregate,fridge\n1700000000,50,1\n1700000003,60,2\n"
    trace = hm.read_home_data(write(tmp_path, text))
    assert trace.interval_s == 3.0
    assert trace.names == ("fridge",)
    assert trace.start == np.datetime64("2023-11-14T22:13:20")


def test_offsets_become_utc(tmp_path):
    text = "time,power\n2024-01-01T01:00:00+0100,50\n2024-01-01T01:00:10+0100,60\n"
    assert read_meter(write(tmp_path, text)).start == np.datetime64("2024-01-01T00:00")


def test_jitter_is_not_a_gap(tmp_path):
    rows = "".join(f"{1_700_000_000 + 6 * i + (i % 3 == 1)},1\n" for i in range(30))
    trace = read_meter(write(tmp_path, "timestamp,watts\n" + rows))
    assert len(trace.runs) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither a CSV nor a Parquet"),
        ("timestamp,watts\n", "holds no readings"),
        ("timestamp,watts\n1,2\n", "a single reading"),
        ("a,b\n1,2\n3,4\n", "has no time column.*found: a, b"),
        ("timestamp,b\n1,2\n3,4\n", "does not state the unit of 'b': state it .`unit="),
        ("timestamp,watts\nsoon,2\nlater,4\n", "times that cannot be read, such as 'soon'"),
        ("timestamp,watts\n2024-01-01 00:00:00,2\n2024-01-01 00:00:06,4\n", "without a zone"),
        ("timestamp,watts\n1,2\n2,inf\n", "'watts' is inf in row 1"),
        ("timestamp,watts\n1,x\n2,y\n", "'watts' is 'x' in row 0"),
        ("timestamp,watts\n5,2\n5,3\n", "several different values for one time, first at 1970"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, text, message):
    with pytest.raises(hm.errors.DataError, match=message) as caught:
        read_meter(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_rows_in_any_order_with_words_and_holes(tmp_path):
    text = "timestamp,watts,note\n18,5,a\n6,50,b\n,7,c\n0,60,d\n12,,e\n"
    trace = read_meter(write(tmp_path, text))
    assert trace.readings.tolist() == [60.0, 50.0, 5.0]
    assert trace.steps.tolist() == [0, 1, 3]
    assert trace.names is None


def test_a_torn_parquet_file_is_refused(tmp_path):
    path = tmp_path / "meter.parquet"
    pq.write_table(pa.table({"timestamp": [1, 2], "watts": [1.0, 2.0]}), path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(hm.errors.DataError, match="neither a CSV nor a Parquet"):
        read_meter(path)


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(hm.errors.DataError, match="is not a file"):
            read_meter(path)


@pytest.mark.parametrize("names", [("kettle", "7"), ("total", "grid import"), ("2", "sub2")])
def test_files_of_the_writer_are_read_whatever_the_circuits_are_called(tmp_path, names):
    appliances = [hm.Appliance(name, watts) for name, watts in zip(names, (2000, 150), strict=True)]
    trace = hm.synth.trace(hm.Home(appliances, tolerance=5.0), 200, 0.97, seed=1)
    hm.write_meter(tmp_path / "home.csv", trace)
    found = hm.read_home_data(tmp_path / "home.csv")
    assert found.names == names
    assert found.readings == pytest.approx(trace.readings)


def test_a_release_with_large_noise_is_read_back(tmp_path, rng):
    noise = np.round(rng.laplace(-5000.0, 2e5, 24))
    hm.write_meter(tmp_path / "shared.csv", hm.Trace(noise, 3600.0, "2024-01-01T00:00Z"))
    assert hm.read_meter(tmp_path / "shared.csv").readings == pytest.approx(noise)


@pytest.mark.parametrize("watts", [5e6, 1e-3])
def test_megawatts_and_milliwatts_are_refused_in_the_own_layout(tmp_path, watts):
    trace = hm.Trace(np.full(24, watts), 3600.0, "2024-01-01T00:00Z")
    hm.write_meter(tmp_path / "meter.csv", trace)
    with pytest.raises(hm.errors.DataError, match="check their unit"):
        hm.read_meter(tmp_path / "meter.csv")


def signed_blocks(*blocks, unit="kilowatt-hours"):
    head = f"Energy consumption time period,Usage(Real energy in {unit}),Events\n"
    parts = []
    for values in blocks:
        rows = [f"2025-10-19 {i:02d}:00 to 2025-10-19 {i + 1:02d}:00,{v:.3f},,\n"
                for i, v in enumerate(values)]  # fmt: skip
        parts.append("=====\nType of readings: Electricity\n" + head + "".join(rows))
    return "\n".join(parts)


DRAWN = np.round(np.linspace(0.2, 3.1, 20), 2)
FED = -np.round(np.linspace(0.0, 2.0, 20)[::-1], 2)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_of_signed_blocks_the_drawn_energy_is_read(order):
    blocks = [DRAWN, FED, DRAWN + FED]
    text = signed_blocks(*(blocks[i] for i in order))
    found = read_bytes(text.encode(), "usage.csv", ReadOptions(tz="America/Denver"))
    np.testing.assert_allclose(found.watts, DRAWN * 1000)
    assert "Of 3 tables of the same times, the one of drawn energy was read." in found.notes


@pytest.mark.parametrize("blocks", [(DRAWN, -FED), (DRAWN, -FED, DRAWN + FED), (FED, DRAWN + FED),
                                    (DRAWN, FED, 2 * DRAWN + FED)])  # fmt: skip
def test_blocks_without_a_clear_sign_must_be_chosen_between(blocks):
    data = signed_blocks(*blocks).encode()
    with pytest.raises(DataError, match="tables of the same times"):
        read_bytes(data, "usage.csv", ReadOptions(tz="America/Denver"))
    chosen = ReadOptions(tz="America/Denver", register="1")
    if (blocks[0] >= 0).all():
        np.testing.assert_allclose(read_bytes(data, "usage.csv", chosen).watts, blocks[0] * 1000)


def test_rows_under_a_header_of_another_unit_are_left_out():
    text = signed_blocks(DRAWN, FED, DRAWN + FED) + signed_blocks(DRAWN * 3, unit="kilowatts")
    found = read_bytes(text.encode(), "usage.csv", ReadOptions(tz="America/Denver"))
    np.testing.assert_allclose(found.watts, DRAWN * 1000)


HOURS = np.datetime64("2024-01-08T00:00") + np.arange(48) * np.timedelta64(1, "h")
KWH = np.round(np.random.default_rng(4).uniform(0.05, 2.0, 48), 3)


def rows(line):
    """One line for every hour, of the start, the end and the energy."""
    ends = HOURS + np.timedelta64(1, "h")
    return "".join(line(str(a).replace("T", " "), str(b).replace("T", " "), v)
                   for a, b, v in zip(HOURS, ends, KWH, strict=True))  # fmt: skip


def read_text(text, **options):
    return read_bytes(text.encode(), "usage.csv", ReadOptions(**{"tz": "UTC", **options}))


def test_a_table_of_received_energy_below_is_left_out():
    def table(word, share):
        head = f'"Energy {word} time period","Usage(Real energy in kilowatt-hours)","Quality"\n'
        return head + rows(lambda a, b, v: f'"{a} to {b}","{v * share:.3f}",""\n')

    found = read_text(table("Delivered", 1.0) + "\n" + table("Received", 0.3))
    np.testing.assert_allclose(found.watts, KWH * 1000)


def test_a_number_that_is_read_is_no_time():
    head = "Account,NMI,StartDate,EndDate,ProfileReadValue,RegisterReadValue,QualityFlag\n"
    text = head + rows(lambda a, b, v: f"1,6001,{a},{b},{v},0,A\n")
    found = read_text(text, unit="kWh", value_column="ProfileReadValue")
    np.testing.assert_allclose(found.watts, KWH * 1000)


def test_a_date_in_digits_beside_a_clock():
    def line(start, _, energy):
        day, clock = start.split(" ")
        return f"{day.replace('-', '')},{clock},{energy}\n"

    found = read_text("USAGE_DATE,TIME,USAGE_KWH\n" + rows(line))
    assert found.public.start == HOURS[0]
    np.testing.assert_allclose(found.watts, KWH * 1000)


def test_delimiters_at_the_end_of_header_and_rows():
    text = "CUPS;FECHA-HORA;INV / VER;CONSUMO Wh;GENERACION Wh;\n"
    text += rows(lambda a, _, v: f"ES01;{a};0;{1000 * v:.0f};0;\n")
    np.testing.assert_allclose(read_text(text).watts, np.rint(KWH * 1000))


def test_a_price_per_energy_is_no_energy():
    text = "Start;End;Amount (kWh);Spot (EUR / MWh)\n" + rows(lambda a, b, v: f"{a};{b};{v};78\n")
    np.testing.assert_allclose(read_text(text).watts, KWH * 1000)


def test_energy_beside_production_must_be_named():
    text = "Time;Energy (kWh);PV production (kWh)\n" + rows(lambda a, _, v: f"{a};{v};{v}\n")
    with pytest.raises(DataError, match=r"beside what was produced .*`value_column=NAME`"):
        read_text(text)
    np.testing.assert_allclose(read_text(text, value_column="Energy (kWh)").watts, KWH * 1000)


def test_a_total_beside_feed_in_is_refused():
    text = "Time;Feed-in (kWh);Total (kWh)\n" + rows(lambda a, _, v: f"{a};0.1;{v}\n")
    with pytest.raises(DataError, match="may be a balance: give a column of what was drawn"):
        read_text(text)


def test_a_zone_above_the_header_is_used():
    text = "Time zone: Europe/Berlin\n\nTime;kWh\n" + rows(lambda a, _, v: f"{a};{v}\n")
    found = read_bytes(text.encode(), "usage.csv")
    assert found.public.start == HOURS[0] - np.timedelta64(1, "h")


def test_rows_of_one_tariff_with_different_values_for_a_time_are_refused():
    two_days = rows(lambda a, _, v: f"{a};day;{v}\n{a};night;{v}\n")
    later = (
        (two_days.replace("-08 ", f"-{d} ").replace("-09 ", f"-{d + 1} ")) for d in (10, 12, 14)
    )
    text = "Time;Tariff;kWh\n" + two_days + "".join(later)
    np.testing.assert_allclose(read_text(text).watts[:48], KWH * 2000)
    with pytest.raises(DataError, match="several different values for one time"):
        read_text(text + "2024-01-08 05:00;day;9.5\n")


def test_all_columns_of_dates_show_their_order(tmp_path):
    """Starts on the first of a month fit both orders; the ends beside them show which it is."""
    months = [f"900,{m}/1/23,{m}/28/23" for m in range(1, 13)]
    path = write(tmp_path, "\n".join(["kWh,Start,End", *months]))
    with pytest.raises(DataError, match="readings are 31 days long"):
        read_meter(path, tz="Europe/London")
    hours = [
        f"0.4,{d}/2/23 {h:02}:00,{d + (h == 23)}/2/23 {(h + 1) % 24:02}:00"
        for d in (10, 11, 12)
        for h in range(24)
    ]
    trace = read_meter(write(tmp_path, "\n".join(["kWh,Start,End", *hours])), tz="America/Denver")
    assert trace.start == np.datetime64("2023-02-10T07:00")
    assert len(trace) == 72


@pytest.mark.parametrize("counter", [None, "yes", "no"])
@pytest.mark.parametrize(("unit", "hours"), [("wh", 24), ("kwh", 96)])
def test_a_counter_of_the_day_is_no_energy_of_an_interval(tmp_path, counter, unit, hours):
    """It only rises within each day; no answer to another question makes it a reading."""
    scale = 1000 if unit == "wh" else 1
    rows = [f"timestamp,today_{unit}"]
    for i in range(hours):
        time = np.datetime64("2025-09-01T00:00") + i * np.timedelta64(1, "h")
        rows.append(f"{time},{i % 24 * 0.4 * scale:.1f}")
    path = write(tmp_path, "\n".join([*rows[: 1 + hours], f"2025-09-0{1 + hours // 24},0"]))
    with pytest.raises(DataError, match=r"begins again near zero.*does not begin again"):
        read_meter(path, tz="Europe/Rome", counter=counter)


def test_a_register_without_a_word_is_one_of_several(tmp_path):
    hours = [f"2024-03-01T{hour:02}:00Z" for hour in range(24)]
    rows = [f"{hour},{name},0.5" for hour in hours for name in ("import", "·")]
    path = write(tmp_path, "\n".join(["timestamp,register,kwh", *rows]) + "\n")
    with pytest.raises(DataError, match=r"several different values|several series"):
        read_meter(path)
    assert read_meter(path, register="import").energy_kwh == pytest.approx(12.0)
