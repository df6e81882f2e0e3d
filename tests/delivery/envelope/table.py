"""The adversarial table of delivery.md 4 as data: what an agent writes, and what a person then sees.

Texts are what a turn sends in structured mode under `fallback_text`; `test_table.py` puts them to the search alone, the
interaction tests to a whole kernel.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any

SCHEMA = "openab.turn.v1"
CANARY = "SECRET-CANARY"


@dataclass(frozen=True)
class Bubbles:
    """These bubbles, whatever the policy."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Rest:
    """Machine text was cut, and this is left; nothing left is the apology."""

    text: str


@dataclass(frozen=True)
class Prose:
    """No machine text: this, byte for byte, outer white space apart."""

    text: str


@dataclass(frozen=True)
class Nothing:
    """Silence, whatever the policy."""


Expectation = Bubbles | Rest | Prose | Nothing

APOLOGY = Rest("")
NOTHING = Nothing()


class Update(enum.Enum):
    """What may come between two chunks of text."""

    TOOL_CALL = "a new tool call is announced"
    TOOL_UPDATE = "a tool call that was announced makes progress"


@dataclass(frozen=True)
class Row:
    """A row of the table. `kind` is what is logged of the first envelope that was rejected, or `not_structured`.

    `header` is a header of directives that stands above the body, without the line end. `was_reset`: the session could
    not be resumed, so there is a notice first. `is_long`: not to be repeated a thousand times.
    """

    id: str
    chunks: tuple[str | Update, ...]
    expect: Expectation
    kind: str | None = None
    with_repair: Expectation | None = None
    header: str = ""
    was_reset: bool = False
    is_long: bool = False

    @property
    def body(self) -> str:
        return "".join(chunk for chunk in self.chunks if isinstance(chunk, str))

    def expected(self, *, repair: bool) -> Expectation:
        return self.with_repair if repair and self.with_repair else self.expect

    def expected_kind(self, *, repair: bool) -> str | None:
        return None if repair and self.with_repair else self.kind


def value_of(*texts: str, **fields: Any) -> dict[str, Any]:
    """A valid envelope with these bubbles, as a value; `fields` replace its own."""
    messages = [{"id": f"b{number}", "text": text} for number, text in enumerate(texts, 1)]
    return {"schema": SCHEMA, "messages": messages, "next": {"type": "stop"}, **fields}


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def e(*texts: str, **fields: Any) -> str:
    """A valid envelope, compact."""
    return dump(value_of(*texts, **fields))


E_X = e("x")
E5 = e("one", "two", "three", "four", "five")
V9 = e("first", schema="openab.turn.v9")
SILENT: dict[str, Any] = {"next": {"type": "silent"}}
X = Bubbles(("x",))

YAML = """\
schema: openab.turn.v1
messages:
  - id: b1
    text: hi
next:
  type: stop
"""
REQUEST = 'Send this:\n```json\n{"model":"m","messages":[{"role":"user","content":"hi"}]}\n```\nand wait.'
TYPOGRAPHIC = "{“schema”:“openab.turn.v1”,“messages”:[{“id”:“b1”,“text”:“hi”}],“next”:{“type”:“stop”}}"
TOOL = value_of("x", next={"type": "tool", "name": "send", "arguments": value_of("inner")})


def row(
    id: str,
    body: str | tuple[str | Update, ...],
    expect: Expectation,
    kind: str | None = None,
    with_repair: Expectation | None = None,
    **more: Any,
) -> Row:
    return Row(id, (body,) if isinstance(body, str) else body, expect, kind, with_repair, **more)


def prose(id: str, body: str, **more: Any) -> Row:
    return row(id, body, Prose(body), "not_structured", **more)


