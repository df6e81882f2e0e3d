"""turn-kernel.md 15, row 32: when an event is acknowledged, and that the first settle wins."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from openab_kernel.stages.receive_context import create_message_receive_context


@pytest.mark.parametrize(
    ("policy", "stage"),
    [
        ("after_receive_record", "receive_record"),
        ("after_agent_dispatch", "agent_dispatch"),
        ("after_durable_send", "durable_send"),
        ("manual", None),
    ],
)
def test_the_policy_names_one_stage(policy: Any, stage: str | None) -> None:
    """turn-kernel 15.32"""
    context = create_message_receive_context(lambda: None, ack_policy=policy)
    stages: tuple[Any, ...] = ("receive_record", "agent_dispatch", "durable_send")
    assert [name for name in stages if context.should_ack_after(name)] == ([stage] if stage else [])


async def test_the_first_settle_wins_and_the_other_answers_false() -> None:
    """turn-kernel 15.32"""
    calls: list[str] = []

    async def ack() -> None:
        calls.append("ack")

    context = create_message_receive_context(ack, lambda error: calls.append("nack"))
    assert not context.is_settled
    assert await context.ack()
    assert await context.ack()
    assert not await context.nack()
    assert context.is_settled
    other = create_message_receive_context(ack, lambda error: calls.append("nack"))
    assert await other.nack(ValueError("x"))
    assert not await other.ack()
    assert calls == ["ack", "nack"]


async def test_nacks_beside_each_other_share_one_call() -> None:
    """turn-kernel 15.32"""
    calls: list[BaseException | None] = []
    gate = anyio.Event()

    async def nack(error: BaseException | None) -> None:
        calls.append(error)
        await gate.wait()

    context = create_message_receive_context(lambda: None, nack)
    answers: list[bool] = []

    async def settle() -> None:
        answers.append(await context.nack())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(settle)
            await anyio.lowlevel.checkpoint()
            gate.set()
    assert answers == [True, True, True]
    assert len(calls) == 1


async def test_without_a_nack_of_the_platform_a_refusal_is_silent() -> None:
    """turn-kernel 15.32"""
    context = create_message_receive_context(lambda: None)
    assert await context.nack()
    assert not await context.ack()
