"""What an agent reports while it works on a prompt (agent.md 3.2).

Plain slotted dataclasses: hundreds of thousands a second pass through, and their values were checked by the mapping
that made them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the answer, to be appended to the text of the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """The agent is thinking. What it thinks is never kept."""


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """A tool call was announced or moved on. `is_new`: first sight of its id, which begins a new answer."""

    tool_call_id: str
    title: str | None
    status: str | None
    tool_kind: str | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class BubbleMessage:
    """One deliberate message (delivery.md 2.2)."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class BubbleIgnored:
    """An `openab_message` without a text. `reason` is `no_text`."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """What the agent offers to be set; `options` is its own list."""

    options: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class UnknownUpdate:
    """Activity of a kind nobody here knows."""

    kind: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The prompt was answered; always the last update. `stop_reason` None: the answer named none.

    `by_request`: it ended because we cancelled it. `output_tokens` None: not reported.
    """

    stop_reason: str | None
    by_request: bool = False
    output_tokens: int | None = None


AgentUpdate = (
    TextChunk | Thought | ToolActivity | BubbleMessage | BubbleIgnored | ConfigOptions | UnknownUpdate | Stopped
)
