"""Tables of many sources, made up in their layouts: columns are understood by general rules."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_home_recording, read_recording
from hushmeter.read.headers import find_source, find_unit, read_meaning

FIRST = datetime(2024, 1, 1)
RNG = np.random.default_rng(20_240_101)
HOURLY, QUARTERLY, HALF = (np.round(RNG.gamma(2.0, 0.3, n), 3) for n in (480, 960, 480))
DAYS = [date(2024, 1, 1) + timedelta(days=i) for i in range(10)]


def times(values, minutes):
    return [FIRST + timedelta(minutes=minutes * i) for i in range(values.size)]


def rows(header, line, values, minutes):
    """A table of one line for each value; `line` gets the start, the end and the value."""
    starts = times(values, minutes)
    lines = (
        line(t, t + timedelta(minutes=minutes), v) for t, v in zip(starts, values, strict=True)
    )
    return "\n".join([header, *lines])


def comma(value):
    return str(value).replace(".", ",")


TABLES = {
    "hours from 1 to 24": (
        rows("CUPS;Fecha;Hora;Consumo_kWh;Metodo_obtencion",
             lambda s, e, v: f"ES0021;{s:%d/%m/%Y};{s.hour + 1};{comma(v)};R", HOURLY, 60),
        HOURLY, "Europe/Madrid"),
    "a clock that shows 24:00": (
        rows("cups;fecha;hora;consumo_kWh;metodoObtencion;energiaVertida_kWh",
             lambda s, e, v: f"ES0021;{s:%Y/%m/%d};{s.hour + 1:02d}:00;{comma(v)};Real;0,1",
             HOURLY, 60), HOURLY, "Europe/Madrid"),
    "power of quarters, Portuguese": (
        rows("Data;Hora;Consumo registado, Ativa (kW);Injeção na rede, Ativa (kW)",
             lambda s, e, v: f"{s:%Y/%m/%d};{s:%H:%M};{4 * v:.3f};0.0", QUARTERLY, 15),
        QUARTERLY, "Europe/Lisbon"),
    "from and to in German": (
        rows("Datum;Zeit von;Zeit bis;Verbrauch in kWh;Qualität",
             lambda s, e, v: f"{s:%d.%m.%Y};{s:%H:%M};{e:%H:%M};{comma(v)};L1", QUARTERLY, 15),
        QUARTERLY, "Europe/Vienna"),
    "one household of London": (
        rows("LCLid,stdorToU,DateTime,KWH/hh (per half hour) ",
             lambda s, e, v: f"MAC000002,Std,{s:%Y-%m-%d %H:%M:%S}.0000000,{v} ", HALF, 30),
        HALF, "Europe/London"),
    "a letterhead, quarters that end at :14": (
        "Name,JANE\nAddress,\"1 MAIN ST\"\nAccount Number,123\nService,Service 1\n\n"
        + rows("TYPE,DATE,START TIME,END TIME,USAGE (kWh),COST,NOTES",
               lambda s, e, v: f"Electric usage,{s:%Y-%m-%d},{s:%H:%M},"
               f"{e - timedelta(minutes=1):%H:%M},{v},$0.1,", QUARTERLY, 15),
        QUARTERLY, "America/Los_Angeles"),
    "a range in one cell": (
        "Energy Usage Information\n\"For location: 1 Main St\"\n\n"
        + rows('"Energy consumption time period","Usage(Real energy in kilowatt-hours)","Quality"',
               lambda s, e, v: f'"{s:%Y-%m-%d %H:%M:%S} to {e:%Y-%m-%d %H:%M:%S}","{v}",""',
               HOURLY, 60), HOURLY, "America/Los_Angeles"),
    "a net meter": (
        rows('"Account","Meter Number","Interval Start Date/Time","Net Consumption (kWh)",'
             '"Demand (kW)"',
             lambda s, e, v: f'"J","\'000123","{s:%Y-%m-%d %H:%M}","{v}","N/A"', HOURLY, 60),
        HOURLY, "America/Vancouver"),
    "Norwegian": (
        rows("Fra;Til;KWH 60 Forbruk;Kvalitet", lambda s, e, v:
             f"{s:%d.%m.%Y %H:%M};{e:%d.%m.%Y %H:%M};{comma(v)};Målt", HOURLY, 60),
        HOURLY, "Europe/Oslo"),
    "five series of a solar home": (
        rows("Time,System Production (Wh),Consumption (Wh),Export (Wh),Import (Wh),"
             "Self Consumption (Wh)",
             lambda s, e, v: f"{s:%m/%d/%Y %H:%M},100,{1500 * v:.1f},50,{1000 * v:.1f},20",
             HOURLY, 60), HOURLY, "Europe/Berlin"),
    "unit in a column, offsets": (
        rows("From,Consumption,Consumption unit,Cost,Currency,Unit price",
             lambda s, e, v: f"{s:%Y-%m-%dT%H:%M:%S}.000+01:00,{v},kWh,0.3,NOK,1.1", HOURLY, 60),
        HOURLY, None),
    "French of Quebec": (
        rows("Contrat;Date et heure;kWh;Code de consommation;Température moyenne (°C)",
             lambda s, e, v: f"'123;{s:%Y-%m-%d %H:%M:%S};{comma(v)};R;-5", HOURLY, 60),
        HOURLY, "America/Toronto"),
    "use and what was fed in, Swiss": (
        rows("Zeitstempel;Bezug (kWh);Rücklieferung (kWh)",
             lambda s, e, v: f"{s:%d.%m.%Y %H:%M:%S};{v};0.0", QUARTERLY, 15),
        QUARTERLY, "Europe/Zurich"),
    "unit in every cell": (
        rows("Zeitraum;Verbrauch", lambda s, e, v:
             f"{s:%d.%m.%Y %H:%M} - {e:%H:%M};{comma(v)} kWh", QUARTERLY, 15),
        QUARTERLY, "Europe/Berlin"),
    "two fuels": (
        rows("Fuel,Start,End,Consumption (kWh)", lambda s, e, v: "\n".join(
            f"{fuel},{s:%Y-%m-%dT%H:%M:%SZ},{e:%Y-%m-%dT%H:%M:%SZ},{x}"
            for fuel, x in (("Electricity", v), ("Gas", 2.0))), HALF, 30), HALF, None),
    "two tariffs and what was fed in, in one column": (
        rows("From (date);From (time);Register;Volume;Unit", lambda s, e, v: "\n".join(
            f"{s:%d/%m/%Y};{s:%H:%M:%S};{name};{comma(x)};kWh" for name, x in (
                ("Offtake Day", round(v / 2, 6)), ("Offtake Night", round(v / 2, 6)),
                ("Injection Day", 0.5))), QUARTERLY, 15), QUARTERLY, "Europe/Brussels"),
    "one row for each day, ends in the header": (
        "\n".join(["Solar home half-hour data", "Customer,Consumption Category,date,"
                   + ",".join(f"{(i + 1) // 2 % 24}:{30 * ((i + 1) % 2):02d}" for i in range(48)),
                   *(f"1,{kind},{day:%d-%b-%y}," + ",".join(
                       str(v) for v in (HALF[48 * k : 48 * k + 48] if kind == "GC" else
                                        np.full(48, 0.1)))
                     for k, day in enumerate(DAYS) for kind in ("GC", "GG"))]),
        HALF, "Australia/Sydney"),
    "one row for each day, numbered, with a total": (
        "\n".join(["Meter;Date;Unit;" + ";".join(f"H{i + 1:02d}" for i in range(24)) + ";Total",
                   *(f"M1;{day:%d.%m.%Y};kWh;" + ";".join(
                       comma(v) for v in HOURLY[24 * k : 24 * k + 24])
                     + f";{comma(round(HOURLY[24 * k : 24 * k + 24].sum(), 3))}"
                     for k, day in enumerate(DAYS))]),
        HOURLY[:240], "Europe/Prague"),
}  # fmt: skip
UNITS = {"one row for each day, ends in the header": "kWh"}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_many_sources(save, name):
    text, energies, tz = TABLES[name]
    found = read_recording(save(text.encode()), ReadOptions(tz=tz, unit=UNITS.get(name)))
    assert len(found.trace) == energies.size
    assert found.trace.energy_kwh == pytest.approx(energies.sum(), rel=1e-6)
    assert found.public.gaps == 0
    assert found.trace.names is None
    local = np.datetime64("2024-01-01T00:00")
    assert abs(found.trace.start - local) <= np.timedelta64(12, "h")


def test_a_home_with_circuits_and_weather(save):
    header = ("time,use [kW],gen [kW],House overall [kW],Dishwasher [kW],Home office [kW],"
              "Fridge [kW],Solar [kW],temperature,icon,humidity,summary")  # fmt: skip
    lines = (f"{1_451_624_400 + 60 * i},{v + 0.5},0.1,{v + 0.5},0,0.1,0.2,0.1,36.1,clear,0.6,Dry"
             for i, v in enumerate(HALF))  # fmt: skip
    path = save("\n".join([header, *lines, "\\,,,,,,,,,,,"]).encode())
    assert read_recording(path).power is None
    found = read_home_recording(path)
    assert found.trace.names == ("Dishwasher [kW]", "Home office [kW]", "Fridge [kW]")
    np.testing.assert_allclose(found.trace.readings, 1000 * (HALF + 0.5))


def hours(header, line, count=48):
    lines = [line(i, f"2024-01-{1 + i // 24:02d}T{i % 24:02d}:00:00Z") for i in range(count)]
    return "\n".join([header, *lines]).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (hours("time,Energy Produced (Wh)", lambda i, t: f"{t},{i % 5}"), "produced"),
        (hours("time,Total gas used", lambda i, t: f"{t},{i % 5}"), "holds gas"),
        (hours("time,water usage l", lambda i, t: f"{t},{i % 5}"), "holds water"),
        (hours("time,value", lambda i, t: f"{t},{i % 5}"), r"does not state the unit.*`unit="),
        (hours("time,power", lambda i, t: f"{t},{1 + i % 5}"), "not that of a home"),
        (hours("time,kWh", lambda i, t: f"{t},{400 + i % 5}"), "not that of a home"),
        (hours("time,Import T1 kWh", lambda i, t: f"{t},{i % 5}"), "only one tariff"),
        (hours("time,Energy (L1) (Wh),Energy (L3) (Wh)", lambda i, t: f"{t},{i % 5},{i % 7}"),
         "a third may be missing"),
        (hours("time,kWh (15 min),kWh (60 min)", lambda i, t: f"{t},{i % 5},{i % 7}"),
         "clearly that of the meter"),
        (hours("time,kWh,Status", lambda i, t: f"{t},{i % 5},ok\n{t},{i % 7},ok"),
         "several different values for one time"),
        (hours("time,kWh,Meter", lambda i, t: f"{t},{i % 5},A1\n{t},{i % 7},A2"),
         r"2 meters \(Meter: A1, A2\).*`meter="),
        (hours("time,kWh,Channel", lambda i, t: f"{t},{i % 5},A1\n{t},{i % 7},A2"),
         r"several series \(Channel: A1, A2\).*`register="),
        (hours("time,Volume,Unit", lambda i, t: f"{t},{i % 5},kWh\n{t},{i % 7},m³"), "gas or wat"),
        (hours("Inverter,time,W", lambda i, t: f"x,{t},{i % 5}"), "solar inverter"),
        (hours("time,kWh", lambda i, t: f"{t},{2 + i % 5 if i != 20 else 900}"),
         "a total, or the unit may be wrong"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused(save, data, message):
    with pytest.raises(DataError, match=message):
        read_recording(save(data))


def test_circuits_that_draw_more_than_the_meter_are_refused(save):
    data = hours("time,watts,dishwasher", lambda i, t: f"{t},{50 + i % 5},{90 + i % 5}")
    with pytest.raises(DataError, match=r"the circuits draw 1.8 times"):
        read_home_recording(save(data))


def test_the_choices_of_a_refusal_work(save):
    path = save(hours("time,kWh,Meter", lambda i, t: f"{t},{i % 5},A1\n{t},{i % 7},A2"))
    one, other = (read_recording(path, ReadOptions(meter=name)).trace for name in ("A1", "a2"))
    np.testing.assert_allclose(one.readings, 1000 * (np.arange(48) % 5))
    np.testing.assert_allclose(other.readings, 1000 * (np.arange(48) % 7))
    with pytest.raises(DataError, match=r"no meter 'A3' \(found: A1, A2\)"):
        read_recording(path, ReadOptions(meter="A3"))
    path = save(hours("time,kWh,Channel", lambda i, t: f"{t},{i % 5},x y\n{t},{i % 7},z"))
    chosen = read_recording(path, ReadOptions(register="x y")).trace
    np.testing.assert_allclose(chosen.readings, 1000 * (np.arange(48) % 5))
    path = save(hours("time,A (kWh),B (kWh)", lambda i, t: f"{t},{i % 5},{i % 7}"))
    added = read_recording(path, ReadOptions(value_column="A (kWh)+B (kWh)")).trace
    np.testing.assert_allclose(added.readings, 1000 * (np.arange(48) % 5 + np.arange(48) % 7))


def test_blocks_of_the_same_times_are_chosen_by_number(save):
    block = "time,Usage (kWh)\n" + "".join(
        f"2024-01-01T{h:02d}:00Z,{{}}\n" for h in range(12)
    )  # fmt: skip
    drawn, other = (block.format(*(n + h % 3 for h in range(12))) for n in (2, 3))
    path = save(f"{drawn}\n{other}".encode())
    with pytest.raises(DataError, match=r"2 tables of the same times.*`register=1` … 2"):
        read_recording(path)
    found = read_recording(path, ReadOptions(register="1"))
    np.testing.assert_allclose(found.trace.readings, 1000 * (2 + np.arange(12) % 3))
    fed = block.format(*(-3 - h % 3 for h in range(12)))
    with pytest.raises(DataError, match="negative mean"):
        read_recording(save(f"{drawn}\n{fed}".encode()), ReadOptions(register="2"))


def test_a_named_column_that_is_no_use_is_refused(save):
    path = save(hours("time,Verbruik,Teruglevering,Totaal", lambda i, t: f"{t},{i % 5},1,{i % 3}"))
    for name, message in (("Totaal", "may be a balance"), ("Teruglevering", "fed into the grid")):
        with pytest.raises(DataError, match=message):
            read_recording(path, ReadOptions(value_column=name, unit="kWh"))


def test_the_total_is_taken_instead_of_its_parts(save):
    path = save(hours("time,T1 (kWh),T2 (kWh),Total (kWh)",
                      lambda i, t: f"{t},{i % 5},{i % 7},{i % 5 + i % 7}"))  # fmt: skip
    trace = read_recording(path).trace
    np.testing.assert_allclose(trace.readings, 1000 * (np.arange(48) % 5 + np.arange(48) % 7))
    assert trace.names is None


def test_tariffs_may_be_empty_and_phases_not(save):
    tariffs = hours(
        "time,low (kWh),high (kWh)",
        lambda i, t: f"{t},{i % 5 if i % 2 else ''},{'' if i % 2 else i % 7}",
    )
    assert len(read_recording(save(tariffs)).trace) == 48
    phases = hours("time,L1 (kWh),L2 (kWh),L3 (kWh)",
                   lambda i, t: f"{t},{i % 5},{'' if i == 9 else i % 7},1")  # fmt: skip
    found = read_recording(save(phases))
    assert (len(found.trace), found.public.gaps) == (47, 1)


def test_end_stamps_of_whole_days(save):
    moments = [FIRST + timedelta(minutes=15 * (i + 1)) for i in range(192)]
    text = "\n".join(["time,watts", *(f"{t:%Y-%m-%d %H:%M},{100 + t.hour}" for t in moments)])
    found = read_recording(save(text.encode()), ReadOptions(tz="UTC"))
    assert found.trace.start == np.datetime64(FIRST)
    assert any("name ends" in note for note in found.notes)
    partly = read_recording(save("\n".join(text.split("\n")[:-1]).encode()), ReadOptions(tz="UTC"))
    assert partly.trace.start == np.datetime64(moments[0])


@pytest.mark.parametrize(
    ("header", "flow"),
    [("Imported from Grid (Wh)", "import"), ("Énergie soutirée (kWh)", "import"),
     ("Netzbezug", "import"), ("Energia prelevata (kWh)", "import"), ("Ostettu", "import"),
     ("Consommation", "use"), ("Verbrauch", "use"), ("Consumo", "use"), ("Forbrug", "use"),
     ("Kulutus", "use"), ("Verbruik", "use"), ("Exported to Grid", "export"),
     ("Teruglevering", "export"), ("Einspeisung", "export"), ("Énergie injectée", "export"),
     ("Energía vertida", "export"), ("Energia immessa", "export"), ("To Grid (kWh)", "export"),
     ("Solar Energy", "production"), ("Tuotanto", "production"), ("Énergie produite", "production"),
     ("From Powerwall (kWh)", "battery"), ("Gas (kWh)", "other"), ("Coût", "price"),
     ("Temperatur", "other"), ("Spannung", "other"), ("L1 max W", "other"), ("fridge", ""),
     ("water heater", ""), ("Consumption 15 min (kWh)", "use")],
)  # fmt: skip
def test_directions_in_many_languages(header, flow):
    assert read_meaning(header).flow == flow


@pytest.mark.parametrize(
    ("header", "unit"),
    [("Usage (kWh)", "kWh"), ("energy_kWh", "kWh"), ("Barn-Mains_A (kWatts)", "kW"),
     ("ElectricityConsumptionUsageKwh", "kWh"), ("Real energy in kilowatt-hours", "kWh"),
     ("USAGE_KWH", "kWh"), ("Leistung [W]", "W"), ("watt_hours", "Wh"), ("use", None)],
)  # fmt: skip
def test_units_in_headers(header, unit):
    assert find_unit(header) == unit


@pytest.mark.parametrize(
    ("text", "source"),
    [("Gas Usage (kWh)", "gas"), ("Wasser", "water"), ("Water Heater (kWh)", None),
     ("Volume (m³)", "gas or water"), ("Fernwärme", "heat"), ("Heat Pump", None)],
)  # fmt: skip
def test_other_sources_than_electricity(text, source):
    assert find_source(text) == source


def test_the_total_of_the_length_of_a_row_is_read(tmp_path):
    path = tmp_path / "file.csv"
    rows = [f"2024-01-01T{hour:02d}:00Z,{hour % 5},48" for hour in range(24)]
    path.write_text("\n".join(["Start,Hourly Total (kWh),Daily Total (kWh)", *rows]))
    assert read_home_recording(path, need_circuits=False).trace.energy_kwh == pytest.approx(46)
    both = "Hourly Total (kWh)+Daily Total (kWh)"
    with pytest.raises(DataError, match="counts energy twice"):
        read_home_recording(path, ReadOptions(value_column=both), need_circuits=False)
    path.write_text("\n".join(["Start,First Total (kWh),Second Total (kWh)", *rows]))
    for need_circuits in (False, True):
        with pytest.raises(DataError, match="clearly that of the meter: it may be 'First Total"):
            read_home_recording(path, need_circuits=need_circuits)


@pytest.mark.parametrize("first", [0, 1])
def test_hours_beside_dates_need_no_known_name(save, first):
    rows = [f"2024-05-{d:02};{h};{0.1 + 0.01 * (7 * h % 24):.2f}"
            for d in (1, 2, 3) for h in range(first, first + 24)]  # fmt: skip
    text = "\n".join(["Datums;Stunda;Patēriņš (kWh)", *rows])
    found = read_recording(save(text.encode()), ReadOptions(tz="Europe/Riga"))
    assert found.public.start == np.datetime64("2024-04-30T21:00")
    assert found.public.readings == 72
    assert found.trace.interval_s == 3600


@pytest.mark.parametrize(
    ("header", "cell", "options", "sentence"),
    [
        ("time,Usage (kWh)", "{}", {"unit": "W"}, r"column 'Usage \(kWh\)' is in kWh, not in W"),
        ("time,value", "{} kWh", {"unit": "W"}, "column 'value' is in Wh, not in W"),
        (
            "All energies in kWh\ntime,value",
            "{}",
            {"unit": "W"},
            "'All energies in kWh' describes is",
        ),
        (
            "time,Stromverbrauch",
            "{}",
            {"unit": "kW"},
            "is an energy by its name, and kW is",
        ),
        ("time,power (W)", "{}", {"unit": "kWh"}, "column 'power \\(W\\)' is in W, not in kWh"),
    ],
)
def test_a_fact_of_the_file_outranks_an_option(save, header, cell, options, sentence):
    rows = "".join(f"2024-01-01T{hour:02}:00Z,{cell.format(0.4)}\n" for hour in range(24))
    path = save(f"{header}\n{rows}".encode())
    with pytest.raises(DataError, match=sentence):
        read_recording(path, ReadOptions(**options))


def test_a_power_whose_header_says_so_may_be_named_consumption(save):
    rows = "".join(f"2024-01-01T{hour:02}:00Z,0.4\n" for hour in range(24))
    found = read_recording(
        save(f"time,Stromverbrauch [kW]\n{rows}".encode()), ReadOptions(unit="kW")
    )
    assert found.watts[0] == pytest.approx(400)


def test_one_row_with_a_daily_total_has_no_length(save):
    path = save(b"Date,00:00,Daily Total\n2024-01-01,1.5,12.5\n")
    with pytest.raises(DataError, match="holds a single reading, so its interval is unknown"):
        read_recording(path, ReadOptions(unit="kWh", tz="UTC"))
