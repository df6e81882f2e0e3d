"""What counts as an envelope, whatever its flaws (delivery.md 3.2), and what could have become one (3.3, step 5)."""

from __future__ import annotations

from typing import Any, get_args

from openab_kernel.delivery.envelope.findings import EnvelopeRules, NextType
from openab_kernel.delivery.envelope.values import NOTHING, Bare, Cut, Members, fold

FAMILY = "openab.turn."
NEXT_TYPES: frozenset[str] = frozenset(get_args(NextType))
KEYS = ("schema", "messages", "next")
_BUBBLE_KEYS = ("id", "text")


def is_recognised(value: Any, rules: EnvelopeRules) -> bool:
    """Say whether `value` is an object that R1, R2 or R3 holds for."""
    if not isinstance(value, Members):
        return False
    if any(_names_schema(name, rules) for name in value.values_of("schema")):
        return True
    next_is_turn_like = any(map(is_turn_like, value.values_of("next")))
    has_schema = any(isinstance(name, str) for name in value.values_of("schema"))
    return any(
        (_are_texts(messages) and (has_schema or next_is_turn_like or _are_bubbles(messages)))
        or (_are_strings(messages) and next_is_turn_like)
        for messages in value.values_of("messages")
    )


def is_recognised_as_body(value: Any) -> bool:
    """Say whether R4 holds for a value that is the whole body."""
    if not isinstance(value, Members):
        return _are_bubbles(value)
    keys = value.keys_folded()
    return (
        bool(keys)
        and keys <= {"messages", "next"}
        and all(messages == [] or _are_strings(messages) for messages in value.values_of("messages"))
        and all(map(is_turn_like, value.values_of("next")))
    )


def is_turn_like(value: Any) -> bool:
    types = value.values_of("type") if isinstance(value, Members) else [value]
    return any(isinstance(name, str) and name in NEXT_TYPES for name in types)


def is_silent(value: Members) -> bool:
    """Say whether the envelope wants nothing said, however it was read."""
    return any(
        step == "silent" or (isinstance(step, Members) and "silent" in step.values_of("type"))
        for step in value.values_of("next")
        if not isinstance(step, Cut)
    )


def count_bubbles(value: Members) -> int:
    return sum(len(messages) for messages in value.values_of("messages") if _is_array(messages))


def could_be_envelope(value: Members, rules: EnvelopeRules) -> bool:
    """Say whether an object that was cut could have become an envelope; it has a key, or the first letter of one."""
    return all(_could_be_member(key, member, rules) for key, member in value)


def could_be_bubbles(value: Any) -> bool:
    """Say whether a whole body that was cut could have become the array of R4, and shows both keys of a bubble."""
    return (
        _is_array(value)
        and all(isinstance(item, Members) and _is_part_of_bubble(item) for item in value)
        and any(isinstance(item, Members) and item.keys_folded() >= set(_BUBBLE_KEYS) for item in value)
    )


def shows_bubble(value: Members, rules: EnvelopeRules) -> bool:
    """Say whether an object that could not be read to its end was becoming an envelope, and shows a bubble already."""
    return could_be_envelope(value, rules) and any(
        "text" in item.keys_folded()
        for messages in value.values_of("messages")
        if _is_filled(messages)
        for item in messages[:1]
        if isinstance(item, Members)
    )


def is_first_letter_missing(value: Members) -> bool:
    """Say whether nothing came after the bracket but perhaps a quotation mark."""
    return all(isinstance(key, Cut) and not key.strip() for key, _ in value)


def _could_be_member(key: str, member: Any, rules: EnvelopeRules) -> bool:
    if isinstance(key, Cut):
        return any(name.startswith(fold(key)) for name in KEYS)
    match fold(key):
        case "schema":
            return member is NOTHING or _could_name_schema(member, rules)
        case "messages":
            return member is NOTHING or (_is_array(member) and all(map(_could_be_bubble, member)))
        case "next":
            return member is NOTHING or isinstance(member, Members) or _could_be_type(member)
    return False


def _could_name_schema(value: Any, rules: EnvelopeRules) -> bool:
    if isinstance(value, Cut):
        return any(name.startswith(value[: len(name)].lower()) for name in (FAMILY, rules.schema_id.lower()))
    return _names_schema(value, rules)


def _could_be_type(value: Any) -> bool:
    if isinstance(value, Cut):
        return any(name.startswith(value) for name in NEXT_TYPES)
    return _is_string(value) and value in NEXT_TYPES


def _could_be_bubble(value: Any) -> bool:
    return _is_string(value) or (isinstance(value, Members) and _is_part_of_bubble(value))


def _is_part_of_bubble(value: Members) -> bool:
    return all(
        any(name.startswith(fold(key)) for name in _BUBBLE_KEYS) if isinstance(key, Cut) else fold(key) in _BUBBLE_KEYS
        for key, _ in value
    )


def _names_schema(value: Any, rules: EnvelopeRules) -> bool:
    return isinstance(value, str) and (value.lower().startswith(FAMILY) or value == rules.schema_id)


def _are_texts(value: Any) -> bool:
    return _is_filled(value) and all(
        isinstance(item, Members) and any(map(_is_string, item.values_of("text"))) for item in value
    )


def _are_bubbles(value: Any) -> bool:
    return _is_filled(value) and all(
        isinstance(item, Members) and item.keys_folded() == set(_BUBBLE_KEYS) for item in value
    )


def _are_strings(value: Any) -> bool:
    return _is_filled(value) and all(map(_is_string, value))


def _is_filled(value: Any) -> bool:
    return _is_array(value) and bool(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Members)


def _is_string(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Bare)
