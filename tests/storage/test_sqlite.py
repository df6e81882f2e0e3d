"""What only the store on disk can show: groups, faults, other programs, and what is in the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.errors import StoreError
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.interfaces.store import AgentSessionRow
from openab_kernel.storage import SqliteStore
from openab_kernel.storage.migrations import STEPS
from openab_kernel.testing.clock import ManualClock
from tests.storage.cases import (
    SECRET_TEXT,
    alter,
    complete,
    look,
    message,
    record,
    request,
    running,
    session,
    waiting_ids,
)

# ── Groups ────────────────────────────────────────────────────────────────────────────────────────


async def test_operations_of_many_callers_share_commits(store: SqliteStore) -> None:
    async with running(store):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(record, store, f"m{number}")
        assert len(await waiting_ids(store)) == 100
        assert store.commits <= 10


async def test_operation_that_fails_undoes_itself_alone(store: SqliteStore, path: Path) -> None:
    failed: list[str] = []

    async def one(message_id: str) -> None:
        try:
            await record(store, message_id)
        except StoreError:
            failed.append(message_id)

    async with running(store):
        alter(path, refusal("INSERT", "inbound", "NEW.message_id = 'm5'"))
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(one, f"m{number}")
        assert failed == ["m5"]
        assert store.commits == 1
    assert look(path, "SELECT count(*) FROM inbound") == [(9,)]


async def test_commit_that_breaks_fails_for_all_that_are_in_it(path: Path, clock: ManualClock) -> None:
    store = SqliteStore(path, clock, busy_seconds=0.0)
    failed: list[str] = []

    async def one(message_id: str) -> None:
        with pytest.raises(StoreError, match="locked by another program"):
            await record(store, message_id)
        failed.append(message_id)

    async with running(store):
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(one, f"m{number}")
            foreign.execute("ROLLBACK")
        assert sorted(failed) == ["m0", "m1", "m2", "m3", "m4"]
        assert await waiting_ids(store) == []
        await record(store, "m0")
        assert await waiting_ids(store) == ["m0"]


async def test_full_disk_fails_the_whole_group_and_writes_nothing_of_it(store: SqliteStore, path: Path) -> None:
    failed: list[str] = []

    async def one(message_id: str, size: int) -> None:
        with pytest.raises(StoreError, match=r"state\.db: the disk is full; make room"):
            await record(store, message_id, sender_id="x" * size)
        failed.append(message_id)

    async with running(store):
        await store._write(limit_pages)
        async with anyio.create_task_group() as group:
            group.start_soon(one, "small", 1)
            group.start_soon(one, "large", 1_000_000)
        assert sorted(failed) == ["large", "small"]
        await record(store, "m1")
    assert look(path, "SELECT message_id FROM inbound") == [("m1",)]


def limit_pages(connection: sqlite3.Connection) -> None:
    """Stand in for a disk with little room left."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 20}")


async def test_cancelled_caller_leaves_the_others_alone(store: SqliteStore) -> None:
    async with running(store):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await record(store, "cancelled")
        await record(store, "m1")
        assert await waiting_ids(store) in (["cancelled", "m1"], ["m1"])


async def test_what_was_handed_over_is_written_before_the_store_closes(store: SqliteStore, path: Path) -> None:
    async with running(store), anyio.create_task_group() as group:
        group.start_soon(record, store)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert look(path, "SELECT message_id FROM inbound") == [("m1",)]


# ── Atomicity (turn-kernel.md 15, row 5) ──────────────────────────────────────────────────────────


def refusal(verb: str, table: str, when: str = "true") -> str:
    """A trigger that makes one write of a transaction fail."""
    return (
        f"CREATE TRIGGER refusal BEFORE {verb} ON {table} WHEN {when}"
        " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END"
    )


EVERYTHING = ("sessions", "inbound", "turns", "history", "effects")


def dump(path: Path) -> list[list[tuple[object, ...]]]:
    return [look(path, f"SELECT * FROM {table}") for table in EVERYTHING]


