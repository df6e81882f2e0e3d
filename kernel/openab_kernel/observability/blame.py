"""Who is running on the loop: the name a watchdog gives when the loop stands still."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import structlog
from anyio.abc import TaskStatus

log = structlog.get_logger("openab_kernel.loop")

BEAT_SECONDS = 0.25
LAG_SECONDS = 1.0

_running: list[str] = []
"""Plugins whose code has the loop now, innermost last. Touched by the loop's thread alone; the watchdog peeks."""


@contextmanager
def running_plugin(name: str) -> Iterator[None]:
    """Mark that this plugin's code runs inside the block, for as long as it does not await."""
    _running.append(name)
    try:
        yield
    finally:
        _running.remove(name)


class LagWatchdog:
    """A thread that notices when the loop has not come round, and names the plugin that has it.

    It measures real time whatever clock the kernel was given: a loop that stands still is no matter of tests' time.
    """

    def __init__(self, *, beat_seconds: float = BEAT_SECONDS, lag_seconds: float = LAG_SECONDS) -> None:
        self._beat_seconds = beat_seconds
        self._lag_seconds = lag_seconds
        self._last_beat = 0.0
        self._stop = threading.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        self._last_beat = time.monotonic()
        self._stop.clear()
        thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        thread.start()
        task_status.started()
        try:
            while True:
                await anyio.sleep(self._beat_seconds)
                self._last_beat = time.monotonic()
        finally:
            self._stop.set()

    def _watch(self) -> None:
        reported = 0.0
        while not self._stop.wait(self._beat_seconds):
            beat = self._last_beat
            lag = time.monotonic() - beat
            if lag > self._lag_seconds and beat != reported:
                reported = beat
                log.error("loop.blocked", plugin=_running[-1] if _running else None, lag_ms=int(lag * 1000))
