from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.errors import (
    PlatformMessageNotDispatchedError,
    SendRejected,
    SendThrottled,
    SendUnknown,
)
from openab_kernel.facts.admission import Dispatch
from openab_kernel.facts.agent_update import AgentUpdate, BubbleMessage, TextChunk, Thought, ToolActivity
from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.conversation import ChatKind, SessionKey
from openab_kernel.facts.outbound import ChannelCapabilities, Destination
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.outbound import live as live_module
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.live import MAX_FAILURES, NOTHING, Live
from openab_kernel.outbound.settings import EmojiSettings, ReactionsSettings
from openab_kernel.testing.channel import FakeChannel
from openab_kernel.testing.clock import ManualClock, settle
from openab_kernel.testing.outbound import RecordingOutbound

BOTH = ChannelCapabilities(reactions=True, typing=True)
MARKS = ChannelCapabilities(reactions=True)
TYPING = ChannelCapabilities(typing=True)
REMOVING = ReactionsSettings(remove_after_reply=True)

CODING = ToolActivity("call_1", title="edit", status="pending", tool_kind="edit", is_new=True)
WEB = ToolActivity("call_2", title="fetch", status="pending", tool_kind="fetch", is_new=True)
OTHER = ToolActivity("call_3", title="tool", status="pending", tool_kind="other", is_new=True)

Fault = Exception | Callable[[], Awaitable[Any]]


class Platform(RecordingOutbound):
    """Checks that marks of one message never meet, and keeps the moment of each call.

    Each entry of `faults` is used up by one reaction: an exception is raised instead, a callable is awaited before.
    """

    def __init__(self, clock: ManualClock, capabilities: ChannelCapabilities) -> None:
        super().__init__(capabilities)
        self.clock = clock
        self.calls: list[tuple[str, str, str]] = []
        self.typed_at: list[float] = []
        self.faults: deque[Fault] = deque()
        self.typing_faults: deque[Fault] = deque()
        self.tries = 0
        self.shown: defaultdict[str, list[str]] = defaultdict(list)
        self._busy: set[str] = set()

    def marks_of(self, message_id: str) -> list[str]:
        return [f"{sign}{emoji}" for sign, of, emoji in self.calls if of == message_id]

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        await self._react("+", message_id, emoji)
        assert not self.shown[message_id], "two marks at a time"
        self.shown[message_id].append(emoji)

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        await self._react("-", message_id, emoji)
        self.shown[message_id].remove(emoji)

    async def typing(self, destination: Destination) -> None:
        await meet(self.typing_faults)
        self.typed_at.append(self.clock.monotonic())

    async def _react(self, sign: str, message_id: str, emoji: str) -> None:
        assert message_id not in self._busy, "two calls at a time"
        self._busy.add(message_id)
        self.tries += 1
        try:
            await meet(self.faults)
        finally:
            self._busy.remove(message_id)
        self.calls.append((sign, message_id, emoji))


async def meet(faults: deque[Fault]) -> None:
    fault = faults.popleft() if faults else None
    if isinstance(fault, Exception):
        raise fault
    if fault is not None:
        await fault()


