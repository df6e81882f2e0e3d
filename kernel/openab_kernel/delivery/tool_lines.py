"""What a person may read of an agent's tool calls: title and state, never more (delivery.md 7.4)."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Literal

from openab_kernel.delivery.characters import is_unseen, join_halves

ToolDisplay = Literal["full", "compact", "none"]

MAX_TITLE_CHARS = 80

# Calls of one turn that are told of. More would fill a chat, and memory.
MAX_CALLS = 1000

_MAX_GROUPS_WHILE_STREAMING = 3
_DONE, _FAILED, _RUNNING = "✅", "❌", "🔧"
_MARKS = {"completed": _DONE, "failed": _FAILED}


class ToolRuns:
    """The tool calls of one turn, in the order of their announcement. Owned by the loop of the turn."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}

    def see(self, tool_call_id: str, title: str | None, status: str | None) -> None:
        """Take in an announcement or an update; None leaves the title or the status as it was."""
        known = self._calls.get(tool_call_id)
        if known is None and len(self._calls) >= MAX_CALLS:
            return
        mark, shown = known or (_RUNNING, "tool")
        if status is not None:
            mark = _MARKS.get(status, _RUNNING)
        self._calls[tool_call_id] = (mark, (title and _one_line(title)) or shown)

    def render(self, display: ToolDisplay, *, streaming: bool = False) -> str | None:
        """The lines to show, None if there is nothing to show.

        `full`: a line for each run of equal title and state. `compact`: one line of counts, a state without
        calls left out. While `streaming`, more than 3 lines become counts too.
        """
        if display == "none" or not self._calls:
            return None
        runs = [(call, len(list(group))) for call, group in groupby(self._calls.values())]
        if display == "compact" or (streaming and len(runs) > _MAX_GROUPS_WHILE_STREAMING):
            counts = Counter(mark for mark, _ in self._calls.values())
            return " · ".join(f"{mark} {counts[mark]}" for mark in (_DONE, _FAILED, _RUNNING) if counts[mark])
        return "\n".join(f"{mark} {title}{_times(count)}" for (mark, title), count in runs)


def _times(count: int) -> str:
    return f" (\N{MULTIPLICATION SIGN}{count})" if count > 1 else ""


def _one_line(title: str) -> str:
    """At most 80 characters on one line, without those that do not show. May be empty."""
    words = " ".join(title[: 10 * MAX_TITLE_CHARS].split())
    shown = "".join(char for char in join_halves(words) if char == " " or not is_unseen(char)).strip()
    return shown if len(shown) <= MAX_TITLE_CHARS else shown[: MAX_TITLE_CHARS - 1] + "…"
