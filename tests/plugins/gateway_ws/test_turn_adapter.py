from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_gateway_ws.protocol import EventFrame, decode_frame
from openab_gateway_ws.settings import GatewaySettings
from openab_gateway_ws.turn_adapter import GatewayTurnAdapter, epoch_ms_of, mention_pattern
from openab_kernel.facts.access import MentionFacts
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts
from openab_kernel.facts.message import InboundMediaFacts
from openab_kernel.interfaces.channel import RoutedPlan
from tests.plugins.gateway_ws.fake_gateway import event

GROUP = {"channel__id": "-7", "channel__type": "group"}
FILE = {"type": "text_file", "filename": "a.txt", "mime_type": "text/plain", "size": 3}


def take(bot_username: str | None = None, **changes: Any) -> tuple[NormalizedTurnInput, RoutedPlan]:
    adapter = GatewayTurnAdapter(GatewaySettings(url="ws://h/", bot_username=bot_username))
    frame = decode_frame(json.dumps(event(**changes)))
    assert isinstance(frame, EventFrame)
    found = adapter.ingest(frame)
    return found, adapter.resolve_turn(found, ChannelEventClass(), PreflightFacts())


def mentions_of(bot_username: str | None = "my_bot", **changes: Any) -> MentionFacts:
    _, plan = take(bot_username, **changes)
    assert plan.access is not None
    assert plan.access.mentions is not None
    return plan.access.mentions


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({}, "telegram:42:7"),
        ({"message_id": ""}, "telegram:42:evt_1"),
        ({"channel__id": "a:b", "message_id": "c%"}, "telegram:a%3Ab:c%25"),
        ({"platform": ""}, ":42:7"),
    ],
)
def test_the_id_of_a_message_holds_platform_and_channel(changes: dict[str, Any], id: str) -> None:
    found, _ = take(**changes)
    assert (found.id, found.event_id) == (id, "evt_1")


def test_a_message_without_any_id_gets_one_that_equals_no_other() -> None:
    (one, plan), (other, _) = take(message_id="", event_id=""), take(message_id="", event_id="")
    assert one.id != other.id
    assert (one.event_id, plan.platform_message_id) == (None, None)


@pytest.mark.parametrize(
    ("timestamp", "epoch_ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01.5004+01:00", 1500),
        ("1970-01-01T00:00:01.123456789+00:00", 1123),
        ("1970-01-01T00:00:01", 1000),
        ("", None),
        ("yesterday", None),
        ("1782907200", None),
        ("1969-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_a_timestamp_that_is_none_gives_way_to_the_time_of_receipt(timestamp: str, epoch_ms: int | None) -> None:
    found, _ = take(timestamp=timestamp)
    assert found.timestamp == epoch_ms


@given(st.text() | st.datetimes(timezones=st.timezones()).map(str))
def test_no_timestamp_raises(timestamp: str) -> None:
    epoch_ms = epoch_ms_of(timestamp)
    assert epoch_ms is None or epoch_ms >= 0


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("dm", "direct"),
        ("private", "direct"),
        ("group", "group"),
        ("supergroup", "group"),
        ("forum", "channel"),
        ("DM", "channel"),
    ],
)
def test_the_kind_of_a_conversation(type: str, kind: str) -> None:
    _, plan = take(channel__type=type)
    assert plan.conversation.kind == kind


def test_conversation_reply_and_thread() -> None:
    _, plan = take(channel__id="a:b", channel__type="group", channel__thread_id="t1")
    conversation, reply = plan.conversation, plan.reply
    assert (conversation.id, conversation.native_channel_id, conversation.thread_id) == ("telegram:a%3Ab", "a:b", "t1")
    assert conversation.route_peer is None
    assert (reply.to, reply.native_channel_id, reply.message_thread_id) == ("a:b", "a:b", "t1")
    assert plan.platform_message_id == "7"


def test_a_blank_thread_is_none() -> None:
    _, plan = take(channel__thread_id="")
    assert plan.conversation.thread_id is None
    assert plan.reply.message_thread_id is None


def test_direct_chats_of_two_platforms_never_share_a_peer() -> None:
    def peer(**changes: Any) -> str:
        route_peer = take(**changes)[1].conversation.route_peer
        assert route_peer is not None
        assert route_peer.kind == "direct"
        return route_peer.id

    assert peer() == "42"
    assert peer(platform="line") == "line:42"
    assert peer(channel__id="line:42") != "line:42"


def test_sender_and_what_the_agent_is_told() -> None:
    found, plan = take(sender__is_bot=True, proactive=True)
    sender = plan.sender
    assert (sender.id, sender.name, sender.username, sender.is_bot, sender.is_self) == ("u1", "Ann", "ann", True, False)
    assert plan.channel_context == {
        "channel": "private",
        "channel_id": "42",
        "sender_name": "ann",
        "display_name": "Ann",
    }
    assert (found.raw_text, plan.message.raw_body, plan.message.body_for_agent) == ("hello", "hello", "hello")
    assert found.proactive


