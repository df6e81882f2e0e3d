"""How long a completed message is known (turn-kernel.md 13.1): as a row without content that refuses its copies.

Claimed effects are kept as long. Messages that wait, are in a turn or were parked are not touched.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping

KEPT_MS = 30 * 24 * 3600 * 1000
KEPT_ROWS = 20_000
PRUNE_EVERY = 1_000


class Retention:
    """Removes what is too old or too much, once for so many inserts into a queue. Owned by the writing thread.

    Args:
        now_ms: The wall time, epoch ms.
        tombstones: The most completed messages of a queue that are kept; the newest are.
        by_queue: The same for single queues.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        tombstones: int = KEPT_ROWS,
        by_queue: Mapping[str, int] | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._tombstones = tombstones
        self._by_queue = dict(by_queue or {})
        self._inserts: Counter[str] = Counter()

    def count_insert(self, connection: sqlite3.Connection, queue_name: str) -> None:
        """To be called once for each insert, in its transaction. One that is undone and made again may count twice."""
        self._inserts[queue_name] += 1
        if self._inserts[queue_name] >= PRUNE_EVERY:
            self._inserts[queue_name] = 0
            self._prune_queue(connection, queue_name)
            self._prune_effects(connection)

    def prune_all(self, connection: sqlite3.Connection) -> None:
        """To be called at start, in a transaction."""
        queues = connection.execute("SELECT DISTINCT queue_name FROM inbound WHERE state = 'completed'").fetchall()
        for (queue_name,) in queues:
            self._prune_queue(connection, queue_name)
        self._prune_effects(connection)

    def _prune_queue(self, connection: sqlite3.Connection, queue_name: str) -> None:
        """Remove messages; a turn goes with the first of its messages."""
        forgotten = connection.execute(
            "DELETE FROM inbound WHERE queue_name = ? AND state = 'completed' AND received_at < ? RETURNING turn",
            (queue_name, self._now_ms() - KEPT_MS),
        ).fetchall()
        forgotten += connection.execute(
            "DELETE FROM inbound WHERE queue_name = ? AND state = 'completed' AND (received_at, seq) <="
            " (SELECT received_at, seq FROM inbound WHERE queue_name = ? AND state = 'completed'"
            "  ORDER BY received_at DESC, seq DESC LIMIT 1 OFFSET ?) RETURNING turn",
            (queue_name, queue_name, self._by_queue.get(queue_name, self._tombstones)),
        ).fetchall()
        connection.executemany("DELETE FROM turns WHERE number = ?", forgotten)

    def _prune_effects(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM effects WHERE claimed_at < ?", (self._now_ms() - KEPT_MS,))