@pytest.mark.parametrize(
    "broken",
    [("INSERT", "inbound"), ("INSERT", "sessions"), ("DELETE", "history")],
    ids=" ".join,
)
async def test_record_writes_all_or_nothing(store: SqliteStore, path: Path, broken: tuple[str, str]) -> None:
    async with running(store):
        await store.note_history("c1", HistoryEntry(sender="u1", body="noted", message_id="m1"), limit=9)
        before = dump(path)
        alter(path, refusal(*broken))
        with pytest.raises(StoreError, match="refused by the test"):
            await store.record(request(history_key="c1"))
        assert dump(path) == before
        alter(path, "DROP TRIGGER refusal")
        assert await store.record(request(history_key="c1")) is not None


async def test_record_of_a_known_session_writes_all_or_nothing(store: SqliteStore, path: Path) -> None:
    async with running(store):
        await record(store, "m0")
        before = dump(path)
        alter(path, refusal("UPDATE", "sessions"))
        with pytest.raises(StoreError, match="refused by the test"):
            await store.record(request())
        assert dump(path) == before


@pytest.mark.parametrize("broken", [("UPDATE", "inbound", "NEW.seq = 2"), ("INSERT", "turns")], ids=" ".join)
async def test_adopt_writes_all_or_nothing(store: SqliteStore, path: Path, broken: tuple[str, ...]) -> None:
    async with running(store):
        seqs = [await record(store, f"m{number}") for number in range(3)]
        before = dump(path)
        alter(path, refusal(*broken))
        with pytest.raises(StoreError, match="refused by the test"):
            await store.adopt("t1", session(), seqs, 1)
        assert dump(path) == before


@pytest.mark.parametrize("broken", [("UPDATE", "turns"), ("UPDATE", "inbound", "NEW.seq = 2")], ids=" ".join)
async def test_finish_writes_all_or_nothing(store: SqliteStore, path: Path, broken: tuple[str, ...]) -> None:
    async with running(store):
        seqs = [await record(store, f"m{number}") for number in range(3)]
        assert await store.adopt("t1", session(), seqs, 1)
        before = dump(path)
        alter(path, refusal(*broken))
        with pytest.raises(StoreError, match="refused by the test"):
            await store.finish_turn("t1", "done", None)
        assert dump(path) == before


@pytest.mark.parametrize(
    "broken",
    [
        ("UPDATE", "inbound", "NEW.state = 'failed'"),
        ("UPDATE", "turns", "NEW.state = 'finished'"),
        ("UPDATE", "turns", "NEW.state = 'interrupted'"),
        ("UPDATE", "inbound", "NEW.state = 'completed'"),
    ],
    ids=" ".join,
)
async def test_closing_turns_at_start_writes_all_or_nothing(
    store: SqliteStore, path: Path, broken: tuple[str, ...]
) -> None:
    async with running(store):
        for turn_id in ("started", "stopped"):
            assert await store.adopt(turn_id, session(), [await record(store, turn_id)], 1)
        await store.stop_turn("stopped")
        await record(store, "prepared", resumable=False)
        before = dump(path)
        alter(path, refusal(*broken))
        with pytest.raises(StoreError, match="refused by the test"):
            await store.interrupt_started_turns()
        assert dump(path) == before


async def test_turn_id_that_is_in_use_is_refused(store: SqliteStore) -> None:
    async with running(store):
        assert await store.adopt("t1", session(), [await record(store)], 1)
        with pytest.raises(StoreError, match="UNIQUE"):
            await store.adopt("t1", session(), [await record(store, "m2")], 1)
        assert await waiting_ids(store) == ["m2"]


# ── Speed ─────────────────────────────────────────────────────────────────────────────────────────


async def test_no_method_reads_a_whole_table(store: SqliteStore, path: Path) -> None:
    statements: list[str] = []
    async with running(store):
        await store._write(sqlite3.Connection.set_trace_callback, statements.append)
        store._read(sqlite3.Connection.set_trace_callback, statements.append)
        seqs = [await record(store, f"m{number}", history_key="c1") for number in range(3)]
        await store.has_message("discord", "bot", "new")
        await store.waiting(session(), after_seq=0, limit=9)
        await store.waiting_sessions(after_seq=0, limit=9)
        await store.release(seqs[0], not_before=1, error="StoreError")
        await store.park([seqs[0]], "failed:StoreError")
        assert await store.adopt("t1", session(), seqs[1:], 1)
        await store.stop_turn("t1")
        await store.finish_turn("t1", "done", None)
        await store.agent_session(session())
        await store.forget_agent_session(session())
        await store.hold_notice(session(), "notice")
        await store.held_notices()
        await store.note_history("c1", HistoryEntry(sender="u1", body="b"), limit=9)
        await store.history("c1", limit=9)
        await store._write(store._retention.prune_all)
    steps = {
        step
        for statement in statements
        if statement.partition(" ")[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}
        for *_, step in look(path, f"EXPLAIN QUERY PLAN {statement}")
    }
    scanned = {step.partition("INDEX ")[2] for step in steps if step.startswith("SCAN")}
    assert scanned == {"inbound_waiting", "inbound_completed", "sessions_owed"}  # the last two at start alone