def test_an_empty_sender_id_is_nobody() -> None:
    _, plan = take(sender__id="")
    assert plan.sender.id is None


@pytest.mark.parametrize(
    ("name", "is_bot", "is_self"), [("My_Bot", True, True), ("my_bot", False, False), ("other", True, False)]
)
def test_a_bot_of_our_name_is_ourselves(name: str, is_bot: bool, is_self: bool) -> None:
    _, plan = take("my_bot", sender__name=name, sender__is_bot=is_bot)
    assert plan.sender.is_self == is_self


@pytest.mark.parametrize(
    ("text", "was_mentioned", "for_agent"),
    [
        ("@my_bot hi", True, "hi"),
        ("hi @My_Bot", True, "hi"),
        ("hi @my_bot there", True, "hi there"),
        ("@my_bot, hi", True, ", hi"),
        ("so, @my_bot.", True, "so, ."),
        ("你好@my_bot你好", True, "你好你好"),
        ("/status@my_bot now", True, "/status now"),
        ("/status@my_bot", True, "/status"),
        ("@my_bot /cancel", True, "/cancel"),
        ("@my_bot @my_bot hi", True, "hi"),
        ("@my_bot", True, ""),
        ("@my_bot2 hi", False, "@my_bot2 hi"),
        ("@my_bot.old hi", False, "@my_bot.old hi"),
        ("ann@my_bot hi", False, "ann@my_bot hi"),
        ("a/b@my_bot hi", False, "a/b@my_bot hi"),
        ("@@my_bot hi", False, "@@my_bot hi"),
        ("my_bot, are you there?", False, "my_bot, are you there?"),
        ("  hi  ", False, "  hi  "),
    ],
)
def test_a_mention_is_a_word_of_its_own_and_not_for_the_agent(text: str, was_mentioned: bool, for_agent: str) -> None:
    found, plan = take("my_bot", **GROUP, content__text=text)
    assert plan.access is not None
    assert plan.access.mentions is not None
    assert plan.access.mentions.was_mentioned == was_mentioned
    assert (found.text_for_agent, found.text_for_commands, found.raw_text) == (for_agent, for_agent, text)
    assert (plan.message.body_for_agent, plan.message.command_body) == (for_agent, for_agent)


@pytest.mark.parametrize(
    ("listed", "was_mentioned", "has_any"),
    [
        (["my_bot"], True, True),
        (["@MY_BOT"], True, True),
        (["ann"], False, True),
        (["my_bot2"], False, True),
        ([], False, False),
    ],
)
def test_a_mention_may_be_listed_beside_the_text(listed: list[str], was_mentioned: bool, has_any: bool) -> None:
    mentions = mentions_of(**GROUP, mentions=listed)
    assert (mentions.was_mentioned, mentions.has_any_mention) == (was_mentioned, has_any)
    assert mentions.explicitly_mentioned_bot == was_mentioned


@pytest.mark.parametrize(
    ("changes", "is_required"),
    [
        (GROUP, True),
        ({"channel__type": "supergroup"}, True),
        (GROUP | {"channel__thread_id": "t1"}, False),
        ({"channel__type": "forum"}, False),
        ({"channel__type": "dm"}, False),
    ],
)
def test_a_mention_is_asked_for_in_groups_outside_threads(changes: dict[str, Any], is_required: bool) -> None:
    mentions = mentions_of(**changes)
    assert mentions.can_detect_mention
    assert mentions.require_mention == is_required


def test_without_the_bots_name_no_mention_is_looked_for() -> None:
    found, plan = take(None, **GROUP, content__text="@my_bot hi", mentions=["my_bot"])
    assert plan.access is None
    assert found.text_for_agent == "@my_bot hi"


@given(st.text(min_size=1), st.text())
def test_any_name_can_be_looked_for(name: str, text: str) -> None:
    assert mention_pattern(name).search(f"{text} @{name} x")


@pytest.mark.parametrize(
    ("changes", "media"),
    [
        ({"data": "YWJj"}, {"data_base64": "YWJj", "kind": "document"}),
        ({"data": "YWJj", "path": "/f"}, {"path": "/f", "kind": "document"}),
        ({"data": "YWJj", "path": "/f", "status": "too big"}, {"text": "too big", "kind": "document"}),
        ({"status": ""}, {"text": "refused", "kind": "document"}),
        ({"type": "image"}, {"kind": "image"}),
        ({"type": "audio"}, {"kind": "audio"}),
        ({"type": "hologram"}, {"kind": "unknown"}),
    ],
)
def test_an_attachment_is_a_path_or_data_or_the_reason_why_not(changes: dict[str, Any], media: dict[str, Any]) -> None:
    _, plan = take(content__attachments=[FILE | changes])
    expected = {"content_type": "text/plain", "file_name": "a.txt", "size_bytes": 3} | media
    assert plan.media == (InboundMediaFacts.model_validate(expected),)
