"""The smallest agent on the SDK's own base class: says the prompt back. A program of its own in the tests."""

import asyncio
from typing import Any

import acp


class EchoAgent(acp.Agent):
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **_):
        return acp.NewSessionResponse(session_id="echo")

    async def prompt(self, session_id, prompt, **_):
        for block in prompt:
            await self.client.session_update(session_id, acp.update_agent_message(acp.text_block(block.text)))
        return acp.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    agent: Any = EchoAgent  # the other methods of the base class are never called
    asyncio.run(acp.run_agent(agent()))
