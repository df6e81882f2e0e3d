from __future__ import annotations

import logging
import traceback
from typing import Any

import anyio
import pytest

import openab_gateway_ws
from openab_gateway_ws.channel import GatewayChannel
from openab_gateway_ws.settings import GatewaySettings
from openab_kernel import SendError, SendRejected, SendUnknown, Services, SystemClock
from openab_kernel.testing.clock import ManualClock
from tests.plugins.gateway_ws.fake_gateway import answer_to, event, hello
from tests.plugins.gateway_ws.fake_kernel import FakeRuntime, MakeChannel, running, text_send

CANARY = "s3cret-canary"

BAD_FRAMES: list[tuple[Any, str, str]] = [
    ("not json", "not_json", ""),
    ("[]", "not_object", ""),
    ({"schema": "openab.gateway.event.v9"}, "schema", "schema"),
    (event(channel=...), "missing", "channel"),
    (event(event_id=5), "wrong_type", "event_id"),
    (event(proactive=None), "wrong_type", "proactive"),
    (event(proactive="true"), "wrong_type", "proactive"),
    (b"\x00\xff", "binary", ""),
    (hello(send_ack="yes"), "wrong_type", "capabilities.*.send_ack"),
]


class Sections:
    """Implements `Settings` for one section."""

    def __init__(self, section: GatewaySettings | None) -> None:
        self.section = section

    def get(self, kind: type[Any]) -> Any:
        assert kind is GatewaySettings
        return self.section

    def of(self, kind: type[Any]) -> Any:
        raise NotImplementedError


async def test_bad_frames_are_refused_with_a_reason_and_the_good_one_behind_them_is_taken(
    make_channel: MakeChannel, gateway, logs
) -> None:
    async with running(make_channel()) as runtime:
        await gateway.arrival()
        await gateway.send(*[frame for frame, _, _ in BAD_FRAMES], event(unheard_of="canary", content__text="good"))
        await runtime.until_taken(1)
        assert runtime.texts == ["good"]
        assert runtime.health == [("ready", "")]
    assert [entry for entry in logs if entry["event"] == "frame.refused"] == [
        {"event": "frame.refused", "log_level": "warning", "channel": "gateway", "reason": reason, "field": field}
        for _, reason, field in BAD_FRAMES
    ]
    assert not gateway.has_frames()


async def test_a_frame_that_is_too_big_is_refused_and_the_next_one_is_taken(
    make_channel: MakeChannel, gateway, logs, monkeypatch
) -> None:
    monkeypatch.setattr("openab_gateway_ws.channel.MAX_FRAME_BYTES", 1000)
    async with running(make_channel()) as runtime:
        await gateway.arrival()
        await gateway.send(event(content__text="x" * 1000), event(content__text="good"))
        await runtime.until_taken(1)
        assert runtime.texts == ["good"]
    assert [entry["reason"] for entry in logs if entry["event"] == "frame.refused"] == ["too_big"]


@pytest.mark.parametrize(
    ("mode", "choice", "says_hello"),
    [
        ("text", "auto", False),
        ("structured", "auto", True),
        ("sequential", "auto", True),
        ("text", "always", True),
        ("structured", "never", False),
    ],
)
async def test_who_says_hello(make_channel: MakeChannel, gateway, mode: str, choice: str, says_hello: bool) -> None:
    async with running(make_channel(mode, hello=choice)) as runtime:
        await gateway.arrival()
        await gateway.send(event())
        await runtime.until_taken(1)
        if says_hello:
            assert await gateway.json() == {
                "schema": "openab.gateway.client_hello.v1",
                "protocol_version": 1,
                "client_name": "openab-kernel/1.2.3",
                "requested_platforms": [],
            }
        assert not gateway.has_frames()


@pytest.mark.parametrize("answer", [hello() | {"protocol_version": 2}, hello(send_ack=1), {"schema": "nonsense"}])
async def test_a_hello_that_is_not_understood_changes_nothing(
    make_channel: MakeChannel, gateway, answer: dict[str, Any]
) -> None:
    channel = make_channel("structured")
    gateway.answer = lambda frame: [answer_to(frame, message_id="m1")] if "request_id" in frame else [answer]
    async with running(channel):
        receipt = await channel.message_adapter.send_text(text_send())
    assert receipt.confirmed


