"""The agent of a scenario, run as the program that it is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from openab_kernel.kit.scenarios import SCENARIOS

COMMAND = [sys.executable, "-m", "openab_kernel", "kit", "agent"]
SESSION = {"sessionId": "demo"}


class Agent:
    """A running agent; a request is answered by the frames up to its own answer."""

    def __init__(self, scenario: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, scenario], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._id = 0

    def send(self, method: str, *, is_request: bool = True, **params: Any) -> None:
        assert self._process.stdin is not None
        self._id += is_request
        frame = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": self._id} if is_request else {})}
        self._process.stdin.write(json.dumps(frame) + "\n")

    def frame(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        value = json.loads(self._process.stdout.readline())
        assert isinstance(value, dict)
        return value

    def ask(self, method: str, **params: Any) -> list[dict[str, Any]]:
        self.send(method, **params)
        frames = [self.frame()]
        while "id" not in frames[-1]:
            frames.append(self.frame())
        assert frames[-1]["id"] == self._id
        return frames

    def end(self) -> int:
        """Close its input, read what it still says, and give the exit status."""
        self._process.communicate(timeout=10)
        return self._process.returncode


@pytest.fixture
def start() -> Any:
    agents: list[Agent] = []

    def start(scenario: str) -> Agent:
        agents.append(Agent(scenario))
        return agents[-1]

    yield start
    assert [agent.end() for agent in agents] == [0] * len(agents)


def prompt(agent: Agent) -> list[dict[str, Any]]:
    return agent.ask("session/prompt", prompt=[{"type": "text", "text": "hi"}], **SESSION)


def test_agent_opens_a_session_and_says_its_text(start: Any) -> None:
    agent = start("text")
    assert agent.ask("initialize")[-1]["result"]["protocolVersion"] == 1
    assert agent.ask("session/new")[-1]["result"] == SESSION
    *updates, answer = prompt(agent)
    pieces = [update["params"]["update"]["content"]["text"] for update in updates]
    assert "".join(pieces) == SCENARIOS["text"].texts[0]
    assert answer["result"] == {"stopReason": "end_turn"}


def test_agent_gives_out_bubbles_and_then_fails(start: Any) -> None:
    *updates, answer = prompt(start("seqhalf"))
    assert [update["params"]["update"] for update in updates] == [
        {"sessionUpdate": "openab_message", "id": f"bubble_{n}", "content": {"type": "text", "text": text}}
        for n, text in enumerate(SCENARIOS["seqhalf"].texts[:2], 1)
    ]
    assert answer["error"]["code"] == -32603


def test_agent_stops_in_a_pause_when_it_is_cancelled(start: Any) -> None:
    agent = start("seqslow")
    agent.send("session/prompt", prompt=[{"type": "text", "text": "hi"}], **SESSION)
    assert agent.frame()["params"]["update"]["sessionUpdate"] == "openab_message"
    agent.send("session/cancel", is_request=False, **SESSION)
    assert agent.frame()["result"] == {"stopReason": "cancelled"}


def test_agent_ends_with_its_input_whatever_it_does(start: Any) -> None:
    agent = start("seqslow")
    agent.send("session/prompt", prompt=[{"type": "text", "text": "hi"}], **SESSION)
    agent.frame()
    assert agent.end() == 0


def test_unknown_call_is_refused(start: Any) -> None:
    assert start("text").ask("session/dance")[-1]["error"]["code"] == -32601
