"""Cuts machine text out of prose, and what was only there to wrap it (delivery.md 3.6)."""

from __future__ import annotations

import re

Span = tuple[int, int]

# White space, and what shows as little.
_SPACE = " \t\r\n\v\f\xa0\u2028\u2029\u200b\ufeff\u3000"

# So much is looked at on each side of a cut, and so many layers of wrapping are taken off.
_REACH = 256
_MAX_LAYERS = 16

_FENCE_LINE = re.compile(r"^[ \t>]*+(`{3,}+|~{3,}+)([^\r\n]*+)", re.MULTILINE)
_TOKEN = r"(?:</?s>|<\|[^|<>\r\n]{0,40}\|>)"
_TOKEN_BEFORE = re.compile(rf"{_TOKEN}\Z")
_TOKEN_AFTER = re.compile(_TOKEN)
_TAG_BEFORE = re.compile(r"<([A-Za-z][\w:.-]*+)(?:\s[^<>]*+)?>\Z")
_TAG_AFTER = re.compile(r"</([A-Za-z][\w:.-]*+)\s*+>")
_BRACKET_BEFORE = re.compile(r"""(?:[\[(]|\{(?:\s*["'“”‘’]*[\w-]+["'“”‘’]*\s*[:=])?)\Z""")
_BRACKET_AFTER = re.compile(r",?\s*[\])}]")
_QUOTE_BEFORE = re.compile(r"""(?:\\*["'“”„‟‘’‚‛])+\Z""")
_QUOTE_AFTER = re.compile(r"""(?:\\*["'“”„‟‘’‚‛])+""")
_TICKS_BEFORE = re.compile(r"`++(?:json|yaml|python)?\Z")
_TICKS_AFTER = re.compile(r"`++")
_PAIRS = [(_BRACKET_BEFORE, _BRACKET_AFTER), (_QUOTE_BEFORE, _QUOTE_AFTER), (_TICKS_BEFORE, _TICKS_AFTER)]
_MARGIN_BEFORE = re.compile(r"(?<=[\r\n])[ \t]*+(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*+)++\Z")
_DEBRIS = re.compile(rf"(?:[{re.escape(_SPACE)}]|^[ \t>]*+(?:`{{3,}}|~{{3,}})[^\r\n]*+$)*+", re.MULTILINE)


def cut(text: str, spans: list[Span], start: int) -> str:
    """What is left of `text` from index `start` on without the `spans`, which are in order of their start.

    Each cut with the white space around it becomes one line feed where text stands on both sides. "" if nothing is
    left but white space and fences.
    """
    edges = [start, *(edge for span in widen(text, spans) for edge in span), len(text)]
    kept = [text[max(start, left) : right].strip(_SPACE) for left, right in zip(edges[::2], edges[1::2], strict=True)]
    rest = "\n".join(filter(None, kept)).strip(_SPACE)
    return "" if _DEBRIS.fullmatch(rest) else rest


def widen(text: str, spans: list[Span]) -> list[Span]:
    """The spans with all that wraps them. Those with nothing but commas in between become one."""
    joined = _join(text, spans)
    partners = _pair_fences(text, joined)
    ceilings = [start for start, _ in joined[1:]] + [len(text)]
    widened: list[Span] = []
    for span, ceiling in zip(joined, ceilings, strict=True):
        floor = widened[-1][1] if widened else 0
        widened.append(_unwrap(text, span, floor, ceiling, partners))
    return _join(text, widened)


def _join(text: str, spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip(_SPACE + ","):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _pair_fences(text: str, spans: list[Span]) -> dict[int, int]:
    """The fence lines outside `spans`, by the index of their marks, each with that of its partner; -1: it has none."""
    partners: dict[int, int] = {}
    opener: re.Match[str] | None = None
    left = 0
    for start, end in [*spans, (len(text), len(text))]:
        for line in _FENCE_LINE.finditer(text, left, start):
            mark, info = line.groups()
            if opener is None:
                opener = line
                partners[line.start(1)] = -1
            elif mark.startswith(opener[1]) and not info.strip():
                partners |= {line.start(1): opener.start(1), opener.start(1): line.start(1)}
                opener = None
        left = end
    return partners


def _unwrap(text: str, span: Span, floor: int, ceiling: int, partners: dict[int, int]) -> Span:
    """Take off one layer after the other, between the indexes `floor` and `ceiling`."""
    start, end = span
    for _ in range(_MAX_LAYERS):
        before = text[floor:start].rstrip(_SPACE)
        after = text[end:ceiling].lstrip(_SPACE)
        left, right = _measure_layer(
            f"\n{before}"[-_REACH:],
            after[:_REACH],
            is_last=not after and ceiling == len(text),
            is_inline=not re.search(r"[\r\n]", text[floor + len(before) : start]),
        ) or _measure_fences(text, floor, before, after, ceiling, partners)
        if not left and not right:
            break
        if left:
            start = floor + len(before) - left
        if right:
            end = ceiling - len(after) + right
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


def _measure_fences(
    text: str, floor: int, before: str, after: str, ceiling: int, partners: dict[int, int]
) -> tuple[int, int]:
    """How much of a fence line ends `before` and begins `after`, if they are a pair, or if one stands alone."""
    above = _last_line(before)
    left = _FENCE_LINE.fullmatch(before, above)
    right = _FENCE_LINE.match(after)
    left_at = floor + left.start(1) if left else -1
    right_at = ceiling - len(after) + right.start(1) if right else -1
    if left and right and _are_pair(left, left_at, right, right_at, partners):
        return len(before) - above, right.end()
    return (
        len(before) - above if left and partners.get(left_at) == -1 else 0,
        right.end() if right and partners.get(right_at) == -1 else 0,
    )


def _are_pair(left: re.Match[str], left_at: int, right: re.Match[str], right_at: int, partners: dict[int, int]) -> bool:
    """Say whether two fence lines around a cut belong together: not if one is that of a block before or after."""
    closes_another = -1 < partners.get(left_at, -1) < left_at
    opens_another = partners.get(right_at, -1) > right_at
    return right[1].startswith(left[1]) and not closes_another and not opens_another


def _last_line(text: str) -> int:
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def _length(found: re.Match[str] | None) -> int:
    return len(found.group()) if found else 0
