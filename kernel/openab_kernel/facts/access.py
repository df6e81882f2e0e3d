"""What is known about the right to be heard (turn-kernel.md 6.5)."""

from __future__ import annotations

from typing import Any, Literal

from openab_kernel.facts.base import Facts

ImplicitMentionKind = Literal["reply_to_bot", "quoted_bot", "bot_thread_participant", "native"]


class AccessGroups(Facts):
    """Which named groups an allow list referred to, and what became of them."""

    referenced: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Allowlist(Facts):
    """Diagnostics of one list. Entry ids are opaque: raw values never leave the policy."""

    configured: bool = False
    matched: bool = False
    reason_code: str | None = None
    matched_entry_ids: tuple[str, ...] = ()
    invalid_entry_count: int = 0
    disabled_entry_count: int = 0
    access_groups: AccessGroups = AccessGroups()


class DmAccess(Facts):
    """The result for direct chats."""

    decision: Literal["allow", "pairing", "deny"]
    reason: str | None = None
    allowlist: Allowlist | None = None
    allow_from: tuple[str, ...] = ()


class GroupAccess(Facts):
    """The result for groups and rooms."""

    policy: Literal["open", "allowlist", "disabled"]
    route_allowed: bool
    sender_allowed: bool
    require_mention: bool
    allowlist: Allowlist | None = None
    allow_from: tuple[str, ...] = ()


class CommandAuthorizer(Facts):
    """Deprecated input of the command gate."""

    configured: bool
    allowed: bool


class CommandAccess(Facts):
    """May the sender run commands? `authorized` is final when set."""

    authorized: bool | None = None
    should_block_control_command: bool | None = None
    reason_code: str | None = None
    use_access_groups: bool = True
    allow_text_commands: bool = True
    mode_when_access_groups_off: Literal["allow", "deny", "configured"] | None = None
    authorizers: tuple[CommandAuthorizer, ...] = ()


class EventAccess(Facts):
    """How an event other than a typed message proves its right."""

    kind: Literal["message", "reaction", "button", "postback", "native-command", "slash-command", "system"]
    auth_mode: Literal["inbound", "command", "origin-subject", "route-only", "none"] = "inbound"
    may_pair: bool = False
    authorized: bool | None = None
    reason_code: str | None = None
    has_origin_subject: bool = False
    origin_subject_matched: bool = False


class MentionFacts(Facts):
    """Was the bot spoken to? `has_any_mention`: somebody was."""

    can_detect_mention: bool
    was_mentioned: bool
    has_any_mention: bool | None = None
    implicit_mention_kinds: tuple[ImplicitMentionKind, ...] = ()
    require_mention: bool | None = None
    effective_was_mentioned: bool | None = None
    should_skip: bool | None = None
    explicitly_mentioned_bot: bool | None = None
    mentioned_user_ids: tuple[str, ...] | None = None
    mentioned_subteam_ids: tuple[str, ...] | None = None
    mention_source: str | None = None


class AccessFacts(Facts):
    """What the channel knows is used as it is; the kernel fills the rest from the operator's lists."""

    dm: DmAccess | None = None
    group: GroupAccess | None = None
    commands: CommandAccess | None = None
    event: EventAccess | None = None
    mentions: MentionFacts | None = None
    tool_policy: dict[str, Any] | None = None
