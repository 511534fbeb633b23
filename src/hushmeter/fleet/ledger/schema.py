"""The tables of a ledger, the same in SQLite and PostgreSQL.

`ledger_entries` is the hash chain and `ledger_spends` its rows; both are append-only by trigger.
`ledger_balances` and `ledger_caps` follow from them: they make a check one look-up, and the cap a
CHECK constraint of the database.
"""

from __future__ import annotations

TABLES = """
CREATE TABLE ledger_entries (
    seq BIGINT PRIMARY KEY CHECK (seq > 0),
    kind {text} NOT NULL CHECK (kind IN ('opened', 'release', 'spend', 'released', 'cap')),
    at {text} NOT NULL,
    release {text} NOT NULL,
    source {text} NOT NULL,
    batch BIGINT UNIQUE,
    body {text} NOT NULL,
    hash {text} NOT NULL UNIQUE
);
CREATE UNIQUE INDEX ledger_once ON ledger_entries (kind, release, source) WHERE kind <> 'cap';
CREATE TABLE ledger_spends (
    meter {text} NOT NULL,
    period {text} NOT NULL,
    stream {text} NOT NULL,
    micro BIGINT NOT NULL CHECK (micro > 0),
    batch BIGINT NOT NULL,
    PRIMARY KEY (meter, period, stream)
){without_rowid};
CREATE TABLE ledger_balances (
    meter {text} NOT NULL PRIMARY KEY,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    ceiling BIGINT,
    CONSTRAINT cap_is_kept CHECK (ceiling IS NULL OR spent <= ceiling)
){without_rowid};
CREATE TABLE ledger_caps (
    meter {text} NOT NULL PRIMARY KEY,
    total BIGINT CHECK (total > 0),
    width BIGINT CHECK (width > 0),
    most BIGINT CHECK (most > 0)
){without_rowid}"""

TRIGGERS = (
    "ledger_entries_update",
    "ledger_entries_delete",
    "ledger_spends_update",
    "ledger_spends_delete",
    "ledger_balances_update",
    "ledger_balances_delete",
)
"""Names that both databases must have in place; `verify` looks for them."""

REFUSAL = "the ledger is append-only"

_GROWS = "NEW.spent < OLD.spent OR NEW.meter <> OLD.meter"


def sqlite_statements() -> list[str]:
    """What makes an empty ledger."""
    parts = _tables(text="TEXT", without_rowid=" WITHOUT ROWID")
    for name in TRIGGERS:
        table, _, event = name.rpartition("_")
        only = f" WHEN {_GROWS}" if name == "ledger_balances_update" else ""
        parts.append(
            f"CREATE TRIGGER {name} BEFORE {event.upper()} ON {table}{only} "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    return parts


def postgres_statements() -> list[str]:
    """The same for PostgreSQL; text sorts by code point, as in Python and SQLite."""
    parts = _tables(text='TEXT COLLATE "C"', without_rowid="")
    parts.append(
        "CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
    )
    for name in TRIGGERS:
        table, _, event = name.rpartition("_")
        only = f" WHEN ({_GROWS})" if name == "ledger_balances_update" else ""
        parts.append(
            f"CREATE TRIGGER {name} BEFORE {event.upper()} ON {table} "
            f"FOR EACH ROW{only} EXECUTE FUNCTION ledger_refuse()"
        )
    for table in ("ledger_entries", "ledger_spends", "ledger_balances"):
        parts.append(
            f"CREATE TRIGGER {table}_truncate BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()"
        )
    return parts


def _tables(**words: str) -> list[str]:
    return [part for part in TABLES.format(**words).strip().split(";\n") if part]
