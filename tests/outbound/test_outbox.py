"""The outbox: order in a lane, lanes beside each other, retries, refusals, withdrawal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.errors import (
    PlatformMessageNotDispatchedError,
    SendRejected,
    SendThrottled,
    SendUnknown,
)
from openab_kernel.facts.outbound import Destination, Intent, IntentOutcome
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.outbox import Outbox, part_key
from openab_kernel.testing.channel import FakeChannel
from openab_kernel.testing.clock import ManualClock, settle
from openab_kernel.testing.outbound import RecordingOutbound


def intent(
    name: str, *parts: str, conversation: str = "c1", thread: str | None = None, channel: str = "fake"
) -> Intent:
    return Intent(
        id=name,
        destination=Destination(
            channel=channel, account_id="a1", conversation_id=conversation, to=conversation, thread_id=thread
        ),
        kind="final",
        parts=parts or (name,),
        reply_to_id="anchor",
    )


def statuses(outcome: IntentOutcome) -> list[str]:
    return [part.status for part in outcome.parts]


class Bench:
    """A running outbox with one fake channel."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.platform = RecordingOutbound()
        self.outbox = Outbox(Channels([FakeChannel(message_adapter=self.platform)]), self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                await group.start(self.outbox.run)
                yield
                group.cancel_scope.cancel()


async def test_a_lane_sends_in_order_and_part_by_part() -> None:
    bench = Bench()
    gate = anyio.Event()
    async with bench.running():
        bench.platform.behaviours.append(lambda send: gate.wait())
        first, second = await bench.outbox.enqueue([intent("a", "a1", "a2"), intent("b")])
        await bench.platform.wait_for_attempts(1)
        await settle()
        assert [send.text for send in bench.platform.attempts] == ["a1"]
        gate.set()
        await second.settled()
        assert bench.platform.texts == ["a1", "a2", "b"]
        assert statuses(await first.settled()) == ["delivered", "delivered"]
        assert [send.reply_to_id for send in bench.platform.sent] == ["anchor", None, "anchor"]


@pytest.mark.parametrize("other", [{"conversation": "c2"}, {"thread": "t1"}])
async def test_a_slow_head_holds_up_no_other_lane(other: dict[str, str]) -> None:
    """case D-05"""
    bench = Bench()
    gate = anyio.Event()
    async with bench.running():
        bench.platform.behaviours.append(lambda send: gate.wait())
        await bench.outbox.enqueue([intent("slow")])
        await bench.platform.wait_for_attempts(1)
        [quick] = await bench.outbox.enqueue([intent("quick", **other)])
        await quick.settled()
        assert bench.platform.texts == ["quick"]
        gate.set()
        await bench.outbox.wait_idle()


async def test_a_throttled_part_waits_as_long_as_it_is_told_and_the_others_follow() -> None:
    """case D-06"""
    bench = Bench()
    async with bench.running():
        with capture_logs() as logs:
            [owed] = await bench.outbox.enqueue([intent("a", "1", "2", "3", "4")])
            bench.platform.behaviours.extend([lambda send: None, SendThrottled("slow down", retry_after_seconds=1.4)])
            await bench.platform.wait_for_attempts(2)
            await bench.clock.until_waiting()
            await bench.clock.advance(1.39)
            assert bench.platform.texts == ["1"]
            await bench.clock.advance(0.02)
            assert statuses(await owed.settled()) == ["delivered"] * 4
        assert bench.platform.texts == ["1", "2", "3", "4"]
        assert [entry["wait_ms"] for entry in logs if entry["event"] == "send.retried"] == [1400]


async def test_what_was_proven_not_sent_is_tried_five_times_with_growing_pauses() -> None:
    bench = Bench()
    async with bench.running():
        with capture_logs() as logs:
            bench.platform.behaviours.extend([PlatformMessageNotDispatchedError("no route")] * 5)
            [owed] = await bench.outbox.enqueue([intent("a")])
            for attempt, wait in enumerate((5, 25, 120, 600), start=1):
                await bench.platform.wait_for_attempts(attempt)
                await bench.clock.until_waiting()
                await bench.clock.advance(wait - 1)
                assert len(bench.platform.attempts) == attempt
                await bench.clock.advance(1)
            assert statuses(await owed.settled()) == ["failed"]
        assert len(bench.platform.attempts) == 5
        assert [entry["event"] for entry in logs] == ["send.retried"] * 4 + ["send.parked"]


async def test_every_attempt_at_a_part_has_its_key_and_no_other_part_has_it() -> None:
    bench = Bench()
    async with bench.running():
        bench.platform.behaviours.append(PlatformMessageNotDispatchedError("no route"))
        [owed] = await bench.outbox.enqueue([intent("a", "1", "2")])
        await bench.clock.until_waiting()
        await bench.clock.advance(5)
        await owed.settled()
        keys = [send.idempotency_key for send in bench.platform.attempts]
        assert keys == [part_key("a", 0), part_key("a", 0), part_key("a", 1)]
        assert len(set(keys)) == 2


async def test_a_refused_part_is_parked_and_the_next_ones_are_sent() -> None:
    bench = Bench()
    async with bench.running():
        bench.platform.behaviours.append(SendRejected("too long", code="50035"))
        [owed] = await bench.outbox.enqueue([intent("a", "1", "2")])
        outcome = await owed.settled()
        assert statuses(outcome) == ["failed", "delivered"]
        assert outcome.parts[0].code == "50035"


async def test_a_refused_destination_parks_the_rest_of_the_intent_and_no_other() -> None:
    """case O-02"""
    bench = Bench()
    async with bench.running():
        bench.platform.behaviours.append(SendRejected("gone", scope="destination", code="10003"))
        [first] = await bench.outbox.enqueue([intent("a", "1", "2", "3")])
        assert statuses(await first.settled()) == ["failed"] * 3
        [second] = await bench.outbox.enqueue([intent("b", conversation="c2")])
        assert statuses(await second.settled()) == ["delivered"]
        assert len(bench.platform.attempts) == 2


@pytest.mark.parametrize("error", [SendUnknown("no answer"), RuntimeError("anything else")])
async def test_what_may_have_arrived_is_not_sent_again(error: Exception) -> None:
    bench = Bench()
    async with bench.running():
        bench.platform.behaviours.append(error)
        [owed] = await bench.outbox.enqueue([intent("a", "1", "2")])
        assert statuses(await owed.settled()) == ["unknown", "delivered"]
        assert len(bench.platform.attempts) == 2


async def test_sends_wait_for_the_transport_and_that_costs_no_attempt() -> None:
    """outage of a platform, as far as the process lives"""
    bench = Bench()
    bench.platform.ready = anyio.Event()
    async with bench.running():
        owed = await bench.outbox.enqueue([intent("a"), intent("b"), intent("c", conversation="c2")])
        await settle()
        await bench.clock.advance(40 * 60)
        assert bench.platform.attempts == []
        bench.platform.ready.set()
        for item in owed:
            assert statuses(await item.settled()) == ["delivered"]
        assert sorted(bench.platform.texts) == ["a", "b", "c"]


@pytest.mark.parametrize("state", ["queued", "in backoff", "waiting for the transport"])
async def test_what_is_withdrawn_is_not_sent(state: str) -> None:
    bench = Bench()
    gate = anyio.Event()
    async with bench.running():
        match state:
            case "queued":
                bench.platform.behaviours.append(lambda send: gate.wait())
                await bench.outbox.enqueue([intent("head")])
                await bench.platform.wait_for_attempts(1)
            case "in backoff":
                bench.platform.behaviours.append(PlatformMessageNotDispatchedError("no route"))
            case _:
                bench.platform.ready = anyio.Event()
        [owed] = await bench.outbox.enqueue([intent("a", "1", "2")])
        await settle()
        assert bench.outbox.withdraw(lambda found: found.id == "a", "plan_cancelled") == 1
        assert bench.outbox.withdraw(lambda found: found.id == "a", "plan_cancelled") == 0
        gate.set()
        outcome = await owed.settled()
        assert [(part.status, part.code) for part in outcome.parts] == [("suppressed", "plan_cancelled")] * 2
        assert "1" not in bench.platform.texts


async def test_a_send_for_a_channel_that_is_gone_is_parked() -> None:
    bench = Bench()
    async with bench.running():
        [owed] = await bench.outbox.enqueue([intent("a", channel="nowhere")])
        outcome = await owed.settled()
        assert [(part.status, part.code) for part in outcome.parts] == [("failed", "channel_missing")]


async def test_what_was_enqueued_before_the_start_is_sent_at_the_start() -> None:
    bench = Bench()
    owed = await bench.outbox.enqueue([intent("a"), intent("b", conversation="c2")])
    async with bench.running():
        for item in owed:
            await item.settled()
        await bench.outbox.wait_idle()
        assert bench.outbox.open_intents == 0


async def test_no_text_is_in_a_log_line() -> None:
    """case X-01"""
    bench = Bench()
    async with bench.running():
        with capture_logs() as logs:
            bench.platform.behaviours.extend([SendRejected("CANARY"), SendUnknown("CANARY")])
            [owed] = await bench.outbox.enqueue([intent("a", "CANARY-1", "CANARY-2")])
            await owed.settled()
        assert logs
        assert "CANARY" not in repr(logs)
