"""delivery.md 2.1 and 3.5: which envelope is sent, and why another is not."""

import json
from typing import Any

import pytest

from openab_kernel.delivery.envelope import (
    Bubble,
    Envelope,
    EnvelopeRules,
    Findings,
    NextStep,
    Rejection,
    RejectionKind,
    find_envelopes,
)
from tests.delivery.envelope.table import CANARY, E_X, SCHEMA, SILENT, dump, e, value_of


def find(body: str, **rules: Any) -> Findings:
    return find_envelopes(body, body, EnvelopeRules(**rules))


def judge(body: str, **rules: Any) -> Envelope | Rejection:
    found = find(body, **rules)
    (verdict,) = found.envelopes + found.rejections
    assert found.rest == ""
    return verdict


def bubble(id: Any, text: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "text": text, **more}


def messages(*bubbles: Any) -> str:
    return e(messages=list(bubbles))


def test_a_valid_envelope_says_all_that_was_said() -> None:
    body = e(messages=[bubble(" a ", "\n  x\ny \n"), bubble("b", "z")], next={"type": "wait", "for": "you"})
    expected = Envelope((Bubble("a", "  x\ny"), Bubble("b", "z")), NextStep("wait"))
    assert find(body) == Findings((expected,), (), False, 0, "")
    assert find(body).is_structured


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_white_space_between_tokens_is_no_fault(line_end: str) -> None:
    body = json.dumps(value_of("x"), indent="\t").replace("\n", line_end)
    assert judge(body) == Envelope((Bubble("b1", "x"),), NextStep("stop"))


def test_next_may_be_left_out_and_then_is_stop() -> None:
    assert judge(E_X.replace(',"next":{"type":"stop"}', "")) == Envelope((Bubble("b1", "x"),), NextStep("stop"))


@pytest.mark.parametrize("arguments", [None, 0, "a", [{"b": [1.5, {}]}], {"schema": SCHEMA, "messages": []}])
def test_a_tool_is_proposed_with_any_arguments(arguments: Any) -> None:
    step = {"type": "tool", "name": "send", "arguments": arguments}
    verdict = judge(e("x", next=step))
    assert isinstance(verdict, Envelope)
    assert verdict.next == NextStep("tool", "send", arguments)


@pytest.mark.parametrize(
    "body",
    [
        e("x", schema=None),
        e("x", schema=7),
        e(messages=None),
        e(messages="x"),
        e(messages={"id": "a", "text": "b"}),
        e(messages=[None]),
        e(messages=[["id", "text"]]),
        e(messages=["x", bubble("a", "b")]),
        messages(bubble(7, "x")),
        messages(bubble(None, "x")),
        messages(bubble("a", None)),
        messages(bubble("a", ["x"])),
        messages({"id": "a"}),
        messages(bubble("a", "x", role="me")),
        messages({"ID": "a", "text": "x"}),
        messages({"id ": "a", "text": "x"}),
        e("x", next=None),
        e("x", next={}),
        e("x", next=[]),
        e("x", next=7),
        e("x", next="tool"),
        e("x", next="later"),
        e("x", next={"type": "later"}),
        e("x", next={"type": "Stop"}),
        e("x", next={"type": None}),
        e("x", next={"type": "tool"}),
        e("x", next={"type": "tool", "name": "n"}),
        e("x", next={"type": "tool", "arguments": {}}),
        e("x", next={"type": "tool", "name": None, "arguments": {}}),
        e("x", next={"type": "tool", "name": "n", "arguments": {}, "id": 1}),
        e("x", note=1),
        e("x", note=1, schema="openab.turn.v9"),
        E_X.replace('"schema"', '"Schema"'),
        E_X.replace('"text"', '"text":"w","text"'),
        E_X.replace('"next"', '"messages":[],"next"'),
        e("x", next={"type": "wait", "a": 0}).replace('"a":0', '"a":{"b":0,"b":0}'),
        e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", ":NaN"),
        e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", ":-Infinity"),
        e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", ":" + "7" * 4301),
        e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", ":0." + "7" * 4300),
        e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", ":[-" + "7" * 4301 + ",1,2.5]"),
        e(r"\ud83d").replace("\\\\", "\\"),
        e("x", next={"type": "wait", r"\udc00": 0}).replace("\\\\", "\\"),
        e("a\x01b").replace("\\u0001", "\x01"),
        f'{{"note":"\x01","reply":{E_X}}}',
        e(r"\x").replace("\\\\", "\\"),
    ],
)
@pytest.mark.parametrize("repair", [False, True], ids=["as-is", "repair"])
def test_what_is_not_of_the_format_is_malformed(body: str, repair: bool) -> None:
    """delivery 12.9"""
    assert judge(body, repair=repair) == Rejection("malformed")


