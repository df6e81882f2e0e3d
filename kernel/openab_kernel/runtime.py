"""What a plugin is handed: `runtime.turn`, and for a channel the way in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import structlog

from openab_kernel.errors import KernelError
from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.turn import ChannelTurnResult
from openab_kernel.interfaces.channel import AssembledTurn, Channel, PreparedTurn, TurnAdapter
from openab_kernel.outbound.channels import Channels
from openab_kernel.pipeline import Pipeline
from openab_kernel.stages.assemble import ContextFacts, build_context
from openab_kernel.stages.receive_context import AckStage, MessageReceiveContext
from openab_kernel.stages.trail import LogCallback
from openab_kernel.stages.walk import Received

log = structlog.get_logger("openab_kernel.runtime")


class TurnRuntime:
    """The entry points (turn-kernel.md 1.1). All wait for the turn that takes the message, `build_context` apart."""

    def __init__(self, pipeline: Pipeline, channels: Channels) -> None:
        self.adoption_lifecycle = pipeline.adoption_lifecycle
        self._pipeline = pipeline
        self._channels = channels

    async def run(
        self,
        channel: str,
        raw: Any,
        adapter: TurnAdapter | None = None,
        account_id: str | None = None,
        log: LogCallback | None = None,
        receive_context: MessageReceiveContext | None = None,
    ) -> ChannelTurnResult:
        """Take a raw event through all stages.

        Raises:
            Exception: what a stage, the agent or the delivery raised (turn-kernel.md 3.7).
        """
        found = self._channel(channel, account_id)
        return await self._acknowledged(
            receive_context, self._pipeline.receive, found, raw, adapter=adapter, log=log, wait=True
        )

    async def run_assembled(self, turn: AssembledTurn) -> ChannelTurnResult:
        """Record a turn that is built already, let the agent answer it, and send through its own delivery."""
        return await (await self._pipeline.receive_ready(turn)).wait()

    async def run_prepared(self, turn: PreparedTurn) -> ChannelTurnResult:
        """Record a turn that is built already, then let the channel dispatch it."""
        return await (await self._pipeline.receive_ready(turn)).wait()

    def build_context(self, facts: ContextFacts) -> FinalizedMsgContext:
        """Assemble alone: no I/O, no state, no clock."""
        return build_context(facts)

    async def run_resolved(
        self,
        channel: str,
        raw: Any,
        input: Any,
        resolve_turn: Callable[..., Any],
        account_id: str | None = None,
        log: LogCallback | None = None,
    ) -> ChannelTurnResult:
        """Deprecated: use `run` with an adapter. `input` is the normalized input, or a callable on `raw`."""
        warnings.warn("run_resolved is deprecated; use run", DeprecationWarning, stacklevel=2)
        adapter = _Resolver(input, resolve_turn)
        found = self._channel(channel, account_id)
        received = await self._pipeline.receive(found, raw, adapter=adapter, log=log, wait=True, brief=True)
        return await received.wait()

    async def dispatch_assembled(self, turn: AssembledTurn) -> ChannelTurnResult:
        """Deprecated: use `run_assembled`."""
        warnings.warn("dispatch_assembled is deprecated; use run_assembled", DeprecationWarning, stacklevel=2)
        return await self.run_assembled(turn)

    def _channel(self, name: str, account_id: str | None) -> Channel:
        channel = self._channels.get(name, account_id)
        if channel is None:
            known = ", ".join(f"{item.name}/{item.account_id}" for item in self._channels) or "none"
            raise KernelError(f"channel {name}/{account_id}: not registered; there is {known}")
        return channel

    async def _acknowledged(
        self, context: MessageReceiveContext | None, receive: Callable[..., Any], *args: Any, **named: Any
    ) -> ChannelTurnResult:
        """Receive, and settle the event's acknowledgement at the stage of its policy."""
        try:
            received: Received = await receive(*args, **named)
        except BaseException as error:
            if context is not None:
                await context.nack(error)
            raise
        if context is not None and (received.immediate_ack or context.should_ack_after("receive_record")):
            await context.ack()
        try:
            return await received.wait()
        finally:
            await _ack_after_turn(context)


async def _ack_after_turn(context: MessageReceiveContext | None) -> None:
    """Agent and sends are through, or there were none to wait for."""
    stages: tuple[AckStage, ...] = ("agent_dispatch", "durable_send")
    if context is not None and any(context.should_ack_after(stage) for stage in stages):
        await context.ack()


class _Resolver:
    """The adapter that `run_resolved` stands for: only ingest and resolve."""

    def __init__(self, found: Any, resolve_turn: Callable[..., Any]) -> None:
        self._found = found
        self.resolve_turn = resolve_turn

    def ingest(self, raw: Any) -> Any:
        return self._found(raw) if callable(self._found) else self._found


class OpenChannel:
    """What a channel is handed when it is opened: see `interfaces.channel.ChannelRuntime`."""

    def __init__(self, channel: Channel, pipeline: Pipeline, turn: TurnRuntime) -> None:
        self.turn = turn
        self.health: str = "starting"
        self.detail = ""
        self._channel = channel
        self._pipeline = pipeline

    @property
    def is_draining(self) -> bool:
        return self._pipeline.is_draining

    async def receive(self, raw: Any) -> ChannelTurnResult | None:
        """Take one raw event through stages 1 to 8."""
        return (await self._pipeline.receive(self._channel, raw)).result

    def set_health(self, state: Literal["starting", "ready", "degraded", "down"], detail: str = "") -> None:
        """Say how the connection is; a change is logged."""
        if state != self.health:
            log.info("channel.health_changed", channel=self._channel.name, state=state, detail=detail)
        self.health, self.detail = state, detail
