"""Characters: which of them show, how long they are to a platform, and where a line of them may be cut."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache
from typing import Any

from openab_kernel.facts.outbound import LengthUnit

# The line ends of Markdown; `str.splitlines` knows more. Group 1 is the line without its end.
LINE = re.compile(r"(?!\Z)([^\r\n]*)(?:\r\n?|\n)?")

# In the unit that counts most: bytes.
LONGEST_CODE_POINT = 4

_HALF = re.compile("[\ud800-\udfff]")
_UNSEEN = {"Cc", "Cf"}


def is_unseen(char: str) -> bool:
    """White space, or of Unicode category Cc or Cf."""
    return char.isspace() or unicodedata.category(char) in _UNSEEN


def is_blank(text: str) -> bool:
    """Say whether nothing of `text` shows (delivery.md 2.1.1)."""
    return all(map(is_unseen, text.strip()))


def trim(text: str) -> str:
    """The text as it is delivered: no blank lines at the start, no white space at the end.

    Leading spaces of the first line stay, for indented code.
    """
    start = 0
    for line in LINE.finditer(text):
        if not is_blank(line.group()):
            break
        start = line.end()
    return text[start:].rstrip()


def join_halves(text: str) -> str:
    """Join surrogate halves that meet; a lone one becomes U+FFFD."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def measure(text: str, unit: LengthUnit) -> int:
    """How long a platform that counts in `unit` takes `text` to be. Lone surrogates count, and do no harm."""
    if unit == "code_points" or text.isascii():
        return len(text)
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def fit(text: str, start: int, room: int, unit: LengthUnit) -> int:
    """The last index up to which `text`, from `start` on, measures at most `room`."""
    longest = min(room, len(text) - start)
    if unit == "code_points":
        return start + longest
    sizes = range(longest + 1)
    return start + bisect_right(sizes, room, key=lambda n: measure(text[start : start + n], unit)) - 1


def cut_line(text: str, start: int, room: int, unit: LengthUnit, *, at_spaces: bool) -> int:
    """The index where a line that begins at `start` and is longer than `room` is cut.

    With `at_spaces` that is after the last white space, if there is some; else at the last grapheme boundary;
    between code points only if one grapheme alone is longer than `room`. No cut at white space lies before
    what could open a fence at the head of the next message. `room` is at least 4 units: any code point fits.
    """
    end = fit(text, start, room, unit)
    # Up to 3 characters after the end decide whether it is a good one. More of the text is not shown to `regex`, which
    # looks back as far as it can.
    window = text[start : end + 3]
    space, grapheme = _patterns()
    if at_spaces and (length := _last_end(space, window, end - start)):
        return start + length
    if window.isascii():
        return end
    return start + (_last_end(grapheme, window, end - start) or end - start)


def _last_end(pattern: Any, window: str, most: int) -> int:
    """Where the last match ends that ends by `most`; 0 if there is none."""
    ends = [match.end() for match in pattern.finditer(window)]
    return max((end for end in ends if end <= most), default=0)


@cache
def _patterns() -> tuple[Any, Any]:
    """White space that a line may be cut after, and one grapheme. `regex` is loaded only when needed."""
    import regex  # type: ignore[import-untyped]  # it ships no types

    no_break = r"\xa0\u2007\u202f"
    joined = r"\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}"
    return regex.compile(rf"[^\S{no_break}](?=[^\s{joined}])(?!```|~~~)"), regex.compile(r"\X")
