"""turn-kernel.md 15, rows 6, 7; agent.md 15, rows 30, 31, 32: lanes, adoption, restart, control commands."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from openab_kernel.agent.settings import PoolSettings
from openab_kernel.errors import LaneReentryError, StoreError
from openab_kernel.facts.agent_update import TextChunk
from openab_kernel.facts.conversation import RouteFacts
from openab_kernel.facts.policy import BatchPolicy, ChannelPolicy, DispatchMode
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.channel import EVERYONE, FakeChannel, FakeTurnAdapter, event
from openab_kernel.testing.clock import ManualClock, settle
from openab_kernel.testing.harness import Harness, build_kernel, running_kernel
from openab_kernel.testing.memory_store import MemoryStore

LINE = "⚠️ The assistant was interrupted. Please ask again."


def channel_with(mode: DispatchMode, cap: int = 10, tokens: int = 24_000) -> FakeChannel:
    batch = BatchPolicy(mode=mode, max_buffered_messages=cap, max_batch_tokens=tokens)
    return FakeChannel(policy=ChannelPolicy(access=EVERYONE.model_copy(update={"allow_bots": "all"}), batch=batch))


def senders(agent: StubAgent) -> list[list[str]]:
    """For each prompt the senders of its messages, read from the sender contexts."""
    return [
        [
            block["text"].split('"sender_id":"')[1].split('"')[0]
            for block in blocks
            if "<sender_context>" in block["text"]
        ]
        for _, blocks in agent.prompts
    ]


def bodies(agent: StubAgent) -> list[list[str]]:
    """For each prompt its message texts."""
    return [[block["text"] for block in blocks if not block["text"].startswith("<")] for _, blocks in agent.prompts]


async def burst(kernel: Harness, events: list[dict[str, Any]]) -> None:
    """Let the first start a turn that waits, then bring the others, then let it go on."""
    await kernel.receive(events[0])
    await kernel.agent.wait_for_prompts(1)
    for raw in events[1:]:
        await kernel.receive(raw)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("per-message", [["0"], ["1"], ["2"], ["3"], ["4"]]),
        ("per-thread", [["0"], ["1", "2", "3", "4"]]),
        ("per-lane", [["0"], ["1", "3"], ["2", "4"]]),
    ],
)
async def test_each_mode_batches_what_waited_and_keeps_the_order_of_arrival(
    mode: DispatchMode, expected: list[list[str]]
) -> None:
    """turn-kernel 15.6 and agent 15.30"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    events = [event(str(n), id=f"e{n}", sender=f"u{n % 2}", conversation="g", kind="group") for n in range(5)]
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with(mode)) as kernel:
            await burst(kernel, events)
            gate.set()
            await kernel.watcher.wait_for_turns(len(expected))
            assert bodies(agent) == expected
            assert agent.most_running == 1
            results = await kernel.channel.turn_adapter.wait_for_results(5)
            assert all(result.dispatched for result in results)


async def test_n_arrivals_in_a_turn_are_n_sender_contexts() -> None:
    """agent 15.30"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    events = [event(str(n), id=f"e{n}", sender=f"u{n}", conversation="g", kind="group") for n in range(4)]
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with("per-thread")) as kernel:
            await burst(kernel, events)
            gate.set()
            await kernel.watcher.wait_for_turns(2)
            assert senders(agent) == [["u0"], ["u1", "u2", "u3"]]


async def test_a_burst_of_twelve_is_cut_at_the_cap_and_at_the_tokens() -> None:
    """agent 15.30"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    big = "x" * 4_000
    events = [event(big, id=f"e{n}", conversation="g", kind="group") for n in range(12)]
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with("per-thread", 10, 5_005)) as kernel:
            await burst(kernel, events)
            gate.set()
            await kernel.watcher.wait_for_turns(4)
            assert [len(texts) for texts in bodies(agent)] == [1, 5, 5, 1]


