"""Time, handed in. Nothing else in the kernel asks the machine what time it is."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

import anyio
from anyio import CancelScope


class Clock(Protocol):
    """Wall time, elapsed time and waiting, so that a test can hold all three in its hand.

    `move_on_after` and `fail_after` behave like their anyio namesakes; `None` waits for ever.
    """

    def now(self) -> datetime:
        """The wall time, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait. A negative number does not wait."""

    def move_on_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        """Cancel the block after `seconds` and go on behind it; `scope.cancelled_caught` tells."""

    def fail_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        """The same, but raises `TimeoutError`."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))

    def move_on_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        return anyio.move_on_after(seconds)

    def fail_after(self, seconds: float | None) -> AbstractContextManager[CancelScope]:
        return anyio.fail_after(seconds)


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since 1970, as receipts and facts carry them."""
    return int(moment.timestamp() * 1000)
