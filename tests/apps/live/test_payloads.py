"""Payloads: every documented form is read, everything else gets one sentence without content."""

import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.apps.live.payloads import (
    LAST_NS,
    NotAReading,
    NoValue,
    PayloadError,
    PayloadOptions,
    Skip,
    make_parser,
    preview,
)
from hushmeter.clock import SECOND
from hushmeter.errors import DataError, InputError, UnknownNameError

NOON = 1_709_294_400 * SECOND  # 2024-03-01T12:00:00Z
TELEGRAM = (
    "/KFM5KAIFA-METER\r\n\r\n1-3:0.2.8(42)\r\n0-0:1.0.0(240301130000W)\r\n"
    "1-0:1.8.1(000671.578*kWh)\r\n1-0:1.7.0(00.318*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!"
)


def with_checksum(text):
    from hushmeter.read.meter_records import crc16

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


@pytest.mark.parametrize(
    ("kind", "payload", "error"),
    [
        ("shelly2", b'{"params":{"ts":NaN,"em:0":{"act_power":5}}}', NotAReading),
        ("shelly2", b'{"params":{"ts":Infinity,"em:0":{"act_power":5}}}', NotAReading),
        ("shelly2", b'{"params":{"ts":-9e9,"em:0":{"act_power":5}}}', NotAReading),
        ("tasmota", b'{"ENERGY":{"Power":[1e308,1e308]}}', PayloadError),
        ("tasmota", b'{"ENERGY":{"Power":[1e999,-1e999]}}', PayloadError),
        ("json:w", b'{"w":5,"time":' + 400 * b"9" + b"}", NotAReading),
        ("json:w", b'{"w":5,"time":' + 5000 * b"9" + b"}", PayloadError),
        ("json:w", b'{"w":' + 400 * b"9" + b"}", PayloadError),
        ("json:w", 100_000 * b'{"w":', PayloadError),
        ("csv", b"9999-12-31T23:59:59-23:59,5", NotAReading),
        ("csv", b"0001-01-01T00:00:00+23:59,5", NotAReading),
        ("dsmr", with_checksum(TELEGRAM.replace("240301130000W", "249901130000W")), None),
    ],
)
def test_one_message_never_ends_a_stream(kind, payload, error):
    """Each of these ended the thread of the broker with an exception of Python itself."""
    if error is None:
        assert make_parser(kind)("t", payload)[1] == 318.0
        return
    with pytest.raises(error):
        make_parser(kind)("t", payload)


SEEDS = {
    "number": [b"123.5", b"unavailable", b'"7"'],
    "csv": [b"2024-03-01T12:00:00Z,250", b"1709294400;0,5"],
    "json:a.w": [b'{"time":"2024-03-01T12:00:00Z","a":{"w":5,"unit":"kW"}}', b'{"a":[{"w":1}]}'],
    "statestream": [b"812", b"unknown"],
    "tasmota": [b'{"Time":"2024-03-01T12:00:00","ENERGY":{"Total":3.1,"Power":[59,1.5]}}'],
    "shelly1": [b"310.77"],
    "shelly2": [b'{"params":{"ts":1709294400.0,"em:0":{"total_act_power":431.2}}}'],
    "dsmr": [with_checksum(TELEGRAM)],
}
TOKENS = [
    b"NaN", b"Infinity", b"-Infinity", b"1e308", b"-1e308", b"1e999", b"null", b"true", b"[]",
    b"{}", b'""', b"0", b"-0.0", b"9" * 400, b"9" * 5000, b"[" * 2000, b'{"a":' * 500,
    b"\xff\xfe", b"\0", b"unavailable", b"1970-01-01T00:00:00Z", b"9999-12-31T23:59:59+00:00", b",",
    b";", b'"', b"*kW",
    "٣".encode(), "²".encode(), "\ud800".encode("utf-8", "surrogatepass"),
]  # fmt: skip


def mutated(rng, payload):
    """Return a payload after one to three random changes."""
    for _ in range(rng.integers(1, 4)):
        first, last = sorted(rng.integers(0, len(payload) + 1, 2).tolist())
        token = TOKENS[rng.integers(len(TOKENS))]
        kind = rng.integers(4)
        if kind == 0:
            payload = payload[:first] + token + payload[last:]
        elif kind == 1:
            payload = payload[:first] + token + payload[first:]
        elif kind == 2:
            payload = payload[:first] + payload[last:]
        else:
            numbers = list(re.finditer(rb"[0-9.]+", payload))
            if numbers:
                found = numbers[rng.integers(len(numbers))]
                payload = payload[: found.start()] + token + payload[found.end() :]
    return payload


HOSTILE = """
from hushmeter.apps.live.payloads import LONGEST_MESSAGE, PayloadError, make_parser
for kind in ("json:w", "tasmota", "shelly2", "csv", "number", "dsmr", "statestream"):
    for begin, part in (("", ":"), ('{"a":', " "), ('{"a":x', " "), ('{"a":', "x "), ("", "["),
                        ("", "1"), ("/", "!"), ("", ",:"), ('{"a":', '{"a":')):
        payload = (begin + part * LONGEST_MESSAGE)[:LONGEST_MESSAGE].encode()
        for message in (payload, payload + b" "):
            try:
                make_parser(kind)("t", message)
            except PayloadError as error:
                assert len(message) == LONGEST_MESSAGE or "bytes" in str(error)
"""


def test_no_message_holds_the_source_for_minutes():
    """The time to read a message grows in proportion to it; once 16 kB of colons took 20 s."""
    subprocess.run([sys.executable, "-c", HOSTILE], check=True, timeout=120)


@pytest.mark.parametrize("count", [600, pytest.param(35_000, marks=pytest.mark.slow)])
def test_mutated_payloads_raise_no_foreign_error(count):
    rng = np.random.default_rng(37)
    parsers = {kind: make_parser(kind, PayloadOptions(zone="Europe/Berlin")) for kind in SEEDS}
    for number in range(count):
        kind = list(SEEDS)[number % len(SEEDS)]
        payload = mutated(rng, SEEDS[kind][rng.integers(len(SEEDS[kind]))])
        try:
            moment, watts = parsers[kind]("a/state", payload)
        except PayloadError as error:
            moment, watts = error.moment, None
        assert moment is None or 0 <= moment < LAST_NS
        assert watts is None or math.isfinite(watts)


def test_a_file_that_cannot_be_streamed_gets_advice_that_fits():
    parse = make_parser("csv", PayloadOptions(zone="UTC"))
    with pytest.raises(DataError, match=r"row 1 .*ISO 8601.*begins with a time.*portals\.$"):
        preview([b"01/03/2024,00:00,0.31"], parse, "portal.csv")
    with pytest.raises(DataError, match=r"row 2 .*not a number; write a number"):
        preview([b"2024-03-01T00:00:00Z,5", b"2024-03-01T00:01:00Z,>5"], parse, "meter.csv")


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
