"""The state: one process, one value for each window, also after kills at random points."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hushmeter.apps.live.state import State, read_state
from hushmeter.errors import DataError
from tests.apps.live.broker import needs_broker
from tests.apps.live.streams import (
    Witness,
    exact_tables,
    make_terms,
    make_trace,
    run_table,
    write_table,
)

DRIVER = Path(__file__).with_name("kill_driver.py")
ROOT = Path(__file__).parents[3]


def test_a_second_process_is_refused_with_the_reason(tmp_path):
    terms = make_terms().describe()
    with (
        State(tmp_path / "s.db", terms),
        pytest.raises(DataError, match=r"in use by process \d+: two processes would publish"),
    ):
        State(tmp_path / "s.db", terms)
    State(tmp_path / "s.db", terms).close()


def test_a_link_to_a_state_has_the_same_lock(tmp_path):
    terms = make_terms().describe()
    with State(tmp_path / "s.db", terms):
        (tmp_path / "link.db").symlink_to("s.db")
        with pytest.raises(DataError, match=r"link\.db is in use by process"):
            State(tmp_path / "link.db", terms)


def test_other_terms_and_other_files_are_refused(tmp_path):
    State(tmp_path / "s.db", make_terms().describe()).close()
    with pytest.raises(DataError, match="begun with other options"):
        State(tmp_path / "s.db", make_terms(every="30min").describe())
    (tmp_path / "t.db").write_text("not a database, but a text of some length " * 40)
    (tmp_path / "t.db").chmod(0o644)
    with pytest.raises(DataError, match=r"t\.db cannot be used"):
        State(tmp_path / "t.db", make_terms().describe())
    assert (tmp_path / "t.db").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE facts SET value = 'hushmeter-live-3' WHERE name = 'schema'",
        "UPDATE facts SET value = 'hushmeter-live-99' WHERE name = 'schema'",
        "DELETE FROM facts WHERE name = 'schema'",
    ],
)
def test_a_state_of_another_version_is_refused_wherever_it_is_read(tmp_path, statement):
    path, terms = tmp_path / "s.db", make_terms().describe()
    State(path, terms).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    for read in (lambda: State(path, terms), lambda: read_state(path)):
        with pytest.raises(DataError, match=r"not the state of a stream of this version"):
            read()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoint SET content = x'504b0304'",
        "UPDATE checkpoint SET content = x'00'",
        "UPDATE items SET message = '{'",
        "UPDATE items SET message = '[]', kind = 'status' WHERE id = (SELECT max(id) FROM items)",
    ],
)
def test_a_damaged_entry_of_a_state_gets_one_sentence(tmp_path, statement):
    terms = make_terms(900.0)
    table, path = write_table(tmp_path / "meter.csv", make_trace(0.3, 900.0)), tmp_path / "s.db"
    run_table(table, terms, path, [Witness()])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
        db.execute("DELETE FROM deliveries")
    with pytest.raises(DataError, match=r"s\.db cannot be (used|read): "):
        run_table(table, terms, path, [Witness()])


def test_a_damaged_entry_is_a_sentence_for_those_who_watch(tmp_path):
    path = tmp_path / "s.db"
    State(path, make_terms().describe()).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE facts SET value = '{' WHERE name = 'terms'")
    with pytest.raises(DataError, match=r"s\.db cannot be used: "):
        read_state(path)


def test_what_is_no_file_is_no_state_and_keeps_its_mode(tmp_path):
    """A device such as /dev/null got the mode 0600."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    before = pipe.stat().st_mode
    for path in (pipe, tmp_path):
        with pytest.raises(DataError, match="is not a file; choose another --state"):
            State(path, make_terms().describe())
    assert pipe.stat().st_mode == before
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_only_the_owner_may_read_the_state(tmp_path):
    """From the first moment, whatever the umask is, also if the file was there before."""
    (tmp_path / "s.db").touch(0o644)
    table = write_table(tmp_path / "meter.csv", make_trace(1.1))
    before = os.umask(0)
    try:
        for path in (tmp_path / "s.db", tmp_path / "new" / "deep" / "t.db"):
            with State(path, make_terms().describe()) as state:
                state.save_checkpoint(b"", 0)
                for file in path.parent.glob(f"{path.name}*"):
                    assert file.stat().st_mode & 0o077 == 0, file
        run_table(table, make_terms(), tmp_path / "new" / "deep" / "t.db", [Witness()])
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    private = list((tmp_path / "new").rglob("*"))
    assert len(private) > 4
    assert all(file.stat().st_mode & 0o077 == 0 for file in private)


