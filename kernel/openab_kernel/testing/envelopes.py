"""What a well-behaved agent writes in the bubble modes (delivery.md 2.1, 2.2), for tests and scripted agents."""

from __future__ import annotations

import json
from typing import Any

SCHEMA = "openab.turn.v1"


def envelope_value(*texts: str, next_type: str = "stop", schema: str = SCHEMA) -> dict[str, Any]:
    """An envelope with these bubbles, `bubble_1` and on, as a JSON value."""
    messages = [{"id": f"bubble_{number}", "text": text} for number, text in enumerate(texts, 1)]
    return {"schema": schema, "messages": messages, "next": {"type": next_type}}


def envelope(*texts: str, next_type: str = "stop", schema: str = SCHEMA) -> str:
    """The same as the text that an agent answers with."""
    return json.dumps(envelope_value(*texts, next_type=next_type, schema=schema), ensure_ascii=False)


def bubble_notification(session_id: str, text: str, bubble_id: str = "") -> dict[str, Any]:
    """The notification by which an agent sends one deliberate message."""
    update = {"sessionUpdate": "openab_message", "id": bubble_id, "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}}
