"""`[outbound]` and `[reactions]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OutboundSettings(_Section):
    """How long hooks and observers may take, and how often and how long a send is tried."""

    hook_timeout_seconds: float = Field(default=10, gt=0, le=600)
    max_retries: int = Field(default=5, ge=1, le=100)


def _display(value: Any) -> Any:
    """Case does not matter; `off` and `hidden` are other words for `none`."""
    if not isinstance(value, str):
        return value
    word = value.lower()
    return "none" if word in ("off", "hidden") else word


class EmojiSettings(_Section):
    """The mark for each state of a turn."""

    queued: str = "👀"
    thinking: str = "🤔"
    tool: str = "🔥"
    coding: str = "👨‍💻"
    web: str = "⚡"
    done: str = "🆗"
    error: str = "😱"


class TimingSettings(_Section):
    """Milliseconds: how long marks settle, when a turn looks stuck, how long the last mark stays."""

    debounce_ms: int = Field(default=700, ge=0)
    stall_soft_ms: int = Field(default=10_000, ge=1)
    stall_hard_ms: int = Field(default=30_000, ge=1)
    done_hold_ms: int = Field(default=1_500, ge=0)
    error_hold_ms: int = Field(default=2_500, ge=0)


class ReactionsSettings(_Section):
    """Status marks on the message that is being answered, and what is shown of tools in text mode."""

    enabled: bool = True
    remove_after_reply: bool = False
    tool_display: Annotated[Literal["full", "compact", "none"], BeforeValidator(_display)] = "none"
    narration_display: bool = False
    emojis: EmojiSettings = EmojiSettings()
    timing: TimingSettings = TimingSettings()
    mapping: dict[str, str] = {}
