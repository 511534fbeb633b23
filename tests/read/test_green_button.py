from __future__ import annotations

import gzip
import re
import warnings

import numpy as np
import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_meter, read_recording

REAL = {
    "BulkSCEIntervalBlock.xml": (97, 0, 900.0),
    "TestGBDataHourlyNineDaysBinnedDaily.xml": (216, 0, 3600.0),
    "electric_containerized.xml": (8, 0, 3600.0),
}


@pytest.mark.parametrize("prefix", [False, True])
def test_values_become_watts_whatever_the_prefix(samples, save, prefix):
    trace = read_meter(save(samples.green_button(prefix=prefix), "feed.xml"))
    assert trace.interval_s == 900.0
    assert len(trace) == 10
    np.testing.assert_allclose(trace.readings[:5], 4 * np.arange(100, 150, 10))
    assert trace.start == np.datetime64("2023-11-14T23:00:00")


def test_the_power_of_ten_and_power_units(samples, save):
    tens = read_meter(save(samples.green_button(exponent=1), "tens.xml"))
    assert tens.readings[0] == pytest.approx(4000)
    watts = read_meter(save(samples.green_button(uom=38), "watts.xml"))
    assert watts.readings[0] == 100.0


def test_gzip_is_recognised_by_content(samples, save):
    trace = read_meter(save(samples.zipped(samples.green_button()), "feed.bin"))
    assert len(trace) == 10


def test_the_unit_can_be_given(samples, save):
    text = samples.green_button().replace(b"ReadingType", b"Nothing")
    told = read_recording(save(text, "feed.xml"), ReadOptions(unit="milliWh"))
    assert told.trace.readings[0] == pytest.approx(0.4)
    with pytest.raises(DataError, match=r"no ReadingType .* unit is unknown: state it \(`unit=Wh`"):
        read_recording(save(text, "feed.xml"))
    with pytest.raises(DataError, match="is not that of a home"):
        read_recording(save(text, "feed.xml"), ReadOptions(unit="MWh"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uom": 169}, "no electricity readings.*therms"),
        ({"kind": 1}, "is a feed of gas"),
        ({"exponent": 40}, "makes no sense"),
    ],
)
def test_other_feeds_are_refused(samples, save, change, message):
    with pytest.raises(DataError, match=message):
        read_meter(save(samples.green_button(**change), "feed.xml"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"<start>", b"<begin>", "not well-formed|lacks its start"),
        (b"<value>100</value>", b"<value>lots</value>", "is not numbers"),
        (b"<start>17", b"<start>99917", "outside 1970 … 2200"),
        (b"IntervalReading", b"Something", "without an IntervalReading"),
        (b"</feed>", b"", "not well-formed"),
        (b"accumulationBehaviour>4", b"accumulationBehaviour>3", "running register"),
        (b"<feed", b"<html", "not well-formed|first element is <html>"),
    ],
)
def test_broken_feeds_say_what_and_where(samples, save, old, new, message):
    with pytest.raises(DataError, match=message) as caught:
        read_meter(save(samples.green_button().replace(old, new), "feed.xml"))
    assert "\n" not in str(caught.value)


def test_a_bomb_is_not_read(save):
    lines = ['<?xml version="1.0"?><!DOCTYPE feed [<!ENTITY a "aaaaaaaaaa">']
    lines += [
        f'<!ENTITY {b} "&{a};&{a};&{a};&{a};">' for a, b in zip("abcdef", "bcdefg", strict=True)
    ]
    path = save("".join([*lines, "]><feed>&g;</feed>"]).encode(), "bomb.xml")
    with pytest.raises(DataError, match="XML bombs"):
        read_meter(path)


def test_a_gzip_bomb_is_capped(save, monkeypatch):
    from hushmeter.read import green_button

    monkeypatch.setattr(green_button, "TEXT_CAP", 1 << 20)
    # A file that unpacks to more than 200 times its size is refused before.
    words = np.random.default_rng(1).bytes(1 << 20).hex().encode()
    data = gzip.compress(b"<feed>" + words + b"</feed>")
    with pytest.raises(DataError, match="more than 1 MB"):
        read_meter(save(data, "bomb.xml.gz"))


