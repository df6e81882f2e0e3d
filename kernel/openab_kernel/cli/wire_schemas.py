"""JSON Schemas of the wire formats (delivery.md 2.1, 2.4, 2.5), for those who write agents and gateways."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

STRING: Final[Schema] = {"type": "string"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _table(required: str, *, closed: bool = False, **properties: Schema) -> Schema:
    """An object with these properties; `required` are the names of those it cannot do without."""
    schema: Schema = {"type": "object", "properties": properties, "required": required.split()}
    return schema | {"additionalProperties": False} if closed else schema


def _titled(title: str, schema: Schema) -> Schema:
    return {"$schema": DIALECT, "title": title, **schema}


EVENT: Final = _titled(
    "openab.gateway.event.v1",
    _table(
        "schema event_id timestamp platform channel sender content message_id",
        schema={"const": "openab.gateway.event.v1"},
        event_id=STRING,
        timestamp=STRING,
        platform=STRING,
        message_id=STRING,
        channel=_table("id type", id=STRING, type=STRING, thread_id={"type": ["string", "null"]}),
        sender=_table(
            "id name display_name is_bot",
            id=STRING,
            name=STRING,
            display_name=STRING,
            is_bot={"type": "boolean"},
        ),
        content=_table(
            "type text",
            type=STRING,
            text=STRING,
            attachments={
                "type": "array",
                "default": [],
                "items": _table(
                    "type filename mime_type size",
                    type={"enum": ["image", "text_file", "audio"]},
                    filename=STRING,
                    mime_type=STRING,
                    size={"type": "integer", "minimum": 0},
                    data={"type": "string", "contentEncoding": "base64", "default": ""},
                    path=STRING,
                    status=STRING,
                ),
            },
        ),
        mentions={"type": "array", "items": STRING, "default": []},
        proactive={"type": "boolean", "default": False},
    ),
)

REPLY: Final = _titled(
    "openab.gateway.reply.v1",
    _table(
        "schema reply_to platform channel content",
        schema={"const": "openab.gateway.reply.v1"},
        reply_to=STRING,
        platform=STRING,
        channel=_table("id", id=STRING, thread_id=STRING),
        content=_table("type text", type={"const": "text"}, text=STRING),
        command={"enum": ["edit_message", "delete_message", "add_reaction", "remove_reaction", "create_topic"]},
        request_id=STRING,
        quote_message_id=STRING,
        target_message_id=STRING,
    ),
)

_NEXT: Final[Schema] = {
    "default": {"type": "stop"},
    "oneOf": [
        _table("type", type={"enum": ["stop", "wait", "silent"]}),
        _table("type name arguments", closed=True, type={"const": "tool"}, name=STRING, arguments={}),
    ],
}

TURN: Final = _titled(
    "openab.turn.v1",
    _table(
        "schema",
        closed=True,
        schema={"type": "string", "default": "openab.turn.v1"},
        messages={
            "type": "array",
            "default": [],
            "maxItems": 4,
            "items": _table(
                "id text",
                closed=True,
                id={"type": "string", "pattern": r"\S"},
                text={"type": "string", "pattern": r"\S", "maxLength": 1200},
            ),
        },
        next=_NEXT,
    ),
)
