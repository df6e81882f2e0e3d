"""delivery.md 7.2 and 9; acceptance row 33."""

from typing import Any

import pytest
from pydantic import ValidationError

from openab_kernel.delivery.settings import DeliverySettings, MarkdownSettings


def test_defaults() -> None:
    assert DeliverySettings().model_dump(by_alias=True) == {
        "mode": "text",
        "schema": "openab.turn.v1",
        "max_bubbles": 4,
        "max_bubble_chars": 1200,
        "bubble_delay_ms": 400,
        "on_parse_error": "fallback_text",
        "parse_error_text": "⚠️ That reply did not come out right. Please ask again.",
        "repair": False,
        "reply_tool": "off",
    }
    assert MarkdownSettings().tables == "code"


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("mode", "plain", "text"),
        ("mode", "OFF", "text"),
        ("mode", "Text", "text"),
        ("mode", "bubbles", "structured"),
        ("mode", "STRUCTURED", "structured"),
        ("mode", "Sequential", "sequential"),
        ("on_parse_error", "fallback", "fallback_text"),
        ("on_parse_error", "text", "fallback_text"),
        ("on_parse_error", "Error", "error_message"),
        ("on_parse_error", "error_message", "error_message"),
        ("on_parse_error", "drop", "silent"),
        ("on_parse_error", "SILENT", "silent"),
        ("max_bubbles", 1, 1),
        ("max_bubbles", 100, 100),
        ("max_bubble_chars", 0, 0),
        ("bubble_delay_ms", 0, 0),
        ("bubble_delay_ms", 60_000, 60_000),
        ("parse_error_text", "Oh.", "Oh."),
        ("repair", True, True),
        ("reply_tool", "off", "off"),
        ("schema", " my.turn ", " my.turn "),
    ],
)
def test_value_is_read(key: str, written: Any, meant: Any) -> None:
    assert DeliverySettings.model_validate({key: written}).model_dump(by_alias=True)[key] == meant


@pytest.mark.parametrize("mode", ["structured", "sequential", "Bubbles"])
def test_reply_tool_is_injected_in_bubble_modes(mode: str) -> None:
    assert DeliverySettings.model_validate({"mode": mode, "reply_tool": "inject"}).reply_tool == "inject"


@pytest.mark.parametrize(
    ("written", "key", "expected"),
    [
        ({"mode": "x"}, "mode", "'text', 'structured' or 'sequential'"),
        ({"mode": 1}, "mode", "'text', 'structured' or 'sequential'"),
        ({"on_parse_error": "x"}, "on_parse_error", "'fallback_text', 'error_message' or 'silent'"),
        ({"max_bubbles": 0}, "max_bubbles", "greater than or equal to 1"),
        ({"mode": "structured", "max_bubbles": 0}, "max_bubbles", "greater than or equal to 1"),
        ({"max_bubbles": 101}, "max_bubbles", "less than or equal to 100"),
        ({"max_bubbles": "4"}, "max_bubbles", "valid integer"),
        ({"max_bubbles": True}, "max_bubbles", "valid integer"),
        ({"max_bubble_chars": -1}, "max_bubble_chars", "greater than or equal to 0"),
        ({"bubble_delay_ms": 60_001}, "bubble_delay_ms", "less than or equal to 60000"),
        ({"parse_error_text": ""}, "parse_error_text", "one line of text, not blank"),
        ({"parse_error_text": " \u200b"}, "parse_error_text", "one line of text, not blank"),
        ({"parse_error_text": "a\nb"}, "parse_error_text", "one line of text, not blank"),
        ({"parse_error_text": "a\u2028b"}, "parse_error_text", "one line of text, not blank"),
        ({"parse_error_text": 1}, "parse_error_text", "valid string"),
        ({"schema": "  "}, "schema", "a string that is not blank"),
        ({"repair": "yes"}, "repair", "valid boolean"),
        ({"reply_tool": "on"}, "reply_tool", "'off' or 'inject'"),
        ({"reply_tool": "inject"}, "reply_tool", '"off" with mode = "text"'),
        ({"mode": "plain", "reply_tool": "inject"}, "reply_tool", '"off" with mode = "text"'),
        ({"max_bubble": 3}, "max_bubble", "Extra inputs"),
        ({"schema_id": "x"}, "schema_id", "Extra inputs"),
    ],
)
def test_anything_else_is_refused_under_its_key(written: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        DeliverySettings.model_validate(written)
    (error,) = caught.value.errors()
    assert error["loc"] == (key,)
    assert expected in error["msg"]


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        DeliverySettings.model_validate({"mode": "x", "max_bubbles": 0, "reply_tool": "inject"})
    assert [error["loc"] for error in caught.value.errors()] == [("mode",), ("max_bubbles",)]


@pytest.mark.parametrize("tables", ["code", "bullets", "off"])
def test_table_styles(tables: str) -> None:
    assert MarkdownSettings.model_validate({"tables": tables}).tables == tables


@pytest.mark.parametrize("section", [{"tables": "Code"}, {"tables": False}, {"table": "off"}])
def test_other_markdown_settings_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MarkdownSettings.model_validate(section)
