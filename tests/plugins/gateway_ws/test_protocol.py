from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_gateway_ws.protocol import (
    EventFrame,
    FrameRefused,
    HelloFrame,
    MessageLimit,
    Reply,
    ReplyChannel,
    ReplyContent,
    ResponseFrame,
    decode_frame,
    encode_client_hello,
    encode_reply,
    platform_of,
    request_id_of,
    scoped_id,
)
from openab_kernel.facts.outbound import TextLimit
from tests.plugins.gateway_ws.fake_gateway import event, hello

IMAGE = {"type": "image", "filename": "a.png", "mime_type": "image/png", "size": 3}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def decode(value: Any) -> EventFrame | ResponseFrame | HelloFrame:
    return decode_frame(json.dumps(value))


def test_the_smallest_event_is_read() -> None:
    frame = decode(event())
    assert isinstance(frame, EventFrame)
    assert (frame.event_id, frame.message_id, frame.platform) == ("evt_1", "7", "telegram")
    assert (frame.channel.id, frame.channel.type, frame.channel.thread_id) == ("42", "private", None)
    assert (frame.content.text, frame.content.attachments, frame.mentions, frame.proactive) == ("hello", (), (), False)


def test_a_full_event_is_read() -> None:
    frame = decode(
        event(
            channel__thread_id="t1",
            sender__is_bot=True,
            content__attachments=[IMAGE | {"data": "YWJj"}, IMAGE | {"path": "/f"}, IMAGE | {"status": "too big"}],
            mentions=["@bot"],
            proactive=True,
        )
    )
    assert isinstance(frame, EventFrame)
    assert [(item.data, item.path, item.status) for item in frame.content.attachments] == [
        ("YWJj", None, None),
        ("", "/f", None),
        ("", None, "too big"),
    ]
    assert (frame.channel.thread_id, frame.sender.is_bot, frame.mentions, frame.proactive) == (
        "t1",
        True,
        ("@bot",),
        True,
    )


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\uDE00 and \uD83D\uDE00", "\ufffd and \U0001f600"),
        (r"\\ud83d and \ud83d\"", '\\ud83d and \ufffd"'),
    ],
)
def test_half_a_surrogate_pair_is_replaced(written, text):
    frame = decode_frame(json.dumps(event(content__text="TEXT")).replace("TEXT", written))
    assert isinstance(frame, EventFrame)
    assert frame.content.text == text


@pytest.mark.parametrize(
    ("frame", "reason", "field"),
    [
        ("not json", "not_json", ""),
        ("", "not_json", ""),
        ('{"schema":NaN}', "not_json", ""),
        ("[" * 100_000, "not_json", ""),
        ('{"schema":NaN,"x":"\\ud83d"}', "not_json", ""),
        ('["\\ud83d"' + "[" * 100_000, "not_json", ""),
        ('{"schema":"\\ud83d', "not_json", ""),
        (b'{"schema":"openab.gateway.event.v1"}', "binary", ""),
        ([], "not_object", ""),
        (7, "not_object", ""),
        ({}, "missing", "schema"),
        ({"schema": 1}, "wrong_type", "schema"),
        ({"schema": "openab.gateway.event.v9"}, "schema", "schema"),
        ({"schema": "Openab.gateway.event.v1"}, "schema", "schema"),
        (event(channel=...), "missing", "channel"),
        (event(channel="42"), "wrong_type", "channel"),
        (event(channel__id=...), "missing", "channel.id"),
        (event(channel__id=42), "wrong_type", "channel.id"),
        (event(channel__thread_id=1), "wrong_type", "channel.thread_id"),
        (event(event_id=5), "wrong_type", "event_id"),
        (event(event_id=None), "wrong_type", "event_id"),
        (event(timestamp=1), "wrong_type", "timestamp"),
        (event(message_id=...), "missing", "message_id"),
        (event(sender__is_bot="true"), "wrong_type", "sender.is_bot"),
        (event(sender__is_bot=0), "wrong_type", "sender.is_bot"),
        (event(sender__display_name=None), "wrong_type", "sender.display_name"),
        (event(content__text=None), "wrong_type", "content.text"),
        (event(content__attachments={}), "wrong_type", "content.attachments"),
        (event(content__attachments=None), "wrong_type", "content.attachments"),
        (event(content__attachments=[IMAGE, {**IMAGE, "size": True}]), "wrong_type", "content.attachments.1.size"),
        (event(content__attachments=[{**IMAGE, "size": -1}]), "bad_value", "content.attachments.0.size"),
        (event(content__attachments=[{**IMAGE, "size": 2.5}]), "wrong_type", "content.attachments.0.size"),
        (event(content__attachments=[{**IMAGE, "data": None}]), "wrong_type", "content.attachments.0.data"),
        (event(mentions="bot"), "wrong_type", "mentions"),
        (event(mentions=[1]), "wrong_type", "mentions.0"),
        (event(proactive=None), "wrong_type", "proactive"),
        (event(proactive="true"), "wrong_type", "proactive"),
        (event(proactive=1), "wrong_type", "proactive"),
        ({"schema": "openab.gateway.response.v1", "success": True}, "missing", "request_id"),
        ({"schema": "openab.gateway.response.v1", "request_id": "r", "success": 1}, "wrong_type", "success"),
        (hello(send_ack="yes"), "wrong_type", "capabilities.*.send_ack"),
        (hello(message_limit={"unit": "characters", "max": 15}), "bad_value", "capabilities.*.message_limit.max"),
        (hello() | {"capabilities": []}, "wrong_type", "capabilities"),
        (hello() | {"protocol_version": True}, "wrong_type", "protocol_version"),
        (hello() | {"protocol_version": 2}, "version", "protocol_version"),
    ],
)
def test_a_bad_frame_is_refused_with_reason_and_field(frame: Any, reason: str, field: str) -> None:
    with pytest.raises(FrameRefused) as raised:
        decode_frame(frame if isinstance(frame, str | bytes) else json.dumps(frame))
    assert (raised.value.reason, raised.value.field) == (reason, field)


