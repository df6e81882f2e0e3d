"""A message adapter that keeps what it is asked to send, and fails when it is told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, ReceiptPart, TextSend

Behaviour = Exception | Callable[[TextSend], object]


class RecordingOutbound:
    """Implements `MessageAdapter`. `sent` holds what was accepted, `attempts` all that was tried.

    Each entry of `behaviours` is used up by one send: an exception is raised, a callable is called (and awaited,
    if it gives an awaitable). With none left, sends are accepted.
    """

    def __init__(self, capabilities: ChannelCapabilities | None = None) -> None:
        self.sent: list[TextSend] = []
        self.attempts: list[TextSend] = []
        self.marks: list[tuple[str, str, str]] = []
        self.typing_calls = 0
        self.behaviours: deque[Behaviour] = deque()
        self.ready = anyio.Event()
        self.ready.set()
        self._capabilities = capabilities or ChannelCapabilities()
        self._changed = anyio.Event()

    @property
    def texts(self) -> list[str]:
        return [send.text for send in self.sent]

    async def wait_for(self, count: int) -> list[str]:
        """The texts, once so many sends were accepted."""
        while len(self.sent) < count:
            await self._changed.wait()
        return self.texts

    async def wait_for_attempts(self, count: int) -> None:
        """Return once so many sends were tried."""
        while len(self.attempts) < count:
            await self._changed.wait()

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        return self._capabilities

    @property
    def is_ready(self) -> bool:
        return self.ready.is_set()

    async def wait_until_ready(self) -> None:
        await self.ready.wait()

    async def send_text(self, send: TextSend) -> Receipt:
        self.attempts.append(send)
        self._notify()
        behaviour = self.behaviours.popleft() if self.behaviours else None
        if isinstance(behaviour, Exception):
            raise behaviour
        if behaviour is not None:
            value = behaviour(send)
            if hasattr(value, "__await__"):
                await value
        self.sent.append(send)
        self._notify()
        message_id = f"m{len(self.sent)}"
        part = ReceiptPart(platform_message_id=message_id)
        return Receipt(
            sent_at=0, primary_platform_message_id=message_id, platform_message_ids=(message_id,), parts=(part,)
        )

    async def edit_text(self, destination: Destination, message_id: str, text: str) -> None:
        self._mark("edit", message_id, text)

    async def delete(self, destination: Destination, message_id: str) -> None:
        self._mark("delete", message_id, "")

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        self._mark("add", message_id, emoji)

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        self._mark("remove", message_id, emoji)

    async def typing(self, destination: Destination) -> None:
        self.typing_calls += 1
        self._notify()

    def _mark(self, what: str, message_id: str, value: str) -> None:
        self.marks.append((what, message_id, value))
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