def test_days_of_23_hours_keep_their_energy(samples, save):
    text = samples.green_button().replace(b">900<", b">86400<")
    for i in range(10):
        text = text.replace(str(samples.HOUR0 + 900 * i).encode(), str(86_400 * (9 + i)).encode())
    text = text.replace(b"<duration>86400</duration><start>950400", b"<duration>82800</duration>"
                        b"<start>950400")  # fmt: skip
    recording = read_recording(save(text, "days.xml"))
    assert recording.trace.interval_s == 86_400
    assert any("23 or 25 hours" in note for note in recording.notes)


@pytest.mark.parametrize("name", REAL)
def test_real_feeds(shared_data, name):
    path = shared_data / "greenbutton" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    readings, duplicates, interval = REAL[name]
    found = read_recording(path)
    assert (found.public.readings, found.public.duplicates) == (readings, duplicates)
    assert len(found.trace) == readings - duplicates
    assert found.trace.interval_s == interval
    assert bool(duplicates) == any("repeat a time" in note for note in found.notes)


@pytest.mark.parametrize(
    "name", ["ngma_gas_provider_2024-07-16.xml", "ESPIReadingTypes.xml", "PGEUsagePoint.xml"]
)
def test_real_feeds_without_electricity_are_refused(shared_data, name):
    path = shared_data / "greenbutton" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with pytest.raises(DataError, match=r"no electricity readings|without an IntervalReading"):
        read_meter(path)


@pytest.mark.parametrize(
    "name",
    ["TestGBDataHourlyNineDaysBinnedDaily.xml", "electric_containerized.xml",
     "BulkSCEIntervalBlock.xml"],
)  # fmt: skip
def test_an_independent_reader_agrees(shared_data, name):
    pytest.importorskip("greenbutton_objects", reason="pip install greenbutton-objects")
    path = shared_data / "greenbutton" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    starts, energies = oracle(path)
    trace = read_meter(path)
    np.testing.assert_array_equal(trace.times.astype("datetime64[s]").astype(int), starts)
    np.testing.assert_allclose(trace.readings * trace.interval_s / 3600, energies, rtol=1e-12)


