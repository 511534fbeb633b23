"""What is PostgreSQL's own: COPY, locks in order of meter, rights, a server that goes away."""

from __future__ import annotations

import threading
import time

import pytest

from hushmeter.apps.ledger import Cap, Charge, DayChange, databases, open_ledger
from hushmeter.apps.ledger.databases import _CHAIN, COPY_FROM, PostgresStore
from hushmeter.errors import BudgetError, DataError, InputError

psycopg = pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")

CHARGE = Charge("r1", "load", {"epsilon": "0.5"})
DAY = "2024-03-01"


@pytest.fixture
def ledger(postgres_url):
    with open_ledger(postgres_url, create=DayChange.within(0, 15_000)) as opened:
        yield opened


@pytest.fixture
def owner(ledger, postgres_url):
    """A plain connection of the database's owner."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def spend(ledger, meters, source="a", charge=CHARGE, periods=("2024-03-01",), **more):
    rows = [(meter, period) for meter in meters for period in periods]
    return ledger.spend(
        charge,
        micro=500_000,
        meters=[meter for meter, _ in rows],
        periods=[period for _, period in rows],
        digest="d",
        source=source,
        **more,
    )


@pytest.mark.parametrize("count", [COPY_FROM - 1, COPY_FROM, COPY_FROM + 1])
def test_small_and_large_batches_are_the_same(ledger, count):
    meters = [f"m\\{number}%s\"'" for number in range(count)]
    assert spend(ledger, meters).granted.size == count
    assert spend(ledger, meters).resumed
    assert spend(ledger, meters, charge=Charge("r2", "load", {})).granted.size == 0
    assert ledger.counts() == (count, count)
    assert ledger.verify() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_spends SET micro = 1",
        "DELETE FROM ledger_spends",
        "TRUNCATE ledger_spends",
        "UPDATE ledger_entries SET body = ''",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "UPDATE ledger_balances SET spent = spent - 1",
        "UPDATE ledger_balances SET delta_spent = delta_spent - 1",
        "DELETE FROM ledger_balances",
        "TRUNCATE ledger_balances",
    ],
)
def test_the_ledger_is_append_only(ledger, owner, statement):
    spend(ledger, "ab")
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        owner.execute(statement)
    assert ledger.verify() == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE ledger_spends SET micro = 1 WHERE meter = 'a'", "is 1 micro-ε"),
        ("DELETE FROM ledger_spends WHERE meter = 'a'", "1 spend found, but 2 were recorded"),
        ("UPDATE ledger_entries SET at = 'x' WHERE seq = 3", "entry 3 (spend of x) was changed"),
        ("DELETE FROM ledger_entries WHERE seq = 2", "entries 2 to 2 are missing"),
        ("UPDATE ledger_balances SET spent = 0", "the balance is 0 micro-ε"),
    ],
)
def test_tampering_is_found(ledger, owner, statement, found):
    spend(ledger, "ab")
    for table in ("ledger_entries", "ledger_spends", "ledger_balances"):
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL".encode())
    owner.execute(statement)
    told = ledger.verify()
    assert "triggers that keep the ledger append-only are missing" in told[0]
    for table in ("ledger_entries", "ledger_spends", "ledger_balances"):
        owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL".encode())
    told = ledger.verify()
    assert any(found in sentence for sentence in told), told


def test_the_cap_is_a_constraint_of_the_database(ledger, owner):
    ledger.set_cap(total=1)
    spend(ledger, "a")
    with pytest.raises(psycopg.errors.CheckViolation, match="cap_is_kept"):
        owner.execute("UPDATE ledger_balances SET spent = 1000001")


def test_a_spend_slipped_in_past_the_locks_is_not_paid_twice(ledger, owner):
    """Even a writer that ignores every lock is held by the unique key."""
    spend(ledger, "z")
    real = ledger._store.insert_spends
    for meters, message in (
        ("ab", "another release took some"),
        ([f"m{number}" for number in range(COPY_FROM)], "holds one of these spends already"),
    ):

        def late(batch, stream, micro, pairs):
            owner.execute(
                "INSERT INTO ledger_spends VALUES (%s, '2024-03-01', 'load', 1, 0, 1)",
                [pairs[0][0]],
            )
            return real(batch, stream, micro, pairs)

        ledger._store.insert_spends = late
        head = ledger.head()
        with pytest.raises(BudgetError, match=message):
            spend(ledger, meters, source="late")
        assert ledger.head() == head
        assert ledger.balance(meters[0]).spent == 0


def test_writers_of_other_meters_do_not_wait(ledger, postgres_url):
    """One holds meter a in an open transaction; another pays for b meanwhile."""
    spend(ledger, "ab")
    other = PostgresStore(postgres_url)
    try:
        with other._connection.transaction():
            other.lock("caps, shared")
            other.lock_balances(["a"], Cap())
            ledger._store.run("SET lock_timeout = '500ms'")
            assert spend(ledger, "b", source="b", periods=["2024-03-02"]).granted.size == 1
            with pytest.raises(DataError, match="lock timeout"):
                spend(ledger, "a", source="c", periods=["2024-03-02"])
    finally:
        other.close()
    assert spend(ledger, "a", source="c", periods=["2024-03-02"]).granted.size == 1


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"


def test_a_circle_of_waiting_writers_is_broken(ledger, postgres_url):
    """A foreign transaction that locks backwards makes a deadlock; the spend is tried again."""
    spend(ledger, "ab")
    ledger._store.run("SET deadlock_timeout = '500ms'")
    ours = ledger._store.run("SELECT pg_backend_pid()").fetchone()[0]
    holding, told = threading.Event(), []

    def backwards():
        with psycopg.connect(postgres_url) as connection:
            connection.execute("SET deadlock_timeout = '60s'")
            connection.execute("SELECT 1 FROM ledger_balances WHERE meter = 'b' FOR UPDATE")
            holding.set()
            while connection.execute(WAITING, [ours]).fetchone() == (0,):
                pass
            connection.execute("SELECT 1 FROM ledger_balances WHERE meter = 'a' FOR UPDATE")
            told.append("locked both")

    thread = threading.Thread(target=backwards)
    thread.start()
    holding.wait()
    done = spend(ledger, "ab", source="b", periods=["2024-03-02"])
    thread.join()
    assert done.granted.size == 2
    assert told == ["locked both"]
    assert ledger.verify() == []


def test_a_role_that_may_only_spend(ledger, owner, postgres_server, postgres_url):
    schema = postgres_url.rpartition("%3D")[2]
    role = f"spender_{schema}"
    owner.execute(f"CREATE ROLE {role} LOGIN".encode())
    owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
    owner.execute(
        "GRANT SELECT, INSERT ON ledger_entries, ledger_spends, ledger_balances, ledger_caps "
        f"TO {role}".encode()
    )
    owner.execute(f"GRANT UPDATE (spent, delta_spent) ON ledger_balances TO {role}".encode())
    with open_ledger(postgres_url.replace("hush@", f"{role}@")) as weak:
        assert spend(weak, [f"m{number}" for number in range(COPY_FROM)]).granted.size == COPY_FROM
        weak.mark_released(CHARGE, "a", "out")
        assert weak.verify() == []
        with pytest.raises(DataError, match="permission denied for table ledger_caps"):
            weak.set_cap(total=9)


def test_of_two_first_spends_by_day_and_month_one_is_refused(ledger, owner, postgres_url):
    """Both find an empty ledger; they are held at the end of the chain until both are there."""
    told = []

    def work(meter, period):
        try:
            with open_ledger(postgres_url) as mine:
                spend(mine, meter, source=meter, periods=[period])
        except DataError as error:
            told.append(str(error))

    owner.execute("SELECT pg_advisory_lock(%s)", [_CHAIN])
    threads = [threading.Thread(target=work, args=case) for case in (("a", "2024-03"), ("b", DAY))]
    for thread in threads:
        thread.start()
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
    for _ in range(600):
        if owner.execute(waiting).fetchone() == (2,):
            break
        time.sleep(0.05)
    owner.execute("SELECT pg_advisory_unlock(%s)", [_CHAIN])
    for thread in threads:
        thread.join()
    assert len(told) == 1
    assert "the ledger" in told[0]
    assert "counts by" in told[0]
    assert ledger.counts() == (1, 1)


def test_a_server_that_hangs_up_is_one_sentence(ledger, owner):
    spend(ledger, "a")
    pid = ledger._store.run("SELECT pg_backend_pid()").fetchone()[0]
    owner.execute("SELECT pg_terminate_backend(%s)", [pid])
    with pytest.raises(DataError, match=r"the ledger postgresql://.* cannot be"):
        spend(ledger, "b", source="b")


def test_commits_are_durable_even_where_the_server_would_not(ledger, owner, postgres_url):
    with open_ledger(f"{postgres_url}%20-csynchronous_commit%3Doff") as opened:
        assert opened._store.run("SHOW synchronous_commit").fetchone()[0] == "on"


def test_names_of_ledgers_keep_their_password():
    with pytest.raises(DataError) as caught:
        open_ledger("postgresql://me:secret@127.0.0.1:9/none?connect_timeout=2")
    assert "cannot be reached" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@host/db?nonsense=1",
        "postgresql://me:se%zzcret@host/db",
        "postgresql://me:se/cret@host/db",
        "postgresql://me:12/cret@host/db",
        "postgresql://me:se@cret@host/db",
        "postgresql://me:secret@host:port/db",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated(url):
    """Bare @ : / % in a password move its parts to where they would be shown."""
    with pytest.raises(InputError, match="URL cannot be read; write @") as caught:
        open_ledger(url)
    assert "cret" not in str(caught.value)


def test_no_ledger_in_an_empty_database(postgres_url):
    with pytest.raises(DataError, match="there is no ledger at postgresql://"):
        open_ledger(postgres_url)


def test_a_server_that_is_not_there_yet_is_tried_again(postgres_server, postgres_url, monkeypatch):
    """A refused connection is repeated until the time is over; an unknown database is not."""
    monkeypatch.setattr(databases, "RETRY_S", 0.05)
    tried = []
    real = psycopg.connect

    def late(url, **options):
        tried.append(options)
        if len(tried) < 3:
            return real("postgresql://127.0.0.1:1/x", **options)
        return real(url, **options)

    monkeypatch.setattr(psycopg, "connect", late)
    with open_ledger(postgres_url, create=DayChange.within(0, 15_000), patience_s=30):
        assert len(tried) == 3
    # A dead server is noticed within a minute: one silence, and then all questions without answer.
    given = {name.removeprefix("keepalives_"): value for name, value in tried[0].items()}
    assert given["keepalives"] == 1
    assert given["idle"] + given["count"] * given["interval"] <= 60
    with pytest.raises(DataError, match="there is no ledger at"):
        open_ledger(postgres_server, patience_s=30)
    before = len(tried)
    with pytest.raises(DataError, match=r'cannot be reached: .*database "nowhere" does not exist'):
        open_ledger(postgres_server.replace("/postgres?", "/nowhere?"), patience_s=30)
    assert len(tried) == before + 1


def test_without_patience_a_missing_server_is_one_sentence():
    with pytest.raises(DataError, match=r"ledger postgresql://127\.0\.0\.1/x cannot be reached"):
        open_ledger("postgresql://127.0.0.1:1/x")


def test_waiting_for_a_lock_ends(ledger):
    assert ledger._store.run("SHOW lock_timeout").fetchone()[0] == "2min"


def test_a_replica_and_a_role_without_rights_are_one_sentence(ledger, owner, postgres_url):
    spend(ledger, "a")
    with (
        open_ledger(f"{postgres_url}%20-cdefault_transaction_read_only%3Don") as replica,
        pytest.raises(DataError, match="is read-only here, as on a replica; name the primary"),
    ):
        spend(replica, "b", source="b")
    schema = postgres_url.rpartition("%3D")[2]
    role = f"stranger_{schema}"
    owner.execute(f"CREATE ROLE {role} LOGIN".encode())
    owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
    with pytest.raises(DataError, match=r"permission denied .*; grant this role the rights"):
        open_ledger(postgres_url.replace("hush@", f"{role}@"))
