"""What the operator decided, as values that policies read. Defaults are closed (turn-kernel.md 10.0)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from openab_kernel.facts.base import Facts
from openab_kernel.facts.conversation import DmScope

DmPolicy = Literal["disabled", "open", "allowlist", "pairing"]
GroupPolicy = Literal["disabled", "open", "allowlist"]
AllowBots = Literal["off", "mentions", "all"]
DispatchMode = Literal["per-message", "per-thread", "per-lane"]


class AccessPolicy(Facts):
    """Who may start a turn. Ids are compared exactly. `allowed_channels` None: every channel."""

    dm_policy: DmPolicy = "allowlist"
    allow_from: frozenset[str] = frozenset()
    group_policy: GroupPolicy = "allowlist"
    group_allow_from: frozenset[str] = frozenset()
    allowed_channels: frozenset[str] | None = None
    allow_bots: AllowBots = "off"
    trusted_bot_ids: frozenset[str] = frozenset()
    require_mention: bool | None = None
    observe_only: bool = False


class BatchPolicy(Facts):
    """How many waiting messages one turn takes, and of whom (agent.md 7)."""

    mode: DispatchMode = "per-message"
    max_buffered_messages: int = Field(default=10, ge=1)
    max_batch_tokens: int = Field(default=24_000, ge=1)


class ChannelPolicy(Facts):
    """All that the kernel needs to know of one channel account's configuration."""

    agent_id: str = "main"
    dm_scope: DmScope = "per-account-channel-peer"
    access: AccessPolicy = AccessPolicy()
    batch: BatchPolicy = BatchPolicy()
    debounce_ms: int = Field(default=0, ge=0)
    history_limit: int = Field(default=50, ge=0)
    tombstones: int = Field(default=20_000, ge=1)