def oracle(path):
    """Starts [unix s] and energies [Wh] as greenbutton-objects finds them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from greenbutton_objects import parse

        points = parse.parse_feed(str(path))
    rows = []
    for point in points:
        for meter in point.meterReadings:
            for reading in meter.intervalReadings:
                start = reading.timePeriod.start
                rows.append((round(start.timestamp()), float(reading.value)))
    rows.sort()
    return [row[0] for row in rows], [row[1] for row in rows]


def test_a_real_feed_without_a_unit(shared_data):
    path = shared_data / "greenbutton" / "PGEIntervalBlock.xml.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with pytest.raises(DataError, match="unit is unknown"):
        read_recording(path)
    with pytest.raises(DataError, match="is not that of a home"):
        read_recording(path, ReadOptions(unit="Wh"))
    found = read_recording(path, ReadOptions(unit="milliWh"))
    assert (found.public.readings, found.public.duplicates) == (2556, 276)
    assert found.trace.interval_s == 3600.0


def with_second_meter(samples, *changes):
    """A feed with a second MeterReading; the changes tell it from the first."""
    feed = samples.green_button().decode()
    entries = feed[feed.index("<entry>") : feed.index("</feed>")]
    for old, new in changes:
        entries = entries.replace(old, new)
    return feed.replace("</feed>", entries + "</feed>")


def test_two_metering_points_must_be_chosen_between(samples, save):
    text = with_second_meter(samples, ("UsagePoint/1", "UsagePoint/2"), ("value>1", "value>9"))
    path = save(text.encode(), "feed.xml")
    with pytest.raises(DataError, match=r"2 meters .*UsagePoint/1, UsagePoint/2.*`meter=NAME`"):
        read_recording(path)
    one = read_recording(path, ReadOptions(meter="UsagePoint/1"))
    np.testing.assert_allclose(one.watts[:5], 4 * np.arange(100, 150, 10))
    assert "Other meters or reading types (1) were left out: MeterReading/1." in one.notes
    two = read_recording(path, ReadOptions(meter="usagepoint/2"))
    np.testing.assert_allclose(two.watts[:5], 4 * np.arange(900, 950, 10))
    with pytest.raises(DataError, match=r"no meter '7' \(found: UsagePoint/1, MeterReading/1"):
        read_recording(path, ReadOptions(meter="7"))


SECOND = (("MeterReading/1", "MeterReading/2"), ("ReadingType/7", "ReadingType/8"))


def test_tariffs_of_one_meter_are_added_up(samples, save):
    text = with_second_meter(samples, *SECOND, ("<uom>", "<tou>2</tou><uom>"))
    with_total = text.encode()
    both = text.replace("<commodity>1</commodity><acc", "<tou>1</tou><acc", 1).encode()
    tariffs = read_recording(save(both, "feed.xml"))
    np.testing.assert_allclose(tariffs.watts[:5], 8 * np.arange(100, 150, 10))
    assert "The readings of 2 tariffs were added up." in tariffs.notes
    total = read_recording(save(with_total, "feed.xml"))
    np.testing.assert_allclose(total.watts[:5], 4 * np.arange(100, 150, 10))
    assert "The readings of the total were read, not those of single tariffs." in total.notes


def test_a_tariff_with_another_power_of_ten_and_other_times(samples, save):
    moves = [(f">{samples.HOUR0 + 900 * i}<", f">{samples.HOUR0 + 900 * i + 9000}<")
             for i in reversed(range(10))]  # fmt: skip
    text = with_second_meter(
        samples,
        *SECOND,
        ("<uom>", "<tou>2</tou><uom>"),
        ("Multiplier>0<", "Multiplier>-1<"),
        *moves,
    )
    both = text.replace("<commodity>1</commodity><acc", "<tou>1</tou><acc", 1).encode()
    found = read_recording(save(both, "feed.xml"))
    assert len(found.trace) == 20
    np.testing.assert_allclose(found.watts[10:15], 0.4 * np.arange(100, 150, 10))


@pytest.mark.parametrize(
    "change",
    [
        ("<uom>72<", "<flowDirection>19</flowDirection><uom>72<"),
        ("<uom>72<", "<flowDirection>4</flowDirection><uom>72<"),
        ("<uom>72<", "<uom>38<"),
        ("<uom>72<", "<uom>169<"),
        ("IntervalReading>", "Nothing>"),
        (">900<", ">86400<"),
    ],
)
def test_foreign_series_beside_the_meter_are_left_out(samples, save, change):
    text = with_second_meter(samples, *SECOND, change, ("value>1", "value>9"))
    found = read_recording(save(text.encode(), "feed.xml"))
    np.testing.assert_allclose(found.watts[:5], 4 * np.arange(100, 150, 10))


def test_two_series_of_one_energy_are_not_chosen_at_random(samples, save):
    text = with_second_meter(samples, *SECOND, ("value>1", "value>9"))
    path = save(text.encode(), "feed.xml")
    with pytest.raises(DataError, match=r"2 meters of electricity .MeterReading/1, MeterReading/2"):
        read_recording(path)
    two = read_recording(path, ReadOptions(meter="MeterReading/2"))
    np.testing.assert_allclose(two.watts[:5], 4 * np.arange(900, 950, 10))


def test_one_of_two_lengths_is_chosen(samples, save):
    """The first block of five readings is of hours, the second of quarters."""
    feed = samples.green_button().decode()
    head, rest = feed.split("IntervalBlock/0", 1)
    first, second = rest.split("IntervalBlock/1", 1)
    first = first.replace("<duration>900<", "<duration>3600<")
    for i in reversed(range(5)):
        first = first.replace(f">{samples.HOUR0 + 900 * i}<", f">{samples.HOUR0 + 3600 * i}<")
    for i in reversed(range(5, 10)):
        moved = samples.HOUR0 + 5 * 3600 + 900 * (i - 5)
        second = second.replace(f">{samples.HOUR0 + 900 * i}<", f">{moved}<")
    text = f"{head}IntervalBlock/0{first}IntervalBlock/1{second}"
    path = save(text.encode(), "feed.xml")
    with pytest.raises(DataError, match=r"readings of 15 min and of 1 h.*`reading_length=15min`"):
        read_recording(path)
    for length, count in ((900, 5), (3600, 5)):
        found = read_recording(path, ReadOptions(reading_length=length))
        assert found.trace.interval_s == length
        assert len(found.trace) == count
        energy = found.trace.readings.sum() * length / 3600
        assert energy == pytest.approx(sum(range(100, 150, 10)))


def test_what_is_fed_in_and_registers_are_refused(samples, save):
    text = samples.green_button()
    fed = text.replace(b"<commodity>", b"<flowDirection>19</flowDirection><commodity>")
    with pytest.raises(DataError, match="only what was fed into the grid"):
        read_meter(save(fed, "feed.xml"))
    for kind in (b"1", b"2", b"3", b"9"):
        counted = text.replace(b"Behaviour>4<", b"Behaviour>" + kind + b"<")
        with pytest.raises(DataError, match="running register, so ask the utility"):
            read_meter(save(counted, "feed.xml"))


def test_estimates_are_counted(samples, save):
    mark = b"<IntervalReading><ReadingQuality><quality>8</quality></ReadingQuality>"
    text = samples.green_button().replace(b"<IntervalReading>", mark, 3)
    found = read_recording(save(text, "feed.xml"))
    assert "3 readings are marked as estimates of the utility." in found.notes


def test_a_block_without_a_feed_is_read(samples, save):
    text = samples.green_button()
    first = text.index(b"<IntervalBlock")
    block = text[first : text.index(b"</IntervalBlock>") + len(b"</IntervalBlock>")]
    trace = read_meter(save(block, "block.xml"), unit="Wh")
    np.testing.assert_allclose(trace.readings, 4 * np.arange(100, 150, 10))


def test_an_exponent_that_is_no_number_and_a_missing_length(samples, save):
    text = samples.green_button()
    with pytest.raises(DataError, match="powerOfTenMultiplier 'ten' makes no sense"):
        read_meter(save(text.replace(b"Multiplier>0<", b"Multiplier>ten<"), "feed.xml"))
    bare = text.replace(b"<duration>900</duration>", b"")
    assert read_meter(save(bare, "feed.xml")).interval_s == 900
    none = bare.replace(b"intervalLength>900<", b"intervalLength><")
    assert read_meter(save(none, "feed.xml")).interval_s == 900
    alone = re.sub(rb"(<IntervalReading>.*?</IntervalReading>)+", rb"\1", none)
    alone = re.sub(
        rb"(<IntervalReading>)(.*)<IntervalReading>.*?</IntervalReading>", rb"\1\2", alone
    )
    with pytest.raises(DataError, match="no reading states the length of its interval"):
        read_meter(save(alone, "feed.xml"))


def test_elements_that_nest_without_end_are_refused(save):
    deep = b"<feed>" + b"<a>" * 80 + b"</a>" * 80 + b"</feed>"
    with pytest.raises(DataError, match="nests its elements too deeply"):
        read_meter(save(deep, "feed.xml"))


def test_bills_are_refused_by_their_starts_and_lengths(samples, save):
    def month(found):
        return f"<start>{int(found[1]) // 900 * 2_592_000 % 1_600_000_000}</start>".encode()

    feed = samples.green_button().replace(b"900</duration>", b"2592000</duration>")
    with pytest.raises(DataError, match="30 days long: bills"):
        read_meter(save(re.sub(rb"<start>(\d+)</start>", month, feed), "feed.xml"))


def test_a_reading_without_a_value_is_a_gap(samples, save):
    feed = samples.green_button().replace(b"<value>100</value>", b"", 1)
    whole, part = (read_meter(save(text, "feed.xml")) for text in (samples.green_button(), feed))
    assert len(part) == len(whole) - 1


@pytest.mark.parametrize("old", [b"<duration>900</duration>", b"900</duration>"])
def test_lengths_come_from_the_starts(samples, save, old):
    new = b"" if old.startswith(b"<") else b"3600</duration>"
    feed = (
        samples.green_button()
        .replace(old, new)
        .replace(b"<intervalLength>900</intervalLength>", b"")
    )
    found = read_meter(save(feed, "feed.xml"))
    assert found.interval_s == 900
    assert found.energy_kwh == pytest.approx(
        read_meter(save(samples.green_button(), "a.xml")).energy_kwh
    )


@pytest.mark.parametrize("exponent", [-3, 3])
def test_a_multiplier_that_no_home_fits_is_refused(samples, save, exponent):
    path = save(samples.green_button(exponent=exponent), "feed.xml")
    with pytest.raises(DataError, match="is not that of a home"):
        read_meter(path)
    assert read_meter(path, unit="Wh").energy_kwh > 0