# ── What is in the file ───────────────────────────────────────────────────────────────────────────


async def test_file_is_written_ahead_and_waits_for_the_disk(store: SqliteStore) -> None:
    def pragmas(connection: sqlite3.Connection) -> list[object]:
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    async with running(store):
        in_transaction = await store._write(pragmas)
        assert in_transaction == ["wal", 2]


async def test_nobody_else_may_read_what_people_wrote(store: SqliteStore, path: Path) -> None:
    async with running(store):
        await record(store)
        rights = {file.name: file.stat().st_mode & 0o077 for file in path.parent.glob("state.db*")}
    assert rights == {"state.db": 0, "state.db-wal": 0, "state.db-shm": 0, "state.db.lock": 0}


async def test_session_holds_the_last_route_and_activity_of_its_people(store: SqliteStore, path: Path) -> None:
    def row() -> list[tuple[object, ...]]:
        return look(
            path,
            "SELECT session_key, json_extract(last_route, '$.to'), last_activity FROM sessions",
        )

    async with running(store):
        await record(store, "m0", received_at=9, persisted_session_key="k0", user_activity=False)
        assert row() == [("k0", None, None)]
        destination = message().destination.model_copy(update={"to": "c9"})
        await record(store, "m1", received_at=10, persisted_session_key="k1", destination=destination)
        assert row() == [("k1", "c9", 10)]
        await record(store, "m2", received_at=11, persisted_session_key="k2", user_activity=False)
        assert row() == [("k2", "c9", 10)]


async def test_tombstone_keeps_no_content(store: SqliteStore, path: Path) -> None:
    async with running(store):
        seqs = [await record(store, f"m{number}") for number in range(2)]
        assert await store.adopt("t1", session(), seqs, 1)
        assert look(path, "SELECT count(*) FROM inbound WHERE entry LIKE ?", f"%{SECRET_TEXT}%") == [(2,)]
        await store.finish_turn("t1", "silent", "nothing")
        assert look(path, "SELECT state, entry, turn FROM inbound") == [("completed", None, 1)] * 2
        assert look(path, "SELECT number, state, outcome, cause FROM turns") == [(1, "finished", "silent", "nothing")]


async def test_parked_and_released_messages_tell_why(store: SqliteStore, path: Path) -> None:
    async with running(store):
        parked = await record(store, "m1")
        released = await record(store, "m2")
        await store.park([parked], "failed:StoreError")
        await store.release(released, not_before=7, error="StoreError")
    assert look(path, "SELECT state, last_error, attempts, not_before, entry IS NULL FROM inbound") == [
        ("failed", "failed:StoreError", 0, None, False),
        ("waiting", "StoreError", 1, 7, False),
    ]


# ── Retention (turn-kernel.md 13.1) ───────────────────────────────────────────────────────────────


async def test_newest_completed_messages_of_each_queue_are_kept(path: Path, clock: ManualClock) -> None:
    def opened() -> SqliteStore:
        return SqliteStore(path, clock, tombstones=3, tombstones_by_queue={"line": 1})

    async with running(opened()) as store:
        for queue in ("discord", "line", "slack"):
            for number in range(2 if queue == "slack" else 5):
                seq = await record(store, f"m{number}", channel=queue, queue_name=queue)
                await complete(store, f"{queue}:{number}", seq)
            await record(store, "waits", channel=queue, queue_name=queue)
    async with running(opened()) as store:
        kept = look(path, "SELECT channel || ' ' || message_id FROM inbound WHERE state = 'completed' ORDER BY 1")
        assert ", ".join(name for (name,) in kept) == (
            "discord m2, discord m3, discord m4, line m4, slack m0, slack m1"
        )
        assert look(path, "SELECT count(*) FROM turns") == [(6,)]
        assert look(path, "SELECT count(*) FROM inbound WHERE state = 'waiting'") == [(3,)]
        assert await store.record(request("m1")) is not None
        assert await store.record(request("m2")) is None


