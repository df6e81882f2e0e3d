"""An agent in this process, for tests that are not about processes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus

from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.agent import ContentBlock

Answer = Iterable[AgentUpdate | Exception | Callable[[], Awaitable[object]]]


class StubAgent:
    """Implements `Agent`. Answers prompts from `answers` in order, then by echoing the last text block.

    A step of an answer is an update, an exception to raise, or a callable to await (a gate). `prompts` holds every
    prompt with its session. Setting `unready` makes the next turns fail before they are prompted.
    """

    def __init__(self, *answers: Answer, name: str = "main") -> None:
        self.name = name
        self.answers: deque[Answer] = deque(answers)
        self.prompts: list[tuple[SessionKey, list[ContentBlock]]] = []
        self.unready: Exception | None = None
        self.started_afresh = False
        self.running = 0
        self.most_running = 0
        self._locks: defaultdict[SessionKey, anyio.Lock] = defaultdict(anyio.Lock)
        self._cancels: dict[SessionKey, anyio.Event] = {}
        self._changed = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await anyio.sleep_forever()

    @asynccontextmanager
    async def turn(self, key: SessionKey) -> AsyncIterator[StubTurn]:
        if self.unready is not None:
            raise self.unready
        async with self._locks[key]:
            self._cancels[key] = anyio.Event()
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                yield StubTurn(self, key, self._cancels[key])
            finally:
                self.running -= 1
                del self._cancels[key]

    async def cancel(self, key: SessionKey) -> bool:
        if key not in self._cancels:
            return False
        self._cancels[key].set()
        return True

    async def reset(self, key: SessionKey) -> bool:
        return await self.cancel(key)

    async def models(self, key: SessionKey) -> str:
        return "no models"

    async def describe(self, key: SessionKey) -> str:
        return "stub 1"

    @property
    def texts(self) -> list[str]:
        """The last text block of every prompt."""
        return [blocks[-1]["text"] for _, blocks in self.prompts]

    async def wait_for_prompts(self, count: int) -> list[str]:
        """`texts`, once so many prompts have come."""
        while len(self.prompts) < count:
            await self._changed.wait()
        return self.texts

    def note_prompt(self, key: SessionKey, blocks: list[ContentBlock]) -> Answer:
        self.prompts.append((key, blocks))
        self._changed.set()
        self._changed = anyio.Event()
        return self.answers.popleft() if self.answers else says(f"echo: {blocks[-1]['text']}")


class StubTurn:
    """One turn of the stub."""

    def __init__(self, agent: StubAgent, key: SessionKey, cancelled: anyio.Event) -> None:
        self._agent = agent
        self._key = key
        self._cancelled = cancelled

    @property
    def started_afresh(self) -> bool:
        return self._agent.started_afresh

    async def prompt(self, blocks: list[ContentBlock]) -> AsyncIterator[AgentUpdate]:
        for step in self._agent.note_prompt(self._key, blocks):
            if isinstance(step, Exception):
                raise step
            if callable(step):
                await self._until_cancelled(step)
                if self._cancelled.is_set():
                    yield Stopped("cancelled", by_request=True)
                    return
                continue
            yield step

    async def _until_cancelled(self, step: Callable[[], Awaitable[object]]) -> None:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await self._cancelled.wait()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await step()
            group.cancel_scope.cancel()


def says(*chunks: str, stop: str = "end_turn") -> list[AgentUpdate]:
    """An answer in these chunks."""
    return [*(TextChunk(chunk) for chunk in chunks), Stopped(stop)]
