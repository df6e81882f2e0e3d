"""turn-kernel.md 9.1 and agent.md, Words: which session a conversation belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.facts.conversation import ConversationFacts, DmScope, RoutePeer, SessionKey
from openab_kernel.policies.session_key import given_key, session_key


def key(
    conversation: ConversationFacts, scope: DmScope = "per-account-channel-peer", account: str | None = "acc"
) -> str:
    return str(session_key(conversation, agent_id="main", channel="line", account_id=account, dm_scope=scope))


@pytest.mark.parametrize(
    ("kind", "scope", "thread", "shown"),
    [
        ("direct", "main", None, "agent:main:main"),
        ("direct", "per-peer", None, "agent:main:direct:U1"),
        ("direct", "per-channel-peer", None, "agent:main:line:direct:U1"),
        ("direct", "per-account-channel-peer", None, "agent:main:line:acc:direct:U1"),
        ("group", "main", None, "agent:main:line:group:U1"),
        ("channel", "per-peer", None, "agent:main:line:channel:U1"),
        ("group", "per-peer", "T9", "agent:main:line:group:U1:thread:T9"),
        ("direct", "main", "T9", "agent:main:main:thread:T9"),
    ],
)
def test_key_follows_chat_and_scope(kind: str, scope: DmScope, thread: str | None, shown: str) -> None:
    """turn-kernel 15.17"""
    found = ConversationFacts.model_validate({"kind": kind, "id": "U1", "thread_id": thread})
    assert key(found, scope) == shown


def test_topic_is_shown_as_one() -> None:
    """turn-kernel 15.17"""
    topic = SessionKey("main", None, "telegram", None, "group", "-100", "7", "topic")
    assert str(topic) == "agent:main:telegram:group:-100:topic:7"


def test_case_of_ids_is_kept_and_separators_are_encoded() -> None:
    """turn-kernel 15.17"""
    assert key(ConversationFacts(kind="group", id="Cabc")) != key(ConversationFacts(kind="group", id="CABC"))
    assert key(ConversationFacts(kind="group", id="a:b%c")) == "agent:main:line:group:a%3Ab%25c"


def test_route_peer_stands_in_for_the_conversation() -> None:
    """turn-kernel 15.17"""
    chat = ConversationFacts(kind="direct", id="D77", route_peer=RoutePeer(kind="direct", id="U1"))
    assert key(chat) == "agent:main:line:acc:direct:U1"


def test_account_without_a_name_is_the_default_one() -> None:
    """turn-kernel 15.17"""
    assert key(ConversationFacts(kind="direct", id="U1"), account=None) == "agent:main:line:default:direct:U1"


def test_given_key_is_shown_as_it_was_given() -> None:
    """turn-kernel 15.17"""
    assert str(given_key("main", "agent:main:my:own")) == "agent:main:my:own"
    assert given_key("main", "x") != given_key("other", "x")


def test_keys_that_join_to_the_same_text_are_two() -> None:
    """agent 15.24"""
    one = ConversationFacts(kind="group", id="a", thread_id="b:c")
    two = ConversationFacts(kind="group", id="a:thread:b", thread_id="c")
    assert key(one) != key(two)


ids = st.text(alphabet="aA:%/x", min_size=1, max_size=4)
conversations = st.builds(
    ConversationFacts,
    kind=st.sampled_from(["direct", "group", "channel"]),
    id=ids,
    thread_id=st.none() | ids,
)
scopes = st.sampled_from(["main", "per-peer", "per-channel-peer", "per-account-channel-peer"])


@given(conversations, conversations, scopes, ids, ids)
def test_two_tuples_are_shown_alike_only_if_they_are_the_same(
    one: ConversationFacts, other: ConversationFacts, scope: DmScope, channel: str, account: str
) -> None:
    """agent 15.24"""
    first = session_key(one, agent_id="m", channel=channel, account_id=account, dm_scope=scope)
    second = session_key(other, agent_id="m", channel=channel, account_id=account, dm_scope=scope)
    assert (str(first) == str(second)) == (first == second)