async def test_a_hello_that_nobody_asked_for_counts_in_text_mode(make_channel: MakeChannel, gateway) -> None:
    channel = make_channel()
    gateway.greeting = [hello(send_ack=True), event()]
    gateway.answer = lambda frame: [answer_to(frame, message_id="m1")]
    async with running(channel) as runtime:
        await runtime.until_taken(1)
        receipt = await channel.message_adapter.send_text(text_send())
    assert receipt.primary_platform_message_id == "m1"


async def test_a_hello_is_forgotten_with_its_connection(make_channel: MakeChannel, gateway, clock) -> None:
    channel = make_channel()
    gateway.greeting = [hello(send_ack=True), event()]
    async with running(channel) as runtime:
        await gateway.arrival()
        await runtime.until_taken(1)
        gateway.greeting = []
        await gateway.drop()
        await runtime.until_health("down")
        await clock.advance(1)
        await runtime.until_health("ready", 2)
        assert not (await channel.message_adapter.send_text(text_send())).confirmed
        assert "request_id" not in await gateway.json()


async def test_reconnects_wait_longer_each_time_and_a_success_begins_anew(
    make_channel: MakeChannel, gateway, clock
) -> None:
    gateway.refuse_with = 401
    runtime = FakeRuntime()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(make_channel().run, runtime)
            for n, pause in enumerate([1, 2, 4, 8, 16, 30, 30], start=1):
                assert await gateway.refusal() == 401
                await runtime.until_health("down", n)
                await clock.advance(pause - 0.25)
                assert gateway.refusals.empty()
                if pause == 30 and n == 7:
                    gateway.refuse_with = None
                await clock.advance(0.25)
            await gateway.arrival()
            await runtime.until_health("ready")
            await gateway.drop()
            await runtime.until_health("down", 8)
            await clock.advance(1)
            await gateway.arrival()
            group.cancel_scope.cancel()
    assert "401" in runtime.health[0][1]


async def test_a_stop_does_not_wait_for_the_pause_before_the_next_attempt(make_channel: MakeChannel, gateway) -> None:
    gateway.refuse_with = 500
    runtime = FakeRuntime()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(make_channel().run, runtime)
            await runtime.until_health("down")
            group.cancel_scope.cancel()


async def test_a_stop_says_goodbye_to_the_gateway(make_channel: MakeChannel, gateway) -> None:
    async with running(make_channel()):
        await gateway.arrival()
    with anyio.fail_after(5):
        assert await gateway.ending() == 1000


async def test_events_of_one_conversation_keep_their_order_and_another_does_not_wait(
    make_channel: MakeChannel, gateway
) -> None:
    runtime = FakeRuntime()
    gate = anyio.Event()

    async def hold_the_first_conversation(frame: Any) -> None:
        if frame.channel.id == "1":
            await gate.wait()

    runtime.take = hold_the_first_conversation
    async with running(make_channel(), runtime):
        await gateway.arrival()
        for text, channel_id in [("a1", "1"), ("a2", "1"), ("b1", "2"), ("a3", "1"), ("b2", "2")]:
            await gateway.send(event(channel__id=channel_id, content__text=text))
        await runtime.until_taken(2)
        assert runtime.texts == ["b1", "b2"]
        gate.set()
        await runtime.until_taken(5)
        assert runtime.texts == ["b1", "b2", "a1", "a2", "a3"]


async def test_an_event_that_cannot_be_taken_is_noted_and_stops_nothing(
    make_channel: MakeChannel, gateway, logs
) -> None:
    runtime = FakeRuntime()

    async def refuse_one(frame: Any) -> None:
        if frame.content.text == "canary":
            raise RuntimeError("canary")

    runtime.take = refuse_one
    async with running(make_channel(), runtime):
        await gateway.arrival()
        await gateway.send(event(content__text="canary"), event(content__text="next"))
        await runtime.until_taken(1)
        assert runtime.texts == ["next"]
    assert [entry for entry in logs if entry["event"] == "event.not_taken"] == [
        {
            "event": "event.not_taken",
            "log_level": "error",
            "channel": "gateway",
            "platform": "telegram",
            "event_id": "evt_1",
            "reason": "RuntimeError",
        }
    ]
    assert "canary" not in str(logs)


async def test_a_draining_kernel_takes_no_events_and_still_reads_answers(
    make_channel: MakeChannel, gateway, logs
) -> None:
    channel = make_channel("structured", hello="never")
    gateway.answer = lambda frame: [event(), answer_to(frame, message_id="m1")]
    async with running(channel) as runtime:
        runtime.is_draining = True
        receipt = await channel.message_adapter.send_text(text_send())
        assert receipt.primary_platform_message_id == "m1"
        await anyio.wait_all_tasks_blocked()
        assert runtime.taken == []
    assert [entry["reason"] for entry in logs if entry["event"] == "event.not_taken"] == ["draining"]


