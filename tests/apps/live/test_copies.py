"""A window is never published twice, also if the state, the ledger or a folder is an old copy."""

import json
import shutil

import pytest

from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.apps.live.addresses import FolderSink, LineSource
from hushmeter.apps.live.delivery import LedgerAccount
from hushmeter.apps.live.mqtt import MqttSink, parse_mqtt
from hushmeter.apps.live.payloads import make_parser
from hushmeter.apps.live.service import Feed, Service
from hushmeter.apps.live.state import StaleStateError, State
from hushmeter.errors import DataError
from tests.apps.live.broker import Broker, Subscriber, needs_broker
from tests.apps.live.streams import Witness, make_terms, make_trace, write_table

FILES = ("s.db", "s.db.last")


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path)


def feed_of(table):
    return Feed(LineSource(table, follow=False), make_parser("csv"), by_readings=True)


class Stream:
    """A stream of a table that grows, with a ledger, and everything that it published."""

    def __init__(self, folder):
        self.folder, self.terms = folder, make_terms(interval_s=900.0)
        self.url, self.seen = f"sqlite:///{folder}/ledger.db", {}
        self.trace = make_trace(1, interval_s=900.0)
        open_ledger(self.url, create=DayChange(3000.0, 8000.0)).close()

    def run(self, hours, *sinks, ledger=True):
        """Publish the windows up to an hour of the day."""
        table = write_table(self.folder / "meter.csv", self.trace[: hours * 4])
        witness = Witness()
        with State(self.folder / "s.db", self.terms.describe()) as state:
            account = LedgerAccount(self.url, "m1", "load", self.terms, state) if ledger else None
            try:
                Service(
                    self.terms, state, feed_of(table),
                    [witness, *(make(state) for make in sinks)], account=account,
                ).run()  # fmt: skip
            finally:
                for message in witness.messages("window"):
                    self.seen.setdefault(message["start"], set()).add(message["watts"])

    def keep(self, name, *files):
        (self.folder / name).mkdir()
        for file in files:
            shutil.copy(self.folder / file, self.folder / name / file)

    def restore(self, name):
        for file in (self.folder / name).iterdir():
            shutil.copy(file, self.folder / file.name)

    @property
    def twice(self):
        return sum(len(values) > 1 for values in self.seen.values())


def test_an_old_copy_of_the_state_is_refused_by_the_ledger(stream):
    stream.run(8)
    stream.keep("old", *FILES)
    stream.run(24)
    stream.restore("old")
    with pytest.raises(StaleStateError, match="is older than the ledger"):
        stream.run(24)
    assert stream.twice == 0
    assert len(stream.seen) == 24


def test_two_copies_of_a_state_at_the_same_time_are_refused(stream, tmp_path):
    """The second process was started before the first one published more."""
    stream.run(8)
    other = tmp_path / "other"
    shutil.copytree(tmp_path, other, ignore=shutil.ignore_patterns("other"))
    terms, table = stream.terms, write_table(tmp_path / "meter.csv", stream.trace)
    with State(other / "s.db", terms.describe()) as state:
        witness = Witness()
        account = LedgerAccount(stream.url, "m1", "load", terms, state)
        late = Service(
            terms, state, feed_of(table), [witness], account=account,
        )  # fmt: skip
        stream.run(24)
        with pytest.raises(StaleStateError, match="is older than the ledger"):
            late.run()
        assert witness.items == []


def test_an_old_copy_of_the_ledger_is_refused(stream):
    stream.keep("old", "ledger.db")
    stream.run(8)
    stream.restore("old")
    with pytest.raises(DataError, match="restored from an older copy"):
        stream.run(24)
    assert len(stream.seen) == 8


@pytest.mark.parametrize("files", [FILES[:1], FILES])
def test_without_a_ledger_the_marker_and_the_folder_know_more(stream, files):
    def folder(state):
        return FolderSink(stream.folder / "out", stream.terms, state)

    stream.run(8, folder, ledger=False)
    stream.keep("old", *files)
    stream.run(23, folder, ledger=False)
    stream.restore("old")
    with pytest.raises(StaleStateError, match="would publish windows twice"):
        stream.run(23, folder, ledger=False)
    assert stream.twice == 0
    # With the marker the folder alone can tell; the values of the first hours stay as they were.
    assert len((stream.folder / "out" / "2024-03-01.csv").read_text().splitlines()) == 24


def test_a_state_without_its_marker_is_refused(stream):
    stream.run(8, ledger=False)
    (stream.folder / "s.db.last").unlink()
    with pytest.raises(StaleStateError, match=r"s\.db\.last is missing"):
        stream.run(8, ledger=False)
    (stream.folder / "s.db.last").write_text("{}")
    with pytest.raises(DataError, match=r"s\.db\.last cannot be read"):
        stream.run(8, ledger=False)


def test_a_new_state_does_not_publish_into_the_folder_of_another(stream):
    def folder(state):
        return FolderSink(stream.folder / "out", stream.terms, state, kind="parquet")

    stream.run(8, folder, ledger=False)
    for file in FILES:
        (stream.folder / file).unlink()
    with pytest.raises(StaleStateError, match=r"has values until 2024-03-01T08:00:00Z"):
        stream.run(8, folder, ledger=False)


@needs_broker
def test_a_broker_that_keeps_a_later_window_is_not_overwritten(stream, tmp_path):
    broker = Broker(tmp_path)
    try:
        place = parse_mqtt(broker.url)

        def sink(state):
            return MqttSink(place, stream.terms, state, lambda _: None)

        stream.run(8, sink, ledger=False)
        stream.keep("old", *FILES)
        stream.run(23, sink, ledger=False)
        stream.restore("old")
        with pytest.raises(StaleStateError, match="has values until 2024-03-01T23:00:00Z"):
            stream.run(23, sink, ledger=False)
        late = Subscriber(broker, "hushmeter/home/window")
        (last,) = late.wait_for("hushmeter/home/window", 1)
        late.close()
        assert json.loads(last)["end"] == "2024-03-01T23:00:00Z"
    finally:
        broker.kill()
