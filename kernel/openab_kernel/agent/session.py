"""A session of the pool: its process while it has one, and the turn that holds it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import structlog
from anyio import CancelScope, TaskHandle

from openab_kernel.agent.acp.client import AcpClient
from openab_kernel.agent.acp.prompt import Prompt
from openab_kernel.clock import Clock
from openab_kernel.facts.agent_update import Stopped
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.agent import ContentBlock

log = structlog.get_logger("openab_kernel.agent")

CANCELLED = Stopped("cancelled", by_request=True)


class Live:
    """The process of a session. `task` owns it: whoever wants the process stopped cancels that task.

    `failure`: why it never became ready, for the turn that waits for it.
    """

    __slots__ = ("client", "failure", "has_slot", "ready", "started_afresh", "task")

    task: TaskHandle[None]

    def __init__(self) -> None:
        self.client: AcpClient | None = None
        self.failure: Exception | None = None
        self.has_slot = False
        self.started_afresh = False
        self.ready = anyio.Event()

    @property
    def is_ending(self) -> bool:
        """Dead, or being stopped."""
        is_stopped = self.task.status is not TaskHandle.Status.PENDING
        return is_stopped or (self.client is not None and not self.client.is_alive)

    @property
    def usable_client(self) -> AcpClient | None:
        """None: not ready yet, or ending."""
        return None if self.is_ending else self.client


class Session:
    """One conversation, for as long as it is live or somebody wants it. `users` counts those who do.

    `gate` is held by a turn: one at a time. `making` is held while the session is made ready or forgotten.
    """

    __slots__ = ("gate", "idle_since", "key", "live", "making", "turn", "users")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.users = 0
        self.gate = anyio.Lock()
        self.making = anyio.Lock()
        self.turn: SessionTurn | None = None
        self.live: Live | None = None
        self.idle_since = 0.0

    @property
    def client(self) -> AcpClient | None:
        """What a turn may prompt, once it is settled."""
        return self.live.usable_client if self.live is not None else None

    @property
    def is_idle(self) -> bool:
        """May it be suspended without harm to anybody? Not during a fence either."""
        return self.users == 0 and self.client is not None and self.client.is_settled

    def suspend(self, reason: str) -> None:
        """Have the process stopped. The agent's id of the session stays in the store."""
        if self.live is not None and self.live.task.status is TaskHandle.Status.PENDING:
            log.info("session.stopped", session_key=str(self.key), reason=reason)
            self.live.task.cancel()


class SessionTurn:
    """Implements `interfaces.agent.AgentTurn`. `on_prompt` is called when it begins to prompt."""

    def __init__(self, clock: Clock, on_prompt: Callable[[], None]) -> None:
        self.started_afresh = False
        self.client: AcpClient | None = None
        self.preparing = CancelScope()
        self.released = anyio.Event()
        self._clock = clock
        self._on_prompt = on_prompt
        self._is_cancelled = False
        self._prompt: Prompt | None = None

    def prompt(self, blocks: list[ContentBlock]) -> Prompt:
        """See the interface. A turn that was cancelled before has nothing to tell but its end."""
        if self.client is None or self._is_cancelled:
            self._prompt = Prompt(self._clock)
            self._prompt.settle(CANCELLED)
        else:
            self._prompt = self.client.prompt(blocks)
            self._on_prompt()
        return self._prompt

    def cancel(self) -> bool:
        """Stop what runs: the preparing or the prompt. False: the turn has ended, or this was done before."""
        if self._prompt is not None:
            return self._prompt.give_up(CANCELLED)
        if self._is_cancelled:
            return False
        self._is_cancelled = True
        if self.client is None:
            self.preparing.cancel()
        return True

    def release(self) -> None:
        """The turn is over. A prompt that still runs is given up."""
        if self._prompt is not None:
            self._prompt.give_up(CANCELLED)
        self.released.set()
