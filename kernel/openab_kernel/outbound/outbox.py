"""The outbox: takes intents, sends their parts in order, tells what became of them.

One lane for each channel, account, conversation and thread. Part n+1 is not sent before part n is settled; a lane
whose head waits holds up no other. Custody here ends with the process: the durable form keeps this interface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256

import anyio
import structlog
from anyio import CancelScope
from anyio.abc import TaskStatus

from openab_kernel.clock import Clock
from openab_kernel.errors import PlatformMessageNotDispatchedError, SendRejected, SendThrottled
from openab_kernel.facts.outbound import (
    Intent,
    IntentOutcome,
    OutboundLaneKey,
    PartOutcome,
    Receipt,
    TextSend,
)
from openab_kernel.interfaces.message_adapter import MessageAdapter
from openab_kernel.outbound.channels import Channels
from openab_kernel.policies.retry import send_backoff
from openab_kernel.serial import Promise, SerialWorkers, fulfil, promise

log = structlog.get_logger("openab_kernel.outbox")


def part_key(intent_id: str, part_index: int) -> str:
    """The same for every attempt at a part, and for no other part (outbound.md 12.5)."""
    return sha256(f"{intent_id}:{part_index}".encode()).hexdigest()


class Plan:
    """The sends of one turn that belong together: bubbles with a pause between them, and no next after a refusal.

    Lives with the process: after a restart what is left goes out without pauses (delivery.md 5.1).
    """

    def __init__(self, pause_seconds: float) -> None:
        self.is_abandoned = False
        self._pause_seconds = pause_seconds
        self._last_bubble: float | None = None

    def pause_seconds(self, now: float) -> float:
        """Seconds until the next bubble may go, counted from the end of the last. `now` is the clock's monotonic."""
        if self._last_bubble is None:
            return 0.0
        return max(0.0, self._last_bubble + self._pause_seconds - now)

    def note_bubble(self, now: float) -> None:
        """A bubble's last part has its end."""
        self._last_bubble = now


class Owed:
    """One intent in custody. Owned by the outbox; one other task may wait for its end."""

    def __init__(self, intent: Intent, plan: Plan | None = None) -> None:
        self.intent = intent
        self.plan = plan
        self.withdrawn: str | None = None
        self.pause: CancelScope | None = None
        self.outcome: Promise[IntentOutcome] = promise()

    async def settled(self) -> IntentOutcome:
        """What became of every part, once that is known."""
        return await self.outcome


