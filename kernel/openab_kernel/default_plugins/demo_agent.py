"""A small ACP agent for trying things out: no key, no account, no network.

Run as a program of its own, `python demo_agent.py`. Standard library only. It echoes, and shows with a few words what
an agent can do: `tool` announces a tool call, `long` answers at length, `slow` takes its time and can be cancelled,
`die` ends the process in the middle of an answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

HELP = (
    "Hello! I am the built-in demo agent: I have no model and only echo.\n\n"
    "Try `tool`, `long`, `slow` (then `/cancel`), `die` (then say something again), `/reset`, `/models`, `/agents`."
)


class Connection:
    """The JSON-RPC peer on standard input and output. Frames are written whole, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.cancelled = threading.Event()

    def send(self, frame: dict[str, Any]) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def update(self, session_id: str, **update: Any) -> None:
        self.send({"method": "session/update", "params": {"sessionId": session_id, "update": update}})

    def say(self, session_id: str, text: str) -> None:
        self.update(session_id, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def main() -> None:
    connection = Connection()
    for line in sys.stdin:
        frame = json.loads(line)
        if frame.get("method") == "session/cancel":
            connection.cancelled.set()
        elif frame.get("method") == "session/prompt":
            connection.cancelled.clear()
            threading.Thread(target=answer_prompt, args=(connection, frame), daemon=True).start()
        elif "id" in frame and "method" in frame:
            connection.send({"id": frame["id"], **answer_call(frame["method"], frame.get("params", {}))})


def answer_call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "openab-demo-agent", "version": "1"}
        capabilities = {"loadSession": True, "promptCapabilities": {"image": False}}
        return {
            "result": {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": []}
        }
    if method == "session/new":
        return {"result": {"sessionId": "demo"}}
    if method == "session/load":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"method not found: {method}"}}


def answer_prompt(connection: Connection, frame: dict[str, Any]) -> None:
    session_id = frame["params"]["sessionId"]
    words = _last_text(frame["params"]["prompt"]).strip()
    for piece in respond(connection, session_id, words):
        connection.say(session_id, piece)
    reason = "cancelled" if connection.cancelled.is_set() else "end_turn"
    connection.send({"id": frame["id"], "result": {"stopReason": reason}})


def respond(connection: Connection, session_id: str, words: str) -> Iterable[str]:
    match words.lower():
        case "tool":
            call = {"toolCallId": "t1", "title": "look something up", "kind": "fetch"}
            connection.update(session_id, sessionUpdate="tool_call", status="in_progress", **call)
            connection.update(session_id, sessionUpdate="tool_call_update", toolCallId="t1", status="completed")
            yield "I looked it up: it is there."
        case "long":
            for number in range(1, 201):
                yield f"Line {number} of a long answer.\n"
        case "slow":
            for number in range(1, 11):
                if connection.cancelled.wait(1):
                    return
                yield f"{number}… "
            yield "done."
        case "die":
            connection.say(session_id, "I was about to say")
            sys.stdout.flush()
            os._exit(3)
        case "hello" | "hi" | "help":
            yield HELP
        case _:
            yield f"You said: {words}"


def _last_text(blocks: list[dict[str, Any]]) -> str:
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    return texts[-1] if texts else ""


if __name__ == "__main__":
    main()
