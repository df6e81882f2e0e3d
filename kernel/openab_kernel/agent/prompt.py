"""The prompt of a turn, as ACP content blocks (agent.md 9, delivery.md 2.7). Pure.

What a platform sent stands in a block of its own or inside a JSON string, never between tags.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.message import InboundMediaFacts
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.agent import ContentBlock

FILE_TEXT_BYTES = 512 * 1024


def prompt_blocks(messages: Sequence[InboundMessage], files: Mapping[str, bytes | None]) -> list[ContentBlock]:
    """One sender context for each arrival, with what belongs to it.

    Args:
        messages: In order of arrival; never merged, never reworded.
        files: The content of every local path that the media name; None or absent: it could not be read.
    """
    return [block for message in messages for block in _arrival(message, files)]


def _arrival(message: InboundMessage, files: Mapping[str, bytes | None]) -> list[ContentBlock]:
    context = message.context
    blocks = [text_block(tagged("sender_context", sender_context(message)))]
    surroundings = _surroundings(context)
    if surroundings:
        blocks.append(text_block(tagged("context", surroundings)))
    attached = [_attachment(item, files) for item in context.media]
    blocks += [block for block in attached if block["type"] == "text"]
    if context.body_for_agent:
        blocks.append(text_block(context.body_for_agent))
    blocks += [block for block in attached if block["type"] != "text"]
    return blocks


def text_block(text: str) -> ContentBlock:
    return {"type": "text", "text": text}


def tagged(tag: str, value: Mapping[str, Any]) -> str:
    """JSON between tags. Angle brackets inside are escaped, so that no name can close the tag."""
    json = orjson.dumps(value).decode().replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<{tag}>\n{json}\n</{tag}>"


def sender_context(message: InboundMessage) -> dict[str, Any]:
    """`openab.sender.v1`. A channel may name its own `channel`, `channel_id` and `display_name` in channel_context."""
    context = message.context
    own = context.channel_context if isinstance(context.channel_context, dict) else {}
    name = context.sender_name or context.sender_username or context.sender_id or ""
    fields: dict[str, Any] = {
        "schema": "openab.sender.v1",
        "sender_id": context.sender_id or "",
        "sender_name": own.get("sender_name", context.sender_username or name),
        "display_name": own.get("display_name", name),
        "channel": own.get("channel", context.provider),
        "channel_id": own.get("channel_id", context.native_channel_id or context.chat_id),
        "is_bot": bool(context.sender_is_bot),
    }
    optional = {
        "thread_id": message.thread_id,
        "timestamp": _iso(context.timestamp),
        "message_id": message.destination.source_message_id,
        "receiver_id": own.get("receiver_id"),
        "proactive": True if message.proactive else None,
    }
    return fields | {key: value for key, value in optional.items() if value is not None}


def _iso(epoch_ms: int | None) -> str | None:
    if epoch_ms is None:
        return None
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _surroundings(context: FinalizedMsgContext) -> dict[str, Any]:
    """Quote, forwarded, thread, structured context and history; only what is there."""
    parts = {
        "quote": {
            "id": context.reply_to_id if context.reply_to_body is not None else None,
            "sender": context.reply_to_sender,
            "body": context.reply_to_body,
        },
        "forwarded": {
            "from": context.forwarded_from,
            "type": context.forwarded_from_type,
            "id": context.forwarded_from_id,
            "date": context.forwarded_date,
        },
        "thread": {
            "label": context.thread_label,
            "starter": context.thread_starter_body,
            "history": context.thread_history_body,
        },
        "structured": [piece.model_dump(exclude_none=True) for piece in context.structured_context],
        "history": [
            entry.model_dump(exclude_none=True, include={"sender", "body", "timestamp", "message_id"})
            for entry in context.inbound_history or ()
        ],
    }
    return {name: found for name, part in parts.items() if (found := _present(part))}


def _present(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: value for key, value in part.items() if value is not None}
    return part


def _attachment(item: InboundMediaFacts, files: Mapping[str, bytes | None]) -> ContentBlock:
    """An image as an image, text as text, anything else as a line that says what it is."""
    name = item.file_name or item.kind
    if item.text is not None:
        return text_block(f"[attachment {_quoted(name)}: {item.text}]")
    content = files.get(item.path) if item.path else _decoded(item.data_base64)
    if content is None:
        return text_block(f"[attachment {_quoted(name)}: not available]")
    media_type = item.content_type or "application/octet-stream"
    if item.kind == "image":
        return {"type": "image", "mimeType": media_type, "data": base64.b64encode(content).decode()}
    if media_type.startswith("text/") or item.kind == "document":
        return text_block(f"[file {_quoted(name)}]\n{content[:FILE_TEXT_BYTES].decode(errors='replace')}")
    return text_block(f"[attachment {_quoted(name)}: {media_type}, {len(content)} bytes]")


def _quoted(name: str) -> str:
    return orjson.dumps(name).decode()


def _decoded(data_base64: str | None) -> bytes | None:
    if not data_base64:
        return None
    try:
        return base64.b64decode(data_base64, validate=True)
    except (binascii.Error, ValueError):
        return None
