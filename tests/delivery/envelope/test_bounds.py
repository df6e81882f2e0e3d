"""delivery.md 3.4: hostile text is bounded work. Counted here; `benchmarks/envelope.py` takes the time."""

import pytest

from openab_kernel.delivery.envelope import EnvelopeRules, Findings, find_envelopes, leaks
from openab_kernel.delivery.envelope import bounds as limits
from openab_kernel.delivery.envelope.bounds import Budget
from openab_kernel.delivery.envelope.search import search
from tests.delivery.envelope.table import E5, E_X, e

SIZE = 1_000_000
HOSTILE = {
    "objects": "{",
    "arrays": "[",
    "keys": '{"',
    "strings": '["',
    "both": "[{",
    "schemas": '{"schema":',
    "quoted otherwise": "{'schema':",
    "nested": '{"a":',
    "comments": "{/*",
    "line comments": "{//",
    "backslashes": "\\",
    "white space": " ",
    "line feeds": "\n",
    "fences": "```\n",
    "tokens": "</s>",
    "digits": "7",
    "YAML": "- a: b\n",
    "YAML keys": "schema: openab.turn.v1\n",
    "values": '{"a":1}',
    "open strings": "{\u201cmessages\u201d:[\u2018\\",
    "bubbles": '{"messages":[{"id":"b","text":"c"},',
    "silence": '{"schema":"openab.turn.v1","next":{"type":"silent"}}',
}


@pytest.mark.parametrize("marker", ["", ' "messages" '], ids=["no marker", "marker"])
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "before", ["", '{"schema":"openab.turn.v1","messages":[{"id":"b","text":"'], ids=["", "inside"]
)
def test_a_megabyte_is_searched_in_few_steps(piece: str, marker: str, before: str) -> None:
    """delivery 12.25"""
    text = before + piece * (SIZE // len(piece)) + marker
    budget = Budget()
    search(text, EnvelopeRules(), budget)
    assert budget.reads <= limits.MAX_READS + 1
    assert budget.failed_reads <= limits.MAX_FAILED_READS + 1
    assert budget.brackets <= limits.MAX_BRACKETS + 1
    assert budget.tolerant_reads <= limits.MAX_TOLERANT_READS + 1
    assert budget.tokens <= limits.MAX_TOKENS + 1
    found = find(text)
    assert found.is_structured or found.rest == text
    assert not before or not found.rest
    assert not found.envelopes


def find(text: str) -> Findings:
    return find_envelopes(text, text, EnvelopeRules())


def spent(text: str) -> Budget:
    budget = Budget()
    search(text, EnvelopeRules(), budget)
    return budget


def test_no_start_after_the_last_marker_is_tried() -> None:
    assert spent('so {"' * 1000).reads == 0
    assert spent('messages {"' * 10 + '{"' * 1000).failed_reads == 9


def test_past_the_failed_reads_all_is_machine_text_if_a_marker_lies_ahead() -> None:
    """delivery 12.25"""
    before = '{"a" ' * limits.MAX_FAILED_READS
    found = find(f'{before}so {{"b" {E_X}')
    assert [rejection.kind for rejection in found.rejections] == ["malformed"]
    assert found.rest == f"{before}so"
    assert find(f"{before}{E_X}").envelopes
    assert not find(f'messages {before}{{"b" so').is_structured


@pytest.mark.parametrize(
    ("bound", "piece"),
    [
        ("MAX_READS", "{} "),
        ("MAX_BRACKETS", '{"a":{"b":{}}} '),
        ("MAX_ENVELOPES", f"{E5} "),
        ("MAX_TOLERANT_READS", "{messages:1} "),
        ("MAX_TOKENS", "{messages:1} "),
        ("MAX_TOKEN_CHARS", "{messages:1} "),
    ],
)
def test_past_each_bound_all_is_machine_text(bound: str, piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """delivery 12.25"""
    monkeypatch.setattr(limits, bound, 30)
    text = f"so {piece * 40}{E_X}"
    found = find(text)
    assert found.rejections
    assert not found.envelopes
    assert "openab" not in found.rest
    monkeypatch.setattr(limits, bound, 10**6)
    assert find(text).envelopes


def test_past_the_bound_the_search_for_a_cut_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """delivery 12.25"""
    text = 'so {"next" 1 {"next" 2 {"next" 3\n{"mess'
    assert find(text).rejections
    monkeypatch.setattr(limits, "MAX_TOKENS", 3)
    assert find(text).rest == text


def test_past_a_bound_a_body_is_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    """delivery 12.25"""
    many = "[" + "{}," * limits.MAX_BRACKETS + "{}]"
    assert find(many).rest == many
    monkeypatch.setattr(limits, "MAX_TOKENS", 9)
    few = "[{'id':'a','text':'b'}]"
    assert find(few).rest == few


def test_past_a_bound_a_wrapper_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """delivery 12.25"""
    text = f'a {{"r":{E5},"n":1,}} b'
    monkeypatch.setattr(limits, "MAX_TOKENS", 3)
    assert find(text).rest == 'a {"r":\n,"n":1,} b'


def test_a_cut_one_is_looked_for_at_the_end_alone() -> None:
    """delivery 12.25"""
    cut = 'so\n{"mess'
    assert find(cut).rejections
    many = '{"a" ' * 64 + cut
    assert find(many).rest == many
    far = 'so\n{"messages":["' + "x" * limits.TAIL_CHARS
    assert find(far).rest == far


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ('[{"a":', "}]")])
def test_values_may_nest_64_deep(opening: str, closing: str) -> None:
    """delivery 12.25"""
    deep = 64 // len(closing)
    assert spent(f"so {opening * deep}1{closing * deep} messages").failed_reads == 0
    assert spent(f"so {opening * (deep + 1)}1{closing * (deep + 1)} messages").failed_reads > 0


def tool(depth: int) -> str:
    nested = "[" * depth + "]" * depth
    return e("x", next={"type": "tool", "name": "n", "arguments": 0}).replace(":0", f":{nested}")


@pytest.mark.parametrize("before", ["", "so\n"])
def test_an_envelope_may_nest_64_deep(before: str) -> None:
    """delivery 12.25"""
    assert find(before + tool(62)).envelopes
    deeper = find(before + tool(63))
    assert [rejection.kind for rejection in deeper.rejections] == ["malformed"]
    assert deeper.rest == before.strip()
    assert find(before + tool(100_000)).rest == before.strip()


def test_a_bracket_that_was_matched_before_is_not_matched_again() -> None:
    """delivery 12.25: passes over the same text add up to one"""
    text = '{"a":' * 60 + '{"x":1},' * 1000 + "messages"
    assert spent(text).brackets < 2500
    assert spent(r'{"k{"x\"y"[{ messages').brackets == 4
    shared = '{"a":{"b":[{"c":1},{"d":1} x]}} messages'
    assert spent(shared).failed_reads == 3
    deep = '{"a":' * 40 + '{"b":1' + '{"c":' * 30 + "1" + "}" * 30 + "}" * 41 + " messages"
    assert spent(deep).failed_reads > 0


def test_a_bubble_of_a_million_characters_is_cheap() -> None:
    """delivery 12.9: A47"""
    budget = spent(e("x" * SIZE))
    assert (budget.reads, budget.tokens, budget.brackets) == (0, 0, 7)


def test_the_guard_reads_a_megabyte() -> None:
    for piece in HOSTILE.values():
        leaks(piece * (SIZE // len(piece)))
