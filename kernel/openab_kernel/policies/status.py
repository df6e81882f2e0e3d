"""Which mark a message bears while it is worked on (delivery.md 7.4). Times are ms of a clock that never goes back.

```text
queued ──begin──► thinking, coding, web, tool ──end──► done, error ──held──► none, if marks are removed
                      │ no update   ▲ any update
                      ▼             │
                  stalled ──────► stuck
```

A turn changes its mark once the sign for it has stood for the debounce time; a stall and an end change it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from openab_kernel.facts.agent_update import AgentUpdate, TextChunk, Thought, ToolActivity

Sign = Literal["thinking", "coding", "web", "tool"]
FinalMark = Literal["queued", "done", "error"]
Mark = Sign | FinalMark | Literal["stalled", "stuck"]

# The kinds of tools that ACP names and we tell apart; any other (`other`, `switch_mode`) is just a tool. `search` says
# no place: some agents mean files by it, most the web.
SIGN_OF_TOOL_KIND: Mapping[str, Sign] = {
    "read": "coding",
    "edit": "coding",
    "delete": "coding",
    "move": "coding",
    "execute": "coding",
    "search": "web",
    "fetch": "web",
    "think": "thinking",
}


def sign_of(update: AgentUpdate) -> Sign | None:
    """What an update says the agent is doing now. None: it goes on with what it did.

    A tool that has ended leaves the agent thinking. Later updates of a tool mostly leave its kind out.
    """
    match update:
        case TextChunk():
            return None
        case Thought():
            return "thinking"
        case ToolActivity(status="completed" | "failed"):
            return "thinking"
        case ToolActivity(tool_kind=None, is_new=False):
            return None
        case ToolActivity(tool_kind=kind):
            return SIGN_OF_TOOL_KIND.get(kind or "", "tool")
        case _:
            return None


@dataclass(frozen=True, slots=True)
class StatusTiming:
    """How long a sign must stand, how long a silence is a stall, how long a final mark stays; not listed: for good."""

    debounce_ms: int
    stall_soft_ms: int
    stall_hard_ms: int
    hold_ms: Mapping[FinalMark, int]


class Look(NamedTuple):
    """The mark at one moment. `until_ms`: when time alone may change it; None: never."""

    mark: Mark | None
    until_ms: int | None


class StatusCourse:
    """The mark of one message, from its arrival to the end of its turn."""

    def __init__(self, timing: StatusTiming) -> None:
        self._timing = timing
        self._stall_after_ms = min(timing.stall_soft_ms, timing.stall_hard_ms)
        self._mark: Mark = "queued"
        self._before: Mark | None = None
        self._changed_ms = 0
        self._heard_ms: int | None = None
        self._remove_ms: int | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def begin(self, now_ms: int) -> None:
        """A turn takes the message; the agent thinks."""
        self._change("thinking", now_ms)
        self._heard_ms, self._remove_ms, self._is_ended = now_ms, None, False

    def hear(self, sign: Sign | None, now_ms: int) -> bool:
        """The agent gave a sign of life, and maybe one of what it does. True: look again. Ignored outside a turn."""
        if self._heard_ms is None:
            return False
        is_news = (sign is not None and sign != self._mark) or now_ms - self._heard_ms >= self._stall_after_ms
        if is_news:
            self._change(sign or self._mark, now_ms)
        self._heard_ms = now_ms
        return is_news

    def end(self, mark: FinalMark, now_ms: int) -> None:
        """The turn is over. `queued`: the message only went along in it."""
        hold_ms = self._timing.hold_ms.get(mark)
        self._mark, self._heard_ms, self._is_ended = mark, None, True
        self._remove_ms = None if hold_ms is None else now_ms + hold_ms

    def look(self, now_ms: int) -> Look:
        """The mark that the message should bear now."""
        if self._heard_ms is None:
            is_over = self._remove_ms is not None and now_ms >= self._remove_ms
            return Look(None, None) if is_over else Look(self._mark, self._remove_ms)
        stall_ms = self._heard_ms + self._stall_after_ms
        stuck_ms = self._heard_ms + self._timing.stall_hard_ms
        settles_ms = self._changed_ms + self._timing.debounce_ms
        if now_ms >= stuck_ms:
            return Look("stuck", None)
        if now_ms >= stall_ms:
            return Look("stalled", stuck_ms)
        if now_ms >= settles_ms:
            return Look(self._mark, stall_ms)
        return Look(self._before, min(settles_ms, stall_ms))

    def _change(self, mark: Mark, now_ms: int) -> None:
        self._before = self.look(now_ms).mark
        self._mark, self._changed_ms = mark, now_ms
