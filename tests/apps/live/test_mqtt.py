"""End to end with a real broker on loopback."""

import json
import random
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.live import mqtt
from hushmeter.apps.live.mqtt import (
    MqttSink,
    MqttSource,
    pace,
    parse_mqtt,
    replay_messages,
    replay_to_mqtt,
)
from hushmeter.apps.live.payloads import PayloadOptions, make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import State
from hushmeter.errors import DataError, InputError
from tests.apps.live.broker import Broker, Subscriber, needs_broker
from tests.apps.live.streams import KEY, Witness, make_terms, make_trace


@pytest.fixture
def broker(tmp_path):
    running = Broker(tmp_path)
    yield running
    running.kill()


class Running:
    """A service in a thread, from one topic to the topics of the stream."""

    def __init__(self, broker, terms, path, **more):
        self.log = []
        self.state = State(path, terms.describe())
        self.service = Service(
            terms,
            self.state,
            Feed(
                MqttSource(parse_mqtt(f"{broker.url}/meter/power"), terms, "json:watts"),
                make_parser("json:watts", PayloadOptions(simulation=True)),
                by_readings=True,
            ),
            [MqttSink(parse_mqtt(broker.url), terms, self.state, self.log.append)],
            log=self.log.append,
            **more,
        )
        self.error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.service.run()
        except BaseException as error:
            self.error = error

    def stop(self):
        self.service.stop()
        self._thread.join()
        self.state.close()
        assert self.error is None