class Stage:
    """A `Live` on a platform of one channel, and the clock that both go by."""

    def __init__(self, capabilities: ChannelCapabilities, settings: ReactionsSettings) -> None:
        self.clock = ManualClock()
        self.platform = Platform(self.clock, capabilities)
        channels = Channels([FakeChannel(message_adapter=self.platform)])
        self.live = Live(channels, self.clock, settings)

    async def after(self, seconds: float) -> None:
        """Let what was asked for begin, then move time on."""
        await settle()
        await self.clock.advance(seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                await group.start(self.live.run)
                yield
                group.cancel_scope.cancel()


@asynccontextmanager
async def stage(
    capabilities: ChannelCapabilities = MARKS, settings: ReactionsSettings | None = None
) -> AsyncIterator[Stage]:
    found = Stage(capabilities, settings or ReactionsSettings())
    async with found.running():
        yield found


def message(
    message_id: str | None = "m1",
    *,
    channel: str = "fake",
    chat_type: ChatKind = "direct",
    was_mentioned: bool | None = None,
) -> InboundMessage:
    session = SessionKey("main", None, channel, "a1", "group", "c1", None)
    return InboundMessage(
        session=session,
        session_key=str(session),
        channel=channel,
        account_id="a1",
        conversation_id="c1",
        message_id=f"event-{message_id}",
        received_at=0,
        admission=Dispatch(),
        context=context(chat_type, was_mentioned),
        destination=Destination(
            channel=channel, account_id="a1", conversation_id="c1", to="c1", source_message_id=message_id
        ),
    )


def context(chat_type: ChatKind, was_mentioned: bool | None) -> FinalizedMsgContext:
    return FinalizedMsgContext.model_construct(chat_type=chat_type, was_mentioned=was_mentioned)


# ---------------------------------------------------------------- marks


async def test_recorded_message_gets_the_queued_mark() -> None:
    async with stage() as s:
        s.live.queued(message())
        await settle()
        assert s.platform.calls == [("+", "m1", "👀")]


async def test_turn_shows_what_the_agent_does() -> None:
    async with stage() as s:
        s.live.queued(message())
        status = s.live.begin([message()])
        await s.after(0.7)
        for update in (CODING, WEB, OTHER, Thought()):
            status.take(update)
            await s.after(0.7)
        status.end(failed=False)
        await settle()
        assert "".join(s.platform.marks_of("m1")) == "+👀-👀+🤔-🤔+👨‍💻-👨‍💻+⚡-⚡+🔥-🔥+🤔-🤔+🆗"


async def test_change_shows_after_700_ms_and_only_the_last_one() -> None:
    async with stage() as s:
        status = s.live.begin([message()])
        await s.after(0.699)
        assert s.platform.shown["m1"] == ["👀"]
        await s.after(0.301)
        assert s.platform.shown["m1"] == ["🤔"]
        status.take(CODING)
        await s.after(0.5)
        status.take(WEB)
        await s.after(0.5)
        assert s.platform.shown["m1"] == ["🤔"]
        await s.after(0.25)
        assert s.platform.marks_of("m1") == ["+👀", "-👀", "+🤔", "-🤔", "+⚡"]


async def test_silent_agent_makes_the_mark_yawn_and_then_worry() -> None:
    async with stage() as s:
        s.live.begin([message()])
        await s.after(9.999)
        assert s.platform.shown["m1"] == ["🤔"]
        await s.after(0.001)
        assert s.platform.shown["m1"] == ["🥱"]
        await s.after(19.999)
        assert s.platform.shown["m1"] == ["🥱"]
        await s.after(0.001)
        assert s.platform.shown["m1"] == ["😨"]


async def test_chunk_is_a_sign_of_life() -> None:
    async with stage() as s:
        status = s.live.begin([message()])
        for _ in range(5):
            await s.after(9)
            status.take(TextChunk("still here"))
        assert s.platform.marks_of("m1") == ["+👀", "-👀", "+🤔"]
        await s.after(10)
        assert s.platform.shown["m1"] == ["🥱"]
        status.take(TextChunk("and back"))
        await s.after(0.7)
        assert s.platform.shown["m1"] == ["🤔"]


@pytest.mark.parametrize(("failed", "emoji"), [(False, "🆗"), (True, "😱")])
@pytest.mark.parametrize("seconds", [0.0, 0.3, 5.0, 60.0])
async def test_final_mark_replaces_any_other_at_once_and_stays(failed: bool, emoji: str, seconds: float) -> None:
    async with stage() as s:
        status = s.live.begin([message()])
        await s.after(seconds)
        status.end(failed)
        await settle()
        assert s.platform.shown["m1"] == [emoji]
        calls = len(s.platform.calls)
        await s.after(100)
        assert len(s.platform.calls) == calls


@pytest.mark.parametrize(("failed", "emoji", "hold"), [(False, "🆗", 1.5), (True, "😱", 2.5)])
async def test_final_mark_is_held_and_removed_if_so_set(failed: bool, emoji: str, hold: float) -> None:
    async with stage(MARKS, REMOVING) as s:
        status = s.live.begin([message()])
        await s.after(1)
        status.end(failed)
        await s.after(hold - 0.001)
        assert s.platform.shown["m1"] == [emoji]
        await s.after(0.001)
        assert s.platform.shown["m1"] == []


async def test_in_a_batch_the_last_message_carries_progress() -> None:
    batch = [message("m1"), message("m2"), message("m3")]
    async with stage() as s:
        for item in batch[:2]:
            s.live.queued(item)
        status = s.live.begin(batch)
        await s.after(0.7)
        assert s.platform.shown == {"m1": ["👀"], "m2": ["👀"], "m3": ["🤔"]}
        status.end(failed=True)
        await settle()
        assert s.platform.shown == {"m1": ["👀"], "m2": ["👀"], "m3": ["😱"]}


async def test_marks_of_a_whole_batch_are_removed_if_so_set() -> None:
    async with stage(MARKS, REMOVING) as s:
        status = s.live.begin([message("m1"), message("m2")])
        await s.after(1)
        status.end(failed=False)
        await settle()
        assert s.platform.shown == {"m1": [], "m2": ["🆗"]}
        await s.after(1.5)
        assert s.platform.shown == {"m1": [], "m2": []}


async def test_own_emojis_are_used_and_an_empty_one_is_no_mark() -> None:
    settings = ReactionsSettings(emojis=EmojiSettings(queued="", thinking="🧠", done="🧠"))
    async with stage(MARKS, settings) as s:
        status = s.live.begin([message()])
        await s.after(0.7)
        status.end(failed=False)
        await settle()
        assert s.platform.marks_of("m1") == ["+🧠"]


# ---------------------------------------------------------------- typing


async def test_typing_is_refreshed_every_6_s_and_ends_with_the_turn() -> None:
    async with stage(TYPING) as s:
        status = s.live.begin([message()])
        await s.after(17)
        status.end(failed=False)
        await s.after(100)
        assert s.platform.typed_at == [0, 6, 12]


async def test_turn_that_ends_at_once_never_types() -> None:
    async with stage(TYPING) as s:
        s.live.begin([message()]).end(failed=False)
        await s.after(10)
        assert s.platform.typed_at == []


async def test_turn_that_ends_while_the_channel_is_away_never_types() -> None:
    async with stage(TYPING) as s:
        s.platform.ready = anyio.Event()
        status = s.live.begin([message()])
        await settle()
        s.platform.ready.set()
        status.end(failed=False)
        await s.after(10)
        assert s.platform.typed_at == []


async def test_typing_call_under_way_is_abandoned_at_the_end() -> None:
    async with stage(TYPING) as s:
        arrives = anyio.Event()
        s.platform.typing_faults.append(arrives.wait)
        status = s.live.begin([message()])
        await settle()
        status.end(failed=False)
        await settle()
        arrives.set()
        await s.after(10)
        assert s.platform.typed_at == []


@pytest.mark.parametrize(
    ("chat_type", "was_mentioned", "is_at_once"),
    [
        ("direct", None, True),
        ("direct", False, True),
        ("group", True, True),
        ("channel", None, True),
        ("group", False, False),
        ("channel", False, False),
    ],
)
@pytest.mark.parametrize("text", [TextChunk("hi"), BubbleMessage("b1", "hi")])
async def test_where_nobody_spoke_to_the_bot_it_types_with_its_first_text(
    chat_type: ChatKind, was_mentioned: bool | None, is_at_once: bool, text: AgentUpdate
) -> None:
    async with stage(TYPING) as s:
        status = s.live.begin([message(chat_type=chat_type, was_mentioned=was_mentioned)])
        status.take(Thought())
        await s.after(5)
        assert s.platform.typed_at == ([0] if is_at_once else [])
        status.take(text)
        status.take(text)
        await settle()
        assert s.platform.typed_at == ([0] if is_at_once else [5])
        status.end(failed=False)
        status.take(text)
        await s.after(10)
        assert len(s.platform.typed_at) == 1


async def test_one_mention_in_a_batch_is_enough_to_type_at_once() -> None:
    async with stage(TYPING) as s:
        s.live.begin([message("m1", chat_type="group", was_mentioned=mention) for mention in (True, False)])
        await settle()
        assert s.platform.typed_at == [0]


async def test_typing_that_fails_is_noted_once_and_tried_again() -> None:
    with capture_logs() as logs:
        async with stage(BOTH) as s:
            s.platform.typing_faults += [SendUnknown("lost"), SendThrottled("slow down", retry_after_seconds=20)]
            status = s.live.begin([message()])
            await s.after(30)
            status.end(failed=False)
            await settle()
            assert s.platform.typed_at == [26]
            assert s.platform.shown["m1"] == ["🆗"]
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("typing.failed", "debug")]


