"""turn-kernel.md 15, rows 5, 9, 10, 13: what happens when something raises, and that everybody is told once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.errors import (
    AgentBusy,
    AgentGone,
    AgentRefused,
    AgentTimeout,
    PartialDeliveryError,
    SendRejected,
    SendUnknown,
    ShuttingDownError,
    StoreError,
)
from openab_kernel.facts.admission import ObserveOnly
from openab_kernel.facts.agent_update import BubbleMessage, Stopped, TextChunk, ToolActivity
from openab_kernel.facts.message import InboundMediaFacts
from openab_kernel.facts.outbound import ChannelCapabilities, TextLimit
from openab_kernel.facts.turn import ChannelTurnResult, StageEvent
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.channel import FakeChannel, FakeTurnAdapter, event
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.harness import Harness, running_kernel
from openab_kernel.testing.memory_store import MemoryStore
from openab_kernel.testing.outbound import RecordingOutbound

Break = Callable[[Any], None]


def raising(*args: Any, **named: Any) -> Any:
    raise RuntimeError("broken on purpose")


@pytest.mark.parametrize(
    ("stage", "method"),
    [("ingest", "ingest"), ("classify", "classify"), ("preflight", "preflight"), ("resolve", "resolve_turn")],
)
async def test_a_stage_that_raises_gives_a_failed_result_is_told_of_and_raises(stage: str, method: str) -> None:
    """turn-kernel 15.10"""
    adapter = FakeTurnAdapter()
    setattr(adapter, method, raising)
    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(turn_adapter=adapter)) as kernel:
            with pytest.raises(RuntimeError, match="on purpose"):
                await kernel.receive(event())
            [result] = adapter.results
            assert (result.failed_stage, result.admission.reason) == (stage, f"failed:{stage}")
            assert not result.dispatched
            assert (await kernel.watcher.wait_for_event(stage, "error")).error == "RuntimeError"
            assert kernel.agent.prompts == []


async def test_a_stage_that_raises_keeps_the_strictest_admission_known_so_far() -> None:
    """turn-kernel 15.10"""

    class Observing(FakeTurnAdapter):
        def preflight(self, *args: Any) -> Any:
            return ObserveOnly(reason="quiet")

        def resolve_turn(self, *args: Any) -> Any:
            raise RuntimeError("broken on purpose")

    channel = FakeChannel(turn_adapter=Observing())
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            with pytest.raises(RuntimeError):
                await kernel.receive(event())
            assert channel.turn_adapter.results[0].admission == ObserveOnly(reason="quiet")


async def test_an_assembly_that_raises_is_not_recorded() -> None:
    """turn-kernel 15.10"""

    class Smuggling(FakeTurnAdapter):
        def resolve_turn(self, *args: Any) -> Any:
            return super().resolve_turn(*args).model_copy(update={"extra": {"sender_id": "u2"}})

    channel = FakeChannel(turn_adapter=Smuggling())
    with anyio.fail_after(5):
        async with running_kernel(channel=channel) as kernel:
            with pytest.raises(ValueError, match="sender_id"):
                await kernel.receive(event())
            assert channel.turn_adapter.results[0].failed_stage == "assemble"
            assert kernel.store.messages == {}  # type: ignore[attr-defined]  # the harness's store is in memory


async def advance_through_retries(kernel: Harness) -> None:
    clock = kernel.clock
    assert isinstance(clock, ManualClock)
    await clock.until_waiting()
    await clock.advance(0.1)
    await clock.until_waiting()
    await clock.advance(0.3)


@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_record_is_tried_three_times(failures: int) -> None:
    """turn-kernel 15.5"""
    clock = ManualClock()
    store = MemoryStore(clock)
    store.fail("record", failures)
    outcome: list[Any] = []
    with anyio.fail_after(5):
        async with running_kernel(store=store, clock=clock) as kernel, anyio.create_task_group() as group:

            async def receive() -> None:
                try:
                    outcome.append(await kernel.receive(event()))
                except StoreError as error:
                    outcome.append(error)

            group.start_soon(receive)
            await clock.until_waiting()
            assert (clock.monotonic(), outcome) == (0, [])
            await clock.advance(0.1)
            if failures > 1:
                assert outcome == []
                await clock.advance(0.3)
                assert clock.monotonic() == pytest.approx(0.4)
            while not outcome:
                await anyio.lowlevel.checkpoint()
            if failures == 3:
                assert isinstance(outcome[0], StoreError)
                assert kernel.channel.turn_adapter.results[0].failed_stage == "record"
                assert store.messages == {}
            else:
                assert outcome == [None]
                await kernel.watcher.wait_for_turns(1)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (AgentGone("gone", exit_status=137), "⚠️ The assistant stopped before it was done. Please try again."),
        (AgentTimeout("slow", watchdog="hard"), "⚠️ The assistant took too long and was stopped."),
        (AgentRefused("no"), "⚠️ The assistant declined to answer this."),
        (RuntimeError("secret /path"), "⚠️ The assistant stopped before it was done. Please try again."),
    ],
)
@pytest.mark.parametrize("chunks", [[], ["half an "]])
async def test_what_came_stays_and_one_line_follows_when_the_agent_fails(
    failure: Exception, line: str, chunks: list[str]
) -> None:
    """turn-kernel 15.10"""
    agent = StubAgent([*(TextChunk(chunk) for chunk in chunks), failure])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            with pytest.raises(type(failure)):
                await kernel.run(event())
            assert kernel.outbound.texts == [*(["half an"] if chunks else []), line]
            [summary] = await kernel.watcher.wait_for_turns(1)
            assert summary.outcome == "failed"
            [result] = kernel.channel.turn_adapter.results
            assert (result.dispatched, result.failed_stage) == (bool(chunks), "dispatch")


@pytest.mark.parametrize("unready", [AgentBusy("full"), AgentGone("died")])
async def test_an_agent_that_cannot_be_made_ready_costs_the_turn_and_is_not_tried_again(unready: Exception) -> None:
    """turn-kernel 15.10"""
    agent = StubAgent()
    agent.unready = unready
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            with pytest.raises(type(unready)):
                await kernel.run(event(id="e1"))
            busy = isinstance(unready, AgentBusy)
            word = "busy" if busy else "stopped before"
            assert len(kernel.outbound.texts) == 1
            assert word in kernel.outbound.texts[0]
            agent.unready = None
            await kernel.run(event("next", id="e2"))
            assert agent.texts == ["next"]


@pytest.mark.parametrize("raw", [event(is_bot=True), event(proactive=True)])
async def test_a_bot_or_a_proactive_event_gets_no_failure_line(raw: Any) -> None:
    """turn-kernel 15.10"""
    channel = FakeChannel()
    access = channel.policy.access.model_copy(update={"allow_bots": "all"})
    channel.policy = channel.policy.model_copy(update={"access": access})
    agent = StubAgent([AgentGone("gone")], says(), says("fine"))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel) as kernel:
            with pytest.raises(AgentGone):
                await kernel.run(raw)
            await kernel.run({**raw, "id": "e2"})
            await kernel.run({**raw, "id": "e3"})
            assert kernel.outbound.texts == ["fine"]


async def test_an_empty_answer_tells_a_person_and_the_next_message_works() -> None:
    """delivery D-08"""
    agent = StubAgent(says(), says("\n \n"), says("fine"))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            for number in range(3):
                await kernel.run(event(id=f"e{number}"))
            empty = "⚠️ No answer came back."
            assert kernel.outbound.texts == [empty, empty, "fine"]


async def test_text_mode_shows_neither_thoughts_nor_tools_nor_deliberate_messages() -> None:
    """case E-03 and delivery 12.20"""
    from structlog.testing import capture_logs

    answer: list[Any] = [
        ToolActivity("t1", "stock lookup", "pending", "search", True),
        BubbleMessage("b1", "SECRET"),
        TextChunk("There are 4 left."),
        Stopped("end_turn"),
    ]
    agent = StubAgent(answer, answer)
    with anyio.fail_after(5), capture_logs() as logs:
        async with running_kernel(agent=agent) as kernel:
            await kernel.run(event(id="e1"))
            await kernel.run(event(id="e2"))
            assert kernel.outbound.texts == ["There are 4 left."] * 2
    warned = [entry for entry in logs if entry["event"] == "pairing.mismatch"]
    assert len(warned) == 1
    assert "sequential" in warned[0]["fix"]


async def test_a_refused_part_fails_the_turn_and_the_other_parts_are_sent() -> None:
    """turn-kernel 15.10"""
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=16)))
    outbound.behaviours.append(SendRejected("no", code="bad_text"))
    agent = StubAgent(says("aaaaaaaaaaaaaa\n\nbbbbbbbbbbbbbb"))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=FakeChannel(message_adapter=outbound)) as kernel:
            with pytest.raises(PartialDeliveryError):
                await kernel.run(event())
            assert outbound.texts == ["bbbbbbbbbbbbbb"]
            [summary] = await kernel.watcher.wait_for_turns(1)
            assert (summary.outcome, summary.delivered, summary.failed) == ("failed", 1, 1)


async def test_a_refused_destination_takes_the_other_parts_with_it() -> None:
    """case O-02, without the restart"""
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=16)))
    outbound.behaviours.append(SendRejected("gone", scope="destination", code="10003"))
    agent = StubAgent(says("aaaaaaaaaaaaaa\n\nbbbbbbbbbbbbbb"))
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=FakeChannel(message_adapter=outbound)) as kernel:
            with pytest.raises(Exception, match="2 parts"):
                await kernel.run(event())
            assert len(outbound.attempts) == 1


async def test_an_unconfirmed_send_is_not_a_failed_turn() -> None:
    """turn-kernel 15.10"""
    outbound = RecordingOutbound()
    outbound.behaviours.append(SendUnknown("no ack"))
    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(message_adapter=outbound)) as kernel:
            assert (await kernel.run(event())).dispatched
            [summary] = await kernel.watcher.wait_for_turns(1)
            assert (summary.outcome, summary.unknown) == ("done", 1)


async def test_a_dispatch_error_hangs_on_the_settlement_error_that_wins() -> None:
    """turn-kernel 15.10"""
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=16)))
    outbound.behaviours.append(SendRejected("no"))
    agent = StubAgent([TextChunk("aaaaaaaaaaaaaa\n\nbbbbbbbbbbbbbb"), AgentGone("gone")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=FakeChannel(message_adapter=outbound)) as kernel:
            with pytest.raises(PartialDeliveryError) as caught:
                await kernel.run(event())
            assert isinstance(caught.value.__context__, AgentGone)


async def test_on_finalize_is_told_once_of_every_way_a_message_can_end() -> None:
    """turn-kernel 15.9"""
    adapter = FakeTurnAdapter()
    agent = StubAgent(says("yes"), [AgentGone("gone")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=FakeChannel(turn_adapter=adapter)) as kernel:
            await kernel.run(event(id="dispatched"))
            await kernel.run(event(id="dispatched"))
            with pytest.raises(AgentGone):
                await kernel.run(event(id="failed"))
            await kernel.receive(event(id="refused", sender=None))
            await kernel.receive(event("/models", id="command"))
            await kernel.receive({})
            with pytest.raises(KeyError):
                await kernel.receive({"id": "malformed"})
            ends = [(result.admission.kind, result.admission.reason, result.failed_stage) for result in adapter.results]
            assert ends == [
                ("dispatch", None, None),
                ("drop", "dedupe", None),
                ("dispatch", None, "dispatch"),
                ("drop", "sender_id_missing", None),
                ("handled", "command:models", None),
                ("drop", "ingest-null", None),
                ("drop", "failed:ingest", "ingest"),
            ]


async def test_an_on_finalize_that_raises_is_attached_to_the_result_and_raises_nowhere() -> None:
    """turn-kernel 15.9"""
    adapter = FakeTurnAdapter()
    adapter.on_finalize = raising  # type: ignore[method-assign]  # the case under test
    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(turn_adapter=adapter)) as kernel:
            result = await kernel.run(event())
            assert result.dispatched
            assert isinstance(result.finalize_error, RuntimeError)
            await kernel.watcher.wait_for_event("finalize", "error")
            assert kernel.outbound.texts == ["echo: hello"]


async def test_an_original_error_wins_over_that_of_on_finalize() -> None:
    """turn-kernel 15.9"""
    adapter = FakeTurnAdapter()
    adapter.on_finalize = raising  # type: ignore[method-assign]  # the case under test
    with anyio.fail_after(5):
        async with running_kernel(
            agent=StubAgent([AgentGone("gone")]), channel=FakeChannel(turn_adapter=adapter)
        ) as kernel:
            with pytest.raises(AgentGone):
                await kernel.run(event())


async def test_a_log_callback_that_raises_changes_nothing_and_is_logged_once() -> None:
    """turn-kernel 15.10"""
    from structlog.testing import capture_logs

    with anyio.fail_after(5), capture_logs() as logs:
        async with running_kernel() as kernel:
            result = await kernel.kernel.turn.run("fake", event(), account_id="a1", log=raising)
            assert result.dispatched
    assert [entry["event"] for entry in logs].count("log_callback.failed") == 1


class BrokenObserver:
    """Raises on every event."""

    async def stage_event(self, event: StageEvent) -> None:
        raise RuntimeError("boom")


class BlockingObserver:
    """A plain method that hangs in its worker thread until the test lets it go."""

    def __init__(self) -> None:
        import threading

        self.release = threading.Event()

    def message_ended(self, result: ChannelTurnResult) -> None:
        self.release.wait(5)


async def test_a_broken_observer_and_a_hanging_one_hold_up_nobody() -> None:
    """turn-kernel 15.10, case P-02"""
    from structlog.testing import capture_logs

    hanging = BlockingObserver()
    clock = ManualClock()
    with anyio.fail_after(5), capture_logs() as logs:
        async with running_kernel(clock=clock, observers=[("A", BrokenObserver()), ("B", hanging)]) as kernel:
            for number in range(3):
                assert (await kernel.run(event(id=f"e{number}"))).dispatched
            await kernel.watcher.wait_for_turns(3)
            await clock.until_waiting()
            await clock.advance(11)
            while not any(entry.get("plugin") == "B" for entry in logs):
                await anyio.lowlevel.checkpoint()
            hanging.release.set()
    failed = [(entry["plugin"], entry["kind"]) for entry in logs if entry["event"] == "observer.failed"]
    assert failed == [("A", "RuntimeError"), ("B", "timeout")]


async def test_a_caller_that_is_cancelled_leaves_the_turn_to_its_lane() -> None:
    """turn-kernel 15.10"""
    gate = anyio.Event()
    agent = StubAgent([gate.wait, *says("yes")])
    with anyio.fail_after(5):
        async with running_kernel(agent=agent) as kernel:
            async with anyio.create_task_group() as group:
                group.start_soon(kernel.run, event())
                await agent.wait_for_prompts(1)
                group.cancel_scope.cancel()
            gate.set()
            assert await kernel.outbound.wait_for(1) == ["yes"]
            await kernel.watcher.wait_for_turns(1)


@pytest.mark.parametrize("method", ["ingest", "classify", "preflight", "resolve_turn"])
async def test_a_cancelled_receive_is_finalized_and_the_cancellation_goes_on(method: str) -> None:
    """turn-kernel 15.10"""
    adapter = FakeTurnAdapter()
    entered = anyio.Event()

    async def hang(*args: Any) -> None:
        entered.set()
        await anyio.sleep_forever()

    setattr(adapter, method, hang)
    with anyio.fail_after(5):
        async with running_kernel(channel=FakeChannel(turn_adapter=adapter)) as kernel:
            async with anyio.create_task_group() as group:
                group.start_soon(kernel.receive, event())
                await entered.wait()
                group.cancel_scope.cancel()
            assert len(adapter.results) == 1
            assert adapter.results[0].failed_stage is not None
            assert kernel.agent.prompts == []


async def test_nothing_is_taken_on_while_the_kernel_stops() -> None:
    """case R-01"""
    with anyio.fail_after(5):
        async with running_kernel() as kernel:
            kernel.kernel.pipeline.is_draining = True
            with pytest.raises(ShuttingDownError):
                await kernel.receive(event())


async def test_an_observed_turn_lets_the_agent_run_and_shows_nothing_at_all() -> None:
    """turn-kernel 15.13"""
    outbound = RecordingOutbound(ChannelCapabilities(reactions=True, typing=True))
    channel = FakeChannel(message_adapter=outbound)
    access = channel.policy.access.model_copy(update={"observe_only": True})
    channel.policy = channel.policy.model_copy(update={"access": access})
    agent = StubAgent(says("yes"), says(), [TextChunk("half"), AgentGone("gone")])
    agent.started_afresh = True
    from openab_kernel.outbound.settings import ReactionsSettings

    with anyio.fail_after(5):
        async with running_kernel(agent=agent, channel=channel, reactions=ReactionsSettings()) as kernel:
            for number in range(2):
                result = await kernel.run(event(id=f"e{number}"))
                assert (result.admission.kind, result.dispatched) == ("observeOnly", True)
                assert result.dispatch_result is not None
                assert not result.dispatch_result.is_visible
            with pytest.raises(AgentGone):
                await kernel.run(event(id="e2"))
            assert len(agent.prompts) == 3
            assert (outbound.attempts, outbound.marks, outbound.typing_calls) == ([], [], 0)
            assert "dispatch:warning" not in kernel.watcher.way()


async def test_a_visible_turn_with_nothing_to_show_has_the_zero_count_warning() -> None:
    """turn-kernel 15.13"""
    with anyio.fail_after(5):
        async with running_kernel(agent=StubAgent(says())) as kernel:
            await kernel.run(event(proactive=True))
            warning = await kernel.watcher.wait_for_event("dispatch", "warning")
            assert warning.reason == "zero-count-visible-dispatch"


@pytest.mark.parametrize(
    ("name", "code"),
    [("pipe", "not_a_file"), (".", "IsADirectoryError"), ("absent", "FileNotFoundError"), ("a\0b", "ValueError")],
)
async def test_an_attachment_that_is_no_file_holds_nothing_up(tmp_path: Path, name: str, code: str) -> None:
    os.mkfifo(tmp_path / "pipe")

    class Attaching(FakeTurnAdapter):
        def resolve_turn(self, *args: Any) -> Any:
            media = (InboundMediaFacts(path=os.path.join(tmp_path, name), kind="document"),)
            return super().resolve_turn(*args).model_copy(update={"media": media})

    with anyio.fail_after(5), capture_logs() as logs:
        async with running_kernel(channel=FakeChannel(turn_adapter=Attaching())) as kernel:
            assert (await kernel.run(event())).dispatched
    assert [entry["code"] for entry in logs if entry["event"] == "media.unreadable"] == [code]
