"""turn-kernel.md 15, row 15: the context, a case for each row of section 7."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from openab_kernel.facts.access import AccessFacts, CommandAccess, GroupAccess, MentionFacts
from openab_kernel.facts.context import FINALIZED, CommandTurn, FinalizedMsgContext
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import CommandFacts, SenderFacts
from openab_kernel.facts.message import (
    ForwardedFacts,
    HistoryEntry,
    InboundMediaFacts,
    MessageFacts,
    QuoteFacts,
    StructuredContext,
    SupplementalContextFacts,
    ThreadFacts,
)
from openab_kernel.stages.assemble import ContextFacts, build_context

BARE = ContextFacts(
    channel="line",
    message_id="m1",
    from_="U1",
    conversation=ConversationFacts(kind="direct", id="C1"),
    sender=SenderFacts(id="U1"),
    route=RouteFacts(agent_id="main", route_session_key="rk"),
    reply=ReplyPlanFacts(to="C1"),
    message=MessageFacts(raw_body="raw"),
)
OPEN_GROUP = GroupAccess(policy="open", route_allowed=True, sender_allowed=True, require_mention=False)
HISTORY = (HistoryEntry(sender="a", body="b"),)


def built(**changes: Any) -> FinalizedMsgContext:
    return build_context(replace(BARE, **changes))


def message(**fields: Any) -> dict[str, Any]:
    return {"message": MessageFacts(raw_body="raw", **fields)}


def route(**fields: Any) -> dict[str, Any]:
    return {"route": RouteFacts(agent_id="main", route_session_key="rk", **fields)}


def reply(**fields: Any) -> dict[str, Any]:
    return {"reply": ReplyPlanFacts(to="C1", **fields)}


def chat(kind: Any = "group", **fields: Any) -> dict[str, Any]:
    return {"conversation": ConversationFacts(kind=kind, id="C1", **fields)}


def sender(**fields: Any) -> dict[str, Any]:
    return {"sender": SenderFacts(**fields)}


def around(**fields: Any) -> dict[str, Any]:
    return {"supplemental": SupplementalContextFacts(**fields)}


def mentions(**fields: Any) -> dict[str, Any]:
    values = {"can_detect_mention": True, "was_mentioned": False, **fields}
    return {"access": AccessFacts(mentions=MentionFacts.model_validate(values))}


QUOTE = QuoteFacts(id="q", full_id="qf", body="said", sender="ann", is_quote=True)
FORWARDED = ForwardedFacts.model_validate({"from": "bob", "from_type": "user", "from_id": "U9", "date": 5})
THREAD = ThreadFacts(
    starter_body="start", history_body="then", label="T", parent_session_key="p", model_parent_session_key="mp"
)

ROWS: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "raw_body", "raw"),
    ({}, "body", "raw"),
    (message(body="b"), "body", "b"),
    ({}, "body_for_agent", "raw"),
    (message(body_for_agent="a"), "body_for_agent", "a"),
    (message(body="b"), "body_for_agent", "raw"),
    ({}, "command_body", "raw"),
    (message(command_body="/x"), "command_body", "/x"),
    ({}, "body_for_commands", "raw"),
    (message(command_body="/x"), "body_for_commands", "/x"),
    ({}, "inbound_history", None),
    (message(inbound_history=HISTORY), "inbound_history", HISTORY),
    ({}, "from_", "U1"),
    ({}, "to", "C1"),
    ({}, "session_key", "rk"),
    (route(dispatch_session_key="dk"), "session_key", "dk"),
    ({}, "agent_id", "main"),
    (route(dm_scope="main"), "dm_scope", "main"),
    (route(parent_session_key="p"), "parent_session_key", "p"),
    (route(model_parent_session_key="p"), "model_parent_session_key", "p"),
    ({}, "account_id", None),
    ({"account_id": "a"}, "account_id", "a"),
    ({**route(account_id="r"), "account_id": "a"}, "account_id", "r"),
    ({}, "message_sid", "m1"),
    ({"message_id_full": "full"}, "message_sid_full", "full"),
    (reply(reply_to_id="r"), "reply_to_id", "r"),
    (around(quote=QUOTE), "reply_to_id", "q"),
    ({**reply(reply_to_id="r"), **around(quote=QUOTE)}, "reply_to_id", "r"),
    (reply(reply_to_id_full="rf"), "reply_to_id_full", "rf"),
    (around(quote=QUOTE), "reply_to_id_full", "qf"),
    (around(quote=QUOTE), "reply_to_body", "said"),
    (around(quote=QUOTE), "reply_to_sender", "ann"),
    (around(quote=QUOTE), "reply_to_is_quote", True),
    (around(forwarded=FORWARDED), "forwarded_from", "bob"),
    (around(forwarded=FORWARDED), "forwarded_from_type", "user"),
    (around(forwarded=FORWARDED), "forwarded_from_id", "U9"),
    (around(forwarded=FORWARDED), "forwarded_date", 5),
    (around(thread=THREAD), "thread_starter_body", "start"),
    (around(thread=THREAD), "thread_history_body", "then"),
    (around(thread=THREAD), "thread_label", "T"),
    (around(thread=THREAD), "parent_session_key", "p"),
    (around(thread=THREAD), "model_parent_session_key", "mp"),
    ({**around(thread=THREAD), **route(parent_session_key="own")}, "parent_session_key", "own"),
    ({**around(thread=THREAD), **route(model_parent_session_key="own")}, "model_parent_session_key", "own"),
    (around(group_system_prompt="be kind"), "group_system_prompt", "be kind"),
    (around(untrusted_group_system_prompt="obey"), "group_system_prompt", None),
    ({}, "chat_type", "direct"),
    (chat("channel"), "chat_type", "channel"),
    ({}, "chat_id", "C1"),
    (chat(label="Team"), "conversation_label", "Team"),
    (chat(), "conversation_label", "C1"),
    ({}, "conversation_label", "U1"),
    (sender(id="U1", name="Ann"), "conversation_label", "Ann"),
    (sender(id="U1", username="ann"), "conversation_label", "ann"),
    (sender(id="U1", name="Ann", display_label="Ann L."), "conversation_label", "Ann L."),
    (sender(), "conversation_label", "C1"),
    (chat(label="Team"), "group_subject", "Team"),
    (chat("direct", label="Ann"), "group_subject", None),
    (chat(space_id="W1"), "group_space", "W1"),
    (sender(name="Ann", display_label="L"), "sender_name", "Ann"),
    (sender(display_label="L"), "sender_name", "L"),
    (sender(id="U1"), "sender_id", "U1"),
    (sender(username="ann"), "sender_username", "ann"),
    (sender(tag="0001"), "sender_tag", "0001"),
    (sender(is_bot=True), "sender_is_bot", True),
    (sender(roles=("r1",)), "member_role_ids", ("r1",)),
    (sender(is_self=True), "sender_is_self", True),
    (sender(is_self=False), "sender_is_self", None),
    ({"timestamp": 7}, "timestamp", 7),
    ({"channel_context": {"a": 1}}, "channel_context", {"a": 1}),
    ({}, "provider", "line"),
    ({"provider": "p"}, "provider", "p"),
    ({}, "surface", "line"),
    ({"provider": "p"}, "surface", "p"),
    ({"provider": "p", "surface": "s"}, "surface", "s"),
    (mentions(was_mentioned=True), "was_mentioned", True),
    (mentions(effective_was_mentioned=True), "was_mentioned", True),
    (mentions(require_mention=True), "group_require_mention", True),
    (
        {"access": AccessFacts(group=OPEN_GROUP)},
        "group_require_mention",
        False,
    ),
    (mentions(explicitly_mentioned_bot=True), "explicitly_mentioned_bot", True),
    (mentions(mentioned_user_ids=["U2"]), "mentioned_user_ids", ("U2",)),
    (mentions(implicit_mention_kinds=["native"]), "implicit_mention_kinds", ("native",)),
    ({}, "command_authorized", False),
    ({"access": AccessFacts(commands=CommandAccess(authorized=True))}, "command_authorized", True),
    ({"access": AccessFacts(commands=CommandAccess(authorized=None))}, "command_authorized", False),
    ({}, "command_turn", CommandTurn(source="message", kind="normal", authorized=False)),
    (
        {"command": CommandFacts(kind="normal", authorized=True)},
        "command_turn",
        CommandTurn(source="message", kind="normal", authorized=False),
    ),
    (
        {"command": CommandFacts(kind="native", name="ask", body="b", authorized=True)},
        "command_turn",
        CommandTurn(source="native", kind="native", authorized=True, name="ask", body="b"),
    ),
    (
        {"command": CommandFacts(kind="text"), "command_authorized": True},
        "command_turn",
        CommandTurn(source="text", kind="text", authorized=True),
    ),
    ({}, "message_thread_id", None),
    (chat(thread_id="t"), "message_thread_id", "t"),
    ({**chat(thread_id="t"), **reply(message_thread_id=9)}, "message_thread_id", 9),
    (chat(native_channel_id="n"), "native_channel_id", "n"),
    ({**chat(native_channel_id="n"), **reply(native_channel_id="r")}, "native_channel_id", "r"),
    (chat(parent_id="p"), "thread_parent_id", "p"),
    ({**chat(parent_id="p"), **reply(thread_parent_id="r")}, "thread_parent_id", "r"),
    ({}, "originating_channel", "line"),
    ({}, "originating_to", "C1"),
    (reply(originating_to="O"), "originating_to", "O"),
    ({"proactive": True}, "proactive", True),
    ({"extra": {"mood": "good"}}, "mood", "good"),
    ({"extra": {"body": "given"}}, "body", "given"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "value"), ROWS)
def test_a_field_of_the_context_comes_from_its_source(changes: dict[str, Any], field: str, value: Any) -> None:
    """turn-kernel 15.15"""
    assert getattr(built(**changes), field) == value


def test_untrusted_prompt_of_a_group_is_context_and_never_a_system_prompt() -> None:
    """turn-kernel 15.15"""
    given = StructuredContext(label="menu", payload=[1])
    found = built(**around(untrusted_group_system_prompt="obey", channel_structured_context=(given,)))
    assert [(piece.label, piece.payload) for piece in found.structured_context] == [
        ("menu", [1]),
        ("group_prompt_context", "obey"),
    ]


def test_media_keep_their_positions_and_get_a_type() -> None:
    """turn-kernel 15.15"""
    media = (
        InboundMediaFacts(),
        InboundMediaFacts(path="/a", content_type="image/png", kind="image", transcribed=True),
        InboundMediaFacts(url="https://x/b"),
    )
    found = built(media=media)
    assert found.media == media
    assert found.media_paths == (None, "/a", None)
    assert found.media_urls == (None, None, "https://x/b")
    assert found.media_types == (None, "image/png", "application/octet-stream")
    assert found.media_transcribed_indexes == (1,)
    assert (found.media_path, found.media_url, found.media_type) == (None, None, None)


def test_first_attachment_is_the_single_one() -> None:
    """turn-kernel 15.15"""
    found = built(media=(InboundMediaFacts(path="/a"),))
    assert (found.media_path, found.media_type) == ("/a", "application/octet-stream")


def test_line_ends_of_windows_become_line_feeds() -> None:
    """turn-kernel 15.15"""
    found = built(
        message=MessageFacts(raw_body="a\r\nb", body="c\r\nd", body_for_agent="e\r\nf", command_body="g\r\nh"),
        **around(quote=QuoteFacts(body="i\r\nj"), thread=ThreadFacts(starter_body="k\r\nl", history_body="m\r\nn")),
    )
    texts = (found.raw_body, found.body, found.body_for_agent, found.command_body, found.reply_to_body)
    assert texts == ("a\nb", "c\nd", "e\nf", "g\nh", "i\nj")
    assert (found.thread_starter_body, found.thread_history_body) == ("k\nl", "m\nn")


PROTECTED = """
from from_ to session_key agent_id dm_scope account_id parent_session_key model_parent_session_key provider surface
chat_type chat_id chat_anything originating_channel originating_to native_channel_id message_thread_id thread_parent_id
sender_id sender_name sender_anything member_role_ids was_mentioned group_require_mention explicitly_mentioned_bot
mentioned_user_ids implicit_mention_kinds command_authorized command_turn command_body group_system_prompt finalized
"""


@pytest.mark.parametrize("key", PROTECTED.split())
def test_extra_that_names_a_field_of_authority_is_refused_by_name(key: str) -> None:
    """turn-kernel 15.15"""
    with pytest.raises(ValueError, match=f"extra: {key} is"):
        built(extra={key: "x"})


def test_context_is_marked_frozen_and_survives_json() -> None:
    """turn-kernel 15.15"""
    found = built(extra={"mood": "good"}, **around(quote=QUOTE), media=(InboundMediaFacts(path="/a"),))
    assert found.finalized == FINALIZED
    with pytest.raises(ValidationError, match="frozen"):
        found.body = "other"
    again = FinalizedMsgContext.model_validate_json(found.model_dump_json(by_alias=True, exclude_none=True))
    assert again == found


def test_context_without_the_marker_is_refused() -> None:
    """turn-kernel 15.15"""
    values = built().model_dump()
    del values["finalized"]
    with pytest.raises(ValidationError, match="finalized"):
        FinalizedMsgContext.model_validate(values)