async def test_what_does_not_fit_into_the_queue_waits_in_the_store_and_nothing_is_lost() -> None:
    """turn-kernel 15.6"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    events = [event(str(n), id=f"e{n:03}", conversation="g", kind="group") for n in range(300)]
    with anyio.fail_after(20):
        async with running_kernel(agent=agent, channel=channel_with("per-message", 3)) as kernel:
            await burst(kernel, events)
            gate.set()
            await kernel.watcher.wait_for_turns(300)
            assert bodies(agent) == [[str(n)] for n in range(300)]
            assert kernel.kernel.pipeline.lanes.active == 0


async def test_a_caller_that_waits_gets_its_result_although_its_message_overflowed() -> None:
    """turn-kernel 15.6"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with("per-message", 1)) as kernel:
            await burst(kernel, [event(str(n), id=f"e{n}") for n in range(3)])
            async with anyio.create_task_group() as group:
                results: list[Any] = []

                async def run() -> None:
                    results.append(await kernel.run(event("last", id="last")))

                group.start_soon(run)
                while kernel.watcher.way("last").count("record:done") == 0:
                    await anyio.lowlevel.checkpoint()
                gate.set()
            assert results[0].dispatched
            assert agent.texts == ["0", "1", "2", "last"]


@pytest.mark.parametrize("mode", ["per-message", "per-thread", "per-lane"])
async def test_a_turn_never_mixes_proactive_events_with_messages_of_people(mode: DispatchMode) -> None:
    """turn-kernel 15.6"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    flags = [False, False, True, True, False]
    events = [event(str(n), id=f"e{n}", conversation="g", kind="group", proactive=flag) for n, flag in enumerate(flags)]
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with(mode)) as kernel:
            await burst(kernel, events)
            gate.set()
            await kernel.channel.turn_adapter.wait_for_results(5)
            for _, blocks in agent.prompts:
                contexts = [block["text"] for block in blocks if "<sender_context>" in block["text"]]
                assert len({'"proactive":true' in context for context in contexts}) == 1
            assert [text for texts in bodies(agent) for text in texts] == ["0", "1", "2", "3", "4"]


async def test_two_threads_are_two_sessions_and_run_beside_each_other() -> None:
    """turn-kernel 15.6"""
    gates = [anyio.Event(), anyio.Event()]
    agent = StubAgent([gates[0].wait, *says("one")], [gates[1].wait, *says("two")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with("per-thread")) as kernel:
            await kernel.receive(event("1", id="e1", conversation="g", kind="group", thread="t1"))
            await kernel.receive(event("2", id="e2", conversation="g", kind="group", thread="t2"))
            await agent.wait_for_prompts(2)
            assert agent.most_running == 2
            gates[1].set()
            gates[0].set()
            await kernel.watcher.wait_for_turns(2)


class MainScope(FakeTurnAdapter):
    """Puts all direct chats of all conversations into one session."""

    def resolve_turn(self, *args: Any) -> Any:
        return super().resolve_turn(*args).model_copy(update={"route": RouteFacts(dm_scope="main")})


async def test_one_session_never_takes_two_conversations_into_one_turn() -> None:
    """turn-kernel 15.6"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    channel = channel_with("per-thread")
    channel.turn_adapter = MainScope()
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel) as kernel:
            await burst(kernel, [event(str(n), id=f"e{n}", conversation=f"c{n % 2}") for n in range(4)])
            gate.set()
            await kernel.watcher.wait_for_turns(4)
            assert bodies(agent) == [["0"], ["1"], ["2"], ["3"]]
            places = [send.destination.conversation_id for send in kernel.outbound.sent]
            assert places == ["c0", "c1", "c0", "c1"]


async def test_a_head_in_retry_delay_steps_aside_and_comes_back() -> None:
    """turn-kernel 15.6"""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.fail("adopt")
    with anyio.fail_after(5):
        async with running_kernel(store=store, clock=clock) as kernel:
            await kernel.receive(event("poison", id="e1"))
            await clock.until_waiting()
            await kernel.run(event("next", id="e2"))
            assert kernel.agent.texts == ["next"]
            await clock.advance(1)
            await kernel.watcher.wait_for_turns(2)
            assert kernel.agent.texts == ["next", "poison"]


async def test_a_message_that_fails_for_a_day_is_parked_and_its_lane_goes_on() -> None:
    """turn-kernel 15.6"""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.fail("adopt", 1_000)
    with anyio.fail_after(5):
        async with running_kernel(store=store, clock=clock) as kernel:
            await kernel.receive(event("poison", id="e1"))
            hours = 0
            while store.messages[1].state != "failed":
                assert hours < 48
                await settle()
                await clock.advance(3_600)
                hours += 1
            assert store.messages[1].attempts >= 8
            assert kernel.channel.turn_adapter.results[0].failed_stage == "dispatch"
            assert hours >= 24
            store.fail("adopt", -1_000)
            assert kernel.agent.prompts == []
            await kernel.run(event("next", id="e2"))
            assert kernel.agent.texts == ["next"]


