"""The wire formats between a gateway and the kernel (delivery.md 2.4-2.6). Pure: text in, models out, and back.

What comes in is checked strictly: a string is no number, null is no boolean. Fields nobody knows do no harm. A refusal
names a reason and the path of a field, never what was in the frame.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openab_kernel.facts.outbound import TextLimit

PROTOCOL_VERSION = 1

DEFAULT_LIMIT = TextLimit(size=4096)
UNLIMITED = TextLimit(size=1_000_000)
SMALLEST_LIMIT = 16
"""Below this a cut code fence could not be repaired."""

READABLE_CODE = re.compile(r"[\w.:-]{1,64}", re.ASCII)

Reason = Literal["binary", "not_json", "not_object", "schema", "missing", "wrong_type", "bad_value", "version"]


class FrameRefused(Exception):
    """A frame that is not understood. `field` is the path of what is wrong, `""` for the frame as a whole."""

    def __init__(self, reason: Reason, field: str = "") -> None:
        super().__init__(f"{reason} {field}".rstrip())
        self.reason = reason
        self.field = field


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", populate_by_name=True)


class EventChannel(_Frame):
    """Where a message was written. `type` is the gateway's word: dm, private, group, supergroup and others."""

    id: str
    type: str
    thread_id: str | None = None


class EventSender(_Frame):
    """Who wrote it."""

    id: str
    name: str
    display_name: str
    is_bot: bool


class Attachment(_Frame):
    """A file, by local path or inline in base64. `status`: it was refused, and the agent reads this instead."""

    type: str
    filename: str
    mime_type: str
    size: int = Field(ge=0)
    data: str = Field(default="", repr=False)
    path: str | None = None
    status: str | None = None


class EventContent(_Frame):
    """What was written."""

    type: str
    text: str = Field(repr=False)
    attachments: Annotated[tuple[Attachment, ...], Field(strict=False)] = ()


class EventFrame(_Frame):
    """One event of a platform."""

    event_id: str
    timestamp: str
    platform: str
    message_id: str
    channel: EventChannel
    sender: EventSender
    content: EventContent
    mentions: Annotated[tuple[str, ...], Field(strict=False)] = ()
    proactive: bool = False


class ResponseFrame(_Frame):
    """What became of a request. `outcome` decides where it is given, else `success`."""

    request_id: str
    success: bool
    thread_id: str | None = None
    message_id: str | None = None
    error: str | None = Field(default=None, repr=False)
    outcome: Literal["delivered", "rejected", "unknown"] | None = None
    error_code: str | None = None
    retry_after_ms: int | None = Field(default=None, ge=0)

    @property
    def verdict(self) -> Literal["delivered", "rejected", "unknown"]:
        return self.outcome or ("delivered" if self.success else "rejected")

    @property
    def code(self) -> str:
        """A reason that may be logged: the peer's own, if it looks like one."""
        code = self.error_code or ""
        return code if READABLE_CODE.fullmatch(code) else self.verdict


