"""The kernel's side of a channel, as far as the tests of one need it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Literal

import anyio

from openab_gateway_ws.channel import GatewayChannel
from openab_gateway_ws.protocol import EventFrame
from openab_kernel.facts.outbound import Destination, TextSend

MakeChannel = Callable[..., GatewayChannel]


class FakeRuntime:
    """Implements `ChannelRuntime`. `take` is what happens to an event; those that it took are in `taken`."""

    def __init__(self) -> None:
        self.taken: list[EventFrame] = []
        self.health: list[tuple[str, str]] = []
        self.is_draining = False
        self.take: Callable[[EventFrame], Awaitable[None]] = _do_nothing
        self._changed = anyio.Event()

    async def receive(self, raw: EventFrame) -> None:
        await self.take(raw)
        self.taken.append(raw)
        self._note_change()

    def set_health(self, state: Literal["starting", "ready", "degraded", "down"], detail: str = "") -> None:
        self.health.append((state, detail))
        self._note_change()

    @property
    def texts(self) -> list[str]:
        return [event.content.text for event in self.taken]

    async def until_taken(self, count: int) -> None:
        while len(self.taken) < count:
            await self._changed.wait()

    async def until_health(self, state: str, times: int = 1) -> None:
        while [known for known, _ in self.health].count(state) < times:
            await self._changed.wait()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _do_nothing(_event: EventFrame) -> None:
    pass


@asynccontextmanager
async def running(channel: GatewayChannel, runtime: FakeRuntime | None = None) -> AsyncIterator[FakeRuntime]:
    """Run the channel; inside the block it is connected. It is cancelled at the end."""
    runtime = runtime or FakeRuntime()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(channel.run, runtime)
            await runtime.until_health("ready")
            yield runtime
            group.cancel_scope.cancel()


def destination(**changes: str | None) -> Destination:
    fields: dict[str, str | None] = {
        "channel": "gateway",
        "account_id": "telegram",
        "conversation_id": "telegram:42",
        "to": "42",
        "source_event_id": "evt_1",
        "source_message_id": "7",
    }
    return Destination.model_validate(fields | changes)


def text_send(text: str = "plain", part: int = 0, **changes: str | None) -> TextSend:
    reply_to_id = changes.pop("reply_to_id", None)
    return TextSend(
        destination=destination(**changes),
        text=text,
        idempotency_key=sha256(f"intent:{part}".encode()).hexdigest(),
        part_index=part,
        part_count=part + 1,
        intent_id="intent",
        reply_to_id=reply_to_id,
    )
