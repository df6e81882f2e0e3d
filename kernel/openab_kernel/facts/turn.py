"""A recorded message, a turn, and how both end (turn-kernel.md 4, 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from openab_kernel.facts.admission import Admission, Dispatch, ObserveOnly
from openab_kernel.facts.base import Facts
from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.outbound import Destination

Stage = Literal[
    "ingest",
    "classify",
    "preflight",
    "resolve",
    "authorize",
    "triage",
    "assemble",
    "record",
    "dispatch",
    "deliver",
    "finalize",
]
EventName = Literal["start", "done", "drop", "handled", "error", "warning"]
TurnOutcome = Literal["done", "silent", "failed", "cancelled", "interrupted"]
NextType = Literal["stop", "wait", "silent", "tool"]


class StageEvent(Facts):
    """One step of a message through the pipeline. Holds no body, no token, no raw payload."""

    stage: Stage
    event: EventName
    channel: str
    account_id: str | None = None
    message_id: str | None = None
    session_key: str | None = None
    turn_id: str | None = None
    admission: str | None = None
    reason: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    owner: str | None = None
    counts: dict[str, int] | None = None


class InboundMessage(Facts):
    """A message on its way to a session: what record writes and what a lane holds.

    `message_id` is the kernel's id of the event, unique within channel and account; `event_id` the platform's own,
    for `why`. `received_at` is epoch ms. `from_person` is False for bots and proactive events: they get no failure
    line. `resumable` False: its dispatch is a callback that dies with the process.
    """

    session: SessionKey
    session_key: str
    channel: str
    account_id: str | None = None
    conversation_id: str
    thread_id: str | None = None
    message_id: str
    event_id: str | None = None
    sender_id: str | None = None
    proactive: bool = False
    from_person: bool = True
    resumable: bool = True
    internal_turn_source: str | None = None
    received_at: int
    admission: Dispatch | ObserveOnly
    context: FinalizedMsgContext
    destination: Destination
    reply_to_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """An inbound message that is on disk. `seq` is its place in the order of arrival over the whole store."""

    seq: int
    message: InboundMessage


@dataclass(frozen=True, slots=True)
class NextStep:
    """What an agent says comes next (delivery.md 2.1). `name` and `arguments`, any JSON value, belong to a proposed
    tool: it is recorded, and nobody executes it."""

    type: NextType
    name: str | None = None
    arguments: Any = None


class TurnRecord(Facts):
    """One turn as the store keeps it: which messages it took, and how far it came."""

    turn_id: str
    session: SessionKey
    state: Literal["started", "stopped", "finished", "interrupted"]
    started_at: int
    outcome: TurnOutcome | None = None
    cause: str | None = None
    next_steps: tuple[NextStep, ...] = ()


class InterruptedTurn(Facts):
    """A turn that the end of the process cut off, with the newest message it was to answer."""

    turn: TurnRecord
    message: InboundMessage


class DeliveryCounts(Facts):
    """Payloads by kind."""

    tool: int = 0
    block: int = 0
    final: int = 0

    @property
    def total(self) -> int:
        return self.tool + self.block + self.final


class SettledReceipt(Facts):
    """How the sends of a turn ended: part outcomes counted for each kind of payload."""

    counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    any_visible_delivered: bool = False


class DispatchResult(Facts):
    """What came out of the agent."""

    queued_final: bool = False
    counts: DeliveryCounts = DeliveryCounts()
    settled_receipt: SettledReceipt | None = None
    observed_reply_delivery: bool | None = None
    deferred_to_active_run: bool | None = None

    @property
    def is_visible(self) -> bool:
        """Was a reply seen? The settled receipt decides; without one, any signal says yes."""
        if self.settled_receipt is not None:
            return self.settled_receipt.any_visible_delivered
        return bool(self.observed_reply_delivery) or self.queued_final or self.counts.total > 0


class ChannelTurnResult(Facts):
    """How a message ended. `dispatched` tells whether the agent had it; `failed_stage` names a stage that raised."""

    admission: Admission
    dispatched: bool
    turn_id: str | None = None
    ctx_payload: FinalizedMsgContext | None = None
    route_session_key: str | None = None
    dispatch_result: DispatchResult | None = None
    failed_stage: Stage | None = None
    error: Any = Field(default=None, exclude=True)
    finalize_error: Any = Field(default=None, exclude=True)


class TurnSummary(Facts):
    """One finished turn, as `turn.finished` tells it."""

    turn_id: str
    session_key: str
    channel: str
    message_ids: tuple[str, ...]
    event_id: str | None
    outcome: TurnOutcome
    mode: str
    bubbles: int
    parts: int
    delivered: int
    unknown: int
    failed: int
    elapsed_ms: int
    cause: str | None = None
