"""Stage 10: what the agent said becomes intents, and intents become receipts.

Text mode: the text of the turn is collected while the agent works and sent once at its end. Whatever fails, what came
stays, and a person gets at most one plain line about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex

import structlog

from openab_kernel.delivery.lines import FAILURE_LINES, RESET_NOTICE
from openab_kernel.delivery.text import TextPlan, TurnText, plan_text
from openab_kernel.delivery.tool_lines import ToolRuns
from openab_kernel.errors import (
    AgentError,
    FailureCause,
    PartialDeliveryError,
    PlatformMessageNotDispatchedError,
    SendError,
)
from openab_kernel.facts.agent_update import (
    AgentUpdate,
    BubbleIgnored,
    BubbleMessage,
    Stopped,
    TextChunk,
    ToolActivity,
)
from openab_kernel.facts.outbound import ChannelCapabilities, Intent, IntentOutcome, PartOutcome, PayloadKind
from openab_kernel.facts.turn import (
    DeliveryCounts,
    DispatchResult,
    InboundMessage,
    SettledReceipt,
    TurnOutcome,
)
from openab_kernel.interfaces.channel import DeliveryAdapter
from openab_kernel.outbound.live import Status
from openab_kernel.outbound.outbox import Owed
from openab_kernel.stages.ingest import answer
from openab_kernel.stages.parts import Parts

log = structlog.get_logger("openab_kernel.deliver")

NO_CAPABILITIES = ChannelCapabilities()


class Delivery:
    """The delivery of one turn: the sink of its updates, then what it owes, then how that ended.

    Owned by the task of the turn. `cause` says why the turn failed, once `owe` has run. A muted turn (observe-only)
    collects and shows nothing.
    """

    def __init__(
        self, turn_id: str, messages: list[InboundMessage], adapter: DeliveryAdapter | None, parts: Parts
    ) -> None:
        self.cause: FailureCause | None = None
        self.sent = Sent()
        self._turn_id = turn_id
        self._messages = messages
        self._anchor = messages[-1]
        self._adapter = adapter
        self._parts = parts
        self._is_muted = self._anchor.admission.kind == "observeOnly"
        self._is_cancelled = False
        self._text = TurnText()
        self._tools = ToolRuns()
        self._status: Status | None = None

    # ---------------------------------------------------------------- while the agent works

    def begin(self) -> None:
        """From now on people see that something is coming."""
        if not self._is_muted:
            self._status = self._parts.live.begin(self._messages)

    def take(self, update: AgentUpdate) -> None:
        """Take one update of the agent. Never waits for a platform."""
        match update:
            case TextChunk(text):
                self._text.feed(text)
            case ToolActivity():
                if update.is_new:
                    self._text.begin_answer()
                self._tools.see(update.tool_call_id, update.title, update.status)
            case BubbleMessage() | BubbleIgnored():
                self._parts.mismatch.note(self._anchor.session_key)
            case _:
                pass
        if self._status is not None:
            self._status.take(update)

    # ---------------------------------------------------------------- when it has stopped

    async def owe(self, stopped: Stopped | None, failure: Exception | None, *, started_afresh: bool) -> None:
        """Put what is owed into custody: a notice, the text that came, at most one line about a failure.

        Raises:
            SendError: the channel's own delivery failed.
        """
        self._is_cancelled = stopped is not None and stopped.by_request
        self.cause = failure_cause(failure)
        intents = [] if self._is_cancelled else self._intents(self._plan(), stopped)
        notice = await self._owed_notice(started_afresh=started_afresh, is_sending=bool(intents) and not self._is_muted)
        if notice is not None:
            intents.insert(0, self._intent("notice", (notice,)))
        if self._is_muted or not intents:
            return
        if self._adapter is None:
            self.sent = Sent(owed=await self._parts.outbox.enqueue(intents))
        else:
            await hand_over(self._adapter, intents, self.sent)

    async def settle(self) -> SendError | None:
        """Wait for the end of every send, and take the signs of work away. The error that a refusal amounts to."""
        await self.sent.settle()
        failed, delivered = self.sent.counts["failed"], self.sent.counts["delivered"]
        if self._status is not None:
            self._status.end(failed=self.cause is not None or failed > 0)
        if not failed:
            return None
        refused = PlatformMessageNotDispatchedError(f"{failed} parts were refused or given up", retryable=False)
        return PartialDeliveryError(refused, self.sent.result()) if delivered else refused

    @property
    def outcome(self) -> TurnOutcome:
        if self._is_cancelled:
            return "cancelled"
        if self.cause is not None or self.sent.counts["failed"]:
            return "failed"
        return "done" if self.sent.outcomes else "silent"

    # ---------------------------------------------------------------- small parts

    def _plan(self) -> TextPlan:
        channel = self._parts.channels.get(self._anchor.channel, self._anchor.account_id)
        capabilities = channel.message_adapter.capabilities(self._anchor.destination) if channel else NO_CAPABILITIES
        reactions = self._parts.reactions
        return plan_text(
            self._text,
            narration=reactions.narration_display,
            tool_lines=self._tools.render(reactions.tool_display),
            limit=capabilities.text_limit,
            tables=self._parts.markdown.tables,
        )

    def _intents(self, plan: TextPlan, stopped: Stopped | None) -> list[Intent]:
        owed: list[Intent] = []
        if plan.parts:
            owed.append(self._intent("final", plan.parts, plan.reply_to or self._anchor.reply_to_id))
        elif self.cause is None:
            self._note_empty(stopped)
        if self.cause is not None and self._anchor.from_person:
            owed.append(self._intent("notice", (FAILURE_LINES[self.cause],)))
        return owed

    def _note_empty(self, stopped: Stopped | None) -> None:
        """Nothing to say: a person is told, a bot is not, and the log has one line."""
        zero_tokens = stopped is not None and stopped.output_tokens == 0
        log.info(
            "turn.empty",
            session_key=self._anchor.session_key,
            **({"zero_tokens": True} if zero_tokens else {}),
        )
        if self._anchor.from_person and not self._is_muted:
            self.cause = "empty"

    async def _owed_notice(self, *, started_afresh: bool, is_sending: bool) -> str | None:
        """The notice that goes out now. One that finds nothing to go out with is kept for the next turn."""
        notices, session = self._parts.notices, self._anchor.session
        if not is_sending:
            if started_afresh:
                await notices.hold(session, RESET_NOTICE)
            return None
        held = await notices.take(session)
        return RESET_NOTICE if started_afresh else held

    def _intent(self, kind: PayloadKind, parts: tuple[str, ...], reply_to_id: str | None = None) -> Intent:
        return Intent(
            id=token_hex(16),
            destination=self._anchor.destination,
            kind=kind,
            parts=parts,
            turn_id=self._turn_id,
            session_key=self._anchor.session_key,
            reply_to_id=reply_to_id,
        )


class Sent:
    """The sends of one turn: those in the outbox's custody, how they ended, and the parts counted by their end."""

    def __init__(self, owed: Sequence[Owed] = ()) -> None:
        self.owed = owed
        self.outcomes: list[IntentOutcome] = []
        self.counts = {"delivered": 0, "failed": 0, "unknown": 0, "suppressed": 0}

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


async def hand_over(adapter: DeliveryAdapter, intents: Sequence[Intent], sent: Sent) -> None:
    """Give the payloads of a turn to the channel's own delivery, one after another.

    Raises:
        Exception: whatever the adapter raises; later payloads are not tried.
    """
    for intent in intents:
        outcomes: list[PartOutcome] = []
        for index, part in enumerate(intent.parts):
            kind = "final" if intent.kind == "notice" else intent.kind
            result = await answer(adapter.deliver(part, {"kind": kind}))
            visible = result is None or result.get("visible_reply_sent", True)
            outcomes.append(
                PartOutcome(index=index, status="delivered")
                if visible
                else PartOutcome(index=index, status="suppressed", code="no_visible_result")
            )
        sent.add(IntentOutcome(intent_id=intent.id, kind=intent.kind, parts=tuple(outcomes)))


def failure_cause(failure: Exception | None) -> FailureCause | None:
    """Which line a person gets for a turn that did not end well."""
    if failure is None:
        return None
    return failure.cause if isinstance(failure, AgentError) else "agent"