def test_a_refusal_holds_nothing_of_the_frame() -> None:
    with pytest.raises(FrameRefused) as raised:
        decode(event(content__text=["canary"], sender__name={"canary": "canary"}))
    refusal = raised.value
    assert "canary" not in f"{refusal!r} {refusal.__cause__!r}"
    assert refusal.__suppress_context__


def test_unknown_fields_do_no_harm_anywhere() -> None:
    extra = {"unheard_of": {"of": [None]}}
    frame = event(**extra, content__attachments=[IMAGE | extra])
    for part in ("channel", "sender", "content"):
        frame[part] |= extra
    assert decode(frame) == decode(event(content__attachments=[IMAGE]))


@given(st.text() | st.binary() | JSON.map(json.dumps))
def test_no_input_raises_anything_but_a_refusal(frame: str | bytes) -> None:
    with pytest.raises(FrameRefused):
        decode_frame(frame)


@given(st.data())
def test_an_event_with_one_value_changed_is_read_or_refused_at_that_place(data: st.DataObject) -> None:
    frame = event(channel__thread_id="t", mentions=["m"], proactive=False, content__attachments=[dict(IMAGE)])
    path = data.draw(st.sampled_from([path for path in _paths(frame) if path != ("schema",)]))
    place: Any = frame
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(JSON)
    refusal = refusal_of(frame)
    assert refusal is None or refusal.field.startswith(".".join(map(str, path)))


def refusal_of(frame: dict[str, Any]) -> FrameRefused | None:
    try:
        decode(frame)
    except FrameRefused as refusal:
        return refusal
    return None


def _paths(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in items for path in [(*way, key), *_paths(inner, (*way, key))]]


@pytest.mark.parametrize(
    ("fields", "verdict", "code"),
    [
        ({"success": True}, "delivered", "delivered"),
        ({"success": True, "message_id": None, "error": None, "outcome": None}, "delivered", "delivered"),
        ({"success": False}, "rejected", "rejected"),
        ({"success": False, "error_code": "chat_not_found"}, "rejected", "chat_not_found"),
        ({"success": True, "outcome": "rejected"}, "rejected", "rejected"),
        ({"success": False, "outcome": "unknown", "error_code": "x" * 65}, "unknown", "unknown"),
        ({"success": False, "error_code": "what you wrote: hello"}, "rejected", "rejected"),
    ],
)
def test_a_response_gives_a_verdict_and_a_code_that_may_be_logged(
    fields: dict[str, Any], verdict: str, code: str
) -> None:
    frame = decode({"schema": "openab.gateway.response.v1", "request_id": "req_1"} | fields)
    assert isinstance(frame, ResponseFrame)
    assert (frame.verdict, frame.code) == (verdict, code)


@pytest.mark.parametrize(
    ("limit", "read"),
    [
        ({"unit": "characters", "max": 100}, TextLimit(size=100)),
        ({"unit": "bytes", "max": 100}, TextLimit(size=100, unit="bytes")),
        ({"unit": "utf16_bytes", "max": 101}, TextLimit(size=50, unit="utf16")),
        ({"unit": "syllables", "max": 100}, TextLimit(size=100, unit="bytes")),
        ({"unit": "characters"}, TextLimit(size=4096)),
        ({"unit": "unlimited"}, TextLimit(size=1_000_000)),
    ],
)
def test_a_limit_is_counted_in_the_peers_unit(limit: dict[str, Any], read: TextLimit) -> None:
    assert MessageLimit.model_validate(limit).text_limit() == read


def test_a_reply_has_its_keys_in_order_and_leaves_absent_ones_out() -> None:
    reply = Reply(
        target_message_id="m2",
        quote_message_id="m1",
        request_id="req_1",
        command="edit_message",
        content=ReplyContent(text='grüße\n🐟 "</x>"'),
        channel=ReplyChannel(id="42", thread_id="t1"),
        platform="telegram",
        reply_to="evt_1",
    )
    assert encode_reply(reply) == (
        '{"schema":"openab.gateway.reply.v1","reply_to":"evt_1","platform":"telegram",'
        '"channel":{"id":"42","thread_id":"t1"},"content":{"type":"text","text":"grüße\\n🐟 \\"</x>\\""},'
        '"command":"edit_message","request_id":"req_1","quote_message_id":"m1","target_message_id":"m2"}'
    )


def test_the_client_hello_names_the_version() -> None:
    assert encode_client_hello("1.2.3") == (
        '{"schema":"openab.gateway.client_hello.v1","protocol_version":1,'
        '"client_name":"openab-kernel/1.2.3","requested_platforms":[]}'
    )


def test_a_request_id_is_the_uuid_of_the_first_half_of_the_key() -> None:
    key = "00112233445566778899aabbccddeeff" + "0" * 32
    assert request_id_of(key) == "req_00112233-4455-6677-8899-aabbccddeeff"


@given(st.lists(st.text(alphabet=":%3A5ab"), min_size=1, max_size=3), st.lists(st.text(alphabet=":%3A5ab"), min_size=1))
def test_scoped_ids_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    assert (scoped_id(*one) == scoped_id(*other)) == (one == other)


@given(st.text(), st.text())
def test_the_platform_is_found_in_a_conversation_id(platform: str, channel_id: str) -> None:
    assert platform_of(scoped_id(platform, channel_id)) == platform


def test_a_conversation_id_of_another_make_names_no_platform() -> None:
    assert platform_of("42") is None