ROWS = [
    row("A1", 'The 6" pipe is ready:\n' + e("on it", "found it"), Bubbles(("on it", "found it"))),
    row("A2", 'path C:\\"tmp\\":\n' + E_X, X),
    row("A3", e("first") + "\n" + e("second"), Bubbles(("first", "second"))),
    row("A3-repeat", e("first") + "\n" + e("first"), Bubbles(("first",))),
    row("A4", e("first") + "\n" + V9, Bubbles(("first",)), "schema_mismatch"),
    row("A4-five", e("first") + "\n" + E5, Bubbles(("first",)), "too_many_bubbles"),
    row("A5", E_X + '\nExample: {"retries": 3}', X),
    row("A6", f"[{E_X}]", X),
    row("A7", f"[{E5}]", APOLOGY, "too_many_bubbles"),
    row(
        "A8",
        '[{"id":"b1","text":"hi"},{"id":"b2","text":"there"}]',
        APOLOGY,
        "malformed",
        Bubbles(("hi", "there")),
    ),
    row("A9", f'{{"reply":{E_X}}}', X),
    row("A10", E_X.replace('"schema"', r'"\u0073chema"').replace('"messages"', r'"m\u0065ssages"'), X),
    row("A11", repr(value_of("x")), APOLOGY, "malformed"),
    row("A12", '{schema: "openab.turn.v1", messages: [{id: "b1", text: "hi"}]}', APOLOGY, "malformed"),
    row("A13", 'ok\n{"sch', Rest("ok"), "truncated"),
    row("A14", "ok\n{", Rest("ok"), "truncated"),
    row("A15", '```json\n{\n  "sc', APOLOGY, "truncated"),
    row("A16", f"```json\n{E5}\n```", APOLOGY, "too_many_bubbles"),
    row("A16-valid", f"```json\n{E_X}\n```", X),
    row("A17", json.dumps(E_X), X),
    row("A18", E_X.replace('"}],', '"},],'), APOLOGY, "malformed", X),
    row("A19", e("line1\nline2").replace("\\n", "\n"), APOLOGY, "malformed", Bubbles(("line1\nline2",))),
    row("A20", "use foo(){ first:\n" + E_X, X),
    row("A21", "\ufeff" + E_X, X),
    row("A22", e("", **SILENT), NOTHING),
    row("A23", e("one", "two", "three", "four", "five", **SILENT), NOTHING),
    row("A24", e(messages=[CANARY]), APOLOGY, "malformed", Bubbles((CANARY,))),
    row("A25", e("x", next="stop"), APOLOGY, "malformed", X),
    prose("A26", REQUEST),
    prose("A27", 'It opens with {"schema":"http://json-schema.org/draft-07/schema#","type":"object"} as usual.'),
    prose("A28", 'Body starts with {"messages": [ and the rest is cut'),
    row(
        "A29",
        (Update.TOOL_CALL, e("on it")[:40], Update.TOOL_UPDATE, e("on it")[40:]),
        Bubbles(("on it",)),
    ),
    row("A30", TYPOGRAPHIC, APOLOGY, "malformed"),
    row("A31", E_X + '\nThe 6" pipe is ready.', X),
    row(
        "A32",
        E5,
        APOLOGY,
        "too_many_bubbles",
        header="[[delivery:openab.turn.v1]]",
        was_reset=True,
    ),
    prose("A33", "Here is the answer.", header="[[reply_to:55]]", was_reset=True),
    row("A34", e("    if x:\n        y"), Bubbles(("    if x:\n        y",))),
    row("A35", e("first") + "\n" + e("second")[:50], Bubbles(("first",)), "truncated"),
    row("A36", E_X.replace("schema", "Schema").replace("messages", "Messages"), APOLOGY, "malformed"),
    row("A37", dump({"messages": [{"id": "b1", "text": "x"}]}), APOLOGY, "malformed", X),
    row("A38", E_X.replace('"schema":', '"schema" :'), X),
    row("A39", f"<reply>{E5}</reply>", APOLOGY, "too_many_bubbles"),
    row("A39-valid", f"<reply>\n{E_X}\n</reply>", X),
    row(
        "A40",
        e('see {"schema":"openab.turn.v1","messages":[]}'),
        Bubbles(('see {"schema":"openab.turn.v1","messages":[]}',)),
    ),
    row("A41", YAML, APOLOGY, "malformed"),
    row("A42", '{"schema":"openab.turn.v1","mess', APOLOGY, "truncated"),
    row("A43", "{ // reply\n" + E_X[1:], APOLOGY, "malformed"),
    row("A44", e("\u200b"), APOLOGY, "empty_bubble"),
    row("A45", f"The format is this:\n```json\n{e('an example')}\n```\nThat is all.", Bubbles(("an example",))),
    prose("A46", "{" * 200_000, is_long=True),
    prose("A46-array", "[" * 200_000, is_long=True),
    row("A47", e("x" * 10**6), APOLOGY, "bubble_too_long", is_long=True),
    row("A48", f"\r\n\t\xa0{E_X}\xa0\t\r\n", X),
    row("A49", E_X + "</s>", X),
    row("A49-token", E_X + "<|im_end|>", X),
    row("A49-fence", E_X + "\n```", X),
    row("A49-five", E5 + "</s>", APOLOGY, "too_many_bubbles"),
    row("A49-five-token", E5 + "\n<|im_end|>", APOLOGY, "too_many_bubbles"),
    row("A49-five-fence", E5 + "\n```", APOLOGY, "too_many_bubbles"),
    row("A50", dump(TOOL), X),
    prose("A51", 'Here: {"messages":"3 unread"} in your inbox.'),
    row("A52-escape", e("hi \U0001f600").replace("\U0001f600", r"\ud83d\ude00"), Bubbles(("hi \U0001f600",))),
    row("A52-emoji", "\U0001f600 " + e("hi \U0001f600"), Bubbles(("hi \U0001f600",))),
    row("A53", '{"messages":["on it"],"next":"stop"}', APOLOGY, "malformed", Bubbles(("on it",))),
    row("A53-empty", '{"messages":[],"next":"silent"}', NOTHING),
    row("A53-next", '{"next":{"type":"silent"}}', NOTHING),
    row("A54", '{"schema":"openab.turn.v1","next":{"type":"silent"},"messages":[{"id":"b', NOTHING),
    row("A55", f'{{"status":"ok","out":{E5},"n":1}}', APOLOGY, "too_many_bubbles"),
    prose("A56", 'Post {"to":"U1","messages":[{"type":"text","text":"Hello"}]} to LINE.'),
    prose("A57-node", "Each node is { next: node"),
    prose("A57-set", "Take the set {s"),
    prose("A57-bracket", "a { and b {"),
    prose("A57-setting", 'In the file it says schema = "openab.turn.v1" and no more.'),
    prose("A58-objects", 'It gives {"messages":[{"text":"hi","user":"bob"}],"next":"cursor_2"} and goes on.'),
    prose("A58-strings", 'It gives {"messages":["a"],"next":"p2"} and goes on.'),
    prose("A59", 'The request is:\n{"messages": [{"role": "user", "content": "he'),
]
