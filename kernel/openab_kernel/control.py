"""Control commands: what overtakes a lane (agent.md 10)."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex

import structlog

from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.outbound import Intent
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.agent import Agent
from openab_kernel.outbound.outbox import Outbox
from openab_kernel.policies.commands import ControlCommand
from openab_kernel.stages.notices import HeldNotices

log = structlog.get_logger("openab_kernel.control")

STOPPED = "Stopped."
NOTHING_RUNNING = "Nothing is running."
STARTED_OVER = "Started over."
NO_AGENT = "There is no agent here."


class Control:
    """Carries out the commands of admitted persons. Their answers go through the outbox like everything else."""

    def __init__(self, agents: Mapping[str, Agent], notices: HeldNotices, outbox: Outbox) -> None:
        self._agents = agents
        self._notices = notices
        self._outbox = outbox

    async def run(self, command: ControlCommand, message: InboundMessage) -> None:
        """Carry out, then answer where the command came from; where we only observe, without a word."""
        log.info("command.taken", command=command, session_key=message.session_key)
        answer = await self._carry_out(command, message.session, message.session_key)
        if message.admission.kind == "observeOnly":
            return
        await self._outbox.enqueue(
            [
                Intent(
                    id=token_hex(16),
                    destination=message.destination,
                    kind="notice",
                    parts=(answer,),
                    reply_to_id=message.reply_to_id,
                )
            ]
        )

    async def _carry_out(self, command: ControlCommand, session: SessionKey, session_key: str) -> str:
        agent = self._agents.get(session.agent_id)
        if agent is None:
            return NO_AGENT
        match command:
            case "cancel":
                withdrawn = self._withdraw(session_key)
                return STOPPED if await agent.cancel(session) or withdrawn else NOTHING_RUNNING
            case "reset":
                self._withdraw(session_key)
                await agent.reset(session)
                await self._notices.take(session)
                return STARTED_OVER
            case "models":
                return await agent.models(session)
            case "agents":
                return await agent.describe(session)

    def _withdraw(self, session_key: str) -> int:
        return self._outbox.withdraw(lambda intent: intent.session_key == session_key, "plan_cancelled")
