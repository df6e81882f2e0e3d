"""Stage 7: all facts of a message, as one finished context (turn-kernel.md 7). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openab_kernel.facts.access import AccessFacts, MentionFacts
from openab_kernel.facts.context import FINALIZED, CommandTurn, FinalizedMsgContext
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import CommandFacts, SenderFacts
from openab_kernel.facts.message import (
    InboundMediaFacts,
    MessageFacts,
    StructuredContext,
    SupplementalContextFacts,
)

OCTETS = "application/octet-stream"
NO_COMMAND = CommandTurn(source="message", kind="normal", authorized=False)
NO_SUPPLEMENT = SupplementalContextFacts()

PROTECTED = frozenset({
    "from", "from_", "to", "session_key", "agent_id", "dm_scope", "account_id", "parent_session_key",
    "model_parent_session_key", "main_session_key", "provider", "surface", "chat_type", "chat_id",
    "originating_channel", "originating_to", "native_channel_id", "message_thread_id", "thread_parent_id",
    "sender_id", "sender_name", "sender_username", "sender_tag", "sender_is_bot", "sender_is_self",
    "member_role_ids", "was_mentioned", "group_require_mention", "explicitly_mentioned_bot", "mentioned_user_ids",
    "implicit_mention_kinds", "command_authorized", "command_turn", "command_body", "group_system_prompt",
    "finalized",
})  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ContextFacts:
    """The bundles that a context is built from. Each was checked when it was made."""

    channel: str
    message_id: str
    from_: str
    conversation: ConversationFacts
    sender: SenderFacts
    route: RouteFacts
    reply: ReplyPlanFacts
    message: MessageFacts
    account_id: str | None = None
    message_id_full: str | None = None
    provider: str | None = None
    surface: str | None = None
    timestamp: int | None = None
    access: AccessFacts | None = None
    command: CommandFacts | None = None
    command_authorized: bool | None = None
    supplemental: SupplementalContextFacts | None = None
    media: tuple[InboundMediaFacts, ...] = ()
    channel_context: Any = None
    proactive: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


def build_context(facts: ContextFacts) -> FinalizedMsgContext:
    """Map the facts to the context, marked as finished. No I/O, no state, no clock.

    Raises:
        ValueError: `extra` names a field of routing, identity or authority.
    """
    for key in facts.extra:
        if _is_protected(key):
            raise ValueError(f"extra: {key} is a routing, identity or authority field; give it in its own facts")
    values: dict[str, Any] = {"finalized": FINALIZED}
    for part in (_text, _route, _supplement, _conversation, _sender, _mentions, _media):
        values |= part(facts)
    values.update(facts.extra)
    return FinalizedMsgContext(**values)


def _is_protected(key: str) -> bool:
    return key in PROTECTED or key.startswith(("sender_", "chat_", "originating_", "command_"))


def _lf(text: str | None) -> str | None:
    return text.replace("\r\n", "\n") if text is not None and "\r" in text else text


def _first(*values: Any) -> Any:
    for value in values:
        if value is not None:
            return value
    return None


def _text(facts: ContextFacts) -> dict[str, Any]:
    message = facts.message
    command_body = _lf(_first(message.command_body, message.raw_body))
    return {
        "raw_body": _lf(message.raw_body),
        "body": _lf(_first(message.body, message.raw_body)),
        "body_for_agent": _lf(_first(message.body_for_agent, message.raw_body)),
        "command_body": command_body,
        "body_for_commands": command_body,
        "inbound_history": message.inbound_history,
        "message_sid": facts.message_id,
        "message_sid_full": facts.message_id_full,
        "timestamp": facts.timestamp,
        "channel_context": facts.channel_context,
        "proactive": facts.proactive,
    }


def _route(facts: ContextFacts) -> dict[str, Any]:
    route, reply = facts.route, facts.reply
    return {
        "from": facts.from_,
        "to": reply.to,
        "session_key": _first(route.dispatch_session_key, route.route_session_key),
        "agent_id": route.agent_id,
        "dm_scope": route.dm_scope,
        "account_id": _first(route.account_id, facts.account_id),
        "parent_session_key": route.parent_session_key,
        "model_parent_session_key": route.model_parent_session_key,
        "provider": _first(facts.provider, facts.channel),
        "surface": _first(facts.surface, facts.provider, facts.channel),
        "originating_channel": facts.channel,
        "originating_to": _first(reply.originating_to, reply.to),
        "message_thread_id": _first(reply.message_thread_id, facts.conversation.thread_id),
        "native_channel_id": _first(reply.native_channel_id, facts.conversation.native_channel_id),
        "thread_parent_id": _first(reply.thread_parent_id, facts.conversation.parent_id),
    }


def _supplement(facts: ContextFacts) -> dict[str, Any]:
    """Quote, forwarded, thread and structured context. What route and reply plan say stays."""
    found = facts.supplemental or NO_SUPPLEMENT
    quote, forwarded, thread = found.quote, found.forwarded, found.thread
    values: dict[str, Any] = {
        "reply_to_id": _first(facts.reply.reply_to_id, quote.id if quote else None),
        "reply_to_id_full": _first(facts.reply.reply_to_id_full, quote.full_id if quote else None),
        "group_system_prompt": _lf(found.group_system_prompt),
        "structured_context": _structured(found),
    }
    if quote:
        values.update(reply_to_body=_lf(quote.body), reply_to_sender=quote.sender, reply_to_is_quote=quote.is_quote)
    if forwarded:
        values.update(
            forwarded_from=forwarded.from_,
            forwarded_from_type=forwarded.from_type,
            forwarded_from_id=forwarded.from_id,
            forwarded_date=forwarded.date,
        )
    if thread:
        values.update(
            thread_starter_body=_lf(thread.starter_body),
            thread_history_body=_lf(thread.history_body),
            thread_label=thread.label,
        )
        if facts.route.parent_session_key is None:
            values["parent_session_key"] = thread.parent_session_key
        if facts.route.model_parent_session_key is None:
            values["model_parent_session_key"] = thread.model_parent_session_key
    return values


def _structured(found: SupplementalContextFacts) -> tuple[StructuredContext, ...]:
    """The channel's own pieces, and the group prompt that users wrote, which is never a system prompt."""
    if found.untrusted_group_system_prompt is None:
        return found.channel_structured_context
    prompt = StructuredContext(label="group_prompt_context", payload=_lf(found.untrusted_group_system_prompt))
    return (*found.channel_structured_context, prompt)


