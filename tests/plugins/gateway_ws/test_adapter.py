"""Every test runs the channel against the fake gateway: what counts is what is on the wire."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from openab_gateway_ws.channel import GatewayChannel
from openab_kernel import PlatformMessageNotDispatchedError, SendRejected, SendThrottled, SendUnknown
from openab_kernel.facts.outbound import Receipt, TextSend
from openab_kernel.interfaces.message_adapter import MessageAdapter
from openab_kernel.testing.clock import ManualClock
from tests.plugins.gateway_ws.fake_gateway import FakeGateway, answer_to, event, hello
from tests.plugins.gateway_ws.fake_kernel import FakeRuntime, MakeChannel, destination, running, text_send

FIXTURE = (Path(__file__).parents[3] / "docs" / "fixtures" / "gateway-reply-text-v1.json").read_text()


def acknowledge(frame: dict[str, Any]) -> list[dict[str, Any]]:
    return [answer_to(frame, message_id="m1")] if "request_id" in frame else []


def keep_silent(frame: dict[str, Any]) -> list[dict[str, Any]]:
    return []


class Sending:
    """A call in a task of its own, so that a test can see that it waits, and then what it gave."""

    def __init__(self, call: Callable[[], Awaitable[Any]]) -> None:
        self._call = call
        self.result: Any = None
        self.error: Exception | None = None
        self.is_done = False

    async def run(self) -> None:
        try:
            self.result = await self._call()
        except Exception as error:
            self.error = error
        self.is_done = True


async def greet(gateway: FakeGateway, runtime: FakeRuntime, **abilities: Any) -> None:
    """Say hello, and wait until it has been read: an event behind it has been taken."""
    taken = len(runtime.taken)
    await gateway.send(hello(**abilities), event())
    await runtime.until_taken(taken + 1)


async def send_while_clock_moves(
    adapter: MessageAdapter, send: TextSend, gateway: FakeGateway, clock: ManualClock, seconds: float
) -> Sending:
    """Send, wait for the frame, and let time pass: just less than `seconds`, then the rest."""
    sending = Sending(lambda: adapter.send_text(send))
    async with anyio.create_task_group() as group:
        group.start_soon(sending.run)
        await gateway.frame()
        await clock.advance(seconds - 0.25)
        assert not sending.is_done
        await clock.advance(0.25)
    return sending


async def test_a_plain_send_is_the_fixture_byte_for_byte(make_channel: MakeChannel, gateway, clock) -> None:
    channel = make_channel()
    async with running(channel):
        receipt = await channel.message_adapter.send_text(text_send())
        assert await gateway.frame() == FIXTURE
    assert receipt == Receipt(sent_at=int(clock.now().timestamp() * 1000), confirmed=False)


async def test_a_send_carries_platform_thread_and_quote(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel()
    send = text_send(
        "grüße\n", conversation_id="li%25ne:x", to="a:b", thread_id="t1", source_event_id=None, reply_to_id="m0"
    )
    async with running(channel):
        receipt = await channel.message_adapter.send_text(send)
        assert await gateway.frame() == (
            '{"schema":"openab.gateway.reply.v1","reply_to":"","platform":"li%ne","channel":{"id":"a:b","thread_id":"t1"},'
            '"content":{"type":"text","text":"grüße\\n"},"quote_message_id":"m0"}'
        )
    assert (receipt.thread_id, receipt.reply_to_id) == ("t1", "m0")


async def test_a_conversation_of_no_platform_is_the_accounts(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel(platform="feishu")
    async with running(channel):
        await channel.message_adapter.send_text(text_send(conversation_id="42", account_id="feishu"))
        assert (await gateway.json())["platform"] == "feishu"


async def test_a_promised_answer_is_waited_for_and_gives_the_receipt(make_channel: MakeChannel, gateway, clock) -> None:
    channel = make_channel()
    gateway.answer = acknowledge
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, send_ack=True)
        send = text_send(reply_to_id="m0")
        receipt = await channel.message_adapter.send_text(send)
        assert re.fullmatch(r"req_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", (await gateway.json())["request_id"])
    assert receipt.confirmed
    assert receipt.primary_platform_message_id == "m1"
    assert receipt.platform_message_ids == ("m1",)
    assert [(part.platform_message_id, part.index, part.reply_to_id) for part in receipt.parts] == [("m1", 0, "m0")]


async def test_answers_to_nobody_and_answers_given_twice_disturb_no_other(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel()
    gateway.answer = lambda frame: [answer_to({"request_id": "req_gone"}), *acknowledge(frame), *acknowledge(frame)]
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, send_ack=True)
        for part in range(3):
            assert (await channel.message_adapter.send_text(text_send(part=part))).confirmed


async def test_the_same_part_asks_under_the_same_id_and_another_under_another(
    make_channel: MakeChannel, gateway
) -> None:
    channel = make_channel()
    gateway.answer = acknowledge
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, send_ack=True)
        for part in (0, 0, 1):
            await channel.message_adapter.send_text(text_send(part=part))
        frames = [await gateway.frame() for _ in range(3)]
    assert frames[0] == frames[1] != frames[2]


async def test_a_promised_answer_that_never_comes_is_unknown_each_time(
    make_channel: MakeChannel, gateway, clock
) -> None:
    """delivery 12.16"""
    channel = make_channel("structured", gateway_ack_timeout_secs=12)
    async with running(channel) as runtime:
        await gateway.arrival()
        await gateway.frame()  # our hello
        await greet(gateway, runtime, send_ack=True)
        for part in range(2):
            sending = await send_while_clock_moves(channel.message_adapter, text_send(part=part), gateway, clock, 12)
            assert isinstance(sending.error, SendUnknown)
        assert not gateway.has_frames()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_gateway_that_drops_repeats_is_asked_once_more_under_the_same_id(
    make_channel: MakeChannel, gateway, clock, answers: bool
) -> None:
    """delivery 12.16"""
    channel = make_channel("structured", gateway_ack_timeout_secs=12, hello="never")
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, send_ack=True, drops_repeats=True)
        sending = Sending(lambda: channel.message_adapter.send_text(text_send()))
        async with anyio.create_task_group() as group:
            group.start_soon(sending.run)
            first = await gateway.frame()
            await clock.until_waiting()
            if answers:
                gateway.answer = acknowledge
            await clock.advance(12)
            assert await gateway.frame() == first
            if not answers:
                await clock.until_waiting()
                await clock.advance(12)
        assert not gateway.has_frames()
    assert (sending.result is not None and sending.result.confirmed) == answers
    assert isinstance(sending.error, SendUnknown) != answers


async def test_a_repeat_waits_for_the_next_connection(make_channel: MakeChannel, gateway, clock) -> None:
    """delivery 12.16"""
    channel = make_channel("structured", hello="never")
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, send_ack=True, drops_repeats=True)
        sending = Sending(lambda: channel.message_adapter.send_text(text_send()))
        async with anyio.create_task_group() as group:
            group.start_soon(sending.run)
            first = await gateway.frame()
            gateway.answer = acknowledge
            await gateway.drop()
            await runtime.until_health("down")
            await clock.advance(1)
            assert await gateway.frame() == first
    assert sending.result is not None
    assert sending.result.confirmed


async def test_without_a_hello_a_silent_gateway_is_waited_for_once_a_connection(
    make_channel: MakeChannel, gateway, clock
) -> None:
    """delivery 12.16"""
    channel = make_channel("structured", hello="never")
    adapter = channel.message_adapter
    async with running(channel) as runtime:
        await gateway.arrival()
        sending = await send_while_clock_moves(adapter, text_send(), gateway, clock, 5)
        assert isinstance(sending.error, SendUnknown)
        for part in (1, 2):
            receipt = await adapter.send_text(text_send(part=part))
            assert "request_id" in await gateway.json()
            assert not receipt.confirmed
        await gateway.drop()
        await runtime.until_health("down")
        await clock.advance(1)
        await runtime.until_health("ready", 2)
        sending = await send_while_clock_moves(adapter, text_send(part=3), gateway, clock, 5)
        assert isinstance(sending.error, SendUnknown)


async def test_a_late_answer_shows_that_the_gateway_answers_after_all(
    make_channel: MakeChannel, gateway, clock
) -> None:
    channel = make_channel("structured", hello="never")
    adapter = channel.message_adapter
    async with running(channel) as runtime:
        await gateway.arrival()
        await send_while_clock_moves(adapter, text_send(), gateway, clock, 5)
        await gateway.send(answer_to({"request_id": "req_gone"}), event())
        await runtime.until_taken(1)
        sending = await send_while_clock_moves(adapter, text_send(part=1), gateway, clock, 5)
        assert isinstance(sending.error, SendUnknown)


async def test_streaming_in_text_mode_asks_for_the_id_that_edits_need(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel(streaming=True)
    gateway.answer = acknowledge
    async with running(channel):
        receipt = await channel.message_adapter.send_text(text_send("…"))
    assert receipt.primary_platform_message_id == "m1"


async def test_streaming_to_a_silent_gateway_gives_an_id_that_cannot_be_edited(
    make_channel: MakeChannel, gateway, clock
) -> None:
    channel = make_channel(streaming=True)
    async with running(channel):
        sending = await send_while_clock_moves(channel.message_adapter, text_send("…"), gateway, clock, 5)
        receipt = sending.result
        assert (receipt.primary_platform_message_id, receipt.confirmed) == ("gw_sent", False)
        with pytest.raises(SendRejected) as raised:
            await channel.message_adapter.edit_text(destination(), "gw_sent", "text")
        assert raised.value.code == "no_message_id"
        assert not gateway.has_frames()


@pytest.mark.parametrize(
    ("fields", "error", "attributes"),
    [
        ({"success": False, "error_code": "gone"}, SendRejected, {"code": "gone", "scope": "part", "retryable": False}),
        ({"success": False}, SendRejected, {"code": "rejected"}),
        ({"outcome": "rejected", "error_code": "blocked"}, SendRejected, {"code": "blocked"}),
        ({"success": False, "retry_after_ms": 1400}, SendThrottled, {"retry_after_seconds": 1.4, "retryable": True}),
        ({"success": False, "retry_after_ms": 0}, SendThrottled, {"retry_after_seconds": 0}),
        ({"outcome": "unknown", "success": False, "retry_after_ms": 9}, SendUnknown, {}),
    ],
)
async def test_an_answer_that_is_no_success_is_the_error_that_says_what_to_do(
    make_channel: MakeChannel, gateway, fields: dict[str, Any], error: type[Exception], attributes: dict[str, Any]
) -> None:
    channel = make_channel("structured", hello="never")
    gateway.answer = lambda frame: [answer_to(frame, error="you wrote canary", **fields)]
    async with running(channel):
        with pytest.raises(error) as raised:
            await channel.message_adapter.send_text(text_send())
    assert type(raised.value) is error
    assert {name: getattr(raised.value, name) for name in attributes} == attributes
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(("mode", "keys"), [("structured", {"hello": "never"}), ("text", {"streaming": True})])
async def test_a_connection_lost_while_an_answer_is_waited_for_is_unknown(
    make_channel: MakeChannel, gateway, mode: str, keys: dict[str, Any]
) -> None:
    channel = make_channel(mode, **keys)
    async with running(channel):
        await gateway.arrival()
        sending = Sending(lambda: channel.message_adapter.send_text(text_send()))
        async with anyio.create_task_group() as group:
            group.start_soon(sending.run)
            await gateway.frame()
            await gateway.drop()
    assert isinstance(sending.error, SendUnknown)


async def test_a_send_without_a_connection_is_proven_not_sent(make_channel: MakeChannel) -> None:
    with anyio.fail_after(5), pytest.raises(PlatformMessageNotDispatchedError) as raised:
        await make_channel().message_adapter.send_text(text_send())
    assert raised.value.retryable


async def test_ready_is_when_a_socket_is_open_and_a_frame_goes_to_the_new_one(
    make_channel: MakeChannel, gateway, clock
) -> None:
    channel = make_channel()
    adapter = channel.message_adapter

    async def send_when_ready() -> Receipt:
        await adapter.wait_until_ready()
        return await adapter.send_text(text_send("after"))

    async with running(channel) as runtime:
        await gateway.arrival()
        await adapter.wait_until_ready()
        assert adapter.is_ready
        await gateway.drop()
        await runtime.until_health("down")
        assert not adapter.is_ready
        with pytest.raises(PlatformMessageNotDispatchedError):
            await adapter.send_text(text_send("between"))
        sending = Sending(send_when_ready)
        async with anyio.create_task_group() as group:
            group.start_soon(sending.run)
            await anyio.wait_all_tasks_blocked()
            assert not sending.is_done
            await clock.advance(1)
        assert (await gateway.json())["content"]["text"] == "after"
        assert not gateway.has_frames()


@pytest.mark.parametrize(
    ("command", "text", "call"),
    [
        ("edit_message", "new", lambda adapter: adapter.edit_text(destination(thread_id="t1"), "m1", "new")),
        ("delete_message", "", lambda adapter: adapter.delete(destination(thread_id="t1"), "m1")),
        ("add_reaction", "👀", lambda adapter: adapter.add_reaction(destination(thread_id="t1"), "m1", "👀")),
        ("remove_reaction", "👀", lambda adapter: adapter.remove_reaction(destination(thread_id="t1"), "m1", "👀")),
    ],
)
@pytest.mark.parametrize("has_target", [False, True])
async def test_a_command_names_its_target_where_the_gateway_looks_for_it(
    make_channel: MakeChannel,
    gateway,
    command: str,
    text: str,
    call: Callable[[MessageAdapter], Awaitable[None]],
    has_target: bool,
) -> None:
    channel = make_channel()
    target = {"reply_to": "evt_1", "target_message_id": "m1"} if has_target else {"reply_to": "m1"}
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, supports_target_message_id=has_target)
        await call(channel.message_adapter)
        assert await gateway.json() == {
            "schema": "openab.gateway.reply.v1",
            "platform": "telegram",
            "channel": {"id": "42", "thread_id": "t1"},
            "content": {"type": "text", "text": text},
            "command": command,
            **target,
        }


async def test_typing_sends_nothing(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel()
    async with running(channel):
        await channel.message_adapter.typing(destination())
        await channel.message_adapter.send_text(text_send())
        assert await gateway.frame() == FIXTURE


async def test_an_edit_that_is_not_answered_is_taken_as_done(make_channel: MakeChannel, gateway, clock) -> None:
    channel = make_channel(streaming=True)
    editing = Sending(lambda: channel.message_adapter.edit_text(destination(), "m1", "new"))
    async with running(channel), anyio.create_task_group() as group:
        group.start_soon(editing.run)
        assert "request_id" in await gateway.json()
        await clock.advance(0.75)
        assert not editing.is_done
        await clock.advance(0.25)
    assert editing.is_done
    assert editing.error is None


async def test_an_edit_that_is_refused_says_so(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel(streaming=True)
    gateway.answer = lambda frame: [answer_to(frame, success=False, error_code="edit_cap")]
    async with running(channel):
        with pytest.raises(SendRejected) as raised:
            await channel.message_adapter.edit_text(destination(), "m1", "new")
    assert raised.value.code == "edit_cap"


async def test_reactions_need_a_message_to_go_to(make_channel: MakeChannel) -> None:
    adapter = make_channel().message_adapter
    assert adapter.capabilities(destination()).reactions
    assert not adapter.capabilities(destination(source_message_id=None)).reactions
    with pytest.raises(SendRejected):
        await adapter.add_reaction(destination(), "", "👀")


async def test_what_can_be_done_follows_the_platform_and_outlives_the_connection(
    make_channel: MakeChannel, gateway
) -> None:
    channel: GatewayChannel = make_channel()
    adapter = channel.message_adapter
    assert adapter.capabilities(destination(conversation_id="feishu:1")).text_limit.size == 4000
    async with running(channel) as runtime:
        await gateway.arrival()
        await greet(gateway, runtime, message_limit={"unit": "characters", "max": 99})
        assert adapter.capabilities(destination()).text_limit.size == 99
        await gateway.drop()
        await runtime.until_health("down")
        assert adapter.capabilities(destination()).text_limit.size == 99