class Outbox:
    """Every visible send of the kernel takes this road. `run` sends; `enqueue` may be called before it."""

    is_durable = False

    def __init__(self, channels: Channels, clock: Clock, *, max_retries: int = 5) -> None:
        self._channels = channels
        self._clock = clock
        self._max_retries = max_retries
        self._open: dict[str, Owed] = {}
        self._lanes: SerialWorkers[OutboundLaneKey, Owed] = SerialWorkers(self._send)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled."""
        await self._lanes.run(task_status=task_status)

    async def enqueue(self, intents: Sequence[Intent], plan: Plan | None = None) -> list[Owed]:
        """Take custody of these intents, in this order. From here on they are sent without anybody waiting.

        Those of a plan pause before each bubble but the first; one refused part suppresses all that is left of it.
        """
        owed = [Owed(intent, plan) for intent in intents]
        for item in owed:
            self._open[item.intent.id] = item
            self._lanes.put(item.intent.destination.lane, item)
        return owed

    def withdraw(self, unwanted: Callable[[Intent], bool], reason: str) -> int:
        """Suppress the parts of matching intents that are not sent yet. Gives how many intents that touched."""
        found = [item for item in self._open.values() if item.withdrawn is None and unwanted(item.intent)]
        for item in found:
            item.withdrawn = reason
            if item.pause is not None:
                item.pause.cancel()
        return len(found)

    @property
    def open_intents(self) -> int:
        return len(self._open)

    async def wait_idle(self) -> None:
        """Return once nothing is owed."""
        await self._lanes.wait_idle()

    async def _send(self, lane: OutboundLaneKey, owed: Owed) -> None:
        channel = self._channels.get(lane.channel, lane.account_id)
        outcomes: list[PartOutcome] = []
        abandoned: PartOutcome | None = None
        await self._keep_pace(owed)
        for index in range(len(owed.intent.parts)):
            unwanted = _why_unwanted(owed)
            if unwanted is not None:
                outcomes.append(PartOutcome(index=index, status="suppressed", code=unwanted))
            elif abandoned is not None:
                outcomes.append(replace(abandoned, index=index))
            elif channel is None:
                outcomes.append(self._parked(owed, index, "channel_missing"))
            else:
                outcome, abandons = await self._send_part(channel.message_adapter, owed, index)
                outcomes.append(outcome)
                abandoned = outcome if abandons else None
            if owed.plan is not None and outcomes[-1].status == "failed":
                owed.plan.is_abandoned = True
        if owed.plan is not None and owed.intent.kind == "final":
            owed.plan.note_bubble(self._clock.monotonic())
        del self._open[owed.intent.id]
        intent = owed.intent
        fulfil(owed.outcome, IntentOutcome(intent_id=intent.id, kind=intent.kind, parts=tuple(outcomes)))

    async def _keep_pace(self, owed: Owed) -> None:
        """Let a bubble wait until its pause is over, unless it is not wanted any more."""
        if owed.plan is None or owed.intent.kind != "final" or _why_unwanted(owed) is not None:
            return
        pause_seconds = owed.plan.pause_seconds(self._clock.monotonic())
        if pause_seconds:
            await self._pause(owed, lambda: self._clock.sleep(pause_seconds))

    async def _send_part(self, adapter: MessageAdapter, owed: Owed, index: int) -> tuple[PartOutcome, bool]:
        """Try one part until it is settled. True beside it: the destination is refused, the rest has no chance."""
        send = _text_send(owed.intent, index)
        for attempt in range(1, self._max_retries + 1):
            if not adapter.is_ready and not await self._pause(owed, adapter.wait_until_ready):
                break
            try:
                receipt = await adapter.send_text(send)
            except SendRejected as error:
                return self._parked(owed, index, error.code or "rejected"), error.scope == "destination"
            except PlatformMessageNotDispatchedError as error:
                if attempt == self._max_retries or not error.retryable:
                    return self._parked(owed, index, error.code or "not_sent"), False
                if not await self._back_off(owed, index, attempt, error):
                    break
            except Exception as error:
                return self._unknown(owed, index, error), False
            else:
                return _delivered(index, receipt), False
        return PartOutcome(index=index, status="suppressed", code=owed.withdrawn), False

    async def _back_off(self, owed: Owed, index: int, attempt: int, error: PlatformMessageNotDispatchedError) -> bool:
        wait_seconds = send_backoff(attempt)
        if isinstance(error, SendThrottled):
            wait_seconds = error.retry_after_seconds
        self._log(owed, index, "send.retried", error.code, wait_ms=int(wait_seconds * 1000))
        return await self._pause(owed, lambda: self._clock.sleep(wait_seconds))

    async def _pause(self, owed: Owed, wait: Callable[[], Awaitable[object]]) -> bool:
        """Wait, unless the intent is withdrawn meanwhile. False: it was."""
        with CancelScope() as owed.pause:
            await wait()
        owed.pause = None
        return owed.withdrawn is None

    def _parked(self, owed: Owed, index: int, code: str) -> PartOutcome:
        self._log(owed, index, "send.parked", code)
        return PartOutcome(index=index, status="failed", code=code)

    def _unknown(self, owed: Owed, index: int, error: Exception) -> PartOutcome:
        self._log(owed, index, "send.unconfirmed", type(error).__name__)
        return PartOutcome(index=index, status="unknown", code=type(error).__name__)

    def _log(self, owed: Owed, index: int, event: str, code: str | None, **found: int) -> None:
        intent = owed.intent
        log.warning(
            event,
            intent_id=intent.id,
            turn_id=intent.turn_id,
            platform=intent.destination.channel,
            part=index + 1,
            of=len(intent.parts),
            code=code,
            **found,
        )


def _why_unwanted(owed: Owed) -> str | None:
    """The reason to suppress what is left of an intent; None: it is to be sent."""
    if owed.withdrawn is not None:
        return owed.withdrawn
    return "plan_abandoned" if owed.plan is not None and owed.plan.is_abandoned else None


def _text_send(intent: Intent, index: int) -> TextSend:
    return TextSend(
        destination=intent.destination,
        text=intent.parts[index],
        idempotency_key=part_key(intent.id, index),
        part_index=index,
        part_count=len(intent.parts),
        intent_id=intent.id,
        reply_to_id=intent.reply_to_id if index == 0 else None,
    )


def _delivered(index: int, receipt: Receipt) -> PartOutcome:
    return PartOutcome(index=index, status="delivered", receipt=receipt)
