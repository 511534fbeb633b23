"""NEM12 and NEM13: registers, metering points, quality, lengths and damage."""

from __future__ import annotations

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_bytes

NMI, OTHER = "NCDE001111", "NDDD001888"
DAY = np.round(np.random.default_rng(1).uniform(0.01, 0.9, 48), 3)


def register(name, *days, nmi=NMI, unit="kWh", minutes=30):
    lines = [f"200,{nmi},E1B1,1,{name},N1,METER1,{unit},{minutes},"]
    return "\n".join([*lines, *days])


def day(date, values, quality="A", updated="20240301120000"):
    return f"300,{date},{','.join(f'{v:g}' for v in values)},{quality},,,{updated},"


def read(*parts, **options):
    return read_bytes("\n".join(parts).encode(), "meter.csv", ReadOptions(**options))


HEAD, TAIL = "100,NEM12,202403011200,MDA1,Ret1", "900"


@pytest.mark.parametrize("frame", [(HEAD, TAIL), ("", ""), (HEAD, "")])
def test_a_day_is_placed_in_the_time_of_the_market(frame):
    found = read(frame[0], register("E1", day("20240201", DAY)), frame[1])
    assert found.format == "NEM12"
    assert found.public.start == np.datetime64("2024-01-31T14:00")
    assert found.public.end == np.datetime64("2024-02-01T14:00")
    np.testing.assert_allclose(found.watts, DAY * 2000)


def test_export_and_reactive_registers_are_left_out():
    found = read(
        HEAD,
        register("B1", day("20240201", DAY * 5)),
        register("E1", day("20240201", DAY)),
        register("Q1", day("20240201", DAY * 3), unit="kVArh"),
    )
    np.testing.assert_allclose(found.watts, DAY * 2000)
    assert f"Registers that were not read: B1 of {NMI}, Q1 of {NMI}." in found.notes
    with pytest.raises(DataError, match="only B1"):
        read(HEAD, register("B1", day("20240201", DAY)))
    with pytest.raises(DataError, match=r"no register of drawn energy 'B1' \(found: E1\)"):
        read(HEAD, register("E1", day("20240201", DAY)),
             register("B1", day("20240201", DAY)), register="B1")  # fmt: skip


def test_import_registers_are_added_up_and_can_be_chosen():
    parts = (
        HEAD,
        register("E1", day("20240201", DAY), day("20240202", DAY)),
        register("E2", day("20240202", DAY)),
    )
    found = read(*parts)
    np.testing.assert_allclose(found.watts, DAY * 4000)
    assert "Added up: E1, E2." in found.notes
    assert "48 intervals lack in one of the registers: they are gaps." in found.notes
    assert len(read(*parts, register="E1").watts) == 96


def test_registers_of_different_lengths_are_added_in_the_longer_one():
    fine = np.repeat(DAY / 6, 6)
    found = read(
        HEAD,
        register("E1", day("20240201", fine), minutes=5),
        register("E2", day("20240201", DAY)),
    )
    assert found.trace.interval_s == 1800.0
    np.testing.assert_allclose(found.watts, DAY * 4000, rtol=1e-4)


def test_metering_points_are_listed_and_chosen():
    parts = (
        HEAD,
        register("E1", day("20240201", DAY)),
        register("E1", day("20240201", 2 * DAY), nmi=OTHER),
    )
    with pytest.raises(DataError, match=rf"2 metering points \({NMI}, {OTHER}\).*`meter=NAME`"):
        read(*parts)
    np.testing.assert_allclose(read(*parts, meter=OTHER.lower()).watts, DAY * 4000)
    with pytest.raises(DataError, match="has no metering point 'X'"):
        read(*parts, meter="X")


def test_missing_values_are_gaps_and_estimates_are_counted():
    found = read(
        HEAD,
        register("E1", day("20240201", DAY, "V"), "400,1,40,A,,", "400,41,48,N,,",
                 day("20240202", DAY, "S14"), day("20240203", DAY, "N")),
    )  # fmt: skip
    assert len(found.watts) == 88
    assert found.public.gaps == 1
    assert "48 values are marked as estimates or substitutes." in found.notes
    assert "56 values are marked as missing: they are gaps." in found.notes


def test_the_last_changed_record_of_a_day_counts():
    late, early = (day("20240201", DAY * n, updated=f"2024030{n}") for n in (2, 1))
    for order in ((late, early), (early, late)):
        found = read(HEAD, register("E1", *order))
        np.testing.assert_allclose(found.watts, DAY * 4000)
        assert "1 day occurs again: the last changed record of each was kept." in found.notes


def test_units():
    for unit, factor in (("KWH", 2000), ("Wh", 2), ("MWh", 2e6)):
        values = DAY * 2000 / factor
        found = read(HEAD, register("E1", day("20240201", values), unit=unit))
        np.testing.assert_allclose(found.watts, DAY * 2000, rtol=1e-4)
    with pytest.raises(DataError, match=r"does not state one unit .*E1: none.*`unit=kWh`"):
        read(HEAD, register("E1", day("20240201", DAY), unit=""))
    stated = read(HEAD, register("E1", day("20240201", DAY), unit=""), unit="kWh")
    np.testing.assert_allclose(stated.watts, DAY * 2000)
    with pytest.raises(DataError, match="has the units kWh and Wh"):
        read(HEAD, register("E1", day("20240201", DAY)),
             register("E1", day("20240202", DAY), unit="Wh"))  # fmt: skip
    with pytest.raises(DataError, match="is not that of a home"):
        read(HEAD, register("E1", day("20240201", DAY), unit="MWh"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (register("E1", day("20240201", DAY[:40])), "has 40 values, and NEM12 asks for 48"),
        (register("E1", "300,20240201,V,,,20240202,"), "has 0 values"),
        (register("E1", day("20241301", DAY)), "is no date"),
        (register("E1", day("20240201", DAY).replace(",", ",x", 2)), "'x2024"),
        (register("E1", day("20240201", DAY), "400,5,A"), "400 record in line 4 is damaged"),
        (day("20240201", DAY), "has no 200 record above"),
        (register("E1", minutes=7), "names no interval length"),
        ("", "without a register"),
        ("250,VABC005890,11,1,11,11,METSER123,E,006342.8,20031005093055", "is a NEM13 file"),
    ],
)
def test_damage_is_refused(text, sentence):
    with pytest.raises(DataError, match=sentence):
        read(HEAD, text)


def test_a_longer_length_than_that_of_the_file_is_refused():
    with pytest.raises(DataError, match="has readings of 30 min, not of 1 h"):
        read(HEAD, register("E1", day("20240201", DAY)), reading_length="1h")
