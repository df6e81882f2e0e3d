"""Which bracket closes which: the pass before a value is read, so that no reader recurses too deep or reads in vain.

A pass begins outside any string, at a bracket. What it learns about a bracket holds for every later pass that comes to
it, because a pass comes to it outside a string too. So all passes together are linear in the length of the text,
though each start is looked at on its own.
"""

from __future__ import annotations

import re

from openab_kernel.delivery.envelope.bounds import MAX_NESTING, Budget

_CLOSERS = {"{": "}", "[": "]"}

# All up to the next bracket outside a string, or up to a string that has no end.
_GAP = re.compile(r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)


class Brackets:
    """The brackets of one text."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._text = text
        self._budget = budget
        # Of an opening bracket: the index after the one that closes it, and the nesting; None: no value begins there.
        self._ends: dict[int, tuple[int, int] | None] = {}
        self._gaps: dict[int, int] = {}

    def end_of(self, start: int) -> int | None:
        """The index after the bracket that closes the one at `start`.

        None if there is none, if the brackets in between do not match, or if they nest deeper than 64.

        Raises:
            Exhausted: too many brackets were looked at.
        """
        if start not in self._ends:
            self._match(start)
        found = self._ends[start]
        return found[0] if found else None

    def refuse(self, start: int, fault: int) -> None:
        """Note that the value at `start`, whose brackets match, is none because of what stands at `fault`.

        The same holds for the values inside it that `fault` stands in.
        """
        at = start
        while True:
            self._ends[at] = None
            at = self._skip(at + 1)
            while at < fault and (found := self._ends.get(at)) and found[0] <= fault:
                at = self._skip(found[0])
            if at >= fault or self._text[at] not in _CLOSERS:
                return

    def _match(self, start: int) -> None:
        opened = [start]
        nesting = [1]
        at = start + 1
        while opened:
            self._budget.spend_bracket()
            at = self._skip(at)
            char = self._text[at : at + 1]
            if char in _CLOSERS:
                deeper = 1
                if at in self._ends:
                    found = self._ends[at]
                    if found is None:
                        break
                    after, deeper = found
                if len(opened) + deeper > MAX_NESTING:
                    self._ends[start] = None
                    return
                if at in self._ends:
                    nesting[-1] = max(nesting[-1], deeper + 1)
                    at = after
                    continue
                opened.append(at)
                nesting.append(1)
            elif char and char == _CLOSERS[self._text[opened[-1]]]:
                depth = nesting.pop()
                self._ends[opened.pop()] = (at + 1, depth)
                if nesting:
                    nesting[-1] = max(nesting[-1], depth + 1)
            else:
                break
            at += 1
        for left_open in opened:
            self._ends[left_open] = None

    def _skip(self, at: int) -> int:
        if at not in self._gaps:
            gap = _GAP.match(self._text, at)
            self._gaps[at] = gap.end() if gap else at
        return self._gaps[at]
