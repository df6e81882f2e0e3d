"""Stage 10: what the agent said becomes intents, and intents become receipts.

The road of the mode (`roads.py`) says what is sent; here it is put into custody, with the notice that is owed before it
and at most one plain line about a failure behind it. Whatever fails, what came stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex

from openab_kernel.delivery.lines import RESET_NOTICE, failure_line
from openab_kernel.errors import (
    AgentError,
    FailureCause,
    PartialDeliveryError,
    PlatformMessageNotDispatchedError,
)
from openab_kernel.facts.agent_update import AgentUpdate, BubbleMessage, Stopped
from openab_kernel.facts.outbound import Intent, IntentOutcome, PartOutcome
from openab_kernel.facts.turn import (
    DeliveryCounts,
    DispatchResult,
    InboundMessage,
    NextStep,
    SettledReceipt,
    TurnOutcome,
)
from openab_kernel.interfaces.channel import DeliveryAdapter
from openab_kernel.outbound.live import Status
from openab_kernel.outbound.outbox import Owed, Plan
from openab_kernel.stages.ingest import answer
from openab_kernel.stages.parts import Parts
from openab_kernel.stages.roads import Ending, Message, road_for


class Delivery:
    """The delivery of one turn: the sink of its updates, then what it owes, then how that ended.

    Owned by the task of the turn. `cause` says why the turn failed, once `owe` has run. A muted turn (observe-only)
    collects and shows nothing.
    """

    def __init__(
        self, turn_id: str, messages: list[InboundMessage], adapter: DeliveryAdapter | None, parts: Parts
    ) -> None:
        self.cause: FailureCause | None = None
        self.steps: tuple[NextStep, ...] = ()
        self.is_silent = False
        self._error: Exception | None = None
        self._turn_id = turn_id
        self._messages = messages
        self._anchor = messages[-1]
        self._parts = parts
        self._is_muted = self._anchor.admission.kind == "observeOnly"
        self._is_cancelled = False
        self._started_afresh = False
        self._road = road_for(self._anchor, parts)
        self.sent = Sent(adapter, parts)
        self._status: Status | None = None

    # ---------------------------------------------------------------- while the agent works

    def begin(self, *, started_afresh: bool) -> None:
        """From now on people see that something is coming. `started_afresh`: the session's memory was lost."""
        self._started_afresh = started_afresh
        if not self._is_muted:
            self._status = self._parts.live.begin(self._messages)

    def take(self, update: AgentUpdate) -> None:
        """Take one update of the agent. Never waits for a platform."""
        self._road.take(update)
        if self._status is not None:
            self._status.take(update)

    async def take_bubble(self, update: BubbleMessage) -> None:
        """Take a deliberate message: where the mode sends it at once, into custody with it. After a refusal there is
        no next one."""
        if self._status is not None:
            self._status.take(update)
        if self._error is not None or self.sent.is_abandoned:
            return
        message = self._road.bubble(update)
        if message is not None:
            await self._send([message])

    # ---------------------------------------------------------------- when it has stopped

    async def owe(self, stopped: Stopped | None, failure: Exception | None) -> None:
        """Put what is owed into custody: a notice, what the agent said, at most one line about a failure.

        An error of sending is given by `settle`.
        """
        self._is_cancelled = stopped is not None and stopped.by_request
        self.cause = failure_cause(failure)
        messages = [] if self._is_cancelled else await self._close(stopped)
        await self._send(messages)
        if self._started_afresh:
            await self._parts.notices.hold(self._anchor.session, RESET_NOTICE)

    async def _close(self, stopped: Stopped | None) -> list[Message]:
        closing = await self._road.close(Ending(stopped, self.cause))
        self.steps, self.is_silent = closing.steps, closing.is_silent
        if closing.cause is not None and not self._is_muted:
            self.cause = closing.cause
        messages = list(closing.messages)
        line = failure_line(self.cause, asked_by_person=self._anchor.from_person) if self.cause else None
        if line is not None and not self.is_silent and not self.sent.is_abandoned:
            messages.append(Message("notice", (line,)))
        return messages

    async def settle(self) -> Exception | None:
        """Wait for the end of every send, and take the signs of work away. What went wrong on the way to the platform,
        or the error that a refusal amounts to."""
        await self.sent.settle()
        failed, delivered = self.sent.counts["failed"], self.sent.counts["delivered"]
        if self._status is not None:
            self._status.end(failed=self.outcome == "failed")
        if self._error is not None or not failed:
            return self._error
        refused = PlatformMessageNotDispatchedError(f"{failed} parts were refused or given up", retryable=False)
        return PartialDeliveryError(refused, self.sent.result()) if delivered else refused

    @property
    def outcome(self) -> TurnOutcome:
        if self._is_cancelled:
            return "cancelled"
        if self.cause is not None or self._error is not None or self.sent.counts["failed"]:
            return "failed"
        return "done" if self.sent.outcomes else "silent"

    @property
    def bubbles(self) -> int:
        """Bubbles that the agent wanted seen, sent or not; in text mode its one message."""
        return self._road.bubbles

    # ---------------------------------------------------------------- small parts

    async def _send(self, messages: list[Message]) -> None:
        """Send, with the notice that is owed before the first that goes out."""
        if self._is_muted or not messages:
            return
        try:
            notice = await self._owed_notice()
            if notice is not None:
                messages.insert(0, Message("notice", (notice,)))
            await self.sent.take_on([self._intent(message) for message in messages])
        except Exception as error:
            self._error = error

    async def _owed_notice(self) -> str | None:
        """The notice that goes out now. One that finds nothing to go out with is kept for the next turn."""
        held = await self._parts.notices.take(self._anchor.session)
        notice = RESET_NOTICE if self._started_afresh else held
        self._started_afresh = False
        return notice

    def _intent(self, message: Message) -> Intent:
        return Intent(
            id=token_hex(16),
            destination=self._anchor.destination,
            kind=message.kind,
            parts=message.parts,
            turn_id=self._turn_id,
            session_key=self._anchor.session_key,
            reply_to_id=message.reply_to,
        )


