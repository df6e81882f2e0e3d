"""Two files that agents write and the kernel reads; what one side changes, the other must notice (delivery.md 2.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acp.schema import TextContentBlock
from pydantic import ValidationError

from openab_kernel.agent.acp.mapping import UpdateMapper
from openab_kernel.delivery.envelope import Bubble, Envelope, EnvelopeRules, NextStep, find_envelopes
from openab_kernel.facts.agent_update import BubbleMessage
from openab_kernel.testing.envelopes import bubble_notification, envelope_value

FOLDER = Path(__file__).parents[2] / "docs" / "fixtures"
TWO_LINES = "your flight moved to 8pm\ngate B12"
READ = Envelope((Bubble("bubble_1", "on it"), Bubble("bubble_2", TWO_LINES)), NextStep("stop"))


def writes_envelope(fixture: object) -> bool:
    return envelope_value("on it", TWO_LINES) == fixture


def reads_envelope(fixture: Any) -> bool:
    text = json.dumps(fixture, indent=2)
    return find_envelopes(text, text, EnvelopeRules()).envelopes == (READ,)


def writes_notification(fixture: object) -> bool:
    return bubble_notification("session_123", TWO_LINES, "bubble_2") == fixture


def reads_notification(fixture: Any) -> bool:
    """As the client does, frame by frame, and the content as the schema of ACP has it."""
    params = fixture.get("params", {})
    if not (fixture.get("jsonrpc") == "2.0" and fixture.get("method") == "session/update"):
        return False
    update = UpdateMapper().map(params.get("update")) if params.get("sessionId") == "session_123" else None
    if update != BubbleMessage("bubble_2", TWO_LINES):
        return False
    try:
        return TextContentBlock.model_validate(params["update"]["content"]).type == "text"
    except ValidationError:
        return False


FIXTURES: dict[str, tuple[Callable[[Any], bool], Callable[[Any], bool]]] = {
    "turn-envelope-v1.json": (writes_envelope, reads_envelope),
    "sequential-message-v1.json": (writes_notification, reads_notification),
}


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def alterations(value: Any) -> Iterator[tuple[str, Any]]:
    """A copy of `value` for each key and for each value that holds no other, with just that one altered."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            for what, altered in alterations(inner):
                yield f"{index}.{what}", [*value[:index], altered, *value[index + 1 :]]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"key {key}", {f"{key}_" if name == key else name: part for name, part in value.items()}
            for what, altered in alterations(inner):
                yield f"{key}.{what}", value | {key: altered}
    else:
        yield "value", f"{value}_"


ALTERED = [
    pytest.param(name, altered, id=f"{name}: {what}") for name in FIXTURES for what, altered in alterations(read(name))
]


@pytest.mark.parametrize("name", FIXTURES)
def test_producer_and_consumer_agree_on_the_fixture(name: str) -> None:
    """delivery 12.21"""
    produces, consumes = FIXTURES[name]
    assert produces(read(name))
    assert consumes(read(name))


def test_every_key_and_value_is_altered_once() -> None:
    """delivery 12.21"""
    assert len(ALTERED) == (8 + 6) + (10 + 7)


@pytest.mark.parametrize(("name", "altered"), ALTERED)
def test_producer_and_consumer_both_notice_an_altered_fixture(name: str, altered: Any) -> None:
    """delivery 12.21"""
    produces, consumes = FIXTURES[name]
    assert not produces(altered)
    assert not consumes(altered)


def test_the_second_bubble_has_two_lines() -> None:
    """delivery 12.21"""
    assert len(read("turn-envelope-v1.json")["messages"][1]["text"].splitlines()) == 2
