"""One running prompt: what the agent said and nobody has read yet, and how it ends.

The reader of the client puts in, the turn takes out, anybody may give it up. A plain deque and two events: updates come
by the hundred thousand a second, and a stream object for each would cost more than to parse it.
"""

from __future__ import annotations

from collections import deque

import anyio

from openab_kernel.agent.acp.mapping import UpdateMapper
from openab_kernel.clock import Clock
from openab_kernel.errors import AgentError
from openab_kernel.facts.agent_update import AgentUpdate, Stopped

UNREAD_LIMIT = 1024

Outcome = Stopped | AgentError


class Prompt:
    """Also the iterator that a turn reads: every update in order, then `Stopped`, or the error that ended it.

    It *ends* once for the turn, and is *settled* when nothing of it can come any more: its answer is there or the
    process is gone. A prompt that was given up has ended and may not be settled for some seconds: that is the fence.
    """

    def __init__(self, clock: Clock) -> None:
        self.updates = UpdateMapper()
        self._clock = clock
        self._unread: deque[AgentUpdate] = deque()
        self._outcome: Outcome | None = None
        self.has_ended = False
        self._is_told = False
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._is_awaited = False
        self._active_at = clock.monotonic()
        self.ended = anyio.Event()
        self.settled = anyio.Event()

    @property
    def is_given_up(self) -> bool:
        """Ended for the turn, while the agent may still be at it."""
        return self.has_ended and not self.settled.is_set()

    def put(self, update: AgentUpdate) -> bool:
        """Add an update; after the end it is thrown away. True: no more, before `wait_room` has returned."""
        if self.has_ended:
            return False
        unread = self._unread
        unread.append(update)
        if len(unread) == 1:
            self._arrived.set()
        return len(unread) >= UNREAD_LIMIT

    async def wait_room(self) -> None:
        """If it is full, return when half of it has been read, or nobody reads any more."""
        if len(self._unread) >= UNREAD_LIMIT and not self.has_ended:
            self._room = anyio.Event()
            await self._room.wait()

    def settle(self, outcome: Outcome) -> None:
        """The agent's answer, or its death: what came before it can still be read."""
        self._end(outcome)
        self.settled.set()

    def give_up(self, outcome: Outcome) -> bool:
        """End it for the turn now. What was not read is thrown away if that was asked for. False: it had ended."""
        if self.has_ended:
            return False
        if isinstance(outcome, Stopped):
            self._unread.clear()
        self._end(outcome)
        return True

    def _end(self, outcome: Outcome) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._outcome = outcome
            self.ended.set()
            self._arrived.set()
        self._room.set()

    def touch(self) -> None:
        """A valid frame came from the agent."""
        self._active_at = self._clock.monotonic()

    def idle_seconds(self) -> float:
        """How long the agent has been silent while the turn waited for it; 0 while the turn is busy itself."""
        return self._clock.monotonic() - self._active_at if self._is_awaited else 0.0

    def __aiter__(self) -> Prompt:
        return self

    async def __anext__(self) -> AgentUpdate:
        while True:
            if self._unread:
                return self._take()
            if self._is_told:
                raise StopAsyncIteration
            if self._outcome is not None:
                return self._tell(self._outcome)
            await self._wait()

    def _take(self) -> AgentUpdate:
        update = self._unread.popleft()
        if len(self._unread) == UNREAD_LIMIT // 2:
            self._room.set()
        return update

    def _tell(self, outcome: Outcome) -> Stopped:
        self._is_told = True
        if isinstance(outcome, AgentError):
            raise outcome
        return outcome

    async def _wait(self) -> None:
        self._arrived = anyio.Event()
        self._is_awaited = True
        self.touch()
        try:
            await self._arrived.wait()
        finally:
            self._is_awaited = False