async def test_an_entry_point_called_from_inside_a_turn_of_the_same_session_raises() -> None:
    """turn-kernel 15.6"""
    raised: list[BaseException] = []
    holder: list[Harness] = []

    async def reenter() -> None:
        try:
            await holder[0].run(event("inner", id="inner"))
        except LaneReentryError as error:
            raised.append(error)
        await holder[0].run(event("other", id="other", conversation="c2"))

    agent = StubAgent([reenter, *says("outer")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            holder.append(kernel)
            result = await kernel.run(event("outer"))
            assert result.dispatched
            assert len(raised) == 1
            assert sorted(kernel.outbound.texts) == ["echo: other", "outer"]


async def test_a_slow_conversation_holds_up_no_other() -> None:
    """case D-05"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("slow")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            await kernel.receive(event("slow", id="e1", conversation="c1"))
            await agent.wait_for_prompts(1)
            assert (await kernel.run(event("fast", id="e2", conversation="c2"))).dispatched
            assert kernel.outbound.texts == ["echo: fast"]
            gate.set()
            await kernel.watcher.wait_for_turns(2)


async def test_a_turn_settles_its_sends_before_the_next_of_its_session_begins() -> None:
    """turn-kernel 15.7: sends without durability release the lane once they have settled."""
    gate = anyio.Event()
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            kernel.outbound.behaviours.append(lambda send: gate.wait())
            await kernel.receive(event("1", id="e1"))
            await kernel.receive(event("2", id="e2"))
            await kernel.outbound.wait_for_attempts(1)
            assert kernel.agent.texts == ["1"]
            gate.set()
            assert await kernel.outbound.wait_for(2) == ["echo: 1", "echo: 2"]
            await kernel.watcher.wait_for_turns(2)
            way = kernel.watcher.way("e1")
            assert way.index("dispatch:done") < way.index("deliver:done") < way.index("finalize:start")


async def restart(store: MemoryStore, agent: StubAgent, channel: FakeChannel, expected: int) -> list[str]:
    """Start a new kernel on the same store; the texts it sends, once there are as many as expected."""
    with anyio.fail_after(5):
        async with running_kernel(store=store, agent=agent, channel=channel) as kernel:
            await kernel.outbound.wait_for(expected)
            return list(kernel.outbound.texts)


async def test_a_restart_closes_what_was_cut_off_and_takes_up_what_waited() -> None:
    """turn-kernel 15.7"""
    store = MemoryStore(ManualClock())
    hang = StubAgent([anyio.sleep_forever])
    with anyio.fail_after(5):
        async with running_kernel(store=store, agent=hang) as kernel:
            await burst(kernel, [event("cut", id="e1"), event("waits", id="e2"), event("too", id="e3")])
    agent = StubAgent()
    assert await restart(store, agent, FakeChannel(), 3) == [LINE, "echo: waits", "echo: too"]
    assert agent.texts == ["waits", "too"]


@pytest.mark.parametrize("raw", [event("cut", is_bot=True), event("cut", proactive=True)])
async def test_a_restart_tells_a_bot_or_a_proactive_source_nothing(raw: Any) -> None:
    """turn-kernel 15.7"""
    store = MemoryStore(ManualClock())
    with anyio.fail_after(5):
        async with running_kernel(
            store=store, agent=StubAgent([anyio.sleep_forever]), channel=channel_with("per-message")
        ) as kernel:
            await burst(kernel, [raw, event("waits", id="e2")])
    assert await restart(store, StubAgent(), channel_with("per-message"), 1) == ["echo: waits"]


async def test_a_message_that_was_answered_is_refused_after_a_restart_as_well() -> None:
    """turn-kernel 15.30"""
    store = MemoryStore(ManualClock())
    with anyio.fail_after(5):
        async with running_kernel(store=store) as kernel:
            await kernel.run(event(id="e1"))
        async with running_kernel(store=store) as kernel:
            result = await kernel.receive(event(id="e1"))
            assert result is not None
            assert result.admission.reason == "dedupe"
            assert (await kernel.run(event(id="e2"))).dispatched


async def test_lanes_are_refilled_before_a_channel_is_opened() -> None:
    """turn-kernel 15.7"""
    trace: list[str] = []

    class Store(MemoryStore):
        async def interrupt_started_turns(self) -> Any:
            trace.append("close")
            return await super().interrupt_started_turns()

        async def waiting_sessions(self, **where: Any) -> Any:
            trace.append("refill")
            return await super().waiting_sessions(**where)

    class Channel(FakeChannel):
        async def run(self, runtime: Any) -> None:
            trace.append("open")
            await super().run(runtime)

    channel = Channel()
    with anyio.fail_after(5):
        async with running_kernel(store=Store(ManualClock()), channel=channel):
            await channel.opened.wait()
    assert trace == ["close", "refill", "open"]


async def test_a_thousand_sessions_that_waited_are_all_taken_up() -> None:
    """turn-kernel 15.7"""
    store = MemoryStore(ManualClock())
    hang = StubAgent(*[[anyio.sleep_forever] for _ in range(250)])
    with anyio.fail_after(20):
        async with running_kernel(store=store, agent=hang) as kernel:
            for number in range(250):
                await kernel.receive(event("cut", id=f"a{number}", conversation=f"c{number}"))
            await hang.wait_for_prompts(250)
            for number in range(250):
                await kernel.receive(event(f"w{number}", id=f"b{number}", conversation=f"c{number}"))
    with anyio.fail_after(20):
        agent = StubAgent()
        sent = await restart(store, agent, FakeChannel(), 500)
    assert sorted(agent.texts) == sorted(f"w{number}" for number in range(250))
    assert sent.count(LINE) == 250


async def test_a_store_that_cannot_be_read_at_refill_stops_the_start() -> None:
    """turn-kernel 15.7"""

    class Broken(MemoryStore):
        async def waiting_sessions(self, **where: Any) -> Any:
            raise StoreError("unreadable")

    clock = ManualClock()
    kernel = build_kernel(agents=[StubAgent()], channels=[FakeChannel()], store=Broken(clock), clock=clock)
    with anyio.fail_after(5), pytest.RaisesGroup(StoreError, flatten_subgroups=True):
        async with anyio.create_task_group() as group:
            await group.start(kernel.run)


async def test_stopping_lets_the_running_turn_end_and_be_delivered_and_keeps_what_waits() -> None:
    """agent 15.31, case R-01"""
    store = MemoryStore(ManualClock())
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("finished")])
    with anyio.fail_after(5):
        async with running_kernel(store=store, agent=agent) as kernel:
            await burst(kernel, [event("runs", id="e1"), event("waits", id="e2"), event("too", id="e3")])
            kernel.kernel.stopping.set()
            while not kernel.kernel.pipeline.is_draining:
                await anyio.lowlevel.checkpoint()
            gate.set()
            assert await kernel.outbound.wait_for(1) == ["finished"]
    later = StubAgent()
    assert await restart(store, later, FakeChannel(), 2) == ["echo: waits", "echo: too"]


async def test_what_does_not_end_within_the_grace_time_is_cut_and_said() -> None:
    """agent 15.31, case R-01"""
    from structlog.testing import capture_logs

    clock = ManualClock()
    agent = StubAgent([anyio.sleep_forever])
    store = MemoryStore(clock)
    kernel = build_kernel(
        agents=[agent], channels=[FakeChannel()], store=store, clock=clock, pool=PoolSettings(shutdown_grace_secs=30)
    )
    with anyio.fail_after(5), capture_logs() as logs:
        async with anyio.create_task_group() as group:
            await group.start(kernel.run)
            await kernel.pipeline.receive(next(iter(kernel.parts.channels)), event())
            await agent.wait_for_prompts(1)
            kernel.stopping.set()
            await clock.until_waiting()
            await clock.advance(30)
    cut = [entry for entry in logs if entry["event"] == "kernel.cut"]
    assert [entry["turns"] for entry in cut] == [1]
    assert await restart(store, StubAgent(), FakeChannel(), 1) == [LINE]


# -- control commands


async def test_cancel_overtakes_the_lane_and_the_cancelled_turn_says_nothing_more() -> None:
    """agent 15.32"""
    agent = StubAgent([TextChunk("half"), anyio.sleep_forever])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            await burst(kernel, [event("1", id="e1"), event("2", id="e2")])
            result = await kernel.receive(event(" /cancel ", id="e3"))
            assert result is not None
            assert result.admission.reason == "command:cancel"
            await kernel.watcher.wait_for_turns(2)
            assert sorted(await kernel.outbound.wait_for(2)) == ["Stopped.", "echo: 2"]
            outcomes = [summary.outcome for summary in kernel.watcher.summaries]
            assert outcomes == ["cancelled", "done"]


async def test_cancel_withdraws_what_is_not_sent_yet() -> None:
    """agent 15.32"""
    from openab_kernel.errors import PlatformMessageNotDispatchedError

    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            kernel.outbound.behaviours.append(PlatformMessageNotDispatchedError("network"))
            await kernel.receive(event("1", id="e1"))
            await kernel.outbound.wait_for_attempts(1)
            await kernel.receive(event("/cancel", id="e2"))
            assert await kernel.outbound.wait_for(1) == ["Stopped."]
            await kernel.watcher.wait_for_turns(1)


async def test_cancel_with_nothing_to_stop_says_so() -> None:
    """agent 15.32"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            await kernel.receive(event("/cancel"))
            assert await kernel.outbound.wait_for(1) == ["Nothing is running."]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/reset", "Started over."),
        ("/model", "no models"),
        ("/models", "no models"),
        ("/agent", "stub 1"),
        ("/agents", "stub 1"),
    ],
)
async def test_commands_are_answered_and_never_prompted(text: str, answer: str) -> None:
    """agent 15.32"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            await kernel.receive(event(text))
            assert await kernel.outbound.wait_for(1) == [answer]
            assert kernel.agent.prompts == []


async def test_a_command_that_comes_twice_is_carried_out_once() -> None:
    """agent 15.32"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            for _ in range(3):
                await kernel.receive(event("/reset", id="same"))
            await kernel.run(event("hello", id="e2", conversation="c1"))
            await kernel.outbound.wait_for(2)
            assert sorted(kernel.outbound.texts) == ["Started over.", "echo: hello"]