async def test_refused_typing_is_not_tried_again() -> None:
    async with stage(BOTH) as s:
        s.platform.typing_faults.append(SendRejected("no"))
        s.live.begin([message()])
        await s.after(20)
        assert s.platform.typed_at == []
        assert s.platform.shown["m1"] == ["🥱"]


# ---------------------------------------------------------------- where there is nothing to show


async def test_channel_without_either_costs_nothing() -> None:
    async with stage(ChannelCapabilities()) as s:
        s.live.queued(message())
        status = s.live.begin([message()])
        assert status is NOTHING
        status.take(CODING)
        status.end(failed=False)
        await settle()
        assert s.clock.waiters == 0
        assert s.platform.tries == 0


@pytest.mark.parametrize("capabilities", [TYPING, BOTH])
async def test_reactions_switched_off_leave_typing(capabilities: ChannelCapabilities) -> None:
    async with stage(capabilities, ReactionsSettings(enabled=False)) as s:
        s.live.queued(message())
        status = s.live.begin([message()])
        await s.after(1)
        status.end(failed=False)
        await settle()
        assert s.platform.typed_at == [0]
        assert s.platform.tries == 0


async def test_turn_without_a_message_on_the_platform_has_no_mark() -> None:
    async with stage(BOTH) as s:
        s.live.queued(message(None))
        status = s.live.begin([message("m1"), message(None)])
        status.take(CODING)
        await s.after(1)
        status.end(failed=True)
        await settle()
        assert s.platform.typed_at == [0]
        assert s.platform.calls == [("+", "m1", "👀")]


