"""Reads what is nearly JSON: other quotes, keys without any, comments, commas too many, constants of Python.

What it reads is never sent but for two flaws that `repair` knows. It is read to be recognised, and cut.
"""

from __future__ import annotations

import json
import re
from typing import Any

from openab_kernel.delivery.envelope.bounds import MAX_DIGITS, MAX_NESTING, Budget
from openab_kernel.delivery.envelope.marks import DOUBLE_QUOTES, GAP, QUOTES, SINGLE_QUOTES
from openab_kernel.delivery.envelope.values import NOTHING, Bare, Cut, Flaw, Members, Reading

_HTML_QUOTE = "&(?:quot|#34|#x22);"
_LONGEST_QUOTE = len("&quot;")
_CUT_QUOTE = re.compile(r"(?:\\|&(?:q(?:u(?:ot?)?)?|#(?:34?|x22?)?)?)\Z")

# What a quotation mark is closed by, and what may stand in between. A quoted mark inside a JSON string that stands in
# prose, and one that was escaped for HTML, are quotation marks too.
_STRINGS = [
    (re.compile(opening), re.compile(rf"((?:{inside})*+)({closing})?", re.DOTALL))
    for opening, inside, closing in [
        ('"', r'[^"\\]++|\\.', '"'),
        ("'", r"[^'\\]++|\\.", "'"),
        (f"[{DOUBLE_QUOTES}]", rf"[^{DOUBLE_QUOTES}\\]++|\\.", f"[{DOUBLE_QUOTES}]"),
        (f"[{SINGLE_QUOTES}]", rf"[^{SINGLE_QUOTES}\\]++|\\.", f"[{SINGLE_QUOTES}]"),
        (r'\\"', r'[^"\\]++|\\\\\\"|\\[^"]', r'\\"'),
        (_HTML_QUOTE, rf"[^&\\]++|\\(?:{_HTML_QUOTE}|.)|&(?!{_HTML_QUOTE[1:]})", _HTML_QUOTE),
    ]
]

_SPACE = re.compile(GAP)
_JSON_SPACE = " \t\r\n"
_BARE_KEY = re.compile(r"[^\W\d][\w$-]*+(?=[\s\ufeff]*+(:|\Z))")
_WORD = re.compile(rf"[^\s,:\[\]{{}}{QUOTES}]++")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\u[0-9a-fA-F]{0,3}\Z|\\(.)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_UNREPAIRED_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_DECODER = json.JSONDecoder(strict=False)

# The escapes of a string that is none of JSON are undone if it may be a key or a word that counts.
_LONGEST_WORD = 200


class _Broken(Exception):
    """What stands here is no value."""


class _TextEnded(Exception):
    """What has come so far may be the beginning of a value."""


def read_tolerantly(text: str, start: int, end: int, budget: Budget) -> Reading:
    """Read the object or array at `start`, as if the text ended at `end`.

    Raises:
        Exhausted: the budget has no more tokens.
    """
    return _Reader(text, start, end, budget).read()


