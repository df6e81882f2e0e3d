"""delivery.md 3.6: the last guard. That it is silent on the table, `test_table.py` says."""

import html
import json

import pytest

from openab_kernel.delivery.envelope import leaks
from tests.delivery.envelope.table import E_X, YAML, e, value_of


@pytest.mark.parametrize(
    "text",
    [
        E_X,
        f"so {E_X[1:]}",
        json.dumps(E_X),
        json.dumps(json.dumps(E_X)),
        html.escape(E_X),
        repr(value_of("x")),
        E_X.replace('"', "“"),
        E_X.replace('"schema"', r'"\u0073chema"'),
        "> " + json.dumps(value_of("x"), indent=2).replace("\n", "\n> "),
        YAML,
        '"SCHEMA" : "OpenAB.turn.v9"',
        "{schema: openab.turn.v1}",
        '"messages": [ {"id": "a", "text": "b"',
        '"messages": [{"id": 7, "text": "b"',
        e("x").partition(",")[2],
        '"next": {"type": "silent"',
    ],
)
def test_machine_text_is_seen(text: str) -> None:
    assert leaks(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The schema is openab.turn.v1.",
        'schema = "openab.turn.v1"',
        '{"schema":"https://example.org"}',
        '{"messages":[{"role":"user","content":"hi"}]}',
        '{"messages":[{"type":"text","text":"hi"}]}',
        '"messages":[{"id"',
        '"next":{"type":"cursor"}',
        "next: stop & go",
    ],
)
def test_prose_is_not(text: str) -> None:
    assert not leaks(text)
