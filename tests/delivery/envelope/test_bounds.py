"""delivery.md 3.4: hostile text is bounded work. Counted here; `benchmarks/envelope.py` takes the time."""

import pytest

from openab_kernel.delivery.envelope import EnvelopeRules, find_envelopes, leaks
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
    "open strings": '{“messages”:[‘\\',
    "bubbles": '{"messages":[{"id":"b","text":"c"},',
    "silence": '{"schema":"openab.turn.v1","next":{"type":"silent"}}',
}


@pytest.mark.parametrize("marker", ["", ' "messages" '], ids=["no marker", "marker"])
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("before", ["", '{"schema":"openab.turn.v1","messages":[{"id":"b","text":"'], ids=["", "inside"])
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
    found = find_envelopes(text, text, EnvelopeRules())
    assert found.is_structured or found.rest == text
    assert not before or not found.rest
    assert not found.envelopes


def spent(text: str) -> Budget:
    budget = Budget()
    search(text, EnvelopeRules(), budget)
    return budget


def test_no_start_after_the_last_marker_is_tried() -> None:
    assert spent('so {"' * 1000).reads == 0
    assert spent('messages {"' * 10 + '{"' * 1000).failed_reads == 10


def test_past_the_failed_reads_all_is_machine_text_if_a_marker_lies_ahead() -> None:
    """delivery 12.25"""
    before = '{"a" ' * limits.MAX_FAILED_READS
    found = find_envelopes(text := f'{before}so {{"b" {E_X}', text, EnvelopeRules())
    assert [rejection.kind for rejection in found.rejections] == ["malformed"]
    assert found.rest == f"{before}so"
    assert find_envelopes(text := f'{before}{E_X}', text, EnvelopeRules()).envelopes
    assert not find_envelopes(text := f'messages {before}{{"b" so', text, EnvelopeRules()).is_structured


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
    found = find_envelopes(text := f"so {piece * 40}{E_X}", text, EnvelopeRules())
    assert found.rejections
    assert not found.envelopes
    assert "openab" not in found.rest
    monkeypatch.setattr(limits, bound, 10**6)
    assert find_envelopes(text, text, EnvelopeRules()).envelopes


def test_past_the_bound_the_search_for_a_cut_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """delivery 12.25"""
    text = 'so {"next" 1 {"next" 2 {"next" 3\n{"mess'
    assert find_envelopes(text, text, EnvelopeRules()).rejections
    monkeypatch.setattr(limits, "MAX_TOKENS", 3)
    assert find_envelopes(text, text, EnvelopeRules()).rest == text


def test_a_cut_one_is_looked_for_at_the_end_alone() -> None:
    """delivery 12.25"""
    cut = 'so\n{"mess'
    assert find_envelopes(cut, cut, EnvelopeRules()).rejections
    many = '{"a" ' * 64 + cut
    assert find_envelopes(many, many, EnvelopeRules()).rest == many
    far = 'so\n{"messages":["' + "x" * limits.TAIL_CHARS
    assert find_envelopes(far, far, EnvelopeRules()).rest == far


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
    assert find_envelopes(text := before + tool(62), text, EnvelopeRules()).envelopes
    deeper = find_envelopes(text := before + tool(63), text, EnvelopeRules())
    assert [rejection.kind for rejection in deeper.rejections] == ["malformed"]
    assert deeper.rest == before.strip()
    assert not find_envelopes(text := before + tool(100_000), text, EnvelopeRules()).rest.strip("so\n")


def test_a_bracket_that_was_matched_before_is_not_matched_again() -> None:
    """delivery 12.25: passes over the same text add up to one"""
    text = '{"a":' * 60 + '{"x":1},' * 1000 + "messages"
    assert spent(text).brackets < 2500
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
