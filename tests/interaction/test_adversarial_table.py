"""delivery.md 4 through a whole kernel: each row under each policy, repair off and on, whole and in pieces."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel.delivery.lines import RESET_NOTICE
from openab_kernel.delivery.settings import APOLOGY, DeliverySettings
from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk, ToolActivity
from openab_kernel.facts.outbound import ChannelCapabilities, TextLimit
from openab_kernel.testing.agent import StubAgent
from openab_kernel.testing.channel import FakeChannel, event
from openab_kernel.testing.harness import running_kernel
from openab_kernel.testing.outbound import RecordingOutbound
from tests.delivery.envelope.table import CANARY, ROWS, Bubbles, Nothing, Prose, Row, Update

CUTTINGS = ["whole", "by character", "in the first key"]
HUGE = ChannelCapabilities(text_limit=TextLimit(size=10**7))


def answer_of(row: Row, cutting: str) -> list[AgentUpdate]:
    """The updates of a row. Long rows are not cut into a million characters."""
    chunks: list[str | Update] = [f"{row.header}\n", *row.chunks] if row.header else [*row.chunks]
    updates: list[AgentUpdate] = []
    for chunk in chunks:
        if isinstance(chunk, Update):
            updates.append(ToolActivity("t1", "lookup", None, None, chunk is Update.TOOL_CALL))
        elif cutting == "by character" and not row.is_long:
            updates += [TextChunk(char) for char in chunk]
        elif cutting == "in the first key":
            at = chunk.find('"') + 2
            updates += [TextChunk(chunk[:at]), TextChunk(chunk[at:])]
        else:
            updates.append(TextChunk(chunk))
    return [*updates, Stopped("end_turn")]


def texts_of(row: Row, policy: str, *, repair: bool) -> list[str]:
    """What a person sees of it."""
    expected = row.expected(repair=repair)
    if isinstance(expected, Bubbles):
        return list(expected.texts)
    if isinstance(expected, Nothing) or policy == "silent":
        return []
    return [APOLOGY] if policy == "error_message" else [expected.text.strip() or APOLOGY]


@pytest.mark.parametrize("cutting", CUTTINGS)
@pytest.mark.parametrize("repair", [False, True], ids=["as it is", "repaired"])
@pytest.mark.parametrize("policy", ["fallback_text", "error_message", "silent"])
async def test_a_person_sees_what_the_table_says_and_no_machine_text(policy: Any, repair: bool, cutting: str) -> None:
    """delivery 12.9"""
    agent = StubAgent(*(answer_of(row, cutting) for row in ROWS))
    settings = DeliverySettings(mode="structured", on_parse_error=policy, repair=repair, bubble_delay_ms=0)
    channel = FakeChannel(message_adapter=RecordingOutbound(HUGE))
    with anyio.fail_after(60), capture_logs() as logs:
        async with running_kernel(agent=agent, channel=channel, delivery=settings) as kernel:
            for number, row in enumerate(ROWS, 1):
                sent = len(kernel.outbound.sent)
                agent.started_afresh = row.was_reset
                await kernel.receive(event(id=row.id, conversation=row.id))
                await kernel.watcher.wait_for_turns(number)
                expected = texts_of(row, policy, repair=repair)
                notice = [RESET_NOTICE] if row.was_reset and expected else []
                sends = kernel.outbound.sent[sent:]
                assert [send.text for send in sends] == [*notice, *expected], row.id
                if isinstance(row.expect, Prose) and row.header and expected == [row.expect.text]:
                    assert sends[-1].reply_to_id == "55"
    assert not [line for line in logs if line["event"] == "delivery.guarded"]
    assert CANARY not in str(logs)


@pytest.mark.parametrize("cutting", CUTTINGS)
async def test_the_text_of_a_sequential_turn_without_bubbles_is_read_in_the_same_way(cutting: str) -> None:
    """delivery 12.9, delivery 12.19"""
    agent = StubAgent(*(answer_of(row, cutting) for row in ROWS))
    settings = DeliverySettings(mode="sequential", on_parse_error="error_message", bubble_delay_ms=0)
    channel = FakeChannel(message_adapter=RecordingOutbound(HUGE))
    with anyio.fail_after(60):
        async with running_kernel(agent=agent, channel=channel, delivery=settings) as kernel:
            for number, row in enumerate(ROWS, 1):
                sent = len(kernel.outbound.sent)
                await kernel.receive(event(id=row.id, conversation=row.id))
                await kernel.watcher.wait_for_turns(number)
                policy = "fallback_text" if isinstance(row.expect, Prose) else "error_message"
                assert kernel.outbound.texts[sent:] == texts_of(row, policy, repair=False), row.id
