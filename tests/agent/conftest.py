"""A pool on a clock that stands still, with scripted agents on real pipes."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from openab_kernel.agent.pool import AcpAgent
from openab_kernel.agent.settings import PoolSettings
from openab_kernel.facts.agent_update import AgentUpdate
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.store import AgentSessionRow, Store
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.scripted_agent import ScriptedAgent

KEY = SessionKey("main", None, "discord", "bot", "channel", "1")


class Rows:
    """The part of a store that keeps agent sessions."""

    def __init__(self) -> None:
        self.rows: dict[SessionKey, AgentSessionRow] = {}

    async def agent_session(self, session: SessionKey) -> AgentSessionRow | None:
        return self.rows.get(session)

    async def save_agent_session(self, row: AgentSessionRow) -> None:
        self.rows[row.session] = row

    async def forget_agent_session(self, session: SessionKey) -> bool:
        return self.rows.pop(session, None) is not None


class Kit:
    """What the tests of this folder work with. `logs` holds every line at every level."""

    key = KEY

    def __init__(self, folder: Path, logs: list[MutableMapping[str, Any]]) -> None:
        self._folder = folder
        self.logs = logs
        self.clock = ManualClock()
        self.store = Rows()

    def script(self, *args: Any, **kwargs: Any) -> ScriptedAgent:
        """The agent of this test. Another call gives another agent."""
        self._folder = self._folder / "agent"
        return ScriptedAgent(self._folder, *args, **kwargs)

    def pool(self, script: ScriptedAgent, settings: dict[str, Any] | None = None, **kwargs: Any) -> AcpAgent:
        values = {"environment": {"PATH": os.environ["PATH"]}, "permission": "reject", "client_version": "0", **kwargs}
        return AcpAgent(
            "main",
            script.command,
            str(self._folder),
            pool=PoolSettings(**(settings or {})),
            store=cast(Store, self.store),
            clock=self.clock,
            **values,
        )

    @asynccontextmanager
    async def running(self, pool: AcpAgent, seconds: float = 5) -> AsyncIterator[AcpAgent]:
        """Run a pool for the length of a block, which has so many seconds of real time."""
        with anyio.fail_after(seconds):
            async with anyio.create_task_group() as tasks:
                await tasks.start(pool.run)
                yield pool
                tasks.cancel_scope.cancel()

    async def ask(
        self, pool: AcpAgent, text: str = "hello", key: SessionKey = KEY, into: list[AgentUpdate] | None = None
    ) -> list[AgentUpdate]:
        """One turn: what the agent said, also in `into`."""
        updates = [] if into is None else into
        async with pool.turn(key) as turn:
            async for update in turn.prompt([{"type": "text", "text": text}]):
                updates.append(update)
        return updates

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait for a condition that no event tells of."""
        while not is_so():
            await checkpoint()

    @staticmethod
    def is_running(pid: int) -> bool:
        """Does a process still do anything? A zombie that is somebody else's does not."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    async def until_gone(self, pids: Iterable[int]) -> None:
        """Wait for processes to end. The grace of a stop is 1.5 s; what is beyond is the slowness of the machine."""
        with anyio.fail_after(4):
            await self.until(lambda: not any(map(self.is_running, pids)))

    def logged(self, event: str) -> list[MutableMapping[str, Any]]:
        return [line for line in self.logs if line["event"] == event]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    with capture_logs() as logs:
        yield Kit(tmp_path, logs)
