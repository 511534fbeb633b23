"""Payloads: every documented form is read, everything else gets one sentence without content."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.clock import SECOND
from hushmeter.errors import InputError, UnknownNameError
from hushmeter.live.payloads import (
    NotAReading,
    NoValue,
    PayloadError,
    PayloadOptions,
    Skip,
    make_parser,
)

NOON = 1_709_294_400 * SECOND  # 2024-03-01T12:00:00Z
TELEGRAM = (
    "/KFM5KAIFA-METER\r\n\r\n1-3:0.2.8(42)\r\n0-0:1.0.0(240301130000W)\r\n"
    "1-0:1.8.1(000671.578*kWh)\r\n1-0:1.7.0(00.318*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!"
)


def with_checksum(text):
    from hushmeter.read.dsmr import crc16

    return f"{text}{crc16(text.encode()):04X}\r\n".encode()


@pytest.mark.parametrize(
    ("kind", "topic", "payload", "expected"),
    [
        ("number", "t", b"123.5", (None, 123.5)),
        ("number", "t", b" 7 ", (None, 7.0)),
        ("number", "t", b"unavailable", (None, None)),
        ("csv", "", b"2024-03-01T12:00:00Z,250", (NOON, 250.0)),
        ("csv", "", b"1709294400;250.5", (NOON, 250.5)),
        ("csv", "", b"1709294400;0,5;12,1", (NOON, 0.5)),
        ("csv", "", b"2024-03-01 13:00:00+01:00,250,extra", (NOON, 250.0)),
        ("json:apower", "t", b'{"apower": 12, "time": 1709294400}', (NOON, 12.0)),
        ("json:a.1.w", "t", b'{"a": [{"w": 1}, {"w": 2}]}', (None, 2.0)),
        ("json:w", "t", b'{"w": "unavailable", "time": 1709294400}', (NOON, None)),
        ("json:w", "t", b'{"w": 0.5, "unit": "kW"}', (None, 500.0)),
        ("json:w", "t", b'{"w": 5, "unit": "W"}', (None, 5.0)),
        ("statestream", "ha/sensor/p1/state", b"812", (None, 812.0)),
        ("statestream", "ha/sensor/p1/state", b"unavailable", (None, None)),
        ("csv", "", b"2024-03-01T12:00:00Z,unavailable", (NOON, None)),
        (
            "tasmota", "tele/plug/SENSOR",
            b'{"Time":"2024-03-01T12:00:00","ENERGY":{"Total":3.1,"Power":59}}', (None, 59.0),
        ),
        ("tasmota", "tele/em/SENSOR", b'{"ENERGY":{"Power":[59, 1, 40]}}', (None, 100.0)),
        ("shelly1", "shellies/shellyem-1/emeter/0/power", b"310.77", (None, 310.77)),
        ("shelly2", "s/status/switch:0", b'{"id":0,"output":true,"apower":8.9}', (None, 8.9)),
        (
            "shelly2", "s/events/rpc",
            b'{"method":"NotifyStatus","params":{"ts":1709294400.0,'
            b'"em:0":{"id":0,"total_act_power":431.2}}}', (NOON, 431.2),
        ),
        ("dsmr", "", with_checksum(TELEGRAM), (NOON, 318.0)),
    ],
)  # fmt: skip
def test_documented_payloads(kind, topic, payload, expected):
    assert make_parser(kind)(topic, payload) == expected


@pytest.mark.parametrize(
    ("kind", "payload", "sentence"),
    [
        ("number", b"secret 123", "not a number"),
        ("number", b"nan", "not a finite number"),
        ("number", b"\xff\xfe", "not a number"),
        ("csv", b"1709294400", "not a time and a number"),
        ("csv", b"1709294400,>2000", "not a number"),
        ("csv", b"1709294400,overflow", "not a number"),
        ("csv", b"2024-03-01T12:00:00,5", "no time zone"),
        ("csv", b"yesterday,5", "neither ISO 8601"),
        ("csv", b'1709294400,"0,7"', "not a number"),
        ("csv", b"1709294400;1.000,7", "not a number"),
        ("json:w", b"{", "not JSON"),
        ("json:w", b'{"v": 5}', "no field"),
        ("json:w", b'{"w": true}', "not a number"),
        ("json:w", b'{"w": 1e999}', "not a finite number"),
        ("json:w", b'{"w": 5, "unit": "VA"}', "a unit that is not one of power"),
        ("json:w", b'{"w": 5, "simulation": true}', "hushmeter replay"),
        ("tasmota", b'{"Time": "x"}', "no ENERGY.Power"),
        ("dsmr", TELEGRAM.encode() + b"0000\r\n", "checksum"),
        ("dsmr", b"/ABC\r\n", "checksum"),
        ("dsmr", with_checksum("/ABC5\r\n\r\n1-0:1.8.1(000671.578*kWh)\r\n!"), "no power drawn"),
    ],
)
def test_other_payloads_get_one_sentence(kind, payload, sentence):
    with pytest.raises(PayloadError, match=sentence) as caught:
        make_parser(kind)("t", payload)
    assert "secret" not in str(caught.value)
    assert "5" not in str(caught.value)


def test_faults_that_may_follow_from_a_value_are_distinguished():
    """Only a fault of the line or of the time may make a gap; the others carry their time."""
    with pytest.raises(NotAReading, match="checksum"):
        make_parser("dsmr")("", TELEGRAM.encode() + b"0000\r\n")
    for kind, payload in (
        ("dsmr", with_checksum(TELEGRAM.replace("00.318*kW", "**.***"))),
        ("json:w", b'{"w": NaN, "time": 1709294400}'),
        ("json:w", b'{"time": 1709294400}'),
        ("json:w", b'{"w": -nan(ind), "time": 1709294400}'),
        ("json:a.w", b'{"time": 1709294400, "a": {"w": }}'),
        ("csv", b"1709294400,412 W"),
        ("shelly2", b'{"params":{"ts":1709294400.0,"em:0":{"act_power":"overflow"}}}'),
    ):
        with pytest.raises(PayloadError) as caught:
            make_parser(kind)("t", payload)
        assert not isinstance(caught.value, NotAReading | NoValue)
        assert caught.value.moment == NOON
    for kind, payload in (("number", b"unknown"), ("json:w", b'{"w": null}'), ("csv", b"0,")):
        with pytest.raises(NoValue):
            make_parser(kind)("t", payload)


def test_a_unit_that_changes_in_mid_stream_is_converted():
    parse = make_parser("statestream")
    for unit, payload in (("W", b"812"), ("kW", b"0.812")):
        with pytest.raises(Skip):
            parse("ha/sensor/p1/unit_of_measurement", json.dumps(unit).encode())
        assert parse("ha/sensor/p1/state", payload) == (None, 812.0)


def test_options():
    assert make_parser("number", PayloadOptions(unit="kW"))("t", b"0.5") == (None, 500.0)
    local = make_parser("csv", PayloadOptions(zone="Europe/Berlin"))
    assert local("", b"2024-03-01 13:00:00,5") == (NOON, 5.0)
    accepted = make_parser("json:w", PayloadOptions(simulation=True))
    assert accepted("t", b'{"w": 5, "simulation": true}') == (None, 5.0)
    with pytest.raises(InputError, match="energy counter"):
        make_parser("number", PayloadOptions(unit="kWh"))
    with pytest.raises(UnknownNameError, match="tasmota"):
        make_parser("tasmot")


@settings(max_examples=40)
@given(st.binary(max_size=80))
@pytest.mark.parametrize(
    "kind", ["number", "csv", "json:w", "statestream", "tasmota", "shelly2", "dsmr"]
)
def test_no_bytes_break_a_parser(kind, payload):
    try:
        moment, watts = make_parser(kind)("a/state", payload)
    except PayloadError:
        return
    assert moment is None or isinstance(moment, int)
    assert watts is None or abs(watts) < float("inf")