async def test_channel_that_is_gone_shows_nothing() -> None:
    async with stage() as s:
        assert s.live.begin([message(channel="gone")]) is NOTHING


async def test_nothing_is_shown_before_or_after_the_run() -> None:
    s = Stage(BOTH, ReactionsSettings())
    assert s.live.begin([message()]) is NOTHING
    async with s.running():
        status = s.live.begin([message(chat_type="group", was_mentioned=False)])
    status.take(TextChunk("late"))
    status.end(failed=False)
    s.live.queued(message())
    await settle()
    assert s.platform.calls == []
    assert s.platform.typed_at == []


# ---------------------------------------------------------------- platforms that fail


@pytest.mark.parametrize(
    "error",
    [
        SendRejected("no such emoji", code="10014"),
        PlatformMessageNotDispatchedError("no", retryable=False),
        NotImplementedError(),
    ],
)
async def test_message_whose_mark_is_refused_gets_no_further_tries(error: Exception) -> None:
    with capture_logs() as logs:
        async with stage(BOTH) as s:
            s.platform.faults.append(error)
            s.live.queued(message())
            await settle()
            status = s.live.begin([message()])
            await s.after(1)
            status.take(CODING)
            await s.after(20)
            status.end(failed=False)
            await s.after(100)
            assert s.platform.tries == 1
            assert s.platform.typed_at == [0, 6, 12, 18]
    code = getattr(error, "code", None)
    name = type(error).__name__
    assert logs == [{"event": "mark.failed", "log_level": "debug", "channel": "fake", "error": name, "code": code}]


async def test_refusal_concerns_one_message_only() -> None:
    async with stage() as s:
        s.platform.faults.append(SendRejected("no"))
        s.live.queued(message("m1"))
        await settle()
        s.live.queued(message("m2"))
        await settle()
        assert s.platform.shown == {"m2": ["👀"]}


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (SendThrottled("slow down", retry_after_seconds=12), 12),
        (PlatformMessageNotDispatchedError("no connection"), 5),
        (SendUnknown("lost"), 5),
    ],
)
async def test_failed_call_is_made_again_for_the_mark_that_is_right_by_then(error: Exception, seconds: int) -> None:
    async with stage() as s:
        s.platform.faults.append(error)
        status = s.live.begin([message()])
        await settle()
        status.end(failed=False)
        await s.after(seconds - 0.001)
        assert s.platform.tries == 1
        await s.after(0.001)
        assert s.platform.calls == [("+", "m1", "🆗")]


