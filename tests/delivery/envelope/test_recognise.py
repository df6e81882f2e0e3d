"""delivery.md 3.2 and 3.3: what counts as an envelope, where it is looked for, and what is cut with it."""

import json

import pytest

from openab_kernel.delivery.envelope import EnvelopeRules, Findings, find_envelopes, leaks
from tests.delivery.envelope.table import CANARY, E5, E_X, SILENT, e, value_of

E5_DICT = repr(value_of("one", "two", "three", "four", "five"))
PRETTY = json.dumps(value_of("one", "two", "three", "four", "five"), indent=2)


def find(buffer: str, answer: str | None = None, **rules: object) -> Findings:
    made = EnvelopeRules(**rules)  # type: ignore[arg-type]  # each test names one
    return find_envelopes(buffer, buffer if answer is None else answer, made)


def kinds(found: Findings) -> list[str]:
    return [rejection.kind for rejection in found.rejections]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('so {"schema":"OpenAB.Turn.v2"} so', id="R1 family in any case"),
        pytest.param('so {"SCHEMA":"openab.turn."} so', id="R1 key in any case"),
        pytest.param('so {"messages":[{"text":"a"}],"schema":"x"} so', id="R2 with a schema"),
        pytest.param('so {"messages":[{"text":"a","n":1}],"next":"wait"} so', id="R2 with a word"),
        pytest.param('so {"messages":[{"text":"a","n":1}],"next":{"type":"wait","n":1}} so', id="R2 with a step"),
        pytest.param('so {"messages":[{"text":"a","id":7}]} so', id="R2 with bubbles"),
        pytest.param('so {"messages":["a"],"next":"stop","n":1} so', id="R3"),
        pytest.param('so {"a":[1,{"b":{"messages":["a"],"next":"stop"}}]} so', id="deep in a value"),
        pytest.param('so {"messages":"no","messages":["a"],"next":"stop"} so', id="under a repeated key"),
        pytest.param('so {"schema ":"openab.turn.v1"} so', id="a key with a space"),
        pytest.param(f'so {{"log":{json.dumps(E_X)}}} so', id="in a string"),
        pytest.param(r'so {"log":"{\"schema\":\"openab.turn.v1\",\"mess"} so', id="cut, in a string"),
    ],
)
def test_these_are_envelopes_that_are_not_sent(text: str) -> None:
    """delivery 12.9"""
    found = find(text)
    assert found.rejections
    assert not found.envelopes
    assert found.rest == "so\nso"


@pytest.mark.parametrize(
    "text",
    [
        '{"schema":"x"}',
        '{"schema":7,"messages":[]}',
        '{"messages":[{"role":"user","content":"hi"}],"model":"m"}',
        '{"messages":[{"type":"text","text":"hi"}]}',
        '{"messages":[{"type":"text","text":7}],"schema":"x"}',
        '{"messages":{"text":"a"},"next":"stop"}',
        '{"messages":[],"next":"stop"}',
        '{"messages":["a",1],"next":"stop"}',
        '{"messages":["a"],"next":{"type":["stop"]}}',
        '{"messages":["a"],"next":{}}',
        '{"next":"stop"}',
        '[{"id":"a","text":"b"}]',
        '{"log":"{} schema messages"}',
        '{"log":"{\\"schema\\":1}"}',
        "{ messages: [{ role: 'user' }] }",
        "{ next: node, messages: [id] }",
        '{"type":"object","properties":{"schema":{"type":"string"},"messages":{"type":"array"}}}',
    ],
)
def test_these_are_prose(text: str) -> None:
    """delivery 12.12"""
    assert find(f" so {text} so ") == Findings((), (), False, 0, f" so {text} so ")


@pytest.mark.parametrize(
    "body",
    [
        '[{"id":"a","text":"b"}]',
        '[{"id":"a","text":"b"},]',
        "[{'id': 'a', 'text': 'b'}]",
        '[{"id":"a","text":"b',
        '{"messages":[]}',
        "{messages: []}",
        '{"next":"stop"}',
        '"{\\"next\\":\\"stop\\"}"',
        "```\n<reply>\n[{'id': 'a', 'text': 'b'}]</reply>\n```",
        "<reply>```[{'id': 'a', 'text': 'b'}]```</reply>",
    ],
)
def test_a_whole_body_needs_less_to_be_an_envelope(body: str) -> None:
    """delivery 12.9"""
    found = find(body)
    assert found.rejections
    assert found.rest == ""


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        "[1]",
        '"word"',
        '"word" is a word',
        '"{}"',
        '"word',
        '{"messages":[1]}',
        '{"messages":["a"],"next":"p2"}',
        '{"messages":[],"n":1}',
        "{messages: 1}",
        "{messages: [], n: 1} so",
        "[{'id': 1}]",
        "[{'id': 'a', 'text': 'b'}] so",
        "<reply>so",
        "```so",
        "```\n```\n",
        '{"next":' * 70 + "1" + "}" * 70,
    ],
)
def test_other_bodies_are_prose(body: str) -> None:
    """delivery 12.12"""
    assert find(body) == Findings((), (), False, 0, body)


