"""What one task waits for, tasks that are used again, and one worker a key: items of one key in order, keys beside
each other.

Outbound lanes and inbound conversations both work by key. A key without items has no task and no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextvars import Context, copy_context
from typing import Any, Generic, Protocol, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

IDLE_TASKS = 256

Work = tuple[Callable[..., Awaitable[None]], tuple[Any, ...]]


class Promise(Protocol[T]):
    """A value to come. One task awaits it; if that is cancelled, nobody has the value any more."""

    def done(self) -> bool: ...

    def set_result(self, value: T, /) -> None: ...

    def __await__(self) -> Generator[Any, Any, T]: ...


def promise() -> Promise[Any]:
    """On asyncio its own future: a turn waits six times, and an event of anyio costs some 3 µs more each time."""
    try:
        return asyncio.get_running_loop().create_future()
    except RuntimeError:
        return _EventPromise()


def fulfil(promised: Promise[T], value: T) -> None:
    """Give the value to the task that waits, now or later, unless it was cancelled."""
    if not promised.done():
        promised.set_result(value)


class _EventPromise:
    """A promise on any event loop."""

    __slots__ = ("_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()

    def done(self) -> bool:
        return self._event.is_set()

    def set_result(self, value: Any) -> None:
        self._value = value
        self._event.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from self._event.wait().__await__()
        return self._value


class TaskPool:
    """Runs coroutines like a task group, but lets a task that is done take the next one: waking costs a quarter of
    starting. What is run must not raise: what it raises ends `run`.

    Every piece of work begins in the context of `run`, so that nothing of its caller's (a turn, a log binding) clings
    to it. Owned by the task that runs `run`.
    """

    def __init__(self) -> None:
        self._idle: list[Promise[Work]] = []
        self._group: TaskGroup | None = None
        self._context: Context | None = None
        self._early: list[Work] = []

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled."""
        async with anyio.create_task_group() as group:
            self._group, self._context = group, copy_context()
            for work, args in self._early:
                self.start_soon(work, *args)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._group = None

    def start_soon(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run it soon. Before `run` it waits; after it, it is not run at all."""
        if self._idle:
            fulfil(self._idle.pop(), (work, args))
        elif self._group is not None and self._context is not None:
            self._context.copy().run(self._group.start_soon, self._serve, (work, args))
        elif self._context is None:
            self._early.append((work, args))

    async def _serve(self, first: Work) -> None:
        work, args = first
        while True:
            await work(*args)
            structlog.contextvars.clear_contextvars()
            if len(self._idle) >= IDLE_TASKS or self._group is None:
                return
            next_work = promise()
            self._idle.append(next_work)
            work, args = await next_work


class SerialWorkers(Generic[K, T]):
    """Runs `work(key, item)` for every item put in. `work` must not raise: what it raises ends `run`.

    Owned by the task that runs `run`; `put` may be called from any task of the loop, before `run` too.
    """

    def __init__(self, work: Callable[[K, T], Awaitable[None]]) -> None:
        self._work = work
        self._queues: dict[K, deque[T]] = {}
        self._tasks = TaskPool()
        self._idle = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled."""
        await self._tasks.run(task_status=task_status)

    def put(self, key: K, item: T) -> None:
        """Add an item behind those of its key."""
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(item)
            return
        self._queues[key] = deque((item,))
        self._tasks.start_soon(self._drain, key)

    def waiting(self, key: K) -> int:
        """Items of this key that are not done, the one at work included."""
        return len(self._queues.get(key, ()))

    @property
    def active(self) -> int:
        """Keys that have items."""
        return len(self._queues)

    async def wait_idle(self) -> None:
        """Return once no key has an item."""
        while self._queues:
            await self._idle.wait()

    async def _drain(self, key: K) -> None:
        queue = self._queues[key]
        while queue:
            await self._work(key, queue[0])
            queue.popleft()
        del self._queues[key]
        if not self._queues:
            self._idle.set()
            self._idle = anyio.Event()
