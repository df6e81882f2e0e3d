"""The parts that stages work with. Built once by the composition root and handed to the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from openab_kernel.clock import Clock
from openab_kernel.delivery.settings import DeliverySettings, MarkdownSettings
from openab_kernel.errors import AgentSpawnError
from openab_kernel.facts.policy import BatchPolicy
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.agent import Agent
from openab_kernel.interfaces.store import Store
from openab_kernel.observability.observers import Observers
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.live import Live
from openab_kernel.outbound.outbox import Outbox
from openab_kernel.outbound.settings import ReactionsSettings
from openab_kernel.stages.notices import HeldNotices, SessionWarnings

ALONE = BatchPolicy()


@dataclass(frozen=True)
class Parts:
    """What was plugged in, and the settings that stages read."""

    agents: dict[str, Agent]
    channels: Channels
    store: Store
    outbox: Outbox
    observers: Observers
    live: Live
    notices: HeldNotices
    clock: Clock
    session_warnings: SessionWarnings = field(default_factory=SessionWarnings)
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    reactions: ReactionsSettings = field(default_factory=ReactionsSettings)
    markdown: MarkdownSettings = field(default_factory=MarkdownSettings)

    def agent(self, message: InboundMessage) -> Agent:
        """The agent that this message was routed to.

        Raises:
            AgentSpawnError: no agent has that id.
        """
        agent = self.agents.get(message.session.agent_id)
        if agent is None:
            known = ", ".join(self.agents) or "none"
            raise AgentSpawnError(f"agent {message.session.agent_id}: no plugin provides it; there is {known}")
        return agent

    def batch_policy(self, message: InboundMessage) -> BatchPolicy:
        """The dispatch mode of the message's channel; one at a time for a channel that is gone."""
        channel = self.channels.get(message.channel, message.account_id)
        return channel.policy.batch if channel is not None else ALONE