async def test_running_store_forgets_too(path: Path, clock: ManualClock) -> None:
    store = SqliteStore(path, clock, tombstones=10)
    async with running(store), anyio.create_task_group() as group:
        await complete(store, "t1", *[await record(store, f"old{number}") for number in range(20)])
        for number in range(980):
            group.start_soon(record, store, f"new{number}")
    assert look(path, "SELECT count(*) FROM inbound WHERE state = 'completed'") == [(10,)]
    assert look(path, "SELECT count(*) FROM inbound WHERE state = 'waiting'") == [(980,)]


async def test_claims_are_forgotten_after_30_days(path: Path, clock: ManualClock) -> None:
    claim = ("discord", None, "m1", "command:reset")
    async with running(SqliteStore(path, clock)) as store:
        assert await store.claim_effect(*claim)
    for days, is_free in ((29, False), (2, True)):
        await clock.advance(days * 24 * 3600.0)
        async with running(SqliteStore(path, clock)) as store:
            assert await store.claim_effect(*claim) == is_free


# ── What cannot be read ───────────────────────────────────────────────────────────────────────────

UNREADABLE = ["NULL", "'{}'", "'no json'", "x'ff00'", "CAST(x'ff' AS TEXT)", f"'{{\"{SECRET_TEXT}\": 1}}'", "7"]


@pytest.mark.parametrize("entry", UNREADABLE)
async def test_unreadable_message_is_set_aside_and_the_others_go_on(store: SqliteStore, path: Path, entry: str) -> None:
    async with running(store):
        for number in range(3):
            await record(store, f"m{number}")
        alter(path, f"UPDATE inbound SET entry = {entry} WHERE seq = 1")
        with capture_logs() as logs:
            assert await waiting_ids(store, limit=2) == ["m1", "m2"]
        assert [(line["event"], line["log_level"], line["seq"]) for line in logs] == [
            ("store.row_unreadable", "warning", 1)
        ]
        assert SECRET_TEXT not in str(logs)
        assert look(path, "SELECT state, last_error FROM inbound WHERE seq = 1") == [("failed", "unreadable")]


async def test_session_whose_oldest_message_is_unreadable_shows_the_next(store: SqliteStore, path: Path) -> None:
    async with running(store):
        for number in range(3):
            await record(store, f"m{number}")
        alter(path, "UPDATE inbound SET entry = 'no json' WHERE seq IN (1, 2)")
        heads = await store.waiting_sessions(after_seq=0, limit=1)
        assert [one.message.message_id for one in heads] == ["m2"]


@pytest.mark.parametrize(("broken", "newest"), [("2", "m0"), ("1, 2", None)])
async def test_interrupted_turn_answers_the_newest_message_that_can_be_read(
    store: SqliteStore, path: Path, broken: str, newest: str | None
) -> None:
    async with running(store):
        seqs = [await record(store, f"m{number}") for number in range(2)]
        assert await store.adopt("t1", session(), seqs, 1)
        alter(path, f"UPDATE inbound SET entry = 'no json' WHERE seq IN ({broken})")
        interrupted = await store.interrupt_started_turns()
        assert [one.message.message_id for one in interrupted] == ([newest] if newest else [])
        assert look(path, "SELECT state FROM turns") == [("interrupted",)]
        parked = look(path, "SELECT group_concat(seq, ', ') FROM inbound WHERE state = 'failed'")
        assert parked == [(broken,)]


@pytest.mark.parametrize("damage", ["cwd = NULL", "cwd = CAST(x'ff' AS TEXT)"])
async def test_unreadable_agent_session_counts_as_none(store: SqliteStore, path: Path, damage: str) -> None:
    row = AgentSessionRow(session=session(), agent_session_id="s1", agent_command="agent", cwd="/")
    async with running(store):
        await store.save_agent_session(row)
        alter(path, f"UPDATE sessions SET {damage}")
        with capture_logs() as logs:
            assert await store.agent_session(session()) is None
        assert [line["event"] for line in logs] == ["store.row_unreadable"]
        await store.save_agent_session(row)
        assert await store.agent_session(session()) == row


