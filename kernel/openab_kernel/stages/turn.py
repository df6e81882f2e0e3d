"""One turn while it runs: the messages it took, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from openab_kernel.clock import epoch_ms
from openab_kernel.errors import LifecycleMismatchError, PartialDeliveryError, SendError, StoreError
from openab_kernel.facts.admission import Admission
from openab_kernel.facts.turn import ChannelTurnResult, DispatchResult, Stage, TurnSummary
from openab_kernel.interfaces.channel import AssembledTurn, PreparedTurn
from openab_kernel.policies.retry import inbound_backoff, is_dead_letter
from openab_kernel.stages.deliver import Delivery
from openab_kernel.stages.finalize import finalize
from openab_kernel.stages.inbound import Queued
from openab_kernel.stages.ingest import answer
from openab_kernel.stages.parts import Parts

log = structlog.get_logger("openab_kernel.turn")


class Turn:
    """Owned by the task that runs it. `anchor` is the newest message: its reply plan says where the answer goes."""

    def __init__(self, turn_id: str, batch: list[Queued], parts: Parts) -> None:
        newest = batch[-1]
        self.id = turn_id
        self.batch = batch
        self.anchor = newest.message
        self.session = newest.message.session
        self.trail = newest.trail
        self.ending = newest.ending
        self.prepared = newest.prepared
        self.adopted = False
        self.dispatch_result: DispatchResult | None = None
        self.delivery = Delivery(turn_id, [queued.message for queued in batch], newest.delivery, parts)
        self._parts = parts
        self._began = parts.clock.monotonic()
        for queued in batch:
            queued.trail.turn_id = turn_id

    async def adopt(self) -> None:
        """Mark the messages taken and the turn started: from here they are never prompted for again.

        Raises:
            StoreError: nothing was marked.
        """
        seqs = [queued.seq for queued in self.batch if queued.seq]
        started_at = epoch_ms(self._parts.clock.now())
        if not await self._parts.store.adopt(self.id, self.session, seqs, started_at):
            raise StoreError(f"turn {self.id}: one of its messages has been taken by another turn")
        self.adopted = True

    async def release(self, queued: Queued, error: Exception) -> float | None:
        """Give one message back. Seconds until it may be tried again; None: never. It was set aside for a person, and
        is finalized as failed, or another turn has taken it; whoever waits for it is told."""
        delay_seconds = await self._release(queued, error)
        if delay_seconds is None and queued.ending is not None:
            queued.ending.set(self.result(queued, error), error)
        return delay_seconds

    async def _release(self, queued: Queued, error: Exception) -> float | None:
        now = epoch_ms(self._parts.clock.now())
        code = type(error).__name__
        try:
            attempts = await self._parts.store.release(queued.seq, not_before=now, error=code)
            if not attempts and queued.seq:
                return None
            if is_dead_letter(attempts, now - queued.message.received_at):
                await self._parts.store.park([queued.seq], f"failed:{code}")
                log.error("message.parked", seq=queued.seq, reason=f"failed:{code}")
                await finalize(queued.trail, self.result(queued, error), queued.on_finalize, self._parts.observers)
                return None
        except StoreError as failed:
            log.error("release.failed", error=str(failed))
            attempts = 1
        return inbound_backoff(max(1, attempts))

    def end_dispatch(self) -> None:
        """Dispatch is done; a turn that should have shown something and has nothing to show gets a warning."""
        anchor = self.anchor
        sent = self.delivery.sent
        silent = not sent.owed and not sent.outcomes and not self.delivery.is_silent
        if silent and anchor.admission.kind == "dispatch" and anchor.internal_turn_source is None:
            self.trail.warn("dispatch", reason="zero-count-visible-dispatch")
        self.trail.done("dispatch")

    async def settle(self) -> Exception | None:
        """Wait for the end of every send. The error that a refused part amounts to."""
        error = await self.delivery.settle()
        self.dispatch_result = self.delivery.sent.result()
        return error

    def close(self) -> Callable[[], Awaitable[None]]:
        """What finalize does to close the turn in the store."""
        delivery = self.delivery
        outcome, cause, steps = delivery.outcome, delivery.cause, delivery.steps
        return lambda: self._parts.store.finish_turn(self.id, outcome, cause, steps)

    def result(self, queued: Queued, failure: Exception | None) -> ChannelTurnResult:
        """The result of one message of the turn."""
        visible = self.dispatch_result is not None and self.dispatch_result.is_visible
        dispatched = failure is None or visible
        return ChannelTurnResult(
            admission=self.anchor.admission,
            dispatched=dispatched,
            turn_id=self.id,
            ctx_payload=queued.message.context,
            route_session_key=self.anchor.session_key,
            dispatch_result=self.dispatch_result if dispatched else None,
            failed_stage=_failed_stage(failure),
            error=failure,
        )

    def summary(self) -> TurnSummary:
        """The one line that tells the whole turn."""
        sent = self.delivery.sent
        return TurnSummary(
            turn_id=self.id,
            session_key=self.anchor.session_key,
            channel=self.anchor.channel,
            message_ids=tuple(queued.message.message_id for queued in self.batch),
            event_id=self.anchor.event_id,
            outcome=self.delivery.outcome,
            mode=self._parts.delivery.mode,
            bubbles=self.delivery.bubbles,
            parts=sum(len(outcome.parts) for outcome in sent.outcomes),
            delivered=sent.counts["delivered"],
            unknown=sent.counts["unknown"],
            failed=sent.counts["failed"],
            elapsed_ms=int((self._parts.clock.monotonic() - self._began) * 1000),
            cause=self.delivery.cause,
        )


class AdoptionLifecycle:
    """What a prepared turn may declare: that the kernel, which made this object, marks its messages as adopted."""


def check_lifecycle(turn: AssembledTurn | PreparedTurn, own: AdoptionLifecycle) -> None:
    """Raises LifecycleMismatchError: a prepared turn declares another lifecycle than the one it was handed."""
    declared = turn.run_dispatch_lifecycle if isinstance(turn, PreparedTurn) else None
    lifecycle = declared.turn_adoption_lifecycle if declared is not None else None
    if lifecycle is not None and lifecycle is not own:
        raise LifecycleMismatchError(
            f"channel {turn.channel}: run_dispatch_lifecycle holds a foreign turn_adoption_lifecycle; declare "
            "runtime.turn.adoption_lifecycle, or none"
        )


async def dispatch_prepared(prepared: PreparedTurn, admission: Admission) -> DispatchResult:
    """Let the channel dispatch by itself, once; an observed turn is skipped and the channel told."""
    if admission.kind != "observeOnly":
        return await prepared.run_dispatch()
    await tell_skipped(prepared, "observeOnly")
    return prepared.observe_only_dispatch_result or DispatchResult()


async def tell_skipped(prepared: PreparedTurn, reason: str) -> None:
    """Call `on_dispatch_skipped`, if the turn brought one."""
    lifecycle = prepared.run_dispatch_lifecycle
    if lifecycle is not None and lifecycle.on_dispatch_skipped is not None:
        await answer(lifecycle.on_dispatch_skipped(reason))


def first_error(dispatch: Exception | None, deliver: Exception | None) -> Exception | None:
    """Which error a turn ends with; the other hangs on its context.

    A settlement error with something visible comes first, then that of dispatch, then any other of deliver.
    """
    ordered = (deliver, dispatch) if isinstance(deliver, PartialDeliveryError) else (dispatch, deliver)
    found = [error for error in ordered if error is not None]
    if len(found) == 2:
        found[0].__context__ = found[1]
    return found[0] if found else None


def _failed_stage(failure: Exception | None) -> Stage | None:
    if failure is None:
        return None
    return "deliver" if isinstance(failure, SendError) else "dispatch"
