"""The code fences around cuts: which of them were only there for what was cut (delivery.md 3.6)."""

from __future__ import annotations

import re

from openab_kernel.delivery.envelope.marks import SPACE

Span = tuple[int, int]

_LONGEST_LINE = 256
_FENCE_LINE = re.compile(r"^[ \t>]*+(`{3,}+|~{3,}+)([^\r\n]*+)", re.MULTILINE)
_DEBRIS = re.compile(rf"(?:[{SPACE}]|^[ \t>]*+(?:`{{3,}}|~{{3,}})[^\r\n]*+$)*+", re.MULTILINE)


def is_debris(text: str) -> bool:
    """Say whether there is nothing in `text` but white space and fences."""
    return _DEBRIS.fullmatch(text) is not None


class Fences:
    """The fence lines of a text outside the `spans` that are cut."""

    def __init__(self, text: str, spans: list[Span]) -> None:
        self._text = text
        # By the index of the marks of a fence that of its partner; -1: it has none. A line in a block is not here.
        self._partners: dict[int, int] = {}
        self._pair(spans)

    def measure(self, left_at: int, right_at: int, *, is_last: bool) -> tuple[int, int]:
        """How many characters of fence line end at index `left_at`, and begin at `right_at`, that go with the cut.

        Both if they are a pair, else one that stands alone. `is_last`: nothing comes after the cut.
        """
        floor = max(0, left_at - _LONGEST_LINE)
        line_start = max(self._text.rfind("\n", floor, left_at), self._text.rfind("\r", floor, left_at)) + 1
        left = _FENCE_LINE.fullmatch(self._text, line_start, left_at)
        right = _FENCE_LINE.match(self._text, right_at)
        left_goes = left and not self._closes_block(left) and (is_last or self._is_alone(left))
        right_goes = right and self._is_alone(right)
        if left and right and right[1].startswith(left[1]):
            left_goes = right_goes = not self._closes_block(left) and not self._opens_block(right)
        return (left_at - line_start if left_goes else 0, right.end() - right_at if right and right_goes else 0)

    def _pair(self, spans: list[Span]) -> None:
        opener: re.Match[str] | None = None
        left = 0
        for start, end in [*spans, (len(self._text), len(self._text))]:
            for line in _FENCE_LINE.finditer(self._text, left, start):
                mark, info = line.groups()
                if opener is None:
                    opener = line
                    self._partners[line.start(1)] = -1
                elif mark.startswith(opener[1]) and not info.strip():
                    self._partners |= {line.start(1): opener.start(1), opener.start(1): line.start(1)}
                    opener = None
            left = end

    def _is_alone(self, line: re.Match[str]) -> bool:
        return self._partners.get(line.start(1)) == -1

    def _closes_block(self, line: re.Match[str]) -> bool:
        at = line.start(1)
        opened_at = self._partners.get(at, -1)
        return -1 < opened_at < at and not is_debris(self._text[opened_at:at])

    def _opens_block(self, line: re.Match[str]) -> bool:
        at = line.start(1)
        closed_at = self._partners.get(at, -1)
        return closed_at > at and not is_debris(self._text[at:closed_at])