@pytest.mark.parametrize(
    ("raw", "prompted"),
    [
        (event("/reset now"), True),
        (event("please /reset"), True),
        (event("/RESET"), True),
        (event("/reset", proactive=True), True),
        (event("/reset", is_bot=True), False),
        (event("/reset", sender=None), False),
    ],
)
async def test_what_is_no_command_of_a_person_changes_no_session(raw: Any, prompted: bool) -> None:
    """agent 15.32"""
    agent = StubAgent()
    resets: list[Any] = []

    async def reset(key: Any) -> bool:
        resets.append(key)
        return True

    agent.reset = reset  # type: ignore[method-assign]  # counts calls
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel_with("per-message")) as kernel:
            result = await kernel.run(raw)
            assert result.dispatched == prompted
            assert resets == []


async def test_a_held_reset_notice_goes_out_with_the_next_turn_that_says_something_and_reset_drops_it() -> None:
    """delivery 5.3, agent 15.32"""
    notice = "⚠️ The earlier conversation could not be restored; starting afresh."
    agent = StubAgent(says(), says("fine"), says())
    agent.started_afresh = True
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            await kernel.run(event("1", id="e1", proactive=True))
            assert kernel.outbound.texts == []
            agent.started_afresh = False
            await kernel.run(event("2", id="e2"))
            assert kernel.outbound.texts == [notice, "fine"]
            agent.started_afresh = True
            await kernel.run(event("3", id="e3", proactive=True))
            agent.started_afresh = False
            await kernel.receive(event("/reset", id="e4"))
            await kernel.outbound.wait_for(3)
            await kernel.run(event("4", id="e5"))
            assert kernel.outbound.texts == [notice, "fine", "Started over.", "echo: 4"]


async def test_a_message_that_another_turn_has_taken_is_dropped_and_not_tried_for_ever() -> None:
    """turn-kernel 15.7: a lost claim."""
    clock = ManualClock()
    store = MemoryStore(clock)
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("first")])
    with anyio.fail_after(5):
        async with running_kernel(store=store, clock=clock, agent=agent) as kernel:
            await burst(kernel, [event("1", id="e1"), event("stolen", id="e2"), event("3", id="e3")])
            stolen = next(row for row in store.messages.values() if row.request.message.message_id == "e2")
            assert await store.adopt("another", stolen.request.message.session, [stolen.seq], 0)
            gate.set()
            await kernel.watcher.wait_for_turns(2)
            assert agent.texts == ["1", "3"]
            await clock.advance(1_000)
            assert agent.texts == ["1", "3"]