@needs_broker
@pytest.mark.parametrize("interval_s", [30.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_day_gives_hours_and_a_day_like_the_file(broker, tmp_path, interval_s):
    terms = make_terms(interval_s=interval_s)
    trace = make_trace(1, interval_s=interval_s)
    longer = hm.Trace(np.append(trace.readings, np.zeros(5)), interval_s, trace.start)
    subscriber = Subscriber(broker, "hushmeter/#", "homeassistant/#")
    running = Running(broker, terms, tmp_path / "s.db", new_key=lambda day: KEY)
    subscriber.wait_for("hushmeter/home/availability", 1)
    assert running.service.source.subscribed.wait(10)
    place = parse_mqtt(f"{broker.url}/meter/power")
    assert replay_to_mqtt(place, replay_messages(longer), None) == len(trace) + 5
    subscriber.wait_for("hushmeter/home/day", 1)
    running.stop()
    hours = [json.loads(text) for text in subscriber.of("hushmeter/home/window")]
    released = terms.promise.release(trace, key=KEY)
    assert [hour["watts"] for hour in hours] == released.trace.readings.tolist()
    assert all(hour["complete"] for hour in hours)
    (day,) = [json.loads(text) for text in subscriber.of("hushmeter/home/day")]
    assert day["kwh"] == pytest.approx(released.trace.energy_kwh, abs=1e-6)
    assert len(subscriber.of("homeassistant/sensor/hushmeter_home/power/config")) == 1
    subscriber.wait_for("hushmeter/home/availability", 2)
    assert subscriber.of("hushmeter/home/availability") == [b"online", b"offline"]
    subscriber.close()
    # A receiver that comes later gets the retained state at once.
    late = Subscriber(broker, "hushmeter/#")
    (last,) = late.wait_for("hushmeter/home/window", 1)
    assert json.loads(last) == hours[-1]
    late.close()
    assert running.log == []


def test_a_replay_has_the_pace_of_the_readings(monkeypatch):
    """An hour at sixty times the speed; the time that sending takes is no extra time."""
    now, sent = [100.0], []
    monkeypatch.setattr(mqtt, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(seconds):
        now[0] += seconds

    def send(message):
        sent.append((now[0] - 100, json.loads(message)["time"]))
        wait(0.25)

    trace = make_trace(1 / 24, interval_s=600.0)
    assert pace(replay_messages(trace), 60.0, send, sleep=wait) == 6
    assert sent == [(10.0 * n, f"2024-03-01T00:{10 * n:02}:00Z") for n in range(6)]


@needs_broker
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_the_broker_may_die_at_any_moment(broker, tmp_path, kills, monkeypatch):
    monkeypatch.setattr("hushmeter.apps.live.delivery.RETRY_S", 0.2)
    monkeypatch.setattr("hushmeter.apps.live.mqtt.WAIT_S", 0.5)
    terms = make_terms(interval_s=900.0)
    hours = 8 * kills
    lines = [text for _, text in replay_messages(make_trace(hours / 24 + 0.02, interval_s=900.0))]
    rng, seen = random.Random(4), {}
    for turn in range(kills):
        subscriber = Subscriber(broker, "hushmeter/home/window")
        running = Running(broker, terms, tmp_path / "s.db")
        part = lines[turn * 32 : (turn + 1) * 32 + 1]
        killer = threading.Timer(rng.uniform(0.0, 0.25), broker.kill)
        killer.start()
        for line in part:
            # The readings do not come through the broker, so that none is lost with it.
            running.service.receive("meter/power", line.encode())
            time.sleep(0.004)
        killer.join()
        broker.start()
        time.sleep(0.1)
        running.stop()
        subscriber.close()
        for payload in subscriber.of("hushmeter/home/window"):
            message = json.loads(payload)
            seen.setdefault(message["start"], set()).add(payload)
    final = Subscriber(broker, "hushmeter/home/window")
    running = Running(broker, terms, tmp_path / "s.db")
    time.sleep(0.3)
    running.stop()
    final.close()
    for payload in final.of("hushmeter/home/window"):
        seen.setdefault(json.loads(payload)["start"], set()).add(payload)
    assert all(len(payloads) == 1 for payloads in seen.values())
    with State(tmp_path / "s.db", terms.describe()) as state:
        assert state.undelivered(running.service.couriers[0].sink.name, 1 << 62) == []
        assert len(state.windows(0, 1 << 40)) == hours


@needs_broker
def test_streams_of_one_name_share_a_broker(broker, tmp_path):
    """Two meters with the default name, all topics below one, and two receivers at one broker."""
    terms, witnesses, services, threads = make_terms(interval_s=900.0), [], [], []
    subscriber = Subscriber(broker, "#")
    states = [State(tmp_path / f"{n}.db", terms.describe()) for n in range(2)]
    for topic, state, prefixes in (("one/#", states[0], "xy"), ("two/power", states[1], "")):
        source = MqttSource(parse_mqtt(f"{broker.url}/{topic}"), terms, "json:watts")
        witnesses.append(Witness())
        sinks = [
            MqttSink(parse_mqtt(f"{broker.url}/{prefix}"), terms, state, pytest.fail)
            for prefix in prefixes
        ]
        parse = make_parser("json:watts", PayloadOptions(simulation=True))
        feed = Feed(source, parse, by_readings=True)
        service = Service(terms, state, feed, [witnesses[-1], *sinks], log=pytest.fail)
        threads.append(threading.Thread(target=service.run))
        threads[-1].start()
        services.append(service)
        assert source.subscribed.wait(10)
    messages = list(replay_messages(make_trace(1, interval_s=900.0)))
    for topic in ("one/power", "two/power"):
        replay_to_mqtt(parse_mqtt(f"{broker.url}/{topic}"), iter(messages), None)
    for witness in witnesses:
        witness.wait_until(lambda witness=witness: len(witness.messages("window")) >= 23)
        assert all(message["complete"] for message in witness.messages("window"))
    for topic in ("x/home/window", "y/home/window"):
        subscriber.wait_for(topic, 23)
    for service, thread, state in zip(services, threads, states, strict=True):
        service.stop()
        thread.join()
        state.close()
    subscriber.close()


@needs_broker
@pytest.mark.parametrize("kept", [b"[1]", b"[" * 60_000, b'{"end": 5}', b'{"end": [{}]}', b"\xff"])
def test_a_message_of_somebody_else_does_not_stop_a_sink(broker, tmp_path, kept):
    """The broker keeps it on the topic of the windows, and gives it to the sink at its start."""
    terms = make_terms(interval_s=900.0)
    other = Subscriber(broker, "hushmeter/home/window")
    other._client.publish("hushmeter/home/window", kept, qos=1, retain=True).wait_for_publish(10)
    running = Running(broker, terms, tmp_path / "s.db")
    for _, text in replay_messages(make_trace(0.2, interval_s=900.0)):
        running.service.receive("meter/power", text.encode())
    other.wait_for("hushmeter/home/window", 5)
    running.stop()
    other.close()
    assert running.log == []


@needs_broker
def test_a_broker_that_forgets_gets_the_last_messages_again(broker, tmp_path, monkeypatch):
    monkeypatch.setattr("hushmeter.apps.live.mqtt.RECONNECT_S", (0.1, 0.1))
    terms = make_terms(interval_s=900.0)
    running = Running(broker, terms, tmp_path / "s.db")
    first = Subscriber(broker, "hushmeter/#")
    for _, line in replay_messages(make_trace(1.02, interval_s=900.0)):
        running.service.receive("meter/power", line.encode())
    # The sink delivers in a thread of its own: the last message is known when all have come.
    counts = {"window": 24, "day": 1}
    known = {kind: first.wait_for(f"hushmeter/home/{kind}", n)[-1] for kind, n in counts.items()}
    first.close()
    for again in (False, True):
        if again:  # A new process knows the last messages from the state.
            running.stop()
        broker.kill()
        broker.start()
        if again:
            running = Running(broker, terms, tmp_path / "s.db")
        late = Subscriber(broker, "hushmeter/#")
        for kind, last in known.items():
            assert late.wait_for(f"hushmeter/home/{kind}", 1)[0] == last
        late.wait_for("hushmeter/home/terms", 1)
        late.close()
    running.stop()


@needs_broker
def test_gaps_of_a_meter_that_sends_changes_follow_from_its_connection(broker, tmp_path):
    """Its last will says when it is away; what it sends, and when, does not matter."""
    terms = make_terms(interval_s=1.0, every="2s", hold=True, grace_s=2.0)
    state = State(tmp_path / "s.db", terms.describe())
    place = parse_mqtt(f"{broker.url}/meter/power")
    source = MqttSource(place, terms, "number", online="meter/online")
    witness = Witness()
    service = Service(terms, state, Feed(source, make_parser("number")), [witness])
    meter = Subscriber(broker)
    meter.publish("meter/power", b"500")
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        assert source.subscribed.wait(10)
        time.sleep(1)
        # It is not known yet whether the meter is connected, so a value alone makes no window.
        witness.wait_for(2)
        assert all(m["watts"] is None for m in witness.messages("window"))
        meter.publish("meter/online", b"true")
        # How soon depends on how busy the machine is, because the windows follow its clock.
        witness.wait_until(lambda: bool(witness.messages("window")[-1]["complete"]))
        means = [row.mean for row in state.windows(0, 1 << 40) if row.share == 1.0]
        assert means
        assert set(means) == {500.0}
        meter.publish("meter/online", b"false")
        meter.publish("meter/power", b"900")
        witness.wait_until(lambda: not witness.messages("window")[-1]["complete"])
    finally:
        service.stop()
        thread.join()
        state.close()
        meter.close()


@needs_broker
def test_a_broker_that_refuses_gets_one_sentence(tmp_path):
    (tmp_path / "users").write_text("")
    (tmp_path / "users").chmod(0o700)
    broker = Broker(tmp_path, "allow_anonymous false", f"password_file {tmp_path}/users")
    try:
        place = parse_mqtt(broker.url.replace("mqtt://", "mqtt://me:secret-word@") + "/t")
        with pytest.raises(DataError, match="refuses the connection: not authorized") as caught:
            replay_to_mqtt(place, iter(()), None)
        assert "secret-word" not in str(caught.value)
        assert "secret-word" not in str(place)
    finally:
        broker.kill()
    with pytest.raises(DataError, match="cannot be reached: Connection refused"):
        replay_to_mqtt(parse_mqtt(f"{broker.url}/t"), iter(()), None)


@needs_broker
def test_a_replay_waits_for_a_busy_broker(broker):
    broker.pause(0.2)
    assert replay_to_mqtt(parse_mqtt(f"{broker.url}/t"), iter([(0, "5")]), None) == 1


@needs_broker
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_certificate_that_nobody_signed_is_refused(tmp_path):
    key, certificate = make_certificate(tmp_path)
    broker = Broker(tmp_path, "allow_anonymous true", f"keyfile {key}", f"certfile {certificate}")
    url = broker.url.replace("mqtt://", "mqtts://")
    try:
        with pytest.raises(DataError, match=r"TLS fails \(CERTIFICATE_VERIFY_FAILED\)"):
            replay_to_mqtt(parse_mqtt(f"{url}/t"), iter(()), None)
        assert replay_to_mqtt(parse_mqtt(f"{url}/t?ca={certificate}"), iter(()), None) == 0
        with pytest.raises(DataError, match="without an answer; check the port, and use mqtts://"):
            replay_to_mqtt(parse_mqtt(f"{broker.url}/t"), iter(()), None)
    finally:
        broker.kill()
    with pytest.raises(InputError, match="cannot be used"):
        replay_to_mqtt(parse_mqtt(f"{url}/t?ca={tmp_path}/none.pem"), iter(()), None)


def make_certificate(folder):
    """A certificate for 127.0.0.1 that signs itself."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(place, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    files = folder / "broker.key", folder / "broker.pem"
    files[0].write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files[1].write_bytes(certificate.public_bytes(pem))
    return files


@pytest.mark.parametrize("url", ["mqtt://", "mqtt://host:99999/t", "amqp://host/t"])
def test_bad_urls_of_brokers(url):
    with pytest.raises(InputError, match="a broker is given as"):
        parse_mqtt(url)


def test_a_topic_may_name_all_topics_below_it():
    assert parse_mqtt("mqtt://host/meter/#?ca=x").topic == "meter/#"
    assert parse_mqtt("mqtt://host/meter/+/%23").topic == "meter/+/#"


def test_a_lost_connection_must_be_noticed_within_the_grace_time():
    with pytest.raises(InputError, match="must be 2 s or more"):
        MqttSource(parse_mqtt("mqtt://host/t"), make_terms(hold=True, grace_s=1.0), "number")
    with pytest.raises(InputError, match="sends only changes"):
        MqttSource(parse_mqtt("mqtt://host/t"), make_terms(), "number", online="t/online")


@needs_broker
def test_a_fault_in_the_thread_of_a_connection_is_a_lost_connection(broker):
    """paho would end its thread at the first exception, and the stream would be silent."""
    seen, lost = [], []

    def receive(topic, payload):
        seen.append(payload)
        if len(seen) == 1:
            raise RuntimeError

    source = MqttSource(parse_mqtt(f"{broker.url}/meter/power"), make_terms(), "number")
    source.start(receive, lost.append, lambda: None)
    assert source.subscribed.wait(30)
    sender = Subscriber(broker)
    for _ in range(300):
        sender._client.publish("meter/power", b"5", qos=1).wait_for_publish(10)
        if len(seen) > 1:
            break
        time.sleep(0.1)
    source.stop()
    sender.close()
    assert len(seen) > 1
    assert "fails (RuntimeError); it is made again" in lost[0]


def test_a_source_needs_a_topic():
    with pytest.raises(InputError, match="topic is missing"):
        MqttSource(parse_mqtt("mqtt://host"), make_terms(), "number")
