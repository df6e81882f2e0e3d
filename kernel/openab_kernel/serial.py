"""One worker a key: items of one key in order and one at a time, keys beside each other.

Outbound lanes and inbound conversations both work this way. A key without items has no task and no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SerialWorkers(Generic[K, T]):
    """Runs `work(key, item)` for every item put in. `work` must not raise: what it raises ends `run`.

    Owned by the task that runs `run`; `put` may be called from any task of the loop, before `run` too.
    """

    def __init__(self, work: Callable[[K, T], Awaitable[None]]) -> None:
        self._work = work
        self._queues: dict[K, deque[T]] = {}
        self._group: TaskGroup | None = None
        self._idle = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            for key in self._queues:
                group.start_soon(self._drain, key)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._group = None

    def put(self, key: K, item: T) -> None:
        """Add an item behind those of its key."""
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(item)
            return
        self._queues[key] = deque((item,))
        if self._group is not None:
            self._group.start_soon(self._drain, key)

    def waiting(self, key: K) -> int:
        """Items of this key that are not done, the one at work included."""
        return len(self._queues.get(key, ()))

    @property
    def active(self) -> int:
        """Keys that have items."""
        return len(self._queues)

    def withdraw(self, key: K, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out the items of a key that match and have not begun."""
        queue = self._queues.get(key)
        if queue is None:
            return []
        head, rest = queue[0], list(queue)[1:]
        queue.clear()
        queue.append(head)
        queue.extend(item for item in rest if not unwanted(item))
        return [item for item in rest if unwanted(item)]

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
