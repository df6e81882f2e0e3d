"""The store in one SQLite file, for one process.

WAL and `synchronous = FULL`: a transaction that has returned survives the loss of power. All writing goes through the
thread of `writer.py`. Lookups run at once on the loop's thread, on a second connection that only reads: one takes some
10 µs, a passage through the thread takes several times that, and no lookup waits for a commit in progress.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.abc import TaskStatus

from openab_kernel.clock import Clock, epoch_ms
from openab_kernel.errors import StoreError, StoreLockedError
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.facts.turn import InterruptedTurn, NextStep, RecordedMessage, TurnOutcome
from openab_kernel.interfaces.store import AgentSessionRow, RecordRequest
from openab_kernel.storage import operations
from openab_kernel.storage.faults import store_error
from openab_kernel.storage.lock import StoreLock
from openab_kernel.storage.migrations import migrate, set_journal
from openab_kernel.storage.recent import RecentMessages
from openab_kernel.storage.retention import KEPT_ROWS, Retention
from openab_kernel.storage.wakeup import loop_caller
from openab_kernel.storage.writer import Writer

LOCK_RETRY_SECONDS = 0.1

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SqliteStore:
    """Implements `openab_kernel.interfaces.store.Store`. Used on the loop that runs `run`, from no other thread.

    A method that is cancelled may still commit: by then its operation is with the thread. A caller that has to know
    shields the call.

    Args:
        path: The database. Its folder is made if it is missing. `<path>.lock` stands beside it.
        clock: For retention, and for waiting for the lock.
        busy_seconds: How long a transaction waits for a foreign program that has locked the file.
        lock_wait_seconds: How long `run` waits for a process that holds the store.
        tombstones: The most completed messages of a queue that are kept to know their copies.
        tombstones_by_queue: The same for single queues.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        busy_seconds: float = 5.0,
        lock_wait_seconds: float = 0.0,
        tombstones: int = KEPT_ROWS,
        tombstones_by_queue: Mapping[str, int] | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._busy_seconds = busy_seconds
        self._lock_wait_seconds = lock_wait_seconds
        self._retention = Retention(lambda: epoch_ms(clock.now()), tombstones=tombstones, by_queue=tombstones_by_queue)
        self._recent = RecentMessages(clock.monotonic)
        self._writer: Writer | None = None
        self._reader: sqlite3.Connection | None = None

    @property
    def commits(self) -> int:
        """Transactions since `run` began; each has waited for the disk."""
        return self._writer.commits if self._writer else 0

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        lock = await self._take_lock()
        try:
            connection, reader = await to_thread.run_sync(self._open)
            self._reader = reader
            try:
                await self._serve(connection, task_status)
            finally:
                reader.close()
                with CancelScope(shield=True):
                    await to_thread.run_sync(connection.close)  # brings the log into the file, which takes a while
        finally:
            lock.release()

    async def _take_lock(self) -> StoreLock:
        deadline = self._clock.monotonic() + self._lock_wait_seconds
        while True:
            try:
                return StoreLock(self._path, self._clock.now())
            except StoreLockedError:
                if self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(LOCK_RETRY_SECONDS)

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        """The connections of the writing thread and of the loop."""
        try:
            with ExitStack() as opened:
                self._path.touch(mode=0o600)  # what people wrote is in it; SQLite gives its other files the same rights
                writing = opened.enter_context(closing(self._connect()))
                set_journal(writing, self._path)
                migrate(writing, self._path)
                writing.execute("BEGIN IMMEDIATE")
                self._retention.prune_all(writing)
                writing.execute("COMMIT")
                reading = opened.enter_context(closing(self._connect()))
                reading.execute("PRAGMA query_only = ON")
                reading.execute("PRAGMA busy_timeout = 0")  # it would be the loop that waits
                opened.pop_all()
                return writing, reading
        except OSError as error:
            raise StoreError(f"store {self._path}: cannot be made ({error.strerror}); check the rights") from error
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error

    def _connect(self) -> sqlite3.Connection:
        """May go from thread to thread, as long as one at a time works on it."""
        return sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)

    async def _serve(self, connection: sqlite3.Connection, task_status: TaskStatus[None]) -> None:
        """Until cancelled; what was handed over by then is still written."""
        self._writer = Writer(connection, loop_caller())
        async with anyio.create_task_group() as group:
            group.start_soon(_run_thread, self._writer.work)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._writer.close()

    async def _write(self, operation: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        """Have the thread run it, and wait for its commit."""
        if self._writer is None or self._writer.is_closed:
            raise StoreError(f"store {self._path}: not open")
        job = self._writer.put(operation, args)
        await job.settled
        if isinstance(job.error, sqlite3.Error):
            raise store_error(self._path, job.error) from job.error
        if job.error is not None:
            raise job.error
        value: T = job.value
        return value

    def _read(self, lookup: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        """Run it here and now, on what has been committed."""
        if self._reader is None:
            raise StoreError(f"store {self._path}: not open")
        try:
            return lookup(self._reader, *args)
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error

    async def record(self, request: RecordRequest) -> RecordedMessage | None:
        message = request.message
        seq = await self._write(self._record, request, message.model_dump_json(exclude_none=True))
        if seq is None:
            return None
        self._recent.add((message.channel, message.account_id, message.message_id))
        return RecordedMessage(seq=seq, message=message)

    def _record(self, connection: sqlite3.Connection, request: RecordRequest, entry: str) -> int | None:
        seq = operations.record(connection, request, entry)
        if seq is not None:
            self._retention.count_insert(connection, request.queue_name)
        return seq

    async def has_message(self, channel: str, account_id: str | None, message_id: str) -> bool:
        if (channel, account_id, message_id) in self._recent:
            return True
        return self._read(operations.has_message, channel, account_id, message_id)

    async def adopt(self, turn_id: str, session: SessionKey, seqs: Sequence[int], started_at: int) -> bool:
        try:
            await self._write(operations.adopt, turn_id, session, seqs, started_at)
        except operations.NotWaitingError:
            return False
        return True

    async def stop_turn(self, turn_id: str) -> None:
        await self._write(operations.stop_turn, turn_id)

    async def finish_turn(
        self, turn_id: str, outcome: TurnOutcome, cause: str | None, next_steps: Sequence[NextStep] = ()
    ) -> None:
        await self._write(operations.finish_turn, turn_id, outcome, cause, next_steps)

    async def waiting(self, session: SessionKey, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        return await self._readable(operations.waiting, session, after_seq, limit)

    async def waiting_sessions(self, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        return await self._readable(operations.waiting_sessions, after_seq, limit)

    async def _readable(
        self, lookup: Callable[[sqlite3.Connection, *Ts], list[tuple[int, bytes]]], *args: *Ts
    ) -> list[RecordedMessage]:
        """What the lookup gives, once it holds nothing unreadable; that is parked, so others may come up for it."""
        while True:
            rows = self._read(lookup, *args)
            recorded = [operations.read_entry(seq, entry) for seq, entry in rows]
            unreadable = [seq for (seq, _), found in zip(rows, recorded, strict=True) if found is None]
            if not unreadable:
                return [found for found in recorded if found is not None]
            await self.park(unreadable, "unreadable")

    async def release(self, seq: int, *, not_before: int, error: str) -> int:
        return await self._write(operations.release, seq, not_before, error)

    async def park(self, seqs: Sequence[int], reason: str) -> None:
        await self._write(operations.park, seqs, reason)

    async def interrupt_started_turns(self) -> list[InterruptedTurn]:
        return await self._write(operations.interrupt_started_turns)

    async def agent_session(self, session: SessionKey) -> AgentSessionRow | None:
        return self._read(operations.agent_session, session)

    async def save_agent_session(self, row: AgentSessionRow) -> None:
        await self._write(operations.save_agent_session, row)

    async def forget_agent_session(self, session: SessionKey) -> bool:
        return await self._write(operations.forget_agent_session, session)

    async def hold_notice(self, session: SessionKey, text: str | None) -> None:
        await self._write(operations.hold_notice, session, text)

    async def held_notices(self) -> dict[SessionKey, str]:
        return self._read(operations.held_notices)

    async def claim_effect(self, channel: str, account_id: str | None, message_id: str, effect: str) -> bool:
        now_ms = epoch_ms(self._clock.now())
        return await self._write(operations.claim_effect, channel, account_id, message_id, effect, now_ms)

    async def note_history(self, history_key: str, entry: HistoryEntry, *, limit: int) -> None:
        if limit > 0:
            await self._write(operations.note_history, history_key, entry, limit)

    async def history(self, history_key: str, *, limit: int) -> list[HistoryEntry]:
        return self._read(operations.history, history_key, max(limit, 0))


async def _run_thread(work: Callable[[], None]) -> None:
    """Wait for the thread to its end, whatever happens here: it ends when the writer is closed."""
    with CancelScope(shield=True):
        await to_thread.run_sync(work, limiter=CapacityLimiter(1))
