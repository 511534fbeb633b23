"""NEM12 and NEM13: registers, metering points, quality, lengths and damage; DSMR telegrams."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_bytes, read_meter, read_recording

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


def test_power_of_every_telegram(samples, save):
    found = read_recording(save(samples.dsmr(), "p1.txt"))
    assert found.format == "DSMR P1 telegrams"
    assert found.trace.interval_s == 10
    assert found.trace.start == np.datetime64("2024-01-01T11:00:00")
    np.testing.assert_allclose(found.trace.readings, 100.0 * np.arange(1, 13))


def test_a_wrong_checksum_is_a_gap(samples, save):
    data = samples.dsmr(4) + samples.telegram("240101120040W", 9.9, good=False)
    data += samples.telegram("240101120050W", 0.6) + samples.telegram("240101120100W", 0.7)
    found = read_recording(save(data, "p1.txt"))
    assert found.public.readings == 7
    assert found.public.gaps == 1
    assert found.trace.readings.max() == pytest.approx(700)
    assert "1 telegrams were torn" in found.notes[0]


def test_summer_and_winter_are_apart(samples, save):
    data = samples.telegram("241027025955S", 0.1) + samples.telegram("241027020005W", 0.2)
    found = read_recording(save(data + samples.telegram("241027020015W", 0.3), "p1.txt"))
    assert found.public.reversed == 0
    assert found.trace.interval_s == 10


def test_telegrams_without_time_or_power(samples, save):
    bare = b"\r\n".join(line for line in samples.dsmr(2).split(b"\r\n") if b"0-0:1.0.0" not in line)
    bare = b"".join(part + b"!" for part in bare.replace(b"\r\n!", b"\x00").split(b"\x00")[:1])
    with pytest.raises(DataError, match=r"carries no time|is not whole"):
        read_meter(save(bare, "p1.txt"))
    nothing = samples.dsmr(2).replace(b"1-0:1.7.0", b"1-0:9.7.0")
    with pytest.raises(DataError, match="none is whole with the power drawn"):
        read_meter(save(nothing, "p1.txt"))


def test_the_zone_can_be_given(samples, save):
    data = re.sub(rb"(\d{12})W\)", rb"\1S)", samples.dsmr(4))
    body = b"".join(part.rsplit(b"!", 1)[0] + b"!\r\n" for part in _telegrams(data))
    summer = read_meter(save(body, "p1.txt"))
    assert summer.start == np.datetime64("2024-01-01T10:00:00")
    finnish = read_meter(save(body, "p1.txt"), tz="Europe/Helsinki")
    assert finnish.start == np.datetime64("2024-01-01T09:00:00")


def _telegrams(data):
    return [b"/" + part for part in data.split(b"/")[1:]]


def test_energy_fed_into_the_grid_is_reported(samples, save):
    data = samples.dsmr(4).replace(b"2.7.0(00.000", b"2.7.0(01.500")
    body = b"".join(part.rsplit(b"!", 1)[0] + b"!\r\n" for part in _telegrams(data))
    found = read_recording(save(body, "p1.txt"))
    assert found.notes == ("Power fed into the grid (1-0:2.7.0) is not counted.",)


@pytest.mark.parametrize(
    ("stamp", "message"),
    [(b"249901120000W", "impossible time 249901120000"), (b"240101120000", "no time and season")],
)
def test_times_that_cannot_be(samples, save, stamp, message):
    telegram = samples.telegram("240101120000W", 0.5).replace(b"240101120000W", stamp)
    whole = telegram.rsplit(b"!", 1)[0] + b"!\r\n"
    with pytest.raises(DataError, match=message):
        read_meter(save(whole, "p1.txt"))


def test_power_in_watts(samples, save):
    data = samples.dsmr(4).replace(b"1-0:1.7.0(00.", b"1-0:1.7.0(0000")
    data = data.replace(b"*kW)", b"*W)")
    body = b"".join(part.rsplit(b"!", 1)[0] + b"!\r\n" for part in _telegrams(data))
    found = read_recording(save(body, "p1.txt"))
    assert found.unit == "W"
    assert found.public.metering.resolution_w == 1.0
    np.testing.assert_allclose(found.trace.readings, 100.0 * np.arange(1, 5))


def crc16_bit_by_bit(data):
    """CRC-16/ARC as its definition has it, without a table."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def test_checksums_without_leading_zeros(save):
    assert crc16_bit_by_bit(b"123456789") == 0xBB3D  # the check value of CRC-16/ARC
    telegrams, short = [], 0
    for k in range(400):
        body = (
            f"/XYZ5\\1\r\n\r\n0-0:1.0.0(24010112{k // 60:02d}{k % 60:02d}W)\r\n"
            f"1-0:1.7.0({k / 1000:06.3f}*kW)\r\n!"
        ).encode()
        crc = f"{crc16_bit_by_bit(body):X}"
        short += len(crc) < 4
        telegrams.append(body + crc.encode() + b"\r\n")
    assert short > 0
    found = read_recording(save(b"".join(telegrams), "p1.txt"))
    np.testing.assert_allclose(found.trace.readings, np.arange(400))
    assert not any("torn" in note for note in found.notes)


def test_a_single_telegram_is_reported_as_one(samples, save):
    with pytest.raises(DataError, match="holds a single reading"):
        read_meter(save(samples.dsmr(1), "p1.txt"))
    heat = samples.dsmr(1).replace(b"1-0:1.7.0", b"1-0:9.7.0")
    with pytest.raises(DataError, match="has one telegram, but it is not whole with the power"):
        read_meter(save(heat, "p1.txt"))


def test_dsmr_parser_reads_the_same(samples, save):
    parser = pytest.importorskip("dsmr_parser.parsers", reason="pip install dsmr-parser")
    from dsmr_parser import telegram_specifications

    trace = read_meter(save(samples.dsmr(), "p1.txt"))
    read = parser.TelegramParser(telegram_specifications.V5).parse
    for telegram, start, watts in zip(
        _telegrams(samples.dsmr()), trace.times, trace.readings, strict=True
    ):
        other = read(telegram.decode())
        assert float(other.CURRENT_ELECTRICITY_USAGE.value) * 1000 == pytest.approx(watts)
        moment = other.P1_MESSAGE_TIMESTAMP.value.timestamp()
        assert moment == start.astype("datetime64[s]").astype(int)
