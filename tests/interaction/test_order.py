"""turn-kernel.md 15, rows 3, 4, 11, 12, 29: stage order, one insert, events, strictness."""

from __future__ import annotations

from itertools import product
from typing import Any

import anyio
import pytest

from openab_kernel.facts.admission import STRICTNESS, Admission, Dispatch, Drop, Handled, ObserveOnly
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts
from openab_kernel.facts.policy import AccessPolicy, ChannelPolicy
from openab_kernel.stages.receive_context import create_message_receive_context
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.channel import FakeChannel, FakeTurnAdapter, event
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.harness import running_kernel
from openab_kernel.testing.memory_store import MemoryStore

RECEIVE = ("ingest", "classify", "preflight", "resolve", "authorize", "triage", "assemble", "record")
TURN = ("dispatch", "deliver", "finalize")


class TracingAdapter(FakeTurnAdapter):
    """Has every optional method, and notes the calls."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__()
        self.trace = trace

    def ingest(self, raw: Any) -> NormalizedTurnInput | None:
        self.trace.append("ingest")
        return super().ingest(raw)

    async def classify(self, input: NormalizedTurnInput) -> ChannelEventClass:
        self.trace.append("classify")
        return ChannelEventClass()

    async def preflight(self, input: NormalizedTurnInput, event_class: ChannelEventClass) -> PreflightFacts:
        self.trace.append("preflight")
        return PreflightFacts()

    def resolve_turn(self, *args: Any) -> Any:
        self.trace.append("resolve")
        return super().resolve_turn(*args)

    def on_finalize(self, result: Any) -> None:
        self.trace.append("finalize")
        super().on_finalize(result)


class TracingStore(MemoryStore):
    """Notes when the record is on disk, and can be made to wait before it."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__(ManualClock())
        self.trace = trace
        self.may_commit = anyio.Event()
        self.may_commit.set()
        self.asked = anyio.Event()

    async def record(self, request: Any) -> Any:
        self.asked.set()
        await self.may_commit.wait()
        recorded = await super().record(request)
        self.trace.append("record")
        return recorded

    async def adopt(self, *args: Any, **named: Any) -> bool:
        self.trace.append("adopt")
        return await super().adopt(*args, **named)


async def test_stages_meet_a_message_in_order_and_adoption_comes_directly_before_the_prompt() -> None:
    """turn-kernel 15.3"""
    trace: list[str] = []

    async def prompted() -> None:
        trace.append("prompt")

    agent = StubAgent([prompted, *says("yes")])
    channel = FakeChannel(turn_adapter=TracingAdapter(trace))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel, store=TracingStore(trace)) as kernel:
            await kernel.run(event())
    expected = ["ingest", "classify", "preflight", "resolve", "record", "adopt", "prompt", "finalize"]
    assert trace == expected


async def test_receive_returns_when_the_message_is_on_disk_and_not_before() -> None:
    """turn-kernel 15.3"""
    trace: list[str] = []
    store = TracingStore(trace)
    store.may_commit = anyio.Event()
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("yes")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, store=store) as kernel, anyio.create_task_group() as group:

            async def receive() -> None:
                assert await kernel.receive(event()) is None
                trace.append("acknowledged")

            group.start_soon(receive)
            await store.asked.wait()
            assert trace == []
            store.may_commit.set()
            await agent.wait_for_prompts(1)
            while "acknowledged" not in trace:
                await anyio.lowlevel.checkpoint()
            assert trace == ["record", "acknowledged", "adopt"] or trace == ["record", "adopt", "acknowledged"]
            gate.set()
            await kernel.watcher.wait_for_turns(1)


async def test_an_acknowledgement_waits_for_the_record_whatever_the_policy() -> None:
    """turn-kernel 15.3 and 15.32"""
    trace: list[str] = []
    store = TracingStore(trace)
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("yes")])
    context = create_message_receive_context(lambda: trace.append("ack"))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, store=store) as kernel, anyio.create_task_group() as group:
            group.start_soon(kernel.kernel.turn.run, "fake", event(), None, "a1", None, context)
            await agent.wait_for_prompts(1)
            while "ack" not in trace:
                await anyio.lowlevel.checkpoint()
            assert trace.index("record") < trace.index("ack")
            gate.set()


@pytest.mark.parametrize("policy", ["after_agent_dispatch", "after_durable_send", "manual"])
async def test_other_policies_are_acknowledged_after_the_turn_or_by_the_channel(policy: Any) -> None:
    """turn-kernel 15.32"""
    acks: list[str] = []
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("yes")])
    context = create_message_receive_context(lambda: acks.append("ack"), ack_policy=policy)
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel, anyio.create_task_group() as group:
            group.start_soon(kernel.kernel.turn.run, "fake", event(), None, "a1", None, context)
            await agent.wait_for_prompts(1)
            assert acks == []
            gate.set()
            await kernel.watcher.wait_for_turns(1)
            if policy == "manual":
                assert await context.ack()
            while not acks:
                await anyio.lowlevel.checkpoint()
            assert acks == ["ack"]


