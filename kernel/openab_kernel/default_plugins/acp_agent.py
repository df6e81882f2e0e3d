"""The agent of `[agent]`: any program that speaks ACP, one process for each session."""

from __future__ import annotations

import os

from openab_kernel.agent.environment import ToldMode, agent_environment
from openab_kernel.agent.pool import AcpAgent
from openab_kernel.agent.settings import AgentSettings, PoolSettings, resolve_command, resolve_working_dir
from openab_kernel.delivery.settings import DeliverySettings
from openab_kernel.interfaces.agent import Agent
from openab_kernel.plugin_host.hookspecs import Services, Settings, hookimpl


@hookimpl
def register_agents(settings: Settings, services: Services) -> list[Agent]:
    agent, delivery = settings.of(AgentSettings), settings.of(DeliverySettings)
    reply = {
        "mode": delivery.mode,
        "schema": delivery.schema_id,
        "max_bubbles": delivery.max_bubbles,
        "max_bubble_chars": delivery.max_bubble_chars,
    }
    return [
        AcpAgent(
            "main",
            resolve_command(agent, services.environ),
            resolve_working_dir(agent, services.environ),
            agent_environment(agent, ToldMode.of(delivery), services.environ, is_windows=os.name == "nt"),
            pool=settings.of(PoolSettings),
            permission=agent.permission,
            store=services.store,
            clock=services.clock,
            client_version=services.version,
            redact=services.redact,
            meta={"openab.reply": reply},
            is_bubble_mode=delivery.mode != "text",
        )
    ]