class _Reader:
    """Reads one value. `_at` is the index of what comes next."""

    def __init__(self, text: str, start: int, end: int, budget: Budget) -> None:
        self._text = text
        self._at = start
        self._end = end
        self._budget = budget
        self._flaws: set[Flaw] = set()
        self._root: Members | list[Any] = []

    def read(self) -> Reading:
        value = self._root = self._open()
        try:
            self._fill(value, 1)
        except _Broken:
            return Reading(value, self._at, frozenset(self._flaws), "broken")
        except _TextEnded:
            return Reading(value, self._end, frozenset(self._flaws), "cut")
        return Reading(value, self._at, frozenset(self._flaws))

    def _open(self) -> Members | list[Any]:
        self._at += 1
        return Members() if self._text[self._at - 1] == "{" else []

    def _fill(self, holder: Members | list[Any], depth: int) -> None:
        """Read what stands in brackets, the closing one too. What was read before an exception stays in `holder`."""
        if depth > MAX_NESTING:
            raise _Broken
        closer = "}" if isinstance(holder, Members) else "]"
        is_first = True
        while self._peek() != closer:
            if not is_first:
                self._take(",")
                if self._peek() == closer:
                    self._flaws.add("trailing_comma")
                    break
            is_first = False
            self._read_one(holder, depth)
        self._take(closer)

    def _read_one(self, holder: Members | list[Any], depth: int) -> None:
        """Read one member or item."""
        if isinstance(holder, Members):
            key = self._key()
            holder.append((key, NOTHING))
            self._peek()
            self._take(":")
            value = self._value()
            holder[-1] = (key, value)
        else:
            value = self._value()
            holder.append(value)
        if isinstance(value, list):
            self._fill(value, depth + 1)

    def _key(self) -> str:
        self._peek()
        if (quoted := self._string()) is not None:
            return quoted
        word = _BARE_KEY.match(self._text, self._at, self._end)
        if not word:
            raise _Broken
        self._flaws.add("other")
        self._pass(word.end())
        if word[1]:
            return word.group()
        if not self._root:
            raise _Broken  # A lone word may be anything.
        return Cut(word.group())

    def _value(self) -> Any:
        """A value; of an object or array only the opening bracket."""
        if self._peek() in ("{", "["):
            self._pass(self._at)
            return self._open()
        if (quoted := self._string()) is not None:
            return quoted
        word = _WORD.match(self._text, self._at, self._end)
        if not word:
            raise _Broken
        self._pass(word.end())
        return self._mean(word.group())

    def _mean(self, word: str) -> Any:
        if word in ("true", "false", "null"):
            return _CONSTANTS[word]
        number = _NUMBER.fullmatch(word)
        if number and len(word) <= MAX_DIGITS:
            return float(word) if number[1] or number[2] else int(word)
        self._flaws.add("other")
        return _CONSTANTS.get(word, Bare(word))

    def _string(self) -> str | None:
        """The string that begins here, if one does."""
        for opening, body in _STRINGS:
            if mark := opening.match(self._text, self._at, self._end):
                found = body.match(self._text, mark.end(), self._end)
                break
        else:
            if _CUT_QUOTE.match(self._text, self._at, self._end):
                raise _TextEnded
            return None
        assert found  # nothing is a body too
        inside, closing = found.groups()
        self._pass(found.end())
        if closing is None:
            self._at = self._end
            return Cut(_undo_escapes(inside[:-_LONGEST_QUOTE] + _CUT_QUOTE.sub("", inside[-_LONGEST_QUOTE:])))
        return self._decode(inside, mark.group())

    def _decode(self, inside: str, mark: str) -> str:
        """What a string says; as it stands, but for its escapes, if it is none of JSON."""
        if mark != '"':
            self._flaws.add("other")
        try:
            decoded: str = _DECODER.raw_decode(f'"{inside}"')[0]
        except ValueError:
            self._flaws.add("other")
            return _undo_escapes(inside)
        if _CONTROL.search(inside):
            self._flaws.add("other" if _UNREPAIRED_CONTROL.search(inside) else "raw_control")
        return decoded

    def _peek(self) -> str:
        """The next character that is neither white space nor in a comment."""
        while True:
            space = _SPACE.match(self._text, self._at, self._end)
            assert space  # nothing is space too
            if space.group().strip(_JSON_SPACE):
                self._flaws.add("other")
            self._at = space.end()
            if not self._skip_comment():
                break
        if self._at >= self._end:
            raise _TextEnded
        return self._text[self._at]

    def _skip_comment(self) -> bool:
        if not self._text.startswith(("//", "/*"), self._at, self._end):
            return False
        self._flaws.add("other")
        closing = "\n" if self._text[self._at + 1] == "/" else "*/"
        found = self._text.find(closing, self._at + 2, self._end)
        self._pass(self._end if found < 0 else found + len(closing))
        return True

    def _take(self, mark: str) -> None:
        if self._text[self._at] != mark:
            raise _Broken
        self._pass(self._at + 1)

    def _pass(self, at: int) -> None:
        """Go on at `at`: one token is done."""
        self._budget.spend_token(at - self._at)
        self._at = at


def _undo_escapes(inside: str) -> str:
    """A short string without its escapes; one that the end of the text cut off is left out."""
    if len(inside) > _LONGEST_WORD:
        return inside
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2] or "", inside)
