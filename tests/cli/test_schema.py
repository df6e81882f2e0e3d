"""The printed schemas accept what the code accepts, and refuse what it refuses."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from openab_gateway_ws.protocol import FrameRefused, Reply, ReplyChannel, ReplyContent, decode_frame, encode_reply
from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.cli import main
from openab_kernel.cli.schema import config_schema
from openab_kernel.cli.wire_schemas import EVENT, REPLY, TURN
from openab_kernel.config import KERNEL_SECTIONS

FIXTURES = Path(__file__).parents[2] / "docs/fixtures"

EVENT_SAMPLE = {
    "schema": "openab.gateway.event.v1",
    "event_id": "e1",
    "timestamp": "",
    "platform": "telegram",
    "message_id": "m1",
    "channel": {"id": "42", "type": "group", "thread_id": None},
    "sender": {"id": "7", "name": "ann", "display_name": "Ann", "is_bot": False},
    "content": {
        "type": "text",
        "text": "hi",
        "attachments": [{"type": "image", "filename": "a.png", "mime_type": "image/png", "size": 3, "data": ""}],
    },
    "mentions": ["bot"],
    "proactive": False,
    "unknown": 1,
}

TURN_SAMPLE = {
    "schema": "openab.turn.v1",
    "messages": [{"id": "bubble_1", "text": "on it"}],
    "next": {"type": "stop"},
}

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Does a schema made of the few words that ours use accept this value?"""
    kinds = schema.get("type", list(KINDS))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    properties = schema.get("properties", {})
    named = value if isinstance(value, dict) else {}
    return all(
        (
            any(type(value) is KINDS[kind] for kind in kinds),
            value == schema.get("const", value),
            value in schema.get("enum", [value]),
            not isinstance(value, str) or re.search(schema.get("pattern", ""), value),
            not isinstance(value, str) or len(value) <= schema.get("maxLength", len(value)),
            not isinstance(value, list) or len(value) <= schema.get("maxItems", len(value)),
            not isinstance(value, int) or value >= schema.get("minimum", value),
            not isinstance(value, list) or all(accepts(schema.get("items", {}), item) for item in value),
            not isinstance(value, dict) or set(schema.get("required", ())) <= set(value),
            schema.get("additionalProperties", True) or named.keys() <= properties.keys(),
            all(accepts(properties[key], inner) for key, inner in named.items() if key in properties),
            "oneOf" not in schema or sum(accepts(one, value) for one in schema["oneOf"]) == 1,
        )
    )


def alter(sample: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give copies with one value left out, made null, or of another type, each with the place."""
    for way in ways(sample):
        for name, value in (("absent", ...), ("null", None), ("number", 5), ("text", "x"), ("list", [])):
            altered: Any = copy.deepcopy(sample)
            node = altered
            for key in way[:-1]:
                node = node[key]
            if value is ...:
                del node[way[-1]]
            else:
                node[way[-1]] = value
            yield f"{way} {name}", altered


def ways(value: Any) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (key,)
        yield from ((key, *way) for way in ways(inner))


def is_decoded(event: dict[str, Any]) -> bool:
    try:
        decode_frame(json.dumps(event))
    except FrameRefused:
        return False
    return True


@pytest.mark.parametrize("event", [pytest.param(event, id=name) for name, event in alter(EVENT_SAMPLE)])
def test_event_is_accepted_by_the_schema_if_it_is_decoded(event):
    """But for the three kinds of attachment that the schema names, where the decoder takes any word."""
    files = event["content"].get("attachments", []) if is_decoded(event) else []
    kinds = [file["type"] for file in files]
    assert accepts(EVENT, event) == (is_decoded(event) and kinds in ([], ["image"]))


def test_sample_event_is_accepted():
    assert accepts(EVENT, EVENT_SAMPLE)
    assert is_decoded(EVENT_SAMPLE)


def test_every_reply_that_is_written_is_accepted():
    plain = json.loads((FIXTURES / "gateway-reply-text-v1.json").read_text())
    full = Reply(
        reply_to="e1",
        platform="line",
        channel=ReplyChannel(id="1", thread_id="2"),
        content=ReplyContent(text="👍"),
        command="add_reaction",
        request_id="req_1",
        quote_message_id="m1",
        target_message_id="m2",
    )
    assert accepts(REPLY, plain)
    written = json.loads(encode_reply(full))
    assert accepts(REPLY, written)
    assert written.keys() == REPLY["properties"].keys()


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({}, True),
        ({"messages": []}, True),
        ({"next": {"type": "wait"}}, True),
        ({"next": {"type": "silent", "extra": 1}}, True),
        ({"next": {"type": "tool", "name": "x", "arguments": None}}, True),
        ({"next": {"type": "tool", "name": "x"}}, False),
        ({"next": {"type": "tool", "name": "x", "arguments": 1, "extra": 1}}, False),
        ({"next": {}}, False),
        ({"next": None}, False),
        ({"next": "stop"}, False),
        ({"next": {"type": "go"}}, False),
        ({"messages": None}, False),
        ({"messages": ["text"]}, False),
        ({"messages": [{"id": " ", "text": "x"}]}, False),
        ({"messages": [{"id": "1", "text": "\n"}]}, False),
        ({"messages": [{"id": "1", "text": "x" * 1201}]}, False),
        ({"messages": [{"id": "1", "text": "x", "extra": 1}]}, False),
        ({"messages": [{"id": f"{number}", "text": "x"} for number in range(5)]}, False),
        ({"extra": 1}, False),
        ({"schema": 1}, False),
    ],
)
def test_turn_is_accepted_as_the_specification_says(change, accepted):
    assert accepts(TURN, {**TURN_SAMPLE, **change}) is accepted


def test_configuration_has_a_schema_for_each_section():
    schema = config_schema({**KERNEL_SECTIONS, "gateway": GatewaySettings})
    assert schema["properties"].keys() == {*KERNEL_SECTIONS, "gateway"}
    gateway = schema["$defs"]["GatewaySettings"]
    assert gateway["additionalProperties"] is False
    assert gateway["required"] == ["url"]
    assert "schema" in schema["$defs"]["DeliverySettings"]["properties"]


def test_every_reference_of_the_schema_leads_somewhere():
    schema = config_schema(KERNEL_SECTIONS)
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references
    assert references <= schema["$defs"].keys()


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("config", "config.toml of openab-kernel"),
        ("event", "openab.gateway.event.v1"),
        ("reply", "openab.gateway.reply.v1"),
        ("turn", "openab.turn.v1"),
    ],
)
def test_schema_is_printed_as_json(kind, title):
    result = CliRunner().invoke(main, ["schema", kind])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["title"] == title


def test_unknown_kind_of_schema_is_a_wrong_usage():
    assert CliRunner().invoke(main, ["schema", "nothing"]).exit_code == 2
