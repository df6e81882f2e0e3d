"""delivery.md 12: the bubble modes through a whole kernel, with a stub agent and a recording platform."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.delivery.lines import FAILURE_LINES, RESET_NOTICE
from openab_kernel.delivery.settings import APOLOGY, DeliverySettings
from openab_kernel.errors import (
    AgentError,
    AgentGone,
    AgentRefused,
    AgentTimeout,
    SendRejected,
    SendUnknown,
)
from openab_kernel.facts.agent_update import BubbleIgnored, BubbleMessage, Stopped, TextChunk, ToolActivity
from openab_kernel.facts.outbound import ChannelCapabilities, TextLimit, TextSend
from openab_kernel.facts.policy import AccessPolicy, ChannelPolicy
from openab_kernel.facts.turn import NextStep
from openab_kernel.outbound.settings import ReactionsSettings
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.channel import FakeChannel, event
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.harness import Harness, running_kernel
from openab_kernel.testing.memory_store import MemoryStore
from openab_kernel.testing.outbound import RecordingOutbound
from tests.delivery.envelope.table import CANARY, E5, e

BUBBLE_MODES = ["structured", "sequential"]
TRUNCATED = e("half")[:-20]

FAILURES = [
    (AgentError("error"), "agent"),
    (AgentGone("died"), "agent"),
    (AgentTimeout("late", watchdog="hard"), "timeout"),
    (AgentRefused("no"), "refusal"),
]


@asynccontextmanager
async def kernel_of(
    *answers: Any, mode: Any = "structured", outbound: RecordingOutbound | None = None, **settings: Any
) -> AsyncIterator[Harness]:
    """A kernel in a bubble mode, on a platform without pauses unless `bubble_delay_ms` is given."""
    delivery = {key: settings.pop(key) for key in list(settings) if key in DeliverySettings.model_fields}
    async with running_kernel(
        agent=settings.pop("agent", None) or StubAgent(*answers),
        channel=FakeChannel(message_adapter=outbound or RecordingOutbound()),
        delivery=DeliverySettings(mode=mode, **{"bubble_delay_ms": 0, **delivery}),
        **settings,
    ) as kernel:
        yield kernel


async def texts_of(*answers: Any, raw: Any = None, **settings: Any) -> tuple[list[str], Any]:
    """What one turn sends, and the line that tells it."""
    with anyio.fail_after(5):
        async with kernel_of(*answers, **settings) as kernel:
            await kernel.receive(raw or event())
            [summary] = await kernel.watcher.wait_for_turns(1)
            return kernel.outbound.texts, summary


def bubble(text: str, id: str = "") -> BubbleMessage:
    return BubbleMessage(id, text)


def after_sends(kernel: Callable[[], Harness], count: int) -> Callable[[], Any]:
    """A step of the agent that waits for the platform."""
    return lambda: kernel().outbound.wait_for(count)


async def test_a_line_feed_is_no_boundary() -> None:
    """delivery 12.2"""
    texts, summary = await texts_of(says(e("alpha\nbeta\ngamma")))
    assert texts == ["alpha\nbeta\ngamma"]
    assert (summary.mode, summary.outcome, summary.bubbles, summary.parts) == ("structured", "done", 1, 1)


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_bubbles_leave_in_order_with_the_pause_between_them(mode: str) -> None:
    """delivery 12.3"""
    moments: list[float] = []
    clock = ManualClock()
    outbound = RecordingOutbound()
    outbound.behaviours.extend([lambda send: moments.append(clock.monotonic())] * 3)
    answer = says(e("one", "two", "three")) if mode == "structured" else [*map(bubble, ("one", "two", "three"))]
    with anyio.fail_after(5):
        async with kernel_of(
            [*answer, Stopped("end_turn")], mode=mode, outbound=outbound, clock=clock, bubble_delay_ms=400
        ) as kernel:
            await kernel.receive(event())
            await outbound.wait_for(1)
            await clock.until_waiting()
            await clock.advance(0.399)
            assert outbound.texts == ["one"]
            await clock.advance(0.001)
            assert outbound.texts == ["one", "two"]
            await clock.advance(0.4)
            await kernel.watcher.wait_for_turns(1)
    assert outbound.texts == ["one", "two", "three"]
    assert moments == pytest.approx([0, 0.4, 0.8])


async def test_a_bubble_over_the_limit_becomes_several_messages_in_its_place() -> None:
    """delivery 12.4"""
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=10)))
    texts, summary = await texts_of(says(e("aaaaa\nbbbbb", "next")), outbound=outbound)
    assert texts == ["aaaaa", "bbbbb", "next"]
    assert (summary.bubbles, summary.parts) == (2, 3)


async def test_parts_of_one_bubble_go_back_to_back() -> None:
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=10)))
    clock = ManualClock()
    with anyio.fail_after(5):
        async with kernel_of(
            says(e("aaaaa\nbbbbb", "next")), outbound=outbound, clock=clock, bubble_delay_ms=400
        ) as kernel:
            await kernel.receive(event())
            assert await outbound.wait_for(2) == ["aaaaa", "bbbbb"]
            await clock.until_waiting()
            await clock.advance(0.4)
            await kernel.watcher.wait_for_turns(1)
    assert outbound.texts == ["aaaaa", "bbbbb", "next"]


async def test_more_bubbles_than_the_cap_are_none() -> None:
    """delivery 12.5"""
    with capture_logs() as logs:
        texts, summary = await texts_of(says(E5))
    assert texts == [APOLOGY]
    assert summary.outcome == "done"
    [rejected] = [line for line in logs if line["event"] == "envelope.rejected"]
    assert (rejected["kind"], rejected["policy"]) == ("too_many_bubbles", "fallback_text")


@pytest.mark.parametrize(
    ("length", "limit", "expected"), [(1201, 1200, APOLOGY), (1200, 1200, "a" * 1200), (1201, 0, "a" * 1201)]
)
async def test_the_length_of_a_bubble_is_checked(length: int, limit: int, expected: str) -> None:
    """delivery 12.6"""
    texts, _ = await texts_of(says(e("a" * length)), max_bubble_chars=limit)
    assert texts == [expected]


async def test_silence_with_bubbles_is_silent_and_warned_of() -> None:
    """delivery 12.7"""
    with capture_logs() as logs:
        texts, summary = await texts_of(says(e("x", "y", next={"type": "silent"})))
    assert (texts, summary.outcome, summary.cause) == ([], "silent", None)
    assert [(line["log_level"], line["bubbles"]) for line in logs if line["event"] == "turn.silent"] == [("warning", 2)]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
@pytest.mark.parametrize(
    "text",
    [
        e("", next={"type": "silent"}),
        e("1", "2", "3", "4", "5", next={"type": "silent"}),
        '{"messages":[],"next":"silent"}',
        '{"next":{"type":"silent"}}',
        '{"schema":"openab.turn.v1","next":{"type":"silent"},"messages":[{"id":"b',
    ],
)
async def test_silence_is_kept_however_it_was_said(mode: str, text: str) -> None:
    """delivery 12.8"""
    texts, summary = await texts_of(says(text), mode=mode)
    assert (texts, summary.outcome) == ([], "silent")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fallback_text", ["sorry, one sec"]), ("error_message", [APOLOGY]), ("silent", [])],
)
async def test_a_cut_envelope_is_cut_out_and_the_policy_is_named(policy: str, expected: list[str]) -> None:
    """delivery 12.10, delivery 12.11"""
    with capture_logs() as logs:
        texts, _ = await texts_of(says("sorry, one sec\n" + TRUNCATED), on_parse_error=policy)
    assert texts == expected
    [rejected] = [line for line in logs if line["event"] == "envelope.rejected"]
    assert (rejected["kind"], rejected["policy"]) == ("truncated", policy)


@pytest.mark.parametrize(
    ("policy", "expected"), [("fallback_text", ["all good"]), ("error_message", [APOLOGY]), ("silent", [])]
)
async def test_the_policy_is_for_plain_prose_too(policy: str, expected: list[str]) -> None:
    """delivery 12.11"""
    with capture_logs() as logs:
        texts, summary = await texts_of(says("all good"), on_parse_error=policy)
    assert (texts, summary.outcome) == (expected, "done" if expected else "silent")
    kinds = [line["kind"] for line in logs if line["event"] == "envelope.rejected"]
    assert kinds == ([] if policy == "fallback_text" else ["not_structured"])


async def test_a_sample_of_another_schema_is_prose() -> None:
    """delivery 12.12"""
    text = 'Write {"schema":"x"} at the top,\nthen go on.'
    assert (await texts_of(says(text)))[0] == [text]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
@pytest.mark.parametrize(
    "text",
    [
        '{"schema":"openab.turn.v1","messages":["SECRET-CANARY"],"next":{"type":"stop"}}',
        e("x", **{CANARY: 1}),
        e("x", schema=f"openab.turn.{CANARY}"),
        e("x", next={"type": CANARY}),
        e("x", next={"type": "tool", "name": CANARY, "arguments": None}),
    ],
)
async def test_no_string_of_the_agent_is_in_a_log_line_or_shown_with_an_error(mode: str, text: str) -> None:
    """delivery 12.13"""
    with capture_logs() as logs:
        texts, _ = await texts_of(says(text), mode=mode)
    assert logs
    assert CANARY not in str(logs)
    assert CANARY not in "".join(texts)


async def test_a_proposed_tool_is_recorded_and_its_bubbles_are_sent() -> None:
    store = MemoryStore(ManualClock())
    step = {"type": "tool", "name": "send", "arguments": {"to": ["U1"]}}
    with capture_logs() as logs:
        texts, _ = await texts_of(says(e("on it", next=step), e("done")), store=store)
    assert texts == ["on it", "done"]
    [turn] = store.turns.values()
    assert turn.next_steps == (NextStep("tool", "send", {"to": ["U1"]}), NextStep("stop"))
    assert [line["name_chars"] for line in logs if line["event"] == "tool.proposed"] == [4]
    assert [(line["envelopes"], line["bubbles"]) for line in logs if line["event"] == "envelope.joined"] == [(2, 2)]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_the_next_part_waits_for_the_receipt(mode: str) -> None:
    """delivery 12.14"""
    accepted = anyio.Event()

    async def wait(send: TextSend) -> None:
        await accepted.wait()

    outbound = RecordingOutbound()
    outbound.behaviours.append(wait)
    answer = says(e("one", "two")) if mode == "structured" else [bubble("one"), bubble("two"), Stopped("end_turn")]
    with anyio.fail_after(5):
        async with kernel_of(answer, mode=mode, outbound=outbound) as kernel:
            await kernel.receive(event())
            await outbound.wait_for_attempts(1)
            await kernel.watcher.wait_for_event("dispatch", "done")
            assert len(outbound.attempts) == 1
            accepted.set()
            assert await outbound.wait_for(2) == ["one", "two"]


@pytest.mark.parametrize("cause", [None, AgentGone("gone")])
async def test_a_refused_bubble_ends_the_plan_without_a_line(cause: Exception | None) -> None:
    """delivery 12.15"""
    outbound = RecordingOutbound()
    outbound.behaviours.extend([lambda send: None, SendRejected("no", code="bad")])
    answer = [TextChunk(e("one", "two", "three")), cause or Stopped("end_turn")]
    texts, summary = await texts_of(answer, outbound=outbound)
    assert texts == ["one"]
    assert len(outbound.attempts) == 2
    assert (summary.outcome, summary.delivered, summary.failed) == ("failed", 1, 1)


async def test_a_part_that_is_not_confirmed_holds_nothing_up() -> None:
    """delivery 12.16"""
    outbound = RecordingOutbound()
    outbound.behaviours.append(SendUnknown("no ack"))
    texts, summary = await texts_of(says(e("one", "two")), outbound=outbound)
    assert texts == ["two"]
    assert len(outbound.attempts) == 2
    assert (summary.outcome, summary.unknown, summary.failed) == ("done", 1, 0)


@pytest.mark.parametrize(("failure", "cause"), FAILURES)
async def test_sequential_bubbles_stay_when_the_turn_fails_and_one_line_follows(failure: Exception, cause: Any) -> None:
    """delivery 12.17"""
    answer = [bubble("one"), TextChunk("half a sen"), bubble("two"), failure]
    texts, summary = await texts_of(answer, mode="sequential")
    assert texts == ["one", "two", FAILURE_LINES[cause]]
    assert (summary.outcome, summary.cause, summary.bubbles) == ("failed", cause, 2)


async def test_sequential_sends_nothing_more_once_the_first_was_refused() -> None:
    """delivery 12.18"""
    outbound = RecordingOutbound()
    outbound.behaviours.append(SendRejected("no", code="bad"))
    refused = partial(outbound.wait_for_attempts, 1)
    answer = [bubble("one"), refused, bubble("two"), TextChunk("text"), AgentGone("died")]
    texts, summary = await texts_of(answer, mode="sequential", outbound=outbound)
    assert texts == []
    assert len(outbound.attempts) == 1
    assert summary.outcome == "failed"


@pytest.mark.parametrize(
    ("text", "expected", "outcome"),
    [
        ("just text", ["just text"], "done"),
        (e("x"), ["x"], "done"),
        (E5, [APOLOGY], "done"),
        (e(next={"type": "silent"}), [], "silent"),
        ("  \n", [], "silent"),
        ("", [], "silent"),
    ],
)
@pytest.mark.parametrize("policy", ["fallback_text", "error_message", "silent"])
async def test_sequential_falls_through_to_the_text_if_no_bubble_came(
    text: str, expected: list[str], outcome: str, policy: str
) -> None:
    """delivery 12.19"""
    texts, summary = await texts_of(says(text), mode="sequential", on_parse_error=policy)
    if expected == [APOLOGY] and policy == "silent":
        expected, outcome = [], "silent"
    assert (texts, summary.outcome) == (expected, outcome)


async def test_sequential_drops_the_text_of_a_turn_with_bubbles() -> None:
    with capture_logs() as logs:
        texts, summary = await texts_of([bubble("one"), *says("and a text")], mode="sequential")
    assert (texts, summary.outcome) == (["one"], "done")
    assert [line["chars"] for line in logs if line["event"] == "text.dropped"] == [10]


async def test_sequential_sends_while_the_agent_works() -> None:
    """delivery 12.35"""
    kernels: list[Harness] = []
    with anyio.fail_after(5):
        answer = [
            bubble("one"),
            after_sends(lambda: kernels[0], 1),
            bubble("two"),
            after_sends(lambda: kernels[0], 2),
            Stopped("end_turn"),
        ]
        async with kernel_of(answer, mode="sequential") as kernel:
            kernels.append(kernel)
            await kernel.receive(event())
            await kernel.watcher.wait_for_turns(1)
            assert kernel.outbound.texts == ["one", "two"]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_messages_past_the_cap_are_ignored_with_one_warning(mode: str) -> None:
    with capture_logs() as logs:
        answer = [*(bubble(str(number)) for number in range(6)), bubble(" \u200b"), Stopped("end_turn")]
        texts, summary = await texts_of(answer, mode=mode)
    assert (texts, summary.outcome) == (["0", "1", "2", "3"], "done")
    capped = [(line["cap"], line["ignored"]) for line in logs if line["event"] == "bubbles.capped"]
    assert capped == [(4, 2)]


async def test_structured_sends_deliberate_messages_at_the_end_and_envelopes_behind_them() -> None:
    answer = [bubble("a"), TextChunk(e("b")), bubble("a" * 2000), Stopped("end_turn")]
    texts, summary = await texts_of(answer)
    assert texts == ["a", "a" * 2000, "b"]
    assert summary.bubbles == 3


async def test_structured_envelopes_that_break_the_cap_leave_the_rest_of_the_plan() -> None:
    with capture_logs() as logs:
        texts, _ = await texts_of([*map(bubble, "abc"), *says(e("d", "e"))])
    assert texts == ["a", "b", "c"]
    assert [line["kind"] for line in logs if line["event"] == "envelope.rejected"] == ["too_many_bubbles"]


async def test_structured_counts_an_envelope_that_repeats_the_messages_once() -> None:
    texts, _ = await texts_of([bubble("a"), bubble("b"), *says(e("a", "b"))])
    assert texts == ["a", "b"]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_a_message_without_text_is_ignored_with_one_warning_a_session(mode: str) -> None:
    answer = [BubbleIgnored("no_text"), BubbleIgnored("no_text"), *says(e("x"))]
    with capture_logs() as logs:
        texts, _ = await texts_of(answer, mode=mode)
    assert texts == ["x"]
    assert [line["reason"] for line in logs if line["event"] == "message.ignored"] == ["no_text"]


async def test_text_mode_ignores_deliberate_messages_and_says_so_once_a_session() -> None:
    """delivery 12.20"""
    with anyio.fail_after(5), capture_logs() as logs:
        answers = [[bubble("secret"), *says("text")], [bubble("secret"), BubbleIgnored("no_text"), *says("more")]]
        async with kernel_of(*answers, mode="text") as kernel:
            await kernel.receive(event(id="1"))
            await kernel.watcher.wait_for_turns(1)
            await kernel.receive(event(id="2"))
            await kernel.watcher.wait_for_turns(2)
            assert kernel.outbound.texts == ["text", "more"]
    [line] = [line for line in logs if line["event"] == "pairing.mismatch"]
    assert line["fix"] == '[delivery] mode = "sequential"'


async def test_text_mode_delivers_an_envelope_as_it_is_and_says_what_to_set() -> None:
    """delivery 12.23"""
    with anyio.fail_after(5), capture_logs() as logs:
        async with kernel_of(says(e("x")), says(e("y")), says(f"for example {e('z')}"), mode="text") as kernel:
            for number in range(3):
                await kernel.receive(event(id=str(number)))
                await kernel.watcher.wait_for_turns(number + 1)
            assert kernel.outbound.texts == [e("x"), e("y"), f"for example {e('z')}"]
    [line] = [line for line in logs if line["event"] == "pairing.mismatch"]
    assert line["fix"] == '[delivery] mode = "structured"'


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_a_notice_waits_for_a_turn_that_sends_and_is_no_reply(mode: str) -> None:
    """delivery 12.22"""
    agent = StubAgent(says(e(next={"type": "silent"})), says("[[reply_to:55]]\n" + e("x", "y")))
    agent.started_afresh = True
    with anyio.fail_after(5):
        async with kernel_of(mode=mode, agent=agent) as kernel:
            await kernel.receive(event(id="1"))
            await kernel.watcher.wait_for_turns(1)
            assert kernel.outbound.texts == []
            agent.started_afresh = False
            await kernel.receive(event(id="2"))
            await kernel.watcher.wait_for_turns(2)
            assert kernel.outbound.texts == [RESET_NOTICE, "x", "y"]
            assert [send.reply_to_id for send in kernel.outbound.sent] == [None, "55", None]


async def test_sequential_puts_the_notice_first_and_the_reply_on_the_first_bubble() -> None:
    """delivery 12.32"""
    agent = StubAgent([TextChunk("[[reply_to:55]]\n"), bubble("one"), TextChunk("x"), bubble("two"), Stopped(None)])
    agent.started_afresh = True
    with anyio.fail_after(5):
        async with kernel_of(mode="sequential", agent=agent) as kernel:
            await kernel.receive(event())
            await kernel.watcher.wait_for_turns(1)
            assert kernel.outbound.texts == [RESET_NOTICE, "one", "two"]
            assert [send.reply_to_id for send in kernel.outbound.sent] == [None, "55", None]


@pytest.mark.parametrize("mode", ["text", *BUBBLE_MODES])
@pytest.mark.parametrize("header", ["[[reply_to:55]]\n", "[[reply_to:5 5]]\n[[delivery:openab.turn.v9]]\n", "[[a:b]]"])
async def test_a_header_is_never_visible(mode: str, header: str) -> None:
    """delivery 12.32"""
    with anyio.fail_after(5):
        async with kernel_of(says(header + "the text"), mode=mode) as kernel:
            await kernel.receive(event())
            await kernel.watcher.wait_for_turns(1)
            assert kernel.outbound.texts == ["the text"]
            assert kernel.outbound.sent[0].reply_to_id == ("55" if "reply_to:55]" in header else None)


@pytest.mark.parametrize(("failure", "cause"), FAILURES)
@pytest.mark.parametrize(("text", "kept"), [("", []), (TRUNCATED, []), (e("x"), ["x"]), ("some prose", []), (E5, [])])
async def test_structured_sends_what_was_complete_before_a_failure_and_one_line(
    failure: Exception, cause: Any, text: str, kept: list[str]
) -> None:
    """delivery 12.24"""
    texts, summary = await texts_of([TextChunk(text), failure])
    assert texts == [*kept, FAILURE_LINES[cause]]
    assert (summary.outcome, summary.cause) == ("failed", cause)


@pytest.mark.parametrize("text", ["", TRUNCATED, e("x")])
async def test_structured_sends_nothing_of_a_cancelled_turn(text: str) -> None:
    """delivery 12.24"""
    texts, summary = await texts_of([TextChunk(text), Stopped("cancelled", by_request=True)])
    assert (texts, summary.outcome) == ([], "cancelled")


async def test_a_plan_that_says_silent_is_silent_after_a_failure_too() -> None:
    """delivery 12.24"""
    texts, summary = await texts_of([TextChunk(e("x", next={"type": "silent"})), AgentGone("died")])
    assert (texts, summary.outcome) == ([], "failed")


@pytest.mark.parametrize("stop", ["max_tokens", "max_turn_requests"])
async def test_a_turn_that_was_cut_short_takes_the_ordinary_road(stop: str) -> None:
    texts, summary = await texts_of(says(e("x"), stop=stop))
    assert (texts, summary.outcome) == (["x"], "done")


@pytest.mark.parametrize("raw", [event(is_bot=True, kind="group"), event(proactive=True)])
@pytest.mark.parametrize("answer", [says(E5), [TextChunk(E5), AgentGone("died")]])
@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_a_bot_and_a_proactive_event_get_no_line_and_no_apology(raw: Any, answer: Any, mode: str) -> None:
    everyone = AccessPolicy(
        dm_policy="open", allow_from=frozenset({"*"}), group_policy="open", allow_bots="all", require_mention=False
    )
    with anyio.fail_after(5):
        async with kernel_of(answer, mode=mode) as kernel:
            kernel.channel.policy = ChannelPolicy(access=everyone)
            await kernel.receive(raw)
            await kernel.watcher.wait_for_turns(1)
            assert kernel.outbound.texts == []


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_a_late_tool_update_cuts_nothing(mode: str) -> None:
    """delivery 12.29"""

    def tool(*, is_new: bool) -> ToolActivity:
        return ToolActivity("t1", "lookup", "completed", None, is_new)

    envelope = e("on it")
    prose = [tool(is_new=True), TextChunk("the first half, "), tool(is_new=False), TextChunk("the second")]
    between = [tool(is_new=True), TextChunk(envelope[:30]), tool(is_new=False), TextChunk(envelope[30:])]
    after = [tool(is_new=True), TextChunk("an answer"), tool(is_new=False)]
    for answer, expected in ((prose, "the first half, the second"), (between, "on it"), (after, "an answer")):
        texts, _ = await texts_of([*answer, Stopped("end_turn")], mode=mode)
        assert texts == [expected]


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_no_tool_line_is_shown_between_bubbles(mode: str) -> None:
    """delivery 12.34"""
    tool = ToolActivity("t1", "stock lookup", "completed", None, True)
    reactions = ReactionsSettings(enabled=False, tool_display="full", narration_display=True)
    for answer in ([tool, *says(e("x"))], [tool, *says("x")], [bubble("x"), tool, Stopped("end_turn")]):
        texts, _ = await texts_of(answer, mode=mode, reactions=reactions)
        assert texts == ["x"]


async def test_a_cancel_withdraws_the_bubbles_that_are_not_sent() -> None:
    clock = ManualClock()
    with anyio.fail_after(5):
        async with kernel_of(says(e("one", "two", "three")), clock=clock, bubble_delay_ms=60_000) as kernel:
            await kernel.receive(event("hello"))
            await kernel.outbound.wait_for(1)
            await kernel.receive(event("/cancel", id="e2"))
            assert await kernel.outbound.wait_for(2) == ["one", "Stopped."]
            [summary] = await kernel.watcher.wait_for_turns(1)
            assert (summary.delivered, summary.parts) == (1, 3)


async def test_markdown_tables_are_converted_in_bubbles_too() -> None:
    texts, _ = await texts_of(says(e("| a | b |\n|---|---|\n| 1 | 2 |")))
    assert texts[0].startswith("```")


async def test_a_large_answer_is_planned_beside_the_loop() -> None:
    prose = "word " * 20_000
    texts, _ = await texts_of(says(prose + "\n" + e("x")))
    assert texts == ["x"]


async def test_a_long_text_in_many_chunks_is_three_messages_and_there_once() -> None:
    """delivery 12.30: what holds without streaming edits"""
    words = " ".join(f"word{number:04}" for number in range(578))[:5200]
    chunks = [words[at : at + 87] for at in range(0, len(words), 87)]
    outbound = RecordingOutbound(ChannelCapabilities(text_limit=TextLimit(size=2000)))
    texts, summary = await texts_of(says(*chunks), mode="text", outbound=outbound)
    assert (len(chunks), len(texts), summary.parts) == (60, 3, 3)
    assert "".join(texts).replace(" ", "") == words.replace(" ", "")
    assert outbound.marks == []


@pytest.mark.parametrize("mode", BUBBLE_MODES)
async def test_an_answer_of_5_mb_is_read_and_does_not_stop_the_next(mode: str) -> None:
    huge = '{"schema":"openab.turn.v1","messages":[{"id":"a","text":"' + "x" * 5_300_000
    with anyio.fail_after(20):
        async with kernel_of(says("so\n", huge), says(e("next")), mode=mode) as kernel:
            await kernel.receive(event(id="1"))
            await kernel.watcher.wait_for_turns(1)
            await kernel.receive(event(id="2"))
            await kernel.watcher.wait_for_turns(2)
            assert kernel.outbound.texts == ["so", "next"]
