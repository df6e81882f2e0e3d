"""The header of directives that an agent may put above its text (delivery.md 7.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openab_kernel.delivery.characters import LINE, is_blank

_DIRECTIVE = re.compile(r"[ \ufeff]{0,3}\[\[([^\]:\r\n]*+):([^\r\n]*?)\]\][ \t]*+")
_VALUE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KNOWN = ("reply_to", "delivery")


@dataclass(frozen=True, slots=True)
class Header:
    """What a header said, and the text without it.

    `delivery` is the schema that the agent believes in; it changes nothing, and is worth a warning if it is
    not the configured one. `unknown` counts the directives that nobody here knows.
    """

    reply_to: str | None
    delivery: str | None
    unknown: int
    buffer: str
    answer: str


def take_header(buffer: str, answer: str) -> Header:
    """Cut the header off the text of a turn. `answer` is the end of `buffer`.

    The header at the head of `buffer` speaks, or if there is none, the one at the head of `answer`. Both are
    cut, as a header is never visible, from `buffer` too where `answer` stands in it.
    """
    found, after = _read(buffer, 0)
    offset = len(buffer) - len(answer)
    start = max(after, offset)
    in_answer, after_answer = _read(buffer, start) if start == offset > 0 else ([], start)
    values: dict[str, str] = {}
    spoken = found or in_answer
    for key, value in spoken:
        if key in _KNOWN and _VALUE.fullmatch(value):
            values[key] = value
    return Header(
        reply_to=values.get("reply_to"),
        delivery=values.get("delivery"),
        unknown=sum(key not in _KNOWN for key, _ in spoken),
        buffer=buffer[after:start] + buffer[after_answer:],
        answer=buffer[after_answer:],
    )


def _read(text: str, start: int) -> tuple[list[tuple[str, str]], int]:
    """The directives at the head of `text` from `start` on, in order, and where the content begins.

    Blank lines above the first directive, which are not delivered anyway, do not hide it.
    """
    found: list[tuple[str, str]] = []
    content = start
    for line in LINE.finditer(text, start):
        directive = _DIRECTIVE.match(text, line.start(), line.end(1))
        if directive is None:
            if found or not is_blank(line.group()):
                break
            continue
        key, value = directive.groups()
        found.append((key.strip(), value.strip()))
        if directive.end() < line.end(1):
            content = directive.end()
            break
        content = line.end()
    return found, content
