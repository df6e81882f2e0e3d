"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint


class ManualClock:
    """Implements `openab_kernel.clock.Clock`. Owned by one event loop.

    Time moves by `advance` alone. Real I/O takes no manual time, so a test waits for events of the peer and moves
    the clock only when it means to.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
        self._elapsed = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._changed = anyio.Event()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await checkpoint()
            return
        woken = anyio.Event()
        self._at(seconds, woken.set)
        await woken.wait()

    def move_on_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        return self._scope(seconds, fails=False)

    def fail_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        return self._scope(seconds, fails=True)

    @contextmanager
    def _scope(self, seconds: float | None, *, fails: bool) -> Iterator[CancelScope]:
        with CancelScope() as scope:
            if seconds is not None:
                self._at(seconds, scope.cancel)
            yield scope
        if fails and scope.cancelled_caught:
            raise TimeoutError

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._elapsed + seconds, next(self._order), act))
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def waiters(self) -> int:
        """How many sleeps and time-outs were begun and are not due yet; those already over may count."""
        return len(self._due)

    async def until_waiting(self, waiters: int = 1) -> None:
        """Wait until at least so many sleeps or time-outs have been begun."""
        while len(self._due) < waiters:
            await self._changed.wait()

    async def advance(self, seconds: float) -> None:
        """Move time on, stopping at every moment something was waiting for, and let it run."""
        target = self._elapsed + seconds
        while self._due and self._due[0][0] <= target:
            moment, _, act = heapq.heappop(self._due)
            self._elapsed = max(self._elapsed, moment)
            act()
            await settle()
        self._elapsed = max(self._elapsed, target)
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let the tasks that are ready to run have their turn, so that what follows from a move of time has begun."""
    for _ in range(rounds):
        await checkpoint()
