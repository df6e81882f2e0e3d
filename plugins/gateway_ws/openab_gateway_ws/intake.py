"""Events on their way to the kernel: in order within a conversation, conversations beside each other."""

from __future__ import annotations

import anyio
import structlog

from openab_gateway_ws.protocol import EventFrame, scoped_id
from openab_kernel import SerialWorkers
from openab_kernel.interfaces.channel import ChannelRuntime

MAX_EVENTS = 1000
MAX_SIZE = 32 * 1024 * 1024

log = structlog.get_logger("openab_gateway_ws")


class Intake:
    """A queue for each conversation, bounded over all of them. While it is full the reader waits.

    Then answers are not read either, and the gateway's own buffer fills up: it is told to slow down by TCP alone.
    """

    def __init__(self, runtime: ChannelRuntime, *, max_events: int = MAX_EVENTS, max_size: int = MAX_SIZE) -> None:
        self._runtime = runtime
        self._max_events = max_events
        self._max_size = max_size
        self._events = 0
        self._size = 0
        self._has_shrunk = anyio.Event()
        self._workers: SerialWorkers[str, tuple[EventFrame, int]] = SerialWorkers(self._take)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._workers.run()

    async def put(self, event: EventFrame, size: int) -> None:
        """Queue an event of so many characters. One that is bigger than the whole queue passes alone."""
        while self._events and (self._events >= self._max_events or self._size + size > self._max_size):
            await self._has_shrunk.wait()
        self._events += 1
        self._size += size
        self._workers.put(scoped_id(event.platform, event.channel.id), (event, size))

    async def _take(self, _conversation: str, item: tuple[EventFrame, int]) -> None:
        event, size = item
        try:
            if self._runtime.is_draining:
                log.warning("event.not_taken", reason="draining", **_ids(event))
            else:
                await self._runtime.receive(event)
        except Exception as error:  # the outermost loop for this event: the next one is taken all the same
            # No traceback: it may quote the text, and the stage that raised has told the kernel's own log.
            log.error("event.not_taken", reason=type(error).__name__, **_ids(event))
        finally:
            self._events -= 1
            self._size -= size
            self._has_shrunk.set()
            self._has_shrunk = anyio.Event()


def _ids(event: EventFrame) -> dict[str, str]:
    return {"channel": "gateway", "platform": event.platform, "event_id": event.event_id}