def test_keys_of_past_days_are_destroyed(tmp_path):
    terms, keys = make_terms(), []

    def new_key(day):
        keys.append(day.encode() * 3 + b"KEY")
        return keys[-1][:32]

    table = write_table(tmp_path / "meter.csv", make_trace(2.5))
    run_table(table, terms, tmp_path / "s.db", [Witness()], new_key=new_key)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(keys) == 3
    assert keys[0][:32] not in kept
    assert keys[1][:32] not in kept
    assert keys[2][:32] in kept


def test_destroyed_keys_do_not_stay_in_the_log_of_the_database(tmp_path):
    key = b"a key of exactly thirty-two bytes"[:32]
    with State(tmp_path / "s.db", make_terms().describe()) as state:
        state.key_of("2024-03-01", lambda: key)
        files = [tmp_path / "s.db", tmp_path / "s.db-wal"]
        assert any(key in file.read_bytes() for file in files)
        state.forget("2024-03-01", "2024-01-01")
        # The process goes on: nothing was closed yet.
        assert not any(key in file.read_bytes() for file in files)


def test_a_restart_goes_on_with_the_key_of_the_day(tmp_path):
    terms, trace, keys = make_terms(), make_trace(0.5), []

    def new_key(day):
        keys.append(len(keys))
        return bytes([len(keys)]) * 32

    table = write_table(tmp_path / "meter.csv", trace[:300])
    run_table(table, terms, tmp_path / "s.db", [Witness()], new_key=new_key)
    table = write_table(tmp_path / "meter.csv", trace)
    run_table(table, terms, tmp_path / "s.db", [Witness()], new_key=new_key)
    assert keys == [0]
    exact_tables(terms, read_state(tmp_path / "s.db").windows, [], bytes([1]) * 32)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("victims", "terms", "kills", "days"),
    [
        ("process", "series", 5, 2),
        pytest.param("mixed", "bands", 4, 2, marks=needs_broker),
        pytest.param("process", "series", 200, 40, marks=SLOW),
        pytest.param("mixed", "bands", 200, 40, marks=[SLOW, needs_broker]),
    ],
)
def test_kills_at_random_points(tmp_path, victims, terms, kills, days):
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path), str(kills), str(days), victims, terms],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert sum(facts["kills"].values()) >= kills
    assert facts["windows_with_two_values"] == 0
    assert facts["windows"] == facts["first_to_last"] == 24 * days - 1
    assert facts["days"] == days - 1
    assert facts["months"] == int(days > 31)
    assert facts["unpaid_days"] == []
    assert facts["days_with_other_readings"] == []
    assert facts["checked_values"] == 23
    assert facts["values_with_other_noise"] == 0
    if victims == "mixed":
        assert facts["received"] > 0
        assert facts["received_wrong"] == 0
        assert facts["waiting_for_broker"] == 0
    if kills >= 200 and victims == "mixed":
        assert min(facts["kills"].values()) > 30


def test_the_marker_is_there_before_the_first_value(tmp_path):
    """A crash between the first value and its marker must not look like an old copy."""
    with State(tmp_path / "s.db", {}):
        assert json.loads((tmp_path / "s.db.last").read_text())["window"] == -1
    with State(tmp_path / "s.db", {}) as state:
        assert state.last_window() is None