class Sent:
    """The sends of one turn: in the outbox's custody or handed to the channel's own delivery, and how they ended.

    In the bubble modes they are one plan: after a refused part there is no next one.
    """

    def __init__(self, adapter: DeliveryAdapter | None, parts: Parts) -> None:
        self.owed: list[Owed] = []
        self.outcomes: list[IntentOutcome] = []
        self.counts = {"delivered": 0, "failed": 0, "unknown": 0, "suppressed": 0}
        self._adapter = adapter
        self._parts = parts
        is_plan = parts.delivery.mode != "text"
        self._plan = Plan(parts.delivery.bubble_delay_ms / 1000) if is_plan else None

    @property
    def is_abandoned(self) -> bool:
        """Whether a part was refused, so that nothing more of this turn is sent."""
        return self._plan is not None and self._plan.is_abandoned

    async def take_on(self, intents: Sequence[Intent]) -> None:
        """See that these are sent, in this order, behind those before.

        Raises:
            Exception: whatever the channel's own delivery raises; later payloads are not tried.
        """
        if self._adapter is None:
            self.owed += await self._parts.outbox.enqueue(intents, self._plan)
            return
        for intent in intents:
            if not self.is_abandoned:
                await self._hand_over(self._adapter, intent)

    async def _hand_over(self, adapter: DeliveryAdapter, intent: Intent) -> None:
        """Give one payload to the channel's own delivery."""
        clock, plan = self._parts.clock, self._plan
        if plan is not None and intent.kind == "final":
            await clock.sleep(plan.pause_seconds(clock.monotonic()))
        outcomes: list[PartOutcome] = []
        kind = "final" if intent.kind == "notice" else intent.kind
        for index, part in enumerate(intent.parts):
            result = await answer(adapter.deliver(part, {"kind": kind}))
            visible = result is None or result.get("visible_reply_sent", True)
            outcomes.append(
                PartOutcome(index=index, status="delivered")
                if visible
                else PartOutcome(index=index, status="suppressed", code="no_visible_result")
            )
        if plan is not None and intent.kind == "final":
            plan.note_bubble(clock.monotonic())
        self.add(IntentOutcome(intent_id=intent.id, kind=intent.kind, parts=tuple(outcomes)))

    async def settle(self) -> None:
        """Wait until every part in the outbox has its end."""
        for item in self.owed:
            self.add(await item.settled())

    def add(self, outcome: IntentOutcome) -> None:
        self.outcomes.append(outcome)
        for part in outcome.parts:
            self.counts[part.status] += 1

    def result(self) -> DispatchResult:
        """What became of the agent's payloads; notices of ours do not count."""
        settled: dict[str, dict[str, int]] = {}
        counts = {"tool": 0, "block": 0, "final": 0}
        for outcome in self.outcomes:
            if outcome.kind == "notice":
                continue
            counts[outcome.kind] += 1
            tally = settled.setdefault(outcome.kind, {})
            for part in outcome.parts:
                tally[part.status] = tally.get(part.status, 0) + 1
        visible = any(tally.get("delivered") or tally.get("unknown") for tally in settled.values())
        return DispatchResult(
            queued_final=counts["final"] > 0,
            counts=DeliveryCounts(**counts),
            settled_receipt=SettledReceipt(counts=settled, any_visible_delivered=visible) if settled else None,
        )


def failure_cause(failure: Exception | None) -> FailureCause | None:
    """Which line a person gets for a turn that did not end well."""
    if failure is None:
        return None
    return failure.cause if isinstance(failure, AgentError) else "agent"
