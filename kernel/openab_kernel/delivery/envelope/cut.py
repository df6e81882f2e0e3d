"""Cuts machine text out of prose, and what was only there to wrap it (delivery.md 3.6)."""

from __future__ import annotations

import re

from openab_kernel.delivery.envelope.fences import Fences, Span, is_debris
from openab_kernel.delivery.envelope.marks import QUOTES, SPACE, lstrip, rstrip

# So much is looked at on each side of a cut, and so many layers of wrapping are taken off.
_REACH = 256
_MAX_LAYERS = 16

_LINE_END = re.compile(r"[\r\n]")
_TOKEN = r"(?:</?s>|<\|[^|<>\r\n]{0,40}\|>)"
_TOKEN_BEFORE = re.compile(rf"{_TOKEN}\Z")
_TOKEN_AFTER = re.compile(_TOKEN)
_TAG_BEFORE = re.compile(r"<([A-Za-z][\w:.-]*+)(?:\s[^<>]*+)?>\Z")
_TAG_AFTER = re.compile(r"</([A-Za-z][\w:.-]*+)\s*+>")
_BRACKET_BEFORE = re.compile(rf"(?:[\[(]|\{{(?:\s*[{QUOTES}]*[\w-]+[{QUOTES}]*\s*[:=])?)\Z")
_BRACKET_AFTER = re.compile(r",?\s*[\])}]")
_QUOTE_BEFORE = re.compile(rf"(?:\\*[{QUOTES}])+\Z")
_QUOTE_AFTER = re.compile(rf"(?:\\*[{QUOTES}])+")
_CODE_BEFORE = re.compile(r"(?<!`)`{1,2}\Z")
_CODE_AFTER = re.compile(r"`{1,2}(?!`)")
_TICKS_BEFORE = re.compile(r"`++(?:json|yaml|python)?\Z")
_TICKS_AFTER = re.compile(r"`++")
# The last is a pair on one line; else it is one of fences.
_PAIRS = [
    (_BRACKET_BEFORE, _BRACKET_AFTER),
    (_QUOTE_BEFORE, _QUOTE_AFTER),
    (_CODE_BEFORE, _CODE_AFTER),
    (_TICKS_BEFORE, _TICKS_AFTER),
]
_MARGIN_BEFORE = re.compile(r"(?<=[\r\n])[ \t]*+(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*+)++\Z")


def cut(text: str, spans: list[Span], start: int) -> str:
    """What is left of `text` from index `start` on without the `spans`, which are in order of their start.

    Each cut with the white space around it becomes one line feed where text stands on both sides. "" if nothing is
    left but white space and fences.
    """
    edges = [start, *(edge for span in widen(text, spans) for edge in span), len(text)]
    kept = [text[max(start, left) : right].strip(SPACE) for left, right in zip(edges[::2], edges[1::2], strict=True)]
    rest = "\n".join(filter(None, kept)).strip(SPACE)
    return "" if is_debris(rest) else rest


def widen(text: str, spans: list[Span]) -> list[Span]:
    """The spans with all that wraps them. Those with nothing but commas in between become one."""
    joined = _join(text, spans)
    fences = Fences(text, joined)
    ceilings = [start for start, _ in joined[1:]] + [len(text)]
    widened: list[Span] = []
    for span, ceiling in zip(joined, ceilings, strict=True):
        floor = widened[-1][1] if widened else 0
        widened.append(_unwrap(text, span, floor, ceiling, fences))
    return _join(text, widened)


def _join(text: str, spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip(SPACE + ","):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _unwrap(text: str, span: Span, floor: int, ceiling: int, fences: Fences) -> Span:
    """Take off one layer after the other, between the indexes `floor` and `ceiling`."""
    start, end = span
    for _ in range(_MAX_LAYERS):
        before = rstrip(text[floor:start])
        after = lstrip(text[end:ceiling])
        left_at = floor + len(before)
        right_at = ceiling - len(after)
        is_last = right_at == len(text)
        is_inline = not _LINE_END.search(text, left_at, start)
        left, right = _measure_layer(
            f"\n{before}"[-_REACH:], after[:_REACH], is_last=is_last, is_inline=is_inline
        ) or fences.measure(left_at, right_at, is_last=is_last)
        if not left and not right:
            break
        start = left_at - left if left else start
        end = right_at + right if right else end
    return start, end


def _measure_layer(before: str, after: str, *, is_last: bool, is_inline: bool) -> tuple[int, int] | None:
    """How many characters of wrapping end `before` and begin `after`; None if there is none.

    `is_last`: nothing comes after the cut, so what opens on its left may stay open. `is_inline`: the cut begins on
    the line that `before` ends on.
    """
    if margin := _MARGIN_BEFORE.search(before):
        return _length(margin), 0
    token = _TOKEN_BEFORE.search(before), _TOKEN_AFTER.match(after)
    if any(token):
        return _length(token[0]), _length(token[1])
    tags = _TAG_BEFORE.search(before), _TAG_AFTER.match(after)
    if tags[0] and (is_last or (tags[1] and tags[0][1] == tags[1][1])):
        return _length(tags[0]), _length(tags[1])
    for opening, closing in _PAIRS if is_inline else _PAIRS[:-1]:
        pair = opening.search(before), closing.match(after)
        if pair[0] and (is_last or pair[1]):
            return _length(pair[0]), _length(pair[1])
    return None


def _length(found: re.Match[str] | None) -> int:
    return len(found.group()) if found else 0
