"""A gateway on loopback that is not our code: the `websockets` server, in a thread of its own with its own loop.

So it is the same peer for a client on asyncio and one on trio. It writes down what it gets, and answers as it is told.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from typing import Any, Literal, Self, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

WAIT_SECONDS = 5
T = TypeVar("T")


class ReplyFrame(BaseModel):
    """A reply as a strict gateway reads it: nothing missing, nothing null, nothing that it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True)

    class Channel(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)

        id: str
        thread_id: str = ""

    class Content(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)

        type: Literal["text"]
        text: str

    schema_: Literal["openab.gateway.reply.v1"] = Field(alias="schema")
    reply_to: str
    platform: str
    channel: Channel
    content: Content
    command: str = ""
    request_id: str = ""
    quote_message_id: str = ""
    target_message_id: str = ""


class Arrival:
    """One connection as the gateway saw it: the request's path and headers, and later how it was closed."""

    def __init__(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.socket = socket
        self.path = socket.request.path
        self.headers = socket.request.headers


class FakeGateway:
    """Use as a context manager. Methods with `async` are awaited by the test, on whatever loop it runs.

    `answer` is called with every frame, read as JSON, and gives the frames to send back. `refuse_with`, while it is
    set, is the HTTP status that every handshake gets. `refusals` counts them. `greeting` is sent at every connect.
    """

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda frame: []
        self.refuse_with: int | None = None
        self.refusals: queue.Queue[int] = queue.Queue()
        self.greeting: list[dict[str, Any]] = []
        self._frames: queue.Queue[str] = queue.Queue()
        self._arrivals: queue.Queue[Arrival] = queue.Queue()
        self._endings: queue.Queue[int | None] = queue.Queue()
        self._current: Arrival | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake gateway")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WAIT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/ws"

    async def arrival(self) -> Arrival:
        """The next connection; from then on the one that `send` and `drop` are about."""
        self._current = await self._next(self._arrivals)
        return self._current

    async def frame(self) -> str:
        """The next frame from the kernel, as it was on the wire."""
        return await self._next(self._frames)

    async def json(self) -> dict[str, Any]:
        """The next frame from the kernel, checked if it is a reply."""
        value = json.loads(await self.frame())
        assert isinstance(value, dict)
        if value["schema"] != "openab.gateway.client_hello.v1":
            ReplyFrame.model_validate(value)
        return value

    async def ending(self) -> int | None:
        """The close code of the connection that ended next; None: it broke."""
        return await self._next(self._endings)

    async def refusal(self) -> int:
        """The status that the next refused handshake got."""
        return await self._next(self.refusals)

    def drain(self) -> list[str]:
        """The frames that are there now."""
        frames: list[str] = []
        while self.has_frames():
            frames.append(self._frames.get())
        return frames

    def has_frames(self) -> bool:
        return not self._frames.empty()

    async def send(self, *frames: Any) -> None:
        """Send each on the current connection: a dict as JSON, text and bytes as they are, a list in pieces."""
        for frame in frames:
            await self._run(self._socket.send(json.dumps(frame) if isinstance(frame, dict) else frame))

    async def pong(self, data: bytes) -> None:
        """A pong that nobody asked for."""
        await self._run(self._socket.pong(data))

    async def ping(self) -> None:
        """A ping, and the wait for its answer."""

        async def ping() -> None:
            await (await self._socket.ping())

        await self._run(ping())

    async def drop(self) -> None:
        """Cut the connection without a word."""
        self._loop.call_soon_threadsafe(self._socket.transport.abort)

    async def close(self, code: int = 1000) -> None:
        """Say goodbye; the kernel's answer is not waited for."""
        asyncio.run_coroutine_threadsafe(self._socket.close(code), self._loop)

    @property
    def _socket(self) -> ServerConnection:
        assert self._current is not None, "await arrival() first"
        return self._current.socket

    async def _run(self, work: Coroutine[Any, Any, object]) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        await anyio.to_thread.run_sync(lambda: future.result(WAIT_SECONDS))

    async def _next(self, source: queue.Queue[T]) -> T:
        return await anyio.to_thread.run_sync(lambda: source.get(timeout=WAIT_SECONDS))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with serve(
            self._attend, "127.0.0.1", 0, process_request=self._process, max_size=None, ping_interval=None
        ) as server:
            self._port = next(iter(server.sockets)).getsockname()[1]
            self._started.set()
            await self._stopping.wait()

    def _process(self, socket: ServerConnection, request: Request) -> Response | None:
        if self.refuse_with is None:
            return None
        self.refusals.put(self.refuse_with)
        return socket.respond(HTTPStatus(self.refuse_with), "no\n")

    async def _attend(self, socket: ServerConnection) -> None:
        self._arrivals.put(Arrival(socket))
        try:
            for frame in self.greeting:
                await socket.send(json.dumps(frame))
            async for text in _texts(socket):
                self._frames.put(text)
                for answer in self.answer(json.loads(text)):
                    await socket.send(json.dumps(answer))
        except ConnectionClosed:
            pass
        finally:
            await socket.wait_closed()
            self._endings.put(socket.close_code if socket.close_code != 1006 else None)


async def _texts(socket: ServerConnection) -> AsyncIterator[str]:
    async for message in socket:
        assert isinstance(message, str)
        yield message


def event(**changes: Any) -> dict[str, Any]:
    """A good event. A change names a field by its path with `__` for the dot; `...` takes the field out."""
    frame: dict[str, Any] = {
        "schema": "openab.gateway.event.v1",
        "event_id": "evt_1",
        "timestamp": "2026-07-01T12:00:00Z",
        "platform": "telegram",
        "message_id": "7",
        "channel": {"id": "42", "type": "private"},
        "sender": {"id": "u1", "name": "ann", "display_name": "Ann", "is_bot": False},
        "content": {"type": "text", "text": "hello"},
    }
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = frame
        for key in way:
            place = place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return frame


def answer_to(frame: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A gateway's response to one of our frames; a success unless said otherwise."""
    return {"schema": "openab.gateway.response.v1", "request_id": frame["request_id"], "success": True} | fields


def hello(**abilities: Any) -> dict[str, Any]:
    """A gateway's hello that speaks of telegram alone."""
    return {
        "schema": "openab.gateway.hello.v1",
        "protocol_version": 1,
        "capabilities": {"telegram": abilities},
    }