async def test_message_whose_mark_fails_again_and_again_is_given_up() -> None:
    with capture_logs() as logs:
        async with stage() as s:
            s.platform.faults += [SendUnknown("lost")] * 100
            status = s.live.begin([message()])
            await s.after(100)
            status.end(failed=False)
            await s.after(100)
            assert s.platform.tries == MAX_FAILURES
    assert len(logs) == 1


async def test_call_that_hangs_ends_after_30_s_and_is_made_again() -> None:
    async with stage() as s:
        s.platform.faults.append(anyio.sleep_forever)
        s.live.queued(message())
        await s.after(34.999)
        assert s.platform.calls == []
        await s.after(0.001)
        assert s.platform.calls == [("+", "m1", "👀")]


async def test_slow_call_holds_up_neither_its_turn_nor_another_message() -> None:
    async with stage(BOTH) as s:
        arrives = anyio.Event()
        s.platform.faults.append(arrives.wait)
        slow = s.live.begin([message("slow")])
        await settle()
        fast = s.live.begin([message("fast")])
        await s.after(1)
        slow.take(CODING)
        for status in (slow, fast):
            status.end(failed=False)
        await settle()
        assert s.platform.shown == {"fast": ["🆗"]}
        arrives.set()
        await settle()
        assert s.platform.marks_of("slow") == ["+👀", "-👀", "+🆗"]


async def test_mark_waits_for_the_channel_and_is_then_the_right_one() -> None:
    async with stage() as s:
        s.platform.ready = anyio.Event()
        status = s.live.begin([message()])
        await s.after(60)
        status.end(failed=False)
        await settle()
        assert s.platform.tries == 0
        s.platform.ready.set()
        await settle()
        assert s.platform.calls == [("+", "m1", "🆗")]


# ---------------------------------------------------------------- bounds


async def test_run_is_left_at_once_though_calls_hang() -> None:
    s = Stage(BOTH, ReactionsSettings())
    async with s.running():
        s.platform.faults.append(anyio.sleep_forever)
        s.platform.typing_faults.append(anyio.sleep_forever)
        s.live.begin([message("m1")])
        await settle()
        s.live.queued(message("m2"))
        await settle()
    assert s.platform.tries == 2
    assert s.platform.shown == {"m2": ["👀"]}


async def test_oldest_mark_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MAX_MARKS", 2)
    async with stage() as s:
        s.platform.faults.append(anyio.sleep_forever)
        hung = s.live.begin([message("hung")])
        await settle()
        for name in ("m1", "m2"):
            s.live.queued(message(name))
        await settle()
        assert s.platform.shown == {"m1": ["👀"], "m2": ["👀"]}
        await s.live.wait_idle()
        hung.end(failed=False)
        await s.after(100)
        assert s.platform.marks_of("hung") == []


async def test_message_that_is_taken_is_not_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MAX_MARKS", 2)
    async with stage() as s:
        for name in ("m1", "m2"):
            s.live.queued(message(name))
        status = s.live.begin([message("m1")])
        s.live.queued(message("m3"))
        await settle()
        status.end(failed=False)
        await settle()
        assert s.platform.marks_of("m1") == ["+👀", "-👀", "+🆗"]


async def test_message_of_a_finished_turn_is_remembered_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MAX_MARKS", 2)
    async with stage(MARKS, REMOVING) as s:
        s.live.queued(message("waiting"))
        for number in range(10):
            s.live.begin([message(f"m{number}")]).end(failed=False)
            await s.after(2)
        status = s.live.begin([message("waiting")])
        await s.after(1)
        assert s.platform.marks_of("waiting") == ["+👀", "-👀", "+🤔"]
        status.end(failed=False)


async def test_idle_is_when_every_message_has_its_last_mark() -> None:
    idle_at: list[float] = []

    async with stage(MARKS, REMOVING) as s, anyio.create_task_group() as group:

        async def note_idle() -> None:
            await s.live.wait_idle()
            idle_at.append(s.clock.monotonic())

        s.live.queued(message("waiting"))
        status = s.live.begin([message()])
        group.start_soon(note_idle)
        await s.after(20)
        status.end(failed=False)
        await s.after(10)
        assert idle_at == [21.5]
        assert s.platform.shown == {"waiting": ["👀"], "m1": []}
