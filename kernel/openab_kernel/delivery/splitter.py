"""Cuts a text into messages that a platform takes (delivery.md 7.2, outbound.md 8.3)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from openab_kernel.delivery.blocks import Line, scan
from openab_kernel.delivery.characters import is_blank, measure
from openab_kernel.facts.outbound import TextLimit

__all__ = ["MIN_LIMIT", "measure", "split"]

# The smallest message that is worth cutting for. A fence that does not fit with its markers is cut like any text.
MIN_LIMIT = 10

# How good a cut between two lines is. The last of the best is taken.
_ANY, _LINE_END, _BLANK_LINE_IN_FENCE, _BLANK_LINE = range(4)


def split(text: str, limit: TextLimit) -> list[str]:
    """Cut `text` into chunks that fit a platform message, in reading order.

    Text that fits stays whole. A cut falls on a blank line (outside of a fence, if there is one), else a line
    end. A line that is longer than a message is cut at white space outside of fences, else at a grapheme
    boundary, else anywhere. A code fence that is cut is closed and opened again with its own opener line; a
    table is cut between rows and its header repeated.

    Markers that would fill more than three quarters of a message, or leave less than 4 units to the text, are not
    repeated: of an opener line the info string is left out first, then the fence is cut like any text. An unclosed
    fence is closed if the text is cut and there is room.

    Args:
        text: Markdown, any length. Blank text gives no chunks.
        limit: The most a chunk may measure, counted in `limit.unit` (code points, UTF-16 code units or
            bytes: platforms differ). Added markers count too.

    Returns:
        Chunks of 1 to `limit.size` units, none blank. Without the added markers they give `text` back, but
        for the line end of a cut, for blank lines around it outside of fences, and for what would be a blank
        chunk.

    Raises:
        ValueError: `limit.size` is under 10: no platform has that.
    """
    if limit.size < MIN_LIMIT:
        raise ValueError(f"text limit: {limit.size} {limit.unit}; use {MIN_LIMIT} or more")
    if is_blank(text):
        return []
    if measure(text, limit.unit) <= limit.size:
        return [text]
    return list(_pack(text, scan(text, limit), limit.size))


def _pack(text: str, source: Iterator[Line], size: int) -> Iterator[str]:
    """Give the chunks. Of the lines only those are held that were read and are in no chunk yet."""
    above: Line | None = None
    lines: list[Line] = []
    while lines := lines or list(islice(source, 1)):
        cut = 1
        if not _is_no_part(lines[0]):
            head, head_size = _head(above, lines[0], size)
            cut = _find_cut(lines, source, size - head_size)
            above = lines[cut - 1]
            body = text[lines[0].start : _body_end(lines, cut)]
            if not is_blank(body):
                yield head + body + above.frame.closer
        del lines[:cut]


def _is_no_part(line: Line) -> bool:
    """No chunk begins or ends with a blank line outside of a fence."""
    return line.is_blank and not line.frame.closer


def _head(above: Line | None, line: Line, size: int) -> tuple[str, int]:
    """What a chunk that begins with `line` opens with, and its size.

    A table header is left out before what is no row of the table, or only a piece of one, and before a row
    that would not fit under it.
    """
    if above is None:
        return "", 0
    frame = above.frame
    full = frame.opener_size + frame.header_size
    if above.is_whole and frame is line.frame and full + line.size + frame.closer_size <= size:
        return frame.opener + frame.header, full
    return frame.opener, frame.opener_size


def _find_cut(lines: list[Line], source: Iterator[Line], room: int) -> int:
    """How many lines a chunk takes that begins with the first of `lines`.

    What follows `lines` is read from `source`. `room` is for the text of the chunk and its closer.
    """
    above = lines[0]
    room += above.offset
    best, cut = _ANY, 1
    for index, line in enumerate(_read_on(lines, source), start=1):
        grade = _grade(above, line)
        if grade >= best:
            best, cut = grade, index
        if line.offset + line.size + line.frame.closer_size > room or not above.is_whole:
            return cut
        above = line
    return len(lines)


def _read_on(lines: list[Line], source: Iterator[Line]) -> Iterator[Line]:
    """All lines after the first of `lines`; what is read from `source` is put there too."""
    yield from islice(lines, 1, None)
    for line in source:
        lines.append(line)
        yield line


def _grade(above: Line, line: Line) -> int:
    """How good a cut between these two lines is."""
    if line.is_glued:
        return _ANY
    if above.is_blank or line.is_blank:
        return _BLANK_LINE_IN_FENCE if above.frame.closer else _BLANK_LINE
    return _LINE_END


def _body_end(lines: list[Line], cut: int) -> int:
    """Where the text of a chunk of the first `cut` lines ends."""
    while _is_no_part(lines[cut - 1]):
        cut -= 1
    return lines[cut - 1].end
