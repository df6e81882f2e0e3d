"""The store: what must survive the process.

Every method is one transaction: it happens as a whole or raises `StoreError` and nothing happened. A method that
returned has its effect on disk. Concurrent calls may share one commit. All stores, the in-memory one included, pass
the same contract tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from anyio.abc import TaskStatus

from openab_kernel.facts.base import Facts
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.facts.turn import InboundMessage, InterruptedTurn, NextStep, RecordedMessage, TurnOutcome


class AgentSessionRow(Facts):
    """What is needed to resume an agent's session: its own id for it, and what it was started with."""

    session: SessionKey
    agent_session_id: str
    agent_command: str
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """What record writes in one transaction (turn-kernel.md 3.2).

    `dedupe_epoch` is "" for a person's message and the time of admission for a proactive one, which is judged by
    triage alone. `user_activity` False (internal turns): neither last route nor last activity is touched.
    `history_key`: a noted entry of this window with the same message id is removed.
    """

    message: InboundMessage
    queue_name: str
    agent_id: str
    dedupe_epoch: str = ""
    persisted_session_key: str
    user_activity: bool = True
    history_key: str | None = None


class Store(Protocol):
    """See the module. `run` lives as long as the store is open; nothing may be called before it has started."""

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Open, take the lock, migrate; `task_status.started()` when ready; on cancellation write out and close.

        Raises:
            StoreLockedError: another process holds it.
            StoreError: it cannot be opened, or its schema is newer than this program.
        """
        ...

    async def record(self, request: RecordRequest) -> RecordedMessage | None:
        """Insert the message with its session metadata, last route and dedupe key. None: the key is taken.

        The dedupe key is (agent, channel, account, conversation, thread, message id, epoch).
        """
        ...

    async def has_message(self, channel: str, account_id: str | None, message_id: str) -> bool:
        """Has a message of this id been recorded, and not yet forgotten?"""
        ...

    async def adopt(self, turn_id: str, session: SessionKey, seqs: Sequence[int], started_at: int) -> bool:
        """Mark these messages taken and the turn started. False, and no effect, if one of them is not waiting."""
        ...

    async def stop_turn(self, turn_id: str) -> None:
        """Mark that the agent has stopped: after a crash this turn is finished, not interrupted."""
        ...

    async def finish_turn(
        self, turn_id: str, outcome: TurnOutcome, cause: str | None, next_steps: Sequence[NextStep] = ()
    ) -> None:
        """Close the turn. Closing it again changes nothing."""
        ...

    async def waiting(self, session: SessionKey, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        """Messages of this session that no turn has taken, in order of arrival."""
        ...

    async def waiting_sessions(self, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        """The oldest waiting message of each session that has one, those with `seq` above `after_seq`, in order."""
        ...

    async def release(self, seq: int, *, not_before: int, error: str) -> int:
        """Give a message that could not be adopted back, not before that epoch ms.

        Returns:
            Its attempts so far; 0: it is not waiting any more, so there is nothing to give back.
        """
        ...

    async def park(self, seqs: Sequence[int], reason: str) -> None:
        """Set messages aside as failed. They hold no lane and are not taken again."""
        ...

    async def interrupt_started_turns(self) -> list[InterruptedTurn]:
        """At start: close stopped turns as finished and started ones as interrupted; give the latter.

        Messages that are waiting but not resumable are parked with reason `prepared_not_resumable`.
        """
        ...

    async def agent_session(self, session: SessionKey) -> AgentSessionRow | None:
        """The stored session; an unreadable row is logged and counts as none."""
        ...

    async def save_agent_session(self, row: AgentSessionRow) -> None:
        """Insert or replace."""
        ...

    async def forget_agent_session(self, session: SessionKey) -> bool:
        """False: there was none."""
        ...

    async def hold_notice(self, session: SessionKey, text: str | None) -> None:
        """Keep a notice for the next turn that sends something; None takes it away."""
        ...

    async def held_notices(self) -> dict[SessionKey, str]:
        """All notices that are owed. They are few: only a turn that sent nothing leaves one."""
        ...

    async def claim_effect(self, channel: str, account_id: str | None, message_id: str, effect: str) -> bool:
        """Claim an effect that must not repeat, such as a control command. False: it was claimed before."""
        ...

    async def note_history(self, history_key: str, entry: HistoryEntry, *, limit: int) -> None:
        """Put a message that started no turn into its window, with the next `seq`; the oldest beyond `limit` leave.

        A limit of 0 switches the window off: nothing is noted.
        """
        ...

    async def history(self, history_key: str, *, limit: int) -> list[HistoryEntry]:
        """The newest entries of a window, oldest first."""
        ...
