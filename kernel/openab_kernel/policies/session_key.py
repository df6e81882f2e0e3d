"""Which session a conversation belongs to (turn-kernel.md 9.1)."""

from __future__ import annotations

from openab_kernel.facts.conversation import ConversationFacts, DmScope, SessionKey


def session_key(
    conversation: ConversationFacts, *, agent_id: str, channel: str, account_id: str | None, dm_scope: DmScope
) -> SessionKey:
    """The key of this conversation for one agent. Ids keep their case: on LINE two ids differ by it alone."""
    peer = conversation.route_peer.id if conversation.route_peer else conversation.id
    if conversation.kind == "direct":
        return _direct_key(peer, agent_id, channel, account_id, dm_scope, conversation.thread_id)
    return SessionKey(agent_id, None, channel, None, conversation.kind, peer, conversation.thread_id)


def _direct_key(
    peer: str, agent_id: str, channel: str, account_id: str | None, dm_scope: DmScope, thread_id: str | None
) -> SessionKey:
    match dm_scope:
        case "main":
            return SessionKey(agent_id, dm_scope, None, None, "direct", None, thread_id)
        case "per-peer":
            return SessionKey(agent_id, dm_scope, None, None, "direct", peer, thread_id)
        case "per-channel-peer":
            return SessionKey(agent_id, dm_scope, channel, None, "direct", peer, thread_id)
        case _:
            return SessionKey(agent_id, dm_scope, channel, account_id or "default", "direct", peer, thread_id)


def given_key(agent_id: str, shown: str) -> SessionKey:
    """The key of a turn whose channel names its session itself: it is shown just as it was given."""
    return SessionKey(agent_id, None, None, None, "key", shown)
