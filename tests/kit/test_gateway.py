"""The gateway of the kit, with a client of ours and with bytes that are no client at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Ping, Request, TextMessage

from openab_gateway_ws.protocol import EventFrame, HelloFrame, ResponseFrame, decode_frame
from openab_kernel.clock import SystemClock
from openab_kernel.kit import KitFailed
from openab_kernel.kit.gateway import Delivered, Gateway
from openab_kernel.net.websocket import ConnectRefused, WebSocket, connect
from openab_kernel.testing.clock import ManualClock


class Place:
    """A gateway that runs, what it told, and the clock it measures with."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.arrivals = 0
        self.delivered: list[Delivered] = []
        self.gateway = Gateway(self.clock, "hello?", on_delivery=self.delivered.append, on_arrival=self._arrive)
        self.url = ""

    def _arrive(self) -> None:
        self.arrivals += 1

    def connect(self) -> Any:
        return connect(self.url, clock=SystemClock())


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place()
    async with anyio.create_task_group() as group:
        place.url = await group.start(place.gateway.run)
        with anyio.fail_after(5):
            yield place
        group.cancel_scope.cancel()


def reply(text: str, request_id: str | None = None, **more: Any) -> str:
    frame = {"schema": "openab.gateway.reply.v1", "content": {"type": "text", "text": text}, **more}
    return json.dumps(frame | ({"request_id": request_id} if request_id else {}))


async def read(socket: WebSocket) -> EventFrame | ResponseFrame | HelloFrame:
    return decode_frame(await socket.receive())


async def test_kernel_that_connects_gets_a_hello_and_a_message(place: Place) -> None:
    async with place.connect() as socket:
        hello, event = await read(socket), await read(socket)
    assert isinstance(hello, HelloFrame)
    assert hello.capabilities["kit"].send_ack
    assert isinstance(event, EventFrame)
    assert (event.platform, event.channel.type, event.sender.id, event.content.text) == (
        "kit",
        "private",
        "you",
        "hello?",
    )
    assert place.arrivals == 1


async def test_each_connection_brings_a_message_of_its_own(place: Place) -> None:
    ids = set()
    for _ in range(2):
        async with place.connect() as socket:
            await read(socket)
            event = await read(socket)
            assert isinstance(event, EventFrame)
            ids |= {event.event_id, event.message_id}
            await socket.send_text(reply("again", "r1"))
            await read(socket)
    assert len(ids) == 2
    assert [message.number for message in place.delivered] == [1, 1]


async def test_send_is_told_with_the_gap_before_it_and_acknowledged(place: Place) -> None:
    async with place.connect() as socket:
        await read(socket)
        await read(socket)
        for number, text in enumerate(["one", "two\nlines"], 1):
            await place.clock.advance(number)
            await socket.send_text(reply(text, f"r{number}"))
            answer = await read(socket)
            assert isinstance(answer, ResponseFrame)
            assert (answer.request_id, answer.verdict, answer.message_id) == (
                f"r{number}",
                "delivered",
                f"message_{number}",
            )
    assert place.delivered == [Delivered(1, 1.0, "one"), Delivered(2, 2.0, "two\nlines")]


async def test_hello_and_commands_are_no_messages(place: Place) -> None:
    async with place.connect() as socket:
        await read(socket)
        await read(socket)
        await socket.send_text(json.dumps({"schema": "openab.gateway.client_hello.v1"}))
        await socket.send_text(reply("👀", command="add_reaction"))
        await socket.send_text(reply("at last", "r1"))
        await read(socket)
    assert [message.text for message in place.delivered] == ["at last"]


async def test_everything_sent_before_a_goodbye_is_told(place: Place) -> None:
    async with place.connect() as socket:
        await read(socket)
        await read(socket)
        for number in range(100):
            await socket.send_text(reply(str(number)))
    assert [message.text for message in place.delivered] == [str(number) for number in range(100)]


async def test_who_speaks_no_websocket_or_breaks_off_disturbs_nobody(place: Place) -> None:
    port = urlsplit(place.url).port or 0
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [data async for data in stream] == []
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET /ws HT")
    async with place.connect() as socket:
        assert isinstance(await read(socket), HelloFrame)


async def test_ping_is_answered_and_a_message_in_pieces_is_one(place: Place) -> None:
    protocol = WSConnection(ConnectionType.CLIENT)
    found: list[str] = []
    async with await anyio.connect_tcp("127.0.0.1", urlsplit(place.url).port or 0) as stream:
        await stream.send(protocol.send(Request(host="127.0.0.1", target="/ws")))
        half, rest = reply("one piece")[:30], reply("one piece")[30:]
        while "Pong" not in found:
            protocol.receive_data(await stream.receive())
            for event in protocol.events():
                found.append(type(event).__name__)
                if isinstance(event, AcceptConnection):
                    await stream.send(protocol.send(TextMessage(data=half, message_finished=False)))
                    await stream.send(protocol.send(TextMessage(data=rest)))
                    await stream.send(protocol.send(Ping()))
    assert [message.text for message in place.delivered] == ["one piece"]


async def test_port_that_is_taken_is_named(place: Place) -> None:
    port = urlsplit(place.url).port or 0
    with pytest.raises(KitFailed, match=rf"port {port} of 127.0.0.1: .*; choose another with --port"):
        await place.gateway.run(port)


async def test_gateway_that_ended_listens_no_more() -> None:
    place = Place()
    async with anyio.create_task_group() as group:
        place.url = await group.start(place.gateway.run)
        group.cancel_scope.cancel()
    with pytest.raises(ConnectRefused):
        async with place.connect():
            pass
