"""The channel in a whole kernel. What the test does not bring is a fake of the kit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from openab_echo.channel import EchoChannel
from openab_echo.settings import EchoSettings

from openab_kernel import KernelError, PlatformMessageNotDispatchedError, SendThrottled
from openab_kernel.facts.outbound import Destination, TextSend
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.harness import running_kernel
from openab_kernel.testing.outbound import RecordingOutbound
from openab_kernel.testing.scripted_agent import ScriptedAgent, chunk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.fixture
def clock() -> ManualClock:
    """Time stands still until a test moves it."""
    return ManualClock()


@pytest.fixture
def channel(folder: Path, clock: ManualClock) -> EchoChannel:
    return EchoChannel(EchoSettings(folder=folder, allowed_users=("alice",)), clock)


def post(folder: Path, text: str, *, id: str = "1", sender: str = "alice") -> Path:
    letter = folder / "in" / f"{id}.json"
    letter.write_text(json.dumps({"from": sender, "text": text}))
    return letter


def answers(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["text"] for path in (folder / "out").glob("*.json")]


async def test_a_letter_is_answered(folder, channel, clock):
    agent = StubAgent(says("hello ", "alice"))
    post(folder, "hi")
    with anyio.fail_after(5):
        async with running_kernel(channel=channel, clock=clock, agent=agent) as kernel:
            await kernel.watcher.wait_for_turns(1)
    assert agent.texts == ["hi"]
    assert answers(folder) == ["hello alice"]


async def test_a_stranger_gets_no_answer(folder, channel, clock):
    post(folder, "hi", sender="mallory")
    with anyio.fail_after(5):
        async with running_kernel(channel=channel, clock=clock) as kernel:
            refusal = await kernel.watcher.wait_for_event("authorize", "drop")
    assert refusal.reason == "dm_policy_not_allowlisted"
    assert answers(folder) == []


class StubRuntime:
    """In place of the kernel, for a test of the channel alone."""

    is_draining = False

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def receive(self, raw: object) -> None:
        if self._error is not None:
            raise self._error

    def set_health(self, state: str, detail: str = "") -> None: ...


@pytest.mark.parametrize(("error", "stays"), [(None, False), (KernelError("the disk is full"), True)])
async def test_a_letter_stays_until_the_kernel_has_it(folder, channel, clock, error, stays):
    letter = post(folder, "hi")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(channel.run, StubRuntime(error))
            await clock.until_waiting()  # it has looked, and sleeps until the next time
            group.cancel_scope.cancel()
    assert letter.exists() == stays


async def test_an_unreadable_letter_holds_up_no_other(folder, channel, clock):
    unreadable = folder / "in" / "0.json"
    unreadable.write_text("{")
    post(folder, "hi")
    with anyio.fail_after(5):
        async with running_kernel(channel=channel, clock=clock) as kernel:
            await kernel.watcher.wait_for_turns(1)
    assert answers(folder) == ["echo: hi"]
    assert not unreadable.exists()


async def test_an_answer_goes_to_whom_the_letter_came_from(folder, channel, clock):
    """`RecordingOutbound` in place of our adapter: what does the kernel ask for, and what if it is refused?"""
    outbound = channel.message_adapter = RecordingOutbound()
    outbound.behaviours.append(SendThrottled("echo: full", retry_after_seconds=7))
    post(folder, "hi")
    with anyio.fail_after(5):
        async with running_kernel(channel=channel, clock=clock):
            await outbound.wait_for_attempts(1)
            await clock.advance(7)  # no second is really waited
            await outbound.wait_for(1)
    assert outbound.sent[0].destination.to == "alice"
    assert outbound.attempts[0].idempotency_key == outbound.attempts[1].idempotency_key


def text_send(text: str) -> TextSend:
    destination = Destination(channel="echo", conversation_id="alice", to="alice")
    return TextSend(
        destination=destination, text=text, idempotency_key="k1", part_index=0, part_count=1, intent_id="i1"
    )


async def test_the_same_part_twice_is_one_answer(folder, channel):
    await channel.message_adapter.send_text(text_send("once"))
    await channel.message_adapter.send_text(text_send("once"))
    assert answers(folder) == ["once"]


async def test_a_folder_that_is_gone_is_a_call_that_was_not_made(folder, channel):
    (folder / "out").rmdir()
    with pytest.raises(PlatformMessageNotDispatchedError, match="No such file"):
        await channel.message_adapter.send_text(text_send("lost"))


async def test_the_service_answers_with_an_agent_in_a_process_of_its_own(folder):
    """The whole of it: the entry point, a configuration file, `ScriptedAgent` on real pipes, a signal to end."""
    agent = ScriptedAgent(folder / "agent", turns=[[chunk("you said: "), chunk("{prompt}")]])
    config = folder / "config.toml"
    config.write_text(f"""
        [echo]
        folder = {json.dumps(str(folder))}
        allowed_users = ["alice"]
        [agent]
        command = {json.dumps(agent.command[0])}
        args = {json.dumps(agent.command[1:])}
        [store]
        url = "sqlite:///state.db"
    """)
    post(folder, "hi")
    with anyio.fail_after(20):
        service = await anyio.open_process(
            [sys.executable, "-m", "openab_kernel", "serve", "-c", str(config)], stderr=None
        )
        async with service:
            await agent.until_received("session/prompt")
            service.terminate()  # the turn that runs is finished and its answer sent
            assert await service.wait() == 0
    assert answers(folder) == ["you said: hi"]
