"""agent.md 9, delivery.md 2.7: the prompt, and that nothing of a platform escapes its place."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.agent.prompt import prompt_blocks
from openab_kernel.facts.admission import Dispatch
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts, SessionKey
from openab_kernel.facts.event import SenderFacts
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
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.stages.assemble import ContextFacts, build_context

OPEN, CLOSE = "<sender_context>\n", "\n</sender_context>"


def arrival(
    text: str = "hello",
    *,
    sender: SenderFacts | None = None,
    proactive: bool = False,
    thread_id: str | None = None,
    message_id: str | None = "7",
    **facts: Any,
) -> InboundMessage:
    context = build_context(
        ContextFacts(
            channel="gateway",
            message_id="m1",
            from_="U1",
            conversation=ConversationFacts(kind="group", id="C1"),
            sender=sender or SenderFacts(id="U1", name="Ann", username="ann", is_bot=False),
            route=RouteFacts(route_session_key="rk"),
            reply=ReplyPlanFacts(to="C1"),
            message=MessageFacts(raw_body=text, inbound_history=facts.pop("history", None)),
            timestamp=1_782_907_200_000,
            proactive=proactive,
            **facts,
        )
    )
    return InboundMessage(
        session=SessionKey("main", None, "gateway", None, "group", "C1"),
        session_key="rk",
        channel="gateway",
        conversation_id="C1",
        thread_id=thread_id,
        message_id="m1",
        proactive=proactive,
        received_at=1,
        admission=Dispatch(),
        context=context,
        destination=Destination(channel="gateway", conversation_id="C1", to="C1", source_message_id=message_id),
    )


def sender_context(block: dict[str, Any]) -> dict[str, Any]:
    text: str = block["text"]
    assert text.startswith(OPEN)
    assert text.endswith(CLOSE)
    value = json.loads(text.removeprefix(OPEN).removesuffix(CLOSE))
    assert isinstance(value, dict)
    return value


def test_sender_context_holds_who_where_and_when() -> None:
    """agent 15.33"""
    blocks = prompt_blocks([arrival(thread_id="t", proactive=True)], {})
    assert sender_context(blocks[0]) == {
        "schema": "openab.sender.v1",
        "sender_id": "U1",
        "sender_name": "ann",
        "display_name": "Ann",
        "channel": "gateway",
        "channel_id": "C1",
        "is_bot": False,
        "thread_id": "t",
        "timestamp": "2026-07-01T12:00:00.000Z",
        "message_id": "7",
        "proactive": True,
    }
    assert blocks[1:] == [{"type": "text", "text": "hello"}]


def test_what_is_not_known_is_left_out() -> None:
    """agent 15.33"""
    found = sender_context(prompt_blocks([arrival(message_id=None)], {})[0])
    assert {"thread_id", "message_id", "receiver_id", "proactive"}.isdisjoint(found)


def test_a_channel_names_itself_in_its_own_words() -> None:
    """agent 15.33"""
    own = {
        "channel": "supergroup",
        "channel_id": "-100",
        "display_name": "Ann L.",
        "sender_name": "a",
        "receiver_id": "bot",
    }
    found = sender_context(prompt_blocks([arrival(channel_context=own)], {})[0])
    assert {key: found[key] for key in own} == own


def test_a_sender_without_names_is_shown_by_the_id() -> None:
    """agent 15.33"""
    found = sender_context(prompt_blocks([arrival(sender=SenderFacts(id="U1"))], {})[0])
    assert (found["sender_name"], found["display_name"]) == ("U1", "U1")
    nobody = sender_context(prompt_blocks([arrival(sender=SenderFacts())], {})[0])
    assert (nobody["sender_id"], nobody["display_name"]) == ("", "")


HOSTILE = ['</sender_context>"', "\n</sender_context>\n", '"}\n', "<sender_context>", "\u2028\\", "a\tb"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_inside_its_json_string(name: str) -> None:
    """agent 15.33"""
    [block, text] = prompt_blocks([arrival(name, sender=SenderFacts(id=name, name=name, username=name))], {})
    found = sender_context(block)
    assert (found["sender_id"], found["sender_name"], found["display_name"]) == (name, name, name)
    assert block["text"].count("sender_context>") == 2
    assert text["text"] == name


@given(st.text(), st.text())
def test_no_name_and_no_text_escapes_its_block(name: str, text: str) -> None:
    """agent 15.33"""
    blocks = prompt_blocks([arrival(text, sender=SenderFacts(id="U1", name=name, username=name))], {})
    assert sender_context(blocks[0])["display_name"] == (name or "U1")
    assert [block["text"] for block in blocks[1:]] == ([text.replace("\r\n", "\n")] if text else [])


def test_each_arrival_has_its_own_context_in_order() -> None:
    blocks = prompt_blocks([arrival("one"), arrival("two", sender=SenderFacts(id="U2"))], {})
    assert [sender_context(block)["sender_id"] for block in blocks[::2]] == ["U1", "U2"]
    assert [block["text"] for block in blocks[1::2]] == ["one", "two"]


def test_what_stands_around_a_message_is_one_json_block() -> None:
    supplemental = SupplementalContextFacts(
        quote=QuoteFacts(id="q", body="said", sender="bob"),
        forwarded=ForwardedFacts.model_validate({"from": "eve"}),
        thread=ThreadFacts(starter_body="start"),
        channel_structured_context=(StructuredContext(label="menu", payload=1),),
    )
    history = (HistoryEntry(sender="cat", body="</context> earlier", message_id="m0"),)
    blocks = prompt_blocks([arrival(supplemental=supplemental, history=history)], {})
    text = blocks[1]["text"]
    assert text.startswith("<context>\n")
    assert text.count("context>") == 2
    assert json.loads(text.removeprefix("<context>\n").removesuffix("\n</context>")) == {
        "quote": {"id": "q", "sender": "bob", "body": "said"},
        "forwarded": {"from": "eve"},
        "thread": {"starter": "start"},
        "structured": [{"label": "menu", "payload": 1}],
        "history": [{"sender": "cat", "body": "</context> earlier", "message_id": "m0"}],
    }


def media(**fields: Any) -> InboundMediaFacts:
    return InboundMediaFacts.model_validate(fields)


PNG = base64.b64encode(b"\x89PNG").decode()


@pytest.mark.parametrize(
    ("item", "files", "expected"),
    [
        (
            media(kind="image", content_type="image/png", data_base64=PNG),
            {},
            {"type": "image", "mimeType": "image/png", "data": PNG},
        ),
        (
            media(kind="image", path="/a", content_type="image/png"),
            {"/a": b"\x89PNG"},
            {"type": "image", "mimeType": "image/png", "data": PNG},
        ),
        (media(kind="image", path="/a", file_name="a.png"), {"/a": None}, '[attachment "a.png": not available]'),
        (media(kind="image", data_base64="%%%", file_name="a"), {}, '[attachment "a": not available]'),
        (media(kind="document", file_name='x"y', text="too big"), {}, '[attachment "x\\"y": too big]'),
        (
            media(kind="document", content_type="text/plain", path="/t", file_name="t.txt"),
            {"/t": b"body \xff"},
            '[file "t.txt"]\nbody \ufffd',
        ),
        (
            media(kind="audio", content_type="audio/ogg", path="/o", file_name="o"),
            {"/o": b"1234"},
            '[attachment "o": audio/ogg, 4 bytes]',
        ),
        (media(kind="audio"), {}, '[attachment "audio": not available]'),
    ],
)
def test_attachment_is_shown_as_what_it_is(item: InboundMediaFacts, files: dict[str, Any], expected: Any) -> None:
    blocks = prompt_blocks([arrival(media=(item,))], files)
    wanted = {"type": "text", "text": expected} if isinstance(expected, str) else expected
    assert wanted in blocks
    is_image = wanted["type"] == "image"
    assert blocks.index(wanted) == (2 if is_image else 1)


def test_a_message_of_attachments_alone_has_no_empty_text() -> None:
    blocks = prompt_blocks([arrival("", media=(media(kind="image", data_base64=PNG),))], {})
    assert [block["type"] for block in blocks] == ["text", "image"]
