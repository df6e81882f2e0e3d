"""A store that lives in memory. It passes the contract tests of the real ones, so a test may trust it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskStatus

from openab_kernel.clock import Clock, epoch_ms
from openab_kernel.errors import StoreError
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import (
    InboundMessage,
    InterruptedTurn,
    NextStep,
    RecordedMessage,
    TurnOutcome,
    TurnRecord,
)
from openab_kernel.interfaces.store import AgentSessionRow, RecordRequest

KEPT_MS = 30 * 24 * 3600 * 1000

MessageId = tuple[str, str | None, str]


@dataclass
class StoredMessage:
    """One message as the store keeps it. `entry` is its JSON, as on a disk; None once it is completed."""

    seq: int
    request: RecordRequest
    entry: str | None
    state: str = "waiting"
    attempts: int = 0
    not_before: int | None = None
    last_error: str | None = None

    @property
    def recorded(self) -> RecordedMessage:
        return RecordedMessage(seq=self.seq, message=InboundMessage.model_validate_json(self.entry or ""))


class MemoryStore:
    """Implements `openab_kernel.interfaces.store.Store`. To play a restart, end `run` and run it again.

    Completed messages are forgotten at a restart alone, by their age. A test may look at the attributes.
    """

    def __init__(self, clock: Clock) -> None:
        self.messages: dict[int, StoredMessage] = {}
        self.turns: dict[str, TurnRecord] = {}
        self.last_routes: dict[SessionKey, Destination] = {}
        self.last_activity: dict[SessionKey, int] = {}
        self.session_keys: dict[SessionKey, str] = {}
        self._clock = clock
        self._last_seq = 0
        self._dedupe_keys: dict[tuple[str | None, ...], int] = {}
        self._known: Counter[MessageId] = Counter()
        self._taken: dict[str, list[int]] = {}
        self._agent_sessions: dict[SessionKey, AgentSessionRow] = {}
        self._notices: dict[SessionKey, str] = {}
        self._effects: set[tuple[MessageId, str]] = set()
        self._history: defaultdict[str, list[HistoryEntry]] = defaultdict(list)
        self._failures: Counter[str] = Counter()

    def fail(self, method: str, times: int = 1) -> None:
        """Have the next calls of a method that writes raise `StoreError`, with nothing written."""
        self._failures[method] += times

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        oldest = epoch_ms(self._clock.now()) - KEPT_MS
        for stored in list(self.messages.values()):
            if stored.state == "completed" and stored.request.message.received_at < oldest:
                self._forget(stored)
        task_status.started()
        await anyio.sleep_forever()

    def _forget(self, stored: StoredMessage) -> None:
        del self.messages[stored.seq], self._dedupe_keys[_dedupe_key(stored.request)]
        self._known[_message_id(stored.request.message)] -= 1

    async def record(self, request: RecordRequest) -> RecordedMessage | None:
        self._may_fail("record")
        key = _dedupe_key(request)
        if key in self._dedupe_keys:
            return None
        message = request.message
        entry = message.model_dump_json()
        self._last_seq += 1
        self.messages[self._last_seq] = StoredMessage(self._last_seq, request, entry)
        self._dedupe_keys[key] = self._last_seq
        self._known[_message_id(message)] += 1
        self.session_keys[message.session] = request.persisted_session_key
        if request.user_activity:
            self.last_routes[message.session] = message.destination
            self.last_activity[message.session] = message.received_at
        if request.history_key is not None:
            window = self._history[request.history_key]
            window[:] = [entry for entry in window if entry.message_id != message.message_id]
        return RecordedMessage(seq=self._last_seq, message=message)

    async def has_message(self, channel: str, account_id: str | None, message_id: str) -> bool:
        return self._known[channel, account_id, message_id] > 0

    async def adopt(self, turn_id: str, session: SessionKey, seqs: Sequence[int], started_at: int) -> bool:
        self._may_fail("adopt")
        if len(set(seqs)) < len(seqs) or not all(self._is_waiting(seq) for seq in seqs):
            return False
        if turn_id in self._taken:
            raise StoreError(f"turn {turn_id}: it is in use")
        for seq in seqs:
            self.messages[seq].state = "taken"
        self._taken[turn_id] = list(seqs)
        self.turns[turn_id] = TurnRecord(turn_id=turn_id, session=session, state="started", started_at=started_at)
        return True

    async def stop_turn(self, turn_id: str) -> None:
        self._may_fail("stop_turn")
        turn = self.turns.get(turn_id)
        if turn is not None and turn.state == "started":
            self.turns[turn_id] = turn.model_copy(update={"state": "stopped"})

    async def finish_turn(
        self, turn_id: str, outcome: TurnOutcome, cause: str | None, next_steps: Sequence[NextStep] = ()
    ) -> None:
        self._may_fail("finish_turn")
        turn = self.turns.get(turn_id)
        if turn is not None and turn.state in {"started", "stopped"}:
            closed = {
                "state": "finished",
                "outcome": outcome,
                "cause": cause,
                "next_steps": tuple(next_steps),
            }
            self.turns[turn_id] = turn.model_copy(update=closed)
            self._complete(turn_id)

    def _complete(self, turn_id: str) -> None:
        for stored in self._taken_by(turn_id):
            stored.state, stored.entry = "completed", None
        self._taken.pop(turn_id, None)

    def _taken_by(self, turn_id: str) -> list[StoredMessage]:
        """In order of arrival."""
        stored = [self.messages[seq] for seq in sorted(self._taken.get(turn_id, []))]
        return [one for one in stored if one.state == "taken"]

    async def waiting(self, session: SessionKey, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        found = [
            stored
            for stored in self._all_waiting()
            if stored.request.message.session == session and stored.seq > after_seq
        ]
        return [stored.recorded for stored in found[:limit]]

    async def waiting_sessions(self, *, after_seq: int, limit: int) -> list[RecordedMessage]:
        oldest: dict[SessionKey, StoredMessage] = {}
        for stored in self._all_waiting():
            oldest.setdefault(stored.request.message.session, stored)
        found = [stored for stored in oldest.values() if stored.seq > after_seq]
        return [stored.recorded for stored in found[:limit]]

    def _all_waiting(self) -> Iterable[StoredMessage]:
        return (stored for stored in self.messages.values() if stored.state == "waiting")

    def _is_waiting(self, seq: int) -> bool:
        return seq in self.messages and self.messages[seq].state == "waiting"

    async def release(self, seq: int, *, not_before: int, error: str) -> int:
        self._may_fail("release")
        if not self._is_waiting(seq):
            return 0
        stored = self.messages[seq]
        stored.attempts += 1
        stored.not_before, stored.last_error = not_before, error
        return stored.attempts

    async def park(self, seqs: Sequence[int], reason: str) -> None:
        self._may_fail("park")
        for seq in seqs:
            stored = self.messages.get(seq)
            if stored is not None and stored.state in {"waiting", "taken"}:
                stored.state, stored.last_error = "failed", reason

    async def interrupt_started_turns(self) -> list[InterruptedTurn]:
        self._may_fail("interrupt_started_turns")
        for stored in self._all_waiting():
            if not stored.request.message.resumable:
                stored.state, stored.last_error = "failed", "prepared_not_resumable"
        interrupted = []
        for turn in self.turns.values():
            if turn.state == "started":
                closed = turn.model_copy(update={"state": "interrupted", "outcome": "interrupted"})
                self.turns[turn.turn_id] = closed
                interrupted += [
                    InterruptedTurn(turn=closed, message=stored.recorded.message)
                    for stored in self._taken_by(turn.turn_id)[-1:]
                ]
            elif turn.state == "stopped":
                self.turns[turn.turn_id] = turn.model_copy(update={"state": "finished"})
            self._complete(turn.turn_id)
        return interrupted

    async def agent_session(self, session: SessionKey) -> AgentSessionRow | None:
        return self._agent_sessions.get(session)

    async def save_agent_session(self, row: AgentSessionRow) -> None:
        self._may_fail("save_agent_session")
        self._agent_sessions[row.session] = row

    async def forget_agent_session(self, session: SessionKey) -> bool:
        self._may_fail("forget_agent_session")
        return self._agent_sessions.pop(session, None) is not None

    async def hold_notice(self, session: SessionKey, text: str | None) -> None:
        self._may_fail("hold_notice")
        if text is None:
            self._notices.pop(session, None)
        else:
            self._notices[session] = text

    async def held_notices(self) -> dict[SessionKey, str]:
        return dict(self._notices)

    async def claim_effect(self, channel: str, account_id: str | None, message_id: str, effect: str) -> bool:
        self._may_fail("claim_effect")
        claim = ((channel, account_id, message_id), effect)
        if claim in self._effects:
            return False
        self._effects.add(claim)
        return True

    async def note_history(self, history_key: str, entry: HistoryEntry, *, limit: int) -> None:
        self._may_fail("note_history")
        if limit <= 0:
            return
        self._last_seq += 1
        window = self._history[history_key]
        window.append(entry.model_copy(update={"seq": self._last_seq}))
        del window[:-limit]

    async def history(self, history_key: str, *, limit: int) -> list[HistoryEntry]:
        return self._history[history_key][-limit:] if limit > 0 else []

    def _may_fail(self, method: str) -> None:
        if self._failures[method] > 0:
            self._failures[method] -= 1
            raise StoreError(f"memory store: {method} was told to fail")


def _message_id(message: InboundMessage) -> MessageId:
    return (message.channel, message.account_id, message.message_id)


def _dedupe_key(request: RecordRequest) -> tuple[str | None, ...]:
    message = request.message
    return (
        request.agent_id,
        message.channel,
        message.account_id,
        message.conversation_id,
        message.thread_id,
        message.message_id,
        request.dedupe_epoch,
    )
