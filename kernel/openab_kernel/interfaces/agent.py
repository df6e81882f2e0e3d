"""An agent: something that answers prompts and remembers, session by session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from anyio.abc import TaskStatus

from openab_kernel.facts.agent_update import AgentUpdate
from openab_kernel.facts.conversation import SessionKey

ContentBlock = dict[str, Any]
"""An ACP content block, ready for the wire."""


class AgentTurn(Protocol):
    """A ready session that is ours until the context ends.

    `started_afresh`: an earlier conversation was stored and could not be restored, so a notice is owed.
    """

    @property
    def started_afresh(self) -> bool: ...

    def prompt(self, blocks: list[ContentBlock]) -> AsyncIterator[AgentUpdate]:
        """Prompt, and give every update in order; the last one is `Stopped`. Called once for each turn.

        The caller may be slow: what it has not read is bounded, and the agent is then made to wait. Closing the
        iterator early gives the prompt up; the session is fenced before the next one.

        Raises:
            AgentGone: the process ended. Its session id is kept; the next turn resumes.
            AgentTimeout: a watchdog stopped it.
            AgentRefused: it declined.
            AgentProtocolError: it answered with an error, or broke the protocol.
        """
        ...


class Agent(Protocol):
    """A pool of sessions behind one name. All methods may be called from any task of the loop."""

    @property
    def name(self) -> str: ...

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Live until cancelled; `task_status.started()` once turns may begin. At the end every process is gone."""
        ...

    def turn(self, key: SessionKey) -> AbstractAsyncContextManager[AgentTurn]:
        """Get a session ready: find or make it, take a slot, resume what was stored. One turn at a time for a key.

        Raises:
            AgentSpawnError, AgentGone, AgentTimeout, AgentProtocolError: it could not be made ready.
            AgentBusy: no slot within the time a turn may wait.
        """
        ...

    async def cancel(self, key: SessionKey) -> bool:
        """Ask the running turn to stop, at once and beside any lock. False: nothing was running."""
        ...

    async def reset(self, key: SessionKey) -> bool:
        """Cancel, stop the process and forget the session. False: there was nothing to forget."""
        ...

    async def models(self, key: SessionKey) -> str:
        """Lines for a person: the models this session offers and the one in use."""
        ...

    async def describe(self, key: SessionKey) -> str:
        """One line for a person: name and version."""
        ...
