"""What agents may write, made up: valid and broken envelopes, cut, wrapped, encoded again, between prose."""

import html
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.envelope import EnvelopeRules, Findings, find_envelopes, leaks
from tests.delivery.envelope.table import CANARY, SCHEMA, dump

SCRAPS = [
    *"abc\n\t\"'`{}[]<>:,\\é漢\U0001f600\u2028\x07",
    "```\n",
    "</s>",
    "//",
    "/*",
    '"id":',
    "it's",
    ": -",
    "- ",
    "# ",
]
texts = st.lists(st.sampled_from(SCRAPS), max_size=4).map(lambda scraps: CANARY + "".join(scraps) + CANARY)
# Without what could be taken for an envelope, a start of one, or a wrapper of it.
words = st.lists(
    st.sampled_from(["so", 'the pipe is 6"', "a (b)", "x: y", "it's", "é", "1.", "f() { a; }"]), min_size=1
)
sentences = words.map(lambda found: " ".join(found) + ".")


@st.composite
def values(draw: st.DrawFn, *, is_valid: bool) -> dict[str, Any]:
    """An envelope; if it is not to be valid, one with too many bubbles. Its keys are in any order."""
    written = draw(st.lists(texts, min_size=1, max_size=3) if is_valid else st.lists(texts, min_size=5, max_size=5))
    messages = [{"id": f"{CANARY}{number}", "text": text} for number, text in enumerate(written)]
    if draw(st.booleans()):
        messages = [dict(reversed(bubble.items())) for bubble in messages]
    steps: list[dict[str, Any]] = [
        {"type": "stop"},
        {"type": "wait"},
        {"type": "tool", "name": CANARY, "arguments": {"a": [CANARY, None, 1.5]}},
    ]
    value = {"schema": SCHEMA, "messages": messages, "next": draw(st.sampled_from(steps))}
    return {key: value[key] for key in draw(st.permutations(list(value)))}


def escape_keys(value: dict[str, Any]) -> str:
    return re.sub(r'"(s|m)(chema|essages)":', lambda found: rf'"\u{ord(found[1]):04x}{found[2]}":', dump(value))


def write_yaml(value: dict[str, Any]) -> str:
    lines = [f"schema: {value['schema']}", "messages:"]
    for bubble in value["messages"]:
        lines += [f"  - id: {json.dumps(bubble['id'])}", f"    text: {json.dumps(bubble['text'])}"]
    return "\n".join([*lines, "next:", "  type: stop"])


READABLE = [
    dump,
    json.dumps,
    escape_keys,
    lambda value: json.dumps(value, indent=2),
    lambda value: json.dumps(value, indent=2).replace("\n", "\r\n"),
]
UNREADABLE = [
    repr,
    lambda value: dump(value)[:-1] + ",}",
    lambda value: "{/* it */" + dump(value)[1:],
    lambda value: re.sub(r'"(schema|messages|next|id|text|type)":', r"\1: ", dump(value)),
    lambda value: html.escape(dump(value)),
    lambda value: json.dumps(dump(value)),
    lambda value: json.dumps(dump(value), ensure_ascii=False)[1:-1],
    lambda value: dump(value).replace("{", "{\ufeff"),
    lambda value: dump({**value, "extra": CANARY}),
    lambda value: dump(value).replace('"schema"', '"schema "'),
    lambda value: dump(value).replace("}", ',"id":"twice"}'),
    lambda value: dump({**value, "n": 0}).replace('"n":0', '"n":' + "9" * 5000),
    lambda value: "\n> " + json.dumps(value, indent=2).replace("\n", "\n> ") + "\n",
    write_yaml,
]
WRAPS = [
    "{}",
    "```json\n{}\n```",
    "```{}```",
    "~~~\n{}\n~~~",
    "`{}`",
    "<reply>{}</reply>",
    "<reply>\n```json\n{}\n```\n</reply>",
    "[{}]",
    '{{"reply":{}}}',
    "{}</s>",
    "<|im_start|>{}<|im_end|>",
    '"""{}"""',
    "- {}",
]


def find(body: str, *, repair: bool = False) -> Findings:
    return find_envelopes(body, body, EnvelopeRules(repair=repair))


def shown(found: Findings) -> str:
    """What is sent as prose under the policy that sends most."""
    return "" if found.envelopes or found.is_silent or leaks(found.rest) else found.rest


def wrap(draw: st.DrawFn, piece: str) -> str:
    inner, outer = draw(st.tuples(st.sampled_from(WRAPS), st.sampled_from(WRAPS)))
    piece = inner.format(piece)
    # A fence that opens on the line of another is none.
    return piece if outer == "```{}```" else outer.format(piece)


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """An envelope that is not valid, in some wrapping."""
    write = draw(st.sampled_from(READABLE + UNREADABLE))
    return wrap(draw, write(draw(values(is_valid=False))))


def assert_clean(text: str) -> None:
    assert CANARY not in text
    assert not re.search(r"""["'](schema|messages)["']\s*:""", text)
    assert not re.search(r"^\s*(```|~~~)", text, re.MULTILINE)


@given(spoilt(), sentences, sentences, st.booleans())
def test_nothing_of_a_rejected_envelope_is_left(piece: str, before: str, after: str, repair: bool) -> None:
    """delivery 12.9, delivery 12.13"""
    found = find(f"{before}\n{piece}\n{after}", repair=repair)
    assert not found.envelopes
    assert_clean(shown(found))
    assert CANARY not in repr(found.rejections)


@given(spoilt(), st.data())
def test_nothing_of_a_cut_envelope_is_left(piece: str, data: st.DataObject) -> None:
    """delivery 12.9, delivery 12.10"""
    found = find("so\n" + piece[: data.draw(st.integers(0, len(piece)))])
    assert CANARY not in shown(found)


@given(spoilt(), spoilt(), sentences)
def test_nothing_of_two_envelopes_is_left(first: str, second: str, between: str) -> None:
    """delivery 12.9"""
    assert CANARY not in shown(find(f"{first}\n{between}\n{second}"))


@given(st.lists(st.tuples(values(is_valid=True), st.sampled_from(READABLE), sentences), min_size=1, max_size=3))
def test_valid_envelopes_in_prose_arrive_whole_and_in_order(
    parts: list[tuple[dict[str, Any], Any, str]],
) -> None:
    """delivery 12.9"""
    found = find("\n".join(f"{prose}\n{write(value)}\n{prose}" for value, write, prose in parts))
    sent = [[bubble.text for bubble in envelope.bubbles] for envelope in found.envelopes]
    assert sent == [[bubble["text"].rstrip() for bubble in value["messages"]] for value, _, _ in parts]
    assert not found.rejections


@given(st.lists(st.sampled_from([*SCRAPS, "word ", " ", "{", "}", "[", "]", '{"a":1}', "next", "text"])).map("".join))
def test_prose_without_a_marker_comes_back_byte_for_byte(prose: str) -> None:
    """delivery 12.9, delivery 12.12"""
    found = find(f"{prose}.")
    assert not found.is_structured
    assert found.rest == f"{prose}."


TOKENS = [
    *"{}[]\":,'\\\n `",
    "schema",
    "messages",
    "next",
    '"id"',
    '"text"',
    "openab.turn.v1",
    "silent",
    '"type"',
    "//",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(TOKENS), max_size=60).map("".join)), st.booleans())
def test_no_text_is_too_much(text: str, repair: bool) -> None:
    found = find(text, repair=repair)
    assert found.is_structured or found.rest == text
    leaks(text)
