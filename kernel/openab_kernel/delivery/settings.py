"""The sections `[delivery]` and `[markdown]` of the configuration file (delivery.md 7.2, 9).

The error of a validator says what was expected, no more: the loader adds the key and what was found.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from openab_kernel.delivery.characters import is_blank
from openab_kernel.delivery.tables import TableStyle

DeliveryMode = Literal["text", "structured", "sequential"]
ParseErrorPolicy = Literal["fallback_text", "error_message", "silent"]
ReplyTool = Literal["off", "inject"]

APOLOGY = "⚠️ That reply did not come out right. Please ask again."


def _unalias(**aliases: str) -> BeforeValidator:
    """Read a word in any case, and other words for it."""

    def read(value: Any) -> Any:
        return aliases.get(value.lower(), value.lower()) if isinstance(value, str) else value

    return BeforeValidator(read)


def _check_text(value: str) -> str:
    if is_blank(value):
        raise ValueError("a string that is not blank")
    return value


def _check_line(value: str) -> str:
    if is_blank(value) or len(value.splitlines()) > 1:
        raise ValueError("one line of text, not blank")
    return value


class DeliverySettings(BaseModel):
    """How a turn becomes messages. Fixed when the kernel starts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mode: Annotated[DeliveryMode, _unalias(plain="text", off="text", bubbles="structured")] = "text"
    schema_id: Annotated[str, AfterValidator(_check_text)] = Field(default="openab.turn.v1", alias="schema")
    max_bubbles: int = Field(default=4, ge=1, le=100)
    max_bubble_chars: int = Field(default=1200, ge=0)
    bubble_delay_ms: int = Field(default=400, ge=0, le=60_000)
    on_parse_error: Annotated[
        ParseErrorPolicy,
        _unalias(fallback="fallback_text", text="fallback_text", error="error_message", drop="silent"),
    ] = "fallback_text"
    parse_error_text: Annotated[str, AfterValidator(_check_line)] = APOLOGY
    repair: bool = False
    reply_tool: ReplyTool = "off"

    @field_validator("reply_tool")
    @classmethod
    def _needs_a_bubble_mode(cls, value: ReplyTool, info: ValidationInfo) -> ReplyTool:
        if value == "inject" and info.data.get("mode") == "text":
            raise ValueError('"off" with mode = "text"; a reply tool needs mode "structured" or "sequential"')
        return value


class MarkdownSettings(BaseModel):
    """How Markdown that a platform cannot show is written for it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tables: TableStyle = "code"
