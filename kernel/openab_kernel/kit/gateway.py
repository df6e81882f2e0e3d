"""A gateway on loopback with one person behind it: the other end of `[gateway]` (delivery.md 2.4-2.6).

To every kernel that connects it says hello, hands over what the person wrote, and acknowledges each send. There is no
task behind a connection but the one that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, Ping, Request, TextMessage
from wsproto.utilities import ProtocolError

from openab_kernel.clock import Clock
from openab_kernel.kit import KitFailed

HOST = "127.0.0.1"
PLATFORM = "kit"
PERSON = "you"

HELLO = {
    "schema": "openab.gateway.hello.v1",
    "protocol_version": 1,
    "capabilities": {PLATFORM: {"send_ack": True}},
}
PEER_IS_GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, ProtocolError)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that reached the person. `gap_seconds`: since the one before, or since the person's own."""

    number: int
    gap_seconds: float
    text: str


class Gateway:
    """Tells `on_arrival` that a kernel has connected and been handed `question`, and `on_delivery` of each message."""

    def __init__(
        self,
        clock: Clock,
        question: str,
        *,
        on_delivery: Callable[[Delivered], None],
        on_arrival: Callable[[], None] = lambda: None,
    ) -> None:
        self.clock = clock
        self.question = question
        self.on_delivery = on_delivery
        self.on_arrival = on_arrival

    async def run(self, port: int = 0, *, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; `task_status` gives the URL. Port 0: the system chooses.

        Raises:
            KitFailed: it cannot listen there.
        """
        try:
            listener = await anyio.create_tcp_listener(local_host=HOST, local_port=port)
        except OSError as error:
            raise KitFailed(f"port {port} of {HOST}: {error.strerror}; choose another with --port") from error
        async with listener:
            task_status.started(f"ws://{HOST}:{listener.extra(SocketAttribute.local_port)}/ws")
            await listener.serve(self._attend)

    async def _attend(self, stream: SocketStream) -> None:
        """Whoever breaks off, or was no WebSocket at all, is of no more interest."""
        async with stream:
            with suppress(*PEER_IS_GONE):
                await _Visit(self, stream).run()


class _Visit:
    """One kernel, from its handshake to its goodbye."""

    def __init__(self, gateway: Gateway, stream: SocketStream) -> None:
        self._gateway = gateway
        self._stream = stream
        self._protocol = WSConnection(ConnectionType.SERVER)
        self._unfinished = ""
        self._number = 0
        self._last_time = 0.0
        self._is_over = False

    async def run(self) -> None:
        async for data in self._stream:
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                await self._take(event)
            if self._is_over:
                return

    async def _take(self, event: Event) -> None:
        match event:
            case Request():
                await self._write(AcceptConnection())
                await self._welcome()
            case TextMessage(data=piece, message_finished=is_finished):
                self._unfinished += piece
                if is_finished:
                    frame, self._unfinished = self._unfinished, ""
                    await self._hear(json.loads(frame))
            case Ping():
                await self._write(event.response())
            case CloseConnection():
                self._is_over = True
                await self._write(event.response())

    async def _welcome(self) -> None:
        await self._send(HELLO)
        self._gateway.on_arrival()
        self._last_time = self._gateway.clock.monotonic()
        await self._send(person_writes(self._gateway.question))

    async def _hear(self, frame: dict[str, Any]) -> None:
        if frame["schema"] == "openab.gateway.reply.v1" and "command" not in frame:
            self._tell(frame["content"]["text"])
        if "request_id" in frame:
            await self._send(acknowledgement(frame["request_id"], f"message_{self._number}"))

    def _tell(self, text: str) -> None:
        now = self._gateway.clock.monotonic()
        gap_seconds, self._last_time = now - self._last_time, now
        self._number += 1
        self._gateway.on_delivery(Delivered(self._number, gap_seconds, text))

    async def _send(self, frame: dict[str, Any]) -> None:
        await self._write(TextMessage(data=json.dumps(frame, ensure_ascii=False)))

    async def _write(self, event: Event) -> None:
        await self._stream.send(self._protocol.send(event))


def person_writes(text: str) -> dict[str, Any]:
    """An event under ids of its own: a kernel with a memory answers it each time."""
    event_id = f"kit_{uuid4().hex}"
    return {
        "schema": "openab.gateway.event.v1",
        "event_id": event_id,
        "timestamp": "",
        "platform": PLATFORM,
        "message_id": event_id,
        "channel": {"id": "kit", "type": "private"},
        "sender": {"id": PERSON, "name": PERSON, "display_name": "You", "is_bot": False},
        "content": {"type": "text", "text": text},
    }


def acknowledgement(request_id: str, message_id: str) -> dict[str, Any]:
    return {
        "schema": "openab.gateway.response.v1",
        "request_id": request_id,
        "success": True,
        "message_id": message_id,
    }
