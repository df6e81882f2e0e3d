"""Stage 9: the recorded messages go to the agent, and its updates to the delivery of the turn."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Protocol

import structlog
from anyio import to_thread

from openab_kernel.agent.prompt import prompt_blocks
from openab_kernel.errors import AgentProtocolError
from openab_kernel.facts.agent_update import AgentUpdate, BubbleMessage, Stopped
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.agent import AgentTurn, ContentBlock
from openab_kernel.stages.inbound import Queued
from openab_kernel.stages.ingest import answer

log = structlog.get_logger("openab_kernel.dispatch")

FILE_BYTES = 20 * 1024 * 1024


class Sink(Protocol):
    """Takes what the agent reports, in order. Never waits for a platform."""

    def take(self, update: AgentUpdate) -> None: ...

    async def take_bubble(self, update: BubbleMessage) -> None: ...


async def fetch(batch: Sequence[Queued]) -> list[ContentBlock]:
    """The prompt, with the media fetched that were only references until now."""
    messages = [await _with_media(queued) for queued in batch]
    paths = {item.path for message in messages for item in message.context.media if item.path}
    files = {path: await to_thread.run_sync(_read, path, abandon_on_cancel=True) for path in paths}
    return prompt_blocks(messages, files)


async def dispatch(turn: AgentTurn, blocks: list[ContentBlock], sink: Sink) -> Stopped:
    """Prompt the agent and hand every update to the sink. Gives how it stopped.

    Raises:
        AgentError: see `AgentTurn.prompt`.
    """
    stopped: Stopped | None = None
    async for update in turn.prompt(blocks):
        if isinstance(update, Stopped):
            stopped = update
        elif isinstance(update, BubbleMessage):
            await sink.take_bubble(update)
        else:
            sink.take(update)
    if stopped is None:
        raise AgentProtocolError("the agent's answer ended without a stop")
    return stopped


async def _with_media(queued: Queued) -> InboundMessage:
    message = queued.message
    if queued.load_media is None:
        return message
    media = tuple(await answer(queued.load_media()))
    return message.model_copy(update={"context": message.context.model_copy(update={"media": media})})


def _read(path: str) -> bytes | None:
    """A local file, cut at the most that is ever read. None: it cannot be read, or is a pipe, which might never end."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(FILE_BYTES)
        code = "not_a_file"
    except (OSError, ValueError) as error:  # ValueError: what cannot be a path, with a NUL in it
        code = type(error).__name__
    log.warning("media.unreadable", code=code)
    return None


def _open_at_once(path: str, flags: int) -> int:
    """To open a pipe that nobody writes to would take for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
