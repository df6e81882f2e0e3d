"""READ ME FIRST: the way of a message, from the raw platform event to the closed turn.

`receive()` carries a message through stages 1 to 8. When it returns, the message is on disk or refused for good, and
only then is the platform told that it arrived. Its lane hands it to `run_turn()`, stages 9 to 11, perhaps together
with others that waited for the same session.

```text
receive    1 ingest  2 classify  3 preflight  4 resolve  5 authorize  6 triage  7 assemble  8 record
                                                                                  lane ◄── durable from here
run_turn   9 dispatch  10 deliver  11 finalize
```
"""

from __future__ import annotations

from secrets import token_hex
from typing import Any

import anyio
import structlog
from anyio.abc import TaskStatus

from openab_kernel.clock import epoch_ms
from openab_kernel.control import Control
from openab_kernel.errors import AgentError, ShuttingDownError, StoreError
from openab_kernel.facts.admission import Admission, Drop, Handled, strictest
from openab_kernel.facts.agent_update import Stopped
from openab_kernel.facts.event import NormalizedTurnInput
from openab_kernel.facts.turn import ChannelTurnResult, InboundMessage, RecordedMessage, Stage
from openab_kernel.interfaces.channel import (
    AssembledTurn,
    Channel,
    PreparedTurn,
    RecordOptions,
    Resolved,
    RoutedPlan,
    TurnAdapter,
)
from openab_kernel.lanes import Lanes, refuse_reentry
from openab_kernel.policies.commands import ControlCommand
from openab_kernel.stages.authorize import authorize
from openab_kernel.stages.classify import MESSAGE, classify
from openab_kernel.stages.dispatch import dispatch, fetch
from openab_kernel.stages.finalize import finalize
from openab_kernel.stages.inbound import Ending, Queued, message_of_plan, message_of_turn, session_of_turn
from openab_kernel.stages.ingest import answer, ingest
from openab_kernel.stages.parts import Parts
from openab_kernel.stages.preflight import NOTHING, look, preflight
from openab_kernel.stages.record import record, record_request, run_after
from openab_kernel.stages.resolve import resolve, route
from openab_kernel.stages.trail import LogCallback, Trail
from openab_kernel.stages.triage import triage
from openab_kernel.stages.turn import (
    AdoptionLifecycle,
    Turn,
    check_lifecycle,
    dispatch_prepared,
    first_error,
    tell_skipped,
)
from openab_kernel.stages.walk import Received, Walk

log = structlog.get_logger("openab_kernel.pipeline")

NOT_FOR_US = Drop(reason="ingest-null")
DUPLICATE = Drop(reason="dedupe")


