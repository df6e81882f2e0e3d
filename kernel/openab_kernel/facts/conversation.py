"""Where a message came from, which session it goes to, and where the answer goes (turn-kernel.md 6.2-6.4, 9.1)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from openab_kernel.facts.base import Facts

ChatKind = Literal["direct", "group", "channel"]
DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
ReplyMode = Literal["thread", "reply", "channel", "direct", "none"]


class RoutePeer(Facts):
    """The peer used to look up the route, where it is not the conversation itself."""

    kind: ChatKind
    id: str


class ConversationFacts(Facts):
    """Where from. `space_id` is the workspace, guild or homeserver; `parent_id` the outer chat of a thread."""

    kind: ChatKind
    id: str
    label: str | None = None
    space_id: str | None = None
    parent_id: str | None = None
    thread_id: str | None = None
    native_channel_id: str | None = None
    avatar: str | None = None
    route_peer: RoutePeer | None = None


class SessionKey(NamedTuple):
    """Which memory of the agent a message belongs to.

    A tuple, because joined strings collide by prefix. Fields that do not count for a key are None. `str()` gives the
    form that people see, with the ids percent-encoded; it is never taken apart.
    """

    agent_id: str
    dm_scope: DmScope | None
    channel: str | None
    account_id: str | None
    kind: str
    peer_id: str | None
    thread_id: str | None = None
    thread_word: str = "thread"

    def __str__(self) -> str:
        if self.kind == "key":
            return self.peer_id or ""
        parts: list[str] = ["agent", self.agent_id]
        if self.dm_scope == "main":
            parts.append("main")
        else:
            parts += [part for part in (self.channel, self.account_id) if part is not None]
            parts += [self.kind, self.peer_id or ""]
        if self.thread_id is not None:
            parts += [self.thread_word, self.thread_id]
        return ":".join(_encoded(part) for part in parts)


def _encoded(part: str) -> str:
    """`:` and `%` percent-encoded, all else and the case kept."""
    return part.replace("%", "%25").replace(":", "%3A") if "%" in part or ":" in part else part


class RouteFacts(Facts):
    """Which agent and which session. The string keys are shown and stored; the kernel's own lanes use `session`.

    Where a routed plan leaves `route_session_key` blank, the kernel fills both.
    """

    agent_id: str = "main"
    route_session_key: str = ""
    session: SessionKey | None = None
    account_id: str | None = None
    dispatch_session_key: str | None = None
    persisted_session_key: str | None = None
    parent_session_key: str | None = None
    model_parent_session_key: str | None = None
    main_session_key: str | None = None
    create_if_missing: bool | None = None
    dm_scope: DmScope | None = None


class ReplyPlanFacts(Facts):
    """Where the answer goes. Frozen with the turn: a reply never uses the session's last route."""

    to: str
    originating_to: str | None = None
    native_channel_id: str | None = None
    reply_target: str | None = None
    delivery_target: str | None = None
    reply_to_id: str | None = None
    reply_to_id_full: str | None = None
    message_thread_id: str | int | None = None
    thread_parent_id: str | None = None
    source_reply_delivery_mode: ReplyMode | None = None
