"""The keys that all channel sections share, and the policy they make (agent.md 14, turn-kernel.md 10.0)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from openab_kernel.facts.conversation import DmScope
from openab_kernel.facts.policy import (
    AccessPolicy,
    AllowBots,
    BatchPolicy,
    ChannelPolicy,
    DispatchMode,
    DmPolicy,
    GroupPolicy,
)

EVERYONE = "*"

ALLOW_BOTS: dict[str, AllowBots] = {
    "off": "off",
    "none": "off",
    "false": "off",
    "mentions": "mentions",
    "all": "all",
    "true": "all",
}

ID_LISTS = ("allowed_channels", "allowed_users", "group_allow_from", "trusted_bot_ids")


class ChannelSection(BaseModel):
    """What an operator may write in any channel's section. Whoever is not named is not admitted.

    A channel extends it with keys of its own. An id is compared exactly; a blank one is nobody.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow_all_channels: bool | None = Field(default=None, description="every channel, or with false only those listed")
    allow_all_users: bool | None = Field(default=None, description="everyone, or with false only those listed")
    dm_policy: DmPolicy | None = Field(
        default=None, description="who may write directly; unset: as allow_all_users says"
    )
    group_policy: GroupPolicy | None = Field(default=None, description="who may write in groups; unset: the same")
    allowed_channels: tuple[str, ...] = Field(default=(), description="channel ids; none listed: every channel")
    allowed_users: tuple[str, ...] = Field(default=(), description="the platform's stable ids of users")
    group_allow_from: tuple[str, ...] | None = Field(default=None, description="in groups, instead of allowed_users")
    allow_bot_messages: AllowBots = Field(default="off", description="which messages of bots are heard")
    trusted_bot_ids: tuple[str, ...] = Field(default=(), description="if any are listed, no other bot is heard")
    require_mention: bool | None = Field(default=None, description="unset: in groups yes, in direct chats no")
    message_processing_mode: DispatchMode = Field(default="per-message", description="which messages share a turn")
    max_buffered_messages: int = Field(default=10, ge=1, le=1_000, description="the most messages in one turn")
    max_batch_tokens: int = Field(default=24_000, ge=1, description="the most tokens in one turn, as estimated")
    dm_scope: DmScope = Field(default="per-account-channel-peer", description="which direct chats share a session")
    debounce_ms: int = Field(default=0, ge=0, le=60_000, description="the wait for more of the same sender")
    history_limit: int = Field(default=50, ge=0, le=1_000, description="messages that are kept as context")
    context_visibility: Literal["all", "allowlist", "allowlist_quote"] = Field(
        default="all", description="whose quotes, forwards and threads the agent sees"
    )
    max_bot_turns: int = Field(default=100, ge=1, description="messages of bots in a row, before they are dropped")
    reply_to_mode: Literal["off", "first", "all", "batched"] | None = Field(
        default=None, description="which parts of an answer show the message they reply to"
    )
    preview: Literal["off", "partial", "block", "progress"] | None = Field(
        default=None, description="what is shown while an answer grows"
    )
    api_base_url: str | None = Field(default=None, description="the platform's HTTP API")
    gateway_url: str | None = Field(default=None, description="the platform's event socket")

    @field_validator("allow_bot_messages", mode="before")
    @classmethod
    def _read_allow_bots(cls, value: Any) -> Any:
        return ALLOW_BOTS.get(str(value).lower(), value) if isinstance(value, str | bool) else value

    @field_validator("message_processing_mode", mode="before")
    @classmethod
    def _read_mode(cls, value: Any) -> Any:
        return value.lower().replace("_", "-") if isinstance(value, str) else value

    @field_validator("api_base_url", "gateway_url")
    @classmethod
    def _check_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        schemes = ("https://", "http://") if info.field_name == "api_base_url" else ("wss://", "ws://")
        if value is not None and not value.startswith(schemes):
            raise ValueError(f"a URL that begins with {' or '.join(schemes)}")
        return value

    @field_validator("dm_policy", "group_policy")
    @classmethod
    def _agree_with_all_users(cls, policy: str | None, info: ValidationInfo) -> str | None:
        everyone = info.data.get("allow_all_users")
        if policy is not None and everyone is not None and everyone != (policy == "open"):
            raise ValueError(f"contradicts allow_all_users = {_toml(everyone)}; take one of the two out")
        return policy

    @field_validator("group_policy")
    @classmethod
    def _agree_with_all_channels(cls, policy: str | None, info: ValidationInfo) -> str | None:
        if policy == "disabled" and info.data.get("allow_all_channels"):
            raise ValueError("contradicts allow_all_channels = true; take one of the two out")
        return policy

    @field_validator("group_allow_from")
    @classmethod
    def _agree_with_open_groups(cls, ids: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        if ids is not None and (info.data.get("allow_all_users") or info.data.get("group_policy") == "open"):
            raise ValueError("narrows groups that are open to everyone; take the list or the opening out")
        return ids

    @field_validator(*ID_LISTS)
    @classmethod
    def _read_ids(cls, ids: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        """No id begins or ends with a space. `*` is a word of `dm_policy = "open"` alone; anywhere else it would not
        do what it seems to."""
        if ids is None:
            return None
        ids = tuple(map(str.strip, ids))
        meant = info.field_name == "allowed_users" and info.data.get("dm_policy") == "open"
        if EVERYONE in ids and not meant:
            raise ValueError(f'"*" is no id; {_ADMIT_ALL[info.field_name or ""]}')
        return ids

    def policy(self, agent_id: str = "main") -> ChannelPolicy:
        """What the kernel needs to know of this section."""
        return ChannelPolicy(
            agent_id=agent_id,
            dm_scope=self.dm_scope,
            access=self._access(),
            batch=BatchPolicy(
                mode=self.message_processing_mode,
                max_buffered_messages=self.max_buffered_messages,
                max_batch_tokens=self.max_batch_tokens,
            ),
            debounce_ms=self.debounce_ms,
            history_limit=self.history_limit,
        )

    def blank_ids(self) -> tuple[str, ...]:
        """The lists with a blank id in them: most likely a variable was empty."""
        return tuple(key for key in ID_LISTS if not all(getattr(self, key) or ()))

    def _access(self) -> AccessPolicy:
        usual: GroupPolicy = "open" if self.allow_all_users else "allowlist"
        users = _real(self.allowed_users)
        group = users - {EVERYONE} if self.group_allow_from is None else _real(self.group_allow_from)
        return AccessPolicy(
            dm_policy=self.dm_policy or usual,
            allow_from=users | {EVERYONE} if self.allow_all_users else users,
            group_policy=self.group_policy or usual,
            group_allow_from=group,
            allowed_channels=self._channels(),
            allow_bots=self.allow_bot_messages,
            # A list of blanks alone stays as it is: an empty one would trust every bot.
            trusted_bot_ids=_real(self.trusted_bot_ids) or frozenset(self.trusted_bot_ids),
            require_mention=self.require_mention,
        )

    def _channels(self) -> frozenset[str] | None:
        """None is every channel. A list of blanks alone was meant to name some, so it names none."""
        if self.allow_all_channels or (self.allow_all_channels is None and not self.allowed_channels):
            return None
        return _real(self.allowed_channels)


def admits_nobody(access: AccessPolicy) -> bool:
    """Is there no person who could start a turn? Start-up then warns, `access.nobody_admitted`."""
    direct = access.dm_policy == "pairing" or (access.dm_policy != "disabled" and access.allow_from)
    group = access.group_policy == "open" or (access.group_policy == "allowlist" and access.group_allow_from)
    return not direct and not (group and access.allowed_channels != frozenset())


_ADMIT_ALL = {
    "allowed_channels": "leave the list out, or write allow_all_channels = true, for every channel",
    "allowed_users": "write allow_all_users = true to admit everyone",
    "group_allow_from": 'write group_policy = "open" to admit everyone in groups',
    "trusted_bot_ids": "leave the list out to trust every bot that allow_bot_messages lets in",
}


def _real(ids: tuple[str, ...]) -> frozenset[str]:
    return frozenset(filter(None, ids))


def _toml(value: bool) -> str:
    return "true" if value else "false"
