from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Request, TextMessage

from openab_kernel.clock import SystemClock
from openab_kernel.net.websocket import ConnectionLost, ConnectRefused, MessageTooBig, connect
from openab_kernel.testing.clock import ManualClock
from tests.plugins.gateway_ws.fake_gateway import FakeGateway

CANARY = "s3cret-canary"
KIB = 1024


@pytest.fixture
def peer() -> Iterator[FakeGateway]:
    with FakeGateway() as peer:
        yield peer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_messages_go_both_ways(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await socket.send_text('{"text":"grüße 🐟"}')
            assert await peer.frame() == '{"text":"grüße 🐟"}'
            await peer.send("text", b"bytes")
            assert await socket.receive() == "text"
            assert await socket.receive() == b"bytes"


async def test_headers_path_and_query_reach_the_peer(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url + "?token=a%2Bb&ö=1", {"Authorization": "Bearer tökén"}, clock=clock):
            arrival = await peer.arrival()
            assert arrival.path == "/ws?token=a%2Bb&%C3%B6=1"
            assert arrival.headers["Authorization"].encode("latin-1").decode() == "Bearer tökén"
            assert arrival.headers["Host"] == peer.url.removeprefix("ws://").removesuffix("/ws")


async def test_a_message_that_comes_with_the_handshake_is_not_lost(peer, clock) -> None:
    peer.greeting = [{"n": 1}, {"n": 2}]
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            assert [await socket.receive(), await socket.receive()] == ['{"n": 1}', '{"n": 2}']


@pytest.mark.parametrize("size", [65_535, 65_536, 700 * KIB])
async def test_a_big_message_arrives_whole(peer, clock, size: int) -> None:
    text = "ä" * (size // 2)
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await peer.send(text, [text[:10], "", text[10:]])
            assert await socket.receive() == text
            assert await socket.receive() == text


async def test_a_message_over_the_limit_is_thrown_away_and_the_connection_goes_on(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock, max_message_bytes=10) as socket:
            await peer.arrival()
            await peer.send("ä" * 5, "ä" * 5 + "x", ["x"] * 2000, b"\0" * 11, "next")
            assert await socket.receive() == "ä" * 5
            for _ in range(3):
                with pytest.raises(MessageTooBig):
                    await socket.receive()
            assert await socket.receive() == "next"


async def test_a_pong_that_nobody_asked_for_does_no_harm(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await peer.pong(b"heartbeat")
            await peer.send("next")
            assert await socket.receive() == "next"


async def test_a_ping_of_the_peer_is_answered_by_whoever_receives(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket, anyio.create_task_group() as group:
            await peer.arrival()
            group.start_soon(receive_all, socket.receive)
            await peer.ping()
            group.cancel_scope.cancel()


async def test_a_quiet_peer_that_answers_pings_is_kept(clock) -> None:
    pings = 0

    async def answer_pings(stream: ByteStream) -> None:
        nonlocal pings
        wire = await accept(stream)
        while True:
            wire.receive_data(await stream.receive())
            for event in wire.events():
                if isinstance(event, CloseConnection):
                    return
                assert isinstance(event, Ping)
                pings += 1
                await stream.send(wire.send(event.response()))

    with anyio.fail_after(5):
        async with (
            serve(answer_pings) as url,
            connect(url, clock=clock, idle_seconds=20) as socket,
            anyio.create_task_group() as group,
        ):
            group.start_soon(receive_all, socket.receive)
            await anyio.wait_all_tasks_blocked()
            for n in range(1, 5):
                await clock.advance(20)
                await clock.until_waiting(3)  # the ping's write, the wait for its answer, and the wait after that
                assert pings == n
            group.cancel_scope.cancel()


async def test_a_peer_that_answers_nothing_is_given_up_after_two_idle_times(clock) -> None:
    async def stay_silent(stream: ByteStream) -> None:
        await accept(stream)
        await receive_all(stream.receive)

    with anyio.fail_after(5):
        async with serve(stay_silent) as url, connect(url, clock=clock, idle_seconds=20) as socket:
            lost: list[str] = []

            async def receive() -> None:
                with pytest.raises(ConnectionLost) as raised:
                    await socket.receive()
                lost.append(str(raised.value))

            async with anyio.create_task_group() as group:
                group.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
                await clock.advance(39)
                assert not lost
                await clock.advance(1)
            assert lost == ["no sign of life for 40 s"]


async def test_a_busy_receiver_does_not_make_the_peer_dead(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await peer.send("one", "two")
            assert await socket.receive() == "one"
            await clock.advance(3600)
            assert await socket.receive() == "two"


async def test_a_flood_does_not_keep_others_from_running(clock) -> None:
    async def flood(stream: ByteStream) -> None:
        wire = await accept(stream)
        await stream.send(b"".join(wire.send(TextMessage(data="x")) for _ in range(100)))
        await stream.receive()

    async def note() -> None:
        noted.append(received)

    noted: list[int] = []
    received = 0
    with anyio.fail_after(5):
        async with serve(flood) as url, connect(url, clock=clock) as socket, anyio.create_task_group() as group:
            await socket.receive()
            group.start_soon(note)
            for received in range(1, 100):  # noqa: B007  # note() reads it
                await socket.receive()
            assert noted
            assert noted[0] < 50


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_a_connection_that_the_peer_ends_is_lost(peer, clock, how: str) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await getattr(peer, how)()
            with pytest.raises(ConnectionLost):
                await socket.receive()
            with pytest.raises(ConnectionLost) as raised:
                await socket.send_text("late")
            assert not raised.value.was_started
        assert await peer.ending() == (1000 if how == "close" else None)


async def test_the_end_of_the_block_says_goodbye_after_all_that_was_sent(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            await peer.send("unread " * 1000)
            for n in range(50):
                await socket.send_text(f'{{"n":{n}}}')
        assert [await peer.frame() for _ in range(50)] == [f'{{"n":{n}}}' for n in range(50)]
        assert await peer.ending() == 1000


async def test_a_cancelled_receiver_closes_the_connection_properly(peer, clock) -> None:
    async def listen() -> None:
        async with connect(peer.url, clock=clock) as socket:
            await socket.send_text('"here"')
            await receive_all(socket.receive)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await peer.frame()
            group.cancel_scope.cancel()
        assert await peer.ending() == 1000


async def test_a_cancelled_send_leaves_no_half_frame(clock) -> None:
    big = "x" * (8 * KIB * KIB)
    may_read = anyio.Event()
    messages = [""]

    async def read_late(stream: ByteStream) -> None:
        wire = await accept(stream)
        await may_read.wait()
        while True:
            wire.receive_data(await stream.receive())
            for event in wire.events():
                if isinstance(event, CloseConnection):
                    return
                assert isinstance(event, TextMessage)
                messages[-1] += event.data
                if event.message_finished:
                    messages.append("")

    with anyio.fail_after(5):
        async with serve(read_late) as url:
            async with connect(url, clock=clock) as socket:
                async with anyio.create_task_group() as group:
                    group.start_soon(socket.send_text, big)
                    await anyio.wait_all_tasks_blocked()
                    group.cancel_scope.cancel()
                    may_read.set()
                await socket.send_text("next")
            assert [len(message) for message in messages] == [len(big), len("next"), 0]


@pytest.mark.parametrize("peer_answers", [True, False])
async def test_the_goodbye_of_the_peer_is_waited_for_but_not_for_long(clock, peer_answers: bool) -> None:
    heard, may_answer, done = anyio.Event(), anyio.Event(), anyio.Event()

    async def say_goodbye_late(stream: ByteStream) -> None:
        wire = await accept(stream)
        while not heard.is_set():
            wire.receive_data(await stream.receive())
            if any(isinstance(event, CloseConnection) for event in wire.events()):
                heard.set()
        await may_answer.wait()

    async def connect_and_leave(url: str) -> None:
        async with connect(url, clock=clock):
            pass
        done.set()

    with anyio.fail_after(5):
        async with serve(say_goodbye_late) as url, anyio.create_task_group() as group:
            group.start_soon(connect_and_leave, url)
            await heard.wait()
            await anyio.wait_all_tasks_blocked()
            assert not done.is_set()
            if peer_answers:
                may_answer.set()
            else:
                await clock.advance(2)
            await done.wait()


async def test_sends_of_several_tasks_do_not_mix(peer, clock) -> None:
    with anyio.fail_after(5):
        async with connect(peer.url, clock=clock) as socket:
            await peer.arrival()
            async with anyio.create_task_group() as group:
                for n in range(10):
                    group.start_soon(socket.send_text, f'"{n * 100_000}"')
            assert {await peer.frame() for _ in range(10)} == {f'"{n * 100_000}"' for n in range(10)}


async def test_a_peer_that_takes_nothing_more_is_given_up_and_the_send_may_have_begun(clock) -> None:
    async def take_nothing(stream: ByteStream) -> None:
        await accept(stream)
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with serve(take_nothing) as url, connect(url, clock=clock) as socket:
            started: list[bool] = []

            async def send() -> None:
                with pytest.raises(ConnectionLost) as raised:
                    await socket.send_text("x" * (32 * KIB * KIB))
                started.append(raised.value.was_started)

            async with anyio.create_task_group() as group:
                group.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                await clock.advance(10)
            assert started == [True]


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_refused_handshake_names_the_status(peer, clock, status: int) -> None:
    peer.refuse_with = status
    with anyio.fail_after(5), pytest.raises(ConnectRefused, match=f"HTTP status {status}") as raised:
        async with connect(f"{peer.url}?token={CANARY}", {"Authorization": CANARY}, clock=clock):
            pass
    assert raised.value.status == status
    assert CANARY not in repr(raised.value)


async def test_a_port_where_nobody_listens_is_refused(clock) -> None:
    async with serve(accept) as url:
        pass
    with anyio.fail_after(5), pytest.raises(ConnectRefused) as raised:
        async with connect(url, clock=clock):
            pass
    assert raised.value.status is None


async def test_a_peer_that_never_answers_the_handshake_is_refused_in_time(clock) -> None:
    async def say_nothing(stream: ByteStream) -> None:
        await receive_all(stream.receive)

    async def attempt(url: str) -> None:
        with pytest.raises(ConnectRefused):
            async with connect(url, clock=clock):
                pass

    with anyio.fail_after(5):
        async with serve(say_nothing) as url, anyio.create_task_group() as group:
            group.start_soon(attempt, url)
            await clock.until_waiting(2)
            await anyio.wait_all_tasks_blocked()
            await clock.advance(10)


@pytest.mark.parametrize("url", ["http://h/", "ws:///path", "127.0.0.1", "ws://h:port/"])
async def test_an_address_that_is_none_is_a_value_error(clock, url: str) -> None:
    with pytest.raises(ValueError, match=r"WebSocket URL|[Pp]ort"):
        async with connect(url, clock=clock):
            pass


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX: y", f" {CANARY}", f"{CANARY}\x00"])
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(clock, value: str) -> None:
    with pytest.raises(ValueError, match="header Authorization") as raised:
        async with connect("ws://h/", {"Authorization": value}, clock=clock):
            pass
    assert CANARY not in repr(raised.value)


async def test_no_library_logs_the_query(peer, clock, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    with anyio.fail_after(5):
        async with connect(f"{peer.url}?token={CANARY}", {"Authorization": CANARY}, clock=clock):
            await peer.arrival()
        await peer.ending()
    ours = [record for record in caplog.records if not record.name.startswith("websockets")]
    assert not [record for record in ours if CANARY in record.getMessage()]


@settings(deadline=None, max_examples=30)
@given(st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: b"HTTP/1.1 101 X\r\n" + rest)))
def test_whatever_answers_the_handshake_it_is_refused(answer: bytes) -> None:
    async def attempt() -> None:
        async def say(stream: ByteStream) -> None:
            await stream.receive()
            await stream.send(answer)

        async with serve(say) as url:
            with pytest.raises(ConnectRefused):
                async with connect(url, clock=SystemClock()):
                    pass

    anyio.run(attempt)


@settings(deadline=None, max_examples=30)
@given(st.binary(min_size=1, max_size=300))
def test_whatever_bytes_follow_the_handshake_the_connection_is_lost_or_goes_on(garbage: bytes) -> None:
    async def attempt() -> None:
        async def say(stream: ByteStream) -> None:
            await accept(stream)
            await stream.send(garbage)

        async with serve(say) as url, connect(url, clock=SystemClock()) as socket:
            with pytest.raises(ConnectionLost):
                await receive_all(socket.receive)

    anyio.run(attempt)


@asynccontextmanager
async def serve(attend: Callable[[ByteStream], Awaitable[object]]) -> AsyncIterator[str]:
    """A peer below the level of WebSockets; gives its address. What the peer does ends with the block."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:

        async def attend_and_close(stream: ByteStream) -> None:
            async with stream:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await attend(stream)

        group.start_soon(listener.serve, attend_and_close)
        yield f"ws://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"
        group.cancel_scope.cancel()


async def accept(stream: ByteStream) -> WSConnection:
    """The server's side of the handshake."""
    wire = WSConnection(ConnectionType.SERVER)
    while True:
        wire.receive_data(await stream.receive())
        for event in wire.events():
            assert isinstance(event, Request)
            await stream.send(wire.send(AcceptConnection()))
            return wire


async def receive_all(receive: Callable[[], Awaitable[object]]) -> None:
    while True:
        await receive()
