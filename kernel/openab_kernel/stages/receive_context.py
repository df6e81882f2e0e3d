"""When a platform is told that its event arrived (turn-kernel.md 14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from openab_kernel.stages.ingest import answer

AckPolicy = Literal["after_receive_record", "after_agent_dispatch", "after_durable_send", "manual"]
AckStage = Literal["receive_record", "agent_dispatch", "durable_send"]

_STAGE_OF: dict[AckPolicy, AckStage | None] = {
    "after_receive_record": "receive_record",
    "after_agent_dispatch": "agent_dispatch",
    "after_durable_send": "durable_send",
    "manual": None,
}

Settle = Callable[..., "Awaitable[Any] | Any"]


class MessageReceiveContext:
    """One event's acknowledgement. The first settle wins, and is done once however often it is asked for.

    Callers beside each other share one call of the platform; each learns whether its own kind of settle won.
    """

    def __init__(self, on_ack: Settle, on_nack: Settle | None, ack_policy: AckPolicy) -> None:
        self.ack_policy = ack_policy
        self._on_ack = on_ack
        self._on_nack = on_nack
        self._settled: Literal["ack", "nack"] | None = None

    def should_ack_after(self, stage: AckStage) -> bool:
        """Is this the stage of the policy? Never, for `manual`: there the channel calls `ack()`."""
        return _STAGE_OF[self.ack_policy] == stage

    @property
    def is_settled(self) -> bool:
        return self._settled is not None

    async def ack(self) -> bool:
        """Tell the platform that the event arrived. False: it was refused before."""
        if self._settled is None:
            self._settled = "ack"
            await answer(self._on_ack())
        return self._settled == "ack"

    async def nack(self, error: BaseException | None = None) -> bool:
        """Tell the platform that it did not. False: it was acknowledged before."""
        if self._settled is None:
            self._settled = "nack"
            if self._on_nack is not None:
                await answer(self._on_nack(error))
        return self._settled == "nack"


def create_message_receive_context(
    on_ack: Settle, on_nack: Settle | None = None, *, ack_policy: AckPolicy = "after_receive_record"
) -> MessageReceiveContext:
    """A context for one event. `on_ack` and `on_nack` may be async or plain; each is called at most once."""
    return MessageReceiveContext(on_ack, on_nack, ack_policy)
