"""The agent of a scenario: a program that speaks ACP on standard input and output and does what the script says."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from openab_kernel.default_plugins.demo_agent import Connection, answer_call
from openab_kernel.kit.scenarios import Bubble, Fail, Pause, Say, Scenario

AGENT_ERROR = {"error": {"code": -32603, "message": "the script says so"}}


def run(scenario: Scenario) -> None:
    """Answer until standard input ends; a turn that runs then is dropped."""
    connection = Connection()
    for line in sys.stdin:
        frame = json.loads(line)
        method = frame.get("method")
        if method == "session/cancel":
            connection.cancelled.set()
        elif method == "session/prompt":
            connection.cancelled.clear()
            threading.Thread(target=answer_prompt, args=(connection, frame, scenario), daemon=True).start()
        elif method is not None and "id" in frame:
            connection.send({"id": frame["id"], **answer_call(method, frame.get("params", {}))})


def answer_prompt(connection: Connection, frame: dict[str, Any], scenario: Scenario) -> None:
    session_id = frame["params"]["sessionId"]
    connection.send({"id": frame["id"], **perform(connection, session_id, scenario)})


def perform(connection: Connection, session_id: str, scenario: Scenario) -> dict[str, Any]:
    """Do the steps; a cancel ends them. Gives the answer to the prompt."""
    bubbles = 0
    for step in scenario.steps:
        if connection.cancelled.is_set():
            return {"result": {"stopReason": "cancelled"}}
        match step:
            case Say(text):
                connection.say(session_id, text)
            case Bubble(text):
                bubbles += 1
                content = {"type": "text", "text": text}
                connection.update(session_id, sessionUpdate="openab_message", id=f"bubble_{bubbles}", content=content)
            case Pause(seconds):
                connection.cancelled.wait(seconds)
            case Fail():
                return AGENT_ERROR
    return {"result": {"stopReason": "end_turn"}}
