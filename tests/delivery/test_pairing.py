"""The row of the pairing table in force, and the agent that does not fit it."""

from __future__ import annotations

from typing import Any

import pytest

from openab_kernel.delivery.pairing import describe_pairing, mispairing
from openab_kernel.delivery.settings import DeliverySettings


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ["text: ", "one message, as it was written", "no envelope"]),
        ({"mode": "structured"}, ["structured: ", "plain text is one message", "at most 4 bubbles"]),
        ({"mode": "structured", "on_parse_error": "error_message"}, ["plain text is the apology"]),
        ({"mode": "structured", "on_parse_error": "silent", "max_bubbles": 2}, ["is nothing", "at most 2 bubbles"]),
        ({"mode": "sequential", "on_parse_error": "silent"}, ["sequential: ", "each bubble as it comes"]),
    ],
)
def test_the_row_in_force_is_a_sentence(settings: dict[str, Any], parts: list[str]) -> None:
    """delivery 12.23"""
    text = describe_pairing(DeliverySettings(**settings))
    assert all(part in text for part in parts)


@pytest.mark.parametrize(
    ("mode", "persona", "is_told"),
    [
        ("text", "Answer as openab.turn.v1.", True),
        ("text", "Be kind.", False),
        ("structured", "Answer as openab.turn.v1.", False),
        ("sequential", "Answer as openab.turn.v1.", False),
    ],
)
def test_instructions_that_ask_for_envelopes_in_text_mode_are_a_mismatch(
    mode: Any, persona: str, is_told: bool
) -> None:
    """delivery 12.23"""
    fix = mispairing(DeliverySettings(mode=mode), persona)
    assert (fix is not None and '[delivery] mode = "structured"' in fix) == is_told
