"""Judges a recognised envelope: valid, or why not (delivery.md 2.1, 3.5, 3.7). No string of a rejected one is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast, get_args

from openab_kernel.delivery.characters import is_blank, trim
from openab_kernel.delivery.envelope.findings import (
    Bubble,
    Envelope,
    EnvelopeRules,
    Fix,
    NextStep,
    NextType,
    Rejection,
)
from openab_kernel.delivery.envelope.recognise import KEYS, NEXT_TYPES, count_bubbles, is_silent
from openab_kernel.delivery.envelope.values import Flaw, Members, plain, walk

_HALF = re.compile("[\ud800-\udfff]")
_STEP_KEYS = {"type", "name", "arguments"}


@dataclass(frozen=True, slots=True)
class Silence:
    """An envelope that wants nothing said; `bubbles` came with it."""

    bubbles: int


Verdict = Envelope | Rejection | Silence

MALFORMED = Rejection("malformed")


def judge(value: Members | list[Any], flaws: frozenset[Flaw], rules: EnvelopeRules) -> Verdict:
    """Judge a recognised object, or a whole body that is the array of R4."""
    if isinstance(value, Members) and is_silent(value):
        return Silence(count_bubbles(value))
    try:
        draft = _read(value, flaws)
    except _Malformed:
        return MALFORMED
    if draft.fixes and not rules.repair:
        return MALFORMED
    return _find_fault(draft, rules) or Envelope(
        bubbles=tuple(Bubble(id.strip(), trim(text)) for id, text in draft.bubbles),
        next=draft.next,
        fixes=tuple(fix for fix in get_args(Fix) if fix in draft.fixes),
    )


def judge_unread(value: Any, rejection: Rejection) -> Verdict:
    """Judge what was not read to its end: silent if it said so until then, else `rejection`."""
    if isinstance(value, Members) and is_silent(value):
        return Silence(count_bubbles(value))
    return rejection


class _Malformed(Exception):
    """The envelope is not what 2.1 says, and no fix makes it so. Carries nothing."""


@dataclass(slots=True)
class _Draft:
    """An envelope whose types are right. `schema_id` is None where `missing_schema` or `bare_array` stands for it."""

    schema_id: str | None
    bubbles: list[tuple[str, str]]
    next: NextStep
    fixes: set[Fix]


def _find_fault(draft: _Draft, rules: EnvelopeRules) -> Rejection | None:
    """The first fault, in the order of 3.5."""
    if draft.schema_id not in (None, rules.schema_id):
        return Rejection("schema_mismatch")
    count = len(draft.bubbles)
    if count > rules.max_bubbles:
        return Rejection("too_many_bubbles", number=count)
    seen: set[str] = set()
    for index, (bubble_id, text) in enumerate(draft.bubbles):
        if is_blank(bubble_id):
            return Rejection("blank_bubble_id", index)
        if bubble_id.strip() in seen:
            return Rejection("duplicate_bubble_id", index)
        seen.add(bubble_id.strip())
        if is_blank(text):
            return Rejection("empty_bubble", index)
        if rules.max_bubble_chars and len(text) > rules.max_bubble_chars:
            return Rejection("bubble_too_long", index, len(text))
    return None if draft.bubbles else Rejection("empty_turn")


def _read(value: Members | list[Any], flaws: frozenset[Flaw]) -> _Draft:
    """Check the types, key by key.

    Raises:
        _Malformed: something is wrong that no fix accepts.
    """
    if "other" in flaws:
        raise _Malformed
    fixes = cast(set[Fix], set(flaws))
    _check_everywhere(value)
    if isinstance(value, Members):
        members = _members(value, set(KEYS))
    else:
        members = {"messages": value}
        fixes.add("bare_array")
    return _Draft(
        schema_id=_read_schema(members, fixes),
        bubbles=_read_messages(members.get("messages", []), fixes),
        next=_read_next(members.get("next", Members([("type", "stop")])), fixes),
        fixes=fixes,
    )


def _read_schema(members: dict[str, Any], fixes: set[Fix]) -> str | None:
    if "schema" in members:
        return _string(members["schema"])
    if "bare_array" not in fixes:
        fixes.add("missing_schema")
    return None


def _read_messages(messages: Any, fixes: set[Fix]) -> list[tuple[str, str]]:
    if isinstance(messages, Members) or not isinstance(messages, list):
        raise _Malformed
    if messages and all(isinstance(item, str) for item in messages):
        fixes.add("string_messages")
        return [(f"bubble_{number}", text) for number, text in enumerate(messages, 1)]
    items = [_members(item, {"id", "text"}) for item in messages]
    given = {item["id"].strip() for item in items if isinstance(item.get("id"), str)}
    numbers = _free_ids(given)
    bubbles = []
    for item in items:
        if "id" not in item:
            fixes.add("missing_id")
        bubbles.append((_string(item["id"]) if "id" in item else next(numbers), _string(item.get("text"))))
    return bubbles


def _free_ids(given: set[str]) -> Iterator[str]:
    """Ids for bubbles without one, none of them given to another."""
    return (name for number in range(1, 2**31) if (name := f"bubble_{number}") not in given)


def _read_next(step: Any, fixes: set[Fix]) -> NextStep:
    if isinstance(step, str) and step in NEXT_TYPES - {"tool"}:
        fixes.add("string_next")
        return NextStep(cast(NextType, step))
    if not isinstance(step, Members):
        raise _Malformed
    members = _members(step, None)
    kind = _string(members.get("type"))
    if kind not in NEXT_TYPES:
        raise _Malformed
    if kind != "tool":
        return NextStep(cast(NextType, kind))
    if members.keys() != _STEP_KEYS:
        raise _Malformed
    return NextStep("tool", _string(members["name"]), plain(members["arguments"]))


def _members(value: Any, known: set[str] | None) -> dict[str, Any]:
    """The members of an object that has no keys but those `known`; None: any."""
    if not isinstance(value, Members):
        raise _Malformed
    members = dict(value)
    if known is not None and not members.keys() <= known:
        raise _Malformed
    return members


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _Malformed
    return value


def _check_everywhere(value: Any) -> None:
    """What is an error at any depth: a key that is there twice, a string with half a character in it."""
    for inner in walk(value):
        if isinstance(inner, Members) and len(dict(inner)) < len(inner):
            raise _Malformed
        if isinstance(inner, str) and _HALF.search(inner):
            raise _Malformed
