"""How long to wait before the next attempt to connect."""

from __future__ import annotations

from collections.abc import Sequence

RECONNECT_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


class Backoff:
    """Gives pauses one after another; the last one is given for ever."""

    def __init__(self, seconds: Sequence[float] = RECONNECT_SECONDS) -> None:
        self._seconds = tuple(seconds)
        self._failures = 0

    def next_seconds(self) -> float:
        """The pause before the next attempt; each call counts as a failure."""
        pause = self._seconds[min(self._failures, len(self._seconds) - 1)]
        self._failures += 1
        return pause

    def reset(self) -> None:
        """An attempt succeeded: begin with the shortest pause again."""
        self._failures = 0