def test_another_schema_may_be_configured() -> None:
    body = e("x", schema="acme.v2")
    assert find(body, schema_id="acme.v2").envelopes[0].bubbles[0].text == "x"
    assert kinds(find('so {"schema":"acme.v2"}', schema_id="acme.v2")) == ["empty_turn"]
    assert kinds(find('so\n{"schema":"acme', schema_id="acme.v2")) == ["truncated"]
    assert kinds(find(body)) == ["schema_mismatch"]


CUT = [
    '{"',
    "{“sche",
    "{'next': {'type': 's",
    '{"next":"st',
    '{"next":"stop"',
    '{"messages":["a","b',
    '{"messages":[{"id":"a","te',
    '{"messages":[{"id":"a","text":"b"},{',
    '{"messages"',
    "{messages: [",
    "{messages: ['a'], nex",
    "{messages: [{id: 'a', te ",
    '{"schema":"openab.tu',
    '{"schema":"openab.turn.v1"',
    '{"messages":["a\nb',
    '{"messages":["a"],\n```',
    '[{"schema":"openab.turn.v1","m',
    '<reply>{"messages":["a',
    '```\n{"messages":["a\\',
    '{/* it */"messages":["a',
    '{ // it\n  messages: ["a',
    '{"schema":"openab.turn.v1", // it',
    "{&quot;messages&quot;:[{&quot;id&qu",
    '{\\"messages\\":[\\"a\\",\\',
    '{"next":{"type":"tool","name":"n","arguments":[true,-1.5e3,0,None,12',
    '{"schema":"openab.turn.v1", /* it',
    '{"messages":["a"],"\\u',
    '{"messages":["a"],"\\u0073ch',
    '{"m\\u0065ss',
    '{"schema":"open\\u00',
]


@pytest.mark.parametrize("piece", CUT)
def test_a_cut_envelope_is_cut_off(piece: str) -> None:
    """delivery 12.10"""
    found = find(f"so\n{piece}")
    assert kinds(found) == ["truncated"]
    assert found.rest == "so"


@pytest.mark.parametrize(
    "piece",
    [
        'x {"',
        "{sche",
        "{next",
        "{// so",
        '{"name',
        '{"schema":"http',
        '{"schema":7',
        '{"schema":"op"',
        '{"messages":"a',
        '{"messages":[1',
        '{"messages":[so',
        '{"messages":[{"role',
        '{"next":"cur',
        '{"next":7',
        "{next: so",
        '{"messages":["a" so',
        '{"messages":["a", so so',
        '{"messages" "a',
        '{"messages":}',
        '{"next":"stop","name":1',
    ],
)
def test_what_could_not_become_an_envelope_is_prose(piece: str) -> None:
    """delivery 12.12"""
    assert find(f"so\n{piece}").rest == f"so\n{piece}"


def test_a_quotation_mark_that_was_not_escaped_hides_no_envelope() -> None:
    """delivery 12.9"""
    found = find('so\n{"messages":[{"text":"say "hi" to","id":"a"}],"next":{}}\nand so on')
    assert (kinds(found), found.rest) == (["malformed"], "so")
    assert not find('so\n{"messages":[{"role":"a","text":"say "hi" to"}]}').rejections


def test_an_envelope_that_breaks_off_into_prose_takes_the_rest_with_it() -> None:
    """delivery 12.9: nobody knows where it was meant to end"""
    found = find('so\n{"schema":"openab.turn.v1","messages":[{"id":"a","text":"b"}} and so on')
    assert (kinds(found), found.rest) == (["malformed"], "so")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        pytest.param(f"a\n> {E5}\nb", "a\nb", id="quote"),
        pytest.param("a\n> " + PRETTY.replace("\n", "\n> ") + "\nb", "a\nb", id="quote of many lines"),
        pytest.param(f"- a\n- {E5}\n- b", "- a\n- b", id="list"),
        pytest.param(f"a `{E5}` b", "a\nb", id="code"),
        pytest.param(f"a\n`\n{E5}\n`\nb", "a\nb", id="code of many lines"),
        pytest.param(f"a\n```json\n{E5}\n```\nb", "a\nb", id="fence"),
        pytest.param(f"a\n```json {E5}\n```\nb", "a\nb", id="fence on the line"),
        pytest.param(f"a\n```\n{E5}\n{E5}\n```\nb", "a\nb", id="two in a fence"),
        pytest.param(f"a\n````\n```\n{E5}\n```\n````\nb", "a\nb", id="fence in a fence"),
        pytest.param(f"```\na\n```\n{E5}\n```\nb\n```", "```\na\n```\n```\nb\n```", id="between fences"),
        pytest.param(f"```\na\n{E5}\n```\nb", "```\na\n```\nb", id="at the end of a fence"),
        pytest.param(f"```\n{E5}\na\n```\nb", "```\na\n```\nb", id="at the head of a fence"),
        pytest.param(f"a\n~~~\n~~~\n{E5}\n~~~\n~~~\nb", "a\nb", id="the same fence in a fence"),
        pytest.param(f"a\n```\n{E5}", "a", id="open fence"),
        pytest.param(f"a {E5}\n```", "a", id="lone fence"),
        pytest.param(f"a <x y='z'><b>{E5}</b></x> b", "a\nb", id="tags"),
        pytest.param(f"a <x>{E5}</y> b", "a <x>\n</y> b", id="tags that are no pair"),
        pytest.param(f"a <s>{E5}</s><|end|> b", "a\nb", id="tokens"),
        pytest.param(f'a """{E5}""" b', "a\nb", id="string"),
        pytest.param(f"a [{E5_DICT}, {E5_DICT}] b", "a\nb", id="array"),
        pytest.param(f"a {{'r': {E5_DICT}, 'n': 1}} b", "a\nb", id="object"),
        pytest.param(f'a {{"r":{E5},"n":1,}} b', "a\nb", id="unreadable object"),
        pytest.param(f'a {{"r":{E5} b', 'a {"r":\nb', id="open object"),
        pytest.param(f"a\ufeff {E5} \ufeffb", "a\nb", id="marks of byte order"),
        pytest.param(f"a\n{E5}\nb\n{E5}\nc", "a\nb\nc", id="two"),
        pytest.param("[" * 100 + E5_DICT + "]" * 100, "[" * 84 + "\n" + "]" * 84, id="more layers than are taken off"),
    ],
)
def test_what_wrapped_an_envelope_goes_with_it(text: str, rest: str) -> None:
    """delivery 12.9"""
    found = find(text)
    assert found.rest == rest
    assert found.rejections
    assert not leaks(found.rest)