async def test_unreadable_history_entry_is_left_out(store: SqliteStore, path: Path) -> None:
    async with running(store):
        for body in ("b0", "b1"):
            await store.note_history("c1", HistoryEntry(sender="u1", body=body), limit=9)
        alter(path, "UPDATE history SET entry = 'no json' WHERE seq = 1")
        with capture_logs() as logs:
            assert [entry.body for entry in await store.history("c1", limit=9)] == ["b1"]
        assert [line["event"] for line in logs] == ["store.row_unreadable"]


# ── Opening ───────────────────────────────────────────────────────────────────────────────────────


def not_a_database(path: Path) -> None:
    path.write_bytes(b"this is a letter, not a database" * 200)


def written_by_a_newer_program(path: Path) -> None:
    alter(path, f"PRAGMA user_version = {len(STEPS) + 1}")


def folder_in_its_place(path: Path) -> None:
    path.mkdir()


def link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "gone" / "state.db")


@pytest.mark.parametrize(
    ("obstacle", "complaint"),
    [
        (not_a_database, r"store \S+state\.db: not an SQLite database; move it aside or set another \[store\] url"),
        (written_by_a_newer_program, r"has number \d+, this program knows up to \d+; start the newer openab-kernel"),
        (folder_in_its_place, r"store \S+state\.db: cannot be opened; check that it is a file"),
        (link_to_nowhere, r"store \S+state\.db: \S+ cannot be made \(No such file or directory\); check the rights"),
    ],
)
async def test_file_that_cannot_be_used_is_named_with_the_way_out(
    store: SqliteStore, path: Path, obstacle: Callable[[Path], None], complaint: str
) -> None:
    obstacle(path)
    with pytest.raises(StoreError, match=complaint):
        await store.run()
    with pytest.raises(StoreError, match=complaint):  # not: still locked by the first try
        await store.run()


@pytest.mark.parametrize("blocked", ["parent", "lock"])
async def test_place_where_nothing_can_be_made_is_named(tmp_path: Path, clock: ManualClock, blocked: str) -> None:
    if blocked == "parent":
        (tmp_path / "state").write_text("a file, not a folder")
    else:
        (tmp_path / "state/state.db.lock").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"state\.db: \S+\.lock cannot be made .*; check the rights there"):
        await SqliteStore(tmp_path / "state/state.db", clock).run()


async def test_newer_file_is_left_as_it_is(store: SqliteStore, path: Path) -> None:
    written_by_a_newer_program(path)
    with pytest.raises(StoreError):
        await store.run()
    assert look(path, "SELECT name FROM sqlite_master") == []


async def test_missing_folder_is_made_for_its_owner_alone(tmp_path: Path, clock: ManualClock) -> None:
    async with running(SqliteStore(tmp_path / "home/state/state.db", clock)):
        assert (tmp_path / "home/state").stat().st_mode & 0o777 == 0o700


async def test_store_that_does_not_run_refuses_work(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="not open"):
        await store.record(request())
    with pytest.raises(StoreError, match="not open"):
        await store.has_message("discord", "bot", "m1")
    async with running(store):
        await record(store)
    with pytest.raises(StoreError, match="not open"):
        await store.record(request("m2"))
    with pytest.raises(StoreError, match="closed"):
        await store.agent_session(session())


async def test_closed_store_leaves_one_file_and_its_lock(store: SqliteStore, path: Path) -> None:
    async with running(store):
        await record(store)
    assert sorted(os.listdir(path.parent)) == ["state.db", "state.db.lock"]


# ── The memory in front (turn-kernel.md 13.1) ─────────────────────────────────────────────────────


async def test_known_message_needs_no_disk_for_20_minutes(store: SqliteStore, path: Path, clock: ManualClock) -> None:
    async with running(store):
        await record(store)
        alter(path, "DELETE FROM inbound")
        await clock.advance(20 * 60.0 - 1)
        assert await store.has_message("discord", "bot", "m1")
        await clock.advance(1.0)
        assert not await store.has_message("discord", "bot", "m1")
