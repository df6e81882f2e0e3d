"""The names that a file written for OpenAB may hold. What this project has not is known by name, no more."""

from __future__ import annotations

from typing import Any, Final

LEAF: Final = None
"""A key with a value."""

FREE: Final = ()
"""A table whose keys are anybody's."""

Names = dict[str, Any]
"""Keys of a table, and what is below each: `LEAF`, `FREE`, `Names`, or a list with those of its tables."""


def _keys(text: str) -> Names:
    return dict.fromkeys(text.split(), LEAF)


SECTIONS: Final[Names] = {
    "discord": _keys(
        "allow_all_users allowed_users allow_all_channels allowed_channels allow_bot_messages "
        "trusted_bot_ids allow_user_messages max_bot_turns message_processing_mode "
        "max_buffered_messages max_batch_tokens bot_token allowed_role_ids allow_dm"
    ),
    "slack": _keys(
        "allow_all_users allowed_users allow_all_channels allowed_channels allow_bot_messages "
        "trusted_bot_ids allow_user_messages max_bot_turns message_processing_mode "
        "max_buffered_messages max_batch_tokens bot_token app_token assistant_mode streaming"
    ),
    "gateway": _keys(
        "allow_all_users allowed_users url platform token bot_username allow_all_channels "
        "allowed_channels allow_bot_messages trusted_bot_ids streaming streaming_placeholder "
        "telegram_rich_messages gateway_ack_timeout_secs message_processing_mode max_buffered_messages "
        "max_batch_tokens"
    ),
    "telegram": _keys(
        "webhook_path allow_all_users allowed_users bot_token secret_token trusted_source_only rich_messages streaming"
    ),
    "line": _keys("webhook_path allow_all_users allowed_users channel_secret channel_access_token"),
    "lineworks": _keys(
        "webhook_path allow_all_users allowed_users bot_id bot_secret client_id client_secret "
        "service_account private_key private_key_file require_mention bot_name rich_messages "
        "ack_message"
    ),
    "wecom": _keys(
        "webhook_path allow_all_users allowed_users corp_id secret token encoding_aes_key agent_id "
        "streaming_enabled debounce_secs"
    ),
    "googlechat": _keys(
        "webhook_path allow_all_users allowed_users enabled sa_key_json sa_key_file access_token audience"
    ),
    "teams": _keys(
        "webhook_path allow_all_users allowed_users app_id app_secret allowed_tenants oauth_endpoint "
        "openid_metadata dedupe_ttl_secs route_ttl_secs max_route_entries reactions_enabled "
        "processing_indicator streaming inbound_attachments conversation_registry_path "
        "conversation_registry_max_entries conversation_registry_ttl_secs allowed_teams "
        "allowed_channels allow_personal allow_group_chats"
    ),
    "feishu": _keys(
        "webhook_path allow_all_users allowed_users app_id app_secret verification_token encrypt_key "
        "domain connection_mode allowed_groups trusted_bot_ids require_mention allow_bots "
        "allow_user_messages max_bot_turns dedupe_ttl_secs message_limit session_ttl_hours "
        "card_streaming_mode card_fallback_to_post card_promote_bytes card_idle_finalize_ms"
    ),
    "agent": _keys("command args working_dir inherit_env") | {"env": FREE},
    "agentcore": _keys("runtime_arn shell_command cancel_strategy"),
    "mcp": _keys("listen tunnel_timeout_seconds") | {"acp_servers": [_keys("name tools")]},
    "pool": _keys(
        "max_sessions session_ttl_hours preload_persisted_sessions prompt_hard_timeout_secs "
        "liveness_check_secs hung_grace_secs"
    )
    | {"default_config_options": FREE},
    "hooks": {
        "pre_seed": _keys("sources target max_bytes timeout_seconds on_failure region endpoint_url"),
        "pre_boot": _keys("script inline url sha256 timeout_seconds on_failure"),
        "pre_shutdown": _keys("script inline url sha256 timeout_seconds on_failure"),
    },
    "secrets": {"refs": FREE, "aws": _keys("region endpoint_url"), "exec": _keys("timeout_seconds")},
    "reactions": _keys("enabled remove_after_reply tool_display narration_display")
    | {
        "emojis": _keys("queued thinking tool coding web done error"),
        "timing": _keys("debounce_ms stall_soft_ms stall_hard_ms done_hold_ms error_hold_ms"),
        "mapping": FREE,
    },
    "stt": _keys("enabled api_key model base_url echo_transcript"),
    "markdown": _keys("tables"),
    "workspace": {"aliases": FREE},
    "delivery": _keys("mode schema max_bubbles max_bubble_chars bubble_delay_ms on_parse_error parse_error_text"),
    "triage": _keys("enabled quiet_hours timezone cooldown_secs daily_cap dedupe_window_secs"),
    "ambient": _keys(
        "enabled flush_interval_seconds flush_max_messages flush_hard_cap max_concurrent_flushes "
        "flush_timeout_seconds context_window"
    )
    | {
        "pool": _keys("max_sessions session_ttl_minutes context_flushes"),
        "discord": _keys("channels allow_bot_messages"),
    },
    "filestore": _keys("bucket region endpoint prefix presigned_ttl max_file_size_mb access_key_id secret_access_key"),
    "cron": _keys("usercron_enabled usercron_path")
    | {"jobs": [_keys("enabled schedule channel message platform sender_name timezone thread_id")]},
}

CHANNELS: Final = frozenset(
    ("discord", "slack", "gateway", "telegram", "line", "lineworks", "wecom", "googlechat", "teams", "feishu")
)
"""Sections that make this service listen to a platform."""

VARIABLES: Final[dict[str, tuple[str, ...]]] = {
    "gateway": (
        "allow_all_channels",
        "allowed_channels",
        "allow_all_users",
        "allowed_users",
        "allow_bot_messages",
        "trusted_bot_ids",
        "bot_username",
    ),
    "line": tuple(SECTIONS["line"]),
}
"""Keys that a variable `<SECTION>_<KEY>` stands in for, where the section is there and leaves them open."""

LISTS: Final = frozenset(("allowed_channels", "allowed_users", "trusted_bot_ids"))
"""Keys whose variable is a list, separated by commas."""

ACCESS: Final = (
    frozenset(("allow_all_users", "allowed_users", "dm_policy", "group_policy", "group_allow_from")),
    frozenset(("allow_all_channels", "allowed_channels")),
    frozenset(("allow_bot_messages", "trusted_bot_ids")),
    frozenset(("require_mention",)),
)
"""Keys that are read together: whoever writes one of a group has written it, no other source adds to it."""

NARROWING: Final = frozenset(
    (
        "trusted_source_only",
        "allowed_tenants",
        "allowed_teams",
        "allow_personal",
        "allow_group_chats",
        "allowed_groups",
        "allow_bots",
        "allow_user_messages",
    )
)
"""Keys of platforms that admit less than the rest of their section says, and that this project has not."""
