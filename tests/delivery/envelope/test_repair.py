"""delivery.md 3.7: what `repair` accepts, by name, and that it accepts nothing else."""

import pytest

from openab_kernel.delivery.envelope import EnvelopeRules, Fix, find_envelopes
from tests.delivery.envelope.table import E_X, dump, e, value_of

BUBBLES = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]
TRAILING = E_X[:-1] + ",}"


@pytest.mark.parametrize(
    ("body", "fixes", "texts"),
    [
        (e("a\nb\tc").replace("\\n", "\n").replace("\\t", "\t"), ["raw_control"], ["a\nb\tc"]),
        (e("a\nb").replace("\\n", "\r\n"), ["raw_control"], ["a\r\nb"]),
        (TRAILING, ["trailing_comma"], ["x"]),
        (f"so {TRAILING} so", ["trailing_comma"], ["x"]),
        (e("a\nb").replace("\\n", "\n")[:-1] + ",}", ["raw_control", "trailing_comma"], ["a\nb"]),
        (e(messages=["x", "y"]), ["string_messages"], ["x", "y"]),
        (e("x", next="wait"), ["string_next"], ["x"]),
        (e(messages=[{"text": "x"}, {"id": "bubble_1", "text": "y"}, {"text": "z"}]), ["missing_id"], ["x", "y", "z"]),
        (dump({"messages": BUBBLES}), ["missing_schema"], ["x", "y"]),
        (dump({"messages": ["x"], "next": "stop"}), ["string_messages", "string_next", "missing_schema"], ["x"]),
        (dump(BUBBLES), ["bare_array"], ["x", "y"]),
        (dump(BUBBLES)[:-1] + ",]", ["trailing_comma", "bare_array"], ["x", "y"]),
        (dump(BUBBLES).replace("y", "y\ty"), ["raw_control", "bare_array"], ["x", "y\ty"]),
    ],
)
def test_each_fix_is_named(body: str, fixes: list[Fix], texts: list[str]) -> None:
    """delivery 12.9"""
    found = find_envelopes(body, body, EnvelopeRules(repair=True))
    (envelope,) = found.envelopes
    assert list(envelope.fixes) == fixes
    assert [bubble.text for bubble in envelope.bubbles] == texts
    assert len({bubble.id for bubble in envelope.bubbles}) == len(texts)
    (rejection,) = find_envelopes(body, body, EnvelopeRules()).rejections
    assert rejection.kind == "malformed"


def test_strings_are_numbered() -> None:
    body = e(messages=["x", "y"])
    (envelope,) = find_envelopes(body, body, EnvelopeRules(repair=True)).envelopes
    assert [bubble.id for bubble in envelope.bubbles] == ["bubble_1", "bubble_2"]


@pytest.mark.parametrize(
    "body",
    [
        repr(value_of("x")),
        "{schema:" + E_X.removeprefix('{"schema":'),
        "{ // it\n" + E_X[1:],
        E_X.replace("messages", "Messages"),
        e("x", note=1),
        e("x", next="tool"),
        TRAILING.replace('"x"', "None"),
        TRAILING.replace('"x"', "NaN"),
        TRAILING.replace('"x"', '"\x01"'),
        TRAILING.replace('"x"', '"\\x"'),
        TRAILING.replace('"x"', '"\\ud83d"'),
        TRAILING.replace(":", "\xa0:"),
        "schema: openab.turn.v1\nmessages:\n- id: a\n  text: x\n",
        f"{TRAILING[:-1]},}}",
    ],
)
def test_nothing_else_is_repaired(body: str) -> None:
    """delivery 12.9"""
    found = find_envelopes(body, body, EnvelopeRules(repair=True))
    assert [rejection.kind for rejection in found.rejections] == ["malformed"]
    assert not found.envelopes


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (e(messages=list("abcde")), "too_many_bubbles"),
        (e(messages=["x", " "]), "empty_bubble"),
        (e(messages=["x" * 1201]), "bubble_too_long"),
        (e("x", schema="openab.turn.v9")[:-1] + ",}", "schema_mismatch"),
        (dump({"messages": []}), "empty_turn"),
    ],
)
def test_what_was_repaired_is_judged_like_any_other(body: str, kind: str) -> None:
    """delivery 12.9"""
    found = find_envelopes(body, body, EnvelopeRules(repair=True))
    assert [rejection.kind for rejection in found.rejections] == [kind]
