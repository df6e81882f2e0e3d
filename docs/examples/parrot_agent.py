"""An agent without a process: it says again what was said. A channel reaches it by the agent id `parrot`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus

from openab_kernel import Services, Settings, hookimpl
from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.agent import Agent, ContentBlock


class ParrotTurn:
    """One turn. Nothing is remembered, so nothing can be lost: it never starts afresh."""

    started_afresh = False

    async def prompt(self, blocks: list[ContentBlock]) -> AsyncIterator[AgentUpdate]:
        yield TextChunk(blocks[-1]["text"])
        yield Stopped("end_turn")


class Parrot:
    """See `interfaces/agent.py` for what each method promises."""

    name = "parrot"

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await anyio.sleep_forever()

    @asynccontextmanager
    async def turn(self, key: SessionKey) -> AsyncIterator[ParrotTurn]:
        yield ParrotTurn()

    async def cancel(self, key: SessionKey) -> bool:
        return False

    async def reset(self, key: SessionKey) -> bool:
        return False

    async def models(self, key: SessionKey) -> str:
        return "A parrot has no models."

    async def describe(self, key: SessionKey) -> str:
        return "parrot 1.0"


@hookimpl
def register_agents(settings: Settings, services: Services) -> list[Agent]:
    return [Parrot()]