def _conversation(facts: ContextFacts) -> dict[str, Any]:
    conversation = facts.conversation
    return {
        "chat_type": conversation.kind,
        "chat_id": conversation.id,
        "conversation_label": conversation.label or _derived_label(facts),
        "group_subject": conversation.label if conversation.kind != "direct" else None,
        "group_space": conversation.space_id,
    }


def _derived_label(facts: ContextFacts) -> str:
    sender = facts.sender
    if facts.conversation.kind == "direct":
        return str(_first(sender.display_label, sender.name, sender.username, sender.id, facts.conversation.id))
    return facts.conversation.id


def _sender(facts: ContextFacts) -> dict[str, Any]:
    sender = facts.sender
    return {
        "sender_name": _first(sender.name, sender.display_label),
        "sender_id": sender.id,
        "sender_username": sender.username,
        "sender_tag": sender.tag,
        "sender_is_bot": sender.is_bot,
        "member_role_ids": sender.roles or None,
        "sender_is_self": True if sender.is_self else None,
        "command_authorized": _command_authorized(facts),
        "command_turn": _command_turn(facts),
    }


def _command_authorized(facts: ContextFacts) -> bool:
    commands = facts.access.commands if facts.access else None
    return (commands is not None and commands.authorized is True) or facts.command_authorized is True


def _command_turn(facts: ContextFacts) -> CommandTurn:
    command = facts.command
    if command is None or command.kind == "normal":
        return NO_COMMAND
    authorized = command.authorized if command.authorized is not None else _command_authorized(facts)
    return CommandTurn(
        source=command.kind, kind=command.kind, authorized=authorized, name=command.name, body=command.body
    )


def _mentions(facts: ContextFacts) -> dict[str, Any]:
    mentions: MentionFacts | None = facts.access.mentions if facts.access else None
    group = facts.access.group if facts.access else None
    values: dict[str, Any] = {"group_require_mention": group.require_mention if group else None}
    if mentions:
        values.update(
            was_mentioned=_first(mentions.effective_was_mentioned, mentions.was_mentioned),
            explicitly_mentioned_bot=mentions.explicitly_mentioned_bot,
            mentioned_user_ids=mentions.mentioned_user_ids,
            implicit_mention_kinds=mentions.implicit_mention_kinds or None,
        )
        if group is None:
            values["group_require_mention"] = mentions.require_mention
    return values


def _media(facts: ContextFacts) -> dict[str, Any]:
    """Positions are kept: the place in the list is an attachment's identity."""
    media = facts.media
    if not media:
        return {}
    types = tuple(_media_type(item) for item in media)
    return {
        "media": media,
        "media_path": media[0].path,
        "media_url": media[0].url,
        "media_type": types[0],
        "media_paths": tuple(item.path for item in media),
        "media_urls": tuple(item.url for item in media),
        "media_types": types,
        "media_transcribed_indexes": tuple(index for index, item in enumerate(media) if item.transcribed) or None,
    }


def _media_type(item: InboundMediaFacts) -> str | None:
    return item.content_type or (OCTETS if item.path or item.url else None)
