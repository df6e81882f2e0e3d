"""What a platform sent, before anybody judged it (turn-kernel.md 6.1, 6.9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import Field

from openab_kernel.facts.access import AccessFacts
from openab_kernel.facts.admission import Admission
from openab_kernel.facts.base import Facts
from openab_kernel.facts.message import HistoryEntry, InboundMediaFacts, SupplementalContextFacts

EventKind = Literal["message", "command", "interaction", "reaction", "lifecycle", "unknown"]


class NormalizedTurnInput(Facts):
    """One inbound event in the kernel's own words.

    `id` is stable and unique within channel and account: where a platform numbers messages for each conversation,
    the channel puts the conversation in front. `timestamp` is epoch ms. `raw` is for later callbacks of the channel
    alone: it is neither stored nor logged.
    """

    id: str
    raw_text: str
    timestamp: int | None = None
    text_for_agent: str | None = None
    text_for_commands: str | None = None
    proactive: bool = False
    event_id: str | None = None
    raw: Any = Field(default=None, repr=False, exclude=True)


class ChannelEventClass(Facts):
    """What sort of event it is. `can_start_agent_turn` False ends it as handled."""

    kind: EventKind = "message"
    can_start_agent_turn: bool = True
    requires_immediate_ack: bool = False


class SenderFacts(Facts):
    """Who sent it. `id` is the platform's stable id; None or blank is nobody."""

    id: str | None = None
    name: str | None = None
    username: str | None = None
    tag: str | None = None
    roles: tuple[str, ...] = ()
    is_bot: bool | None = None
    is_self: bool = False
    display_label: str | None = None


class CommandFacts(Facts):
    """A command that the channel or the kernel recognised in the message."""

    kind: Literal["native", "text", "normal"]
    body: str | None = None
    name: str | None = None
    authorized: bool | None = None


class PartialMessageFacts(Facts):
    """What preflight already knows of the message; the same meaning as in `MessageFacts`."""

    raw_body: str | None = None
    body: str | None = None
    body_for_agent: str | None = None
    command_body: str | None = None
    envelope_from: str | None = None
    sender_label: str | None = None
    preview: str | None = None


MediaSource = Callable[[], "list[InboundMediaFacts] | Awaitable[list[InboundMediaFacts]]"]


class HistoryFacts(Facts):
    """Where a message that starts no turn is noted down (turn-kernel.md 12)."""

    key: str
    limit: int = 50
    history_map: dict[str, list[HistoryEntry]] | None = None
    record_on_drop: bool | None = None
    media_limit: int | None = None
    should_record: Callable[[], bool] | None = Field(default=None, exclude=True)


class PreflightFacts(Facts):
    """What a cheap first look found. Nothing has been written when it is made."""

    admission: Admission | None = None
    command: CommandFacts | None = None
    message: PartialMessageFacts | None = None
    media: tuple[InboundMediaFacts, ...] | MediaSource | None = None
    supplemental: SupplementalContextFacts | None = None
    access: AccessFacts | None = None
    sender: SenderFacts | None = None
    history: HistoryFacts | None = None