class MessageLimit(_Frame):
    """The most that one message may hold. A unit nobody knows is read as bytes: no text has more of anything."""

    unit: str
    max: int | None = Field(default=None, ge=SMALLEST_LIMIT)

    def text_limit(self) -> TextLimit:
        if self.unit == "unlimited":
            return UNLIMITED
        if self.max is None:
            return DEFAULT_LIMIT
        match self.unit:
            case "characters":
                return TextLimit(size=self.max)
            case "utf16_bytes":
                return TextLimit(size=max(self.max // 2, SMALLEST_LIMIT), unit="utf16")
            case _:
                return TextLimit(size=self.max, unit="bytes")


class PlatformAbilities(_Frame):
    """What a peer says it can do on one platform. What it does not say, it cannot do."""

    send_ack: bool = False
    drops_repeats: bool = False
    edit_ack: bool = False
    delete_ack: bool = False
    supports_target_message_id: bool = False
    supports_reactions: bool = False
    can_edit: bool = False
    can_delete: bool = False
    streaming_mode: str = "disabled"
    message_limit: MessageLimit | None = None
    status_backend: str = "none"


class HelloFrame(_Frame):
    """The peer's answer to our hello, or a hello of its own accord."""

    protocol_version: int
    capabilities: dict[str, PlatformAbilities] = {}


class ReplyChannel(_Frame):
    id: str
    thread_id: str | None = None


class ReplyContent(_Frame):
    type: Literal["text"] = "text"
    text: str = Field(repr=False)


Command = Literal["edit_message", "delete_message", "add_reaction", "remove_reaction", "create_topic"]


class Reply(_Frame):
    """One message to the gateway. The order of the fields is the order on the wire; None is left out."""

    schema_: Literal["openab.gateway.reply.v1"] = Field(default="openab.gateway.reply.v1", alias="schema")
    reply_to: str
    platform: str
    channel: ReplyChannel
    content: ReplyContent
    command: Command | None = None
    request_id: str | None = None
    quote_message_id: str | None = None
    target_message_id: str | None = None


def decode_frame(frame: str | bytes) -> EventFrame | ResponseFrame | HelloFrame:
    """Read one frame of the gateway; bytes are a binary frame, which the protocol does not have.

    Raises:
        FrameRefused: it is none of the three.
    """
    if isinstance(frame, bytes):
        raise FrameRefused("binary")
    try:
        value = _read_json(frame)
    except (ValueError, RecursionError):
        raise FrameRefused("not_json") from None
    if not isinstance(value, dict):
        raise FrameRefused("not_object")
    if "schema" not in value:
        raise FrameRefused("missing", "schema")
    try:
        match value["schema"]:
            case "openab.gateway.event.v1":
                return EventFrame.model_validate(value)
            case "openab.gateway.response.v1":
                return ResponseFrame.model_validate(value)
            case "openab.gateway.hello.v1":
                return _known_version(HelloFrame.model_validate(value))
    except ValidationError as error:
        raise _refusal(error) from None
    raise FrameRefused("schema" if isinstance(value["schema"], str) else "wrong_type", "schema")


def _known_version(hello: HelloFrame) -> HelloFrame:
    if hello.protocol_version != PROTOCOL_VERSION:
        raise FrameRefused("version", "protocol_version")
    return hello


def _refusal(error: ValidationError) -> FrameRefused:
    """The first fault. A platform's name is the peer's own text, so its place in the path is a star."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    if path[0] == "capabilities" and len(path) > 1:
        path[1] = "*"
    kind = first["type"]
    reason: Reason = "missing" if kind == "missing" else "wrong_type" if kind.endswith("_type") else "bad_value"
    return FrameRefused(reason, ".".join(path))


def _read_json(frame: str) -> Any:
    """Halves of surrogate pairs become U+FFFD: they are JSON, though no text; JavaScript cuts strings between them."""
    try:
        return orjson.loads(frame)
    except orjson.JSONDecodeError:
        if "\\ud" not in frame.lower():
            raise
    text = json.dumps(json.loads(frame), ensure_ascii=False)
    return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def encode_reply(reply: Reply) -> str:
    return orjson.dumps(reply.model_dump(by_alias=True, exclude_none=True)).decode()


def encode_client_hello(version: str) -> str:
    hello = {
        "schema": "openab.gateway.client_hello.v1",
        "protocol_version": PROTOCOL_VERSION,
        "client_name": f"openab-kernel/{version}",
        "requested_platforms": [],
    }
    return orjson.dumps(hello).decode()


def request_id_of(idempotency_key: str) -> str:
    """The same part asks under the same id at every attempt. The key is a SHA-256 in hex."""
    return f"req_{UUID(idempotency_key[:32])}"


def scoped_id(*parts: str) -> str:
    """Join ids of different namespaces so that no two lists of parts give the same text."""
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def platform_of(conversation_id: str) -> str | None:
    """The platform in front of a conversation id that `scoped_id` made; None: it was made otherwise."""
    platform, colon, _ = conversation_id.partition(":")
    return platform.replace("%3A", ":").replace("%25", "%") if colon else None