async def test_an_answer_that_nobody_waits_for_is_dropped_in_silence(make_channel: MakeChannel, gateway, logs) -> None:
    async with running(make_channel()) as runtime:
        await gateway.arrival()
        await gateway.send(answer_to({"request_id": "req_unknown"}), event())
        await runtime.until_taken(1)
    assert [entry["log_level"] for entry in logs if entry["event"] == "answer.dropped"] == ["debug"]


@pytest.mark.parametrize(
    ("keys", "header", "path"),
    [
        ({"token": CANARY}, f"Bearer {CANARY}", f"/ws?token={CANARY}"),
        ({"token": CANARY, "token_query": False}, f"Bearer {CANARY}", "/ws"),
        ({}, None, "/ws"),
    ],
)
async def test_the_token_goes_to_the_gateway_and_a_missing_one_is_warned_of_once(
    make_channel: MakeChannel, gateway, clock, logs, keys: dict[str, Any], header: str | None, path: str
) -> None:
    async with running(make_channel(**keys)) as runtime:
        arrival = await gateway.arrival()
        assert (arrival.headers.get("Authorization"), arrival.path) == (header, path)
        await gateway.drop()
        await runtime.until_health("down")
        await clock.advance(1)
        await runtime.until_health("ready", 2)
    warnings = [entry for entry in logs if entry["event"] == "token.missing"]
    assert len(warnings) == (1 if header is None else 0)


async def test_the_token_is_in_no_log_health_report_or_error(
    make_channel: MakeChannel, gateway, clock, logs, caplog
) -> None:
    """Refused handshake, refused send whose answer quotes the token, connection lost in the middle of a send."""
    caplog.set_level(logging.DEBUG)
    gateway.refuse_with = 401
    channel = make_channel("structured", token=CANARY, hello="never")
    runtime = FakeRuntime()
    errors: list[Exception] = []

    async def send() -> None:
        try:
            await channel.message_adapter.send_text(text_send())
        except SendError as error:
            errors.append(error)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(channel.run, runtime)
            await runtime.until_health("down")
            gateway.refuse_with = None
            await clock.advance(1)
            await runtime.until_health("ready")
            await gateway.arrival()
            gateway.answer = lambda frame: [answer_to(frame, success=False, error=CANARY, error_code=f"x {CANARY}")]
            await send()
            gateway.answer = lambda frame: []
            await gateway.frame()
            async with anyio.create_task_group() as sends:
                sends.start_soon(send)
                await gateway.frame()
                await gateway.drop()
            await runtime.until_health("down", 2)
            group.cancel_scope.cancel()
    assert [type(error) for error in errors] == [SendRejected, SendUnknown]
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets")]
    told = [logs, runtime.health, ours, ["".join(traceback.format_exception(error)) for error in errors], repr(channel)]
    assert CANARY not in str(told)
    assert {entry["address"] for entry in logs if "address" in entry} == {gateway.url}


async def test_an_old_and_a_new_connection_do_not_share_waiting_events(
    make_channel: MakeChannel, gateway, clock
) -> None:
    runtime = FakeRuntime()
    gate = anyio.Event()

    async def hold(_frame: Any) -> None:
        await gate.wait()

    runtime.take = hold
    async with running(make_channel(), runtime):
        await gateway.arrival()
        await gateway.send(event(content__text="before"))
        await gateway.drop()
        await runtime.until_health("down")
        await clock.advance(1)
        await gateway.arrival()
        await gateway.send(event(content__text="after"))
        gate.set()
        await runtime.until_taken(2)
        assert runtime.texts == ["before", "after"]


def test_the_plugin_names_its_section() -> None:
    assert openab_gateway_ws.plugin_settings() == [("gateway", GatewaySettings)]


def test_without_its_section_the_plugin_brings_no_channel() -> None:
    services = Services(clock=SystemClock(), version="1")
    assert openab_gateway_ws.register_channels(Sections(None), services) == []


def test_with_its_section_the_plugin_brings_the_channel_of_its_platform(clock: ManualClock) -> None:
    section = GatewaySettings(url="ws://h/", platform="line", allowed_users=("u1",))
    (channel,) = openab_gateway_ws.register_channels(Sections(section), Services(clock=clock, version="1"))
    assert isinstance(channel, GatewayChannel)
    assert (channel.name, channel.account_id) == ("gateway", "line")
    assert channel.policy.access.allow_from == {"u1"}
