"""The tables, as the numbered steps that lead to them. A step that has been released is never changed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from openab_kernel.errors import StoreError

STEPS = (
    # A session is written as a JSON array of its key's fields: unlike joined text it keeps apart what differs, and
    # null is a value of its own.
    """
    CREATE TABLE sessions (
        session TEXT PRIMARY KEY,
        session_key TEXT NOT NULL,
        last_route TEXT,
        last_activity INTEGER,
        agent_session_id TEXT,
        agent_command TEXT,
        cwd TEXT,
        held_notice TEXT
    ) WITHOUT ROWID;
    CREATE INDEX sessions_owed ON sessions (session) WHERE held_notice IS NOT NULL;

    CREATE TABLE inbound (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        queue_name TEXT NOT NULL,
        session TEXT NOT NULL,
        channel TEXT NOT NULL,
        account_id TEXT,
        conversation_id TEXT NOT NULL,
        thread_id TEXT,
        message_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        dedupe_epoch TEXT NOT NULL,
        event_id TEXT,
        sender_id TEXT,
        resumable INTEGER NOT NULL,
        received_at INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'taken', 'completed', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        not_before INTEGER,
        last_error TEXT,
        turn INTEGER,
        entry TEXT
    );
    -- In a unique index each NULL differs from every other; quote() makes it equal to itself and to nothing else.
    -- The first three columns also answer whether a channel has sent a message before.
    CREATE UNIQUE INDEX inbound_dedupe ON inbound (
        message_id, channel, quote(account_id), conversation_id, quote(thread_id), agent_id, dedupe_epoch
    );
    -- Partial: tombstones, by far the most rows, are in none but the last.
    CREATE INDEX inbound_waiting ON inbound (session, seq) WHERE state = 'waiting';
    CREATE INDEX inbound_taken ON inbound (turn) WHERE state = 'taken';
    CREATE INDEX inbound_completed ON inbound (queue_name, received_at) WHERE state = 'completed';

    CREATE TABLE turns (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        turn_id TEXT NOT NULL,
        session TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'stopped', 'finished', 'interrupted')),
        started_at INTEGER NOT NULL,
        outcome TEXT,
        cause TEXT
    );
    -- Turn ids are random: an index of them all would have each turn write pages of its own.
    CREATE UNIQUE INDEX turns_open ON turns (turn_id) WHERE state IN ('started', 'stopped');

    CREATE TABLE effects (
        channel TEXT NOT NULL,
        account_id TEXT,
        message_id TEXT NOT NULL,
        effect TEXT NOT NULL,
        claimed_at INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX effects_once ON effects (message_id, channel, quote(account_id), effect);
    CREATE INDEX effects_age ON effects (claimed_at);

    CREATE TABLE history (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        history_key TEXT NOT NULL,
        message_id TEXT,
        entry TEXT NOT NULL
    );
    CREATE INDEX history_window ON history (history_key);
    """,
    # What the agent said comes next, as a JSON array; NULL where it said nothing.
    "ALTER TABLE turns ADD COLUMN next_steps TEXT",
)


def set_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Write ahead, and wait for the disk at each commit.

    Raises:
        StoreError: the filesystem cannot do it.
    """
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"store {path}: its filesystem allows no write-ahead log; put it on a local disk")
    connection.execute("PRAGMA synchronous = FULL")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Take the steps that are missing, each in a transaction of its own. `PRAGMA user_version` counts them.

    Raises:
        StoreError: the file was written by a newer program.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise StoreError(
            f"store {path}: its schema has number {version}, this program knows up to {len(STEPS)}; "
            "start the newer openab-kernel again, or set another [store] url"
        )
    for number, step in enumerate(STEPS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT")
