"""From an event of the gateway to the facts of a message (delivery.md 2.4, 2.7; turn-kernel.md 6)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from uuid import uuid4

from openab_gateway_ws.protocol import Attachment, EventFrame, scoped_id
from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.facts.access import AccessFacts, MentionFacts
from openab_kernel.facts.conversation import ChatKind, ConversationFacts, ReplyPlanFacts, RouteFacts, RoutePeer
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts, SenderFacts
from openab_kernel.facts.message import InboundMediaFacts, MediaKind, MessageFacts
from openab_kernel.interfaces.channel import RoutedPlan

KINDS: dict[str, ChatKind] = {"dm": "direct", "private": "direct", "group": "group", "supergroup": "group"}
MEDIA_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio", "text_file": "document"}
LATEST_MS = 253_402_300_800_000
"""The year 10000: no calendar here goes further."""


class GatewayTurnAdapter:
    """Implements `openab_kernel.interfaces.channel.TurnAdapter` on decoded event frames."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._platform = settings.platform
        self._bot_username = settings.bot_username
        self._mention = mention_pattern(settings.bot_username) if settings.bot_username else None

    def ingest(self, raw: EventFrame) -> NormalizedTurnInput:
        text = self._without_mention(raw.content.text)
        return NormalizedTurnInput(
            id=scoped_id(raw.platform, raw.channel.id, raw.message_id or raw.event_id or uuid4().hex),
            raw_text=raw.content.text,
            timestamp=epoch_ms_of(raw.timestamp),
            text_for_agent=text,
            text_for_commands=text,
            proactive=raw.proactive,
            event_id=raw.event_id or None,
            raw=raw,
        )

    def resolve_turn(
        self, input: NormalizedTurnInput, event_class: ChannelEventClass, preflight: PreflightFacts
    ) -> RoutedPlan:
        event: EventFrame = input.raw
        thread_id = event.channel.thread_id or None
        return RoutedPlan(
            conversation=self._conversation(event, thread_id),
            sender=self._sender(event),
            reply=ReplyPlanFacts(to=event.channel.id, native_channel_id=event.channel.id, message_thread_id=thread_id),
            message=MessageFacts(
                raw_body=input.raw_text,
                body_for_agent=input.text_for_agent,
                command_body=input.text_for_commands,
            ),
            route=RouteFacts(),
            platform_message_id=event.message_id or None,
            access=self._access(event, thread_id),
            media=tuple(map(_media, event.content.attachments)),
            channel_context={
                "channel": event.channel.type,
                "channel_id": event.channel.id,
                "sender_name": event.sender.name,
                "display_name": event.sender.display_name,
            },
        )

    def _conversation(self, event: EventFrame, thread_id: str | None) -> ConversationFacts:
        kind = KINDS.get(event.channel.type, "channel")
        conversation_id = scoped_id(event.platform, event.channel.id)
        # The account's own platform needs no prefix in session keys; another one does, or two people share a session.
        peer_id = scoped_id(event.channel.id) if event.platform == self._platform else conversation_id
        return ConversationFacts(
            kind=kind,
            id=conversation_id,
            thread_id=thread_id,
            native_channel_id=event.channel.id,
            route_peer=RoutePeer(kind=kind, id=peer_id) if kind == "direct" else None,
        )

    def _sender(self, event: EventFrame) -> SenderFacts:
        sender = event.sender
        is_self = sender.is_bot and self._bot_username is not None and _same(sender.name, self._bot_username)
        return SenderFacts(
            id=sender.id or None,
            name=sender.display_name or None,
            username=sender.name or None,
            is_bot=sender.is_bot,
            is_self=is_self,
        )

    def _access(self, event: EventFrame, thread_id: str | None) -> AccessFacts | None:
        """A mention is asked for in groups outside threads; without the bot's name there is nothing to look for."""
        if self._bot_username is None or self._mention is None:
            return None
        name = self._bot_username
        was_mentioned = any(_same(mention.removeprefix("@"), name) for mention in event.mentions) or bool(
            self._mention.search(event.content.text)
        )
        mentions = MentionFacts(
            can_detect_mention=True,
            was_mentioned=was_mentioned,
            has_any_mention=was_mentioned or bool(event.mentions),
            require_mention=KINDS.get(event.channel.type) == "group" and thread_id is None,
            explicitly_mentioned_bot=was_mentioned,
        )
        return AccessFacts(mentions=mentions)

    def _without_mention(self, text: str) -> str:
        if self._mention is None or not self._mention.search(text):
            return text
        return self._mention.sub(lambda found: found[1] + found[2] if found[1] else "", text).strip()


def mention_pattern(bot_username: str) -> re.Pattern[str]:
    """Finds `@name` as a word of its own, or at the end of a command as in `/status@name`.

    Group 1 is the command, group 2 a blank behind the name. Case is ignored. Only ASCII letters join a word: in many
    languages nothing stands between words.
    """
    begins = r"(?:(?<!\S)(/[A-Za-z0-9_]+)|(?<![A-Za-z0-9_@]))"
    ends = r"(?![A-Za-z0-9_]|[.-][A-Za-z0-9_])([ \t]?)"
    return re.compile(f"{begins}@{re.escape(bot_username)}{ends}", re.IGNORECASE)


def epoch_ms_of(timestamp: str) -> int | None:
    """An ISO 8601 moment, UTC if it names no zone; None for anything else, so that the time of receipt holds."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    epoch_ms = int(moment.timestamp() * 1000)
    return epoch_ms if 0 <= epoch_ms < LATEST_MS else None


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


def _media(attachment: Attachment) -> InboundMediaFacts:
    """A file that the gateway refused is the text that says so."""
    facts = InboundMediaFacts(
        kind=MEDIA_KINDS.get(attachment.type, "unknown"),
        content_type=attachment.mime_type or None,
        file_name=attachment.filename or None,
        size_bytes=attachment.size,
    )
    if attachment.status is not None:
        return facts.model_copy(update={"text": attachment.status or "refused"})
    if attachment.path:
        return facts.model_copy(update={"path": attachment.path})
    return facts.model_copy(update={"data_base64": attachment.data or None})