async def test_an_event_that_needs_it_is_acknowledged_at_record_under_every_policy() -> None:
    """turn-kernel 15.32"""

    class Interaction(FakeTurnAdapter):
        def classify(self, input: NormalizedTurnInput) -> ChannelEventClass:
            return ChannelEventClass(kind="interaction", requires_immediate_ack=True)

    acks: list[str] = []
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("yes")])
    context = create_message_receive_context(lambda: acks.append("ack"), ack_policy="after_durable_send")
    channel = FakeChannel(turn_adapter=Interaction())
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel) as kernel, anyio.create_task_group() as group:
            group.start_soon(kernel.kernel.turn.run, "fake", event(), None, "a1", None, context)
            await agent.wait_for_prompts(1)
            while not acks:
                await anyio.lowlevel.checkpoint()
            gate.set()


async def test_a_message_that_could_not_be_recorded_is_refused_to_the_platform() -> None:
    """turn-kernel 15.32"""
    settled: list[str] = []
    store = MemoryStore(ManualClock())
    store.fail("record", 3)
    context = create_message_receive_context(lambda: settled.append("ack"), lambda error: settled.append("nack"))
    with anyio.fail_after(5):
        async with running_kernel(store=store) as kernel, anyio.create_task_group() as group:

            async def run() -> None:
                with pytest.raises(Exception, match="record"):
                    await kernel.kernel.turn.run("fake", event(), None, "a1", None, context)

            group.start_soon(run)
            for _ in range(2):
                await kernel.clock.until_waiting()  # type: ignore[attr-defined]  # the harness's clock is manual
                await kernel.clock.advance(1)  # type: ignore[attr-defined]  # the harness's clock is manual
    assert settled == ["nack"]


async def test_copies_of_one_message_at_once_give_one_insert_and_one_prompt() -> None:
    """turn-kernel 15.4"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel, anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(kernel.receive, event("once", id="same"))
            await kernel.watcher.wait_for_turns(1)
            results = await kernel.channel.turn_adapter.wait_for_results(20)
            assert len(kernel.agent.prompts) == 1
            assert sum(result.dispatched for result in results) == 1
            assert {result.admission.reason for result in results if not result.dispatched} == {"dedupe"}


async def test_copies_that_pass_preflight_together_meet_the_unique_insert() -> None:
    """turn-kernel 15.4"""
    store = TracingStore([])
    store.may_commit = anyio.Event()
    with anyio.fail_after(5):
        async with running_kernel(store=store) as kernel, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(kernel.receive, event("once", id="same"))
            await kernel.watcher.wait_for_event("record", "start")
            while kernel.watcher.way().count("record:start") < 3:
                await anyio.lowlevel.checkpoint()
            store.may_commit.set()
            await kernel.watcher.wait_for_turns(1)
            while kernel.watcher.way().count("record:drop") < 2:
                await anyio.lowlevel.checkpoint()
            assert len(kernel.agent.prompts) == 1
            reasons = {seen.reason for seen in kernel.watcher.events if seen.event == "drop"}
            assert reasons == {"dedupe"}


async def test_a_proactive_event_of_a_known_id_is_judged_anew() -> None:
    """turn-kernel 15.4"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            for _ in range(3):
                assert (await kernel.run(event("again", id="same", proactive=True))).dispatched
            assert len(kernel.agent.prompts) == 3


async def test_each_stage_has_one_start_and_one_end_and_no_event_holds_a_body() -> None:
    """turn-kernel 15.11"""
    canary = "CANARY-5f1d"
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            seen: list[Any] = []
            await kernel.kernel.turn.run("fake", event(canary), account_id="a1", log=seen.append)
            await kernel.watcher.wait_for_event("finalize", "done")
            for stage in (*RECEIVE, *TURN):
                names = [found.event for found in kernel.watcher.events if found.stage == stage]
                assert names == ["start", "done"], stage
            assert all(found.duration_ms is not None for found in kernel.watcher.events if found.event == "done")
            assert canary not in "".join(found.model_dump_json() for found in kernel.watcher.events)
            assert [(found.stage, found.event) for found in seen] == [
                (found.stage, found.event) for found in kernel.watcher.events
            ]


@pytest.mark.parametrize(
    ("raw", "policy", "last"),
    [
        ({}, None, ("ingest", "drop", "ingest-null")),
        (event(sender=""), None, ("authorize", "drop", "sender_id_missing")),
        (event(), AccessPolicy(), ("authorize", "drop", "dm_policy_not_allowlisted")),
        (event(is_bot=True), None, ("authorize", "drop", "bot_not_allowed")),
        (event(kind="group"), AccessPolicy(), ("authorize", "drop", "group_policy_empty_allowlist")),
        (event("/cancel"), None, ("authorize", "handled", "command:cancel")),
    ],
)
async def test_a_message_that_is_not_admitted_has_a_reason_that_can_be_seen(
    raw: Any, policy: AccessPolicy | None, last: tuple[str, str, str]
) -> None:
    """turn-kernel 15.11"""
    channel = FakeChannel(policy=ChannelPolicy(access=policy) if policy else None)
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            result = await kernel.receive(raw)
            assert result is not None
            await kernel.watcher.wait_for_event("finalize", "done")
            ends = [(found.stage, found.event, found.reason) for found in kernel.watcher.events if found.reason]
            assert ends == [last]
            assert (result.admission.kind, result.admission.reason) == (last[1], last[2])
            assert kernel.agent.prompts == []


