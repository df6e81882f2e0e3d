"""Goes through the text of a turn and finds what is or was meant to be an envelope (delivery.md 3.3).

Three passes, each over what the one before left: values that can be read, strictly or tolerantly; an object that the
end of the text cut off; YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openab_kernel.delivery.envelope.bounds import MAX_CUT_STARTS, TAIL_CHARS, Budget, Exhausted
from openab_kernel.delivery.envelope.findings import EnvelopeRules, Rejection
from openab_kernel.delivery.envelope.marks import GAP, HTML_QUOTE, QUOTES, STRAY_QUOTES, lstrip, rstrip
from openab_kernel.delivery.envelope.recognise import (
    FAMILY,
    KEYS,
    could_be_bubbles,
    could_be_envelope,
    is_first_letter_missing,
    is_recognised,
    is_recognised_as_body,
    shows_bubble,
)
from openab_kernel.delivery.envelope.strict import StrictReader
from openab_kernel.delivery.envelope.tolerant import read_tolerantly
from openab_kernel.delivery.envelope.validate import MALFORMED, Silence, Verdict, judge, judge_unread
from openab_kernel.delivery.envelope.values import Members, Reading
from openab_kernel.delivery.envelope.yaml_block import find_blocks

TRUNCATED = Rejection("truncated")

# Without one of these in it, no value is an envelope, but for the whole body.
_MARKERS = ("schema", "messages", "\\u00")

_QUOTE = rf"(?:[{QUOTES}{STRAY_QUOTES}\\]|{HTML_QUOTE})"
_KEY = "|".join(KEYS)
_COMMENTS = rf"(?:(?://[^\n]{{0,2000}}+\n|/\*(?:[^*]|\*(?!/)){{0,2000}}+\*/){GAP})*+"
_HEAD = rf"\{{{GAP}{_COMMENTS}{_QUOTE}{{0,8}}+"

_START = re.compile(
    rf"\{{(?![{{\[\]])(?=\s*+[\"}}]|{GAP}(?:{_QUOTE}{{0,8}}+(?:(?i:{_KEY})|u00)|//|/\*))|\[(?=\s*+[{{\"])"
)
_TOLERANT_HEAD = re.compile(rf"{_HEAD}(?:{_KEY}|u00)", re.IGNORECASE)
_FAMILY_HEAD = re.compile(
    rf"{_HEAD}schema{_QUOTE}{{0,8}}+{GAP}:{GAP}{_QUOTE}{{0,8}}+{re.escape(FAMILY)}", re.IGNORECASE
)
_CUT_START = re.compile(rf"\{{(?={GAP}(?:\Z|//|/\*|{_QUOTE}|(?:{_KEY})\s*+:))", re.IGNORECASE)
_ENCODED = re.compile(r"\s*+\{")

# What may wrap a whole body, and what may follow a cut one.
_FENCE_BEFORE = re.compile(r"(`{3,}+|~{3,}+)[^\n`{\[]*+")
_TAG_BEFORE = re.compile(r"<([A-Za-z][\w:.-]*+)(?:\s[^<>]*+)?>")
_BODY_HEAD = re.compile(rf"(?:\[{GAP}\{{{GAP}{_QUOTE}?(?:id|text)|\{{{GAP}{_QUOTE}?(?:messages|next))\b", re.IGNORECASE)
_TRAILER = re.compile(r"(?:</[A-Za-z][\w:.-]*>|</s>|<\|[^|<>\r\n]{0,40}\|>|`{3,}|~{3,})\Z")
_OPENING = re.compile(r"[\[{]")
_WRAPPER_CHARS = 200
_MAX_WRAPPERS = 8
_TRAILER_CHARS = 100
_MAX_TRAILERS = 8
_MARGIN = " \t\r>[("


@dataclass(frozen=True, slots=True)
class Piece:
    """Machine text from index `start` up to `end`, and what became of each envelope in it, in order.

    One without envelopes is what a rejected one, which has a piece of its own, was wrapped in.
    """

    start: int
    end: int
    verdicts: tuple[Verdict, ...]


def search(text: str, rules: EnvelopeRules, budget: Budget) -> list[Piece]:
    """All machine text in `text`, in order of its start."""
    return _Search(text, rules, budget).run()


class _Search:
    """One search. `_pieces` grows."""

    def __init__(self, text: str, rules: EnvelopeRules, budget: Budget) -> None:
        self._text = text
        self._rules = rules
        self._budget = budget
        self._reader = StrictReader(text, budget)
        # As long as the text: this letter alone becomes two in lower case.
        self._lowered = text.replace("İ", "i").lower()
        self._pieces: list[Piece] = []
        self._wrapper_budget = Budget()

    def run(self) -> list[Piece]:
        try:
            if self._try_body():
                return self._pieces
        except Exhausted:
            pass  # Then the sweep is, too, and says what that means.
        self._sweep()
        self._look_for_cut_one()
        self._look_for_yaml()
        return sorted(self._pieces, key=lambda piece: piece.start)

    # Step 1

    def _try_body(self) -> bool:
        """Say whether the whole body is one value; if it is, or holds, an envelope, that was noted."""
        start, end = _find_body(self._text)
        if self._text.startswith('"', start):
            return self._try_encoded_body(start, end)
        if not self._text.startswith(("{", "["), start):
            return False
        reading = self._reader.read(start)
        if reading and reading.end == end:
            verdicts = self._judge_all(reading, start)
            if not verdicts and is_recognised_as_body(reading.value):
                verdicts = (judge(reading.value, self._reader.flaws(start, end), self._rules),)
            self._note(start, end, verdicts)
            return True
        return reading is None and self._try_tolerant_body(start, end)

    def _try_encoded_body(self, start: int, end: int) -> bool:
        try:
            decoded, stop = json.JSONDecoder(strict=False).raw_decode(self._text, start)
        except json.JSONDecodeError:
            return False
        if stop != end:
            return False
        verdict = self._judge_string(decoded, is_body=True)
        self._note(start, end, (verdict,) if verdict else ())
        return verdict is not None

    def _try_tolerant_body(self, start: int, end: int) -> bool:
        if not _BODY_HEAD.match(self._text, start):
            return False
        try:
            reading = read_tolerantly(self._text, start, end, Budget())
        except Exhausted:
            return False
        if reading.state == "cut" and could_be_bubbles(reading.value):
            self._note(start, end, (TRUNCATED,))
            return True
        if reading.state != "whole" or reading.end != end or not is_recognised_as_body(reading.value):
            return False
        self._note(start, end, (judge(reading.value, reading.flaws, self._rules),))
        return True

    # Steps 2 to 4, and 7

    def _sweep(self) -> None:
        last_marker = max(map(self._lowered.rfind, _MARKERS))
        end = last_marker + len("messages")
        at = 0
        while at < last_marker and (found := _START.search(self._text, at, end)):
            try:
                at = self._try(found.start())
            except Exhausted:
                at = len(self._text)
                self._note(found.start(), at, (MALFORMED,))

    def _try(self, start: int) -> int:
        """Read what begins at `start`. Give the index to go on from."""
        self._budget.spend_read()
        if reading := self._reader.read(start):
            verdicts = self._judge_all(reading, start)
            self._note(start, reading.end, verdicts)
            if any(isinstance(verdict, Rejection) for verdict in verdicts):
                self._note_wrapper(start, reading.end)
            return reading.end
        if _TOLERANT_HEAD.match(self._text, start) and (end := self._try_tolerantly(start)):
            return end
        self._budget.spend_failed_read()
        return start + 1

    def _try_tolerantly(self, start: int) -> int | None:
        self._budget.spend_tolerant_read()
        reading = read_tolerantly(self._text, start, len(self._text), self._budget)
        if reading.state == "whole" and is_recognised(reading.value, self._rules):
            self._note(start, reading.end, (judge(reading.value, reading.flaws, self._rules),))
            self._note_wrapper(start, reading.end)
            return reading.end
        if reading.state != "whole" and (
            _FAMILY_HEAD.match(self._text, start) or shows_bubble(reading.value, self._rules)
        ):
            self._note(start, len(self._text), (self._judge_part(reading),))
            return len(self._text)
        return None

    def _note_wrapper(self, start: int, end: int) -> None:
        """Note the object or array around what was rejected, if it begins shortly before and could not be read."""
        floor = max(start - _WRAPPER_CHARS, *(piece.end for piece in self._pieces[-2:-1]), 0)
        for _, found in zip(range(_MAX_WRAPPERS), _OPENING.finditer(self._text, floor, start), strict=False):
            try:
                reading = read_tolerantly(self._text, found.start(), len(self._text), self._wrapper_budget)
            except Exhausted:
                return
            if reading.state == "whole" and reading.end >= end:
                self._pieces.insert(-1, Piece(found.start(), reading.end, ()))
                return

    def _judge_part(self, reading: Reading) -> Verdict:
        is_cut = reading.state == "cut" and could_be_envelope(reading.value, self._rules)
        return judge_unread(reading.value, TRUNCATED if is_cut else MALFORMED)

    def _judge_all(self, reading: Reading, start: int) -> tuple[Verdict, ...]:
        """Judge each envelope in a value that was read strictly, in document order."""
        if all(self._lowered.find(marker, start, reading.end) < 0 for marker in _MARKERS):
            return ()
        found = list(self._find(reading.value))
        if not found:
            return ()
        flaws = self._reader.flaws(start, reading.end)
        return tuple(judge(value, flaws, self._rules) if isinstance(value, Members) else value for value in found)

    def _find(self, value: Any) -> Iterator[Any]:
        """The recognised objects in `value`, and what became of those inside its strings."""
        if is_recognised(value, self._rules):
            self._budget.spend_envelope()
            yield value
        elif isinstance(value, Members):
            for _, member in value:
                yield from self._find(member)
        elif isinstance(value, list):
            for item in value:
                yield from self._find(item)
        elif isinstance(value, str) and (verdict := self._judge_string(value, is_body=False)):
            yield verdict if isinstance(verdict, Silence) else MALFORMED

    def _judge_string(self, value: str, *, is_body: bool) -> Verdict | None:
        """Judge the envelope that `value` is; None if it is none."""
        head = _ENCODED.match(value)
        if not head:
            return None
        start = head.end() - 1
        reader = StrictReader(value, self._budget)
        reading = reader.read(start)
        if reading and not value[reading.end :].strip():
            inner = reading.value
            if is_recognised(inner, self._rules) or (is_body and is_recognised_as_body(inner)):
                return judge(inner, reader.flaws(start, reading.end), self._rules)
        return MALFORMED if _FAMILY_HEAD.match(value, start) else None

    # Step 5

    def _look_for_cut_one(self) -> None:
        """Find the leftmost object that the end of the text cut off, in what the sweep left at the end."""
        text = self._text
        last = max((piece.end for piece in self._pieces), default=0)
        end = _trim_end(text)
        starts = _CUT_START.finditer(text, max(last, end - TAIL_CHARS), end)
        for _, found in zip(range(MAX_CUT_STARTS), starts, strict=False):
            try:
                reading = read_tolerantly(text, found.start(), end, self._budget)
            except Exhausted:
                return
            if reading.state == "cut" and self._is_cut_envelope(reading, found.start()):
                self._note(found.start(), len(text), (judge_unread(reading.value, TRUNCATED),))
                return

    def _is_cut_envelope(self, reading: Reading, start: int) -> bool:
        if is_first_letter_missing(reading.value):
            return not reading.flaws and _begins_line(self._text, start)
        return could_be_envelope(reading.value, self._rules)

    # Step 6

    def _look_for_yaml(self) -> None:
        if FAMILY not in self._lowered:
            return
        start = 0
        for left, right in [*((piece.start, piece.end) for piece in self._pieces), (len(self._text), 0)]:
            for block in find_blocks(self._text, start, max(start, left)):
                self._note(block.start, block.end, (Silence(0) if block.is_silent else MALFORMED,))
            start = max(start, right)

    def _note(self, start: int, end: int, verdicts: tuple[Verdict, ...]) -> None:
        if verdicts:
            self._pieces.append(Piece(start, end, verdicts))


def _find_body(text: str) -> tuple[int, int]:
    """Where the whole body stands: `text` without outer white space, one pair of fences and one of tags."""
    start, end = _strip(text, 0, len(text))
    for _ in range(2):
        if fence := _FENCE_BEFORE.match(text, start, end):
            mark = fence[1]
            if text.endswith(mark, fence.end(), end):
                start, end = _strip(text, fence.end(), end - len(mark))
        elif tag := _TAG_BEFORE.match(text, start, end):
            closing = f"</{tag[1]}>"
            if text.endswith(closing, tag.end(), end):
                start, end = _strip(text, tag.end(), end - len(closing))
    return start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    body = text[start:end]
    return end - len(lstrip(body)), start + len(rstrip(body))


def _trim_end(text: str) -> int:
    """Where the text ends without white space and up to 8 closing tags, tokens and fences."""
    end = len(rstrip(text))
    for _ in range(_MAX_TRAILERS):
        if not (found := _TRAILER.search(text[max(0, end - _TRAILER_CHARS) : end])):
            break
        end = len(rstrip(text[: end - len(found.group())]))
    return end


def _begins_line(text: str, at: int) -> bool:
    return not text[max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1 : at].strip(_MARGIN + "\ufeff")
