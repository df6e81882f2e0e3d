"""A whole kernel in a test: real pipeline, lanes and outbox; store, agent, channel and clock as the test likes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from openab_kernel.agent.settings import PoolSettings
from openab_kernel.app import Kernel
from openab_kernel.clock import Clock
from openab_kernel.facts.turn import ChannelTurnResult, StageEvent, TurnSummary
from openab_kernel.interfaces.agent import Agent
from openab_kernel.interfaces.channel import Channel
from openab_kernel.interfaces.observer import Observer
from openab_kernel.interfaces.store import Store
from openab_kernel.observability.observers import Observers
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.live import Live
from openab_kernel.outbound.outbox import Outbox
from openab_kernel.outbound.settings import ReactionsSettings
from openab_kernel.stages.notices import HeldNotices
from openab_kernel.stages.parts import Parts
from openab_kernel.testing.agent import StubAgent
from openab_kernel.testing.channel import FakeChannel
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.memory_store import MemoryStore


class Watcher:
    """An observer that keeps everything and can be waited on."""

    def __init__(self) -> None:
        self.events: list[StageEvent] = []
        self.results: list[ChannelTurnResult] = []
        self.summaries: list[TurnSummary] = []
        self._changed = anyio.Event()

    async def stage_event(self, event: StageEvent) -> None:
        self.events.append(event)
        self._notify()

    async def message_ended(self, result: ChannelTurnResult) -> None:
        self.results.append(result)
        self._notify()

    async def turn_finished(self, summary: TurnSummary) -> None:
        self.summaries.append(summary)
        self._notify()

    async def wait_for_turns(self, count: int) -> list[TurnSummary]:
        """The summaries, once so many turns have finished."""
        while len(self.summaries) < count:
            await self._changed.wait()
        return self.summaries

    async def wait_for_event(self, stage: str, event: str) -> StageEvent:
        """The first event of this stage and name, once it is there."""
        while True:
            for seen in self.events:
                if (seen.stage, seen.event) == (stage, event):
                    return seen
            await self._changed.wait()

    def way(self, message_id: str | None = None) -> list[str]:
        """`stage:event` of every event, or of one message."""
        return [f"{e.stage}:{e.event}" for e in self.events if message_id in (None, e.message_id)]

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@dataclass
class Harness:
    """A running kernel and the fakes around it."""

    kernel: Kernel
    agent: Any
    channel: Any
    store: Store
    clock: Clock
    watcher: Watcher

    @property
    def outbound(self) -> Any:
        return self.channel.message_adapter

    async def receive(self, raw: Any, channel: Channel | None = None) -> ChannelTurnResult | None:
        """Hand a raw event in as the channel would."""
        return (await self.kernel.pipeline.receive(channel or self.channel, raw)).result

    async def run(self, raw: Any) -> ChannelTurnResult:
        """Hand a raw event in and wait for its turn."""
        return await self.kernel.turn.run(self.channel.name, raw, account_id=self.channel.account_id)


def build_kernel(
    *,
    agents: Sequence[Agent],
    channels: Sequence[Channel],
    store: Store,
    clock: Clock,
    observers: Sequence[tuple[str, Observer]] = (),
    reactions: ReactionsSettings | None = None,
    pool: PoolSettings | None = None,
    **settings: Any,
) -> Kernel:
    """A kernel of these parts, not running. `settings` go to `Parts` (delivery, markdown)."""
    reactions = reactions or ReactionsSettings(enabled=False)
    known = Channels(list(channels))
    parts = Parts(
        agents={agent.name: agent for agent in agents},
        channels=known,
        store=store,
        outbox=Outbox(known, clock),
        observers=Observers(list(observers), clock),
        live=Live(known, clock, reactions),
        notices=HeldNotices(store),
        clock=clock,
        reactions=reactions,
        **settings,
    )
    return Kernel(parts, pool or PoolSettings())


@asynccontextmanager
async def running_kernel(
    *,
    agent: Any = None,
    channel: Any = None,
    channels: Sequence[Channel] = (),
    store: Store | None = None,
    clock: Clock | None = None,
    observers: Sequence[tuple[str, Observer]] = (),
    **settings: Any,
) -> AsyncIterator[Harness]:
    """Run a whole kernel beside the block. What is not given is a fake: stub agent, fake channel, memory store,
    manual clock. At the end the kernel is cancelled, not drained."""
    clock = clock or ManualClock()
    agent = agent or StubAgent()
    channel = channel or FakeChannel()
    store = store or MemoryStore(clock)
    watcher = Watcher()
    kernel = build_kernel(
        agents=[agent],
        channels=[channel, *channels],
        store=store,
        clock=clock,
        observers=[("watcher", watcher), *observers],
        **settings,
    )
    async with anyio.create_task_group() as group:
        await group.start(kernel.run)
        yield Harness(kernel, agent, channel, store, clock, watcher)
        group.cancel_scope.cancel()
