"""turn-kernel.md 15, rows 14 and 16: the models of what is known, and when a reply counts as seen."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from openab_kernel.facts import access, admission, conversation, event, message, outbound, policy, turn
from openab_kernel.facts.admission import Dispatch, Drop, Handled, ObserveOnly, as_admission, strictest
from openab_kernel.facts.base import Facts
from openab_kernel.facts.event import PreflightFacts
from openab_kernel.facts.message import InboundMediaFacts, MessageFacts, SupplementalContextFacts
from openab_kernel.facts.turn import DeliveryCounts, DispatchResult, SettledReceipt
from openab_kernel.interfaces import channel

MODELS = sorted(
    {
        found
        for module in (access, admission, conversation, event, message, outbound, policy, turn, channel)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Facts) and found.model_config["extra"] == "forbid"
    },
    key=lambda model: model.__name__,
)

# Field by field as in the tables of section 6: name, and the default of those that may be left out.
FIELDS: dict[type[BaseModel], dict[str, Any]] = {
    event.NormalizedTurnInput: {
        "id": ..., "raw_text": ..., "timestamp": None, "text_for_agent": None, "text_for_commands": None,
        "proactive": False, "raw": None,
    },
    event.ChannelEventClass: {"kind": "message", "can_start_agent_turn": True, "requires_immediate_ack": False},
    event.SenderFacts: {
        "id": None, "name": None, "username": None, "tag": None, "roles": (), "is_bot": None, "is_self": False,
        "display_label": None,
    },
    conversation.ConversationFacts: {
        "kind": ..., "id": ..., "label": None, "space_id": None, "parent_id": None, "thread_id": None,
        "native_channel_id": None, "avatar": None, "route_peer": None,
    },
    conversation.RouteFacts: {
        "agent_id": "main", "account_id": None, "route_session_key": "", "dispatch_session_key": None,
        "persisted_session_key": None, "parent_session_key": None, "model_parent_session_key": None,
        "main_session_key": None, "create_if_missing": None, "dm_scope": None,
    },
    conversation.ReplyPlanFacts: {
        "to": ..., "originating_to": None, "native_channel_id": None, "reply_target": None, "delivery_target": None,
        "reply_to_id": None, "reply_to_id_full": None, "message_thread_id": None, "thread_parent_id": None,
        "source_reply_delivery_mode": None,
    },
    access.AccessFacts: {
        "dm": None, "group": None, "commands": None, "event": None, "mentions": None, "tool_policy": None,
    },
    access.MentionFacts: {
        "can_detect_mention": ..., "was_mentioned": ..., "has_any_mention": None, "implicit_mention_kinds": (),
        "require_mention": None, "effective_was_mentioned": None, "should_skip": None,
        "explicitly_mentioned_bot": None, "mentioned_user_ids": None, "mentioned_subteam_ids": None,
        "mention_source": None,
    },
    access.Allowlist: {
        "configured": False, "matched": False, "reason_code": None, "matched_entry_ids": (),
        "invalid_entry_count": 0, "disabled_entry_count": 0, "access_groups": access.AccessGroups(),
    },
    message.MessageFacts: {
        "raw_body": ..., "body": None, "body_for_agent": None, "command_body": None, "envelope_from": None,
        "sender_label": None, "preview": None, "inbound_history": None, "inbound_event_kind": "user_request",
        "source_modality": None,
    },
    message.InboundMediaFacts: {
        "path": None, "url": None, "content_type": None, "kind": "unknown", "transcribed": False, "file_name": None,
        "size_bytes": None, "duration_ms": None, "width": None, "height": None, "message_id": None,
    },
    message.SupplementalContextFacts: {
        "quote": None, "forwarded": None, "thread": None, "channel_structured_context": (),
        "group_system_prompt": None, "untrusted_group_system_prompt": None,
    },
    event.PreflightFacts: {
        "admission": None, "command": None, "message": None, "media": None, "supplemental": None, "access": None,
        "sender": None, "history": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_fields_and_defaults_are_those_of_the_specification(model: type[BaseModel]) -> None:
    """turn-kernel 15.14"""
    for name, default in FIELDS[model].items():
        field = model.model_fields[name]
        assert field.is_required() == (default is ...), name
        if default is not ...:
            assert field.get_default(call_default_factory=True) == default, name


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_frozen_and_refuses_fields_nobody_declared(model: type[BaseModel]) -> None:
    """turn-kernel 15.14"""
    assert model.model_config["frozen"]
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"nobody_declared_this": 1})
    assert "extra_forbidden" in {error["type"] for error in caught.value.errors()}


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (event.NormalizedTurnInput, {"id": 5, "raw_text": "x"}),
        (event.ChannelEventClass, {"kind": "telegram"}),
        (conversation.ConversationFacts, {"kind": "room", "id": "c"}),
        (conversation.ReplyPlanFacts, {"to": "c", "source_reply_delivery_mode": "carrier pigeon"}),
        (access.MentionFacts, {"can_detect_mention": True, "was_mentioned": True, "implicit_mention_kinds": ["x"]}),
        (message.InboundMediaFacts, {"kind": "hologram"}),
        (outbound.TextLimit, {"size": 0}),
        (policy.BatchPolicy, {"mode": "batched"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(model: type[BaseModel], values: dict[str, Any]) -> None:
    """turn-kernel 15.14"""
    with pytest.raises(ValidationError):
        model.model_validate(values)


def test_media_keep_their_places() -> None:
    """turn-kernel 15.14"""
    empty = InboundMediaFacts()
    picture = InboundMediaFacts(path="/a.png", kind="image")
    facts = PreflightFacts(media=(empty, picture, empty))
    assert facts.media == (empty, picture, empty)


def test_the_older_name_of_structured_context_is_read() -> None:
    """turn-kernel 15.14"""
    facts = SupplementalContextFacts.model_validate({"untrusted_context": [{"label": "a", "payload": 1}]})
    assert facts.channel_structured_context[0].label == "a"


def test_the_platforms_raw_event_is_neither_stored_nor_shown() -> None:
    """turn-kernel 15.14"""
    found = event.NormalizedTurnInput(id="1", raw_text="x", raw={"token": "CANARY"})
    assert "CANARY" not in found.model_dump_json()
    assert "CANARY" not in repr(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("drop", None),
        ({"kind": "elsewhere"}, None),
        (MessageFacts(raw_body="x"), None),
        (Drop(reason="no"), Drop(reason="no")),
        ({"kind": "drop", "reason": "no", "record_history": True}, Drop(reason="no", record_history=True)),
        ({"kind": "observe_only", "reason": "q"}, ObserveOnly(reason="q")),
        ({"kind": "observeOnly", "reason": "q"}, ObserveOnly(reason="q")),
        ({"kind": "handled", "reason": "h"}, Handled(reason="h")),
        ({"kind": "dispatch"}, Dispatch()),
    ],
)
def test_an_object_is_an_admission_when_its_kind_is_one_of_the_four(value: object, expected: object) -> None:
    """turn-kernel 15.14"""
    assert as_admission(value) == expected


def test_an_object_with_a_kind_of_its_own_class_is_taken_for_an_admission() -> None:
    """turn-kernel 15.14"""

    class Foreign:
        kind = "drop"
        reason = "theirs"

    assert as_admission(Foreign()) == Drop(reason="theirs")


def test_an_admission_without_its_reason_is_refused() -> None:
    """turn-kernel 15.14"""
    with pytest.raises(ValidationError):
        as_admission({"kind": "drop"})


ORDERED: list[admission.Admission] = [Dispatch(), ObserveOnly(reason="o"), Handled(reason="h"), Drop(reason="d")]


@pytest.mark.parametrize("low", range(4))
@pytest.mark.parametrize("high", range(4))
def test_of_two_admissions_the_stricter_holds(low: int, high: int) -> None:
    """turn-kernel 15.12"""
    assert strictest(ORDERED[low], None, ORDERED[high]) == ORDERED[max(low, high)]


def test_of_two_equally_strict_admissions_the_earlier_holds_and_none_means_dispatch() -> None:
    """turn-kernel 15.12"""
    assert strictest(Drop(reason="first"), Drop(reason="second")).reason == "first"
    assert strictest(None) == Dispatch()


@pytest.mark.parametrize(
    ("result", "visible"),
    [
        (DispatchResult(), False),
        (DispatchResult(queued_final=True), True),
        (DispatchResult(counts=DeliveryCounts(tool=1)), True),
        (DispatchResult(counts=DeliveryCounts(block=1)), True),
        (DispatchResult(counts=DeliveryCounts(final=1)), True),
        (DispatchResult(observed_reply_delivery=True), True),
        (DispatchResult(observed_reply_delivery=False), False),
        (DispatchResult(settled_receipt=SettledReceipt(any_visible_delivered=True)), True),
        (DispatchResult(queued_final=True, settled_receipt=SettledReceipt(any_visible_delivered=False)), False),
        (
            DispatchResult(
                counts=DeliveryCounts(final=3), observed_reply_delivery=True, settled_receipt=SettledReceipt()
            ),
            False,
        ),
    ],
)
def test_the_settled_receipt_says_whether_a_reply_was_seen_and_without_one_any_signal(
    result: DispatchResult, visible: bool
) -> None:
    """turn-kernel 15.16"""
    assert result.is_visible == visible


def test_delivery_counts_add_up() -> None:
    """turn-kernel 15.16"""
    assert DeliveryCounts(tool=1, block=2, final=3).total == 6


def test_destination_knows_its_lane() -> None:
    place = outbound.Destination(channel="c", account_id="a", conversation_id="x", to="y", thread_id="t")
    assert place.lane == ("c", "a", "x", "t")
