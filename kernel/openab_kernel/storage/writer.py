"""One thread that owns the writing connection and commits in groups.

A commit waits for the disk, once for all that is in it. What one turn of the loop asks for goes to the thread
together, and while the thread waits, more piles up: the next commit takes it all. So a lone caller is served at once,
and a hundred callers share the price of one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from openab_kernel.serial import fulfil, promise


class Job:
    """`operation(connection, *args)` on its way through the thread; `settled` once `value` or `error` holds."""

    __slots__ = ("args", "error", "operation", "settled", "value")

    def __init__(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.operation = operation
        self.args = args
        self.settled = promise()
        self.value: Any = None
        self.error: Exception | None = None


class Writer:
    """Takes operations from the loop and runs those that wait as one transaction.

    An operation that raises undoes itself alone: the transaction is begun again, with a savepoint around each of them.
    What breaks the transaction breaks it for all that are in it, and nothing of it is written.

    Args:
        connection: In autocommit mode. `work` owns it while it runs.
        call_soon: From `loop_caller`. Called once a transaction; settles its operations in their order.
    """

    def __init__(self, connection: sqlite3.Connection, call_soon: Callable[..., Any]) -> None:
        self._connection = connection
        self._call_soon = call_soon
        self._gathered: list[Job] = []
        self._handed_over: SimpleQueue[list[Job]] = SimpleQueue()
        self.is_closed = False
        self.commits = 0

    def put(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> Job:
        """Called on the loop, not after `close`."""
        job = Job(operation, args)
        if not self._gathered:
            self._call_soon(self._hand_over)
        self._gathered.append(job)
        return job

    def close(self) -> None:
        """Let `work` end when all that was put in is done. Called on the loop."""
        self.is_closed = True
        self._call_soon(self._handed_over.put, [])

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._handed_over.put(gathered)

    def work(self) -> None:
        """The thread. Sleeps while there is nothing to do."""
        while batch := self._take():
            self._commit(batch)
            self._call_soon(_settle, batch)

    def _take(self) -> list[Job]:
        """All that waits, at least one operation; none means closed."""
        batch: list[Job] = []
        with suppress(Empty):
            while gathered := self._handed_over.get(block=not batch):
                batch += gathered
            if batch:
                self._handed_over.put(gathered)  # the end, for the next call to find
        return batch

    def _commit(self, batch: Sequence[Job]) -> None:
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            if not self._run(batch):
                execute("BEGIN IMMEDIATE")
                self._run_guarded(batch)
            execute("COMMIT")
            self.commits += 1
        except Exception as error:
            self._roll_back()
            for job in batch:
                job.error = error

    def _run(self, batch: Sequence[Job]) -> bool:
        """False: one of them raised, and all are undone. That is rare, and savepoints double the statements."""
        try:
            for job in batch:
                job.value = job.operation(self._connection, *job.args)
        except Exception:
            self._roll_back()
            return False
        return True

    def _run_guarded(self, batch: Sequence[Job]) -> None:
        execute = self._connection.execute
        for job in batch:
            execute("SAVEPOINT operation")
            try:
                job.value = job.operation(self._connection, *job.args)
            except Exception as error:
                if not self._connection.in_transaction:
                    raise  # a full disk, among others, makes SQLite roll back everything
                execute("ROLLBACK TO operation")
                job.error = error
            execute("RELEASE operation")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # rolled back already
            self._connection.execute("ROLLBACK")


def _settle(batch: Sequence[Job]) -> None:
    for job in batch:
        fulfil(job.settled, None)