class Pipeline:
    """The pipeline over the parts that were plugged in. `run` gives its tasks a home."""

    def __init__(self, parts: Parts, control: Control) -> None:
        self._parts = parts
        self._control = control
        self.lanes = Lanes(parts.store, parts.clock, self.run_turn, self._restore, parts.batch_policy)
        self.is_draining = False
        self.adoption_lifecycle = AdoptionLifecycle()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take turns until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            await group.start(self.lanes.run)
            task_status.started()
            await anyio.sleep_forever()

    # ---------------------------------------------------------------- stages 1 to 8

    async def receive(
        self,
        channel: Channel,
        raw: Any,
        *,
        adapter: TurnAdapter | None = None,
        log: LogCallback | None = None,
        wait: bool = False,
        brief: bool = False,
    ) -> Received:
        """Carry one raw event to the disk, or to the reason why not.

        `wait`: somebody will wait for the turn. `brief`: classify and preflight are left out.

        Raises:
            ShuttingDownError: nothing is taken on any more.
            Exception: whatever a stage raised. The message is not durable: do not acknowledge it.
        """
        self._refuse_if_draining(channel.name)
        adapter = adapter or channel.turn_adapter
        trail = Trail(self._parts.observers, channel.name, channel.account_id, log)
        walk = Walk(channel, trail, getattr(adapter, "on_finalize", None), wait)
        try:
            return await self._receive(walk, channel, adapter, raw, brief=brief)
        except BaseException as error:
            await self._fail(walk, error)
            raise

    async def _receive(self, walk: Walk, channel: Channel, adapter: TurnAdapter, raw: Any, *, brief: bool) -> Received:
        trail = walk.trail

        trail.begin("ingest")
        found = await ingest(adapter, raw)
        if found is None:
            return await self._end(walk, "ingest", NOT_FOR_US)
        trail.message_id, trail.event_id = found.id, found.event_id
        trail.done("ingest")

        event_class, facts = MESSAGE, NOTHING
        if not brief:
            trail.begin("classify")
            event_class = await classify(adapter, found)
            walk.immediate_ack = event_class.requires_immediate_ack
            if not event_class.can_start_agent_turn:
                return await self._end(walk, "classify", Handled(reason=f"event:{event_class.kind}"))
            trail.done("classify")

            trail.begin("preflight")
            facts = await preflight(adapter, found, event_class)
            if walk.is_ended_by(await look(self._parts.store, channel, found, facts)):
                return await self._end(walk, "preflight")
            trail.done("preflight")

        trail.begin("resolve")
        resolved = await resolve(adapter, found, event_class, facts)
        if not isinstance(resolved, RoutedPlan | AssembledTurn | PreparedTurn):
            return await self._end(walk, "resolve", resolved)
        if isinstance(resolved, RoutedPlan):
            resolved = route(resolved, channel)
        walk.widen(adapter, resolved.admission)
        if walk.is_ended_by(resolved.admission):
            return await self._end(walk, "resolve")
        trail.done("resolve")

        trail.begin("authorize")
        decision, command = authorize(resolved, found, facts, channel.policy.access, trail)
        if walk.is_ended_by(decision.admission):
            return await self._end(walk, "authorize")
        if command is not None:
            await self._command(walk, command, self._message(walk, channel, resolved, found, authorized=True))
            return await self._end(walk, "authorize", Handled(reason=f"command:{command}"))
        trail.done("authorize")

        trail.begin("triage")
        if walk.is_ended_by(triage(proactive=found.proactive)):
            return await self._end(walk, "triage")
        trail.done("triage")

        trail.begin("assemble")
        message = self._message(walk, channel, resolved, found, authorized=decision.command_authorized)
        trail.session_key = message.session_key
        trail.done("assemble")

        return await self._record(walk, message, resolved)

    async def receive_ready(self, turn: AssembledTurn | PreparedTurn, *, log: LogCallback | None = None) -> Received:
        """Take a turn that a channel made ready itself: only the guards, record and what follows are run.

        Raises:
            LaneReentryError: the call comes from inside a turn of the same session.
            LifecycleMismatchError: a prepared turn declares another lifecycle than the kernel's.
            ShuttingDownError: nothing is taken on any more.
        """
        self._refuse_if_draining(turn.channel)
        refuse_reentry(session_of_turn(turn))
        check_lifecycle(turn, self.adoption_lifecycle)
        trail = Trail(self._parts.observers, turn.channel, turn.account_id, turn.log or log)
        walk = Walk(self._parts.channels.get(turn.channel, turn.account_id), trail, turn.on_finalize, wait=True)
        try:
            if walk.is_ended_by(turn.admission):
                return await self._skip(walk, turn)
            message = message_of_turn(turn, walk.admitted, event_id=None, received_at=self._now())
            trail.message_id, trail.session_key = message.message_id, message.session_key
            return await self._record(walk, message, turn)
        except BaseException as error:
            await self._fail(walk, error)
            raise

    async def _record(self, walk: Walk, message: InboundMessage, resolved: Resolved) -> Received:
        """Stage 8, and into the lane."""
        if walk.wait:
            refuse_reentry(message.session)
        ready = None if isinstance(resolved, RoutedPlan) else resolved
        options = ready.record if ready else None
        walk.trail.begin("record")
        try:
            recorded = await self._write(message, ready)
        except Exception as error:
            if isinstance(resolved, PreparedTurn) and resolved.on_pre_dispatch_failure is not None:
                await _swallow(resolved.on_pre_dispatch_failure, error)
            raise
        if recorded is None:
            return await self._end(walk, "record", DUPLICATE)
        queued = Queued(
            recorded.seq,
            recorded.message,
            walk.trail,
            on_finalize=(ready and ready.on_finalize) or walk.on_finalize,
            delivery=getattr(resolved, "delivery", None),
            prepared=resolved if isinstance(resolved, PreparedTurn) else None,
            load_media=resolved.media if isinstance(resolved, RoutedPlan) and callable(resolved.media) else None,
            ending=Ending() if walk.wait else None,
        )
        try:
            await self._after_record(walk, options)
        finally:  # it is on disk: whatever happens now, a cancellation too, its lane must have it
            self._enter_lane(queued)
        return Received(ending=queued.ending, immediate_ack=walk.immediate_ack)

    async def _after_record(self, walk: Walk, options: RecordOptions | None) -> None:
        if options is not None and options.after_record is not None:
            warning = await run_after(options.after_record)
            if warning is not None:
                walk.trail.warn("record", reason="after_record", error=warning)
        walk.trail.done("record")

    def _enter_lane(self, queued: Queued) -> None:
        message = queued.message
        log.debug("event.recorded", **queued.trail.ids, session_key=message.session_key)
        if message.admission.kind == "dispatch" and queued.prepared is None:
            self._parts.live.queued(message)
        self.lanes.submit(queued)

    async def _write(
        self, message: InboundMessage, ready: AssembledTurn | PreparedTurn | None
    ) -> RecordedMessage | None:
        """The kernel's record, or the recorder that a ready turn brings along."""
        if ready is not None and ready.record_inbound_session is not None:
            await ready.record_inbound_session(message)
            return RecordedMessage(seq=0, message=message)
        options = ready.record if ready else None
        request = record_request(message, options, ready.route_session_key if ready else message.session_key)
        return await record(self._parts.store, request, self._parts.clock, options.on_record_error if options else None)

    # ---------------------------------------------------------------- stages 9 to 11

    async def run_turn(self, batch: list[Queued]) -> None:
        """Let the agent have these messages, deliver what it says, close the turn. Never raises an `Exception`.

        Until the turn is adopted, a fault of the kernel gives the messages back; from then on they are never
        prompted for again.
        """
        turn = Turn(token_hex(16), batch, self._parts)
        structlog.contextvars.bind_contextvars(turn_id=turn.id, session_key=turn.anchor.session_key)
        stopped: Stopped | None = None
        failure: Exception | None = None
        try:
            if turn.prepared is not None:
                return await self._run_prepared(turn, turn.prepared)
            async with self._parts.agent(turn.anchor).turn(turn.session) as session:
                blocks = await fetch(batch)
                await turn.adopt()
                turn.trail.begin("dispatch")
                turn.delivery.begin(started_afresh=session.started_afresh)
                stopped = await dispatch(session, blocks, turn.delivery)
        except AgentError as error:
            failure = error
        except Exception as error:
            if not turn.adopted:
                return await self._give_back(turn, error)
            failure = error
        except BaseException as error:
            turn.trail.fail("dispatch", error)
            raise
        await self._finish(turn, stopped, failure)

    async def _finish(self, turn: Turn, stopped: Stopped | None, failure: Exception | None) -> None:
        """End dispatch, deliver, finalize. What came before a failure is still delivered."""
        if not turn.adopted:
            await self._adopt_failed(turn)
        deliver_error: Exception | None = None
        try:
            await turn.delivery.owe(stopped, failure)
        except Exception as error:
            deliver_error = error
        if failure is not None:
            turn.trail.fail("dispatch", failure)
        else:
            turn.end_dispatch()
        turn.trail.begin("deliver")
        deliver_error = await turn.settle() or deliver_error
        if deliver_error is not None:
            turn.trail.fail("deliver", deliver_error)
        else:
            turn.trail.done("deliver")
        await self._finalize_turn(turn, first_error(failure, deliver_error))

    async def _adopt_failed(self, turn: Turn) -> None:
        """An agent that could not be made ready had its chance: the messages are not tried again."""
        try:
            await turn.adopt()
        except StoreError as error:
            log.error("turn.not_adopted", error=str(error))
        turn.delivery.begin(started_afresh=False)
        turn.trail.begin("dispatch")

    async def _run_prepared(self, turn: Turn, prepared: PreparedTurn) -> None:
        """The channel dispatches by itself; the kernel guards, records, and books the result."""
        try:
            await turn.adopt()
        except StoreError as error:
            return await self._give_back(turn, error)
        turn.trail.begin("dispatch")
        failure: Exception | None = None
        try:
            turn.dispatch_result = await dispatch_prepared(prepared, turn.anchor.admission)
            turn.trail.done("dispatch")
            turn.trail.begin("deliver", owner="channel")
            counts = turn.dispatch_result.counts.model_dump()
            turn.trail.done("deliver", owner="channel", counts=counts)
        except Exception as error:
            turn.trail.fail("dispatch", error)
            failure = error
        await self._finalize_turn(turn, failure)

    async def _finalize_turn(self, turn: Turn, failure: Exception | None) -> None:
        """Stage 11 for each message of the turn; the store closes it once."""
        for index, queued in enumerate(turn.batch):
            close = turn.close() if index == 0 else None
            result = turn.result(queued, failure)
            result = await finalize(queued.trail, result, queued.on_finalize, self._parts.observers, close)
            if queued.ending is not None:
                queued.ending.set(result, failure)
        if failure is not None and turn.ending is None:
            reason = str(failure) if isinstance(failure, AgentError) else None  # the kernel's own words
            log.warning("turn.failed", error=type(failure).__name__, cause=turn.delivery.cause, reason=reason)
        if self._parts.observers.hears_turns:
            self._parts.observers.turn_finished(turn.summary())

    async def _give_back(self, turn: Turn, error: Exception) -> None:
        """The kernel's own fault before adoption: the messages wait a while and are tried again."""
        is_known = isinstance(error, StoreError)
        log.warning("turn.released", error=str(error) if is_known else type(error).__name__, exc_info=not is_known)
        for queued in turn.batch:
            delay_seconds = await turn.release(queued, error)
            if delay_seconds is not None:
                self.lanes.give_back(queued, delay_seconds)

    # ---------------------------------------------------------------- how a message ends early

    async def _end(self, walk: Walk, stage: Stage, admission: Admission | None = None) -> Received:
        """A stage refused or consumed the message: tell everybody."""
        ended = strictest(walk.admission, admission)
        walk.trail.end(stage, ended)
        log.debug("event.ended", **walk.trail.ids, stage=stage, admission=ended.kind, reason=ended.reason)
        result = ChannelTurnResult(admission=ended, dispatched=False, route_session_key=walk.trail.session_key)
        result = await finalize(walk.trail, result, walk.on_finalize, self._parts.observers)
        return Received(result, immediate_ack=walk.immediate_ack)

    async def _skip(self, walk: Walk, turn: AssembledTurn | PreparedTurn) -> Received:
        """A ready turn that carries a drop or handled admission of its own."""
        walk.trail.begin("authorize")
        if isinstance(turn, PreparedTurn):
            await tell_skipped(turn, walk.admission.reason or walk.admission.kind)
        return await self._end(walk, "authorize")

    async def _fail(self, walk: Walk, error: BaseException) -> None:
        """A stage raised: the message is not durable."""
        stage = walk.trail.stage or "ingest"
        walk.trail.fail(stage, error)
        admission = walk.admission if walk.admission.kind != "dispatch" else Drop(reason=f"failed:{stage}")
        result = ChannelTurnResult(
            admission=admission,
            dispatched=False,
            route_session_key=walk.trail.session_key,
            failed_stage=stage,
            error=error,
        )
        await finalize(walk.trail, result, walk.on_finalize, self._parts.observers)

    # ---------------------------------------------------------------- small parts

    async def _command(self, walk: Walk, command: ControlCommand, message: InboundMessage) -> None:
        """Carry out a control command beside the lane, once for each message."""
        is_first = await self._parts.store.claim_effect(
            message.channel, message.account_id, message.message_id, f"command:{command}"
        )
        if is_first:
            self._group.start_soon(self._control.run, command, message)

    def _refuse_if_draining(self, channel: str) -> None:
        if self.is_draining:
            raise ShuttingDownError(f"channel {channel}: the kernel is stopping; this event was not taken")

    def _message(
        self,
        walk: Walk,
        channel: Channel,
        resolved: Resolved,
        found: NormalizedTurnInput,
        *,
        authorized: bool,
    ) -> InboundMessage:
        if isinstance(resolved, RoutedPlan):
            return message_of_plan(
                resolved,
                found,
                channel,
                walk.admitted,
                command_authorized=authorized,
                received_at=self._now(),
            )
        event_id = found.event_id or found.id
        return message_of_turn(resolved, walk.admitted, event_id=event_id, received_at=self._now())

    def _restore(self, recorded: RecordedMessage) -> Queued:
        """A message that an earlier process recorded, or that did not fit into its lane."""
        message = recorded.message
        channel = self._parts.channels.get(message.channel, message.account_id)
        trail = Trail(self._parts.observers, message.channel, message.account_id)
        trail.message_id, trail.session_key = message.message_id, message.session_key
        on_finalize = getattr(channel.turn_adapter, "on_finalize", None) if channel else None
        return Queued(recorded.seq, message, trail, on_finalize=on_finalize)

    def _now(self) -> int:
        return epoch_ms(self._parts.clock.now())


async def _swallow(listener: Any, error: Exception) -> None:
    try:
        await answer(listener(error))
    except Exception as raised:
        log.error("pre_dispatch_listener.failed", exc_info=raised)