KINDS: dict[str, Admission] = {
    "dispatch": Dispatch(),
    "observeOnly": ObserveOnly(reason="quiet"),
    "handled": Handled(reason="done"),
    "drop": Drop(reason="no"),
}


@pytest.mark.parametrize(("early", "late"), list(product(KINDS, KINDS)))
@pytest.mark.parametrize("observe_only", [False, True])
async def test_the_strictest_admission_of_all_stages_wins(early: str, late: str, observe_only: bool) -> None:
    """turn-kernel 15.12"""

    class Judging(FakeTurnAdapter):
        def preflight(self, *args: Any) -> Admission:
            return KINDS[early]

        def resolve_turn(self, *args: Any) -> Any:
            return super().resolve_turn(*args).model_copy(update={"admission": KINDS[late]})

    open_to_all = FakeChannel().policy.access.model_copy(update={"observe_only": observe_only})
    channel = FakeChannel(turn_adapter=Judging(), policy=ChannelPolicy(access=open_to_all))
    kinds = [early, late, "observeOnly" if observe_only else "dispatch"]
    ends_early = early in ("handled", "drop")
    expected = early if ends_early else max(kinds, key=lambda kind: STRICTNESS[kind])
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            result = await kernel.run(event())
            assert result.admission.kind == expected
            assert len(kernel.agent.prompts) == (expected in ("dispatch", "observeOnly"))
            assert len(kernel.outbound.attempts) == (expected == "dispatch")


@pytest.mark.parametrize(("may", "answer", "expected"), [
    (True, Dispatch(), "dispatch"),
    (True, None, "observeOnly"),
    (False, Dispatch(), "observeOnly"),
])  # fmt: skip
async def test_only_a_channel_that_may_takes_its_own_observe_only_back(
    may: bool, answer: Admission | None, expected: str
) -> None:
    """turn-kernel 15.12"""

    class Widening(FakeTurnAdapter):
        may_widen_observe_only = may

        def preflight(self, *args: Any) -> Admission:
            return ObserveOnly(reason="quiet")

        def resolve_turn(self, *args: Any) -> Any:
            return super().resolve_turn(*args).model_copy(update={"admission": answer})

    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(turn_adapter=Widening())) as kernel:
            assert (await kernel.run(event())).admission.kind == expected


@pytest.mark.parametrize("order", ["weak first", "strong first"])
async def test_a_weak_event_that_was_refused_does_not_mask_the_strong_one(order: str) -> None:
    """turn-kernel 15.29"""

    class Slack(FakeTurnAdapter):
        """Two events for one post: only the mention starts a turn."""

        def preflight(self, input: NormalizedTurnInput, event_class: ChannelEventClass) -> PreflightFacts:
            weak = input.raw["name"] == "message"
            return PreflightFacts(admission=Drop(reason="missing_mention") if weak else None)

    weak, strong = event("hi", id="ts1", name="message"), event("hi", id="ts1", name="app_mention")
    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(turn_adapter=Slack())) as kernel:
            for raw in (weak, strong) if order == "weak first" else (strong, weak):
                await kernel.receive(raw)
            await kernel.watcher.wait_for_turns(1)
            assert kernel.agent.texts == ["hi"]
            assert await kernel.outbound.wait_for(1) == ["echo: hi"]


@pytest.mark.parametrize("where", ["record", "after_record"])
async def test_a_cancelled_receive_leaves_no_recorded_message_without_its_turn(where: str) -> None:
    """turn-kernel 15.10: the record commit is shielded, and what is on disk gets its turn."""
    from tests.interaction.test_entry_points import RecordingDelivery, assembled

    store = TracingStore([])
    entered = anyio.Event()

    async def after_record() -> None:
        entered.set()
        await anyio.sleep_forever()

    delivery = RecordingDelivery()
    with anyio.fail_after(5):
        async with running_kernel(store=store) as kernel:
            async with anyio.create_task_group() as group:
                if where == "record":
                    store.may_commit = anyio.Event()
                    group.start_soon(kernel.receive, event())
                    await store.asked.wait()
                else:
                    from openab_kernel.interfaces.channel import RecordOptions

                    turn = assembled(delivery, record=RecordOptions(after_record=after_record))
                    group.start_soon(kernel.kernel.turn.run_assembled, turn)
                    await entered.wait()
                group.cancel_scope.cancel()
                store.may_commit.set()
            await kernel.watcher.wait_for_turns(1)
            assert len(kernel.agent.prompts) == 1
