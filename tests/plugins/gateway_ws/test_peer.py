from __future__ import annotations

from typing import Any

import pytest

from openab_gateway_ws.peer import AckRule, Peer
from openab_gateway_ws.protocol import HelloFrame
from openab_kernel.facts.outbound import ChannelCapabilities, TextLimit

NONE = AckRule()
LEGACY = AckRule(asks=True, wait_seconds=5, silence="unknown")
PLACEHOLDER = AckRule(asks=True, wait_seconds=5, silence="delivered")
PROMISED = AckRule(asks=True, wait_seconds=12, silence="unknown")
ASKS_ONLY = AckRule(asks=True)


def make_peer(mode: str = "text", *, streaming: bool = False, says: dict[str, Any] | None = None) -> Peer:
    peer = Peer(mode=mode, streaming=streaming, ack_seconds=12)
    if says is not None:
        peer.greet(HelloFrame.model_validate({"protocol_version": 1, "capabilities": {"telegram": says}}))
    return peer


@pytest.mark.parametrize(
    ("peer", "rule"),
    [
        (make_peer("text"), NONE),
        (make_peer("text", streaming=True), PLACEHOLDER),
        (make_peer("structured"), LEGACY),
        (make_peer("sequential"), LEGACY),
        (make_peer("sequential", streaming=True), LEGACY),
        (make_peer("text", says={"send_ack": True}), PROMISED),
        (make_peer("structured", says={"send_ack": True}), PROMISED),
        (make_peer("text", streaming=True, says={}), NONE),
        (make_peer("structured", says={}), NONE),
        (make_peer("structured", says={"edit_ack": True}), NONE),
    ],
)
def test_who_asks_for_an_answer_and_how_long_it_waits(peer: Peer, rule: AckRule) -> None:
    assert peer.send_rule("telegram") == rule


def test_a_platform_that_a_hello_leaves_out_has_nothing() -> None:
    peer = make_peer("structured", streaming=True, says={"send_ack": True})
    assert peer.send_rule("line") == peer.edit_rule("line") == NONE
    assert peer.capabilities("line") == ChannelCapabilities(text_limit=TextLimit(size=4096), quote=True)
    assert not peer.has_targets("line")


def test_a_peer_that_never_answered_is_waited_for_once() -> None:
    peer = make_peer("structured")
    peer.note_silence()
    assert peer.send_rule("telegram") == ASKS_ONLY
    peer.note_answer()
    assert peer.send_rule("telegram") == LEGACY


def test_a_peer_that_has_answered_once_is_waited_for_every_time() -> None:
    peer = make_peer("structured")
    peer.note_answer()
    peer.note_silence()
    assert peer.send_rule("telegram") == LEGACY


@pytest.mark.parametrize(
    ("says", "rule"),
    [
        (None, AckRule(asks=True, wait_seconds=0.8, silence="delivered")),
        ({"edit_ack": True}, AckRule(asks=True, wait_seconds=0.8, silence="delivered")),
        ({"send_ack": True}, NONE),
    ],
)
def test_an_edit_is_waited_for_shortly(says: dict[str, Any] | None, rule: AckRule) -> None:
    assert make_peer(says=says).edit_rule("telegram") == rule


@pytest.mark.parametrize(
    ("platform", "limit"),
    [
        ("telegram", TextLimit(size=4096)),
        ("something new", TextLimit(size=4096)),
        ("feishu", TextLimit(size=4000)),
        ("lineworks", TextLimit(size=10_000)),
        ("line", TextLimit(size=4096, unit="utf16")),
        ("discord", TextLimit(size=2000)),
        ("slack", TextLimit(size=4000)),
    ],
)
def test_without_a_hello_the_limit_is_the_platforms(platform: str, limit: TextLimit) -> None:
    assert make_peer().capabilities(platform).text_limit == limit


@pytest.mark.parametrize(
    ("platform", "streaming", "can"),
    [
        ("telegram", False, {"edit": False, "delete": True}),
        ("telegram", True, {"edit": True, "delete": True}),
        ("line", True, {"edit": False, "delete": False}),
    ],
)
def test_without_a_hello_edits_come_with_streaming_and_never_on_line(
    platform: str, streaming: bool, can: dict[str, bool]
) -> None:
    found = make_peer(streaming=streaming).capabilities(platform)
    assert {"edit": found.edit, "delete": found.delete} == can
    assert (found.reactions, found.typing, found.quote) == (True, False, True)


@pytest.mark.parametrize(
    ("streaming", "says", "can"),
    [
        (True, {"can_edit": True, "streaming_mode": "edit"}, {"edit"}),
        (False, {"can_edit": True, "streaming_mode": "edit"}, set()),
        (True, {"can_edit": True, "streaming_mode": "disabled"}, set()),
        (True, {"can_edit": True}, set()),
        (True, {"streaming_mode": "edit"}, set()),
        (False, {"can_delete": True}, {"delete"}),
        (False, {"supports_reactions": True}, {"reactions"}),
        (False, {"status_backend": "reactions"}, {"reactions"}),
    ],
)
def test_a_hello_says_what_can_be_done(streaming: bool, says: dict[str, Any], can: set[str]) -> None:
    found = make_peer(streaming=streaming, says=says).capabilities("telegram")
    assert {name for name in ("edit", "delete", "reactions") if getattr(found, name)} == can


def test_a_hello_says_how_long_a_message_may_be() -> None:
    peer = make_peer(says={"message_limit": {"unit": "bytes", "max": 80_000}})
    assert peer.capabilities("telegram").text_limit == TextLimit(size=80_000, unit="bytes")


def test_the_last_hello_holds() -> None:
    peer = make_peer(says={"send_ack": True})
    peer.greet(HelloFrame(protocol_version=1))
    assert peer.send_rule("telegram") == NONE