def test_a_number_may_have_as_many_digits_as_python_reads() -> None:
    body = e("x", next={"type": "tool", "name": "n", "arguments": 0})
    for number, value in [
        ("7" * 4300, int("7" * 4300)),
        ("0." + "0" * 4299, 0.0),
        ("-" + "1" * 4300, -int("1" * 4300)),
    ]:
        verdict = judge(body.replace(":0", f":{number}"))
        assert isinstance(verdict, Envelope)
        assert verdict.next.arguments == value


@pytest.mark.parametrize(
    ("body", "kind", "index", "number"),
    [
        (e("x", schema="openab.turn.v9"), "schema_mismatch", None, None),
        (e("x", schema="openab.turn.v1 "), "schema_mismatch", None, None),
        (e("x", schema="OPENAB.turn.v1"), "schema_mismatch", None, None),
        (e(*"abcde", schema="openab.turn.v9"), "schema_mismatch", None, None),
        (e(*"abcde"), "too_many_bubbles", None, 5),
        (e(*"abcd", ""), "too_many_bubbles", None, 5),
        (messages(bubble("a", "x"), bubble(" \u200b", "")), "blank_bubble_id", 1, None),
        (messages(bubble("a", "x"), bubble(" a\n", "")), "duplicate_bubble_id", 1, None),
        (messages(bubble("a", "x"), bubble("b", " \ufeff\n")), "empty_bubble", 1, None),
        (messages(bubble("a", ""), bubble("a", "y" * 1201)), "empty_bubble", 0, None),
        (e("x", "y" * 1201), "bubble_too_long", 1, 1201),
        (e("x" + " " * 1200), "bubble_too_long", 0, 1201),
        (e("\U0001f600" * 1201), "bubble_too_long", 0, 1201),
        (e(), "empty_turn", None, None),
        (dump({"schema": SCHEMA}), "empty_turn", None, None),
        (e(next={"type": "tool", "name": "n", "arguments": None}), "empty_turn", None, None),
    ],
)
def test_the_first_fault_says_why(body: str, kind: RejectionKind, index: int | None, number: int | None) -> None:
    """delivery 12.5, delivery 12.6"""
    assert judge(body) == Rejection(kind, index, number)


def test_bubbles_are_measured_in_characters() -> None:
    """delivery 12.6"""
    assert isinstance(judge(e("\U0001f600" * 1200)), Envelope)
    assert isinstance(judge(e("x" * 10_000), max_bubble_chars=0), Envelope)
    assert isinstance(judge(e(*"abcde"), max_bubbles=5), Envelope)


@pytest.mark.parametrize(
    ("body", "bubbles"),
    [
        (e("x", "y", **SILENT), 2),
        (e(**SILENT), 0),
        (e(messages=None, **SILENT), 0),
        (e("x", schema="openab.turn.v9", note=1, **SILENT), 1),
        (e("x", next="silent"), 1),
        (e("x", next={"TYPE": "silent", "reason": "-"}), 1),
        (E_X.replace('"type":"stop"', '"type":"stop","type":"silent"'), 1),
        (e("x\ud83d", **SILENT), 1),
    ],
)
def test_an_envelope_that_wants_silence_is_not_judged(body: str, bubbles: int) -> None:
    """delivery 12.7, delivery 12.8"""
    assert find(body) == Findings((), (), True, bubbles, "")


def test_silent_is_one_word() -> None:
    assert judge(e("x", next="Silent")) == Rejection("malformed")


def test_valid_and_rejected_envelopes_are_told_apart_in_order() -> None:
    """delivery 12.9: A4, A35"""
    found = find(e("x") + e(*"abcde") + e("y") + e("z", note=CANARY) + e("z")[:-9])
    assert [envelope.bubbles[0].text for envelope in found.envelopes] == ["x", "y"]
    assert [rejection.kind for rejection in found.rejections] == ["too_many_bubbles", "malformed", "truncated"]
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    "body",
    [
        e(messages=[CANARY]),
        e(messages=[{"id": CANARY, "text": CANARY, CANARY: 1}]),
        e("x", **{CANARY: CANARY}),
        e("x", schema=f"openab.turn.{CANARY}"),
        e("x", next={"type": CANARY}),
        e("x", next={"type": "tool", "name": CANARY}),
        repr(value_of(CANARY)),
        e(CANARY)[:-9],
        f"schema: openab.turn.v1\nmessages:\n- {CANARY}\n",
    ],
)
def test_findings_hold_no_string_of_a_rejected_envelope(body: str) -> None:
    """delivery 12.13"""
    assert CANARY not in repr(find(f"so\n{body}"))
