"""Stage 8: the message is on disk, as a whole and once. Only after this may a platform be told that it arrived."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any

import anyio
import structlog

from openab_kernel.clock import Clock
from openab_kernel.errors import StoreError
from openab_kernel.facts.turn import InboundMessage, RecordedMessage
from openab_kernel.interfaces.channel import RecordOptions
from openab_kernel.interfaces.store import RecordRequest, Store
from openab_kernel.policies.retry import RECORD_DELAYS_SECONDS
from openab_kernel.stages.ingest import answer

log = structlog.get_logger("openab_kernel.record")


async def record(
    store: Store,
    request: RecordRequest,
    clock: Clock,
    on_record_error: Callable[[BaseException], Any] | None = None,
) -> RecordedMessage | None:
    """Write it, trying three times. None: the same message is on disk already.

    The commit is shielded: a caller that is cancelled is cancelled after it.

    Raises:
        StoreError: the last try failed; nothing was written.
    """
    last = len(RECORD_DELAYS_SECONDS) - 1
    for attempt, delay_seconds in enumerate(RECORD_DELAYS_SECONDS):
        if delay_seconds:
            await clock.sleep(delay_seconds)
        try:
            with anyio.CancelScope(shield=True):
                return await store.record(request)
        except StoreError as error:
            log.warning("record.failed", attempt=attempt + 1, error=str(error))
            await _tell(on_record_error, error)
            if attempt == last:
                raise
    raise AssertionError("unreachable")


async def _tell(on_record_error: Callable[[BaseException], Any] | None, error: StoreError) -> None:
    """Being told of a failed try changes nothing, whatever the listener does."""
    if on_record_error is None:
        return
    try:
        await answer(on_record_error(error))
    except Exception as raised:
        log.error("record_listener.failed", exc_info=raised)


def record_request(message: InboundMessage, options: RecordOptions | None, route_key: str) -> RecordRequest:
    """What is written for a message. Proactive ones may come again: triage alone judges repeats.

    Raises:
        ValueError: the ready turn names a session key that is blank or not trimmed.
    """
    return RecordRequest(
        message=message,
        queue_name=f"{message.channel}/{message.account_id or ''}",
        agent_id=message.session.agent_id,
        dedupe_epoch=f"{message.received_at}#{token_hex(16)}" if message.proactive else "",
        persisted_session_key=record_session_key(options, message.context.session_key, route_key),
        user_activity=message.internal_turn_source is None,
    )


def record_session_key(options: RecordOptions | None, context_key: str, route_key: str) -> str:
    """The key that session metadata is written under.

    Raises:
        ValueError: the ready turn names one that is blank or not trimmed.
    """
    if options is not None and options.session_key is not None:
        if not options.session_key or options.session_key != options.session_key.strip():
            raise ValueError("record.session_key: blank or not trimmed; leave it out or give the key itself")
        return options.session_key
    return context_key or route_key


async def run_after(after_record: Callable[[], Awaitable[None]]) -> Exception | None:
    """Await what a ready turn wants done after the commit; its error is given back, for a warning."""
    try:
        await answer(after_record())
    except Exception as error:
        log.warning("after_record.failed", exc_info=error)
        return error
    return None
