"""Ids of messages that were seen a short while ago, in memory (turn-kernel.md 13.1)."""

from __future__ import annotations

from collections.abc import Callable

KEPT_SECONDS = 20 * 60.0
KEPT_IDS = 5_000

MessageId = tuple[str, str | None, str]
"""Channel, account and message id."""


class RecentMessages:
    """Knows that a message was recorded; never that one was not. The oldest leave first.

    Args:
        monotonic: Elapsed seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen_at: dict[MessageId, float] = {}

    def add(self, message: MessageId) -> None:
        self._seen_at[message] = self._monotonic()
        if len(self._seen_at) > KEPT_IDS:
            del self._seen_at[next(iter(self._seen_at))]

    def __contains__(self, message: MessageId) -> bool:
        seen_at = self._seen_at.get(message)
        return seen_at is not None and self._monotonic() - seen_at < KEPT_SECONDS

    def __len__(self) -> int:
        return len(self._seen_at)
