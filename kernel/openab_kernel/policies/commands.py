"""Control commands: the exact texts that overtake a lane (agent.md 10)."""

from __future__ import annotations

from typing import Literal

ControlCommand = Literal["cancel", "reset", "models", "agents"]

_COMMANDS: dict[str, ControlCommand] = {
    "/cancel": "cancel",
    "/reset": "reset",
    "/model": "models",
    "/models": "models",
    "/agent": "agents",
    "/agents": "agents",
}


def control_command(text: str) -> ControlCommand | None:
    """The command that `text` is, outer white space apart. Anything longer or otherwise written is a message."""
    return _COMMANDS.get(text.strip())
