"""One file is what the kernel writes and what a gateway reads: `docs/fixtures/gateway-reply-text-v1.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from openab_gateway_ws.protocol import Reply, ReplyChannel, ReplyContent, encode_reply
from tests.plugins.gateway_ws.fake_gateway import ReplyFrame

FIXTURE = (Path(__file__).parents[3] / "docs" / "fixtures" / "gateway-reply-text-v1.json").read_text()

REPLY = Reply(reply_to="evt_1", platform="telegram", channel=ReplyChannel(id="42"), content=ReplyContent(text="plain"))
READ = {
    "schema": "openab.gateway.reply.v1",
    "reply_to": "evt_1",
    "platform": "telegram",
    "channel": {"id": "42"},
    "content": {"type": "text", "text": "plain"},
}


def producer_agrees(fixture: str) -> bool:
    return encode_reply(REPLY) == fixture


def consumer_agrees(fixture: str) -> bool:
    try:
        read = ReplyFrame.model_validate_json(fixture).model_dump(by_alias=True, exclude_unset=True)
        return read == READ
    except ValidationError:
        return False


def alterations(value: Any) -> Iterator[tuple[str, Any]]:
    """A copy of `value` for each key, and for each value that is no object, with just that one altered."""
    for key, inner in value.items():
        yield f"key {key}", {f"{key}_" if name == key else name: part for name, part in value.items()}
        if isinstance(inner, dict):
            for what, altered in alterations(inner):
                yield f"{key}.{what}", value | {key: altered}
        else:
            yield f"value of {key}", value | {key: f"{inner}_"}


ALTERED = [
    pytest.param(json.dumps(altered, separators=(",", ":")), id=what)
    for what, altered in alterations(deepcopy(json.loads(FIXTURE)))
]


def test_producer_and_consumer_agree_on_the_fixture() -> None:
    assert producer_agrees(FIXTURE)
    assert consumer_agrees(FIXTURE)


def test_every_key_and_value_is_altered_once() -> None:
    assert len(ALTERED) == 8 + 6


@pytest.mark.parametrize("fixture", ALTERED)
def test_producer_and_consumer_both_notice_an_altered_fixture(fixture: str) -> None:
    assert not producer_agrees(fixture)
    assert not consumer_agrees(fixture)
