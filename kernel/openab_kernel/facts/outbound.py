"""What is to be sent, and the proof that it was (outbound.md 1, 4, 7).

What the kernel makes anew for every send, and nobody stores, is a dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import Field

from openab_kernel.facts.base import Facts

LengthUnit = Literal["code_points", "utf16", "bytes"]
PayloadKind = Literal["tool", "block", "final", "notice"]


class TextLimit(Facts):
    """The most a platform takes in one message, counted in its own unit."""

    size: int = Field(ge=1)
    unit: LengthUnit = "code_points"


class ChannelCapabilities(Facts):
    """What a message adapter can do beyond sending a text."""

    text_limit: TextLimit = TextLimit(size=4000)
    edit: bool = False
    delete: bool = False
    reactions: bool = False
    typing: bool = False
    quote: bool = False


class OutboundLaneKey(NamedTuple):
    """Sends of one lane keep their order: one channel, account, conversation and thread."""

    channel: str
    account_id: str | None
    conversation_id: str
    thread_id: str | None


class Destination(Facts):
    """Where a send goes. `to` is what the adapter addresses; `source_event_id` is the event that it answers, if any.

    `source_message_id` is the platform's own id of the message that started the turn; reactions go to it.
    """

    channel: str
    account_id: str | None = None
    conversation_id: str
    to: str
    thread_id: str | None = None
    source_event_id: str | None = None
    source_message_id: str | None = None

    @property
    def lane(self) -> OutboundLaneKey:
        return OutboundLaneKey(self.channel, self.account_id, self.conversation_id, self.thread_id)


class Intent(Facts):
    """A send that is owed. Each part is one platform call; `turn_id` None: it belongs to no turn."""

    id: str
    destination: Destination
    kind: PayloadKind
    parts: tuple[str, ...] = Field(min_length=1, repr=False)
    turn_id: str | None = None
    session_key: str | None = None
    reply_to_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSend:
    """One platform call that an adapter is asked to make (outbound.md 4).

    `idempotency_key` is the same for every attempt at the same part.
    """

    destination: Destination
    text: str = field(repr=False)
    idempotency_key: str
    part_index: int
    part_count: int
    intent_id: str
    reply_to_id: str | None = None


class ReceiptPart(Facts):
    """One message that the platform accepted."""

    platform_message_id: str
    kind: Literal["text", "media", "voice", "poll", "card", "preview", "unknown"] = "text"
    index: int = 0
    thread_id: str | None = None
    reply_to_id: str | None = None
    raw: Any = None


class Receipt(Facts):
    """Proof that the platform accepted, not that anybody saw. `sent_at` is epoch ms.

    Without ids it is local metadata. `confirmed` False: handed over where the platform acknowledges nothing.
    """

    sent_at: int
    primary_platform_message_id: str | None = None
    platform_message_ids: tuple[str, ...] = ()
    parts: tuple[ReceiptPart, ...] = ()
    thread_id: str | None = None
    reply_to_id: str | None = None
    edit_token: str | None = None
    delete_token: str | None = None
    confirmed: bool = True
    raw: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome:
    """What became of one part. `code` is the platform's or the kernel's own reason."""

    index: int
    status: Literal["delivered", "failed", "unknown", "suppressed"]
    receipt: Receipt | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentOutcome:
    """What became of one intent, part by part."""

    intent_id: str
    kind: PayloadKind
    parts: tuple[PartOutcome, ...]
