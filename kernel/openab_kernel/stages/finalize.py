"""Stage 11: tell everybody how it ended. Nothing here raises into the caller: an answer may be out already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import structlog

from openab_kernel.facts.turn import ChannelTurnResult
from openab_kernel.observability.observers import Observers
from openab_kernel.stages.ingest import answer
from openab_kernel.stages.trail import Trail

log = structlog.get_logger("openab_kernel.finalize")

OnFinalize = Callable[[ChannelTurnResult], "Awaitable[None] | None"]


async def finalize(
    trail: Trail,
    result: ChannelTurnResult,
    on_finalize: OnFinalize | None,
    observers: Observers,
    close: Callable[[], Awaitable[Any]] | None = None,
) -> ChannelTurnResult:
    """Close the turn in the store, await `on_finalize` once, tell the observers. Shielded from cancellation.

    Returns:
        The result, with `finalize_error` if something here raised.
    """
    trail.begin("finalize")
    error: Exception | None = None
    with anyio.CancelScope(shield=True):
        if close is not None:
            error = await _caught(close)
        if on_finalize is not None:
            error = await _caught(lambda: answer(on_finalize(result))) or error
    if error is not None:
        trail.fail("finalize", error)
        result = result.model_copy(update={"finalize_error": error})
        observers.message_ended(result)
        return result
    observers.message_ended(result)
    trail.done("finalize")
    return result


async def _caught(act: Callable[[], Awaitable[Any]]) -> Exception | None:
    try:
        await act()
    except Exception as error:
        log.error("finalize.failed", exc_info=error)
        return error
    return None
