"""Reads JSON as the standard library does, but notes repeated keys, and knows what it should have refused."""

from __future__ import annotations

import json
import re
from typing import Any

from openab_kernel.delivery.envelope.bounds import MAX_DIGITS, Budget
from openab_kernel.delivery.envelope.brackets import Brackets
from openab_kernel.delivery.envelope.values import Flaw, Members, Reading

_CONTROL = re.compile(r"[\x00-\x1f]")
_UNREPAIRED_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_LONG_NUMBER = re.compile(rf"[-+.eE0-9]{{{MAX_DIGITS + 1}}}")
_DIGIT = re.compile("[0-9]")


class StrictReader:
    """Reads values from one text."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._text = text
        self._brackets = Brackets(text, budget)
        self._is_refused = False
        self._lenient = self._make_decoder(strict=False)

    def read(self, start: int) -> Reading | None:
        """The object or array at `start`, raw control characters in its strings allowed; None if there is none.

        Raises:
            Exhausted: the budget has no more brackets.
        """
        end = self._brackets.end_of(start)
        if end is None:
            return None
        try:
            value, end = self._decoder(start, end).raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            self._brackets.refuse(start, error.pos)
            return None
        return Reading(value, end)

    def flaws(self, start: int, end: int) -> frozenset[Flaw]:
        """What is wrong with the value that was read from `start` to `end`: control characters and numbers.

        They count against everything in the value. Read once more, so asked only of values that hold an envelope.
        """
        found: set[Flaw] = set()
        self._is_refused = False
        self._decoder(start, end).raw_decode(self._text, start)
        if self._is_refused:
            found.add("other")
        if _CONTROL.search(self._text, start, end) and not self._is_json(start, end):
            found.add("other" if _UNREPAIRED_CONTROL.search(self._text, start, end) else "raw_control")
        return frozenset(found)

    def _is_json(self, start: int, end: int) -> bool:
        try:
            self._decoder(start, end, strict=True).raw_decode(self._text, start)
        except json.JSONDecodeError:
            return False
        return True

    def _decoder(self, start: int, end: int, *, strict: bool = False) -> json.JSONDecoder:
        """A decoder for the text from `start` to `end`. It looks at each number only if one there is too long."""
        if not strict and not _LONG_NUMBER.search(self._text, start, end):
            return self._lenient
        return self._make_decoder(strict=strict, parse_int=self._integer, parse_float=self._float)

    def _make_decoder(self, **hooks: Any) -> json.JSONDecoder:
        return json.JSONDecoder(object_pairs_hook=Members, parse_constant=self._refuse_constant, **hooks)

    def _refuse_constant(self, _name: str) -> None:
        self._is_refused = True

    def _integer(self, digits: str) -> int | None:
        return None if self._is_too_long(digits) else int(digits)

    def _float(self, digits: str) -> float | None:
        return None if self._is_too_long(digits) else float(digits)

    def _is_too_long(self, digits: str) -> bool:
        is_too_long = len(_DIGIT.findall(digits)) > MAX_DIGITS
        self._is_refused |= is_too_long
        return is_too_long
