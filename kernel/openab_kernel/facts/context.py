"""The finished context of a message, as the agent's prompt and the store see it (turn-kernel.md 7)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from openab_kernel.facts.base import Facts
from openab_kernel.facts.conversation import ChatKind, DmScope
from openab_kernel.facts.message import HistoryEntry, InboundMediaFacts, StructuredContext

FINALIZED = "openab.context.v1"


class CommandTurn(Facts):
    """How a command came in. Kind `normal` is no command and never authorized."""

    source: Literal["native", "text", "message"]
    kind: Literal["native", "text", "normal"]
    authorized: bool
    name: str | None = None
    body: str | None = None


class FinalizedMsgContext(Facts):
    """Everything a turn needs to know of one message. `finalized` is the marker that `build_context` sets.

    Fields beyond those declared here come from `extra` and are kept as they were given.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    finalized: Literal["openab.context.v1"]
    raw_body: str
    body: str
    body_for_agent: str
    command_body: str
    body_for_commands: str
    from_: str = Field(alias="from")
    to: str
    session_key: str
    agent_id: str
    chat_type: ChatKind
    chat_id: str
    conversation_label: str
    provider: str
    surface: str
    originating_channel: str
    originating_to: str
    command_authorized: bool
    command_turn: CommandTurn
    inbound_history: tuple[HistoryEntry, ...] | None = None
    dm_scope: DmScope | None = None
    parent_session_key: str | None = None
    model_parent_session_key: str | None = None
    account_id: str | None = None
    message_sid: str | None = None
    message_sid_full: str | None = None
    reply_to_id: str | None = None
    reply_to_id_full: str | None = None
    reply_to_body: str | None = None
    reply_to_sender: str | None = None
    reply_to_is_quote: bool | None = None
    forwarded_from: str | None = None
    forwarded_from_type: str | None = None
    forwarded_from_id: str | None = None
    forwarded_date: int | None = None
    thread_starter_body: str | None = None
    thread_history_body: str | None = None
    thread_label: str | None = None
    group_system_prompt: str | None = None
    group_subject: str | None = None
    group_space: str | None = None
    sender_name: str | None = None
    sender_id: str | None = None
    sender_username: str | None = None
    sender_tag: str | None = None
    sender_is_bot: bool | None = None
    sender_is_self: Literal[True] | None = None
    member_role_ids: tuple[str, ...] | None = None
    timestamp: int | None = None
    channel_context: Any = None
    structured_context: tuple[StructuredContext, ...] = ()
    was_mentioned: bool | None = None
    group_require_mention: bool | None = None
    explicitly_mentioned_bot: bool | None = None
    mentioned_user_ids: tuple[str, ...] | None = None
    implicit_mention_kinds: tuple[str, ...] | None = None
    message_thread_id: str | int | None = None
    native_channel_id: str | None = None
    thread_parent_id: str | None = None
    media: tuple[InboundMediaFacts, ...] = ()
    media_path: str | None = None
    media_url: str | None = None
    media_type: str | None = None
    media_paths: tuple[str | None, ...] | None = None
    media_urls: tuple[str | None, ...] | None = None
    media_types: tuple[str | None, ...] | None = None
    media_transcribed_indexes: tuple[int, ...] | None = None
    proactive: bool = False