@pytest.mark.parametrize("quoted", ["&quot;", '\\"', '\\\\\\"', '""', "`", "\u00b4"])
def test_quotation_marks_may_be_of_any_kind(quoted: str) -> None:
    """delivery 12.9"""
    found = find("so " + e(CANARY).replace('"', quoted))
    assert (kinds(found), found.rest) == (["malformed"], "so")


@pytest.mark.parametrize(
    "text",
    [
        "so " + repr(value_of("x", **SILENT)),
        "so " + json.dumps(e("x", **SILENT)) + " so",
        'so {"log":' + json.dumps(e("x", **SILENT)) + "}",
        "so {“next”: “silent”, “messages”: [“x”]}",
        'so {"schema":"openab.turn.v1","next":"silent","messages":["x"],"more" 1}',
        e("x") + " " + e(**SILENT),
        e("x", **SILENT) + " " + E5,
    ],
)
def test_silence_is_heard_however_it_was_written(text: str) -> None:
    """delivery 12.8"""
    found = find(text)
    assert (found.is_silent, found.silenced_bubbles) == (True, 1)
    assert found.is_structured
    assert not found.envelopes
    assert not found.rejections


@pytest.mark.parametrize("step", ["next: silent", "next: {type: silent}", "next:\n  type: silent"])
def test_silence_is_heard_in_yaml(step: str) -> None:
    """delivery 12.8"""
    assert find(f"schema: openab.turn.v1\nmessages: []\n{step}\n").is_silent


def test_half_a_word_is_not_silence() -> None:
    assert kinds(find('so {"messages":["x"],"next":"silent')) == ["truncated"]


YAML = "schema: openab.turn.v1\nmessages:\n- id: b1\n  text: |\n    hi\n\n    you\n"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"So:\n---\n{YAML}---\nThat.", "So:\nThat."),
        (f"So:\n```yaml\n{YAML}```\nThat.", "So:\nThat."),
        (f"So:\r\n\r\n{YAML}next: stop".replace("\n", "\r\n"), "So:"),
        ("messages: none\nSo.\nschema: openab.turn.v1", "messages: none\nSo.\nschema: openab.turn.v1"),
        (f"{YAML}So.\n{E5}", "So."),
    ],
)
def test_yaml_is_cut_as_a_block(text: str, rest: str) -> None:
    """delivery 12.9"""
    assert find(text).rest == rest


def test_prose_is_that_of_the_answer_and_envelopes_are_those_of_all_text() -> None:
    """delivery 12.29"""
    assert find(f"narration\n{E_X}answer", "answer").envelopes[0].bubbles[0].text == "x"
    assert find(f"narration {E5} answer", " answer").rest == "answer"
    assert find(f"narration {E5}", "").rest == "narration"
    assert find(f"narration {E5}", E5[9:]).rest == ""
    assert find("narration answer", " answer").rest == " answer"
    assert find("narration  ", " ").rest == "narration  "


def test_a_wrapper_of_an_earlier_one_is_not_read_again() -> None:
    found = find(f"a {{'r': {E5_DICT}, 's': {E5_DICT}}} b")
    assert found.rest == "a\nb"


def test_case_folding_that_lengthens_a_text_does_not_hide_an_envelope() -> None:
    """`İ` becomes two letters in lower case."""
    assert find("İ" * 50 + E_X).envelopes
