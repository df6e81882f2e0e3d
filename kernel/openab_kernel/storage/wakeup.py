"""How a thread tells the event loop that something has happened, on asyncio and on trio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import current_token


def loop_caller() -> Callable[..., Any]:
    """Give a function that any thread may call as `call(function, *args)`: the loop runs it soon, in order.

    Looks once which loop this task runs on. anyio's own `from_thread.run_sync` waits for the result, which costs
    the thread a full turn of the loop.
    """
    loop: Any = current_token().native_token
    soon: Callable[..., Any] = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    return soon
