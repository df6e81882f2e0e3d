"""The constant lines that a person may see when there is no answer (delivery.md 5.3, 5.5)."""

from __future__ import annotations

from openab_kernel.errors import FailureCause

# Its own message before the agent's first, when a session could not be resumed (agent.md 6).
RESET_NOTICE = "⚠️ The earlier conversation could not be restored; starting afresh."

# The answer of the cancel command itself. A cancelled turn sends no second line.
CANCELLED_LINE = "Stopped."

# A part that the platform refused has no line: the mark on the message is all.
FAILURE_LINES: dict[FailureCause, str] = {
    "agent": "⚠️ The assistant stopped before it was done. Please try again.",
    "timeout": "⚠️ The assistant took too long and was stopped.",
    "refusal": "⚠️ The assistant declined to answer this.",
    "busy": "⚠️ All assistants are busy. Please try again in a moment.",
    "empty": "⚠️ No answer came back.",
    "restart": "⚠️ The assistant was interrupted. Please ask again.",
}


def failure_line(cause: FailureCause, *, asked_by_person: bool) -> str | None:
    """The line for a turn that failed. A turn that a bot or a proactive event started gets none."""
    return FAILURE_LINES[cause] if asked_by_person else None
