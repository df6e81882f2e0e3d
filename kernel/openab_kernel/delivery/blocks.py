"""What is open at each line end of a Markdown text: the theory behind the splitter.

A message that ends inside a code fence or a table leaves something open. Each line therefore carries a
`Frame`, which says what closes the message after it and what opens the next one. Fences are followed as a
platform will show them: an over-long line is cut into pieces, and each piece, since it begins a message, is
read as a line of its own. So every message is balanced, whatever a piece happens to look like.

Fences and tables inside quotes and lists count, at any indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from openab_kernel.delivery.characters import LINE, LONGEST_CODE_POINT, cut_line, measure
from openab_kernel.facts.outbound import TextLimit

# What may stand before a block on its line: white space, the marks of quotes and of list items.
MARGIN = r"(?:[ \t>]|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))*+"

_FENCE = re.compile(rf"({MARGIN})(`{{3,}}+|~{{3,}}+)")
_BAR = re.compile(r"(?<!\\)\|")
_DELIMITER_ROW = re.compile(r"[ \t>]*+(?!-(?:[ \t]|\Z))\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")


@dataclass(frozen=True, slots=True)
class Frame:
    """What closes a message that ends here, and what opens the next one. Sizes are in the unit of the limit.

    `opener` and `closer` belong to a fence, `header` to a table: its header and delimiter rows.
    """

    opener: str = ""
    header: str = ""
    closer: str = ""
    opener_size: int = 0
    header_size: int = 0
    closer_size: int = 0


NO_FRAME = Frame()


@dataclass(slots=True)
class Line:
    """A line, or a piece of an over-long one.

    `start` and `end` are indexes into the text, the line end left out; `offset` measures the text before the
    line and `size` the line. `frame` is what is open after it. `is_whole`: it has its line end, so another
    line may follow it in the same message. `is_glued`: no message should begin with it, because it belongs to
    the line before.
    """

    start: int
    end: int
    offset: int
    size: int
    frame: Frame
    is_blank: bool
    is_whole: bool
    is_glued: bool


@dataclass(frozen=True, slots=True)
class _Fence:
    """An open fence. `margin` stands before its run of characters `mark`, and `info` after."""

    margin: str
    mark: str
    info: str
    frame: Frame

    def is_closed_by(self, margin: str, mark: str, info: str) -> bool:
        return (
            mark.startswith(self.mark)
            and not info.strip(" \t")
            and not margin.strip(" \t>")
            and margin.count(">") == self.margin.count(">")
            and len(margin.expandtabs(4)) <= len(self.margin.expandtabs(4)) + 3
        )


def continue_margin(margin: str) -> str:
    """What stands before the further lines of a block whose first line has this `margin`."""
    return re.sub(r"[^\s>]", " ", margin)


def scan(text: str, limit: TextLimit) -> Iterator[Line]:
    """Read `text` into lines, each of which fits a message of its own, with what must close and open it."""
    return _Scanner(text, limit).scan()


class _Scanner:
    """Reads one text, line by line. The state is that after the last line read."""

    def __init__(self, text: str, limit: TextLimit) -> None:
        self._text = text
        self._limit = limit
        # A marker is repeated if it leaves a quarter of the message, at least 4 units, to the text.
        self._least_room = max(4, limit.size // 4)
        self._offset = 0
        self._above: Line | None = None
        self._frame = NO_FRAME
        self._fence: _Fence | None = None
        self._fence_lines = 0
        self._glues_next = False

    def scan(self) -> Iterator[Line]:
        for match in LINE.finditer(self._text):
            start, end = match.span(1)
            following = match.end()
            while (end - start) * LONGEST_CODE_POINT > self._least_room and (cut := self._reach(start, end)) < end:
                yield self._read(start, cut, is_whole=False)
                start = cut
            yield self._read(start, end, is_whole=following > end)
            self._offset += following - end

    def _reach(self, start: int, end: int) -> int:
        """How far a message reaches that begins at `start`, in a line that ends at `end`."""
        unit = self._limit.unit
        room = self._room(start, end)
        # No code point is shorter than a unit, so a line of a million is not measured for each of its pieces.
        if end - start <= room and measure(self._text[start:end], unit) <= room:
            return end
        return cut_line(self._text, start, room, unit, at_spaces=self._fence is None)

    def _room(self, start: int, end: int) -> int:
        """How much of a line a message holds, beside the markers around it."""
        size = self._limit.size
        if self._fence:
            return size - self._frame.opener_size - self._frame.closer_size
        found = _FENCE.match(self._text, start, min(end, start + size))
        return size - self._mark_out(found[1], found[2], "").closer_size if found else size

    def _read(self, start: int, end: int, *, is_whole: bool) -> Line:
        text = self._text[start:end]
        is_glued, self._glues_next = self._glues_next, False
        # What is empty or begins with a letter is no part of a fence or table, but may be the end of one.
        if self._frame.header or (text and not text[0].isalpha()):
            is_glued |= self._advance(text)
        size = measure(text, self._limit.unit)
        is_blank = not text or text.isspace()
        self._above = Line(start, end, self._offset, size, self._frame, is_blank, is_whole, is_glued)
        self._offset += size
        self._fence_lines += 1
        return self._above

    def _advance(self, text: str) -> bool:
        """Move the state past a line. Say whether it ends what the lines before began."""
        if found := _FENCE.match(text):
            margin, mark = found.groups()
            info = text[found.end() :]
            if self._fence and self._fence.is_closed_by(margin, mark, info):
                self._fence, self._frame = None, NO_FRAME
                return True
            if self._fence is None and (mark[0] == "~" or "`" not in info):
                self._frame = self._mark_out(margin, mark, info)
                self._fence = _Fence(margin, mark, info, self._frame)
                self._fence_lines = 0
                self._glues_next = True
                return False
        return self._follow_table(text)

    def _mark_out(self, margin: str, mark: str, info: str) -> Frame:
        """The frame of a fence: opened again by its own line; bare, if that is too long; or not at all."""
        margin = continue_margin(margin)
        closer = f"\n{margin}{mark}"
        closer_size = measure(closer, self._limit.unit)
        for opener in (f"{margin}{mark}{info}\n", f"{margin}{mark}\n"):
            opener_size = measure(opener, self._limit.unit)
            if self._leaves_room(opener_size + closer_size):
                return Frame(opener, "", closer, opener_size, 0, closer_size)
        return NO_FRAME

    def _follow_table(self, text: str) -> bool:
        """Note where a table begins and ends. Say whether the line is a delimiter row."""
        if self._frame.header:
            if "|" not in text:
                self._frame = self._fence.frame if self._fence else NO_FRAME
            return False
        above = self._above
        if not above or not self._heads_table(above, text):
            return False
        header = self._text[above.start : above.end] + f"\n{text}\n"
        header_size = measure(header, self._limit.unit)
        if self._leaves_room(header_size + self._frame.opener_size + self._frame.closer_size):
            self._frame = replace(self._frame, header=header, header_size=header_size)
        self._glues_next = True
        return True

    def _heads_table(self, above: Line, text: str) -> bool:
        """Say whether `text` is a delimiter row, and the line above it the header of a table.

        In a fence a table counts only at its head, and if there is no info string, which is how `tables.py`
        writes tables.
        """
        if not _DELIMITER_ROW.fullmatch(text):
            return False
        if self._fence and (self._fence.info or self._fence_lines != 2):
            return False
        header = self._text[above.start : above.end]
        return above.is_whole and "|" in header and _count_cells(header) == _count_cells(text)

    def _leaves_room(self, size: int) -> bool:
        return self._limit.size - size >= self._least_room


def _count_cells(row: str) -> int:
    row = row.strip(" \t>")
    bars = [bar.start() for bar in _BAR.finditer(row)]
    return len(bars) + 1 - row.startswith("|") - (bool(bars) and bars[-1] == len(row) - 1)
