"""What there is to read: text, media, quotes and history (turn-kernel.md 6.6-6.8)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field

from openab_kernel.facts.base import Facts

MediaKind = Literal["image", "video", "audio", "document", "sticker", "unknown"]


class InboundMediaFacts(Facts):
    """A reference to one attachment. Its place in the list is its identity: lists are never compacted.

    `text` stands for an attachment that is text already: a small text file, or a refusal in the file's place.
    """

    path: str | None = None
    url: str | None = None
    content_type: str | None = None
    kind: MediaKind = "unknown"
    transcribed: bool = False
    file_name: str | None = None
    size_bytes: int | None = None
    duration_ms: int | None = None
    width: int | None = None
    height: int | None = None
    message_id: str | None = None
    text: str | None = None
    data_base64: str | None = Field(default=None, repr=False)


class HistoryEntry(Facts):
    """One message that started no turn. `seq` orders the window it is in."""

    seq: int = 0
    sender: str
    body: str
    timestamp: int | None = None
    message_id: str | None = None
    media: tuple[InboundMediaFacts, ...] = ()


class MessageFacts(Facts):
    """The body in its several readings. `preview` is short and redacted: the only form a log may hold."""

    raw_body: str
    body: str | None = None
    body_for_agent: str | None = None
    command_body: str | None = None
    envelope_from: str | None = None
    sender_label: str | None = None
    preview: str | None = None
    inbound_history: tuple[HistoryEntry, ...] | None = None
    inbound_event_kind: str = "user_request"
    source_modality: str | None = None


class QuoteFacts(Facts):
    """The message that is replied to."""

    id: str | None = None
    full_id: str | None = None
    body: str | None = None
    sender: str | None = None
    sender_allowed: bool | None = None
    is_external: bool | None = None
    is_quote: bool | None = None
    is_self: bool | None = None
    media: tuple[InboundMediaFacts, ...] | None = None


class ForwardedFacts(Facts):
    """Where a forwarded message came from."""

    from_: str | None = Field(default=None, alias="from")
    from_type: str | None = None
    from_id: str | None = None
    date: int | None = None
    sender_allowed: bool | None = None


class ThreadFacts(Facts):
    """What the thread began with and what was said in it."""

    id: str | None = None
    starter_body: str | None = None
    history_body: str | None = None
    label: str | None = None
    parent_session_key: str | None = None
    model_parent_session_key: str | None = None
    sender_allowed: bool | None = None


class StructuredContext(Facts):
    """A labelled piece of untrusted context."""

    label: str
    payload: Any
    source: str | None = None
    type: str | None = None


class SupplementalContextFacts(Facts):
    """All that stands around the message. Only `group_system_prompt` is trusted."""

    quote: QuoteFacts | None = None
    forwarded: ForwardedFacts | None = None
    thread: ThreadFacts | None = None
    channel_structured_context: tuple[StructuredContext, ...] = Field(
        default=(), validation_alias=AliasChoices("channel_structured_context", "untrusted_context")
    )
    group_system_prompt: str | None = None
    untrusted_group_system_prompt: str | None = None
