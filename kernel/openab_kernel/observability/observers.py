"""Telling observers, so that none of them can hold up or break a turn.

Each observer has a queue and a task of its own. Plain methods run in a worker thread and are given up after a time;
async ones run on the loop. What an observer raises is counted, and logged once for each plugin and kind of error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from openab_kernel.clock import Clock
from openab_kernel.facts.turn import ChannelTurnResult, StageEvent, TurnSummary
from openab_kernel.interfaces.observer import Observer, ResultObserver, StageObserver, TurnObserver
from openab_kernel.observability.blame import running_plugin

log = structlog.get_logger("openab_kernel.observers")

QUEUE_EVENTS = 10_000
Call = Callable[[], "Awaitable[None] | None"]


class Observers:
    """All observers, by plugin. `hears_stages` and `hears_turns`: is there anybody to build such events for?"""

    def __init__(self, observers: list[tuple[str, Observer]], clock: Clock, *, timeout_seconds: float = 10.0) -> None:
        self._seats = [_Seat(plugin, observer, clock, timeout_seconds) for plugin, observer in observers]
        self._for_stages = [seat for seat in self._seats if isinstance(seat.observer, StageObserver)]
        self._for_results = [seat for seat in self._seats if isinstance(seat.observer, ResultObserver)]
        self._for_turns = [seat for seat in self._seats if isinstance(seat.observer, TurnObserver)]
        self.hears_stages = bool(self._for_stages)
        self.hears_turns = bool(self._for_turns)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Deliver until cancelled; what is queued by then is dropped."""
        async with anyio.create_task_group() as group:
            for seat in self._seats:
                group.start_soon(seat.run)
            task_status.started()

    def stage_event(self, event: StageEvent) -> None:
        for seat in self._for_stages:
            seat.put("stage_event", event)

    def message_ended(self, result: ChannelTurnResult) -> None:
        for seat in self._for_results:
            seat.put("message_ended", result)

    def turn_finished(self, summary: TurnSummary) -> None:
        for seat in self._for_turns:
            seat.put("turn_finished", summary)


class _Seat:
    """One observer and what it has not been told yet."""

    def __init__(self, plugin: str, observer: Observer, clock: Clock, timeout_seconds: float) -> None:
        self.observer = observer
        self.failures = 0
        self._plugin = plugin
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._complained: set[str] = set()
        streams: tuple[MemoryObjectSendStream[Any], MemoryObjectReceiveStream[Any]]
        streams = anyio.create_memory_object_stream(QUEUE_EVENTS)
        self._send, self._receive = streams

    def put(self, method: str, value: object) -> None:
        try:
            self._send.send_nowait((method, value))
        except anyio.WouldBlock:
            self._complain("queue_full", "events are dropped")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the kernel is ending; nobody listens any more

    async def run(self) -> None:
        with self._send, self._receive:
            async for method, value in self._receive:
                await self._tell(getattr(self.observer, method), value)

    async def _tell(self, method: Callable[[Any], Any], value: object) -> None:
        try:
            with self._clock.move_on_after(self._timeout_seconds) as scope:
                if iscoroutinefunction(method):
                    with running_plugin(self._plugin):
                        await method(value)
                else:
                    await to_thread.run_sync(partial(method, value), abandon_on_cancel=True)
            if scope.cancelled_caught:
                self._complain("timeout", f"given up after {self._timeout_seconds:g} s")
        except Exception as error:
            self._complain(type(error).__name__, "raised", error)

    def _complain(self, kind: str, what: str, error: Exception | None = None) -> None:
        self.failures += 1
        if kind not in self._complained:
            self._complained.add(kind)
            log.error("observer.failed", plugin=self._plugin, kind=kind, what=what, exc_info=error)
